package fn

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions between numbers, bytes and their textual forms.

func init() {
	expr.Register(expr.Func{
		Name: "BIN", Usage: "BIN(integer)", Category: catArithmetic,
		Doc:   "The integer in binary digits; negative ones as 64 bits in two's complement.",
		Infer: sig(of(types.StringType), 1, long),
		Compile: kernel(expr.ToBytes(func(dst []byte, x int64) []byte {
			return strconv.AppendUint(dst, uint64(x), 2)
		})),
	})
	expr.Register(expr.Func{
		Name: "HEX", Usage: "HEX(integer) | HEX(string)", Category: catArithmetic,
		Doc: "The integer in hexadecimal digits (negative ones as 64 bits), or two digits for each " +
			"byte of the string.",
		Infer: oneOf(sig(of(types.StringType), 1, long), sig(of(types.StringType), 1, str)), Compile: compileHex,
	})
	expr.Register(expr.Func{
		Name: "UNHEX", Usage: "UNHEX(string)", Category: catArithmetic,
		Doc:   "The bytes that hexadecimal digits stand for; an odd first digit is a byte of its own. NULL for other text.",
		Infer: sig(maybe(types.BytesType), 1, str), Compile: kernel(expr.BytesToBytes(unhex)),
	})
	expr.Register(expr.Func{
		Name: "TO_BASE64", Usage: "TO_BASE64(string)", Category: catString,
		Doc:   "The bytes of the string in base64.",
		Infer: sig(of(types.StringType), 1, strBin),
		Compile: kernel(expr.BytesToBytes(func(dst, a []byte) ([]byte, bool) {
			return base64.StdEncoding.AppendEncode(dst, a), true
		})),
	})
	expr.Register(expr.Func{
		Name: "FROM_BASE64", Usage: "FROM_BASE64(string)", Category: catString,
		Doc:   "The text that a base64 string stands for. An error for what is not base64.",
		Infer: sig(of(types.StringType), 1, strBin), Compile: each(fromBase64),
	})
	expr.Register(expr.Func{
		Name: "ENCODE", Usage: "ENCODE(string, charset)", Category: catString,
		Doc:   "The string as bytes of US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE or UTF-16.",
		Infer: sig(of(types.BytesType), 2, str, str), Compile: each(encode),
	})
	expr.Register(expr.Func{
		Name: "DECODE", Usage: "DECODE(bytes, charset)", Category: catString,
		Doc:   "The text that bytes of US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE or UTF-16 stand for.",
		Infer: sig(of(types.StringType), 2, bin, str), Compile: each(decode),
	})
	expr.Register(expr.Func{
		Name: "URL_ENCODE", Usage: "URL_ENCODE(string)", Category: catString,
		Doc:   "The string in the form of application/x-www-form-urlencoded.",
		Infer: sig(of(types.StringType), 1, str), Compile: kernel(expr.BytesToBytes(urlEncode)),
	})
	expr.Register(expr.Func{
		Name: "URL_DECODE", Usage: "URL_DECODE(string)", Category: catString,
		Doc:   "The inverse of URL_ENCODE; NULL for what is not encoded so.",
		Infer: sig(maybe(types.StringType), 1, str), Compile: kernel(expr.BytesToBytes(urlDecode)),
	})
	expr.Register(expr.Func{
		Name: "ASCII", Usage: "ASCII(string)", Category: catString,
		Doc:   "The value of the first byte of the string, 0 for an empty one.",
		Infer: sig(of(types.IntType), 1, str),
		Compile: kernel(expr.FromBytes(func(b []byte) int32 {
			if len(b) == 0 {
				return 0
			}
			return int32(int8(b[0]))
		})),
	})
	expr.Register(expr.Func{
		Name: "CHR", Usage: "CHR(integer)", Category: catString,
		Doc:   "The character of the number modulo 256 in ISO-8859-1; the empty string for negative numbers.",
		Infer: sig(maybe(types.StringType), 1, long),
		Compile: kernel(expr.ToBytes(func(dst []byte, x int64) []byte {
			if x < 0 {
				return dst
			}
			return utf8.AppendRune(dst, rune(x&0xff))
		})),
	})
	expr.Register(expr.Func{
		Name: "INET_ATON", Usage: "INET_ATON(string)", Category: catString,
		Doc:   "The number of an IPv4 address such as 127.0.0.1, also in the short forms a.b and a.b.c; NULL for other text.",
		Infer: sig(maybe(types.BigIntType), 1, str), Compile: each(inetAton),
	})
	expr.Register(expr.Func{
		Name: "INET_NTOA", Usage: "INET_NTOA(integer)", Category: catString,
		Doc:   "The IPv4 address with a number; NULL outside 0 to 4294967295.",
		Infer: sig(maybe(types.StringType), 1, long), Compile: each(inetNtoa),
	})
}

const upperHex = "0123456789ABCDEF"

func compileHex(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	if c.Args[0].Type().IsString() {
		return expr.BytesToBytes(func(dst, a []byte) ([]byte, bool) {
			for _, b := range a {
				dst = append(dst, upperHex[b>>4], upperHex[b&15])
			}
			return dst, true
		}), nil
	}
	return expr.ToBytes(func(dst []byte, x int64) []byte {
		n := len(dst)
		dst = strconv.AppendUint(dst, uint64(x), 16)
		for k := n; k < len(dst); k++ {
			if dst[k] >= 'a' {
				dst[k] -= 'a' - 'A'
			}
		}
		return dst
	}), nil
}

func unhex(dst, a []byte) ([]byte, bool) {
	digit := func(c byte) int {
		switch {
		case c >= '0' && c <= '9':
			return int(c - '0')
		case c >= 'a' && c <= 'f':
			return int(c-'a') + 10
		case c >= 'A' && c <= 'F':
			return int(c-'A') + 10
		}
		return -1
	}
	if len(a)%2 == 1 {
		d := digit(a[0])
		if d < 0 {
			return dst, false
		}
		dst, a = append(dst, byte(d)), a[1:]
	}
	for ; len(a) > 0; a = a[2:] {
		h, l := digit(a[0]), digit(a[1])
		if h < 0 || l < 0 {
			return dst, false
		}
		dst = append(dst, byte(h<<4|l))
	}
	return dst, true
}

func fromBase64(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	src := text(args, 0, i)
	enc := base64.StdEncoding.Strict()
	if len(src)%4 != 0 {
		enc = base64.RawStdEncoding
	}
	buf, err := enc.AppendDecode(out.BeginBytes(), src)
	if err != nil {
		ctx.Fail(i, errf("FROM_BASE64: '%s' is not base64", src))
		return
	}
	out.EndBytes(i, buf)
}

// charset is a text encoding by its canonical name.
func charset(name []byte) (string, bool) {
	switch n := strings.ToUpper(string(name)); n {
	case "UTF-8", "UTF8":
		return "UTF-8", true
	case "US-ASCII", "ASCII":
		return "US-ASCII", true
	case "ISO-8859-1", "ISO8859_1", "LATIN1":
		return "ISO-8859-1", true
	case "UTF-16BE", "UTF-16LE", "UTF-16":
		return n, true
	}
	return "", false
}

func encode(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	name, ok := charset(text(args, 1, i))
	if !ok {
		ctx.Fail(i, errf("ENCODE: unknown charset '%s': use US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE or UTF-16", text(args, 1, i)))
		return
	}
	s, buf := text(args, 0, i), out.BeginBytes()
	if name == "UTF-16" {
		buf = append(buf, 0xfe, 0xff)
	}
	switch name {
	case "UTF-8":
		buf = append(buf, s...)
	case "US-ASCII", "ISO-8859-1":
		limit := rune(0x80)
		if name == "ISO-8859-1" {
			limit = 0x100
		}
		for _, r := range string(s) {
			if r >= limit {
				r = '?'
			}
			buf = append(buf, byte(r))
		}
	default:
		for _, u := range utf16.Encode([]rune(string(s))) {
			if name == "UTF-16LE" {
				buf = append(buf, byte(u), byte(u>>8))
			} else {
				buf = append(buf, byte(u>>8), byte(u))
			}
		}
	}
	out.EndBytes(i, buf)
}

func decode(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	name, ok := charset(text(args, 1, i))
	if !ok {
		ctx.Fail(i, errf("DECODE: unknown charset '%s': use US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE or UTF-16", text(args, 1, i)))
		return
	}
	s, buf := text(args, 0, i), out.BeginBytes()
	little := name == "UTF-16LE"
	switch name {
	case "UTF-8":
		for len(s) > 0 {
			r, w := utf8.DecodeRune(s)
			buf, s = utf8.AppendRune(buf, r), s[w:]
		}
	case "US-ASCII", "ISO-8859-1":
		for _, b := range s {
			r := rune(b)
			if b >= 0x80 && name == "US-ASCII" {
				r = utf8.RuneError
			}
			buf = utf8.AppendRune(buf, r)
		}
	default:
		if name == "UTF-16" && len(s) >= 2 && (s[0] == 0xfe && s[1] == 0xff || s[0] == 0xff && s[1] == 0xfe) {
			little = s[0] == 0xff
			s = s[2:]
		}
		us := make([]uint16, len(s)/2)
		for k := range us {
			us[k] = uint16(s[2*k])<<8 | uint16(s[2*k+1])
			if little {
				us[k] = us[k]<<8 | us[k]>>8
			}
		}
		for _, r := range utf16.Decode(us) {
			buf = utf8.AppendRune(buf, r)
		}
	}
	out.EndBytes(i, buf)
}

func urlEncode(dst, a []byte) ([]byte, bool) {
	for _, b := range a {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9',
			b == '-', b == '_', b == '.', b == '*':
			dst = append(dst, b)
		case b == ' ':
			dst = append(dst, '+')
		default:
			dst = append(dst, '%', upperHex[b>>4], upperHex[b&15])
		}
	}
	return dst, true
}

func urlDecode(dst, a []byte) ([]byte, bool) {
	s, err := url.QueryUnescape(string(a))
	return append(dst, s...), err == nil
}

func inetAton(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	parts := strings.Split(string(text(args, 0, i)), ".")
	v, ok := int64(0), len(parts) <= 4
	for k, p := range parts {
		limit := int64(255)
		shift := uint(8)
		if k == len(parts)-1 {
			// The last part fills what is left of the four bytes.
			shift = uint(8 * max(5-len(parts), 1))
			limit = 1<<shift - 1
		}
		n, err := strconv.ParseInt(p, 10, 64)
		if err != nil || n < 0 || n > limit || p[0] == '+' {
			ok = false
			break
		}
		v = v<<shift | n
	}
	if !ok {
		out.SetNull(i)
		return
	}
	out.I64[i] = v
}

func inetNtoa(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	x := args[0].I64[i]
	if x < 0 || x > 1<<32-1 {
		out.SetNull(i)
		return
	}
	buf := out.BeginBytes()
	for shift := 24; shift >= 0; shift -= 8 {
		buf = strconv.AppendInt(buf, x>>shift&255, 10)
		if shift > 0 {
			buf = append(buf, '.')
		}
	}
	out.EndBytes(i, buf)
}

// appendHex is the lower-case form that the hash functions print.
func appendHex(dst, b []byte) []byte { return hex.AppendEncode(dst, b) }
