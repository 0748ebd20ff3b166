package window

import (
	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// add adds the rows listed in w to their groups. Where results are shown after a number of rows, a group
// that has got so many is shown before it gets another.
func (o *Emitting) add(b *vec.Batch, w *opened) error {
	o.recs = sized(o.recs, len(w.rows))
	w.st.T.Upsert(o.enc, w.sub, o.recs)
	w.st.Fetch(o.recs)
	from := 0
	if every := uint64(o.every(w.fired)); every > 0 {
		at := o.sinceAt
		for k, r := range o.recs {
			since := &w.st.R.Chunks[r>>state.ChunkBits][int(r&state.ChunkMask)+at]
			if *since >= every {
				o.addRows(b, w, from, k)
				from = k
				if err := o.showWaiting(w); err != nil {
					return err
				}
				*since = min(*since, every-1) // if it did not wait: it comes from a plan with more rows
			}
			if *since++; *since == every {
				o.waiting = append(o.waiting, r)
			}
		}
	} else if o.sinceAt > 0 {
		for _, r := range o.recs {
			w.st.R.At(r)[o.sinceAt]++
		}
	}
	o.addRows(b, w, from, len(o.recs))
	w.marked = true
	w.rows, w.sub = w.rows[:0], w.sub[:0]
	return o.showWaiting(w)
}

// addRows adds the rows from and up to to of those listed in w to their groups.
func (o *Emitting) addRows(b *vec.Batch, w *opened, from, to int) {
	rows, recs := w.rows[from:to], o.recs[from:to]
	in := &o.input
	*in = agg.Input{Cols: b.Cols, Rows: rows, Recs: recs}
	if b.Kinds != nil && o.n.InputRetracts {
		o.neg = sized(o.neg, len(rows))
		for k, r := range rows {
			o.neg[k] = b.Kinds[r].Retracts()
		}
		in.Neg = o.neg
	}
	o.set.Add(w.st, in)
	for _, r := range recs {
		if p := &w.st.R.At(r)[0]; *p&state.FlagMark == 0 {
			*p |= state.FlagMark
			w.touched = append(w.touched, r)
		}
	}
	if o.causes != nil && b.Pos != nil && b.Origin != nil {
		id := o.causes.number(b.Origin)
		for k, r := range recs {
			o.causes.note(&w.st.R.At(r)[o.causeAt], id, b.Pos[rows[k]])
		}
	}
}

// showWaiting shows the groups of w that have got enough rows.
func (o *Emitting) showWaiting(w *opened) error {
	err := o.showAll(w, o.waiting, reasonOf(w.fired))
	o.waiting = o.waiting[:0]
	return err
}

// afterRows emits what is to be shown with each batch, and sets the clock for the rest.
func (o *Emitting) afterRows() error {
	now := int64(0)
	if o.clocked() {
		now = o.ctx.Now()
	}
	for _, w := range o.active {
		switch delay := o.delay(w.fired); {
		case delay == 0:
			if err := o.showTouched(w); err != nil {
				return err
			}
		case delay > 0:
			o.setClock(w.fired, now)
		case w.st.T.Spilled():
		case len(w.touched) > 2*w.st.R.Len()+block:
			w.compact()
		}
		if w.st.T.Spilled() {
			w.touched = w.touched[:0]
		}
	}
	o.count()
	return nil
}

// compact removes the records from touched that were shown since they changed, and doubles.
func (w *opened) compact() {
	kept := w.touched[:0]
	for _, r := range w.touched {
		if p := &w.st.R.At(r)[0]; *p&state.FlagMark != 0 {
			*p &^= state.FlagMark
			kept = append(kept, r)
		}
	}
	for _, r := range kept {
		w.st.R.At(r)[0] |= state.FlagMark
	}
	w.touched = kept
}

// showMarked emits the results of the groups of w that have changed since the last emission.
func (o *Emitting) showMarked(w *opened) error {
	if !w.st.T.Spilled() {
		return o.showTouched(w)
	}
	reason := reasonOf(w.fired)
	return o.sweep(w, func(ids []uint32) error {
		n := 0
		for _, r := range ids {
			if w.st.R.At(r)[0]&state.FlagMark != 0 {
				ids[n] = r
				n++
			}
		}
		return o.showSome(w, ids[:n], reason)
	})
}

// sweep calls f with all groups of w, those on disk included.
func (o *Emitting) sweep(w *opened, f func(ids []uint32) error) error {
	defer func() { w.touched, w.marked = w.touched[:0], false }()
	var c state.SweepCursor
	for {
		ids := w.st.T.Sweep(&c, o.ids[:])
		if len(ids) == 0 {
			return nil
		}
		if err := f(ids); err != nil {
			return err
		}
		w.touched = w.touched[:0]
	}
}

// showTouched emits the results of all records of w that have changed.
func (o *Emitting) showTouched(w *opened) error {
	if o.sinceAt > 0 {
		w.compact()
	}
	err := o.showAll(w, w.touched, reasonOf(w.fired))
	w.touched, w.marked = w.touched[:0], false
	return err
}

// showAll emits the results of recs that differ from those shown before.
func (o *Emitting) showAll(w *opened, recs []uint32, reason string) error {
	for len(recs) > 0 {
		n := min(len(recs), block)
		if err := o.showSome(w, recs[:n], reason); err != nil {
			return err
		}
		recs = recs[n:]
	}
	return nil
}

// showSome is showAll of a block of records.
func (o *Emitting) showSome(w *opened, recs []uint32, reason string) error {
	if len(recs) == 0 {
		return nil
	}
	w.st.Fetch(recs)
	s, nk := o.show, len(o.n.Keys)
	s.begin(len(recs))
	for i := range o.n.Keys {
		w.st.T.KeyColumn(i, recs, s.results.Cols[i], 0)
	}
	if err := o.set.Emit(w.st, recs, s.results.Cols[nk:], 0); err != nil {
		return err
	}
	s.times(w.start, w.end, 0, len(recs))
	o.changed = o.changed[:0]
	for k, r := range recs {
		words := w.st.R.At(r)
		if words[0]&state.FlagMark != 0 {
			words[0] &^= state.FlagMark
			o.changed = append(o.changed, r)
		}
		if o.sinceAt > 0 {
			words[o.sinceAt] = 0
		}
		o.showOne(w, k, r, words, reason)
	}
	if !o.closing {
		w.st.T.Touch(o.changed)
	}
	return s.flush()
}

// showOne writes how the result of record r, which is number k of those at hand, has changed.
func (o *Emitting) showOne(w *opened, k int, r uint32, words []uint64, reason string) {
	s, n := o.show, o.set.RowCount(w.st, r)
	if s.tells {
		cause := uint64(0)
		if o.causes != nil {
			cause = words[o.causeAt]
		}
		s.tell(k, reason, n, o.causes, cause)
	}
	ref := &words[o.l.Words()]
	old := o.shown.Get(state.Ref(*ref))
	if n != 0 {
		s.encode(k)
	}
	switch {
	case n == 0 && old == nil:
		return
	case n == 0:
		s.remove(k, old, w.start, w.end)
		o.shown.Free(state.Ref(*ref))
		*ref = 0
	case old == nil:
		s.insert(k)
	case s.same(old):
		return
	default:
		s.replace(k, old, w.start, w.end)
	}
	if o.closing {
		return
	}
	if n != 0 {
		// A set without aggregates has results of no bytes, which must still say that they are.
		*ref = uint64(o.shown.Set(state.Ref(*ref), s.row))
	}
	if o.causes != nil {
		o.causes.free(&words[o.causeAt])
	}
}

// Watermark implements op.Operator.
func (o *Emitting) Watermark(wm int64) error {
	if !o.n.Window.ProcTime {
		if err := o.advance(wm); err != nil {
			return err
		}
	}
	return o.show.out.Watermark(wm)
}

// advance shows the windows that are over at wm and closes those that take no more late rows.
func (o *Emitting) advance(wm int64) error {
	if wm < o.wm {
		return nil
	}
	o.show.stamp = o.wm
	kept := o.open[:0]
	var err error
	for _, w := range o.open {
		o.closing = wm == vec.MaxTime || w.timer+o.lateness <= wm
		if err == nil && !w.fired && w.timer <= wm {
			w.fired = true
			err = o.sweep(w, func(ids []uint32) error { return o.showSome(w, ids, plan.ReasonOnTime) })
		}
		if !o.closing {
			kept = append(kept, w)
			continue
		}
		// What came late and was not shown yet is shown before the window goes.
		if err == nil && w.marked {
			err = o.showMarked(w)
		}
		o.closing = false
		o.close(w)
	}
	clear(o.open[len(kept):])
	o.open = kept
	o.wm = max(o.wm, wm)
	o.count()
	return err
}

func (o *Emitting) close(w *opened) {
	if o.save != nil {
		o.save.remove(0, o.prefixOf(w), w.st, w.st.T.Spilled(), &w.saved)
	}
	_ = eachBlock(w.st, &o.ids, func(ids []uint32) error {
		for _, r := range ids {
			o.free(w, r)
		}
		return nil
	})
	if len(o.pool) < poolMax {
		w.st.Reset()
		o.pool = append(o.pool, w.st)
	} else {
		w.st.Release()
	}
}

// free gives back what record r of w keeps outside of its store.
func (o *Emitting) free(w *opened, r uint32) {
	words := w.st.R.At(r)
	o.shown.Free(state.Ref(words[o.l.Words()]))
	words[o.l.Words()] = 0
	if o.causes != nil {
		o.causes.free(&words[o.causeAt])
	}
}

// ProcTime implements op.ProcTimer.
func (o *Emitting) ProcTime(nowMs int64) error {
	for _, late := range []bool{false, true} {
		clock := &o.early
		if late {
			clock = &o.late
		}
		if *clock > nowMs {
			continue
		}
		*clock = never
		o.show.stamp = o.wm
		for _, w := range o.open {
			if w.fired == late && w.marked {
				if err := o.showMarked(w); err != nil {
					return err
				}
			}
		}
	}
	if o.n.Window.ProcTime {
		return o.advance(nowMs)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Emitting) NextProcTime() int64 {
	next := min(o.early, o.late)
	if o.n.Window.ProcTime {
		for _, w := range o.open {
			next = min(next, w.timer)
		}
	}
	return next
}

// Finish implements op.Operator.
func (o *Emitting) Finish() error { return o.advance(vec.MaxTime) }

// Close implements op.Operator.
func (o *Emitting) Close() error {
	if o.mem == nil {
		return nil
	}
	for _, w := range o.open {
		w.st.Release()
	}
	for _, st := range o.pool {
		st.Release()
	}
	o.shown.Release()
	if o.causes != nil {
		o.causes.blob.Release()
	}
	o.mem.Close()
	return nil
}

func (o *Emitting) count() {
	if c := o.ctx.Counters; c != nil {
		n := 0
		for _, w := range o.open {
			n += w.st.Entries()
		}
		c.StateBytes.Store(o.mem.Bytes())
		c.StateEntries.Store(int64(n))
	}
}

var _ op.ProcTimer = (*Emitting)(nil)
