// Package jsonpath looks values up in JSON texts by path without building trees: it scans the text
// once, checks it, and returns the place of what it found. The paths are those of Flink's
// JSON_VALUE, JSON_QUERY and JSON_EXISTS.
//
// Texts are read as Flink's JSON library reads them: what follows the first value is ignored, of
// two members with one name the later counts.
package jsonpath

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// maxDepth bounds the nesting of arrays and objects.
const maxDepth = 1000

// scanner walks one text. pos methods return the position behind what they read, or -1 where the
// text is not JSON.
type scanner struct {
	s     []byte
	depth int
}

func (c *scanner) space(i int) int {
	for i < len(c.s) && (c.s[i] == ' ' || c.s[i] == '\n' || c.s[i] == '\t' || c.s[i] == '\r') {
		i++
	}
	return i
}

// skip checks the value that starts at s[i] and returns where it ends.
func (c *scanner) skip(i int) int {
	if i >= len(c.s) {
		return -1
	}
	switch b := c.s[i]; {
	case b == '"':
		end, _ := c.str(i)
		return end
	case b == '{':
		return c.skipObject(i)
	case b == '[':
		return c.skipArray(i)
	case b == '-' || b >= '0' && b <= '9':
		return c.num(i)
	case b == 't':
		return c.word(i, "true")
	case b == 'f':
		return c.word(i, "false")
	case b == 'n':
		return c.word(i, "null")
	}
	return -1
}

func (c *scanner) word(i int, w string) int {
	end := i + len(w)
	if end > len(c.s) || string(c.s[i:end]) != w {
		return -1
	}
	return c.boundary(end)
}

// boundary checks that a word or number ends where it should.
func (c *scanner) boundary(end int) int {
	if end < len(c.s) {
		switch b := c.s[end]; {
		case b >= '0' && b <= '9', b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b == '_', b == '.',
			b == '+', b == '-', b == '"':
			return -1
		}
	}
	return end
}

func (c *scanner) num(i int) int {
	s := c.s
	if s[i] == '-' {
		i++
	}
	from := i
	if i = digits(s, i); i == from || s[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(s) && s[i] == '.' {
		from = i + 1
		if i = digits(s, from); i == from {
			return -1
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		from = i
		if i = digits(s, i); i == from {
			return -1
		}
	}
	return c.boundary(i)
}

func digits(s []byte, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// str checks the string whose opening quote is s[i]; escaped says that it holds a backslash.
func (c *scanner) str(i int) (end int, escaped bool) {
	s := c.s
	i++
	for {
		// Eight bytes at a time up to a quote, a backslash or a control character.
		for i+8 <= len(s) {
			if m := special(binary.LittleEndian.Uint64(s[i:])); m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= 0x20 {
			i++
		}
		if i >= len(s) || s[i] < 0x20 {
			return -1, escaped
		}
		switch s[i] {
		case '"':
			return i + 1, escaped
		case '\\':
			escaped = true
			if i+1 >= len(s) {
				return -1, escaped
			}
			switch s[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if i+6 > len(s) || hex4(s[i+2:i+6]) < 0 {
					return -1, escaped
				}
				i += 6
			default:
				return -1, escaped
			}
		}
	}
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has its lowest bit set in the first byte of w that is a quote, a backslash or below 0x20,
// and is 0 where none is.
func special(w uint64) uint64 {
	q, b := w^(lows*'"'), w^(lows*'\\')
	return ((q-lows)&^q | (b-lows)&^b | (w-lows*0x20)&^w) & highs
}

func hex4(s []byte) rune {
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return r
}

// skipObject and skipArray are object and array without anybody to tell.

func (c *scanner) skipObject(i int) int {
	if c.depth++; c.depth > maxDepth {
		return -1
	}
	if i = c.space(i + 1); i < len(c.s) && c.s[i] == '}' {
		c.depth--
		return i + 1
	}
	for i < len(c.s) && c.s[i] == '"' {
		end, _ := c.str(i)
		if end < 0 {
			return -1
		}
		if end >= len(c.s) || c.s[end] != ':' {
			if end = c.space(end); end >= len(c.s) || c.s[end] != ':' {
				return -1
			}
		}
		if i = c.skip(c.space(end + 1)); i < 0 {
			return -1
		}
		if i = c.space(i); i >= len(c.s) {
			return -1
		}
		if c.s[i] == '}' {
			c.depth--
			return i + 1
		}
		if c.s[i] != ',' {
			return -1
		}
		i = c.space(i + 1)
	}
	return -1
}

func (c *scanner) skipArray(i int) int {
	if c.depth++; c.depth > maxDepth {
		return -1
	}
	if i = c.space(i + 1); i < len(c.s) && c.s[i] == ']' {
		c.depth--
		return i + 1
	}
	for {
		if i = c.skip(i); i < 0 {
			return -1
		}
		if i = c.space(i); i >= len(c.s) {
			return -1
		}
		if c.s[i] == ']' {
			c.depth--
			return i + 1
		}
		if c.s[i] != ',' {
			return -1
		}
		i = c.space(i + 1)
	}
}

// member is called for each member of an object: the key with its quotes, whether it has escapes,
// and where the value starts. It reads the value and returns where it ends.
type member func(key []byte, escaped bool, value int) int

// object walks the object at s[i].
func (c *scanner) object(i int, each member) int {
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
		if i = each(c.s[from:end], escaped, i); i < 0 {
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

// array walks the array at s[i]. each reads element n, which starts at value, and returns where it
// ends.
func (c *scanner) array(i int, each func(n, value int) int) int {
	if c.depth++; c.depth > maxDepth {
		return -1
	}
	i = c.space(i + 1)
	if i < len(c.s) && c.s[i] == ']' {
		c.depth--
		return i + 1
	}
	for n := 0; ; n++ {
		if i = each(n, i); i < 0 {
			return -1
		}
		if i = c.space(i); i >= len(c.s) {
			return -1
		}
		switch c.s[i] {
		case ']':
			c.depth--
			return i + 1
		case ',':
			i = c.space(i + 1)
		default:
			return -1
		}
	}
}

// Kind is what a JSON value is.
type Kind uint8

// The kinds of JSON values.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// IsScalar reports anything but an array or an object.
func (k Kind) IsScalar() bool { return k == Null || k == Bool || k == Number || k == String }

// KindOf tells the kind of a value by its first byte.
func KindOf(raw []byte) Kind {
	if len(raw) == 0 {
		return Invalid
	}
	switch raw[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// Check reads a text and tells what it is; Invalid where it is not JSON.
func Check(s []byte) Kind {
	c := scanner{s: s}
	i := c.space(0)
	if end := c.skip(i); end < 0 {
		return Invalid
	}
	return KindOf(s[i:])
}

// Elements calls f with every element of a valid array.
func Elements(raw []byte, f func(element []byte)) {
	c := scanner{s: raw}
	c.array(0, func(_, at int) int {
		end := c.skip(at)
		f(raw[at:end])
		return end
	})
}

// keyIs reports whether a key with its quotes is name.
func keyIs(key []byte, escaped bool, name string) bool {
	if !escaped {
		return len(key) == len(name)+2 && string(key[1:len(key)-1]) == name
	}
	return bytes.Equal(AppendText(nil, key), []byte(name))
}
