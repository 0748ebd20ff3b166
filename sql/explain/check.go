package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// Targets lists what Check can compare with.
var Targets = []string{"flink-1.20"}

// Finding is one construct that the target treats differently.
type Finding struct {
	// Pos is the place in the text; zero where no place can be named.
	Pos sqlerr.Span
	// What names the construct, Effect what the target does with it, Portable how to write it
	// so that both do the same; Portable is empty where there is no such way.
	What, Effect, Portable string
}

// String prints the finding on one line, without position.
func (f Finding) String() string {
	s := f.What + ": " + f.Effect
	if f.Portable != "" {
		s += "; portable: " + f.Portable
	}
	return s
}

// Check lists what target treats differently in the job p of sinks, in the order of the text.
func Check(sinks []*logical.Sink, p *plan.Plan, target string) ([]Finding, error) {
	if !slices.Contains(Targets, target) {
		return nil, fmt.Errorf("unknown target '%s'; known are %s", target, strings.Join(Targets, ", "))
	}
	c := &checker{p: p, tables: map[*catalog.Table]bool{}}
	for _, s := range sinks {
		if s.Table != nil {
			c.table(s.Table, s.Hints, s.Pos)
		}
		c.into(s)
		c.tree(s.Input)
		c.sink = ""
		c.distinctInto(s)
	}
	c.defaults()
	slices.SortStableFunc(c.found, func(a, b Finding) int { return a.Pos.Start - b.Pos.Start })
	return slices.CompactFunc(c.found, func(a, b Finding) bool { return a == b }), nil
}

type checker struct {
	p      *plan.Plan
	tables map[*catalog.Table]bool
	sink   string // that the query being looked at writes, "" for none
	found  []Finding
}

func (c *checker) add(pos expr.Pos, what, effect, portable string) {
	c.found = append(c.found, Finding{sqlerr.Span{Start: pos.Start, End: pos.End}, what, effect, portable})
}

func (c *checker) tree(n logical.Node) {
	switch n := n.(type) {
	case *logical.Scan:
		c.table(n.Table, n.Hints, n.Pos)
	case *logical.WindowTVF:
		c.shortForm(n)
		c.emission(n)
		c.uneven(n)
	case *logical.Aggregate:
		for _, a := range n.Aggs {
			c.aggregate(a, n.Pos)
		}
		c.hints(n.Emit)
	}
	for _, in := range n.Inputs() {
		c.tree(in)
	}
}

// ours are table options that Flink does not know, with what they do.
var ours = []struct{ prefix, does string }{
	{"dead-letter.", "records that cannot be used stop the job there"},
	{"scan.watermark.max-future", "a time far in the future moves the watermark there"},
	{"upsert.", "the newest arrival wins there, whatever its version"},
	{"result-metadata", "the rows there are the newest results, without their history"},
	{"late-metadata", "the columns are missing there"},
	{"sink.create", "the target must exist there"},
}

// flinkConnectors are those that come with Flink or from its project.
var flinkConnectors = []string{"filesystem", "kafka", "upsert-kafka", "datagen", "print", "blackhole", "jdbc",
	"elasticsearch-6", "elasticsearch-7", "opensearch", "hbase-1.4", "hbase-2.2", "kinesis", "firehose", "dynamodb",
	"mongodb", "pulsar", "rabbitmq"}

func (c *checker) table(t *catalog.Table, hints map[string]string, pos expr.Pos) {
	for _, k := range sortedKeys(hints) {
		if does, ok := ourOption(k); ok {
			c.add(pos, fmt.Sprintf("hint option '%s' of table `%s`", k, t.Name()), "Flink refuses the unknown option; "+does,
				setTable(t, k, hints[k]))
		}
	}
	if c.tables[t] {
		return
	}
	c.tables[t] = true
	c.filled(t, pos)
	c.set(t, pos)
	for _, k := range sortedKeys(t.Options) {
		if does, ok := ourOption(k); ok {
			c.add(optionAt(t.Def, k, pos), fmt.Sprintf("option '%s' of table `%s`", k, t.Name()),
				"Flink refuses the unknown option; without it, "+does, setTable(t, k, t.Options[k]))
		}
	}
	if name := t.Options["connector"]; !slices.Contains(flinkConnectors, name) {
		c.add(optionAt(t.Def, "connector", pos), fmt.Sprintf("connector '%s' of table `%s`", name, t.Name()),
			"Flink has no such connector", "")
	}
}

func setTable(t *catalog.Table, key, value string) string {
	return fmt.Sprintf("SET 'tidemark.table.%s.%s' = '%s'", t.Name(), key, strings.ReplaceAll(value, "'", "''"))
}

func ourOption(key string) (does string, ok bool) {
	for _, o := range ours {
		if strings.HasPrefix(key, o.prefix) {
			return o.does, true
		}
	}
	return "", false
}

func optionAt(def *ast.CreateTable, key string, other expr.Pos) expr.Pos {
	if def != nil {
		for _, o := range def.Options {
			if o.Key != nil && o.Key.Value == key {
				return expr.Pos{Start: o.Start, End: o.End}
			}
		}
	}
	return other
}

// uneven finds windows whose size is no multiple of their step.
func (c *checker) uneven(n *logical.WindowTVF) {
	w := n.Window
	if (w.Kind == plan.Hop || w.Kind == plan.Cumulate) && w.Step > 0 && w.Size%w.Step != 0 {
		c.add(n.Pos, w.Kind.String()+" whose size is no multiple of its step", "Flink refuses it", "")
	}
}

// shortForm finds window functions outside TABLE( ): the text before the call tells.
func (c *checker) shortForm(n *logical.WindowTVF) {
	if n.Pos == (expr.Pos{}) || n.Pos.End > len(c.p.Text) {
		return
	}
	word := func(s string) bool {
		s = strings.TrimRight(s, " \t\r\n")
		s, ok := strings.CutSuffix(s, "(")
		s = strings.ToUpper(strings.TrimRight(s, " \t\r\n"))
		return ok && strings.HasSuffix(s, "TABLE")
	}
	call := c.p.Text[n.Pos.Start:n.Pos.End]
	open := strings.IndexByte(call, '(')
	if open >= 0 && word(call[:open+1]) || word(c.p.Text[:n.Pos.Start]) {
		return
	}
	c.add(n.Pos, n.Window.Kind.String()+" outside of TABLE( )", "Flink 1.20 does not parse it (2.x does)",
		"TABLE("+call+")")
}

// emission finds early and late firing of window functions, which Flink has for the old group
// windows only.
func (c *checker) emission(n *logical.WindowTVF) {
	for _, k := range sortedKeys(c.p.Config) {
		if strings.HasPrefix(k, "table.exec.emit.") {
			c.add(n.Pos, fmt.Sprintf("%s with '%s'", n.Window.Kind, k),
				"Flink emits window functions once, when the window ends, and ignores or refuses the key",
				"GROUP BY "+n.Window.Kind.String()+"(...), the old form")
			return
		}
	}
}

func (c *checker) aggregate(a plan.AggCall, pos expr.Pos) {
	switch {
	case a.Fn == "APPROX_COUNT_DISTINCT" && !c.p.Batch:
		c.add(pos, a.Fn, "Flink has it in batch mode only", "COUNT(DISTINCT ...), which is exact and keeps all values")
	case a.Fn == "APPROX_PERCENTILE":
		c.add(pos, a.Fn, "Flink has no such function", "")
	}
}

// distinctInto finds DISTINCT into a table that takes only inserts: here a row that is there once
// stays, so that it is an insert; Flink calls it an update.
func (c *checker) distinctInto(s *logical.Sink) {
	if s.Table == nil || c.p.Batch {
		return
	}
	for _, n := range c.p.Nodes {
		sink, ok := n.Op.(*plan.Sink)
		if !ok || sink.Table == nil || sink.Table.Name != s.Table.Name() || !n.Mode.IsInsertOnly() {
			continue
		}
		if g := c.group(n); g != nil {
			c.add(s.Pos, "SELECT DISTINCT into `"+s.Table.Name()+"`, which takes only inserts",
				"Flink refuses it, since it takes DISTINCT for a source of updates",
				"a table that takes updates, or DISTINCT within windows")
			return
		}
	}
}

// group finds an aggregation above n whose rows count as updates in Flink.
func (c *checker) group(n *plan.Node) *plan.Node {
	if _, ok := n.Op.(*plan.GroupAgg); ok {
		return n
	}
	for _, e := range n.Inputs {
		if g := c.group(c.p.Nodes[e.From]); g != nil {
			return g
		}
	}
	return nil
}

// defaults lists defaults that differ where the job depends on them.
func (c *checker) defaults() {
	for _, n := range c.p.Nodes {
		s, ok := n.Op.(*plan.Source)
		if !ok || s.RowTime < 0 {
			continue
		}
		pos := c.sourcePos(s.Table.Name)
		o := s.Table.Options
		_, idle := c.p.Config["table.exec.source.idle-timeout"]
		if s.Table.Connector == "kafka" && !idle && o["scan.watermark.idle-timeout"] == "" {
			c.add(pos, "idle partitions of `"+s.Table.Name+"`",
				"here a partition that was read to its end for 30 s no longer holds the watermark back; in Flink it does for ever",
				"SET 'table.exec.source.idle-timeout' = '30 s' (0 s: never)")
		}
		interval, periodic := c.p.Config["pipeline.auto-watermark-interval"]
		if n.NeedStamps && o["scan.watermark.emit.strategy"] == "" && (!periodic || !strings.HasPrefix(interval, "0")) {
			c.add(pos, "watermark of `"+s.Table.Name+"`",
				"here it advances with every row; in Flink every 200 ms of the wall clock, so that fewer rows are late there",
				"SET 'pipeline.auto-watermark-interval' = '0' (filesystem), or 'scan.watermark.emit.strategy' = 'on-event' (kafka)")
		}
	}
}

func (c *checker) sourcePos(name string) expr.Pos {
	for t := range c.tables {
		if t.Name() == name && t.Def != nil {
			return expr.Pos{Start: t.Def.Start, End: t.Def.End}
		}
	}
	return expr.Pos{}
}
