// Package like matches SQL's LIKE patterns against UTF-8 bytes and translates SIMILAR TO patterns to
// regular expressions, both with the reading that Flink gives them.
//
// A compiled Matcher is immutable and safe for concurrent use; matching never allocates.
package like

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr/fn/find"
)

// form is the shape of a pattern; most patterns in real queries need no general matching.
type form uint8

const (
	formExact    form = iota // abc
	formPrefix               // abc%
	formSuffix               // %abc
	formContains             // %abc%
	formAny                  // %
	formGeneral              // everything else
)

// atom is a run of literal bytes, or one arbitrary character where lit is nil.
type atom struct{ lit []byte }

// segment is what stands between two percent signs.
type segment struct {
	atoms []atom
	first *find.Finder // of the first atom where that is literal
}

// Matcher is a compiled LIKE pattern.
type Matcher struct {
	form form
	lit  []byte
	find *find.Finder // of formContains
	segs []segment    // general form: the pieces between percent signs, in order
}

// Compile reads a LIKE pattern. An underscore stands for one character other than a line
// terminator, a percent sign for any text. Escape, when it is not 0, takes the special meaning from
// an underscore, a percent sign or itself, and may stand before nothing else.
func Compile(pattern string, escape rune) (*Matcher, error) {
	var (
		segs []segment
		cur  []atom
		lit  []byte
	)
	flush := func() {
		if len(lit) > 0 {
			cur = append(cur, atom{lit: lit})
			lit = nil
		}
	}
	for i := 0; i < len(pattern); {
		r, w := utf8.DecodeRuneInString(pattern[i:])
		switch {
		case escape != 0 && r == escape:
			next, nw := utf8.DecodeRuneInString(pattern[i+w:])
			if nw == 0 || next != '_' && next != '%' && next != escape {
				return nil, fmt.Errorf(
					"invalid escape sequence in LIKE pattern '%s' at character %d: the escape "+
						"character '%c' must stand before '_', '%%' or itself",
					pattern, utf8.RuneCountInString(pattern[:i])+1, escape)
			}
			lit = append(lit, pattern[i+w:i+w+nw]...)
			w += nw
		case r == '_':
			flush()
			cur = append(cur, atom{})
		case r == '%':
			flush()
			segs = append(segs, newSegment(cur))
			cur = nil
		default:
			lit = append(lit, pattern[i:i+w]...)
		}
		i += w
	}
	flush()
	return shape(append(segs, newSegment(cur))), nil
}

func newSegment(atoms []atom) segment {
	g := segment{atoms: atoms}
	if len(atoms) > 0 && atoms[0].lit != nil {
		g.first = find.New(atoms[0].lit)
	}
	return g
}

// shape picks the cheapest form for the pieces of a pattern.
func shape(segs []segment) *Matcher {
	// Empty pieces in the middle come from doubled percent signs and mean nothing.
	kept := segs[:1:1]
	for i := 1; i < len(segs); i++ {
		if len(segs[i].atoms) > 0 || i == len(segs)-1 {
			kept = append(kept, segs[i])
		}
	}
	plain := func(s segment) bool { return len(s.atoms) == 0 || len(s.atoms) == 1 && s.first != nil }
	text := func(s segment) []byte {
		if len(s.atoms) == 0 {
			return nil
		}
		return s.atoms[0].lit
	}
	n := len(kept)
	switch {
	case n == 1 && plain(kept[0]):
		return &Matcher{form: formExact, lit: text(kept[0])}
	case n == 2 && len(kept[0].atoms) == 0 && len(kept[1].atoms) == 0:
		return &Matcher{form: formAny}
	case n == 2 && plain(kept[0]) && len(kept[1].atoms) == 0:
		return &Matcher{form: formPrefix, lit: text(kept[0])}
	case n == 2 && len(kept[0].atoms) == 0 && plain(kept[1]):
		return &Matcher{form: formSuffix, lit: text(kept[1])}
	case n == 3 && len(kept[0].atoms) == 0 && plain(kept[1]) && len(kept[2].atoms) == 0:
		return &Matcher{form: formContains, find: kept[1].first}
	}
	return &Matcher{form: formGeneral, segs: kept}
}

// Match reports whether all of s fits the pattern.
func (m *Matcher) Match(s []byte) bool {
	switch m.form {
	case formExact:
		return bytes.Equal(s, m.lit)
	case formPrefix:
		return bytes.HasPrefix(s, m.lit)
	case formSuffix:
		return bytes.HasSuffix(s, m.lit)
	case formContains:
		return m.find.Index(s) >= 0
	case formAny:
		return true
	}
	return m.general(s)
}

// general anchors the first piece at the front and the last at the end and finds the others from
// left to right. Taking each at its first place is enough: it leaves the most for those after it.
func (m *Matcher) general(s []byte) bool {
	at, ok := m.segs[0].at(s, 0)
	if !ok {
		return false
	}
	last := len(m.segs) - 1
	if last == 0 {
		return at == len(s)
	}
	for _, seg := range m.segs[1:last] {
		if at = seg.find(s, at); at < 0 {
			return false
		}
	}
	return m.segs[last].ends(s, at)
}

// at reports where the piece ends when it starts at s[i].
func (g segment) at(s []byte, i int) (int, bool) {
	for _, a := range g.atoms {
		if a.lit != nil {
			if !bytes.HasPrefix(s[i:], a.lit) {
				return 0, false
			}
			i += len(a.lit)
			continue
		}
		w := anyChar(s[i:])
		if w == 0 {
			return 0, false
		}
		i += w
	}
	return i, true
}

// find returns the end of the first occurrence at or after s[from], or -1.
func (g segment) find(s []byte, from int) int {
	for i := from; i <= len(s); {
		if g.first != nil {
			k := g.first.Index(s[i:])
			if k < 0 {
				return -1
			}
			i += k
		}
		if end, ok := g.at(s, i); ok {
			return end
		}
		if i == len(s) {
			return -1
		}
		_, w := utf8.DecodeRune(s[i:])
		i += w
	}
	return -1
}

// ends reports whether the piece matches the end of s without reaching before s[from].
func (g segment) ends(s []byte, from int) bool {
	i := len(s)
	for k := len(g.atoms) - 1; k >= 0; k-- {
		if lit := g.atoms[k].lit; lit != nil {
			if i-len(lit) < from || !bytes.HasSuffix(s[from:i], lit) {
				return false
			}
			i -= len(lit)
			continue
		}
		if i <= from {
			return false
		}
		_, w := utf8.DecodeLastRune(s[from:i])
		if anyChar(s[i-w:i]) == 0 {
			return false
		}
		i -= w
	}
	return true
}

// anyChar returns the width of the character at the front of s if an underscore matches it, else
// 0: like the dot of a Java regular expression it skips no line terminator.
func anyChar(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	if s[0] < utf8.RuneSelf {
		if s[0] == '\n' || s[0] == '\r' {
			return 0
		}
		return 1
	}
	r, w := utf8.DecodeRune(s)
	if r == 0x85 || r == 0x2028 || r == 0x2029 {
		return 0
	}
	return w
}
