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
	// stopA and stopB are the bytes besides control characters and non-ASCII that a value
	// without quotes cannot be passed over, in each byte of a word: the first of the
	// delimiter, and the escape character or the delimiter again.
	stopA, stopB uint64
	stop         [256]bool
	text         []byte // a value that is not in the data as such
}

func newScanner(s *syntax) scanner {
	sc := scanner{syntax: s, stopA: ones * uint64(s.delimiter[0])}
	sc.stopB = sc.stopA
	if s.escape >= 0 {
		sc.stopB = ones * uint64(s.escape)
		sc.stop[s.escape] = true
	}
	for c := range sc.stop {
		sc.stop[c] = sc.stop[c] || c < ' ' || c >= utf8.RuneSelf || c == int(s.delimiter[0])
	}
	return sc
}

// value is where a value lies and what follows it.
type value struct {
	start, end int
	// inText says that the value is in scanner.text instead, since quotes or escapes had to be
	// taken out of it.
	inText bool
	quoted bool
	// next is where the next value or record starts; last says that the record ends here.
	next int
	last bool
	// open says that the data ended before the value did.
	open bool
	err  string
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
	if s.trim && !v.inText {
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
func (s *scanner) pass(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		a, b := x^s.stopA, x^s.stopB
		// The lowest marked byte is right; borrows may mark bytes above it.
		m := ((a-ones)&^a | (b-ones)&^b | (x - spaces) | x) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(data) && !s.stop[data[i]] {
		i++
	}
	return i
}

// plainValue reads a value without quotes, up to the delimiter or the end of the line.
func (s *scanner) plainValue(data []byte, i int) value {
	v := value{start: i}
	from := i // what lies before it is in text
	for {
		i = s.pass(data, i)
		if i >= len(data) {
			v.next, v.last = i, true
			break
		}
		c := data[i]
		if s.delimits(data, i) {
			v.next = i + len(s.delimiter)
			break
		}
		if c == '\n' || c == '\r' {
			v.next, v.last = lineEnd(data, i), true
			break
		}
		switch {
		case int(c) == s.escape:
			if !v.inText {
				v.inText, s.text = true, s.text[:0]
			}
			s.text = append(s.text, data[from:i]...)
			if i+1 == len(data) {
				v.open, v.err, v.next = true, "the escape character is the last one", i+1
				return v
			}
			s.text = append(s.text, unescaped(data[i+1]))
			i += 2
			from = i
		case c >= utf8.RuneSelf:
			if i = s.rune(data, i, &v); v.err != "" {
				return v
			}
		default:
			i++
		}
	}
	v.end = i
	if v.inText {
		s.text = append(s.text, data[from:i]...)
	}
	return v
}

// rune passes the character at i, which is not ASCII.
func (s *scanner) rune(data []byte, i int, v *value) int {
	r, n := utf8.DecodeRune(data[i:])
	if r == utf8.RuneError && n <= 1 {
		v.err, v.next = "the text is not UTF-8", i
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
	v := value{start: i, quoted: true}
	from := i
	for {
		for i < len(data) && int(data[i]) != s.quote && int(data[i]) != s.escape &&
			data[i] < utf8.RuneSelf {
			i++
		}
		if i >= len(data) {
			v.open, v.err, v.next = true, "a quoted value has no closing quote", i
			return v
		}
		switch c := data[i]; {
		case c >= utf8.RuneSelf:
			if i = s.rune(data, i, &v); v.err != "" {
				return v
			}
			continue
		case int(c) == s.quote:
			if i+1 >= len(data) || int(data[i+1]) != s.quote {
				return s.closed(data, v, from, i)
			}
		case i+1 == len(data):
			v.open, v.err, v.next = true, "the escape character is the last one", i+1
			return v
		}
		if !v.inText {
			v.inText, s.text = true, s.text[:0]
		}
		s.text = append(s.text, data[from:i]...)
		c := data[i+1]
		if int(data[i]) == s.escape {
			c = unescaped(c)
		}
		s.text = append(s.text, c)
		i += 2
		from = i
	}
}

// closed ends the quoted value whose closing quote is at i.
func (s *scanner) closed(data []byte, v value, from, i int) value {
	v.end = i
	if v.inText {
		s.text = append(s.text, data[from:i]...)
	}
	for i++; i < len(data); i++ {
		switch c := data[i]; {
		case s.delimits(data, i):
			v.next = i + len(s.delimiter)
			return v
		case c == '\n' || c == '\r':
			v.next, v.last = lineEnd(data, i), true
			return v
		case c > ' ':
			v.err = "a closing quote is followed by something else than a delimiter"
			v.next = i
			return v
		}
	}
	v.next, v.last = i, true
	return v
}

// skip returns the end of the record whose rest starts at i, where a value starts. Where no
// closing quote is left, the record ends with its line.
func (s *scanner) skip(data []byte, i int) int {
	for {
		v := s.next(data, i)
		switch {
		case v.err != "":
			return lineAfter(data, v.start)
		case v.last:
			return v.next
		}
		i = v.next
	}
}

// lineAfter returns where the line behind the one at i starts.
func lineAfter(data []byte, i int) int {
	n := bytes.IndexAny(data[i:], "\r\n")
	if n < 0 {
		return len(data)
	}
	return lineEnd(data, i+n)
}

// comment returns the end of the comment line at i, or i if there is none.
func (s *scanner) comment(data []byte, i int) int {
	for k := i; k < len(data); k++ {
		switch data[k] {
		case ' ', '\t':
		case '#':
			return lineAfter(data, k)
		default:
			return i
		}
	}
	return i
}

// Complete returns the length of the whole records that data starts with.
func (s *scanner) Complete(data []byte) int {
	last := bytes.LastIndexByte(data, '\n') + 1
	if s.escape < 0 && (s.quote < 0 || bytes.IndexByte(data[:last], byte(s.quote)) < 0) {
		return last
	}
	at := 0
	for at < last {
		if s.comments {
			if end := s.comment(data[:last], at); end > at {
				at = end
				continue
			}
		}
		i := at
		for {
			v := s.next(data[:last], i)
			if v.open {
				return at
			}
			i = v.next
			if v.err != "" {
				i = lineAfter(data[:last], i)
			}
			if v.err != "" || v.last {
				break
			}
		}
		at = i
	}
	return at
}
