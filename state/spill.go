package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// Spill lets the tables of one operator in one subtask be larger than memory: records that the store
// has, unchanged, are evicted when the job's Budget is exceeded, and come back when their key is
// looked for.
//
// The operator takes its memory from Budget.NewMemory and opts in for a table when he makes it:
//
//	k.Spill(t, spill)                  // k is the Keeper; nothing happens where spill is nil
//	k.Restore(t, saved)                // in Restore, instead of k.Load for each entry
//	ids = t.Sweep(&cursor, ids)        // instead of t.Scan, where all records matter
//	entries = t.Len() + t.Cold()
//
// and his Codec has DropValue. He promises that nothing holds addresses of the table's records between
// two batches: no heap, list or other table. There, and only there, records are evicted and moved;
// one that comes back is as one that was restored: FlagMark and FlagNew are clear. Upsert, UpsertFrom
// and Find give an evicted record as if it had never left.
//
// The job calls
//
//   - Between, between two batches, and now and then in a subtask that is idle;
//   - Freeze of the operator, besides checkpoints, where NeedsFreeze says so, since changed records
//     cannot leave; a second one while the first is Pending should wait;
//   - Frozen after each Freeze, and Applied with what that returned once the store has the changes.
//
// What fails when the store is read ends in a panic with a *ColdError, as looking up cannot fail
// otherwise: the job stops with that error. All calls come from the subtask's goroutine, but for
// Applied.
type Spill struct {
	budget *Budget
	cold   Cold
	op     uint16
	lo, hi int
	stored bool
	tables []*spilled
	// epoch is that of the freeze to come; begun says that some table was frozen in it. Records
	// remember the last bits of the epoch they were frozen in.
	epoch   uint64
	begun   bool
	applied atomic.Uint64
	stuck   bool   // the last Between found too little that may go
	full    bool   // an index is made anew, and as much of it waits to be frozen as may
	done    uint64 // what was applied when the last Between began
	others  []Spiller
}

// Spiller is state that spills and is no Table: it does itself what Spill does for tables.
type Spiller interface {
	// Between is called by Spill.Between, whether memory is short or not.
	Between()
	// NeedsFreeze is asked by Spill.NeedsFreeze, where there is a budget.
	NeedsFreeze() bool
}

// Attach adds a Spiller; nothing happens where s is nil.
func (s *Spill) Attach(p Spiller) {
	if s != nil {
		s.others = append(s.others, p)
	}
}

// Detach takes a Spiller out that Attach added.
func (s *Spill) Detach(p Spiller) {
	if s != nil {
		s.others = slices.DeleteFunc(s.others, func(o Spiller) bool { return o == p })
	}
}

// SpillOptions say whose tables they are.
type SpillOptions struct {
	// Operator is the prefix of the operator's entries in the store, Lo and Hi the key groups, from
	// Lo up to but not including Hi, of the subtask.
	Operator uint16
	Lo, Hi   int
	// Stored says that the store already has all that the operator is going to be restored from, so
	// that Keeper.Restore need not read it.
	Stored bool
}

// NewSpill returns what the tables of an operator spill to. budget may be nil: then nothing is
// evicted, but the state of a Stored operator stays where it is until it is looked for. A cold with a
// method CountIn(*Budget) is told the budget, to count its own memory in it, once.
func NewSpill(budget *Budget, cold Cold, o SpillOptions) *Spill {
	s := &Spill{budget: budget, cold: cold, op: o.Operator, lo: o.Lo, hi: o.Hi, stored: o.Stored, epoch: epochs}
	s.applied.Store(epochs - 1)
	if c, ok := cold.(interface{ CountIn(b *Budget) }); ok && budget != nil {
		c.CountIn(budget)
	}
	return s
}

// epochs is how many epochs the bits of a record tell apart.
const epochs = 4

// ColdError says that the store below a table could not be read.
type ColdError struct{ Err error }

func (e *ColdError) Error() string { return "state that was moved to disk: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ColdError) Unwrap() error { return e.Err }

// Dropper is a Codec of records that may be evicted.
type Dropper interface {
	Codec
	// DropValue frees what a record that is about to be evicted keeps outside of itself.
	DropValue(rec uint32)
}

// Frozen says that the operator was frozen and returns the number of that freeze for Applied.
func (s *Spill) Frozen() uint64 {
	n := s.epoch
	s.epoch++
	s.begun = false
	return n
}

// Applied says that the store has the changes of all freezes up to number n.
func (s *Spill) Applied(n uint64) { s.applied.Store(n) }

// frozen is the latest epoch that a record with the bits p may be frozen in.
func (s *Spill) frozen(p uint64) uint64 {
	last := s.epoch - 1
	if s.begun {
		last = s.epoch
	}
	return last - (last-p)%epochs
}

// Pinner is a Dropper of records that may have to stay in memory: those for which Pinned is true.
type Pinner interface {
	Dropper
	Pinned(rec uint32) bool
}

// Fixer is a Dropper of records whose addresses somebody holds, where Fixed is true: they leave, but
// they are not moved.
type Fixer interface {
	Dropper
	Fixed() bool
}

// Weigher is a Dropper of records that keep much outside of themselves, which DropValue gives back:
// the bytes held for that, and how many of these are free.
type Weigher interface {
	Dropper
	Weight() (held, free int64)
}

// Member is a Dropper of the records of a table of TrackOwned, which leave memory one by one and come
// back one by one. Cold reports whether the store may have records of the group that a record belongs
// to. Where it says no, nothing is looked for; it has to say yes for a group of which a record has
// been dropped, or that has come back itself.
type Member interface {
	Dropper
	Cold(rec uint32) bool
}

// spilled is what a table that may spill knows about its evicted records.
type spilled struct {
	s      *Spill
	t      *Table
	k      Keeper
	drop   func(rec uint32)
	pinned func(rec uint32) bool     // nil: none
	weight func() (held, free int64) // nil: nothing
	member func(rec uint32) bool     // Member.Cold; nil: the table is none of TrackOwned
	fixed  bool
	kids   []*spilled // of the tables whose records belong to those of this one
	filter filter
	// cold says that the store may have records that the table has not; unknown that the filter does
	// not know all of them yet, which it learns from learn on; without that there is no filter.
	cold, unknown, filterless bool
	learnt                    SweepCursor
	evicted                   int // records evicted, less those that came back
	hand                      uint32
	dead                      []*graves // of frozen epochs that the store does not have yet
	grave                     *graves   // nil: none yet
	held                      int64     // what the budget counts as spillable of this table
	free                      int64     // and as reusable
	live                      int64     // of what records keep outside of themselves
	grows                     int64     // about how many bytes of live a batch adds

	fresh  []uint32 // records added since the last resolve
	guess  []uint32 // records that find added
	misses []int32
	sums   []uint64 // what the filter knows fresh by
	may    []uint64
	list   []wanted
	keys   [][]byte
	flat   []byte
	swept  []uint32 // records that the last Sweep read from the store
	tried  uint64   // what was applied when evict last found too few records, 0 if it did not
}

// Bits of the first word of records that may spill; see records.go for the others.
const (
	flagUsed   = 1 << 61 // frozen since the hand came by
	epochShift = 62
	epochMask  = 3 << epochShift
)

// Spill lets t, which is empty, spill to s, and tracks its changes if it does not yet; see Spill for
// what that asks of the owner. Nothing happens where s is nil. The Codec must be a Dropper. A table
// that was emptied may be told another Prefix by another call.
func (k *Keeper) Spill(t *Table, s *Spill) {
	if s == nil {
		return
	}
	if t.track == nil {
		t.Track()
	}
	if t.layout.lead || t.track.owner != nil {
		panic("BUG: a table of entries of groups spills by itself")
	}
	k.spill(t, s)
}

// SpillMembers is Spill for a table of TrackOwned, whose records belong to those of the table groups,
// which spills too and whose records are fixed. The Codec must be a Member.
func (k *Keeper) SpillMembers(t *Table, s *Spill, groups *Table) {
	if s == nil {
		return
	}
	m, ok := k.Codec.(Member)
	if !ok || t.track == nil || t.track.owner == nil || groups.spill == nil || !groups.spill.fixed {
		panic(fmt.Sprintf("BUG: a table with the codec %T spills, whose records do not belong to fixed ones", k.Codec))
	}
	k.spill(t, s)
	t.spill.member = m.Cold
	groups.spill.kids = append(groups.spill.kids, t.spill)
}

func (k *Keeper) spill(t *Table, s *Spill) {
	d, ok := k.Codec.(Dropper)
	switch {
	case !ok:
		panic(fmt.Sprintf("BUG: a table spills whose codec %T cannot drop values", k.Codec))
	case t.count > 0:
		panic("BUG: a table spills that is not empty")
	}
	if t.spill != nil {
		t.spill.release()
	}
	sp := &spilled{s: s, t: t, k: *k, drop: d.DropValue, filter: filter{mem: t.mem}}
	sp.k.Prefix = bytes.Clone(k.Prefix)
	if p, ok := d.(Pinner); ok {
		sp.pinned = p.Pinned
	}
	if w, ok := d.(Weigher); ok {
		sp.weight = w.Weight
	}
	if f, ok := d.(Fixer); ok {
		sp.fixed = f.Fixed()
	}
	t.spill = sp
	s.tables = append(s.tables, sp)
}

// Stored reports whether the store already has what the operator is restored from, so that a table
// which spills need not read it (Keeper.Restore). It is false where s is nil.
func (s *Spill) Stored() bool { return s != nil && s.stored }

// EachEntry calls f with the entries of a state in the store, as it is now, whose keys begin with
// prefix, in the key group of hash; for owners of groups that come back with all that belongs to
// them. key is without prefix, and valid during the call, as is value. f ends it by returning Enough.
func (s *Spill) EachEntry(st int, maxParallelism int, hash uint32, prefix []byte, f func(key, value []byte) error) {
	lo := append(AppendStoreKey(nil, s.op, st, KeyGroup(hash, maxParallelism)), prefix...)
	if err := s.cold.Range(lo, Successor(lo), func(key, value []byte) error {
		err := f(key[len(lo):], value)
		if err != nil && err != Enough {
			err = fmt.Errorf("entry %x: %w", key[StoreHead:], err)
		}
		return err
	}); err != nil && err != Enough {
		panic(&ColdError{err})
	}
}

// Restore loads the entries of t from saved, those whose keys begin with the Prefix; or leaves them in
// the store, where t spills to one that has them already.
func (k *Keeper) Restore(t *Table, saved Saved) error {
	if err := t.restoring(k); err != nil {
		return err
	}
	if sp := t.spill; sp != nil && sp.s.stored {
		sp.cold, sp.unknown, sp.learnt = true, true, SweepCursor{group: sp.s.lo}
		return nil
	}
	return saved.Scan(k.State, func(_ int, key, value []byte) error {
		if key, ok := bytes.CutPrefix(key, k.Prefix); ok {
			return k.Load(t, key, value)
		}
		return nil
	})
}

// Cold is about how many records of t are in the store only; those that were there when a Stored
// operator was restored are not counted.
func (t *Table) Cold() int {
	if t.spill == nil {
		return 0
	}
	return max(t.spill.evicted, 0)
}

// Removed says that about n records of t that were in the store only were removed there, other than by
// Delete.
func (t *Table) Removed(n int) {
	if t.spill != nil {
		t.spill.evicted -= n
	}
}

// added notes a new record, which the store may have.
func (sp *spilled) added(rec uint32) {
	if sp.cold {
		sp.fresh = append(sp.fresh, rec)
	}
}

// forget takes back what added noted of records that are loaded otherwise.
func (sp *spilled) forget() { sp.fresh = sp.fresh[:0] }

// wanted is a record whose key is looked for in the store: at flat[from:to].
type wanted struct{ rec, from, to uint32 }

// sum is what the filter knows a record by, whose key lies at key where the table is one of members.
func (sp *spilled) sum(rec uint32, key []byte) uint64 {
	if sp.member != nil {
		return mixKey(xxh3.Hash(key))
	}
	l := sp.t.layout
	return filterKey(sp.t.At(rec)[:l.words], l.str)
}

// candidates returns those of fresh that the filter may have.
func (sp *spilled) candidates(fresh []uint32) []uint32 {
	if sp.unknown || sp.member != nil {
		return fresh
	}
	sums := sp.sums[:0]
	for _, rec := range fresh {
		sums = append(sums, sp.sum(rec, nil))
	}
	sp.may = grown(sp.may, len(sums))
	sp.filter.mark(sums, sp.may)
	n := 0
	for k, rec := range fresh {
		if sp.may[k] != 0 {
			fresh[n] = rec
			n++
		}
	}
	sp.sums = sums
	return fresh[:n]
}

func grown(s []uint64, n int) []uint64 {
	if cap(s) < n {
		return make([]uint64, n, n+n/2)
	}
	return s[:n]
}

// resolve fills those records added last that the store has.
func (sp *spilled) resolve() {
	t := sp.t
	sp.list, sp.flat = sp.list[:0], sp.flat[:0]
	for _, rec := range sp.candidates(sp.fresh) {
		if sp.member != nil && !sp.member(rec) {
			continue
		}
		at := len(sp.flat)
		sp.flat = append(AppendStoreKey(sp.flat, sp.s.op, sp.k.State, 0), sp.k.Prefix...)
		head := len(sp.flat)
		var hash uint32
		sp.flat, hash = t.SavedKey(sp.flat, rec)
		binary.BigEndian.PutUint16(sp.flat[at+StoreHead-2:], uint16(KeyGroup(hash, sp.k.MaxParallelism)))
		key := sp.flat[head:]
		if sp.member != nil && !sp.unknown && !sp.filter.has(sp.sum(rec, key)) || sp.buried(key) {
			sp.flat = sp.flat[:at]
			continue
		}
		sp.list = append(sp.list, wanted{rec, uint32(at), uint32(len(sp.flat))})
	}
	sp.fresh = sp.fresh[:0]
	if len(sp.list) == 0 {
		return
	}
	flat, list, keys := sp.flat, sp.list, sp.keys[:0]
	slices.SortFunc(list, func(a, b wanted) int { return bytes.Compare(flat[a.from:a.to], flat[b.from:b.to]) })
	for _, w := range list {
		keys = append(keys, flat[w.from:w.to])
	}
	sp.keys = keys
	if err := sp.s.cold.Lookup(keys, func(i int, value []byte) error {
		sp.evicted--
		return sp.load(list[i].rec, keys[i], value)
	}); err != nil {
		panic(&ColdError{err})
	}
}

// load fills a record from its entry in the store.
func (sp *spilled) load(rec uint32, key, value []byte) error {
	if err := sp.k.Codec.LoadValue(rec, value); err != nil {
		return fmt.Errorf("entry %x: %w", key[StoreHead:], err)
	}
	sp.loaded(rec)
	return nil
}

// loaded marks a record that was read from the store.
func (sp *spilled) loaded(rec uint32) {
	sp.t.Saved(rec)
	p := &sp.t.Chunks[rec>>ChunkBits][rec&ChunkMask]
	*p = *p&^epochMask | sp.s.applied.Load()<<epochShift // which the hand may not know yet: it waits for the next
}

// find looks in the store for the keys of e that the table does not have.
func (sp *spilled) find(e *Encoder, sub []int32, recs []uint32) {
	t, stride := sp.t, e.Layout.words
	sp.misses = sp.misses[:0]
	for k, rec := range recs {
		if rec != 0 {
			continue
		}
		j := k
		if sub != nil {
			j = int(sub[k])
		}
		w := e.words[j*stride : (j+1)*stride]
		if sp.unknown || sp.filter.has(filterKey(w, e.str)) {
			recs[k] = t.lookup(w, e, true)
			sp.misses = append(sp.misses, int32(k))
		}
	}
	if len(sp.misses) == 0 {
		return
	}
	sp.guess = append(sp.guess[:0], sp.fresh...)
	sp.resolve()
	for _, k := range sp.misses {
		if t.At(recs[k])[0]&flagSaved == 0 {
			recs[k] = 0
		}
	}
	for _, rec := range sp.guess {
		if t.At(rec)[0]&flagSaved == 0 {
			t.remove(rec)
		}
	}
}

// buried reports whether a key was deleted, which the store may not know yet.
func (sp *spilled) buried(key []byte) bool {
	if sp.grave == nil && len(sp.dead) == 0 {
		return false
	}
	sum := graveSum(key)
	if sp.grave != nil && sp.grave.has(sum, key) {
		return true
	}
	for _, g := range sp.dead {
		if g.has(sum, key) {
			return true
		}
	}
	return false
}

// froze is told that the changes of the table were taken.
func (sp *spilled) froze() (flags uint64) {
	sp.s.begun = true
	if g := sp.grave; g != nil {
		g.epoch = sp.s.epoch
		sp.dead = append(sp.dead, g)
		sp.grave = nil
	}
	return flagUsed | sp.s.epoch<<epochShift
}

// settle forgets deleted keys that the store has forgotten too.
func (sp *spilled) settle() {
	if len(sp.dead) == 0 {
		return
	}
	done := sp.s.done
	sp.dead = slices.DeleteFunc(sp.dead, func(g *graves) bool { return g.epoch <= done })
}

// reset is told that the table was emptied and that the saved state is, too.
func (sp *spilled) reset() {
	sp.filter.reset()
	sp.cold, sp.unknown, sp.filterless, sp.evicted, sp.hand = false, false, false, 0, 0
	sp.learnt = SweepCursor{}
	sp.grave, sp.dead, sp.fresh, sp.swept = nil, nil, sp.fresh[:0], sp.swept[:0]
}

// bury notes a deleted key, which lies at gone[at:] in the form of Table.bury.
func (sp *spilled) bury(gone []byte, at int) {
	if sp.grave == nil {
		sp.grave = &graves{}
	}
	sp.grave.buf = gone
	sp.grave.add(at)
}

// release gives back what the table's spilling takes.
func (sp *spilled) release() {
	sp.filter.reset()
	if b := sp.s.budget; b != nil {
		b.spillable.Add(-sp.held)
		b.reusable.Add(-sp.free)
	}
	sp.held, sp.free = 0, 0
	sp.s.tables = slices.DeleteFunc(sp.s.tables, func(o *spilled) bool { return o == sp })
}
