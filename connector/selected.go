package connector

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/vec"
)

// Selected is where a reader of the rows that a SELECT gives is, in a split of a table of a database. It is part of
// a SplitReader.
type Selected struct {
	At     int64 // number of the next row
	Ended  bool
	Origin *vec.Origin
}

// NewSelected begins at a split's position. Without an order that is the beginning, which is told.
func NewSelected(sp Split, cfg *SourceConfig, database string, ordered bool) Selected {
	s := Selected{At: sp.Position.Offset, Origin: &vec.Origin{Source: cfg.Table.Name, Split: sp.ID, Unit: "row"}}
	if s.At > 0 && !ordered {
		cfg.Warning("table '%s' of %s has no order and is read from its beginning again, the %d rows that were read too; 'scan.order-by' gives it one", cfg.Options.Get("table-name"), database, s.At)
		s.At = 0
	}
	return s
}

// Took notes that b has the next n rows.
func (s *Selected) Took(b *vec.Batch, n int) {
	b.N, b.Origin, b.Pos = n, s.Origin, b.Pos[:0]
	for i := range n {
		b.Pos = append(b.Pos, s.At+int64(i))
	}
	s.At += int64(n)
}

// Position implements SplitReader.
func (s *Selected) Position() Position { return Position{Offset: s.At, Set: true} }

// Lag implements SplitReader: how many rows are left is not known.
func (s *Selected) Lag() int64 {
	if s.Ended {
		return 0
	}
	return -1
}

// SelectFrom adds to a SELECT what says which rows of a split are wanted, from a row on: those that meet
// 'scan.filter' and part, a condition ("": all).
func SelectFrom(text string, cfg *SourceConfig, part, order string, from int64) string {
	var where []string
	if f := cfg.Options.Get("scan.filter"); f != "" {
		where = append(where, "("+f+")")
	}
	if part != "" {
		where = append(where, part)
	}
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	if order != "" {
		text += " ORDER BY " + order
	}
	if cfg.Limit >= 0 {
		text += fmt.Sprintf(" LIMIT %d", max(0, cfg.Limit-from))
	}
	if from > 0 {
		text += fmt.Sprintf(" OFFSET %d", from)
	}
	return text
}
