package sort

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// appendOrder appends the keys of row i as bytes whose order is that of compareRows; what has equal
// bytes is equal to it. No such bytes begin with others of the same keys.
//
//	key    = mark (1: 0 or 2 where it is NULL, by NullsFirst; 1) value, all bits flipped where it is
//	         descending (but for those of the mark)
//	value  = fixed width, big endian, with the sign bit flipped; floating-point numbers with all bits
//	         flipped where they are negative
//	         | bytes, 00 as 00 FF, then 00 00
//	         | elements, 01 before each, then 00, each a key of its own | fields, each such a key
func appendOrder(dst []byte, keys []plan.SortKey, cols []*vec.Vec, i int) []byte {
	for _, k := range keys {
		dst = appendKey(dst, k, cols[k.Col], i)
	}
	return dst
}

func appendKey(dst []byte, k plan.SortKey, v *vec.Vec, i int) []byte {
	if v.IsNull(i) {
		if k.NullsFirst {
			return append(dst, 0)
		}
		return append(dst, 2)
	}
	at := len(dst) + 1
	dst = appendOrdered(append(dst, 1), v, i)
	if k.Desc {
		for j := at; j < len(dst); j++ {
			dst[j] ^= 0xFF
		}
	}
	return dst
}

// appendOrdered appends value i of v, which is not NULL.
func appendOrdered(dst []byte, v *vec.Vec, i int) []byte {
	be := binary.BigEndian
	const sign = 1 << 63
	switch v.Phys {
	case types.PBool:
		if v.Bool[i] {
			return append(dst, 1)
		}
		return append(dst, 0)
	case types.PI32:
		return be.AppendUint32(dst, uint32(v.I32[i])^1<<31)
	case types.PI64:
		return be.AppendUint64(dst, uint64(v.I64[i])^sign)
	case types.PI128:
		return be.AppendUint64(be.AppendUint64(dst, uint64(v.I128[i].Hi)^sign), v.I128[i].Lo)
	case types.PF32:
		return be.AppendUint64(dst, orderedFloat(float64(v.F32[i])))
	case types.PF64:
		return be.AppendUint64(dst, orderedFloat(v.F64[i]))
	case types.PBytes:
		b := v.Bytes(i)
		for {
			n := bytes.IndexByte(b, 0)
			if n < 0 {
				return append(append(dst, b...), 0, 0)
			}
			dst = append(append(dst, b[:n]...), 0, 0xFF)
			b = b[n+1:]
		}
	case types.PList:
		r := v.Refs[i]
		for k := r.Off; k < r.Off+r.Len; k++ {
			dst = append(dst, 1)
			for _, kid := range v.Kids {
				dst = appendKey(dst, plan.SortKey{NullsFirst: true}, kid, int(k))
			}
		}
		return append(dst, 0)
	case types.PRow:
		for _, kid := range v.Kids {
			dst = appendKey(dst, plan.SortKey{NullsFirst: true}, kid, i)
		}
	}
	return dst
}

// orderedFloat orders as compareFloat does: -0 is 0, NaN above all.
func orderedFloat(x float64) uint64 {
	switch {
	case x != x:
		return math.MaxUint64
	case x == 0:
		x = 0
	}
	b := math.Float64bits(x)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// covers calls f with bytes of which each number from lo to hi, big endian, begins with some, and no
// other number does.
func covers(lo, hi uint64, f func(prefix []byte)) {
	for {
		// The largest aligned block of 256^k numbers from lo on.
		shift := uint(0)
		for shift < 56 && lo&(1<<(shift+8)-1) == 0 && hi-lo >= 1<<(shift+8)-1 {
			shift += 8
		}
		f(binary.BigEndian.AppendUint64(nil, lo)[:8-shift/8])
		last := lo + (1<<shift - 1)
		if last >= hi {
			return
		}
		lo = last + 1
	}
}
