package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// Binding powers, those of Calcite. An operator takes operands that bind
// tighter than itself; equal powers associate to the left.
const (
	bpLowest     = 0
	bpMultiUnion = 14
	bpMultiInter = 18
	bpOr         = 22
	bpAnd        = 24
	bpNot        = 26
	bpIs         = 28
	bpCompare    = 30
	bpRange      = 32 // BETWEEN, IN, LIKE
	bpAdd        = 40
	bpMultiply   = 60
	bpUnary      = 80
)

// expr parses an expression whose operators bind tighter than min.
func (p *parser) expr(min int) ast.Expr {
	if !p.enter() {
		return &ast.NullLit{Span: p.tok().span()}
	}
	defer p.leave()
	start := p.start()
	return p.exprRest(p.prefix(), start, min)
}

func (p *parser) expression() ast.Expr { return p.expr(bpLowest) }

func (p *parser) exprList() []ast.Expr {
	var list []ast.Expr
	p.list(func() { list = append(list, p.expression()) })
	return list
}

// prefix parses a primary expression with the prefix operators before it.
func (p *parser) prefix() ast.Expr {
	start := p.start()
	unary := func(op string, bp int) ast.Expr {
		p.advance()
		x := p.expr(bp)
		return &ast.Unary{Span: p.span(start), Op: op, X: x}
	}
	switch {
	case p.atOp("-"):
		return unary("-", bpUnary)
	case p.atOp("+"):
		return unary("+", bpUnary)
	case p.at("NOT"):
		return unary("NOT", bpNot)
	case p.atAny("FINAL", "RUNNING") && p.callFollows():
		return unary(p.tok().text, bpUnary)
	}
	return p.postfix(p.primary(), start)
}

// callFollows reports whether the token at hand, FINAL or RUNNING, stands before
// a call and so is an operator.
func (p *parser) callFollows() bool {
	t := p.ahead(1)
	return t.kind == kWord && isOp(p.ahead(2), "(") && (!ast.IsReservedUpper(t.text) || reservedFunctions[t.text])
}

// postfix parses element access, field access and x.* behind a primary.
func (p *parser) postfix(x ast.Expr, start int) ast.Expr {
	for n := 1; p.chain(n); n++ {
		switch {
		case p.atOp("["):
			open := p.start()
			p.advance()
			i := p.expression()
			if !p.acceptOp("]") {
				if p.tok().kind == kEOF {
					p.failAt(ast.Span{Start: open, End: open + 1}, "add the missing ]", "bracket is not closed")
				} else {
					p.unexpected("']'")
				}
			}
			x = &ast.Index{Span: p.span(start), X: x, Index: i}
		case p.atOp(".") && isOp(p.ahead(1), "*"):
			p.advance()
			p.advance()
			return &ast.FieldStar{Span: p.span(start), X: x}
		case p.acceptOp("."):
			f := p.ident("field name")
			x = &ast.Field{Span: p.span(start), X: x, Name: f}
		default:
			return x
		}
	}
	return x
}

// exprRest goes on from a left operand that starts at start.
func (p *parser) exprRest(x ast.Expr, start, min int) ast.Expr {
	for n := 1; p.chain(n); n++ {
		t := p.tok()
		var next ast.Expr
		switch t.kind {
		case kOp:
			next = p.symbolOperator(x, start, min)
		case kWord:
			next = p.wordOperator(x, start, min)
		}
		if next == nil {
			return x
		}
		x = next
	}
	return x
}

var symbolPower = map[string]int{
	"=": bpCompare, "<>": bpCompare, "!=": bpCompare,
	"<": bpCompare, "<=": bpCompare, ">": bpCompare, ">=": bpCompare,
	"+": bpAdd, "-": bpAdd, "*": bpMultiply, "/": bpMultiply, "%": bpMultiply, "||": bpMultiply,
}

// symbolOperator parses `op right` for an operator that is a symbol, or returns
// nil when none comes next or it binds no tighter than min.
func (p *parser) symbolOperator(x ast.Expr, start, min int) ast.Expr {
	t := p.tok()
	bp := symbolPower[t.text]
	if bp <= min {
		return nil
	}
	p.advance()
	op := t.text
	if op == "!=" {
		op = "<>"
	}
	if bp == bpCompare {
		if q := p.acceptQuantifier(); q != "" {
			return p.quantified(x, start, op, q)
		}
	}
	r := p.expr(bp)
	return &ast.Binary{Span: p.span(start), Op: op, OpSpan: t.span(), L: x, R: r}
}

func (p *parser) acceptQuantifier() string {
	if !isOp(p.ahead(1), "(") {
		return ""
	}
	return p.acceptAny("ANY", "SOME", "ALL")
}

func (p *parser) quantified(x ast.Expr, start int, op, quantifier string) ast.Expr {
	q := &ast.Quantified{X: x, Op: op, Quantifier: quantifier}
	q.Query, q.List = p.queryOrList()
	q.Span = p.span(start)
	return q
}

// queryOrList parses ( query ) or ( expr, ... ).
func (p *parser) queryOrList() (*ast.Query, []ast.Expr) {
	open := p.start()
	p.expectOp("(")
	query, list := p.parenContent(open)
	return query, list
}

// wordOperator is symbolOperator for operators that are words.
func (p *parser) wordOperator(x ast.Expr, start, min int) ast.Expr {
	t := p.tok()
	binary := func(bp int, op string, words int) ast.Expr {
		if bp <= min {
			return nil
		}
		opSpan := ast.Span{Start: t.start, End: p.ahead(words - 1).end}
		for range words {
			p.advance()
		}
		r := p.expr(bp)
		return &ast.Binary{Span: p.span(start), Op: op, OpSpan: opSpan, L: x, R: r}
	}
	switch t.text {
	case "OR":
		return binary(bpOr, "OR", 1)
	case "AND":
		return binary(bpAnd, "AND", 1)
	case "IS":
		if bpIs > min {
			return p.is(x, start)
		}
	case "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "SIMILAR":
		if bpRange > min {
			return p.rangeOperator(x, start)
		}
	case "OVERLAPS", "CONTAINS", "EQUALS", "PRECEDES", "SUCCEEDS":
		return binary(bpCompare, t.text, 1)
	case "IMMEDIATELY":
		if w := p.ahead(1); isWord(w, "PRECEDES") || isWord(w, "SUCCEEDS") {
			return binary(bpCompare, "IMMEDIATELY "+w.text, 2)
		}
	case "MEMBER":
		return binary(bpCompare, "MEMBER OF", p.optionalOf())
	case "SUBMULTISET":
		return binary(bpCompare, "SUBMULTISET OF", p.optionalOf())
	case "MULTISET":
		return p.multisetOperator(binary)
	}
	return nil
}

// optionalOf returns how many words MEMBER [OF] has here.
func (p *parser) optionalOf() int {
	if isWord(p.ahead(1), "OF") {
		return 2
	}
	return 1
}

// multisetOperator parses MULTISET UNION and the like. ALL is the default.
func (p *parser) multisetOperator(binary func(bp int, op string, words int) ast.Expr) ast.Expr {
	bp := bpMultiUnion
	op := p.ahead(1).text
	switch op {
	case "UNION", "EXCEPT":
	case "INTERSECT":
		bp = bpMultiInter
	default:
		return nil
	}
	op = "MULTISET " + op
	switch p.ahead(2).text {
	case "ALL":
		return binary(bp, op+" ALL", 3)
	case "DISTINCT":
		return binary(bp, op+" DISTINCT", 3)
	}
	return binary(bp, op+" ALL", 2)
}

// is parses IS [NOT] test behind x.
func (p *parser) is(x ast.Expr, start int) ast.Expr {
	p.advance()
	not := p.accept("NOT")
	if p.accept("DISTINCT", "FROM") {
		y := p.expr(bpCompare)
		return &ast.IsDistinct{Span: p.span(start), X: x, Y: y, Negated: not}
	}
	test := ast.IsNull
	switch {
	case p.accept("NULL"):
	case p.accept("TRUE"):
		test = ast.IsTrue
	case p.accept("FALSE"):
		test = ast.IsFalse
	case p.accept("UNKNOWN"):
		test = ast.IsUnknown
	case p.accept("JSON"):
		test = p.jsonTest()
	case p.accept("A", "SET"):
		test = ast.IsASet
	case p.accept("EMPTY"):
		test = ast.IsEmpty
	default:
		p.unexpected("NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM or JSON")
	}
	return &ast.Is{Span: p.span(start), X: x, Test: test, Negated: not}
}

func (p *parser) jsonTest() ast.IsTestKind {
	switch p.acceptAny("VALUE", "SCALAR", "ARRAY", "OBJECT") {
	case "VALUE":
		return ast.IsJSONValue
	case "SCALAR":
		return ast.IsJSONScalar
	case "ARRAY":
		return ast.IsJSONArray
	case "OBJECT":
		return ast.IsJSONObject
	}
	return ast.IsJSON
}

// rangeOperator parses [NOT] BETWEEN, IN, LIKE, ILIKE, RLIKE, SIMILAR TO.
func (p *parser) rangeOperator(x ast.Expr, start int) ast.Expr {
	not := p.accept("NOT")
	switch {
	case p.accept("BETWEEN"):
		b := &ast.Between{X: x, Negated: not, Symmetric: p.accept("SYMMETRIC")}
		if !b.Symmetric {
			p.accept("ASYMMETRIC")
		}
		b.Lo = p.expr(bpRange)
		p.expect("AND")
		b.Hi = p.expr(bpRange)
		b.Span = p.span(start)
		return b
	case p.accept("IN"):
		in := &ast.In{X: x, Negated: not}
		in.Query, in.List = p.queryOrList()
		in.Span = p.span(start)
		return in
	case p.accept("LIKE"):
		return p.like(x, start, ast.LikePattern, not)
	case p.accept("ILIKE"):
		return p.like(x, start, ast.ILikePattern, not)
	case p.accept("RLIKE"):
		return p.like(x, start, ast.RegexpPattern, not)
	case p.accept("SIMILAR"):
		p.expect("TO")
		return p.like(x, start, ast.SimilarPattern, not)
	}
	p.unexpected("BETWEEN, IN, LIKE or SIMILAR TO")
	return x
}

func (p *parser) like(x ast.Expr, start int, k ast.LikeKind, not bool) ast.Expr {
	l := &ast.Like{Kind: k, X: x, Negated: not, Pattern: p.expr(bpRange)}
	if p.accept("ESCAPE") {
		l.Escape = p.expr(bpRange)
	}
	l.Span = p.span(start)
	return l
}

// paren parses what starts with ( in an expression: what plainParen does, or a
// difference of times (a - b) SECOND.
func (p *parser) paren() ast.Expr {
	open := p.start()
	x := p.plainParen()
	if d, ok := x.(*ast.Binary); ok && d.Op == "-" && p.tok().kind == kWord && diffUnits[p.tok().text] {
		q := p.qualifier()
		return &ast.TimeDiff{Span: p.span(open), L: d.L, R: d.R, Qualifier: q}
	}
	return x
}

// diffUnits are the units that are reserved words: behind a parenthesis they are
// no alias.
var diffUnits = map[string]bool{"YEAR": true, "MONTH": true, "DAY": true, "HOUR": true, "MINUTE": true, "SECOND": true}

// plainParen parses a row, an expression or a query in parentheses.
func (p *parser) plainParen() ast.Expr {
	open := p.start()
	p.expectOp("(")
	query, list := p.parenContent(open)
	switch {
	case query != nil:
		return &ast.Subquery{Span: p.span(open), Query: query}
	case len(list) == 1:
		return list[0]
	}
	return &ast.Row{Span: p.span(open), Elems: list}
}

// parenContent parses from behind the ( at open up to and with its ). It returns
// a query, or a list of one or more expressions.
//
// `((SELECT ...` may go on as a query or as an expression; that is seen only
// behind the inner parenthesis, so the inner one is parsed first and the rest is
// hung onto it, without going back.
func (p *parser) parenContent(open int) (*ast.Query, []ast.Expr) {
	if !p.enter() {
		return nil, []ast.Expr{&ast.NullLit{}}
	}
	defer p.leave()
	if p.atQuery(0) {
		q := p.query()
		p.closeParen(open)
		return q, nil
	}
	var first ast.Expr
	start := p.start()
	if p.atOp("(") && p.atQueryParens() {
		p.advance()
		query, list := p.parenContent(start)
		switch {
		case query != nil && p.atQueryRest():
			outer := p.queryRest(query, p.span(start))
			p.closeParen(open)
			return outer, nil
		case query != nil:
			first = &ast.Subquery{Span: p.span(start), Query: query}
		case len(list) == 1:
			first = list[0]
		default:
			first = &ast.Row{Span: p.span(start), Elems: list}
		}
		first = p.exprRest(p.postfix(first, start), start, bpLowest)
	} else {
		first = p.expression()
	}
	list := []ast.Expr{first}
	for p.acceptOp(",") {
		list = append(list, p.expression())
	}
	p.closeParen(open)
	return nil, list
}
