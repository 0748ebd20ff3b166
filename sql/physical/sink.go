package physical

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// sink makes the sink of one statement and what feeds it.
func (b *builder) sink(s *logical.Sink, root logical.Node) {
	op := &plan.Sink{Overwrite: s.Overwrite, StaticPartition: s.StaticPartition}
	if s.Table == nil {
		op.Collect = true
		if in := b.node(root, nil); in != nil {
			edge := b.exchange(in, nil)
			edge.ordered = false
			b.add(&node{Node: plan.Node{Schema: named(in.Schema, s.Input.Schema()), Mode: in.Mode, RowTime: -1,
				UpsertKeys: in.UpsertKeys, Label: "Result", Op: op, Parallelism: 1},
				in: []input{edge}, pos: s.Pos, what: "result", single: true, needUB: true})
		}
		return
	}
	t := b.table(s.Table, s.Hints, s.Pos)
	if t == nil || !b.writable(t) {
		return
	}
	op.Table = t.spec
	if t.spec.Results != nil {
		b.results(op, t, s, root)
		return
	}
	accepts := t.sinkMode()
	var upsert []int
	if !accepts.Has(types.UpdateBefore) && accepts.Has(types.UpdateAfter) {
		upsert = t.keyColumns(sinkSchema(t.spec))
	}
	if in := b.node(root, upsert); in != nil {
		b.write(op, t, in, s.Pos)
	}
}

// writable refuses tables that cannot be written.
func (b *builder) writable(t *table) bool {
	if t.factory.NewSink == nil {
		b.fail(t.pos, "table `%s` cannot be written: connector '%s' only reads", t.cat.Name(), t.spec.Connector)
		return false
	}
	return b.metadata(t, t.factory.SinkMetadata, func(m connector.MetadataColumn) bool { return !m.Virtual }, "written")
}

// write makes the sink of table t for the rows of in, which have its columns.
func (b *builder) write(op *plan.Sink, t *table, in *node, pos expr.Pos) {
	if !b.writable(t) {
		return
	}
	schema := sinkSchema(t.spec)
	accepts := t.sinkMode()
	key := t.keyColumns(schema)
	if !b.accepted(in, t, accepts) {
		return
	}
	in = b.materialize(in, key, accepts)
	b.notNull(op, in, schema)
	n := &node{Node: plan.Node{Schema: schema, Mode: in.Mode, RowTime: -1, UpsertKeys: in.UpsertKeys,
		Label: "Sink(" + t.cat.Name() + ")", Op: op, Parallelism: in.Parallelism},
		in: []input{b.toSink(in, key)}, pos: pos, what: "sink", needUB: accepts.Has(types.UpdateBefore) && !t.factory.SkipsUpdateBefore}
	if n.in[0].dist != plan.Forward {
		n.Parallelism = 0
	}
	if par := int(t.values.Int("sink.parallelism")); par > 0 && par != n.Parallelism {
		if !in.Mode.IsInsertOnly() && len(key) == 0 {
			b.fail(pos, "table `%s` has 'sink.parallelism' but no primary key, so the order of changes of a row would be lost",
				t.cat.Name()).WithHint("add PRIMARY KEY (...) NOT ENFORCED to its definition, or leave out the option")
			return
		}
		n.Parallelism = par
		if len(key) > 0 && n.in[0].dist == plan.Forward {
			n.in[0] = input{from: in, dist: plan.Hash, keys: key, ordered: b.ordering(in)}
		}
	}
	b.sinks = append(b.sinks, tableSink{b.add(n), t})
}

// named gives the columns of s the names that the query gave them.
func named(s, query types.Schema) types.Schema {
	out := types.Schema{Fields: make([]types.Field, len(s.Fields))}
	for i, f := range s.Fields {
		f.Name = query.Fields[i].Name
		out.Fields[i] = f
	}
	return out
}

// accepted refuses a query whose changes the sink cannot take.
func (b *builder) accepted(in *node, t *table, accepts types.ChangelogMode) bool {
	if in.Mode&^accepts&^(1<<types.UpdateBefore) == 0 {
		if in.Mode.Has(types.UpdateAfter) && !accepts.Has(types.UpdateBefore) && len(t.spec.PrimaryKey) == 0 {
			b.fail(t.pos, "table `%s` takes updates by key, but has no primary key", t.cat.Name()).
				WithHint("add PRIMARY KEY (...) NOT ENFORCED to its definition")
			return false
		}
		return true
	}
	kinds := "updates"
	switch {
	case !in.Mode.Has(types.UpdateAfter):
		kinds = "deletions"
	case in.Mode.Has(types.Delete):
		kinds = "updates and deletions"
	}
	why := culprit(in)
	taken := "only inserts"
	if !accepts.IsInsertOnly() {
		taken = "only " + accepts.String()
	}
	e := b.fail(t.pos, "table `%s` accepts %s, but the query produces %s", t.cat.Name(), taken, kinds)
	e.Detail = fmt.Sprintf("They come from %s, whose rows are corrected when more input arrives.",
		strings.TrimPrefix(why.Label, "Global")) // in one phase or two, it is one aggregation of the query
	if strings.HasPrefix(why.what, "table ") {
		e.Detail = fmt.Sprintf("They come from %s, which is a stream of changes %s.", why.what, why.Mode)
	}
	hint := "write into a table that takes changes, such as 'connector' = 'upsert-kafka' or 'format' = 'debezium-json'"
	if why.what == "GroupAggregate" {
		hint = "aggregate over windows (GROUP BY window_start, window_end), or " + hint
	}
	e.WithHint("%s", hint)
	return false
}

// culprit finds the operator that first makes changes of inserts.
func culprit(n *node) *node {
	for _, in := range n.in {
		if !in.from.Mode.IsInsertOnly() {
			return culprit(in.from)
		}
	}
	return n
}

// materialize puts a map by upsert key before a sink that goes by another key, since the order of
// updates of different upsert keys with the same sink key is lost in an exchange.
func (b *builder) materialize(in *node, key []int, accepts types.ChangelogMode) *node {
	mode := b.cfg.Enum("table.exec.sink.upsert-materialize")
	needed := len(key) > 0 && !accepts.Has(types.UpdateBefore) && accepts.Has(types.UpdateAfter) &&
		!in.Mode.IsInsertOnly() && !keyed1(in.UpsertKeys, key)
	if mode == "NONE" || b.batch || !needed && (mode != "FORCE" || len(key) == 0) {
		return in
	}
	edge := b.exchange(in, key)
	edge.ordered = edge.ordered && b.ordering(in)
	return b.add(&node{Node: plan.Node{Schema: in.Schema, Mode: types.Upsert, RowTime: in.RowTime, UpsertKeys: [][]int{key},
		Label:       "SinkMaterializer" + by(in.Schema, key),
		Op:          &plan.Materialize{Keys: key, TTLMs: b.cfg.Duration(catalog.KeyStateTTL).Milliseconds()},
		StateGrowth: "the rows that stand, for each " + keyWords(in.Schema, key)},
		in: []input{edge}, part: key, what: "SinkMaterializer"})
}

// keyed1 reports whether some upsert key lies within key, so that rows of one key are versions
// of one row.
func keyed1(upsert [][]int, key []int) bool {
	for _, u := range upsert {
		if subset(u, key) {
			return true
		}
	}
	return false
}

// notNull lists the columns that may come as NULL but must not. What a source declares NOT NULL is
// a promise about data that nobody has checked yet.
func (b *builder) notNull(op *plan.Sink, in *node, schema types.Schema) {
	for i, f := range schema.Fields {
		if !f.Type.Nullable && (in.Schema.Fields[i].Type.Nullable || promised(in, i)) {
			op.NotNull = append(op.NotNull, i)
		}
	}
	op.DropNulls = b.cfg.Enum(catalog.KeyNotNull) == "DROP"
}

// promised reports whether column c of n is one that a source read, as far as it is passed on
// unchanged or computed row by row.
func promised(n *node, c int) bool {
	switch o := n.Op.(type) {
	case *plan.Source:
		return c != o.RowTime // rows without an event time never leave the source
	case *plan.Calc:
		if o.Project == nil {
			return promised(n.in[0].from, c)
		}
		from := map[int]bool{}
		expr.Columns(o.Project[c], from)
		for k := range from {
			if promised(n.in[0].from, k) {
				return true
			}
		}
		return false
	case *plan.Sort, *plan.Limit, *plan.Union, *plan.Normalize, *plan.Materialize, *plan.DropUpdateBefore:
		return slices.ContainsFunc(n.in, func(in input) bool { return promised(in.from, c) })
	case *plan.Revise:
		return c < o.Columns && promised(n.in[0].from, c)
	case *plan.Late:
		read := n.in[0].from.in[0].from // what the aggregation reads
		return c < len(read.Schema.Fields) && promised(read, c)
	case *plan.WindowTVF:
		return c < len(n.in[0].from.Schema.Fields) && promised(n.in[0].from, c)
	case *plan.Join:
		if left := len(n.in[0].from.Schema.Fields); c >= left {
			return promised(n.in[1].from, c-left)
		}
		return promised(n.in[0].from, c)
	case *plan.GroupAgg:
		return c < len(o.Keys) && promised(n.in[0].from, o.Keys[c])
	case *plan.WindowAgg:
		return c < len(o.Keys) && promised(n.in[0].from, o.Keys[c])
	}
	return false
}

// toSink is the edge into a sink. Where the sink has a key, rows of one key go to one writer;
// they do already where they are distributed by a part of the key.
func (b *builder) toSink(in *node, key []int) input {
	strategy := b.cfg.Enum("table.exec.sink.keyed-shuffle")
	if len(key) == 0 || strategy == "NONE" || in.single && strategy != "FORCE" ||
		in.part != nil && subset(in.part, key) && strategy != "FORCE" {
		return input{from: in}
	}
	e := input{from: in, dist: plan.Hash, keys: key}
	e.ordered = b.ordering(in)
	return e
}

// conjuncts that hold for every consumer of a source, over the source's columns.
func commonConjuncts(consumers [][]expr.Expr) []expr.Expr {
	if len(consumers) == 0 {
		return nil
	}
	var out []expr.Expr
	for _, c := range consumers[0] {
		inAll := true
		for _, o := range consumers[1:] {
			found := false
			for _, x := range o {
				found = found || expr.Equal(c, x)
			}
			inAll = inAll && found
		}
		if inAll {
			out = append(out, c)
		}
	}
	return out
}
