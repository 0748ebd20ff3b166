package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// specialCall parses the functions whose arguments are not a plain list; nil,
// with nothing consumed, for any other word. A parenthesis follows the word.
func (p *parser) specialCall(t *token) ast.Expr {
	switch t.text {
	case "CAST", "TRY_CAST":
		return p.cast(t.text == "TRY_CAST")
	case "EXTRACT":
		return p.normalized(func(f *ast.FuncCall) {
			f.Args = append(f.Args, p.unitSymbol())
			p.expect("FROM")
			f.Args = append(f.Args, p.expression())
		})
	case "TIMESTAMPADD", "TIMESTAMPDIFF":
		return p.normalized(p.timestampArgs)
	case "FLOOR", "CEIL", "CEILING":
		return p.normalized(p.roundArgs)
	case "TRIM":
		return p.normalized(p.trimArgs)
	case "SUBSTRING":
		return p.normalized(p.substringArgs)
	case "OVERLAY":
		return p.normalized(p.overlayArgs)
	case "POSITION":
		return p.normalized(p.positionArgs)
	case "CONVERT", "TRANSLATE":
		return p.normalized(p.convertArgs)
	case "JSON_EXISTS", "JSON_VALUE", "JSON_QUERY":
		return p.normalized(p.jsonPathArgs)
	case "JSON_OBJECT", "JSON_OBJECTAGG":
		return p.normalized(p.jsonObjectArgs)
	case "JSON_ARRAY", "JSON_ARRAYAGG":
		return p.normalized(p.jsonArrayArgs)
	}
	return nil
}

// normalized parses NAME ( args ) and the clauses behind a call.
func (p *parser) normalized(args func(f *ast.FuncCall)) *ast.FuncCall {
	t := p.advance()
	f := &ast.FuncCall{Name: &ast.Name{Span: t.span(), Parts: []ast.Ident{p.wordIdent(t)}}}
	open := p.start()
	p.expectOp("(")
	args(f)
	p.closeParen(open)
	p.callSuffix(f)
	f.Span = p.span(t.start)
	return f
}

func (p *parser) cast(try bool) ast.Expr {
	start := p.advance().start
	open := p.start()
	p.expectOp("(")
	c := &ast.Cast{Try: try, X: p.expression()}
	p.expect("AS")
	c.Type = p.typeName()
	p.closeParen(open)
	c.Span = p.span(start)
	return c
}

// unitSymbol consumes a time unit as an argument.
func (p *parser) unitSymbol() ast.Expr {
	start := p.start()
	u := p.unit()
	return &ast.Symbol{Span: p.span(start), Word: string(u)}
}

func (p *parser) timestampArgs(f *ast.FuncCall) {
	f.Args = append(f.Args, p.unitSymbol())
	for range 2 {
		p.expectOp(",")
		f.Args = append(f.Args, p.expression())
	}
}

func (p *parser) roundArgs(f *ast.FuncCall) {
	if p.atOp(")") {
		return
	}
	f.Args = append(f.Args, p.expression())
	if p.accept("TO") {
		f.Args = append(f.Args, p.unitSymbol())
		return
	}
	p.moreArgs(f)
}

// moreArgs parses `, arg` as long as there are any.
func (p *parser) moreArgs(f *ast.FuncCall) {
	for p.acceptOp(",") {
		f.Args = append(f.Args, p.expression())
	}
}

func (p *parser) trimArgs(f *ast.FuncCall) {
	start := p.start()
	where := &ast.Symbol{Word: p.acceptAny("BOTH", "LEADING", "TRAILING")}
	explicit := where.Word != ""
	where.Span = p.span(start)
	if !explicit {
		where.Word = "BOTH"
	}
	blank := &ast.StringLit{Span: where.Span, Value: " "}
	if explicit && p.accept("FROM") {
		f.Args = []ast.Expr{where, blank, p.expression()}
		return
	}
	x := p.expression()
	switch {
	case p.accept("FROM"):
		f.Args = []ast.Expr{where, x, p.expression()}
	case explicit:
		f.Args = []ast.Expr{where, blank, x}
	default:
		f.Args = []ast.Expr{x}
		p.moreArgs(f)
	}
}

func (p *parser) substringArgs(f *ast.FuncCall) {
	f.Args = append(f.Args, p.expression())
	if !p.accept("FROM") {
		p.moreArgs(f)
		return
	}
	f.Args = append(f.Args, p.expression())
	if p.accept("FOR") {
		f.Args = append(f.Args, p.expression())
	}
}

func (p *parser) overlayArgs(f *ast.FuncCall) {
	f.Args = append(f.Args, p.expression())
	if !p.accept("PLACING") {
		p.moreArgs(f)
		return
	}
	f.Args = append(f.Args, p.expression())
	p.expect("FROM")
	f.Args = append(f.Args, p.expression())
	if p.accept("FOR") {
		f.Args = append(f.Args, p.expression())
	}
}

func (p *parser) positionArgs(f *ast.FuncCall) {
	f.Args = append(f.Args, p.expr(bpRange))
	if !p.accept("IN") {
		p.moreArgs(f)
		return
	}
	f.Args = append(f.Args, p.expression())
	if p.accept("FROM") {
		f.Args = append(f.Args, p.expression())
	}
}

func (p *parser) convertArgs(f *ast.FuncCall) {
	f.Args = append(f.Args, p.expression())
	if p.accept("USING") {
		t := p.tok()
		if t.kind == kQuoted {
			p.unexpected("the name of a character set without quotes")
		}
		p.ident("character set")
		f.Args = append(f.Args, &ast.Symbol{Span: t.span(), Word: t.text})
		return
	}
	p.moreArgs(f)
}

// clauses returns the JSON clauses of a call, made at first use.
func clauses(f *ast.FuncCall) *ast.JSONClauses {
	if f.JSON == nil {
		f.JSON = &ast.JSONClauses{}
	}
	return f.JSON
}

// jsonValueArg parses a value with an optional FORMAT JSON.
func (p *parser) jsonValueArg(f *ast.FuncCall) {
	f.Args = append(f.Args, p.expression())
	if p.accept("FORMAT", "JSON") {
		c := clauses(f)
		c.FormatJSON = append(c.FormatJSON, len(f.Args)-1)
		p.acceptEncoding()
	}
}

func (p *parser) acceptEncoding() {
	if p.accept("ENCODING") {
		p.expectAny("UTF8", "UTF16", "UTF32")
	}
}

func (p *parser) jsonPathArgs(f *ast.FuncCall) {
	p.jsonValueArg(f)
	p.expectOp(",")
	f.Args = append(f.Args, p.expression())
	start := p.start()
	if p.at("PASSING") {
		p.advance()
		c := clauses(f)
		p.list(func() {
			s := p.start()
			x := p.expression()
			p.expect("AS")
			name := p.ident("name")
			c.Passing = append(c.Passing, &ast.SelectItem{Span: p.span(s), Expr: x, Alias: &name})
		})
	}
	if p.accept("RETURNING") {
		clauses(f).Returning = p.typeName()
		if p.accept("FORMAT", "JSON") {
			p.acceptEncoding()
		}
	}
	p.jsonWrapper(f)
	for p.jsonBehavior(f) {
	}
	if f.JSON != nil {
		f.JSON.Span = p.span(start)
	}
}

func (p *parser) jsonWrapper(f *ast.FuncCall) {
	switch {
	case p.accept("WITHOUT"):
		clauses(f).Wrapper = "WITHOUT"
	case p.accept("WITH"):
		c := clauses(f)
		if c.Wrapper = p.acceptAny("CONDITIONAL", "UNCONDITIONAL"); c.Wrapper == "" {
			c.Wrapper = "UNCONDITIONAL"
		}
	default:
		return
	}
	p.accept("ARRAY")
	p.expect("WRAPPER")
}

// jsonBehavior parses `what ON EMPTY|ERROR`; false if none comes.
func (p *parser) jsonBehavior(f *ast.FuncCall) bool {
	b := &ast.JSONBehavior{}
	start := p.start()
	switch {
	case p.accept("EMPTY", "ARRAY"):
		b.Kind = "EMPTY ARRAY"
	case p.accept("EMPTY", "OBJECT"):
		b.Kind = "EMPTY OBJECT"
	case p.accept("EMPTY"):
		b.Kind = "EMPTY ARRAY"
	case p.accept("DEFAULT"):
		b.Kind = "DEFAULT"
		b.Default = p.expression()
	default:
		if b.Kind = p.acceptAny("NULL", "ERROR", "TRUE", "FALSE", "UNKNOWN"); b.Kind == "" {
			return false
		}
	}
	p.expect("ON")
	on := p.expectAny("EMPTY", "ERROR")
	b.Span = p.span(start)
	c := clauses(f)
	target := &c.OnEmpty
	if on == "ERROR" {
		target = &c.OnError
	}
	if *target != nil {
		p.failAt(b.Span, "keep one of them", "ON %s is given twice", on)
	}
	*target = b
	return true
}

// jsonNulls parses NULL|ABSENT ON NULL.
func (p *parser) jsonNulls(f *ast.FuncCall) bool {
	if !p.at("NULL", "ON", "NULL") && !p.at("ABSENT", "ON", "NULL") {
		return false
	}
	start := p.start()
	c := clauses(f)
	c.OnNull = p.advance().text
	p.expect("ON", "NULL")
	c.Span = p.span(start)
	return true
}

func (p *parser) jsonObjectArgs(f *ast.FuncCall) {
	if p.atOp(")") || p.jsonNulls(f) {
		return
	}
	p.list(func() {
		if next := p.ahead(1); p.at("KEY") && (next.kind == kString || next.kind == kNumber || next.kind == kQuoted ||
			next.kind == kWord && next.text != "VALUE" || isOp(next, "(")) {
			p.advance()
		}
		f.Args = append(f.Args, p.expression())
		if !p.acceptOp(":") {
			p.expect("VALUE")
		}
		p.jsonValueArg(f)
	})
	p.jsonNulls(f)
}

func (p *parser) jsonArrayArgs(f *ast.FuncCall) {
	if p.atOp(")") || p.jsonNulls(f) {
		return
	}
	if p.atQueryParens() && p.atQuery(0) {
		q := p.query()
		f.Args = []ast.Expr{&ast.Subquery{Span: q.Span, Query: q}}
	} else {
		if p.accept("DISTINCT") {
			f.Distinct = true
		}
		p.list(func() { p.jsonValueArg(f) })
	}
	if p.at("ORDER", "BY") {
		f.OrderBy = p.orderBy()
	}
	p.jsonNulls(f)
}
