package parse

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// FuzzScript feeds any text to the parser: it may refuse it, with a position in
// range, but it may not panic, and a tree survives printing and parsing.
func FuzzScript(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join("testdata", "*.txt"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range readCases(string(text)) {
			f.Add(c.input)
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		_, err := Script(src)
		if err == nil {
			checkScript(t, src)
		} else {
			checkError(t, err, src)
		}
		if x, err := Expr(src); err == nil {
			checkExpr(t, ast.Format(x))
		}
		if n, err := Type(src); err == nil {
			text := ast.Format(n)
			again, err := Type(text)
			if err != nil {
				t.Errorf("type %q printed as %q: %v", src, text, err)
				return
			}
			checkSame(t, n, again, src)
		}
	})
}

func checkError(t *testing.T, err error, src string) {
	t.Helper()
	var e *sqlerr.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a *sqlerr.Error: %v", err)
	}
	if e.Pos.Start < 0 || e.Pos.End < e.Pos.Start || e.Pos.End > len(src) {
		t.Errorf("error position %v is outside of %q", e.Pos, src)
	}
	if e.Msg == "" || strings.Contains(e.Render("f", src), "\x00") {
		t.Errorf("bad error text %q for %q", e.Render("f", src), src)
	}
}
