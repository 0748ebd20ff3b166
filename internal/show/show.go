// Package show prints rows, progress and accounts for people at a terminal: tables whose columns
// line up, numbers with separators, one progress line that is drawn over itself.
package show

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// maxCell is the widest that a cell of a table is printed, in characters.
const maxCell = 60

// Table prints rows in boxes. Column widths are those of the rows held when it is first flushed, and
// grow when a longer value comes later. Text beyond maxCell is cut, with an ellipsis.
type Table struct {
	w      io.Writer
	names  []string
	right  []bool
	widths []int
	held   [][]string
	rows   int64
	headed bool
}

// NewTable returns a table of the columns of s, after the extra columns before.
func NewTable(w io.Writer, s types.Schema, before ...string) *Table {
	t := &Table{w: w, names: append([]string{}, before...), right: make([]bool, len(before))}
	for _, f := range s.Fields {
		t.names = append(t.names, f.Name)
		t.right = append(t.right, f.Type.IsNumeric())
	}
	for _, n := range t.names {
		t.widths = append(t.widths, Width(n))
	}
	return t
}

// Rows is the number of rows added.
func (t *Table) Rows() int64 { return t.rows }

// Add adds a row. The first hundred are held back to find the widths.
func (t *Table) Add(cells []string) error {
	t.rows++
	if t.headed {
		return t.print(cells)
	}
	t.held = append(t.held, cells)
	if len(t.held) >= 100 {
		return t.Flush()
	}
	return nil
}

// Flush prints what is held back.
func (t *Table) Flush() error {
	if !t.headed {
		t.headed = true
		for _, row := range t.held {
			t.widen(row)
		}
		if err := t.rule(); err != nil {
			return err
		}
		right := t.right
		t.right = make([]bool, len(right))
		if err := t.print(t.names); err != nil {
			return err
		}
		t.right = right
		if err := t.rule(); err != nil {
			return err
		}
	}
	for _, row := range t.held {
		if err := t.print(row); err != nil {
			return err
		}
	}
	t.held = nil
	return nil
}

// Close prints what is left and the lower edge, and the number of rows.
func (t *Table) Close() error {
	if err := t.Flush(); err != nil {
		return err
	}
	if err := t.rule(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.w, "%s %s\n", Count(t.rows), plural(t.rows, "row", "rows"))
	return err
}

// widen makes the columns as wide as row needs: numbers whole, text up to maxCell.
func (t *Table) widen(row []string) {
	for i, c := range row {
		n := Width(clean(c))
		if !t.right[i] {
			n = min(n, maxCell)
		}
		t.widths[i] = max(t.widths[i], n)
	}
}

func (t *Table) rule() error {
	var b strings.Builder
	for _, w := range t.widths {
		b.WriteString("+" + strings.Repeat("-", w+2))
	}
	_, err := io.WriteString(t.w, b.String()+"+\n")
	return err
}

func (t *Table) print(cells []string) error {
	var b strings.Builder
	t.widen(cells) // a longer value later moves the edges, but is not cut
	for i, c := range cells {
		c = clean(c)
		n := Width(c)
		if n > t.widths[i] {
			c = cut(c, t.widths[i])
			n = Width(c)
		}
		pad := strings.Repeat(" ", max(0, t.widths[i]-n))
		if t.right[i] {
			c = pad + c
		} else {
			c += pad
		}
		b.WriteString("| " + c + " ")
	}
	_, err := io.WriteString(t.w, b.String()+"|\n")
	return err
}

// clean makes control characters visible, so that one row stays one line.
func clean(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

func cut(s string, n int) string {
	var b strings.Builder
	w := 0
	for _, r := range s {
		rw := runeWidth(r)
		if w+rw > n-1 {
			break
		}
		w += rw
		b.WriteRune(r)
	}
	return b.String() + "\u2026"
}

// Width is the number of cells that s takes in a terminal.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is the number of cells that r takes in a terminal.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r >= 0x300 && r < 0x370 || r >= 0x200b && r <= 0x200f || r >= 0xfe00 && r <= 0xfe0f:
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// Count prints a number with separators: 1,234,567.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	neg := ""
	if s[0] == '-' {
		neg, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return neg + s
}

// Short prints a number in few characters: 950, 12.3k, 4.1M.
func Short(f float64) string {
	for _, u := range []struct {
		at   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f >= u.at {
			return strconv.FormatFloat(f/u.at, 'g', 3, 64) + u.name
		}
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Bytes prints a number of bytes: 5.9 MB.
func Bytes(n int64) string {
	f := float64(n)
	for _, u := range []string{"B", "kB", "MB", "GB"} {
		if f < 1000 {
			return strconv.FormatFloat(f, 'g', 3, 64) + " " + u
		}
		f /= 1000
	}
	return strconv.FormatFloat(f, 'g', 4, 64) + " TB"
}

// Time prints a watermark; the ends of time have names.
func Time(ms int64) string {
	switch ms {
	case vec.MinTime:
		return "none yet"
	case vec.MaxTime:
		return "end"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05")
}

// Duration prints a duration for reading: 1.2 s, 3 min 20 s, 5 h 2 min.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Plural prints a count and its noun.
func Plural(n int64, one, many string) string { return Count(n) + " " + plural(n, one, many) }

// Line is a progress line. On a terminal it is drawn over itself; elsewhere it is printed anew,
// at most every ten seconds.
type Line struct {
	mu   sync.Mutex
	f    *os.File
	tty  bool
	open bool
}

// NewLine returns a progress line on f.
func NewLine(f *os.File) *Line { return &Line{f: f, tty: IsTerminal(f)} }

// IsTerminal reports whether f is a terminal that lines can be drawn over on.
func IsTerminal(f *os.File) bool { return os.Getenv("TERM") != "dumb" && isTerminal(f) }

// InPlace reports whether the line is drawn over itself.
func (l *Line) InPlace() bool { return l.tty }

// Every is how often Set is worth calling.
func (l *Line) Every() time.Duration {
	if l.tty {
		return 200 * time.Millisecond
	}
	return 10 * time.Second
}

// Set shows s.
func (l *Line) Set(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tty {
		fmt.Fprintln(l.f, s)
		return
	}
	cols, _, _ := size(l.f)
	if n := cols - 1; utf8.RuneCountInString(s) > n {
		s = cut(s, n)
	}
	fmt.Fprint(l.f, "\r\x1b[2K"+s)
	l.open = true
}

// Clear takes the line away, so that something else can be printed.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		fmt.Fprint(l.f, "\r\x1b[2K")
		l.open = false
	}
}

// Writer returns a writer to f that takes the progress line away first.
func (l *Line) Writer(f io.Writer) io.Writer { return &lineWriter{l, f} }

type lineWriter struct {
	l *Line
	w io.Writer
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.l.Clear()
	return w.w.Write(p)
}
