package regex

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr/fn/find"
)

// anchored matches patterns of the form P L R: P is nothing, or a choice of single bytes and the
// start of the text; L is literal text of at least two different bytes; R is a sequence of literals
// and greedy runs of byte classes in which every run is followed by something that it cannot
// contain, so that nothing ever has to be tried twice. The literal is found by its rarest
// byte.
type anchored struct {
	pre    []preByte // empty: the match starts with lit
	preCap int       // group around P, or -1
	lit    *find.Finder
	rest   []part
}

// preByte is one alternative of P: a byte, or the start of the text.
type preByte struct {
	b     byte
	begin bool
}

// part is a piece of R.
type part struct {
	capAt int        // a boundary to note in caps, or -1
	lit   []byte     // literal text
	run   *[256]bool // a run of these bytes
	min   int        // least length of the run, 0 or 1
}

// newAnchored returns nil when the pattern has another form.
func newAnchored(re *syntax.Regexp) *anchored {
	subs := flatten(re, nil)
	a := &anchored{preCap: -1}
	if len(subs) == 0 {
		return nil
	}
	if !isLiteral(subs[0]) {
		if !a.setPrefix(subs[0]) {
			return nil
		}
		subs = subs[1:]
	}
	if len(subs) == 0 || !isLiteral(subs[0]) {
		return nil
	}
	lit := []byte(string(subs[0].Rune))
	if len(bytes.Trim(lit, string(lit[:1]))) == 0 {
		return nil
	}
	a.lit = find.New(lit)
	for _, s := range subs[1:] {
		if !a.add(s) {
			return nil
		}
	}
	if !a.deterministic() {
		return nil
	}
	return a
}

func flatten(re *syntax.Regexp, out []*syntax.Regexp) []*syntax.Regexp {
	if re.Op != syntax.OpConcat {
		return append(out, re)
	}
	for _, s := range re.Sub {
		out = flatten(s, out)
	}
	return out
}

func isLiteral(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0
}

func (a *anchored) setPrefix(re *syntax.Regexp) bool {
	if re.Op == syntax.OpCapture {
		a.preCap = re.Cap
		re = re.Sub[0]
	}
	alts := []*syntax.Regexp{re}
	if re.Op == syntax.OpAlternate {
		alts = re.Sub
	}
	for _, alt := range alts {
		switch {
		case isLiteral(alt) && len(alt.Rune) == 1 && alt.Rune[0] < utf8.RuneSelf:
			a.pre = append(a.pre, preByte{b: byte(alt.Rune[0])})
		case alt.Op == syntax.OpBeginText:
			a.pre = append(a.pre, preByte{begin: true})
		case alt.Op == syntax.OpCharClass:
			set, ok := byteSet(alt)
			if !ok || set[utf8.RuneSelf] {
				return false
			}
			for c := range utf8.RuneSelf {
				if set[c] {
					a.pre = append(a.pre, preByte{b: byte(c)})
				}
			}
		default:
			return false
		}
	}
	return true
}

// add takes one piece of R.
func (a *anchored) add(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		if !isLiteral(re) {
			return false
		}
		a.rest = append(a.rest, part{capAt: -1, lit: []byte(string(re.Rune))})
	case syntax.OpStar, syntax.OpPlus:
		set, ok := byteSet(re.Sub[0])
		if !ok || re.Flags&syntax.NonGreedy != 0 {
			return false
		}
		p := part{capAt: -1, run: set}
		if re.Op == syntax.OpPlus {
			p.min = 1
		}
		a.rest = append(a.rest, p)
	case syntax.OpCapture:
		a.rest = append(a.rest, part{capAt: 2 * re.Cap})
		for _, s := range flatten(re.Sub[0], nil) {
			if !a.add(s) {
				return false
			}
		}
		a.rest = append(a.rest, part{capAt: 2*re.Cap + 1})
	default:
		return false
	}
	return true
}

// deterministic reports whether no run can swallow the start of what follows it.
func (a *anchored) deterministic() bool {
	var open *[256]bool
	for _, p := range a.rest {
		switch {
		case p.lit != nil:
			if open != nil && open[p.lit[0]] {
				return false
			}
			open = nil
		case p.run != nil:
			if open != nil {
				return false
			}
			open = p.run
		}
	}
	return true
}

// byteSet turns a class into a set of bytes if it has all characters beyond ASCII or none.
func byteSet(re *syntax.Regexp) (*[256]bool, bool) {
	var set [256]bool
	switch {
	case re.Op == syntax.OpAnyChar:
		for c := range set {
			set[c] = true
		}
		return &set, true
	case re.Op == syntax.OpLiteral && isLiteral(re) && len(re.Rune) == 1 && re.Rune[0] < utf8.RuneSelf:
		set[re.Rune[0]] = true
		return &set, true
	case re.Op != syntax.OpCharClass:
		return nil, false
	}
	for i := 0; i < len(re.Rune); i += 2 {
		lo, hi := re.Rune[i], re.Rune[i+1]
		for c := lo; c <= hi && c < utf8.RuneSelf; c++ {
			set[c] = true
		}
		if hi >= utf8.RuneSelf {
			if lo > utf8.RuneSelf || hi != utf8.MaxRune {
				return nil, false
			}
			for c := utf8.RuneSelf; c < 256; c++ {
				set[c] = true
			}
		}
	}
	return &set, true
}

func (a *anchored) find(s []byte, from int, caps []int) bool {
	for at := from; at <= len(s); {
		k := a.lit.Index(s[at:])
		if k < 0 {
			return false
		}
		at += k
		if start, ok := a.before(s, from, at); ok {
			if end, ok := a.after(s, at+len(a.lit.Text()), caps); ok {
				caps[0], caps[1] = start, end
				if a.preCap >= 0 {
					caps[2*a.preCap], caps[2*a.preCap+1] = start, at
				}
				return true
			}
			for i := range caps {
				caps[i] = -1
			}
		}
		at++
	}
	return false
}

// before checks P against what stands before s[at] and returns where the match starts.
func (a *anchored) before(s []byte, from, at int) (start int, ok bool) {
	if len(a.pre) == 0 {
		return at, true
	}
	for _, p := range a.pre {
		if p.begin {
			if at == 0 {
				return at, true
			}
		} else if at > from && s[at-1] == p.b {
			return at - 1, true
		}
	}
	return 0, false
}

// after runs R from s[at] and returns where it ends.
func (a *anchored) after(s []byte, at int, caps []int) (end int, ok bool) {
	for i := range a.rest {
		p := &a.rest[i]
		switch {
		case p.capAt >= 0:
			caps[p.capAt] = at
		case p.lit != nil:
			if !bytes.HasPrefix(s[at:], p.lit) {
				return 0, false
			}
			at += len(p.lit)
		default:
			from := at
			for at < len(s) && p.run[s[at]] {
				at++
			}
			if at-from < p.min {
				return 0, false
			}
		}
	}
	return at, true
}
