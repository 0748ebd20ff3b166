package parse

import (
	"errors"
	"sort"
	"strings"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// Substitute replaces ${NAME} in src by the values of vars. A name that vars
// has not is an error with its position, except in a comment, where it stays.
// NAME is made of letters, digits, '_', '.' and '-'.
func Substitute(src string, vars map[string]string) (string, error) {
	out, _, err := SubstituteMapped(src, vars)
	return out, err
}

// Mapping leads from positions in a substituted text back to the text as the
// user wrote it.
type Mapping struct {
	edits []edit
}

// edit is one replacement: out[outStart:outEnd] came from src[srcStart:srcEnd].
type edit struct {
	srcStart, srcEnd int
	outStart, outEnd int
}

// SubstituteMapped is Substitute that also returns how positions map back.
func SubstituteMapped(src string, vars map[string]string) (string, *Mapping, error) {
	m := &Mapping{}
	var b strings.Builder
	done := 0
	for i := 0; ; {
		n := strings.Index(src[i:], "${")
		if n < 0 {
			break
		}
		start := i + n
		name, end := variableAt(src, start)
		i = max(end, start+2)
		if name == "" {
			continue
		}
		value, ok := vars[name]
		if !ok {
			if inComment(src, start) {
				continue
			}
			return "", nil, undefinedVariable(name, ast.Span{Start: start, End: end}, vars)
		}
		b.WriteString(src[done:start])
		out := b.Len()
		b.WriteString(value)
		m.edits = append(m.edits, edit{start, end, out, b.Len()})
		done = end
	}
	b.WriteString(src[done:])
	return b.String(), m, nil
}

// variableAt returns the name of the ${NAME} at start and where it ends; an
// empty name if it is none.
func variableAt(src string, start int) (name string, end int) {
	i := start + 2
	for i < len(src) && (isWordByte(src[i]) && src[i] != '$' || isDigit(src[i]) || src[i] == '.' || src[i] == '-') {
		i++
	}
	if i == start+2 || i >= len(src) || src[i] != '}' {
		return "", i
	}
	return src[start+2 : i], i + 1
}

// inComment reports whether offset lies in a comment; the text before it may
// hold anything.
func inComment(src string, offset int) bool {
	for _, t := range lex(src, 0) {
		if t.kind == kEOF || t.start > offset {
			return true
		}
		if t.end > offset {
			// An unclosed comment is a kBad token; all other tokens are text.
			return t.kind == kBad && strings.HasPrefix(src[t.start:], "/*")
		}
	}
	return false
}

func undefinedVariable(name string, at ast.Span, vars map[string]string) error {
	names := make([]string, 0, len(vars))
	for v := range vars {
		names = append(names, v)
	}
	sort.Strings(names)
	err := sqlerr.New(at, "variable ${%s} is not defined", name)
	if err.Hint = sqlerr.DidYouMean(name, names); err.Hint == "" {
		err.Hint = "define it with --define " + name + "=VALUE"
	}
	return err
}

// Original returns the span of the source text that s, a span of the
// substituted text, came from. A span inside a replaced value becomes that of
// the variable.
func (m *Mapping) Original(s ast.Span) ast.Span {
	if s.IsZero() {
		return s
	}
	start, end := m.original(s.Start, false), m.original(s.End, true)
	return ast.Span{Start: start, End: max(start, end)} // an empty span beside an empty value
}

func (m *Mapping) original(offset int, isEnd bool) int {
	shift := 0
	for _, e := range m.edits {
		if offset < e.outStart || isEnd && offset == e.outStart {
			break
		}
		if offset < e.outEnd || isEnd && offset == e.outEnd {
			if isEnd {
				return e.srcEnd
			}
			return e.srcStart
		}
		shift = e.srcEnd - e.outEnd
	}
	return offset + shift
}

// Error moves the position of a *sqlerr.Error in err from the substituted text
// to the source text; any other error is returned as it is.
func (m *Mapping) Error(err error) error {
	var e *sqlerr.Error
	if !errors.As(err, &e) || len(m.edits) == 0 {
		return err
	}
	c := *e
	c.Pos = m.Original(e.Pos)
	return &c
}
