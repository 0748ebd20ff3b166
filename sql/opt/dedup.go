package opt

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// Dedup keeps of the rows of each key the first by time, or the last.
type Dedup struct {
	Input logical.Node
	Keys  []int
	Order int // a time attribute
	Last  bool
	Pos   expr.Pos
}

// Schema implements logical.Node.
func (n *Dedup) Schema() types.Schema { return n.Input.Schema() }

// Inputs implements logical.Node.
func (n *Dedup) Inputs() []logical.Node { return []logical.Node{n.Input} }

// pushRowNumber makes a Dedup of ROW_NUMBER() = 1. Conditions on nothing but the keys go below: they take
// away whole keys.
func (r *rewriter) pushRowNumber(n *logical.RowNumber, conds []expr.Expr) logical.Node {
	number := n.Input.Schema().Len()
	below, above := split(conds, func(c expr.Expr) bool {
		return movable(c) && len(n.Keys) > 0 && !reads(c, func(i int) bool { return !slices.Contains(n.Keys, i) })
	})
	first := false
	above = slices.DeleteFunc(slices.Clone(above), func(c expr.Expr) bool {
		is := isFirst(c, number)
		first = first || is
		return is
	})
	in := r.push(n.Input, below)
	if !first {
		t := *n
		t.Input = in
		return filtered(&t, above)
	}
	d := &Dedup{Input: in, Keys: n.Keys, Order: n.Order, Last: n.Desc, Pos: n.Pos}
	s := n.Schema()
	c := &Calc{Input: d}
	for i := range number {
		c.Exprs, c.Names = append(c.Exprs, expr.Expr(column(s, i))), append(c.Names, s.Fields[i].Name)
	}
	c.Exprs = append(c.Exprs, &expr.Literal{Value: int64(1), T: types.BigIntType.NotNull()})
	c.Names = append(c.Names, s.Fields[number].Name)
	return filtered(c, above)
}

// isFirst reports whether c says that column number, which counts from 1, is 1.
func isFirst(c expr.Expr, number int) bool {
	call, ok := c.(*expr.Call)
	if !ok || len(call.Args) != 2 {
		return false
	}
	a, b, fn := call.Args[0], call.Args[1], call.Fn
	if _, ok := a.(*expr.Literal); ok {
		a, b = b, a
		fn = map[string]string{"=": "=", ">=": "<=", ">": "<"}[fn]
	}
	if cast, ok := a.(*expr.Call); ok && cast.Fn == "CAST" {
		a = cast.Args[0]
	}
	col, ok := a.(*expr.Column)
	l, ok2 := b.(*expr.Literal)
	if !ok || !ok2 || col.Index != number || !l.T.IsInteger() {
		return false
	}
	v, _ := l.Value.(int64)
	return fn == "=" && v == 1 || fn == "<=" && v == 1 || fn == "<" && v == 2
}
