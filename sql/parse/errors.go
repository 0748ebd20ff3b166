package parse

import (
	"strings"
	"unicode"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// foundMax is how much of a long token a message shows.
const foundMax = 30

// found describes the current token for a message.
func (p *parser) found() string {
	t := p.tok()
	if t.kind == kEOF {
		return "end of input"
	}
	text := p.src[t.start:t.end]
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i] + "..."
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
	if r := []rune(text); len(r) > foundMax {
		text = string(r[:foundMax]) + "..."
	}
	switch {
	case t.kind == kWord && ast.IsReservedUpper(t.text):
		return "keyword " + t.text
	case t.kind == kString, t.kind == kQuoted:
		return text
	}
	return "'" + text + "'"
}

// unexpected fails at the current token: what was found, what was expected.
func (p *parser) unexpected(expected string) {
	t := p.tok()
	if t.kind == kBad {
		p.fail(t.err)
		return
	}
	err := sqlerr.New(t.span(), "unexpected %s, expected %s", p.found(), expected)
	err.Hint = p.slip(expected)
	p.fail(err)
}

// slip proposes a remedy for common mistakes at the current token.
func (p *parser) slip(expected string) string {
	t := p.tok()
	prev := &token{}
	if p.i > 0 {
		prev = &p.toks[p.i-1]
	}
	switch {
	case isOp(t, "=") && isOp(prev, "="):
		return "equality is written with a single ="
	case isOp(t, ":") && isOp(p.ahead(1), ":"):
		return "write CAST(x AS type) instead of x::type"
	case isOp(prev, ",") && t.kind == kWord && ast.IsReservedUpper(t.text) && clauseWords[t.text]:
		return "remove the comma before " + t.text
	case prev.kind == kString && prev.end == t.start:
		return "a quote inside a string is written ''"
	case strings.HasPrefix(expected, "',' or") && startsOperand(t):
		return "put a comma before it"
	case t.kind == kHint:
		return "hints stand after SELECT or after a table name"
	case t.kind == kWord && ast.IsReservedUpper(t.text) && isOp(prev, "."):
		return p.backticks()
	case t.kind == kWord && !ast.IsReservedUpper(t.text):
		return sqlerr.DidYouMean(t.text, expectedWords(expected))
	}
	return ""
}

// startsOperand reports whether an expression may begin with t.
func startsOperand(t *token) bool {
	switch t.kind {
	case kNumber, kString, kQuoted:
		return true
	case kWord:
		return !ast.IsReservedUpper(t.text) || reservedFunctions[t.text] ||
			wordIn(t.text, "INTERVAL", "DATE", "TIME", "TIMESTAMP", "CASE", "CAST", "NULL", "TRUE", "FALSE", "ARRAY", "ROW")
	}
	return false
}

// clauseWords start a clause that ends a list.
var clauseWords = map[string]bool{
	"FROM": true, "WHERE": true, "GROUP": true, "HAVING": true, "WINDOW": true, "ORDER": true,
	"LIMIT": true, "OFFSET": true, "UNION": true, "INTERSECT": true, "EXCEPT": true, "WITH": true,
	"END": true, "PATTERN": true, "DEFINE": true,
}

// expectedWords returns the keywords in a description of what was expected.
func expectedWords(expected string) []string {
	var words []string
	for _, w := range strings.FieldsFunc(expected, func(r rune) bool { return r == ' ' || r == ',' }) {
		if len(w) > 1 && w == strings.ToUpper(w) && w[0] != '\'' {
			words = append(words, w)
		}
	}
	return words
}

func (p *parser) backticks() string {
	t := p.tok()
	return "write `" + p.src[t.start:t.end] + "` in backticks to use it as a name"
}

// unexpectedIdent fails where an identifier was expected; a reserved word that
// may be meant as a name gets the advice to quote it.
func (p *parser) unexpectedIdent(what string) {
	t := p.tok()
	if t.kind == kWord && ast.IsReservedUpper(t.text) && !p.nameUnlikely() {
		p.failAt(t.span(), p.backticks(),
			"%s is a reserved keyword and can't be %s", t.text, article(what))
		return
	}
	if next := p.ahead(1); t.kind == kNumber && next.kind == kWord && next.start == t.end {
		p.failAt(ast.Span{Start: t.start, End: next.end}, "write `"+p.src[t.start:next.end]+"` in backticks",
			"%s can't start with a digit", what)
		return
	}
	p.unexpected(article(what))
}

// nameUnlikely reports whether the reserved word at hand is here as a keyword:
// it starts a clause after a comma or where something is missing.
func (p *parser) nameUnlikely() bool {
	t := p.tok()
	if !clauseWords[t.text] && t.text != "AS" && t.text != "SELECT" && t.text != "ON" {
		return false
	}
	if p.i > 0 && (isOp(&p.toks[p.i-1], ".") || isWord(&p.toks[p.i-1], "AS")) {
		return false
	}
	next := p.ahead(1)
	return !isOp(next, ",") && !isOp(next, ")") && !isOp(next, ".") && next.kind != kEOF
}

// misspelt fails at the previous token if that is an identifier and reads like
// one of the clauses that may stand there; true if it does. An alias is what a
// misspelt clause is taken for.
func (p *parser) misspelt(clauses ...string) bool {
	if p.i == 0 || p.toks[p.i-1].kind != kWord || !isIdent(&p.toks[p.i-1]) {
		return false
	}
	prev := &p.toks[p.i-1]
	near := sqlerr.Nearest(prev.text, clauses)
	if len(near) == 0 || len(prev.text) < 4 {
		return false
	}
	p.failAt(prev.span(), "did you mean "+near[0]+"?", "unexpected '%s'", p.src[prev.start:prev.end])
	return true
}

func article(what string) string {
	if strings.IndexByte("aeiou", what[0]) >= 0 {
		return "an " + what
	}
	return "a " + what
}
