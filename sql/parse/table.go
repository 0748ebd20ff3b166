package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// tableExpr parses what follows FROM: joins, of which the comma binds loosest.
func (p *parser) tableExpr() ast.TableExpr {
	start := p.start()
	return p.tableRest(p.tablePrimary(), start)
}

// tableRest goes on with joins behind a left operand.
func (p *parser) tableRest(l ast.TableExpr, start int) ast.TableExpr {
	l = p.joins(l, start)
	for n := 1; p.atOp(",") && p.chain(n); n++ {
		comma := p.start()
		p.advance()
		if t := p.tok(); t.kind == kWord && clauseWords[t.text] {
			p.failAt(ast.Span{Start: comma, End: comma + 1}, "remove it", "comma without a table after it")
			return l
		}
		right := p.start()
		r := p.joins(p.tablePrimary(), right)
		l = &ast.Join{Span: p.span(start), Kind: ast.CommaJoin, L: l, R: r}
	}
	return l
}

func (p *parser) joins(l ast.TableExpr, start int) ast.TableExpr {
	for n := 1; p.chain(n); n++ {
		j := p.joinOperator()
		if j == nil {
			return l
		}
		j.L = l
		j.R = p.tablePrimary()
		switch {
		case p.at("ON") && !p.at("ON", "CONFLICT"):
			if j.Natural || j.Kind == ast.CrossJoin {
				p.failAt(p.tok().span(), "remove ON, or the word before JOIN", "NATURAL and CROSS JOIN have no condition")
			}
			p.advance()
			j.On = p.expression()
		case p.accept("USING"):
			j.Using = p.identList("column name")
		}
		j.Span = p.span(start)
		l = j
	}
	return l
}

// joinOperator parses up to JOIN; nil when no join follows.
func (p *parser) joinOperator() *ast.Join {
	j := &ast.Join{Natural: p.accept("NATURAL")}
	switch {
	case p.accept("JOIN"):
		return j
	case p.accept("INNER"):
	case p.accept("CROSS"):
		j.Kind = ast.CrossJoin
	case p.accept("LEFT"):
		j.Kind = ast.LeftJoin
		p.accept("OUTER")
	case p.accept("RIGHT"):
		j.Kind = ast.RightJoin
		p.accept("OUTER")
	case p.accept("FULL"):
		j.Kind = ast.FullJoin
		p.accept("OUTER")
	default:
		if j.Natural {
			p.unexpected("JOIN")
		}
		return nil
	}
	p.expect("JOIN")
	return j
}

// tablePrimary parses one operand of a join, with hints, time travel,
// MATCH_RECOGNIZE, alias and sample.
func (p *parser) tablePrimary() ast.TableExpr {
	if !p.enter() {
		return &ast.TableRef{Name: ast.NewName("")}
	}
	defer p.leave()
	start := p.start()
	lateral := p.accept("LATERAL")
	switch {
	case p.atOp("("):
		p.advance()
		query, table := p.tableParen(start)
		if query != nil {
			return p.derived(query, start, lateral)
		}
		return p.matchRecognize(table, start)
	case p.at("UNNEST"):
		return p.unnest(start, lateral)
	case p.at("TABLE") && isOp(p.ahead(1), "("):
		return p.wrappedTableFunc(start, lateral)
	}
	if t := p.tok(); reservedFunctions[t.text] && t.kind == kWord && isOp(p.ahead(1), "(") {
		p.unexpectedIdent("table name")
	}
	if !p.atIdent() && p.tok().kind == kWord && clauseWords[p.tok().text] {
		p.unexpected("a table name")
	}
	name := p.name("table name")
	if p.atOp("(") {
		f := &ast.TableFunc{Lateral: lateral, Call: p.call(name, start)}
		f.Alias = p.tableAlias()
		f.Span = p.span(start)
		return p.matchRecognize(f, start)
	}
	if lateral {
		p.failAt(name.Span, "write LATERAL TABLE(f(...)) or LATERAL (SELECT ...)",
			"LATERAL needs a table function or a query")
	}
	return p.tableRef(name, start)
}

func (p *parser) tableRef(name *ast.Name, start int) ast.TableExpr {
	r := &ast.TableRef{Name: name, Hints: p.hints()}
	if p.at("FOR") {
		p.advance()
		p.expect("SYSTEM_TIME", "AS", "OF")
		r.AsOf = p.expression()
	}
	r.Span = p.span(start)
	if p.at("MATCH_RECOGNIZE") {
		return p.matchRecognize(r, start)
	}
	r.Alias = p.tableAlias()
	if r.Hints == nil {
		r.Hints = p.hints()
	}
	if p.at("FOR", "SYSTEM_TIME") {
		p.failAt(p.tok().span(), "write t FOR SYSTEM_TIME AS OF x AS alias", "FOR SYSTEM_TIME stands before the alias")
	}
	r.Sample = p.sample()
	if p.atAny("PIVOT", "UNPIVOT") {
		p.failAt(p.tok().span(), "write SUM(x) FILTER (WHERE c = 1) for each column", "%s is not supported", p.tok().text)
	}
	r.Span = p.span(start)
	return p.matchRecognize(r, start)
}

// tableParen parses from behind the ( at open up to and with its ). It returns a
// query or a join in parentheses; as in parenContent, an inner parenthesis is
// parsed before it is known which.
func (p *parser) tableParen(open int) (*ast.Query, ast.TableExpr) {
	if !p.enter() {
		return emptyQuery(), nil
	}
	defer p.leave()
	start := p.start()
	if p.atQuery(0) {
		q := p.query()
		p.closeParen(open)
		return q, nil
	}
	var table ast.TableExpr
	if p.atOp("(") {
		p.advance()
		query, inner := p.tableParen(start)
		if query != nil && p.atQueryRest() {
			q := p.queryRest(query, p.span(start))
			p.closeParen(open)
			return q, nil
		}
		if query != nil {
			inner = p.derived(query, start, false)
		}
		table = p.tableRest(inner, start)
	} else {
		table = p.tableExpr()
	}
	p.closeParen(open)
	return nil, table
}

// derived finishes a sub-query in FROM.
func (p *parser) derived(q *ast.Query, start int, lateral bool) ast.TableExpr {
	d := &ast.DerivedTable{Lateral: lateral, Query: q, Hints: p.hints()}
	d.Span = p.span(start)
	if p.at("MATCH_RECOGNIZE") {
		return p.matchRecognize(d, start)
	}
	d.Alias = p.tableAlias()
	d.Sample = p.sample()
	d.Span = p.span(start)
	return p.matchRecognize(d, start)
}

func (p *parser) unnest(start int, lateral bool) ast.TableExpr {
	p.advance()
	u := &ast.Unnest{Lateral: lateral}
	open := p.start()
	p.expectOp("(")
	u.Args = p.exprList()
	p.closeParen(open)
	if p.accept("WITH") {
		p.expect("ORDINALITY")
		u.WithOrdinality = true
	}
	u.Alias = p.tableAlias()
	u.Span = p.span(start)
	return u
}

// wrappedTableFunc parses TABLE(f(...)).
func (p *parser) wrappedTableFunc(start int, lateral bool) ast.TableExpr {
	p.advance()
	open := p.start()
	p.advance()
	f := &ast.TableFunc{Lateral: lateral, Wrapped: true}
	at := p.start()
	if p.at("UNNEST") || p.atQuery(0) {
		p.unexpected("a table function")
	}
	name := p.name("table function")
	f.Call = p.call(name, at)
	p.closeParen(open)
	f.Alias = p.tableAlias()
	f.Span = p.span(start)
	return p.matchRecognize(f, start)
}

// tableAlias parses an optional [AS] name [(columns)].
func (p *parser) tableAlias() *ast.TableAlias {
	start := p.start()
	if !p.accept("AS") && (!p.atIdent() || p.atQualify()) {
		return nil
	}
	a := &ast.TableAlias{Name: p.ident("alias")}
	if p.atOp("(") {
		a.Columns = p.identList("column name")
	}
	a.Span = p.span(start)
	return a
}

func (p *parser) sample() *ast.Sample {
	if !p.at("TABLESAMPLE") {
		return nil
	}
	start := p.start()
	p.advance()
	s := &ast.Sample{Method: p.expectAny("BERNOULLI", "SYSTEM", "SUBSTITUTE")}
	open := p.start()
	p.expectOp("(")
	s.Percent = p.expression()
	p.closeParen(open)
	if p.accept("REPEATABLE") {
		open := p.start()
		p.expectOp("(")
		s.Seed = p.expression()
		p.closeParen(open)
	}
	s.Span = p.span(start)
	return s
}
