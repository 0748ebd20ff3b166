package explain

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// oneResult is what Flink makes of windows, whatever is asked for in our spelling.
const oneResult = "windows show one result there, when the watermark passes their end, and drop what comes later"

// hints finds hints EMIT.
func (c *checker) hints(e *logical.Emit) {
	if e == nil {
		return
	}
	if e.LateSink != nil {
		c.table(e.LateSink, nil, e.LateSinkPos)
	}
	for _, h := range e.Hints {
		for _, o := range h.Options {
			portable := ""
			if c.sink != "" {
				portable = setEmit(c.sink, o.Key, o.Value)
			}
			c.add(o.Pos, "'"+o.Key+"' of the hint EMIT", "Flink refuses the unknown hint; without it, "+oneResult, portable)
		}
	}
}

func setEmit(sink, key, value string) string {
	return fmt.Sprintf("SET 'tidemark.emit.%s.%s' = '%s'", sink, key, strings.ReplaceAll(value, "'", "''"))
}

// into finds what SET says of the queries into a sink: Flink steps over it.
func (c *checker) into(s *logical.Sink) {
	if s.Table == nil {
		return
	}
	c.sink = s.Table.Name()
	prefix := "tidemark.emit." + c.sink + "."
	for _, k := range sortedKeys(c.p.Config) {
		if strings.HasPrefix(k, prefix) {
			c.add(s.Pos, "SET '"+k+"'", "Flink steps over the key: "+oneResult, "")
		}
	}
}

// set finds options of a table that SET gives it: Flink steps over them.
func (c *checker) set(t *catalog.Table, pos expr.Pos) {
	prefix := "tidemark.table." + t.Name() + "."
	for _, k := range sortedKeys(c.p.Config) {
		if !strings.HasPrefix(k, prefix) {
			continue
		}
		does, ok := ourOption(k[len(prefix):])
		if !ok {
			does = "the option has no effect there"
		}
		c.add(pos, "SET '"+k+"'", "Flink steps over the key: "+does, "")
	}
}

// filled finds columns with metadata of results or of late rows: one finding a table.
func (c *checker) filled(t *catalog.Table, pos expr.Pos) {
	var keys []string
	results := false
	for i, col := range t.Columns {
		if !t.Filled(i) {
			continue
		}
		if def := t.Def; keys == nil && def != nil && def.Schema != nil && i < len(def.Schema.Columns) && !def.Schema.Columns[i].Span.IsZero() {
			at := def.Schema.Columns[i].Span
			pos = expr.Pos{Start: at.Start, End: at.End}
		}
		keys = append(keys, col.Key)
		results = results || col.Key == plan.ResultColumns[plan.ResultRevision].Name
	}
	if keys == nil {
		return
	}
	option, effect := catalog.OptionLate, "without it, these columns are missing there"
	if results {
		option, effect = catalog.OptionResults, "without it, the rows there are the newest results, without their history"
	}
	c.add(pos, fmt.Sprintf("metadata '%s' of table `%s`", strings.Join(keys, "', '"), t.Name()), "Flink refuses the unknown metadata; "+effect,
		fmt.Sprintf("leave out the columns, and SET 'tidemark.table.%s.%s' = '%s'", t.Name(), option, strings.Join(keys, ",")))
}
