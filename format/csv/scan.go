package csv

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	ones   = 0x0101010101010101
	highs  = 0x8080808080808080
	spaces = 0x2020202020202020
)

// scanner finds the values of a record.
type scanner struct {
	*syntax
	// plain are the bytes that a value without quotes cannot be passed over, besides control
	// characters and non-ASCII: the first of the delimiter, and the escape character. inside
	// are those of a value in quotes: the quote and the escape character.
	plain, inside stops
	// single says that the delimiter is one byte, first; opener is the quote, or a byte that
	// text never has.
	single        bool
	first, opener byte
	text          []byte // a value that is not in the data as such
}

// stops are two bytes to stop at, each repeated over a word.
type stops struct {
	a, b  uint64
	table [256]bool
}

func stopsAt(a, b int) stops {
	if b < 0 {
		b = a
	}
	s := stops{a: ones * uint64(a), b: ones * uint64(b)}
	for c := range s.table {
		s.table[c] = c < ' ' || c >= utf8.RuneSelf || c == a || c == b
	}
	return s
}

func newScanner(s *syntax) scanner {
	sc := scanner{syntax: s, first: s.delimiter[0], single: len(s.delimiter) == 1, opener: 0xff}
	if sc.plain = stopsAt(int(sc.first), s.escape); sc.first >= utf8.RuneSelf {
		sc.plain = stopsAt('\n', s.escape) // every byte like the delimiter's is looked at
	}
	if s.quote >= 0 {
		sc.opener = byte(s.quote)
		sc.inside = stopsAt(s.quote, s.escape)
	}
	return sc
}

// value is where a value lies, and next is where the next value or record starts.
type value struct {
	start, end, next int
	flags            flags
	err              problem
}

type flags uint8

const (
	// inText says that the value is in scanner.text instead, since quotes or escapes had to be
	// taken out of it.
	inText flags = 1 << iota
	quoted
	last // the record ends here
	open // the data ended before the value did; what follows may belong to it
)

func (v value) is(f flags) bool { return v.flags&f != 0 }

// problem is what is wrong with a value.
type problem uint8

const (
	fine problem = iota
	notUTF8
	noClosingQuote
	escapeAtEnd
	behindQuote
)

var problems = [...]string{
	notUTF8:        "the text is not UTF-8",
	noClosingQuote: "a quoted value has no closing quote",
	escapeAtEnd:    "the escape character is the last one",
	behindQuote:    "a closing quote is followed by something else than a delimiter",
}

// usual reads the value at i if it is spelled without anything special; ok is false otherwise.
func (s *scanner) usual(data []byte, i int) (v value, ok bool) {
	end := i
	if i < len(data) && data[i] == s.opener {
		i++
		if end = s.inside.pass(data, i); end+1 >= len(data) || data[end] != s.opener {
			return v, false
		}
		v = value{start: i, end: end, flags: quoted}
		end++
	} else {
		if end = s.plain.pass(data, i); end == len(data) {
			return v, false
		}
		v = value{start: i, end: end}
	}
	v.next = end + 1
	if data[end] == '\n' {
		v.flags |= last
		return v, true
	}
	return v, data[end] == s.first && s.single
}

// next reads the value at i.
func (s *scanner) next(data []byte, i int) value {
	if s.trim {
		for i < len(data) && (data[i] == ' ' || data[i] == '\t') && !s.delimits(data, i) {
			i++
		}
	}
	if i < len(data) && int(data[i]) == s.quote {
		return s.quotedValue(data, i+1)
	}
	v := s.plainValue(data, i)
	if s.trim && !v.is(inText) {
		for v.end > v.start && data[v.end-1] <= ' ' {
			v.end--
		}
	}
	return v
}

func (s *scanner) delimits(data []byte, i int) bool {
	return data[i] == s.delimiter[0] && bytes.HasPrefix(data[i:], s.delimiter)
}

// pass returns the first position from i on that needs a look.
func (s *stops) pass(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		// The lowest marked byte is right; borrows may mark bytes above it.
		m := ((x ^ s.a - ones) | (x ^ s.b - ones) | (x - spaces) | x) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(data) && !s.table[data[i]] {
		i++
	}
	return i
}

// plainValue reads a value without quotes, up to the delimiter or the end of the line.
func (s *scanner) plainValue(data []byte, i int) value {
	v := value{start: i}
	from := i // what lies before it is in text
	for {
		i = s.plain.pass(data, i)
		if i >= len(data) {
			v.next = i
			v.flags |= last | open // no line break, or an escaped one
			break
		}
		c := data[i]
		if s.delimits(data, i) {
			v.next = i + len(s.delimiter)
			break
		}
		if c == '\n' || c == '\r' {
			v.next = lineEnd(data, i)
			v.flags |= last
			break
		}
		switch {
		case int(c) == s.escape:
			if !v.is(inText) {
				v.flags |= inText
				s.text = s.text[:0]
			}
			s.text = append(s.text, data[from:i]...)
			if i+1 == len(data) {
				return v.opened(i+1, escapeAtEnd)
			}
			if i++; data[i] < utf8.RuneSelf {
				s.text = append(s.text, unescaped(data[i]))
				i++
			}
			from = i
		case c >= utf8.RuneSelf:
			if i = s.rune(data, i, &v); v.err != fine {
				return v
			}
		default:
			i++
		}
	}
	v.end = i
	if v.is(inText) {
		s.text = append(s.text, data[from:i]...)
	}
	return v
}

// opened returns v as one that the data ends in.
func (v value) opened(at int, p problem) value {
	v.next, v.err = at, p
	v.flags |= open
	return v
}

// rune passes the character at i, which is not ASCII.
func (s *scanner) rune(data []byte, i int, v *value) int {
	r, n := utf8.DecodeRune(data[i:])
	if r == utf8.RuneError && n <= 1 {
		v.err, v.next = notUTF8, i
		return i
	}
	return i + n
}

// lineEnd returns the position behind the line break at i: LF, CR or both.
func lineEnd(data []byte, i int) int {
	if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
		return i + 2
	}
	return i + 1
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case '0':
		return 0
	}
	return c
}

// quotedValue reads a value whose first byte behind the opening quote is at i.
func (s *scanner) quotedValue(data []byte, i int) value {
	v := value{start: i, flags: quoted}
	from := i
	for {
		if i = s.inside.pass(data, i); i >= len(data) {
			return v.opened(i, noClosingQuote)
		}
		switch c := data[i]; {
		case c >= utf8.RuneSelf:
			if i = s.rune(data, i, &v); v.err != fine {
				return v
			}
			continue
		case int(c) != s.quote && int(c) != s.escape:
			i++ // a newline, for example
			continue
		case int(c) == s.quote:
			if i+1 >= len(data) || int(data[i+1]) != s.quote {
				return s.closed(data, v, from, i)
			}
		case i+1 == len(data):
			return v.opened(i+1, escapeAtEnd)
		}
		if !v.is(inText) {
			v.flags |= inText
			s.text = s.text[:0]
		}
		s.text = append(s.text, data[from:i]...)
		escaped := int(data[i]) == s.escape
		if i++; data[i] < utf8.RuneSelf {
			c := data[i]
			if escaped {
				c = unescaped(c)
			}
			s.text = append(s.text, c)
			i++
		}
		from = i
	}
}

// closed ends the quoted value whose closing quote is at i.
func (s *scanner) closed(data []byte, v value, from, i int) value {
	v.end = i
	if v.is(inText) {
		s.text = append(s.text, data[from:i]...)
	}
	for i++; i < len(data); i++ {
		switch c := data[i]; {
		case s.delimits(data, i):
			v.next = i + len(s.delimiter)
			return v
		case c == '\n' || c == '\r':
			v.next = lineEnd(data, i)
			v.flags |= last
			return v
		case c > ' ':
			v.err, v.next = behindQuote, i
			return v
		}
	}
	v.next = i
	v.flags |= last
	return v
}

// skip returns the end of the record whose rest starts at i, where a value starts.
func (s *scanner) skip(data []byte, i int) int {
	for {
		v := s.next(data, i)
		switch {
		case v.err != fine:
			return resume(data, v)
		case v.is(last):
			return v.next
		}
		i = v.next
	}
}

// resume returns where the record behind one with the bad value v starts: behind the line that the
// fault is in; where no closing quote is left, behind the line in which the value starts. Whoever
// looks for records has to go on at the same place, Complete too.
func resume(data []byte, v value) int {
	if v.is(open) {
		return lineAfter(data, v.start)
	}
	return lineAfter(data, v.next)
}

// lineAfter returns where the line behind the one at i starts.
func lineAfter(data []byte, i int) int {
	n := bytes.IndexAny(data[i:], "\r\n")
	if n < 0 {
		return len(data)
	}
	return lineEnd(data, i+n)
}

// comment returns where the record that starts at i or behind it begins, where comments are allowed:
// white space, empty lines and lines that start with # come before it.
func (s *scanner) comment(data []byte, i int) int {
	for i < len(data) {
		switch c := data[i]; {
		case c == '#':
			i = lineAfter(data, i)
		case c <= ' ':
			i++
		default:
			return i
		}
	}
	return i
}

// Complete returns the length of the whole records that data starts with.
func (s *scanner) Complete(data []byte) int {
	end := bytes.LastIndexByte(data, '\n') + 1
	if s.escape < 0 && (s.quote < 0 || bytes.IndexByte(data[:end], byte(s.quote)) < 0) {
		return end
	}
	at := 0
	if bytes.HasPrefix(data, bom) {
		at = len(bom) // data is as good as always the start of a file then
	}
	for at < end {
		if s.comments {
			if at = s.comment(data[:end], at); at == end {
				break
			}
		}
		i := at
		for {
			v := s.next(data[:end], i)
			if v.is(open) {
				return at
			}
			if v.err != fine {
				i = resume(data[:end], v)
				break
			}
			if i = v.next; v.is(last) {
				break
			}
		}
		at = i
	}
	return at
}
