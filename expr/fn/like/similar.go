package like

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// specials are the characters that an escape may stand before in SIMILAR TO.
const specials = "[]()|^-+*_%?{}"

// javaSpecials must be quoted to stand for themselves in a regular expression.
const javaSpecials = "[]()|^-+*?{}$\\."

// classes are the named character classes of SIMILAR TO and what they are in a regular expression.
var classes = []struct{ sql, regex string }{
	{"[:ALPHA:]", `\p{Alpha}`}, {"[:alpha:]", `\p{Alpha}`},
	{"[:UPPER:]", `\p{Upper}`}, {"[:upper:]", `\p{Upper}`},
	{"[:LOWER:]", `\p{Lower}`}, {"[:lower:]", `\p{Lower}`},
	{"[:DIGIT:]", `\d`}, {"[:digit:]", `\d`},
	{"[:SPACE:]", ` `}, {"[:space:]", ` `},
	{"[:WHITESPACE:]", `\s`}, {"[:whitespace:]", `\s`},
	{"[:ALNUM:]", `\p{Alnum}`}, {"[:alnum:]", `\p{Alnum}`},
}

// SimilarRegex translates a SIMILAR TO pattern to a Java regular expression that must match the
// whole text. Underscore and percent sign mean what they mean in LIKE; | * + ? {m,n} ( ) and [...]
// are those of regular expressions. Escape is 0 for none.
func SimilarRegex(pattern string, escape rune) (string, error) {
	var b strings.Builder
	depth := false // inside [ ]
	for i := 0; i < len(pattern); {
		r, w := utf8.DecodeRuneInString(pattern[i:])
		if escape != 0 && r == escape {
			next, nw := utf8.DecodeRuneInString(pattern[i+w:])
			if nw == 0 || next != escape && !strings.ContainsRune(specials, next) {
				return "", fmt.Errorf("invalid escape sequence in SIMILAR TO pattern '%s' at "+
					"character %d", pattern, utf8.RuneCountInString(pattern[:i])+1)
			}
			if strings.ContainsRune(javaSpecials, next) {
				b.WriteByte('\\')
			}
			b.WriteRune(next)
			i += w + nw
			continue
		}
		if depth {
			if c, ok := class(pattern[i:]); ok {
				b.WriteString(c.regex)
				i += len(c.sql)
				continue
			}
			if r == '[' {
				return "", fmt.Errorf("invalid character list in SIMILAR TO pattern '%s' at "+
					"character %d", pattern, utf8.RuneCountInString(pattern[:i])+1)
			}
		}
		switch {
		case r == '[':
			depth = true
			b.WriteByte('[')
		case r == ']':
			if !depth {
				return "", fmt.Errorf("SIMILAR TO pattern '%s' has a ']' without '['", pattern)
			}
			depth = false
			b.WriteByte(']')
		case depth:
			if r == '\\' || r == '&' {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		case r == '_':
			b.WriteByte('.')
		case r == '%':
			b.WriteString("(?s:.*)")
		case r == '\\' || r == '$':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteString(pattern[i : i+w])
		}
		i += w
	}
	if depth {
		return "", fmt.Errorf("SIMILAR TO pattern '%s' has a '[' without ']'", pattern)
	}
	return b.String(), nil
}

func class(s string) (c struct{ sql, regex string }, ok bool) {
	if !strings.HasPrefix(s, "[:") {
		return c, false
	}
	for _, c := range classes {
		if strings.HasPrefix(s, c.sql) {
			return c, true
		}
	}
	return c, false
}
