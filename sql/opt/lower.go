package opt

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// lower turns aggregations into what runs: grouping sets into an Expand, aggregations per window
// into WindowAggs.
func (r *rewriter) lower(n logical.Node) logical.Node {
	n = mapInputs(n, r.lower)
	if c, ok := n.(*Calc); ok {
		return r.calc(c) // an aggregation below may have become a Calc
	}
	if j, ok := n.(*logical.Join); ok {
		return r.joinKeys(j)
	}
	a, ok := n.(*logical.Aggregate)
	if !ok {
		return n
	}
	if c, ok := a.Input.(*Calc); ok { // the same: windows are fused through one Calc
		b := *a
		b.Input = r.calc(c)
		a = &b
	}
	if a.Sets == nil && a.GroupingIDs != nil { // GROUPING of a plain GROUP BY is 0
		b := *a
		b.Sets = [][]int{upTo(len(a.Keys))}
		a = &b
	}
	switch {
	case len(a.Sets) == 1:
		return r.oneSet(a)
	case a.Sets != nil:
		return r.expandSets(a)
	}
	return r.aggregate(a)
}

// aggregate lowers an aggregation of one grouping set.
func (r *rewriter) aggregate(a *logical.Aggregate) logical.Node {
	a = r.countRows(a)
	if a.Window != nil {
		w := &WindowAgg{Input: a.Input, Window: *a.Window, Keys: a.Keys, Aggs: a.Aggs, Props: a.Props,
			PropNames: a.PropNames, Legacy: true, Emit: a.Emit, Late: a.Late, Pos: a.Pos}
		w.Window.PartitionKeys = a.Keys
		if w.Window.ProcTime {
			w.Window.TimeCol = -1
		}
		return w
	}
	if perWindow(a) {
		return windowAggregate(a, windowOf(a.Input))
	}
	return a
}

// countRows turns COUNT(x) of an x that is never NULL into COUNT(*), which reads nothing.
func (r *rewriter) countRows(a *logical.Aggregate) *logical.Aggregate {
	s := a.Input.Schema()
	out := *a
	out.Aggs = slices.Clone(a.Aggs)
	for i, g := range out.Aggs {
		if g.Fn != "COUNT" || g.Distinct || len(g.Args) != 1 || g.Args[0] < 0 || s.Fields[g.Args[0]].Type.Nullable {
			continue
		}
		out.Aggs[i].Args, out.Aggs[i].Consts, out.Aggs[i].ArgTypes = nil, nil, nil
	}
	return &out
}

// oneSet lowers GROUPING SETS of a single set: keys that are not in it are NULL.
func (r *rewriter) oneSet(a *logical.Aggregate) logical.Node {
	b := *a
	b.Sets, b.GroupingIDs, b.Keys = nil, nil, nil
	place := make([]int, len(a.Keys))
	for i := range a.Keys {
		place[i] = -1
	}
	for _, k := range a.Sets[0] {
		if place[k] < 0 {
			place[k] = len(b.Keys)
			b.Keys = append(b.Keys, a.Keys[k])
		}
	}
	in := r.aggregate(&b)
	return setColumns(a, in, place, len(b.Keys), func(set int) expr.Expr { return nil })
}

// expandSets lowers several grouping sets: every row is emitted once a set, with the keys that
// are not in the set NULL, and with the set's number as one more key, which keeps equal sets and
// keys that are NULL themselves apart.
func (r *rewriter) expandSets(a *logical.Aggregate) logical.Node {
	in := a.Input.Schema()
	x := &Expand{Input: a.Input}
	w := windowOf(a.Input)
	written := a
	a = repeatedSets(a)
	inAll := all(len(a.Keys))
	for k := range a.Keys {
		for _, set := range a.Sets {
			inAll[k] = inAll[k] && slices.Contains(set, k)
		}
	}
	// Keys first; columns that aggregates read are copied, since a key's own column is NULL in
	// some sets; window columns pass so that the window is still known.
	for k, c := range a.Keys {
		f := in.Fields[c]
		if !inAll[k] {
			f.Type = f.Type.AsNullable().WithoutAttr()
		}
		x.S.Fields = append(x.S.Fields, f)
	}
	args := map[int]int{}
	var copies []int
	need := func(c int) {
		if _, ok := args[c]; !ok && c >= 0 {
			args[c] = len(a.Keys) + len(copies)
			copies = append(copies, c)
			x.S.Fields = append(x.S.Fields, in.Fields[c])
		}
	}
	for _, g := range a.Aggs {
		for _, c := range g.Args {
			need(c)
		}
		need(g.Filter)
	}
	if a.Window != nil && !a.Window.ProcTime {
		need(a.Window.TimeCol)
	}
	if a.Late != nil {
		for _, c := range a.Late.Cols {
			need(c)
		}
	}
	idType := types.BigIntType.NotNull()
	x.S.Fields = append(x.S.Fields, types.Field{Name: "$e", Type: idType})
	for i, set := range a.Sets {
		var p []expr.Expr
		for k, c := range a.Keys {
			if slices.Contains(set, k) {
				p = append(p, column(in, c))
			} else {
				p = append(p, nil)
			}
		}
		for _, c := range copies {
			p = append(p, column(in, c))
		}
		x.Projects = append(x.Projects, append(p, &expr.Literal{Value: int64(i), T: idType}))
	}
	id := len(x.S.Fields) - 1
	b := *a
	b.Sets, b.GroupingIDs = nil, nil
	b.Input = x
	b.Keys = append(upTo(len(a.Keys)), id)
	to := make([]int, in.Len())
	for c, at := range args {
		to[c] = at
	}
	b.Aggs = remapAggs(a.Aggs, to)
	if a.Late != nil {
		b.Late = a.Late.Remap(to)
		b.Late.Cols = append(b.Late.Cols, id)
	}
	if a.Window != nil && !a.Window.ProcTime {
		win := *a.Window
		win.TimeCol = to[win.TimeCol]
		b.Window = &win
	}
	agg := r.expanded(a, &b, x, w, inAll)
	e := column(agg.Schema(), len(a.Keys))
	return setColumns(written, agg, upTo(len(a.Keys)), len(b.Keys), func(int) expr.Expr { return e })
}

// repeatedSets gives a the grouping sets that Flink computes where some are repeated: it computes
// the first occurrences of all sets together, then the second ones, and so on, and where one of
// these lots is a single set it groups by all keys instead, unless GROUPING is asked for
// (CALCITE-1824 describes the rewrite). GROUP_ID still counts occurrences as written.
func repeatedSets(a *logical.Aggregate) *logical.Aggregate {
	for _, g := range a.GroupingIDs {
		if g != nil {
			return a
		}
	}
	lot := make([]int, len(a.Sets))
	inLot := map[int]int{}
	for i, s := range a.Sets {
		for _, o := range a.Sets[:i] {
			if sameSet(o, s) {
				lot[i]++
			}
		}
		inLot[lot[i]]++
	}
	out := *a
	out.Sets = slices.Clone(a.Sets)
	for i := range out.Sets {
		if lot[i] > 0 && inLot[lot[i]] == 1 {
			out.Sets[i] = upTo(len(a.Keys))
		}
	}
	return &out
}

// expanded lowers the aggregation b over the Expand x of a's grouping sets. Where the rows come
// from a window function the expansion moves below it, so that the two can be fused.
func (r *rewriter) expanded(a, b *logical.Aggregate, x *Expand, w *windowCols, inAll []bool) logical.Node {
	if w == nil || !perWindow(a) {
		return r.aggregate(b)
	}
	over := &windowCols{window: w.window}
	for k, c := range a.Keys {
		switch {
		case !inAll[k]: // an ordinary key, NULL in some sets
		case slices.Contains(w.start, c):
			over.start = append(over.start, k)
		case slices.Contains(w.end, c):
			over.end = append(over.end, k)
		case slices.Contains(w.time, c):
			over.time = append(over.time, k)
		}
	}
	b = r.countRows(b)
	if below := expandBelow(x); below != nil {
		c := *b
		c.Input = below
		return windowAggregate(&c, over)
	}
	return windowAggregate(b, over)
}

// expandBelow swaps an Expand with the window function below it. The Calc that it returns has
// the Expand's columns. It returns nil where that is not possible: something computes with the
// window's columns, or sessions depend on their partition.
func expandBelow(x *Expand) logical.Node {
	calc, _ := x.Input.(*Calc)
	if calc == nil {
		calc = filterCalc(x.Input, nil)
	}
	tvf, ok := calc.Input.(*logical.WindowTVF)
	if !ok || tvf.Window.Kind == plan.Session {
		return nil
	}
	width := tvf.Input.Schema().Len()
	window := func(i int) bool { return i >= width }
	if reads(calc.Filter, window) {
		return nil
	}
	below := &Calc{Input: tvf.Input, Filter: calc.Filter}
	to := make([]int, len(calc.Exprs))
	for i, e := range calc.Exprs {
		to[i] = -1
		if !reads(e, window) {
			to[i] = len(below.Exprs)
			below.Exprs, below.Names = append(below.Exprs, e), append(below.Names, calc.Names[i])
		} else if _, plain := e.(*expr.Column); !plain {
			return nil
		}
	}
	y := &Expand{Input: below, Projects: make([][]expr.Expr, len(x.Projects))}
	top := &Calc{}
	for c, f := range x.S.Fields {
		if src := windowSource(x, c, to); src >= 0 {
			if slices.ContainsFunc(x.Projects, func(p []expr.Expr) bool { return p[c] == nil }) {
				return nil // NULL in some sets: no longer a column of the window
			}
			tv := calc.Exprs[src].(*expr.Column)
			top.Exprs, top.Names = append(top.Exprs, tv), append(top.Names, f.Name)
			continue
		}
		at := len(y.S.Fields)
		for s, p := range x.Projects {
			y.Projects[s] = append(y.Projects[s], Remap(p[c], to))
		}
		y.S.Fields = append(y.S.Fields, f)
		top.Exprs = append(top.Exprs, &expr.Column{Index: at, Name: f.Name, T: f.Type})
		top.Names = append(top.Names, f.Name)
	}
	t := *tvf
	if !t.Window.ProcTime {
		at := columnIn(below, tvf.Input, tvf.Window.TimeCol)
		e := column(below.Schema(), at)
		for s := range y.Projects {
			y.Projects[s] = append(y.Projects[s], e)
		}
		t.Window.TimeCol = len(y.S.Fields)
		y.S.Fields = append(y.S.Fields, types.Field{Name: e.Name, Type: e.T})
	}
	t.Input = y
	// The window's columns stood behind width columns; now they stand behind y's.
	shift := len(y.S.Fields) - width
	for i, e := range top.Exprs {
		if c := e.(*expr.Column); windowSource(x, i, to) >= 0 {
			top.Exprs[i] = &expr.Column{Index: c.Index + shift, Name: c.Name, T: c.T}
		}
	}
	top.Input = &t
	return top
}

// windowSource returns the input column that column c of x passes on if it stays above (to is
// -1): a column of the window. Otherwise -1.
func windowSource(x *Expand, c int, to []int) int {
	for _, p := range x.Projects {
		if col, ok := p[c].(*expr.Column); ok && to[col.Index] < 0 {
			return col.Index
		}
	}
	return -1
}

// setColumns puts the output of a lowered aggregation into the columns of a: its keys (place -1:
// NULL), aggregates, grouping ids (computed from the set's number, or constant where there is
// one set) and window properties.
func setColumns(a *logical.Aggregate, in logical.Node, place []int, keys int, set func(int) expr.Expr) logical.Node {
	s, want := in.Schema(), a.Schema()
	out := &Calc{Input: in}
	for i := range a.Keys {
		if place[i] < 0 {
			out.Exprs = append(out.Exprs, &expr.Literal{T: want.Fields[i].Type})
			continue
		}
		out.Exprs = append(out.Exprs, column(s, place[i]))
	}
	for i := range a.Aggs {
		out.Exprs = append(out.Exprs, column(s, keys+i))
	}
	for i, g := range a.GroupingIDs {
		out.Exprs = append(out.Exprs, groupingID(a, g, set(i)))
	}
	for i := range a.Props {
		out.Exprs = append(out.Exprs, column(s, keys+len(a.Aggs)+i))
	}
	out.Names = want.Names()
	return out
}

// groupingID computes GROUPING_ID over the keys ids, or GROUP_ID where ids is nil, from the
// number of the grouping set; set is nil where there is one set only.
func groupingID(a *logical.Aggregate, ids []int, set expr.Expr) expr.Expr {
	t := types.BigIntType.NotNull()
	value := func(s int) *expr.Literal {
		v := int64(0)
		if ids == nil {
			for _, o := range a.Sets[:s] {
				if sameSet(o, a.Sets[s]) {
					v++
				}
			}
		}
		for _, k := range ids {
			v <<= 1
			if !slices.Contains(a.Sets[s], k) {
				v |= 1
			}
		}
		return &expr.Literal{Value: v, T: t}
	}
	last := value(len(a.Sets) - 1)
	c := &expr.Call{Fn: "CASE", T: t}
	for s := 0; s+1 < len(a.Sets); s++ {
		v := value(s)
		if v.Value == last.Value {
			continue
		}
		cond := &expr.Call{Fn: "=", T: types.BooleanType.NotNull(),
			Args: []expr.Expr{set, &expr.Literal{Value: int64(s), T: t}}}
		c.Args = append(c.Args, cond, v)
	}
	if len(c.Args) == 0 {
		return last
	}
	c.Args = append(c.Args, last)
	return c
}

func sameSet(a, b []int) bool {
	for _, k := range a {
		if !slices.Contains(b, k) {
			return false
		}
	}
	for _, k := range b {
		if !slices.Contains(a, k) {
			return false
		}
	}
	return true
}
