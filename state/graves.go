package state

import (
	"bytes"
	"encoding/binary"
)

// graves are keys of saved records that were deleted, in the form that Table.bury writes them (hash
// 4 bytes, length 4 bytes, key), with an index: a key that is looked for again must not be found in
// the store before its deletion has got there.
type graves struct {
	buf   []byte
	idx   []uint32 // offset in buf + 1 by hash, linear probing, at most half full
	n     int
	epoch uint64 // of the freeze that took them
}

func (g *graves) add(at int) {
	if 2*g.n >= len(g.idx) {
		old := g.idx
		g.idx = make([]uint32, max(16, 2*len(old)))
		for _, o := range old {
			if o != 0 {
				g.place(o)
			}
		}
	}
	g.n++
	g.place(uint32(at) + 1)
}

func (g *graves) hash(o uint32) uint32 { return binary.LittleEndian.Uint32(g.buf[o-1:]) }

func (g *graves) place(o uint32) {
	mask := uint32(len(g.idx) - 1)
	i := g.hash(o) & mask
	for g.idx[i] != 0 {
		i = (i + 1) & mask
	}
	g.idx[i] = o
}

// has reports whether key, of the given hash, was buried.
func (g *graves) has(hash uint32, key []byte) bool {
	if g.n == 0 {
		return false
	}
	mask := uint32(len(g.idx) - 1)
	for i := hash & mask; g.idx[i] != 0; i = (i + 1) & mask {
		o := g.idx[i]
		if g.hash(o) != hash {
			continue
		}
		n := binary.LittleEndian.Uint32(g.buf[o+3:])
		if bytes.Equal(g.buf[o+7:o+7+n], key) {
			return true
		}
	}
	return false
}
