package fn

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	for _, greatest := range []bool{true, false} {
		name, doc := "LEAST", "The least of the values, in their common type; NULL where one is NULL."
		if greatest {
			name, doc = "GREATEST", "The greatest of the values, in their common type; NULL where one is NULL."
		}
		expr.Register(expr.Func{
			Name: name, Usage: name + "(x, ...)", Doc: doc, Category: catArithmetic,
			Infer: inferCommon, Compile: compileExtreme(greatest),
		})
	}
	expr.Register(expr.Func{
		Name: "TYPEOF", Usage: "TYPEOF(x [, serializable])", Category: catConditional,
		Doc:   "The type of the argument as a string, with its nullability.",
		Infer: sig(never(types.StringType), 1, anything, boolean),
		Compile: func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
			name := c.Args[0].Type().WithoutAttr().String()
			return expr.EachRowNullable(func(_ *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, i int) {
				out.SetString(i, name)
			}), nil
		},
	})
}

// inferCommon gives all arguments their common type.
func inferCommon(a expr.Args) (expr.Signature, error) {
	if err := a.Count(1, -1); err != nil {
		return expr.Signature{}, err
	}
	ts := make([]types.Type, a.Len())
	for i := range ts {
		ts[i] = a.Type(i)
	}
	t, ok := expr.CommonType(ts...)
	if !ok || t.IsNested() {
		return expr.Signature{}, expr.Errorf("the arguments have no common type that has an order")
	}
	if t.Kind == types.Null {
		t = types.IntType
	}
	t = t.WithoutAttr()
	for i := range ts {
		ts[i] = t
	}
	return expr.Signature{Params: ts, Result: t}, nil
}

func compileExtreme(greatest bool) compileFunc {
	return func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
		cmp := expr.Comparator(c.T)
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			best := args[0]
			for _, a := range args[1:] {
				if d := cmp(a, i, best, i); greatest && d > 0 || !greatest && d < 0 {
					best = a
				}
			}
			out.Set(i, best, i)
		}), nil
	}
}
