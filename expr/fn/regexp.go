package fn

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/regex"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions of Java regular expressions. A pattern that cannot be read gives NULL (FALSE for
// REGEXP), as in Flink.

func init() {
	expr.Register(expr.Func{
		Name: "REGEXP", Usage: "REGEXP(string, pattern)", Category: catString,
		Doc:   "Whether some part of the string matches the Java regular expression; FALSE for an empty pattern.",
		Infer: sig(of(types.BooleanType), 2, str, str), Compile: compileRegexp,
	})
	expr.Register(expr.Func{
		Name: "REGEXP_EXTRACT", Usage: "REGEXP_EXTRACT(string, pattern [, group])", Category: catString,
		Doc: "What group number group (0, the default, is all) caught in the first match of the Java " +
			"regular expression; NULL without a match or group.",
		Infer: sig(maybe(types.StringType), 2, str, str, long), Compile: compileExtract,
	})
	expr.Register(expr.Func{
		Name: "REGEXP_REPLACE", Usage: "REGEXP_REPLACE(string, pattern, replacement)", Category: catString,
		Doc:   "The string with every match of the Java regular expression replaced by the text as it stands.",
		Infer: sig(maybe(types.StringType), 3, str, str, str), Compile: compileRegexpReplace,
	})
	expr.Register(expr.Func{
		Name: "REGEXP_EXTRACT_ALL", Usage: "REGEXP_EXTRACT_ALL(string, pattern [, group])", Category: catString,
		Doc: "What group number group (1, or 0 for all) caught in each match, as an ARRAY; NULL for a pattern " +
			"or group that does not exist.",
		Infer: sig(maybe(types.ArrayType(types.StringType)), 2, str, str, long), Compile: compileExtractAll,
	})
	expr.Register(expr.Func{
		Name: "REGEXP_COUNT", Usage: "REGEXP_COUNT(string, pattern)", Category: catString,
		Doc:   "The number of matches of the Java regular expression.",
		Infer: sig(maybe(types.IntType), 2, str, str),
		Compile: withPattern(func(out *vec.Vec, i int, re *regex.Regexp, s []byte) {
			n := int32(0)
			for at := 0; at <= len(s); n++ {
				m := re.Find(s, at)
				if m == nil {
					break
				}
				at = regex.Next(s, m[0], m[1])
			}
			out.I32[i] = n
		}),
	})
	expr.Register(expr.Func{
		Name: "REGEXP_INSTR", Usage: "REGEXP_INSTR(string, pattern)", Category: catString,
		Doc:   "The position of the first match of the Java regular expression, from 1; 0 if there is none.",
		Infer: sig(maybe(types.IntType), 2, str, str),
		Compile: withPattern(func(out *vec.Vec, i int, re *regex.Regexp, s []byte) {
			out.I32[i] = 0
			if m := re.Find(s, 0); m != nil {
				out.I32[i] = int32(runeCount(s[:m[0]]) + 1)
			}
		}),
	})
	expr.Register(expr.Func{
		Name: "REGEXP_SUBSTR", Usage: "REGEXP_SUBSTR(string, pattern)", Category: catString,
		Doc:   "The first part of the string that matches the Java regular expression; NULL if there is none.",
		Infer: sig(maybe(types.StringType), 2, str, str),
		Compile: withPattern(func(out *vec.Vec, i int, re *regex.Regexp, s []byte) {
			if m := re.Find(s, 0); m != nil {
				out.SetBytes(i, s[m[0]:m[1]])
			} else {
				out.SetNull(i)
			}
		}),
	})
}

// patterns gives the compiled pattern of argument 1 for each row, nil where it cannot be read.
func patterns(c *expr.Call) func(args []*vec.Vec, i int) *regex.Regexp {
	if p, ok := expr.ConstString(c.Args[1]); ok {
		re, err := regex.Compile(p)
		if err != nil {
			re = nil
		}
		return func([]*vec.Vec, int) *regex.Regexp { return re }
	}
	known := newCache(regex.Compile)
	return func(args []*vec.Vec, i int) *regex.Regexp {
		re, err := known.get(text(args, 1, i))
		if err != nil {
			return nil
		}
		return re
	}
}

// withPattern compiles a function of a string and a pattern.
func withPattern(f func(out *vec.Vec, i int, re *regex.Regexp, s []byte)) compileFunc {
	return func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
		pattern := patterns(c)
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			re := pattern(args, i)
			if re == nil {
				out.SetNull(i)
				return
			}
			f(out, i, re, text(args, 0, i))
		}), nil
	}
}

func compileRegexp(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	pattern := patterns(c)
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		re := pattern(args, i)
		out.Bool[i] = re != nil && len(text(args, 1, i)) > 0 && re.Match(text(args, 0, i))
	}), nil
}

// compileExtract makes a kernel that points into the buffer of its argument.
func compileExtract(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	if k := extractConstant(c); k != nil {
		return k, nil
	}
	pattern := patterns(c)
	return slicing(0, func(args []*vec.Vec, i int) (from, to int, ok bool) {
		re := pattern(args, i)
		group := int32(0)
		if len(args) == 3 {
			group = int32(args[2].I64[i])
		}
		if re == nil || group < 0 || int(group) > re.Groups() {
			return 0, 0, false
		}
		m := re.Find(text(args, 0, i), 0)
		if m == nil || m[2*group] < 0 {
			return 0, 0, false
		}
		return m[2*group], m[2*group+1], true
	}), nil
}

// extractConstant makes the kernel of a constant pattern and group that exist, or returns nil.
func extractConstant(c *expr.Call) expr.Kernel {
	p, ok := expr.ConstString(c.Args[1])
	group := int64(0)
	if ok && len(c.Args) == 3 {
		group, ok = expr.ConstInt(c.Args[2])
	}
	if !ok {
		return nil
	}
	re, err := regex.Compile(p)
	if err != nil || group < 0 || group > int64(re.Groups()) {
		return nil
	}
	start, end := 2*group, 2*group+1
	return func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		a := args[0]
		out.ShareBuf(a.Buf)
		out.CopyValid(a.Valid)
		if sel != nil {
			n = len(sel)
		}
		for k := range n {
			i := k
			if sel != nil {
				i = int(sel[k])
			}
			if a.IsNull(i) {
				continue
			}
			m := re.Find(a.Bytes(i), 0)
			if m == nil || m[start] < 0 {
				out.SetNull(i)
				continue
			}
			out.Refs[i] = vec.Ref{Off: a.Refs[i].Off + uint32(m[start]), Len: uint32(m[end] - m[start])}
		}
	}
}

func compileRegexpReplace(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	pattern := patterns(c)
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		re := pattern(args, i)
		if re == nil {
			out.SetNull(i)
			return
		}
		s, by := text(args, 0, i), text(args, 2, i)
		buf := out.BeginBytes()
		done := 0
		for at := 0; at <= len(s); {
			m := re.Find(s, at)
			if m == nil {
				break
			}
			buf = append(append(buf, s[done:m[0]]...), by...)
			done = m[1]
			at = regex.Next(s, m[0], m[1])
		}
		out.EndBytes(i, append(buf, s[done:]...))
	}), nil
}

func compileExtractAll(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	pattern := patterns(c)
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		re := pattern(args, i)
		group := int64(1)
		if len(args) == 3 {
			group = args[2].I64[i]
		}
		if re == nil || group < 0 || group > int64(re.Groups()) {
			out.SetNull(i)
			return
		}
		s, kid := text(args, 0, i), out.Kids[0]
		from := kid.Len()
		for at := 0; at <= len(s); {
			m := re.Find(s, at)
			if m == nil {
				break
			}
			n := kid.Len()
			kid.Resize(n + 1)
			if m[2*group] < 0 {
				kid.SetNull(n)
			} else {
				kid.SetBytes(n, s[m[2*group]:m[2*group+1]])
			}
			at = regex.Next(s, m[0], m[1])
		}
		out.Refs[i] = vec.Ref{Off: uint32(from), Len: uint32(kid.Len() - from)}
	}), nil
}
