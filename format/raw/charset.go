package raw

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// charset converts between an encoding and UTF-8. nil functions copy.
type charset struct {
	decode func(dst, src []byte) []byte
	encode func(dst, src []byte) []byte
}

// charsetOf returns the encoding that Java calls name.
func charsetOf(name string) (*charset, error) {
	switch strings.ToUpper(name) {
	case "", "UTF-8", "UTF8":
		return &charset{}, nil
	case "US-ASCII", "ASCII":
		return &charset{decodeASCII, encodeBelow(0x80)}, nil
	case "ISO-8859-1", "ISO8859_1", "LATIN1":
		return &charset{decodeLatin1, encodeBelow(0x100)}, nil
	case "UTF-16":
		return &charset{decodeMarked, encodeMarked}, nil
	case "UTF-16BE":
		return &charset{decode16(binary.BigEndian), encode16(binary.BigEndian)}, nil
	case "UTF-16LE":
		return &charset{decode16(binary.LittleEndian), encode16(binary.LittleEndian)}, nil
	}
	return nil, fmt.Errorf("'raw.charset' = '%s' is not supported; use UTF-8, US-ASCII, "+
		"ISO-8859-1, UTF-16, UTF-16BE or UTF-16LE", name)
}

func decodeASCII(dst, src []byte) []byte {
	for _, c := range src {
		if c >= utf8.RuneSelf {
			dst = utf8.AppendRune(dst, utf8.RuneError)
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

func decodeLatin1(dst, src []byte) []byte {
	for _, c := range src {
		dst = utf8.AppendRune(dst, rune(c))
	}
	return dst
}

// encodeBelow writes characters below limit as one byte and others as a question mark.
func encodeBelow(limit rune) func(dst, src []byte) []byte {
	return func(dst, src []byte) []byte {
		for len(src) > 0 {
			r, n := utf8.DecodeRune(src)
			src = src[n:]
			if r >= limit {
				r = '?'
			}
			dst = append(dst, byte(r))
		}
		return dst
	}
}

// decode16 replaces what is not UTF-16, also a lone last byte, by U+FFFD.
func decode16(order binary.ByteOrder) func(dst, src []byte) []byte {
	return func(dst, src []byte) []byte {
		for len(src) >= 2 {
			r := rune(order.Uint16(src))
			src = src[2:]
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if len(src) >= 2 {
					pair = utf16.DecodeRune(r, rune(order.Uint16(src)))
				}
				if r = pair; pair != utf8.RuneError {
					src = src[2:]
				}
			}
			dst = utf8.AppendRune(dst, r)
		}
		if len(src) == 1 {
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		return dst
	}
}

func encode16(order binary.AppendByteOrder) func(dst, src []byte) []byte {
	return func(dst, src []byte) []byte {
		for len(src) > 0 {
			r, n := utf8.DecodeRune(src)
			src = src[n:]
			if r < 0x10000 {
				dst = order.AppendUint16(dst, uint16(r))
				continue
			}
			hi, lo := utf16.EncodeRune(r)
			dst = order.AppendUint16(order.AppendUint16(dst, uint16(hi)), uint16(lo))
		}
		return dst
	}
}

// decodeMarked reads UTF-16 whose byte order mark, if there is one, tells the order; big-endian
// otherwise.
func decodeMarked(dst, src []byte) []byte {
	if len(src) >= 2 {
		switch binary.BigEndian.Uint16(src) {
		case 0xfeff:
			return decode16(binary.BigEndian)(dst, src[2:])
		case 0xfffe:
			return decode16(binary.LittleEndian)(dst, src[2:])
		}
	}
	return decode16(binary.BigEndian)(dst, src)
}

// encodeMarked writes a big-endian mark before the text, as Java does; nothing for no text.
func encodeMarked(dst, src []byte) []byte {
	if len(src) == 0 {
		return dst
	}
	return encode16(binary.BigEndian)(append(dst, 0xfe, 0xff), src)
}
