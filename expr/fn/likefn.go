package fn

import (
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/like"
	"github.com/tidemark-stream/tidemark/expr/fn/regex"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// LIKE and SIMILAR TO, with an optional third argument for ESCAPE, and their negations.

func init() {
	for _, not := range []bool{false, true} {
		n, doc := "", "Whether "
		if not {
			n, doc = "NOT ", "The opposite of the same without NOT: whether "
		}
		expr.Register(expr.Func{
			Name: n + "LIKE", Usage: "string " + n + "LIKE pattern [ESCAPE char]", Category: catComparison,
			Doc: doc + "all of the string fits the pattern, where % stands for any text and _ for one " +
				"character; the escape character makes the one behind it stand for itself.",
			Infer: verify(sig(of(types.BooleanType), 2, str, str, str), checkPattern(like.Compile)), Compile: compileLike(not),
		})
		expr.Register(expr.Func{
			Name: n + "SIMILAR TO", Usage: "string " + n + "SIMILAR TO pattern [ESCAPE char]", Category: catComparison,
			Doc: doc + "all of the string fits the pattern, which is that of LIKE with the operators " +
				"| * + ? {m,n} ( ) and [...] of regular expressions.",
			Infer: verify(sig(of(types.BooleanType), 2, str, str, str), checkPattern(similar)), Compile: compileSimilar(not),
		})
	}
}

// escapeChar reads an ESCAPE argument, which must be one character.
func escapeChar(s []byte) (rune, error) {
	r, w := utf8.DecodeRune(s)
	if w == 0 || w != len(s) {
		return 0, errf("the ESCAPE of a pattern must be one character, not '%s'", s)
	}
	return r, nil
}

// constEscape gives the escape of a call whose pattern and escape are constant; ok is false for
// others.
func constEscape(c *expr.Call) (pattern string, escape rune, ok bool, err error) {
	pattern, ok = expr.ConstString(c.Args[1])
	if ok && len(c.Args) == 3 {
		var e string
		if e, ok = expr.ConstString(c.Args[2]); ok {
			escape, err = escapeChar([]byte(e))
		}
	}
	return pattern, escape, ok, err
}

// checkPattern checks a constant pattern and escape.
func checkPattern[M any](compile func(string, rune) (M, error)) func(a expr.Args) error {
	return func(a expr.Args) error {
		pattern, escape, ok, err := constEscape(&expr.Call{Args: a.Exprs})
		if ok && err == nil {
			_, err = compile(pattern, escape)
		}
		return err
	}
}

func compileLike(not bool) compileFunc {
	return func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
		pattern, escape, ok, err := constEscape(c)
		if err != nil {
			return nil, err
		}
		if ok {
			m, err := like.Compile(pattern, escape)
			if err != nil {
				return nil, err
			}
			return only(likeKernel(m, not), 0), nil
		}
		return variable(like.Compile, not), nil
	}
}

// likeKernel matches all rows with one pattern.
func likeKernel(m *like.Matcher, not bool) expr.Kernel {
	return expr.NullIn(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		a, r := args[0], out.Bool
		if sel == nil {
			for i := range r[:n] {
				r[i] = m.Match(a.Bytes(i)) != not
			}
			return
		}
		for _, i := range sel {
			r[i] = m.Match(a.Bytes(int(i))) != not
		}
	})
}

// matcher is what LIKE and SIMILAR TO patterns compile to.
type matcher interface{ Match(s []byte) bool }

// variable makes a kernel for patterns that differ from row to row.
func variable[M matcher](compile func(string, rune) (M, error), not bool) expr.Kernel {
	escape := rune(0)
	known := newCache(func(p string) (M, error) {
		r, w := utf8.DecodeRuneInString(p)
		if r == 0 {
			return compile(p[w:], 0)
		}
		return compile(p[w:], r)
	})
	var key []byte
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		escape = 0
		if len(args) == 3 {
			var err error
			if escape, err = escapeChar(text(args, 2, i)); err != nil {
				ctx.Fail(i, err)
				return
			}
		}
		key = append(utf8.AppendRune(key[:0], escape), text(args, 1, i)...)
		m, err := known.get(key)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		out.Bool[i] = m.Match(text(args, 0, i)) != not
	})
}

func similar(pattern string, escape rune) (*regex.Regexp, error) {
	re, err := like.SimilarRegex(pattern, escape)
	if err != nil {
		return nil, err
	}
	return regex.CompileFull(re)
}

func compileSimilar(not bool) compileFunc {
	return func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
		pattern, escape, ok, err := constEscape(c)
		if err != nil {
			return nil, err
		}
		if !ok {
			return variable(similar, not), nil
		}
		re, err := similar(pattern, escape)
		if err != nil {
			return nil, err
		}
		return only(expr.FromBytes(func(b []byte) bool { return re.Match(b) != not }), 0), nil
	}
}
