package physical

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// dedup keeps the first or the last row of each key: a normaliser for which a time is the version, and of rows
// of one time the first that came stays, or the last one, as in Flink. By processing time the first row stays for good.
func (b *builder) dedup(d *opt.Dedup) *node {
	in := b.node(d.Input, nil)
	if in == nil {
		return nil
	}
	s := in.Schema
	proc := d.Input.Schema().Fields[d.Order].Type.Attr == types.ProcTime
	switch {
	case len(d.Keys) == 0:
		b.fail(d.Pos, "not supported yet: ROW_NUMBER without PARTITION BY")
	case !in.Mode.IsInsertOnly():
		b.fail(d.Pos, "not supported yet: ROW_NUMBER over rows that are corrected").WithHint("deduplicate before what corrects them")
	case b.batch:
		b.fail(d.Pos, "not supported yet: ROW_NUMBER in batch mode").WithHint("SET 'execution.runtime-mode' = 'streaming'")
	}
	if b.err != nil {
		return nil
	}
	op := &plan.Normalize{Keys: d.Keys, UpdateBefore: true, RowTime: -1, TTLMs: b.stateTTL(nil), Ties: plan.TiesFirst, Versioned: true, Version: d.Order}
	mode := types.InsertOnly | 1<<types.UpdateBefore | 1<<types.UpdateAfter
	var version expr.Expr // where it is no column
	switch {
	case proc && d.Last:
		op.Versioned, op.Ties = false, plan.TiesConflict
	case proc:
		version = &expr.Literal{Value: int64(0), T: types.BigIntType.NotNull()}
		mode = types.InsertOnly
	case d.Last:
		op.Ties = plan.TiesLast
	default:
		f := s.Fields[d.Order]
		zero := f.Type.WithoutAttr().NotNull()
		version = &expr.Call{Fn: "-", T: types.Type{Kind: types.IntervalDayTime, Nullable: f.Type.Nullable, Precision: 3},
			Args: []expr.Expr{&expr.Literal{Value: types.TS(0, 0), T: zero}, &expr.Column{Index: d.Order, Name: f.Name, T: f.Type}}}
	}
	var exprs []expr.Expr
	for i, f := range s.Fields {
		exprs = append(exprs, &expr.Column{Index: i, Name: f.Name, T: f.Type})
	}
	if version != nil {
		op.Version = len(exprs)
		in = b.calcOver(in, nil, append(exprs[:len(exprs):len(exprs)], version), append(s.Names(), "$version"))
	}
	which := "first"
	if d.Last {
		which = "last"
	}
	n := &node{Node: plan.Node{Schema: in.Schema, Mode: mode, UpsertKeys: [][]int{d.Keys}, RowTime: in.RowTime, Op: op,
		Label: "Deduplicate" + by(s, d.Keys) + ", " + which + " row", StateGrowth: "one row for each " + keyWords(s, d.Keys)},
		pos: d.Pos, what: "Deduplicate", part: d.Keys}
	edge := b.exchange(in, d.Keys)
	edge.ordered = edge.ordered && b.ordering(in)
	n.in = []input{edge}
	n = b.add(n)
	if version == nil {
		return n
	}
	return b.calcOver(n, nil, exprs, s.Names())
}
