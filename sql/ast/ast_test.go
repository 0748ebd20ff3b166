package ast

import (
	"fmt"
	"strings"
	"testing"
)

func TestWalk_OrderAndPruning(t *testing.T) {
	tree := &QueryStmt{Query: &Query{
		With: []*CTE{{Name: Ident{Name: "c"}, Query: &Query{Body: &Values{Rows: []Expr{&NullLit{}}}}}},
		Body: &Select{
			Items: []*SelectItem{{Expr: &Binary{Op: "+", L: NewName("a"), R: &NumberLit{Text: "1"}}}},
			From:  &TableRef{Name: NewName("t")},
		},
	}}
	var seen []string
	Walk(tree, func(n Node) bool {
		seen = append(seen, strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast."))
		_, cte := n.(*CTE)
		return !cte
	})
	want := "QueryStmt Query CTE Select SelectItem Binary Name NumberLit TableRef Name"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("got %s want %s", got, want)
	}
	Walk((*Query)(nil), func(Node) bool { t.Error("visited nil"); return true })
	Walk(nil, func(Node) bool { t.Error("visited nil"); return true })
}

func TestFormat_QuotesWhatNeedsIt(t *testing.T) {
	f := func(n Node, want string) {
		t.Helper()
		if got := Format(n); got != want {
			t.Errorf("got %s want %s", got, want)
		}
	}
	f(NewName("a", "user", "x y", "b`c", "1a", "Größe"), "a.`user`.`x y`.`b``c`.`1a`.Größe")
	f(&StringLit{Value: "it's"}, "'it''s'")
	f(&FuncCall{Name: NewName("COUNT"), Args: []Expr{&Star{}}}, "COUNT(*)")
	f(&FuncCall{Name: NewName("my f")}, "`my f`()")
	f(&Unary{Op: "-", X: &Unary{Op: "-", X: NewName("a")}}, "- -a")
	f(&Binary{Op: "*", L: &Binary{Op: "+", L: NewName("a"), R: NewName("b")}, R: NewName("c")}, "(a + b) * c")
	f(&Binary{Op: "-", L: NewName("a"), R: &Binary{Op: "-", L: NewName("b"), R: NewName("c")}}, "a - (b - c)")
	f(&Column{Name: Ident{Name: "ts"}, Type: &TypeName{Name: "TIMESTAMP", Params: []int{3}, Null: NotNull}},
		"ts TIMESTAMP(3) NOT NULL")
}

func TestIsReserved(t *testing.T) {
	for _, w := range []string{"select", "Timestamp", "USER", "value"} {
		if !IsReserved(w) {
			t.Errorf("%s is not reserved", w)
		}
	}
	for _, w := range []string{"name", "data", "qualify", "x", ""} {
		if IsReserved(w) {
			t.Errorf("%s is reserved", w)
		}
	}
}

func TestDump(t *testing.T) {
	x := &In{X: NewName("a"), List: []Expr{&StringLit{Value: "b"}, &NullLit{}}, Negated: true}
	if got, want := Dump(x), "(In X:a List:['b' (NullLit)] Negated)"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}
