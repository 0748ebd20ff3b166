package window_test

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// num reads a number with a unit: ms (none), s, m, h or d.
func num(t *testing.T, s string) int64 {
	t.Helper()
	if s == "" {
		return 0
	}
	unit := map[byte]int64{'s': 1000, 'm': 60_000, 'h': 3600_000, 'd': 86_400_000}[s[len(s)-1]]
	if unit != 0 {
		s = s[:len(s)-1]
	} else {
		unit = 1
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n * unit
}

func windowOf(t *testing.T, c *exectest.Case) plan.Window {
	w := strings.Fields(c.Args["window"])
	out := plan.Window{Zone: c.Args["zone"], TimeCol: max(0, c.Schema.Index("ts"))}
	out.Kind = map[string]plan.WindowKind{"tumble": plan.Tumble, "hop": plan.Hop, "cumulate": plan.Cumulate,
		"session": plan.Session}[w[0]]
	out.Size = num(t, w[1])
	if len(w) > 2 {
		out.Step = num(t, w[2])
	}
	out.Offset = num(t, c.Args["offset"])
	_, out.ProcTime = c.Args["proctime"]
	return out
}

// TestCases runs the text cases: "window KIND SIZE [STEP]" with "aggs" for an aggregation, without
// for a window function; "attached START END" for windows that are columns. What is expected is
// the rows, sorted, or with "trace" rows and watermarks in their order at batch size 1.
func TestCases(t *testing.T) {
	for _, c := range exectest.Cases(t, "testdata/*.txt") {
		t.Run(c.Name, func(t *testing.T) {
			_, trace := c.Args["trace"]
			exectest.Run(t, builder(t, &c), c.Schema, c.Script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
				got := texts(r.Rows)
				if _, fold := c.Args["fold"]; fold {
					got = exectest.Fold(r.Rows)
				}
				if trace {
					if !strings.Contains(t.Name(), "size=1,") {
						return
					}
					got = r.Trace
				} else {
					sort.Strings(c.Want)
				}
				if !reflect.DeepEqual(got, c.Want) {
					t.Errorf("line %d:\n got  %s\n want %s", c.Line, strings.Join(got, "\n      "), strings.Join(c.Want, "\n      "))
				}
				if late, ok := c.Args["late"]; ok && fmt.Sprint(r.Drops[op.DropLate]) != late {
					t.Errorf("line %d: %d late rows, want %s", c.Line, r.Drops[op.DropLate], late)
				}
			})
		})
	}
}

func builder(t *testing.T, c *exectest.Case) func() (op.Operator, error) {
	w := windowOf(t, c)
	keys := c.Columns(c.Args["key"])
	if c.Args["aggs"] == "" {
		w.PartitionKeys = keys
		out := c.Schema
		prop := types.TimestampType(3)
		if w.Zone != "" {
			prop = types.TimestampLTZType(3)
		}
		out.Fields = append(out.Fields[:len(out.Fields):len(out.Fields)],
			types.Field{Name: "window_start", Type: types.TimestampType(3)},
			types.Field{Name: "window_end", Type: types.TimestampType(3)}, types.Field{Name: "window_time", Type: prop})
		return func() (op.Operator, error) { return window.NewTVF(&plan.WindowTVF{Window: w}, c.Schema, out) }
	}
	aggs, err := c.Aggs(c.Args["aggs"], len(keys) > 0)
	if err != nil {
		t.Fatalf("line %d: %v", c.Line, err)
	}
	n := &plan.WindowAgg{Window: w, Keys: keys, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1,
		Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
	for _, s := range c.Script {
		n.InputRetracts = n.InputRetracts || s.Kind != types.Insert
	}
	for arg, to := range map[string]*int64{"early": &n.EarlyFireMs, "latefire": &n.LateFireMs, "lateness": &n.AllowedLatenessMs,
		"earlyrows": &n.EarlyFireRows, "laterows": &n.LateFireRows} {
		if v, ok := c.Args[arg]; ok {
			*to = num(t, v)
		}
	}
	if cols, ok := c.Args["attached"]; ok {
		at := c.Columns(cols)
		n.Attached, n.StartCol, n.EndCol = true, at[0], at[1]
	}
	if props, ok := c.Args["props"]; ok {
		n.Props = nil
		for _, p := range strings.Fields(props) {
			n.Props = append(n.Props, map[string]plan.WindowProp{"start": plan.WindowStart, "end": plan.WindowEnd,
				"reason": plan.WindowReason, "count": plan.WindowCount, "cause": plan.WindowCause}[p])
		}
	}
	_, n.FinalOnly = c.Args["final"]
	_, n.Late = c.Args["latesink"]
	src, pos := c.Schema.Index("src"), c.Schema.Index("pos")
	return func() (op.Operator, error) {
		o, err := window.NewAgg(n, c.Schema, outSchema(c.Schema, n))
		if err != nil || !n.Late && pos < 0 {
			return o, err
		}
		return newWitness(o, n.Late, src, pos), nil
	}
}

// TestCascade aggregates the windows of a window aggregation: inner results are in time for the
// outer windows, whatever the size of batches.
func TestCascade(t *testing.T) {
	c := exectest.Case{Schema: schema}
	inner, _ := c.Aggs("COUNT(*); SUM(i)", true)
	n1 := &plan.WindowAgg{Window: plan.Window{Kind: plan.Tumble, Size: 5, TimeCol: 1}, Keys: []int{0}, Aggs: inner,
		Props: []plan.WindowProp{plan.WindowTime}, EarlyFireMs: -1, LateFireMs: -1}
	mid := types.NewSchema(schema.Fields[0], types.Field{Name: "c", Type: types.BigIntType},
		types.Field{Name: "s", Type: types.IntType}, types.Field{Name: "ts", Type: types.TimestampType(3)})
	c2 := exectest.Case{Schema: mid}
	outer, _ := c2.Aggs("SUM(c); SUM(s)", true)
	for _, w := range []plan.Window{{Kind: plan.Tumble, Size: 10, TimeCol: 3}, {Kind: plan.Hop, Size: 20, Step: 10, TimeCol: 3},
		{Kind: plan.Session, Size: 6, TimeCol: 3}} {
		n2 := &plan.WindowAgg{Window: w, Keys: []int{0}, Aggs: outer, EarlyFireMs: -1, LateFireMs: -1,
			Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}}
		mk := func() (op.Operator, error) {
			a, err := window.NewAgg(n1, schema, mid)
			if err != nil {
				return nil, err
			}
			b, err := window.NewAgg(n2, mid, outSchema(mid, n2))
			return &exectest.Chain{Ops: []op.Operator{a, b}}, err
		}
		for seed := int64(1); seed <= 3; seed++ {
			script := randomScript(newRand(seed), 150, false)
			var want []string
			exectest.Run(t, mk, schema, script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
				got := texts(r.Rows)
				if want == nil {
					want = got // of batch size 1
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s, seed %d: %s", w.Kind, seed, diff(got, want))
				}
			})
			if len(want) < 10 {
				t.Errorf("%s: only %d results", w.Kind, len(want))
			}
		}
	}
}
