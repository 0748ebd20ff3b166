package physical

import (
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// node makes the nodes of an optimised tree. It returns nil after an error. upsert lists columns
// by which the consumer is content with updates by key, or is nil.
func (b *builder) node(n logical.Node, upsert []int) *node {
	if b.err != nil {
		return nil
	}
	switch n := n.(type) {
	case *opt.Read:
		return b.read(n, upsert)
	case *logical.Values:
		return b.add(&node{Node: plan.Node{Schema: n.S, Mode: types.InsertOnly, RowTime: -1, Parallelism: 1,
			Label: "Values", Op: &plan.Values{Rows: n.Rows}}, single: true, bounded: true, what: "Values"})
	case *opt.Calc:
		return b.calc(n, upsert)
	case *opt.Expand:
		return b.expand(n)
	case *opt.WindowAgg:
		return b.windowAgg(n)
	case *logical.Aggregate:
		return b.groupAgg(n)
	case *logical.WindowTVF:
		return b.windowTVF(n)
	case *logical.Join:
		return b.join(n)
	case *logical.Union:
		return b.union(n)
	case *logical.Sort:
		return b.sort(n)
	case *opt.Dedup:
		return b.dedup(n)
	case *logical.RowNumber:
		b.fail(n.Pos, "not supported yet: ROW_NUMBER but to keep one row of each key").
			WithHint("write SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) AS rn FROM t) WHERE rn = 1")
		return nil
	}
	panic(fmt.Sprintf("BUG: planner does not know %T", n))
}

func (b *builder) calc(c *opt.Calc, upsert []int) *node {
	in := b.node(c.Input, throughCalc(c, upsert))
	if in == nil {
		return nil
	}
	return b.calcOver(in, c.Filter, c.Exprs, c.Names)
}

// throughCalc maps the key columns of an upsert consumer to the input of c. A filter that could
// drop the newest version of a row and so leave an old one in place needs the full changelog.
func throughCalc(c *opt.Calc, upsert []int) []int {
	if upsert == nil || c.Filter != nil {
		return nil
	}
	out := make([]int, len(upsert))
	for i, k := range upsert {
		col, ok := c.Exprs[k].(*expr.Column)
		if !ok {
			return nil
		}
		out[i] = col.Index
	}
	return out
}

// calcOver makes a Calc over a node that exists.
func (b *builder) calcOver(in *node, filter expr.Expr, exprs []expr.Expr, colNames []string) *node {
	width := in.Schema.Len()
	to := places(exprs, width)
	s := types.Schema{Fields: make([]types.Field, len(exprs))}
	for i, e := range exprs {
		s.Fields[i] = types.Field{Name: colNames[i], Type: e.Type()}
	}
	n := &node{Node: plan.Node{Schema: s, Mode: in.Mode, RowTime: -1, UpsertKeys: movedSets(in.UpsertKeys, to),
		Parallelism: in.Parallelism, Label: "Calc", Op: &plan.Calc{Filter: filter, Project: exprs}},
		in: []input{{from: in}}, single: in.single, part: moved(in.part, to), what: "Calc"}
	if in.RowTime >= 0 {
		n.RowTime = to[in.RowTime]
	}
	return b.add(n)
}

func (b *builder) expand(x *opt.Expand) *node {
	in := b.node(x.Input, nil)
	if in == nil {
		return nil
	}
	n := &node{Node: plan.Node{Schema: x.S, Mode: in.Mode, RowTime: -1, Parallelism: in.Parallelism, Label: "Expand",
		Op: &plan.Expand{Projects: x.Projects}}, in: []input{{from: in}}, single: in.single, what: "Expand"}
	if in.RowTime >= 0 {
		n.RowTime = places(x.Projects[0], in.Schema.Len())[in.RowTime]
	}
	return b.add(n)
}

func (b *builder) union(u *logical.Union) *node {
	n := &node{Node: plan.Node{Schema: u.Schema(), RowTime: -1, Label: "Union", Op: &plan.Union{}}, what: "Union"}
	for i, x := range u.All {
		in := b.node(x, nil)
		if in == nil {
			return nil
		}
		if i == 0 {
			n.RowTime = in.RowTime
		} else if n.RowTime != in.RowTime {
			n.RowTime = -1
		}
		n.Mode |= in.Mode
		n.in = append(n.in, input{from: in})
		// Nullable in one input is nullable in the union.
		for c := range n.Schema.Fields {
			if in.Schema.Fields[c].Type.Nullable {
				n.Schema.Fields[c].Type.Nullable = true
			}
		}
	}
	if len(n.in) == 1 {
		return n.in[0].from
	}
	return b.add(n)
}

func (b *builder) windowTVF(t *logical.WindowTVF) *node {
	in := b.node(t.Input, nil)
	if in == nil || !b.windowInput(&t.Window, in, t.Pos) {
		return nil
	}
	in = b.windowTime(&t.Window, in)
	op := &plan.WindowTVF{Window: t.Window}
	s := in.Schema
	s.Fields = slices.Clone(s.Fields)
	s.Fields = append(s.Fields, t.Schema().Fields[t.Input.Schema().Len():]...)
	n := &node{Node: plan.Node{Schema: s, Mode: in.Mode, RowTime: s.Len() - 1, Op: op}, in: []input{{from: in}},
		single: in.single, part: in.part, pos: t.Pos, what: "WindowTableFunction"}
	n.Parallelism = in.Parallelism
	n.Label = windowName(t.Window.Kind) + "Function"
	if t.Window.ProcTime || b.batch {
		n.RowTime = -1
	}
	if t.Window.Kind == plan.Session {
		n.in[0] = b.exchange(in, t.Window.PartitionKeys)
		n.in[0].ordered = n.in[0].ordered && b.ordering(in)
		n.part, n.single = keyed(t.Window.PartitionKeys)
		n.Parallelism = parallelismOf(n.single)
		n.StateGrowth = "the rows of the open sessions"
	}
	return b.add(n)
}

// windowInput checks the time attribute that a window goes by.
func (b *builder) windowInput(w *plan.Window, in *node, pos expr.Pos) bool {
	if w.ProcTime || w.TimeCol < 0 {
		return true
	}
	t := in.Schema.Fields[w.TimeCol].Type
	if b.batch {
		if !t.IsTimestamp() {
			b.fail(pos, "a window goes by a column of type TIMESTAMP or TIMESTAMP_LTZ, but `%s` is %s",
				in.Schema.Fields[w.TimeCol].Name, t)
			return false
		}
		return true
	}
	if !in.time {
		b.fail(pos, "a window needs a time attribute, but no watermark follows column `%s`",
			in.Schema.Fields[w.TimeCol].Name).
			WithHint("declare WATERMARK FOR `%s` AS `%[1]s` - INTERVAL '5' SECOND in the table that it comes from",
				in.Schema.Fields[w.TimeCol].Name)
		return false
	}
	return true
}

// windowTime makes the time column of a window one of milliseconds, which windows count in: in
// batch mode it may have more digits.
func (b *builder) windowTime(w *plan.Window, in *node) *node {
	if w.ProcTime || w.TimeCol < 0 || in.Schema.Fields[w.TimeCol].Type.Precision <= 3 {
		return in
	}
	var exprs []expr.Expr
	for i, f := range in.Schema.Fields {
		exprs = append(exprs, &expr.Column{Index: i, Name: f.Name, T: f.Type})
	}
	t := exprs[w.TimeCol].Type().WithoutAttr()
	t.Precision = 3
	ms, err := expr.Cast(exprs[w.TimeCol], t, false, b.env, expr.Pos{})
	if err != nil {
		panic("BUG: a timestamp cannot be cast to another precision: " + err.Error())
	}
	colNames := append(in.Schema.Names(), "$time")
	w.TimeCol = len(exprs)
	return b.calcOver(in, nil, append(exprs, ms), colNames)
}

func windowName(k plan.WindowKind) string {
	return [...]string{"Tumble", "Hop", "Cumulate", "Session"}[k]
}

func (b *builder) sort(n *logical.Sort) *node {
	in := b.node(n.Input, nil)
	if in == nil {
		return nil
	}
	out := &node{Node: plan.Node{Schema: in.Schema, Mode: types.InsertOnly, RowTime: in.RowTime, Parallelism: 1},
		in: []input{{from: in, dist: plan.Single, ordered: b.ordering(in)}}, single: true, pos: n.Pos}
	if in.single {
		out.in[0].dist, out.in[0].ordered = plan.Forward, false
	}
	if len(n.Keys) == 0 {
		out.Op, out.Label, out.what = &plan.Limit{Offset: max(n.Offset, 0), Limit: n.Limit}, "Limit", "Limit"
		if !b.batch && !in.Mode.IsInsertOnly() {
			out.Mode = types.Retract
		}
		return b.add(out)
	}
	out.Op = &plan.Sort{Keys: n.Keys, Offset: max(n.Offset, 0), Limit: n.Limit}
	byTime := in.RowTime >= 0 && n.Keys[0].Col == in.RowTime && !n.Keys[0].Desc && in.Mode.IsInsertOnly()
	switch {
	case b.batch:
		out.Label, out.what, out.StateGrowth = "Sort", "Sort", "all rows"
	case n.Limit >= 0:
		out.Label, out.what = "TopN", "TopN"
		out.Mode, out.StateGrowth = types.Retract, fmt.Sprintf("the first %d rows", max(n.Offset, 0)+n.Limit)
		if !in.Mode.IsInsertOnly() {
			out.StateGrowth = "all rows, since a row that is taken back makes room for another"
		}
	case byTime:
		out.Label, out.what, out.StateGrowth = "TemporalSort", "TemporalSort", "the rows ahead of the watermark"
	default:
		b.fail(n.Pos, "ORDER BY of an unbounded result must start with its time attribute, ascending, or have a LIMIT").
			WithHint("add LIMIT n, or SET 'execution.runtime-mode' = 'batch' if the input ends")
		return nil
	}
	return b.add(out)
}

// keyed tells how rows are distributed behind an exchange by keys.
func keyed(keys []int) (part []int, single bool) {
	if len(keys) == 0 {
		return nil, true
	}
	return keys, false
}

func parallelismOf(single bool) int {
	if single {
		return 1
	}
	return 0
}

// exchange is an edge that brings rows of equal keys to one subtask; without keys all rows. Where
// they are already there, rows stay. Ordered is left to the caller's need of order.
func (b *builder) exchange(in *node, keys []int) input {
	switch {
	case in.single:
		if len(keys) == 0 {
			return input{from: in}
		}
		return input{from: in, dist: plan.Hash, keys: keys}
	case len(keys) == 0:
		return input{from: in, dist: plan.Single, ordered: true}
	case in.part != nil && slices.Equal(in.part, keys):
		return input{from: in}
	}
	return input{from: in, dist: plan.Hash, keys: keys, ordered: true}
}
