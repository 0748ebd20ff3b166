package opt

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// adoptNames gives the aggregates below c, which the binder numbered, the names that c gives them,
// so that plans and the schemas of state read as the query does.
func adoptNames(c *Calc) *Calc {
	taken := c.Input.Schema().Names()
	rename := func(at int, name string) string {
		for i, e := range c.Exprs {
			col, ok := e.(*expr.Column)
			if ok && col.Index == at && strings.Contains(name, "$") && !slices.Contains(taken, c.Names[i]) {
				taken = append(taken, c.Names[i])
				return c.Names[i]
			}
		}
		return name
	}
	calls := func(aggs []plan.AggCall, base int) []plan.AggCall {
		out := slices.Clone(aggs)
		for i := range out {
			out[i].Name = rename(base+i, out[i].Name)
		}
		return out
	}
	var in logical.Node
	switch n := c.Input.(type) {
	case *logical.Aggregate:
		a := *n
		a.Aggs = calls(n.Aggs, len(n.Keys))
		in = &a
	case *WindowAgg:
		a := *n
		a.Aggs = calls(n.Aggs, len(n.Keys))
		a.PropNames = slices.Clone(n.PropNames)
		for i := range a.PropNames {
			a.PropNames[i] = rename(len(n.Keys)+len(n.Aggs)+i, n.PropNames[i])
		}
		in = &a
	default:
		return c
	}
	out := &Calc{Input: in, Names: c.Names, Filter: renamed(c.Filter, in)}
	for _, e := range c.Exprs {
		out.Exprs = append(out.Exprs, renamed(e, in))
	}
	return out
}

// renamed gives the columns of e the names that they have in n.
func renamed(e expr.Expr, n logical.Node) expr.Expr {
	if e == nil {
		return nil
	}
	s := n.Schema()
	return expr.Map(e, func(e expr.Expr) expr.Expr {
		if c, ok := e.(*expr.Column); ok && c.Name != s.Fields[c.Index].Name {
			return &expr.Column{Index: c.Index, Name: s.Fields[c.Index].Name, T: c.T}
		}
		return e
	})
}
