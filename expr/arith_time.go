package expr

import (
	"math"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// intervalArith types what has a date, a time or an interval on one side.
func intervalArith(op string, x, y types.Type, null bool) (Signature, bool) {
	switch {
	case op == "-" && x.IsTimestamp() && y.IsTimestamp():
		return Sig(types.Type{Kind: types.IntervalDayTime, Nullable: null, Precision: 3}, Any, Any), x.Kind == y.Kind
	case op == "-" && x.Kind == types.Date && y.Kind == types.Date:
		return Sig(types.Type{Kind: types.IntervalDayTime, Nullable: null, Precision: 3}, Any, Any), true
	case (op == "+" || op == "-") && x.IsTemporal() && y.IsInterval():
		return Sig(x.WithoutAttr().WithNullable(null), Any, Any), x.Kind != types.Time || y.Kind == types.IntervalDayTime
	case op == "+" && x.IsInterval() && y.IsTemporal():
		return Sig(y.WithoutAttr().WithNullable(null), Any, Any), y.Kind != types.Time || x.Kind == types.IntervalDayTime
	case (op == "+" || op == "-") && x.IsInterval() && x.Kind == y.Kind:
		t := x
		if x.Unit != y.Unit {
			t.Unit = types.UnitNone
		}
		return Sig(t.WithNullable(null), Any, Any), true
	case (op == "*" || op == "/") && x.IsInterval() && y.IsNumeric():
		return Sig(x.WithNullable(null), Any, factor(y)), true
	case op == "*" && x.IsNumeric() && y.IsInterval():
		return Sig(y.WithNullable(null), factor(x), Any), true
	}
	return Signature{}, false
}

// factor is what a number is cast to before it multiplies an interval.
func factor(t types.Type) types.Type {
	if t.IsInteger() {
		return types.BigIntType
	}
	return types.DoubleType
}

func compileIntervalArith(call *Call) (Kernel, error) {
	ax, ay := 0, 1
	x, y := call.Args[0].Type(), call.Args[1].Type()
	if x.IsInterval() && y.IsTemporal() || x.IsNumeric() {
		ax, ay = 1, 0
		x, y = y, x
	}
	sign := int64(1)
	if call.Fn == "-" {
		sign = -1
	}
	if x.IsTimestamp() && x.Precision == 3 && y.Kind == types.IntervalDayTime {
		// Addition of ms, and no digits to clear.
		if ax == 1 {
			return Binary(func(b, a int64) int64 { return a + sign*b }), nil
		}
		return Binary(func(a, b int64) int64 { return a + sign*b }), nil
	}
	var f func(a, b, out *vec.Vec, i int) error
	switch {
	case x.Kind == types.Date && y.Kind == types.Date:
		f = func(a, b, out *vec.Vec, i int) error {
			out.I64[i] = int64(a.I32[i]-b.I32[i]) * types.MsPerDay
			return nil
		}
	case x.IsTemporal() && y.IsTemporal():
		f = func(a, b, out *vec.Vec, i int) error {
			p, _ := TimestampAt(a, i)
			q, _ := TimestampAt(b, i)
			out.I64[i] = p - q
			return nil
		}
	case x.IsInterval() && y.IsInterval():
		f = func(a, b, out *vec.Vec, i int) error {
			SetInt(out, i, IntAt(a, i)+sign*IntAt(b, i))
			return nil
		}
	case x.IsInterval():
		f = scaleInterval(call.Fn == "/", y)
	case y.Kind == types.IntervalYearMonth:
		f = addMonths(x, sign)
	default:
		f = addMs(x, sign)
	}
	return EachRow(func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		if err := f(args[ax], args[ay], out, i); err != nil {
			ctx.Fail(i, err)
		}
	}), nil
}

func scaleInterval(divide bool, by types.Type) func(a, b, out *vec.Vec, i int) error {
	if by.Phys() == types.PF64 {
		return func(a, b, out *vec.Vec, i int) error {
			r := float64(IntAt(a, i)) * b.F64[i]
			if divide {
				r = float64(IntAt(a, i)) / b.F64[i]
			}
			SetInt(out, i, int64(math.Trunc(r)))
			return nil
		}
	}
	return func(a, b, out *vec.Vec, i int) error {
		switch {
		case !divide:
			SetInt(out, i, IntAt(a, i)*b.I64[i])
		case b.I64[i] == 0:
			SetInt(out, i, 0)
			return errDivZero
		default:
			SetInt(out, i, IntAt(a, i)/b.I64[i])
		}
		return nil
	}
}

func addMonths(x types.Type, sign int64) func(a, b, out *vec.Vec, i int) error {
	if x.Kind == types.Date {
		return func(a, b, out *vec.Vec, i int) error {
			out.I32[i] = types.AddMonthsToDays(a.I32[i], int(sign)*int(b.I32[i]))
			return nil
		}
	}
	return func(a, b, out *vec.Vec, i int) error {
		ms, nanos := TimestampAt(a, i)
		SetTimestamp(out, i, types.AddMonths(ms, int(sign)*int(b.I32[i])), nanos)
		return nil
	}
}

func addMs(x types.Type, sign int64) func(a, b, out *vec.Vec, i int) error {
	switch x.Kind {
	case types.Date:
		return func(a, b, out *vec.Vec, i int) error {
			out.I32[i] = a.I32[i] + int32(sign*(b.I64[i]/types.MsPerDay))
			return nil
		}
	case types.Time:
		return func(a, b, out *vec.Vec, i int) error {
			t := (int64(a.I32[i]) + types.MsPerDay + sign*(b.I64[i]%types.MsPerDay)) % types.MsPerDay
			out.I32[i] = int32(t)
			return nil
		}
	}
	p := x.Precision
	return func(a, b, out *vec.Vec, i int) error {
		ms, nanos := TimestampAt(a, i)
		ms, nanos = types.RoundTimestamp(ms+sign*b.I64[i], nanos, p)
		SetTimestamp(out, i, ms, nanos)
		return nil
	}
}
