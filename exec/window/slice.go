package window

import (
	"sort"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/state"
)

// slice is the rows of an interval, aggregated by key.
type slice struct {
	// end is the first millisecond after it, start its first one (of a window that came with the
	// rows: that window's).
	start, end int64
	// first and last are the instants at which the first and the last window of it are over.
	first, last int64
	st          *agg.Store
	// merged says that the running aggregate has it: rows that still come go to another slice of
	// the same interval.
	merged bool

	rows []int32 // of the batch at hand: positions, and ranks among the encoded keys
	sub  []int32
}

// sliceList keeps slices in the order of their ends, then starts.
type sliceList struct {
	list []*slice
	pool []*agg.Store
	// spare is memory for the rows of slices.
	spare [][2][]int32
	set   *agg.Set
	mem   *state.Memory
	l     *state.Layout
	// extra words before the accumulators.
	extra int
	// expect is the number of keys of a recent slice.
	expect int
}

// find returns the open slice of an interval, and where it is or belongs.
func (s *sliceList) find(start, end int64) (int, *slice) {
	l := s.list
	// Rows mostly go to the newest slices.
	i := len(l)
	for i > 0 && !before(l[i-1], start, end) {
		i--
		if i < len(l)-4 {
			i = sort.Search(i, func(k int) bool { return !before(l[k], start, end) })
			break
		}
	}
	for k := i; k < len(l) && l[k].end == end && l[k].start == start; k++ {
		if !l[k].merged {
			return k, l[k]
		}
	}
	return i, nil
}

func before(s *slice, start, end int64) bool {
	return s.end < end || s.end == end && s.start < start
}

// insert adds sl at position i.
func (s *sliceList) insert(i int, sl *slice) {
	sl.st = s.store()
	sl.st.T.Expect(s.expect + s.expect/8)
	s.list = append(s.list, nil)
	copy(s.list[i+1:], s.list[i:])
	s.list[i] = sl
}

// store returns an empty store, used before if possible.
func (s *sliceList) store() *agg.Store {
	if n := len(s.pool); n > 0 {
		st := s.pool[n-1]
		s.pool = s.pool[:n-1]
		return st
	}
	return s.set.NewStore(s.mem, s.l, s.extra)
}

// poolMax bounds the empty stores kept.
const poolMax = 8

// give takes a store back.
func (s *sliceList) give(st *agg.Store) {
	s.expect = st.R.Len()
	if len(s.pool) >= poolMax {
		st.Release()
		return
	}
	st.Reset()
	s.pool = append(s.pool, st)
}

// done takes the store and the memory of a slice back.
func (s *sliceList) done(sl *slice) {
	s.give(sl.st)
	s.closed(sl)
}

// closed takes back the memory for rows of a slice that gets no more.
func (s *sliceList) closed(sl *slice) {
	if cap(sl.rows) > 0 && len(s.spare) < poolMax {
		s.spare = append(s.spare, [2][]int32{sl.rows[:0], sl.sub[:0]})
	}
	sl.rows, sl.sub = nil, nil
}

// open returns a slice like ghost, with memory for its rows that was used before if possible.
func (s *sliceList) open(ghost *slice) *slice {
	sl := &slice{}
	*sl = *ghost
	if n := len(s.spare); n > 0 {
		sl.rows, sl.sub = s.spare[n-1][0], s.spare[n-1][1]
		s.spare = s.spare[:n-1]
	}
	return sl
}

// removeFirst removes the n first slices.
func (s *sliceList) removeFirst(n int) {
	for _, sl := range s.list[:n] {
		s.done(sl)
	}
	m := copy(s.list, s.list[n:])
	clear(s.list[m:])
	s.list = s.list[:m]
}

func (s *sliceList) release() {
	for _, sl := range s.list {
		if sl.st != nil {
			sl.st.Release()
		}
	}
	for _, st := range s.pool {
		st.Release()
	}
	s.list, s.pool = nil, nil
}

func (s *sliceList) entries() int {
	n := 0
	for _, sl := range s.list {
		if sl.st != nil {
			n += sl.st.Entries()
		}
	}
	return n
}
