package expr

import (
	"bytes"
	"cmp"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	for _, op := range []struct{ name, doc string }{
		{"=", "TRUE where x equals y."}, {"<>", "TRUE where x differs from y."},
		{"<", "TRUE where x is less than y."}, {"<=", "TRUE where x is not greater than y."},
		{">", "TRUE where x is greater than y."}, {">=", "TRUE where x is not less than y."},
	} {
		f := Func{
			Name: op.name, Usage: "x " + op.name + " y", Doc: op.doc + " NULL where one is NULL.",
			Category: "Comparison", Infer: inferCompare(op.name),
			Compile: func(_ *CompileCtx, call *Call) (Kernel, error) { return compareKernel(call) },
		}
		if op.name == "<>" {
			f.Aliases = []string{"!="}
		}
		Register(f)
	}
	for _, name := range []string{"IS DISTINCT FROM", "IS NOT DISTINCT FROM"} {
		Register(Func{
			Name: name, Usage: "x " + name + " y", Category: "Comparison",
			Doc:   "Compares as <> or = do, but NULL equals NULL and differs from everything else.",
			Infer: inferDistinct, Compile: compileDistinct,
		})
	}
}

// inferCompare coerces both sides to what they are compared as.
func inferCompare(op string) func(Args) (Signature, error) {
	return func(a Args) (Signature, error) {
		if err := a.Count(2, 2); err != nil {
			return Signature{}, err
		}
		p, err := comparable2(a.Type(0), a.Type(1), op)
		if err != nil {
			return Signature{}, err
		}
		return Sig(types.BooleanType.WithNullable(a.AnyNullable()), p[0], p[1]), nil
	}
}

func inferDistinct(a Args) (Signature, error) {
	s, err := inferCompare("=")(a)
	s.Result = types.BooleanType.NotNull()
	return s, err
}

// comparable2 returns the types that values of x and y are cast to before they are compared.
func comparable2(x, y types.Type, op string) (p [2]types.Type, err error) {
	keep := [2]types.Type{Any, Any}
	switch {
	case x.Kind == types.Null:
		return [2]types.Type{y, y}, nil
	case y.Kind == types.Null:
		return [2]types.Type{x, x}, nil
	case x.IsString() && y.IsString(), x.IsBinary() && y.IsBinary(),
		x.Kind == types.Boolean && y.Kind == types.Boolean:
		return keep, nil
	case x.IsNumeric() && y.IsNumeric():
		if x.Kind == types.Decimal && y.Kind == types.Decimal && x.Scale == y.Scale &&
			x.Phys() == y.Phys() {
			return keep, nil
		}
		t := commonNumeric(x, y)
		if t.Kind == types.Decimal {
			dx, dy := AsDecimal(x), AsDecimal(y)
			if max(dx.Precision-dx.Scale, dy.Precision-dy.Scale)+max(dx.Scale, dy.Scale) > types.MaxPrecision {
				// No DECIMAL holds both: compare across scales.
				return [2]types.Type{dx, dy}, nil
			}
		}
		return [2]types.Type{t, t}, nil
	case x.IsTemporal() && y.IsString():
		return [2]types.Type{x, x}, nil
	case x.IsString() && y.IsTemporal():
		return [2]types.Type{y, y}, nil
	case x.IsInterval() && x.Kind == y.Kind:
		return keep, nil
	}
	if t, ok := CommonType(x, y); ok && (t.IsTemporal() || op == "=" || op == "<>") {
		return [2]types.Type{t, t}, nil
	}
	if x.IsNested() && x.Kind == y.Kind {
		return p, Errorf("%s and %s cannot be compared with %s", x.AsNullable(), y.AsNullable(), op)
	}
	return p, Errorf("implicit type conversion between %s and %s is not supported now",
		rootName(x), rootName(y)).WithHint("cast one of them to the type of the other")
}

// rootName is the name that Flink's messages have for the root of a type.
func rootName(t types.Type) string {
	switch t.Kind {
	case types.Int:
		return "INTEGER"
	case types.Timestamp:
		return "TIMESTAMP_WITHOUT_TIME_ZONE"
	case types.TimestampLTZ:
		return "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
	case types.Time:
		return "TIME_WITHOUT_TIME_ZONE"
	}
	return t.Kind.String()
}

// cmpOp is a comparison as a number.
type cmpOp uint8

const (
	opEq cmpOp = iota
	opNe
	opLt
	opLe
	opGt
	opGe
)

var cmpOps = map[string]cmpOp{"=": opEq, "<>": opNe, "<": opLt, "<=": opLe, ">": opGt, ">=": opGe}

// flip is the comparison with its sides swapped.
func (o cmpOp) flip() cmpOp { return [...]cmpOp{opEq, opNe, opGt, opGe, opLt, opLe}[o] }

// holds says whether the comparison is TRUE for a result of cmp.Compare.
func (o cmpOp) holds(c int) bool {
	switch o {
	case opEq:
		return c == 0
	case opNe:
		return c != 0
	case opLt:
		return c < 0
	case opLe:
		return c <= 0
	case opGt:
		return c > 0
	}
	return c >= 0
}

// compareKernel makes the kernel of a comparison whose result is stored.
func compareKernel(call *Call) (Kernel, error) {
	op := cmpOps[call.Fn]
	x, y := call.Args[0].Type(), call.Args[1].Type()
	var fill func(a, b *vec.Vec, out []bool, n int, sel []int32)
	switch {
	case x.Kind == types.Decimal && y.Kind == types.Decimal && x.Scale != y.Scale:
		return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			out.Bool[i] = op.holds(types.CmpDecimal(
				DecimalAt(args[0], i), x.Scale, DecimalAt(args[1], i), y.Scale))
		}), nil
	case x.Phys() == types.PI32:
		fill = fillOrdered[int32](op)
	case x.Phys() == types.PI64:
		fill = fillOrdered[int64](op)
	case x.Phys() == types.PF32:
		fill = fillOrdered[float32](op)
	case x.Phys() == types.PF64:
		fill = fillOrdered[float64](op)
	case x.Phys() == types.PBytes && y.Phys() == types.PBytes && (op == opEq || op == opNe):
		return equalBytes(op == opEq), nil
	default:
		f := comparator(x)
		return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			out.Bool[i] = op.holds(f(args[0], i, args[1], i))
		}), nil
	}
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args[0], args[1])
		fill(args[0], args[1], out.Bool, n, sel)
	}, nil
}

// equalBytes compares lengths before contents.
//
//go:noinline
func equalBytes(want bool) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args[0], args[1])
		a, b := args[0], args[1]
		rows(out.Valid, n, sel, func(i int) {
			x, y := a.Refs[i], b.Refs[i]
			out.Bool[i] = (x.Len == y.Len &&
				string(a.Buf[x.Off:x.Off+x.Len]) == string(b.Buf[y.Off:y.Off+y.Len])) == want
		})
	}
}

// fillOrdered compares without looking at NULLs: what a slot of a NULL gives does not matter.
func fillOrdered[T int32 | int64 | float32 | float64](op cmpOp) func(a, b *vec.Vec, out []bool, n int, sel []int32) {
	swap := op == opGt || op == opGe
	if swap {
		op = op.flip()
	}
	return func(av, bv *vec.Vec, out []bool, n int, sel []int32) {
		if swap {
			av, bv = bv, av
		}
		a, b := Data[T](av)[:n], Data[T](bv)[:n]
		out = out[:n]
		if sel != nil {
			switch op {
			case opEq:
				for _, i := range sel {
					out[i] = a[i] == b[i]
				}
			case opNe:
				for _, i := range sel {
					out[i] = a[i] != b[i]
				}
			case opLt:
				for _, i := range sel {
					out[i] = a[i] < b[i]
				}
			default:
				for _, i := range sel {
					out[i] = a[i] <= b[i]
				}
			}
			return
		}
		switch op {
		case opEq:
			for i, x := range a {
				out[i] = x == b[i]
			}
		case opNe:
			for i, x := range a {
				out[i] = x != b[i]
			}
		case opLt:
			for i, x := range a {
				out[i] = x < b[i]
			}
		default:
			for i, x := range a {
				out[i] = x <= b[i]
			}
		}
	}
}

// Comparator returns a function that orders two values of type t, neither NULL: -1, 0 or 1.
// Strings order by bytes; rows and arrays by their elements, NULL first.
func Comparator(t types.Type) func(a *vec.Vec, i int, b *vec.Vec, j int) int { return comparator(t) }

func comparator(t types.Type) func(a *vec.Vec, i int, b *vec.Vec, j int) int {
	switch t.Phys() {
	case types.PBool:
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int {
			return int(b2i(a.Bool[i])) - int(b2i(b.Bool[j]))
		}
	case types.PI32:
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int { return cmp.Compare(a.I32[i], b.I32[j]) }
	case types.PI64:
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int { return cmp.Compare(a.I64[i], b.I64[j]) }
	case types.PI128:
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int { return a.I128[i].Cmp(b.I128[j]) }
	case types.PF32:
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int { return cmpFloat(float64(a.F32[i]), float64(b.F32[j])) }
	case types.PF64:
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int { return cmpFloat(a.F64[i], b.F64[j]) }
	case types.PBytes:
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int { return bytes.Compare(a.Bytes(i), b.Bytes(j)) }
	case types.PRow:
		fs := make([]func(a *vec.Vec, i int, b *vec.Vec, j int) int, len(t.Fields))
		for k := range fs {
			fs[k] = nullsFirst(comparator(t.Fields[k].Type))
		}
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int {
			for k, f := range fs {
				if c := f(a.Kids[k], i, b.Kids[k], j); c != 0 {
					return c
				}
			}
			return 0
		}
	case types.PList:
		return listComparator(t)
	}
	return func(*vec.Vec, int, *vec.Vec, int) int { return 0 }
}

// cmpFloat orders as Java's Double.compare, except that the zeros are equal.
func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	return int(b2i(a != a)) - int(b2i(b != b))
}

//go:noinline
func nullsFirst(f func(a *vec.Vec, i int, b *vec.Vec, j int) int) func(a *vec.Vec, i int, b *vec.Vec, j int) int {
	return func(a *vec.Vec, i int, b *vec.Vec, j int) int {
		x, y := a.IsNull(i), b.IsNull(j)
		if x || y {
			return int(b2i(y)) - int(b2i(x))
		}
		return f(a, i, b, j)
	}
}

// listComparator orders arrays by their elements. Maps are only equal or not: same keys, same
// values, whatever the order.
func listComparator(t types.Type) func(a *vec.Vec, i int, b *vec.Vec, j int) int {
	if t.Kind == types.Array {
		f := nullsFirst(comparator(*t.Elem))
		return func(a *vec.Vec, i int, b *vec.Vec, j int) int {
			x, y := a.Refs[i], b.Refs[j]
			for k := uint32(0); k < min(x.Len, y.Len); k++ {
				if c := f(a.Kids[0], int(x.Off+k), b.Kids[0], int(y.Off+k)); c != 0 {
					return c
				}
			}
			return cmp.Compare(x.Len, y.Len)
		}
	}
	key, val := t.Elem, &types.IntType
	if t.Kind == types.Map {
		key, val = t.Key, t.Elem
	}
	fk, fv := nullsFirst(comparator(*key)), nullsFirst(comparator(*val))
	return func(a *vec.Vec, i int, b *vec.Vec, j int) int {
		x, y := a.Refs[i], b.Refs[j]
		if x.Len != y.Len {
			return cmp.Compare(x.Len, y.Len)
		}
		for k := x.Off; k < x.Off+x.Len; k++ {
			found := 1
			for m := y.Off; m < y.Off+y.Len; m++ {
				if fk(a.Kids[0], int(k), b.Kids[0], int(m)) == 0 {
					found = fv(a.Kids[1], int(k), b.Kids[1], int(m))
					break
				}
			}
			if found != 0 {
				return found
			}
		}
		return 0
	}
}

func b2i(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func compileDistinct(_ *CompileCtx, call *Call) (Kernel, error) {
	not := call.Fn == "IS NOT DISTINCT FROM"
	x, y := call.Args[0].Type(), call.Args[1].Type()
	f := comparator(x)
	if x.Kind == types.Decimal && y.Kind == types.Decimal && x.Scale != y.Scale {
		f = func(a *vec.Vec, i int, b *vec.Vec, j int) int {
			return types.CmpDecimal(DecimalAt(a, i), x.Scale, DecimalAt(b, j), y.Scale)
		}
	}
	f = nullsFirst(f)
	return EachRowNullable(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		out.Bool[i] = (f(args[0], i, args[1], i) == 0) == not
	}), nil
}
