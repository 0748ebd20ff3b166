package dashboard

import (
	"context"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
)

// What a tile may be from.
const (
	fromTarget = "target"
	fromMemory = "memory"
)

// Reader is what the page reads of a table of results: a results.Store is one, and so is a Live. Methods
// may be called from several goroutines.
type Reader interface {
	Query(ctx context.Context, q results.Query) (*results.Rows, error)
	Progress(ctx context.Context, generation string, n int) ([]connector.Progress, error)
	Missed(ctx context.Context, generation string, after int64) ([]connector.MissedWindow, error)
	Pointer(ctx context.Context) (results.Pointer, error)
	Generations(ctx context.Context) ([]results.Generation, error)
	Corrected(ctx context.Context, generation string, from, to, after int64) ([]connector.MissedWindow, error)
	// Conflicts is -1 where nobody counts them.
	Conflicts(ctx context.Context, generation string) (int64, error)
	Records(ctx context.Context, kind string) ([]results.Record, error)
}

// Source is a table of results that tiles can show.
type Source struct {
	Table *connector.Table
	Store Reader
	// Memory says that the rows come straight from the running job: they are not sealed.
	Memory bool
}

// flagged reports whether rows say themselves whether they are final, in finalColumn, and progress does not.
func (s *Source) flagged() bool {
	_, ok := s.Store.(*Topic)
	return ok
}

// endOf is where the window that starts at start ends, by what is known of all windows of the table; false: nothing.
func (s *Source) endOf(start int64) (int64, bool) { return endOf(s.Table.Results, start) }

func endOf(r *connector.Results, start int64) (int64, bool) {
	if r.WindowStart == "" || r.Windows == nil {
		return 0, false
	}
	return start + r.Windows.Size, true
}

// key tells the sources of a page apart: a table may be read from its target and from memory.
func (s *Source) key() string {
	if s.Memory {
		return s.Table.Name + "@" + fromMemory
	}
	return s.Table.Name
}

// ColumnInfo is a column as the page knows it.
type ColumnInfo struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Unit string `json:"unit,omitempty"`
	// Role is key, start, end (of the window), value, or the name of a metadata of results.
	Role    string `json:"role"`
	Numeric bool   `json:"numeric,omitempty"`
}

// columns lists the columns of s with their roles.
func (s *Source) columns() []ColumnInfo {
	r := s.Table.Results
	role := map[string]string{}
	for _, k := range r.Key {
		role[k] = "key"
	}
	for m, c := range r.Column {
		role[c] = m
	}
	role[r.WindowStart], role[r.WindowEnd] = "start", "end"
	var out []ColumnInfo
	for _, f := range s.Table.Columns {
		c := ColumnInfo{Name: f.Name, Type: f.Type.AsNullable().String(), Unit: r.Units[f.Name], Role: role[f.Name], Numeric: numeric(f.Type)}
		if c.Role == "" {
			c.Role = "value"
		}
		out = append(out, c)
	}
	return out
}

func numeric(t types.Type) bool {
	switch t.Kind {
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Float, types.Double, types.Decimal:
		return true
	}
	return false
}

// column returns the field called name.
func (s *Source) column(name string) (types.Field, bool) {
	for _, f := range s.Table.Columns {
		if f.Name == name {
			return f, true
		}
	}
	return types.Field{}, false
}

// DefaultBoard is the page of sources that nobody has made a board for: of each table the newest figures,
// their course, and the newest rows.
func DefaultBoard(sources []Source) *Board {
	b := &Board{Title: "Results"}
	var names []string
	for i := range sources {
		s := &sources[i]
		if s.Memory && len(names) > 0 && names[len(names)-1] == s.Table.Name {
			continue // the same table from its target was there before
		}
		names = append(names, s.Table.Name)
		b.Tiles = append(b.Tiles, s.defaultTiles()...)
	}
	if len(names) > 0 {
		b.Title = strings.Join(names, ", ")
	}
	b.number()
	return b
}

func (s *Source) defaultTiles() []Tile {
	from := ""
	if s.Memory {
		from = fromMemory
	}
	var values, keys, shown Names
	for _, c := range s.columns() {
		switch {
		case c.Role == "value" && c.Numeric:
			values = append(values, c.Name)
		case c.Role == "key":
			keys = append(keys, c.Name)
		}
		switch c.Role {
		case "key", "value", "start", "end":
			shown = append(shown, c.Name)
		}
	}
	var out []Tile
	windowed := s.Table.Results.WindowStart != ""
	for i, v := range values {
		if i == 2 || !windowed {
			break
		}
		t := Tile{Kind: Series, Table: s.Table.Name, From: from, Value: v, By: keys, Width: 2}
		out = append(out, t)
	}
	if len(values) > 0 && len(keys) > 0 {
		out = append(out, Tile{Kind: Bars, Table: s.Table.Name, From: from, Value: values[0], By: keys, Width: 1})
	}
	return append(out, Tile{Kind: Table, Table: s.Table.Name, From: from, Columns: shown, Width: 3})
}

// seconds bounds what a store may take for one question.
const storeTimeout = 20 * time.Second
