package bind

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// checkFilled checks the columns that are filled in when rows are written: metadata of results, which need a
// revision, or of late rows.
func (o *tableOptions) checkFilled() error {
	cols, results := o.table.FilledColumns(o.given)
	known, what := plan.LateColumns, "late rows"
	if results {
		known, what = plan.ResultColumns, "results"
	}
	names := types.Schema{Fields: known}.Names()
	seen := map[string]string{}
	for i, c := range o.table.Columns {
		if results && c.Kind == catalog.Metadata && c.Key == keyCompleteness {
			return noCompleteness(o.columnSpan(c.Name), o.table.Name())
		}
		if !o.table.Filled(i) {
			continue
		}
		k := slices.Index(names, c.Key)
		at := o.columnSpan(c.Name)
		switch {
		case k < 0 && !results:
			return errAt(at, "metadata '%s' belongs to revisions of results, but table %s has no column with metadata 'revision'",
				c.Key, o.table.Name()).WithHint("add a column: revision BIGINT METADATA")
		case k < 0:
			return errAt(at, "%s have no metadata '%s'", what, c.Key).WithHint("%s", suggest(c.Key, names, "they have "))
		case seen[c.Key] != "":
			return errAt(at, "metadata '%s' is in column %s already", c.Key, seen[c.Key])
		case !c.Type.EqualIgnoreNull(known[k].Type):
			return errAt(at, "metadata '%s' is %s, but column %s is %s", c.Key, bare(known[k].Type.AsNullable()), c.Name,
				bare(c.Type.AsNullable())).WithHint("declare it as %s %s METADATA FROM '%s'", c.Name, bare(known[k].Type.AsNullable()), c.Key)
		}
		seen[c.Key] = c.Name
	}
	key := catalog.OptionLate
	if results {
		if _, late := o.given[key]; late {
			return errAt(o.span(key), "'%s' is about late rows, and table %s holds revisions of results", key, o.table.Name()).
				WithHint("leave it out, and take a table of its own for late rows")
		}
		key = catalog.OptionResults
	}
	for _, m := range strings.FieldsFunc(o.given[key], func(r rune) bool { return r == ',' || r == ';' || r == ' ' }) {
		switch {
		case results && m == keyCompleteness:
			return noCompleteness(o.span(key), o.table.Name())
		case !slices.Contains(names, m):
			return errAt(o.span(key), "'%s' names '%s', which %s do not have", key, m, what).WithHint("%s", suggest(m, names, "they have "))
		}
		if at := o.table.Schema().Index(m); at >= 0 && !o.table.Filled(at) {
			return errAt(o.span(key), "'%s' adds a column %s, which table %s has already", key, m, o.table.Name()).
				WithHint("declare it with another name, as in rev BIGINT METADATA FROM 'revision'")
		}
	}
	if results && !slices.ContainsFunc(cols, func(c catalog.FilledColumn) bool { return c.Key == "revision" }) {
		return errAt(o.span(key), "'%s' lacks revision, which tells the rows apart", key).WithHint("write 'revision,%s'", o.given[key])
	}
	return nil
}

// keyCompleteness is metadata that results don't have.
const keyCompleteness = "completeness"

// noCompleteness says where completeness stands instead. A revision is made by the subtask that has its key, which knows
// neither what others have seen of the window nor which splits feed them, and what is lacking may come without
// any change of this row: in the row it would be wrong, and stay so.
func noCompleteness(at sqlerr.Span, table string) error {
	return errAt(at, "a row of a result cannot say how complete its window is: that changes when others report, and the row is not written again").
		WithHint("leave the column out and read it beside the rows: %s_progress has splits_passed, splits, expected and seen, and so have tidemark wait, the dashboard and the metrics; "+
			"SET 'tidemark.completeness.%s.expected' = 'TABLE' says who must report", table, table)
}

// upsert reads the options 'upsert.*' of a table that is read; nil without them.
func (o *tableOptions) upsert() (*logical.Upsert, error) {
	name, versioned := o.given[catalog.OptionVersion]
	horizon, bounded := o.given[catalog.OptionHorizon]
	if !versioned && !bounded {
		return nil, nil
	}
	key := catalog.OptionHorizon
	if versioned {
		key = catalog.OptionVersion
	}
	if len(o.table.PrimaryKey) == 0 {
		return nil, errAt(o.span(key), "'%s' needs a primary key, which says what a row is a version of", key).
			WithHint("add PRIMARY KEY (...) NOT ENFORCED to the definition of %s", o.table.Name())
	}
	out := &logical.Upsert{Version: -1}
	if bounded {
		d, err := option.ParseDuration(horizon)
		if err != nil {
			return nil, errAt(o.span(catalog.OptionHorizon), "option '%s' cannot be '%s'", catalog.OptionHorizon, horizon).
				WithHint("write a number and a unit, such as '30 d'")
		}
		out.HorizonMs = d.Milliseconds()
	}
	if !versioned {
		return out, nil
	}
	s := o.table.Schema()
	at := o.span(catalog.OptionVersion)
	if out.Version = s.Index(name); out.Version < 0 {
		return nil, errAt(at, "table %s has no column %s", o.table.Name(), name).
			WithHint("%s", suggest(name, s.Names(), "its columns are "))
	}
	switch t := s.Fields[out.Version].Type; {
	case slices.Contains(o.table.PrimaryKey, name):
		return nil, errAt(at, "column %s is part of the primary key, so it tells no versions apart", name)
	case !t.IsNumeric() && !t.IsTemporal() && !t.IsString():
		return nil, errAt(at, "versions are numbers, times or text, but column %s is %s", name, bare(t.AsNullable()))
	}
	return out, nil
}
