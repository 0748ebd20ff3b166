package sqlerr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	tabWidth = 4
	// linesMax is how many source lines of one span are shown.
	linesMax = 3
	// columnsMax is the width beyond which a source line is cut around the
	// start of the span; 120 columns fit most terminals beside the gutter.
	columnsMax = 120
)

// Render shows the error for a person: `file:line:column: message`, the source
// lines with the offending text underlined, then detail and hint on lines of
// their own. Without a position it is the file name and the message. The result
// has no newline at its end.
func (e *Error) Render(fileName, src string) string {
	var b strings.Builder
	if fileName != "" {
		b.WriteString(fileName + ":")
	}
	if !e.Pos.IsZero() {
		b.WriteString(PositionAt(src, e.Pos.Start).String() + ":")
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.headline())
	if !e.Pos.IsZero() && src != "" {
		renderSource(&b, e.Pos.clip(len(src)), src)
	}
	if e.Detail != "" {
		b.WriteString("\n" + e.Detail)
	}
	if e.Hint != "" {
		b.WriteString("\nhint: " + e.Hint)
	}
	return b.String()
}

// renderSource writes the lines that the span touches, each followed by a line
// of carets.
func renderSource(b *strings.Builder, s Span, src string) {
	lineNo := PositionAt(src, s.Start).Line
	start := strings.LastIndexByte(src[:s.Start], '\n') + 1
	last := lineNo + strings.Count(src[s.Start:s.End], "\n")
	gutter := len(fmt.Sprint(min(last, lineNo+linesMax-1)))
	for shown := 0; ; shown++ {
		if shown == linesMax {
			fmt.Fprintf(b, "\n %*s ...", gutter, "")
			return
		}
		end := len(src)
		if i := strings.IndexByte(src[start:], '\n'); i >= 0 {
			end = start + i
		}
		line := strings.TrimSuffix(src[start:end], "\r")
		from := max(s.Start-start, 0)
		to := min(s.End-start, len(line))
		// A blank line inside the span is not shown.
		if text, marks := underline(line, min(from, len(line)), to); shown == 0 || to > 0 && marks != "" {
			fmt.Fprintf(b, "\n %*d | %s\n %*s | %s", gutter, lineNo, text, gutter, "", marks)
		}
		if end >= s.End || end == len(src) {
			return
		}
		start = end + 1
		lineNo++
	}
}

// underline returns the line as shown and the carets below bytes [from, to).
// On every line but the one where the span starts, leading blanks are not
// underlined. An empty range gets one caret.
func underline(line string, from, to int) (text, marks string) {
	if from == 0 && to > 0 {
		from = min(len(line)-len(strings.TrimLeft(line, " \t")), to)
		if from == to {
			return "", ""
		}
	}
	var cells []rune
	first, last := -1, -1
	for i, r := range line {
		if i >= from && first < 0 {
			first = len(cells)
		}
		if i >= to && last < 0 {
			last = len(cells)
		}
		cells = appendCells(cells, r)
	}
	if first < 0 {
		first = len(cells)
	}
	if last < 0 {
		last = len(cells)
	}
	last = max(last, first+1)
	return window(cells, first, last)
}

// wideFiller takes the second column of a wide character.
const wideFiller = -1

func appendCells(cells []rune, r rune) []rune {
	switch {
	case r == '\t':
		for {
			cells = append(cells, ' ')
			if len(cells)%tabWidth == 0 {
				return cells
			}
		}
	case r < ' ' || r == 0x7f || r == utf8.RuneError:
		return append(cells, '?')
	case isCombining(r):
		// Takes no column; dropped so that the carets stay below their text.
		return cells
	case isWide(r):
		return append(cells, r, wideFiller)
	}
	return append(cells, r)
}

// window cuts a long line around the underlined part and draws both lines.
func window(cells []rune, first, last int) (text, marks string) {
	lo, hi := 0, len(cells)
	if hi > columnsMax {
		lo = max(0, min(first-columnsMax/3, hi-columnsMax))
		hi = min(hi, lo+columnsMax)
		last = min(last, hi+1)
	}
	var t strings.Builder
	prefix := 0
	if lo > 0 {
		t.WriteString("...")
		prefix = 3
	}
	for _, r := range cells[lo:hi] {
		if r != wideFiller {
			t.WriteRune(r)
		}
	}
	if hi < len(cells) {
		t.WriteString("...")
	}
	return t.String(), strings.Repeat(" ", prefix+first-lo) + strings.Repeat("^", max(last-first, 1))
}

func isCombining(r rune) bool {
	return r >= 0x300 && r <= 0x36f || r >= 0x200b && r <= 0x200f || r >= 0xfe00 && r <= 0xfe0f
}

// isWide covers the East Asian and emoji blocks that terminals draw two columns
// wide.
func isWide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd
}
