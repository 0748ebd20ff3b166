package parse

import (
	"math"
	"strings"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

const (
	// depthMax bounds nesting. Hand-written SQL stays below 50; a level costs
	// the parser some ten stack frames.
	depthMax = 1000
	// chainMax bounds how many operators, joins or set operations follow each
	// other, since they build a tree as deep as the chain is long.
	chainMax = 20000
)

// parser holds the tokens of one text and the place reached.
//
// Invariant: once err is set, i is at the last token, which is kEOF, and stays
// there; so every loop that wants another token ends. Functions return
// non-nil nodes all the same, so that callers need not look at err.
type parser struct {
	src   string
	toks  []token
	i     int
	last  int // end of the token consumed last
	depth int
	err   *sqlerr.Error
	// Tokens runStart to runEnd, which is not among them, are all "(".
	runStart, runEnd int
}

func newParser(src string) *parser { return &parser{src: src, toks: lex(src, 0)} }

// failure returns the error kept, as an error.
func (p *parser) failure() error {
	if p.err == nil {
		return nil
	}
	return p.err
}

// fail keeps the first error and jumps to the end of input.
func (p *parser) fail(err *sqlerr.Error) {
	if p.err == nil {
		p.err = err
		end := len(p.src)
		p.toks = []token{{kind: kEOF, start: end, end: end}}
		p.i = 0
		p.runStart, p.runEnd = 0, 0
	}
}

// failAt is fail with a formatted message.
func (p *parser) failAt(span ast.Span, hint, format string, args ...any) {
	err := sqlerr.New(span, format, args...)
	err.Hint = hint
	p.fail(err)
}

func (p *parser) tok() *token { return &p.toks[p.i] }

// ahead returns the token n after the current one, or the last one.
func (p *parser) ahead(n int) *token { return &p.toks[min(p.i+n, len(p.toks)-1)] }

func (p *parser) advance() *token {
	t := &p.toks[p.i]
	if t.kind == kBad {
		p.fail(t.err)
		return p.tok()
	}
	p.last = t.end
	if p.i < len(p.toks)-1 {
		p.i++
	}
	return t
}

// span returns the text from start to the end of the last token consumed.
func (p *parser) span(start int) ast.Span { return ast.Span{Start: start, End: max(p.last, start)} }

// start returns the offset of the current token.
func (p *parser) start() int { return p.toks[p.i].start }

func isWord(t *token, word string) bool { return t.kind == kWord && t.text == word }
func isOp(t *token, op string) bool     { return t.kind == kOp && t.text == op }

// at reports whether the next tokens are these words.
func (p *parser) at(words ...string) bool {
	for n, w := range words {
		if !isWord(p.ahead(n), w) {
			return false
		}
	}
	return true
}

// atAny reports whether the next token is one of these words.
func (p *parser) atAny(words ...string) bool {
	for _, w := range words {
		if isWord(p.tok(), w) {
			return true
		}
	}
	return false
}

func (p *parser) atOp(op string) bool { return isOp(p.tok(), op) }

// accept consumes these words if they come next, all or none.
func (p *parser) accept(words ...string) bool {
	if !p.at(words...) {
		return false
	}
	for range words {
		p.advance()
	}
	return true
}

// acceptAny consumes and returns the next word if it is one of these.
func (p *parser) acceptAny(words ...string) string {
	for _, w := range words {
		if p.accept(w) {
			return w
		}
	}
	return ""
}

func (p *parser) acceptOp(op string) bool {
	if !p.atOp(op) {
		return false
	}
	p.advance()
	return true
}

// expect consumes these words or fails.
func (p *parser) expect(words ...string) {
	for _, w := range words {
		if !p.accept(w) {
			p.unexpected(w)
			return
		}
	}
}

// expectAny consumes and returns one of these words or fails.
func (p *parser) expectAny(words ...string) string {
	w := p.acceptAny(words...)
	if w == "" {
		p.unexpected(orList(words))
	}
	return w
}

func (p *parser) expectOp(op string) {
	if !p.acceptOp(op) {
		p.unexpected(quote(op))
	}
}

// closeParen consumes the ) that belongs to the ( at open.
func (p *parser) closeParen(open int) {
	if p.acceptOp(")") {
		return
	}
	t := p.tok()
	if t.kind == kEOF || isOp(t, ";") {
		p.failAt(ast.Span{Start: open, End: open + 1}, "add the missing )", "parenthesis is not closed")
		return
	}
	if p.unexpected("',' or ')'"); clauseWords[t.text] && t.kind == kWord {
		p.err.Hint = "close the parenthesis of " + sqlerr.PositionAt(p.src, open).String()
	}
}

// enter counts a level of nesting; the caller must call leave.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > depthMax {
		p.failAt(p.tok().span(), "split the statement with views or WITH",
			"statement is nested more than %d levels deep", depthMax)
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// chain checks the length of a chain of operators.
func (p *parser) chain(n int) bool {
	if n <= chainMax {
		return true
	}
	p.failAt(p.tok().span(), "use IN (...) or split the statement with views",
		"more than %d operators follow each other", chainMax)
	return false
}

// ident consumes an identifier; what says what it names in an error.
func (p *parser) ident(what string) ast.Ident {
	t := p.tok()
	switch {
	case t.kind == kQuoted:
		p.advance()
		return ast.Ident{Span: t.span(), Name: t.text, Quoted: true}
	case t.kind == kWord && !ast.IsReservedUpper(t.text):
		p.advance()
		return ast.Ident{Span: t.span(), Name: p.src[t.start:t.end]}
	}
	p.unexpectedIdent(what)
	return ast.Ident{Span: t.span()}
}

// atIdent reports whether an identifier comes next.
func (p *parser) atIdent() bool { return isIdent(p.tok()) }

func isIdent(t *token) bool {
	return t.kind == kQuoted || t.kind == kWord && !ast.IsReservedUpper(t.text)
}

// name consumes identifiers joined by dots.
func (p *parser) name(what string) *ast.Name {
	start := p.start()
	n := &ast.Name{Parts: []ast.Ident{p.ident(what)}}
	for p.acceptOp(".") {
		n.Parts = append(n.Parts, p.ident(what))
	}
	n.Span = p.span(start)
	return n
}

// identList consumes ( a, b, ... ).
func (p *parser) identList(what string) []ast.Ident {
	var list []ast.Ident
	p.parens(func() { list = append(list, p.ident(what)) })
	return list
}

// parens consumes ( item, item, ... ), at least one item.
func (p *parser) parens(item func()) {
	open := p.start()
	p.expectOp("(")
	p.list(item)
	p.closeParen(open)
}

// list consumes item, item, ... with a hint for a comma too many.
func (p *parser) list(item func()) {
	for {
		item()
		comma := p.start()
		if !p.acceptOp(",") {
			return
		}
		if p.atOp(")") || p.atOp(",") {
			p.failAt(ast.Span{Start: comma, End: comma + 1}, "remove it", "comma without an item after it")
			return
		}
	}
}

// stringLit consumes a string literal.
func (p *parser) stringLit(what string) *ast.StringLit {
	t := p.tok()
	if t.kind == kString && t.form != binaryString {
		if s, ok := p.stringValue().(*ast.StringLit); ok {
			return s
		}
	}
	if t.kind == kWord || t.kind == kQuoted || t.kind == kNumber {
		p.failAt(t.span(), "write it in single quotes: '"+p.src[t.start:t.end]+"'",
			"unexpected %s, expected %s in single quotes", p.found(), what)
	} else {
		p.unexpected(what + " in single quotes")
	}
	return &ast.StringLit{Span: t.span()}
}

// number consumes an unsigned integer.
func (p *parser) number(what string) int {
	t := p.tok()
	if t.kind != kNumber {
		p.unexpected(what)
		return 0
	}
	n := 0
	for _, c := range []byte(t.text) {
		if !isDigit(c) || n > (math.MaxInt32-int(c-'0'))/10 {
			p.failAt(t.span(), "", "%s must be a whole number below 2^31", what)
			return 0
		}
		n = n*10 + int(c-'0')
	}
	p.advance()
	return n
}

// atQuery reports whether the token n ahead starts a query without parenthesis.
func (p *parser) atQuery(n int) bool {
	t := p.ahead(n)
	if t.kind != kWord {
		return false
	}
	switch t.text {
	case "SELECT", "WITH", "VALUES":
		return true
	case "TABLE":
		return isIdent(p.ahead(n + 1))
	}
	return false
}

// atQueryParens is atQuery behind any number of opening parentheses.
func (p *parser) atQueryParens() bool { return p.queryInside(0) }

// queryInside is atQueryParens from n tokens ahead. The end of the run of
// parentheses is remembered, so that each of them may ask again at no cost.
func (p *parser) queryInside(n int) bool {
	i := p.i + n
	if i < p.runStart || i >= p.runEnd {
		p.runStart, p.runEnd = i, i
		for p.runEnd < len(p.toks) && isOp(&p.toks[p.runEnd], "(") {
			p.runEnd++
		}
	}
	return p.atQuery(p.runEnd - p.i)
}

func quote(op string) string { return "'" + op + "'" }

func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " or " + words[n]
}
