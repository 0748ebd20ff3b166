package vec

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/types"
)

// Hashes decide the key group of a key and with it where its state lives, so the functions here
// are frozen: changing one orphans every savepoint. Integers and other fixed-width values are
// mixed by Mix, strings hashed by xxh3, columns combined in order by rotating and mixing. -0.0
// hashes as 0.0 and every NaN alike; NULL is a value of its own.

const (
	nullHash = 0x9ae16a3b2f90404f
	seedHash = 0xc3a5c85c97cb3127
)

// Mix is the finaliser of splitmix64: each input bit reaches each output bit.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// HashBytes hashes a string or an encoded key.
func HashBytes(b []byte) uint64 { return xxh3.Hash(b) }

func combine(h, x uint64) uint64 { return Mix(bits.RotateLeft64(h, 23) ^ x) }

// KeyGroup maps a hash to one of n key groups by its upper half; hash tables index by the lower.
func KeyGroup(h uint64, n int) int {
	return int(uint64(uint32(h>>32)) * uint64(n) >> 32)
}

// Subtask maps a key group, of maxPar, to one of par subtasks: contiguous ranges, as Flink.
func Subtask(group, maxPar, par int) int { return group * par / maxPar }

// Hasher hashes rows. The zero value is ready; it keeps scratch memory between calls.
type Hasher struct{}

// Hash returns the hashes of the selected rows over the key columns, indexed by position, in dst
// if it is large enough. Positions that are not selected are undefined.
func (*Hasher) Hash(b *Batch, keys []int, dst []uint64) []uint64 {
	dst = grow(dst, b.N)
	for i := range dst {
		dst[i] = seedHash
	}
	for _, k := range keys {
		hashColumn(b.Cols[k], b.Sel, dst)
	}
	return dst
}

func hashColumn(v *Vec, sel []int32, h []uint64) {
	switch {
	case v.Phys == types.PI64 && v.Valid == nil && sel == nil:
		for i, x := range v.I64[:len(h)] {
			h[i] = combine(h[i], uint64(x))
		}
	case sel != nil:
		for _, i := range sel {
			h[i] = combine(h[i], v.hashOf(int(i)))
		}
	default:
		for i := range h {
			h[i] = combine(h[i], v.hashOf(i))
		}
	}
}

// hashOf is the hash of one value before it is combined.
func (v *Vec) hashOf(i int) uint64 {
	if v.IsNull(i) {
		return nullHash
	}
	switch v.Phys {
	case types.PBool:
		if v.Bool[i] {
			return 1
		}
		return 0
	case types.PI32:
		return uint64(int64(v.I32[i]))
	case types.PI64:
		return uint64(v.I64[i])
	case types.PI128:
		return combine(v.I128[i].Lo, uint64(v.I128[i].Hi))
	case types.PF32:
		return floatBits(float64(v.F32[i]))
	case types.PF64:
		return floatBits(v.F64[i])
	case types.PBytes:
		return xxh3.Hash(v.Bytes(i))
	case types.PList:
		r := v.Refs[i]
		h := uint64(r.Len)
		for k := r.Off; k < r.Off+r.Len; k++ {
			for _, kid := range v.Kids {
				h = combine(h, kid.hashOf(int(k)))
			}
		}
		return h
	case types.PRow:
		h := uint64(seedHash)
		for _, kid := range v.Kids {
			h = combine(h, kid.hashOf(i))
		}
		return h
	}
	return nullHash
}

func floatBits(f float64) uint64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(f)
}

// HashInt64 is the hash of a row whose only key is the BIGINT x, without a batch.
func HashInt64(x int64) uint64 { return combine(seedHash, uint64(x)) }

// AppendInt64 appends x in little-endian order, as encoded keys hold it.
func AppendInt64(dst []byte, x int64) []byte { return binary.LittleEndian.AppendUint64(dst, uint64(x)) }

// Bytes estimates the memory of the rows of b, for queue bounds.
func (b *Batch) Bytes() int64 {
	n := int64(len(b.Kinds)) + 8*int64(len(b.Stamps)+len(b.Pos))
	for _, c := range b.Cols {
		n += c.bytes()
	}
	return n
}

func (v *Vec) bytes() int64 {
	n := int64(v.n) * int64(max(v.Phys.FixedWidth(), 8))
	if v.Phys == types.PBytes {
		n += int64(len(v.Buf))
	}
	for _, k := range v.Kids {
		n += k.bytes()
	}
	return n
}
