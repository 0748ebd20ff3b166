package physical

import (
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// read makes the source of a scan and, for a stream of updates by key, the normaliser that makes
// a full changelog of it, unless the consumer is content with updates by the same key.
func (b *builder) read(r *opt.Read, upsert []int) *node {
	src := b.source(r)
	if src == nil {
		return nil
	}
	t := b.table(r.Scan.Table, r.Scan.Hints, r.Scan.Pos)
	mode := src.Mode
	dup := b.cfg.Bool("table.exec.source.cdc-events-duplicate")
	up := r.Scan.Upsert
	if up == nil && (mode.Has(types.UpdateBefore) && !dup || mode.IsInsertOnly()) {
		return src
	}
	key := t.keyColumns(src.Schema)
	if key == nil && !mode.Has(types.UpdateBefore) {
		b.fail(r.Scan.Pos, "table `%s` gives updates by key, so it needs its primary key", r.Scan.Table.Name()).
			WithHint("add PRIMARY KEY (...) NOT ENFORCED to its definition")
		return nil
	}
	if key == nil || up == nil && !dup && upsert != nil && sameColumns(key, upsert) {
		return src
	}
	op := &plan.Normalize{Keys: key, UpdateBefore: true, TTLMs: b.cfg.Duration(catalog.KeyStateTTL).Milliseconds(), RowTime: -1}
	n := &node{Node: plan.Node{Schema: src.Schema, Mode: types.Retract, UpsertKeys: [][]int{key}, RowTime: src.RowTime,
		Label: "ChangelogNormalize" + by(src.Schema, key), Op: op,
		StateGrowth: "one row for each " + keyWords(src.Schema, key)},
		pos: r.Scan.Pos, what: "ChangelogNormalize", part: key}
	if up != nil {
		b.entities(n, op, src, r)
	}
	edge := b.exchange(src, key)
	edge.ordered = edge.ordered && b.ordering(src)
	n.in = []input{edge}
	return b.add(n)
}

// entities makes the normaliser n go by versions and a horizon, as r asks.
func (b *builder) entities(n *node, op *plan.Normalize, src *node, r *opt.Read) {
	up := r.Scan.Upsert
	n.Label = "EntityNormalize" + by(src.Schema, op.Keys)
	if up.Version >= 0 {
		op.Versioned, op.Version = true, slices.Index(r.Cols, up.Version)
	}
	if up.HorizonMs > 0 {
		op.HorizonMs, op.RowTime, op.TTLMs = up.HorizonMs, src.RowTime, 0
	}
	if src.Mode.IsInsertOnly() {
		n.Mode &^= 1 << types.Delete // rows are only ever replaced
	}
}

func sameColumns(a, b []int) bool { return len(a) == len(b) && subset(a, b) && subset(b, a) }

// source makes the Source of a scan, once for equal scans.
func (b *builder) source(r *opt.Read) *node {
	key := "source " + opt.ReadKey(r.Scan)
	if n := b.memo[key]; n != nil {
		return n
	}
	t := b.table(r.Scan.Table, r.Scan.Hints, r.Scan.Pos)
	if t == nil {
		return nil
	}
	if !b.metadata(t, t.factory.SourceMetadata, func(m connector.MetadataColumn) bool { return readsColumn(r, m.Name) }, "read") {
		return nil
	}
	n := &node{Node: plan.Node{Schema: r.Schema(), Mode: t.sourceMode(), RowTime: -1,
		Label: "Source(" + r.Scan.Table.Name() + ")"}, pos: r.Scan.Pos, what: "table `" + r.Scan.Table.Name() + "`"}
	n.Parallelism = int(t.values.Int("scan.parallelism"))
	b.wide = b.wide || n.Parallelism > 1
	op := &plan.Source{Table: t.spec, RowTime: -1, Limit: -1}
	n.Op = op
	b.sourceColumns(op, r)
	if !b.sourceTime(op, r) {
		return nil
	}
	n.RowTime, n.time = op.RowTime, op.RowTime >= 0
	if k := t.keyColumns(n.Schema); k != nil && !n.Mode.IsInsertOnly() {
		n.UpsertKeys = [][]int{k}
	}
	src := b.open(t, op.Columns, op.Metadata)
	if src == nil {
		return nil
	}
	n.bounded, b.gives[n] = src.Bounded(), src.Guarantee()
	if b.batch && !n.bounded {
		b.fail(r.Scan.Pos, "table `%s` has no end, so it cannot be read in batch mode", r.Scan.Table.Name()).
			WithHint("SET 'execution.runtime-mode' = 'streaming', or give the table an end (Kafka: 'scan.bounded.mode')")
		return nil
	}
	if b.batch && !n.Mode.IsInsertOnly() {
		b.fail(r.Scan.Pos, "table `%s` is a stream of changes %s, which batch mode does not read", r.Scan.Table.Name(), n.Mode).
			WithHint("SET 'execution.runtime-mode' = 'streaming'")
		return nil
	}
	n.id = len(b.nodes)
	b.nodes = append(b.nodes, n)
	b.memo[key] = n
	return n
}

// readsColumn reports whether r reads the metadata column called name itself.
func readsColumn(r *opt.Read, name string) bool {
	for _, c := range r.Cols {
		if r.Scan.Table.Columns[c].Name == name {
			return true
		}
	}
	return false
}

// sourceColumns fills in what op reads and how it computes the columns of r.
func (b *builder) sourceColumns(op *plan.Source, r *opt.Read) {
	t := r.Scan.Table
	used := map[int]bool{}
	var use func(c int)
	use = func(c int) {
		col := t.Columns[c]
		if col.Kind != catalog.Computed {
			used[c] = true
			return
		}
		below := map[int]bool{}
		expr.Columns(col.Expr, below)
		for i := range below {
			use(i)
		}
	}
	for _, c := range r.Cols {
		use(c)
	}
	place := map[int]int{}
	column := func(name string) (int, bool) {
		c := slices.IndexFunc(t.Columns, func(c catalog.Column) bool { return c.Name == name && c.Kind != catalog.Computed })
		return c, c >= 0 && used[c]
	}
	// For connectors metadata of results is physical, and stands behind what is.
	for nth, f := range op.Table.Columns {
		if c, ok := column(f.Name); ok {
			place[c] = len(op.Columns)
			op.Columns = append(op.Columns, nth)
		}
	}
	for nth, m := range op.Table.Metadata {
		if c, ok := column(m.Name); ok {
			place[c] = len(op.Columns) + len(op.Metadata)
			op.Metadata = append(op.Metadata, nth)
		}
	}
	var compute func(c int) expr.Expr
	compute = func(c int) expr.Expr {
		col := t.Columns[c]
		if col.Kind != catalog.Computed {
			return &expr.Column{Index: place[c], Name: col.Name, T: col.Type}
		}
		return expr.Map(col.Expr, func(e expr.Expr) expr.Expr {
			if x, ok := e.(*expr.Column); ok {
				return compute(x.Index)
			}
			return e
		})
	}
	for _, c := range r.Cols {
		op.Project = append(op.Project, expr.Fold(compute(c), b.env))
	}
}

// usesTime reports whether the operator of n looks at event time, so that the sources below must
// have watermarks. A source whose refused rows go somewhere keeps its watermark as well: it
// refuses rows without a time.
func (b *builder) usesTime(n logical.Node) bool {
	if b.batch {
		return false
	}
	switch n := n.(type) {
	case *opt.WindowAgg:
		return !n.Window.ProcTime
	case *logical.WindowTVF:
		return !n.Window.ProcTime
	case *logical.Sort:
		return len(n.Keys) > 0
	case *opt.Dedup:
		return n.Schema().Fields[n.Order].Type.Attr == types.RowTime
	case *logical.Aggregate:
		return anyOrdered(n.Aggs) // files are read in the order of time
	case *opt.Calc:
		return asksWatermark(n.Filter) || slices.ContainsFunc(n.Exprs, asksWatermark)
	case *opt.Read:
		// Errors are for later, when the source is made.
		t := newBuilder(b.cfg).table(n.Scan.Table, n.Scan.Hints, n.Scan.Pos)
		return t != nil && (!t.sourceMode().IsInsertOnly() || n.Scan.Upsert != nil || len(t.values.Prefix("dead-letter.")) > 0 ||
			t.values.Int("scan.parallelism") > 1)
	}
	return false
}

// sourceTime sets the time attribute and the watermark of op.
func (b *builder) sourceTime(op *plan.Source, r *opt.Read) bool {
	t := r.Scan.Table
	if b.batch || t.RowTime < 0 {
		return true
	}
	if t.SourceWatermark {
		b.noSourceWatermark(t, r)
		return false
	}
	place := make([]int, len(t.Columns))
	for i := range place {
		place[i] = slices.Index(r.Cols, i)
	}
	needed := map[int]bool{t.RowTime: true}
	expr.Columns(t.Watermark, needed)
	for c := range needed {
		if place[c] < 0 {
			return true // nobody uses event time, and the columns are not read otherwise
		}
	}
	op.RowTime = place[t.RowTime]
	w := opt.Remap(t.Watermark, place)
	if wt := w.Type(); wt.Precision > 3 {
		ms := wt.WithoutAttr()
		ms.Precision = 3
		c, err := expr.Cast(w, ms, false, b.env, expr.Pos{})
		if err != nil {
			b.fail(r.Scan.Pos, "the watermark of `%s` is %s, not a timestamp", t.Name(), wt)
			return false
		}
		w = c
	}
	op.Watermark = expr.Fold(w, b.env)
	return true
}

// noSourceWatermark refuses SOURCE_WATERMARK(): no connector brings watermarks of its own. The
// error points at the expression where the table was defined in the same text.
func (b *builder) noSourceWatermark(t *catalog.Table, r *opt.Read) {
	at, column := r.Scan.Pos, t.Columns[t.RowTime].Name
	if t.Def != nil && t.Def.Schema != nil && t.Def.Schema.Watermark != nil && t.Def.Schema.Watermark.Expr != nil {
		if span := t.Def.Schema.Watermark.Expr.Pos(); !t.Def.Name.Span.IsZero() {
			at = expr.Pos{Start: span.Start, End: span.End}
		}
	}
	b.fail(at, "connector '%s' of table `%s` has no watermarks of its own", t.Options["connector"], t.Name()).
		WithHint("write WATERMARK FOR %s AS %s - INTERVAL '5' SECOND", column, column)
}
