package fn

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions of arrays. Elements are equal when they compare equal or are both NULL.

func init() {
	expr.Register(expr.Func{
		Name: "CARDINALITY", Usage: "CARDINALITY(array | map | multiset)", Category: catCollection,
		Doc: "The number of elements, or of entries.",
		Infer: sig(of(types.IntType), 1, want{name: "an ARRAY, MAP or MULTISET", def: types.ArrayType(types.IntType),
			ok: func(t types.Type) bool { return t.IsNested() && t.Kind != types.Row }}),
		Compile: each(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			out.I32[i] = int32(args[0].Refs[i].Len)
		}),
	})
	expr.Register(expr.Func{
		Name: "ELEMENT", Usage: "ELEMENT(array)", Category: catCollection,
		Doc:   "The only element; NULL for an empty array, an error where there are more.",
		Infer: sig(nullable(elemOf(0)), 1, array),
		Compile: each(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			switch r := args[0].Refs[i]; r.Len {
			case 0:
				out.SetNull(i)
			case 1:
				out.Set(i, args[0].Kids[0], int(r.Off))
			default:
				ctx.Fail(i, errf("ELEMENT: the array has %d elements, not one", r.Len))
			}
		}),
	})
	for _, front := range []bool{false, true} {
		name, at := "ARRAY_APPEND", "end"
		if front {
			name, at = "ARRAY_PREPEND", "front"
		}
		expr.Register(expr.Func{
			Name: name, Usage: name + "(array, element)", Category: catCollection,
			Doc:   "The array with the element added at the " + at + "; NULL where the array is NULL.",
			Infer: inferWithElem(true, func(t types.Type) types.Type { return t }), Compile: kernel(expr.EachRowNullable(grow(front))),
		})
	}
	expr.Register(expr.Func{
		Name: "ARRAY_CONCAT", Usage: "ARRAY_CONCAT(array, ...)", Category: catCollection,
		Doc:   "The arrays one after the other; NULL where one is NULL.",
		Infer: inferArrays(1, -1), Compile: each(arrayConcat),
	})
	expr.Register(expr.Func{
		Name: "ARRAY_CONTAINS", Usage: "ARRAY_CONTAINS(array, element)", Category: catCollection,
		Doc:   "Whether the array has the element, which may be NULL; NULL where the array is NULL.",
		Infer: inferWithElem(false, func(types.Type) types.Type { return types.BooleanType }),
		Compile: withEqual(0, func(eq equal, _ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			out.Bool[i] = indexOf(eq, args, i) > 0
		}),
	})
	expr.Register(expr.Func{
		Name: "ARRAY_POSITION", Usage: "ARRAY_POSITION(array, element)", Category: catCollection,
		Doc:   "The position of the first such element, from 1; 0 if there is none; NULL where an argument is NULL.",
		Infer: inferWithElem(false, func(types.Type) types.Type { return types.IntType }),
		Compile: withEqual(0, func(eq equal, _ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			if args[1].IsNull(i) {
				out.SetNull(i)
				return
			}
			out.I32[i] = int32(indexOf(eq, args, i))
		}),
	})
	expr.Register(expr.Func{
		Name: "ARRAY_REMOVE", Usage: "ARRAY_REMOVE(array, element)", Category: catCollection,
		Doc:   "The array without the elements equal to the one given, which may be NULL; NULL where the array is NULL.",
		Infer: inferWithElem(false, func(t types.Type) types.Type { return t }),
		Compile: withEqual(0, func(eq equal, _ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			pick(args[0], out, i, func(kid *vec.Vec, k int) bool { return !eq(kid, k, args[1], i) })
		}),
	})
	expr.Register(expr.Func{
		Name: "ARRAY_DISTINCT", Usage: "ARRAY_DISTINCT(array)", Category: catCollection,
		Doc:   "The array with the first of equal elements only.",
		Infer: inferArrays(1, 1),
		Compile: withEqual(0, func(eq equal, _ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			addDistinct(eq, args[0], out, i, begin(out), nil)
		}),
	})
	expr.Register(expr.Func{
		Name: "ARRAY_UNION", Usage: "ARRAY_UNION(a, b)", Category: catCollection,
		Doc:   "The distinct elements of both arrays; NULL where one is NULL.",
		Infer: inferArrays(2, 2),
		Compile: withEqual(0, func(eq equal, _ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			from := begin(out)
			addDistinct(eq, args[0], out, i, from, nil)
			addDistinct(eq, args[1], out, i, from, nil)
		}),
	})
	for _, both := range []bool{true, false} {
		name, doc := "ARRAY_EXCEPT", "The distinct elements of the first array that are not in the second; NULL where one is NULL."
		if both {
			name, doc = "ARRAY_INTERSECT", "The distinct elements that both arrays have; NULL where one is NULL."
		}
		expr.Register(expr.Func{
			Name: name, Usage: name + "(a, b)", Doc: doc, Category: catCollection, Infer: inferArrays(2, 2),
			Compile: withEqual(0, func(eq equal, _ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
				other := args[1]
				addDistinct(eq, args[0], out, i, begin(out), func(kid *vec.Vec, k int) bool {
					return has(eq, other.Kids[0], other.Refs[i], kid, k) == both
				})
			}),
		})
	}
	expr.Register(expr.Func{
		Name: "ARRAY_REVERSE", Usage: "ARRAY_REVERSE(array)", Category: catCollection,
		Doc: "The elements in reverse order.", Infer: inferArrays(1, 1),
		Compile: each(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			from, r := begin(out), args[0].Refs[i]
			for k := int(r.Off+r.Len) - 1; k >= int(r.Off); k-- {
				out.Kids[0].Append(args[0].Kids[0], k)
			}
			end(out, i, from)
		}),
	})
	expr.Register(expr.Func{
		Name: "ARRAY_SLICE", Usage: "ARRAY_SLICE(array, from [, to])", Category: catCollection,
		Doc: "The elements at the positions from to to, or to the end; positions count from 1, negative ones from the end; 0 is 1. " +
			"NULL where an argument is NULL.",
		Infer: sig(typeOfArg(0, types.ArrayType(types.IntType)), 2, array, integer, integer), Compile: each(arraySlice),
	})
	expr.Register(expr.Func{
		Name: "ARRAY_JOIN", Usage: "ARRAY_JOIN(array, separator [, null])", Category: catCollection,
		Doc: "The strings of the array with the separator between them; NULL elements are left out, or written as the third argument.",
		Infer: sig(of(types.StringType), 2, want{name: "ARRAY<STRING>", def: types.ArrayType(types.StringType),
			ok: func(t types.Type) bool { return t.Kind == types.Array && t.Elem.IsString() }}, str, str),
		Compile: each(arrayJoin),
	})
}

// equal compares element i of a with j of b.
type equal = func(a *vec.Vec, i int, b *vec.Vec, j int) bool

// withEqual compiles f with the equality of the elements of argument k; f runs for the rows where
// the arrays are not NULL.
func withEqual(k int, f func(eq equal, ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int)) compileFunc {
	return func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
		eq := equality(*c.Args[k].Type().Elem)
		return expr.EachRowNullable(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			for j, a := range args {
				if a.IsNull(i) && (j == 0 || a.Type.Kind == types.Array && args[0].Type.EqualIgnoreNull(a.Type)) {
					out.SetNull(i)
					return
				}
			}
			f(eq, ctx, args, out, i)
		}), nil
	}
}

func equality(t types.Type) equal {
	cmp := expr.Comparator(t)
	return func(a *vec.Vec, i int, b *vec.Vec, j int) bool {
		if x, y := a.IsNull(i), b.IsNull(j); x || y {
			return x && y
		}
		return cmp(a, i, b, j) == 0
	}
}

// elemOf is the element type of argument i, nullable where the array is.
func elemOf(i int) result {
	return func(a expr.Args) types.Type {
		t := a.Type(i)
		if t.Kind != types.Array {
			return types.IntType
		}
		return t.Elem.WithNullable(t.Elem.Nullable || t.Nullable)
	}
}

// inferWithElem types a call with an array and an element, which get one element type. widen says
// that the element becomes part of the array.
func inferWithElem(widen bool, r func(array types.Type) types.Type) inferFunc {
	return func(a expr.Args) (expr.Signature, error) {
		if err := a.Count(2, 2); err != nil {
			return expr.Signature{}, err
		}
		t, e := a.Type(0), a.Type(1)
		if t.Kind == types.Null {
			t = types.ArrayType(e)
		}
		if t.Kind != types.Array {
			return expr.Signature{}, a.Mismatch(0, "an ARRAY")
		}
		elem, ok := expr.CommonType(*t.Elem, e)
		if !ok {
			return expr.Signature{}, a.Mismatch(1, t.Elem.AsNullable().String()+", as the elements")
		}
		if elem.Kind == types.Null {
			elem = types.IntType
		}
		if !widen {
			elem.Nullable = t.Elem.Nullable
		}
		arr := types.ArrayType(elem).WithNullable(t.Nullable)
		return expr.Sig(r(arr).WithNullable(t.Nullable || r(arr).Kind == types.Int && e.Nullable), arr, elem), nil
	}
}

// inferArrays gives arrays one element type.
func inferArrays(least, most int) inferFunc {
	return func(a expr.Args) (expr.Signature, error) {
		if err := a.Count(least, most); err != nil {
			return expr.Signature{}, err
		}
		ts := make([]types.Type, a.Len())
		for i := range ts {
			if ts[i] = a.Type(i); ts[i].Kind != types.Array && ts[i].Kind != types.Null {
				return expr.Signature{}, a.Mismatch(i, "an ARRAY")
			}
		}
		t, ok := expr.CommonType(ts...)
		if !ok {
			return expr.Signature{}, expr.Errorf("the arrays have no common element type")
		}
		if t.Kind == types.Null {
			t = types.ArrayType(types.IntType)
		}
		for i := range ts {
			ts[i] = t
		}
		return expr.Signature{Params: ts, Result: t.WithNullable(a.AnyNullable())}, nil
	}
}

// begin and end bracket the elements that a row appends to out's child.
func begin(out *vec.Vec) int { return out.Kids[0].Len() }

func end(out *vec.Vec, i, from int) {
	out.Refs[i] = vec.Ref{Off: uint32(from), Len: uint32(out.Kids[0].Len() - from)}
}

func grow(front bool) row {
	return func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		if args[0].IsNull(i) {
			out.SetNull(i)
			return
		}
		from, r, kid := begin(out), args[0].Refs[i], out.Kids[0]
		if front {
			kid.Append(args[1], i)
		}
		kid.AppendRange(args[0].Kids[0], int(r.Off), int(r.Len))
		if !front {
			kid.Append(args[1], i)
		}
		end(out, i, from)
	}
}

func arrayConcat(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	from := begin(out)
	for _, a := range args {
		r := a.Refs[i]
		out.Kids[0].AppendRange(a.Kids[0], int(r.Off), int(r.Len))
	}
	end(out, i, from)
}

// indexOf is the place of value i of args[1] in the array args[0], from 1, or 0.
func indexOf(eq equal, args []*vec.Vec, i int) int {
	r := args[0].Refs[i]
	for k := 0; k < int(r.Len); k++ {
		if eq(args[0].Kids[0], int(r.Off)+k, args[1], i) {
			return k + 1
		}
	}
	return 0
}

// has reports whether value k of v is among the values of list at r.
func has(eq equal, list *vec.Vec, r vec.Ref, v *vec.Vec, k int) bool {
	for n := int(r.Off); n < int(r.Off+r.Len); n++ {
		if eq(list, n, v, k) {
			return true
		}
	}
	return false
}

// pick stores the elements of array i of a that keep lets through.
func pick(a, out *vec.Vec, i int, keep func(kid *vec.Vec, k int) bool) {
	from, r := begin(out), a.Refs[i]
	for k := int(r.Off); k < int(r.Off+r.Len); k++ {
		if keep(a.Kids[0], k) {
			out.Kids[0].Append(a.Kids[0], k)
		}
	}
	end(out, i, from)
}

// addDistinct appends the elements of array i of a that keep lets through and that row i, which
// began at from, does not have yet.
func addDistinct(eq equal, a, out *vec.Vec, i, from int, keep func(kid *vec.Vec, k int) bool) {
	r, kid := a.Refs[i], out.Kids[0]
	for k := int(r.Off); k < int(r.Off+r.Len); k++ {
		if keep != nil && !keep(a.Kids[0], k) {
			continue
		}
		have := vec.Ref{Off: uint32(from), Len: uint32(kid.Len() - from)}
		if !has(eq, kid, have, a.Kids[0], k) {
			kid.Append(a.Kids[0], k)
		}
	}
	end(out, i, from)
}

func arraySlice(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	r := args[0].Refs[i]
	n := int(r.Len)
	lo, hi := int(args[1].I32[i]), n
	if len(args) == 3 {
		hi = int(args[2].I32[i])
	}
	switch {
	case lo > 0:
		lo--
	case lo < 0:
		lo = max(n+lo, 0)
	}
	switch {
	case hi > 0:
		hi = min(hi, n) - 1
	case hi < 0:
		hi += n
	}
	from := begin(out)
	if lo < n && lo <= hi {
		out.Kids[0].AppendRange(args[0].Kids[0], int(r.Off)+lo, hi-lo+1)
	}
	end(out, i, from)
}

func arrayJoin(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	r, kid := args[0].Refs[i], args[0].Kids[0]
	buf := out.BeginBytes()
	first := true
	for k := int(r.Off); k < int(r.Off+r.Len); k++ {
		null := kid.IsNull(k)
		if null && len(args) < 3 {
			continue
		}
		if !first {
			buf = append(buf, text(args, 1, i)...)
		}
		first = false
		if null {
			buf = append(buf, text(args, 2, i)...)
		} else {
			buf = append(buf, kid.Bytes(k)...)
		}
	}
	out.EndBytes(i, buf)
}
