package opt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// TestOptimize_SameRows makes random queries and runs them with the interpreter of
// interpret_test.go as they are and as they are optimised: the rows must be the same. A failure
// prints the seed, which -run 'SameRows/seed=N' repeats.
func TestOptimize_SameRows(t *testing.T) {
	env := &expr.Env{Zone: time.UTC}
	fused, expanded := 0, 0
	for seed := range uint64(2000) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			g := &gen{r: rand.New(rand.NewPCG(seed, 1)), table: testTable()}
			n := g.node(1 + g.r.IntN(5))
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
			if strings.Contains(text, "WindowAgg{fused") {
				fused++
			}
			if strings.Contains(text, "Expand") {
				expanded++
			}
		})
	}
	// The generator must reach the rewrites that matter.
	if fused < 20 || expanded < 20 {
		t.Errorf("only %d queries with a fused window and %d with grouping sets", fused, expanded)
	}
}

func sameTypes(a, b types.Schema) bool {
	if len(a.Fields) != len(b.Fields) {
		return false
	}
	for i := range a.Fields {
		if !a.Fields[i].Type.EqualIgnoreNull(b.Fields[i].Type) {
			return false
		}
	}
	return true
}

// testTable has three numbers, a time with a watermark, and a computed column.
func testTable() *catalog.Table {
	rt := types.TimestampType(3)
	rt.Attr = types.RowTime
	t := &catalog.Table{Path: []string{"c", "d", "t"}, RowTime: 3, Columns: []catalog.Column{
		{Name: "a", Type: types.BigIntType}, {Name: "b", Type: types.BigIntType}, {Name: "c", Type: types.BigIntType},
		{Name: "ts", Type: rt},
	}}
	t.Columns = append(t.Columns, catalog.Column{Name: "ab", Type: types.BigIntType, Kind: catalog.Computed,
		Expr: binary("+", column(t.Schema(), 0), column(t.Schema(), 1))})
	t.Watermark = column(t.Schema(), 3)
	return t
}

func binary(fn string, a, b expr.Expr) expr.Expr {
	t := types.BooleanType
	if fn == "+" {
		t = types.BigIntType
	}
	return &expr.Call{Fn: fn, Args: []expr.Expr{a, b}, T: t}
}

// gen makes random queries over one table.
type gen struct {
	r     *rand.Rand
	table *catalog.Table
}

// data is the rows of the table: a, b, c in -1..3 or NULL, times in two minutes, ab.
func (g *gen) data() [][]any {
	r := rand.New(rand.NewPCG(7, 7))
	var rows [][]any
	for range 40 {
		row := make([]any, 5)
		for c := range 3 {
			if row[c] = any(r.Int64N(5) - 1); r.IntN(5) == 0 {
				row[c] = nil
			}
		}
		row[3] = r.Int64N(120000)
		if row[0] != nil && row[1] != nil {
			row[4] = row[0].(int64) + row[1].(int64)
		}
		rows = append(rows, row)
	}
	return rows
}

func (g *gen) node(depth int) logical.Node {
	if depth == 0 {
		return &logical.Scan{Table: g.table}
	}
	in := g.node(depth - 1)
	switch g.r.IntN(7) {
	case 0:
		return &logical.Filter{Input: in, Cond: g.cond(in.Schema(), 2)}
	case 1, 2:
		return g.project(in)
	case 3:
		return g.union(in)
	case 4:
		return g.window(in)
	case 5:
		return g.aggregate(in)
	}
	return g.aggregate(g.window(in))
}

func (g *gen) union(in logical.Node) logical.Node {
	u := &logical.Union{All: []logical.Node{in}}
	if g.r.IntN(2) == 0 {
		u.All = append(u.All, &logical.Filter{Input: in, Cond: g.cond(in.Schema(), 1)})
	}
	return u
}

// window puts a window function over in, if it has a time attribute.
func (g *gen) window(in logical.Node) logical.Node {
	for i, f := range in.Schema().Fields {
		if f.Type.Attr != types.RowTime {
			continue
		}
		w := &logical.WindowTVF{Input: in, Window: plan.Window{Kind: plan.Tumble, Size: 20000, TimeCol: i}}
		switch g.r.IntN(3) {
		case 0:
			w.Window.Kind, w.Window.Step = plan.Hop, 10000
		case 1:
			w.Window.Kind = plan.Session
			if p := g.numbers(in.Schema()); len(p) > 0 && g.r.IntN(2) == 0 {
				w.Window.PartitionKeys = p[:1]
			}
		}
		return w
	}
	return in
}

// numbers lists the BIGINT columns of s.
func (g *gen) numbers(s types.Schema) []int {
	var out []int
	for i, f := range s.Fields {
		if f.Type.Kind == types.BigInt {
			out = append(out, i)
		}
	}
	return out
}

// scalar makes a number.
func (g *gen) scalar(s types.Schema, depth int) expr.Expr {
	if nums := g.numbers(s); len(nums) > 0 && g.r.IntN(4) > 0 {
		if depth > 0 && g.r.IntN(3) == 0 {
			return binary("+", g.scalar(s, depth-1), g.scalar(s, depth-1))
		}
		return column(s, nums[g.r.IntN(len(nums))])
	}
	return &expr.Literal{Value: g.r.Int64N(3), T: types.BigIntType.NotNull()}
}

// cond makes a condition over numbers and, now and then, over the columns of a window.
func (g *gen) cond(s types.Schema, depth int) expr.Expr {
	if depth > 0 && g.r.IntN(2) == 0 {
		return binary([]string{"AND", "OR"}[g.r.IntN(2)], g.cond(s, depth-1), g.cond(s, depth-1))
	}
	if i := s.Index("window_end"); i >= 0 && g.r.IntN(4) == 0 {
		return binary(">", column(s, i), &expr.Literal{Value: types.TS(60000, 0), T: types.TimestampType(3).NotNull()})
	}
	return binary([]string{"=", "<", ">", "<>"}[g.r.IntN(4)], g.scalar(s, 1), g.scalar(s, 1))
}

// project keeps most columns, in another order, and computes some.
func (g *gen) project(in logical.Node) logical.Node {
	s := in.Schema()
	p := &logical.Project{Input: in}
	for _, i := range g.r.Perm(s.Len()) {
		if g.r.IntN(5) > 0 {
			p.Exprs, p.Names = append(p.Exprs, column(s, i)), append(p.Names, s.Fields[i].Name)
		}
	}
	for i := range 1 + g.r.IntN(2) {
		p.Exprs, p.Names = append(p.Exprs, g.scalar(s, 2)), append(p.Names, fmt.Sprintf("x%d", i))
	}
	return p
}

// aggregate groups by some columns, and by the window if there is one, mostly.
func (g *gen) aggregate(in logical.Node) logical.Node {
	filter := &logical.Project{Input: in}
	s := in.Schema()
	for i, f := range s.Fields {
		filter.Exprs, filter.Names = append(filter.Exprs, column(s, i)), append(filter.Names, f.Name)
	}
	filter.Exprs, filter.Names = append(filter.Exprs, g.cond(s, 1)), append(filter.Names, "f")
	s = filter.Schema()
	a := &logical.Aggregate{Input: filter}
	for _, i := range g.numbers(s) {
		if g.r.IntN(3) == 0 {
			a.Keys = append(a.Keys, i)
		}
	}
	windowKeys := 0
	for _, name := range []string{"window_end", "window_start", "window_time"} {
		if i := s.Index(name); i >= 0 && g.r.IntN(8) > 0 {
			a.Keys = append(a.Keys, i)
			windowKeys++
		}
	}
	for i := range g.r.IntN(4) {
		a.Aggs = append(a.Aggs, g.call(s, i))
	}
	if len(a.Keys)+len(a.Aggs) == 0 {
		a.Aggs = append(a.Aggs, g.call(s, 9))
	}
	if g.r.IntN(3) == 0 {
		g.sets(a, windowKeys)
	}
	return a
}

func (g *gen) call(s types.Schema, nth int) plan.AggCall {
	a := plan.AggCall{Fn: "COUNT", Filter: -1, T: types.BigIntType, Name: fmt.Sprintf("g%d", nth)}
	if g.r.IntN(3) == 0 {
		a.Filter = s.Index("f")
	}
	if nums := g.numbers(s); len(nums) > 0 && g.r.IntN(4) > 0 {
		a.Fn = []string{"COUNT", "SUM", "MIN", "MAX"}[g.r.IntN(4)]
		a.Args = []int{nums[g.r.IntN(len(nums))]}
		a.Consts, a.ArgTypes = []*expr.Literal{nil}, []types.Type{types.BigIntType}
	} else if i := s.Index("window_start"); i >= 0 && g.r.IntN(6) == 0 {
		a.Fn, a.Args, a.T = "MAX", []int{i}, types.TimestampType(3)
		a.Consts, a.ArgTypes = []*expr.Literal{nil}, []types.Type{types.TimestampType(3)}
	}
	return a
}

// sets makes grouping sets, which mostly hold the window's columns, each set once: what Flink
// does with repeated ones is no property of SQL.
func (g *gen) sets(a *logical.Aggregate, windowKeys int) {
	for range 1 + g.r.IntN(3) {
		var set []int
		for k := range a.Keys {
			if k >= len(a.Keys)-windowKeys && g.r.IntN(10) > 0 || g.r.IntN(2) == 0 {
				set = append(set, k)
			}
		}
		if !slices.ContainsFunc(a.Sets, func(o []int) bool { return sameSet(o, set) }) {
			a.Sets = append(a.Sets, set)
		}
	}
	if len(a.Keys) > 0 && g.r.IntN(2) == 0 {
		a.GroupingIDs = [][]int{upTo(len(a.Keys)), nil}
	}
}

// render sorts the rows so that results can be compared as multisets.
func render(rows [][]any) string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = fmt.Sprint(r...)
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

func tree(n logical.Node, indent string) string {
	s := indent + fmt.Sprintf("%T", n)
	switch n := n.(type) {
	case *Calc:
		s = indent + fmt.Sprintf("Calc{%v | %v}", n.Exprs, n.Filter)
	case *WindowAgg:
		s = indent + fmt.Sprintf("WindowAgg{fused %v keys %v aggs %+v}", n.Window, n.Keys, n.Aggs)
		if n.Attached {
			s = strings.Replace(s, "fused", "attached", 1)
		}
	case *logical.Project:
		s = indent + fmt.Sprintf("Project{%v}", n.Exprs)
	case *logical.Filter:
		s = indent + fmt.Sprintf("Filter{%v}", n.Cond)
	case *logical.Aggregate:
		s = indent + fmt.Sprintf("Aggregate{keys %v sets %v ids %v aggs %+v}", n.Keys, n.Sets, n.GroupingIDs, n.Aggs)
	case *logical.Join:
		s = indent + fmt.Sprintf("Join{%s keys=%v %v %v on %v}", n.Kind, n.LeftKeys, n.RightKeys, n.NullSafe, n.Cond)
		s = strings.Replace(s, "keys=[] [] []", "no keys", 1)
	case *logical.WindowTVF:
		s = indent + fmt.Sprintf("WindowTVF{%+v}", n.Window)
	case *Expand:
		s = indent + fmt.Sprintf("Expand{%v}", n.Projects)
	}
	for _, in := range n.Inputs() {
		s += "\n" + tree(in, indent+"  ")
	}
	return s
}
