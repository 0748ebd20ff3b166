// Package vt is a small terminal that keeps what its screen shows: tests look at what a person
// would see. It knows the controls that package show uses, and panics on others.
package vt

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/internal/show"
)

// Terminal is a terminal with a history. Lines that it shrinks below are wrapped, as most terminals
// of today do.
type Terminal struct {
	mu     sync.Mutex
	cols   int
	rows   int
	lines  []line // history and screen
	row    int    // of the cursor, in lines
	col    int
	bold   bool
	hidden bool
	rest   string // an escape or character that is not complete yet
}

type line struct {
	cells   []cell
	wrapped bool // goes on in the next line
}

type cell struct {
	text string // "" is the right half of a wide character
	bold bool
}

// New returns an empty terminal.
func New(cols, rows int) *Terminal {
	return &Terminal{cols: cols, rows: rows, lines: make([]line, 1)}
}

// Size is its size in cells.
func (t *Terminal) Size() (cols, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cols, t.rows
}

// Resize changes its size.
func (t *Terminal) Resize(cols, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []line
	row := t.row
	for i := 0; i < len(t.lines); i++ {
		at := len(out)
		cells := t.lines[i].cells
		if i == t.row {
			row = at
		}
		for t.lines[i].wrapped && i+1 < len(t.lines) {
			i++
			cells = append(cells, t.lines[i].cells...)
			if i == t.row {
				row = at + 1
			}
		}
		for len(cells) > cols {
			out = append(out, line{cells: cells[:cols:cols], wrapped: true})
			cells = cells[cols:]
		}
		out = append(out, line{cells: cells})
	}
	t.cols, t.rows, t.lines, t.row = cols, rows, out, row
	t.col = min(t.col, cols-1)
}

// top is the first line of the screen: it shows the end of the lines.
func (t *Terminal) top() int { return max(0, len(t.lines)-t.rows) }

// Screen returns what is shown, without what is empty at the end.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return text(t.lines[t.top():])
}

// All returns the screen with everything that has scrolled off above it.
func (t *Terminal) All() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return text(t.lines)
}

func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		var s strings.Builder
		for _, c := range l.cells {
			s.WriteString(c.text)
		}
		b.WriteString(strings.TrimRight(s.String(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Bold returns the numbers of the lines of the screen that are bold.
func (t *Terminal) Bold() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []int
	for i, l := range t.lines[t.top():] {
		if len(l.cells) > 0 && l.cells[0].bold {
			out = append(out, i)
		}
	}
	return out
}

// Cursor returns where the cursor is on the screen and whether it is seen.
func (t *Terminal) Cursor() (col, row int, seen bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.col, t.row - t.top(), !t.hidden
}

// Write implements io.Writer.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.rest + string(p)
	for s != "" {
		n := t.next(s)
		if n == 0 {
			break
		}
		s = s[n:]
	}
	t.rest = s
	return len(p), nil
}

// next handles what s begins with and returns its length; 0: it is not complete.
func (t *Terminal) next(s string) int {
	switch {
	case s[0] == '\r':
		t.col = 0
		return 1
	case s[0] == '\n':
		t.down(false)
		return 1
	case s[0] == 0x1b:
		return t.escape(s)
	case s[0] < ' ':
		panic(fmt.Sprintf("the terminal does not know control %q", s[0]))
	case !utf8.FullRuneInString(s):
		return 0
	}
	r, n := utf8.DecodeRuneInString(s)
	t.put(string(r), show.Width(string(r)))
	return n
}

// down moves the cursor down, which makes a line where there is none.
func (t *Terminal) down(wrapped bool) {
	t.lines[t.row].wrapped = wrapped
	t.row++
	if t.row == len(t.lines) {
		t.lines = append(t.lines, line{})
	}
}

func (t *Terminal) put(s string, width int) {
	if t.col+width > t.cols {
		t.col = 0
		t.down(true)
	}
	l := &t.lines[t.row]
	for len(l.cells) < t.col+width {
		l.cells = append(l.cells, cell{text: " "})
	}
	for i := range width {
		l.cells[t.col+i] = cell{bold: t.bold}
	}
	if width > 0 {
		l.cells[t.col].text = s
	}
	t.col += width
}

// escape handles a control sequence.
func (t *Terminal) escape(s string) int {
	end := strings.IndexFunc(s, func(r rune) bool { return r >= '@' && r != '[' && r <= '~' })
	if end < 0 {
		return 0
	}
	seq := s[1 : end+1]
	n, err := strconv.Atoi(strings.Trim(seq, "[?AJKhlm"))
	switch {
	case seq == "[?25l" || seq == "[?25h":
		t.hidden = seq == "[?25l"
	case seq == "[?2026h" || seq == "[?2026l":
	case seq == "[1m" || seq == "[0m":
		t.bold = seq == "[1m"
	case seq == "[K":
		l := &t.lines[t.row]
		l.cells = l.cells[:min(t.col, len(l.cells))]
	case seq == "[2K":
		t.lines[t.row].cells = nil
	case seq == "[J":
		l := &t.lines[t.row]
		l.cells = l.cells[:min(t.col, len(l.cells))]
		for i := t.row + 1; i < len(t.lines); i++ {
			t.lines[i] = line{}
		}
	case seq[len(seq)-1] == 'A' && err == nil:
		t.row = max(t.row-n, t.top())
	default:
		panic(fmt.Sprintf("the terminal does not know %q", seq))
	}
	return end + 1
}
