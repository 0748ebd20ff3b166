package window_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// twoPhase builds a local and a global operator of n as the planner does.
func twoPhase(n *plan.WindowAgg) (func() (op.Operator, error), func() (op.Operator, error), types.Schema) {
	var mid types.Schema
	for _, k := range n.Keys {
		mid.Fields = append(mid.Fields, schema.Fields[k])
	}
	mid.Fields = append(mid.Fields, types.Field{Name: "$acc", Type: types.BytesType.NotNull()},
		types.Field{Name: "$slice_end", Type: types.BigIntType.NotNull()})
	l, g := *n, *n
	l.Phase, l.Props = plan.LocalPhase, nil
	g.Phase, g.Keys = plan.GlobalPhase, nil
	for i := range n.Keys {
		g.Keys = append(g.Keys, i)
	}
	g.Window.TimeCol = -1
	return func() (op.Operator, error) { return window.NewAgg(&l, schema, mid) },
		func() (op.Operator, error) { return window.NewAgg(&g, mid, outSchema(schema, n)) }, mid
}

func texts(rows []exectest.Out) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, r.Text)
	}
	sort.Strings(out)
	return out
}

func unstamped(want []string) []string {
	out := []string{}
	for _, w := range want {
		out = append(out, w[:strings.LastIndex(w, " @")])
	}
	sort.Strings(out)
	return out
}

const packable = "COUNT(*); SUM(i); AVG(i); MIN(i); MAX(i) FILTER f; MAX(d); SUM(m); AVG(m); MIN(s); MAX(m)"

var phaseShapes = []plan.Window{
	{Kind: plan.Tumble, Size: 10, TimeCol: 1},
	{Kind: plan.Hop, Size: 10, Step: 2, TimeCol: 1},
	{Kind: plan.Hop, Size: 9, Step: 6, Offset: -2, TimeCol: 1},
	{Kind: plan.Cumulate, Size: 12, Step: 3, TimeCol: 1},
}

// TestTwoPhase_AgainstMachine runs both phases in one thread, where the result must be that of one
// phase with the same stamps, and with an exchange of two upstream subtasks between them.
func TestTwoPhase_AgainstMachine(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for _, w := range phaseShapes {
		for _, list := range []string{packable, invertible} {
			aggs, err := c.Aggs(list, true)
			if err != nil {
				t.Fatal(err)
			}
			n := &plan.WindowAgg{Window: w, Keys: []int{3, 0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1,
				Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
			local, global, mid := twoPhase(n)
			for seed := int64(1); seed <= 4; seed++ {
				script := randomScript(rand.New(rand.NewSource(seed)), 120, false)
				want, late := expected(n, schema, script)
				chain := func() (op.Operator, error) {
					l, err := local()
					if err != nil {
						return nil, err
					}
					g, err := global()
					return &exectest.Chain{Ops: []op.Operator{l, g}}, err
				}
				t.Run(fmt.Sprintf("%s,%d,%d,%.14s,seed=%d", w.Kind, w.Size, w.Step, list, seed), func(t *testing.T) {
					exectest.Run(t, chain, schema, script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
						if got := texts(r.Rows); !reflect.DeepEqual(got, unstamped(want)) {
							t.Error(diff(got, unstamped(want)))
						}
						if r.Drops[op.DropLate] != late {
							t.Errorf("%d late rows, want %d", r.Drops[op.DropLate], late)
						}
					})
					fan := func() (op.Operator, error) {
						f := &exectest.Fan{Schema: mid, Seed: seed, Up: make([]op.Operator, 2)}
						for i := range f.Up {
							if f.Up[i], err = local(); err != nil {
								return nil, err
							}
						}
						f.Op, err = global()
						return f, err
					}
					exectest.Run(t, fan, schema, script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
						if got := texts(r.Rows); !reflect.DeepEqual(got, unstamped(want)) {
							t.Error("behind an exchange: " + diff(got, unstamped(want)))
						}
					})
				})
			}
		}
	}
}

// TestExchange_AgainstMachine feeds single-phase operators from three upstream subtasks whose rows
// overtake each other: lateness follows the stamps, so the result is that of the one-row machine.
// (Sessions depend on the order of rows; plans merge their input by stamps.)
func TestExchange_AgainstMachine(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for _, w := range phaseShapes {
		for _, list := range []string{invertible, "COUNT(*); COUNT(DISTINCT i); MIN(s); SUM(i)"} {
			aggs, err := c.Aggs(list, true)
			if err != nil {
				t.Fatal(err)
			}
			n := &plan.WindowAgg{Window: w, Keys: []int{0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1,
				Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
			for seed := int64(1); seed <= 6; seed++ {
				script := randomScript(rand.New(rand.NewSource(seed)), 120, false)
				want, late := expected(n, schema, script)
				fan := func() (op.Operator, error) {
					o, err := window.NewAgg(n, schema, outSchema(schema, n))
					return &exectest.Fan{Schema: schema, Seed: seed, Up: make([]op.Operator, 3), Op: o}, err
				}
				t.Run(fmt.Sprintf("%s,%d,%d,%.14s,seed=%d", w.Kind, w.Size, w.Step, list, seed), func(t *testing.T) {
					exectest.Run(t, fan, schema, script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
						if got := texts(r.Rows); !reflect.DeepEqual(got, unstamped(want)) {
							t.Error(diff(got, unstamped(want)))
						}
						if r.Drops[op.DropLate] != late {
							t.Errorf("%d late rows, want %d", r.Drops[op.DropLate], late)
						}
					})
				})
			}
		}
	}
}
