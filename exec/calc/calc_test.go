package calc_test

import (
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/calc"
	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	_ "github.com/tidemark-stream/tidemark/expr/fn"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

var schema = types.NewSchema(types.Field{Name: "a", Type: types.IntType},
	types.Field{Name: "b", Type: types.IntType}, types.Field{Name: "s", Type: types.StringType})

func column(i int) expr.Expr {
	return &expr.Column{Index: i, Name: schema.Fields[i].Name, T: schema.Fields[i].Type}
}

// call resolves a function of columns, numbers and strings.
func call(t *testing.T, fn string, args ...any) expr.Expr {
	t.Helper()
	es := make([]expr.Expr, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case expr.Expr:
			es[i] = a
		case int:
			es[i] = &expr.Literal{Value: int64(a), T: types.IntType.NotNull()}
		case string:
			es[i] = &expr.Literal{Value: a, T: types.StringType.NotNull()}
		}
	}
	e, err := expr.Resolve(fn, es, nil, expr.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func script() []exectest.Step {
	return []exectest.Step{
		exectest.Row(int64(6), int64(3), "x/one"), exectest.WM(1000), exectest.Row(int64(7), int64(0), "y/two"),
		exectest.Row(int64(9), int64(2), nil), exectest.Change(types.Delete, int64(8), nil, "x/four/5"),
		exectest.WM(2000), exectest.Row(int64(1), int64(4), "z"), exectest.Row(nil, int64(0), ""),
	}
}

// TestCalc drives filters and projections in every variation, and balances the books: what goes in
// comes out, is filtered, or is refused.
func TestCalc(t *testing.T) {
	a, b, s := column(0), column(1), column(2)
	div := func() expr.Expr { return call(t, "/", a, b) }
	piece := func(n int) expr.Expr { return call(t, "SPLIT_INDEX", s, "/", n) }
	for name, c := range map[string]struct {
		plan     plan.Calc
		want     []string
		filtered int64
		refused  int64
	}{
		"projection alone": {plan.Calc{Project: []expr.Expr{b, call(t, "+", a, 1)}},
			[]string{"+I 3 7", "+I 0 8", "+I 2 10", "-D NULL 9", "+I 4 2", "+I 0 NULL"}, 0, 0},
		"filter alone": {plan.Calc{Filter: call(t, ">", a, 6)},
			[]string{"+I 7 0 y/two", "+I 9 2 NULL", "-D 8 NULL x/four/5"}, 3, 0},
		"nothing passes": {plan.Calc{Filter: call(t, ">", a, 60), Project: []expr.Expr{a}}, nil, 6, 0},
		// The division by zero fails in the condition, once.
		"shared": {plan.Calc{Filter: call(t, ">", div(), 0), Project: []expr.Expr{div(), call(t, "+", div(), a)}},
			[]string{"+I 2 8", "+I 4 13"}, 3, 1},
		// The condition does without it where a is 7, the projection does not.
		"shared, and failing behind": {plan.Calc{Project: []expr.Expr{div(), a},
			Filter: call(t, "OR", call(t, "=", a, 7), call(t, ">", div(), 1))}, []string{"+I 2 6", "+I 4 9"}, 3, 1},
		"guarded": {plan.Calc{Project: []expr.Expr{call(t, "CASE", call(t, "=", b, 0), -1, div())},
			Filter: call(t, "OR", call(t, "=", b, 0), call(t, ">", div(), 2))}, []string{"+I -1", "+I 4", "+I -1"}, 3, 0},
		"pieces": {plan.Calc{Project: []expr.Expr{piece(1), piece(0)}, Filter: call(t, "<>", piece(0), "y")},
			[]string{"+I one x", "-D four x", "+I NULL z"}, 3, 0},
	} {
		for _, v := range exectest.Variants {
			res, err := exectest.Drive(calc.New(&c.plan), schema, script(), v, exectest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range res.Rows {
				got = append(got, r.Kind.String()+" "+r.Text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %+v: %q, want %q", name, v, got, c.want)
			}
			if f, r := res.Drops[op.DropFilter], res.Drops[op.DropDeadLetter]; f != c.filtered || r != c.refused {
				t.Errorf("%s, %+v: %d filtered and %d refused, want %d and %d", name, v, f, r, c.filtered, c.refused)
			}
		}
	}
}
