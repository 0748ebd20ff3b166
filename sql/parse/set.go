package parse

import (
	"strings"

	"github.com/tidemark-stream/tidemark/sql/ast"
)

// set parses SET, SET 'key' = 'value', and the form of Flink's SQL client
// without quotes: SET key = value. There the key and the value are read as text,
// since neither needs to be made of tokens: a value ends at a blank or a
// semicolon.
func (p *parser) set(start int) ast.Statement {
	p.advance()
	s := &ast.Set{}
	if p.atEnd() {
		s.Span = p.span(start)
		return s
	}
	s.Key, s.KeySpan = p.settingText("option key", "=")
	if p.err == nil && s.Key == "" {
		p.failAt(s.KeySpan, "write SET 'key' = 'value'", "option key is empty")
	}
	p.expectOp("=")
	s.Value, s.ValueSpan = p.settingText("option value", "")
	s.Span = p.span(start)
	return s
}

func (p *parser) reset(start int) ast.Statement {
	p.advance()
	r := &ast.Reset{}
	if !p.atEnd() {
		r.Key, r.KeySpan = p.settingText("option key", "")
	}
	r.Span = p.span(start)
	return r
}

func (p *parser) atEnd() bool { return p.tok().kind == kEOF || p.atOp(";") }

// settingText parses a string, or raw text up to a blank, a semicolon or one of
// the stop characters.
func (p *parser) settingText(what, stop string) (string, ast.Span) {
	t := p.tok()
	if t.kind == kString && t.form == plainString {
		s := p.stringLit(what)
		return s.Value, s.Span
	}
	// A comment that is no token here, as in s3://bucket, belongs to the text:
	// it begins where the blanks behind the last token end.
	start := p.last
	for start < len(p.src) && p.src[start] <= ' ' {
		start++
	}
	if strings.HasPrefix(p.src[start:], "--") || strings.HasPrefix(p.src[start:], "/*") {
		start = t.start
	}
	end := start
	for end < len(p.src) && p.src[end] > ' ' && strings.IndexByte(";'"+stop, p.src[end]) < 0 {
		end++
	}
	if end == start {
		p.unexpected(what + " in single quotes")
		return "", t.span()
	}
	// The tokens are cut again from here, since the text may have held what
	// looked like a comment.
	p.toks = append(p.toks[:p.i:p.i], lex(p.src, end)...)
	p.last, p.runStart, p.runEnd = end, 0, 0
	return p.src[start:end], ast.Span{Start: start, End: end}
}
