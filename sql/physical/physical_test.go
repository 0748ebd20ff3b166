package physical_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/explain"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/physical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

var update = flag.Bool("update", false, "rewrite the files of testdata")

// fake is a connector without bytes: its options say what it gives and takes.
func init() {
	mode := func(_ *connector.Table, o option.Values) types.ChangelogMode {
		switch o.Get("mode") {
		case "upsert":
			return types.Upsert
		case "retract":
			return types.Retract
		}
		return types.InsertOnly
	}
	connector.Register(&connector.Factory{
		Name: "fake", SourceMetadata: []types.Field{{Name: "offset", Type: types.BigIntType}},
		Options: []option.Spec{{Name: "mode"}, {Name: "bounded", Kind: option.Bool, Default: "true"}}, SourceChangelog: mode, SinkChangelog: mode,
		NewSource: func(c connector.SourceConfig) (connector.Source, error) {
			return fakeSource{bounded: c.Options.Get("bounded") != "false"}, nil
		},
		NewSink: func(connector.SinkConfig) (connector.Sink, error) { return nil, errors.New("never opened") },
	})
}

type fakeSource struct {
	connector.Source
	bounded bool
}

func (s fakeSource) Bounded() bool     { return s.bounded }
func (s fakeSource) Guarantee() string { return "read again from the start" }

var ts3 = types.TimestampType(3)

// table makes a table called name; its columns are given as name and type.
func table(name string, options map[string]string, cols ...catalog.Column) *catalog.Table {
	o := map[string]string{"connector": "fake"}
	for k, v := range options {
		o[k] = v
	}
	return &catalog.Table{Path: []string{"default_catalog", "default_database", name}, Columns: cols, RowTime: -1, Options: o}
}

func colOf(name string, t types.Type) catalog.Column { return catalog.Column{Name: name, Type: t} }

// flights has a watermark two seconds behind the computed column t, and columns nobody reads.
func flights(options map[string]string) *catalog.Table {
	rt := ts3
	rt.Attr = types.RowTime
	t := table("flights", options,
		colOf("origin", types.StringType), colOf("delay", types.IntType), colOf("unused", types.StringType),
		colOf("dep", types.StringType), colOf("distance", types.DoubleType))
	t.Columns = append(t.Columns,
		catalog.Column{Name: "t", Type: rt, Kind: catalog.Computed,
			Expr: &expr.Call{Fn: "TO_TIMESTAMP", Args: []expr.Expr{ref(3, "dep", types.StringType)}, T: ts3}},
		catalog.Column{Name: "offset", Type: types.BigIntType, Kind: catalog.Metadata, Key: "offset", Virtual: true})
	t.RowTime = 5
	t.Watermark = &expr.Call{Fn: "-", T: ts3, Args: []expr.Expr{ref(5, "t", rt),
		&expr.Literal{Value: int64(2000), T: types.Type{Kind: types.IntervalDayTime, Precision: 3}}}}
	return t
}

func ref(i int, name string, t types.Type) *expr.Column {
	return &expr.Column{Index: i, Name: name, T: t}
}

func refTo(n logical.Node, name string) *expr.Column {
	s := n.Schema()
	i := s.Index(name)
	if i < 0 {
		panic("no column " + name + " in " + s.String())
	}
	return ref(i, name, s.Fields[i].Type)
}

func call(fn string, t types.Type, args ...expr.Expr) expr.Expr {
	return &expr.Call{Fn: fn, Args: args, T: t}
}

func intLit(v int64) expr.Expr { return &expr.Literal{Value: v, T: types.IntType.NotNull()} }

// pick projects columns by name.
func pick(n logical.Node, names ...string) *logical.Project {
	p := &logical.Project{Input: n, Names: names}
	for _, c := range names {
		p.Exprs = append(p.Exprs, refTo(n, c))
	}
	return p
}

func keysOf(n logical.Node, names ...string) []int {
	var out []int
	for _, c := range names {
		out = append(out, refTo(n, c).Index)
	}
	return out
}

func count() plan.AggCall {
	return plan.AggCall{Fn: "COUNT", Filter: -1, T: types.BigIntType.NotNull(), Name: "n"}
}

func agg(n logical.Node, fn, col, name string) plan.AggCall {
	c := refTo(n, col)
	return plan.AggCall{Fn: fn, Args: []int{c.Index}, Consts: make([]*expr.Literal, 1), ArgTypes: []types.Type{c.T},
		Filter: -1, T: c.T.AsNullable(), Name: name}
}

func into(t *catalog.Table, n logical.Node) *logical.Sink {
	s := &logical.Sink{Input: n, Table: t, Pos: expr.Pos{Start: 12, End: 15}}
	for i := range n.Schema().Fields {
		s.Columns = append(s.Columns, i)
	}
	return s
}

// sinkFor makes a table that fits n.
func sinkFor(n logical.Node, options map[string]string, key ...string) *logical.Sink {
	t := table("out", options)
	for _, f := range n.Schema().Fields {
		t.Columns = append(t.Columns, colOf(f.Name, f.Type.AsNullable().WithoutAttr()))
	}
	t.PrimaryKey = key
	return into(t, n)
}

func tumble(n logical.Node, timeCol string) *logical.WindowTVF {
	return &logical.WindowTVF{Input: n, Window: plan.Window{Kind: plan.Tumble, Size: 3600000, TimeCol: refTo(n, timeCol).Index}}
}

func hourly(in logical.Node) *logical.Aggregate {
	w := tumble(in, "t")
	return &logical.Aggregate{Input: w, Keys: keysOf(w, "origin", "window_start", "window_end"),
		Aggs: []plan.AggCall{count(), agg(w, "AVG", "delay", "d")}}
}

func config(t *testing.T, set map[string]string) *catalog.Config {
	cfg := catalog.NewConfig()
	cfg.DefaultZone = time.UTC
	for k, v := range set {
		if err := cfg.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// cases are the plans that testdata holds, built by hand so that the planner is tested without
// the parser and the binder.
var cases = []struct {
	name  string
	set   map[string]string
	sinks func() []*logical.Sink
}{
	{"tumble", nil, func() []*logical.Sink {
		scan := &logical.Scan{Table: flights(nil)}
		f := &logical.Filter{Input: scan, Cond: call(">", types.BooleanType, refTo(scan, "delay"), intLit(5))}
		return []*logical.Sink{sinkFor(pick(hourly(f), "window_start", "origin", "n"), nil)}
	}},
	{"tumble_parallel", map[string]string{"parallelism.default": "4", "table.optimizer.agg-phase-strategy": "TWO_PHASE"}, func() []*logical.Sink {
		return []*logical.Sink{sinkFor(hourly(&logical.Scan{Table: flights(nil)}), nil)}
	}},
	{"group_upsert", map[string]string{"table.exec.state.ttl": "1 d"}, func() []*logical.Sink {
		scan := &logical.Scan{Table: flights(nil)}
		a := &logical.Aggregate{Input: scan, Keys: keysOf(scan, "origin"), Aggs: []plan.AggCall{count()}}
		return []*logical.Sink{sinkFor(a, map[string]string{"mode": "upsert"}, "origin")}
	}},
	{"group_over_group", nil, func() []*logical.Sink {
		scan := &logical.Scan{Table: flights(nil)}
		a := &logical.Aggregate{Input: scan, Keys: keysOf(scan, "origin"), Aggs: []plan.AggCall{count()}}
		b := &logical.Aggregate{Input: a, Keys: keysOf(a, "n"), Aggs: []plan.AggCall{{Fn: "COUNT", Filter: -1,
			T: types.BigIntType.NotNull(), Name: "airports"}}}
		return []*logical.Sink{sinkFor(b, map[string]string{"mode": "retract"})}
	}},
	{"statement_set", nil, func() []*logical.Sink {
		t := flights(nil)
		scan := &logical.Scan{Table: t}
		a := sinkFor(hourly(scan), nil)
		b := sinkFor(pick(&logical.Scan{Table: t}, "distance"), nil)
		b.Table.Path[2] = "other"
		return []*logical.Sink{a, b}
	}},
	{"grouping_sets", nil, func() []*logical.Sink {
		w := tumble(&logical.Scan{Table: flights(nil)}, "t")
		a := &logical.Aggregate{Input: w, Keys: keysOf(w, "origin", "dep", "window_start", "window_end"),
			Aggs: []plan.AggCall{agg(w, "COUNT", "dep", "n")},
			Sets: [][]int{{0, 1, 2, 3}, {0, 2, 3}, {2, 3}}, GroupingIDs: [][]int{{0, 1}}}
		return []*logical.Sink{sinkFor(a, nil)}
	}},
	{"cascade_attached", nil, func() []*logical.Sink {
		h := hourly(&logical.Scan{Table: flights(nil)})
		f := &logical.Filter{Input: h, Cond: call(">", types.BooleanType, refTo(h, "n"), intLit(5))}
		a := &logical.Aggregate{Input: f, Keys: keysOf(f, "window_start", "window_end"), Aggs: []plan.AggCall{count()}}
		return []*logical.Sink{sinkFor(a, nil)}
	}},
	{"upsert_source", nil, func() []*logical.Sink {
		t := table("users", map[string]string{"mode": "upsert"}, colOf("id", types.BigIntType.NotNull()), colOf("city", types.StringType))
		t.PrimaryKey = []string{"id"}
		scan := &logical.Scan{Table: t}
		a := &logical.Aggregate{Input: scan, Keys: keysOf(scan, "city"), Aggs: []plan.AggCall{count()}}
		direct := sinkFor(pick(scan, "id", "city"), map[string]string{"mode": "upsert"}, "id")
		other := sinkFor(pick(scan, "id", "city"), map[string]string{"mode": "upsert"}, "city")
		return []*logical.Sink{sinkFor(a, map[string]string{"mode": "retract"}), direct, other}
	}},
}

func TestPlans(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t, c.set)
			sinks := c.sinks()
			p, err := physical.Plan(sinks, cfg)
			if err != nil {
				t.Fatal(err)
			}
			checkPlan(t, p)
			got, err := explain.Text(sinks, p, cfg)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", c.name+".txt"), got)
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to rewrite); got:\n%s", file, got)
	}
}

// checkPlan tests what must hold of every plan.
func checkPlan(t *testing.T, p *plan.Plan) {
	t.Helper()
	for i, n := range p.Nodes {
		if n.ID != i {
			t.Errorf("node %d has id %d", i, n.ID)
		}
		for _, e := range n.Inputs {
			if e.From >= i {
				t.Errorf("node %d reads node %d, which comes later", i, e.From)
			}
			width := p.Nodes[e.From].Schema.Len()
			for _, k := range e.Keys {
				if k < 0 || k >= width {
					t.Errorf("node %d: hash key %d of %d columns", i, k, width)
				}
			}
		}
		if c, ok := n.Op.(*plan.Calc); ok {
			width := p.Nodes[n.Inputs[0].From].Schema.Len()
			for _, e := range append([]expr.Expr{c.Filter}, c.Project...) {
				if e == nil {
					continue
				}
				expr.Walk(e, func(e expr.Expr) bool {
					if c, ok := e.(*expr.Column); ok && c.Index >= width {
						t.Errorf("node %d reads column %d of %d", i, c.Index, width)
					}
					return true
				})
			}
		}
	}
}

func TestRefused(t *testing.T) {
	scan := func(o map[string]string) logical.Node { return &logical.Scan{Table: flights(o)} }
	grouped := func() logical.Node {
		s := scan(nil)
		return &logical.Aggregate{Input: s, Keys: keysOf(s, "origin"), Aggs: []plan.AggCall{count()}}
	}
	noTime := func() logical.Node {
		tab := flights(nil)
		tab.RowTime, tab.Watermark = -1, nil
		return hourly(&logical.Scan{Table: tab})
	}
	for _, c := range []struct {
		name string
		set  map[string]string
		sink *logical.Sink
		want []string // in the rendered error
	}{
		{"updates into inserts", nil, sinkFor(grouped(), nil),
			[]string{"accepts only inserts", "produces updates", "GroupAggregate", "window_start"}},
		{"upsert without key", nil, sinkFor(grouped(), map[string]string{"mode": "upsert"}), []string{"PRIMARY KEY"}},
		{"unbounded batch", map[string]string{"execution.runtime-mode": "batch"},
			sinkFor(scan(map[string]string{"bounded": "false"}), nil), []string{"has no end", "streaming"}},
		{"no watermark", nil, sinkFor(noTime(), nil), []string{"no watermark", "WATERMARK FOR `t`"}},
		{"unknown connector", nil, sinkFor(scan(map[string]string{"connector": "fakes"}), nil), []string{"did you mean 'fake'"}},
		{"unknown option", nil, sinkFor(scan(map[string]string{"mod": "upsert"}), nil), []string{"unknown option 'mod'", "'mode'"}},
		{"sort", nil, sinkFor(&logical.Sort{Input: scan(nil), Keys: []plan.SortKey{{Col: 0}}, Limit: -1}, nil),
			[]string{"LIMIT"}},
	} {
		_, err := physical.Plan([]*logical.Sink{c.sink}, config(t, c.set))
		var e *sqlerr.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got error %v", c.name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", c.name, err, w)
			}
		}
	}
}
