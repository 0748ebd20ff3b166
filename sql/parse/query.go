package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// query parses [WITH ...] body [ORDER BY] [LIMIT|OFFSET|FETCH].
func (p *parser) query() *ast.Query {
	if !p.enter() {
		return emptyQuery()
	}
	defer p.leave()
	start := p.start()
	q := &ast.Query{}
	if p.accept("WITH") {
		q.Recurse = p.accept("RECURSIVE")
		p.list(func() { q.With = append(q.With, p.cte()) })
	}
	q.Body = p.setOps(p.queryTerm(), start, false)
	p.orderLimit(q)
	q.Span = p.span(start)
	return q
}

// emptyQuery stands for a query that could not be parsed.
func emptyQuery() *ast.Query { return &ast.Query{Body: &ast.Select{}} }

// queryRest makes a query of a query in parentheses (at span) and what follows
// it: set operations, ORDER BY, LIMIT. Without any it is the query itself.
func (p *parser) queryRest(inner *ast.Query, at ast.Span) *ast.Query {
	if p.atOp(")") {
		return inner
	}
	q := &ast.Query{}
	q.Body = p.setOps(inner, at.Start, false)
	p.orderLimit(q)
	q.Span = p.span(at.Start)
	return q
}

// atQueryRest reports whether what follows a parenthesised query belongs to a
// query: a set operation, ORDER BY, LIMIT, or the end of an outer parenthesis.
func (p *parser) atQueryRest() bool {
	return p.atOp(")") || p.atAny("UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH")
}

func (p *parser) cte() *ast.CTE {
	start := p.start()
	c := &ast.CTE{Name: p.ident("name of the query")}
	if p.atOp("(") {
		c.Columns = p.identList("column name")
	}
	p.expect("AS")
	c.Query = p.parenQuery()
	c.Span = p.span(start)
	return c
}

// setOps parses set operations behind a left operand. INTERSECT binds tighter:
// with onlyIntersect the others are left to the caller.
func (p *parser) setOps(l ast.QueryBody, start int, onlyIntersect bool) ast.QueryBody {
	for n := 1; p.chain(n); n++ {
		op := ast.Intersect
		switch {
		case p.accept("INTERSECT"):
		case onlyIntersect:
			return l
		case p.accept("UNION"):
			op = ast.Union
		case p.acceptAny("EXCEPT", "MINUS") != "":
			op = ast.Except
		default:
			return l
		}
		s := &ast.SetOp{Op: op, All: p.accept("ALL"), L: l}
		if !s.All {
			p.accept("DISTINCT")
		}
		right := p.start()
		s.R = p.queryTerm()
		if op != ast.Intersect {
			s.R = p.setOps(s.R, right, true)
		}
		s.Span = p.span(start)
		l = s
	}
	return l
}

// queryTerm parses an operand of a set operation.
func (p *parser) queryTerm() ast.QueryBody {
	start := p.start()
	switch {
	case p.at("SELECT"):
		return p.selectBlock()
	case p.accept("VALUES"):
		v := &ast.Values{Rows: p.exprList()}
		v.Span = p.span(start)
		return v
	case p.at("TABLE") && isIdent(p.ahead(1)):
		p.advance()
		n := p.name("table name")
		return &ast.TableQuery{Span: p.span(start), Name: n}
	case p.atOp("("):
		return p.parenQuery()
	}
	p.unexpected("SELECT, VALUES or a query in parentheses")
	return emptyQuery()
}

func (p *parser) orderLimit(q *ast.Query) {
	if p.at("ORDER") {
		q.OrderBy = p.orderBy()
	}
	for {
		switch start := p.start(); {
		case p.at("LIMIT") && q.Limit == nil:
			p.advance()
			if p.accept("ALL") {
				break
			}
			q.Limit = p.expression()
			if p.acceptOp(",") { // LIMIT start, count
				q.Offset, q.Limit = q.Limit, p.expression()
			}
		case p.at("OFFSET") && q.Offset == nil:
			p.advance()
			q.Offset = p.expression()
			p.acceptAny("ROWS", "ROW")
		case p.at("FETCH") && q.Limit == nil:
			p.advance()
			p.expectAny("FIRST", "NEXT")
			q.Limit = &ast.NumberLit{Span: p.span(start), Text: "1"}
			if !p.atAny("ROW", "ROWS") {
				q.Limit = p.expression()
			}
			p.expectAny("ROWS", "ROW")
			p.expect("ONLY")
		default:
			return
		}
	}
}

// orderBy parses ORDER BY items.
func (p *parser) orderBy() []*ast.OrderItem {
	p.expect("ORDER", "BY")
	var items []*ast.OrderItem
	p.list(func() { items = append(items, p.orderItem()) })
	return items
}

func (p *parser) orderItem() *ast.OrderItem {
	start := p.start()
	o := &ast.OrderItem{Expr: p.expression()}
	if !p.accept("ASC") {
		o.Desc = p.accept("DESC")
	}
	if p.accept("NULLS") {
		o.Nulls = ast.NullsFirst
		if p.expectAny("FIRST", "LAST") == "LAST" {
			o.Nulls = ast.NullsLast
		}
	}
	o.Span = p.span(start)
	return o
}

// selectBlock parses SELECT ... up to QUALIFY.
func (p *parser) selectBlock() *ast.Select {
	start := p.start()
	p.expect("SELECT")
	s := &ast.Select{Hints: p.hints()}
	p.accept("STREAM")
	switch {
	case p.accept("DISTINCT"):
		s.Distinct = true
	case p.accept("ALL"):
		s.All = true
	}
	p.list(func() { s.Items = append(s.Items, p.selectItem()) })
	p.missingComma()
	if p.accept("FROM") {
		s.From = p.tableExpr()
	}
	if p.accept("WHERE") {
		s.Where = p.expression()
	}
	if p.at("GROUP") {
		s.GroupBy = p.groupBy()
	}
	if p.accept("HAVING") {
		s.Having = p.expression()
	}
	if p.accept("WINDOW") {
		p.list(func() { s.Windows = append(s.Windows, p.namedWindow()) })
	}
	if p.at("QUALIFY") {
		p.advance()
		s.Qualify = p.expression()
	}
	s.Span = p.span(start)
	return s
}

// missingComma fails when a select item is followed by the start of another.
func (p *parser) missingComma() {
	t := p.tok()
	if p.at("QUALIFY") {
		return
	}
	if isIdent(t) || t.kind == kNumber || t.kind == kString || t.kind == kWord && reservedFunctions[t.text] {
		if p.misspelt("FROM") {
			return
		}
		p.failAt(t.span(), "separate the items with a comma, or correct the keyword",
			"unexpected %s behind a select item", p.found())
	}
}

func (p *parser) selectItem() *ast.SelectItem {
	start := p.start()
	if p.atOp("*") {
		x := p.star()
		return &ast.SelectItem{Span: x.Pos(), Expr: x}
	}
	item := &ast.SelectItem{Expr: p.expression()}
	if p.accept("AS") {
		a := p.ident("alias")
		item.Alias = &a
	} else if p.atIdent() && !p.atQualify() {
		a := p.ident("alias")
		item.Alias = &a
	}
	item.Span = p.span(start)
	return item
}

// atQualify reports whether QUALIFY, an ordinary word in Flink 1.20, comes next
// as the clause: something that can go on with an expression follows.
func (p *parser) atQualify() bool {
	if !p.at("QUALIFY") {
		return false
	}
	next := p.ahead(1)
	switch next.kind {
	case kNumber, kString, kQuoted:
		return true
	case kOp:
		return next.text == "(" || next.text == "-" || next.text == "+"
	case kWord:
		return !ast.IsReservedUpper(next.text) || reservedFunctions[next.text] ||
			wordIn(next.text, "NOT", "CASE", "EXISTS", "CAST", "TRUE", "FALSE")
	}
	return false
}

func wordIn(w string, words ...string) bool {
	for _, x := range words {
		if w == x {
			return true
		}
	}
	return false
}

func (p *parser) groupBy() *ast.GroupBy {
	start := p.start()
	p.expect("GROUP", "BY")
	g := &ast.GroupBy{Distinct: p.accept("DISTINCT")}
	if !g.Distinct {
		p.accept("ALL")
	}
	p.list(func() { g.Items = append(g.Items, p.groupItem()) })
	g.Span = p.span(start)
	return g
}

func (p *parser) groupItem() *ast.GroupItem {
	if !p.enter() {
		return &ast.GroupItem{Kind: ast.GroupList}
	}
	defer p.leave()
	start := p.start()
	g := &ast.GroupItem{Kind: ast.GroupExpr}
	nested := func(k ast.GroupKind) {
		g.Kind = k
		p.parens(func() { g.Items = append(g.Items, p.groupItem()) })
	}
	switch {
	case p.accept("GROUPING", "SETS"):
		nested(ast.GroupSets)
	case p.accept("ROLLUP"):
		nested(ast.GroupRollup)
	case p.accept("CUBE"):
		nested(ast.GroupCube)
	case p.atOp("(") && isOp(p.ahead(1), ")"):
		p.advance()
		p.advance()
		g.Kind = ast.GroupList
	default:
		g.Expr = p.expression()
		if r, ok := g.Expr.(*ast.Row); ok && !r.Explicit {
			g.Kind, g.Exprs, g.Expr = ast.GroupList, r.Elems, nil
		}
	}
	g.Span = p.span(start)
	return g
}

func (p *parser) namedWindow() *ast.NamedWindow {
	start := p.start()
	w := &ast.NamedWindow{Name: p.ident("window name")}
	p.expect("AS")
	if !p.atOp("(") {
		p.unexpected("'('")
	}
	w.Spec = p.windowSpec()
	w.Span = p.span(start)
	return w
}

// windowSpec parses what follows OVER, or AS in the WINDOW clause.
func (p *parser) windowSpec() *ast.WindowSpec {
	start := p.start()
	w := &ast.WindowSpec{}
	if !p.atOp("(") {
		n := p.ident("window name or '('")
		w.Name, w.Bare = &n, true
		w.Span = p.span(start)
		return w
	}
	p.advance()
	if p.atIdent() {
		n := p.ident("window name")
		w.Name = &n
	}
	if p.accept("PARTITION") {
		p.expect("BY")
		w.PartitionBy = p.exprList()
	}
	if p.at("ORDER") {
		w.OrderBy = p.orderBy()
	}
	if p.atAny("ROWS", "RANGE") {
		w.Frame = p.frame()
	}
	if p.atAny("ALLOW", "DISALLOW") {
		allow := p.advance().text == "ALLOW"
		p.expect("PARTIAL")
		w.AllowPartial = &allow
	}
	p.closeParen(start)
	w.Span = p.span(start)
	return w
}

func (p *parser) frame() *ast.Frame {
	start := p.start()
	f := &ast.Frame{Rows: p.advance().text == "ROWS"}
	if p.accept("BETWEEN") {
		f.Start = p.frameBound()
		p.expect("AND")
		f.End = p.frameBound()
	} else {
		f.Start = p.frameBound()
	}
	f.Span = p.span(start)
	return f
}

func (p *parser) frameBound() *ast.FrameBound {
	start := p.start()
	b := &ast.FrameBound{}
	switch {
	case p.accept("CURRENT", "ROW"):
	case p.accept("UNBOUNDED"):
		b.Kind = ast.UnboundedPreceding
		if p.expectAny("PRECEDING", "FOLLOWING") == "FOLLOWING" {
			b.Kind = ast.UnboundedFollowing
		}
	default:
		b.Offset = p.expr(bpAnd)
		b.Kind = ast.Preceding
		if p.expectAny("PRECEDING", "FOLLOWING") == "FOLLOWING" {
			b.Kind = ast.Following
		}
	}
	b.Span = p.span(start)
	return b
}

// hints parses an optional /*+ NAME(...), ... */.
func (p *parser) hints() []*ast.Hint {
	if p.tok().kind != kHint {
		return nil
	}
	open := p.advance().span()
	var list []*ast.Hint
	for {
		list = append(list, p.hint())
		if !p.acceptOp(",") && !p.atIdent() {
			break
		}
	}
	if !p.acceptOp("*/") {
		if p.tok().kind == kEOF {
			p.failAt(open, "end it with */", "hint is not closed")
		} else {
			p.unexpected("',' or */")
		}
	}
	return list
}

func (p *parser) hint() *ast.Hint {
	start := p.start()
	h := &ast.Hint{Name: p.ident("hint name")}
	if p.atOp("(") && isOp(p.ahead(1), ")") {
		p.advance()
		p.advance()
	} else if p.atOp("(") {
		p.parens(func() {
			if t := p.tok(); t.kind != kNumber && isOp(p.ahead(1), "=") {
				h.Options = append(h.Options, p.hintOption())
				return
			}
			switch {
			case p.tok().kind == kNumber:
				h.Args = append(h.Args, p.numberLit())
			case p.tok().kind == kString:
				h.Args = append(h.Args, p.stringLit("argument"))
			default:
				h.Args = append(h.Args, p.name("name, string or number"))
			}
		})
	}
	h.Span = p.span(start)
	return h
}

// hintOption parses key = value, where a key may be a plain word and a value a
// number.
func (p *parser) hintOption() *ast.Option {
	start := p.start()
	o := &ast.Option{Key: p.hintText("option name")}
	p.expectOp("=")
	o.Value = p.hintText("option value")
	o.Span = p.span(start)
	return o
}

func (p *parser) hintText(what string) *ast.StringLit {
	t := p.tok()
	switch {
	case t.kind == kNumber:
		p.advance()
		return &ast.StringLit{Span: t.span(), Value: t.text}
	case isIdent(t):
		n := p.name(what)
		return &ast.StringLit{Span: n.Span, Value: n.String()}
	}
	return p.stringLit(what)
}
