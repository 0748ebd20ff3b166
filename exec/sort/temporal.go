package sort

import (
	"encoding/binary"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Temporal emits rows in the order of their event time, then of the other keys, as the watermark
// passes. As in Flink a row is late when one of its time, or a later one, has been emitted: being
// behind the watermark alone does not make it late.
//
// Where memory is short, rows are left to the store, in which they lie in the order in which they are
// to come out: temporal_spill.go.
type Temporal struct {
	n      *plan.Sort
	schema types.Schema
	c      *op.Context
	out    op.Output
	rows   *vec.Batch // in the order in which they came
	batch  *vec.Batch
	wm     int64
	// waiting are the times of the rows that a machine that takes rows one by one has not emitted
	// yet, a heap; those up to horizon only. emitted is the last time that it has.
	waiting []int64
	horizon int64
	emitted int64
	flushed int64 // the last time that was emitted indeed; no row that is kept is as early
	left    int64 // rows left out for OFFSET
	proc    bool  // the first key is processing time
	stamped bool
	log     log
	numbers []uint64 // of rows, where they are saved
	spilt
}

// Open implements op.Operator.
func (o *Temporal) Open(c *op.Context, out op.Output) error {
	o.c, o.out, o.wm, o.emitted, o.flushed, o.horizon = c, out, vec.MinTime, vec.MinTime, vec.MinTime, vec.MaxTime
	o.log.open(c, o.n.Keys)
	o.proc = o.schema.Fields[o.n.Keys[0].Col].Type.Attr == types.ProcTime
	if o.log.on && c.Spill != nil && !o.proc && !o.n.Keys[0].Desc {
		o.spill = c.Spill
		o.spill.Attach(o)
	}
	return nil
}

func (o *Temporal) time(b *vec.Batch, i int) int64 {
	v := b.Cols[o.n.Keys[0].Col]
	switch {
	case v.IsNull(i):
		return vec.MinTime
	case v.Phys == types.PI128:
		return v.I128[i].Hi
	}
	return v.I64[i]
}

// Process implements op.Operator.
func (o *Temporal) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	if o.proc {
		o.keep(b, rows)
		return nil
	}
	if len(rows) > 0 && b.Stamps != nil {
		// Stamps do not decrease.
		if err := o.lookAhead(b.Stamps[rows[len(rows)-1]]); err != nil {
			return err
		}
	}
	kept := make([]int32, 0, len(rows))
	for _, r := range rows {
		stamp := o.wm
		if b.Stamps != nil {
			stamp = b.Stamps[r]
		}
		o.pass(stamp)
		if t := o.time(b, int(r)); t > o.emitted {
			kept = append(kept, r)
			if t <= o.horizon {
				o.waiting = push(o.waiting, t)
			}
		}
	}
	if late := len(rows) - len(kept); late > 0 && o.c.Counters != nil {
		o.c.Counters.Drop(op.DropLate, late)
	}
	o.keep(b, kept)
	o.count()
	return nil
}

// keep holds rows of b back.
func (o *Temporal) keep(b *vec.Batch, rows []int32) {
	o.stamped = o.stamped || b.Stamps != nil
	o.rows.Gather(b, rows)
	if o.log.on {
		for range rows {
			o.numbers = append(o.numbers, o.log.number())
		}
	}
}

// pass moves on to the watermark wm in the order of rows.
func (o *Temporal) pass(wm int64) {
	for len(o.waiting) > 0 && o.waiting[0] <= wm {
		o.emitted = o.waiting[0]
		o.waiting = pop(o.waiting)
	}
}

// push adds t to the heap h.
func push(h []int64, t int64) []int64 {
	h = append(h, t)
	i := len(h) - 1
	for i > 0 && t < h[(i-1)/2] {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = t
	return h
}

// pop removes the least of the heap h.
func pop(h []int64) []int64 {
	n := len(h) - 1
	t := h[n]
	h = h[:n]
	i := 0
	for 2*i+1 < n {
		kid := 2*i + 1
		if kid+1 < n && h[kid+1] < h[kid] {
			kid++
		}
		if t <= h[kid] {
			break
		}
		h[i] = h[kid]
		i = kid
	}
	if n > 0 {
		h[i] = t
	}
	return h
}

// Watermark implements op.Operator.
func (o *Temporal) Watermark(wm int64) error {
	if !o.proc {
		if err := o.flush(wm); err != nil {
			return err
		}
	}
	o.wm = max(o.wm, wm)
	o.pass(wm)
	o.emitted = max(o.emitted, o.flushed)
	o.horizon = max(o.horizon, wm)
	return o.out.Watermark(wm)
}

// flush emits the rows up to wm. They carry the watermark before as their stamp, since they come
// before the one that lets them go.
func (o *Temporal) flush(wm int64) error {
	var due, rest []int32
	for i := range o.rows.N {
		if o.proc || o.time(o.rows, i) <= wm {
			due = append(due, int32(i))
		} else {
			rest = append(rest, int32(i))
		}
	}
	inStore := o.cold && o.coldMin <= wm
	if len(due) == 0 && !inStore {
		return nil
	}
	b := o.rows
	for i := range b.Stamps {
		b.Stamps[i] = o.wm
	}
	sort := sorted(o.n.Keys, b, slices.Clone(due))
	before := o.flushed
	if len(due) > 0 && !o.proc {
		o.flushed = max(o.flushed, o.time(b, int(sort[len(sort)-1])))
	}
	var err error
	if inStore {
		err = o.merge(wm, before, due, sort)
	} else {
		o.forget(due)
		if n := o.n.Offset - o.left; n > 0 {
			n = min(n, int64(len(sort)))
			o.left += n
			sort = sort[n:]
		}
		err = emitRows(o.out, o.batch, b, sort)
	}
	o.keepOnly(rest)
	o.count()
	return err
}

// keepOnly leaves of the rows those at the given positions.
func (o *Temporal) keepOnly(rest []int32) {
	b := o.rows
	o.rows = vec.NewBatch(o.schema)
	o.rows.Gather(b, rest)
	if !o.log.on {
		return
	}
	for k, i := range rest {
		o.numbers[k] = o.numbers[i]
	}
	o.numbers = o.numbers[:len(rest)]
}

// forget notes that rows are not held back any more.
func (o *Temporal) forget(rows []int32) {
	if !o.log.on {
		return
	}
	for _, i := range rows {
		o.log.remove(o.rows.Cols, int(i), o.numbers[i])
	}
}

func (o *Temporal) count() {
	if o.c.Counters != nil {
		o.c.Counters.StateEntries.Store(int64(o.rows.N + max(o.coldRows, 0)))
	}
}

// ProcTime implements op.ProcTimer.
func (o *Temporal) ProcTime(int64) error {
	if o.proc {
		return o.flush(vec.MaxTime)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Temporal) NextProcTime() int64 {
	if o.proc && o.rows.N > 0 {
		return o.c.Now()
	}
	return vec.MaxTime
}

// Finish implements op.Operator.
func (o *Temporal) Finish() error { return o.flush(vec.MaxTime) }

// Close implements op.Operator.
func (o *Temporal) Close() error {
	if o.spill != nil {
		o.tell(o.c, 0)
		o.spill.Detach(o)
	}
	return nil
}

// Freeze implements op.Stateful.
func (o *Temporal) Freeze(d *state.Delta) error {
	at, _ := slices.BinarySearch(o.numbers, o.log.frozen)
	for i := at; i < len(o.numbers); i++ {
		o.log.put(d, o.numbers[i], o.rows, i)
	}
	o.log.freeze(d)
	if o.spill != nil {
		o.marks.froze(o.spill.Epoch(), o.log.next)
	}
	return nil
}

// Dirty implements op.Stateful.
func (o *Temporal) Dirty() int { return o.log.dirty(o.rows.N) * rowBytes(o.schema) }

// Head implements op.Stateful: the watermark, the last time emitted, the rows left out for OFFSET, the
// last time flushed, the number of the next row (8 bytes each, little endian).
func (o *Temporal) Head(dst []byte) ([]byte, error) {
	le := binary.LittleEndian
	dst = le.AppendUint64(le.AppendUint64(le.AppendUint64(dst, uint64(o.wm)), uint64(o.emitted)), uint64(o.left))
	dst = le.AppendUint64(dst, uint64(o.flushed))
	return o.log.head(dst), nil
}

// Restore implements op.Stateful.
func (o *Temporal) Restore(saved state.Saved, heads [][]byte) error {
	le := binary.LittleEndian
	for _, h := range heads {
		if len(h) != 40 {
			return errSaved
		}
		o.wm = max(o.wm, int64(le.Uint64(h)))
		o.emitted = max(o.emitted, int64(le.Uint64(h[8:])))
		o.left = max(o.left, int64(le.Uint64(h[16:])))
		o.flushed = max(o.flushed, int64(le.Uint64(h[24:])))
		o.log.restoreHead(h[32:])
	}
	o.stamped = true
	if o.spill.Stored() {
		o.log.frozen = o.log.next
		o.cold, o.coldMin, o.horizon = true, vec.MinTime, o.emitted
		return nil
	}
	rows, numbers, err := o.log.restore(saved, o.schema)
	if err != nil {
		return err
	}
	o.rows, o.numbers = rows, numbers
	for i := range o.rows.N {
		o.rows.Stamps = append(o.rows.Stamps, o.wm)
		if t := o.time(o.rows, i); !o.proc && t > o.emitted {
			o.waiting = push(o.waiting, t)
		}
	}
	o.count()
	return nil
}
