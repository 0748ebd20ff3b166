package fn

import (
	"math"
	"strconv"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// ROUND, TRUNCATE and CEIL and FLOOR of numbers. DECIMALs are exact; the type of the result loses
// the digits that the rounding removes, if their number is constant. FLOOR and CEIL of times are in
// time_floor.go.

func init() {
	expr.Register(expr.Func{
		Name: "ROUND", Usage: "ROUND(x [, digits])", Category: catArithmetic,
		Doc: "The number rounded half away from zero to a number of fractional digits, 0 if it " +
			"is not given; negative digits round left of the point.",
		Infer: sig(rounded, 1, numeric, integer), Compile: compileRound,
	})
	expr.Register(expr.Func{
		Name: "TRUNCATE", Usage: "TRUNCATE(x [, digits])", Category: catArithmetic,
		Doc:   "The number cut to a number of fractional digits, 0 if it is not given.",
		Infer: sig(rounded, 1, numeric, integer), Compile: compileTruncate,
	})
	for _, f := range []struct{ name, alias, doc string }{
		{"FLOOR", "", "The largest whole number that is not greater than x, in its own type (a DECIMAL " +
			"without fraction digits), or a time rounded down to a unit such as HOUR, DAY or MONTH; weeks start on Sunday."},
		{"CEIL", "CEILING", "The smallest whole number that is not less than x, in its own type (a DECIMAL " +
			"without fraction digits), or a time rounded up to a unit."},
	} {
		up := f.name == "CEIL"
		fn := expr.Func{
			Name: f.name, Usage: f.name + "(x) | " + f.name + "(time TO unit)", Doc: f.doc, Category: catArithmetic,
			Infer: inferFloor,
			Compile: func(c *expr.CompileCtx, call *expr.Call) (expr.Kernel, error) {
				if len(call.Args) == 2 {
					return compileFloorTo(c, call, up)
				}
				return compileFloor(call, up), nil
			},
		}
		if f.alias != "" {
			fn.Aliases = []string{f.alias}
		}
		expr.Register(fn)
	}
}

// rounded is the type of ROUND and TRUNCATE: DECIMAL(p, s) rounded to d digits needs one more digit before the
// point than before.
func rounded(a expr.Args) types.Type {
	t := typeOfArg(0, types.IntType)(a)
	if t.Kind != types.Decimal {
		return t
	}
	d, known := digitsArg(a)
	switch {
	case !known || d >= t.Scale:
		return t
	case d < 0:
		t.Precision, t.Scale = min(types.MaxPrecision, 1+t.Precision-t.Scale), 0
	default:
		t.Precision, t.Scale = 1+t.Precision-t.Scale+d, d
	}
	return t
}

// digitsArg is the second argument of ROUND; known is false when it is not constant.
func digitsArg(a expr.Args) (d int, known bool) {
	if a.Len() < 2 {
		return 0, true
	}
	v, ok := expr.ConstInt(a.Exprs[1])
	return int(v), ok
}

// inferFloor types FLOOR and CEIL of a number, or of a time to a unit.
func inferFloor(a expr.Args) (expr.Signature, error) {
	if a.Len() == 2 {
		return verify(sig(floorType, 2, temporal, symbol), checkFloorUnit)(a)
	}
	return sig(whole, 1, numeric)(a)
}

// whole is the type of FLOOR and CEIL.
func whole(a expr.Args) types.Type {
	t := typeOfArg(0, types.IntType)(a)
	if t.Kind == types.Decimal {
		t.Scale = 0
	}
	return t
}

func compileFloor(c *expr.Call, up bool) expr.Kernel {
	from := c.Args[0].Type()
	switch {
	case from.Kind == types.Float:
		if up {
			return expr.Unary(func(x float32) float32 { return float32(math.Ceil(float64(x))) })
		}
		return expr.Unary(func(x float32) float32 { return float32(math.Floor(float64(x))) })
	case from.Kind == types.Double && up:
		return expr.Unary(math.Ceil)
	case from.Kind == types.Double:
		return expr.Unary(math.Floor)
	}
	one, scale := types.I128(1), from.Scale
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		if from.Kind != types.Decimal {
			out.Set(i, args[0], i)
			return
		}
		x := expr.DecimalAt(args[0], i)
		r := x.Truncate(scale, 0)
		if types.CmpDecimal(r, 0, x, scale) != 0 {
			if up && x.Hi >= 0 {
				r = r.Add(one)
			} else if !up && x.Hi < 0 {
				r = r.Sub(one)
			}
		}
		expr.SetDecimal(out, i, r)
	})
}

func compileRound(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	return compileDigits(c, true), nil
}

func compileTruncate(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	return compileDigits(c, false), nil
}

// compileDigits makes the kernel of ROUND or TRUNCATE.
func compileDigits(c *expr.Call, round bool) expr.Kernel {
	from := c.Args[0].Type()
	digits := func(args []*vec.Vec, i int) int {
		if len(args) < 2 {
			return 0
		}
		return int(args[1].I32[i])
	}
	switch {
	case from.IsInteger():
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			setNarrow(out, i, roundInt(expr.IntAt(args[0], i), digits(args, i), round))
		})
	case from.Kind == types.Decimal:
		to := c.T.Scale
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			r, ok := roundDecimal(expr.DecimalAt(args[0], i), from.Scale, to, digits(args, i), round)
			if !ok {
				out.SetNull(i)
				return
			}
			expr.SetDecimal(out, i, r)
		})
	}
	var buf [32]byte
	size := 64
	if from.Kind == types.Float {
		size = 32
	}
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		x := roundFloat(expr.FloatAt(args[0], i), size, digits(args, i), round, buf[:0])
		if size == 32 {
			out.F32[i] = float32(x)
		} else {
			out.F64[i] = x
		}
	})
}

// setNarrow stores an integer cut to the width of the vector's type, as a Java cast does.
func setNarrow(out *vec.Vec, i int, x int64) {
	switch out.Type.Kind {
	case types.TinyInt:
		out.I32[i] = int32(int8(x))
	case types.SmallInt:
		out.I32[i] = int32(int16(x))
	default:
		expr.SetInt(out, i, x)
	}
}

// roundInt rounds or cuts x to a multiple of 10^-d, for negative d.
func roundInt(x int64, d int, round bool) int64 {
	if d >= 0 {
		return x
	}
	if d < -19 {
		return 0
	}
	v := types.I128(x)
	if !round {
		return x - int64(remainder(v, types.Pow10(-d)).Lo)
	}
	r, _ := v.Rescale(-d, 0)
	r, _ = r.Mul(types.Pow10(-d))
	return int64(r.Lo)
}

func remainder(x, y types.Int128) types.Int128 {
	_, r := x.QuoRem(y)
	return r
}

// roundDecimal rounds or cuts x, unscaled with scale from, to d digits and gives it scale to.
func roundDecimal(x types.Int128, from, to, d int, round bool) (types.Int128, bool) {
	if d < from {
		if from-d > types.MaxPrecision {
			return types.Int128{}, true
		}
		if round {
			x, _ = x.Rescale(from, d)
		} else {
			x = x.Truncate(from, d)
		}
		from = d
	}
	return x.Rescale(from, to)
}

// roundFloat rounds by the shortest decimal digits of x, half away from zero, as Java's BigDecimal
// of a double does; TRUNCATE looks at 18 fractional digits.
func roundFloat(x float64, size, d int, round bool, buf []byte) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) || x == 0 {
		return x
	}
	if size == 32 {
		// The FLOAT becomes a DOUBLE first, with all the digits that this brings to light.
		size = 64
	}
	if v, ok := types.DecimalFromFloat(x, types.MaxPrecision, 18); ok && d <= 18 && d >= -19 {
		r, ok := roundDecimal(v, 18, 18, d, round)
		if ok && math.Abs(x) >= 1e-3 {
			return r.Float64(18)
		}
	}
	// Numbers too large or too small for that: digit by digit.
	b := strconv.AppendFloat(buf, x, 'e', -1, size)
	return roundDigits(b, d, round)
}

// roundDigits rounds d.ddde+xx to dig fractional digits.
func roundDigits(b []byte, dig int, round bool) float64 {
	neg := b[0] == '-'
	if neg {
		b = b[1:]
	}
	e := 0
	for k, c := range b {
		if c == 'e' {
			e, _ = strconv.Atoi(string(b[k+1:]))
			b = b[:k]
			break
		}
	}
	ds := append([]byte{}, b[:1]...)
	if len(b) > 2 {
		ds = append(ds, b[2:]...)
	}
	// ds[k] has the weight 10^(e-k): keep those down to 10^-dig.
	keep := e + dig + 1
	if keep < len(ds) {
		up := round && keep >= 0 && ds[keep] >= '5'
		ds = ds[:max(keep, 0)]
		if up {
			k := len(ds) - 1
			for ; k >= 0 && ds[k] == '9'; k-- {
				ds[k] = '0'
			}
			if k >= 0 {
				ds[k]++
			} else {
				ds = append([]byte{'1'}, ds...)
				e++
			}
		}
	}
	if len(ds) == 0 {
		return 0
	}
	f, _ := strconv.ParseFloat(string(ds)+"e"+strconv.Itoa(e-len(ds)+1), 64)
	if neg {
		f = -f
	}
	return f
}
