package join

import (
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Words of a record of side.rows, after the row itself.
const (
	countAt = iota // how often the row is there
	// matchAt is the number of rows of the other side that the row has matched, copies counted;
	// kept for outer sides only.
	matchAt
	linkAt // neighbours among the rows of the same key: next<<32 | previous, 0 for none
	rowWords
)

// Words that follow where the side has a TTL.
const (
	usedAt = rowWords + iota // when the record was written last, processing time
	keyAt                    // record of the key
	ttlWords
)

// Words of a record of side.keys, after the key.
const (
	endsAt = iota // first<<32 | last row of the key
	sizeAt        // number of different rows
	keyWords
)

// side is what a join remembers of one input: every row once with the number of its copies, and
// the rows of each join key as a list in the order they came.
type side struct {
	outer bool // rows without a match are shown, padded with NULLs
	keys  []int
	cols  int
	ttlMs int64 // 0: rows are kept for ever

	rows   *state.Table // by the whole row
	byKey  *state.Table // by the join key
	rowEnc *state.Encoder
	keyEnc *state.Encoder
	// rowBase and keyBase are where the owner's words start in the records.
	rowBase, keyBase int

	keyCols []*vec.Vec

	// The sweep for expired rows: where it is, and how many rows there were after it last.
	sweep state.Cursor
	swept int
}

func (s *side) open(mem *state.Memory, in types.Schema, keyTypes []types.Type, tracked bool) {
	all := make([]types.Type, in.Len())
	for i, f := range in.Fields {
		// A column may hold NULLs that its type does not know of.
		all[i] = f.Type.WithoutAttr().AsNullable()
	}
	rl, kl := state.NewLayout(all, false), state.NewLayout(keyTypes, false)
	words := rowWords
	if s.ttlMs > 0 {
		words = ttlWords
	}
	s.rows = state.NewTable(mem, rl, make([]uint64, words))
	if tracked {
		s.rows.TrackOwned(func(dst []byte, rec uint32) ([]byte, uint32) {
			return s.rows.AppendPart(dst, rec, s.keys)
		})
	}
	s.byKey = state.NewTable(mem, kl, make([]uint64, keyWords))
	s.rowEnc, s.keyEnc = state.NewEncoder(rl), state.NewEncoder(kl)
	s.rowBase, s.keyBase = s.rows.Base(), s.byKey.Base()
	s.keyCols = make([]*vec.Vec, len(s.keys))
}

func (s *side) release() {
	if s.rows != nil {
		s.rows.Release()
		s.byKey.Release()
	}
}

// row returns the owner's words of a row's record.
func (s *side) row(rec uint32) []uint64 {
	p := int(rec&state.ChunkMask) + s.rowBase
	return s.rows.Chunks[rec>>state.ChunkBits][p : p+rowWords : p+rowWords]
}

// key returns the owner's words of a key's record.
func (s *side) key(rec uint32) []uint64 {
	p := int(rec&state.ChunkMask) + s.keyBase
	return s.byKey.Chunks[rec>>state.ChunkBits][p : p+keyWords : p+keyWords]
}

// head is the first row of a key.
func (s *side) head(key uint32) uint32 { return uint32(s.key(key)[endsAt] >> 32) }

// next is the row after rec in the list of their key.
func (s *side) next(rec uint32) uint32 { return uint32(s.row(rec)[linkAt] >> 32) }

// link appends a row to the list of its key.
func (s *side) link(key, rec uint32) {
	k := s.key(key)
	last := uint32(k[endsAt])
	s.row(rec)[linkAt] = uint64(last)
	if last == 0 {
		k[endsAt] = uint64(rec) << 32
	} else {
		w := s.row(last)
		w[linkAt] = w[linkAt]&0xFFFFFFFF | uint64(rec)<<32
	}
	k[endsAt] = k[endsAt]&^0xFFFFFFFF | uint64(rec)
	k[sizeAt]++
}

// unlink takes a row out of the list of its key.
func (s *side) unlink(key, rec uint32) {
	k := s.key(key)
	w := s.row(rec)[linkAt]
	next, prev := uint32(w>>32), uint32(w)
	if prev == 0 {
		k[endsAt] = k[endsAt]&0xFFFFFFFF | uint64(next)<<32
	} else {
		p := s.row(prev)
		p[linkAt] = p[linkAt]&0xFFFFFFFF | uint64(next)<<32
	}
	if next == 0 {
		k[endsAt] = k[endsAt]&^0xFFFFFFFF | uint64(prev)
	} else {
		n := s.row(next)
		n[linkAt] = n[linkAt]&^0xFFFFFFFF | uint64(prev)
	}
	k[sizeAt]--
}
