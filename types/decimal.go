package types

import (
	"math/big"
	"math/bits"
	"strconv"
)

// Big returns a as an arbitrary-precision integer.
func (a Int128) Big() *big.Int {
	b := big.NewInt(a.Hi)
	b.Lsh(b, 64)
	return b.Add(b, new(big.Int).SetUint64(a.Lo))
}

// DecimalString prints a as a decimal number with scale fractional digits.
func (a Int128) DecimalString(scale int) string {
	return string(AppendDecimal(nil, a, scale))
}

// pow10 holds 10^0 to 10^38.
var pow10 = func() (p [MaxPrecision + 1]Int128) {
	p[0] = I128(1)
	for i := 1; i < len(p); i++ {
		p[i], _ = p[i-1].Mul(I128(10))
	}
	return p
}()

// pow10u holds the powers of ten that fit in 64 bits.
var pow10u = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// Pow10 returns 10^n for n from 0 to MaxPrecision.
func Pow10(n int) Int128 { return pow10[n] }

// Pow10Int64 returns 10^n for n from 0 to MaxSmallDecimal.
func Pow10Int64(n int) int64 { return int64(pow10u[n]) }

// abs returns the magnitude of a as an unsigned number.
func (a Int128) abs() (hi, lo uint64, neg bool) {
	if a.Hi >= 0 {
		return uint64(a.Hi), a.Lo, false
	}
	n := a.Neg()
	return uint64(n.Hi), n.Lo, true
}

// signed makes an Int128 of a magnitude; ok is false where it does not fit.
func signed(hi, lo uint64, neg bool) (Int128, bool) {
	r := Int128{Lo: lo, Hi: int64(hi)}
	if neg {
		r = r.Neg()
		return r, r.Hi <= 0 && (hi|lo == 0 || r.Hi < 0)
	}
	return r, r.Hi >= 0
}

// Mul returns a * b; ok is false on overflow.
func (a Int128) Mul(b Int128) (r Int128, ok bool) {
	if a.IsInt64() && b.IsInt64() {
		return MulInt64(int64(a.Lo), int64(b.Lo)), true
	}
	ah, al, an := a.abs()
	bh, bl, bn := b.abs()
	if ah != 0 && bh != 0 {
		return Int128{}, false
	}
	hi, lo := bits.Mul64(al, bl)
	o1, c1 := bits.Mul64(ah, bl)
	o2, c2 := bits.Mul64(al, bh)
	hi, o := bits.Add64(hi, c1, 0)
	hi, p := bits.Add64(hi, c2, 0)
	if o1|o2|o|p != 0 {
		return Int128{}, false
	}
	return signed(hi, lo, an != bn)
}

// MulInt64 returns the exact product of two 64-bit integers.
func MulInt64(a, b int64) Int128 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	// The unsigned product counts a negative factor as itself + 2^64.
	h := int64(hi) - a>>63&b - b>>63&a
	return Int128{Lo: lo, Hi: h}
}

// FitsDecimal reports whether a has at most precision digits.
func (a Int128) FitsDecimal(precision int) bool {
	m := pow10[precision]
	if a.Hi < 0 {
		a = a.Neg()
		if a.Hi < 0 {
			return false
		}
	}
	return a.Less(m)
}

// Digits returns the number of decimal digits of |a|; 1 for 0.
func (a Int128) Digits() int {
	n := 1
	for n <= MaxPrecision && !a.FitsDecimal(n) {
		n++
	}
	return n
}

// Rescale turns an unscaled number of scale from into one of scale to, rounding half away from
// zero; ok is false on overflow of 128 bits.
func (a Int128) Rescale(from, to int) (r Int128, ok bool) {
	switch d := to - from; {
	case d == 0:
		return a, true
	case d > MaxPrecision:
		return Int128{}, a == Int128{}
	case d > 0:
		return a.Mul(pow10[d])
	default:
		return a.dropDigits(-d), true
	}
}

// Truncate is Rescale to a smaller scale that rounds towards zero.
func (a Int128) Truncate(from, to int) Int128 {
	hi, lo, neg := a.abs()
	for d := from - to; d > 0; d -= 19 {
		hi, lo, _ = divWord(hi, lo, pow10u[min(d, 19)])
	}
	r, _ := signed(hi, lo, neg)
	return r
}

// dropDigits divides by 10^d, d > 0, rounding half away from zero.
func (a Int128) dropDigits(d int) Int128 {
	hi, lo, neg := a.abs()
	for d--; d > 0; d -= 19 {
		hi, lo, _ = divWord(hi, lo, pow10u[min(d, 19)])
	}
	hi, lo, rem := divWord(hi, lo, 10)
	if rem >= 5 {
		var c uint64
		lo, c = bits.Add64(lo, 1, 0)
		hi += c
	}
	r, _ := signed(hi, lo, neg)
	return r
}

// divWord divides a 128-bit magnitude by a word.
func divWord(hi, lo, d uint64) (qhi, qlo, rem uint64) {
	if hi != 0 {
		qhi, hi = hi/d, hi%d
	}
	qlo, rem = bits.Div64(hi, lo, d)
	return qhi, qlo, rem
}

// MulDecimal returns a * b / 10^drop, rounded half away from zero, with an exact product; ok is
// false where the result exceeds 128 bits.
func MulDecimal(a, b Int128, drop int) (r Int128, ok bool) {
	if r, ok = a.Mul(b); ok {
		if drop > 0 {
			r = r.dropDigits(drop)
		}
		return r, true
	}
	ah, al, an := a.abs()
	bh, bl, bn := b.abs()
	w := mul256(ah, al, bh, bl)
	if drop > 0 {
		for d := drop - 1; d > 0; d -= 19 {
			w.divWord(pow10u[min(d, 19)])
		}
		if w.divWord(10) >= 5 {
			var c uint64
			w[0], c = bits.Add64(w[0], 1, 0)
			for i := 1; c != 0 && i < 4; i++ {
				w[i], c = bits.Add64(w[i], 0, c)
			}
		}
	}
	if w[2]|w[3] != 0 {
		return Int128{}, false
	}
	return signed(w[1], w[0], an != bn)
}

// uint256 is an unsigned number, least significant word first.
type uint256 [4]uint64

// mul256 is the product of two 128-bit magnitudes.
func mul256(ah, al, bh, bl uint64) (w uint256) {
	var c uint64
	w[1], w[0] = bits.Mul64(al, bl)
	h1, l1 := bits.Mul64(ah, bl)
	h2, l2 := bits.Mul64(al, bh)
	w[3], w[2] = bits.Mul64(ah, bh)
	w[1], c = bits.Add64(w[1], l1, 0)
	w[2], c = bits.Add64(w[2], h1, c)
	w[3] += c
	w[1], c = bits.Add64(w[1], l2, 0)
	w[2], c = bits.Add64(w[2], h2, c)
	w[3] += c
	return w
}

// divWord divides w by d in place and returns the remainder.
func (w *uint256) divWord(d uint64) (rem uint64) {
	for i := 3; i >= 0; i-- {
		w[i], rem = bits.Div64(rem, w[i], d)
	}
	return rem
}

// DivDecimal returns a * 10^shift / b, rounded half away from zero; b must not be 0. ok is false
// where the result exceeds 128 bits. shift may be negative.
func DivDecimal(a, b Int128, shift int) (r Int128, ok bool) {
	ah, al, an := a.abs()
	bh, bl, bn := b.abs()
	if shift < 0 {
		if -shift > MaxPrecision {
			return Int128{}, true
		}
		m := pow10[-shift]
		w := mul256(bh, bl, uint64(m.Hi), m.Lo)
		if w[3]|w[2] != 0 {
			return Int128{}, true // a is below half of the divisor
		}
		if bh, bl = w[1], w[0]; bh>>63 != 0 {
			// Beyond what is divided by below; the quotient is below one, and rounds.
			if h := ah<<1 | al>>63; h > bh || h == bh && al<<1 >= bl {
				return signed(0, 1, an != bn)
			}
			return Int128{}, true
		}
		shift = 0
	}
	qh, ql, rh, rl := div128(0, 0, ah, al, bh, bl)
	// Long division, up to 18 digits at a time: the remainder is below b, so that remainder *
	// 10^18 / b is below 10^18.
	for shift > 0 {
		step := min(shift, 18)
		shift -= step
		m := pow10u[step]
		q, ok := Int128{Lo: ql, Hi: int64(qh)}.Mul(I128(int64(m)))
		if !ok || q.Hi < 0 {
			return Int128{}, false
		}
		var dl uint64
		w := mul256(rh, rl, 0, m)
		_, dl, rh, rl = div128(w[3], w[2], w[1], w[0], bh, bl)
		q = q.Add(Int128{Lo: dl})
		if q.Hi < 0 {
			return Int128{}, false
		}
		qh, ql = uint64(q.Hi), q.Lo
	}
	// Half away from zero: 2*rem >= b, without overflow as rem >= b - rem.
	dl, c := bits.Sub64(bl, rl, 0)
	dh, _ := bits.Sub64(bh, rh, c)
	if rh > dh || rh == dh && rl >= dl {
		ql, c = bits.Add64(ql, 1, 0)
		qh += c
	}
	return signed(qh, ql, an != bn)
}

// div128 divides the 256-bit number w3..w0 by the 128-bit d. The quotient must fit in 128 bits.
func div128(w3, w2, w1, w0, dh, dl uint64) (qh, ql, rh, rl uint64) {
	if dh == 0 {
		if w3|w2 == 0 {
			var rem uint64
			qh, ql, rem = divWord(w1, w0, dl)
			return qh, ql, 0, rem
		}
		_, rem := bits.Div64(0, w3, dl)
		_, rem = bits.Div64(rem, w2, dl)
		qh, rem = bits.Div64(rem, w1, dl)
		ql, rem = bits.Div64(rem, w0, dl)
		return qh, ql, 0, rem
	}
	// Knuth's algorithm D with 64-bit digits and a normalised divisor.
	s := uint(bits.LeadingZeros64(dh))
	dh, dl = dh<<s|shr(dl, 64-s), dl<<s
	w4 := shr(w3, 64-s)
	w3 = w3<<s | shr(w2, 64-s)
	w2 = w2<<s | shr(w1, 64-s)
	w1 = w1<<s | shr(w0, 64-s)
	w0 <<= s
	_, w3, w2 = div3by2(w4, w3, w2, dh, dl)
	qh, w2, w1 = div3by2(w3, w2, w1, dh, dl)
	ql, w1, w0 = div3by2(w2, w1, w0, dh, dl)
	return qh, ql, w1 >> s, w0>>s | w1<<(64-s)&-b2u(s != 0)
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// shr is x >> n for n up to 64.
func shr(x uint64, n uint) uint64 {
	if n >= 64 {
		return 0
	}
	return x >> n
}

// div3by2 divides three words by two; a2:a1 must be below d1:d0, and d1 have its top bit set.
func div3by2(a2, a1, a0, d1, d0 uint64) (q, r1, r0 uint64) {
	if a2 >= d1 {
		q = ^uint64(0)
	} else {
		q, _ = bits.Div64(a2, a1, d1)
	}
	// q is at most 2 too large.
	ph, pl := bits.Mul64(q, d0)
	th, tl := bits.Mul64(q, d1)
	ph, c := bits.Add64(ph, tl, 0)
	p2 := th + c
	r0, c = bits.Sub64(a0, pl, 0)
	r1, c = bits.Sub64(a1, ph, c)
	r2, c := bits.Sub64(a2, p2, c)
	for c != 0 {
		q--
		var k uint64
		r0, k = bits.Add64(r0, d0, 0)
		r1, k = bits.Add64(r1, d1, k)
		r2, k = bits.Add64(r2, 0, k)
		if k != 0 {
			break
		}
	}
	return q, r1, r0
}

// QuoRem returns a / b and a % b truncated towards zero, as Go and Java divide; b must not be 0.
func (a Int128) QuoRem(b Int128) (q, r Int128) {
	ah, al, an := a.abs()
	bh, bl, bn := b.abs()
	qh, ql, rh, rl := div128(0, 0, ah, al, bh, bl)
	q, _ = signed(qh, ql, an != bn)
	r, _ = signed(rh, rl, an)
	return q, r
}

// CmpDecimal compares a / 10^sa with b / 10^sb exactly.
func CmpDecimal(a Int128, sa int, b Int128, sb int) int {
	switch {
	case sa < sb:
		x, ok := a.Mul(pow10[sb-sa])
		if !ok {
			return a.Sign() // larger in magnitude than any b
		}
		return x.Cmp(b)
	case sa > sb:
		return -CmpDecimal(b, sb, a, sa)
	}
	return a.Cmp(b)
}

// Float64 returns the float64 nearest to a / 10^scale.
func (a Int128) Float64(scale int) float64 {
	if a.IsInt64() && scale <= 22 {
		if i := int64(a.Lo); i > -1<<53 && i < 1<<53 {
			return float64(i) / pow10f[scale] // both exact, so correctly rounded
		}
	}
	var buf [48]byte
	f, _ := strconv.ParseFloat(string(AppendDecimal(buf[:0], a, scale)), 64)
	return f
}

var pow10f = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
	1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// DecimalFromFloat converts f by its shortest decimal form, as Java does, to DECIMAL(p, s),
// rounding half away from zero; ok is false for what does not fit, infinities and NaN.
func DecimalFromFloat(f float64, p, s int) (Int128, bool) {
	var buf [32]byte
	return ParseDecimal(strconv.AppendFloat(buf[:0], f, 'e', -1, 64), p, s)
}

// AddDecimalWide returns a/10^sa + b/10^sb (or their difference) at scale to, rounded half away
// from zero; ok is false where that exceeds 128 bits. Unlike Add after Rescale it takes operands
// whose common scale exceeds 128 bits; it allocates.
func AddDecimalWide(a Int128, sa int, b Int128, sb int, sub bool, to int) (r Int128, ok bool) {
	s := max(sa, sb)
	x := new(big.Int).Mul(a.Big(), pow10[s-sa].Big())
	y := new(big.Int).Mul(b.Big(), pow10[s-sb].Big())
	if sub {
		y.Neg(y)
	}
	x.Add(x, y)
	if s > to {
		d := pow10[s-to].Big()
		half := new(big.Int).Rsh(d, 1)
		if x.Sign() < 0 {
			half.Neg(half)
		}
		x.Quo(x.Add(x, half), d)
	}
	return fromBig(x)
}

// fromBig returns x where it fits in 128 bits.
func fromBig(x *big.Int) (Int128, bool) {
	m := new(big.Int).Abs(x)
	if m.BitLen() > 127 {
		return Int128{}, false
	}
	lo := new(big.Int).And(m, new(big.Int).SetUint64(^uint64(0))).Uint64()
	hi := new(big.Int).Rsh(m, 64).Uint64()
	return signed(hi, lo, x.Sign() < 0)
}
