package window

import (
	"bytes"
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/state"
)

// Sessions that are corrected leave memory and come back as those of Session do: a key that is on disk is
// parked for when its first session is over, or takes no more rows. Keys with results that wait for the
// clock stay, as nothing else would bring them back in time.

// DropValue implements state.Dropper.
func (o *Sessions) DropValue(kr uint32) {
	for id := uint32(o.keys.At(kr)[o.keys.Base()]); id != 0; {
		w := o.st.R.At(id)
		o.shown.Free(state.Ref(w[corrShown]))
		w[corrShown] = 0
		if o.causes != nil {
			o.causes.free(&w[corrCause])
		}
		id = uint32(w[sessNext])
	}
	o.Session.DropValue(kr)
}

// Pinned implements state.Pinner.
func (o *Sessions) Pinned(kr uint32) bool {
	if !o.clocked() {
		return false
	}
	for id := uint32(o.keys.At(kr)[o.keys.Base()]); id != 0; {
		w := o.st.R.At(id)
		if w[0]&flagChanged != 0 && o.delay(o.fired(w)) > 0 {
			return true
		}
		id = uint32(w[sessNext])
	}
	return false
}

// Weight implements state.Weigher.
func (o *Sessions) Weight() (held, free int64) {
	held, free = o.Session.Weight()
	h, f := o.shown.Weight()
	held, free = held+h, free+f
	if o.causes != nil {
		h, f = o.causes.blob.Weight()
		held, free = held+h, free+f
	}
	return held, free
}

// Between implements state.Spiller: it takes sessions that left memory from the timers, and frees their records.
func (o *Sessions) Between() {
	if n := o.st.R.Len(); o.dead > n/16 && o.dead > 16 {
		o.timers.purge(func(id uint32) bool {
			if o.st.R.At(id)[0]&flagDead == 0 {
				return false
			}
			o.unqueue(id)
			return true
		})
	}
}

// restoreStored leaves the sessions in the store and parks their keys, but for those with results that wait
// for the clock.
func (o *Sessions) restoreStored(saved state.Saved) error {
	if err := o.keeper.Restore(o.keys, saved); err != nil {
		return err
	}
	var waiting [][]byte
	recall := func() (err error) {
		o.krecs, err = o.keys.Recall(waiting, o.krecs[:0])
		waiting = waiting[:0]
		return err
	}
	if err := saved.Scan(0, func(_ int, key, value []byte) error {
		due, waits, err := o.readDue(value)
		switch {
		case err != nil:
			return err
		case !waits:
			o.parked.add(due, key)
			return nil
		}
		if waiting = append(waiting, bytes.Clone(key)); len(waiting) == block {
			return recall()
		}
		return nil
	}); err != nil {
		return err
	}
	return recall()
}

// readDue finds in a saved value when something is to be done about one of its sessions, and whether one has
// changes that wait for the clock.
func (o *Sessions) readDue(b []byte) (due int64, waits bool, err error) {
	le := binary.LittleEndian
	if len(b) < 5 || b[0] != 1 || le.Uint32(b[1:]) == 0 {
		return 0, false, errEntry
	}
	due = never
	n := le.Uint32(b[1:])
	for b = b[5:]; n > 0; n-- {
		if len(b) < 19 || b[0] != 1 || b[1] != 1 || b[10] != 1 {
			return 0, false, errEntry
		}
		end := int64(le.Uint64(b[11:]))
		due = min(due, o.dueOfEnd(end))
		_, b, err = readBytes(b[19:])
		if err == nil && o.set.HasValues() {
			_, b, err = readBytes(b)
		}
		if err != nil || len(b) < 11 {
			return 0, false, errEntry
		}
		waits = waits || b[1] == 1 && o.delay(o.over(end) <= o.wm) > 0
		if _, b, err = readBytes(b[11:]); err != nil || len(b) < 5 {
			return 0, false, errEntry
		}
		count := le.Uint32(b[1:])
		for b = b[5:]; count > 0; count-- {
			if len(b) < shownHead || uint64(le.Uint32(b[shownHead-4:])) > uint64(len(b)-shownHead) {
				return 0, false, errEntry
			}
			_, _, _, b = shownAt(b)
		}
	}
	return due, waits, nil
}

var (
	_ state.Fixer   = (*Sessions)(nil)
	_ state.Pinner  = (*Sessions)(nil)
	_ state.Weigher = (*Sessions)(nil)
	_ state.Spiller = (*Sessions)(nil)
)
