package fn

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/vec"
)

// TRIM and its short forms. The binder writes TRIM(BOTH chars FROM s) as TRIM('BOTH', chars, s)
// with the flag as a symbol; TRIM(s) is taken too.

func init() {
	expr.Register(expr.Func{
		Name: "TRIM", Usage: "TRIM([[BOTH | LEADING | TRAILING] [chars] FROM] string)", Category: catString,
		Doc: "The string without leading and trailing characters that occur in chars, by default " +
			"blanks.",
		Infer: oneOf(sig(varying(2), 3, symbol, str, str), sig(varying(0), 1, str)), Compile: compileTrim,
	})
	for _, f := range []struct {
		name, where string
		front, back bool
	}{
		{"LTRIM", "leading", true, false}, {"RTRIM", "trailing", false, true},
		{"BTRIM", "leading and trailing", true, true},
	} {
		expr.Register(expr.Func{
			Name: f.name, Usage: f.name + "(string [, chars])", Category: catString,
			Doc:   "The string without " + f.where + " characters that occur in chars, by default blanks.",
			Infer: sig(varying(0), 1, str, str),
			Compile: func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
				set := -1
				if len(c.Args) == 2 {
					set = 1
				}
				return trim(0, set, f.front, f.back), nil
			},
		})
	}
}

func compileTrim(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	if len(c.Args) == 1 {
		return trim(0, -1, true, true), nil
	}
	flag, _ := expr.ConstString(c.Args[0])
	return trim(2, 1, flag != "TRAILING", flag != "LEADING"), nil
}

// trim makes a kernel that cuts argument s. set is the argument with the characters, -1 for blanks.
func trim(s, set int, front, back bool) expr.Kernel {
	blank := []byte{' '}
	k := slicing(0, func(args []*vec.Vec, i int) (from, to int, ok bool) {
		chars := blank
		if len(args) == 2 {
			chars = text(args, 1, i)
		}
		from, to = trimSet(text(args, 0, i), chars, front, back)
		return from, to, true
	})
	if set < 0 {
		return only(k, s)
	}
	return only(k, s, set)
}
