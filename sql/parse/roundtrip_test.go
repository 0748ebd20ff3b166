package parse

import (
	"reflect"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// checkScript parses src, which must be right, and checks what holds for every
// tree: positions nest and lie in the text, and printing and parsing again gives
// the same tree.
func checkScript(t *testing.T, src string) {
	t.Helper()
	list, err := Script(src)
	if err != nil {
		t.Error(sqlerr.Render(err, "script", src))
		return
	}
	for _, s := range list {
		checkSpans(t, s, src)
		text := ast.Format(s)
		again, err := Statement(text)
		if err != nil {
			t.Errorf("printed text is refused: %s\nfrom %q", sqlerr.Render(err, "printed", text), src)
			return
		}
		checkSame(t, s, again, src)
	}
}

func checkExpr(t *testing.T, src string) {
	t.Helper()
	x, err := Expr(src)
	if err != nil {
		t.Error(sqlerr.Render(err, "expr", src))
		return
	}
	checkSpans(t, x, src)
	text := ast.Format(x)
	again, err := Expr(text)
	if err != nil {
		t.Errorf("printed text is refused: %s\nfrom %q", sqlerr.Render(err, "printed", text), src)
		return
	}
	checkSame(t, x, again, src)
}

func checkSame(t *testing.T, a, b ast.Node, src string) {
	t.Helper()
	if !sameTree(reflect.ValueOf(a), reflect.ValueOf(b)) {
		t.Errorf("printing changed the tree of %q\nprinted %s\nbefore %s\nafter  %s", src, ast.Format(a), ast.Dump(a), ast.Dump(b))
	}
	if fa, fb := ast.Format(a), ast.Format(b); fa != fb {
		t.Errorf("printing is not stable: %q then %q", fa, fb)
	}
}

// sameTree compares two values but for spans.
func sameTree(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return sameTree(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		for i := range a.Len() {
			if !sameTree(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if a.Type() == reflect.TypeOf(ast.Span{}) {
			return true
		}
		for i := range a.NumField() {
			if !sameTree(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

func checkSpans(t *testing.T, root ast.Node, src string) {
	t.Helper()
	var parents []ast.Node
	var visit func(n ast.Node)
	visit = func(n ast.Node) {
		s := n.Pos()
		if s.Start < 0 || s.End < s.Start || s.End > len(src) {
			t.Errorf("span %v of %T is outside of %q", s, n, src)
		}
		if len(parents) > 0 {
			if p := parents[len(parents)-1]; s.Start < p.Pos().Start || s.End > p.Pos().End {
				t.Errorf("span %v of %T is outside of %v of its parent %T in %q", s, n, p.Pos(), p, src)
			}
		}
		parents = append(parents, n)
		first := true
		ast.Walk(n, func(c ast.Node) bool {
			if first {
				first = false
				return true
			}
			visit(c)
			return false
		})
		parents = parents[:len(parents)-1]
	}
	visit(root)
}
