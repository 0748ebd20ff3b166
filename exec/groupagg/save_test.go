package groupagg_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestSave_Incremental: a save writes the groups and values that changed since the one before.
func TestSave_Incremental(t *testing.T) {
	in := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "v", Type: types.IntType})
	c := exectest.Case{Schema: in}
	aggs, err := c.Aggs("SUM(v); MAX(v); COUNT(DISTINCT v)", true)
	if err != nil {
		t.Fatal(err)
	}
	n := &plan.GroupAgg{Keys: []int{0}, Aggs: aggs, InputRetracts: true, UpdateBefore: true}
	row := func(kind types.RowKind, k, v int64) exectest.Step { return exectest.Change(kind, k, v) }
	save := exectest.Step{Save: true}
	var script []exectest.Step
	for k := range int64(100) {
		script = append(script, row(types.Insert, k, 1), row(types.Insert, k, 2))
	}
	script = append(script, save, save,
		row(types.Insert, 7, 3), save,
		row(types.Delete, 8, 1), row(types.Insert, 8, 1), row(types.Insert, 9, 1), save,
		row(types.Delete, 10, 1), row(types.Delete, 10, 2), save,
		row(types.Insert, 11, 5), row(types.Delete, 11, 5), save)
	cl := &exectest.Cluster{Make: func() (op.Operator, error) { return groupagg.New(n, in, outSchema(in, n)) }}
	if _, err := exectest.Drive(cl, in, script, exectest.Variant{Size: 1}, exectest.Options{}); err != nil {
		t.Fatal(err)
	}
	// State 0 are the groups, 1 the values.
	want := "[map[0:100 1:200] map[] map[0:1 1:1] map[0:2 1:2] map[] map[0:1]]"
	if got := fmt.Sprint(cl.Puts); got != want {
		t.Errorf("written %s, want %s", got, want)
	}
	want = "[map[] map[] map[] map[] map[0:1 1:2] map[]]"
	if got := fmt.Sprint(cl.Deletes); got != want {
		t.Errorf("deleted %s, want %s", got, want)
	}
}

// TestSpilled: groups that were saved and are not in memory come back, with strings and lists, and
// expire where they are.
func TestSpilled(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for seed := int64(1); seed <= 5; seed++ {
		list := "COUNT(*); SUM(d); LISTAGG(s); FIRST_VALUE(i); SUM(w)"
		if seed > 3 {
			list = "COUNT(*); COUNT(DISTINCT s); COUNT(DISTINCT i) FILTER f; COUNT(DISTINCT i); SUM(DISTINCT d); MIN(i); MAX(s)"
		}
		aggs, err := c.Aggs(list, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, keys := range [][]int{{0}, {1, 0}, {}} {
			if len(keys) == 0 && seed <= 3 || len(keys) == 2 && seed > 3 {
				continue // one group without values stays
			}
			for _, retract := range []bool{false, true} {
				n := &plan.GroupAgg{Keys: keys, Aggs: aggs, InputRetracts: retract, UpdateBefore: true}
				if seed == 3 || seed == 5 {
					n.TTLMs = 20
				}
				r := rand.New(rand.NewSource(seed))
				var script []exectest.Step
				rows, _ := randomScript(r, n, map[bool]int{true: 150, false: 80}[seed <= 3])
				for i, row := range rows {
					if i%5 == 0 {
						script = append(script, exectest.Step{Proc: true, Time: int64(i)})
					}
					script = append(script, row)
				}
				mk := func() (op.Operator, error) { return groupagg.New(n, schema, outSchema(schema, n)) }
				t.Run(fmt.Sprintf("seed=%d,keys=%v,retract=%v", seed, keys, retract), func(t *testing.T) {
					t.Parallel()
					exectest.Run(t, mk, schema, script, exectest.Options{Keys: keys, Spills: true},
						func(*testing.T, *exectest.Result) {})
				})
			}
		}
	}
}

// phases is both phases of an aggregation as one operator.
type phases struct {
	op.Operator // the local one
	op.Stateful // the global one
	global      op.Operator
}

func (p *phases) Open(c *op.Context, out op.Output) error {
	if err := p.global.Open(c, out); err != nil {
		return err
	}
	return p.Operator.Open(c, toGlobal{p.global})
}

func (p *phases) Flush() error { return p.Operator.(op.Flusher).Flush() }

func (p *phases) Finish() error {
	if err := p.Operator.Finish(); err != nil {
		return err
	}
	return p.global.Finish()
}

func (p *phases) Close() error {
	if err := p.Operator.Close(); err != nil {
		return err
	}
	return p.global.Close()
}

type toGlobal struct{ op.Operator }

func (g toGlobal) Emit(b *vec.Batch) error { return g.Process(0, b) }

// TestSave_Phases: an aggregation goes on in two phases where it was in one, and the other way round.
func TestSave_Phases(t *testing.T) {
	c := exectest.Case{Schema: schema}
	aggs, err := c.Aggs("COUNT(*); AVG(b); COUNT(b); SUM(b); MAX(b); MIN(s); COUNT(i); AVG(i); MAX(m) FILTER f", true)
	if err != nil {
		t.Fatal(err)
	}
	n := plan.GroupAgg{Keys: []int{0}, Aggs: aggs, UpdateBefore: true, ArgSchema: schema}
	out := outSchema(schema, &n)
	local, global := n, n
	local.Phase, global.Phase = plan.LocalPhase, plan.GlobalPhase
	mid := types.NewSchema(schema.Fields[0], types.Field{Name: "acc", Type: types.BytesType.NotNull()})
	made := 0
	mk := func() (op.Operator, error) {
		if made++; made%2 == 0 {
			return groupagg.New(&n, schema, out)
		}
		l, err := groupagg.New(&local, schema, mid)
		if err != nil {
			return nil, err
		}
		g, err := groupagg.New(&global, mid, out)
		return &phases{l, g.(op.Stateful), g}, err
	}
	for seed := int64(1); seed <= 3; seed++ {
		script, want := randomScript(rand.New(rand.NewSource(seed)), &n, 150)
		for _, v := range exectest.Variants {
			cl := &exectest.Cluster{Make: mk, Seed: seed, Every: 5}
			r, err := exectest.Drive(cl, schema, script, v, exectest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := exectest.Fold(r.Rows); !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d, %+v, %d starts:\n got  %s\n want %s", seed, v, cl.Starts, got, want)
			}
		}
	}
}

func FuzzRestore(f *testing.F) {
	in := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "v", Type: types.StringType})
	c := exectest.Case{Schema: in}
	aggs, err := c.Aggs("COUNT(*); MAX(v); COUNT(DISTINCT v); LISTAGG(v)", true)
	if err != nil {
		f.Fatal(err)
	}
	n := &plan.GroupAgg{Keys: []int{0}, Aggs: aggs, InputRetracts: true, UpdateBefore: true, TTLMs: 1000}
	mk := func() (op.Operator, error) { return groupagg.New(n, in, outSchema(in, n)) }
	exectest.FuzzRestore(f, mk, in, []exectest.Step{exectest.Row(int64(1), "a"),
		exectest.Row(int64(2), "a text of more than twelve bytes"), exectest.Row(nil, nil)}, exectest.Options{})
}
