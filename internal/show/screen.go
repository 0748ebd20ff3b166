package show

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// Text is a line on a terminal: printable characters without escapes, and how they look.
type Text struct {
	S    string
	Bold bool
}

// Block is a part of a Screen.
type Block interface {
	// Lines returns at most rows lines of at most cols cells. Called with the screen locked.
	Lines(cols, rows int) []Text
}

// Screen is the lower end of a terminal, drawn over itself: blocks, one below the other. Text that
// is printed through Writer appears above them and stays.
//
// Nothing of the terminal's state outlives a call: the cursor is hidden only within one write, and
// rests at the start of the line below what is drawn. So there is nothing to restore, however the
// program ends.
type Screen struct {
	mu     sync.Mutex
	w      io.Writer
	size   func() (cols, rows int)
	blocks []Block
	lines  []Text // as drawn last
	drawn  []int  // cells of each line that is there
	broken bool   // the text above does not end with a newline yet
	buf    []byte
}

// NewScreen returns a screen on f, or nil where f is no terminal whose size is known.
func NewScreen(f *os.File) *Screen {
	if !IsTerminal(f) {
		return nil
	}
	if _, _, ok := size(f); !ok {
		return nil
	}
	return newScreen(f, func() (int, int) {
		cols, rows, _ := size(f)
		return cols, rows
	})
}

func newScreen(w io.Writer, size func() (cols, rows int)) *Screen {
	return &Screen{w: w, size: size}
}

// Add puts b below the blocks that are there. It appears with the next Draw.
func (s *Screen) Add(b Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = append(s.blocks, b)
}

// Remove takes b away.
func (s *Screen) Remove(b Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = slices.DeleteFunc(s.blocks, func(x Block) bool { return x == b })
	s.clear()
	s.lines = nil
}

// Busy reports whether there are blocks.
func (s *Screen) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks) > 0
}

// Draw draws the blocks as they are now.
func (s *Screen) Draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.blocks) == 0 || s.broken {
		return
	}
	cols, rows := s.size()
	// The last column stays free: whether the cursor wraps behind it differs between terminals.
	// So does the last line, where the cursor rests.
	wide, high := max(cols-1, 1), max(rows-1, 1)
	var lines []Text
	for i, b := range s.blocks {
		share := (high - len(lines)) / (len(s.blocks) - i)
		lines = append(lines, b.Lines(wide, max(share, 1))...)
	}
	s.lines = lines[:min(len(lines), high)]
	s.draw(cols)
}

// draw draws s.lines.
func (s *Screen) draw(cols int) {
	wide := max(cols-1, 1)
	b := append(s.buf[:0], "\x1b[?2026h\x1b[?25l"...) // shown at once where the terminal can, and without the cursor
	b = s.home(b, cols)
	s.drawn = s.drawn[:0]
	for _, l := range s.lines {
		text := fit(l.S, wide)
		if l.Bold {
			b = append(append(append(b, "\x1b[1m"...), text...), "\x1b[0m"...)
		} else {
			b = append(b, text...)
		}
		b = append(b, "\x1b[K\r\n"...)
		s.drawn = append(s.drawn, Width(text))
	}
	b = append(b, "\x1b[J\x1b[?25h\x1b[?2026l"...)
	s.buf = b
	s.w.Write(b) // a terminal that is gone ends the program by a signal
}

// home moves the cursor to the first line drawn.
func (s *Screen) home(b []byte, cols int) []byte {
	b = append(b, '\r')
	if up := s.height(cols); up > 0 {
		b = fmt.Appendf(b, "\x1b[%dA", up)
	}
	return b
}

// height is the number of lines that what is drawn takes now: those that are wider than the
// terminal were wrapped when it shrank.
func (s *Screen) height(cols int) int {
	n := 0
	for _, w := range s.drawn {
		n += max(1, (w+cols-1)/max(cols, 1))
	}
	return n
}

// clear takes away what is drawn, line by line: some terminals put a screen that is cleared as a
// whole into their history.
func (s *Screen) clear() {
	if len(s.drawn) == 0 {
		return
	}
	cols, _ := s.size()
	s.w.Write([]byte("\r\x1b[2K" + strings.Repeat("\x1b[1A\x1b[2K", s.height(cols))))
	s.drawn = s.drawn[:0]
}

// Writer returns a writer to w, which goes to the same terminal, that prints above the blocks.
func (s *Screen) Writer(w io.Writer) io.Writer { return &screenWriter{s, w} }

type screenWriter struct {
	s *Screen
	w io.Writer
}

func (w *screenWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.clear()
	n, err := w.w.Write(p)
	if len(p) > 0 {
		w.s.broken = p[len(p)-1] != '\n'
	}
	if len(w.s.lines) > 0 && !w.s.broken {
		cols, _ := w.s.size()
		w.s.draw(cols)
	}
	return n, err
}

// Wrap breaks s at double spaces into at most n lines of at most cols cells; what does not fit is
// cut.
func Wrap(s string, cols, n int) []string {
	var out []string
	line := ""
	for _, part := range strings.Split(s, "  ") {
		switch {
		case line == "":
			line = part
		case Width(line)+2+Width(part) <= cols || len(out) == n-1:
			line += "  " + part
		default:
			out = append(out, line)
			line = part
		}
	}
	out = append(out, line)
	for i, l := range out {
		out[i] = fit(l, cols)
	}
	return out
}
