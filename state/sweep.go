package state

import (
	"errors"

	"github.com/zeebo/xxh3"
)

// SweepCursor is a place in the order in which Sweep goes over a table: the records in memory, then
// those in the store only.
type SweepCursor struct {
	hot   Cursor
	cold  bool
	group int
	last  []byte // the key in the store that was seen last, in group
}

var errEnough = errors.New("enough")

// Enough is what a function given to Spill.EachEntry returns to see no more entries.
var Enough = errEnough

// Sweep is Scan for tables that may spill: it fills ids with the next records after c and returns
// those, none at the end. Records that are in the store only are read in; those of the call before
// leave again unless they changed, so ids are valid until the next call, or until records may be
// evicted. The records may be changed (by Touch) and deleted. Without a call of Between in
// between, every record that is there from the first call to the last is returned, once.
func (t *Table) Sweep(c *SweepCursor, ids []uint32) []uint32 {
	sp := t.spill
	if sp == nil {
		return t.Scan(&c.hot, ids)
	}
	sp.sweptOut()
	if !c.cold {
		if got := t.Scan(&c.hot, ids); len(got) > 0 {
			return got
		}
		c.cold, c.group, c.last = true, sp.s.lo, c.last[:0]
	}
	n := 0
	for sp.cold && c.group < sp.s.hi && n < len(ids) {
		sp.rangeFrom(c, func(key, value []byte) error {
			if n == len(ids) {
				return errEnough
			}
			rec, err := sp.sweepIn(key, value)
			if err == nil && rec != 0 {
				ids[n] = rec
				n++
			}
			return err
		})
	}
	if n == 0 {
		*c = SweepCursor{last: c.last[:0]}
	}
	return ids[:n]
}

// rangeFrom calls f with the entries after c of a group, or of all that are left, and moves c. f ends
// it by errEnough, which is not for the entry it is given.
func (sp *spilled) rangeFrom(c *SweepCursor, f func(key, value []byte) error) {
	lo := append(AppendStoreKey(nil, sp.s.op, sp.k.State, c.group), sp.k.Prefix...)
	hi := Successor(lo)
	if len(sp.k.Prefix) == 0 {
		// All groups that are left are one range.
		hi = AppendStoreKey(nil, sp.s.op, sp.k.State, sp.s.hi)
	}
	if len(c.last) > 0 {
		lo = append(append(lo[:0], c.last...), 0)
	}
	err := sp.s.cold.Range(lo, hi, func(key, value []byte) error {
		if err := f(key, value); err != nil {
			return err
		}
		c.last = append(c.last[:0], key...)
		return nil
	})
	switch {
	case err == nil && len(sp.k.Prefix) == 0:
		c.group = sp.s.hi
	case err == nil:
		c.group++
		c.last = c.last[:0]
	case err != errEnough:
		panic(&ColdError{err})
	}
}

// learnKeys is how many keys the filter of a restored table learns between two batches.
const learnKeys = 1 << 10

// learn adds to the filter the next keys that the store has had since the operator was restored.
func (sp *spilled) learn() {
	t := sp.t
	if t.reader == nil {
		t.reader = newKeyReader(t.layout)
	}
	n := 0
	sp.rangeFrom(&sp.learnt, func(key, _ []byte) error {
		if n == learnKeys {
			return errEnough
		}
		n++
		key = key[StoreHead+len(sp.k.Prefix):]
		if sp.member != nil {
			sp.filter.add(mixKey(xxh3.Hash(key)), 1<<16)
			return nil
		}
		if _, err := t.reader.read(key, 0); err != nil {
			return err
		}
		sp.filter.add(filterKey(t.reader.w, t.layout.str), 1<<16)
		return nil
	})
	if sp.learnt.group >= sp.s.hi {
		sp.unknown = false
	}
	sp.bound()
}

// sweepIn adds the record of an entry of the store, unless it is in memory or was deleted.
func (sp *spilled) sweepIn(key, value []byte) (rec uint32, err error) {
	t := sp.t
	k := key[StoreHead+len(sp.k.Prefix):]
	before := t.count
	rec, rest, err := t.UpsertKey(k, 0)
	if err != nil || len(rest) > 0 {
		return 0, errKey
	}
	if t.count == before {
		return 0, nil
	}
	if sp.buried(k) {
		t.remove(rec)
		return 0, nil
	}
	if err := sp.load(rec, key, value); err != nil {
		return 0, err
	}
	sp.evicted--
	sp.swept = append(sp.swept, rec)
	return rec, nil
}

// sweptOut evicts what the last Sweep read in and nobody changed. A record that was deleted, and its
// place taken by another, is left alone like any other unless it may go as well.
func (sp *spilled) sweptOut() {
	for _, rec := range sp.swept {
		w := sp.t.At(rec)[0]
		if w&(live|flagSaved|flagDirty|flagUsed) == live|flagSaved {
			sp.out(rec)
		}
	}
	sp.swept = sp.swept[:0]
}
