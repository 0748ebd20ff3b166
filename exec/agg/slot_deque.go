package agg

import (
	"encoding/binary"
	"math"

	"github.com/tidemark-stream/tidemark/state"
)

// deque keeps the least or greatest value of a sliding window, in the set of the window: pairs of
// (end of slice, value) whose ends ascend and whose values get worse from front to back, since a
// slice whose value is no better than that of a later one can never show. Each value enters and
// leaves once, so a window costs the same however many slices it has. Three words:
//
//	Ref of the pairs behind the front, of 8 bytes and 8 bytes | end, value of the front
type deque struct {
	max, float bool
	// empty is the word of a slice's group without a value, and of a window without one.
	empty uint64
}

const (
	pair       = 16
	dequeEnd   = 1
	dequeFront = 2
)

func (q *deque) init() []uint64 { return []uint64{0, 0, q.empty} }

// add is never called: windows get slices, not rows.
func (*deque) add(*Store, int, *Input) { panic("BUG: row added to a sliding window") }

func (*deque) merge(_, _ *Store, _ int, _, _ []uint32) { panic("BUG: sliding windows merged") }

func (*deque) free(st *Store, at int, recs []uint32) { freeRefs(st, at, recs) }

func (q *deque) slide(dst, src *Store, at, srcAt int, d, s []uint32, end int64, in bool) {
	dc, sc := dst.R.Chunks, src.R.Chunks
	for k, r := range d {
		p := dc[r>>bits][int(r&mask)+at:]
		p = p[:3]
		if in {
			if w := sc[s[k]>>bits][int(s[k]&mask)+srcAt]; w != q.empty {
				q.enter(dst.Blob, p, end, w)
			}
		} else if p[dequeFront] != q.empty && int64(p[dequeEnd]) <= end {
			q.leave(dst.Blob, p, end)
		}
	}
}

// enter adds the value w of the slice that ends at end to the deque p.
func (q *deque) enter(blob *state.Blob, p []uint64, end int64, w uint64) {
	front, frontEnd := p[dequeFront], int64(p[dequeEnd])
	switch {
	case front == q.empty:
	case end >= frontEnd && !q.better(front, w):
		// At least as good and as long as all up to its end: these can never show. Those of later
		// slices, where this one is late, stay longer.
		if p[0] != 0 {
			b, n := blob.Get(state.Ref(p[0])), 0
			for n < len(b) && int64(binary.LittleEndian.Uint64(b[n:])) <= end {
				n += pair
			}
			copy(b, b[n:])
			p[0] = uint64(blob.Grow(state.Ref(p[0]), len(b)-n))
		}
	case end >= frontEnd:
		p[0] = uint64(q.push(blob, state.Ref(p[0]), end, w))
		return
	case q.better(w, front):
		p[0] = uint64(q.push(blob, state.Ref(p[0]), frontEnd, front))
	default:
		return
	}
	p[dequeEnd], p[dequeFront] = uint64(end), w
}

// leave removes what is of slices up to end.
func (q *deque) leave(blob *state.Blob, p []uint64, end int64) {
	le := binary.LittleEndian
	b := blob.Get(state.Ref(p[0]))
	n := 0
	for n < len(b) && int64(le.Uint64(b[n:])) <= end {
		n += pair
	}
	if n == len(b) {
		p[dequeEnd], p[dequeFront] = 0, q.empty
	} else {
		p[dequeEnd], p[dequeFront] = le.Uint64(b[n:]), le.Uint64(b[n+8:])
		n += pair
	}
	if p[0] != 0 {
		copy(b, b[n:])
		p[0] = uint64(blob.Grow(state.Ref(p[0]), len(b)-n))
	}
}

// push adds a pair to those behind the front.
func (q *deque) push(blob *state.Blob, r state.Ref, end int64, w uint64) state.Ref {
	le := binary.LittleEndian
	b := blob.Get(r)
	if n := len(b); n == 0 || int64(le.Uint64(b[n-pair:])) < end {
		// The usual case: the newest slice.
		for n > 0 && !q.better(le.Uint64(b[n-8:]), w) {
			n -= pair
		}
		r, b = blob.Resize(r, n+pair)
		le.PutUint64(b[n:], uint64(end))
		le.PutUint64(b[n+8:], w)
		return r
	}
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

func freeRefs(st *Store, at int, recs []uint32) {
	for _, r := range recs {
		p := st.word(r, at)
		st.Blob.Free(state.Ref(*p))
		*p = 0
	}
}
