package jsonpath

import (
	"fmt"
	"strconv"
	"strings"
)

// step is one part of a path.
type step struct {
	kind  stepKind
	name  string
	index int
	// A slice from index to end; open says that there is no end.
	end  int
	open bool
}

type stepKind uint8

const (
	byName  stepKind = iota
	byIndex          // negative: from the end
	anyChild
	bySlice
	deep // ..name, ..*
)

// Path is a compiled path. It owns scratch memory: not safe for concurrent use.
type Path struct {
	Lax      bool
	Definite bool // at most one value can match
	steps    []step
	spec     string
	found    []span
}

type span struct{ from, to int }

// Compile reads a path: lax or strict in front (strict when neither is said), then $, which may be left
// out, and any of .name ['name'] [0] [-1] [*] .* [1:3] ..name.
func Compile(spec string) (*Path, error) {
	p := &Path{spec: spec, Definite: true}
	rest := strings.TrimSpace(spec)
	for _, mode := range []string{"lax", "strict"} {
		if n := len(mode); len(rest) > n && strings.EqualFold(rest[:n], mode) &&
			strings.ContainsRune(" \t\r\n", rune(rest[n])) {
			p.Lax = mode == "lax"
			rest = strings.TrimSpace(rest[n:])
			break
		}
	}
	if rest == "" {
		return nil, p.fail("it is empty: write '$' for the whole value")
	}
	if rest[0] == '$' {
		rest = rest[1:]
	} else {
		rest = "." + rest
	}
	for rest != "" {
		var s step
		var err error
		if s, rest, err = p.step(rest); err != nil {
			return nil, err
		}
		if s.kind != byName && s.kind != byIndex {
			p.Definite = false
		}
		p.steps = append(p.steps, s)
	}
	return p, nil
}

func (p *Path) fail(format string, args ...any) error {
	return fmt.Errorf("JSON path '%s': %s", p.spec, fmt.Sprintf(format, args...))
}

func (p *Path) step(s string) (step, string, error) {
	switch {
	case strings.HasPrefix(s, "..") && len(s) > 2:
		if s[2] == '[' {
			return step{}, "", p.fail("'..[' is not supported yet")
		}
		name, rest := word(s[2:])
		return step{kind: deep, name: name}, rest, p.name(name)
	case strings.HasPrefix(s, ".["):
		return p.bracket(s[1:])
	case strings.HasPrefix(s, "."):
		name, rest := word(s[1:])
		if name == "*" {
			return step{kind: anyChild}, rest, nil
		}
		if strings.HasPrefix(rest, "(") {
			return step{}, "", p.fail("the function %s() is not supported yet", name)
		}
		return step{kind: byName, name: name}, rest, p.name(name)
	case strings.HasPrefix(s, "["):
		return p.bracket(s)
	}
	return step{}, "", p.fail("'%s' is not a step: write .name, ['name'], [0] or [*]", s)
}

func (p *Path) name(s string) error {
	if s == "" {
		return p.fail("a name is missing after a dot")
	}
	return nil
}

func word(s string) (name, rest string) {
	i := strings.IndexAny(s, ".[( ")
	if i < 0 {
		i = len(s)
	}
	return s[:i], s[i:]
}

func (p *Path) bracket(s string) (step, string, error) {
	body := strings.TrimLeft(s[1:], " ")
	if body != "" && (body[0] == '\'' || body[0] == '"') {
		var name strings.Builder
		for i := 1; i < len(body); i++ {
			switch {
			case body[i] == '\\' && i+1 < len(body):
				i++
				name.WriteByte(body[i])
			case body[i] == body[0]:
				rest := strings.TrimLeft(body[i+1:], " ")
				if !strings.HasPrefix(rest, "]") {
					return step{}, "", p.fail("a list of names is not supported yet")
				}
				return step{kind: byName, name: name.String()}, rest[1:], nil
			default:
				name.WriteByte(body[i])
			}
		}
		return step{}, "", p.fail("a quote is not closed")
	}
	body, rest, ok := strings.Cut(s[1:], "]")
	if !ok {
		return step{}, "", p.fail("a '[' is not closed")
	}
	body = strings.TrimSpace(body)
	if body == "*" {
		return step{kind: anyChild}, rest, nil
	}
	if from, to, slice := strings.Cut(body, ":"); slice {
		st := step{kind: bySlice, open: to == ""}
		var err1, err2 error
		if from != "" {
			st.index, err1 = strconv.Atoi(from)
		}
		if to != "" {
			st.end, err2 = strconv.Atoi(to)
		}
		if err1 != nil || err2 != nil {
			return step{}, "", p.fail("'[%s]' is not a slice", body)
		}
		return st, rest, nil
	}
	n, err := strconv.Atoi(body)
	switch {
	case err == nil:
		return step{kind: byIndex, index: n}, rest, nil
	case strings.HasPrefix(body, "?"):
		return step{}, "", p.fail("filters are not supported yet")
	case strings.Contains(body, ","):
		return step{}, "", p.fail("a list of indexes is not supported yet")
	}
	return step{}, "", p.fail("'[%s]' is not an index", body)
}

// Find looks the path up in a text. valid is false when the text is not JSON, raw is nil when the
// path leads nowhere. For paths that are not definite, see All.
func (p *Path) Find(doc []byte) (raw []byte, valid bool) {
	c := scanner{s: doc}
	hit := span{-1, -1}
	if end := p.follow(&c, c.space(0), 0, &hit); end < 0 {
		return nil, false
	}
	if hit.from < 0 {
		return nil, true
	}
	return doc[hit.from:hit.to], true
}

// follow reads the value at s[i] to its end and notes where steps k and on lead in it.
func (p *Path) follow(c *scanner, i, k int, hit *span) int {
	if k == len(p.steps) {
		end := c.skip(i)
		*hit = span{i, end}
		return end
	}
	st := &p.steps[k]
	if i >= len(c.s) {
		return -1
	}
	switch {
	case st.kind == byName && c.s[i] == '{':
		return p.followName(c, i, k, hit)
	case st.kind == byIndex && c.s[i] == '[':
		want := st.index
		if want < 0 {
			n := 0
			if c.array(i, func(_, at int) int { n++; return c.skip(at) }) < 0 {
				return -1
			}
			want += n
		}
		return c.array(i, func(n, at int) int {
			if n == want {
				return p.follow(c, at, k+1, hit)
			}
			return c.skip(at)
		})
	}
	return c.skip(i)
}

// followName is the hot case of follow, written out so that nothing is captured.
func (p *Path) followName(c *scanner, i, k int, hit *span) int {
	if c.depth++; c.depth > maxDepth {
		return -1
	}
	i = c.space(i + 1)
	if i < len(c.s) && c.s[i] == '}' {
		c.depth--
		return i + 1
	}
	for {
		if i >= len(c.s) || c.s[i] != '"' {
			return -1
		}
		from := i
		end, escaped := c.str(i)
		if end < 0 {
			return -1
		}
		if i = c.space(end); i >= len(c.s) || c.s[i] != ':' {
			return -1
		}
		i = c.space(i + 1)
		if keyIs(c.s[from:end], escaped, p.steps[k].name) {
			*hit = span{-1, -1} // the last of equal names counts
			i = p.follow(c, i, k+1, hit)
		} else {
			i = c.skip(i)
		}
		if i < 0 {
			return -1
		}
		if i = c.space(i); i >= len(c.s) {
			return -1
		}
		switch c.s[i] {
		case '}':
			c.depth--
			return i + 1
		case ',':
			i = c.space(i + 1)
		default:
			return -1
		}
	}
}

// All calls f with every value that the path leads to, in order. It reports whether the text is
// JSON, and whether the steps up to the first that may match several led somewhere.
func (p *Path) All(doc []byte, f func(raw []byte)) (valid, exists bool) {
	c := scanner{s: doc}
	i := c.space(0)
	end := c.skip(i)
	if end < 0 {
		return false, false
	}
	p.found = p.found[:0]
	exists = p.collect(doc, span{i, end}, 0, true)
	for _, sp := range p.found {
		f(doc[sp.from:sp.to])
	}
	return true, exists
}

// collect appends what steps k and on lead to in the value at sp. definite says that no step
// before k may match several.
func (p *Path) collect(doc []byte, sp span, k int, definite bool) bool {
	if k == len(p.steps) {
		p.found = append(p.found, sp)
		return true
	}
	st := &p.steps[k]
	c := scanner{s: doc}
	kids := p.kids(&c, sp.from, st)
	switch st.kind {
	case byName, byIndex:
		if len(kids) == 0 {
			return !definite
		}
		return p.collect(doc, kids[len(kids)-1], k+1, definite)
	case deep:
		if st.name == "*" {
			for _, kid := range kids {
				p.collect(doc, kid, k+1, false)
				p.collect(doc, kid, k, false)
			}
			return true
		}
		own := step{kind: byName, name: st.name}
		if hits := p.kids(&c, sp.from, &own); len(hits) > 0 {
			p.collect(doc, hits[len(hits)-1], k+1, false)
		}
		for _, kid := range kids {
			p.collect(doc, kid, k, false)
		}
		return true
	}
	for _, kid := range kids {
		p.collect(doc, kid, k+1, false)
	}
	return true
}

// kids lists the children of the valid value at s[i] that a step selects; for deep, all.
func (p *Path) kids(c *scanner, i int, st *step) []span {
	var out []span
	add := func(at int) int {
		end := c.skip(at)
		out = append(out, span{at, end})
		return end
	}
	switch c.s[i] {
	case '{':
		if st.kind == byIndex || st.kind == bySlice {
			return nil
		}
		c.object(i, func(key []byte, escaped bool, at int) int {
			if st.kind == byName && !keyIs(key, escaped, st.name) {
				return c.skip(at)
			}
			return add(at)
		})
	case '[':
		if st.kind == byName {
			return nil
		}
		c.array(i, func(_, at int) int { return add(at) })
		switch st.kind {
		case byIndex:
			n := st.index
			if n < 0 {
				n += len(out)
			}
			if n < 0 || n >= len(out) {
				return nil
			}
			return out[n : n+1]
		case bySlice:
			from, to := st.index, st.end
			if from < 0 {
				from = max(from+len(out), 0)
			}
			if st.open {
				to = len(out)
			} else if to < 0 {
				to += len(out)
			}
			to = min(to, len(out))
			if from >= to {
				return nil
			}
			return out[from:to]
		}
	}
	return out
}
