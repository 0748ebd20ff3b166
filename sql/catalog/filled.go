package catalog

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// The options of tables that the planner itself understands.
const (
	OptionResults = "result-metadata"
	OptionLate    = "late-metadata"
	OptionVersion = "upsert.version-column"
	OptionHorizon = "upsert.horizon"
)

// TableOptions declares the options of tables that the planner itself understands, whatever the
// connector.
var TableOptions = []option.Spec{
	{Name: OptionResults, Kind: option.List, Doc: "Metadata of results that is written behind the table's columns, under these names; with revision, the table gets the history of revisions.", Example: "revision,generation"},
	{Name: OptionLate, Kind: option.List, Doc: "What late rows say of themselves, written behind the table's columns, under these names.", Example: "operator,lateness"},
	{Name: OptionVersion, Doc: "The column whose highest value is the newest version of the entity that the primary key names.", Example: "revision"},
	{Name: OptionHorizon, Kind: option.Duration, Doc: "How long an entity is remembered after its last version.", Example: "30 d"},
}

const keyRevision = "revision"

// ResultKeys are the metadata of results, LateKeys those of late rows.
func ResultKeys() []string { return types.Schema{Fields: plan.ResultColumns}.Names() }

// LateKeys are the metadata of late rows.
func LateKeys() []string { return types.Schema{Fields: plan.LateColumns}.Names() }

// Filled reports whether column i is metadata of results or of late rows: no query gives it a value.
func (t *Table) Filled(i int) bool {
	c := t.Columns[i]
	return c.Kind == Metadata && (slices.Contains(ResultKeys(), c.Key) || slices.Contains(LateKeys(), c.Key))
}

// FilledColumn is a column of a table with metadata of results or of late rows.
type FilledColumn struct {
	Name, Key string
	Type      types.Type
}

// FilledColumns returns the columns of the table that hold metadata of results (results is true then) or of late
// rows, in order: those of its definition, then those that its options ask for.
func (t *Table) FilledColumns(options map[string]string) (cols []FilledColumn, results bool) {
	asked := list(options[OptionResults])
	results = len(asked) > 0
	for i, c := range t.Columns {
		results = results || t.Filled(i) && c.Key == keyRevision
	}
	known := plan.LateColumns
	if results {
		known = plan.ResultColumns
	} else {
		asked = list(options[OptionLate])
	}
	add := func(name, key string) {
		k := slices.IndexFunc(known, func(f types.Field) bool { return f.Name == key })
		if k >= 0 && !slices.ContainsFunc(cols, func(c FilledColumn) bool { return c.Key == key }) {
			cols = append(cols, FilledColumn{name, key, known[k].Type})
		}
	}
	for i, c := range t.Columns {
		if t.Filled(i) {
			add(c.Name, c.Key)
		}
	}
	for _, key := range asked {
		add(key, key)
	}
	return cols, results
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
}

// withFilled gives out, whose other columns are there, the columns with metadata of results or late rows.
func (t *Table) withFilled(out *connector.Table) {
	cols, results := t.FilledColumns(out.Options)
	if len(cols) == 0 {
		return
	}
	if results {
		t.results(out, cols)
	}
	for _, c := range cols {
		out.Columns = append(out.Columns, types.Field{Name: c.Name, Type: c.Type})
	}
}

// results makes out a table of revisions.
func (t *Table) results(out *connector.Table, cols []FilledColumn) {
	r := &connector.Results{Key: t.PrimaryKey, Column: map[string]string{}, Units: map[string]string{}}
	for _, c := range cols {
		r.Column[c.Key] = c.Name
	}
	for i, f := range out.Columns {
		if !slices.Contains(t.PrimaryKey, f.Name) {
			out.Columns[i].Type = f.Type.AsNullable() // a deleted row has its key and nothing else
		}
	}
	for _, c := range t.Columns {
		if u := unit(c.Comment); u != "" {
			r.Units[c.Name] = u
		}
	}
	out.Results = r
	out.PrimaryKey = slices.Clone(t.PrimaryKey)
	for _, key := range [...]string{"generation", keyRevision} {
		if name := r.Column[key]; name != "" {
			out.PrimaryKey = append(out.PrimaryKey, name)
		}
	}
}

// unit reads COMMENT 'unit: minutes'; other text may stand before it, or behind it after a semicolon.
func unit(comment string) string {
	_, u, ok := strings.Cut(comment, "unit:")
	if !ok {
		return ""
	}
	u, _, _ = strings.Cut(u, ";")
	return strings.TrimSpace(u)
}
