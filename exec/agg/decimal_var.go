package agg

import (
	"math"
	"math/big"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// decimal computes a variance of DECIMALs exactly and rounds it once, to the result's scale.
func (o *varianceOut) decimal(st *Store, r uint32, n, d int64, out *vec.Vec, i int) {
	at := func(slot int) *big.Int {
		off := o.set.offset(slot)
		return types.Int128{Lo: *st.word(r, off), Hi: int64(*st.word(r, off+1))}.Big()
	}
	sum, sq := at(o.sum), at(o.squares)
	if limit := maxDecimal.Big(); sum.CmpAbs(limit) > 0 || sq.CmpAbs(limit) > 0 {
		out.SetNull(i)
		return
	}
	// (sq - sum^2/n) / d, at twice the argument's scale.
	num := new(big.Int).Mul(sq, big.NewInt(n))
	num.Sub(num, new(big.Int).Mul(sum, sum))
	den := new(big.Int).Mul(big.NewInt(n), big.NewInt(d))
	den.Mul(den, tenTo(2*o.arg.Scale))
	var x *big.Int
	if o.root {
		f, _ := new(big.Rat).SetFrac(num, den).Float64()
		y := new(big.Rat)
		y.SetFloat64(math.Pow(f, 0.5))
		x = roundHalfUp(new(big.Int).Mul(y.Num(), tenTo(o.scale)), y.Denom())
	} else {
		x = roundHalfUp(num.Mul(num, tenTo(o.scale)), den)
	}
	if x.CmpAbs(maxDecimal.Big()) > 0 {
		out.SetNull(i)
		return
	}
	out.I128[i] = int128(x)
}

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// roundHalfUp is num/den rounded half away from zero; den is positive.
func roundHalfUp(num, den *big.Int) *big.Int {
	neg := num.Sign() < 0
	q, rem := new(big.Int).QuoRem(new(big.Int).Abs(num), den, new(big.Int))
	if rem.Lsh(rem, 1).Cmp(den) >= 0 {
		q.Add(q, big.NewInt(1))
	}
	if neg {
		q.Neg(q)
	}
	return q
}

func int128(x *big.Int) types.Int128 {
	abs := new(big.Int).Abs(x)
	lo := new(big.Int).And(abs, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	out := types.Int128{Lo: lo, Hi: int64(new(big.Int).Rsh(abs, 64).Uint64())}
	if x.Sign() < 0 {
		out = out.Neg()
	}
	return out
}
