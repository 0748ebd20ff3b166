// Package regex runs the regular expressions of java.util.regex, which Flink SQL inherits, over
// UTF-8 bytes without allocating per match.
//
// A pattern is translated to the syntax of Go's regexp/syntax and matched by one of three engines:
// code for the frequent form prefix-literal-rest such as (&|^)channel_id=([^&]*), a bounded
// backtracker over the compiled program that takes time linear in the text, and, for back
// references, lookaround and possessive repetition, a true backtracking engine with a time limit.
package regex

import (
	"errors"
	"regexp/syntax"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"

	"github.com/tidemark-stream/tidemark/expr/fn/find"
)

// Regexp is a compiled pattern. It owns scratch memory: not safe for concurrent use.
type Regexp struct {
	groups int
	fast   *anchored
	slow   *regexp2.Regexp

	prog      *syntax.Prog
	prefix    *find.Finder
	first     *[256]bool // bytes that a match can start with; nil when it can be empty
	multiline bool
	visited   []uint64
	stack     []job
	caps      []int
}

// timeLimit bounds one match of the true backtracking engine.
const timeLimit = time.Second

// Compile reads a Java pattern.
func Compile(pattern string) (*Regexp, error) {
	return compile(pattern, false)
}

// CompileFull reads a Java pattern that must match a whole text.
func CompileFull(pattern string) (*Regexp, error) {
	return compile(pattern, true)
}

func compile(pattern string, full bool) (*Regexp, error) {
	t := translator{src: pattern, names: map[string]int{}}
	if err := t.run(); err != nil {
		return nil, err
	}
	out := t.out.String()
	if full {
		out = `\A(?:` + out + `)\z`
	}
	if t.back {
		return compileSlow(out, &t)
	}
	tree, err := syntax.Parse(out, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			return nil, t.fail("%s", e.Code)
		}
		return nil, t.fail("%v", err)
	}
	re := &Regexp{groups: tree.MaxCap(), multiline: t.multiline}
	re.fast = newAnchored(tree)
	if re.prog, err = syntax.Compile(tree.Simplify()); err != nil {
		return nil, t.fail("%v", err)
	}
	if prefix, _ := re.prog.Prefix(); prefix != "" {
		re.prefix = find.New([]byte(prefix))
	}
	re.firstBytes()
	return re, nil
}

func compileSlow(out string, t *translator) (*Regexp, error) {
	if !t.multiline {
		out = strings.ReplaceAll(out, `(?m:$)`, `(?=(?:\r\n|[`+terminators+`])?\z)`)
	}
	slow, err := regexp2.Compile(out, regexp2.RE2)
	if err != nil {
		return nil, t.fail("%v", err)
	}
	slow.MatchTimeout = timeLimit
	return &Regexp{groups: len(slow.GetGroupNumbers()) - 1, slow: slow}, nil
}

// Groups is the number of capturing groups.
func (re *Regexp) Groups() int { return re.groups }

// Match reports whether the pattern occurs in s.
func (re *Regexp) Match(s []byte) bool { return re.Find(s, 0) != nil }

// Find returns the first match that starts at or after s[from]: its start and end and those of its
// groups, -1 where a group took no part; nil when there is none. The result is valid until the
// next call.
func (re *Regexp) Find(s []byte, from int) []int {
	if re.caps == nil {
		re.caps = make([]int, 2*(re.groups+1))
	}
	for i := range re.caps {
		re.caps[i] = -1
	}
	var ok bool
	switch {
	case re.fast != nil:
		ok = re.fast.find(s, from, re.caps)
	case re.slow != nil:
		ok = re.findSlow(s, from)
	default:
		ok = re.search(s, from)
	}
	if !ok {
		return nil
	}
	return re.caps
}

// Next returns where to look for the match after one that ended at end: an empty match moves on by
// a character.
func Next(s []byte, start, end int) int {
	if start < end {
		return end
	}
	if end >= len(s) {
		return end + 1
	}
	_, w := utf8.DecodeRune(s[end:])
	return end + w
}

func (re *Regexp) findSlow(s []byte, from int) bool {
	text := string(s)
	m, err := re.slow.FindStringMatchStartingAt(text, from)
	if err != nil || m == nil {
		return false
	}
	for i, g := range m.Groups() {
		if len(g.Captures) > 0 && i <= re.groups {
			at, n := g.ByteRange()
			re.caps[2*i], re.caps[2*i+1] = at, at+n
		}
	}
	return true
}

// firstBytes finds the bytes that a match can start with.
func (re *Regexp) firstBytes() {
	var set [256]bool
	seen := make([]bool, len(re.prog.Inst))
	ok := true
	var walk func(pc uint32)
	walk = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		in := &re.prog.Inst[pc]
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			walk(in.Out)
			walk(in.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			walk(in.Out)
		case syntax.InstMatch:
			ok = false
		case syntax.InstFail:
		default:
			for c := rune(0); c < utf8.RuneSelf; c++ {
				set[c] = set[c] || in.MatchRune(c)
			}
			for c := utf8.RuneSelf; c < 256; c++ {
				set[c] = true
			}
		}
	}
	walk(uint32(re.prog.Start))
	if ok {
		re.first = &set
	}
}

// job is a place of the search to come back to, or, where pc is negative, a group boundary to put
// back: caps[^pc] = at.
type job struct{ pc, at int32 }

// search tries every start in turn. A state (instruction, position) that failed once fails for
// later starts too, so that the whole search visits each at most once.
func (re *Regexp) search(s []byte, from int) bool {
	n := len(re.prog.Inst) * (len(s) - min(from, len(s)) + 1)
	words := (n + 63) / 64
	if cap(re.visited) < words {
		re.visited = make([]uint64, words, 2*words)
	}
	re.visited = re.visited[:words]
	clear(re.visited)
	anchoredAtStart := re.prog.StartCond()&syntax.EmptyBeginText != 0
	for at := from; at <= len(s); {
		if anchoredAtStart && at > 0 {
			return false
		}
		if re.prefix != nil {
			k := re.prefix.Index(s[at:])
			if k < 0 {
				return false
			}
			at += k
		} else if re.first != nil {
			for at < len(s) && !re.first[s[at]] {
				at++
			}
			if at == len(s) {
				return false
			}
		}
		if re.try(s, from, at) {
			re.caps[0] = at
			return true
		}
		if at == len(s) {
			return false
		}
		_, w := utf8.DecodeRune(s[at:])
		at += w
	}
	return false
}

// try looks for a match that starts at s[at]. base is where the search began: visited counts from
// there.
func (re *Regexp) try(s []byte, base, at int) bool {
	insts := re.prog.Inst
	stack := append(re.stack[:0], job{int32(re.prog.Start), int32(at)})
	for len(stack) > 0 {
		j := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if j.pc < 0 {
			re.caps[^j.pc] = int(j.at)
			continue
		}
		pc, at := int(j.pc), int(j.at)
	run:
		for {
			bit := pc*(len(s)-base+1) + at - base
			if re.visited[bit/64]&(1<<(bit%64)) != 0 {
				break
			}
			re.visited[bit/64] |= 1 << (bit % 64)
			in := &insts[pc]
			switch in.Op {
			case syntax.InstAlt, syntax.InstAltMatch:
				stack = append(stack, job{int32(in.Arg), int32(at)})
				pc = int(in.Out)
			case syntax.InstCapture:
				if k := int(in.Arg); k < len(re.caps) {
					stack = append(stack, job{int32(^k), int32(re.caps[k])})
					re.caps[k] = at
				}
				pc = int(in.Out)
			case syntax.InstNop:
				pc = int(in.Out)
			case syntax.InstEmptyWidth:
				if !re.empty(s, at, syntax.EmptyOp(in.Arg)) {
					break run
				}
				pc = int(in.Out)
			case syntax.InstMatch:
				re.caps[1] = at
				re.stack = stack
				return true
			case syntax.InstFail:
				break run
			default:
				if at >= len(s) {
					break run
				}
				r, w := rune(s[at]), 1
				if r >= utf8.RuneSelf {
					r, w = utf8.DecodeRune(s[at:])
				}
				if in.Op == syntax.InstRune1 && in.Arg == 0 {
					if r != in.Rune[0] {
						break run
					}
				} else if !in.MatchRune(r) {
					break run
				}
				at += w
				pc = int(in.Out)
			}
		}
	}
	re.stack = stack
	return false
}

// empty evaluates conditions on a position. The end of a line stands for Java's dollar: without
// (?m) it holds at the end of the text or before a line terminator that ends it.
func (re *Regexp) empty(s []byte, at int, want syntax.EmptyOp) bool {
	if want&syntax.EmptyBeginText != 0 && at != 0 || want&syntax.EmptyEndText != 0 && at != len(s) {
		return false
	}
	if want&syntax.EmptyBeginLine != 0 && at != 0 && (at == len(s) || !endsLine(s[:at])) {
		return false
	}
	if want&syntax.EmptyEndLine != 0 && at != len(s) {
		w := terminator(s[at:])
		if w == 0 || !re.multiline && at+w != len(s) || s[at] == '\n' && at > 0 && s[at-1] == '\r' {
			return false
		}
	}
	if want&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 {
		before, after := rune(-1), rune(-1)
		if at > 0 {
			before, _ = utf8.DecodeLastRune(s[:at])
		}
		if at < len(s) {
			after, _ = utf8.DecodeRune(s[at:])
		}
		boundary := isWord(before) != isWord(after)
		if want&syntax.EmptyWordBoundary != 0 && !boundary ||
			want&syntax.EmptyNoWordBoundary != 0 && boundary {
			return false
		}
	}
	return true
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' ||
		r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// terminator is the width of the line terminator at the front of s, or 0.
func terminator(s []byte) int {
	switch {
	case len(s) == 0:
		return 0
	case s[0] == '\n':
		return 1
	case s[0] == '\r':
		if len(s) > 1 && s[1] == '\n' {
			return 2
		}
		return 1
	case s[0] < utf8.RuneSelf:
		return 0
	}
	if r, w := utf8.DecodeRune(s); r == 0x85 || r == 0x2028 || r == 0x2029 {
		return w
	}
	return 0
}

// endsLine reports whether s ends with a line terminator.
func endsLine(s []byte) bool {
	if c := s[len(s)-1]; c == '\n' || c == '\r' {
		return true
	}
	r, _ := utf8.DecodeLastRune(s)
	return r == 0x85 || r == 0x2028 || r == 0x2029
}
