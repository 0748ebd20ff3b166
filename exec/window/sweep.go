package window

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/state"
)

// sweeper merges the groups of slices that are on disk in part. It reads the store in the order of
// key groups and keys, a block of groups at a time: what one slice has of a group lies side by side,
// and several slices are read next to each other. To each block it adds what stores in memory have of
// its groups, and marks that there; groups that are in memory only come last. So its memory does not
// depend on how large the slices are.
type sweeper struct {
	block   *agg.Store // the groups at hand, and what is merged into them
	part    *agg.Store
	readers []*reader
	heap    readers  // those with an entry
	key     []byte   // of the last group
	ids     []uint32 // the groups of block
	rounds  []rounds // by slice
	values  []byte
	sources []source // the stores in memory

	found, dst, src []uint32
	init            []uint64

	distinct distinct // of aggregates over distinct values; see sweep_values.go
}

// rounds are the entries of a slice for the groups at hand: the first of each group, the second ones
// and so on, as a merge takes each group once.
type rounds [][]cut

// cut is a value of a group.
type cut struct {
	rec      uint32
	from, to int
}

// source is a store in memory of a slice.
type source struct {
	slice int
	st    *agg.Store
}

const (
	// blockBytes is about how many bytes of values a block has.
	blockBytes = 1 << 20
	// chunkEntries and chunkBytes are how much of a slice is read at once.
	chunkEntries = 512
	chunkBytes   = 1 << 15
)

// reader reads the entries of a slice in one key group.
type reader struct {
	slice  int // its number, and itself
	sl     *slice
	state  int
	prefix []byte
	buf    []byte
	ends   []int // of keys and values in buf, in turn
	next   int   // index in ends
	last   []byte
	more   bool
}

// key is that of the entry at hand, without the prefix.
func (r *reader) key() []byte { return r.buf[r.begin():r.ends[r.next]] }

func (r *reader) value() []byte { return r.buf[r.ends[r.next]:r.ends[r.next+1]] }

func (r *reader) begin() int {
	if r.next == 0 {
		return 0
	}
	return r.ends[r.next-1]
}

// fill makes an entry be at hand; false at the end of the key group.
func (r *reader) fill(sp *state.Spill, group int) (bool, error) {
	if r.next < len(r.ends) || !r.more {
		return r.next < len(r.ends), nil
	}
	r.buf, r.ends, r.next, r.more = r.buf[:0], r.ends[:0], 0, false
	at := 0
	err := sp.Entries(r.state, group, r.prefix, r.last, func(key, value []byte) bool {
		if len(r.ends) == 2*chunkEntries || len(r.buf) > chunkBytes {
			r.more = true
			return false
		}
		at = len(r.buf)
		r.buf = append(r.buf, key...)
		r.ends = append(r.ends, len(r.buf))
		r.buf = append(r.buf, value...)
		r.ends = append(r.ends, len(r.buf))
		return true
	})
	if len(r.ends) > 0 && r.more {
		r.last = append(r.last[:0], r.buf[at:r.ends[len(r.ends)-2]]...)
	}
	return len(r.ends) > 0, err
}

func (w *sweeper) release() {
	for _, st := range []*agg.Store{w.block, w.part} {
		if st != nil {
			st.Release()
		}
	}
}

// sweep calls emit with all groups of the slices of list, merged in this order; the ids are valid
// during the call.
func (o *Agg) sweep(list []*slice, emit func(st *agg.Store, ids []uint32) error) error {
	w := &o.sweeper
	if w.block == nil {
		w.block = o.set.NewStore(o.mem, o.l, o.extra)
		w.part = o.set.NewRecords(o.mem, o.l.Words()+o.extra)
		w.init = o.set.Init()
		w.distinct.init(o)
	}
	o.openSweep(list)
	held := w.distinct.open(w)
	o.ctx.Budget.Add(held)
	var err error
	if len(w.readers) > 0 {
		err = o.sweepDisk(list, emit)
	}
	if err == nil {
		err = o.sweepMemory(len(list) == 1, emit)
	}
	w.distinct.close()
	o.ctx.Budget.Add(-held)
	clear(w.sources)
	clear(w.readers)
	w.sources, w.readers, w.heap = w.sources[:0], w.readers[:0], w.heap[:0]
	return err
}

// openSweep prepares readers and sources for the slices of list.
func (o *Agg) openSweep(list []*slice) {
	w := &o.sweeper
	w.readers, w.sources = w.readers[:0], w.sources[:0]
	for len(w.rounds) < len(list) {
		w.rounds = append(w.rounds, nil)
	}
	for i, sl := range list {
		if sl.cold || sl.st.T.Spilled() {
			r := &reader{slice: i, sl: sl, prefix: bytes.Clone(o.prefixOf(sl))}
			if sl.ran {
				r.state, r.prefix = o.runState(), appendTime(nil, sl.start)
			}
			w.readers = append(w.readers, r)
		}
		for _, r := range sl.sealed {
			w.sources = append(w.sources, source{i, r.st})
		}
		if sl.st.R.Len() > 0 {
			w.sources = append(w.sources, source{i, sl.st})
		}
	}
}

// sweepDisk emits the groups that the store has entries of.
func (o *Agg) sweepDisk(list []*slice, emit func(st *agg.Store, ids []uint32) error) error {
	w := &o.sweeper
	sp := o.spill.whole
	if sp == nil {
		sp = o.spill.keyed
	}
	lo, hi := sp.Groups()
	for g := lo; g < hi; g++ {
		if err := w.begin(&w.heap, w.readers, sp, g); err != nil {
			return err
		}
		if err := w.distinct.begin(w, sp, g); err != nil {
			return err
		}
		for len(w.heap) > 0 {
			if err := o.gather(sp, g); err != nil {
				return err
			}
			w.distinct.groups(w, len(w.ids))
			if err := o.mergeBlock(list); err != nil {
				return err
			}
			if err := w.distinct.unite(w, sp, g); err != nil {
				return err
			}
			if err := emit(w.block, w.ids); err != nil {
				return err
			}
			w.block.Reset()
		}
	}
	return nil
}

// begin lets readers begin a key group, and puts those with entries in it into a heap.
func (w *sweeper) begin(h *readers, list []*reader, sp *state.Spill, group int) error {
	*h = (*h)[:0]
	for _, r := range list {
		if !r.sl.saved.has(group) {
			continue
		}
		r.buf, r.ends, r.next, r.last, r.more = r.buf[:0], r.ends[:0], 0, nil, true
		ok, err := r.fill(sp, group)
		if err != nil {
			return err
		}
		if ok {
			h.push(r)
		}
	}
	return nil
}

// gather reads the entries of the next groups into rounds.
func (o *Agg) gather(sp *state.Spill, group int) error {
	w := &o.sweeper
	w.ids, w.values = w.ids[:0], w.values[:0]
	for i := range w.rounds {
		for n := range w.rounds[i] {
			w.rounds[i][n] = w.rounds[i][n][:0]
		}
	}
	nth, last := 0, -1 // the round of the next entry, if it is of this slice
	for len(w.heap) > 0 {
		r := w.heap[0]
		key := r.key()
		if len(w.ids) == 0 || !bytes.HasPrefix(key, w.key) {
			if len(w.ids) == block || len(w.values) >= blockBytes {
				return nil
			}
			rec, rest, err := w.block.T.UpsertKey(key, 0)
			if err != nil {
				return err
			}
			w.key = append(w.key[:0], key[:len(key)-len(rest)]...)
			w.ids = append(w.ids, rec)
			last = -1
		}
		run, err := runOf(key[len(w.key):])
		if err != nil {
			return err
		}
		if r.slice != last {
			nth, last = 0, r.slice
		}
		if o.spill.whole == nil || !r.sl.inMemory(run) {
			from := len(w.values)
			w.values = append(w.values, r.value()...)
			nth = w.rounds[r.slice].add(nth, cut{w.ids[len(w.ids)-1], from, len(w.values)})
		}
		if err := w.heap.advance(sp, group); err != nil {
			return err
		}
	}
	return nil
}

// add puts c into the first round from n on that has no entry of its group yet, and returns the next.
func (r *rounds) add(n int, c cut) int {
	for ; n < len(*r); n++ {
		if l := (*r)[n]; len(l) == 0 || l[len(l)-1].rec != c.rec {
			break
		}
	}
	if n == len(*r) {
		*r = append(*r, nil)
	}
	(*r)[n] = append((*r)[n], c)
	return n + 1
}

// mergeBlock puts the entries of the groups at hand together, with what there is in memory, slice by
// slice.
func (o *Agg) mergeBlock(list []*slice) error {
	w := &o.sweeper
	next := 0
	w.found = sized(w.found, len(w.ids))
	for i := range list {
		from := next
		for next < len(w.sources) && w.sources[next].slice == i {
			next++
		}
		if o.spill.whole == nil {
			// A group in memory is newer than its entry.
			for _, s := range w.sources[from:next] {
				s.st.T.FindFrom(w.block.T, w.ids, w.found)
			}
		}
		for n, cuts := range w.rounds[i] {
			if err := o.mergeCuts(cuts, len(list) == 1 && n == 0, o.spill.whole == nil && next > from); err != nil {
				return err
			}
		}
		for k, s := range w.sources[from:next] {
			found := w.distinct.found(w, from+k)
			s.st.T.FindFrom(w.block.T, w.ids, found)
			o.mergeFound(s.st, found)
		}
	}
	return nil
}

// mergeCuts merges entries of different groups; alone says that the groups have nothing yet. With
// found those that are in memory are left out.
func (o *Agg) mergeCuts(cuts []cut, alone, found bool) error {
	w := &o.sweeper
	codec := groupCodec{set: o.set, st: w.part}
	if alone {
		codec.st = w.block
	}
	w.dst, w.src = w.dst[:0], w.src[:0]
	at := 0
	for _, c := range cuts {
		if found {
			for w.ids[at] != c.rec {
				at++
			}
			if w.found[at] != 0 {
				continue
			}
		}
		rec := c.rec
		if !alone {
			rec = w.part.R.Alloc()
			o.set.Clear(w.part, rec, w.init)
			w.dst, w.src = append(w.dst, c.rec), append(w.src, rec)
		}
		if err := codec.LoadValue(rec, w.values[c.from:c.to]); err != nil {
			return err
		}
	}
	if len(w.dst) > 0 {
		o.mergeGroups(w.part, w.dst, w.src)
		w.part.Reset()
	}
	return nil
}

// mergeGroups merges the groups src of st into the groups dst at hand.
func (o *Agg) mergeGroups(st *agg.Store, dst, src []uint32) {
	if o.sweeper.distinct.union != nil {
		o.set.MergeOwn(o.sweeper.block, st, dst, src)
		return
	}
	o.set.Merge(o.sweeper.block, st, dst, src)
}

// mergeFound merges the records found of st into the groups at hand, and marks them.
func (o *Agg) mergeFound(st *agg.Store, found []uint32) {
	w := &o.sweeper
	w.dst, w.src = w.dst[:0], w.src[:0]
	for k, rec := range found[:len(w.ids)] {
		if rec != 0 {
			st.R.Chunks[rec>>state.ChunkBits][rec&state.ChunkMask] |= state.FlagMark
			w.dst, w.src = append(w.dst, w.ids[k]), append(w.src, rec)
		}
	}
	if len(w.dst) > 0 {
		o.mergeGroups(st, w.dst, w.src)
	}
}

// sweepMemory emits the groups that are in memory only, and takes the marks away. alone says that
// there is one slice.
func (o *Agg) sweepMemory(alone bool, emit func(st *agg.Store, ids []uint32) error) error {
	w := &o.sweeper
	var ids [block]uint32
	for i, s := range w.sources {
		later := w.sources[i+1:]
		if err := eachBlock(s.st, &ids, func(ids []uint32) error {
			n := 0
			for _, rec := range ids {
				p := &s.st.R.Chunks[rec>>state.ChunkBits][rec&state.ChunkMask]
				if *p&state.FlagMark != 0 {
					*p &^= state.FlagMark
					continue
				}
				ids[n] = rec
				n++
			}
			ids = ids[:n]
			switch {
			case n == 0:
				return nil
			case alone && len(later) == 0:
				return emit(s.st, ids)
			}
			w.ids = sized(w.ids, n)
			w.found = sized(w.found, n)
			w.distinct.groups(w, n)
			w.block.T.UpsertFrom(s.st.T, ids, w.ids)
			copy(w.distinct.found(w, i), ids)
			o.mergeGroups(s.st, w.ids, ids)
			for k, l := range later {
				found := w.distinct.found(w, i+1+k)
				l.st.T.FindFrom(w.block.T, w.ids, found)
				o.mergeFound(l.st, found)
			}
			if err := w.distinct.unite(w, nil, 0); err != nil {
				return err
			}
			err := emit(w.block, w.ids)
			w.block.Reset()
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
