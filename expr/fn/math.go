package fn

import (
	"math"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/ddmath"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// The arithmetic functions of DOUBLE. Numbers of other types are converted.

func init() {
	for _, f := range []struct {
		name, doc string
		f         func(float64) float64
	}{
		{"SQRT", "The square root; NaN for negative numbers.", math.Sqrt},
		{"LN", "The natural logarithm; -Infinity for 0, NaN for negative numbers.", ddmath.Log},
		{"LOG2", "The logarithm to base 2.", log2},
		{"LOG10", "The logarithm to base 10.", ddmath.Log10},
		{"EXP", "e raised to the power of the argument.", ddmath.Exp},
		{"SIN", "The sine of an angle in radians.", ddmath.Sin},
		{"SINH", "The hyperbolic sine.", ddmath.Sinh},
		{"COS", "The cosine of an angle in radians.", ddmath.Cos},
		{"COSH", "The hyperbolic cosine.", ddmath.Cosh},
		{"TAN", "The tangent of an angle in radians.", ddmath.Tan},
		{"TANH", "The hyperbolic tangent.", ddmath.Tanh},
		{"COT", "The cotangent of an angle in radians.", func(x float64) float64 { return 1 / ddmath.Tan(x) }},
		{"ASIN", "The angle in radians whose sine the argument is; NaN outside -1 to 1.", ddmath.Asin},
		{"ACOS", "The angle in radians whose cosine the argument is; NaN outside -1 to 1.", ddmath.Acos},
		{"ATAN", "The angle in radians whose tangent the argument is.", ddmath.Atan},
		{"DEGREES", "An angle in radians converted to degrees.", func(x float64) float64 { return x * (180 / math.Pi) }},
		{"RADIANS", "An angle in degrees converted to radians.", func(x float64) float64 { return x * (math.Pi / 180) }},
	} {
		expr.Register(expr.Func{
			Name: f.name, Usage: f.name + "(x)", Doc: f.doc, Category: catArithmetic,
			Infer: sig(of(types.DoubleType), 1, double), Compile: kernel(expr.Unary(f.f)),
		})
	}
	expr.Register(expr.Func{
		Name: "POWER", Usage: "POWER(x, y)", Category: catArithmetic,
		Doc:   "x raised to the power of y.",
		Infer: sig(of(types.DoubleType), 2, double, double), Compile: kernel(expr.Binary(power)),
	})
	expr.Register(expr.Func{
		Name: "ATAN2", Usage: "ATAN2(y, x)", Category: catArithmetic,
		Doc:   "The angle in radians of the point (x, y), from -pi to pi.",
		Infer: sig(of(types.DoubleType), 2, double, double), Compile: kernel(expr.Binary(math.Atan2)),
	})
	expr.Register(expr.Func{
		Name: "LOG", Usage: "LOG(x) | LOG(base, x)", Category: catArithmetic,
		Doc:   "The natural logarithm of x, or its logarithm to a base.",
		Infer: sig(of(types.DoubleType), 1, double, double), Compile: compileLog,
	})
	for _, c := range []struct {
		name, doc string
		v         float64
	}{{"PI", "The number pi.", math.Pi}, {"E", "The base of the natural logarithm.", math.E}} {
		expr.Register(expr.Func{
			Name: c.name, Usage: c.name + "()", Doc: c.doc, Category: catArithmetic,
			Infer: sig(never(types.DoubleType), 0),
			Compile: kernel(func(_ *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, n int, _ []int32) {
				for i := range out.F64[:n] {
					out.F64[i] = c.v
				}
			}),
		})
	}
	expr.Register(expr.Func{
		Name: "ABS", Usage: "ABS(x)", Category: catArithmetic,
		Doc:   "The number without its sign, in its own type.",
		Infer: sig(typeOfArg(0, types.IntType), 1, numeric), Compile: compileAbs,
	})
	expr.Register(expr.Func{
		Name: "SIGN", Usage: "SIGN(x)", Category: catArithmetic,
		Doc:   "-1, 0 or 1 as the number is negative, zero or positive, in its own type.",
		Infer: sig(typeOfArg(0, types.IntType), 1, numeric), Compile: compileSign,
	})
}

var ln2 = ddmath.Log(2)

func log2(x float64) float64 { return ddmath.Log(x) / ln2 }

// power differs from package ddmath where Java does: one to the power of infinity or NaN is NaN.
func power(x, y float64) float64 {
	if y != y || math.Abs(x) == 1 && math.IsInf(y, 0) {
		return math.NaN()
	}
	return ddmath.Pow(x, y)
}

func compileLog(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	if len(c.Args) == 1 {
		return expr.Unary(ddmath.Log), nil
	}
	return expr.Binary(func(base, x float64) float64 { return ddmath.Log(x) / ddmath.Log(base) }), nil
}

func compileAbs(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	switch c.T.Phys() {
	case types.PI32:
		bits := 32 - map[types.Kind]int{types.TinyInt: 8, types.SmallInt: 16, types.Int: 32}[c.T.Kind]
		// The least value of a type has no positive twin and stays, as in Java.
		return expr.Unary(func(x int32) int32 { return max(x, -x) << bits >> bits }), nil
	case types.PI64:
		return expr.Unary(func(x int64) int64 { return max(x, -x) }), nil
	case types.PI128:
		return expr.Unary(func(x types.Int128) types.Int128 {
			if x.Hi < 0 {
				return x.Neg()
			}
			return x
		}), nil
	case types.PF32:
		return expr.Unary(func(x float32) float32 { return float32(math.Abs(float64(x))) }), nil
	}
	return expr.Unary(math.Abs), nil
}

func compileSign(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	one := types.Pow10(c.T.Scale)
	switch c.T.Phys() {
	case types.PI32:
		return expr.Unary(func(x int32) int32 { return x>>31 | int32(uint32(-x)>>31) }), nil
	case types.PI64:
		return expr.Unary(func(x int64) int64 {
			return (x>>63 | int64(uint64(-x)>>63)) * int64(one.Lo)
		}), nil
	case types.PI128:
		return expr.Unary(func(x types.Int128) types.Int128 {
			switch x.Sign() {
			case 0:
				return types.Int128{}
			case 1:
				return one
			}
			return one.Neg()
		}), nil
	case types.PF32:
		return expr.Unary(func(x float32) float32 { return float32(sign(float64(x))) }), nil
	}
	return expr.Unary(sign), nil
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x // zero, also negative zero, and NaN
}
