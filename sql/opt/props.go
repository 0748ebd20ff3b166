package opt

import (
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// WindowColumns are the columns of a relation that hold the start and the end of the window that each row
// belongs to.
type WindowColumns struct {
	Window     plan.Window
	Start, End []int
}

// Windows returns the window columns of an optimised tree; none where its rows belong to no windows.
func Windows(n logical.Node) WindowColumns {
	w := windowOf(n)
	if w == nil {
		return WindowColumns{}
	}
	return WindowColumns{Window: w.window, Start: w.start, End: w.end}
}

// WithProp returns the tree n with a column more, behind the others: the property p of the window aggregation that n
// is, as far as projections and filters. Without one it returns n and -1.
func WithProp(n logical.Node, p plan.WindowProp) (logical.Node, int) {
	switch n := n.(type) {
	case *WindowAgg:
		a := *n
		a.Props = append(slices.Clone(n.Props), p)
		a.PropNames = append(slices.Clone(n.PropNames), fmt.Sprintf("$%s", [...]string{plan.WindowStart: "start",
			plan.WindowEnd: "end", plan.WindowTime: "time", plan.WindowProcTime: "proctime", plan.WindowReason: "reason",
			plan.WindowCount: "count", plan.WindowCause: "cause"}[p]))
		return &a, len(a.Keys) + len(a.Aggs) + len(a.Props) - 1
	case *Calc:
		in, at := WithProp(n.Input, p)
		if at < 0 {
			return n, -1
		}
		col := column(in.Schema(), at)
		c := &Calc{Input: in, Filter: n.Filter, Exprs: append(slices.Clone(n.Exprs), expr.Expr(col)), Names: append(slices.Clone(n.Names), col.Name)}
		return c, len(c.Exprs) - 1
	}
	return n, -1
}
