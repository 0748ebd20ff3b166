package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// join binds a join. Only sides of at most one row each can be joined yet, such as aggregates
// over all rows: that takes no join operator (see pair).
func (b *Binder) join(t *ast.Join, with *ctes) (*relation, error) {
	l, err := b.from(t.L, with)
	if err != nil {
		return nil, err
	}
	r, err := b.from(t.R, with)
	if err != nil {
		return nil, err
	}
	inner := t.Kind == ast.InnerJoin || t.Kind == ast.CrossJoin || t.Kind == ast.CommaJoin
	if !inner || t.Natural || t.Using != nil || !oneRowAtMost(l.node) || !oneRowAtMost(r.node) ||
		!haveOrder(l) || !haveOrder(r) {
		if t.Kind == ast.CommaJoin {
			return nil, unsupported(t.R.Pos(), "a second table in FROM (a join)")
		}
		return nil, unsupported(t.Span, "JOIN")
	}
	rel := b.pair(l, r, t)
	if t.On == nil {
		return rel, nil
	}
	s := &scope{b: b, rel: rel, clause: "ON"}
	cond, err := s.condition(t.On)
	if err != nil {
		return nil, err
	}
	return &relation{node: &logical.Filter{Input: rel.node, Cond: cond}, cols: rel.cols}, nil
}

// oneRowAtMost reports whether a relation can never hold two rows.
func oneRowAtMost(n logical.Node) bool {
	switch n := n.(type) {
	case *logical.Project:
		return oneRowAtMost(n.Input)
	case *logical.Filter:
		return oneRowAtMost(n.Input)
	case *logical.Values:
		return len(n.Rows) <= 1
	case *logical.Aggregate:
		return len(n.Keys) == 0 && n.Sets == nil && n.Window == nil
	}
	return false
}

// haveOrder reports whether MAX takes every column.
func haveOrder(r *relation) bool {
	for _, c := range r.cols {
		if c.typ.IsNested() || c.typ.Kind == types.Null {
			return false
		}
	}
	return true
}

// pair is the cross product of two relations of at most one row each. The rows of both are put
// one below the other, each with NULL in the other's columns and a mark of its own; MAX over all
// takes the one value of each column, and the marks tell whether both rows are there.
func (b *Binder) pair(l, r *relation, t *ast.Join) *relation {
	all := append(append([]column{}, l.cols...), r.cols...)
	top := &logical.Union{All: []logical.Node{
		padded(l, all, 0), padded(r, all, len(l.cols)),
	}}
	node := &logical.Aggregate{Input: top, Pos: pos(t.Span)}
	for i, c := range all {
		node.Aggs = append(node.Aggs, call("MAX", i, c.typ.AsNullable().WithoutAttr(), c.name))
	}
	for i, mark := range []string{"left$", "right$"} {
		node.Aggs = append(node.Aggs, call("COUNT", len(all)+i, types.BigIntType.NotNull(), mark))
	}
	both := &expr.Call{Fn: "AND", T: types.BooleanType.NotNull(),
		Args: []expr.Expr{present(len(all)), present(len(all) + 1)}}
	p := &logical.Project{Input: &logical.Filter{Input: node, Cond: both}}
	out := &relation{node: p}
	for i, c := range all {
		c.typ, c.win = c.typ.AsNullable().WithoutAttr(), notWindow
		out.cols = append(out.cols, c)
		p.Exprs = append(p.Exprs, &expr.Column{Index: i, Name: c.name, T: c.typ})
		p.Names = append(p.Names, c.name)
	}
	return out
}

// padded projects a side to all columns and two marks; its own columns start at first.
func padded(side *relation, all []column, first int) logical.Node {
	used := map[string]bool{}
	p := &logical.Project{Input: side.node}
	add := func(e expr.Expr, name string) {
		p.Exprs = append(p.Exprs, e)
		p.Names = append(p.Names, uniqueName(name, used))
	}
	for i, c := range all {
		t := c.typ.AsNullable().WithoutAttr()
		if k := i - first; k >= 0 && k < len(side.cols) {
			add(&expr.Column{Index: k, Name: c.name, T: t}, c.name)
		} else {
			add(&expr.Literal{T: t}, c.name)
		}
	}
	for i, mark := range []string{"left$", "right$"} {
		l := &expr.Literal{T: types.IntType}
		if (first > 0) == (i == 1) {
			l.Value = int64(1)
		}
		add(l, mark)
	}
	return p
}

func call(fn string, arg int, t types.Type, name string) plan.AggCall {
	from := t
	if fn == "COUNT" {
		from = types.IntType
	}
	return plan.AggCall{Fn: fn, Args: []int{arg}, Consts: []*expr.Literal{nil}, ArgTypes: []types.Type{from},
		Filter: -1, T: t, Name: name}
}

// present is: the count in column i is above 0.
func present(i int) expr.Expr {
	return &expr.Call{Fn: ">", T: types.BooleanType.NotNull(), Args: []expr.Expr{
		&expr.Column{Index: i, T: types.BigIntType.NotNull()},
		&expr.Literal{Value: int64(0), T: types.BigIntType.NotNull()}}}
}
