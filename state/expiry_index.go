package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// IndexState is added to the number of a state for that of the index of its entries by their time of last
// use. It lies in the store beside them, in the same key group, and is no state of its own: nothing shows
// it, and what is restored without one gets it made anew.
//
//	index = mark bucket...
//	mark    key 0x00, value the width of the buckets, ms (8 bytes, little endian): every entry of the
//	        key group is in the index
//	bucket  key 0x01, start of the bucket (ms, 8 bytes, big endian, with the sign bit flipped), key of the entry
//
// An entry is put into the bucket of its time when it is saved, unless it is there already, and is not
// taken out of the ones before: what a bucket names was used then or later, or is gone. So a row that
// is used all the time costs one small entry a bucket, whatever number of saves there are.
const IndexState = 0x80

const (
	indexMark  = 0x00
	indexEntry = 0x01
	// indexHead is the length of what stands before the key of an entry.
	indexHead = 1 + 8
	// wipeKeys is up to how many entries of a bucket are removed one by one: stores cope better with many
	// single keys than with many ranges.
	wipeKeys = 64
)

// maxPending is how many bytes of the index may wait for the next freeze while it is made anew. Tests lower it.
var maxPending = 1 << 20

// Reindex has the index of a state in a key group made anew by the operator that is restored next: to be
// called by whoever changes entries other than an operator does.
func Reindex(d *Delta, state, group int) { d.Delete(state|IndexState, group, []byte{indexMark}) }

// index is what an Expiry knows of the index of its table's entries.
type index struct {
	e     *Expiry
	width int64
	// mark is the word of a record that says in which bucket it is indexed, 0 for none; 0 where the table
	// is not saved, and has no index.
	mark int
	// complete says that all entries of the store are in the index; marked of which key groups, from lo
	// of the Spill on, the store knows that.
	complete bool
	marked   []bool
	at       SweepCursor // while it is made anew
	// gone and puts are for the next freeze.
	gone, puts Delta

	// The pass at hand reads the buckets from from up to but not including to.
	from, to uint64
	skip     bool   // not at all
	gate     uint64 // the freeze that has to be in the store before
	group    int
	after    []byte // the key in group that was read last
	flat     []byte
	list     [][]byte
	ends     []int
	found    []uint32
	// The bucket being read: how many entries it has, and the keys of the first ones.
	bucketOf uint64
	count    int
	first    []byte
	firstEnd []int
}

var errIndex = errors.New("an entry of the index by time of last use is damaged")

func (x *index) init(e *Expiry, ttlMs int64) {
	x.e, x.width, x.complete = e, max(ttlMs/bucketsPerLife, 1), true
	if t := e.t; t.track != nil {
		x.mark = int(t.stride)
		t.stride++
		t.init0 = append(slices.Clone(t.init0), 0)
	}
}

// bucket is the start of the bucket of a time, as it stands in keys.
func (x *index) bucket(ms int64) uint64 {
	r := ms % x.width
	if r < 0 {
		r += x.width
	}
	return uint64(ms-r) ^ 1<<63
}

// spilled is where the entries are, nil if there is no index.
func (x *index) spilled() *spilled {
	if x.mark == 0 {
		return nil
	}
	return x.e.t.spill
}

// unindexed takes no record in memory for one that is in the index.
func (x *index) unindexed() {
	if x.mark == 0 {
		return
	}
	var c Cursor
	var buf [256]uint32
	for {
		ids := x.e.t.Scan(&c, buf[:])
		if len(ids) == 0 {
			return
		}
		for _, rec := range ids {
			x.e.t.At(rec)[x.mark] = 0
		}
	}
}

// key appends the key in the store of what has the given key in the index.
func (x *index) key(dst []byte, group int, key ...byte) []byte {
	sp := x.spilled()
	return append(AppendStoreKey(dst, sp.s.op, sp.k.State|IndexState, group), key...)
}

// restored looks for the marks of the key groups. Where one is missing, or has another width, the index
// is made anew. One of another width is removed with the first change, as it says nothing about what
// changes from then on.
func (x *index) restored() error {
	sp := x.spilled()
	if sp == nil {
		return nil
	}
	x.marked = make([]bool, sp.s.hi-sp.s.lo)
	var keys [][]byte
	for g := sp.s.lo; g < sp.s.hi; g++ {
		keys = append(keys, x.key(nil, g, indexMark))
	}
	err := sp.s.cold.Lookup(keys, func(i int, value []byte) error {
		if x.marked[i] = len(value) == 8 && int64(binary.LittleEndian.Uint64(value)) == x.width; !x.marked[i] {
			x.unmark(sp.s.lo + i)
		}
		return nil
	})
	x.complete = !slices.Contains(x.marked, false)
	x.at, x.from = SweepCursor{group: sp.s.lo}, 0
	if err != nil {
		return &ColdError{err}
	}
	return nil
}

// Rebuild has the index of what was restored made anew: what was saved has other times now.
func (e *Expiry) Rebuild() {
	x := &e.index
	sp := x.spilled()
	if sp == nil {
		return
	}
	for at, marked := range x.marked {
		if marked {
			x.unmark(sp.s.lo + at)
		}
	}
	x.marked = make([]bool, sp.s.hi-sp.s.lo)
	x.complete, x.at = false, SweepCursor{group: sp.s.lo}
}

// put adds an entry to the index.
func (x *index) put(d *Delta, group int, bucket uint64, key []byte) {
	st := x.spilled().k.State | IndexState
	b := append(d.BeginPut(st, group), indexEntry)
	b = append(binary.BigEndian.AppendUint64(b, bucket), key...)
	d.EndPut(b, len(b))
}

// unmark has the mark of a key group removed, until the index of it has been made anew.
func (x *index) unmark(group int) {
	x.gone.Delete(x.spilled().k.State|IndexState, group, []byte{indexMark})
}

func (x *index) setMark(d *Delta, group int) {
	sp := x.spilled()
	if at := group - sp.s.lo; !x.marked[at] {
		x.marked[at] = true
		d.Put(sp.k.State|IndexState, group, []byte{indexMark}, binary.LittleEndian.AppendUint64(nil, uint64(x.width)))
	}
}

// freeze adds what waits to d.
func (x *index) freeze(d *Delta) {
	if x.spilled() == nil {
		return
	}
	d.join(&x.gone) // before the puts, which may be for the same buckets
	d.join(&x.puts)
	x.spilled().s.full = false
}

// save notes that a record is saved in a key group under key.
func (x *index) save(d *Delta, group int, rec uint32, key []byte) {
	sp := x.spilled()
	if sp == nil {
		return
	}
	bucket := x.bucket(int64(x.e.t.word(rec, x.e.at)))
	p := &x.e.t.At(rec)[x.mark]
	if *p == bucket {
		return
	}
	*p = bucket
	if x.marked == nil {
		x.marked = make([]bool, sp.s.hi-sp.s.lo)
	}
	x.put(d, group, bucket, key)
	if x.complete {
		x.setMark(d, group)
	}
}

// build puts up to n entries of the store into the index of those key groups that have none.
func (x *index) build(n int) {
	sp := x.spilled()
	dated := x.dated()
	hi := sp.s.hi
	for ; x.at.group < hi; x.at.group, x.at.last = x.at.group+1, x.at.last[:0] {
		if x.marked[x.at.group-sp.s.lo] {
			continue
		}
		if x.puts.Size() > maxPending {
			sp.s.full = true // else it would go on at the next checkpoint only
			return
		}
		if n <= 0 {
			return
		}
		lo := AppendStoreKey(nil, sp.s.op, sp.k.State, x.at.group)
		end := Successor(lo)
		if len(x.at.last) > 0 {
			lo = append(append(lo[:0], x.at.last...), 0)
		}
		more := false
		x.ranges(lo, end, func(key, value []byte) error {
			if more = n == 0; more {
				return errEnough
			}
			n--
			if used, ok := dated.LastUse(value); ok {
				x.put(&x.puts, x.at.group, x.bucket(used), key[StoreHead:])
			}
			x.at.last = append(x.at.last[:0], key...)
			return nil
		})
		if more {
			return
		}
		x.setMark(&x.puts, x.at.group) // what was made is not made again after a restart
	}
	x.complete = true
}

func (x *index) dated() Dated {
	d, ok := x.spilled().k.Codec.(Dated)
	if !ok {
		panic("BUG: records expire that spill, and whose codec is not state.Dated")
	}
	return d
}

// ranges is Range of the store; f may end it.
func (x *index) ranges(lo, hi []byte, f func(key, value []byte) error) {
	if err := x.spilled().s.cold.Range(lo, hi, f); err != nil && err != errEnough {
		panic(&ColdError{err})
	}
}

// begin begins a pass.
func (x *index) begin() {
	sp := x.spilled()
	x.skip = sp == nil || !x.complete || x.puts.Len() > 0
	if x.skip {
		return
	}
	// What was frozen may not be in the store yet, and would be taken out unseen.
	x.gate = sp.s.epoch - 1
	x.to = max(x.bucket(x.e.before-x.width+1)+1, x.from)
	x.group, x.after = sp.s.lo, x.after[:0]
}

// expire reads up to n entries of the pass and removes what they name and has expired.
func (x *index) expire(n int) (looked int, end bool) {
	sp := x.spilled()
	if x.skip || x.from == x.to || x.marked == nil {
		return 0, true // there is none
	}
	if !sp.s.Has(x.gate) {
		return 0, false
	}
	sp.sweptOut()
	x.flat, x.ends = x.flat[:0], x.ends[:0]
	for x.group < sp.s.hi && looked < n {
		if !x.marked[x.group-sp.s.lo] {
			x.group++ // no entry of it was ever indexed
			continue
		}
		lo := x.key(nil, x.group, indexEntry)
		hi := binary.BigEndian.AppendUint64(slices.Clone(lo), x.to)
		if len(x.after) > 0 {
			lo = append(append(lo[:0], x.after...), 0)
		} else {
			lo = binary.BigEndian.AppendUint64(lo, x.from)
		}
		more := false
		x.ranges(lo, hi, func(key, _ []byte) error {
			if more = looked == n; more {
				return errEnough
			}
			looked++
			if len(key) < StoreHead+indexHead {
				return errIndex
			}
			x.after = append(x.after[:0], key...)
			x.flat = append(AppendStoreKey(x.flat, sp.s.op, sp.k.State, x.group), key[StoreHead+indexHead:]...)
			x.ends = append(x.ends, len(x.flat))
			x.note(key[StoreHead:])
			return nil
		})
		if more {
			break
		}
		x.wipe()
		x.group, x.after = x.group+1, x.after[:0]
	}
	x.remove()
	if x.group == sp.s.hi {
		x.from = x.to
		return looked, true
	}
	return looked, false
}

// note counts an entry of the index, by the key that it has there.
func (x *index) note(key []byte) {
	bucket := binary.BigEndian.Uint64(key[1:])
	if x.count > 0 && bucket != x.bucketOf {
		x.wipe()
	}
	x.bucketOf = bucket
	if x.count++; x.count <= wipeKeys {
		x.first = append(x.first, key...)
		x.firstEnd = append(x.firstEnd, len(x.first))
	}
}

// wipe has the bucket that was read removed.
func (x *index) wipe() {
	st := x.spilled().k.State | IndexState
	if x.count > wipeKeys {
		x.gone.DeletePrefix(st, x.group, x.first[:indexHead])
	} else {
		from := 0
		for _, end := range x.firstEnd {
			x.gone.Delete(st, x.group, x.first[from:end])
			from = end
		}
	}
	x.count, x.first, x.firstEnd = 0, x.first[:0], x.firstEnd[:0]
}

// remove removes those of the entries just read that have expired, wherever they are.
func (x *index) remove() {
	e, sp := x.e, x.spilled()
	list, from := x.list[:0], 0
	for _, end := range x.ends {
		list = append(list, x.flat[from:end:end])
		from = end
	}
	slices.SortFunc(list, bytes.Compare)
	list = slices.CompactFunc(list, bytes.Equal) // one that several buckets name
	x.list = list
	cold := sp.cold
	if e.bag != nil {
		cold = e.bag.spill.cold
	}
	n := 0
	for _, key := range list {
		rec, err := x.inMemory(key)
		if err != nil {
			panic(&ColdError{err})
		}
		if rec != 0 {
			e.look(rec)
		} else if cold && !sp.buried(key[StoreHead:]) {
			list[n] = key
			n++
		}
	}
	if list = list[:n]; n == 0 {
		return
	}
	dated := x.dated()
	x.found = x.found[:0]
	if err := sp.s.cold.Lookup(list, func(i int, value []byte) error {
		used, ok := dated.LastUse(value)
		if !ok || used > e.before {
			return nil
		}
		if e.bag != nil {
			return e.bag.spill.buryCold(list[i])
		}
		rec, err := sp.sweepIn(list[i], value)
		if err == nil && rec != 0 {
			x.found = append(x.found, rec)
		}
		return err
	}); err != nil {
		panic(&ColdError{err})
	}
	for _, rec := range x.found {
		e.look(rec)
	}
}

// inMemory finds the record of an entry of the store, 0 if there is none.
func (x *index) inMemory(key []byte) (uint32, error) {
	t := x.e.t
	at := StoreHead
	if x.e.bag != nil {
		var err error
		if at, err = x.e.bag.spill.keyEnd(key); err != nil {
			return 0, err
		}
	}
	if t.reader == nil {
		t.reader = newKeyReader(t.layout)
	}
	rest, err := t.reader.read(key[at:], 0)
	if err != nil || len(rest) > 0 {
		return 0, errKey
	}
	return t.lookup(t.reader.w, &t.reader.e, false), nil
}

// restoring looks for the index of what t is going to be restored from. One that an operator without a time
// to live has no use for is removed with the first change, as it says nothing about what changes from
// then on.
func (t *Table) restoring(k *Keeper) error {
	if t.expiry != nil {
		return t.expiry.index.restored()
	}
	if t.spill == nil || len(k.Prefix) > 0 {
		return nil
	}
	s, st := t.spill.s, k.State|IndexState
	err := s.cold.Range(AppendStoreKey(nil, s.op, st, s.lo), AppendStoreKey(nil, s.op, st, s.hi), func(_, _ []byte) error {
		t.unindex = true
		return errEnough
	})
	if err != nil && err != errEnough {
		return &ColdError{err}
	}
	return nil
}

// dropIndex removes the index of a state in all key groups of the subtask.
func (t *Table) dropIndex(k *Keeper, d *Delta) {
	for g := t.spill.s.lo; g < t.spill.s.hi; g++ {
		d.DeletePrefix(k.State|IndexState, g, []byte{indexMark})
		d.DeletePrefix(k.State|IndexState, g, []byte{indexEntry})
	}
	t.unindex = false
}
