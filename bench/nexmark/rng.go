package nexmark

import (
	"math"
	"math/bits"
)

// rng is splitmix64: its state only ever advances by step, so draws can be skipped at no cost.
type rng struct{ s uint64 }

const (
	step     = 0x9e3779b97f4a7c15
	twoSteps = 2 * step % (1 << 64)
)

func (r *rng) next() uint64 {
	r.s += step
	return mix(r.s)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// intn draws from 0 to n-1. With a constant n the division becomes a multiplication.
func (r *rng) intn(n int) int { return int(r.next() % uint64(n)) }

// divisor takes remainders by a number that is not known when compiling, without dividing.
type divisor struct{ n, inverse uint64 }

func newDivisor(n uint64) divisor { return divisor{n, math.MaxUint64 / n} }

func (d divisor) mod(x uint64) uint64 {
	q, _ := bits.Mul64(x, d.inverse) // the quotient, or one less
	rem := x - q*d.n
	if low := rem - d.n; rem >= d.n {
		rem = low
	}
	return rem
}

func (r *rng) skip(draws uint64) { r.s += draws * step }

// The table cuts [0, 1) into powBins parts; within one, 10^(6r) is a short Taylor series.
const powBins = 1024

var powTable = func() (t [powBins]float64) {
	for i := range t {
		t[i] = math.Pow(10, 6*float64(i)/powBins) * 100
	}
	return t
}()

// price makes of a draw a price in cents, log-uniform between 1.00 and 1,000,000.00:
// 100 * 10^(6u), rounded.
func price(draw uint64) int64 {
	u := float64(int64(draw>>11)) / (1 << 53)
	i := int(u * powBins)
	x := (u - float64(i)/powBins) * (6 * math.Ln10) // below 0.0135: the next term is under 1e-14
	p := powTable[i&(powBins-1)] * (1 + x*(1+x*(1./2+x*(1./6+x*(1./24+x*(1./120))))))
	n := int64(p + 0.5)
	// The series is off by less than 1e-5 cents. Near a half the exact function decides, so that
	// the result is always the one of slowPrice.
	if f := p + 0.5 - float64(n); f < 0.001 || f > 0.999 {
		return slowPrice(u)
	}
	return n
}

func slowPrice(u float64) int64 { return int64(math.Round(math.Pow(10, u*6) * 100)) }

// word appends 3 to limit-1 letters, one in 13 of them the special one, with no blanks at the ends.
func (r *rng) word(b []byte, limit int, special byte) []byte {
	at := len(b)
	for n := 3 + r.intn(limit-3); n > 0; n-- {
		if r.intn(13) == 0 {
			b = append(b, special)
		} else {
			b = append(b, byte('a'+r.intn(26)))
		}
	}
	if special == ' ' {
		w := b[at:]
		for i := 0; i < len(w) && w[i] == ' '; i++ {
			w[i] = 'x'
		}
		for i := len(w) - 1; i >= 0 && w[i] == ' '; i-- {
			w[i] = 'x'
		}
	}
	return b
}

// skipWord draws what word draws. The inner loop branches on each draw: that is guessed right 12
// times in 13, while a conditional move, which a plain if becomes, would wait for each draw in turn.
func (r *rng) skipWord(limit int) {
	n := 3 + r.intn(limit-3)
	s := r.s
	for {
		for n > 0 && mix(s+step)%13 != 0 {
			s += twoSteps
			n--
		}
		if n == 0 {
			break
		}
		s += step
		n--
	}
	r.s = s
}
