package window

import (
	"encoding/binary"
	"sort"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
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
	// part tells slices of the same interval apart.
	part uint32
	// after is the watermark that the rows have seen already, where they come from a subtask that
	// was further than this one: the windows that were over then have fired. Else vec.MinTime.
	after int64
	// shut says that rows that still come go to another slice, as if merged.
	shut bool
	// ran says that this is a saved running aggregate, of the windows that begin at start.
	ran   bool
	saved entries

	// run is the number of the entries of st, sealed what came before and is still in memory, cold
	// says that there are entries in the store only, about coldLen, and used is the batch that had the
	// last rows; see spill.go.
	run     uint32
	sealed  []*sealedRun
	cold    bool
	coldLen int
	used    int64

	rows []int32 // of the batch at hand
}

// sliceList keeps slices in the order of their ends, then starts.
type sliceList struct {
	list []*slice
	pool []*agg.Store
	// spare is memory for the rows of slices.
	spare [][]int32
	set   *agg.Set
	mem   *state.Memory
	l     *state.Layout
	// extra words before the accumulators.
	extra int
	save  *saver
	// withStart and withPart say what the prefix of a slice's entries has besides the end.
	withStart, withPart bool
	prefix              []byte
	sealed              int // stores that are sealed and not dropped
	// keyed is what single groups of slices go to, or nil.
	keyed *state.Spill
	// expect is the number of keys of a recent slice.
	expect int
}

// find returns the open slice of an interval, and where it is or belongs: behind the others of the
// interval, whose rows came before.
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
	for i < len(l) && l[i].end == end && l[i].start == start {
		if !l[i].merged && !l[i].shut {
			return i, l[i]
		}
		i++
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
	for k := i - 1; k >= 0 && s.list[k].end == sl.end && s.list[k].start == sl.start; k-- {
		sl.part = max(sl.part, s.list[k].part+1)
	}
	s.spillTo(sl)
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
	st := s.set.NewStore(s.mem, s.l, s.extra)
	if s.save != nil {
		st.Track()
	}
	return st
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
	if s.save != nil && !sl.ran {
		s.save.remove(0, s.prefixOf(sl), sl.st, sl.run > 0 || sl.spilled(), &sl.saved)
	}
	s.drop(sl)
	s.give(sl.st)
	s.closed(sl)
}

// drop gives back the sealed stores of a slice.
func (s *sliceList) drop(sl *slice) {
	for _, r := range sl.sealed {
		r.st.Release()
	}
	s.sealed -= len(sl.sealed)
	sl.sealed = nil
}

// closed takes back the memory for rows of a slice that gets no more.
func (s *sliceList) closed(sl *slice) {
	if cap(sl.rows) > 0 && len(s.spare) < poolMax {
		s.spare = append(s.spare, sl.rows[:0])
	}
	sl.rows = nil
}

// open returns a slice without a store, with memory for its rows that was used before if possible.
func (s *sliceList) open(start, end int64) *slice {
	sl := &slice{start: start, end: end, after: vec.MinTime}
	if n := len(s.spare); n > 0 {
		sl.rows = s.spare[n-1]
		s.spare = s.spare[:n-1]
	}
	return sl
}

// removeFirst removes the n first slices.
func (s *sliceList) removeFirst(n int) {
	for _, sl := range s.list[:n] {
		s.done(sl)
	}
	s.cut(n)
}

// cut takes the n first slices, which are done, off the list. Many that follow stay where they are, as there may be as
// many cuts at one watermark; few are moved to the front, so that the list keeps its memory.
func (s *sliceList) cut(n int) {
	if len(s.list)-n > 64 {
		clear(s.list[:n])
		s.list = s.list[n:]
		return
	}
	m := copy(s.list, s.list[n:])
	clear(s.list[m:])
	s.list = s.list[:m]
}

// prefixOf is what the keys of a slice's saved entries begin with, valid until the next call.
func (s *sliceList) prefixOf(sl *slice) []byte {
	b := appendTime(s.prefix[:0], sl.end)
	if s.withStart {
		b = appendTime(b, sl.start)
	}
	if s.withPart {
		b = binary.BigEndian.AppendUint32(b, sl.part)
	}
	s.prefix = b
	return b
}

func (s *sliceList) release() {
	for _, sl := range s.list {
		if sl.st != nil {
			sl.st.Release()
		}
		for _, r := range sl.sealed {
			r.st.Release()
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
			n += sl.st.Entries() + sl.coldLen
		}
		for _, r := range sl.sealed {
			n += r.st.Entries()
		}
	}
	return n
}
