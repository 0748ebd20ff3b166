package window

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Agg aggregates aligned windows, or windows that came with the rows, in a single phase or as the
// global one of two.
type Agg struct {
	n    *plan.WindowAgg
	inS  types.Schema
	ctx  *op.Context
	out  op.Output
	mem  *state.Memory
	zone *zone
	shape
	set *agg.Set
	sliceList
	fire func(end int64, stamp int64) error // of windows made of several slices
	next int64                              // end of the first such window that has rows and has not fired

	run      *agg.Store // the running aggregate of a hop (of set runSet) or cumulate
	runSet   *agg.Set
	runStart int64   // cumulate: the start of its windows
	runSaved entries // cumulate
	scratch  *agg.Store

	wm      int64 // the watermark, or processing time
	lag     int64 // by how much windows are over later than their last millisecond
	lates   *lateRows
	minDue  int64 // tumble: the first instant at which a window is over
	past    *past // where the operator goes on from; nil if from nothing
	levels  levels
	held    held
	spill   spilling
	zoned   []int64
	enc     *state.Encoder
	keyCols []*vec.Vec
	places  places
	kept    int // rows of the batch at hand that are in slices
	active  []*slice
	taken   []*slice // by the window that fires
	recs    []uint32
	neg     []bool
	input   agg.Input
	emitter emitter
	sweeper sweeper

	parts    *agg.Store // accumulators from the local phase
	partSet  *agg.Set
	partRecs []uint32
}

// NewAgg builds the window aggregation n over rows of schema in, which emits rows of schema out:
// keys, aggregates, properties. In the local phase out is the keys, the packed accumulators
// (BYTES) and the end of the slice (BIGINT, local ms); the global phase reads these columns.
//
// Windows that show nothing before or after they are over share slices, also where that is later than
// their end (FinalOnly); others, and those that tell what caused a result, are kept apart.
func NewAgg(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	emits := corrects(n) || has(n, plan.WindowCause)
	switch {
	case n.Phase != plan.SinglePhase && (emits || lagOf(n) > 0 || has(n, plan.WindowCount)):
		return nil, errors.New("BUG: windows with early, late or final results, counts or causes in two phases")
	case n.Window.Kind == plan.Session && !n.Attached && emits:
		return newSessions(n, in, out)
	case n.Window.Kind == plan.Session && !n.Attached:
		return newSession(n, in, out)
	case emits:
		return newEmitting(n, in, out)
	case n.Phase == plan.LocalPhase:
		return newLocal(n, in, out)
	}
	return newAgg(n, in, out)
}

// corrects reports whether results are shown before their window is over, or corrected after that.
func corrects(n *plan.WindowAgg) bool {
	return !n.FinalOnly && (n.AllowedLatenessMs > 0 || n.EarlyFireMs >= 0 || n.LateFireMs >= 0 ||
		n.EarlyFireRows > 0 || n.LateFireRows > 0)
}

// lagOf is by how much later than its last millisecond a window is over: where only final results are
// wanted, it is open for late rows until then, and shown after that.
func lagOf(n *plan.WindowAgg) int64 {
	if n.FinalOnly && !n.Window.ProcTime {
		return n.AllowedLatenessMs
	}
	return 0
}

// has reports whether n emits a property.
func has(n *plan.WindowAgg, p plan.WindowProp) bool { return slices.Contains(n.Props, p) }

func newAgg(n *plan.WindowAgg, in, out types.Schema) (*Agg, error) {
	o := &Agg{n: n, inS: in, next: never, minDue: never, wm: vec.MinTime}
	o.levels.start(vec.MinTime, nil)
	if n.Attached {
		o.kind = plan.Tumble
	} else {
		var err error
		if o.shape, err = newShape(&n.Window); err != nil {
			return nil, err
		}
	}
	o.lag = lagOf(n)
	opt := agg.Options{Retract: n.InputRetracts, Owned: o.kind != plan.Tumble, CountRows: has(n, plan.WindowCount)}
	if n.Phase == plan.GlobalPhase {
		in = agg.PhaseSchema(n.Aggs, n.ArgSchema)
	}
	var err error
	if o.set, err = agg.New(n.Aggs, in, opt); err != nil {
		return nil, err
	}
	if o.kind == plan.Tumble && o.set.HasValues() && !o.set.Splits() {
		opt.Spills, opt.Owned, opt.Unmerged = true, n.InputRetracts, true
		if o.set, err = agg.New(n.Aggs, in, opt); err != nil {
			return nil, err
		}
	}
	o.sliceList.set = o.set
	switch o.kind {
	case plan.Hop:
		o.fire = o.fireMerged
		// The running aggregate needs the number of rows of a key, and so do the slices.
		counted := opt
		counted.CountRows = true
		set, err := agg.New(n.Aggs, in, counted)
		if err != nil {
			return nil, err
		}
		if w, ok := set.CanSlide(n.Aggs, in); ok && o.size > o.width {
			o.set, opt = set, counted
			o.sliceList.set, o.runSet, o.fire, o.extra = set, w, o.fireSliding, 1
		}
	case plan.Cumulate:
		o.fire, o.runSet = o.fireCumulate, o.set
	}
	if n.Phase == plan.GlobalPhase {
		if err = o.set.Packable(); err == nil {
			o.partSet, err = agg.New(n.Aggs, in, opt)
		}
		if err != nil {
			return nil, err
		}
	}
	o.held.rows = vec.NewBatch(o.inS)
	o.withStart, o.withPart = n.Attached && n.StartCol >= 0, o.fire != nil
	o.emitter.batch = vec.NewBatch(out)
	return o, nil
}

func keyTypes(in types.Schema, keys []int) []types.Type {
	ts := make([]types.Type, len(keys))
	for i, k := range keys {
		ts[i] = in.Fields[k].Type.WithoutAttr()
	}
	return ts
}

// Open implements op.Operator.
func (o *Agg) Open(c *op.Context, out op.Output) (err error) {
	o.ctx, o.out = c, out
	if o.zone, err = newZone(o.n.Window.Zone); err != nil {
		return err
	}
	o.mem = c.Budget.NewMemory()
	o.sliceList.mem = o.mem
	o.save = newSaver(c, o.set)
	o.openSpill(c.Spill)
	o.l = state.NewLayout(keyTypes(o.inS, o.n.Keys), false)
	o.enc = state.NewEncoder(o.l)
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	// Bind offsets before the first store exists.
	o.set.Bind(o.l.Words() + o.extra)
	if o.runSet != nil {
		o.run = o.runSet.NewStore(o.mem, o.l, o.extra)
		o.set.Bind(o.l.Words() + o.extra)
		if o.save != nil && o.runSaves() {
			o.run.Track()
		}
	}
	if o.partSet != nil {
		o.parts = o.partSet.NewRecords(o.mem, o.l.Words()+o.extra)
	}
	o.emitter.init(o.n, o.zone, out)
	if o.partSet == nil { // else the local phase has told of them
		o.lates = newLateRows(c, o.n, o.inS)
	}
	return nil
}

// Process implements op.Operator.
func (o *Agg) Process(_ int, b *vec.Batch) error {
	if b.Rows() == 0 {
		return nil
	}
	o.spill.batch++
	if err := o.assign(b, b.Selected()); err != nil {
		return err
	}
	if err := o.apply(b); err != nil {
		return err
	}
	if err := o.lates.tell(b); err != nil {
		return err
	}
	if b.Stamps != nil && !o.n.Window.ProcTime {
		o.levels.note(b, b.Selected(), o.due())
	}
	if o.ctx.Counters != nil {
		o.ctx.Counters.StateBytes.Store(o.mem.Bytes())
	}
	return nil
}

// due is the first instant at which something fires.
func (o *Agg) due() int64 {
	if o.fire == nil {
		return o.minDue
	}
	if o.next == never {
		return never
	}
	return o.over(o.next)
}

// times returns the wall-clock time of each position of b, and what is NULL.
func (o *Agg) times(b *vec.Batch, rows []int32) ([]int64, vec.Bitmap, error) {
	if o.partSet != nil {
		// Partial aggregates carry the end of their slice.
		v := b.Cols[len(o.n.Keys)+1]
		o.zoned = sized(o.zoned, b.N)
		for _, r := range rows {
			o.zoned[r] = v.I64[r] - 1
		}
		return o.zoned, nil, nil
	}
	if o.n.Window.ProcTime {
		now := o.zone.local(o.ctx.Now())
		o.zoned = sized(o.zoned, b.N)
		for _, r := range rows {
			o.zoned[r] = now
		}
		return o.zoned, nil, nil
	}
	col := o.n.Window.TimeCol
	if o.n.Attached {
		col = o.n.EndCol
	}
	return localTimes(b.Cols[col], rows, b.N, o.zone, o.n.Attached, &o.zoned)
}

// localTimes returns the times of a column as wall-clock milliseconds.
func localTimes(v *vec.Vec, rows []int32, n int, z *zone, isLocal bool, buf *[]int64) ([]int64, vec.Bitmap, error) {
	convert := z != nil && !isLocal
	switch {
	case v.Phys == types.PI64 && !convert:
		return v.I64, v.Valid, nil
	case v.Phys != types.PI64 && v.Phys != types.PI128:
		return nil, nil, fmt.Errorf("BUG: window time of type %s", v.Type)
	}
	*buf = sized(*buf, n)
	out := *buf
	for _, r := range rows {
		if v.Phys == types.PI64 {
			out[r] = v.I64[r]
		} else {
			out[r] = v.I128[r].Hi
		}
		if convert && (v.Valid == nil || v.Valid.Get(int(r))) {
			out[r] = z.local(out[r])
		}
	}
	return out, v.Valid, nil
}

func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}

// over is the instant at which the window that ends at end is over: from then on it takes no rows.
func (o *Agg) over(end int64) int64 { return o.zone.timer(end-1) + o.lag }

// opened notes when a new slice is first wanted.
func (o *Agg) opened(sl *slice) {
	if o.fire == nil {
		o.minDue = min(o.minDue, sl.first)
		return
	}
	o.next = min(o.next, o.firstAfter(sl.end, o.wm))
}

// firstAfter is the end of the first window of the slice that ends at end that is not over at wm.
func (o *Agg) firstAfter(end, wm int64) int64 {
	end = o.firstEnd(end)
	switch {
	case wm == vec.MaxTime:
		return never
	case o.over(end) > wm:
		return end
	}
	wm -= o.lag
	margin := int64(0) // between local times and instants
	if o.zone != nil {
		margin = 2 * day
	}
	if wm > vec.MinTime+margin && end < wm-margin {
		steps := (uint64(wm-margin) - uint64(end)) / uint64(o.step)
		end += int64(steps * uint64(o.step))
	}
	n := sort.Search(int(2*margin/o.step)+2, func(i int) bool { return o.zone.timer(end+int64(i)*o.step-1) > wm })
	return end + int64(n)*o.step
}

// apply adds the rows that assign has sorted.
func (o *Agg) apply(b *vec.Batch) error {
	if o.kept == 0 {
		return nil
	}
	for i, k := range o.n.Keys {
		o.keyCols[i] = b.Cols[k]
	}
	o.recs = sized(o.recs, o.kept)
	fetches := o.spill.keyed != nil && o.set.HasValues()
	for _, sl := range o.active {
		recs := o.recs[:len(sl.rows)]
		o.enc.Encode(o.keyCols, sl.rows, nil)
		sl.st.T.Upsert(o.enc, nil, recs)
		if fetches {
			sl.st.Fetch(recs)
		}
		o.add(b, sl, sl.rows, recs)
		sl.rows = sl.rows[:0]
	}
	return nil
}

func (o *Agg) add(b *vec.Batch, sl *slice, rows []int32, recs []uint32) {
	if o.parts != nil {
		o.partRecs = o.partSet.Unpack(o.parts, b.Cols[len(o.n.Keys)], rows, o.partRecs)
		mergeParts(o.set, sl.st, o.parts, recs, o.partRecs)
		return
	}
	in := &o.input
	*in = agg.Input{Cols: b.Cols, Rows: rows, Recs: recs, One: len(o.n.Keys) == 0}
	if b.Kinds != nil && o.n.InputRetracts {
		o.neg = sized(o.neg, len(rows))
		for k, r := range rows {
			o.neg[k] = b.Kinds[r].Retracts()
		}
		in.Neg = o.neg
	}
	o.set.Add(sl.st, in)
}

// mergeParts merges partial accumulators into the records recs in their order. A merge takes
// each record once, so those that come again wait for the next round.
func mergeParts(set *agg.Set, st, parts *agg.Store, recs, partRecs []uint32) {
	ch := st.R.Chunks
	at := 0
	clear := func(to int) {
		for _, r := range recs[at:to] {
			ch[r>>state.ChunkBits][r&state.ChunkMask] &^= state.FlagMark
		}
		set.Merge(st, parts, recs[at:to], partRecs[at:to])
		at = to
	}
	for i, r := range recs {
		p := &ch[r>>state.ChunkBits][r&state.ChunkMask]
		if *p&state.FlagMark != 0 {
			clear(i)
		}
		*p |= state.FlagMark
	}
	clear(len(recs))
}

// Finish implements op.Operator.
func (o *Agg) Finish() error {
	// Where there is no event time, or in batch mode, no watermark has ended the windows.
	return o.advance(vec.MaxTime)
}

// Close implements op.Operator.
func (o *Agg) Close() error {
	if o.mem == nil {
		return nil
	}
	o.sliceList.release()
	for _, st := range []*agg.Store{o.run, o.scratch, o.parts} {
		if st != nil {
			st.Release()
		}
	}
	o.sweeper.release()
	if o.spill.whole != nil {
		o.spill.whole.Detach(o)
		o.spill.whole.Hold(o.spill.held, 0)
	}
	o.mem.Close()
	return nil
}

func (o *Agg) count() {
	if c := o.ctx.Counters; c != nil {
		c.StateBytes.Store(o.mem.Bytes())
		n := o.sliceList.entries()
		if o.run != nil {
			n += o.run.Entries()
		}
		c.StateEntries.Store(int64(n))
	}
}
