package expr

import (
	"slices"
	"strconv"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	Register(Func{
		Name: "ROW", Usage: "ROW(x, ...)", Category: "Value construction",
		Doc: "A row of the values.", Infer: inferRow,
	})
	Register(Func{
		Name: "FIELD", Usage: "x.f", Category: "Value access",
		Doc: "A field of a row, NULL where the row is.", Infer: inferField,
	})
	Register(Func{
		Name: "ARRAY", Usage: "ARRAY[x, ...]", Category: "Value construction",
		Doc: "An array of the values, which are brought to one type.", Infer: inferArray,
		Compile: func(*CompileCtx, *Call) (Kernel, error) { return listKernel(1), nil },
	})
	Register(Func{
		Name: "MAP", Usage: "MAP[k, v, ...]", Category: "Value construction",
		Doc: "A map of the keys and values; of equal keys the last one counts.", Infer: inferMap,
		Compile: compileMap,
	})
	Register(Func{
		Name: "ITEM", Usage: "x[i]", Category: "Value access",
		Doc:   "Element i of an array, from 1, or the value of key i of a map; NULL where there is none.",
		Infer: inferItem, Compile: compileItem,
	})
	Register(Func{
		Name: "||", Usage: "a || b", Category: "String", Infer: inferConcat,
		Doc: "The strings, or the bytes, one after the other; NULL where one is NULL.",
		Compile: func(*CompileCtx, *Call) (Kernel, error) {
			return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
				buf := out.BeginBytes()
				for _, a := range args {
					buf = append(buf, a.Bytes(i)...)
				}
				out.EndBytes(i, buf)
			}), nil
		},
	})
}

func inferRow(a Args) (Signature, error) {
	fs := make([]types.Field, a.Len())
	for i := range fs {
		fs[i] = types.Field{Name: "EXPR$" + strconv.Itoa(i), Type: a.Type(i).WithoutAttr()}
	}
	return Sig(types.RowType(fs...).NotNull()), nil
}

func inferField(a Args) (Signature, error) {
	if err := a.Count(2, 2); err != nil {
		return Signature{}, err
	}
	t := a.Type(0)
	at, ok := ConstInt(a.Exprs[1])
	if !ok || t.Kind != types.Row || at < 0 || int(at) >= len(t.Fields) {
		return Signature{}, Errorf("needs a row and the index of one of its fields")
	}
	f := t.Fields[at].Type
	return Sig(f.WithNullable(f.Nullable || t.Nullable)), nil
}

func inferArray(a Args) (Signature, error) {
	if err := a.Count(1, -1); err != nil {
		return Signature{}, err
	}
	t, err := commonOf(a, 0, 1)
	return Sig(types.ArrayType(t).NotNull(), slices.Repeat([]types.Type{t}, a.Len())...), err
}

// commonOf is the common type of every step-th argument from at on.
func commonOf(a Args, at, step int) (types.Type, error) {
	var ts []types.Type
	for i := at; i < a.Len(); i += step {
		ts = append(ts, a.Type(i).WithoutAttr())
	}
	t, ok := CommonType(ts...)
	if !ok {
		return t, Errorf("the values have no common type").WithHint("cast them to one type")
	}
	return t, nil
}

func inferMap(a Args) (Signature, error) {
	if a.Len() == 0 || a.Len()%2 != 0 {
		return Signature{}, Errorf("needs pairs of a key and a value")
	}
	k, err := commonOf(a, 0, 2)
	if err != nil {
		return Signature{}, err
	}
	v, err := commonOf(a, 1, 2)
	return Sig(types.MapType(k, v).NotNull(), slices.Repeat([]types.Type{k, v}, a.Len()/2)...), err
}

// listKernel puts the arguments, width kids in turn, into lists.
func listKernel(width int) Kernel {
	return EachRowNullable(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		at := out.Kids[0].Len()
		for k, a := range args {
			out.Kids[k%width].Append(a, i)
		}
		out.Refs[i] = vec.Ref{Off: uint32(at), Len: uint32(len(args) / width)}
	})
}

func compileMap(_ *CompileCtx, call *Call) (Kernel, error) {
	if len(call.Args) == 2 {
		return listKernel(2), nil
	}
	same := nullsFirst(comparator(*call.T.Key))
	return EachRowNullable(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		keys, vals := out.Kids[0], out.Kids[1]
		at := keys.Len()
	next:
		for k := 0; k < len(args); k += 2 {
			for e := at; e < keys.Len(); e++ {
				if same(keys, e, args[k], i) == 0 {
					vals.Set(e, args[k+1], i)
					continue next
				}
			}
			keys.Append(args[k], i)
			vals.Append(args[k+1], i)
		}
		out.Refs[i] = vec.Ref{Off: uint32(at), Len: uint32(keys.Len() - at)}
	}), nil
}

func inferItem(a Args) (Signature, error) {
	if err := a.Count(2, 2); err != nil {
		return Signature{}, err
	}
	switch t := a.Type(0); t.Kind {
	case types.Array:
		if x := a.Type(1); !x.IsInteger() && x.Kind != types.Null {
			return Signature{}, a.Mismatch(1, "an integer")
		}
		if i, ok := ConstInt(a.Exprs[1]); ok && i < 1 {
			return Signature{}, Errorf("elements of an array are counted from 1, not %d", i)
		}
		return Sig(t.Elem.AsNullable(), Any, types.BigIntType), nil
	case types.Map:
		p, err := comparable2(*t.Key, a.Type(1), "=")
		if err == nil && p[0].Kind != types.Null && !p[0].EqualIgnoreNull(*t.Key) {
			// A wider number cannot be looked up among narrower keys but by narrowing it.
			p[1] = *t.Key
		}
		return Sig(t.Elem.AsNullable(), Any, p[1]), err
	}
	return Signature{}, Errorf("%s has no elements", a.Type(0).AsNullable()).
		WithHint("[ ] reads an ARRAY or a MAP")
}

func compileItem(_ *CompileCtx, call *Call) (Kernel, error) {
	t := call.Args[0].Type()
	if t.Kind == types.Array {
		return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			r, at := args[0].Refs[i], args[1].I64[i]
			if at < 1 || at > int64(r.Len) {
				out.SetNull(i)
				return
			}
			out.Set(i, args[0].Kids[0], int(r.Off)+int(at)-1)
		}), nil
	}
	same := comparator(*t.Key)
	return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		r := args[0].Refs[i]
		keys := args[0].Kids[0]
		for k := int(r.Off); k < int(r.Off+r.Len); k++ {
			if !keys.IsNull(k) && same(keys, k, args[1], i) == 0 {
				out.Set(i, args[0].Kids[1], k)
				return
			}
		}
		out.SetNull(i)
	}), nil
}

// inferConcat adds the lengths.
func inferConcat(a Args) (Signature, error) {
	if err := a.Count(2, -1); err != nil {
		return Signature{}, err
	}
	first := types.StringType
	for i := range a.Exprs {
		if t := a.Type(i); t.Kind != types.Null {
			first = t
			break
		}
	}
	if !first.IsString() && !first.IsBinary() {
		return Signature{}, a.Mismatch(0, "a string").WithHint("write CAST(... AS STRING)")
	}
	res, fixed := types.StringType, types.Char
	if first.IsBinary() {
		res, fixed = types.BytesType, types.Binary
	}
	params := make([]types.Type, a.Len())
	size, allFixed := 0, true
	for i := range params {
		t := a.Type(i)
		if t.Kind != types.Null && (t.IsString() != first.IsString() || t.IsBinary() != first.IsBinary()) {
			return Signature{}, a.Mismatch(i, "a string").WithHint("write CAST(... AS STRING)")
		}
		if t.Kind == types.Null {
			params[i] = res
		} else {
			params[i] = Any
		}
		size += t.Precision
		allFixed = allFixed && t.Kind == fixed
	}
	if size < types.MaxLength {
		res.Precision = size
	}
	if allFixed {
		res.Kind = fixed
	}
	return Sig(res.WithNullable(a.AnyNullable()), params...), nil
}
