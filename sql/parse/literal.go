package parse

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/sql/ast"
)

func (p *parser) numberLit() ast.Expr {
	t := p.advance()
	k := ast.Integer
	switch {
	case strings.ContainsAny(t.text, "eE"):
		k = ast.Approximate
	case strings.Contains(t.text, "."):
		k = ast.Decimal
	}
	return &ast.NumberLit{Span: t.span(), Text: t.text, Kind: k}
}

// stringValue parses a string or binary literal with its continuations: string
// literals on the following lines are joined to it.
func (p *parser) stringValue() ast.Expr {
	first := p.advance()
	text := first.text
	for p.tok().kind == kString && p.tok().form == plainString {
		t := p.tok()
		if !strings.ContainsAny(p.src[p.last:t.start], "\r\n") {
			p.failAt(t.span(), "put a comma or || between them; a quote inside a string is written ''",
				"two strings follow each other")
			break
		}
		text += t.text
		p.advance()
	}
	span := p.span(first.start)
	switch first.form {
	case binaryString:
		b, err := hex.DecodeString(text)
		if err != nil {
			p.failAt(span, "write an even number of digits 0-9, A-F", "binary literal is not hexadecimal")
		}
		return &ast.BinaryLit{Span: span, Value: b}
	case unicodeString:
		escape := byte('\\')
		if p.accept("UESCAPE") {
			e := p.tok()
			if e.kind != kString || len(e.text) != 1 || strings.Contains("+'\" 0123456789abcdefABCDEF", e.text) {
				p.failAt(e.span(), "write UESCAPE '!'", "UESCAPE needs one character that is no digit, quote, blank or +")
				break
			}
			p.advance()
			escape = e.text[0]
		}
		text = p.unescape(text, escape, span)
		return &ast.StringLit{Span: p.span(first.start), Value: text, Unicode: true}
	}
	return &ast.StringLit{Span: span, Value: text, Charset: first.charset}
}

// unescape resolves the escapes of a U&'...' string: \XXXX, and \\ for itself.
// Pairs of surrogates make one character.
func (p *parser) unescape(s string, escape byte, span ast.Span) string {
	var b strings.Builder
	high := rune(-1)
	for i := 0; i < len(s); i++ {
		if s[i] != escape {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == escape {
			b.WriteByte(escape)
			i++
			continue
		}
		code, ok := uint64(0), i+5 <= len(s)
		if ok {
			var err error
			code, err = strconv.ParseUint(s[i+1:i+5], 16, 32)
			ok = err == nil
		}
		if !ok {
			p.failAt(span, "write four hexadecimal digits behind it, or double it",
				"incomplete escape in a Unicode string")
			return ""
		}
		i += 4
		r := rune(code)
		switch {
		case r >= 0xd800 && r < 0xdc00:
			high = r
			continue
		case r >= 0xdc00 && r < 0xe000 && high >= 0:
			r = 0x10000 + (high-0xd800)<<10 + (r - 0xdc00)
		}
		high = -1
		b.WriteString(string(r))
	}
	if !utf8.ValidString(b.String()) {
		return strings.ToValidUTF8(b.String(), "\ufffd")
	}
	return b.String()
}

// temporalOrCall parses DATE '...', TIME '...', TIMESTAMP '...', or the
// functions of these names; nil if it is none.
func (p *parser) temporalOrCall(t *token) ast.Expr {
	k := ast.DateLit
	switch t.text {
	case "TIME":
		k = ast.TimeLit
	case "TIMESTAMP":
		k = ast.TimestampLit
	}
	switch next := p.ahead(1); {
	case next.kind == kString && next.form != binaryString:
		p.advance()
	case t.text == "TIMESTAMP" && isWord(next, "WITH"):
		p.advance()
		p.expect("WITH", "LOCAL", "TIME", "ZONE")
		k = ast.TimestampLTZLit
	case isOp(next, "("):
		p.advance()
		return p.call(&ast.Name{Span: t.span(), Parts: []ast.Ident{p.wordIdent(t)}}, t.start)
	default:
		return nil
	}
	s := p.stringLit("a date or time")
	return &ast.TemporalLit{Span: p.span(t.start), Kind: k, Value: s.Value, ValueSpan: s.Span}
}

// interval parses INTERVAL [sign] '...' qualifier, or INTERVAL x qualifier.
func (p *parser) interval() ast.Expr {
	start := p.advance().start
	negative := false
	sign := p.start()
	if p.acceptOp("-") {
		negative = true
	} else {
		p.acceptOp("+")
	}
	if p.tok().kind == kString {
		s := p.stringLit("the length of the interval")
		q := p.qualifier()
		return &ast.IntervalLit{Span: p.span(start), Negative: negative, Value: s.Value, ValueSpan: s.Span, Qualifier: q}
	}
	valueStart := p.start()
	if p.tok().kind != kNumber && !p.atOp("(") && !p.atIdent() {
		p.unexpected("the length of the interval in single quotes, such as INTERVAL '5' MINUTE")
	}
	var x ast.Expr
	if p.atOp("(") {
		x = p.plainParen() // the unit behind it is the interval's
	} else {
		x = p.primary()
	}
	x = p.postfix(x, valueStart)
	if negative {
		x = &ast.Unary{Span: p.span(sign), Op: "-", X: x}
	}
	q := p.qualifier()
	return &ast.IntervalExpr{Span: p.span(start), Value: x, Qualifier: q}
}

// units maps the spellings of time units to their normal form.
var units = func() map[string]ast.TimeUnit {
	m := map[string]ast.TimeUnit{}
	for _, u := range []string{
		"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND",
		"MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH", "DOW", "ISODOW", "DOY", "ISOYEAR",
		"DECADE", "CENTURY", "MILLENNIUM",
	} {
		m[u] = ast.TimeUnit(u)
	}
	for _, u := range []string{"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"} {
		m[u+"S"] = ast.TimeUnit(u)
		m["SQL_TSI_"+u] = ast.TimeUnit(u)
	}
	for _, u := range []string{"MICROSECOND", "MILLISECOND", "NANOSECOND"} {
		m[u+"S"] = ast.TimeUnit(u)
		m["SQL_TSI_"+u] = ast.TimeUnit(u)
	}
	m["FRAC_SECOND"] = "MICROSECOND"
	m["SQL_TSI_FRAC_SECOND"] = "NANOSECOND"
	return m
}()

// unit consumes a time unit.
func (p *parser) unit() ast.TimeUnit {
	t := p.tok()
	if t.kind == kWord {
		if u, ok := units[t.text]; ok {
			p.advance()
			return u
		}
	}
	p.unexpected("a time unit (YEAR, MONTH, DAY, HOUR, MINUTE, SECOND ...)")
	return "SECOND"
}

// qualifier parses unit[(p)] [TO unit[(p)]]; the second number of SECOND(p, s)
// is its fractional precision.
func (p *parser) qualifier() ast.IntervalQualifier {
	start := p.start()
	q := ast.IntervalQualifier{FromPrecision: -1, ToPrecision: -1}
	q.From = p.unit()
	if open := p.start(); p.acceptOp("(") {
		q.FromPrecision = p.number("the precision")
		if q.From == "SECOND" && p.acceptOp(",") {
			q.ToPrecision = p.number("the fractional precision")
		}
		p.closeParen(open)
	}
	if p.at("TO") && units[p.ahead(1).text] != "" {
		p.advance()
		q.To = p.unit()
		if open := p.start(); p.atOp("(") {
			if q.To != "SECOND" {
				p.unexpected("no precision behind " + string(q.To))
			}
			p.acceptOp("(")
			q.ToPrecision = p.number("the fractional precision")
			p.closeParen(open)
		}
	}
	q.Span = p.span(start)
	return q
}
