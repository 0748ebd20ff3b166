package fn

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	expr.Register(expr.Func{
		Name: "ARRAY_SORT", Usage: "ARRAY_SORT(array [, ascending [, nulls_first]])", Category: catCollection,
		Doc: "The elements in order, ascending unless the second argument is FALSE; NULLs first when ascending and last when " +
			"descending unless the third says otherwise. NULL where an argument is NULL.",
		Infer: sig(typeOfArg(0, types.ArrayType(types.IntType)), 1, ordered, boolean, boolean), Compile: compileSort,
	})
	for _, greatest := range []bool{true, false} {
		name, doc := "ARRAY_MIN", "The least element that is not NULL; NULL if there is none."
		if greatest {
			name, doc = "ARRAY_MAX", "The greatest element that is not NULL; NULL if there is none."
		}
		expr.Register(expr.Func{
			Name: name, Usage: name + "(array)", Doc: doc, Category: catCollection,
			Infer: sig(nullable(elemOf(0)), 1, ordered), Compile: compileArrayExtreme(greatest),
		})
	}
}

// ordered is an array whose elements have an order.
var ordered = want{name: "an ARRAY of elements that have an order", def: types.ArrayType(types.IntType),
	ok: func(t types.Type) bool { return t.Kind == types.Array && !t.Elem.IsNested() }}

func compileSort(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	cmp := expr.Comparator(*c.Args[0].Type().Elem)
	var order []int
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		asc := len(args) < 2 || args[1].Bool[i]
		nullsFirst := asc
		if len(args) == 3 {
			nullsFirst = args[2].Bool[i]
		}
		r, kid := args[0].Refs[i], args[0].Kids[0]
		order = order[:0]
		for k := int(r.Off); k < int(r.Off+r.Len); k++ {
			order = append(order, k)
		}
		slices.SortStableFunc(order, func(x, y int) int {
			a, b := kid.IsNull(x), kid.IsNull(y)
			switch {
			case a && b:
				return 0
			case a == nullsFirst && a != b:
				return -1
			case a != b:
				return 1
			case asc:
				return cmp(kid, x, kid, y)
			}
			return cmp(kid, y, kid, x)
		})
		from := begin(out)
		for _, k := range order {
			out.Kids[0].Append(kid, k)
		}
		end(out, i, from)
	}), nil
}

func compileArrayExtreme(greatest bool) compileFunc {
	return func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
		cmp := expr.Comparator(*c.Args[0].Type().Elem)
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			r, kid, best := args[0].Refs[i], args[0].Kids[0], -1
			for k := int(r.Off); k < int(r.Off+r.Len); k++ {
				if kid.IsNull(k) {
					continue
				}
				if best < 0 {
					best = k
				} else if d := cmp(kid, k, kid, best); greatest && d > 0 || !greatest && d < 0 {
					best = k
				}
			}
			if best < 0 {
				out.SetNull(i)
				return
			}
			out.Set(i, kid, best)
		}), nil
	}
}
