package opt

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

// Conjuncts splits e at AND; nil gives none.
func Conjuncts(e expr.Expr) []expr.Expr {
	if e == nil {
		return nil
	}
	if c, ok := e.(*expr.Call); ok && c.Fn == "AND" {
		var out []expr.Expr
		for _, a := range c.Args {
			out = append(out, Conjuncts(a)...)
		}
		return out
	}
	return []expr.Expr{e}
}

// And joins conditions, in order; no conditions give nil. Equal ones are kept once.
func And(es ...expr.Expr) expr.Expr {
	var out expr.Expr
	var seen []expr.Expr
next:
	for _, e := range es {
		if e == nil {
			continue
		}
		for _, s := range seen {
			if expr.Equal(s, e) && !Volatile(e) {
				continue next
			}
		}
		seen = append(seen, e)
		if out == nil {
			out = e
			continue
		}
		t := types.BooleanType.WithNullable(out.Type().Nullable || e.Type().Nullable)
		out = &expr.Call{Fn: "AND", Args: []expr.Expr{out, e}, T: t}
	}
	return out
}

// Volatile reports whether e may give another value when it is computed again.
func Volatile(e expr.Expr) bool {
	found := false
	expr.Walk(e, func(e expr.Expr) bool {
		if c, ok := e.(*expr.Call); ok {
			if f := expr.Lookup(c.Fn); f != nil && f.Volatile {
				found = true
			}
		}
		return !found
	})
	return found
}

// usesArrival reports whether e depends on when its row arrived, so that it cannot move over an
// operator that combines rows or makes others of them.
func usesArrival(e expr.Expr) bool {
	found := false
	expr.Walk(e, func(e expr.Expr) bool {
		if c, ok := e.(*expr.Call); ok && c.Fn == "CURRENT_WATERMARK" {
			found = true
		}
		return !found
	})
	return found
}

// computedAtUse reports whether a computed column must be computed where it is used: its value
// is the time of processing.
func computedAtUse(e expr.Expr) bool {
	found := false
	expr.Walk(e, func(e expr.Expr) bool {
		if c, ok := e.(*expr.Call); ok && (c.Fn == "PROCTIME" || strings.HasPrefix(c.Fn, "CURRENT_WATERMARK")) {
			found = true
		}
		return !found
	})
	return found
}

// substitute replaces the columns of e by exprs, the projection below.
func substitute(e expr.Expr, exprs []expr.Expr) expr.Expr {
	return expr.Map(e, func(e expr.Expr) expr.Expr {
		if c, ok := e.(*expr.Column); ok {
			return exprs[c.Index]
		}
		return e
	})
}

// Remap moves the columns of e to their new places.
func Remap(e expr.Expr, to []int) expr.Expr {
	if e == nil {
		return nil
	}
	return expr.Map(e, func(e expr.Expr) expr.Expr {
		c, ok := e.(*expr.Column)
		if !ok || to[c.Index] == c.Index {
			return e
		}
		if to[c.Index] < 0 {
			panic("BUG: expression reads a column that was pruned: " + c.String())
		}
		n := *c
		n.Index = to[c.Index]
		return &n
	})
}

// countUses adds to n how often e reads each column.
func countUses(e expr.Expr, n []int) {
	if e == nil {
		return
	}
	expr.Walk(e, func(e expr.Expr) bool {
		if c, ok := e.(*expr.Column); ok {
			n[c.Index]++
		}
		return true
	})
}

// reads reports whether e reads a column for which in is true.
func reads(e expr.Expr, in func(int) bool) bool {
	found := false
	if e == nil {
		return false
	}
	expr.Walk(e, func(e expr.Expr) bool {
		if c, ok := e.(*expr.Column); ok && in(c.Index) {
			found = true
		}
		return !found
	})
	return found
}

// isConst gives the value of a constant condition; NULL counts as false.
func isConst(e expr.Expr) (value, ok bool) {
	l, isLit := e.(*expr.Literal)
	if !isLit {
		return false, false
	}
	b, isBool := l.Value.(bool)
	return isBool && b, true
}
