package opt

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// joinRows joins by nested loops.
func joinRows(n *logical.Join, l, r [][]any) [][]any {
	out := [][]any{}
	found := make([]bool, len(r))
	nulls := func(s types.Schema) []any { return make([]any, s.Len()) }
	for _, x := range l {
		matched := false
	next:
		for j, y := range r {
			row := append(append([]any{}, x...), y...)
			for i := range n.LeftKeys {
				a, b := x[n.LeftKeys[i]], y[n.RightKeys[i]]
				if a != b || a == nil && (n.NullSafe == nil || !n.NullSafe[i]) {
					continue next
				}
			}
			if n.Cond != nil && value(n.Cond, row) != true {
				continue
			}
			matched, found[j] = true, true
			out = append(out, row)
		}
		if !matched && (n.Kind == plan.LeftJoin || n.Kind == plan.FullJoin) {
			out = append(out, append(append([]any{}, x...), nulls(n.R.Schema())...))
		}
	}
	for j, y := range r {
		if !found[j] && (n.Kind == plan.RightJoin || n.Kind == plan.FullJoin) {
			out = append(out, append(nulls(n.L.Schema()), y...))
		}
	}
	return out
}

// join makes a join of l and r whose condition compares their columns.
func (g *gen) join(l, r logical.Node) *logical.Join {
	j := &logical.Join{L: l, R: r, Kind: plan.JoinKind(g.r.IntN(4))}
	s := types.Schema{Fields: append(append([]types.Field{}, l.Schema().Fields...), r.Schema().Fields...)}
	for range g.r.IntN(4) {
		c := g.cond(s, 1)
		if a, b := g.numbers(l.Schema()), g.numbers(r.Schema()); len(a) > 0 && len(b) > 0 && g.r.IntN(2) == 0 {
			x := expr.Expr(column(s, a[g.r.IntN(len(a))]))
			y := expr.Expr(column(s, l.Schema().Len()+b[g.r.IntN(len(b))]))
			if g.r.IntN(3) == 0 {
				x = binary("+", x, &expr.Literal{Value: int64(1), T: types.BigIntType.NotNull()})
			}
			if g.r.IntN(2) == 0 {
				x, y = y, x
			}
			c = binary([]string{"=", "=", "IS NOT DISTINCT FROM", "<"}[g.r.IntN(4)], x, y)
		}
		j.Cond = And(j.Cond, c)
	}
	return j
}

// small is a query of few rows.
func (g *gen) small() logical.Node {
	n := logical.Node(&logical.Scan{Table: g.table})
	n = &logical.Filter{Input: n, Cond: binary("<", column(n.Schema(), 3),
		&expr.Literal{Value: types.TS(40000, 0), T: types.TimestampType(3).NotNull()})}
	switch g.r.IntN(3) {
	case 0:
		return g.project(n)
	case 1:
		return g.aggregate(n)
	}
	return n
}

// TestOptimize_Joins does the same as TestOptimize_SameRows for joins with something above and
// something below.
func TestOptimize_Joins(t *testing.T) {
	env := &expr.Env{Zone: time.UTC}
	keyed, stricter := 0, 0
	for seed := range uint64(1500) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			g := &gen{r: rand.New(rand.NewPCG(seed, 2)), table: testTable()}
			j := g.join(g.small(), g.small())
			n := logical.Node(j)
			for range 1 + g.r.IntN(3) {
				switch g.r.IntN(4) {
				case 0, 1:
					n = &logical.Filter{Input: n, Cond: g.cond(n.Schema(), 2)}
				case 2:
					n = g.project(n)
				default:
					n = g.aggregate(n)
				}
			}
			if g.r.IntN(4) == 0 {
				n = &logical.Filter{Input: g.join(n, g.small()), Cond: g.cond(n.Schema(), 2)}
			}
			want := render(evaluate(n, g.data()))
			o := Optimize(n, env)
			if got := o.Schema(); !sameTypes(got, n.Schema()) {
				t.Fatalf("schema %s became %s", n.Schema(), got)
			}
			for _, x := range []logical.Node{o, Share([]logical.Node{o}, env, func(logical.Node) bool { return true })[0]} {
				if got := render(evaluate(x, g.data())); got != want {
					t.Fatalf("rows differ\nquery:\n%s\noptimised:\n%s\nwant:\n%s\ngot:\n%s", tree(n, ""), tree(x, ""), want, got)
				}
			}
			text := tree(o, "")
			if strings.Contains(text, "keys=") {
				keyed++
			}
			if j.Kind != plan.InnerJoin && !strings.Contains(text, "OUTER") {
				stricter++
			}
		})
	}
	if keyed < 200 || stricter < 50 {
		t.Errorf("only %d queries with keys and %d outer joins that became inner ones", keyed, stricter)
	}
}
