package expr

import (
	"errors"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	for _, f := range []struct{ name, doc string }{
		{"+", "The sum. Integers wrap around; DECIMALs that do not fit are NULL. Also a date or time plus an interval."},
		{"-", "The difference, with the rules of +. Also a date or time minus an interval."},
		{"*", "The product, with the rules of +. Also an interval times a number."},
		{"/", "The quotient. Integers are truncated towards zero; dividing one or a DECIMAL by zero is an error."},
		{"%", "The remainder, with the sign of x, and the type of y for integers."},
	} {
		fn := Func{
			Name: f.name, Usage: "x " + f.name + " y", Doc: f.doc, Category: "Arithmetic",
			Infer: inferArith(f.name), Compile: compileArith,
		}
		if f.name == "%" {
			fn.Aliases = []string{"MOD"}
		}
		Register(fn)
	}
	Register(Func{
		Name: "NEGATE", Aliases: []string{"UNARY -"}, Usage: "-x", Category: "Arithmetic",
		Doc:   "The number or interval with its sign changed; the smallest integer stays as it is.",
		Infer: inferNegate, Compile: compileNegate,
	})
}

var errDivZero = errors.New("division by zero")

// inferArith types x op y as Flink does.
func inferArith(op string) func(Args) (Signature, error) {
	return func(a Args) (Signature, error) {
		if err := a.Count(2, 2); err != nil {
			return Signature{}, err
		}
		x, y := a.Type(0), a.Type(1)
		null := a.AnyNullable()
		switch {
		case x.Kind == types.Null && y.Kind == types.Null:
			return Sig(types.IntType, types.IntType, types.IntType), nil
		case x.Kind == types.Null:
			x = y
		case y.Kind == types.Null:
			y = x
		}
		if x.IsNumeric() && y.IsNumeric() {
			return numericArith(op, x, y, null), nil
		}
		if s, ok := intervalArith(op, x, y, null); ok {
			return s, nil
		}
		return Signature{}, Errorf("cannot apply %s to %s and %s", op, a.Type(0).AsNullable(), a.Type(1).AsNullable())
	}
}

func numericArith(op string, x, y types.Type, null bool) Signature {
	switch {
	case x.IsApprox() || y.IsApprox():
		t := commonNumeric(x, y).WithNullable(null)
		return Sig(t, t, t)
	case x.Kind != types.Decimal && y.Kind != types.Decimal:
		t := commonNumeric(x, y)
		if op == "%" {
			// Computed in the wider type; the result fits in that of the divisor.
			return Sig(y.WithNullable(null), t, t)
		}
		t.Nullable = null
		return Sig(t, t, t)
	}
	var t types.Type
	switch dx, dy := AsDecimal(x), AsDecimal(y); op {
	case "+", "-":
		t = addType(dx, dy)
	case "*":
		t = mulType(dx, dy)
	case "/":
		t = divType(dx, dy)
	default:
		if dx.Scale == 0 && dy.Scale == 0 {
			t = y
		} else {
			t = modType(dx, dy)
		}
	}
	// A DECIMAL overflows to NULL.
	return Sig(t.WithNullable(null), Any, Any)
}

// addType is the type of the sum of DECIMALs; so are the next of product, quotient, remainder.
func addType(x, y types.Type) types.Type {
	s := max(x.Scale, y.Scale)
	return adjust(max(x.Precision-x.Scale, y.Precision-y.Scale)+s+1, s)
}

func mulType(x, y types.Type) types.Type {
	return adjust(x.Precision+y.Precision+1, x.Scale+y.Scale)
}

func divType(x, y types.Type) types.Type {
	s := max(6, x.Scale+y.Precision+1)
	return adjust(x.Precision-x.Scale+y.Scale+s, s)
}

func modType(x, y types.Type) types.Type {
	s := max(x.Scale, y.Scale)
	return adjust(min(x.Precision-x.Scale, y.Precision-y.Scale)+s, s)
}

// adjust limits the precision to 38 digits, giving up fractional digits beyond six.
func adjust(precision, scale int) types.Type {
	if precision <= types.MaxPrecision {
		return types.DecimalType(precision, scale)
	}
	whole := precision - scale
	return types.DecimalType(types.MaxPrecision, max(types.MaxPrecision-whole, min(scale, 6)))
}

func compileArith(_ *CompileCtx, call *Call) (Kernel, error) {
	x, y := call.Args[0].Type(), call.Args[1].Type()
	switch {
	case x.IsTemporal() || y.IsTemporal() || x.IsInterval() || y.IsInterval():
		return compileIntervalArith(call)
	case x.Kind == types.Decimal || y.Kind == types.Decimal:
		return compileDecimalArith(call), nil
	}
	switch t := call.T; {
	case call.Fn == "%" && x.Phys() == types.PI64 && t.Phys() == types.PI32:
		return intDivide[int64, int32]("%", 0), nil
	case t.Kind == types.Double:
		return floatArith[float64](call.Fn), nil
	case t.Kind == types.Float:
		return floatArith[float32](call.Fn), nil
	case t.Kind == types.BigInt && x.Phys() == types.PI64:
		return intArith[int64](call.Fn, 64), nil
	case t.Kind == types.BigInt:
		return nil, Errorf("BUG: %s is not widened to BIGINT", x)
	case t.Kind == types.TinyInt:
		return intArith[int32](call.Fn, 8), nil
	case t.Kind == types.SmallInt:
		return intArith[int32](call.Fn, 16), nil
	}
	return intArith[int32](call.Fn, 32), nil
}

// intArith computes in T and wraps around at width bits.
func intArith[T int32 | int64](op string, width uint) Kernel {
	var size T
	shift := uint(64)
	if any(size) == any(int32(0)) {
		shift = 32
	}
	shift -= width
	switch {
	case op == "/" || op == "%":
		return intDivide[T, T](op, shift)
	case shift == 0 && op == "+":
		return arith(func(a, b, r []T) {
			for i, x := range a {
				r[i] = x + b[i]
			}
		}, func(a, b, r []T, sel []int32) {
			for _, i := range sel {
				r[i] = a[i] + b[i]
			}
		})
	case shift == 0 && op == "-":
		return arith(func(a, b, r []T) {
			for i, x := range a {
				r[i] = x - b[i]
			}
		}, func(a, b, r []T, sel []int32) {
			for _, i := range sel {
				r[i] = a[i] - b[i]
			}
		})
	case shift == 0:
		return arith(func(a, b, r []T) {
			for i, x := range a {
				r[i] = x * b[i]
			}
		}, func(a, b, r []T, sel []int32) {
			for _, i := range sel {
				r[i] = a[i] * b[i]
			}
		})
	}
	switch op {
	case "+":
		return Binary(func(a, b T) T { return (a + b) << shift >> shift })
	case "-":
		return Binary(func(a, b T) T { return (a - b) << shift >> shift })
	}
	return Binary(func(a, b T) T { return (a * b) << shift >> shift })
}

// arith makes a kernel of two loops that do not care what the slots of NULLs hold.
//
//go:noinline
func arith[T Fixed](all func(a, b, r []T), some func(a, b, r []T, sel []int32)) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args[0], args[1])
		a, b, r := Data[T](args[0])[:n], Data[T](args[1])[:n], Data[T](out)[:n]
		if sel == nil {
			all(a, b, r)
		} else {
			some(a, b, r, sel)
		}
	}
}

// intDivide divides integers, and wraps the result around at shift bits less than R has. A zero
// divisor fails the row.
//
//go:noinline
func intDivide[T, R int32 | int64](op string, shift uint) Kernel {
	return func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args[0], args[1])
		a, b, r := Data[T](args[0]), Data[T](args[1]), Data[R](out)
		rows(out.Valid, n, sel, func(i int) {
			switch d := b[i]; {
			case d == 0:
				r[i] = 0
				ctx.Fail(i, errDivZero)
			case op == "/":
				r[i] = R(a[i]/d) << shift >> shift
			default:
				r[i] = R(a[i]%d) << shift >> shift
			}
		})
	}
}

func floatArith[T float32 | float64](op string) Kernel {
	switch op {
	case "+":
		return arith(func(a, b, r []T) {
			for i, x := range a {
				r[i] = x + b[i]
			}
		}, func(a, b, r []T, sel []int32) {
			for _, i := range sel {
				r[i] = a[i] + b[i]
			}
		})
	case "-":
		return arith(func(a, b, r []T) {
			for i, x := range a {
				r[i] = x - b[i]
			}
		}, func(a, b, r []T, sel []int32) {
			for _, i := range sel {
				r[i] = a[i] - b[i]
			}
		})
	case "*":
		return arith(func(a, b, r []T) {
			for i, x := range a {
				r[i] = x * b[i]
			}
		}, func(a, b, r []T, sel []int32) {
			for _, i := range sel {
				r[i] = a[i] * b[i]
			}
		})
	case "/":
		return arith(func(a, b, r []T) {
			for i, x := range a {
				r[i] = x / b[i]
			}
		}, func(a, b, r []T, sel []int32) {
			for _, i := range sel {
				r[i] = a[i] / b[i]
			}
		})
	}
	return Binary(func(a, b T) T { return T(mod(float64(a), float64(b))) })
}

func inferNegate(a Args) (Signature, error) {
	if err := a.Count(1, 1); err != nil {
		return Signature{}, err
	}
	t := a.Type(0)
	if t.Kind == types.Null {
		return Sig(types.IntType, types.IntType), nil
	}
	if !t.IsNumeric() && !t.IsInterval() {
		return Signature{}, a.Mismatch(0, "a number or an interval")
	}
	return Sig(t), nil
}

func compileNegate(_ *CompileCtx, call *Call) (Kernel, error) {
	switch call.T.Phys() {
	case types.PI32:
		switch call.T.Kind {
		case types.TinyInt:
			return Unary(func(a int32) int32 { return int32(int8(-a)) }), nil
		case types.SmallInt:
			return Unary(func(a int32) int32 { return int32(int16(-a)) }), nil
		}
		return Unary(func(a int32) int32 { return -a }), nil
	case types.PI64:
		return Unary(func(a int64) int64 { return -a }), nil
	case types.PI128:
		return Unary(types.Int128.Neg), nil
	case types.PF32:
		return Unary(func(a float32) float32 { return -a }), nil
	}
	return Unary(func(a float64) float64 { return -a }), nil
}
