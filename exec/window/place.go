package window

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// place is an interval of time that rows go to, with or without a slice that has rows of it.
type place struct {
	start, end int64
	// first and last are the instants at which the first and the last window that has the interval are over. A
	// hop may leave gaps: there the last is before the first.
	first, last int64
	sl          *slice // nil: none yet
	// next is when the next window is over that has not fired yet, known where rows are late for some but
	// not for all of them.
	next int64
	as   int64 // the batch that sl and next hold for
}

// places remembers where rows of some aligned slices go, since late rows take turns with others.
type places struct {
	list [256]place // by the number of the slice
	as   int64
	one  place // of windows that are not aligned, or in processing time
}

// assign sorts the rows into slices: each slice in active lists its own.
func (o *Agg) assign(b *vec.Batch, rows []int32) error {
	times, valid, err := o.times(b, rows)
	if err != nil {
		return err
	}
	var starts []int64
	if o.n.Attached && o.n.StartCol >= 0 {
		var tmp []int64
		if starts, _, err = localTimes(b.Cols[o.n.StartCol], rows, b.N, nil, true, &tmp); err != nil {
			return err
		}
	}
	o.kept, o.active = 0, o.active[:0]
	o.places.as++
	var late, null, none int
	var p *place
	stamps := b.Stamps
	if o.n.Window.ProcTime {
		stamps = nil
	}
	lo, hi := int64(1), int64(0)
	for len(rows) > 0 {
		r := rows[0]
		if valid != nil && !valid.Get(int(r)) {
			null++
			rows = rows[1:]
			continue
		}
		t := times[r]
		if t < lo || t >= hi || starts != nil && starts[r] != p.start {
			p = o.locate(t, starts, r)
			lo, hi = p.start, p.end
			if o.n.Attached {
				lo, hi = t, t+1
			}
		}
		stamp := o.wm
		if stamps != nil {
			stamp = stamps[r]
		}
		n := 1
		if stamp >= p.first {
			if o.lates != nil {
				if err := o.missed(b, r, p, stamp); err != nil {
					return err
				}
			}
			if stamp >= p.last {
				late++
				rows = rows[1:]
				continue
			}
			if stamp > o.wm && o.unfired(p) <= stamp {
				o.held.add(b, r)
				rows = rows[1:]
				continue
			}
		} else if valid == nil && starts == nil {
			n = alike(rows, times, stamps, lo, hi, p.first)
		}
		if p.sl == nil {
			if p.first > p.last {
				none++ // in the gap of a hop
				rows = rows[1:]
				continue
			}
			o.begin(p)
		}
		o.put(p.sl, rows[:n])
		rows = rows[n:]
	}
	o.drop(late, null, none)
	return nil
}

// alike counts the rows, at least one, that follow one another with a time from lo up to hi and a
// stamp below first: they go the way of the first.
func alike(rows []int32, times, stamps []int64, lo, hi, first int64) int {
	n := 1
	if stamps == nil {
		for n < len(rows) && times[rows[n]] >= lo && times[rows[n]] < hi {
			n++
		}
		return n
	}
	for n < len(rows) {
		r := rows[n]
		if t := times[r]; t < lo || t >= hi || stamps[r] >= first {
			break
		}
		n++
	}
	return n
}

// put lists rows of the batch at hand in a slice.
func (o *Agg) put(sl *slice, rows []int32) {
	if len(sl.rows) == 0 {
		o.active = append(o.active, sl)
		sl.used = o.spill.batch
	}
	sl.rows = append(sl.rows, rows...)
	o.kept += len(rows)
}

// locate returns the place for time t.
func (o *Agg) locate(t int64, starts []int64, r int32) *place {
	if o.n.Attached || o.n.Window.ProcTime {
		p := &o.places.one
		if o.n.Attached {
			start := t
			if starts != nil {
				start = starts[r]
			}
			*p = o.placeOf(start, t)
		} else {
			end := o.sliceEnd(t)
			*p = o.placeOf(end-o.width, end)
		}
		if o.n.Window.ProcTime && p.first <= o.wm {
			// The clock stands still within a call, so a window cannot be over here.
			p.first = o.wm + 1
		}
		_, p.sl = o.find(p.start, p.end)
		return p
	}
	n := floorDiv(t-o.offset, o.width)
	end := n*o.width + o.offset + o.width
	p := &o.places.list[uint64(n)%uint64(len(o.places.list))]
	if p.as == 0 || p.end != end {
		*p = o.placeOf(end-o.width, end)
	}
	if p.as != o.places.as {
		p.as = o.places.as
		if _, p.sl = o.find(p.start, p.end); p.first <= o.wm && o.wm < p.last {
			p.next = o.over(o.firstAfter(end, o.wm))
		}
	}
	return p
}

// placeOf is the place of an interval, without a slice.
func (o *Agg) placeOf(start, end int64) place {
	p := place{start: start, end: end}
	p.first, p.last = o.limits(end)
	return p
}

// limits returns when the first and the last window of the slice that ends at end are over.
func (o *Agg) limits(end int64) (first, last int64) {
	switch {
	case o.n.Window.ProcTime:
		return o.over(end), never
	case !o.n.Attached && o.kind != plan.Tumble:
		return o.over(o.firstEnd(end)), o.over(o.lastEnd(end))
	}
	first = o.over(end)
	return first, first
}

// unfired is when the next window of p is over that has not fired yet, of some that have not.
func (o *Agg) unfired(p *place) int64 {
	if p.first > o.wm {
		return p.first
	}
	return p.next
}

// begin opens a slice for p.
func (o *Agg) begin(p *place) {
	at, _ := o.find(p.start, p.end)
	p.sl = o.open(p.start, p.end)
	p.sl.first, p.sl.last = p.first, p.last
	o.insert(at, p.sl)
	o.opened(p.sl)
}

// missed notes the windows of p that row r is late for.
func (o *Agg) missed(b *vec.Batch, r int32, p *place, stamp int64) error {
	switch {
	case p.first > p.last:
		return nil // in the gap of a hop
	case !o.lates.wanted():
		o.lates.note(r, stamp-p.first)
		return nil
	case o.n.Attached:
		return o.lates.miss(b, r, 1, p.start, p.end, p.first, stamp)
	case o.kind == plan.Tumble:
		return o.lates.miss(b, r, 1, o.start(p.end), p.end, p.first, stamp)
	}
	end := o.firstEnd(p.end)
	if o.zone == nil {
		n := (min(stamp, p.last)-p.first)/o.step + 1
		return o.lates.miss(b, r, n, o.start(end), end, p.first, stamp)
	}
	for last := o.lastEnd(p.end); end <= last; end += o.step {
		over := o.over(end)
		if over > stamp {
			break
		}
		if err := o.lates.miss(b, r, 1, o.start(end), end, over, stamp); err != nil {
			return err
		}
	}
	return nil
}

// drop books the rows of one Process: those kept and those not used.
func (o *Agg) drop(late, null, none int) {
	if o.ctx.Counters == nil {
		return
	}
	o.ctx.Counters.Used.Add(int64(o.kept))
	if late > 0 {
		o.ctx.Counters.Drop(op.DropLate, late)
	}
	if null > 0 {
		o.ctx.Counters.Drop(op.DropNullTime, null)
	}
	if none > 0 {
		o.ctx.Counters.Drop(op.DropFilter, none)
	}
}
