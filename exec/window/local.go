package window

import (
	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// localKeys is how many groups a local phase holds at most: what stays in the second level
	// of cache.
	localKeys = 1 << 14
	// localDelayMs bounds how long a row waits in a local phase, in processing time.
	localDelayMs = 100
)

// Local is the local phase of a window aggregation in two phases. It judges lateness, adds rows to
// slices, and emits (keys, packed accumulators, end of slice) when a watermark ends a window that
// has the slice, when it holds many groups, and after a while.
//
// What it emits is stamped so that the global phase counts it for the same windows: rows that are
// in time for all windows of their slice with a stamp before the first of these ends, others in a
// slice of their own with a stamp that ends the windows that they are late for.
type Local struct {
	Agg
	since  int64
	ids    [block]uint32
	ends   []*part         // by stamp
	inTime map[int64]*part // those in time for all windows, by their end
	stamps []int64
}

// part is a slice, or the rows of it that are late for its first windows, with the stamp that
// says so.
type part struct {
	slice
	stamp int64 // vec.MinTime: in time for all
}

func newLocal(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	s, err := newShape(&n.Window)
	if err != nil {
		return nil, err
	}
	set, err := agg.New(n.Aggs, agg.PhaseSchema(n.Aggs, n.ArgSchema),
		agg.Options{CountRows: s.kind == plan.Hop && slides(n), Owned: s.kind != plan.Tumble})
	if err == nil {
		err = set.Packable()
	}
	if err != nil {
		return nil, err
	}
	o := &Local{Agg: Agg{n: n, inS: in, shape: s, set: set, wm: vec.MinTime}, since: vec.MaxTime}
	o.sliceList.set = set
	o.emitter.batch = vec.NewBatch(out)
	return o, nil
}

// slides reports whether the global phase moves slices through a running aggregate, which needs
// the number of rows of each group.
func slides(n *plan.WindowAgg) bool {
	g := *n
	g.Phase = plan.GlobalPhase
	o, err := newAgg(&g, types.Schema{}, types.Schema{})
	return err == nil && o.runSet != nil
}

// Open implements op.Operator.
func (o *Local) Open(c *op.Context, out op.Output) (err error) {
	o.ctx, o.out = c, out
	if o.zone, err = newZone(o.n.Window.Zone); err != nil {
		return err
	}
	o.mem = state.NewMemory()
	o.sliceList.mem = o.mem
	o.l = state.NewLayout(keyTypes(o.inS, o.n.Keys), false)
	o.enc = state.NewEncoder(o.l)
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	o.set.Bind(o.l.Words())
	o.inTime = map[int64]*part{}
	o.lates = newLateRows(c, o.n, o.inS)
	return nil
}

// Process implements op.Operator.
func (o *Local) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	if len(rows) == 0 {
		return nil
	}
	times, valid, err := localTimes(b.Cols[o.n.Window.TimeCol], rows, b.N, o.zone, false, &o.zoned)
	if err != nil {
		return err
	}
	o.kept, o.active = 0, o.active[:0]
	var late, null, none int
	var cur *part
	lo, hi := int64(1), int64(0)
	for len(rows) > 0 {
		r := rows[0]
		if valid != nil && !valid.Get(int(r)) {
			null++
			rows = rows[1:]
			continue
		}
		t := times[r]
		if t < lo || t >= hi {
			hi = o.sliceEnd(t)
			lo = hi - o.width
			cur = nil
		}
		stamp := o.wm
		if b.Stamps != nil {
			stamp = b.Stamps[r]
		}
		if cur == nil || cur.stamp != vec.MinTime || stamp >= cur.first {
			if cur = o.part(hi, stamp); cur == nil {
				if o.firstEnd(hi) > o.lastEnd(hi) {
					none++
				} else {
					late++
				}
				if err := o.passed(b, r, hi, stamp); err != nil {
					return err
				}
				rows = rows[1:]
				continue
			}
		}
		if cur.stamp != vec.MinTime {
			if err := o.passed(b, r, hi, stamp); err != nil {
				return err
			}
		}
		n := 1
		if cur.stamp == vec.MinTime && valid == nil {
			n = alike(rows, times, b.Stamps, lo, hi, cur.first)
		}
		o.put(&cur.slice, rows[:n])
		rows = rows[n:]
	}
	o.drop(late, null, none)
	if err := o.apply(b); err != nil {
		return err
	}
	if err := o.lates.tell(b); err != nil {
		return err
	}
	return o.trim()
}

// passed notes the windows that row r, whose slice ends at end, is late for.
func (o *Local) passed(b *vec.Batch, r int32, end, stamp int64) error {
	if o.lates == nil {
		return nil
	}
	p := o.placeOf(end-o.width, end)
	return o.missed(b, r, &p, stamp)
}

// trim sends what is held if it is much.
func (o *Local) trim() error {
	groups := 0
	for _, p := range o.ends {
		groups += p.st.R.Len()
	}
	if groups >= localKeys {
		return o.send(o.wm, true)
	}
	if o.since == vec.MaxTime && groups > 0 {
		o.since = o.ctx.Now()
	}
	if o.ctx.Counters != nil {
		o.ctx.Counters.StateBytes.Store(o.mem.Bytes())
		o.ctx.Counters.StateEntries.Store(int64(groups))
	}
	return nil
}

// part returns where a row of the slice that ends at end goes whose stamp is stamp, or nil if it
// is late for all windows.
func (o *Local) part(end, stamp int64) *part {
	first, last := o.firstEnd(end), o.lastEnd(end)
	if first > last || o.zone.timer(last-1) <= stamp {
		return nil
	}
	partStamp := o.lastOver(first, stamp)
	if partStamp == vec.MinTime {
		if p := o.inTime[end]; p != nil {
			return p
		}
	}
	at := len(o.ends)
	for i, p := range o.ends {
		if p.stamp == partStamp && p.end == end {
			return p
		}
		if at == len(o.ends) && p.stamp > partStamp {
			at = i
		}
	}
	p := &part{slice: slice{start: end - o.width, end: end, first: o.zone.timer(first - 1), st: o.store()},
		stamp: partStamp}
	o.ends = append(o.ends, nil)
	copy(o.ends[at+1:], o.ends[at:])
	o.ends[at] = p
	if partStamp == vec.MinTime {
		o.inTime[end] = p
	}
	return p
}

// lastOver is the instant at which the last window from the one that ends at first on is over
// that is over at the watermark stamp, or vec.MinTime if none is.
func (o *Local) lastOver(first, stamp int64) int64 {
	if o.zone.timer(first-1) > stamp {
		return vec.MinTime
	}
	if o.zone == nil {
		return floor(stamp+1-o.size, o.step, o.offset) + o.size - 1
	}
	at := int64(vec.MinTime)
	for e := first; o.zone.timer(e-1) <= stamp; e += o.step {
		at = o.zone.timer(e - 1)
	}
	return at
}

// send emits, in the order of their stamps, the slices that some window wants that is over at the
// watermark wm, or all that are in time for all windows. Rows that are late for some windows wait
// for the watermark that they are late by, so that the stamps of what is emitted do not decrease.
func (o *Local) send(wm int64, all bool) error {
	kept := o.ends[:0]
	var err error
	for _, p := range o.ends {
		if err != nil || p.stamp > wm || p.stamp == vec.MinTime && p.first > wm && !all {
			kept = append(kept, p)
			continue
		}
		if p.stamp == vec.MinTime {
			delete(o.inTime, p.end)
		}
		err = o.sendPart(p)
		o.give(p.st)
	}
	clear(o.ends[len(kept):])
	o.ends = kept
	if len(kept) == 0 {
		o.since = vec.MaxTime
	}
	return err
}

func (o *Local) sendPart(p *part) error {
	nk := len(o.n.Keys)
	// In time for all windows: any stamp before the first one's end says so.
	stamp := max(o.wm, p.stamp)
	return eachBlock(p.st, &o.ids, func(ids []uint32) error {
		b := o.emitter.batch
		b.Reset(len(ids))
		for i := range o.n.Keys {
			p.st.T.KeyColumn(i, ids, b.Cols[i], 0)
		}
		o.set.Pack(p.st, ids, b.Cols[nk], 0)
		o.stamps = sized(o.stamps, len(ids))
		for k := range ids {
			b.Cols[nk+1].I64[k] = p.end
			o.stamps[k] = stamp
		}
		b.Stamps = o.stamps
		return o.out.Emit(b)
	})
}

// Watermark implements op.Operator.
func (o *Local) Watermark(wm int64) error {
	if err := o.send(wm, false); err != nil {
		return err
	}
	o.wm = max(o.wm, wm)
	return o.out.Watermark(wm)
}

// Finish implements op.Operator.
func (o *Local) Finish() error { return o.send(vec.MaxTime, true) }

// ProcTime implements op.ProcTimer.
func (o *Local) ProcTime(nowMs int64) error {
	if nowMs >= o.NextProcTime() {
		o.since = vec.MaxTime
		return o.send(o.wm, true)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Local) NextProcTime() int64 {
	if o.since == vec.MaxTime {
		return vec.MaxTime
	}
	return o.since + localDelayMs
}

// Close implements op.Operator.
func (o *Local) Close() error {
	if o.mem == nil {
		return nil
	}
	for _, p := range o.ends {
		p.st.Release()
	}
	o.ends = nil
	o.sliceList.release()
	o.mem.Close()
	return nil
}

var _ op.ProcTimer = (*Local)(nil)
