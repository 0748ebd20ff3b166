// Package ddmath computes the elementary functions correctly rounded in all but the rarest cases,
// which is what Java's (and so Flink's) do. Package math is off by one unit in the last place for
// up to half of the arguments, and then results differ as text.
//
// Values are carried as unevaluated sums of two float64, about 31 digits.
package ddmath

import "math"

// dd is hi + lo, with |lo| at most half a unit in the last place of hi.
type dd struct{ hi, lo float64 }

func fast(a, b float64) dd { // |a| >= |b|
	s := a + b
	return dd{s, b - (s - a)}
}

func sum(a, b float64) dd {
	s := a + b
	v := s - a
	return dd{s, (a - (s - v)) + (b - v)}
}

func prod(a, b float64) dd {
	p := a * b
	return dd{p, math.FMA(a, b, -p)}
}

func (a dd) add(b dd) dd {
	s, t := sum(a.hi, b.hi), sum(a.lo, b.lo)
	r := fast(s.hi, s.lo+t.hi)
	return fast(r.hi, r.lo+t.lo)
}

func (a dd) neg() dd { return dd{-a.hi, -a.lo} }

func (a dd) mul(b dd) dd {
	p := prod(a.hi, b.hi)
	return fast(p.hi, p.lo+(a.hi*b.lo+a.lo*b.hi))
}

func (a dd) mulf(b float64) dd {
	p := prod(a.hi, b)
	return fast(p.hi, p.lo+a.lo*b)
}

func (a dd) div(b dd) dd {
	q1 := a.hi / b.hi
	r := a.add(b.mulf(q1).neg())
	q2 := r.hi / b.hi
	r = r.add(b.mulf(q2).neg())
	q := fast(q1, q2)
	return q.add(dd{r.hi / b.hi, 0})
}

func (a dd) scale(k int) dd { return dd{math.Ldexp(a.hi, k), math.Ldexp(a.lo, k)} }

func (a dd) value() float64 { return a.hi + a.lo }

// Constants as sums; the third parts serve argument reduction.
var (
	ln2    = [3]float64{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56, 0x1.7b57a079a1934p-111}
	halfPi = [3]float64{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110}
	ln10   = dd{0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53}
	invFac [30]dd
)

func init() {
	f := dd{1, 0}
	for n := range invFac {
		if n > 1 {
			f = f.mulf(float64(n))
		}
		invFac[n] = dd{1, 0}.div(f)
	}
}

// reduce returns a - k*c for a constant of three parts.
func reduce(a dd, k float64, c [3]float64) dd {
	r := a.add(prod(-k, c[0]))
	r = r.add(prod(-k, c[1]))
	return r.add(dd{-k * c[2], 0})
}

// expTable[j+expSteps] is e^(j/128).
const expSteps = 96

var expTable [2*expSteps + 1]dd

func init() {
	for j := range expTable {
		expTable[j] = expSlow(dd{float64(j-expSteps) / 128, 0})
	}
}

// expSlow is e^a to full precision by halving the argument and squaring the result.
func expSlow(a dd) dd {
	const halvings = 8
	r := a.scale(-halvings)
	p := invFac[9]
	for n := 8; n >= 1; n-- {
		p = p.mul(r).add(invFac[n])
	}
	p = p.mul(r)
	for range halvings {
		p = p.scale(1).add(p.mul(p))
	}
	return p.add(dd{1, 0})
}

// expm1 is e^a - 1 for |a| below 3/4. The first two terms of the series behind the table carry
// their low parts, the others are too small to need theirs.
func expm1(a dd) dd {
	j := math.Round(a.hi * 128)
	r := sum(a.hi-j/128, a.lo)
	x := r.hi
	tail := x * x * x * (1.0/6 + x*(1.0/24+x*(1.0/120+x*(1.0/720+x/5040))))
	sq := prod(x, x)
	p := sum(x, sq.hi/2)
	p = fast(p.hi, p.lo+(tail+(sq.lo/2+r.lo+x*r.lo)))
	if j == 0 {
		return p
	}
	t := expTable[int(j)+expSteps]
	return t.add(dd{-1, 0}).add(t.mul(p))
}

// exp returns m and k with e^a = m * 2^k.
func exp(a dd) (m dd, k int) {
	kf := math.Round(a.hi / ln2[0])
	return expm1(reduce(a, kf, ln2)).add(dd{1, 0}), int(kf)
}

// log of a positive finite number.
func log(x float64) dd {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	if m == 1 {
		return dd{ln2[0], ln2[1]}.mulf(float64(e))
	}
	y := math.Log(m)
	em := expm1(dd{y, 0}) // e^y - 1
	num := dd{m - 1, 0}.add(em.neg())
	den := dd{m + 1, 0}.add(em)
	y2 := dd{y, 0}.add(num.div(den).scale(1))
	return reduce(y2, float64(-e), ln2)
}

// sincos of |a| up to 1e5.
func sincos(a dd) (s, c dd) {
	k := math.Round(a.hi / halfPi[0])
	r := reduce(a, k, halfPi)
	q := r.mul(r)
	s, c = invFac[27].neg(), invFac[28]
	for n := 25; n >= 1; n -= 2 {
		f := invFac[n]
		if n%4 == 3 {
			f = f.neg()
		}
		s = s.mul(q).add(f)
	}
	for n := 26; n >= 0; n -= 2 {
		f := invFac[n]
		if n%4 == 2 {
			f = f.neg()
		}
		c = c.mul(q).add(f)
	}
	s = s.mul(r)
	switch int64(k) & 3 {
	case 1:
		return c, s.neg()
	case 2:
		return s.neg(), c.neg()
	case 3:
		return c.neg(), s
	}
	return s, c
}
