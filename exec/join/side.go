package join

import (
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Words of a record of side.rows, after the row itself.
const (
	linkAt  = iota // the Bag's: next<<32 | previous among the rows of the same key, 0 for none
	countAt        // how often the row is there
	// matchAt is the number of rows of the other side that the row has matched, copies counted;
	// kept for outer sides only.
	matchAt
	rowWords
	// usedAt follows where the side has a TTL: when the record was written last, processing time.
	usedAt = rowWords
)

// side is what a join remembers of one input: every row once with the number of its copies, under
// its join key.
type side struct {
	outer bool // rows without a match are shown, padded with NULLs
	keys  []int
	cols  int
	ttlMs int64 // 0: rows are kept for ever

	bag    *state.Bag
	rows   *state.Table // of bag
	rowEnc *state.Encoder
	keyEnc *state.Encoder
	// rowBase is where the words start in a record of rows.
	rowBase int

	keyCols []*vec.Vec

	// expiry removes expired rows; swept is how many rows there were after it last.
	expiry *state.Expiry
	swept  int
	// since is when rows of which it is not known were used last: when the TTL was switched on.
	since int64
}

func (s *side) open(mem *state.Memory, in types.Schema, keyTypes []types.Type, tracked bool) {
	all := make([]types.Type, in.Len())
	for i, f := range in.Fields {
		// A column may hold NULLs that its type does not know of.
		all[i] = f.Type.WithoutAttr().AsNullable()
	}
	words := []uint64{0, 0}
	if s.ttlMs > 0 {
		words = append(words, 0)
	}
	s.bag = state.NewBag(mem, all, s.keys, keyTypes, words, s.ttlMs > 0)
	s.rows = s.bag.Rows
	if tracked {
		s.bag.Track()
	}
	s.rowEnc, s.keyEnc = state.NewEncoder(s.rows.Layout()), state.NewEncoder(s.bag.Keys.Layout())
	s.rowBase = s.rows.Base()
	s.keyCols = make([]*vec.Vec, len(s.keys))
}

func (s *side) release() {
	if s.bag != nil {
		s.bag.Release()
	}
}

// row returns the words of a row's record.
func (s *side) row(rec uint32) []uint64 {
	p := int(rec&state.ChunkMask) + s.rowBase
	return s.rows.Chunks[rec>>state.ChunkBits][p : p+rowWords : p+rowWords]
}

// len is about the number of different rows.
func (s *side) len() int { return s.rows.Len() + s.bag.Cold() }
