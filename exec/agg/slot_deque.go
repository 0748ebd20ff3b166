package agg

import (
	"encoding/binary"
	"math"

	"github.com/tidemark-stream/tidemark/state"
)

// deque keeps the least or greatest value of a sliding window, in the set of the window: one
// word, the Ref of a list of (end of slice, value) pairs of 8 bytes each. Ends ascend and values
// get worse from front to back, since a slice whose value is no better than that of a later one
// can never show. Each value enters and leaves once, so a window costs the same however many
// slices it has.
type deque struct {
	max, float bool
	// empty is the word of a slice's group without a value.
	empty uint64
}

const pair = 16

func (*deque) init() []uint64 { return []uint64{0} }

// add is never called: windows get slices, not rows.
func (*deque) add(*Store, int, *Input) { panic("BUG: row added to a sliding window") }

func (*deque) merge(_, _ *Store, _ int, _, _ []uint32) { panic("BUG: sliding windows merged") }

func (*deque) free(st *Store, at int, recs []uint32) { freeRefs(st, at, recs) }

func (q *deque) slide(dst, src *Store, at, srcAt int, d, s []uint32, end int64, in bool) {
	for k, r := range d {
		p := dst.word(r, at)
		if in {
			if w := *src.word(s[k], srcAt); w != q.empty {
				*p = uint64(q.push(dst.Blob, state.Ref(*p), end, w))
			}
			continue
		}
		if *p == 0 {
			continue
		}
		b := dst.Blob.Get(state.Ref(*p))
		n := 0
		for n < len(b) && int64(binary.LittleEndian.Uint64(b[n:])) <= end {
			n += pair
		}
		if n > 0 {
			copy(b, b[n:])
			*p = uint64(dst.Blob.Grow(state.Ref(*p), len(b)-n))
		}
	}
}

func (q *deque) push(blob *state.Blob, r state.Ref, end int64, w uint64) state.Ref {
	le := binary.LittleEndian
	b := blob.Get(r)
	at := len(b) // where the pair goes
	for at > 0 && int64(le.Uint64(b[at-pair:])) >= end {
		at -= pair
	}
	rest := at // what stays behind it begins here
	if rest < len(b) {
		if !q.better(w, le.Uint64(b[rest+8:])) {
			return r // a slice that stays at least as long is as good
		}
		if int64(le.Uint64(b[rest:])) == end {
			rest += pair
		}
	}
	for at > 0 && !q.better(le.Uint64(b[at-8:]), w) {
		at -= pair
	}
	tail := len(b) - rest
	if need := at + pair + tail; need > len(b) {
		r = blob.Grow(r, need)
		b = blob.Get(r)
		copy(b[at+pair:], b[rest:rest+tail])
	} else {
		copy(b[at+pair:], b[rest:rest+tail])
		r = blob.Grow(r, need)
		b = blob.Get(r)
	}
	le.PutUint64(b[at:], uint64(end))
	le.PutUint64(b[at+8:], w)
	return r
}

func (q *deque) better(a, b uint64) bool {
	if q.float {
		x, y := math.Float64frombits(a), math.Float64frombits(b)
		if q.max {
			return x > y
		}
		return x < y
	}
	if q.max {
		return int64(a) > int64(b)
	}
	return int64(a) < int64(b)
}

// front returns the word that shows.
func (q *deque) front(st *Store, rec uint32, at int) uint64 {
	b := st.Blob.Get(state.Ref(*st.word(rec, at)))
	if len(b) == 0 {
		return q.empty
	}
	return binary.LittleEndian.Uint64(b[8:])
}

func freeRefs(st *Store, at int, recs []uint32) {
	for _, r := range recs {
		p := st.word(r, at)
		st.Blob.Free(state.Ref(*p))
		*p = 0
	}
}
