package agg

import (
	mathbits "math/bits"

	"github.com/tidemark-stream/tidemark/types"
)

// sumDecimal adds DECIMALs, or their squares, unscaled, in 128 bits: two words, low first. A sum
// that left 38 digits is nullSum, and the next value starts a new one.
type sumDecimal struct {
	col    int
	wide   bool // the argument is stored in 128 bits
	square bool
}

// nullSum marks a sum that became NULL: no DECIMAL is that low.
var nullSum = types.Int128{Hi: -1 << 63}

// maxDecimal is 10^38 - 1.
var maxDecimal = types.Int128{Hi: 0x4B3B4CA85A86C47A, Lo: 0x098A223FFFFFFFFF}

func fits38(x types.Int128) bool {
	return !maxDecimal.Less(x) && !x.Less(maxDecimal.Neg())
}

func (*sumDecimal) init() []uint64 { return []uint64{0, 0} }

func (s *sumDecimal) add(st *Store, at int, in *Input) {
	if !s.wide && !s.square {
		s.addNarrow(st, at, in)
		return
	}
	v := in.Cols[s.col]
	for k, r := range in.Recs {
		var x types.Int128
		if s.wide {
			x = v.I128[in.Rows[k]]
		} else {
			x = types.I128(v.I64[in.Rows[k]])
		}
		if s.square {
			x = square(x)
		}
		if in.Neg != nil && in.Neg[k] {
			x = x.Neg()
		}
		s.offer(st, r, at, x)
	}
}

// addNarrow needs no check for overflow: that takes 10^20 rows.
func (s *sumDecimal) addNarrow(st *Store, at int, in *Input) {
	ch := st.R.Chunks
	v := in.Cols[s.col].I64
	for k, r := range in.Recs {
		x := v[in.Rows[k]]
		if in.Neg != nil && in.Neg[k] {
			x = -x
		}
		p := int(r&mask) + at
		w := ch[r>>bits][p : p+2]
		lo, carry := mathbits.Add64(w[0], uint64(x), 0)
		w[0] = lo
		w[1] += uint64(x>>63) + carry
	}
}

func (s *sumDecimal) get(st *Store, rec uint32, at int) types.Int128 {
	return types.Int128{Lo: *st.word(rec, at), Hi: int64(*st.word(rec, at+1))}
}

func (s *sumDecimal) set(st *Store, rec uint32, at int, x types.Int128) {
	*st.word(rec, at), *st.word(rec, at+1) = x.Lo, uint64(x.Hi)
}

func (s *sumDecimal) offer(st *Store, rec uint32, at int, x types.Int128) {
	cur := s.get(st, rec, at)
	switch {
	case cur == nullSum || x == nullSum:
		if x == nullSum {
			x = cur
		}
	default:
		if x = cur.Add(x); !fits38(x) {
			x = nullSum
		}
	}
	s.set(st, rec, at, x)
}

func (s *sumDecimal) merge(dst, src *Store, at int, d, sr []uint32) {
	for k, r := range d {
		s.offer(dst, r, at, s.get(src, sr[k], at))
	}
}

func (s *sumDecimal) slide(dst, src *Store, at, srcAt int, d, sr []uint32, _ int64, in bool) {
	for k, r := range d {
		x := s.get(src, sr[k], srcAt)
		if !in {
			x = x.Neg()
		}
		// Without the check for overflow, so that what goes in comes out again.
		s.set(dst, r, at, s.get(dst, r, at).Add(x))
	}
}

// square is x*x, or nullSum if that leaves 38 digits.
func square(x types.Int128) types.Int128 {
	if x.Sign() < 0 {
		x = x.Neg()
	}
	if x.Hi != 0 {
		return nullSum
	}
	hi, lo := mathbits.Mul64(x.Lo, x.Lo)
	out := types.Int128{Lo: lo, Hi: int64(hi)}
	if out.Hi < 0 || !fits38(out) {
		return nullSum
	}
	return out
}

// divDecimal returns x * 10^shift / n, rounded half away from zero; ok is false if that has more
// than 38 digits. n is positive.
func divDecimal(x types.Int128, shift int, n uint64) (types.Int128, bool) {
	neg := x.Sign() < 0
	if neg {
		x = x.Neg()
	}
	// The product as three words; shift is at most 19 a step.
	w := [4]uint64{x.Lo, uint64(x.Hi), 0, 0}
	for shift > 0 {
		step := min(shift, 19)
		shift -= step
		var carry uint64
		for i := range w {
			hi, lo := mathbits.Mul64(w[i], pow10[step])
			var c uint64
			w[i], c = mathbits.Add64(lo, carry, 0)
			carry = hi + c
		}
		if carry != 0 {
			return nullSum, false
		}
	}
	var rem uint64
	for i := len(w) - 1; i >= 0; i-- {
		w[i], rem = mathbits.Div64(rem, w[i], n)
	}
	out := types.Int128{Lo: w[0], Hi: int64(w[1])}
	if rem >= n-rem {
		out = out.Add(types.I128(1))
	}
	if w[2] != 0 || w[3] != 0 || out.Hi < 0 || !fits38(out) {
		return nullSum, false
	}
	if neg {
		out = out.Neg()
	}
	return out, true
}

var pow10 = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()
