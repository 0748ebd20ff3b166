package parse

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// kind is the class of a token.
type kind uint8

const (
	kEOF    kind = iota
	kWord        // an unquoted word: keyword or identifier; text is in upper case
	kQuoted      // an identifier in backticks; text is unescaped
	kNumber      // text as written
	kString      // text is the value; see token.form
	kOp          // an operator or punctuation
	kHint        // the opening of a hint comment
	kBad         // what no token can be; err says why
)

// stringForm is how a string literal was introduced.
type stringForm uint8

const (
	plainString   stringForm = iota
	charsetString            // _UTF8'...' or N'...'; charset is set
	unicodeString            // U&'...', escapes not resolved yet
	binaryString             // x'...', digits not decoded yet
)

// token is one lexical element with its byte offsets.
type token struct {
	kind       kind
	form       stringForm
	start, end int
	text       string
	charset    string
	err        *sqlerr.Error
}

func (t *token) span() ast.Span { return ast.Span{Start: t.start, End: t.end} }

// lexer cuts src into tokens; it never fails: what can't be read becomes a kBad
// token, so that text which the parser skips or reads raw may hold anything.
type lexer struct {
	src string
	pos int
}

// lex returns the tokens of src from offset on; the last one is kEOF.
func lex(src string, offset int) []token {
	l := lexer{src, offset}
	toks := make([]token, 0, (len(src)-offset)/5+8)
	for {
		t := l.next()
		toks = append(toks, t)
		if t.kind == kEOF {
			return toks
		}
	}
}

func (l *lexer) next() token {
	if bad := l.skipBlank(); bad != nil {
		return *bad
	}
	start := l.pos
	if start >= len(l.src) {
		return token{kind: kEOF, start: len(l.src), end: len(l.src)}
	}
	switch c := l.src[start]; {
	case c == '\'':
		return l.quotedString(start, plainString, "")
	case c == '`':
		return l.quotedIdent(start)
	case c == '"':
		return l.doubleQuoted(start)
	case isDigit(c) || c == '.' && start+1 < len(l.src) && isDigit(l.src[start+1]):
		return l.number(start)
	case isWordByte(c) || c >= utf8.RuneSelf:
		return l.word(start)
	default:
		return l.operator(start)
	}
}

// skipBlank skips white space and comments. A hint opening is not a comment. It
// returns a kBad token for a comment without an end.
func (l *lexer) skipBlank() *token {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case rest[0] <= ' ':
			l.pos++
		case strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "//"):
			l.pos = len(l.src)
			if i := strings.IndexAny(rest, "\r\n"); i >= 0 {
				l.pos = len(l.src) - len(rest) + i + 1
			}
		case strings.HasPrefix(rest, "/*") && !strings.HasPrefix(rest, "/*+"):
			i := strings.Index(rest[2:], "*/")
			if i < 0 {
				t := l.bad(l.pos, len(l.src), "comment is not closed", "end it with */")
				t.err.Pos.End = t.start + 2
				return &t
			}
			l.pos += i + 4
		case rest[0] >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(rest)
			if !unicode.IsSpace(r) && r != '\ufeff' {
				return nil
			}
			l.pos += n
		default:
			return nil
		}
	}
	return nil
}

// bad makes a token that reports an error when the parser comes to it. The
// lexer goes on at end.
func (l *lexer) bad(start, end int, msg, hint string) token {
	l.pos = end
	err := sqlerr.New(ast.Span{Start: start, End: end}, "%s", msg)
	err.Hint = hint
	return token{kind: kBad, start: start, end: end, err: err}
}

// quotedString reads a string whose first quote is at l.pos.
func (l *lexer) quotedString(start int, form stringForm, charset string) token {
	text, end, ok := l.delimited('\'')
	if !ok {
		// The rest of the line is what the reader sees as the string.
		t := l.bad(start, len(l.src), "string is not closed", "end it with '; a quote inside is written ''")
		if i := strings.IndexByte(l.src[start:], '\n'); i > 0 {
			t.err.Pos.End = start + i
		}
		return t
	}
	l.pos = end
	return token{kind: kString, form: form, start: start, end: end, text: text, charset: charset}
}

// delimited reads from the quote at l.pos to its match; a doubled quote stands
// for one.
func (l *lexer) delimited(quote byte) (text string, end int, ok bool) {
	from := l.pos + 1
	escaped := false
	for i := from; i < len(l.src); i++ {
		if l.src[i] != quote {
			continue
		}
		if i+1 < len(l.src) && l.src[i+1] == quote {
			escaped = true
			i++
			continue
		}
		text = l.src[from:i]
		if escaped {
			q := string(quote)
			text = strings.ReplaceAll(text, q+q, q)
		}
		return text, i + 1, true
	}
	return "", 0, false
}

func (l *lexer) quotedIdent(start int) token {
	text, end, ok := l.delimited('`')
	if nl := strings.IndexAny(l.src[start:], "\r\n"); !ok || nl >= 0 && start+nl < end {
		stop := len(l.src)
		if nl >= 0 {
			stop = start + nl
		}
		return l.bad(start, stop, "quoted identifier is not closed", "end it with ` on the same line")
	}
	if text == "" {
		return l.bad(start, end, "quoted identifier is empty", "write a name between the backticks")
	}
	l.pos = end
	return token{kind: kQuoted, start: start, end: end, text: text}
}

func (l *lexer) doubleQuoted(start int) token {
	_, end, ok := l.delimited('"')
	if !ok {
		end = start + 1
	}
	return l.bad(start, end, "double quotes are not used in SQL here",
		"write strings in 'single quotes', identifiers in `backticks`")
}

func (l *lexer) number(start int) token {
	i := start
	digits := func() {
		for i < len(l.src) && isDigit(l.src[i]) {
			i++
		}
	}
	digits()
	if i < len(l.src) && l.src[i] == '.' {
		i++
		digits()
	}
	if i < len(l.src) && l.src[i]|0x20 == 'e' {
		j := i + 1
		if j < len(l.src) && (l.src[j] == '+' || l.src[j] == '-') {
			j++
		}
		if j < len(l.src) && isDigit(l.src[j]) {
			i = j
			digits()
		}
	}
	l.pos = i
	return token{kind: kNumber, start: start, end: i, text: l.src[start:i]}
}

func (l *lexer) word(start int) token {
	n := wordLen(l.src[start:])
	if n == 0 {
		_, size := utf8.DecodeRuneInString(l.src[start:])
		return l.bad(start, start+size, "unexpected character", "")
	}
	l.pos = start + n
	text := l.src[start:l.pos]
	if l.pos < len(l.src) && l.src[l.pos] == '\'' {
		switch {
		case text == "x" || text == "X":
			return l.quotedString(start, binaryString, "")
		case text == "n" || text == "N":
			return l.quotedString(start, charsetString, "N")
		case text[0] == '_' && n > 1:
			return l.quotedString(start, charsetString, text[1:])
		}
	}
	if (text == "u" || text == "U") && strings.HasPrefix(l.src[l.pos:], "&'") {
		l.pos++
		return l.quotedString(start, unicodeString, "")
	}
	return token{kind: kWord, start: start, end: l.pos, text: strings.ToUpper(text)}
}

// operators of two characters; all others have one.
var operators2 = []string{"<>", "<=", ">=", "!=", "||", "=>", "*/", "{-", "-}"}

func (l *lexer) operator(start int) token {
	rest := l.src[start:]
	if strings.HasPrefix(rest, "/*+") {
		l.pos += 3
		return token{kind: kHint, start: start, end: l.pos, text: "/*+"}
	}
	for _, op := range operators2 {
		if strings.HasPrefix(rest, op) {
			l.pos += len(op)
			return token{kind: kOp, start: start, end: l.pos, text: op}
		}
	}
	if strings.IndexByte("()[]{}<>=,;.:*+-/%?|^", rest[0]) < 0 {
		return l.bad(start, start+1, "unexpected character "+rest[:1], "")
	}
	l.pos++
	return token{kind: kOp, start: start, end: l.pos, text: rest[:1]}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$'
}

// wordLen returns the length of the word that s starts with, 0 if none does.
func wordLen(s string) int {
	i := 0
	for i < len(s) {
		c := s[i]
		if isWordByte(c) || i > 0 && isDigit(c) {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			break
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r) && !unicode.IsMark(r)) {
			break
		}
		i += n
	}
	return i
}
