package state

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// bagSpill lets the rows of a Bag leave memory. Rows go one by one, but key by key, so that most keys
// are in memory as a whole or not at all; the key of a row that has gone has bagMore, or is not in
// memory itself. Nothing has to fit but what a batch looks at at a time.
//
//	rows are added   those that the filter of rows may have, of keys that have more, are looked up
//	                 one by one
//	keys are found   the rows of those that have more, or that the filter of keys may have, are read
//	                 as ranges of the store: as many as there is room for (fetch), then, key by key, the
//	                 rest, which leaves again (Rest)
//
// A row in memory is newer than its entry; a deleted one is a grave until the store has forgotten it.
type bagSpill struct {
	b    *Bag
	s    *Spill
	sp   *spilled // of Rows: epochs, graves, the filter of rows
	keys filter   // keys of which the store has rows
	// cold says that the store may have rows that the bag has not; for unknown, filterless and learnt
	// see spilled.
	cold, unknown, filterless bool
	learnt                    SweepCursor
	evicted                   int
	hand                      uint32 // in Keys
	tried                     uint64
	stuck                     bool
	held, free                int64
	live, grows               int64 // as in spilled: of long strings

	list   []asked
	flat   []byte
	found  [][]byte
	ranks  []int32
	more   []bool
	guests []uint32
	lo     []byte
	last   []byte
	part   []byte
}

// asked is a row, or a key, that is looked for in the store, under flat[from:to].
type asked struct{ rec, key, from, to uint32 }

// Bits of the first word of a record of Keys, besides flagUsed.
const (
	// bagMore: the store may have rows of the key that are not in memory.
	bagMore = FlagMark
	// bagWanted: the key is in the list of those whose rows are being read.
	bagWanted = 1 << 59
)

// evictions counts the rows of bags that left memory, of all jobs.
var evictions atomic.Int64

// Evictions is how many rows of bags, and of other state in the order of its keys, have left memory
// since the process began.
func Evictions() int64 { return evictions.Load() }

// CountEvicted adds to Evictions what leaves memory of state that is no Bag.
func CountEvicted(n int) { evictions.Add(int64(n)) }

// Spill lets the rows of b, which is empty and tracked, leave memory; nothing happens where s is nil.
// It asks of the owner what Keeper.Spill does, and that rows keep nothing outside of themselves.
// Rows that are found come back linked.
func (b *Bag) Spill(k *Keeper, s *Spill) {
	if s == nil {
		return
	}
	if b.Rows.track == nil || b.Rows.count > 0 {
		panic("BUG: a bag spills that is not empty, or does not note changes")
	}
	sp := &spilled{s: s, t: b.Rows, k: *k, filter: filter{mem: b.Rows.mem}}
	b.Rows.spill = sp
	b.spill = &bagSpill{b: b, s: s, sp: sp, keys: filter{mem: b.Rows.mem}}
	s.Attach(b.spill)
}

// Cold is about how many rows are in the store only; see Table.Cold.
func (b *Bag) Cold() int {
	if b.spill == nil {
		return 0
	}
	return max(b.spill.evicted, 0)
}

func (s *bagSpill) release() {
	s.keys.reset()
	if b := s.s.budget; b != nil {
		b.spillable.Add(-s.held)
		b.reusable.Add(-s.free)
	}
	s.held, s.free = 0, 0
	s.s.Detach(s)
}

func head(t *Table, rec uint32) *uint64 { return &t.Chunks[rec>>ChunkBits][rec&ChunkMask] }

// keySum and rowSum are what the filters know records by.
func (s *bagSpill) keySum(rec uint32) uint64 { return sumOf(s.b.Keys, rec) }
func (s *bagSpill) rowSum(rec uint32) uint64 { return sumOf(s.b.Rows, rec) }

func sumOf(t *Table, rec uint32) uint64 { return filterKey(t.At(rec)[:t.layout.words], t.layout.str) }

// seen marks a key that is used, and decides for one that is new whether it has more.
func (s *bagSpill) seen(key uint32) uint64 {
	p := head(s.b.Keys, key)
	if *p&FlagNew != 0 {
		*p &^= FlagNew
		if s.unknown || s.keys.has(s.keySum(key)) {
			*p |= bagMore
		}
	}
	*p |= flagUsed
	return *p
}

// storeKey appends the store's key of the rows of a key.
func (s *bagSpill) storeKey(dst []byte, key uint32) []byte {
	t := s.b.Keys
	dst = AppendStoreKey(dst, s.s.op, s.sp.k.State, KeyGroup(t.Hash(key), s.sp.k.MaxParallelism))
	return t.AppendKey(dst, key)
}

// resolve fills and links those of the rows just added that the store has.
func (s *bagSpill) resolve(keys, rows []uint32) {
	t := s.b.Rows
	s.list, s.flat, s.guests = s.list[:0], s.flat[:0], s.guests[:0]
	for k, key := range keys {
		if s.seen(key)&bagMore == 0 {
			continue
		}
		rec := rows[k]
		p := head(t, rec)
		if *p&(FlagNew|FlagMark) != FlagNew {
			continue // not new, or dealt with
		}
		*p |= FlagMark
		s.guests = append(s.guests, rec)
		if !s.unknown && !s.sp.filter.has(s.rowSum(rec)) {
			continue
		}
		at := len(s.flat)
		s.flat = t.AppendKey(s.storeKey(s.flat, key), rec)
		if s.sp.buried(s.flat[at+StoreHead:]) {
			s.flat = s.flat[:at]
			continue
		}
		s.list = append(s.list, asked{rec, key, uint32(at), uint32(len(s.flat))})
	}
	for _, rec := range s.guests {
		*head(t, rec) &^= FlagMark
	}
	if len(s.list) == 0 {
		return
	}
	list := s.sorted()
	if err := s.s.cold.Lookup(s.found, func(i int, value []byte) error {
		if err := s.sp.load(list[i].rec, s.found[i], value); err != nil {
			return err
		}
		s.b.Link(list[i].key, list[i].rec)
		s.evicted--
		return nil
	}); err != nil {
		panic(&ColdError{err})
	}
}

// sorted sorts list by the store's keys, which become found.
func (s *bagSpill) sorted() []asked {
	flat, list := s.flat, s.list
	slices.SortFunc(list, func(a, b asked) int { return bytes.Compare(flat[a.from:a.to], flat[b.from:b.to]) })
	s.found = s.found[:0]
	for _, w := range list {
		s.found = append(s.found, flat[w.from:w.to])
	}
	return list
}

// fetch reads the rows of keys that are in the store only, and tells of which there may be more.
func (s *bagSpill) fetch(e *Encoder, sub []int32, recs []uint32) []bool {
	t, stride := s.b.Keys, e.Layout.words
	s.list, s.flat, s.ranks = s.list[:0], s.flat[:0], s.ranks[:0]
	for k, rec := range recs {
		if rec == 0 {
			j := k
			if sub != nil {
				j = int(sub[k])
			}
			w := e.words[j*stride : (j+1)*stride]
			if !s.unknown && !s.keys.has(filterKey(w, e.str)) {
				continue
			}
			rec = t.lookup(w, e, true)
			p := head(t, rec)
			*p = *p&^FlagNew | bagMore
		}
		if s.seen(rec)&bagMore == 0 {
			continue
		}
		s.ranks = append(s.ranks, int32(k))
		if p := head(t, rec); *p&bagWanted == 0 {
			*p |= bagWanted
			at := len(s.flat)
			s.flat = s.storeKey(s.flat, rec)
			s.list = append(s.list, asked{0, rec, uint32(at), uint32(len(s.flat))})
		}
	}
	if len(s.list) == 0 {
		return nil
	}
	s.read()
	if cap(s.more) < len(recs) {
		s.more = make([]bool, 2*len(recs))
	}
	s.more = s.more[:len(recs)]
	clear(s.more)
	some := false
	for _, k := range s.ranks {
		j := int(k)
		if sub != nil {
			j = int(sub[k])
		}
		rec := t.lookup(e.words[j*stride:(j+1)*stride], e, false)
		recs[k] = rec
		s.more[k] = rec != 0 && *head(t, rec)&bagMore != 0
		some = some || s.more[k]
	}
	if !some {
		return nil
	}
	return s.more
}

// read takes in the rows of the keys of list, until there is no more room. Keys that turn out to have
// none are removed.
func (s *bagSpill) read() {
	list := s.sorted()
	done, left := len(list), s.room()
	err := ranges(s.s.cold, s.found, func(i int, key, value []byte) error {
		if left == 0 {
			done = i
			return errEnough
		}
		rec, err := s.take(list[i].key, len(s.found[i]), key, value)
		if rec != 0 {
			left--
		}
		return err
	})
	if err != nil && err != errEnough {
		panic(&ColdError{err})
	}
	for i, w := range list {
		p := head(s.b.Keys, w.key)
		*p &^= bagWanted
		if i >= done {
			continue
		}
		*p &^= bagMore
		if s.b.Size(w.key) == 0 {
			s.b.Keys.remove(w.key)
		}
	}
}

// room is how many rows may be read at a time.
func (s *bagSpill) room() int {
	n := int64(maxGuests)
	if b, t := s.s.budget, s.b.Rows; b != nil {
		each := int64(t.stride) * 8
		if t.count > 0 {
			each += s.live / int64(t.count) // long strings
		}
		n = min(n, b.limit/16/each)
	}
	return int(max(n, minGuests))
}

const (
	minGuests = 16
	maxGuests = 1 << 16
)

// take adds the row of an entry of the store, whose key's part ends at cut, unless it is in memory
// (0) or was deleted.
func (s *bagSpill) take(owner uint32, cut int, key, value []byte) (rec uint32, err error) {
	t := s.b.Rows
	before := t.count
	rec, rest, err := t.UpsertKey(key[cut:], 0)
	if err != nil || len(rest) > 0 {
		return 0, errKey
	}
	if t.count == before {
		return 0, nil
	}
	if s.sp.buried(key[StoreHead:]) {
		t.remove(rec)
		return 0, nil
	}
	if err := s.sp.load(rec, key, value); err != nil {
		return 0, err
	}
	s.evicted--
	if owner != 0 {
		s.b.Link(owner, rec)
	}
	return rec, nil
}

// Rest calls f with the rows of key j of e that are in the store only, some at a time. When f returns
// they leave again, but for those that were given to Rows.Touch. To be called where Find said that
// there may be more, after the rows in memory, which may be others than before it.
func (b *Bag) Rest(e *Encoder, j int, f func(rows []uint32) error) error {
	s, stride := b.spill, e.Layout.words
	key := b.Keys.lookup(e.words[j*stride:(j+1)*stride], e, true)
	s.seen(key)
	s.flat = s.storeKey(s.flat[:0], key)
	return s.each(s.flat, Successor(s.flat), key, f)
}

// HeadOf is the first row in memory of key j of e.
func (b *Bag) HeadOf(e *Encoder, j int) uint32 {
	stride := e.Layout.words
	key := b.Keys.lookup(e.words[j*stride:(j+1)*stride], e, false)
	if key == 0 {
		return 0
	}
	return b.Head(key)
}

// EachCold calls f with all rows that are in the store only, some at a time, as Rest does; they are in
// no list and f does not change them.
func (b *Bag) EachCold(f func(rows []uint32) error) error {
	s := b.spill
	if s == nil || !s.cold {
		return nil
	}
	lo, hi := s.all()
	return s.each(lo, hi, 0, f)
}

// all is the range of all rows of the subtask.
func (s *bagSpill) all() (lo, hi []byte) {
	st := s.sp.k.State
	return AppendStoreKey(nil, s.s.op, st, s.s.lo), AppendStoreKey(nil, s.s.op, st, s.s.hi)
}

// each reads the entries from lo to hi, of one key or of all where owner is 0.
func (s *bagSpill) each(lo, hi []byte, owner uint32, f func(rows []uint32) error) error {
	t, cut := s.b.Rows, len(lo)
	s.lo = append(s.lo[:0], lo...)
	for more := true; more; {
		more = false
		s.guests = s.guests[:0]
		from := s.lo
		s.last = s.last[:0]
		err := s.s.cold.Range(from, hi, func(key, value []byte) error {
			if len(s.guests) == s.room() {
				more = true
				return errEnough
			}
			s.last = append(s.last[:0], key...)
			if owner == 0 {
				var err error
				if cut, err = s.keyEnd(key); err != nil {
					return err
				}
			}
			rec, err := s.take(owner, cut, key, value)
			if rec != 0 {
				s.guests = append(s.guests, rec)
			}
			return err
		})
		if err != nil && err != errEnough {
			panic(&ColdError{err})
		}
		s.lo = append(append(s.lo[:0], s.last...), 0)
		if len(s.guests) == 0 {
			continue
		}
		err = f(s.guests)
		for _, rec := range s.guests {
			if *head(t, rec)&(live|flagSaved|flagDirty) != live|flagSaved {
				continue
			}
			if owner != 0 {
				s.b.Unlink(owner, rec)
			}
			t.remove(rec)
			s.evicted++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keyEnd is where the key of a store's key ends and the row begins.
func (s *bagSpill) keyEnd(key []byte) (int, error) {
	t := s.b.Keys
	if t.reader == nil {
		t.reader = newKeyReader(t.layout)
	}
	rest, err := t.reader.read(key[StoreHead:], 0)
	return len(key) - len(rest), err
}
