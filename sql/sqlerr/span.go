// Package sqlerr holds the positions of SQL text and the error that points at
// them.
//
// A Span is a pair of byte offsets into one source text; lines and columns are
// derived from it on demand, so that a syntax tree carries two integers a node.
// An Error is what every part of the SQL front end returns for a mistake of the
// user's: a message, the span it is about, and what to write instead. Render
// shows it with the offending text underlined.
//
// Values are plain data without locks; a rendered error needs the source text
// that the spans were made from.
//
// Stability: internal use.
package sqlerr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Span is a half-open range of byte offsets [Start, End) in a source text.
// The zero Span means "no position known".
type Span struct {
	Start int
	End   int
}

// Pos returns the span itself; embedding a Span gives a node its position.
func (s Span) Pos() Span { return s }

// IsZero reports whether the span carries no position.
func (s Span) IsZero() bool { return s == Span{} }

// Len returns the number of bytes covered.
func (s Span) Len() int { return s.End - s.Start }

// To returns the span from the start of s to the end of t.
func (s Span) To(t Span) Span { return Span{s.Start, t.End} }

// Shift returns the span moved by n bytes, for a text that was cut out of a
// larger one.
func (s Span) Shift(n int) Span { return Span{s.Start + n, s.End + n} }

// Text returns the part of src that the span covers, clipped to src.
func (s Span) Text(src string) string {
	c := s.clip(len(src))
	return src[c.Start:c.End]
}

func (s Span) clip(n int) Span {
	start := min(max(s.Start, 0), n)
	return Span{start, min(max(s.End, start), n)}
}

// Position is a place in a source text as people count: both start at 1, the
// column counts characters, a tab as one.
type Position struct {
	Line   int
	Column int
}

// String renders the position as line:column.
func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// PositionAt returns the line and column of a byte offset in src.
func PositionAt(src string, offset int) Position {
	offset = min(max(offset, 0), len(src))
	before := src[:offset]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return Position{
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[lineStart:]),
	}
}
