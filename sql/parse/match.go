package parse

import (
	"strings"

	"github.com/tidemark-stream/tidemark/sql/ast"
)

// matchRecognize wraps input when MATCH_RECOGNIZE (...) follows it.
func (p *parser) matchRecognize(input ast.TableExpr, start int) ast.TableExpr {
	if !p.accept("MATCH_RECOGNIZE") {
		return input
	}
	m := &ast.MatchRecognize{Input: input}
	open := p.start()
	p.expectOp("(")
	if p.accept("PARTITION") {
		p.expect("BY")
		m.PartitionBy = p.exprList()
	}
	if p.at("ORDER") {
		m.OrderBy = p.orderBy()
	}
	if p.accept("MEASURES") {
		p.list(func() { m.Measures = append(m.Measures, p.measure()) })
	}
	switch {
	case p.accept("ONE"):
		p.expect("ROW", "PER", "MATCH")
	case p.accept("ALL"):
		p.expect("ROWS", "PER", "MATCH")
		m.AllRows = true
	}
	if p.at("AFTER") {
		m.After = p.afterMatch()
	}
	p.matchPattern(m)
	if p.accept("WITHIN") {
		m.Within = p.expression()
	}
	if p.accept("SUBSET") {
		p.list(func() {
			s := p.start()
			sub := &ast.Subset{Name: p.ident("name of the subset")}
			p.expectOp("=")
			sub.Vars = p.identList("pattern variable")
			sub.Span = p.span(s)
			m.Subsets = append(m.Subsets, sub)
		})
	}
	p.expect("DEFINE")
	p.list(func() {
		s := p.start()
		d := &ast.PatternDef{Var: p.ident("pattern variable")}
		p.expect("AS")
		d.Cond = p.expression()
		d.Span = p.span(s)
		m.Define = append(m.Define, d)
	})
	p.closeParen(open)
	m.Alias = p.tableAlias()
	m.Span = p.span(start)
	return m
}

func (p *parser) measure() *ast.SelectItem {
	start := p.start()
	m := &ast.SelectItem{Expr: p.expression()}
	p.expect("AS")
	a := p.ident("alias")
	m.Alias = &a
	m.Span = p.span(start)
	return m
}

func (p *parser) afterMatch() *ast.AfterMatch {
	start := p.start()
	p.expect("AFTER", "MATCH", "SKIP")
	a := &ast.AfterMatch{}
	switch {
	case p.accept("PAST"):
		p.expect("LAST", "ROW")
	default:
		p.expect("TO")
		switch {
		case p.accept("NEXT", "ROW"):
			a.Skip = ast.SkipToNextRow
		case p.at("FIRST") && isIdent(p.ahead(1)):
			p.advance()
			a.Skip = ast.SkipToFirst
		default:
			if p.at("LAST") && isIdent(p.ahead(1)) {
				p.advance()
			}
			a.Skip = ast.SkipToLast
		}
		if a.Skip != ast.SkipToNextRow {
			v := p.ident("pattern variable")
			a.Var = &v
		}
	}
	a.Span = p.span(start)
	return a
}

func (p *parser) matchPattern(m *ast.MatchRecognize) {
	p.expect("PATTERN")
	open := p.start()
	p.expectOp("(")
	m.StrictStart = p.acceptOp("^")
	m.Pattern = p.patternAlt()
	if p.tok().kind == kWord && p.tok().text == "$" {
		p.advance()
		m.StrictEnd = true
	}
	p.closeParen(open)
}

func (p *parser) patternAlt() ast.Pattern {
	if !p.enter() {
		return &ast.PatternSeq{}
	}
	defer p.leave()
	start := p.start()
	parts := []ast.Pattern{p.patternSeq()}
	for p.acceptOp("|") {
		parts = append(parts, p.patternSeq())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &ast.PatternAlt{Span: p.span(start), Parts: parts}
}

func (p *parser) patternSeq() ast.Pattern {
	start := p.start()
	var parts []ast.Pattern
	for p.atIdent() && p.tok().text != "$" || p.atOp("(") || p.atOp("{-") || p.at("PERMUTE") {
		parts = append(parts, p.patternFactor())
	}
	switch len(parts) {
	case 0:
		p.unexpected("a pattern variable")
	case 1:
		return parts[0]
	}
	return &ast.PatternSeq{Span: p.span(start), Parts: parts}
}

func (p *parser) patternFactor() ast.Pattern {
	start := p.start()
	x := p.patternPrimary()
	r := &ast.PatternRepeat{X: x, Min: 1, Max: 1}
	switch {
	case p.acceptOp("*"):
		r.Min, r.Max = 0, -1
	case p.acceptOp("+"):
		r.Max = -1
	case p.acceptOp("?"):
		r.Min = 0
	case p.atOp("{"):
		p.repetition(r)
	default:
		return x
	}
	r.Reluctant = p.acceptOp("?")
	r.Span = p.span(start)
	return r
}

// repetition parses {n}, {n,}, {n,m} or {,m}.
func (p *parser) repetition(r *ast.PatternRepeat) {
	start := p.start()
	p.expectOp("{")
	r.Min = 0
	if p.tok().kind == kNumber && !strings.HasPrefix(p.tok().text, ",") {
		r.Min = p.number("number of repetitions")
	}
	r.Max = r.Min
	if p.acceptOp(",") {
		r.Max = -1
		if p.tok().kind == kNumber {
			r.Max = p.number("number of repetitions")
		}
	}
	p.expectOp("}")
	if r.Max >= 0 && r.Max < r.Min {
		p.failAt(p.span(start), "write the smaller number first", "quantifier has its bounds in the wrong order")
	}
}

func (p *parser) patternPrimary() ast.Pattern {
	start := p.start()
	switch {
	case p.atOp("("):
		p.advance()
		if p.acceptOp(")") {
			return &ast.PatternSeq{Span: p.span(start)}
		}
		x := p.patternAlt()
		p.closeParen(start)
		return x
	case p.acceptOp("{-"):
		x := p.patternAlt()
		p.expectOp("-}")
		return &ast.PatternExclude{Span: p.span(start), X: x}
	case p.accept("PERMUTE"):
		var parts []ast.Pattern
		p.parens(func() { parts = append(parts, p.patternAlt()) })
		return &ast.PatternPermute{Span: p.span(start), Parts: parts}
	}
	v := p.ident("pattern variable")
	return &ast.PatternVar{Span: v.Span, Var: v}
}
