package vec

import "github.com/tidemark-stream/tidemark/types"

// Mix is the finaliser of splitmix64: each input bit reaches each output bit.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

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
