package show_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/internal/show/vt"
	"github.com/tidemark-stream/tidemark/types"
)

// lines is a block of lines.
type lines []string

func (l *lines) Lines(cols, rows int) []show.Text {
	var out []show.Text
	for i, s := range *l {
		if i < rows {
			out = append(out, show.Text{S: s, Bold: strings.HasPrefix(s, "!")})
		}
	}
	return out
}

// look compares what the terminal shows with a picture.
func look(t *testing.T, term *vt.Terminal, want string) {
	t.Helper()
	if got := term.All(); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("the terminal shows\n%s\nwant%s", got, want)
	}
	if col, _, seen := term.Cursor(); col != 0 || !seen {
		t.Errorf("the cursor is in column %d, seen: %v", col, seen)
	}
}

func TestScreen_DrawsOverItself(t *testing.T) {
	term := vt.New(20, 6)
	s := show.NewScreenOn(term, term.Size)
	fmt.Fprint(term, "$ run\r\n")
	b := &lines{"one", "!two", "three"}
	s.Add(b)
	s.Draw()
	look(t, term, "\n$ run\none\n!two\nthree\n")
	if got := term.Bold(); !slices.Equal(got, []int{2}) {
		t.Errorf("bold lines %v, want 2", got)
	}
	*b = lines{"one", "two: a line that is too long"}
	s.Draw()
	look(t, term, "\n$ run\none\ntwo: a line that i\u2026\n")

	// Text is printed above, and a text without newline is not drawn over.
	w := s.Writer(term)
	fmt.Fprint(w, "first\r\nsec")
	s.Draw()
	if got := term.All(); got != "$ run\nfirst\nsec\n" {
		t.Errorf("a broken line is drawn over:\n%s", got)
	}
	fmt.Fprint(w, "ond\r\n") // and the block comes back
	look(t, term, "\n$ run\nfirst\nsecond\none\ntwo: a line that i\u2026\n")

	// More lines than the terminal has: those above scroll away, the block does not.
	*b = lines{"1", "2", "3", "4", "5", "6", "7", "8"}
	s.Draw()
	s.Draw()
	look(t, term, "\n$ run\nfirst\nsecond\n1\n2\n3\n4\n5\n")
	s.Remove(b)
	fmt.Fprint(w, "end\r\n")
	look(t, term, "\n$ run\nfirst\nsecond\nend\n")
}

func TestScreen_SurvivesResize(t *testing.T) {
	term := vt.New(20, 8)
	s := show.NewScreenOn(term, term.Size)
	fmt.Fprint(term, "$ run\r\n")
	b := &lines{"a line of 18 cells", "another one", "end"}
	s.Add(b)
	s.Draw()
	term.Resize(10, 8) // wraps the lines that are there
	if got := term.All(); got != "$ run\na line of\n18 cells\nanother on\ne\nend\n" {
		t.Fatalf("the terminal does not wrap:\n%s", got)
	}
	s.Draw()
	look(t, term, "\n$ run\na line o\u2026\nanother \u2026\nend\n")
	term.Resize(30, 8)
	s.Draw()
	look(t, term, "\n$ run\na line of 18 cells\nanother one\nend\n")
	term.Resize(30, 3)
	s.Draw()
	s.Draw()
	if got := term.Screen(); got != "a line of 18 cells\nanother one\n" {
		t.Errorf("in 3 lines the terminal shows\n%s", got)
	}
}

func TestScreen_SharesPlace(t *testing.T) {
	term := vt.New(20, 7)
	s := show.NewScreenOn(term, term.Size)
	a, b := &lines{"a1", "a2", "a3", "a4", "a5"}, &lines{"b1", "b2", "b3", "b4", "b5"}
	s.Add(a)
	s.Add(b)
	s.Draw()
	look(t, term, "\na1\na2\na3\nb1\nb2\nb3\n")
	s.Remove(a)
	s.Draw()
	look(t, term, "\nb1\nb2\nb3\nb4\nb5\n")
	if s.Remove(b); s.Busy() {
		t.Error("the screen has blocks left")
	}
	look(t, term, "\n\n")
}

func TestLiveTable(t *testing.T) {
	tab := show.NewLiveTable(types.NewSchema(types.Field{Name: "city", Type: types.StringType},
		types.Field{Name: "n", Type: types.BigIntType}))
	picture := func(cols int, marks bool, rows ...show.LiveRow) string {
		out := ""
		for _, l := range tab.Lines(rows, cols, marks) {
			if show.Width(l.S) > cols {
				t.Errorf("%q is wider than %d", l.S, cols)
			}
			out += l.S + "\n"
		}
		return out
	}
	f := func(got, want string) {
		t.Helper()
		if got != want[1:] {
			t.Errorf("got\n%s\nwant%s", got, want)
		}
	}
	f(picture(40, true, show.LiveRow{Cells: []string{"Z\u00fcrich", "12"}, Mark: show.Changed},
		show.LiveRow{Cells: []string{"\u6771\u4eac", "1234"}}, show.LiveRow{Cells: []string{"a\x1b[2J\u009bb", "5"}, Mark: show.Added}), `
  +-----------------+------+
  | city            | n    |
  +-----------------+------+
* | Z`+"\u00fc"+`rich          |   12 |
  | `+"\u6771\u4eac"+`            | 1234 |
+ | a\x1b[2J\u009bb |    5 |
  +-----------------+------+
`)
	// It stays as wide as it was, and is cut where the terminal is narrower.
	f(picture(12, false, show.LiveRow{Cells: []string{"Oslo", "7"}}), `
+----------`+"\u2026"+`
| city     `+"\u2026"+`
+----------`+"\u2026"+`
| Oslo     `+"\u2026"+`
+----------`+"\u2026"+`
`)
	if n := tab.Rows(3); n != 1 {
		t.Errorf("%d rows fit 3 lines, want at least 1", n)
	}
}

func TestWrap(t *testing.T) {
	f := func(cols, n int, want ...string) {
		t.Helper()
		if got := show.Wrap("1.2 s  10 rows in  late 3", cols, n); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(80, 2, "1.2 s  10 rows in  late 3")
	f(20, 2, "1.2 s  10 rows in", "late 3")
	f(12, 3, "1.2 s", "10 rows in", "late 3")
	f(12, 2, "1.2 s", "10 rows in \u2026")
}
