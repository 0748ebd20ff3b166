package window

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/state"
)

// Slices that are larger than memory go to disk, in one of two ways.
//
// Where parts of a group can be merged in any order, whole stores go: a store that is in the way is
// sealed, an empty one takes over, and when what the sealed one holds has been saved it is dropped.
// Rows of its keys begin a new accumulator; nothing is read until the slice fires, which merges the
// parts of each key (sweep.go). Entries of the parts differ in the number of their run, which follows
// the key: one range of the store has all parts of a key side by side.
//
//	prefix of the slice | key | run (4 bytes, big endian; none for run 0)
//
// Of distinct values, a part has those of its rows, with the run behind their keys too; the parts are
// united when the slice fires (sweep_values.go). So values that come again cost no reading either, and a
// window without keys may have more values than there is memory.
//
// Where a result depends on the order of rows (floating-point sums, lists), single groups go, and
// come back when their key is looked for: state.Spill does that, and agg.Store.Spill for their distinct
// values. Their run is always 0. Of a cumulate those of the running aggregate go too.
//
// What stays in memory are groups of hops and cumulates that have both, as the values of a slice are merged
// into others in the order in which they came.

// spilling is how the slices of an Agg leave memory.
type spilling struct {
	// whole is what whole stores go to, keyed single groups; one of them is nil, both where nothing
	// leaves memory.
	whole, keyed *state.Spill
	runs         uint32 // the last number of a run that was given
	running      bool   // the running aggregate of a cumulate is told where its groups go
	batch        int64  // counts calls of Process
	held         int64  // what the budget knows of
	list         []*slice
}

// sealedRun is a store of a slice that gets no more rows.
type sealedRun struct {
	st  *agg.Store
	run uint32
	// epoch is the freeze that took the last changes: 0 none did yet, never it is not to be dropped.
	epoch uint64
}

const keepRun = math.MaxUint64

// runBytes is the length of the number of a run in a key.
const runBytes = 4

// openSpill finds out how slices leave memory.
func (o *Agg) openSpill(sp *state.Spill) {
	if sp == nil || o.save == nil || len(o.n.Keys) == 0 && !o.set.HasValues() {
		return
	}
	switch {
	case o.set.Splits():
		o.spill.whole = sp
		sp.Attach(o)
	case o.set.HasValues() && o.fire != nil:
	default:
		o.spill.keyed = sp
	}
	o.sliceList.keyed = o.spill.keyed
}

// spillsTo is what has the groups of all slices already, or nil.
func (o *Agg) spillsTo() *state.Spill {
	sp := cmp.Or(o.spill.whole, o.spill.keyed)
	if sp == nil {
		return nil
	}
	if !sp.Stored() {
		return nil
	}
	return sp
}

// spillTo lets the groups of a new slice spill one by one.
func (s *sliceList) spillTo(sl *slice) {
	if s.keyed != nil {
		s.spillAs(sl.st, 0, s.prefixOf(sl))
	}
}

// spillAs lets the groups of an empty store spill one by one, to state number at.
func (s *sliceList) spillAs(st *agg.Store, at int, prefix []byte) {
	k := s.save.k
	k.State, k.Prefix = at, prefix
	c := groupCodec{set: s.set, st: st}
	if !s.set.HasValues() {
		k.Codec = &c
		k.Spill(st.T, s.keyed)
		return
	}
	k.Prefix, k.Codec = bytes.Clone(prefix), &valuesCodec{groupCodec: c, Store: st}
	st.Spill(&k, s.keyed)
}

// valuesCodec is the codec of groups that spill with their distinct values. The store pins groups, and
// weighs what they keep outside of themselves.
type valuesCodec struct {
	groupCodec
	*agg.Store
}

// DropValue implements state.Dropper.
func (c *valuesCodec) DropValue(rec uint32) { c.Leave(rec) }

// LoadValue implements state.Codec.
func (c *valuesCodec) LoadValue(rec uint32, b []byte) error {
	c.Came(rec)
	return c.groupCodec.LoadValue(rec, b)
}

// runTo lets the groups of the running aggregate of a cumulate spill one by one, as that of the windows that
// begin at start.
func (o *Agg) runTo(start int64) {
	if o.spill.keyed != nil && (o.runStart != start || !o.spill.running) && o.run.R.Len() == 0 && !o.run.T.Spilled() {
		o.spillAs(o.run, o.runState(), appendTime(nil, start))
		o.spill.running = true
	}
	o.runStart = start
}

// DropValue implements state.Dropper.
func (c *groupCodec) DropValue(rec uint32) {
	c.one[0] = rec
	c.st.Drop(c.one[:])
}

// spilled reports whether a slice is more than its store.
func (sl *slice) spilled() bool { return sl.cold || len(sl.sealed) > 0 || sl.st.T.Spilled() }

// inMemory reports whether the entries of a run are those of a store in memory.
func (sl *slice) inMemory(run uint32) bool {
	if run == sl.run {
		return true
	}
	for _, r := range sl.sealed {
		if r.run == run {
			return true
		}
	}
	return false
}

// storeBytes is what a store takes in memory.
func storeBytes(st *agg.Store) int64 {
	groups, _ := st.T.Weight()
	long, _ := st.Blob.Weight()
	values, _ := st.ValueWeight()
	return groups + long + values
}

// Between implements state.Spiller: it drops what is in the store and, where memory is short, seals
// what may go.
func (o *Agg) Between() {
	x := &o.spill
	if o.sealed > 0 {
		o.settle()
	}
	if !x.whole.Full() {
		return
	}
	held, pending := o.heldBytes()
	x.whole.Hold(x.held, held)
	x.held = held
	need := x.whole.Excess(held) - pending
	if need <= 0 {
		return
	}
	need -= o.giveUpRun()
	x.list = append(x.list[:0], o.list...)
	// Those without recent rows go first, then those that are wanted last.
	slices.SortStableFunc(x.list, func(a, b *slice) int {
		return cmp.Or(cmp.Compare(min(a.used, x.batch-2), min(b.used, x.batch-2)), cmp.Compare(b.end, a.end))
	})
	for _, sl := range x.list {
		if need <= 0 {
			break
		}
		if sl.st.R.Len() > 0 {
			need -= storeBytes(sl.st)
			o.seal(sl)
		}
	}
	clear(x.list)
}

// heldBytes is what the stores take that may go, and of that what the sealed ones do.
func (o *Agg) heldBytes() (held, pending int64) {
	for _, sl := range o.list {
		held += storeBytes(sl.st)
		for _, r := range sl.sealed {
			pending += storeBytes(r.st)
		}
	}
	if o.run != nil {
		held += storeBytes(o.run)
	}
	return held + pending, pending
}

// seal closes the store of a slice, and an empty one takes over.
func (o *Agg) seal(sl *slice) {
	x := &o.spill
	r := &sealedRun{st: sl.st, run: sl.run}
	if sl.st.T.Dirty() == 0 {
		r.epoch = x.whole.Epoch() - 1
	}
	sl.sealed = append(sl.sealed, r)
	o.sealed++
	x.runs++
	sl.run = x.runs
	sl.st = o.store()
}

// settle drops sealed stores that are on disk.
func (o *Agg) settle() {
	x := &o.spill
	for _, sl := range o.list {
		kept := sl.sealed[:0]
		for _, r := range sl.sealed {
			if r.epoch == 0 || r.epoch == keepRun || !x.whole.Has(r.epoch) {
				kept = append(kept, r)
				continue
			}
			sl.cold = true
			sl.coldLen += r.st.R.Len()
			o.sealed--
			r.st.Release()
		}
		clear(sl.sealed[len(kept):])
		sl.sealed = kept
	}
}

// giveUpRun lets the running aggregate go, and returns how many bytes that are. That of a hop is made
// again from the slices; that of a cumulate becomes a slice.
func (o *Agg) giveUpRun() int64 {
	if o.run == nil || o.run.R.Len() == 0 {
		return 0
	}
	n := storeBytes(o.run)
	if !o.runSaves() {
		o.stopSliding()
		return n
	}
	sl := &slice{start: o.runStart, end: o.runStart + o.step, after: math.MinInt64, ran: true, shut: true, st: o.run}
	sl.first, sl.last = o.limits(sl.end)
	o.run = o.runSet.NewStore(o.mem, o.l, o.extra)
	o.run.Track()
	at, _ := slices.BinarySearchFunc(o.list, sl, func(a, b *slice) int {
		if before(a, b.start, b.end) {
			return -1
		}
		return 1
	})
	o.list = slices.Insert(o.list, at, sl)
	sl.saved.join(&o.runSaved)
	o.seal(sl)
	return n
}

// stopSliding empties the running aggregate of a hop: the next window that fires from it takes all
// slices in again.
func (o *Agg) stopSliding() {
	if o.run.R.Len() == 0 {
		return
	}
	for _, sl := range o.list {
		sl.merged = false
	}
	o.run.Release()
	o.run = o.runSet.NewStore(o.mem, o.l, o.extra)
	o.set.Bind(o.l.Words() + o.extra)
}

// freezeSlice writes the changes of a slice.
func (o *Agg) freezeSlice(d *state.Delta, sl *slice) {
	at, prefix := 0, o.prefixOf(sl)
	if sl.ran {
		at, prefix = o.runState(), appendTime(o.prefix[:0], sl.start)
	}
	for _, r := range sl.sealed {
		if r.epoch == 0 {
			o.save.freezeRun(d, at, prefix, r.st, r.run, &sl.saved)
			r.epoch = o.spill.whole.Epoch()
		}
	}
	if !sl.ran { // those are as they were saved until they are merged
		o.save.freezeRun(d, at, prefix, sl.st, sl.run, &sl.saved)
	}
}

// freezeRun is freeze of a run of a slice.
func (s *saver) freezeRun(d *state.Delta, at int, prefix []byte, st *agg.Store, run uint32, e *entries) {
	if run == 0 {
		s.freeze(d, at, prefix, st, nil, e)
		return
	}
	s.group.st = st
	var key []byte
	st.T.Changes(func(rec uint32) {
		var hash uint32
		key, hash = st.T.SavedKey(append(key[:0], prefix...), rec)
		key = binary.BigEndian.AppendUint32(key, run)
		group := state.KeyGroup(hash, s.k.MaxParallelism)
		s.ctx.CheckGroup(group)
		e.note(group)
		buf := append(d.BeginPut(at, group), key...)
		end := len(buf)
		d.EndPut(s.group.AppendValue(buf, rec), end)
	}, func(uint32, []byte) { panic("BUG: a group of a slice was deleted") })
	if s.sets > 0 {
		k := s.k
		k.State, k.Prefix, s.cur = at+1, prefix, e
		st.FreezeValuesPart(&k, d, binary.BigEndian.AppendUint32(nil, run))
	}
}

// dirtySealed is about how many bytes of sealed stores are to be written.
func (o *Agg) dirtySealed() int {
	if o.sealed == 0 {
		return 0
	}
	n := 0
	for _, sl := range o.list {
		for _, r := range sl.sealed {
			n += r.st.DirtyBytes(o.save.groupBytes)
		}
	}
	return n
}

// NeedsFreeze implements state.Spiller: sealed stores wait to be written, or there is so much to be
// written that it should not be at once.
func (o *Agg) NeedsFreeze() bool {
	x := &o.spill
	if o.sealed > 0 && !x.whole.Pending() {
		for _, sl := range o.list {
			for _, r := range sl.sealed {
				if r.epoch == 0 {
					return true
				}
			}
		}
	}
	return x.held > 0 && x.whole.Much(int64(o.Dirty()), x.held)
}

// runOf cuts the number of the run off what follows the key of a saved entry.
func runOf(rest []byte) (uint32, error) {
	switch len(rest) {
	case 0:
		return 0, nil
	case runBytes:
		if run := binary.BigEndian.Uint32(rest); run > 0 {
			return run, nil
		}
	}
	return 0, errEntry
}

var _ state.Spiller = (*Agg)(nil)
