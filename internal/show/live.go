package show

import (
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// Mark tells how new a row of a live table is.
type Mark uint8

// The marks.
const (
	Old     Mark = iota
	Added        // the row has just appeared
	Changed      // the row has just replaced another one
)

// gutter is what stands before a row.
var gutter = [...]string{Old: "  ", Added: "+ ", Changed: "* "}

// LiveRow is a row of a live table.
type LiveRow struct {
	Cells []string
	Mark  Mark
}

// LiveTable lays out a table that is drawn again and again. Columns never get narrower, so that the
// picture stays calm.
type LiveTable struct {
	names  []string
	right  []bool
	widths []int
}

// NewLiveTable returns a live table of the columns of s.
func NewLiveTable(s types.Schema) *LiveTable {
	t := &LiveTable{}
	for _, f := range s.Fields {
		t.names = append(t.names, f.Name)
		t.right = append(t.right, f.Type.IsNumeric())
		t.widths = append(t.widths, Width(clean(f.Name)))
	}
	return t
}

// frameLines is the number of lines of a table that are no rows: three edges and the names.
const frameLines = 4

// Rows is how many rows a table may have to be at most lines high.
func (t *LiveTable) Rows(lines int) int { return max(lines-frameLines, 1) }

// Lines returns the picture of rows, each line at most cols wide; marks says whether there is a
// place for marks.
func (t *LiveTable) Lines(rows []LiveRow, cols int, marks bool) []Text {
	for _, r := range rows {
		for i, c := range r.Cells {
			n := Width(clean(c))
			if !t.right[i] {
				n = min(n, maxCell)
			}
			t.widths[i] = max(t.widths[i], n)
		}
	}
	old := ""
	if marks {
		old = gutter[Old]
	}
	var edge strings.Builder
	edge.WriteString(old)
	for _, w := range t.widths {
		edge.WriteString("+" + strings.Repeat("-", w+2))
	}
	edge.WriteByte('+')
	rule := Text{S: fit(edge.String(), cols)}
	left := make([]bool, len(t.right))
	out := []Text{rule, {S: fit(old+t.line(t.names, left), cols)}, rule}
	for _, r := range rows {
		l := Text{S: t.line(r.Cells, t.right)}
		if marks {
			l = Text{S: gutter[r.Mark] + l.S, Bold: r.Mark != Old}
		}
		l.S = fit(l.S, cols)
		out = append(out, l)
	}
	return append(out, rule)
}

// line returns one row in its edges.
func (t *LiveTable) line(cells []string, right []bool) string {
	var b strings.Builder
	for i, c := range cells {
		c = clean(c)
		if Width(c) > t.widths[i] {
			c = cut(c, t.widths[i])
		}
		pad := strings.Repeat(" ", t.widths[i]-Width(c))
		b.WriteString("| ")
		if right[i] {
			b.WriteString(pad + c)
		} else {
			b.WriteString(c + pad)
		}
		b.WriteByte(' ')
	}
	b.WriteByte('|')
	return b.String()
}

// fit cuts s where it is wider than n cells.
func fit(s string, n int) string {
	if Width(s) > n {
		return cut(s, n)
	}
	return s
}
