package parse

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

func TestScript_SpansOfStatements(t *testing.T) {
	src := "-- first\nSELECT 1 ; /* x */ SET 'a' = 'b';\n\nINSERT INTO t\n  SELECT 2 -- end\n"
	list, err := Script(src)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, s.Pos().Text(src))
	}
	want := []string{"SELECT 1", "SET 'a' = 'b'", "INSERT INTO t\n  SELECT 2"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q want %q", got, want)
	}
}

func TestScript_KeepsStatementsBeforeTheError(t *testing.T) {
	list, err := Script("SELECT 1; SELECT 2; SELEKT 3; SELECT 4")
	if len(list) != 2 {
		t.Errorf("got %d statements", len(list))
	}
	var e *sqlerr.Error
	if !errors.As(err, &e) || e.Pos != (ast.Span{Start: 20, End: 26}) {
		t.Errorf("got %+v", err)
	}
}

func TestStatement(t *testing.T) {
	f := func(src, want string) {
		t.Helper()
		s, err := Statement(src)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = ast.Format(s)
		}
		if got != want {
			t.Errorf("%q: got %q want %q", src, got, want)
		}
	}
	f("SELECT 1;", "SELECT 1")
	f("", "expected one statement, found 0")
	f("SELECT 1; SELECT 2", "expected one statement, found 2")
}

func TestSpans_OfExpressions(t *testing.T) {
	f := func(src string, pick func(ast.Expr) ast.Node, want string) {
		t.Helper()
		x, err := Expr(src)
		if err != nil {
			t.Fatal(err)
		}
		if got := pick(x).Pos().Text(src); got != want {
			t.Errorf("%q: got %q want %q", src, got, want)
		}
	}
	self := func(x ast.Expr) ast.Node { return x }
	f("  a + b  ", self, "a + b")
	f("(a + b) * c", self, "(a + b) * c")
	f("a + (b) * c", func(x ast.Expr) ast.Node { return x.(*ast.Binary).R }, "(b) * c")
	f("a  ||  b", func(x ast.Expr) ast.Node { return x.(*ast.Binary).OpSpan }, "||")
	f("a IS NOT NULL ", self, "a IS NOT NULL")
	f("f( a , b.c )", func(x ast.Expr) ast.Node { return x.(*ast.FuncCall).Args[1] }, "b.c")
	f("CAST(a AS  ROW<x INT> NOT NULL)", func(x ast.Expr) ast.Node { return x.(*ast.Cast).Type }, "ROW<x INT> NOT NULL")
	f("a NOT IN (1, 2) ", self, "a NOT IN (1, 2)")
	f("ä.`b`[1]", func(x ast.Expr) ast.Node { return x.(*ast.Index).X }, "ä.`b`")
}

func TestReservedWords(t *testing.T) {
	for _, w := range ast.ReservedWords() {
		if _, err := Script("SELECT x AS " + w + " FROM t"); err == nil {
			t.Errorf("%s is accepted as an alias", w)
		}
		if _, err := Script("SELECT x AS `" + w + "` FROM t"); err != nil {
			t.Errorf("`%s`: %v", w, err)
		}
	}
	for _, w := range strings.Fields(`a data type name key value_ plan format session source version week quarter
		json map last first length level size state status id url host options zone if data_ metadata
		hop tumble partial ordinality qualify model_ view database catalog temporary overwrite columns`) {
		src := "SELECT " + w + ", t." + w + " AS " + w + " FROM " + w + " AS t WHERE " + w + " = 1 GROUP BY " + w
		if _, err := Script(src); err != nil {
			t.Errorf("%s", sqlerr.Render(err, w, src))
		}
		src = "CREATE TABLE " + w + " (" + w + " INT, PRIMARY KEY (" + w + ") NOT ENFORCED)"
		if _, err := Script(src); err != nil {
			t.Errorf("%s", sqlerr.Render(err, w, src))
		}
	}
}

// TestNesting feeds texts nested far deeper than allowed: they are refused with
// a clear message, and those nested as deep as people may write are not.
func TestNesting(t *testing.T) {
	const deep = 25_000 // above chainMax
	for _, c := range [][4]string{
		{"", "SELECT (", "1", ")"},
		{"", "(", "SELECT 1", ")"},
		{"SELECT ", "(", "1", ")"},
		{"SELECT ", "((SELECT ", "1", ") + 1)"},
		{"", "SELECT * FROM (", "SELECT 1", ")"},
		{"SELECT * FROM ", "(", "t", ")"},
		{"SELECT * FROM t MATCH_RECOGNIZE (PATTERN (", "(", "A", ")"},
		{"SELECT ", "- ", "1", ""},
		{"SELECT ", "NOT ", "a", ""},
		{"SELECT ", "f(", "1", ")"},
		{"SELECT ", "ARRAY[", "1", "]"},
		{"SELECT ", "CASE WHEN a THEN ", "1", " END"},
		{"SELECT ", "a[", "1", "]"},
		{"SELECT a", " + a", "", ""},
		{"SELECT a", " IS NULL", "", ""},
		{"SELECT a", "[1]", "", ""},
		{"SELECT 1", " UNION SELECT 1", "", ""},
		{"SELECT * FROM a", ", a", "", ""},
		{"SELECT * FROM a", " CROSS JOIN a", "", ""},
		{"SELECT CAST(a AS ", "ARRAY<", "INT", ">"},
		{"SELECT CAST(a AS INT", " ARRAY", "", ""},
		{"SELECT * FROM t GROUP BY ", "ROLLUP (", "a", ")"},
		{"EXPLAIN ", "EXPLAIN ", "SELECT 1", ""},
	} {
		build := func(n int) string {
			s := c[0] + strings.Repeat(c[1], n) + c[2] + strings.Repeat(c[3], n)
			switch {
			case strings.Contains(c[0], "CAST("):
				s += ")"
			case strings.Contains(c[0], "PATTERN"):
				s += ") DEFINE A AS TRUE)"
			}
			return s
		}
		_, err := Script(build(deep))
		if err == nil {
			t.Errorf("%s%s... is accepted %d deep", c[0], c[1], deep)
		} else if m := err.Error(); !strings.Contains(m, "nested more than") && !strings.Contains(m, "follow each other") {
			t.Errorf("%s%s...: got %.100q", c[0], c[1], m)
		}
		checkScript(t, build(100))
	}
}

// TestLongLists parses lists that are long, not deep, and a chain below the
// limit. The trees are too large to be dumped.
func TestLongLists(t *testing.T) {
	src := "a IN (" + strings.Repeat("1, ", 200_000) + "2) AND (" + strings.Repeat("b OR ", 10_000) + "c)"
	x, err := Expr(src)
	if err != nil {
		t.Fatal(err)
	}
	if got := ast.Format(x); got != src {
		t.Errorf("printed otherwise: %.100s", got)
	}
	nodes := 0
	ast.Walk(x, func(ast.Node) bool { nodes++; return true })
	if want := 1 + 2 + 200_001 + 20_001; nodes != want {
		t.Errorf("walked %d nodes, want %d", nodes, want)
	}
}
