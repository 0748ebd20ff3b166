package window

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Emitting aggregates windows that show results before they end, or correct them after that
// (table.exec.emit.*): a changelog in which each emission of a key and window replaces the one
// before. Windows do not share slices here, as each has an end of its own until which it is open.
//
//	early  with each batch (delay 0) or at every full delay of processing time
//	on time  when the watermark reaches the window's last millisecond
//	late   as early, for rows that come after that and within the allowed lateness; with each
//	       batch where no delay is set
//
// A result that equals the one shown before is not shown again. State: a store a window, with a
// Ref in each record to the result shown last, as state.AppendValue of its columns. Groups may be on
// disk only (state.Spill), but for those with distinct values; a group whose result is shown for the
// first time has to be written again, so a window that stays open for late rows is in memory as a
// whole after it was shown on time, until it has been written.
type Emitting struct {
	n    *plan.WindowAgg
	inS  types.Schema
	ctx  *op.Context
	out  op.Output
	mem  *state.Memory
	zone *zone
	shape
	set   *agg.Set
	l     *state.Layout
	enc   *state.Encoder
	open  []*opened // by end, then start
	pool  []*agg.Store
	shown *state.Blob
	wm    int64

	early, late int64 // when the next emission by processing time is due, or never
	keyCols     []*vec.Vec
	zoned       []int64
	kept        []int32
	recs        []uint32
	neg         []bool
	active      []*opened
	input       agg.Input
	results     *vec.Batch
	batch       *vec.Batch
	row         []byte
	stamp       int64
	ids         [block]uint32
	changed     []uint32 // records whose result was shown
	save        *saver
	codec       emittingCodec
	prefix      []byte
	spill       *state.Spill // what groups go to; nil: they stay in memory
	closing     bool         // results that are shown need not be remembered
}

// opened is a window with rows.
type opened struct {
	start, end int64
	timer      int64 // the instant at which it is over
	fired      bool
	st         *agg.Store
	rows, sub  []int32
	// touched are the records changed since the last emission, which have FlagMark. Once some are on
	// disk only it does not count: marked says that there may be some.
	touched []uint32
	marked  bool
	saved   entries
}

func newEmitting(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	if n.Phase != plan.SinglePhase {
		return nil, fmt.Errorf("BUG: windows with early or late results in two phases")
	}
	o := &Emitting{n: n, inS: in, wm: vec.MinTime, early: never, late: never}
	var err error
	if n.Attached {
		o.kind = plan.Tumble
	} else if o.shape, err = newShape(&n.Window); err != nil {
		return nil, err
	}
	if o.set, err = agg.New(n.Aggs, in, agg.Options{Retract: n.InputRetracts, CountRows: true}); err != nil {
		return nil, err
	}
	o.results, o.batch = vec.NewBatch(out), vec.NewBatch(out)
	return o, nil
}

// Open implements op.Operator.
func (o *Emitting) Open(c *op.Context, out op.Output) (err error) {
	o.ctx, o.out = c, out
	if o.zone, err = newZone(o.n.Window.Zone); err != nil {
		return err
	}
	o.mem = c.Budget.NewMemory()
	o.l = state.NewLayout(keyTypes(o.inS, o.n.Keys), false)
	o.enc = state.NewEncoder(o.l)
	o.set.Bind(o.l.Words() + 1)
	if o.save = newSaver(c, o.set); o.save != nil && len(o.n.Keys) > 0 && !o.set.HasValues() {
		o.spill = c.Spill
	}
	o.shown = state.NewBlob(o.mem)
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	return nil
}

// Process implements op.Operator.
func (o *Emitting) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	if len(rows) == 0 {
		return nil
	}
	if err := o.assign(b, rows); err != nil {
		return err
	}
	if len(o.kept) == 0 {
		return nil
	}
	for i, k := range o.n.Keys {
		o.keyCols[i] = b.Cols[k]
	}
	o.enc.Encode(o.keyCols, o.kept, nil)
	for _, w := range o.active {
		o.add(b, w)
	}
	o.stamp = o.wm
	if b.Stamps != nil {
		o.stamp = b.Stamps[rows[len(rows)-1]]
	}
	return o.afterRows()
}

func (o *Emitting) assign(b *vec.Batch, rows []int32) error {
	col := o.n.Window.TimeCol
	if o.n.Attached {
		col = o.n.EndCol
	}
	var times []int64
	var valid vec.Bitmap
	if o.n.Window.ProcTime {
		now := o.zone.local(o.ctx.Now())
		o.zoned = sized(o.zoned, b.N)
		for _, r := range rows {
			o.zoned[r] = now
		}
		times = o.zoned
	} else {
		var err error
		if times, valid, err = localTimes(b.Cols[col], rows, b.N, o.zone, o.n.Attached, &o.zoned); err != nil {
			return err
		}
	}
	var starts []int64
	if o.n.Attached && o.n.StartCol >= 0 {
		var tmp []int64
		var err error
		if starts, _, err = localTimes(b.Cols[o.n.StartCol], rows, b.N, nil, true, &tmp); err != nil {
			return err
		}
	}
	o.kept, o.active = o.kept[:0], o.active[:0]
	late, null, used := 0, 0, 0
	for _, r := range rows {
		if valid != nil && !valid.Get(int(r)) {
			null++
			continue
		}
		stamp := o.wm
		if b.Stamps != nil && !o.n.Window.ProcTime {
			stamp = b.Stamps[r]
		}
		if !o.place(r, times, starts, stamp) {
			late++
			continue
		}
		used++
	}
	if o.ctx.Counters != nil {
		o.ctx.Counters.Used.Add(int64(used))
		o.ctx.Counters.Drop(op.DropLate, late)
		o.ctx.Counters.Drop(op.DropNullTime, null)
	}
	return nil
}

// place lists row r in all its windows that are still open at the watermark stamp, and reports
// whether there is one.
func (o *Emitting) place(r int32, times, starts []int64, stamp int64) bool {
	any := false
	put := func(start, end int64) {
		timer := o.zone.timer(end - 1)
		if timer+o.n.AllowedLatenessMs <= stamp {
			return
		}
		w := o.find(start, end, timer)
		if len(w.rows) == 0 {
			o.active = append(o.active, w)
		}
		w.rows = append(w.rows, r)
		w.sub = append(w.sub, int32(len(o.kept)))
		any = true
	}
	t := times[r]
	if o.n.Attached {
		start := t
		if starts != nil {
			start = starts[r]
		}
		put(start, t)
	} else {
		slice := o.sliceEnd(t)
		last := o.lastEnd(slice)
		for end := o.firstEnd(slice); end <= last; end += o.step {
			put(o.start(end), end)
		}
	}
	if any {
		o.kept = append(o.kept, r)
	}
	return any
}

func (o *Emitting) find(start, end, timer int64) *opened {
	i, ok := slices.BinarySearchFunc(o.open, opened{start: start, end: end}, func(a *opened, b opened) int {
		switch {
		case a.end < b.end || a.end == b.end && a.start < b.start:
			return -1
		case a.end == b.end && a.start == b.start:
			return 0
		}
		return 1
	})
	if ok {
		return o.open[i]
	}
	w := &opened{start: start, end: end, timer: timer, fired: timer <= o.wm}
	if n := len(o.pool); n > 0 {
		w.st = o.pool[n-1]
		o.pool = o.pool[:n-1]
	} else {
		w.st = o.set.NewStore(o.mem, o.l, 1)
		if o.save != nil {
			w.st.Track()
		}
	}
	o.spillTo(w)
	o.open = slices.Insert(o.open, i, w)
	return w
}

func (o *Emitting) add(b *vec.Batch, w *opened) {
	o.recs = sized(o.recs, len(w.rows))
	w.st.T.Upsert(o.enc, w.sub, o.recs)
	in := &o.input
	*in = agg.Input{Cols: b.Cols, Rows: w.rows, Recs: o.recs}
	if b.Kinds != nil && o.n.InputRetracts {
		o.neg = sized(o.neg, len(w.rows))
		for k, r := range w.rows {
			o.neg[k] = b.Kinds[r].Retracts()
		}
		in.Neg = o.neg
	}
	o.set.Add(w.st, in)
	for _, r := range o.recs {
		if p := &w.st.R.At(r)[0]; *p&state.FlagMark == 0 {
			*p |= state.FlagMark
			w.touched = append(w.touched, r)
		}
	}
	w.marked = true
	w.rows, w.sub = w.rows[:0], w.sub[:0]
}

// afterRows emits what is to be shown with each batch, and sets the clock for the rest.
func (o *Emitting) afterRows() error {
	now := int64(0)
	if o.n.EarlyFireMs > 0 || o.n.LateFireMs > 0 {
		now = o.ctx.Now()
	}
	for _, w := range o.active {
		delay := o.n.EarlyFireMs
		clock := &o.early
		if w.fired {
			clock = &o.late
			if delay = o.n.LateFireMs; delay < 0 {
				delay = 0
			}
		}
		switch {
		case delay == 0:
			if err := o.show(w, w.touched); err != nil {
				return err
			}
		case delay > 0 && *clock == never:
			*clock = now - now%delay + delay
		}
		if w.st.T.Spilled() {
			w.touched = w.touched[:0]
		}
	}
	o.count()
	return nil
}

// showMarked emits the results of the groups of w that have changed since the last emission.
func (o *Emitting) showMarked(w *opened) error {
	if !w.st.T.Spilled() {
		return o.show(w, w.touched)
	}
	return o.sweep(w, func(ids []uint32) error {
		n := 0
		for _, r := range ids {
			if w.st.R.At(r)[0]&state.FlagMark != 0 {
				ids[n] = r
				n++
			}
		}
		return o.showSome(w, ids[:n])
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

// show emits the results of recs, all records of w that have changed, that differ from those shown
// before.
func (o *Emitting) show(w *opened, recs []uint32) error {
	defer func() { w.touched, w.marked = w.touched[:0], false }()
	for len(recs) > 0 {
		n := min(len(recs), block)
		if err := o.showSome(w, recs[:n]); err != nil {
			return err
		}
		recs = recs[n:]
	}
	return nil
}

func (o *Emitting) showSome(w *opened, recs []uint32) error {
	if len(recs) == 0 {
		return nil
	}
	res, nk := o.results, len(o.n.Keys)
	res.Reset(len(recs))
	for i := range o.n.Keys {
		w.st.T.KeyColumn(i, recs, res.Cols[i], 0)
	}
	if err := o.set.Emit(w.st, recs, res.Cols[nk:], 0); err != nil {
		return err
	}
	for i, p := range o.n.Props {
		writeProp(res.Cols[nk+len(o.n.Aggs)+i], p, w.start, w.end, o.zone, 0, len(recs))
	}
	out := o.batch
	out.Reset(0)
	o.changed = o.changed[:0]
	for k, r := range recs {
		words := w.st.R.At(r)
		if words[0]&state.FlagMark != 0 {
			words[0] &^= state.FlagMark
			o.changed = append(o.changed, r)
		}
		ref := &words[o.l.Words()]
		old := o.shown.Get(state.Ref(*ref))
		if o.set.RowCount(w.st, r) == 0 {
			if old != nil {
				o.emit(res, k, types.Delete, old)
				o.shown.Free(state.Ref(*ref))
				*ref = 0
			}
			continue
		}
		o.row = o.row[:0]
		for _, c := range res.Cols[nk : nk+len(o.n.Aggs)] {
			o.row = state.AppendValue(o.row, c, k)
		}
		switch {
		case old == nil:
			o.emit(res, k, types.Insert, nil)
		case bytes.Equal(old, o.row):
			continue
		default:
			o.emit(res, k, types.UpdateBefore, old)
			o.emit(res, k, types.UpdateAfter, nil)
		}
		if o.closing {
			continue
		}
		// A set without aggregates has results of no bytes, which must still say that they are.
		*ref = uint64(o.shown.Set(state.Ref(*ref), o.row))
	}
	if !o.closing {
		w.st.T.Touch(o.changed)
	}
	if out.N == 0 {
		return nil
	}
	return o.out.Emit(out)
}

// emit appends row k of res; with old, its aggregates are those encoded there.
func (o *Emitting) emit(res *vec.Batch, k int, kind types.RowKind, old []byte) {
	out, nk := o.batch, len(o.n.Keys)
	for i, c := range out.Cols {
		c.Resize(out.N + 1)
		if old != nil && i >= nk && i < nk+len(o.n.Aggs) {
			old = state.DecodeValue(old, c, out.N)
		} else {
			c.Set(out.N, res.Cols[i], k)
		}
	}
	out.N++
	out.Kinds = append(out.Kinds, kind)
	out.Stamps = append(out.Stamps, o.stamp)
}

// Watermark implements op.Operator.
func (o *Emitting) Watermark(wm int64) error {
	if !o.n.Window.ProcTime {
		if err := o.advance(wm); err != nil {
			return err
		}
	}
	return o.out.Watermark(wm)
}

// advance shows the windows that are over at wm and closes those that take no more late rows.
func (o *Emitting) advance(wm int64) error {
	if wm < o.wm {
		return nil
	}
	o.stamp = o.wm
	kept := o.open[:0]
	var err error
	for _, w := range o.open {
		o.closing = wm == vec.MaxTime || w.timer+o.n.AllowedLatenessMs <= wm
		if err == nil && !w.fired && w.timer <= wm {
			w.fired = true
			err = o.sweep(w, func(ids []uint32) error { return o.showSome(w, ids) })
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
			o.shown.Free(state.Ref(w.st.R.At(r)[o.l.Words()]))
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
		o.stamp = o.wm
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
