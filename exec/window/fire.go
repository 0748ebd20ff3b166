package window

import (
	"cmp"
	"slices"
	"sort"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// levels are the watermarks that were in force at the rows since the operator's last watermark.
// A machine that takes rows one by one fires a window at the first of them that reaches its end,
// and stamps the results with the one before.
type levels struct {
	list []int64
	base int64 // the watermark before them
	// near is the greatest stamp of batches that came near the end of a window and did not reach it.
	near int64
}

// start forgets all levels; wm is the watermark from now on.
func (l *levels) start(wm int64, list []int64) { l.base, l.near, l.list = wm, wm, list }

// note keeps the stamps of the rows of b if one of them reaches due.
func (l *levels) note(b *vec.Batch, rows []int32, due int64) {
	if end := b.Stamps[rows[len(rows)-1]]; due == never || end < due {
		l.near = max(l.near, end)
		return
	}
	last := l.base
	if n := len(l.list); n > 0 {
		last = l.list[n-1]
	}
	for _, r := range rows {
		if s := b.Stamps[r]; s > last {
			l.list = append(l.list, s)
			last = s
		}
	}
}

// before returns the last level before the instant t.
func (l *levels) before(t int64) int64 {
	level := l.base
	if l.near < t {
		level = max(level, l.near)
	}
	i := sort.Search(len(l.list), func(i int) bool { return l.list[i] >= t })
	if i > 0 {
		level = max(level, l.list[i-1])
	}
	return level
}

// passed forgets what wm has reached.
func (l *levels) passed(wm int64) {
	l.base = wm
	i := sort.Search(len(l.list), func(i int) bool { return l.list[i] > wm })
	l.list = l.list[:copy(l.list, l.list[i:])]
}

// Watermark implements op.Operator.
func (o *Agg) Watermark(wm int64) error {
	if !o.n.Window.ProcTime {
		if err := o.advance(wm); err != nil {
			return err
		}
	}
	return o.out.Watermark(wm)
}

// ProcTime implements op.ProcTimer.
func (o *Agg) ProcTime(nowMs int64) error {
	if o.n.Window.ProcTime {
		return o.advance(nowMs)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Agg) NextProcTime() int64 {
	if o.n.Window.ProcTime {
		return o.due()
	}
	return vec.MaxTime
}

// advance fires the windows that are over at wm. Watermarks between the old one and wm are passed
// on where results came before them.
func (o *Agg) advance(wm int64) error {
	if wm < o.wm {
		return nil
	}
	told := o.wm
	looked, ordered := false, false // the list, since rows came: its windows are over in its order
	for {
		due := o.due()
		if first := o.held.first(); first < due && first <= wm {
			if err := o.release(first); err != nil {
				return err
			}
			looked = false
			continue
		}
		if due > wm || due == never {
			break
		}
		stamp := int64(vec.MinTime)
		if !o.n.Window.ProcTime {
			stamp = o.levels.before(due)
		}
		if told < stamp {
			told = stamp
			if err := o.out.Watermark(told); err != nil {
				return err
			}
		}
		o.wm = max(o.wm, due)
		var err error
		if o.fire == nil {
			if !looked {
				looked, ordered = true, slices.IsSortedFunc(o.list, func(a, b *slice) int { return cmp.Compare(a.first, b.first) })
			}
			err = o.fireTumbles(due, stamp, ordered)
		} else {
			err = o.fire(o.next, stamp)
		}
		if err != nil {
			return err
		}
	}
	o.wm = wm
	o.levels.passed(wm)
	o.count()
	return nil
}

// fireTumbles emits the windows that are over at the instant due. Where the list is ordered by that they are the first
// of it, and the others are not looked at: many may be due at one watermark, one after the other.
func (o *Agg) fireTumbles(due, stamp int64, ordered bool) error {
	var err error
	if ordered {
		n := 0
		for ; n < len(o.list) && err == nil && o.list[n].first <= due; n++ {
			err = o.fireTumble(o.list[n], stamp)
		}
		o.cut(n)
		if o.minDue = never; len(o.list) > 0 {
			o.minDue = o.list[0].first
		}
		return err
	}
	kept := o.list[:0]
	o.minDue = never
	for i, sl := range o.list {
		switch {
		case err == nil && sl.first <= due:
			err = o.fireTumble(sl, stamp)
		default:
			kept = append(kept, o.list[i])
			o.minDue = min(o.minDue, sl.first)
		}
	}
	clear(o.list[len(kept):])
	o.list = kept
	return err
}

// fireTumble emits a window and takes its slice back.
func (o *Agg) fireTumble(sl *slice, stamp int64) error {
	start := sl.start
	if !o.n.Attached {
		start = o.start(sl.end)
	}
	err := o.emitSlice(sl, start, stamp)
	o.done(sl)
	return err
}

// emitSlice emits a slice as the window that begins at start.
func (o *Agg) emitSlice(sl *slice, start, stamp int64) error {
	if !sl.spilled() {
		return o.emitter.emit(o.set, sl.st, start, sl.end, stamp, o.n.InputRetracts)
	}
	o.taken = append(o.taken[:0], sl)
	return o.emitSwept(o.taken, start, sl.end, stamp)
}

// emitSwept emits a window made of slices that are on disk in part.
func (o *Agg) emitSwept(list []*slice, start, end, stamp int64) error {
	o.emitter.stamp(stamp)
	if o.spill.keyed != nil && o.set.HasValues() {
		return o.emitTable(list[0].st, start, end)
	}
	return o.sweep(list, func(st *agg.Store, ids []uint32) error {
		return o.emitter.some(o.set, st, ids, start, end, o.n.InputRetracts)
	})
}

// emitTable emits a window of one slice, whose groups are in memory with all that follows from their values,
// or on disk.
func (o *Agg) emitTable(st *agg.Store, start, end int64) error {
	var c state.SweepCursor
	for {
		ids := st.T.Sweep(&c, o.emitter.ids[:])
		if len(ids) == 0 {
			return nil
		}
		st.Fetch(ids) // MIN and MAX of rows that may be taken back follow from them
		if err := o.emitter.some(o.set, st, ids, start, end, o.n.InputRetracts); err != nil {
			return err
		}
	}
}

const block = 1024

// eachBlock calls f with the records of a store, a block at a time.
func eachBlock(st *agg.Store, buf *[block]uint32, f func(ids []uint32) error) error {
	var c state.Cursor
	for {
		ids := st.R.Scan(&c, buf[:])
		if len(ids) == 0 {
			return nil
		}
		if err := f(ids); err != nil {
			return err
		}
	}
}

// after finds the next window with rows once that of end has fired and its slices have gone.
func (o *Agg) after(end int64) {
	o.next = never
	if len(o.list) > 0 {
		o.next = max(end+o.step, o.firstEnd(o.list[0].end))
	}
}

// wanted reports whether the window that ends at end takes sl, which is not after it: it has fired
// for rows of a subtask that was further.
func (o *Agg) wanted(sl *slice, end int64) bool {
	return sl.after == vec.MinTime || sl.after < o.over(end)
}

// fireSliding moves new slices into the running aggregate, emits it, and moves out the slices
// that no later window has. In the word behind the key a group of a slice has its record in the running
// aggregate, and a group of that the number of slices which have it.
func (o *Agg) fireSliding(end, stamp int64) error {
	if o.anySpilled(end) {
		o.stopSliding()
		return o.fireMerged(end, stamp)
	}
	var ids, recs [block]uint32
	link := o.l.Words()
	for _, sl := range o.list {
		if sl.end > end {
			break
		}
		if sl.merged || !o.wanted(sl, end) {
			continue
		}
		sl.merged = true
		o.closed(sl)
		o.expect = sl.st.R.Len()
		_ = eachBlock(sl.st, &ids, func(ids []uint32) error {
			o.run.T.UpsertFrom(sl.st.T, ids, recs[:len(ids)])
			for k, id := range ids {
				sl.st.R.At(id)[link] = uint64(recs[k])
				o.run.R.At(recs[k])[link]++
			}
			o.runSet.Slide(o.set, o.run, sl.st, recs[:len(ids)], ids, sl.end, true)
			return nil
		})
	}
	if err := o.emitter.emit(o.runSet, o.run, o.start(end), end, stamp, true); err != nil {
		return err
	}
	n := 0
	for n < len(o.list) && o.list[n].start < end+o.step-o.size {
		sl := o.list[n]
		n++
		if !sl.merged {
			continue
		}
		_ = eachBlock(sl.st, &ids, func(ids []uint32) error {
			for k, id := range ids {
				recs[k] = uint32(sl.st.R.At(id)[link])
			}
			o.runSet.Slide(o.set, o.run, sl.st, recs[:len(ids)], ids, sl.end, false)
			o.forget(recs[:len(ids)])
			return nil
		})
	}
	o.removeFirst(n)
	o.after(end)
	return nil
}

// forget removes groups of the running aggregate that no slice has any more. It is slices that count, and not rows: one
// whose rows of a group were all taken back still knows where the group is.
func (o *Agg) forget(recs []uint32) {
	link := o.l.Words()
	for k, r := range recs {
		slices := &o.run.R.At(r)[link]
		if *slices--; *slices == 0 {
			o.run.Drop(recs[k : k+1])
			o.run.T.Delete(r)
		}
	}
}

// anySpilled reports whether a slice is on disk in part that the window that ends at end may have.
func (o *Agg) anySpilled(end int64) bool {
	for _, sl := range o.list {
		if sl.end > end {
			return false
		}
		if sl.spilled() {
			return true
		}
	}
	return false
}

// fireMerged merges the slices of a window from scratch: the newest first, as Flink does, but in
// the order of time where results are lists.
func (o *Agg) fireMerged(end, stamp int64) error {
	parts := o.taken[:0]
	for _, sl := range o.list {
		if sl.end > end {
			break
		}
		if o.wanted(sl, end) {
			parts = append(parts, sl)
		}
	}
	o.taken = parts
	if o.anySpilled(end) || o.tight(parts) {
		if !o.set.Listed() {
			slices.Reverse(parts)
		}
		if err := o.emitSwept(parts, o.start(end), end, stamp); err != nil {
			return err
		}
	} else if len(parts) == 1 {
		if err := o.emitter.emit(o.set, parts[0].st, o.start(end), end, stamp, o.n.InputRetracts); err != nil {
			return err
		}
	} else {
		if o.scratch == nil {
			o.scratch = o.set.NewStore(o.mem, o.l, o.extra)
		}
		if !o.set.Listed() {
			slices.Reverse(parts)
		}
		for _, sl := range parts {
			o.merge(o.scratch, sl.st)
		}
		if err := o.emitter.emit(o.set, o.scratch, o.start(end), end, stamp, o.n.InputRetracts); err != nil {
			return err
		}
		o.scratch.Reset()
	}
	n := 0
	for n < len(o.list) && o.list[n].start < end+o.step-o.size {
		n++
	}
	o.removeFirst(n)
	o.after(end)
	return nil
}

// tight reports whether there is no memory for all distinct values of some slices in one place besides.
func (o *Agg) tight(list []*slice) bool {
	if o.spill.whole == nil || !o.set.HasValues() || len(list) < 2 {
		return false
	}
	n := int64(0)
	for _, sl := range list {
		held, _ := sl.st.ValueWeight()
		n += held
	}
	return o.ctx.Budget.Used()+n > o.ctx.Budget.Limit()
}

func (o *Agg) merge(dst, src *agg.Store) {
	var ids, recs [block]uint32
	_ = eachBlock(src, &ids, func(ids []uint32) error {
		dst.T.UpsertFrom(src.T, ids, recs[:len(ids)])
		o.set.Merge(dst, src, recs[:len(ids)], ids)
		return nil
	})
}

// fireCumulate merges new slices into the running aggregate and emits it; it starts again when
// its last window has fired.
func (o *Agg) fireCumulate(end, stamp int64) error {
	o.runTo(o.start(end))
	if o.run.T.Spilled() || o.anySpilled(end) {
		return o.fireCumulateSwept(end, stamp)
	}
	n := 0
	for n < len(o.list) && o.list[n].end <= end {
		n++
	}
	kept := 0
	for _, sl := range o.list[:n] {
		if !o.wanted(sl, end) {
			o.list[kept] = sl
			kept++
			continue
		}
		o.merge(o.run, sl.st)
		if sl.ran {
			o.runSaved.join(&sl.saved)
		}
		o.done(sl)
	}
	copy(o.list[n-kept:n], o.list[:kept])
	o.cut(n - kept)
	start := o.runStart
	if err := o.emitter.emit(o.set, o.run, start, end, stamp, o.n.InputRetracts); err != nil {
		return err
	}
	if end < start+o.size {
		o.next = end + o.step
		return nil
	}
	o.resetRun(false)
	o.after(end)
	return nil
}

// fireCumulateSwept emits the window that ends at end, of which slices are on disk in part. They stay
// as they are until the last window that has them.
func (o *Agg) fireCumulateSwept(end, stamp int64) error {
	parts := o.taken[:0]
	if o.run.R.Len() > 0 || o.run.T.Spilled() {
		parts = append(parts, &slice{start: o.runStart, st: o.run, ran: true, saved: o.runSaved})
	}
	for _, sl := range o.list {
		if sl.end <= end && o.wanted(sl, end) {
			parts = append(parts, sl)
		}
	}
	o.taken = parts
	if err := o.emitSwept(parts, o.runStart, end, stamp); err != nil {
		return err
	}
	if end < o.runStart+o.size {
		o.next = end + o.step
		return nil
	}
	o.list = slices.DeleteFunc(o.list, func(sl *slice) bool {
		if sl.end > end || !o.wanted(sl, end) {
			return false
		}
		if sl.ran {
			o.runSaved.join(&sl.saved)
		}
		o.done(sl)
		return true
	})
	o.resetRun(true)
	o.after(end)
	return nil
}

// resetRun empties the running aggregate of a cumulate; more says that others were saved in its place.
func (o *Agg) resetRun(more bool) {
	if o.save != nil {
		o.save.remove(o.runState(), appendTime(nil, o.runStart), o.run, more || o.run.T.Spilled(), &o.runSaved)
	}
	o.run.Reset()
}

// emitter writes results of windows.
type emitter struct {
	n      *plan.WindowAgg
	zone   *zone
	out    op.Output
	batch  *vec.Batch
	stamps []int64
	ids    [block]uint32
	live   [block]uint32
}

func (e *emitter) init(n *plan.WindowAgg, z *zone, out op.Output) {
	e.n, e.zone, e.out = n, z, out
	e.stamps = make([]int64, block)
}

// emit writes the groups of a window; with skip those without rows are left out. A group with more
// rows taken back than came is not one of them: Flink shows it.
func (e *emitter) emit(set *agg.Set, st *agg.Store, start, end, stamp int64, skip bool) error {
	e.stamp(stamp)
	return eachBlock(st, &e.ids, func(ids []uint32) error { return e.some(set, st, ids, start, end, skip) })
}

// stamp says what the rows that are emitted next are stamped with.
func (e *emitter) stamp(stamp int64) {
	for i := range e.stamps {
		e.stamps[i] = stamp
	}
}

// some writes a block of the groups of a window.
func (e *emitter) some(set *agg.Set, st *agg.Store, ids []uint32, start, end int64, skip bool) error {
	if skip {
		n := 0
		for _, id := range ids {
			if set.RowCount(st, id) != 0 {
				e.live[n] = id
				n++
			}
		}
		ids = e.live[:n]
	}
	if len(ids) == 0 {
		return nil
	}
	if err := e.rows(set, st, ids, start, end); err != nil {
		return err
	}
	return e.out.Emit(e.batch)
}

func (e *emitter) rows(set *agg.Set, st *agg.Store, ids []uint32, start, end int64) error {
	b := e.batch
	b.Reset(len(ids))
	b.Stamps = e.stamps[:len(ids)]
	for i := range e.n.Keys {
		st.T.KeyColumn(i, ids, b.Cols[i], 0)
	}
	nk := len(e.n.Keys)
	if err := set.Emit(st, ids, b.Cols[nk:], 0); err != nil {
		return err
	}
	for i, p := range e.n.Props {
		v := b.Cols[nk+len(e.n.Aggs)+i]
		switch p {
		case plan.WindowReason:
			for k := range ids {
				v.SetString(k, plan.ReasonOnTime)
			}
		case plan.WindowCount:
			for k, id := range ids {
				v.I64[k] = set.RowCount(st, id)
			}
		default:
			writeProp(v, p, start, end, e.zone, 0, len(ids))
		}
	}
	return nil
}

// writeProp fills n values of a column with a time of a window.
func writeProp(v *vec.Vec, p plan.WindowProp, start, end int64, z *zone, at, n int) {
	x := end
	switch p {
	case plan.WindowStart:
		x = start
	case plan.WindowTime, plan.WindowProcTime:
		x = end - 1
	}
	if v.Type.Kind == types.TimestampLTZ {
		x = z.instant(x)
	}
	for i := at; i < at+n; i++ {
		if v.Phys == types.PI128 {
			v.I128[i] = types.TS(x, 0)
		} else {
			v.I64[i] = x
		}
	}
}

var _ op.ProcTimer = (*Agg)(nil)
