package expr

import (
	"math"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func mod(a, b float64) float64 { return math.Mod(a, b) }

// compileDecimalArith computes on DECIMALs and integers as they are stored: no widening first.
// The exact result is rounded half away from zero to the scale of the type, and is NULL where it
// has more digits than the type.
func compileDecimalArith(call *Call) Kernel {
	x, y, t := AsDecimal(call.Args[0].Type()), AsDecimal(call.Args[1].Type()), call.T
	switch call.Fn {
	case "*":
		return decimalMul(call, x, y)
	case "/":
		return decimalDiv(x, y, t)
	case "%":
		return decimalMod(x, y)
	}
	sub := call.Fn == "-"
	s := max(x.Scale, y.Scale)
	if t.Scale == s && small(call.Args[0]) && small(call.Args[1]) {
		if k := smallAdd(call, types.Pow10Int64(min(s-x.Scale, 18)), types.Pow10Int64(min(s-y.Scale, 18))); k != nil &&
			t.Precision <= types.MaxSmallDecimal {
			// Neither the factors nor the sum can overflow: t has a digit more than both.
			return k
		}
	}
	fits := max(x.Precision-x.Scale, y.Precision-y.Scale)+s+1 <= types.MaxPrecision
	return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		a, ok1 := exactAt(args[0], i).Rescale(x.Scale, s)
		b, ok2 := exactAt(args[1], i).Rescale(y.Scale, s)
		if sub {
			b = b.Neg()
		}
		r := a.Add(b)
		if fits {
			storeDecimal(out, i, r)
			return
		}
		if !ok1 || !ok2 || (a.Hi < 0) == (b.Hi < 0) && (r.Hi < 0) != (a.Hi < 0) {
			addWide(out, i, exactAt(args[0], i), x.Scale, exactAt(args[1], i), y.Scale, sub)
			return
		}
		r, _ = r.Rescale(s, t.Scale)
		SetDecimal(out, i, r)
	})
}

// addWide adds where the exact sum may exceed 128 bits: rare, so by arbitrary precision.
func addWide(out *vec.Vec, i int, a types.Int128, sa int, b types.Int128, sb int, sub bool) {
	r, ok := types.AddDecimalWide(a, sa, b, sb, sub, out.Type.Scale)
	if !ok {
		out.SetNull(i)
		return
	}
	SetDecimal(out, i, r)
}

// small reports whether values of e are stored in 64 bits or less.
func small(e Expr) bool { return e.Type().Phys() != types.PI128 }

// exactAt reads an integer or DECIMAL, unscaled.
func exactAt(v *vec.Vec, i int) types.Int128 {
	switch v.Phys {
	case types.PI32:
		return types.I128(int64(v.I32[i]))
	case types.PI64:
		return types.I128(v.I64[i])
	}
	return v.I128[i]
}

// storeDecimal stores a value that is known to fit.
func storeDecimal(out *vec.Vec, i int, x types.Int128) {
	switch out.Phys {
	case types.PI32:
		out.I32[i] = int32(x.Lo)
	case types.PI64:
		out.I64[i] = int64(x.Lo)
	default:
		out.I128[i] = x
	}
}

func smallAdd(call *Call, mx, my int64) Kernel {
	if call.Fn == "-" {
		my = -my
	}
	return small2(call, func(a, b int64) int64 { return a*mx + b*my })
}

// small2 makes a kernel from 64-bit or 32-bit operands to a 64-bit result.
func small2(call *Call, f func(a, b int64) int64) Kernel {
	px, py := call.Args[0].Type().Phys(), call.Args[1].Type().Phys()
	switch {
	case px == types.PI64 && py == types.PI64:
		return Binary(f)
	case px == types.PI32 && py == types.PI64:
		return Binary(func(a int32, b int64) int64 { return f(int64(a), b) })
	case px == types.PI64 && py == types.PI32:
		return Binary(func(a int64, b int32) int64 { return f(a, int64(b)) })
	}
	return nil
}

func decimalMul(call *Call, x, y types.Type) Kernel {
	t := call.T
	drop := x.Scale + y.Scale - t.Scale
	exact := drop == 0 && x.Precision+y.Precision <= t.Precision
	if exact && small(call.Args[0]) && small(call.Args[1]) {
		if t.Phys() == types.PI64 {
			if k := small2(call, func(a, b int64) int64 { return a * b }); k != nil {
				return k
			}
		}
		if t.Phys() == types.PI128 {
			if k := mulSmall(call); k != nil {
				return k
			}
		}
	}
	return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		r, ok := types.MulDecimal(exactAt(args[0], i), exactAt(args[1], i), drop)
		if !ok {
			out.SetNull(i)
			return
		}
		if exact {
			storeDecimal(out, i, r)
			return
		}
		SetDecimal(out, i, r)
	})
}

// mulSmall multiplies 64-bit operands to 128 bits, a constant with a column in a loop of its own.
func mulSmall(call *Call) Kernel {
	a, b := call.Args[0], call.Args[1]
	ca, cb := 0, 1
	if _, ok := a.(*Literal); ok {
		a, b, ca, cb = b, a, cb, ca
	}
	if a.Type().Phys() != types.PI64 || b.Type().Phys() != types.PI64 {
		return nil
	}
	if v, ok := Const(b); ok && v != nil {
		one := vec.New(b.Type(), 1)
		one.SetValue(0, v)
		c := one.I64[0]
		return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
			out.CopyValid(args[ca].Valid)
			x, r := args[ca].I64[:n], out.I128[:n]
			if sel == nil {
				for i, v := range x {
					r[i] = types.MulInt64(v, c)
				}
				return
			}
			for _, i := range sel {
				r[i] = types.MulInt64(x[i], c)
			}
		}
	}
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args[0], args[1])
		x, y, r := args[ca].I64[:n], args[cb].I64[:n], out.I128[:n]
		if sel == nil {
			for i, v := range x {
				r[i] = types.MulInt64(v, y[i])
			}
			return
		}
		for _, i := range sel {
			r[i] = types.MulInt64(x[i], y[i])
		}
	}
}

//go:noinline
func decimalDiv(x, y, t types.Type) Kernel {
	// (a / 10^sx) / (b / 10^sy) * 10^st = a * 10^(st - sx + sy) / b
	shift := t.Scale - x.Scale + y.Scale
	return EachRow(func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		b := exactAt(args[1], i)
		if b == (types.Int128{}) {
			storeDecimal(out, i, b)
			ctx.Fail(i, errDivZero)
			return
		}
		r, ok := types.DivDecimal(exactAt(args[0], i), b, shift)
		if !ok {
			out.SetNull(i)
			return
		}
		SetDecimal(out, i, r)
	})
}

//go:noinline
func decimalMod(x, y types.Type) Kernel {
	s := max(x.Scale, y.Scale)
	return EachRow(func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		a, ok1 := exactAt(args[0], i).Rescale(x.Scale, s)
		b, ok2 := exactAt(args[1], i).Rescale(y.Scale, s)
		switch {
		case ok2 && b == (types.Int128{}):
			storeDecimal(out, i, b)
			ctx.Fail(i, errDivZero)
			return
		case !ok2 && ok1:
			// |b| exceeds every a.
			storeDecimalOrNull(out, i, a, s)
			return
		case !ok1 || !ok2:
			out.SetNull(i)
			return
		}
		_, r := a.QuoRem(b)
		storeDecimalOrNull(out, i, r, s)
	})
}

// storeDecimalOrNull stores x of scale s in a DECIMAL or integer vector.
func storeDecimalOrNull(out *vec.Vec, i int, x types.Int128, s int) {
	if out.Type.Kind != types.Decimal {
		storeDecimal(out, i, x)
		return
	}
	x, ok := x.Rescale(s, out.Type.Scale)
	if !ok {
		out.SetNull(i)
		return
	}
	SetDecimal(out, i, x)
}
