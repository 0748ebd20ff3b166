package jsonrow

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
)

// compact appends the valid JSON src as Jackson prints a tree: no white space, strings with as few
// escapes as possible, numbers by value. Members that occur twice stay twice.
func (r *Reader) compact(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '"':
			end := i + 1
			for src[end] != '"' {
				if src[end] == '\\' {
					end++
				}
				end++
			}
			r.text = unescape(r.text[:0], src[i+1:end])
			dst = appendString(dst, r.text, false)
			i = end + 1
		case c == '-' || c-'0' <= 9:
			end := i + 1
			for end < len(src) && !ends[src[end]] {
				end++
			}
			dst = r.appendNumber(dst, src[i:end], isFraction(src[i:end]), true)
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// appendNumber appends the JSON number tok by value: whole numbers with all their digits, others
// as a double, or as a decimal without trailing zeros where the row type has a DECIMAL. inText
// puts what is too large in quotes.
func (r *Reader) appendNumber(dst, tok []byte, frac, inText bool) []byte {
	if !frac {
		if string(tok) == "-0" {
			tok = tok[1:]
		}
		return append(dst, tok...)
	}
	f, _ := spell.ParseFloat(tok, 64)
	if math.IsInf(f, 0) && inText {
		dst = append(dst, '"')
		return append(types.AppendDouble(dst, f), '"')
	}
	if !r.exact || math.IsInf(f, 0) {
		return types.AppendDouble(dst, f)
	}
	return appendExact(dst, tok)
}

// appendExact appends the number tok in the form of Java's BigDecimal without trailing zeros.
func appendExact(dst, tok []byte) []byte {
	var room [64]byte
	ds, scale, exp := room[:0], 0, 0
	neg := tok[0] == '-'
	point := false
	for i, c := range tok {
		if c-'0' <= 9 {
			if point {
				scale++
			}
			if c != '0' || len(ds) > 0 {
				ds = append(ds, c)
			}
		} else if c == '.' {
			point = true
		} else if c|0x20 == 'e' {
			exp, _ = strconv.Atoi(string(tok[i+1:]))
			break
		}
	}
	return spell.AppendScaled(dst, ds, scale-exp, neg)
}

const upperHex = "0123456789ABCDEF"

// AppendString appends s as a JSON string as Jackson writes bytes: characters beyond the basic
// plane are escaped as two surrogates. Bytes that are not UTF-8 become the replacement character.
func AppendString(dst, s []byte) []byte { return appendString(dst, s, true) }

// appendString is AppendString; wide says whether characters beyond the basic plane are escaped,
// which Jackson does when it writes bytes but not when it prints a tree.
func appendString(dst, s []byte, wide bool) []byte {
	dst = append(dst, '"')
	for {
		i := plainText(s, wide)
		dst = append(dst, s[:i]...)
		if s = s[i:]; len(s) == 0 {
			return append(dst, '"')
		}
		n := 1
		switch c := s[0]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			var r rune
			if r, n = utf8.DecodeRune(s); r >= 0x10000 {
				hi, lo := utf16.EncodeRune(r)
				dst = appendEscape(appendEscape(dst, hi), lo)
			} else if r == utf8.RuneError {
				dst = append(dst, "\xef\xbf\xbd"...)
			} else {
				dst = appendEscape(dst, r)
			}
		}
		s = s[n:]
	}
}

func appendEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', upperHex[r>>12&15], upperHex[r>>8&15], upperHex[r>>4&15],
		upperHex[r&15])
}
