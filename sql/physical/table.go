package physical

import (
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// table is a table of the catalog with its connector, as one statement uses it.
type table struct {
	cat     *catalog.Table
	spec    *connector.Table
	factory *connector.Factory
	values  option.Values
	// format is the value format, or nil.
	format *format.Factory
	pos    expr.Pos
}

// table looks up the connector of t.
func (b *builder) table(t *catalog.Table, hints map[string]string, pos expr.Pos) *table {
	options := b.cfg.TableOptions(t, hints)
	out := &table{cat: t, spec: t.SpecOf(options), pos: pos}
	name := out.spec.Connector
	if out.factory = connector.Lookup(name); out.factory == nil {
		e := b.fail(pos, "table `%s` has the connector '%s', which does not exist", t.Name(), name)
		if name == "" {
			e.Msg = "table `" + t.Name() + "` has no option 'connector'"
		}
		known := connector.Names()
		sort.Strings(known)
		if near := sqlerr.Nearest(name, known); len(near) > 0 {
			e.WithHint("did you mean '%s'?", strings.Join(near, "' or '"))
		} else {
			e.WithHint("known are: %s", strings.Join(known, ", "))
		}
		return nil
	}
	if more := out.factory.Inherited(out.spec.Options, b.cfg.All()); more != nil {
		maps.Copy(options, more)
		out.spec = t.SpecOf(options)
	}
	specs := [][]option.Spec{out.factory.Options, connector.CommonOptions, catalog.TableOptions}
	for _, p := range [...]string{"", "value.", "key."} {
		f, ok := out.spec.Options[p+"format"]
		if !ok {
			continue
		}
		ff := format.Lookup(f)
		if ff == nil {
			known := format.Names()
			sort.Strings(known)
			b.fail(pos, "table `%s` has the %sformat '%s', which does not exist", t.Name(), p, f).
				WithHint("known are: %s", strings.Join(known, ", "))
			return nil
		}
		if p != "key." {
			out.format = ff
		}
		specs = append(specs, prefixed(p+f+".", ff.Options))
	}
	if out.factory.Formats && out.format == nil {
		b.fail(pos, "table `%s` has no option 'format'", t.Name()).WithHint("add 'format' = 'json' to its WITH clause")
		return nil
	}
	out.values = option.Of(out.spec.Options, specs...)
	if err := out.check(); err != nil {
		b.optionError(out, err)
		return nil
	}
	return out
}

// check refuses options and schemas that the connector or the format cannot serve.
func (t *table) check() error {
	if err := t.values.Check(sqlerr.Nearest); err != nil {
		return err
	}
	if t.factory.Check != nil {
		if err := t.factory.Check(t.spec, t.values); err != nil {
			return err
		}
	}
	if t.format != nil && t.format.Check != nil {
		// Options of the value format stand below its name, or below "value." and its name.
		prefix := t.format.Name + "."
		if t.spec.Options["value.format"] != "" {
			prefix = "value." + prefix
		}
		return t.format.Check(t.decoded(), t.values.Scoped(prefix, t.format.Options))
	}
	return nil
}

// decoded is the physical columns that the value format describes: those that are not constants
// of a folder.
func (t *table) decoded() types.Schema {
	s := t.spec.Schema()
	if t.factory.Partitioned {
		s.Fields = slices.DeleteFunc(slices.Clone(s.Fields), func(f types.Field) bool {
			return slices.Contains(t.spec.PartitionKeys, f.Name)
		})
	}
	return s
}

// metadata refuses metadata columns that the connector does not know.
func (b *builder) metadata(t *table, known []types.Field, used func(connector.MetadataColumn) bool, verb string) bool {
	for _, m := range t.spec.Metadata {
		if !used(m) || slices.ContainsFunc(known, func(f types.Field) bool { return f.Name == m.Key }) ||
			strings.HasPrefix(m.Key, "value.") {
			continue // keys of formats are theirs to check
		}
		keys := types.Schema{Fields: known}.Names()
		e := b.fail(t.pos, "metadata '%s' of column `%s` cannot be %s: connector '%s' does not have it", m.Key, m.Name,
			verb, t.spec.Connector)
		if near := sqlerr.Nearest(m.Key, keys); len(near) > 0 {
			e.WithHint("did you mean '%s'?", strings.Join(near, "' or '"))
		} else if len(keys) > 0 {
			e.WithHint("it has %s; a column that is only read or only computed is VIRTUAL", strings.Join(keys, ", "))
		}
		return false
	}
	return true
}

func prefixed(p string, specs []option.Spec) []option.Spec {
	out := make([]option.Spec, len(specs))
	for i, s := range specs {
		s.Name = p + s.Name
		out[i] = s
	}
	return out
}

// optionError points at the option that a connector refused, if the table's definition has it.
func (b *builder) optionError(t *table, err error) {
	if b.err != nil {
		return
	}
	e := &sqlerr.Error{Pos: span(t.pos), Msg: "table `" + t.cat.Name() + "`", Cause: err}
	var oe *option.Error
	if errors.As(err, &oe) {
		e = &sqlerr.Error{Pos: span(t.pos), Msg: "table `" + t.cat.Name() + "`: " + oe.Msg, Hint: oe.Hint}
		if at, ok := t.cat.OptionPos(oe.Key); ok {
			e.Pos = at
		}
	}
	b.err = e
}

func (t *table) sourceMode() types.ChangelogMode {
	return t.mode(t.factory.SourceChangelog)
}

func (t *table) sinkMode() types.ChangelogMode {
	return t.mode(t.factory.SinkChangelog)
}

func (t *table) mode(f func(*connector.Table, option.Values) types.ChangelogMode) types.ChangelogMode {
	switch {
	case f != nil:
		return f(t.spec, t.values)
	case t.format != nil:
		return t.format.Changelog
	}
	return types.InsertOnly
}

// keyColumns are the places of the primary key among the columns of s, or nil.
func (t *table) keyColumns(s types.Schema) []int {
	var out []int
	for _, k := range t.spec.PrimaryKey {
		i := s.Index(k)
		if i < 0 {
			return nil
		}
		out = append(out, i)
	}
	return out
}

// open makes the source, to ask it whether it ends. Sources touch nothing outside before they
// are read.
func (b *builder) open(t *table, cols, metadata []int) connector.Source {
	if t.factory.NewSource == nil {
		b.fail(t.pos, "table `%s` cannot be read: connector '%s' only writes", t.cat.Name(), t.spec.Connector)
		return nil
	}
	src, err := t.factory.NewSource(connector.SourceConfig{Table: t.spec, Options: t.values, Columns: cols,
		Metadata: metadata, Limit: -1, Batch: b.batch, Resolve: func(p string) string { return p }, Seed: 1})
	if err != nil {
		b.optionError(t, err)
		return nil
	}
	return src
}
