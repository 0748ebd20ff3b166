package physical

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// targetOf tells what tables are in their targets, as far as their options say: where that is, and what they are called
// there.
func targetOf(t *table) string {
	conn, o := t.spec.Connector, t.spec.Options
	if conn == "jdbc" {
		conn = "postgres"
	}
	name := t.spec.Name
	out := conn
	for _, k := range []string{"url", "database-name", "properties.bootstrap.servers", "path"} {
		out += "\x00" + strings.TrimSuffix(strings.TrimPrefix(o[k], "jdbc:"), "/")
	}
	for _, k := range []string{"table-name", "topic"} {
		if o[k] != "" {
			name = o[k]
		}
	}
	switch {
	case o["path"] != "":
		name = ""
	case conn == "postgres":
		name = strings.TrimPrefix(name, "public.")
	}
	return out + "\x00" + name
}

// results writes the changes of root as revisions into t, a table of results.
func (b *builder) results(op *plan.Sink, t *table, s *logical.Sink, root logical.Node) {
	r := t.spec.Results
	if len(r.Key) == 0 {
		b.fail(t.pos, "table `%s` holds revisions of results, but has no primary key, which says what they are counted for",
			t.cat.Name()).WithHint("add PRIMARY KEY (...) NOT ENFORCED to its definition, with the columns that tell results apart")
		return
	}
	if slices.Contains(b.revised, t.cat) {
		b.fail(s.Pos, "table `%s` is written by two statements of one job: each would count revisions from 1, so that one revision had two contents", t.cat.Name()).
			WithHint("write one INSERT, whose query is the UNION ALL of both")
		return
	}
	if other := b.targets[targetOf(t)]; other != "" {
		b.fail(s.Pos, "tables `%s` and `%s` are one table in its target: each would count revisions from 1, so that one revision had two contents", other, t.cat.Name()).
			WithHint("write one INSERT into one of them, whose query is the UNION ALL of both, or give one another 'table-name'")
		return
	}
	b.revised = append(b.revised, t.cat)
	b.targets[targetOf(t)] = t.cat.Name()
	width := root.Schema().Len()
	win := opt.Windows(root)
	root, help := b.helpers(root, r, win)
	b.complete = b.cfg.Bool(catalog.KeyBackfillComplete)
	in := b.node(root, nil)
	b.complete = false
	if in == nil {
		return
	}
	// The columns of root are those of the table by their place; their names may be others.
	key := make([]int, len(r.Key))
	for i, k := range r.Key {
		key[i] = t.spec.Schema().Index(k)
	}
	start := -1
	if len(win.Start) > 0 {
		start = win.Start[0]
		r.WindowStart = t.columnName(start)
	}
	if len(win.End) > 0 {
		r.WindowEnd = t.columnName(win.End[0])
	}
	r.Generation, r.LatenessMs = b.cfg.Get(catalog.KeyGeneration), in.asked
	r.Windows = grid(win, in)
	rv := &plan.Revise{Keys: key, Columns: width, Reason: help.reason, Count: help.count, Cause: help.cause, End: help.end,
		Zone: win.Window.Zone, LatenessMs: in.asked, Generation: r.Generation}
	if w := windowOf(in); w != nil && w.FinalOnly {
		rv.LatenessMs = 0 // the one row of a window comes when nothing can correct it
	}
	rv.Shared = !keyed1(in.UpsertKeys, key)
	if !tellsWindow(key, win) {
		rv.End = -1 // the result of the next window replaces it
	}
	if rv.End >= 0 {
		rv.SizeMs, rv.TTLMs = win.Window.Size, b.stateTTL(nil)
	}
	in = b.materialize(in, key, types.Upsert)
	if in = b.backfilled(in, start, t); in == nil {
		return
	}
	if t.spec.Results.Column["is_deleted"] == "" {
		if why := vanishes(in); why != nil {
			e := b.fail(t.pos, "table `%s` holds revisions and has no metadata column 'is_deleted', but rows of this query can disappear", t.cat.Name())
			by := why.Label
			if _, ok := why.Op.(*plan.Calc); ok {
				by = "a filter of rows that change"
			}
			e.Detail = "A row that is no more gets a last revision with NULL in all but its key, which readers could not tell from one that is there. Rows disappear by " + by + "."
			e.WithHint("add `is_deleted BOOLEAN METADATA` to its definition, or is_deleted to 'tidemark.table.%s.result-metadata'", t.cat.Name())
			return
		}
	}
	in = b.revise(rv, in, t)
	b.write(op, t, in, s.Pos)
	if b.err == nil {
		b.mayRevise(op, in, t)
	}
}

// tellsWindow reports whether rows of several windows are results of several keys.
func tellsWindow(key []int, win opt.WindowColumns) bool {
	in := func(cols []int) bool {
		return slices.ContainsFunc(cols, func(c int) bool { return slices.Contains(key, c) })
	}
	return in(win.End) || in(win.Start) && win.Window.Kind != plan.Cumulate
}

// grid is which windows the results of in are of, nil where only rows tell.
func grid(win opt.WindowColumns, in *node) *connector.WindowGrid {
	w := win.Window
	if win.Start == nil && win.End == nil || w.ProcTime || w.Kind == plan.Session || w.Size <= 0 {
		return nil
	}
	g := &connector.WindowGrid{Size: w.Size, Step: w.Step, Offset: w.Offset, Cumulative: w.Kind == plan.Cumulate}
	if w.Kind == plan.Tumble {
		g.Step = w.Size
	}
	if shownLast(in) {
		g.Delay = in.lateness
	}
	return g
}

// shownLast reports whether rows of n wait until nothing can correct them.
func shownLast(n *node) bool {
	if w, ok := n.Op.(*plan.WindowAgg); ok && w.FinalOnly {
		return true
	}
	return slices.ContainsFunc(n.in, func(in input) bool { return !in.late && shownLast(in.from) })
}

// vanishes returns the operator by which rows of n can disappear after they were there, nil where they stay: what
// takes rows of others back, sessions that grow or merge, and filters of rows that change.
func vanishes(n *node) *node {
	if !n.Mode.Has(types.Delete) && !n.Mode.Has(types.UpdateBefore) {
		return nil // rows stay, or are only ever replaced
	}
	switch o := n.Op.(type) {
	case *plan.Calc:
		if o.Filter != nil {
			return n
		}
		return vanishes(n.in[0].from)
	case *plan.WindowAgg:
		if o.InputRetracts || o.Window.Kind == plan.Session && !o.Attached {
			return n
		}
		return nil
	case *plan.GroupAgg:
		if o.InputRetracts {
			return n
		}
		return nil
	}
	if n.Mode.Has(types.Delete) {
		return n
	}
	for _, in := range n.in {
		if why := vanishes(in.from); why != nil {
			return why
		}
	}
	return nil
}

// windowOf returns the window aggregation whose rows those of n are, as far as there is one behind projections.
func windowOf(n *node) *plan.WindowAgg {
	switch o := n.Op.(type) {
	case *plan.WindowAgg:
		return o
	case *plan.Calc:
		return windowOf(n.in[0].from)
	}
	return nil
}

// helped are the columns of a result's rows that only the revisions need, or -1.
type helped struct{ reason, count, cause, end int }

// helpers makes root give what r asks to know of each emission.
func (b *builder) helpers(root logical.Node, r *connector.Results, win opt.WindowColumns) (logical.Node, helped) {
	out := helped{-1, -1, -1, -1}
	if len(win.End) > 0 {
		out.end = win.End[0]
	}
	_, final := r.Column["is_final"]
	_, reason := r.Column["emit_reason"]
	ask := func(place *int, want bool, p plan.WindowProp) {
		if want && *place < 0 {
			root, *place = opt.WithProp(root, p)
		}
	}
	ask(&out.end, final || b.stateTTL(nil) > 0, plan.WindowEnd)
	ask(&out.reason, final || reason, plan.WindowReason)
	ask(&out.count, r.Column["input_count"] != "", plan.WindowCount)
	ask(&out.cause, r.Column["cause"] != "", plan.WindowCause)
	return root, out
}

// columnName is the name of column i of what the sink of t gets, before the metadata of results.
func (t *table) columnName(i int) string {
	filled, _ := t.cat.FilledColumns(t.spec.Options)
	if physical := len(t.spec.Columns) - len(filled); i >= physical {
		return sinkSchema(t.spec).Fields[i+len(filled)].Name
	}
	return t.spec.Columns[i].Name
}

// revise makes the node that counts revisions and, where the table has metadata of its connector too, puts the
// columns into the order of the sink.
func (b *builder) revise(rv *plan.Revise, in *node, t *table) *node {
	var s types.Schema
	for i, f := range in.Schema.Fields[:rv.Columns] {
		if !slices.Contains(rv.Keys, i) {
			f.Type = f.Type.AsNullable()
		}
		s.Fields = append(s.Fields, types.Field{Name: t.columnName(i), Type: f.Type.WithoutAttr()})
	}
	filled, _ := t.cat.FilledColumns(t.spec.Options)
	for _, c := range filled {
		k := slices.Index(catalog.ResultKeys(), c.Key)
		rv.Metadata = append(rv.Metadata, plan.ResultMetadata(k))
		s.Fields = append(s.Fields, types.Field{Name: c.Name, Type: c.Type})
	}
	n := &node{Node: plan.Node{Schema: s, Mode: types.InsertOnly, RowTime: -1, Op: rv, Label: "Revisions" + by(s, rv.Keys),
		StateGrowth: "the newest revision of each " + keyWords(s, rv.Keys)}, part: rv.Keys, pos: t.pos, what: "Revisions"}
	edge := b.exchange(in, rv.Keys)
	// Rows of one key come from one subtask where they are put by a part of it: their order is kept.
	edge.ordered = edge.ordered && b.ordering(in) && !(in.part != nil && subset(in.part, rv.Keys))
	n.in = []input{edge}
	n = b.add(n)
	physical := len(t.spec.Columns) - len(filled)
	if rv.Columns == physical {
		return n
	}
	var exprs []expr.Expr
	var names []string
	take := func(i int) {
		f := n.Schema.Fields[i]
		exprs, names = append(exprs, &expr.Column{Index: i, Name: f.Name, T: f.Type}), append(names, f.Name)
	}
	for i := range physical {
		take(i)
	}
	for i := range filled {
		take(rv.Columns + i)
	}
	for i := physical; i < rv.Columns; i++ {
		take(i)
	}
	return b.calcOver(n, nil, exprs, names)
}

// mayRevise refuses revisions where a crash could show two different rows as the same revision.
func (b *builder) mayRevise(op *plan.Sink, n *node, t *table) {
	switch t.spec.Connector {
	case "print", "blackhole", "collect":
		return // nothing that lasts
	}
	how, _ := delivery(op)
	_, saves := b.interval()
	if how == connector.ExactlyOnce && (saves || n.bounded) {
		return
	}
	e := b.fail(t.pos, "table `%s` holds revisions, but what is written into it may be written again after a crash, with other content under the same revision",
		t.cat.Name())
	switch {
	case how != connector.ExactlyOnce:
		hint := "add '" + keyDelivery + "' = 'exactly-once' to its definition"
		if !saves {
			hint += ", and " + setInterval
		}
		e.WithHint("%s", hint)
	default:
		e.WithHint("%s", setInterval)
	}
}

// Warnings says what of a plan may be other than its user expects.
func Warnings(p *plan.Plan) []string {
	out := unknowns(p)
	every, err := option.ParseDuration(p.Config[keyInterval])
	if err != nil || every <= 0 || p.Batch {
		return out
	}
	for _, n := range p.Nodes {
		s, ok := n.Op.(*plan.Sink)
		if !ok || s.Collect || s.Table.Results == nil {
			continue
		}
		for id := range above(p, n.ID) {
			w, ok := p.Nodes[id].Op.(*plan.WindowAgg)
			if !ok || w.EarlyFireMs < 0 || time.Duration(w.EarlyFireMs)*time.Millisecond >= every {
				continue
			}
			out = append(out, fmt.Sprintf("table %s: early results of %s come more often than checkpoints (every %s), and revisions are visible after a checkpoint: "+
				"several of them appear at a time; set 'early-fire' to %s, or checkpoints to come more often", s.Table.Name, p.Nodes[id].Label, p.Config[keyInterval], p.Config[keyInterval]))
		}
	}
	slices.Sort(out)
	return out
}

// above returns the nodes that feed node id.
func above(p *plan.Plan, id int) map[int]bool {
	out := map[int]bool{}
	var walk func(id int)
	walk = func(id int) {
		if out[id] {
			return
		}
		out[id] = true
		for _, e := range p.Nodes[id].Inputs {
			if !e.Late {
				walk(e.From)
			}
		}
	}
	walk(id)
	return out
}
