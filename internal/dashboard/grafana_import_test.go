package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The keys of the objects of a dashboard, as Grafana's documentation of the JSON model and the schema of its kinds
// (dashboard, version 0) name them. What an import does not know is lost without a word.
var grafanaKeys = map[string][]string{
	"dashboard":   {"id", "uid", "title", "description", "revision", "gnetId", "tags", "timezone", "editable", "graphTooltip", "time", "timepicker", "fiscalYearStartMonth", "liveNow", "weekStart", "refresh", "schemaVersion", "version", "panels", "templating", "annotations", "links", "snapshot"},
	"panel":       {"type", "id", "pluginVersion", "targets", "title", "description", "transparent", "datasource", "gridPos", "links", "repeat", "repeatDirection", "maxPerRow", "maxDataPoints", "transformations", "interval", "timeFrom", "timeShift", "hideTimeOverride", "timeCompare", "libraryPanel", "cacheTimeout", "queryCachingTTL", "options", "fieldConfig"},
	"row":         {"type", "collapsed", "title", "datasource", "gridPos", "id", "panels", "repeat"},
	"gridPos":     {"h", "w", "x", "y", "static"},
	"datasource":  {"type", "uid"},
	"fieldConfig": {"defaults", "overrides"},
	"defaults": {"displayName", "displayNameFromDS", "description", "path", "writeable", "filterable", "unit", "decimals", "min", "max", "mappings", "thresholds", "color", "links", "noValue", "custom",
		"fieldMinMax", "actions"},
	"options":                       {"calculate", "calculation", "color", "filterValues", "rowsFrame", "showValue", "cellGap", "cellRadius", "cellValues", "yAxis", "exemplars", "legend", "tooltip", "selectionMode"},
	"yAxis":                         {"axisPlacement", "axisLabel", "axisWidth", "axisGridShow", "axisCenteredZero", "unit", "decimals", "min", "max", "reverse", "scaleDistribution", "axisSoftMin", "axisSoftMax"},
	"color":                         {"mode", "scheme", "fill", "scale", "exponent", "steps", "reverse", "min", "max"},
	"custom":                        {"drawStyle", "showPoints", "spanNulls", "lineWidth", "fillOpacity"},
	"variable":                      {"type", "name", "label", "skipUrlSync", "description", "query", "current", "multi", "allowCustomValue", "options", "refresh", "sort", "includeAll", "allValue", "regex", "hide", "definition"},
	"prometheus":                    {"expr", "instant", "range", "exemplar", "editorMode", "format", "legendFormat", "intervalFactor", "refId", "hide", "queryType", "datasource", "interval"},
	"grafana-postgresql-datasource": {"refId", "rawSql", "datasource", "editorMode", "rawQuery", "format", "dataset", "table", "sql", "hide"},
	"grafana-clickhouse-datasource": {"refId", "rawSql", "datasource", "editorType", "queryType", "format", "meta", "builderOptions", "pluginVersion", "hide"},
}

var grafanaPanels = []string{"row", "timeseries", "stat", "table", "heatmap"}

// TestGrafanaIsImportable holds the dashboard against what Grafana documents.
func TestGrafanaIsImportable(t *testing.T) {
	text, err := Grafana("Flights", []Exported{exported("postgres", `"`), exported("clickhouse", "`")})
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	known := func(what string, x any) map[string]any {
		t.Helper()
		o, ok := x.(map[string]any)
		if !ok {
			t.Fatalf("%s is %v", what, x)
		}
		for k := range o {
			if !slices.Contains(grafanaKeys[what], k) {
				t.Errorf("a %s has no key %q", what, k)
			}
		}
		return o
	}
	known("dashboard", d)
	if d["title"] != "Flights" || d["schemaVersion"].(float64) < 36 {
		t.Errorf("title %v, version %v", d["title"], d["schemaVersion"])
	}
	sources := map[string]string{} // by variable, its type
	for _, x := range d["templating"].(map[string]any)["list"].([]any) {
		v := known("variable", x)
		if v["type"] != "datasource" {
			t.Errorf("a variable of type %v", v["type"])
		}
		sources["${"+v["name"].(string)+"}"] = v["query"].(string)
	}
	// A source is one of the variables, and of their type.
	source := func(x any) string {
		t.Helper()
		s := known("datasource", x)
		if of, ok := sources[s["uid"].(string)]; !ok || of != s["type"] {
			t.Errorf("source %v is none of %v", s, sources)
		}
		return s["type"].(string)
	}
	ids, taken := map[float64]bool{}, map[[2]int]string{}
	for _, x := range d["panels"].([]any) {
		kind := x.(map[string]any)["type"].(string)
		what := "panel"
		if kind == "row" {
			what = kind
		}
		p := known(what, x)
		name := fmt.Sprint(p["title"])
		if id := p["id"].(float64); !slices.Contains(grafanaPanels, kind) || id < 1 || ids[id] {
			t.Errorf("%s: type %s, id %v", name, kind, id)
		} else {
			ids[id] = true
		}
		at := known("gridPos", p["gridPos"])
		n := func(k string) int { return int(at[k].(float64)) }
		if n("x") < 0 || n("w") < 1 || n("h") < 1 || n("y") < 0 || n("x")+n("w") > 24 {
			t.Errorf("%s lies at %v", name, at)
		}
		for c := n("x"); c < n("x")+n("w"); c++ {
			for r := n("y"); r < n("y")+n("h"); r++ {
				if other := taken[[2]int{c, r}]; other != "" {
					t.Fatalf("%s lies on %s", name, other)
				}
				taken[[2]int{c, r}] = name
			}
		}
		if kind == "row" {
			continue
		}
		of := source(p["datasource"])
		for _, x := range p["targets"].([]any) {
			q := known(of, x)
			if source(q["datasource"]) != of || q["refId"] == "" || q["rawSql"] == "" || q["expr"] == "" {
				t.Errorf("%s asks %v", name, q)
			}
		}
		if kind == "heatmap" {
			o := known("options", p["options"])
			known("yAxis", o["yAxis"])
			known("color", o["color"])
		}
		if f, ok := p["fieldConfig"]; ok {
			if custom, ok := known("defaults", known("fieldConfig", f)["defaults"])["custom"]; ok {
				known("custom", custom)
			}
		}
	}
	if len(ids) < 20 {
		t.Errorf("only %d panels", len(ids))
	}
}

// firing are, by alert, series that it fires for after some minutes.
var firing = map[string][][2]string{
	"TidemarkJobDown":            {{`tidemark_job_running{job_name="j"}`, "0x60"}},
	"TidemarkCheckpointsStopped": {{`tidemark_checkpoint_age_seconds{job_name="j"}`, "0+60x60"}},
	"TidemarkResultLate":         {{`tidemark_result_lag_seconds{table="t"}`, "100x60"}},
	"TidemarkSplitIdle":          {{`tidemark_result_splits_idle{table="t"}`, "1x60"}},
	"TidemarkIncomplete":         {{`tidemark_result_seen{table="t"}`, "411x60"}, {`tidemark_result_expected{table="t"}`, "412x60"}},
	"TidemarkRowsLate":           {{`tidemark_result_late_rows{table="t"}`, "0+1x60"}},
	"TidemarkRowsRejected":       {{`tidemark_result_rejected_rows{table="t"}`, "0+1x60"}},
	"TidemarkConflicts":          {{`tidemark_result_conflicts{table="t"}`, "1x60"}},
	"TidemarkTargetParts":        {{`tidemark_result_target_parts_in_partition{table="t"}`, "301x60"}},
	"TidemarkTargetMutations":    {{`tidemark_result_target_mutations_failing{table="t"}`, "1x60"}},
	"TidemarkTargetUnreachable":  {{`tidemark_result_target_unreachable{table="t"}`, "1x60"}},
}

// TestAlertsFire has Prometheus' own tool read the rules, and see each of them fire and stay quiet.
func TestAlertsFire(t *testing.T) {
	for _, a := range alerts {
		if len(firing[a.name]) == 0 {
			t.Errorf("nobody knows when %s fires", a.name)
		}
	}
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED: alert rules as Prometheus reads them; promtool is not installed (Debian: prometheus)")
	}
	text, err := Alerts(90)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var tests strings.Builder
	tests.WriteString("rule_files: [alerts.yaml]\nevaluation_interval: 1m\ntests:\n")
	for _, a := range alerts {
		quiet := strings.NewReplacer("0x60", "1x60", "1x60", "0x60", "0+1x60", "5x60", "0+60x60", "20x60", "411x60", "412x60", "301x60", "100x60", "100x60", "80x60")
		for _, fires := range []bool{true, false} {
			tests.WriteString("- interval: 1m\n  input_series:\n")
			for _, s := range firing[a.name] {
				values := s[1]
				if !fires {
					values = quiet.Replace(values)
				}
				fmt.Fprintf(&tests, "  - {series: '%s', values: '%s'}\n", s[0], values)
			}
			n := 0
			if fires {
				n = 1
			}
			fmt.Fprintf(&tests, "  promql_expr_test:\n  - {expr: 'count(ALERTS{alertname=\"%s\",alertstate=\"firing\"}) or vector(0)', eval_time: 40m, exp_samples: [{labels: '{}', value: %d}]}\n", a.name, n)
		}
	}
	for name, text := range map[string]string{"alerts.yaml": string(text), "tests.yaml": tests.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml"}, {"test", "rules", "tests.yaml"}} {
		c := exec.Command(tool, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
