package window

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// showWaiting shows the sessions that have got enough rows, which are in their accumulators.
func (o *Sessions) showWaiting() error {
	err := o.showChanged(o.waiting)
	o.waiting = o.waiting[:0]
	return err
}

// afterRows shows what is to be shown with each batch, and sets the clock for the rest.
func (o *Sessions) afterRows() error {
	now := int64(0)
	if o.clocked() {
		now = o.ctx.Now()
	}
	o.list = o.list[:0]
	for _, id := range o.fresh {
		w := o.st.R.At(id)
		if !waits(w) {
			continue
		}
		fired := o.fired(w)
		switch delay := o.delay(fired); {
		case delay == 0:
			o.list = append(o.list, id)
		case delay > 0:
			o.setClock(fired, now)
			o.pending = append(o.pending, id)
		}
	}
	o.fresh = o.fresh[:0]
	err := o.showChanged(o.list)
	o.count()
	return err
}

// waits reports whether the record of a session, which may have been freed, has changes to be shown.
func waits(w []uint64) bool {
	return state.Live(w) && w[0]&(flagDead|flagChanged) == flagChanged
}

// showPending shows the sessions whose clock has come: those that are over, or those that are not.
func (o *Sessions) showPending(fired bool) error {
	kept := o.pending[:0]
	o.list = o.list[:0]
	for _, id := range o.pending {
		switch w := o.st.R.At(id); {
		case !waits(w):
		case o.fired(w) == fired:
			o.list = append(o.list, id)
		case o.delay(!fired) > 0:
			kept = append(kept, id)
			o.setClock(!fired, o.ctx.Now()) // it is the other clock's by now
		}
	}
	o.pending = kept
	return o.showChanged(o.list)
}

// showChanged shows the sessions of ids that have changes to be shown, some of which may be in it twice,
// early or late.
func (o *Sessions) showChanged(ids []uint32) error {
	for len(ids) > 0 {
		n := min(len(ids), block)
		o.ids, o.last = o.ids[:0], o.last[:0]
		for _, id := range ids[:n] {
			w := o.st.R.At(id)
			if !waits(w) {
				continue
			}
			w[0] &^= flagChanged
			if o.fired(w) {
				o.last = append(o.last, id)
			} else {
				o.ids = append(o.ids, id)
			}
		}
		err := o.showSome(o.ids, plan.ReasonEarly, false)
		if err == nil {
			err = o.showSome(o.last, plan.ReasonLate, false)
		}
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// showSome shows up to a block of sessions, each once. closing says that they end, so that what is shown
// need not be remembered.
func (o *Sessions) showSome(ids []uint32, reason string, closing bool) error {
	if len(ids) == 0 {
		return nil
	}
	s, nk := o.show, len(o.n.Keys)
	s.begin(len(ids))
	o.lost = o.lost[:0]
	for _, id := range ids {
		o.lost = append(o.lost, uint32(o.st.R.At(id)[sessKey]))
	}
	for i := range o.n.Keys {
		o.keys.KeyColumn(i, o.lost, s.results.Cols[i], 0)
	}
	if err := o.set.Emit(o.st, ids, s.results.Cols[nk:], 0); err != nil {
		return err
	}
	for k, id := range ids {
		o.showOne(k, id, reason, closing)
	}
	if !closing {
		o.keys.Touch(o.lost) // what was shown belongs to what is saved
	}
	return s.flush()
}

// showOne writes how the result of a session, which is number k of those at hand, has changed.
func (o *Sessions) showOne(k int, id uint32, reason string, closing bool) {
	s, w := o.show, o.st.R.At(id)
	w[0] &^= flagChanged
	w[corrSince] = 0
	start, end := int64(w[sessStart]), int64(w[sessEnd])
	n := o.set.RowCount(o.st, id)
	s.times(start, end, k, 1)
	if s.tells {
		s.tell(k, reason, n, o.causes, w[corrCause])
	}
	s.encode(k)
	known, news := false, false
	for b := o.shown.Get(state.Ref(w[corrShown])); len(b) > 0; {
		from, to, result, rest := shownAt(b)
		switch {
		case from != start || to != end || n == 0:
			s.remove(k, result, from, to)
			news = true
		case s.same(result):
			known = true
		default:
			s.replace(k, result, start, end)
			known, news = true, true
		}
		b = rest
	}
	if !known && n != 0 {
		s.insert(k)
		news = true
	}
	if closing || !news {
		return
	}
	if o.causes != nil {
		o.causes.free(&w[corrCause])
	}
	if n == 0 {
		o.shown.Free(state.Ref(w[corrShown]))
		w[corrShown] = 0
		return
	}
	o.old = appendShown(o.old[:0], start, end, s.row)
	w[corrShown] = uint64(o.shown.Set(state.Ref(w[corrShown]), o.old))
}

// A result that was shown is a ROW of its window and its bytes (see shower), in the form of
// state.AppendValue.

const shownHead = 1 + 9 + 9 + 5

func appendShown(dst []byte, start, end int64, result []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(append(dst, 1, 1), uint64(start))
	dst = le.AppendUint64(append(dst, 1), uint64(end))
	dst = le.AppendUint32(append(dst, 1), uint32(len(result)))
	return append(dst, result...)
}

// shownAt reads the first of some results that appendShown appended.
func shownAt(b []byte) (start, end int64, result, rest []byte) {
	le := binary.LittleEndian
	n := shownHead + int(le.Uint32(b[shownHead-4:]))
	return int64(le.Uint64(b[2:])), int64(le.Uint64(b[11:])), b[shownHead:n:n], b[n:]
}

// advance shows the sessions that are over at wm and closes those that take no more rows.
func (o *Sessions) advance(wm int64) error {
	if wm < o.wm {
		return nil
	}
	o.show.stamp = o.wm
	var err error
	for err == nil && o.parked.first() <= wm && o.parked.first() != never {
		// A bucket at a time, so that those on disk are not all in memory at once.
		var last int64
		last, err = o.recall(wm)
		o.Between()
		if err == nil {
			err = o.step(last, wm)
		}
	}
	if err == nil {
		err = o.step(wm, wm)
	}
	o.wm = wm
	o.count()
	return err
}

// step shows and closes the sessions in memory that are due at now, on the way to the watermark wm.
func (o *Sessions) step(now, wm int64) error {
	o.due = o.timers.expire(now, o.due[:0], func(id uint32) (int64, bool) {
		w := o.st.R.At(id)
		at := o.nextDue(w)
		switch {
		case w[0]&flagDead != 0, at <= now && w[corrQueued]&queuedDue != 0:
			o.unqueue(id) // it is gone, or among those that are due already
			return 0, false
		case at <= now:
			w[corrQueued] |= queuedDue
		}
		return at, true
	})
	o.sortDue()
	for due := o.due; len(due) > 0; {
		n := min(len(due), block)
		if err := o.end(due[:n], o.wm, wm); err != nil {
			return err
		}
		due = due[n:]
	}
	o.requeue()
	return nil
}

// end shows the sessions of due, and closes those that take no more rows at wm; was is the watermark
// before.
func (o *Sessions) end(due []dueSession, was, wm int64) error {
	o.ids, o.list, o.last = o.ids[:0], o.list[:0], o.last[:0]
	late := o.gone[:0]
	for _, d := range due {
		w := o.st.R.At(d.id)
		closing := wm == vec.MaxTime || o.closes(int64(w[sessEnd])) <= wm
		switch {
		case o.over(int64(w[sessEnd])) <= was:
			if w[0]&flagChanged != 0 {
				late = append(late, d.id)
			}
		case closing:
			o.list = append(o.list, d.id)
		default:
			o.ids = append(o.ids, d.id)
		}
		if closing {
			o.last = append(o.last, d.id)
		}
	}
	o.gone = late
	err := o.showSome(o.ids, plan.ReasonOnTime, false)
	if err == nil {
		err = o.showSome(o.list, plan.ReasonOnTime, true)
	}
	if err == nil {
		// A session is due after it was over only when it closes.
		err = o.showSome(late, plan.ReasonLate, true)
	}
	o.closeAll(o.last)
	return err
}

// requeue puts the sessions that were due and stay among the timers again, for when they close.
func (o *Sessions) requeue() {
	for _, d := range o.due {
		w := o.st.R.At(d.id)
		if w[corrQueued]&queuedDue == 0 {
			continue
		}
		w[corrQueued] &^= queuedDue
		if w[0]&flagDead != 0 {
			o.unqueue(d.id)
			continue
		}
		o.timers.add(o.closes(int64(w[sessEnd])), d.id)
	}
}

// closeAll removes sessions, and keys with their last ones. The records stay until they are gone from the
// timers.
func (o *Sessions) closeAll(ids []uint32) {
	o.st.Drop(ids)
	for _, id := range ids {
		w := o.st.R.At(id)
		kr := uint32(w[sessKey])
		head := &o.keys.Chunks[kr>>state.ChunkBits][int(kr&state.ChunkMask)+o.keys.Base()]
		o.unlink(head, id)
		o.shown.Free(state.Ref(w[corrShown]))
		w[corrShown] = 0
		if o.causes != nil {
			o.causes.free(&w[corrCause])
		}
		w[0] |= flagDead
		o.dead++
		last := *head == 0
		if o.shrunk(kr, last); last {
			o.keys.Delete(kr)
		}
	}
}
