package fn

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions that look one string up in another, replace, join and split.

func init() {
	expr.Register(expr.Func{
		Name: "POSITION", Usage: "POSITION(part IN string)", Category: catString,
		Doc:   "The position of the first occurrence of part, from 1; 0 if there is none.",
		Infer: sig(of(types.IntType), 2, str, str), Compile: each(locate),
	})
	expr.Register(expr.Func{
		Name: "LOCATE", Usage: "LOCATE(part, string [, start])", Category: catString,
		Doc:   "The position of the first occurrence of part at or after position start, from 1; 0 if there is none.",
		Infer: sig(of(types.IntType), 2, str, str, integer), Compile: each(locate),
	})
	expr.Register(expr.Func{
		Name: "INSTR", Usage: "INSTR(string, part [, start [, n]])", Category: catString,
		Doc: "The position of the n-th occurrence of part from position start on, counted from 1; from the " +
			"end backwards where start is negative; 0 if there is none.",
		Infer: sig(of(types.IntType), 2, str, str, integer, integer), Compile: each(instr),
	})
	for _, suffix := range []bool{false, true} {
		name, end, has := "STARTSWITH", "starts", bytes.HasPrefix
		if suffix {
			name, end, has = "ENDSWITH", "ends", bytes.HasSuffix
		}
		expr.Register(expr.Func{
			Name: name, Usage: name + "(string, part)", Category: catString,
			Doc:     "Whether the string, or binary string, " + end + " with part.",
			Infer:   oneOf(sig(of(types.BooleanType), 2, str, str), sig(of(types.BooleanType), 2, bin, bin)),
			Compile: kernel(expr.FromBytes2(has)),
		})
	}
	expr.Register(expr.Func{
		Name: "REPLACE", Usage: "REPLACE(string, old, new)", Category: catString,
		Doc:   "The string with every occurrence of old, from left to right, replaced by new.",
		Infer: sig(of(types.StringType), 3, str, str, str), Compile: each(replace),
	})
	expr.Register(expr.Func{
		Name: "TRANSLATE", Usage: "TRANSLATE(string, from, to)", Category: catString,
		Doc:   "The string with each character that occurs in from replaced by the one at the same place in to, or removed where to is shorter.",
		Infer: sig(of(types.StringType), 3, str, str, str), Compile: each(translate),
	})
	expr.Register(expr.Func{
		Name: "CONCAT", Usage: "CONCAT(string, ...)", Category: catString,
		Doc:   "The strings one after the other; NULL where one is NULL.",
		Infer: sigMany(of(types.StringType), 1, str), Compile: each(concat),
	})
	expr.Register(expr.Func{
		Name: "CONCAT_WS", Usage: "CONCAT_WS(separator, string, ...)", Category: catString,
		Doc:   "The strings that are not NULL with the separator between them; NULL where the separator is NULL.",
		Infer: sigMany(of(types.StringType), 1, str), Compile: kernel(expr.EachRowNullable(concatWS)),
	})
	expr.Register(expr.Func{
		Name: "SPLIT", Usage: "SPLIT(string, separator)", Category: catString,
		Doc:   "The pieces between the separators as an ARRAY; the characters, where the separator is empty.",
		Infer: sig(of(types.ArrayType(types.StringType)), 2, str, str), Compile: each(split),
	})
	expr.Register(expr.Func{
		Name: "ELT", Usage: "ELT(index, x, ...)", Category: catString,
		Doc:   "The string, or binary string, at place index of those that follow, from 1; NULL if there is none.",
		Infer: inferElt, Compile: kernel(expr.EachRowNullable(elt)),
	})
}

func locate(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	from := 0
	if len(args) == 3 {
		from = int(args[2].I32[i]) - 1
	}
	out.I32[i] = int32(indexFrom(text(args, 1, i), text(args, 0, i), from) + 1)
}

func instr(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	s, part, start, nth := text(args, 0, i), text(args, 1, i), 1, 1
	if len(args) > 2 {
		start = int(args[2].I32[i])
	}
	if len(args) > 3 {
		nth = int(args[3].I32[i])
	}
	if nth <= 0 {
		ctx.Fail(i, errf("INSTR: the occurrence must be positive, not %d", nth))
		return
	}
	out.I32[i] = 0
	switch {
	case start > 0:
		for at := start; nth > 0; nth-- {
			found := indexFrom(s, part, at-1) + 1
			if found == 0 {
				return
			}
			if nth == 1 {
				out.I32[i] = int32(found)
			}
			at = found + 1
		}
	case start < 0:
		// Backwards: the match may end at the character that start names, or before.
		width := runeCount(part)
		for end := runeCount(s) + start; nth > 0; nth-- {
			found := lastIndex(s, part, width, end)
			if found < 0 {
				return
			}
			if nth == 1 {
				out.I32[i] = int32(found + 1)
			}
			end = found + width - 2
		}
	}
}

// lastIndex is the last place where part, of width characters, occurs in s with its last character
// at or before character end, or -1.
func lastIndex(s, part []byte, width, end int) int {
	if end < 0 {
		return -1
	}
	at := bytes.LastIndex(s[:offset(s, end+1)], part)
	if at < 0 {
		return -1
	}
	return runeCount(s[:at])
}

func replace(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	s, old, by := text(args, 0, i), text(args, 1, i), text(args, 2, i)
	buf := out.BeginBytes()
	if len(old) == 0 {
		for len(s) > 0 {
			_, w := utf8.DecodeRune(s)
			buf = append(append(buf, by...), s[:w]...)
			s = s[w:]
		}
		out.EndBytes(i, append(buf, by...))
		return
	}
	for {
		var k int
		if len(old) == 1 {
			k = bytes.IndexByte(s, old[0])
		} else {
			k = bytes.Index(s, old)
		}
		if k < 0 {
			break
		}
		buf = append(append(buf, s[:k]...), by...)
		s = s[k+len(old):]
	}
	out.EndBytes(i, append(buf, s...))
}

func translate(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	s, from, to := text(args, 0, i), text(args, 1, i), text(args, 2, i)
	buf := out.BeginBytes()
	for len(s) > 0 {
		_, w := utf8.DecodeRune(s)
		c := s[:w]
		s = s[w:]
		k := bytes.Index(from, c)
		if k < 0 {
			buf = append(buf, c...)
			continue
		}
		rest := to[offset(to, runeCount(from[:k])):]
		if len(rest) > 0 {
			_, w := utf8.DecodeRune(rest)
			buf = append(buf, rest[:w]...)
		}
	}
	out.EndBytes(i, buf)
}

func concat(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	buf := out.BeginBytes()
	for _, a := range args {
		buf = append(buf, a.Bytes(i)...)
	}
	out.EndBytes(i, buf)
}

func concatWS(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	if args[0].IsNull(i) {
		out.SetNull(i)
		return
	}
	sep := args[0].Bytes(i)
	buf := out.BeginBytes()
	first := true
	for _, a := range args[1:] {
		if a.IsNull(i) {
			continue
		}
		if !first {
			buf = append(buf, sep...)
		}
		first = false
		buf = append(buf, a.Bytes(i)...)
	}
	out.EndBytes(i, buf)
}

func split(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	s, sep := text(args, 0, i), text(args, 1, i)
	kid := out.Kids[0]
	at := kid.Len()
	add := func(b []byte) {
		n := kid.Len()
		kid.Resize(n + 1)
		kid.SetBytes(n, b)
	}
	if len(sep) == 0 {
		for len(s) > 0 {
			_, w := utf8.DecodeRune(s)
			add(s[:w])
			s = s[w:]
		}
	} else {
		for {
			k := bytes.Index(s, sep)
			if k < 0 {
				break
			}
			add(s[:k])
			s = s[k+len(sep):]
		}
		add(s)
	}
	out.Refs[i] = vec.Ref{Off: uint32(at), Len: uint32(kid.Len() - at)}
}

func inferElt(a expr.Args) (expr.Signature, error) {
	if err := a.Count(2, -1); err != nil {
		return expr.Signature{}, err
	}
	ts := make([]types.Type, 0, a.Len())
	for i := 1; i < a.Len(); i++ {
		ts = append(ts, a.Type(i))
	}
	t, ok := expr.CommonType(ts...)
	if !ok || !isStrBin(t) && t.Kind != types.Null {
		return expr.Signature{}, a.Mismatch(1, "a character or binary string, as all that follow")
	}
	t = types.StringType
	if ts[0].IsBinary() {
		t = types.BytesType
	}
	s, err := sigMany(maybe(t), 2, long, strBin)(a)
	for i := range s.Params[1:] {
		s.Params[i+1] = t
	}
	return s, err
}

func elt(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	if args[0].IsNull(i) {
		out.SetNull(i)
		return
	}
	k := args[0].I64[i]
	if k < 1 || k >= int64(len(args)) {
		out.SetNull(i)
		return
	}
	out.Set(i, args[k], i)
}

// hasMeta reports characters that a regular expression gives a meaning to.
func hasMeta(s string) bool { return strings.ContainsAny(s, `\.+*?()|[]{}^$`) }
