package fn

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions that change or measure one string.

func init() {
	expr.Register(expr.Func{
		Name: "CHAR_LENGTH", Aliases: []string{"CHARACTER_LENGTH"}, Usage: "CHAR_LENGTH(string)",
		Doc: "The number of characters.", Category: catString,
		Infer: sig(of(types.IntType), 1, str), Compile: kernel(charLength),
	})
	expr.Register(expr.Func{
		Name: "UPPER", Usage: "UPPER(string)", Doc: "The string in upper case.", Category: catString,
		Infer: sig(typeOfArg(0, types.StringType), 1, str), Compile: kernel(asciiCase('a', 'z', upper)),
	})
	expr.Register(expr.Func{
		Name: "LOWER", Usage: "LOWER(string)", Doc: "The string in lower case.", Category: catString,
		Infer: sig(typeOfArg(0, types.StringType), 1, str), Compile: kernel(asciiCase('A', 'Z', lower)),
	})
	expr.Register(expr.Func{
		Name: "INITCAP", Usage: "INITCAP(string)", Category: catString,
		Doc:   "The string with the first letter of each word in upper case and the others in lower case; words are runs of ASCII letters and digits.",
		Infer: sig(typeOfArg(0, types.StringType), 1, str), Compile: kernel(expr.BytesToBytes(initcap)),
	})
	expr.Register(expr.Func{
		Name: "REVERSE", Usage: "REVERSE(string)", Doc: "The characters in reverse order.", Category: catString,
		Infer: sig(maybe(types.StringType), 1, str), Compile: kernel(expr.BytesToBytes(reverse)),
	})
	expr.Register(expr.Func{
		Name: "REPEAT", Usage: "REPEAT(string, n)", Category: catString,
		Doc:   "The string n times over; the empty string where n is not positive.",
		Infer: sig(of(types.StringType), 2, str, integer), Compile: each(repeat),
	})
	expr.Register(expr.Func{
		Name: "SUBSTRING", Aliases: []string{"SUBSTR"}, Usage: "SUBSTRING(string FROM start [FOR length]) | SUBSTRING(string, start [, length])",
		Doc: "length characters from position start, or all from there. A negative start counts from " +
			"the end, 0 is the first character; the result is empty beyond the string, NULL for a negative length.",
		Category: catString, Infer: sig(nullable(varying(0)), 2, str, long, long), Compile: kernel(slicing(0, substring)),
	})
	for _, left := range []bool{true, false} {
		name, doc := "RIGHT", "The last n characters; the empty string where n is not positive."
		if left {
			name, doc = "LEFT", "The first n characters; the empty string where n is not positive."
		}
		expr.Register(expr.Func{
			Name: name, Usage: name + "(string, n)", Doc: doc, Category: catString,
			Infer: sig(nullable(varying(0)), 2, str, integer), Compile: kernel(slicing(0, edge(left))),
		})
	}
	expr.Register(expr.Func{
		Name: "OVERLAY", Usage: "OVERLAY(string PLACING replacement FROM start [FOR length])", Category: catString,
		Doc: "The string with length characters from position start (by default as many as the " +
			"replacement has) replaced; unchanged where start lies outside.",
		Infer: sig(overlayType, 3, str, str, long, long), Compile: each(overlay),
	})
	for _, left := range []bool{true, false} {
		name, doc := "RPAD", "The string filled up on the right with pad to n characters, or cut to n. NULL where n is negative or pad is empty."
		if left {
			name, doc = "LPAD", "The string filled up on the left with pad to n characters, or cut to n. NULL where n is negative or pad is empty."
		}
		expr.Register(expr.Func{
			Name: name, Usage: name + "(string, n, pad)", Doc: doc, Category: catString,
			Infer: sig(maybe(types.StringType), 3, str, integer, str), Compile: each(pad(left)),
		})
	}
}

// charLength is a kernel of its own: counting is all that it does, so calls would show.
func charLength(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
	a := args[0]
	out.CopyValid(a.Valid)
	if sel == nil {
		for i := 0; i < n; i++ {
			if !out.IsNull(i) {
				out.I32[i] = int32(runeCount(a.Bytes(i)))
			}
		}
		return
	}
	for _, i := range sel {
		if !out.IsNull(int(i)) {
			out.I32[i] = int32(runeCount(a.Bytes(int(i))))
		}
	}
}

func upper(dst, a []byte) ([]byte, bool) {
	if isASCII(a) {
		n := len(dst)
		dst = append(dst, a...)
		for k := n; k < len(dst); k++ {
			if c := dst[k]; c >= 'a' && c <= 'z' {
				dst[k] = c - 'a' + 'A'
			}
		}
		return dst, true
	}
	for len(a) > 0 {
		r, w := utf8.DecodeRune(a)
		a = a[w:]
		if r == '\u00df' {
			dst = append(dst, "SS"...)
		} else {
			dst = utf8.AppendRune(dst, unicode.ToUpper(r))
		}
	}
	return dst, true
}

func lower(dst, a []byte) ([]byte, bool) {
	if isASCII(a) {
		n := len(dst)
		dst = append(dst, a...)
		for k := n; k < len(dst); k++ {
			if c := dst[k]; c >= 'A' && c <= 'Z' {
				dst[k] = c - 'A' + 'a'
			}
		}
		return dst, true
	}
	for len(a) > 0 {
		r, w := utf8.DecodeRune(a)
		a = a[w:]
		dst = utf8.AppendRune(dst, unicode.ToLower(r))
	}
	return dst, true
}

func initcap(dst, a []byte) ([]byte, bool) {
	inWord := false
	for _, c := range a {
		up, low := c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z'
		switch {
		case up && inWord:
			c += 'a' - 'A'
		case low && !inWord:
			c -= 'a' - 'A'
		}
		inWord = up || low || c >= '0' && c <= '9'
		dst = append(dst, c)
	}
	return dst, true
}

func reverse(dst, a []byte) ([]byte, bool) {
	for len(a) > 0 {
		_, w := utf8.DecodeLastRune(a)
		dst = append(dst, a[len(a)-w:]...)
		a = a[:len(a)-w]
	}
	return dst, true
}

// maxText bounds the strings that functions make, so that a large count is an error and not the
// end of the process.
const maxText = 1 << 28

func repeat(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	s, n := text(args, 0, i), int(args[1].I32[i])
	if n > 0 && len(s)*n > maxText {
		ctx.Fail(i, errf("REPEAT: the result has %d bytes, more than %d", len(s)*n, maxText))
		return
	}
	if len(s) == 0 {
		n = 0
	}
	buf := out.BeginBytes()
	for ; n > 0; n-- {
		buf = append(buf, s...)
	}
	out.EndBytes(i, buf)
}

// slicing makes a kernel whose values are parts of the values of argument src in the same rows: f
// gives the first byte and the one after the last, or false for NULL. The result points into the
// argument's buffer, so nothing is copied.
func slicing(src int, f func(args []*vec.Vec, i int) (from, to int, ok bool)) expr.Kernel {
	k := expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		from, to, ok := f(args, i)
		if !ok {
			out.SetNull(i)
			return
		}
		out.Refs[i] = vec.Ref{Off: args[src].Refs[i].Off + uint32(from), Len: uint32(to - from)}
	})
	return func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		out.ShareBuf(args[src].Buf)
		k(ctx, args, out, n, sel)
	}
}

func substring(args []*vec.Vec, i int) (from, to int, ok bool) {
	length := int64(1<<31 - 1)
	if len(args) == 3 {
		length = args[2].I64[i]
	}
	return substringRange(text(args, 0, i), args[1].I64[i], length)
}

// substringRange gives the bytes of b that SUBSTRING returns.
func substringRange(b []byte, start, length int64) (from, to int, ok bool) {
	if length < 0 || length > 1<<31-1 || start > 1<<31-1 {
		return 0, 0, false
	}
	pos := int(max(start, -1<<31))
	if pos < 0 {
		if pos += runeCount(b); pos < 0 {
			return 0, 0, true
		}
	} else if pos > 0 {
		pos--
	}
	// Only what comes before the end of the part has to be ASCII for bytes to be characters.
	if from, to = min(pos, len(b)), min(pos+int(length), len(b)); isASCII(b[:to]) {
		return from, to, true
	}
	from = offset(b, pos)
	return from, from + offset(b[from:], int(length)), true
}

// edge is LEFT or RIGHT.
func edge(left bool) func(args []*vec.Vec, i int) (from, to int, ok bool) {
	return func(args []*vec.Vec, i int) (from, to int, ok bool) {
		b, n := text(args, 0, i), max(int(args[1].I32[i]), 0)
		if left {
			return 0, offset(b, n), true
		}
		return offset(b, max(runeCount(b)-n, 0)), len(b), true
	}
}

func overlayType(a expr.Args) types.Type {
	x, y := varying(0)(a), varying(1)(a)
	x.Precision = min(x.Precision+min(y.Precision, types.MaxLength-x.Precision), types.MaxLength)
	return x.WithNullable(a.AnyNullable())
}

func overlay(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	s, r, start := text(args, 0, i), text(args, 1, i), args[2].I64[i]
	n := runeCount(s)
	if start <= 0 || start > int64(n) {
		out.SetBytes(i, s)
		return
	}
	length := int64(runeCount(r))
	if len(args) == 4 {
		length = int64(int32(args[3].I64[i]))
	}
	buf := append(out.BeginBytes(), s[:offset(s, int(start)-1)]...)
	buf = append(buf, r...)
	if length > 0 && start+length <= int64(n) {
		buf = append(buf, s[offset(s, int(start-1+length)):]...)
	}
	out.EndBytes(i, buf)
}

func pad(left bool) row {
	return func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		s, n, p := text(args, 0, i), int(args[1].I32[i]), text(args, 2, i)
		if n < 0 || len(p) == 0 {
			out.SetNull(i)
			return
		}
		if n > maxText {
			ctx.Fail(i, errf("padding to %d characters: more than %d", n, maxText))
			return
		}
		have := runeCount(s)
		buf := out.BeginBytes()
		if !left || have >= n {
			buf = append(buf, s[:offset(s, n)]...)
		}
		for fill, full := n-have, runeCount(p); fill > 0; fill -= full {
			buf = append(buf, p[:offset(p, fill)]...)
		}
		if left && have < n {
			buf = append(buf, s...)
		}
		out.EndBytes(i, buf)
	}
}

// trimSet cuts characters of a set off a string.
func trimSet(b, set []byte, front, back bool) (from, to int) {
	to = len(b)
	if len(set) == 1 && set[0] < utf8.RuneSelf {
		for front && from < to && b[from] == set[0] {
			from++
		}
		for back && to > from && b[to-1] == set[0] {
			to--
		}
		return from, to
	}
	in := func(c []byte) bool { return bytes.Contains(set, c) }
	for front && from < to {
		_, w := utf8.DecodeRune(b[from:to])
		if !in(b[from : from+w]) {
			break
		}
		from += w
	}
	for back && to > from {
		_, w := utf8.DecodeLastRune(b[from:to])
		if !in(b[to-w : to]) {
			break
		}
		to -= w
	}
	return from, to
}
