package window

import (
	"slices"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Emitting aggregates windows that show results before they end, or correct them after that
// (table.exec.emit.*), or tell what caused them: a changelog in which each emission of a key and window
// replaces the one before. Windows do not share slices here, as each has an end of its own until which
// it is open.
//
//	early    with each batch (delay 0), at every full delay of processing time, or whenever a key of the
//	         window got so many rows since it was shown
//	on time  when the watermark reaches the window's last millisecond
//	late     as early, for rows that come after that and within the allowed lateness; with each
//	         batch where neither a delay nor a number of rows is set
//
// Results by the watermark are a function of the rows and their stamps. So are those by a number of rows,
// for a key, however the rows are cut into batches, but for rows that came after the end of their window
// in the batch that reached it, which count as early. Results with each batch or by the clock depend on
// the cut and on the time, but for the last one of a window.
//
// A result that equals the one shown before is not shown again, whatever its count and cause: those go
// on until the next one that is shown. State: a store a window, whose records have, after the key, a Ref
// to the result shown last (see shower); where rows are counted, the number of them since it was shown; and
// where causes are told, a Ref to those since. Groups may be on disk only (state.Spill), but for those with
// distinct values; a group whose result is shown for the first time has to be written again, so a window
// that stays open for late rows is in memory as a whole after it was shown on time, until it has been
// written.
type Emitting struct {
	n    *plan.WindowAgg
	inS  types.Schema
	ctx  *op.Context
	mem  *state.Memory
	zone *zone
	shape
	emission
	set    *agg.Set
	l      *state.Layout
	enc    *state.Encoder
	open   []*opened // by end, then start
	pool   []*agg.Store
	show   *shower
	shown  *state.Blob
	causes *causes // nil: not told
	lates  *lateRows
	wm     int64

	// sinceAt and causeAt are where records have these words, 0: nowhere; extra words come before the
	// accumulators.
	sinceAt, causeAt, extra int

	keyCols []*vec.Vec
	zoned   []int64
	kept    []int32
	recs    []uint32
	neg     []bool
	active  []*opened
	waiting []uint32 // records of the window at hand that are to be shown for the rows they got
	input   agg.Input
	ids     [block]uint32
	changed []uint32 // records whose result was shown
	save    *saver
	codec   emittingCodec
	prefix  []byte
	spill   *state.Spill // what groups go to; nil: they stay in memory
	adds    int64        // about how many bytes of state a row adds at most
	closing bool         // results that are shown need not be remembered
}

// emission says when results are shown besides on time.
type emission struct {
	earlyMs, lateMs     int64 // -1: off, 0: with each batch
	earlyRows, lateRows int64 // 0: off
	lateness            int64 // for how long after it is over a window is corrected
	lag                 int64 // by how much it is over later than its last millisecond
	early, late         int64 // when the next results by processing time are due, or never
}

func newEmission(n *plan.WindowAgg) emission {
	e := emission{earlyMs: -1, lateMs: -1, early: never, late: never}
	if n.FinalOnly {
		e.lag = lagOf(n)
		return e
	}
	e.earlyMs, e.earlyRows, e.lateness = n.EarlyFireMs, n.EarlyFireRows, n.AllowedLatenessMs
	if e.lateMs, e.lateRows = n.LateFireMs, n.LateFireRows; e.lateMs < 0 && e.lateRows == 0 {
		e.lateMs = 0
	}
	return e
}

// delay is after how much processing time a changed result is shown: -1 not by time, 0 with the batch.
func (e *emission) delay(fired bool) int64 {
	if fired {
		return e.lateMs
	}
	return e.earlyMs
}

// every is after how many rows a result is shown, 0: any number.
func (e *emission) every(fired bool) int64 {
	if fired {
		return e.lateRows
	}
	return e.earlyRows
}

// set sets the clock for results that have changed at now.
func (e *emission) setClock(fired bool, now int64) {
	clock := &e.early
	if fired {
		clock = &e.late
	}
	if d := e.delay(fired); *clock == never {
		*clock = now - now%d + d
	}
}

// clocked reports whether some results are shown by processing time.
func (e *emission) clocked() bool { return e.earlyMs > 0 || e.lateMs > 0 }

// reasonOf is why a result is shown that is not on time.
func reasonOf(fired bool) string {
	if fired {
		return plan.ReasonLate
	}
	return plan.ReasonEarly
}

// opened is a window with rows.
type opened struct {
	start, end int64
	timer      int64 // the instant at which it is over
	fired      bool
	st         *agg.Store
	rows, sub  []int32
	// touched are the records changed since the last emission, which have FlagMark; some may have been
	// shown since, and are in it again if they changed again. Once some are on
	// disk only it does not count: marked says that there may be some.
	touched []uint32
	marked  bool
	saved   entries
}

func newEmitting(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	o := &Emitting{n: n, inS: in, wm: vec.MinTime, emission: newEmission(n), show: newShower(n, out), extra: 1}
	var err error
	if n.Attached {
		o.kind = plan.Tumble
	} else if o.shape, err = newShape(&n.Window); err != nil {
		return nil, err
	}
	if o.set, err = agg.New(n.Aggs, in, agg.Options{Retract: n.InputRetracts, CountRows: true,
		Owned: n.InputRetracts, Unmerged: true, Spills: true}); err != nil {
		return nil, err
	}
	return o, nil
}

// Open implements op.Operator.
func (o *Emitting) Open(c *op.Context, out op.Output) (err error) {
	o.ctx = c
	if o.zone, err = newZone(o.n.Window.Zone); err != nil {
		return err
	}
	o.mem = c.Budget.NewMemory()
	o.l = state.NewLayout(keyTypes(o.inS, o.n.Keys), false)
	o.enc = state.NewEncoder(o.l)
	o.show.zone, o.show.out = o.zone, out
	if o.earlyRows > 0 || o.lateRows > 0 {
		o.sinceAt = o.l.Words() + o.extra
		o.extra++
	}
	if has(o.n, plan.WindowCause) {
		o.causeAt = o.l.Words() + o.extra
		o.extra++
		o.causes = newCauses(o.mem)
	}
	o.set.Bind(o.l.Words() + o.extra)
	if o.save = newSaver(c, o.set); o.save != nil && (len(o.n.Keys) > 0 || o.set.HasValues()) {
		o.spill = c.Spill
	}
	o.adds = o.rowAdds()
	o.shown = state.NewBlob(o.mem)
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	o.lates = newLateRows(c, o.n, o.inS)
	return nil
}

// rowAdds is about how many bytes of state a row adds at most: to the tables of each of its windows, with indexes.
func (o *Emitting) rowAdds() int64 {
	const entry = 128
	windows := int64(1)
	if o.shape.step > 0 {
		windows = max(1, (o.lastEnd(0)-o.firstEnd(0))/o.step+1)
	}
	return windows * int64(1+len(o.set.ValueSpecs(nil))) * entry
}

// Process implements op.Operator.
func (o *Emitting) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	if len(rows) == 0 {
		return nil
	}
	for n := o.most(len(rows)); ; {
		if n = min(n, len(rows)); n == 0 {
			return nil
		}
		if err := o.process(b, rows[:n]); err != nil {
			return err
		}
		if rows = rows[n:]; len(rows) > 0 {
			if err := o.ctx.Room(); err != nil {
				return err
			}
		}
	}
}

const (
	// fewestRows is how many rows are taken at a time at least: what is done once for them is done for each window.
	fewestRows = 64
	// leastRoom is how many bytes rows that are taken at a time may add, however small the budget is: changes go to the
	// store in one piece, and small ones cost most.
	leastRoom = 4 << 20
)

// most is how many of n rows are taken at a time: a row that is in many windows may add a group, and a value to each of
// some sets, in all of them, and nothing of that leaves memory before room is made.
func (o *Emitting) most(n int) int {
	if o.spill == nil || o.ctx.Room == nil || o.ctx.Budget == nil {
		return n
	}
	limit := o.ctx.Budget.Limit()
	left := max(limit/8, limit/2-o.ctx.Budget.Used(), leastRoom)
	return max(fewestRows, int(min(int64(n), left/o.adds)))
}

// process is Process of some rows of a batch.
func (o *Emitting) process(b *vec.Batch, rows []int32) error {
	if err := o.assign(b, rows); err != nil {
		return err
	}
	if err := o.lates.tell(b); err != nil || len(o.kept) == 0 {
		return err
	}
	for i, k := range o.n.Keys {
		o.keyCols[i] = b.Cols[k]
	}
	o.enc.Encode(o.keyCols, o.kept, nil)
	o.show.stamp = o.wm // not that of a row: what the next watermark shows must not be stamped with less
	for _, w := range o.active {
		if err := o.add(b, w); err != nil {
			return err
		}
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
		any, err := o.place(b, r, times, starts, stamp)
		if err != nil {
			return err
		}
		if !any {
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
func (o *Emitting) place(b *vec.Batch, r int32, times, starts []int64, stamp int64) (any bool, err error) {
	t := times[r]
	if o.n.Attached {
		start := t
		if starts != nil {
			start = starts[r]
		}
		any, err = o.put(b, r, start, t, stamp)
	} else {
		any, err = o.putAll(b, r, o.sliceEnd(t), stamp)
	}
	if any {
		o.kept = append(o.kept, r)
	}
	return any, err
}

// putAll lists row r in the windows of the slice that ends at slice, unless it is late for them.
func (o *Emitting) putAll(b *vec.Batch, r int32, slice, stamp int64) (any bool, err error) {
	end, last := o.firstEnd(slice), o.lastEnd(slice)
	if o.zone == nil && end <= last {
		// Those that it is late for come first, and are over as long after one another as they end.
		if first := o.closes(end); first <= stamp {
			n := (min(stamp, o.closes(last))-first)/o.step + 1
			if err := o.lates.miss(b, r, n, o.start(end), end, first, stamp); err != nil {
				return false, err
			}
			end += n * o.step
		}
	}
	for ; end <= last && err == nil; end += o.step {
		var in bool
		in, err = o.put(b, r, o.start(end), end, stamp)
		any = any || in
	}
	return any, err
}

// put lists row r in a window, unless it is late for it.
func (o *Emitting) put(b *vec.Batch, r int32, start, end, stamp int64) (bool, error) {
	if closes := o.closes(end); closes <= stamp {
		return false, o.lates.miss(b, r, 1, start, end, closes, stamp)
	}
	w := o.find(start, end)
	if len(w.rows) == 0 {
		o.active = append(o.active, w)
	}
	w.rows = append(w.rows, r)
	w.sub = append(w.sub, int32(len(o.kept)))
	return true, nil
}

// closes is the instant from which on the window that ends at end takes no rows.
func (o *Emitting) closes(end int64) int64 { return o.over(end) + o.lateness }

// over is the instant at which the window that ends at end is shown on time.
func (o *Emitting) over(end int64) int64 { return o.zone.timer(end-1) + o.lag }

func (o *Emitting) find(start, end int64) *opened {
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
	timer := o.over(end)
	w := &opened{start: start, end: end, timer: timer, fired: timer <= o.wm}
	if n := len(o.pool); n > 0 {
		w.st = o.pool[n-1]
		o.pool = o.pool[:n-1]
	} else {
		w.st = o.set.NewStore(o.mem, o.l, o.extra)
		if o.save != nil {
			w.st.Track()
		}
	}
	o.spillTo(w)
	o.open = slices.Insert(o.open, i, w)
	return w
}
