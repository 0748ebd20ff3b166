package opt

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// windowCols tells which columns of a relation are the properties of the window that each row
// belongs to. They come from a window function or a window aggregation and survive projections
// and filters.
type windowCols struct {
	window           plan.Window
	start, end, time []int
}

func (w *windowCols) has(c int) bool {
	return slices.Contains(w.start, c) || slices.Contains(w.end, c) || slices.Contains(w.time, c)
}

// props lists the properties in use and the column of each.
func (w *windowCols) prop(c int) plan.WindowProp {
	switch {
	case slices.Contains(w.start, c):
		return plan.WindowStart
	case slices.Contains(w.end, c):
		return plan.WindowEnd
	case w.window.ProcTime:
		return plan.WindowProcTime
	}
	return plan.WindowTime
}

// windowOf returns the window properties of n, or nil.
func windowOf(n logical.Node) *windowCols {
	switch n := n.(type) {
	case *logical.WindowTVF:
		at := n.Input.Schema().Len()
		return &windowCols{window: n.Window, start: []int{at}, end: []int{at + 1}, time: []int{at + 2}}
	case *WindowAgg:
		w := &windowCols{window: n.Window}
		for i, p := range n.Props {
			c := len(n.Keys) + len(n.Aggs) + i
			switch p {
			case plan.WindowStart:
				w.start = append(w.start, c)
			case plan.WindowEnd:
				w.end = append(w.end, c)
			default:
				w.time = append(w.time, c)
			}
		}
		return w
	case *Calc:
		return windowOf(n.Input).project(n.Exprs)
	case *logical.Sort:
		return windowOf(n.Input)
	case *logical.Aggregate:
		// Before lowering: the keys of an aggregation per window.
		if n.Window != nil || !perWindow(n) {
			return nil
		}
		w := windowOf(n.Input)
		keys := make([]expr.Expr, len(n.Keys))
		s := n.Input.Schema()
		for i, k := range n.Keys {
			keys[i] = column(s, k)
		}
		return w.project(keys)
	}
	return nil
}

func (w *windowCols) project(exprs []expr.Expr) *windowCols {
	if w == nil {
		return nil
	}
	out := &windowCols{window: w.window}
	for i, e := range exprs {
		c, ok := e.(*expr.Column)
		switch {
		case !ok:
		case slices.Contains(w.start, c.Index):
			out.start = append(out.start, i)
		case slices.Contains(w.end, c.Index):
			out.end = append(out.end, i)
		case slices.Contains(w.time, c.Index):
			out.time = append(out.time, i)
		}
	}
	if out.start == nil && out.end == nil && out.time == nil {
		return nil
	}
	return out
}

// perWindow reports whether n groups by the start and the end of its input's windows, in every
// grouping set: Flink's condition for an aggregation that emits a window once, when it is over.
// Grouping by one of them alone is an ordinary, updating aggregation.
func perWindow(n *logical.Aggregate) bool {
	w := windowOf(n.Input)
	if w == nil {
		return false
	}
	has := func(set []int) bool {
		start, end := false, false
		for _, k := range set {
			start = start || slices.Contains(w.start, n.Keys[k])
			end = end || slices.Contains(w.end, n.Keys[k])
		}
		return start && end
	}
	if n.Sets == nil {
		return has(upTo(len(n.Keys)))
	}
	for _, s := range n.Sets {
		if !has(s) {
			return false
		}
	}
	return true
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// windowAggregate makes a WindowAgg of n, which has one grouping set, for the windows w of its
// input. A Calc above restores n's columns.
func windowAggregate(n *logical.Aggregate, w *windowCols) logical.Node {
	a := &WindowAgg{Input: n.Input, Window: w.window, Attached: true, Aggs: n.Aggs, Emit: n.Emit, Late: n.Late, Pos: n.Pos,
		StartCol: w.start[0], EndCol: w.end[0]}
	a.Window.TimeCol = -1
	place := make([]int, len(n.Keys)) // of each key in a's output; properties counted from 0
	isProp := make([]bool, len(n.Keys))
	for i, k := range n.Keys {
		if !w.has(k) {
			place[i] = len(a.Keys)
			a.Keys = append(a.Keys, k)
			continue
		}
		isProp[i] = true
		p := w.prop(k)
		place[i] = slices.Index(a.Props, p)
		if place[i] < 0 {
			place[i] = len(a.Props)
			a.Props = append(a.Props, p)
			a.PropNames = append(a.PropNames, propName(p))
		}
	}
	a.Window.PartitionKeys = a.Keys
	var below logical.Node = a
	if f := fuse(a, n.Input); f != nil {
		below = f
	}
	return restore(n, below, len(a.Keys), place, isProp)
}

func propName(p plan.WindowProp) string {
	return [...]string{"window_start", "window_end", "window_time", "window_time"}[p]
}

// restore puts the columns of a window aggregation into the order of the aggregation n.
func restore(n *logical.Aggregate, a logical.Node, keys int, place []int, isProp []bool) logical.Node {
	out := &Calc{Input: a}
	s, want := a.Schema(), n.Schema()
	for i := range n.Keys {
		c := place[i]
		if isProp[i] {
			c += keys + len(n.Aggs)
		}
		col := column(s, c)
		out.Exprs = append(out.Exprs, col)
	}
	for i := range n.Aggs {
		out.Exprs = append(out.Exprs, column(s, keys+i))
	}
	for i := range out.Exprs {
		out.Names = append(out.Names, want.Fields[i].Name)
	}
	return out
}

// fuse takes the window function below a, if there is one right below a or below a Calc that
// only passes on the window's columns, into a. It returns nil where a must read the columns.
func fuse(a *WindowAgg, in logical.Node) *WindowAgg {
	calc, _ := in.(*Calc)
	if calc == nil {
		calc = filterCalc(in, nil)
	}
	tvf, ok := calc.Input.(*logical.WindowTVF)
	if !ok {
		return nil
	}
	width := tvf.Input.Schema().Len()
	window := func(i int) bool { return i >= width }
	if reads(calc.Filter, window) {
		return nil
	}
	isWindow := make([]bool, len(calc.Exprs))
	for i, e := range calc.Exprs {
		isWindow[i] = reads(e, window)
		if _, plain := e.(*expr.Column); isWindow[i] && !plain {
			return nil
		}
	}
	for _, g := range a.Aggs {
		if slices.ContainsFunc(g.Args, func(c int) bool { return c >= 0 && isWindow[c] }) ||
			g.Filter >= 0 && isWindow[g.Filter] {
			return nil
		}
	}
	if a.Late != nil && slices.ContainsFunc(a.Late.Cols, func(c int) bool { return isWindow[c] }) {
		return nil
	}
	if tvf.Window.Kind == plan.Session && !samePartition(tvf, calc, a.Keys) {
		return nil
	}
	// The Calc moves below: without the window's columns, with the time attribute.
	f, c := *a, &Calc{Input: tvf.Input, Filter: calc.Filter}
	to := make([]int, len(calc.Exprs))
	for i, e := range calc.Exprs {
		to[i] = -1
		if !isWindow[i] {
			to[i] = len(c.Exprs)
			c.Exprs, c.Names = append(c.Exprs, e), append(c.Names, calc.Names[i])
		}
	}
	f.Input, f.Attached, f.StartCol, f.EndCol = c, false, 0, 0
	f.Window = tvf.Window
	f.Window.TimeCol = -1
	if !tvf.Window.ProcTime {
		f.Window.TimeCol = columnIn(c, tvf.Input, tvf.Window.TimeCol)
	}
	f.Keys = remapAll(a.Keys, to)
	f.Window.PartitionKeys = f.Keys
	f.Aggs = remapAggs(a.Aggs, to)
	f.Late = a.Late.Remap(to)
	return &f
}

// columnIn returns the place of input column col in c's projection, adding it if need be.
func columnIn(c *Calc, in logical.Node, col int) int {
	for i, e := range c.Exprs {
		if x, ok := e.(*expr.Column); ok && x.Index == col {
			return i
		}
	}
	e := column(in.Schema(), col)
	c.Exprs, c.Names = append(c.Exprs, e), append(c.Names, e.Name)
	return len(c.Exprs) - 1
}

// samePartition reports whether the aggregation's keys are the partition of the sessions:
// otherwise its groups cut across sessions.
func samePartition(tvf *logical.WindowTVF, calc *Calc, keys []int) bool {
	var cols []int
	for _, k := range keys {
		c, ok := calc.Exprs[k].(*expr.Column)
		if !ok {
			return false
		}
		if !slices.Contains(cols, c.Index) {
			cols = append(cols, c.Index)
		}
	}
	part := slices.Clone(tvf.Window.PartitionKeys)
	slices.Sort(part)
	slices.Sort(cols)
	return slices.Equal(slices.Compact(part), cols)
}

func remapAll(cols, to []int) []int {
	out := make([]int, len(cols))
	for i, c := range cols {
		out[i] = to[c]
	}
	return out
}

func remapAggs(aggs []plan.AggCall, to []int) []plan.AggCall {
	out := slices.Clone(aggs)
	for i := range out {
		out[i].Args = slices.Clone(out[i].Args)
		for k, c := range out[i].Args {
			if c >= 0 {
				out[i].Args[k] = to[c]
			}
		}
		if f := out[i].Filter; f >= 0 {
			out[i].Filter = to[f]
		}
	}
	return out
}
