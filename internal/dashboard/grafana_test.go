package dashboard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tidemark-stream/tidemark/connector/results"
)

// exported is testTable in a target, with what its store says of the names.
func exported(target, quote string) Exported {
	t := testTable()
	t.Connector = target
	q := func(s string) string { return quote + s + quote }
	return Exported{t, []results.Statement{
		{Name: "board", SQL: "CREATE TABLE IF NOT EXISTS " + q("a b") + "." + q("board") + " (\n\tx Int64\n)"},
		{Name: "board_progress", SQL: "CREATE TABLE IF NOT EXISTS " + q("a b") + "." + q("board_progress") + " ON CLUSTER " + q("one") + " (\n\tgeneration String\n)"},
		{Name: "board_latest", SQL: "CREATE OR REPLACE VIEW " + q("a b") + "." + q("board_latest") + " AS\nSELECT x AS y FROM z"},
		{Name: "board_conflicts", SQL: "CREATE VIEW IF NOT EXISTS " + q("a b") + "." + q("board_conflicts") + " AS SELECT 1"},
	}}
}

func TestGrafana(t *testing.T) {
	text, err := Grafana("Flights", []Exported{exported("postgres", `"`), exported("clickhouse", "`")})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "grafana.json", string(text))
	x := exported("filesystem", `"`)
	if _, err := Grafana("x", []Exported{x}); err == nil || !strings.Contains(err.Error(), "ClickHouse and PostgreSQL") {
		t.Error(err)
	}
}

func TestAlerts(t *testing.T) {
	text, err := Alerts(90)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Groups) != 1 || len(doc.Groups[0].Rules) != len(alerts) {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, r := range doc.Groups[0].Rules {
		if r.Expr == "" || r.For == "" || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%+v", r)
		}
	}
	if !strings.Contains(string(text), "tidemark_result_lag_seconds > 90") {
		t.Errorf("the lag is not in\n%s", text)
	}
}

// TestMetricsAreThere looks for the names that panels and alerts read among those that jobs are served under.
func TestMetricsAreThere(t *testing.T) {
	var all strings.Builder
	for _, glob := range []string{"../metrics/*.go", "../../connector/results/*.go", "../../connector/clickhouse/results*.go"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(f, "_test.go") {
				all.Write(text)
			}
		}
	}
	names := MetricNames()
	if len(names) < 15 {
		t.Fatalf("only %v", names)
	}
	for _, n := range names {
		short, result := strings.CutPrefix(strings.TrimSuffix(n, "_bucket"), "tidemark_result_")
		if result {
			short = strings.TrimPrefix(short, "target_")
			if !strings.Contains(all.String(), `"`+short+`"`) && !strings.Contains(all.String(), `"target_`+short+`"`) {
				t.Errorf("nothing is called %s", n)
			}
		} else if !strings.Contains(all.String(), `"`+n+`"`) {
			t.Errorf("nothing is called %s", n)
		}
	}
}
