package parse

import (
	"errors"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

func TestSubstitute(t *testing.T) {
	vars := map[string]string{"A": "x", "LONG.name-1": "a longer value", "E": "", "N": "${A}"}
	f := func(src, want string) {
		t.Helper()
		got, err := Substitute(src, vars)
		if err != nil {
			got = sqlerr.Render(err, "f", src)
		}
		if got != want {
			t.Errorf("%q: got %q want %q", src, got, want)
		}
	}
	f("SELECT 1", "SELECT 1")
	f("'${A}/${LONG.name-1}' ${E}${A}", "'x/a longer value' x")
	f("${N}", "${A}")
	f("$A {A} ${} ${A $${A} ${A B}", "$A {A} ${} ${A $x ${A B}")
	f("-- ${NO}\n${A} /* ${NO} */ // ${NO}", "-- ${NO}\nx /* ${NO} */ // ${NO}")
	f("a '-- ${B}'", "f:1:7: variable ${B} is not defined\n 1 | a '-- ${B}'\n   |       ^^^^\nhint: define it with --define B=VALUE")
	f("${LONG.name}", "f:1:1: variable ${LONG.name} is not defined\n 1 | ${LONG.name}\n   | ^^^^^^^^^^^^\nhint: did you mean LONG.name-1?")
}

func TestMapping(t *testing.T) {
	src := "SELECT '${A}', ${B}${C} wrong FROM ${A}"
	out, m, err := SubstituteMapped(src, map[string]string{"A": "a long value", "B": "", "C": "c"})
	if err != nil || out != "SELECT 'a long value', c wrong FROM a long value" {
		t.Fatalf("got %q %v", out, err)
	}
	f := func(text, want string) {
		t.Helper()
		for i := range len(out) - len(text) + 1 {
			if out[i:i+len(text)] == text {
				if got := m.Original(ast.Span{Start: i, End: i + len(text)}).Text(src); got != want {
					t.Errorf("%q: got %q want %q", text, got, want)
				}
				return
			}
		}
		t.Errorf("no %q", text)
	}
	f("SELECT", "SELECT")
	f("'a long value'", "'${A}'")
	f("long", "${A}")
	f("wrong", "wrong")
	f("c wrong", "${C} wrong")
	f("FROM a", "FROM ${A}")

	_, err = Script(out)
	var e *sqlerr.Error
	if !errors.As(m.Error(err), &e) || e.Pos.Text(src) != "${A}" {
		t.Errorf("got %v", m.Error(err))
	}
	if m.Error(nil) != nil {
		t.Error("nil became an error")
	}
}

func FuzzSubstitute(f *testing.F) {
	f.Add("a ${A} b ${B} '${A}' -- ${C}\n", 3, 9)
	f.Add("0${B}", 3, 9)
	f.Fuzz(func(t *testing.T, src string, start, end int) {
		out, m, err := SubstituteMapped(src, map[string]string{"A": "value", "B": ""})
		if err != nil {
			checkError(t, err, src)
			return
		}
		start = min(max(start, 0), len(out))
		end = min(max(end, start), len(out))
		s := m.Original(ast.Span{Start: start, End: end})
		if s.Start < 0 || s.End < s.Start || s.End > len(src) {
			t.Errorf("%q: %v became %v", src, ast.Span{Start: start, End: end}, s)
		}
	})
}
