package ast

import (
	"slices"
	"strings"
)

func (p *printer) call(f *FuncCall) {
	if len(f.Name.Parts) == 1 {
		p.word(f.Name.Parts[0])
	} else {
		p.name(f.Name)
	}
	if f.NoParens {
		return
	}
	p.w("(")
	p.opt(f.Distinct, "DISTINCT ")
	p.opt(f.All, "ALL ")
	if !p.specialArgs(f) {
		p.exprs(f.Args)
	}
	if len(f.OrderBy) > 0 {
		p.w(" ")
		p.orderBy(f.OrderBy)
	}
	p.jsonClauses(f.JSON)
	p.w(")")
	p.opt(f.Nulls != NullsDefault, " "+f.Nulls.String())
	if len(f.WithinGroup) > 0 {
		p.w(" WITHIN GROUP (")
		p.orderBy(f.WithinGroup)
		p.w(")")
	}
	if f.Filter != nil {
		p.w(" FILTER (WHERE ")
		p.expr(f.Filter, 0)
		p.w(")")
	}
	if f.Over != nil {
		p.w(" OVER ")
		p.window(f.Over)
	}
}

// specialArgs writes the arguments of a function with a syntax of its own; false
// if they are a plain list. A quoted name is that of an ordinary function.
func (p *printer) specialArgs(f *FuncCall) bool {
	if len(f.Name.Parts) != 1 || f.Name.Parts[0].Quoted {
		return false
	}
	n := len(f.Args)
	symbol := func(i int) bool {
		if i >= n {
			return false
		}
		_, ok := f.Args[i].(*Symbol)
		return ok
	}
	switch strings.ToUpper(f.Name.Parts[0].Name) {
	case "EXTRACT":
		return symbol(0) && p.wordy(f.Args, " FROM ")
	case "FLOOR", "CEIL", "CEILING":
		return symbol(1) && p.wordy(f.Args, " TO ")
	case "CONVERT", "TRANSLATE":
		return symbol(1) && p.wordy(f.Args, " USING ")
	case "TRIM":
		return symbol(0) && p.wordy(f.Args, " ", " FROM ")
	case "OVERLAY":
		return (n == 3 || n == 4) && p.wordy(f.Args, " PLACING ", " FROM ", " FOR ")
	case "POSITION":
		if n != 2 && n != 3 {
			return false
		}
		p.expr(f.Args[0], powRange+1)
		p.w(" IN ")
		return p.wordy(f.Args[1:], " FROM ")
	case "JSON_OBJECT", "JSON_OBJECTAGG":
		p.jsonPairs(f)
		return true
	case "JSON_ARRAY", "JSON_ARRAYAGG", "JSON_VALUE", "JSON_QUERY", "JSON_EXISTS":
		p.join(n, ", ", func(i int) { p.jsonValue(f, i) })
		return true
	}
	return false
}

// wordy writes arguments with words between them.
func (p *printer) wordy(args []Expr, words ...string) bool {
	for i, a := range args {
		if i > 0 {
			p.w(words[i-1])
		}
		p.expr(a, 0)
	}
	return true
}

func (p *printer) jsonPairs(f *FuncCall) {
	for i := 0; i+1 < len(f.Args); i += 2 {
		p.opt(i > 0, ", ")
		p.w("KEY ")
		p.expr(f.Args[i], 0)
		p.w(" VALUE ")
		p.jsonValue(f, i+1)
	}
}

func (p *printer) jsonValue(f *FuncCall, i int) {
	p.expr(f.Args[i], 0)
	p.opt(f.JSON != nil && slices.Contains(f.JSON.FormatJSON, i), " FORMAT JSON")
}

func (p *printer) jsonClauses(c *JSONClauses) {
	if c == nil {
		return
	}
	p.opt(len(c.Passing) > 0, " PASSING ")
	p.join(len(c.Passing), ", ", func(i int) { p.selectItem(c.Passing[i]) })
	if c.Returning != nil {
		p.w(" RETURNING ")
		p.typ(c.Returning)
	}
	switch c.Wrapper {
	case "":
	case "WITHOUT":
		p.w(" WITHOUT ARRAY WRAPPER")
	default:
		p.w(" WITH ", c.Wrapper, " ARRAY WRAPPER")
	}
	p.behavior(c.OnEmpty, " ON EMPTY")
	p.behavior(c.OnError, " ON ERROR")
	p.opt(c.OnNull != "", " "+c.OnNull+" ON NULL")
}

func (p *printer) behavior(b *JSONBehavior, on string) {
	if b == nil {
		return
	}
	p.w(" ", b.Kind)
	if b.Default != nil {
		p.w(" ")
		p.expr(b.Default, 0)
	}
	p.w(on)
}

// argument writes what may only be an argument.
func (p *printer) argument(x Expr) {
	switch x := x.(type) {
	case *NamedArg:
		p.word(x.Name)
		p.w(" => ")
		p.expr(x.Value, 0)
	case *Symbol:
		p.w(x.Word)
	case *ModelArg:
		p.w("MODEL ")
		p.name(x.Name)
	case *Descriptor:
		p.w("DESCRIPTOR")
		p.names(x.Columns)
	case *TableArg:
		p.tableArg(x)
	default:
		panic("BUG: ast.Format: expression without a text form")
	}
}

func (p *printer) tableArg(x *TableArg) {
	switch {
	case x.Name != nil:
		p.w("TABLE ")
		p.name(x.Name)
		p.hints(x.Hints)
	default:
		p.opt(x.PartitionBy == nil, "TABLE ")
		p.parenQuery(x.Query)
	}
	if len(x.PartitionBy) > 0 {
		p.w(" PARTITION BY ")
		_, plain := x.PartitionBy[0].(*Name)
		plain = plain && len(x.PartitionBy) == 1
		p.opt(!plain, "(")
		p.exprs(x.PartitionBy)
		p.opt(!plain, ")")
	}
	if len(x.OrderBy) > 0 {
		p.w(" ORDER BY ")
		_, plain := x.OrderBy[0].Expr.(*Name)
		plain = plain && len(x.OrderBy) == 1
		p.opt(!plain, "(")
		p.orderItems(x.OrderBy)
		p.opt(!plain, ")")
	}
	p.opt(x.Semantics != "", " WITH "+x.Semantics+" SEMANTICS")
}

func (p *printer) window(w *WindowSpec) {
	if w.Bare {
		p.ident(*w.Name)
		return
	}
	p.w("(")
	sep := ""
	part := func() {
		p.w(sep)
		sep = " "
	}
	if w.Name != nil {
		part()
		p.ident(*w.Name)
	}
	if len(w.PartitionBy) > 0 {
		part()
		p.w("PARTITION BY ")
		p.exprs(w.PartitionBy)
	}
	if len(w.OrderBy) > 0 {
		part()
		p.orderBy(w.OrderBy)
	}
	if w.Frame != nil {
		part()
		p.frame(w.Frame)
	}
	if w.AllowPartial != nil {
		part()
		p.opt(!*w.AllowPartial, "DIS")
		p.w("ALLOW PARTIAL")
	}
	p.w(")")
}

func (p *printer) frame(f *Frame) {
	p.w(map[bool]string{true: "ROWS ", false: "RANGE "}[f.Rows])
	if f.End == nil {
		p.bound(f.Start)
		return
	}
	p.w("BETWEEN ")
	p.bound(f.Start)
	p.w(" AND ")
	p.bound(f.End)
}

func (p *printer) bound(b *FrameBound) {
	if b.Offset != nil {
		p.expr(b.Offset, powAnd+1)
		p.w(" ")
	}
	p.w(b.Kind.String())
}
