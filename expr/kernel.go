package expr

import (
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// This file holds what a function of the library is written with. A kernel made here computes
// only the selected rows whose arguments are all not NULL, and makes the result NULL where one
// is. The function given runs once a row, must not keep its arguments, and must not allocate on
// its usual path. A kernel belongs to one Program, which one goroutine runs: closures may own
// scratch memory.
//
// A complete entry of the registry, ABS_DIFF(x, y) on BIGINT:
//
//	expr.Register(expr.Func{
//		Name: "ABS_DIFF", Usage: "ABS_DIFF(x, y)", Doc: "...", Category: "Arithmetic",
//		Infer: expr.InferFixed(types.BigIntType, types.BigIntType, types.BigIntType),
//		Compile: func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) {
//			return expr.Binary(func(x, y int64) int64 { return max(x-y, y-x) }), nil
//		},
//	})
//
// The helpers are not inlined: in a closure that the compiler copies with the function around it
// (Go 1.26), calls of small methods such as Bitmap.Get stay calls. The same holds for functions of
// your own that return a kernel with a loop in it.
//
// Where the helpers by type do not fit (three arguments, lists, rows), EachRow hands over the
// vectors and one position.

// Fixed are the Go types of fixed-width values: of PBool, PI32, PI64, PI128, PF32 and PF64.
type Fixed interface {
	bool | int32 | int64 | types.Int128 | float32 | float64
}

// Data returns the slice of v that holds its values, for a vector of the physical form of T.
func Data[T Fixed](v *vec.Vec) []T {
	var p any
	switch any((*T)(nil)).(type) {
	case *bool:
		p = &v.Bool
	case *int32:
		p = &v.I32
	case *int64:
		p = &v.I64
	case *types.Int128:
		p = &v.I128
	case *float32:
		p = &v.F32
	default:
		p = &v.F64
	}
	return *p.(*[]T)
}

// Unary makes a kernel that applies f to one fixed-width argument.
//
//go:noinline
func Unary[A, R Fixed](f func(a A) R) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		out.CopyValid(args[0].Valid)
		a, r := Data[A](args[0]), Data[R](out)
		switch {
		case sel == nil && out.Valid == nil:
			a, r = a[:n], r[:n]
			for i, x := range a {
				r[i] = f(x)
			}
		case sel == nil:
			for i := 0; i < n; i++ {
				if out.Valid.Get(i) {
					r[i] = f(a[i])
				}
			}
		case out.Valid == nil:
			for _, i := range sel {
				r[i] = f(a[i])
			}
		default:
			for _, i := range sel {
				if out.Valid.Get(int(i)) {
					r[i] = f(a[i])
				}
			}
		}
	}
}

// Binary makes a kernel that applies f to two fixed-width arguments.
//
//go:noinline
func Binary[A, B, R Fixed](f func(a A, b B) R) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args[0], args[1])
		a, b, r := Data[A](args[0]), Data[B](args[1]), Data[R](out)
		switch {
		case sel == nil && out.Valid == nil:
			a, b, r = a[:n], b[:n], r[:n]
			for i, x := range a {
				r[i] = f(x, b[i])
			}
		case sel == nil:
			for i := 0; i < n; i++ {
				if out.Valid.Get(i) {
					r[i] = f(a[i], b[i])
				}
			}
		case out.Valid == nil:
			for _, i := range sel {
				r[i] = f(a[i], b[i])
			}
		default:
			for _, i := range sel {
				if out.Valid.Get(int(i)) {
					r[i] = f(a[i], b[i])
				}
			}
		}
	}
}

// FromBytes makes a kernel that applies f to a string or binary argument; b is valid during the
// call only.
//
//go:noinline
func FromBytes[R Fixed](f func(b []byte) R) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		out.CopyValid(args[0].Valid)
		a, r := args[0], Data[R](out)
		rows(out.Valid, n, sel, func(i int) { r[i] = f(a.Bytes(i)) })
	}
}

// FromBytes2 is FromBytes of two string or binary arguments.
//
//go:noinline
func FromBytes2[R Fixed](f func(a, b []byte) R) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args[0], args[1])
		a, b, r := args[0], args[1], Data[R](out)
		rows(out.Valid, n, sel, func(i int) { r[i] = f(a.Bytes(i), b.Bytes(i)) })
	}
}

// ToBytes makes a kernel that turns a fixed-width argument into a string or bytes: f appends the
// value to dst and returns it.
//
//go:noinline
func ToBytes[A Fixed](f func(dst []byte, a A) []byte) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		out.CopyValid(args[0].Valid)
		a := Data[A](args[0])
		rows(out.Valid, n, sel, func(i int) { out.EndBytes(i, f(out.BeginBytes(), a[i])) })
	}
}

// BytesToBytes makes a kernel that maps a string or binary argument to another: f appends the
// value to dst and returns it, or returns false for NULL.
//
//go:noinline
func BytesToBytes(f func(dst, a []byte) ([]byte, bool)) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		out.CopyValid(args[0].Valid)
		a := args[0]
		rows(out.Valid, n, sel, func(i int) {
			if b, ok := f(out.BeginBytes(), a.Bytes(i)); ok {
				out.EndBytes(i, b)
			} else {
				out.SetNull(i)
			}
		})
	}
}

// EachRow makes a kernel that calls f for every selected row with no NULL argument, to set value
// i of out (SetNull, SetBytes, Data and the setters below) or to call ctx.Fail. The result is
// NULL where an argument is.
//
//go:noinline
func EachRow(f func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, i int)) Kernel {
	return func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args...)
		// f may make further rows NULL, never one that is still to come.
		rows(out.Valid, n, sel, func(i int) { f(ctx, args, out, i) })
	}
}

// EachRowNullable makes a kernel that calls f for every selected row, NULL arguments or not.
//
//go:noinline
func EachRowNullable(f func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, i int)) Kernel {
	return func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		rows(nil, n, sel, func(i int) { f(ctx, args, out, i) })
	}
}

// NullIn wraps a kernel that minds no NULLs: k runs over the selected rows without a NULL
// argument, and the result is NULL elsewhere. k may make further rows NULL.
//
//go:noinline
func NullIn(k Kernel) Kernel {
	var buf []int32
	return func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args...)
		if out.Valid == nil {
			k(ctx, args, out, n, sel)
			return
		}
		buf = buf[:0]
		if sel == nil {
			for i := 0; i < n; i++ {
				if out.Valid.Get(i) {
					buf = append(buf, int32(i))
				}
			}
		} else {
			for _, i := range sel {
				if out.Valid.Get(int(i)) {
					buf = append(buf, i)
				}
			}
		}
		if len(buf) > 0 { // an empty list could be nil, which means all rows
			k(ctx, args, out, n, buf)
		}
	}
}

// rows calls f for the selected positions that valid has (nil: all of them).
func rows(valid vec.Bitmap, n int, sel []int32, f func(i int)) {
	switch {
	case sel == nil && valid == nil:
		for i := 0; i < n; i++ {
			f(i)
		}
	case sel == nil:
		for i := 0; i < n; i++ {
			if valid.Get(i) {
				f(i)
			}
		}
	case valid == nil:
		for _, i := range sel {
			f(int(i))
		}
	default:
		for _, i := range sel {
			if valid.Get(int(i)) {
				f(int(i))
			}
		}
	}
}

// andValid makes out NULL where one of args is.
func andValid(out *vec.Vec, args ...*vec.Vec) {
	out.Valid = nil
	for _, a := range args {
		switch {
		case a.Phys == types.PNone:
			out.AllValid()
			clear(out.Valid)
			return
		case a.Valid == nil:
		case out.Valid == nil:
			out.CopyValid(a.Valid)
		default:
			w := out.Valid
			for k, x := range a.Valid[:len(w)] {
				w[k] &= x
			}
		}
	}
}

// IntAt returns value i of a vector of TINYINT to BIGINT, DATE, TIME or an interval.
func IntAt(v *vec.Vec, i int) int64 {
	if v.Phys == types.PI32 {
		return int64(v.I32[i])
	}
	return v.I64[i]
}

// SetInt stores x in a vector of TINYINT to BIGINT, DATE, TIME or an interval.
func SetInt(v *vec.Vec, i int, x int64) {
	if v.Phys == types.PI32 {
		v.I32[i] = int32(x)
		return
	}
	v.I64[i] = x
}

// TimestampAt returns value i of a vector of TIMESTAMP or TIMESTAMP_LTZ of any precision: the ms
// since the epoch, rounded down, and the nanoseconds within it.
func TimestampAt(v *vec.Vec, i int) (ms int64, nanos int32) {
	if v.Phys == types.PI64 {
		return v.I64[i], 0
	}
	return v.I128[i].Hi, int32(v.I128[i].Lo)
}

// SetTimestamp stores a timestamp in a vector of any precision; digits beyond it must be zero
// already.
func SetTimestamp(v *vec.Vec, i int, ms int64, nanos int32) {
	if v.Phys == types.PI64 {
		v.I64[i] = ms
		return
	}
	v.I128[i] = types.TS(ms, nanos)
}

// DecimalAt returns value i of a vector of DECIMAL, unscaled.
func DecimalAt(v *vec.Vec, i int) types.Int128 {
	if v.Phys == types.PI64 {
		return types.I128(v.I64[i])
	}
	return v.I128[i]
}

// SetDecimal stores an unscaled DECIMAL, or NULL where x has more digits than the vector's type.
func SetDecimal(v *vec.Vec, i int, x types.Int128) {
	if !x.FitsDecimal(v.Type.Precision) {
		v.SetNull(i)
		return
	}
	if v.Phys == types.PI64 {
		v.I64[i] = int64(x.Lo)
		return
	}
	v.I128[i] = x
}

// FloatAt returns value i of a vector of FLOAT or DOUBLE.
func FloatAt(v *vec.Vec, i int) float64 {
	if v.Phys == types.PF32 {
		return float64(v.F32[i])
	}
	return v.F64[i]
}

// Const returns the value of a literal argument; ok is false when e is not one. A NULL literal
// gives nil and true.
func Const(e Expr) (v types.Value, ok bool) {
	l, ok := e.(*Literal)
	if !ok {
		return nil, false
	}
	return l.Value, true
}

// ConstString returns the value of a literal string or symbol (a time unit).
func ConstString(e Expr) (string, bool) {
	v, _ := Const(e)
	s, ok := v.(string)
	return s, ok
}

// ConstInt returns the value of a literal integer.
func ConstInt(e Expr) (int64, bool) {
	v, _ := Const(e)
	i, ok := v.(int64)
	return i, ok
}
