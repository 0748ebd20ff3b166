package opt

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// push moves filters towards the sources. The result keeps those rows of n for which all conds
// (over n's columns) are true.
func (r *rewriter) push(n logical.Node, conds []expr.Expr) logical.Node {
	switch n := n.(type) {
	case *Calc:
		return r.pushCalc(n, conds)
	case *logical.Union:
		u := &logical.Union{}
		for _, in := range n.All {
			u.All = append(u.All, r.push(in, conds))
		}
		return u
	case *logical.RowNumber:
		return r.pushRowNumber(n, conds)
	case *logical.Join:
		return r.pushJoin(n, conds)
	case *logical.WindowTVF:
		width := n.Input.Schema().Len()
		below, above := split(conds, func(c expr.Expr) bool {
			return movable(c) && !reads(c, func(i int) bool { return i >= width }) && keepsSessions(n, c)
		})
		t := *n
		t.Input = r.push(n.Input, below)
		return filtered(&t, above)
	case *logical.Aggregate:
		below, above := split(conds, func(c expr.Expr) bool { return movable(c) && belowAggregate(n, c) })
		for i, c := range below {
			below[i] = Remap(c, n.Keys)
		}
		a := *n
		a.Input = r.push(n.Input, below)
		return filtered(&a, above)
	case *logical.Sort:
		if n.Limit < 0 && n.Offset <= 0 {
			s := *n
			s.Input = r.push(n.Input, conds)
			return &s
		}
	}
	return filtered(mapInputs(n, func(in logical.Node) logical.Node { return r.push(in, nil) }), conds)
}

func filtered(n logical.Node, conds []expr.Expr) logical.Node {
	if len(conds) == 0 {
		return n
	}
	return filterCalc(n, And(conds...))
}

func split(conds []expr.Expr, below func(expr.Expr) bool) (yes, no []expr.Expr) {
	for _, c := range conds {
		if below(c) {
			yes = append(yes, c)
		} else {
			no = append(no, c)
		}
	}
	return yes, no
}

// movable reports whether a condition may be judged on other rows than those it was written for.
func movable(c expr.Expr) bool { return !Volatile(c) && !usesArrival(c) }

// pushCalc pushes the conditions that are asked of c, and c's own, through its input.
func (r *rewriter) pushCalc(c *Calc, conds []expr.Expr) logical.Node {
	through, above := split(conds, func(e expr.Expr) bool {
		return !reads(e, func(i int) bool { return Volatile(c.Exprs[i]) })
	})
	own := Conjuncts(c.Filter)
	for _, e := range through {
		own = append(own, substitute(e, c.Exprs))
	}
	// A condition behind a volatile one stays behind it: which rows the volatile one sees would
	// change otherwise.
	var below, here []expr.Expr
	for i, e := range own {
		if !movable(e) && Volatile(e) {
			here = append(here, own[i:]...)
			break
		}
		if movable(e) {
			below = append(below, e)
		} else {
			here = append(here, e)
		}
	}
	out := &Calc{Exprs: c.Exprs, Names: c.Names}
	in := r.push(c.Input, below)
	// What could not go deeper came back as a Calc that only filters: take it in again.
	if f, ok := in.(*Calc); ok && isIdentityProjection(f) {
		out.Input, out.Filter = f.Input, And(append(Conjuncts(f.Filter), here...)...)
	} else {
		out.Input, out.Filter = in, And(here...)
	}
	return filtered(out, above)
}

func isIdentityProjection(c *Calc) bool {
	return isIdentity(&Calc{Input: c.Input, Exprs: c.Exprs, Names: c.Names})
}

// keepsSessions reports whether c may go below a window function. Taking away some rows of a
// session changes the session, so only whole partitions can go.
func keepsSessions(n *logical.WindowTVF, c expr.Expr) bool {
	if n.Window.Kind != plan.Session {
		return true
	}
	part := map[int]bool{}
	for _, k := range n.Window.PartitionKeys {
		part[k] = true
	}
	return !reads(c, func(i int) bool { return !part[i] })
}

// belowAggregate reports whether c reads only keys that are in every grouping set, and there is
// such a key: an aggregation without keys makes a row of no rows. Conditions on windows stay
// above, where the aggregation and the window function can still be fused.
func belowAggregate(n *logical.Aggregate, c expr.Expr) bool {
	if len(n.Keys) == 0 {
		return false
	}
	ok := all(len(n.Keys))
	for _, set := range n.Sets {
		in := make([]bool, len(n.Keys))
		for _, k := range set {
			in[k] = true
		}
		for k := range ok {
			ok[k] = ok[k] && in[k]
		}
	}
	if w := windowOf(n.Input); w != nil {
		for i, k := range n.Keys {
			ok[i] = ok[i] && !w.has(k)
		}
	}
	found := false
	other := reads(c, func(i int) bool {
		found = true
		return i >= len(n.Keys) || !ok[i]
	})
	return found && !other
}
