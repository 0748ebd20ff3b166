package ddmath

import "math"

// reducible is the largest argument of the circular functions that is reduced exactly enough.
const reducible = 1e5

// tiny arguments are their own sine and so on, or lose their low parts to underflow.
const tiny = 1e-8

func special(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) || x == 0 }

// Sin is the sine.
func Sin(x float64) float64 {
	if special(x) || math.Abs(x) > reducible || math.Abs(x) < tiny {
		return math.Sin(x)
	}
	s, _ := sincos(dd{x, 0})
	return s.value()
}

// Cos is the cosine.
func Cos(x float64) float64 {
	if special(x) || math.Abs(x) > reducible {
		return math.Cos(x)
	}
	_, c := sincos(dd{x, 0})
	return c.value()
}

// Tan is the tangent.
func Tan(x float64) float64 {
	if special(x) || math.Abs(x) > reducible || math.Abs(x) < tiny {
		return math.Tan(x)
	}
	s, c := sincos(dd{x, 0})
	return s.div(c).value()
}

// Asin is the inverse of Sin.
func Asin(x float64) float64 {
	y := math.Asin(x)
	if special(y) || math.Abs(x) == 1 || math.Abs(x) < tiny {
		return y
	}
	s, c := sincos(dd{y, 0})
	return dd{y, 0}.add(dd{x, 0}.add(s.neg()).div(c)).value()
}

// Acos is the inverse of Cos.
func Acos(x float64) float64 {
	y := math.Acos(x)
	if special(y) || math.Abs(x) == 1 {
		return y
	}
	s, c := sincos(dd{y, 0})
	return dd{y, 0}.add(c.add(dd{-x, 0}).div(s)).value()
}

// Atan is the inverse of Tan.
func Atan(x float64) float64 {
	y := math.Atan(x)
	if special(x) || math.Abs(x) < tiny || math.Abs(x) > 1e15 {
		return y
	}
	s, c := sincos(dd{y, 0})
	d := c.mulf(x).add(s.neg()).div(c.add(s.mulf(x)))
	return dd{y, 0}.add(d).value()
}

// Exp is e^x.
func Exp(x float64) float64 {
	if special(x) || x > 709.78 || x < -690 {
		return math.Exp(x) // overflows, or comes close to zero
	}
	m, k := exp(dd{x, 0})
	return ldexp(m.value(), k)
}

// ldexp is m * 2^k, which may come close to the largest float64.
func ldexp(m float64, k int) float64 { return math.Ldexp(m, k-1) * 2 }

// Log is the natural logarithm.
func Log(x float64) float64 {
	if special(x) || x < 0 {
		return math.Log(x)
	}
	return log(x).value()
}

// Log10 is the logarithm to base 10.
func Log10(x float64) float64 {
	if special(x) || x < 0 {
		return math.Log10(x)
	}
	return log(x).div(ln10).value()
}

// Pow is x^y.
func Pow(x, y float64) float64 {
	r := math.Pow(x, y)
	if special(r) || special(x) || special(y) || math.Abs(r) < 1e-300 || r == 1 || y == 1 {
		return r
	}
	m, k := exp(log(math.Abs(x)).mulf(y))
	return math.Copysign(ldexp(m.value(), k), r)
}

// expm1f is e^x - 1 rounded to float64, for moderate x.
func expm1f(x float64) float64 {
	if math.Abs(x) < tiny {
		return math.Expm1(x)
	}
	if math.Abs(x) < 0.6 {
		return expm1(dd{x, 0}).value()
	}
	m, k := exp(dd{x, 0})
	return m.scale(k).add(dd{-1, 0}).value()
}

// The hyperbolic functions are put together from e^x - 1 in plain arithmetic, with the steps that
// Java's take, since theirs are not correctly rounded and the steps decide the last digit.

// Sinh is the hyperbolic sine.
func Sinh(x float64) float64 {
	a := math.Abs(x)
	if special(x) || a > 700 || a < tiny {
		return math.Sinh(x)
	}
	half := math.Copysign(0.5, x)
	if a >= 22 {
		return half * Exp(a)
	}
	t := expm1f(a)
	if a < 1 {
		return half * (2*t - t*t/(t+1))
	}
	return half * (t + t/(t+1))
}

// Cosh is the hyperbolic cosine.
func Cosh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case special(x) || a > 700:
		return math.Cosh(x)
	case a >= 22:
		return 0.5 * Exp(a)
	case a < math.Ln2/2:
		t := expm1f(a)
		w := 1 + t
		return 1 + (t*t)/(w+w)
	}
	t := Exp(a)
	return 0.5*t + 0.5/t
}

// Tanh is the hyperbolic tangent.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	if special(x) || a > 22 || a < tiny {
		return math.Tanh(x)
	}
	if a >= 1 {
		return math.Copysign(1-2/(expm1f(2*a)+2), x)
	}
	t := expm1f(-2 * a)
	return math.Copysign(-t/(t+2), x)
}
