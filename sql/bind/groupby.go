package bind

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/types"
)

// maxSets bounds the grouping sets of a query: CUBE doubles them with every column.
const maxSets = 4096

// groupBy binds a GROUP BY clause.
func (b *Binder) groupBy(rel *relation, g *ast.GroupBy, items []*ast.SelectItem) (*aggregator, error) {
	a := &aggregator{b: b, input: rel, explicit: true, at: g.Span}
	s := &scope{b: b, rel: rel, clause: "GROUP BY"}
	sets := [][]int{{}}
	multiple := false
	for _, item := range g.Items {
		if fn, call := windowItem(item); call != nil {
			if err := s.groupWindow(a, fn, call); err != nil {
				return nil, err
			}
			continue
		}
		multiple = multiple || item.Kind >= ast.GroupSets
		more, err := s.groupItem(a, item, items)
		if err != nil {
			return nil, err
		}
		if len(sets)*len(more) > maxSets {
			return nil, errAt(g.Span, "GROUP BY makes more than %d grouping sets", maxSets)
		}
		sets = product(sets, more)
	}
	if g.Distinct {
		sets = distinctSets(sets)
	}
	all := len(sets) == 1 && len(sets[0]) == len(a.keys)
	if multiple && !all {
		a.sets = sets
	}
	if len(a.keys) == 0 && a.sets == nil && a.window == nil {
		a.explicit = false // GROUP BY (): all rows
	}
	return a, nil
}

// windowItem returns the call of an old group window function.
func windowItem(item *ast.GroupItem) (string, *ast.FuncCall) {
	if item.Kind != ast.GroupExpr {
		return "", nil
	}
	c, ok := item.Expr.(*ast.FuncCall)
	if !ok || !windowCalls[c.Name.Upper()] {
		return "", nil
	}
	return c.Name.Upper(), c
}

// groupItem returns the grouping sets that an item alone would make.
func (s *scope) groupItem(a *aggregator, item *ast.GroupItem, items []*ast.SelectItem) ([][]int, error) {
	switch item.Kind {
	case ast.GroupExpr:
		return s.groupKeys(a, []ast.Expr{item.Expr}, items)
	case ast.GroupList:
		return s.groupKeys(a, item.Exprs, items)
	case ast.GroupSets:
		var out [][]int
		for _, sub := range item.Items {
			sets, err := s.groupItem(a, sub, items)
			if err != nil {
				return nil, err
			}
			out = append(out, sets...)
		}
		return out, nil
	}
	var parts [][]int
	for _, sub := range item.Items {
		if sub.Kind >= ast.GroupSets {
			return nil, errAt(sub.Span, "ROLLUP and CUBE hold expressions only").
				WithHint("combine them in GROUPING SETS (...)")
		}
		sets, err := s.groupItem(a, sub, items)
		if err != nil {
			return nil, err
		}
		parts = append(parts, sets[0])
	}
	if item.Kind == ast.GroupRollup {
		return rollup(parts), nil
	}
	if len(parts) > 12 {
		return nil, errAt(item.Span, "CUBE of %d columns makes more than %d grouping sets", len(parts), maxSets)
	}
	return cube(parts), nil
}

// groupKeys binds keys that are grouped by together.
func (s *scope) groupKeys(a *aggregator, es []ast.Expr, items []*ast.SelectItem) ([][]int, error) {
	set := []int{}
	for _, e := range es {
		k, err := s.item(e)
		if err != nil {
			return nil, s.aliasHint(err, e, items)
		}
		if k.Type().Kind == types.Multiset {
			return nil, errAt(e.Pos(), "GROUP BY cannot compare %s", k.Type().AsNullable())
		}
		if i := a.addKey(k, e.Pos()); !slices.Contains(set, i) {
			set = append(set, i)
		}
	}
	return [][]int{set}, nil
}

// aliasHint explains that GROUP BY does not know the aliases of the select list.
func (s *scope) aliasHint(err error, e ast.Expr, items []*ast.SelectItem) error {
	n, ok := e.(*ast.Name)
	if !ok || len(n.Parts) > 1 || len(s.rel.find(nil, n.Parts[0].Name)) > 0 {
		return err
	}
	for _, it := range items {
		if it.Alias != nil && it.Alias.Name == n.Parts[0].Name {
			return errAt(n.Span, "unknown column %s", n.Parts[0].Name).
				WithDetail("%s is an alias of the select list, which GROUP BY does not see.", n.Parts[0].Name).
				WithHint("write GROUP BY %s", ast.Format(it.Expr))
		}
	}
	return err
}

// product combines the grouping sets of two items.
func product(x, y [][]int) [][]int {
	var out [][]int
	for _, a := range x {
		for _, b := range y {
			out = append(out, union(a, b))
		}
	}
	return out
}

func union(a, b []int) []int {
	out := slices.Clone(a)
	for _, k := range b {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// rollup is (a, b, c), (a, b), (a), ().
func rollup(parts [][]int) [][]int {
	var out [][]int
	for n := len(parts); n >= 0; n-- {
		set := []int{}
		for _, p := range parts[:n] {
			set = union(set, p)
		}
		out = append(out, set)
	}
	return out
}

// cube is every subset of the parts, the full one first.
func cube(parts [][]int) [][]int {
	var out [][]int
	for mask := 1<<len(parts) - 1; mask >= 0; mask-- {
		set := []int{}
		for i, p := range parts {
			if mask&(1<<(len(parts)-1-i)) != 0 {
				set = union(set, p)
			}
		}
		out = append(out, set)
	}
	return out
}

func distinctSets(sets [][]int) [][]int {
	var out [][]int
	for _, s := range sets {
		if !slices.ContainsFunc(out, func(o []int) bool { return slices.Equal(o, s) }) {
			out = append(out, s)
		}
	}
	return out
}

// groupingCall binds GROUPING, GROUPING_ID and GROUP_ID.
func (s *scope) groupingCall(fn string, e *ast.FuncCall) (expr.Expr, error) {
	if s.aggs == nil || !s.aggs.explicit {
		return nil, errAt(e.Span, "%s needs a GROUP BY", fn).
			WithHint("it tells the rows of GROUPING SETS, ROLLUP and CUBE apart")
	}
	if (fn == "GROUP_ID") != (len(e.Args) == 0) {
		return nil, errAt(e.Span, "wrong number of arguments of %s", fn).
			WithHint("write GROUP_ID(), GROUPING(a, b) or GROUPING_ID(a, b)")
	}
	var ids []int
	if fn != "GROUP_ID" {
		ids = []int{}
	}
	in := &scope{b: s.b, rel: s.aggs.input, clause: fn, inAggregate: fn}
	for _, arg := range e.Args {
		x, err := in.bind(arg)
		if err != nil {
			return nil, err
		}
		k := s.aggs.key(x)
		if k < 0 {
			return nil, errAt(arg.Pos(), "%s: %s is not grouped by", fn, ast.Format(arg)).
				WithHint("its arguments are expressions of GROUP BY")
		}
		ids = append(ids, k)
	}
	if s.aggs.sets == nil {
		return &expr.Literal{Value: int64(0), T: types.BigIntType.NotNull()}, nil
	}
	at := slices.IndexFunc(s.aggs.groupings, func(o []int) bool {
		return (o == nil) == (ids == nil) && slices.Equal(o, ids)
	})
	if at < 0 {
		at = len(s.aggs.groupings)
		s.aggs.groupings = append(s.aggs.groupings, ids)
	}
	return &expr.Column{Index: groupingBase + at, Name: fn, T: types.BigIntType.NotNull()}, nil
}
