package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// Script parses statements separated by semicolons; the last semicolon is
// optional. On a mistake it returns the statements before it and an error that
// is a *sqlerr.Error. The span of a statement covers its text without the
// semicolon.
func Script(src string) ([]ast.Statement, error) {
	p := newParser(src)
	var list []ast.Statement
	for {
		for p.acceptOp(";") {
		}
		if p.tok().kind == kEOF {
			break
		}
		s := p.statement()
		if p.err == nil && p.tok().kind != kEOF && !p.atOp(";") {
			p.trailing()
		}
		if p.err != nil {
			break
		}
		list = append(list, s)
	}
	return list, p.failure()
}

// Statement parses one statement.
func Statement(src string) (ast.Statement, error) {
	list, err := Script(src)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		span := ast.Span{End: len(src)}
		if len(list) > 1 {
			span = list[1].Pos()
		}
		return nil, sqlerr.New(span, "expected one statement, found %d", len(list))
	}
	return list[0], nil
}

// Query parses a query without a semicolon.
func Query(src string) (*ast.Query, error) {
	p := newParser(src)
	return finish(p, p.query())
}

// Expr parses a scalar expression.
func Expr(src string) (ast.Expr, error) {
	p := newParser(src)
	return finish(p, p.expression())
}

// Type parses a data type.
func Type(src string) (*ast.TypeName, error) {
	p := newParser(src)
	return finish(p, p.typeName())
}

// finish checks that nothing is left of the text.
func finish[T any](p *parser, node T) (T, error) {
	if p.err == nil && p.tok().kind != kEOF {
		p.trailing()
	}
	if p.err != nil {
		var zero T
		return zero, p.err
	}
	return node, nil
}

// trailing fails because of text behind a complete statement or expression.
func (p *parser) trailing() {
	t := p.tok()
	switch {
	case t.kind == kBad:
		p.fail(t.err)
	case isOp(t, ")"):
		p.failAt(t.span(), "remove it, or add the ( that it closes", "parenthesis ) without a (")
	case isOp(t, "*/"):
		p.failAt(t.span(), "remove it, or add the /* that it closes", "*/ without a comment")
	case statementWords[t.text] && t.kind == kWord:
		p.failAt(t.span(), "end the statement before it with a semicolon", "unexpected %s", p.found())
	default:
		if p.misspelt("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "JOIN",
			"LEFT", "RIGHT", "INNER", "CROSS", "QUALIFY", "WINDOW") {
			return
		}
		p.unexpected("the end of the statement")
	}
}

// Reserved reports whether a word, in any case, needs backticks to be used as an
// identifier.
func Reserved(word string) bool { return ast.IsReserved(word) }
