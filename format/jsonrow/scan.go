package jsonrow

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is how deep brackets may nest in a value that is skipped or copied as text.
const maxDepth = 1000

// Bytes repeated over a word, for looking at eight bytes at once.
const (
	ones    = 0x0101010101010101
	highs   = 0x8080808080808080
	spaces  = 0x2020202020202020
	quotes  = 0x2222222222222222
	slashes = 0x5c5c5c5c5c5c5c5c
)

// special marks the bytes that a string cannot be copied over blindly: the closing quote, the
// backslash, control characters and everything outside ASCII.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < 0x20 || c >= 0x80 || c == '"' || c == '\\'
	}
	return t
}()

func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// plain returns the position of the first special byte of data from i on, or len(data).
func plain(data []byte, i int) int {
	for ; i+16 <= len(data); i += 16 {
		x, y := load(data, i), load(data, i+8)
		m := ((x ^ quotes - ones) | (x ^ slashes - ones) | (x - spaces) | x) & highs
		n := ((y ^ quotes - ones) | (y ^ slashes - ones) | (y - spaces) | y) & highs
		if m|n != 0 {
			if m != 0 {
				return i + bits.TrailingZeros64(m)>>3
			}
			return i + 8 + bits.TrailingZeros64(n)>>3
		}
	}
	for ; i+8 <= len(data); i += 8 {
		x := load(data, i)
		// Each term has the top bit of a byte set where that byte is special. A borrow may
		// set bits above a special byte, never below, so the lowest one is right.
		m := ((x ^ quotes - ones) | (x ^ slashes - ones) | (x - spaces) | x) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(data) && !special[data[i]] {
		i++
	}
	return i
}

// plainText returns the length of the start of s that a JSON string can hold as it is. wide makes
// characters beyond the basic plane no part of that.
func plainText(s []byte, wide bool) int {
	i := plain(s, 0)
	for i < len(s) && s[i] >= utf8.RuneSelf {
		c, n := utf8.DecodeRune(s[i:])
		if c == utf8.RuneError && n <= 1 || wide && n == 4 {
			return i
		}
		i = plain(s, i+n)
	}
	return i
}

// str finds the end of the string whose first byte is at i: the position of the closing quote, or
// -1. esc reports backslashes in it.
func (r *Reader) str(i int) (end int, esc bool) {
	data := r.data
	for {
		i = plain(data, i)
		if i >= len(data) {
			return r.fail(i, "the string has no end"), false
		}
		switch c := data[i]; {
		case c == '"':
			return i, esc
		case c == '\\':
			n := escapeLen(data[i:])
			if n == 0 {
				return r.fail(i, "the escape is not one of JSON's"), false
			}
			i, esc = i+n, true
		case c < ' ':
			if c == '\n' && !r.framed {
				return -1, false
			}
			i++
		default:
			for i < len(data) && data[i] >= utf8.RuneSelf {
				c, n := utf8.DecodeRune(data[i:])
				if c == utf8.RuneError && n <= 1 {
					return r.fail(i, "the string is not UTF-8"), false
				}
				i += n
			}
		}
	}
}

// escapeLen returns the length of the escape sequence that b starts with, 0 if it is wrong.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && hex4(b[2:]) >= 0 {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) rune {
	var v rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return v
}

// unescape appends the string s, which str accepted, to dst with its escapes resolved. Half a
// surrogate pair becomes a question mark, as when Java encodes one.
func unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c != '\\' {
			j := i + 1
			for j < len(s) && s[j] != '\\' {
				j++
			}
			dst = append(dst, s[i:j]...)
			i = j
			continue
		}
		i += 2
		switch s[i-1] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			v := hex4(s[i:])
			i += 4
			if v>>10 == 0xd800>>10 && i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
				if lo := hex4(s[i+2:]); lo>>10 == 0xdc00>>10 {
					v = 0x10000 + (v&0x3ff)<<10 | lo&0x3ff
					i += 6
				}
			}
			if v>>11 == 0xd800>>11 {
				v = '?'
			}
			dst = utf8.AppendRune(dst, v)
		default:
			dst = append(dst, s[i-1])
		}
	}
	return dst
}

// number finds the end of the number at i; frac reports a fraction or an exponent.
func (r *Reader) number(i int) (end int, frac bool) {
	data := r.data
	start := i
	if data[i] == '-' {
		i++
	}
	first := i
	i = digits(data, i)
	switch {
	case i == first:
		return r.fail(start, "a value was expected"), false
	case data[first] == '0' && i > first+1:
		return r.fail(start, "the number has leading zeros"), false
	}
	if i < len(data) && data[i] == '.' {
		frac = true
		first = i + 1
		if i = digits(data, first); i == first {
			return r.fail(start, "the number has no digit after its point"), false
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		frac = true
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		first = i
		if i = digits(data, i); i == first {
			return r.fail(start, "the number's exponent has no digit"), false
		}
	}
	if i < len(data) && !ends[data[i]] {
		return r.fail(i, "the number is followed by something else"), false
	}
	return i, frac
}

// ends marks the bytes that may follow a number or literal.
var ends = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ']': true, '}': true}

func digits(data []byte, i int) int {
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i
}

// literal finds the end of true, false or null at i.
func (r *Reader) literal(i int) int {
	word := "null"
	switch r.data[i] {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	end := i + len(word)
	if end > len(r.data) || string(r.data[i:end]) != word ||
		end < len(r.data) && !ends[r.data[end]] {
		return r.fail(i, "a value was expected")
	}
	return end
}

// ws skips white space. At a newline that may end the record it returns -1.
func (r *Reader) ws(i int) int {
	data := r.data
	for i < len(data) && data[i] <= ' ' {
		switch data[i] {
		case '\n':
			if !r.framed {
				return -1
			}
		case ' ', '\t', '\r':
		default:
			return r.fail(i, "the character is not allowed between values")
		}
		i++
	}
	if i >= len(data) {
		return r.fail(i, "the record ends too early")
	}
	return i
}

// scalar returns the end of the string, number or literal at i, or -1.
func (r *Reader) scalar(i int) int {
	switch c := r.data[i]; {
	case c == '"':
		if i, _ = r.str(i + 1); i < 0 {
			return -1
		}
		return i + 1
	case c == '-' || c-'0' <= 9:
		i, _ = r.number(i)
		return i
	}
	return r.literal(i)
}

// Skip returns the end of the value at i, checking that it is JSON, or -1.
func (r *Reader) Skip(i int) int {
	data := r.data
	if i = r.start(i); i < 0 {
		return -1
	}
	if c := data[i]; c != '{' && c != '[' {
		return r.scalar(i)
	}
	var objects [(maxDepth + 63) / 64]uint64 // bit d: level d is an object
	depth := 0
	value := true // a value comes next, rather than what follows one
	for {
		if i = r.ws(i); i < 0 {
			return -1
		}
		if value {
			c := data[i]
			if c != '{' && c != '[' {
				if i = r.scalar(i); i < 0 {
					return -1
				}
				value = false
				continue
			}
			if depth == maxDepth {
				return r.fail(i, "brackets nest too deep")
			}
			objects[depth>>6] &^= 1 << (depth & 63)
			if c == '{' {
				objects[depth>>6] |= 1 << (depth & 63)
			}
			depth++
			if i = r.ws(i + 1); i < 0 {
				return -1
			}
			if data[i] == c+2 { // ']' and '}' are two above their openers
				i++
				if depth--; depth == 0 {
					return i
				}
				value = false
			} else if c == '{' {
				if i = r.name(i); i < 0 {
					return -1
				}
			}
			continue
		}
		object := objects[(depth-1)>>6]&(1<<((depth-1)&63)) != 0
		switch c := data[i]; {
		case c == ',':
			i++
			if object {
				if i = r.ws(i); i < 0 {
					return -1
				}
				if i = r.name(i); i < 0 {
					return -1
				}
			}
			value = true
		case c == '}' && object || c == ']' && !object:
			i++
			if depth--; depth == 0 {
				return i
			}
		default:
			return r.fail(i, "a comma or the closing bracket was expected")
		}
	}
}

// name skips the member name at i and its colon.
func (r *Reader) name(i int) int {
	if r.data[i] != '"' {
		return r.fail(i, "a name in quotes was expected")
	}
	end, _ := r.str(i + 1)
	if end < 0 {
		return -1
	}
	return r.colon(end + 1)
}

// colon returns where the value behind the colon that should be at i begins.
func (r *Reader) colon(i int) int {
	if i = r.ws(i); i < 0 {
		return -1
	}
	if r.data[i] != ':' {
		return r.fail(i, "a colon was expected")
	}
	return r.ws(i + 1)
}
