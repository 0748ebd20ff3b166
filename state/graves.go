package state

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// graves are keys of saved records that were deleted, in the form that Table.bury writes them (hash
// 4 bytes, length 4 bytes, key), with an index: a key that is looked for again must not be found in
// the store before its deletion has got there. The index goes by a sum of the key, since all members
// of a group have the hash of the group.
type graves struct {
	buf   []byte
	idx   []uint32 // offset in buf + 1 by sum, linear probing, at most half full
	sums  []uint32 // of the slots of idx
	n     int
	epoch uint64 // of the freeze that took them
}

func graveSum(key []byte) uint32 { return uint32(xxh3.Hash(key)) }

func (g *graves) add(at int) {
	if 2*g.n >= len(g.idx) {
		idx, sums := g.idx, g.sums
		g.idx, g.sums = make([]uint32, max(16, 2*len(idx))), make([]uint32, max(16, 2*len(idx)))
		for i, o := range idx {
			if o != 0 {
				g.place(sums[i], o)
			}
		}
	}
	g.n++
	o := uint32(at) + 1
	g.place(graveSum(g.key(o)), o)
}

func (g *graves) key(o uint32) []byte {
	n := binary.LittleEndian.Uint32(g.buf[o+3:])
	return g.buf[o+7 : o+7+n]
}

func (g *graves) place(sum, o uint32) {
	mask := uint32(len(g.idx) - 1)
	i := sum & mask
	for g.idx[i] != 0 {
		i = (i + 1) & mask
	}
	g.idx[i], g.sums[i] = o, sum
}

// has reports whether key, of the given sum, was buried.
func (g *graves) has(sum uint32, key []byte) bool {
	if g.n == 0 {
		return false
	}
	mask := uint32(len(g.idx) - 1)
	for i := sum & mask; g.idx[i] != 0; i = (i + 1) & mask {
		if g.sums[i] == sum && bytes.Equal(g.key(g.idx[i]), key) {
			return true
		}
	}
	return false
}
