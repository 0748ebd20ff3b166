package agg

import (
	"encoding/binary"
	mathbits "math/bits"
	"slices"
	"sort"

	"github.com/tidemark-stream/tidemark/state"
)

// Union unites the distinct values that groups have in several parts, some groups at a time, and tells those
// that follow them. The parts are stores in memory, whose values are found by looking for them, and saved
// entries, which come in the order of their keys. The union itself is not kept, but for what MIN and MAX
// need: a group may have more values than there is memory.
//
//	u.Open(sources)            once
//	u.Begin(ids, found)        for some groups of dst, whose own accumulators are merged
//	u.Add(i, k, key, value)    for the saved entries of set i, equal keys next to each other
//	u.End()                    now what follows from the values is there; dst is emitted and reset
//
// The parts may have been counted in the groups of dst before: what follows from values begins anew. Stores
// are not changed, but for marks (state.FlagMark) on values between Begin and End.
type Union struct {
	set     *Set
	dst     *Store
	sources []*unionSource
	ids     []uint32
	found   [][]uint32
	chunks  []unionChunk // by set
	init    []uint64

	lead, at, recs []uint32
	replaced       []uint32
}

// unionChunk is some values of one set in dst, each with the number of its group.
type unionChunk struct {
	entries []uint32
	group   []int32
}

// unionSource is a store in memory. Its entries by group: pairs of (group << 32 | entry), by set, in order;
// not made where there is one group only.
type unionSource struct {
	st    *Store
	pairs [][]uint64
}

// unionEntries is how many values are united at a time.
const unionEntries = 1024

// NewUnion returns a Union over groups of dst, a store that is not tracked and has no values.
func (s *Set) NewUnion(dst *Store) *Union {
	return &Union{set: s, dst: dst, chunks: make([]unionChunk, len(s.values)), init: s.Init()}
}

// Open prepares the stores in memory, and returns how many bytes it took for that until Close.
func (u *Union) Open(sources []*Store) int64 {
	n := int64(0)
	for _, st := range sources {
		src := &unionSource{st: st}
		if st.R.Len() > 1 {
			for _, vs := range st.vals {
				pairs := vs.pairs()
				src.pairs = append(src.pairs, pairs)
				n += 8 * int64(cap(pairs))
			}
		}
		u.sources = append(u.sources, src)
	}
	return n
}

// Close forgets the stores.
func (u *Union) Close() {
	clear(u.sources)
	u.sources = u.sources[:0]
}

// pairs lists the entries by group.
func (vs *valueStore) pairs() []uint64 {
	out := make([]uint64, 0, vs.t.Len())
	vs.scan(func(ids []uint32) {
		for _, e := range ids {
			out = append(out, vs.t.At(e)[1]<<32|uint64(e))
		}
	})
	slices.Sort(out)
	return out
}

func (vs *valueStore) scan(f func(ids []uint32)) {
	var c state.Cursor
	var ids [256]uint32
	for {
		got := vs.t.Scan(&c, ids[:])
		if len(got) == 0 {
			return
		}
		f(got)
	}
}

// each calls f with the entries of set i of a group, some at a time.
func (src *unionSource) each(i int, group uint32, f func(ids []uint32)) {
	if src.pairs == nil {
		src.st.vals[i].scan(f)
		return
	}
	pairs := src.pairs[i]
	at := sort.Search(len(pairs), func(k int) bool { return pairs[k]>>32 >= uint64(group) })
	var ids [256]uint32
	for at < len(pairs) && uint32(pairs[at]>>32) == group {
		n := 0
		for ; at < len(pairs) && n < len(ids) && uint32(pairs[at]>>32) == group; at++ {
			ids[n] = uint32(pairs[at])
			n++
		}
		f(ids[:n])
	}
}

// Begin is for the groups ids of dst; found[j][k] is the record of group ids[k] in source j, or 0. Both
// are the Union's until End.
func (u *Union) Begin(ids []uint32, found [][]uint32) {
	u.ids, u.found = ids, found
	s := u.set
	n := 0
	for k, sl := range s.slots {
		words := len(sl.init())
		if s.derived[k] {
			if f, ok := sl.(freer); ok {
				f.free(u.dst, s.offset(k), ids)
			}
			for _, id := range ids {
				copy(u.dst.R.At(id)[s.offset(k):], u.init[n:n+words])
			}
		}
		n += words
	}
}

// Add adds an entry of set i that was saved of group number k of those of Begin: key is what follows the key
// of the group. skip is given what follows the key of the value, and says that the entry does not count.
func (u *Union) Add(i, k int, key, value []byte, skip func(rest []byte) (bool, error)) error {
	vs, c := u.dst.vals[i], &u.chunks[i]
	v := vs.spec
	n := vs.t.Len()
	e, rest, err := vs.t.UpsertKey(key, u.ids[k])
	if err != nil {
		return err
	}
	fresh := vs.t.Len() > n
	not, err := skip(rest)
	if err == nil && len(value) != 9*vs.savedWords() {
		err = errValue
	}
	if err != nil || not {
		if fresh {
			vs.t.Forget(e)
		}
		return err
	}
	if fresh {
		if len(c.entries) == unionEntries {
			u.flush(i, 0)
		}
		c.entries, c.group = append(c.entries, e), append(c.group, int32(k))
	}
	w := vs.t.At(e)[v.layout.Words():]
	for b := range v.nCounts {
		v.combine(&w[b], binary.LittleEndian.Uint64(value[9*b+1:]))
	}
	return nil
}

// combine adds what one part has of a value to what another has: rows, or filters that let it through.
func (v *valueSpec) combine(word *uint64, with uint64) {
	if v.counted {
		*word += with
	} else {
		*word |= with
	}
}

// End adds the values that are in memory only.
func (u *Union) End() {
	for i := range u.chunks {
		u.flush(i, 0)
		for j := range u.sources {
			u.addSource(i, j)
			u.flush(i, j+1)
		}
	}
}

// addSource adds the values of source j that were not found before.
func (u *Union) addSource(i, j int) {
	src, vs, c := u.sources[j], u.dst.vals[i], &u.chunks[i]
	from, v := src.st.vals[i], vs.spec
	at := v.layout.Words()
	for k, group := range u.found[j] {
		if group == 0 {
			continue
		}
		src.each(i, group, func(ids []uint32) {
			n := 0
			for _, e := range ids {
				w := from.t.At(e)
				switch {
				case w[0]&state.FlagMark != 0:
					w[0] &^= state.FlagMark
				case v.counts(w): // else only a heap holds it
					ids[n] = e
					n++
				}
			}
			if len(c.entries)+n > unionEntries {
				u.flush(i, j+1)
			}
			u.lead, u.recs = sized(u.lead, n), sized(u.recs, n)
			for m := range u.lead {
				u.lead[m] = u.ids[k]
			}
			vs.t.UpsertLead(from.t, ids[:n], u.lead, u.recs)
			for m, e := range u.recs {
				copy(vs.t.At(e)[at:at+v.nCounts], from.t.At(ids[m])[at:])
				c.entries, c.group = append(c.entries, e), append(c.group, int32(k))
			}
		})
	}
}

// flush takes in what the sources from number j on have of the values at hand, tells who follows them, and
// forgets them.
func (u *Union) flush(i, j int) {
	c := &u.chunks[i]
	if len(c.entries) == 0 {
		return
	}
	vs := u.dst.vals[i]
	v := vs.spec
	for ; j < len(u.sources); j++ {
		u.look(i, j)
	}
	v.clearEvents()
	at := v.layout.Words()
	for k, e := range c.entries {
		rec := u.ids[c.group[k]]
		w := vs.t.At(e)[at:]
		if v.counted {
			for b := range v.nCounts {
				if int64(w[b]) > 0 {
					ev := &v.events[b]
					ev.recs, ev.entries, ev.neg = append(ev.recs, rec), append(ev.entries, e), append(ev.neg, false)
				}
			}
			continue
		}
		for m := w[0]; m != 0; m &= m - 1 {
			ev := &v.events[mathbits.TrailingZeros64(m)]
			ev.recs, ev.entries = append(ev.recs, rec), append(ev.entries, e)
		}
	}
	v.one = len(u.ids) == 1
	u.tell(v, vs)
	v.one = false
	for _, e := range c.entries {
		if v.heldAt < 0 || vs.t.At(e)[v.heldAt] == 0 {
			vs.t.Forget(e)
		}
	}
	c.entries, c.group = c.entries[:0], c.group[:0]
}

// look adds what source j has of the values at hand, and marks it there.
func (u *Union) look(i, j int) {
	c, vs, from := &u.chunks[i], u.dst.vals[i], u.sources[j].st.vals[i]
	at := vs.spec.layout.Words()
	u.at, u.lead = u.at[:0], u.lead[:0]
	for k, e := range c.entries {
		if group := u.found[j][c.group[k]]; group != 0 {
			u.at, u.lead = append(u.at, e), append(u.lead, group)
		}
	}
	u.recs = sized(u.recs, len(u.at))
	from.t.FindLead(vs.t, u.at, u.lead, u.recs)
	for k, e := range u.recs {
		if e == 0 {
			continue
		}
		w, have := vs.t.At(u.at[k])[at:], from.t.At(e)
		have[0] |= state.FlagMark
		for b := range vs.spec.nCounts {
			vs.spec.combine(&w[b], have[at+b])
		}
	}
}

// tell is Set.tell of values each of which comes once. Heaps keep their first one only.
func (u *Union) tell(v *valueSpec, vs *valueStore) {
	s := u.set
	for _, c := range v.consumers {
		ev := &v.events[c.filter]
		if len(ev.recs) == 0 {
			continue
		}
		if c.heap >= 0 {
			u.keepFirst(v, vs, c, ev)
			continue
		}
		s.take(v, vs, u.dst, c, ev)
	}
}

// keepFirst gives the heaps of a consumer the values of ev that come before those that they have.
func (u *Union) keepFirst(v *valueSpec, vs *valueStore, c consumer, ev *events) {
	h := vs.heaps[c.heap]
	off, bit, sign := u.set.offset(c.slot), uint64(1)<<c.heap, 1
	if u.set.slots[c.slot].(*heapSlot).max {
		sign = -1
	}
	fresh := u.chunks[u.set.index(v)].entries
	for k, rec := range ev.recs {
		e, p := ev.entries[k], u.dst.word(rec, off)
		if *p != 0 {
			top, _ := h.First(state.Ref(*p))
			if vs.t.Compare(0, e, top)*sign >= 0 {
				continue
			}
			u.dst.Blob.Free(state.Ref(*p))
			*p = 0
			held := &vs.t.At(top)[v.heldAt]
			if *held &^= bit; *held == 0 {
				u.replaced = append(u.replaced, top)
			}
		}
		vs.t.At(e)[v.heldAt] |= bit
		*p = uint64(h.Push(0, e))
	}
	if len(u.replaced) == 0 {
		return
	}
	// Those of this chunk are forgotten with the rest of it.
	slices.Sort(u.replaced)
	u.recs = append(u.recs[:0], fresh...)
	slices.Sort(u.recs)
	for _, e := range u.replaced {
		if _, here := slices.BinarySearch(u.recs, e); !here {
			vs.t.Forget(e)
		}
	}
	u.replaced = u.replaced[:0]
}
