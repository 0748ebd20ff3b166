package groupagg_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

func outSchema(in types.Schema, n *plan.GroupAgg) types.Schema {
	var s types.Schema
	for _, k := range n.Keys {
		s.Fields = append(s.Fields, in.Fields[k])
	}
	for _, a := range n.Aggs {
		s.Fields = append(s.Fields, types.Field{Name: a.Name, Type: a.T})
	}
	return s
}

// folded is what the changes of n amount to.
func folded(n *plan.GroupAgg) func([]exectest.Out) []string {
	if n.UpdateBefore {
		return exectest.Fold
	}
	return func(rows []exectest.Out) []string { return exectest.FoldByKey(rows, len(n.Keys)) }
}

// TestCases runs the text cases. What is expected is the folded result, or with "changes" the
// changelog at batch size 1.
func TestCases(t *testing.T) {
	for _, c := range exectest.Cases(t, "testdata/*.txt") {
		t.Run(c.Name, func(t *testing.T) {
			n := &plan.GroupAgg{Keys: c.Columns(c.Args["key"]), UpdateBefore: c.Args["before"] != "no"}
			aggs, err := c.Aggs(c.Args["aggs"], len(n.Keys) > 0)
			if err != nil {
				t.Fatalf("line %d: %v", c.Line, err)
			}
			n.Aggs = aggs
			n.TTLMs, _ = strconv.ParseInt(c.Args["ttl"], 10, 64)
			for _, s := range c.Script {
				n.InputRetracts = n.InputRetracts || s.Kind != types.Insert
			}
			_, changes := c.Args["changes"]
			_, batch := c.Args["batch"]
			mk := func() (op.Operator, error) { return groupagg.New(n, c.Schema, outSchema(c.Schema, n)) }
			exectest.Run(t, mk, c.Schema, c.Script, exectest.Options{BatchMode: batch, Keys: n.Keys, Fold: folded(n), Spills: true},
				func(t *testing.T, r *exectest.Result) {
					got := exectest.Fold(r.Rows)
					if !n.UpdateBefore {
						got = exectest.FoldByKey(r.Rows, len(n.Keys))
					}
					if changes {
						if !strings.HasPrefix(t.Name(), "TestCases/"+strings.ReplaceAll(c.Name, " ", "_")+"/size=1,") {
							return
						}
						got = nil
						for _, row := range r.Rows {
							got = append(got, row.Kind.String()+" "+row.Text)
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(c.Want) {
						t.Errorf("line %d:\n got  %s\n want %s", c.Line, strings.Join(got, "\n      "),
							strings.Join(c.Want, "\n      "))
					}
				})
		})
	}
}

var schema = types.NewSchema(
	types.Field{Name: "k", Type: types.BigIntType},
	types.Field{Name: "s", Type: types.StringType},
	types.Field{Name: "i", Type: types.IntType},
	types.Field{Name: "b", Type: types.BigIntType.NotNull()},
	types.Field{Name: "d", Type: types.DoubleType},
	types.Field{Name: "m", Type: types.DecimalType(10, 2)},
	types.Field{Name: "f", Type: types.BooleanType},
	types.Field{Name: "t", Type: types.TinyIntType},
	types.Field{Name: "w", Type: types.DecimalType(30, 3)},
)

func randomRow(r *rand.Rand, keys int) []types.Value {
	row := []types.Value{
		int64(r.Intn(keys)), strings.Repeat("x", r.Intn(3)*9) + fmt.Sprint(r.Intn(4)), int64(r.Intn(9) - 4),
		int64(r.Intn(5)), float64(r.Intn(9)) / 4, types.I128(int64(r.Intn(2000) - 1000)), r.Intn(2) == 0,
		int64(r.Intn(200) - 100), types.I128(int64(r.Intn(100))),
	}
	for i := range row {
		if r.Intn(6) == 0 && schema.Fields[i].Type.Nullable {
			row[i] = nil
		}
	}
	return row
}

const allAggs = `COUNT(*); COUNT(i); SUM(i); SUM(b); SUM(t); SUM(d); SUM(m); SUM(w); AVG(i); AVG(b); AVG(d); AVG(m);
	MIN(i); MAX(i); MIN(b) FILTER f; MAX(d); MIN(s); MAX(s); MIN(f); MAX(f); MAX(m); MIN(w); MAX(w);
	COUNT(DISTINCT i); COUNT(DISTINCT i) FILTER f; SUM(DISTINCT i) FILTER f; COUNT(DISTINCT s); AVG(DISTINCT b);
	COUNT(*) FILTER f; SUM(i) FILTER f; FIRST_VALUE(i); LAST_VALUE(s); LISTAGG(s); ARRAY_AGG(i); COLLECT(b);
	COLLECT(DISTINCT t)`

// TestRandom_AgainstOracle compares with the slow reference, with and without retractions.
func TestRandom_AgainstOracle(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for seed := int64(1); seed <= 3; seed++ {
		for _, keys := range [][]int{{0}, {1}, {0, 1, 6}, {}} {
			for _, retract := range []bool{false, true} {
				for _, before := range []bool{true, false} {
					r := rand.New(rand.NewSource(seed))
					aggs, err := c.Aggs(allAggs, len(keys) > 0)
					if err != nil {
						t.Fatal(err)
					}
					n := &plan.GroupAgg{Keys: keys, Aggs: aggs, InputRetracts: retract, UpdateBefore: before}
					script, want := randomScript(r, n, 120)
					t.Run(fmt.Sprintf("seed=%d,keys=%v,retract=%v,before=%v", seed, keys, retract, before),
						func(t *testing.T) {
							t.Parallel()
							mk := func() (op.Operator, error) { return groupagg.New(n, schema, outSchema(schema, n)) }
							exectest.Run(t, mk, schema, script, exectest.Options{Keys: n.Keys, Fold: folded(n)}, func(t *testing.T, res *exectest.Result) {
								got := exectest.Fold(res.Rows)
								if !before {
									got = exectest.FoldByKey(res.Rows, len(keys))
								}
								if !reflect.DeepEqual(got, want) {
									t.Errorf("\n got  %s\n want %s", strings.Join(got, "\n      "), strings.Join(want, "\n      "))
								}
							})
						})
				}
			}
		}
	}
}

func randomScript(r *rand.Rand, n *plan.GroupAgg, rows int) ([]exectest.Step, []string) {
	var script []exectest.Step
	var live [][]types.Value
	table := exectest.NewTable()
	var keyTypes []types.Type
	for _, k := range n.Keys {
		keyTypes = append(keyTypes, schema.Fields[k].Type)
	}
	for range rows {
		kind, row := types.Insert, randomRow(r, 6)
		if n.InputRetracts && len(live) > 0 && r.Intn(5) < 2 {
			i := r.Intn(len(live))
			// The first of equal rows, as the reference takes it.
			kind, row = types.Delete, live[i]
			live = append(live[:i], live[i+1:]...)
		} else {
			live = append(live, row)
		}
		script = append(script, exectest.Change(kind, row...))
		var key []types.Value
		for _, k := range n.Keys {
			key = append(key, row[k])
		}
		table.Apply(key, exectest.Change(kind, row...))
	}
	return script, table.Results(keyTypes, n.Aggs)
}

// TestTwoPhase_AgainstOracle runs both phases, in one thread and with an exchange between them; but for
// one seed the global phase is restarted now and then.
func TestTwoPhase_AgainstOracle(t *testing.T) {
	const packable = "COUNT(*); SUM(i); AVG(b); MIN(s); MAX(d); SUM(m); AVG(m); COUNT(i) FILTER f; SUM(w); MAX(w); MIN(f)"
	c := exectest.Case{Schema: schema}
	for _, keys := range [][]int{{0}, {1, 0}, {}} {
		aggs, err := c.Aggs(packable, len(keys) > 0)
		if err != nil {
			t.Fatal(err)
		}
		l := &plan.GroupAgg{Keys: keys, Aggs: aggs, Phase: plan.LocalPhase}
		g := &plan.GroupAgg{Aggs: aggs, Phase: plan.GlobalPhase, UpdateBefore: true}
		var mid types.Schema
		for i, k := range keys {
			mid.Fields = append(mid.Fields, schema.Fields[k])
			g.Keys = append(g.Keys, i)
		}
		mid.Fields = append(mid.Fields, types.Field{Name: "$acc", Type: types.BytesType.NotNull()})
		local := func() (op.Operator, error) { return groupagg.New(l, schema, mid) }
		for seed := int64(1); seed <= 3; seed++ {
			for _, batch := range []bool{false, true} {
				script, want := randomScript(rand.New(rand.NewSource(seed)), l, 120)
				mk := func() (op.Operator, error) {
					f := &exectest.Fan{Schema: mid, Seed: seed, Up: make([]op.Operator, 2)}
					for i := range f.Up {
						if f.Up[i], err = local(); err != nil {
							return nil, err
						}
					}
					f.Op = &exectest.Cluster{Seed: seed, Every: 6, Par: []int{1, 3, 2}, Keys: [][]int{g.Keys},
						Schemas: []types.Schema{mid},
						Make:    func() (op.Operator, error) { return groupagg.New(g, mid, outSchema(schema, l)) }}
					if seed == 1 || len(keys) == 0 {
						f.Op, err = groupagg.New(g, mid, outSchema(schema, l))
					}
					return f, err
				}
				t.Run(fmt.Sprintf("keys=%v,seed=%d,batch=%v", keys, seed, batch), func(t *testing.T) {
					exectest.Run(t, mk, schema, script, exectest.Options{BatchMode: batch}, func(t *testing.T, r *exectest.Result) {
						if got := exectest.Fold(r.Rows); !reflect.DeepEqual(got, want) {
							t.Errorf("\n got  %s\n want %s", strings.Join(got, "\n      "), strings.Join(want, "\n      "))
						}
					})
				})
			}
		}
	}
}
