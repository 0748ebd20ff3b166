package regex

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// translator turns the syntax of java.util.regex into that of Go's regexp/syntax, or, where the
// pattern needs what that cannot do (back references, lookaround, possessive repetition), into the
// syntax of the backtracking engine, which is close to .NET's.
type translator struct {
	src  string
	i    int
	out  strings.Builder
	back bool // the backtracking engine is needed
	// flags in force; group entries restore them.
	flags flags
	// multiline says that (?m) occurs: what a dollar means then differs.
	multiline bool
	// atom is where in out the last atom starts, for possessive repetition; -1 if there is none.
	atom   int
	groups []group
	// names numbers the named groups; nGroups counts all that capture.
	names   map[string]int
	nGroups int
}

type flags struct{ dotAll, multi, comments, unixLines, fold bool }

type group struct {
	flags flags
	atom  int
}

// Sets that differ between the languages. The spelling is valid inside brackets.
const (
	spaceSet      = `\t\n\x0B\f\r `
	notSpaceSet   = `\x00-\x08\x0E-\x1F\x21-\x{10FFFF}`
	lineSet       = `\n\x0B\f\r\x{85}\x{2028}\x{2029}`
	horizontalSet = ` \t\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}`
	terminators   = `\n\r\x{85}\x{2028}\x{2029}`
)

// posix are the ASCII classes of Java's \p{...}.
var posix = map[string]string{
	"Lower": "[:lower:]", "Upper": "[:upper:]", "ASCII": "[:ascii:]", "Alpha": "[:alpha:]",
	"Digit": "[:digit:]", "Alnum": "[:alnum:]", "Punct": "[:punct:]", "Graph": "[:graph:]",
	"Print": "[:print:]", "Blank": "[:blank:]", "Cntrl": "[:cntrl:]", "XDigit": "[:xdigit:]",
	"Space": "[:space:]",
}

// unicodeNames are Java's names for what has another one here.
var unicodeNames = map[string]string{
	"IsAlphabetic": "L", "IsLetter": "L", "IsDigit": "Nd", "IsUppercase": "Lu",
	"IsLowercase": "Ll", "IsPunctuation": "P", "javaLowerCase": "Ll", "javaUpperCase": "Lu",
	"javaLetter": "L", "javaDigit": "Nd", "InGreek": "Greek", "InCyrillic": "Cyrillic",
}

func (t *translator) fail(format string, args ...any) error {
	return fmt.Errorf("regular expression '%s' at character %d: %s", t.src,
		utf8.RuneCountInString(t.src[:min(t.i, len(t.src))])+1, fmt.Sprintf(format, args...))
}

func (t *translator) run() error {
	t.atom = -1
	for t.i < len(t.src) {
		if err := t.step(); err != nil {
			return err
		}
	}
	return nil
}

// step translates one element at t.i.
func (t *translator) step() error {
	c := t.src[t.i]
	if t.flags.comments {
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			t.i++
			return nil
		case c == '#':
			for t.i < len(t.src) && t.src[t.i] != '\n' {
				t.i++
			}
			return nil
		}
	}
	switch c {
	case '\\':
		t.mark()
		return t.escape(false)
	case '[':
		t.mark()
		return t.class()
	case '(':
		return t.open()
	case ')':
		if len(t.groups) == 0 {
			return t.fail("')' without '('")
		}
		g := t.groups[len(t.groups)-1]
		t.groups = t.groups[:len(t.groups)-1]
		t.flags, t.atom = g.flags, g.atom
		t.emit(")")
	case '|':
		t.atom = -1
		t.emit("|")
	case '.':
		t.mark()
		switch {
		case t.flags.dotAll:
			t.emit(`(?s:.)`)
		case t.flags.unixLines:
			t.emit(`[^\n]`)
		default:
			t.emit(`[^` + terminators + `]`)
		}
	case '^':
		t.atom = -1
		t.emit(map[bool]string{true: `(?m:^)`, false: `\A`}[t.flags.multi])
	case '$':
		t.atom = -1
		t.emit(`(?m:$)`) // read by the matcher as Java does
	case '*', '+', '?':
		return t.repeat(string(c))
	case '{':
		end := strings.IndexByte(t.src[t.i:], '}')
		if end < 0 {
			return t.fail("'{' without '}'")
		}
		return t.repeat(t.src[t.i : t.i+end+1])
	default:
		t.mark()
		_, w := utf8.DecodeRuneInString(t.src[t.i:])
		t.literal(t.src[t.i : t.i+w])
		t.i += w
		return nil
	}
	t.i++
	return nil
}

func (t *translator) mark()         { t.atom = t.out.Len() }
func (t *translator) emit(s string) { t.out.WriteString(s) }

// literal writes one character that stands for itself.
func (t *translator) literal(s string) {
	if len(s) == 1 && s[0] < utf8.RuneSelf && strings.IndexByte(`\.+*?()|[]{}^$#- `, s[0]) >= 0 {
		fmt.Fprintf(&t.out, `\x%02X`, s[0])
		return
	}
	t.emit(s)
}

func (t *translator) rune(r rune) { fmt.Fprintf(&t.out, `\x{%X}`, r) }

// repeat handles a quantifier with its lazy or possessive mark.
func (t *translator) repeat(q string) error {
	if t.atom < 0 {
		return t.fail("nothing to repeat before '%s'", q)
	}
	if q[0] == '{' {
		lo, hi, comma := strings.Cut(q[1:len(q)-1], ",")
		n, err := strconv.Atoi(lo)
		m := n
		if err == nil && comma && hi != "" {
			m, err = strconv.Atoi(hi)
		}
		if err != nil || m < n {
			return t.fail("bad repetition %s", q)
		}
		if n > 1000 || m > 1000 {
			t.back = true
		}
	}
	t.i += len(q)
	t.emit(q)
	if t.i < len(t.src) && t.src[t.i] == '?' {
		t.emit("?")
		t.i++
	} else if t.i < len(t.src) && t.src[t.i] == '+' {
		t.back = true
		s := t.out.String()
		t.out.Reset()
		t.emit(s[:t.atom] + "(?>" + s[t.atom:] + ")")
		t.i++
	}
	return nil
}

// open handles "(" and what may follow it.
func (t *translator) open() error {
	start := t.out.Len()
	push := func(n int, s string) {
		t.groups = append(t.groups, group{t.flags, start})
		t.atom = -1
		t.emit(s)
		t.i += n
	}
	rest := t.src[t.i:]
	switch {
	case !strings.HasPrefix(rest, "(?"):
		t.nGroups++
		push(1, "(")
		return nil
	case strings.HasPrefix(rest, "(?:"):
		push(3, "(?:")
		return nil
	case strings.HasPrefix(rest, "(?="), strings.HasPrefix(rest, "(?!"), strings.HasPrefix(rest, "(?>"):
		t.back = true
		push(3, rest[:3])
		return nil
	case strings.HasPrefix(rest, "(?<="), strings.HasPrefix(rest, "(?<!"):
		t.back = true
		push(4, rest[:4])
		return nil
	case strings.HasPrefix(rest, "(?<"):
		end := strings.IndexByte(rest, '>')
		if end < 4 {
			return t.fail("bad group name")
		}
		t.nGroups++
		t.names[rest[3:end]] = t.nGroups
		push(end+1, "(")
		return nil
	}
	on, k := true, 2
	f := t.flags
	for ; k < len(rest) && rest[k] != ')' && rest[k] != ':'; k++ {
		switch rest[k] {
		case '-':
			on = false
		case 'i':
			f.fold = on
		case 's':
			f.dotAll = on
		case 'm':
			f.multi = on
			t.multiline = t.multiline || on
		case 'x':
			f.comments = on
		case 'd':
			f.unixLines = on
		case 'u', 'U':
		default:
			return t.fail("unknown construct '(?%c'", rest[k])
		}
	}
	if k == len(rest) {
		return t.fail("'(' without ')'")
	}
	mode := "(?-i"
	if f.fold {
		mode = "(?i"
	}
	if rest[k] == ':' {
		push(k+1, mode+":")
	} else {
		t.emit(mode + ")")
		t.i += k + 1
	}
	t.flags = f
	return nil
}

// escape handles a backslash sequence, in brackets or not.
func (t *translator) escape(inClass bool) error {
	if t.i+1 >= len(t.src) {
		return t.fail("a backslash at the end")
	}
	set := func(s, negated string) {
		switch {
		case inClass && negated != "":
			t.emit(negated)
		case inClass:
			t.emit(s)
		case negated != "":
			t.emit("[^" + s + "]")
		default:
			t.emit("[" + s + "]")
		}
	}
	c := t.src[t.i+1]
	t.i += 2
	switch c {
	case 'd', 'D', 'w', 'W':
		t.emit(`\` + string(c))
	case 's':
		set(spaceSet, "")
	case 'S':
		set(spaceSet, notSpaceSet)
	case 'h':
		set(horizontalSet, "")
	case 'v':
		set(lineSet, "")
	case 't', 'n', 'r', 'f', 'a':
		t.emit(`\` + string(c))
	case 'e':
		t.emit(`\x1B`)
	case 'p', 'P':
		return t.property(c == 'P', inClass)
	case 'Q':
		text, _, closed := strings.Cut(t.src[t.i:], `\E`)
		t.i += len(text)
		if closed {
			t.i += 2
		}
		for _, r := range text {
			t.mark()
			t.literal(string(r))
		}
	case '0', 'x', 'u', 'c':
		return t.code(c)
	case 'b', 'B', 'A', 'z', 'Z', 'R', 'G', 'k', 'X', 'N', 'H', 'V', 'E',
		'1', '2', '3', '4', '5', '6', '7', '8', '9':
		if inClass {
			return t.fail("'\\%c' cannot stand in brackets", c)
		}
		return t.special(c)
	default:
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return t.fail("unknown escape '\\%c'", c)
		}
		r, w := utf8.DecodeRuneInString(t.src[t.i-1:])
		t.i += w - 1
		t.literal(string(r))
	}
	return nil
}

// special handles the escapes that have no place in brackets.
func (t *translator) special(c byte) error {
	switch c {
	case 'b', 'B', 'A', 'z':
		t.atom = -1
		t.emit(`\` + string(c))
	case 'Z':
		t.atom = -1
		t.emit(`(?m:$)`)
	case 'R':
		t.emit(`(?:\r\n|[` + lineSet + `])`)
	case 'H':
		t.emit(`[^` + horizontalSet + `]`)
	case 'V':
		t.emit(`[^` + lineSet + `]`)
	case 'E':
	case 'G':
		t.back = true
		t.emit(`\G`)
	case 'k':
		t.back = true
		end := strings.IndexByte(t.src[t.i:], '>')
		if end < 2 || t.src[t.i] != '<' {
			return t.fail("bad back reference")
		}
		n, ok := t.names[t.src[t.i+1:t.i+end]]
		if !ok {
			return t.fail("unknown group in a back reference")
		}
		t.emit(`(?:\` + strconv.Itoa(n) + `)`)
		t.i += end + 1
	case 'X', 'N':
		return t.fail("'\\%c' is not supported yet", c)
	default:
		t.back = true
		t.emit(`\` + string(c))
	}
	return nil
}

// code handles a character given by its number.
func (t *translator) code(c byte) error {
	rest := t.src[t.i:]
	digits, base := 0, 16
	switch {
	case c == 'c' && rest != "":
		t.rune(rune(rest[0] ^ 64))
		t.i++
		return nil
	case c == 'x' && strings.HasPrefix(rest, "{"):
		end := strings.IndexByte(rest, '}')
		if end < 2 {
			return t.fail("bad character code")
		}
		v, err := strconv.ParseUint(rest[1:end], 16, 32)
		if err != nil || v > utf8.MaxRune {
			return t.fail("bad character code")
		}
		t.rune(rune(v))
		t.i += end + 1
		return nil
	case c == 'x':
		digits = 2
	case c == 'u':
		digits = 4
	case c == '0':
		base = 8
		for digits < 3 && digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '7' {
			digits++
		}
		if digits == 3 && rest[0] > '3' {
			digits = 2
		}
	}
	if digits == 0 || digits > len(rest) {
		return t.fail("bad character code")
	}
	v, err := strconv.ParseUint(rest[:digits], base, 32)
	if err != nil {
		return t.fail("bad character code")
	}
	t.rune(rune(v))
	t.i += digits
	return nil
}

// property handles \p{Name} and \pL.
func (t *translator) property(negate, inClass bool) error {
	rest := t.src[t.i:]
	name, n := "", 0
	if strings.HasPrefix(rest, "{") {
		end := strings.IndexByte(rest, '}')
		if end < 2 {
			return t.fail("bad property")
		}
		name, n = rest[1:end], end+1
	} else if rest != "" {
		name, n = rest[:1], 1
	}
	t.i += n
	if p, ok := posix[name]; ok {
		if name == "Space" {
			p = spaceSet
			if negate {
				p = notSpaceSet
			}
		} else if negate {
			p = "[:^" + p[2:]
		}
		if !inClass {
			p = "[" + p + "]"
		}
		t.emit(p)
		return nil
	}
	if u, ok := unicodeNames[name]; ok {
		name = u
	}
	name = strings.TrimPrefix(name, "Is")
	t.emit(map[bool]string{true: `\P{`, false: `\p{`}[negate] + name + "}")
	return nil
}

// class handles [...], with nested unions.
func (t *translator) class() error {
	t.i++
	t.emit("[")
	if t.i < len(t.src) && t.src[t.i] == '^' {
		t.emit("^")
		t.i++
	}
	first := true
	depth := 0
	for ; ; first = false {
		if t.i >= len(t.src) {
			return t.fail("'[' without ']'")
		}
		c := t.src[t.i]
		switch {
		case c == ']' && !first:
			t.i++
			if depth == 0 {
				t.emit("]")
				return nil
			}
			depth--
		case c == '[':
			if strings.HasPrefix(t.src[t.i:], "[^") {
				return t.fail("a negated set within a set is not supported yet")
			}
			depth++
			t.i++
		case c == '&' && strings.HasPrefix(t.src[t.i:], "&&"):
			return t.fail("the intersection of sets (&&) is not supported yet")
		case c == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		case c == '-':
			// A range, unless it stands at an edge.
			if first || strings.HasPrefix(t.src[t.i+1:], "]") {
				t.emit(`\-`)
			} else {
				t.emit("-")
			}
			t.i++
		default:
			_, w := utf8.DecodeRuneInString(t.src[t.i:])
			t.literal(t.src[t.i : t.i+w])
			t.i += w
		}
	}
}
