package physical

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// needs walks the graph backwards, consumers first, and settles what consumers need of their
// inputs: -U rows, stamps, positions; it gives sources the filters that hold for all their
// consumers.
func (b *builder) needs() {
	filters := map[*node][][]expr.Expr{}
	cause := map[*node]bool{} // whose rows make emissions that say what they come from
	for _, n := range slices.Backward(b.nodes) {
		if _, sink := n.Op.(*plan.Sink); !sink && !b.consumed(n) {
			continue
		}
		for _, in := range n.in {
			f := in.from
			f.needUB = f.needUB || b.needsUB(n, f)
			f.NeedStamps = f.NeedStamps || n.NeedStamps || b.judges(n) || in.ordered
			if _, source := f.Op.(*plan.Source); source || passesRows(f) {
				f.NeedPos = f.NeedPos || mayRefuse(n) || n.NeedPos && passesRows(n)
			}
			if (asksCause(n) || cause[n] && carriesPos(n)) && (carriesPos(f) || len(f.in) == 0) {
				cause[f], f.NeedPos = true, true
			}
			if _, ok := f.Op.(*plan.Source); ok {
				var conj []expr.Expr
				if c, ok := n.Op.(*plan.Calc); ok {
					conj = opt.Conjuncts(c.Filter)
				}
				filters[f] = append(filters[f], conj)
			}
		}
		if s, ok := n.Op.(*plan.Source); ok {
			if n.Mode.IsInsertOnly() && b.cfg.Bool("table.optimizer.source.predicate-pushdown-enabled") {
				s.Filter = slices.DeleteFunc(commonConjuncts(filters[n]), opt.Volatile)
			}
			n.NeedPos = n.NeedPos || s.Watermark != nil || mayFailAny(s.Project)
		}
	}
	b.limits()
	b.settleModes()
}

// consumed reports whether a sink reads n, perhaps over others. Nodes are only made for sinks,
// but a sink may have been refused half way.
func (b *builder) consumed(n *node) bool {
	for _, o := range b.nodes[n.id+1:] {
		for _, in := range o.in {
			if in.from == n {
				return true
			}
		}
	}
	return false
}

// needsUB reports whether n must get the -U rows of its input f.
func (b *builder) needsUB(n, f *node) bool {
	if !f.Mode.Has(types.UpdateAfter) {
		return false
	}
	switch o := n.Op.(type) {
	case *plan.Sink:
		return n.needUB // set when it was made
	case *plan.Calc:
		return n.needUB || o.Filter != nil && !onlyReads(o.Filter, f.UpsertKeys)
	case *plan.Expand, *plan.Union, *plan.WindowTVF:
		return n.needUB
	case *plan.Normalize, *plan.DropUpdateBefore, *plan.Late:
		return false
	}
	return true
}

// onlyReads reports whether e reads nothing but columns of one of the keys, so that it says the
// same of all versions of a row.
func onlyReads(e expr.Expr, keys [][]int) bool {
	cols := map[int]bool{}
	expr.Columns(e, cols)
next:
	for _, k := range keys {
		for c := range cols {
			if !slices.Contains(k, c) {
				continue next
			}
		}
		return true
	}
	return false
}

// judges reports whether n looks at the watermark that was in force when a row arrived.
func (b *builder) judges(n *node) bool {
	switch o := n.Op.(type) {
	case *plan.WindowAgg:
		return !o.Window.ProcTime && !b.batch && o.Phase != plan.GlobalPhase
	case *plan.Normalize:
		return o.HorizonMs > 0 && o.RowTime >= 0
	case *plan.Revise:
		return n.time && !b.batch
	case *plan.WindowTVF:
		return o.Window.Kind == plan.Session && !o.Window.ProcTime && !b.batch
	case *plan.Sort:
		return n.time && o.Limit < 0 && !b.batch
	case *plan.Calc:
		return asksWatermark(o.Filter) || slices.ContainsFunc(o.Project, asksWatermark)
	}
	return false
}

func asksWatermark(e expr.Expr) bool {
	found := false
	if e != nil {
		expr.Walk(e, func(e expr.Expr) bool {
			if c, ok := e.(*expr.Call); ok && c.Fn == "CURRENT_WATERMARK" {
				found = true
			}
			return !found
		})
	}
	return found
}

// passesRows reports whether rows keep their identity through n.
func passesRows(n *node) bool {
	switch n.Op.(type) {
	case *plan.Calc, *plan.Expand, *plan.Union, *plan.WindowTVF, *plan.DropUpdateBefore:
		return true
	}
	return false
}

// carriesPos is passesRows for those who ask what an emission comes from: a version of an entity comes from
// the row that brought it.
func carriesPos(n *node) bool {
	_, entity := n.Op.(*plan.Normalize)
	return entity || passesRows(n)
}

// asksCause reports whether n tells which rows its emissions come from.
func asksCause(n *node) bool {
	w, ok := n.Op.(*plan.WindowAgg)
	return ok && slices.Contains(w.Props, plan.WindowCause)
}

// mayRefuse reports whether n can refuse a row for what it contains.
func mayRefuse(n *node) bool {
	switch o := n.Op.(type) {
	case *plan.Calc:
		return mayFail(o.Filter) || mayFailAny(o.Project)
	case *plan.Expand:
		return slices.ContainsFunc(o.Projects, mayFailAny)
	case *plan.Sink:
		// The target may refuse rows too: where they go somewhere it is told where they came from.
		return len(o.NotNull) > 0 || o.Table != nil && (o.Table.Options["dead-letter.path"] != "" || o.Table.Options["dead-letter.table"] != "")
	case *plan.Normalize:
		return o.Versioned && o.Ties == plan.TiesConflict || o.HorizonMs > 0
	}
	return false
}

func mayFailAny(es []expr.Expr) bool { return slices.ContainsFunc(es, mayFail) }

// cannotFail are functions that have a value for every argument.
var cannotFail = map[string]bool{
	"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true, "+": true, "-": true, "*": true,
	"AND": true, "OR": true, "NOT": true, "||": true, "CONCAT": true, "CASE": true, "IF": true, "COALESCE": true,
	"IN": true, "ROW": true, "FIELD": true, "TRY_CAST": true, "LIKE": true, "UPPER": true, "LOWER": true,
	"SUBSTRING": true, "TRIM": true, "CHAR_LENGTH": true, "EXTRACT": true, "FLOOR": true, "CEIL": true,
	"DATE_FORMAT": true, "TO_TIMESTAMP": true, "TO_TIMESTAMP_LTZ": true, "PROCTIME": true, "IFNULL": true,
	"NULLIF": true, "ABS": true, "SPLIT_INDEX": true, "IS NULL": true, "IS NOT NULL": true, "IS TRUE": true,
	"IS FALSE": true, "IS NOT TRUE": true, "IS NOT FALSE": true, "CURRENT_WATERMARK": true,
}

func mayFail(e expr.Expr) bool {
	c, ok := e.(*expr.Call)
	if !ok {
		return false
	}
	if c.Fn == "CAST" {
		if !safeCast(c.Args[0].Type(), c.T) {
			return true
		}
	} else if !cannotFail[c.Fn] {
		return true
	}
	return mayFailAny(c.Args)
}

// safeCast reports whether a cast has a result for every value.
func safeCast(from, to types.Type) bool {
	switch {
	case from.Kind == types.Null || from.EqualIgnoreNull(to):
		return true
	case from.IsNumeric() && to.IsNumeric(), from.IsTimestamp() && to.IsTemporal(),
		from.Kind == types.Date && to.IsTimestamp():
		return true // overflow wraps or gives NULL
	case to.IsString() && !from.IsNested():
		return true
	}
	return false
}

// limits lets a source stop when a LIMIT above it has its rows.
func (b *builder) limits() {
	for _, n := range b.nodes {
		l, ok := n.Op.(*plan.Limit)
		if !ok || l.Limit < 0 {
			continue
		}
		in := n.in[0].from
		if c, ok := in.Op.(*plan.Calc); ok && c.Filter == nil && b.consumers(in) == 1 {
			in = in.in[0].from
		}
		if s, ok := in.Op.(*plan.Source); ok && in.Mode.IsInsertOnly() && b.consumers(in) == 1 {
			s.Limit = l.Offset + l.Limit
		}
	}
}

func (b *builder) consumers(n *node) int {
	c := 0
	for _, o := range b.nodes {
		for _, in := range o.in {
			if in.from == n {
				c++
			}
		}
	}
	return c
}

// settleModes tells aggregations and normalisers whether to emit -U rows, brings the modes up to
// date, and takes -U rows away before consumers that must not get them.
func (b *builder) settleModes() {
	const ub = types.ChangelogMode(1 << types.UpdateBefore)
	made := len(b.nodes)
	for _, n := range b.nodes[:made] {
		var from types.ChangelogMode
		for _, in := range n.in {
			from |= in.from.Mode
		}
		switch o := n.Op.(type) {
		case *plan.GroupAgg:
			o.UpdateBefore = n.needUB
			if o.Phase != plan.LocalPhase {
				n.Mode = b.groupMode(o, b.inputMode(n))
			}
		case *plan.Normalize:
			o.UpdateBefore = n.needUB
			if !n.needUB {
				n.Mode &^= ub
			}
		case *plan.Calc, *plan.Expand, *plan.Union, *plan.WindowTVF:
			n.Mode = from
		case *plan.Sink:
			if !n.needUB && from.Has(types.UpdateBefore) && !b.filteredSince(n.in[0].from) {
				b.dropUB(n)
			}
			n.Mode = n.in[0].from.Mode
		}
	}
}

// inputMode is what a group aggregation's rows are changes of: a local phase hides it.
func (b *builder) inputMode(n *node) types.ChangelogMode {
	if o := n.Op.(*plan.GroupAgg); !o.InputRetracts {
		return types.InsertOnly
	}
	return n.in[0].from.Mode
}

// filteredSince reports whether a filter may let the old version of a row pass and not the new one:
// then a sink that takes updates by key needs the -U row too, as the deletion that it is there.
func (b *builder) filteredSince(n *node) bool {
	switch o := n.Op.(type) {
	case *plan.Calc:
		if from := n.in[0].from; o.Filter != nil && from.Mode.Has(types.UpdateBefore) && !onlyReads(o.Filter, from.UpsertKeys) {
			return true
		}
	case *plan.Expand, *plan.Union, *plan.WindowTVF:
	default:
		return false
	}
	return slices.ContainsFunc(n.in, func(in input) bool { return b.filteredSince(in.from) })
}

// dropUB puts an operator before the sink n that takes -U rows away.
func (b *builder) dropUB(n *node) {
	const ub = types.ChangelogMode(1 << types.UpdateBefore)
	in := n.in[0].from
	d := b.add(&node{Node: plan.Node{Schema: in.Schema, Mode: in.Mode &^ ub, RowTime: in.RowTime, UpsertKeys: in.UpsertKeys,
		Parallelism: in.Parallelism, Label: "DropUpdateBefore", Op: &plan.DropUpdateBefore{}, NeedPos: in.NeedPos},
		in: []input{{from: in}}, single: in.single, part: in.part, what: "DropUpdateBefore"})
	n.in[0].from = d
}
