package sqlerr

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// render makes an error about the text between [ and ] of marked.
func render(t *testing.T, marked string) string {
	t.Helper()
	start := strings.IndexByte(marked, '[')
	end := strings.IndexByte(marked, ']')
	if start < 0 || end < start {
		t.Fatalf("no [..] in %q", marked)
	}
	src := marked[:start] + marked[start+1:end] + marked[end+1:]
	e := New(Span{start, end - 1}, "wrong").WithHint("right")
	return e.Render("job.sql", src)
}

func TestRender(t *testing.T) {
	f := func(marked string, want ...string) {
		t.Helper()
		if got := render(t, marked); got != strings.Join(want, "\n") {
			t.Errorf("%q:\n%s\nwant\n%s", marked, got, strings.Join(want, "\n"))
		}
	}
	f("SELECT [foo] FROM t", "job.sql:1:8: wrong", " 1 | SELECT foo FROM t", "   |        ^^^", "hint: right")
	f("SELECT\n\t[foo],\tx\n", "job.sql:2:2: wrong", " 2 |     foo,    x", "   |     ^^^", "hint: right")
	f("SELECT 'äß日本' [x]", "job.sql:1:15: wrong", " 1 | SELECT 'äß日本' x", "   |                 ^", "hint: right")
	f("a\r\n[b]\r\nc", "job.sql:2:1: wrong", " 2 | b", "   | ^", "hint: right")
	f("SELECT 1[]", "job.sql:1:9: wrong", " 1 | SELECT 1", "   |         ^", "hint: right")
	f("SELECT[\n]", "job.sql:1:7: wrong", " 1 | SELECT", "   |       ^", "hint: right")
	f("x [foo(\n  a,\n\n  b)] y", "job.sql:1:3: wrong",
		" 1 | x foo(", "   |   ^^^^", " 2 |   a,", "   |   ^^", "   ...", "hint: right")
	f(strings.Repeat("\n", 9)+"[aa\nbb]", "job.sql:10:1: wrong",
		" 10 | aa", "    | ^^", " 11 | bb", "    | ^^", "hint: right")
}

func TestRender_LongLine(t *testing.T) {
	src := strings.Repeat("a", 300) + "BAD" + strings.Repeat("c", 300)
	lines := strings.Split(New(Span{300, 303}, "wrong").Render("f", src), "\n")
	if len(lines) != 3 || len(lines[1]) > 140 {
		t.Fatalf("not cut: %q", lines)
	}
	at := strings.Index(lines[1], "BAD")
	if at < 0 || strings.Index(lines[2], "^^^") != at {
		t.Errorf("carets are not below BAD:\n%s\n%s", lines[1], lines[2])
	}
}

func TestRender_NoPosition(t *testing.T) {
	e := (&Error{Msg: "read table"}).WithCause(io.ErrUnexpectedEOF).WithDetail("It is short.")
	if got, want := e.Render("f", "SELECT"), "f: read table: unexpected EOF\nIt is short."; got != want {
		t.Errorf("got %q want %q", got, want)
	}
	if !errors.Is(e, io.ErrUnexpectedEOF) {
		t.Error("the cause is not found")
	}
	if got := Render(errors.New("plain"), "f", ""); got != "plain" {
		t.Errorf("got %q", got)
	}
	wrapped := fmt.Errorf("plan: %w", New(Span{0, 6}, "wrong"))
	if got := Render(wrapped, "f", "SELECT"); !strings.HasPrefix(got, "f:1:1: wrong\n") {
		t.Errorf("got %q", got)
	}
}

func TestAt(t *testing.T) {
	if At(Span{1, 2}, nil) != nil {
		t.Error("nil became an error")
	}
	var e *Error
	if !errors.As(At(Span{1, 2}, io.EOF), &e) || e.Pos != (Span{1, 2}) || e.Error() != "EOF" {
		t.Errorf("got %+v", e)
	}
	if !errors.As(At(Span{1, 2}, New(Span{5, 6}, "x")), &e) || e.Pos != (Span{5, 6}) {
		t.Errorf("a position was overwritten: %+v", e)
	}
	if !errors.As(At(Span{1, 2}, New(Span{}, "x")), &e) || e.Pos != (Span{1, 2}) {
		t.Errorf("a position was not set: %+v", e)
	}
}

func TestNearest(t *testing.T) {
	f := func(name string, candidates string, want ...string) {
		t.Helper()
		if got := Nearest(name, strings.Fields(candidates)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v want %v", name, got, want)
		}
	}
	f("pirce", "id price bidder", "price")
	f("PRICE", "id price bidder", "price")
	f("user", "id user_id name", "user_id")
	f("zzz", "id user_id name")
	f("a", "b c")
	f("ab", "ba xy", "ba")
	f("bidd", "bid bids bidder birds bide bidr", "bid", "bids", "bide")
	if got := DidYouMean("pirce", []string{"price", "piece"}); got != "did you mean price or piece?" {
		t.Errorf("got %q", got)
	}
	if got := DidYouMean("zzz", []string{"price"}); got != "" {
		t.Errorf("got %q", got)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("SELECT\t1\n", 3, 8)
	f.Add("\xff日", 1, 2)
	f.Fuzz(func(t *testing.T, src string, start, end int) {
		if got := New(Span{start, end}, "m").Render("f", src); !strings.HasPrefix(got, "f:") {
			t.Errorf("got %q", got)
		}
	})
}
