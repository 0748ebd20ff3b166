package agg

import (
	mathbits "math/bits"
	"slices"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// valueSpec is a set of the values of some columns that each group has had, shared by all
// aggregates over DISTINCT of these columns, and by MIN and MAX of rows that may be taken back.
// Filter b of the set stands for the rows that one FILTER lets through; a value is present for it
// from the first such row to when the last was taken back, and the consumers of the filter are
// told of both.
//
// An entry is a record of a table with the key (group, values), followed by
//
//	present, one word: bit b    without retractions
//	counts, a word a filter     with retractions: rows that hold the value
//	held, one word              with heaps: bit h says that heap h holds the entry
//	previous, next entry        Options.Owned: the entries of a group are chained
//	sequence number, one word   of chained entries whose order matters: that of their coming
type valueSpec struct {
	cols      []int
	names     []string
	types     []types.Type
	sel       int
	filters   []int // filter columns, -1 for none
	consumers []consumer
	layout    *state.Layout
	counted   bool
	heaps     int // number of heaps
	head      int // slot of the first entry of a group's chain, or -1: see chain
	nCounts   int
	init      []uint64
	heldAt    int // offsets after the key; -1: none
	chainAt   int
	seqAt     int

	enc     *state.Encoder
	masks   []uint64 // of the rows at hand; own is memory for them
	own     []uint64
	maskOf  *Input // what masks were computed of, where they can be shared
	entries []uint32
	changed []uint32 // entries to be saved again
	events  []events // by filter
	dead    []uint32
	telling bool       // events may name entries that are dead by now, which therefore stay until all are told
	cols2   []*vec.Vec // values of entries, for consumers that need them
	args    []*vec.Vec
	in, res Input
	told    Input
	one     bool // all events are of one group
	ident   []int32
	lead    []uint32
}

// consumer is a slot that follows a filter of a set.
type consumer struct {
	filter, slot int
	values       bool // needs the values, not only their number
	heap         int  // index of a heap, or -1
}

// events are the groups and entries for which a value came, or went.
type events struct {
	recs, entries []uint32
	neg           []bool
}

// valueStore is the entries of a Store for a valueSpec.
type valueStore struct {
	t       *state.Table
	heaps   []*state.Heaps
	spec    *valueSpec
	seq     uint64 // the last sequence number given
	tracked bool   // changes are noted
	// wiped are entries to be removed from the saved state that are not in memory: for each the hash
	// of the group, twice the length of the key, plus 1 where all that begins with it is meant (4 bytes
	// each, little endian), and the key.
	wiped []byte
}

const noHead = -1

// valuesOf returns the spec over the columns cols of in, adding it if needed, and the bit of filter.
func (s *Set) valuesOf(in types.Schema, cols, notNull []int, filter int) (*valueSpec, int) {
	var v *valueSpec
	sel := s.selection(selection{filter: -1, notNull: notNull})
	for _, o := range s.values {
		if slices.Equal(o.cols, cols) && o.sel == sel {
			v = o
		}
	}
	if v == nil {
		v = &valueSpec{cols: cols, sel: sel, head: noHead}
		for _, c := range cols {
			v.types, v.names = append(v.types, in.Fields[c].Type.WithoutAttr()), append(v.names, in.Fields[c].Name)
		}
		s.values = append(s.values, v)
		s.selections[sel].forValues = true
		if s.opt.Owned || s.opt.Spills {
			v.head = s.slotFor("chain "+string(rune('0'+len(s.values))), -1, func() slot { return chain{} })
		}
	}
	for b, f := range v.filters {
		if f == filter {
			return v, b
		}
	}
	v.filters = append(v.filters, filter)
	return v, len(v.filters) - 1
}

// chain is the word of a group that names its first entry in a set of values: its low half. Where
// entries are not chained (no Options.Owned), that is the number of entries in memory. chainCold says
// that the store may have entries of the group that are not in memory.
type chain struct{}

const chainCold = 1 << 63

// first is the address in the word of a chain.
func first(p *uint64) uint32 { return uint32(*p) }

func setFirst(p *uint64, e uint32) { *p = *p&chainCold | uint64(e) }

func (chain) init() []uint64                          { return []uint64{0} }
func (chain) add(*Store, int, *Input)                 {}
func (chain) merge(_, _ *Store, _ int, _, _ []uint32) {}

// heapRef is the word of a group that names its heap.
type heapRef struct{}

func (heapRef) init() []uint64                          { return []uint64{0} }
func (heapRef) add(*Store, int, *Input)                 {}
func (heapRef) merge(_, _ *Store, _ int, _, _ []uint32) {}
func (heapRef) free(st *Store, at int, recs []uint32)   { freeRefs(st, at, recs) }

// prepare lays the entries out once all aggregates are known.
func (v *valueSpec) prepare(o Options, ordered bool) {
	v.layout = state.NewLayout(v.types, true)
	v.enc = state.NewEncoder(v.layout)
	v.counted = o.Retract
	v.nCounts = 1
	if v.counted {
		v.nCounts = len(v.filters)
	}
	n := v.nCounts
	v.heldAt, v.chainAt, v.seqAt = -1, -1, -1
	if v.heaps > 0 {
		v.heldAt = v.layout.Words() + n
		n++
	}
	if o.Owned {
		v.chainAt = v.layout.Words() + n
		n += 2
		if ordered && !o.Unmerged && slices.ContainsFunc(v.consumers, func(c consumer) bool { return c.values }) {
			v.seqAt = v.layout.Words() + n
			n++
		}
	}
	v.init = make([]uint64, n)
	v.events = make([]events, len(v.filters))
	v.args = make([]*vec.Vec, len(v.cols))
	// Heaps may remove entries whose values others still want to see, so they come last.
	slices.SortStableFunc(v.consumers, func(a, b consumer) int { return a.heap - b.heap })
	for _, t := range v.types {
		v.cols2 = append(v.cols2, vec.New(t, 0))
	}
}

func (s *Set) newValues(v *valueSpec, mem *state.Memory, st *Store) *valueStore {
	vs := &valueStore{t: state.NewTable(mem, v.layout, v.init), spec: v}
	for _, c := range v.consumers {
		if c.heap < 0 {
			continue
		}
		h := s.slots[c.slot].(*heapSlot)
		sign, bit := 1, uint64(1)<<c.heap
		if h.max {
			sign = -1
		}
		count := v.layout.Words() + c.filter
		vs.heaps = append(vs.heaps, state.NewHeaps(st.Blob,
			func(a, b uint32) bool { return vs.t.Compare(0, a, b)*sign < 0 },
			func(e uint32) bool { return int64(vs.t.At(e)[count]) > 0 },
			func(e uint32) {
				vs.t.At(e)[v.heldAt] &^= bit
				if v.telling {
					v.dead = append(v.dead, e)
					return
				}
				s.bury(v, vs, st, e)
			}))
	}
	return vs
}

// heapSlot is the heap of a MIN or MAX.
type heapSlot struct {
	heapRef
	max bool
}

// addValues adds the rows of in to a set of values and tells the consumers.
func (s *Set) addValues(v *valueSpec, i int, st *Store, in *Input) {
	vs := st.vals[i]
	var last *valueSpec
	if i > 0 {
		last = s.values[i-1]
	}
	in = v.mask(in, last)
	n := len(in.Rows)
	if n == 0 {
		return
	}
	for i, c := range v.cols {
		v.args[i] = in.Cols[c]
	}
	v.enc.Encode(v.args, in.Rows, in.Recs)
	v.entries = sized(v.entries, n)
	vs.t.Upsert(v.enc, nil, v.entries)
	v.clearEvents()
	if v.counted {
		for k, e := range v.entries {
			d := int64(1)
			if in.Neg != nil && in.Neg[k] {
				d = -1
			}
			s.countValue(v, vs, st, in.Recs[k], e, v.masks[k], d)
		}
	} else {
		s.setBits(v, vs, st, in.Recs)
	}
	v.one = in.One
	s.tell(v, vs, st)
	v.one = false
}

func (s *Set) index(v *valueSpec) int {
	for i := range s.values {
		if s.values[i] == v {
			return i
		}
	}
	panic("BUG: unknown set of values")
}

// mask computes for each row the filters that let it through and leaves out rows without any. A
// set with the same filters over the same rows as the one before, last, takes its masks.
func (v *valueSpec) mask(in *Input, last *valueSpec) *Input {
	always := slices.Contains(v.filters, -1)
	if last != nil && last.maskOf == in && always && slices.Equal(v.filters, last.filters) {
		v.masks, v.maskOf = last.masks, in
		return in
	}
	v.own = sized(v.own, len(in.Rows))
	v.masks = v.own
	v.maskOf = nil
	clear(v.masks)
	for b, f := range v.filters {
		if f < 0 {
			for k := range v.masks {
				v.masks[k] |= 1 << b
			}
			continue
		}
		setMask(v.masks, in.Cols[f], in.Rows, b)
	}
	if always {
		v.maskOf = in
		return in
	}
	out := &v.in
	out.Rows, out.Recs, out.Neg = out.Rows[:0], out.Recs[:0], out.Neg[:0]
	for k, m := range v.masks {
		if m == 0 {
			continue
		}
		v.masks[len(out.Rows)] = m
		out.Rows = append(out.Rows, in.Rows[k])
		out.Recs = append(out.Recs, in.Recs[k])
		if in.Neg != nil {
			out.Neg = append(out.Neg, in.Neg[k])
		}
	}
	v.res = Input{Cols: in.Cols, Rows: out.Rows, Recs: out.Recs, One: in.One}
	if in.Neg != nil {
		v.res.Neg = out.Neg
	}
	return &v.res
}

// setMask sets bit b of the masks of the rows in which f is true.
func setMask(masks []uint64, f *vec.Vec, rows []int32, b int) {
	v := f.Bool
	masks = masks[:len(rows)]
	if f.Valid == nil {
		for k, r := range rows {
			x := uint64(0)
			if v[r] {
				x = 1
			}
			masks[k] |= x << (b & 63)
		}
		return
	}
	for k, r := range rows {
		if f.Valid.Get(int(r)) && v[r] {
			masks[k] |= 1 << b
		}
	}
}

func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}

func (v *valueSpec) clearEvents() {
	for i := range v.events {
		e := &v.events[i]
		e.recs, e.entries, e.neg = e.recs[:0], e.entries[:0], e.neg[:0]
	}
}

// setBits is the update without retractions: what was absent becomes present.
func (s *Set) setBits(v *valueSpec, vs *valueStore, st *Store, recs []uint32) {
	ch := vs.t.Chunks
	at := v.layout.Words()
	for k, e := range v.entries {
		p := &ch[e>>bits][int(e&mask)+at]
		fresh := v.masks[k] &^ *p
		if fresh == 0 {
			continue
		}
		if *p == 0 && v.head >= 0 {
			s.join(v, vs, st, recs[k], e)
		}
		*p |= fresh
		if vs.tracked {
			v.changed = append(v.changed, e)
		}
		for ; fresh != 0; fresh &= fresh - 1 {
			ev := &v.events[mathbits.TrailingZeros64(fresh)]
			ev.recs = append(ev.recs, recs[k])
			ev.entries = append(ev.entries, e)
		}
	}
}

// countValue adds d to the counts of an entry for the filters in mask.
func (s *Set) countValue(v *valueSpec, vs *valueStore, st *Store, rec, e uint32, m uint64, d int64) {
	w := vs.t.At(e)
	if w[0]&state.FlagNew != 0 {
		w[0] &^= state.FlagNew
		if v.head >= 0 {
			s.join(v, vs, st, rec, e)
		}
	}
	if vs.tracked {
		v.changed = append(v.changed, e)
	}
	counts := w[v.layout.Words():]
	for ; m != 0; m &= m - 1 {
		b := mathbits.TrailingZeros64(m)
		old := int64(counts[b])
		counts[b] += uint64(d)
		if was, is := old > 0, old+d > 0; was != is {
			ev := &v.events[b]
			ev.recs = append(ev.recs, rec)
			ev.entries = append(ev.entries, e)
			ev.neg = append(ev.neg, was)
		}
		if old+d == 0 {
			v.dead = append(v.dead, e)
		}
	}
}

// take gives the slot of a consumer, which is no heap, the events that it is to know of.
func (s *Set) take(v *valueSpec, vs *valueStore, st *Store, c consumer, ev *events) {
	in := &v.told
	*in = Input{Recs: ev.recs, Rows: v.identity(len(ev.recs)), One: v.one}
	if v.counted {
		in.Neg = ev.neg
	}
	if c.values {
		for i, col := range v.cols2 {
			col.Reset(len(ev.entries))
			vs.t.KeyColumn(i, ev.entries, col, 0)
		}
		in.Cols = v.cols2
	}
	s.slots[c.slot].add(st, s.offset(c.slot), in)
}

// tell hands the events to the consumers and removes entries that nobody needs.
func (s *Set) tell(v *valueSpec, vs *valueStore, st *Store) {
	if vs.tracked {
		vs.t.Touch(v.changed)
		v.changed = v.changed[:0]
	}
	v.telling = true
	for _, c := range v.consumers {
		ev := &v.events[c.filter]
		if len(ev.recs) == 0 {
			continue
		}
		if c.heap >= 0 {
			s.tellHeap(v, c, vs, st, ev)
			continue
		}
		s.take(v, vs, st, c, ev)
	}
	v.telling = false
	for _, e := range v.dead {
		s.bury(v, vs, st, e)
	}
	v.dead = v.dead[:0]
}

func (v *valueSpec) identity(n int) []int32 {
	for len(v.ident) < n {
		v.ident = append(v.ident, int32(len(v.ident)))
	}
	return v.ident[:n]
}

func (s *Set) tellHeap(v *valueSpec, c consumer, vs *valueStore, st *Store, ev *events) {
	h := vs.heaps[c.heap]
	bit := uint64(1) << c.heap
	off := s.offset(c.slot)
	for k, rec := range ev.recs {
		e := ev.entries[k]
		p := st.word(rec, off)
		switch held := &vs.t.At(e)[v.heldAt]; {
		case ev.neg[k]:
			*p = uint64(h.Kill(state.Ref(*p)))
		case *held&bit != 0:
			h.Revive(state.Ref(*p))
		default:
			*held |= bit
			*p = uint64(h.Push(state.Ref(*p), e))
		}
	}
}

// bury removes an entry that has no rows and is in no heap.
func (s *Set) bury(v *valueSpec, vs *valueStore, st *Store, e uint32) {
	w := vs.t.At(e)
	if !state.Live(w) || v.heldAt >= 0 && w[v.heldAt] != 0 {
		return
	}
	n := v.layout.Words()
	for _, c := range w[n : n+v.nCounts] {
		if c != 0 {
			return
		}
	}
	if v.head >= 0 {
		s.leave(v, vs, st, e)
	}
	vs.t.Delete(e)
}

// join makes a new entry one of its group's, leave takes it out.
func (s *Set) join(v *valueSpec, vs *valueStore, st *Store, rec, e uint32) {
	if v.chainAt >= 0 {
		s.link(v, vs, st, rec, e)
	} else {
		*st.word(rec, s.offset(v.head))++
	}
}

func (s *Set) leave(v *valueSpec, vs *valueStore, st *Store, e uint32) {
	if v.chainAt >= 0 {
		s.unlink(v, vs, st, e)
	} else {
		*st.word(uint32(vs.t.At(e)[1]), s.offset(v.head))--
	}
}

func (s *Set) link(v *valueSpec, vs *valueStore, st *Store, rec, e uint32) {
	head := st.word(rec, s.offset(v.head))
	w, next := vs.t.At(e), first(head)
	w[v.chainAt], w[v.chainAt+1] = 0, uint64(next)
	if next != 0 {
		vs.t.At(next)[v.chainAt] = uint64(e)
	}
	setFirst(head, e)
	if v.seqAt >= 0 && w[v.seqAt] == 0 {
		vs.seq++
		w[v.seqAt] = vs.seq
	}
}

func (s *Set) unlink(v *valueSpec, vs *valueStore, st *Store, e uint32) {
	w := vs.t.At(e)
	prev, next := w[v.chainAt], w[v.chainAt+1]
	if next != 0 {
		vs.t.At(uint32(next))[v.chainAt] = prev
	}
	if prev != 0 {
		vs.t.At(uint32(prev))[v.chainAt+1] = next
	} else {
		setFirst(st.word(uint32(w[1]), s.offset(v.head)), uint32(next))
	}
}

// mergeValues adds the entries of the groups sr of src to those of the groups d of dst.
func (s *Set) mergeValues(v *valueSpec, i int, dst, src *Store, d, sr []uint32) {
	if v.chainAt < 0 {
		panic("BUG: sets of values merged that are not chained")
	}
	from, to := src.vals[i], dst.vals[i]
	n := v.layout.Words()
	var ids [256]uint32
	for k, rec := range sr {
		at := first(src.word(rec, s.offset(v.head)))
		for at != 0 {
			m := 0
			for ; at != 0 && m < len(ids); at = uint32(from.t.At(at)[v.chainAt+1]) {
				if v.counts(from.t.At(at)) { // else only a heap holds it
					ids[m] = at
					m++
				}
			}
			v.lead = sized(v.lead, m)
			for j := range v.lead {
				v.lead[j] = d[k]
			}
			v.entries = sized(v.entries, m)
			to.t.UpsertLead(from.t, ids[:m], v.lead, v.entries)
			v.clearEvents()
			if !v.counted {
				v.own = sized(v.own, m)
				v.masks, v.maskOf = v.own, nil
				for j := range v.masks {
					v.masks[j] = from.t.At(ids[j])[n]
				}
				s.setBits(v, to, dst, v.lead)
			} else {
				for j, e := range v.entries {
					for b := 0; b < v.nCounts; b++ {
						if c := int64(from.t.At(ids[j])[n+b]); c != 0 {
							s.countValue(v, to, dst, d[k], e, 1<<b, c)
						}
					}
				}
			}
			s.tell(v, to, dst)
		}
	}
}

// dropValues removes all entries of the groups recs.
func (s *Set) dropValues(v *valueSpec, vs *valueStore, st *Store, recs []uint32) {
	if v.chainAt < 0 {
		return
	}
	for _, rec := range recs {
		head := st.word(rec, s.offset(v.head))
		if *head&chainCold != 0 {
			vs.wipe(st, s.index(v), rec)
		}
		for e := first(head); e != 0; {
			next := uint32(vs.t.At(e)[v.chainAt+1])
			vs.t.Delete(e)
			e = next
		}
		*head = 0
	}
}

// heapOut writes the value that a heap has on top.
type heapOut struct {
	set      *Set
	v        *valueSpec
	c        consumer
	column   int
	firsts   []uint32
	position []int32
}

func (o *heapOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	vs := st.vals[o.set.index(o.v)]
	off := o.set.offset(o.c.slot)
	o.firsts, o.position = o.firsts[:0], o.position[:0]
	for k, rec := range recs {
		p := st.word(rec, off)
		e, ref := vs.heaps[o.c.heap].First(state.Ref(*p))
		*p = uint64(ref)
		if e == 0 {
			out.SetNull(at + k)
			continue
		}
		o.firsts = append(o.firsts, e)
		o.position = append(o.position, int32(at+k))
	}
	tmp := o.v.cols2[o.column]
	tmp.Reset(len(o.firsts))
	vs.t.KeyColumn(o.column, o.firsts, tmp, 0)
	for i, pos := range o.position {
		out.Set(int(pos), tmp, i)
	}
	return nil
}
