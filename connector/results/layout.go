package results

import (
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// Layout is the columns of a table of results by what they are for.
type Layout struct {
	Table *connector.Table
	R     *connector.Results
	// Key and Values are the columns of the result, Meta those that say what a revision is.
	Key, Values, Meta []types.Field
	// Start and End are the columns with the window; a zero Field where there is none.
	Start, End types.Field
	// Windowed says that Start is part of the key, so that ranges of windows may be of different generations:
	// the other columns of a deleted row are NULL.
	Windowed bool
}

// LayoutOf looks at a table of results.
func LayoutOf(t *connector.Table) (*Layout, error) {
	l := &Layout{Table: t, R: t.Results}
	meta := map[string]bool{}
	for _, c := range l.R.Column {
		meta[c] = true
	}
	for _, f := range t.Columns {
		switch {
		case slices.Contains(l.R.Key, f.Name):
			l.Key = append(l.Key, f)
		case meta[f.Name]:
			l.Meta = append(l.Meta, f)
		default:
			l.Values = append(l.Values, f)
		}
	}
	if len(l.Key) != len(l.R.Key) || len(l.Key) == 0 {
		return nil, fmt.Errorf("table %s: revisions are counted for its PRIMARY KEY; give it one", t.Name)
	}
	if l.R.Column["revision"] == "" {
		return nil, fmt.Errorf("BUG: table %s holds results without revisions", t.Name)
	}
	for name, into := range map[string]*types.Field{l.R.WindowStart: &l.Start, l.R.WindowEnd: &l.End} {
		f, ok := l.Column(name)
		switch {
		case name == "":
			continue
		case !ok:
			return nil, fmt.Errorf("BUG: table %s has no column %s", t.Name, name)
		case !f.Type.IsTimestamp():
			return nil, fmt.Errorf("table %s: column %s says which window a row is of, and is %s; make it TIMESTAMP(3)", t.Name, name, f.Type.AsNullable())
		}
		*into = f
	}
	l.Windowed = slices.Contains(l.R.Key, l.R.WindowStart)
	return l, nil
}

// Column finds a column by its name.
func (l *Layout) Column(name string) (types.Field, bool) {
	for _, f := range l.Table.Columns {
		if f.Name == name {
			return f, true
		}
	}
	return types.Field{}, false
}

// Of returns the name of the column with a metadata, "" where the table has not asked for it.
func (l *Layout) Of(metadata string) string { return l.R.Column[metadata] }

// IsKey reports whether a column is part of the key.
func (l *Layout) IsKey(name string) bool { return slices.Contains(l.R.Key, name) }

// Rest are the columns that are not part of the key, in the order of the table.
func (l *Layout) Rest() []types.Field {
	var out []types.Field
	for _, f := range l.Table.Columns {
		if !l.IsKey(f.Name) {
			out = append(out, f)
		}
	}
	return out
}

// Summed are the columns that Totals adds up: numeric values, and the count of input rows.
func (l *Layout) Summed() []types.Field {
	var out []types.Field
	for _, f := range l.Table.Columns {
		value := slices.ContainsFunc(l.Values, func(v types.Field) bool { return v.Name == f.Name })
		if value && f.Type.IsNumeric() || f.Name == l.Of("input_count") {
			out = append(out, f)
		}
	}
	return out
}

// CheckRange refuses ranges of windows where generations count as a whole only.
func (l *Layout) CheckRange(p *Pointer) error {
	switch {
	case l.Of("generation") == "" && (len(p.Ranges) > 0 || p.Base() != Live):
		return fmt.Errorf("table %s knows no generations; give it a column `generation STRING METADATA`", l.Table.Name)
	case !l.Windowed && len(p.Ranges) > 0:
		return fmt.Errorf("table %s has no start of a window in its PRIMARY KEY, so that a generation counts for all of its rows or for none: promote it without a range", l.Table.Name)
	}
	return nil
}
