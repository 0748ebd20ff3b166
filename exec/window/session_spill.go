package window

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/state"
)

// Sessions leave memory by key, all of one at a time (state.Spill), and come back when a row of the
// key comes or the first of them is over: parked has the keys until then, since what is on disk cannot
// be found by time. The records of sessions that left are freed later, when enough of them are dead,
// because timers name them.

// mayLeave reports whether sessions leave memory for sp.
func (o *Session) mayLeave(sp *state.Spill) bool {
	return sp != nil && o.ctx.Saves && len(o.n.Keys) > 0
}

// openSpill lets keys go to disk; self is the operator.
func (o *Session) openSpill(sp *state.Spill, self state.Spiller) {
	if !o.mayLeave(sp) {
		return
	}
	o.spill = sp
	o.parked = parked{width: o.timers.coarse.width, budget: o.ctx.Budget}
	o.keeper.Spill(o.keys, sp)
	sp.Attach(self)
}

// DropValue implements state.Dropper.
func (o *Session) DropValue(kr uint32) {
	o.lost = o.lost[:0]
	due := o.dueOf(kr)
	for id := uint32(o.keys.At(kr)[o.keys.Base()]); id != 0; {
		w := o.st.R.At(id)
		w[0] |= flagDead
		o.lost = append(o.lost, id)
		id = uint32(w[sessNext])
	}
	o.st.Drop(o.lost)
	o.dead += len(o.lost)
	if o.parked.stays(due, *o.parkedIn(kr)) {
		return
	}
	o.key = o.keys.AppendKey(o.key[:0], kr)
	o.parked.add(due, o.key)
}

// parkedIn is the id of a bucket that a key in memory which has been on disk is in, if that is there
// still, or 0: a key that leaves again and is due in it as before needs no other entry there.
func (o *Session) parkedIn(kr uint32) *uint64 { return &o.keys.At(kr)[o.keys.Base()+1] }

// unpark notes, of a key that was just read from disk, which bucket it is in.
func (o *Session) unpark(kr uint32) {
	if o.spill != nil {
		*o.parkedIn(kr) = o.parked.bucket(o.dueOf(kr))
	}
}

// dueOf is when the first session of a key is over, or something else is to be done about one.
func (o *Session) dueOf(kr uint32) int64 {
	end, due := int64(never), int64(never)
	for id := uint32(o.keys.At(kr)[o.keys.Base()]); id != 0; {
		w := o.st.R.At(id)
		if o.dueAt != nil {
			due = min(due, o.dueAt(w))
		}
		end = min(end, int64(w[sessEnd]))
		id = uint32(w[sessNext])
	}
	if o.dueAt != nil {
		return due
	}
	return o.over(end)
}

// Fixed implements state.Fixer: sessions name the record of their key.
func (o *Session) Fixed() bool { return true }

// Weight implements state.Weigher.
func (o *Session) Weight() (held, free int64) {
	held, free = o.st.R.Weight()
	h, f := o.st.Blob.Weight()
	held, free = held+h, free+f
	h, f = o.st.ValueWeight()
	return held + h, free + f + int64(o.dead*o.st.R.Stride()*8)
}

// Between implements state.Spiller: it frees the records of sessions that left memory.
func (o *Session) Between() {
	if n := o.st.R.Len(); o.dead > n/16 && o.dead > 16 {
		o.timers.purge(func(id uint32) bool {
			if o.st.R.At(id)[0]&flagDead == 0 {
				return false
			}
			o.st.R.Free(id)
			return true
		})
		o.dead = 0
	}
}

// NeedsFreeze implements state.Spiller: what spills says so itself.
func (o *Session) NeedsFreeze() bool { return false }

// first is an instant before which no session is over, or never.
func (o *Session) first() int64 { return min(o.timers.first(), o.parked.first()) }

// recall brings the keys of the first bucket that is due at wm into memory, and returns the last
// instant up to wm that no other is due before. Keys with rows since they were parked are parked again.
func (o *Session) recall(wm int64) (int64, error) {
	b := o.parked.take()
	defer o.parked.drop(b)
	last := wm
	if end := (b.key + 1) * o.parked.width; end > b.min { // else it is out of range
		last = min(wm, end-1)
	}
	err := b.each(func(keys [][]byte) (err error) {
		if o.krecs, err = o.keys.Recall(keys, o.krecs[:0]); err != nil {
			return err
		}
		for _, kr := range o.krecs {
			due := o.dueOf(kr)
			if floorDiv(due, o.parked.width) == b.key {
				*o.parkedIn(kr) = 0 // it was in b, not in one made since
			}
			if due > last {
				o.keys.Dismiss(kr)
			}
		}
		return nil
	})
	return last, err
}

// restoreStored leaves the sessions in the store and parks their keys.
func (o *Session) restoreStored(saved state.Saved) error {
	if err := o.keeper.Restore(o.keys, saved); err != nil {
		return err
	}
	return saved.Scan(0, func(_ int, key, value []byte) error {
		end, err := firstEnd(value, o.set.HasValues())
		if err == nil {
			o.parked.add(o.over(end), key)
		}
		return err
	})
}

// firstEnd is the first end of the sessions in a saved value, which may have distinct values.
func firstEnd(b []byte, values bool) (int64, error) {
	le := binary.LittleEndian
	if len(b) < 5 || b[0] != 1 || le.Uint32(b[1:]) == 0 {
		return 0, errEntry
	}
	first := int64(never)
	n := le.Uint32(b[1:])
	for b = b[5:]; n > 0; n-- {
		if len(b) < 19 || b[0] != 1 || b[1] != 1 || b[10] != 1 {
			return 0, errEntry
		}
		first = min(first, int64(le.Uint64(b[11:])))
		_, rest, err := readBytes(b[19:])
		if err == nil && values {
			_, rest, err = readBytes(rest)
		}
		if err != nil {
			return 0, err
		}
		b = rest
	}
	return first, nil
}

var (
	_ state.Fixer   = (*Session)(nil)
	_ state.Weigher = (*Session)(nil)
	_ state.Spiller = (*Session)(nil)
)
