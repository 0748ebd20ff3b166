package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// primary parses an expression without operators.
func (p *parser) primary() ast.Expr {
	t := p.tok()
	switch t.kind {
	case kNumber:
		return p.numberLit()
	case kString:
		return p.stringValue()
	case kQuoted:
		return p.nameOrCall()
	case kOp:
		if t.text == "(" {
			return p.paren()
		}
	case kWord:
		if x := p.special(t); x != nil {
			return x
		}
		if !ast.IsReservedUpper(t.text) {
			return p.nameOrCall()
		}
		if reservedFunctions[t.text] && isOp(p.ahead(1), "(") {
			p.advance()
			return p.call(&ast.Name{Span: t.span(), Parts: []ast.Ident{p.wordIdent(t)}}, t.start)
		}
		if isOp(p.ahead(1), ".") || !exprEnders[t.text] {
			p.failAt(t.span(), p.backticks(), "%s is a reserved keyword and can't be a column name", t.text)
			return &ast.NullLit{Span: t.span()}
		}
	}
	p.unexpected("an expression")
	return &ast.NullLit{Span: t.span()}
}

// exprEnders are the reserved words that go on with the statement: found where
// an expression is expected, something before them is missing.
var exprEnders = func() map[string]bool {
	m := map[string]bool{}
	for w := range clauseWords {
		m[w] = true
	}
	for _, w := range []string{
		"AS", "AND", "OR", "ON", "IN", "IS", "LIKE", "BETWEEN", "SIMILAR", "JOIN", "INNER", "CROSS", "NATURAL",
		"THEN", "WHEN", "ELSE", "END", "SELECT", "SET", "USING", "FETCH", "BY", "ALL", "DISTINCT", "MINUS",
		"INTO", "INSERT", "CREATE", "FOR", "OVER", "PARTITION", "RANGE", "ROWS", "FILTER", "WITHIN", "TABLE", "VALUES",
	} {
		m[w] = true
	}
	return m
}()

// wordIdent is a word as an identifier, reserved or not.
func (p *parser) wordIdent(t *token) ast.Ident {
	return ast.Ident{Span: t.span(), Name: p.src[t.start:t.end]}
}

// special parses what starts with a keyword that has a syntax of its own. It
// returns nil, with nothing consumed, when t is an ordinary word here.
func (p *parser) special(t *token) ast.Expr {
	next := p.ahead(1)
	switch t.text {
	case "TRUE", "FALSE", "UNKNOWN":
		p.advance()
		return &ast.BoolLit{Span: t.span(), Value: t.text == "TRUE", Unknown: t.text == "UNKNOWN"}
	case "NULL":
		p.advance()
		return &ast.NullLit{Span: t.span()}
	case "DEFAULT":
		p.advance()
		return &ast.DefaultLit{Span: t.span()}
	case "DATE", "TIME", "TIMESTAMP":
		return p.temporalOrCall(t)
	case "INTERVAL":
		return p.interval()
	case "CASE":
		return p.caseExpr()
	case "EXISTS", "UNIQUE":
		if isOp(next, "(") {
			return p.exists()
		}
	case "ARRAY", "MAP", "MULTISET":
		return p.collection(t)
	case "ROW":
		if isOp(next, "(") {
			return p.row()
		}
	}
	if niladic[t.text] && !isOp(next, "(") {
		p.advance()
		name := &ast.Name{Span: t.span(), Parts: []ast.Ident{p.wordIdent(t)}}
		return &ast.FuncCall{Span: t.span(), Name: name, NoParens: true}
	}
	if isOp(next, "(") {
		return p.specialCall(t)
	}
	return nil
}

// nameOrCall parses a name, name.*, or a call.
func (p *parser) nameOrCall() ast.Expr {
	start := p.start()
	n := &ast.Name{Parts: []ast.Ident{p.ident("name")}}
	for p.atOp(".") {
		if isOp(p.ahead(1), "*") {
			n.Span = p.span(start)
			p.advance()
			p.advance()
			return &ast.Star{Span: p.span(start), Qualifier: n}
		}
		p.advance()
		n.Parts = append(n.Parts, p.ident("name"))
	}
	n.Span = p.span(start)
	if p.atOp("(") {
		return p.call(n, start)
	}
	return n
}

func (p *parser) caseExpr() ast.Expr {
	start := p.start()
	p.advance()
	c := &ast.Case{}
	if !p.at("WHEN") {
		c.Operand = p.expression()
	}
	for n := 1; p.at("WHEN") && p.chain(n); n++ {
		when := p.start()
		p.advance()
		w := &ast.When{Conds: []ast.Expr{p.expression()}}
		for c.Operand != nil && p.acceptOp(",") {
			w.Conds = append(w.Conds, p.expression())
		}
		p.expect("THEN")
		w.Result = p.expression()
		w.Span = p.span(when)
		c.Whens = append(c.Whens, w)
	}
	if len(c.Whens) == 0 {
		p.unexpected("WHEN")
	}
	if p.accept("ELSE") {
		c.Else = p.expression()
	}
	if p.tok().kind == kEOF {
		p.failAt(ast.Span{Start: start, End: start + len("CASE")}, "add END", "CASE is not closed")
	}
	p.expect("END")
	c.Span = p.span(start)
	return c
}

func (p *parser) exists() ast.Expr {
	start := p.start()
	unique := p.advance().text == "UNIQUE"
	q := p.parenQuery()
	return &ast.Exists{Span: p.span(start), Query: q, Unique: unique}
}

// parenQuery parses ( query ).
func (p *parser) parenQuery() *ast.Query {
	open := p.start()
	p.expectOp("(")
	if !p.atQueryParens() {
		p.unexpected("a query (SELECT, VALUES or WITH)")
	}
	q := p.query()
	p.closeParen(open)
	return q
}

// collection parses ARRAY[...], MAP[...], MULTISET[...] and the forms with a
// query; nil if it is none.
func (p *parser) collection(t *token) ast.Expr {
	start := t.start
	next := p.ahead(1)
	if isOp(next, "[") {
		p.advance()
		p.advance()
		var elems []ast.Expr
		if !p.atOp("]") {
			elems = p.exprList()
		}
		if !p.acceptOp("]") {
			p.unexpected("',' or ']'")
		}
		span := p.span(start)
		switch t.text {
		case "ARRAY":
			return &ast.ArrayCtor{Span: span, Elems: elems}
		case "MAP":
			if len(elems)%2 != 0 {
				p.failAt(span, "write MAP[key1, value1, key2, value2]", "MAP needs a value for every key")
			}
			return &ast.MapCtor{Span: span, Elems: elems}
		}
		return &ast.MultisetCtor{Span: span, Elems: elems}
	}
	if isOp(next, "(") && (p.atQuery(2) || isOp(p.ahead(2), "(") && p.queryInside(2)) {
		p.advance()
		q := p.parenQuery()
		return &ast.QueryCtor{Span: p.span(start), Kind: t.text, Query: q}
	}
	return nil
}

func (p *parser) row() ast.Expr {
	start := p.start()
	p.advance()
	open := p.start()
	p.advance()
	r := &ast.Row{Explicit: true}
	if !p.atOp(")") {
		r.Elems = p.exprList()
	}
	p.closeParen(open)
	r.Span = p.span(start)
	return r
}
