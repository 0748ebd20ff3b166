package physical

import (
	"slices"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// orderDependent are the aggregates whose value depends on the order of the rows.
var orderDependent = map[string]bool{
	"FIRST_VALUE": true, "LAST_VALUE": true, "LISTAGG": true, "ARRAY_AGG": true, "COLLECT": true,
	"JSON_ARRAYAGG": true, "JSON_OBJECTAGG": true, "STRING_AGG": true,
}

// dependsOnOrder reports whether a's value changes with the order of its rows.
func dependsOnOrder(a *plan.AggCall) bool {
	if orderDependent[a.Fn] {
		return true
	}
	switch a.Fn {
	case "COUNT", "MIN", "MAX", "APPROX_COUNT_DISTINCT":
		return false
	}
	// Sums of floating-point numbers, and what is made of sums.
	return slices.ContainsFunc(a.ArgTypes, types.Type.IsApprox)
}

// splittable reports whether partial values of a can be computed before the exchange.
func splittable(a *plan.AggCall) bool {
	switch a.Fn {
	case "COUNT", "MIN", "MAX", "SUM", "SUM0", "AVG":
		return !a.Distinct && !dependsOnOrder(a)
	}
	return false
}

// autoTwoPhase says whether AUTO, the default strategy, means two phases where they are possible.
const autoTwoPhase = true

// twoPhase reports whether an aggregation over in is done in two steps.
func (b *builder) twoPhase(in *node, keys []int, aggs []plan.AggCall) bool {
	strategy := b.cfg.Enum("table.optimizer.agg-phase-strategy")
	if strategy == "ONE_PHASE" || strategy == "AUTO" && (!autoTwoPhase || b.par < 2) ||
		in.single || !in.Mode.IsInsertOnly() || in.part != nil && subset(in.part, keys) {
		return false
	}
	for i := range aggs {
		if !splittable(&aggs[i]) {
			return false
		}
	}
	return len(aggs) > 0
}

// localSchema is the columns of a local phase: keys, accumulators, and for windows the slice end.
func localSchema(in types.Schema, keys []int, window bool) types.Schema {
	var s types.Schema
	for _, k := range keys {
		f := in.Fields[k]
		f.Type = f.Type.WithoutAttr()
		s.Fields = append(s.Fields, f)
	}
	s.Fields = append(s.Fields, types.Field{Name: "$acc", Type: types.BytesType.NotNull()})
	if window {
		s.Fields = append(s.Fields, types.Field{Name: "$slice_end", Type: types.BigIntType.NotNull()})
	}
	return s
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func aggSchema(in types.Schema, keys []int, aggs []plan.AggCall) types.Schema {
	var s types.Schema
	for _, k := range keys {
		f := in.Fields[k]
		f.Type = f.Type.WithoutAttr()
		s.Fields = append(s.Fields, f)
	}
	for _, a := range aggs {
		s.Fields = append(s.Fields, types.Field{Name: a.Name, Type: a.T})
	}
	return s
}

func anyOrdered(aggs []plan.AggCall) bool {
	for i := range aggs {
		if dependsOnOrder(&aggs[i]) {
			return true
		}
	}
	return false
}

func (b *builder) groupAgg(a *logical.Aggregate) *node {
	in := b.node(a.Input, nil)
	if in == nil {
		return nil
	}
	op := &plan.GroupAgg{Keys: a.Keys, Aggs: a.Aggs, InputRetracts: !in.Mode.IsInsertOnly(), UpdateBefore: true, ArgSchema: in.Schema}
	op.TTLMs = b.stateTTL(a.TTLMs)
	out := &node{Node: plan.Node{Schema: aggSchema(in.Schema, a.Keys, a.Aggs), RowTime: -1, Op: op},
		pos: a.Pos, what: "GroupAggregate"}
	out.Label = "GroupAggregate" + by(in.Schema, a.Keys)
	out.UpsertKeys = [][]int{seq(len(a.Keys))}
	out.part, out.single = keyed(seq(len(a.Keys)))
	out.Parallelism = parallelismOf(out.single)
	out.StateGrowth = "one entry for each " + keyWords(in.Schema, a.Keys) + aggState(a.Aggs, op.InputRetracts)
	if len(a.Keys) == 0 {
		out.StateGrowth = "one entry" + aggState(a.Aggs, op.InputRetracts)
	}
	out.Mode = b.groupMode(op, in.Mode)
	from, keys := in, a.Keys
	if b.twoPhase(in, a.Keys, a.Aggs) {
		local := *op
		local.Phase, local.TTLMs = plan.LocalPhase, 0
		from = b.add(&node{Node: plan.Node{Schema: localSchema(in.Schema, a.Keys, false), Mode: types.InsertOnly,
			RowTime: -1, Op: &local, Parallelism: in.Parallelism, Label: "LocalGroupAggregate" + by(in.Schema, a.Keys),
			StateGrowth: "the keys since the last flush, bounded"},
			in: []input{{from: in}}, pos: a.Pos, what: "GroupAggregate"})
		op.Phase, keys = plan.GlobalPhase, seq(len(a.Keys))
		op.Keys = keys
		out.Label = "GlobalGroupAggregate" + by(in.Schema, a.Keys)
	}
	edge := b.exchange(from, keys)
	edge.ordered = edge.ordered && b.ordering(in) && anyOrdered(a.Aggs)
	out.in = []input{edge}
	return b.add(out)
}

// stateTTL is how long an operator keeps state that is not written to, ms: what the query's hint
// says, or the configuration. 0 is for ever, as always in batch mode, where Flink ignores both.
func (b *builder) stateTTL(hint *int64) int64 {
	switch {
	case b.batch:
		return 0
	case hint != nil:
		return *hint
	}
	return b.cfg.Duration(catalog.KeyStateTTL).Milliseconds()
}

// groupMode is what a group aggregation emits, with -U.
func (b *builder) groupMode(op *plan.GroupAgg, in types.ChangelogMode) types.ChangelogMode {
	if b.batch {
		return types.InsertOnly
	}
	if in.IsInsertOnly() && len(op.Aggs) == 0 {
		return types.InsertOnly // DISTINCT of rows that stay: a key appears once
	}
	m := types.InsertOnly | 1<<types.UpdateAfter
	if op.UpdateBefore {
		m |= 1 << types.UpdateBefore
	}
	if !in.IsInsertOnly() {
		m |= 1 << types.Delete
	}
	return m
}

func keyWords(s types.Schema, keys []int) string {
	if len(keys) == 1 {
		return "value of " + s.Fields[keys[0]].Name
	}
	return "combination of " + names(s, keys)
}

// aggState tells what aggregates keep beyond a few numbers.
func aggState(aggs []plan.AggCall, retracts bool) string {
	distinct, list, extremes := false, false, false
	for _, a := range aggs {
		distinct = distinct || a.Distinct && a.Fn != "MIN" && a.Fn != "MAX"
		list = list || orderDependent[a.Fn] && a.Fn != "FIRST_VALUE" && a.Fn != "LAST_VALUE"
		extremes = extremes || retracts && (a.Fn == "MIN" || a.Fn == "MAX" || a.Fn == "FIRST_VALUE" || a.Fn == "LAST_VALUE")
	}
	s := ""
	if distinct || extremes {
		s += ", each with its distinct values"
	}
	if list {
		s += ", each with the list of its rows"
	}
	return s
}

func (b *builder) windowAgg(a *opt.WindowAgg) *node {
	in := b.node(a.Input, nil)
	if in == nil {
		return nil
	}
	w := a.Window
	if !a.Attached {
		if !b.windowInput(&w, in, a.Pos) {
			return nil
		}
		in = b.windowTime(&w, in)
	}
	op := &plan.WindowAgg{Window: w, Attached: a.Attached, StartCol: a.StartCol, EndCol: a.EndCol, Keys: a.Keys,
		Aggs: a.Aggs, Props: a.Props, ArgSchema: in.Schema, InputRetracts: !in.Mode.IsInsertOnly()}
	out := &node{Node: plan.Node{Op: op, RowTime: -1}, pos: a.Pos}
	out.lateness, out.asked = b.emitInto(op, in, a.Emit)
	out.Mode = emitMode(op)
	op.Late = a.Late != nil && !w.ProcTime && !b.batch
	if op.Late && unfusedSessions(a) {
		b.fail(a.Late.Pos, "not supported yet: late rows of sessions that are not grouped by the columns of PARTITION BY").
			WithHint("group by window_start, window_end and the columns of PARTITION BY; if the result is not to have these, in a sub-query with the hint, " +
				"whose results the query around it adds up by window_start and window_end")
		return nil
	}
	s := aggSchema(in.Schema, a.Keys, a.Aggs)
	var ends, starts []int
	for i, p := range a.Props {
		if p == plan.WindowTime && !b.batch && out.RowTime < 0 {
			out.RowTime = s.Len()
		}
		switch p {
		case plan.WindowStart:
			starts = append(starts, s.Len())
		case plan.WindowEnd:
			ends = append(ends, s.Len())
		}
		s.Fields = append(s.Fields, types.Field{Name: a.PropNames[i], Type: logical.PropType(p, &a.Window)})
	}
	out.Schema = s
	out.UpsertKeys = windowKeys(w.Kind, len(a.Keys), starts, ends)
	out.what = windowName(w.Kind) + "Aggregate"
	if a.Attached {
		out.what = "WindowAggregate"
	}
	out.Label = out.what + by(in.Schema, a.Keys)
	out.part, out.single = keyed(seq(len(a.Keys)))
	out.Parallelism = parallelismOf(out.single)
	out.StateGrowth = windowGrowth(op, in.Schema)
	from := in
	if b.twoPhaseWindow(op, in) {
		from = b.localWindow(op, in, out)
	}
	edge := b.exchange(from, op.Keys)
	edge.ordered = edge.ordered && b.ordering(in) && (w.Kind == plan.Session && !a.Attached || anyOrdered(a.Aggs))
	out.in = []input{edge}
	out = b.add(out)
	if op.Late {
		b.lateRows(out, in, a.Late)
	}
	return out
}

// windowKeys are the columns that tell the rows of a window aggregation apart: the keys and what
// tells windows of the kind apart.
func windowKeys(kind plan.WindowKind, keys int, starts, ends []int) [][]int {
	var out [][]int
	if len(ends) > 0 && kind != plan.Session {
		out = append(out, append(seq(keys), ends[0]))
	}
	if len(starts) > 0 && (kind == plan.Tumble || kind == plan.Hop) {
		out = append(out, append(seq(keys), starts[0]))
	}
	if len(starts) > 0 && len(ends) > 0 && kind == plan.Session {
		out = append(out, append(seq(keys), starts[0], ends[0]))
	}
	return out
}

// twoPhaseWindow reports whether slices of a window are summed up before the exchange. Sessions
// merge, so they are not; nor are windows that show results before or after they end, or say how an emission
// came about, or whose late rows somebody wants.
func (b *builder) twoPhaseWindow(op *plan.WindowAgg, in *node) bool {
	return !op.Window.ProcTime && op.Window.Kind != plan.Session && !op.Attached && !b.batch && !op.Late &&
		!corrects(op) && op.AllowedLatenessMs == 0 && !tells(op) && b.twoPhase(in, op.Keys, op.Aggs)
}

// tells reports whether op says how its emissions came about.
func tells(op *plan.WindowAgg) bool {
	return slices.ContainsFunc(op.Props, func(p plan.WindowProp) bool { return p >= plan.WindowReason })
}

func (b *builder) localWindow(op *plan.WindowAgg, in, out *node) *node {
	local := *op
	local.Phase, local.Props = plan.LocalPhase, nil
	n := b.add(&node{Node: plan.Node{Schema: localSchema(in.Schema, op.Keys, true), Mode: types.InsertOnly, RowTime: -1,
		Op: &local, Parallelism: in.Parallelism, Label: "Local" + out.Label,
		StateGrowth: "the keys of the open slices since the last flush"},
		in: []input{{from: in}}, pos: out.pos, what: out.what})
	op.Phase, op.Keys = plan.GlobalPhase, seq(len(op.Keys))
	op.Window.PartitionKeys = op.Keys
	op.Window.TimeCol = -1
	out.Label = "Global" + out.Label
	return n
}

func windowGrowth(op *plan.WindowAgg, s types.Schema) string {
	what := "windows"
	if op.Window.Kind == plan.Session && !op.Attached {
		what = "sessions"
	}
	g := "one entry for each of the open " + what
	if len(op.Keys) > 0 {
		g = "one entry for each " + keyWords(s, op.Keys) + " in each of the open " + what
	}
	return g + aggState(op.Aggs, op.InputRetracts)
}
