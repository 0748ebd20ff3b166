package jsonpath

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/types"
)

// AppendText appends a valid scalar as text: a string without quotes and escapes, a number as
// AppendNumber writes it.
func AppendText(dst, raw []byte) []byte {
	switch KindOf(raw) {
	case String:
		return appendUnescaped(dst, raw[1:len(raw)-1])
	case Number:
		return AppendNumber(dst, raw)
	}
	return append(dst, raw...)
}

// AppendNumber appends an integer as it is and any other number as Java prints the nearest double.
func AppendNumber(dst, raw []byte) []byte {
	for _, c := range raw {
		if c == '.' || c == 'e' || c == 'E' {
			f, _ := strconv.ParseFloat(string(raw), 64)
			return types.AppendDouble(dst, f)
		}
	}
	if string(raw) == "-0" {
		return append(dst, '0')
	}
	return append(dst, raw...)
}

func appendUnescaped(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch s[i] {
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
			r := hex4(s[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+6 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
					low = hex4(s[i+3:])
				}
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					r = both
					i += 6
				} else {
					r = '?'
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, s[i])
		}
	}
	return dst
}

// AppendCompact appends a valid value without white space, numbers and strings in the form that
// Flink writes them.
func AppendCompact(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		switch b := raw[i]; {
		case b == ' ' || b == '\n' || b == '\r' || b == '\t':
			i++
		case b == '"':
			c := scanner{s: raw}
			end, escaped := c.str(i)
			if escaped {
				dst = AppendQuoted(dst, appendUnescaped(nil, raw[i+1:end-1]))
			} else {
				dst = append(dst, raw[i:end]...)
			}
			i = end
		case b == '-' || b >= '0' && b <= '9':
			end := i + 1
			for end < len(raw) && (raw[end] >= '0' && raw[end] <= '9' || raw[end] == '.' ||
				raw[end] == 'e' || raw[end] == 'E' || raw[end] == '+' || raw[end] == '-') {
				end++
			}
			dst = AppendNumber(dst, raw[i:end])
			i = end
		default:
			dst = append(dst, b)
			i++
		}
	}
	return dst
}

const hexDigits = "0123456789ABCDEF"

// AppendQuoted appends s as a JSON string; only quotes, backslashes and control characters are
// escaped.
func AppendQuoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
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
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
