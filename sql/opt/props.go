package opt

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
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

// propColumn are the names of columns with a property, by plan.WindowProp.
var propColumn = [...]string{plan.WindowStart: "$start", plan.WindowEnd: "$end", plan.WindowTime: "$time", plan.WindowProcTime: "$proctime",
	plan.WindowReason: "$reason", plan.WindowCount: "$count", plan.WindowCause: "$cause"}

// WithProp returns the tree n with a column more, behind the others: the property p of the window aggregation that the
// rows come from, as far as what lies between passes it on. Where that is not known it returns n and -1.
//
//   - Projections and filters pass on everything.
//   - What keeps rows as they are, UNION ALL and the choice of one row of each key, passes on how an emission came about.
//   - The records that made an emission are known of aggregations of records.
//   - The number of rows goes through a join with something that is no result of windows, and an aggregation of
//     results has the sum of theirs.
func WithProp(n logical.Node, p plan.WindowProp) (logical.Node, int) {
	switch n := n.(type) {
	case *WindowAgg:
		if p == plan.WindowCount {
			if out, at, ok := sumOfCounts(n); ok {
				return out, at
			}
		}
		if p == plan.WindowCause && !ofRecords(n.Input) {
			return n, -1
		}
		a := *n
		a.Props = append(slices.Clone(n.Props), p)
		a.PropNames = append(slices.Clone(n.PropNames), propColumn[p])
		return &a, len(a.Keys) + len(a.Aggs) + len(a.Props) - 1
	case *Calc:
		in, at := WithProp(n.Input, p)
		if at < 0 {
			return n, -1
		}
		col := column(in.Schema(), at)
		c := &Calc{Input: in, Filter: n.Filter, Exprs: append(slices.Clone(n.Exprs), expr.Expr(col)), Names: append(slices.Clone(n.Names), col.Name)}
		return c, len(c.Exprs) - 1
	case *Dedup:
		if in, at := WithProp(n.Input, p); at >= 0 && p >= plan.WindowReason {
			d := *n
			d.Input = in
			return &d, at
		}
	case *logical.Union:
		if p >= plan.WindowReason {
			return unionWith(n, p)
		}
	case *logical.Aggregate:
		if p == plan.WindowCount {
			return groupsWithCount(n)
		}
	case *logical.Join:
		if p == plan.WindowCount {
			return joinWithCount(n)
		}
	}
	return n, -1
}

// unionWith passes p on from all inputs that have it; rows of the others are updates, of an unknown number of rows.
func unionWith(n *logical.Union, p plan.WindowProp) (logical.Node, int) {
	out := &logical.Union{}
	known := false
	width := n.Schema().Len()
	for _, x := range n.All {
		in, at := WithProp(x, p)
		if at >= 0 {
			known = true
		} else {
			c := filterCalc(x, nil)
			none := &expr.Literal{T: types.StringType}
			switch p {
			case plan.WindowReason:
				none = &expr.Literal{Value: plan.ReasonUpdate, T: types.StringType.NotNull()}
			case plan.WindowCount:
				none.T = types.BigIntType
			}
			c.Exprs, c.Names, in = append(c.Exprs, none), append(c.Names, propColumn[p]), c
		}
		out.All = append(out.All, in)
	}
	if !known {
		return n, -1
	}
	return out, width
}

// counted returns in with the number of rows that each row is made of, where that is known of all of them.
func counted(in logical.Node) (logical.Node, int) {
	out, at := WithProp(in, plan.WindowCount)
	if at < 0 || out.Schema().Fields[at].Type.Nullable {
		return in, -1
	}
	return out, at
}

func sumOf(s types.Schema, at int) plan.AggCall {
	t := types.BigIntType.NotNull()
	return plan.AggCall{Fn: "SUM0", Args: []int{at}, Consts: []*expr.Literal{nil}, ArgTypes: []types.Type{s.Fields[at].Type}, Filter: -1, T: t, Name: propColumn[plan.WindowCount]}
}

// sumOfCounts is WithProp for a window aggregation of results of windows. ok is false where it aggregates others.
func sumOfCounts(n *WindowAgg) (out logical.Node, at int, ok bool) {
	if !ofWindows(n.Input) {
		return nil, -1, false
	}
	in, col := counted(n.Input)
	if col < 0 {
		return n, -1, true
	}
	a := *n
	a.Input = in
	a.Aggs = append(slices.Clone(n.Aggs), sumOf(in.Schema(), col))
	// The sum lies before the properties.
	c := filterCalc(&a, nil)
	at = len(a.Keys) + len(n.Aggs)
	c.Exprs = append(slices.Delete(c.Exprs, at, at+1), column(a.Schema(), at))
	c.Names = append(slices.Delete(c.Names, at, at+1), propColumn[plan.WindowCount])
	return c, len(c.Exprs) - 1, true
}

// ofWindows reports whether rows of n are, at least some of them, results of window aggregations.
func ofWindows(n logical.Node) bool {
	if _, ok := n.(*WindowAgg); ok {
		return true
	}
	return slices.ContainsFunc(n.Inputs(), ofWindows)
}

// ofRecords reports whether each row of n comes from one record of a source.
func ofRecords(n logical.Node) bool {
	switch n := n.(type) {
	case *Read:
		return true
	case *Calc, *Expand, *Dedup, *logical.Union, *logical.WindowTVF:
		return !slices.ContainsFunc(n.Inputs(), func(in logical.Node) bool { return !ofRecords(in) })
	}
	return false
}

// groupsWithCount is WithProp for an aggregation that is not of windows. One without aggregates shows its rows once,
// and goes on to.
func groupsWithCount(n *logical.Aggregate) (logical.Node, int) {
	if len(n.Aggs) == 0 || n.Sets != nil || n.GroupingIDs != nil || n.Window != nil {
		return n, -1
	}
	in, col := counted(n.Input)
	if col < 0 {
		return n, -1
	}
	a := *n
	a.Input = in
	a.Aggs = append(slices.Clone(n.Aggs), sumOf(in.Schema(), col))
	return &a, len(a.Keys) + len(a.Aggs) - 1
}

// joinWithCount is WithProp for a join of which one side has results of windows, none of them padded.
func joinWithCount(n *logical.Join) (logical.Node, int) {
	l, atL := counted(n.L)
	r, atR := counted(n.R)
	j := *n
	width := n.L.Schema().Len()
	switch {
	case atL >= 0 && !ofWindows(n.R) && (n.Kind == plan.InnerJoin || n.Kind == plan.LeftJoin):
		j.L = l
		j.Cond = expr.Map(n.Cond, func(e expr.Expr) expr.Expr {
			if c, ok := e.(*expr.Column); ok && c.Index >= width {
				return &expr.Column{Index: c.Index + 1, Name: c.Name, T: c.T}
			}
			return e
		})
		c := filterCalc(&j, nil)
		last := c.Exprs[width]
		c.Exprs = append(slices.Delete(c.Exprs, width, width+1), last)
		c.Names = append(slices.Delete(c.Names, width, width+1), propColumn[plan.WindowCount])
		return c, len(c.Exprs) - 1
	case atR >= 0 && !ofWindows(n.L) && (n.Kind == plan.InnerJoin || n.Kind == plan.RightJoin):
		j.R = r
		return &j, width + atR
	}
	return n, -1
}
