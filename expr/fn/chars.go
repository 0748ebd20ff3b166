package fn

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Tests of what a value consists of. They are FALSE for NULL.

func init() {
	for _, f := range []struct {
		name, doc string
		test      func([]byte) bool
		number    func(types.Type) bool // types that pass as a whole
	}{
		{"IS_ALPHA", "Whether the string has letters only, and at least one; FALSE for NULL.", isAlpha, nil},
		{"IS_DIGIT", "Whether the string has digits only, and at least one, or the value is an integer; FALSE for NULL.",
			isDigit, types.Type.IsInteger},
		{"IS_DECIMAL", "Whether the string can be read as a number, or the value is one; FALSE for NULL.",
			isDecimal, types.Type.IsNumeric},
	} {
		expr.Register(expr.Func{
			Name: f.name, Usage: f.name + "(x)", Doc: f.doc, Category: catString,
			Infer: sig(never(types.BooleanType), 1, anything),
			Compile: func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
				t := c.Args[0].Type()
				all := f.number != nil && f.number(t)
				return expr.EachRowNullable(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
					out.Bool[i] = !args[0].IsNull(i) && (all || t.IsString() && f.test(text(args, 0, i)))
				}), nil
			},
		})
	}
}

func every(b []byte, ok func(rune) bool) bool {
	for at := 0; at < len(b); {
		r, w := utf8.DecodeRune(b[at:])
		if !ok(r) {
			return false
		}
		at += w
	}
	return len(b) > 0
}

func isAlpha(b []byte) bool { return every(b, unicode.IsLetter) }
func isDigit(b []byte) bool { return every(b, unicode.IsDigit) }

// isDecimal reports what Java's Double.parseDouble reads.
func isDecimal(b []byte) bool {
	b = bytes.TrimFunc(b, func(r rune) bool { return r <= ' ' })
	s := string(b)
	switch strings.TrimLeft(s, "+-") {
	case "NaN", "Infinity":
		return len(s)-len(strings.TrimLeft(s, "+-")) <= 1
	}
	if s == "" || strings.ContainsAny(s, "_iInN") {
		return false
	}
	if k := s[len(s)-1]; (k == 'd' || k == 'D' || k == 'f' || k == 'F') && !strings.ContainsAny(s, "xX") {
		s = s[:len(s)-1]
	}
	_, err := strconv.ParseFloat(s, 64)
	if e, ok := err.(*strconv.NumError); ok {
		return e.Err == strconv.ErrRange
	}
	return err == nil
}
