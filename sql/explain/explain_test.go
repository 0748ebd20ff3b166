package explain

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

func TestDuration(t *testing.T) {
	for ms, want := range map[int64]string{0: "0 ms", 1500: "1 s 500 ms", 3600000: "1 h", 90000: "1 min 30 s",
		86400001: "1 d 1 ms", -5000: "-5 s"} {
		if got := duration(ms); got != want {
			t.Errorf("duration(%d) = %q, want %q", ms, got, want)
		}
	}
}

// TestWrap checks that no line is too long while there is a space to break at, that nothing is
// lost, and that quoted text stays whole.
func TestWrap(t *testing.T) {
	quoted := "'a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z'"
	text := strings.Repeat("word, ", 60) + quoted + strings.Repeat(" tail", 30)
	var b strings.Builder
	wrap(&b, "+- ", "   ", text)
	if got := strings.Join(strings.Fields(b.String()), " "); got != "+- "+strings.Join(strings.Fields(text), " ") {
		t.Errorf("text changed:\n%s", b.String())
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if len(line) > width && !strings.Contains(line, quoted) {
			t.Errorf("line of %d columns: %s", len(line), line)
		}
	}
	if !strings.Contains(b.String(), quoted) {
		t.Error("quoted text was broken")
	}
}

func testPlan() *plan.Plan {
	src := &connector.Table{Name: "t", Connector: "kafka", Options: map[string]string{"connector": "kafka"},
		Columns: []types.Field{{Name: "ts", Type: types.TimestampType(3)}}}
	s := types.NewSchema(types.Field{Name: "ts", Type: types.TimestampType(3)})
	return &plan.Plan{Config: map[string]string{}, Nodes: []*plan.Node{
		{ID: 0, Schema: s, Mode: types.InsertOnly, RowTime: 0, NeedStamps: true, Label: "Source(t)", Op: &plan.Source{
			Table: src, Columns: []int{0}, Project: []expr.Expr{&expr.Column{Name: "ts", T: s.Fields[0].Type}}, Limit: -1,
			Watermark: &expr.Column{Name: "ts", T: s.Fields[0].Type}}},
		{ID: 1, Schema: s, Mode: types.InsertOnly, RowTime: -1, Label: "Result", Op: &plan.Sink{Collect: true},
			Inputs: []plan.Edge{{From: 0, Dist: plan.Hash, Keys: []int{0}}}},
	}}
}

func TestJSON(t *testing.T) {
	var got struct {
		Nodes []struct {
			ID           int
			Type         string
			Predecessors []struct {
				ID           int
				ShipStrategy string `json:"ship_strategy"`
				Keys         []string
			}
		}
	}
	if err := json.Unmarshal([]byte(JSON(testPlan())), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != 2 || got.Nodes[0].Type != "Source(t)" || len(got.Nodes[1].Predecessors) != 1 {
		t.Fatalf("got %+v", got)
	}
	if e := got.Nodes[1].Predecessors[0]; e.ShipStrategy != "HASH" || len(e.Keys) != 1 || e.Keys[0] != "ts" {
		t.Errorf("edge %+v", e)
	}
}

func TestCheck(t *testing.T) {
	const text = "SELECT APPROX FROM TUMBLE(TABLE t) , TABLE(HOP(TABLE t))"
	at := func(s string) expr.Pos {
		i := strings.Index(text, s)
		return expr.Pos{Start: i, End: i + len(s)}
	}
	tab := &catalog.Table{Path: []string{"c", "d", "t"}, RowTime: -1, Options: map[string]string{"connector": "kafka",
		"dead-letter.path": "it's"}, Columns: []catalog.Column{{Name: "ts", Type: types.TimestampType(3)}}}
	scan := &logical.Scan{Table: tab, Pos: at("t)")}
	short := &logical.WindowTVF{Input: scan, Pos: at("TUMBLE(TABLE t)")}
	long := &logical.WindowTVF{Input: scan, Window: plan.Window{Kind: plan.Hop}, Pos: at("HOP(TABLE t)")}
	agg := &logical.Aggregate{Input: &logical.Union{All: []logical.Node{short, long}}, Pos: at("APPROX"),
		Aggs: []plan.AggCall{{Fn: "APPROX_COUNT_DISTINCT", T: types.BigIntType, Filter: -1}}}
	p := testPlan()
	p.Text = text
	found, err := Check([]*logical.Sink{{Input: agg}}, p, "flink-1.20")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range found {
		lines = append(lines, f.String())
	}
	got := strings.Join(lines, "\n")
	for _, want := range []string{"APPROX_COUNT_DISTINCT", "TUMBLE outside of TABLE( )", "portable: TABLE(TUMBLE(TABLE t))",
		"SET 'tidemark.table.t.dead-letter.path' = 'it''s'", "idle partitions of `t`", "watermark of `t`"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "HOP") {
		t.Errorf("HOP stands in TABLE( ):\n%s", got)
	}
	if _, err := Check(nil, p, "flink-9"); err == nil {
		t.Error("an unknown target was accepted")
	}
}
