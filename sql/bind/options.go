package bind

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// usage is what a statement does with a table.
type usage uint8

const (
	reading usage = iota
	writing
)

// optionsHint reads /*+ OPTIONS('k' = 'v') */ of a table; nil without one.
func (b *Binder) optionsHint(hints []*ast.Hint) (map[string]string, error) {
	var out map[string]string
	for _, h := range hints {
		if !strings.EqualFold(h.Name.Name, "OPTIONS") {
			return nil, errAt(h.Span, "a table has no hint %s", h.Name.Name).WithHint("write OPTIONS('key' = 'value')")
		}
		if !b.cfg.Bool("table.dynamic-table-options.enabled") {
			return nil, errAt(h.Span, "the hint OPTIONS is switched off").
				WithHint("SET 'table.dynamic-table-options.enabled' = 'true'")
		}
		if out == nil {
			out = map[string]string{}
		}
		for _, o := range h.Options {
			out[o.Key.Value] = o.Value.Value
		}
	}
	return out, nil
}

// queryHints are the hints of Flink for a select block. All but STATE_TTL choose between join
// algorithms or tune them: they change no result, so they are accepted where Flink accepts them.
var queryHints = []string{"BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP", "STATE_TTL",
	"MULTI_JOIN"}

// checkQueryHints refuses hints of a select block that mean nothing.
func (b *Binder) checkQueryHints(q *ast.Select) error {
	for _, h := range q.Hints {
		name := strings.ToUpper(h.Name.Name)
		switch {
		case name == "EMIT": // emit.go
		case name == "OPTIONS":
			return errAt(h.Span, "the hint OPTIONS belongs to a table").WithHint("write FROM t /*+ OPTIONS('k' = 'v') */")
		case !slices.Contains(queryHints, name):
			return errAt(h.Span, "unknown hint %s", h.Name.Name).
				WithHint("%s", suggest(name, append(queryHints, "EMIT"), "hints are "))
		}
	}
	return nil
}

// tableOptions are the options of a table as a statement sees them, with where each was written.
type tableOptions struct {
	table *catalog.Table
	given map[string]string
	hints map[string]sqlerr.Span
	at    sqlerr.Span // the table's name in the statement
}

// checkTable checks the options of a table that a statement uses: against the connector, against
// the formats it names, against what all tables have. As in Flink, a definition is not checked
// before it is used.
func (b *Binder) checkTable(t *catalog.Table, hints []*ast.Hint, at sqlerr.Span, use usage) error {
	if b.unchecked {
		return nil
	}
	o := b.tableOptions(t, hints, at)
	name := o.given["connector"]
	if name == "" {
		return errAt(o.tableSpan(), "table %s has no option 'connector'", t.Name()).
			WithHint("add WITH ('connector' = '...'); connectors are %s", strings.Join(sortedNames(connector.Names()), ", "))
	}
	f := connector.Lookup(name)
	if f == nil {
		return errAt(o.span("connector"), "unknown connector '%s'", name).
			WithHint("%s", suggest(name, sortedNames(connector.Names()), "connectors are "))
	}
	maps.Copy(o.given, f.Inherited(o.given, b.cfg.All()))
	if use == reading && f.NewSource == nil {
		return errAt(at, "table %s cannot be read: connector '%s' only writes", t.Name(), name)
	}
	if use == writing && f.NewSink == nil {
		return errAt(at, "table %s cannot be written: connector '%s' only reads", t.Name(), name)
	}
	return o.check(f, use)
}

// tableOptions gathers the options of t in a statement.
func (b *Binder) tableOptions(t *catalog.Table, hints []*ast.Hint, at sqlerr.Span) *tableOptions {
	o := &tableOptions{table: t, hints: map[string]sqlerr.Span{}, at: at}
	given := map[string]string{}
	for _, h := range hints {
		for _, h := range h.Options {
			given[h.Key.Value] = h.Value.Value
			o.hints[h.Key.Value] = h.Span
		}
	}
	o.given = b.cfg.TableOptions(t, given)
	return o
}

func sortedNames(names []string) []string {
	slices.Sort(names)
	return names
}

// check holds the options against the connector f and its formats.
func (o *tableOptions) check(f *connector.Factory, use usage) error {
	specs := slices.Concat(connector.CommonOptions, catalog.TableOptions, f.Options)
	formats, err := o.formats(f, use)
	if err != nil {
		return err
	}
	specs = append(specs, formats...)
	values := option.Of(o.given, specs)
	if err := values.Check(sqlerr.Nearest); err != nil {
		return o.positioned(err)
	}
	if err := o.checkFilled(); err != nil {
		return err
	}
	if err := o.checkMetadata(f, use); err != nil {
		return err
	}
	if f.Check == nil {
		return nil
	}
	return o.positioned(f.Check(o.table.SpecOf(o.given), values))
}

// formatKeys are the options that name a format, and what the format's own options start with
// before its name.
var formatKeys = []struct {
	key, prefix string
	keyed       bool
}{{"format", "", false}, {"value.format", "value.", true}, {"key.format", "key.", true}}

// formats returns the options that the table's formats add.
func (o *tableOptions) formats(f *connector.Factory, use usage) ([]option.Spec, error) {
	if !f.Formats {
		return nil, nil
	}
	var specs []option.Spec
	found := false
	for _, k := range formatKeys {
		if k.keyed && !f.Keyed {
			continue
		}
		specs = append(specs, option.Spec{Name: k.key, Doc: "how bytes become rows"})
		name := o.given[k.key]
		if name == "" {
			continue
		}
		found = found || k.key != "key.format"
		ff := format.Lookup(name)
		if ff == nil {
			return nil, errAt(o.span(k.key), "unknown format '%s'", name).
				WithHint("%s", suggest(name, sortedNames(format.Names()), "formats are "))
		}
		if use == reading && ff.NewDecoder == nil {
			return nil, errAt(o.span(k.key), "format '%s' cannot be read", name)
		}
		if use == writing && ff.NewEncoder == nil {
			return nil, errAt(o.span(k.key), "format '%s' cannot be written", name)
		}
		for _, s := range ff.Options {
			s.Name = k.prefix + name + "." + s.Name
			specs = append(specs, s)
		}
	}
	if !found {
		return nil, errAt(o.tableSpan(), "table %s has no option 'format'", o.table.Name()).
			WithHint("add 'format' = '...'; formats are %s", strings.Join(sortedNames(format.Names()), ", "))
	}
	return specs, nil
}

// checkMetadata checks the keys of metadata columns.
func (o *tableOptions) checkMetadata(f *connector.Factory, use usage) error {
	known := f.SourceMetadata
	if use == writing {
		known = f.SinkMetadata
	}
	var names []string
	for _, m := range known {
		names = append(names, m.Name)
	}
	for i, c := range o.table.Columns {
		if c.Kind != catalog.Metadata || slices.Contains(names, c.Key) || use == writing && c.Virtual || o.table.Filled(i) {
			continue
		}
		hint := suggest(c.Key, names, "its metadata are ")
		if use == writing && slices.ContainsFunc(f.SourceMetadata, func(m types.Field) bool { return m.Name == c.Key }) {
			return errAt(o.columnSpan(c.Name), "metadata '%s' of connector '%s' cannot be written", c.Key, f.Name).
				WithHint("add VIRTUAL to column %s, so that it is left out when writing", c.Name)
		}
		return errAt(o.columnSpan(c.Name), "connector '%s' has no metadata '%s'", f.Name, c.Key).WithHint("%s", hint)
	}
	return nil
}

// positioned points an option's error at the text of the option.
func (o *tableOptions) positioned(err error) error {
	if err == nil {
		return nil
	}
	var oe *option.Error
	if !errors.As(err, &oe) {
		return wrap(o.tableSpan(), err)
	}
	if oe.Key == "" {
		return &sqlerr.Error{Pos: o.tableSpan(), Msg: oe.Msg, Hint: oe.Hint}
	}
	return &sqlerr.Error{Pos: o.span(oe.Key), Msg: oe.Msg + " (table " + o.table.Name() + ")", Hint: oe.Hint}
}

// span is where an option was written: in a hint, in the table's definition, or nowhere here,
// which is the table's name in the statement.
func (o *tableOptions) span(key string) sqlerr.Span {
	if s, ok := o.hints[key]; ok {
		return s
	}
	if o.table.Def != nil {
		for i := len(o.table.Def.Options) - 1; i >= 0; i-- {
			if opt := o.table.Def.Options[i]; opt.Key.Value == key && !opt.Span.IsZero() {
				return opt.Span
			}
		}
	}
	return o.tableSpan()
}

// tableSpan is the table's name in its definition, or in the statement.
func (o *tableOptions) tableSpan() sqlerr.Span {
	if o.table.Def != nil && !o.table.Def.Name.Span.IsZero() {
		return o.table.Def.Name.Span
	}
	return o.at
}

func (o *tableOptions) columnSpan(name string) sqlerr.Span {
	if o.table.Def != nil && o.table.Def.Schema != nil {
		for _, c := range o.table.Def.Schema.Columns {
			if c.Name.Name == name && !c.Span.IsZero() {
				return c.Span
			}
		}
	}
	return o.tableSpan()
}
