package sort

import (
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Sort is the operator of plan.Sort; what it does is decided when it is opened, by the mode of the
// job.
type Sort struct {
	op.Operator
	n   *plan.Sort
	in  types.Schema
	out types.Schema
}

// New builds the operator of n over rows of schema in; out is the same columns.
func New(n *plan.Sort, in, out types.Schema) (op.Operator, error) {
	return &Sort{n: n, in: in, out: out}, nil
}

// Open implements op.Operator.
func (o *Sort) Open(c *op.Context, out op.Output) error {
	switch {
	case c.BatchMode:
		o.Operator = &All{n: o.n, schema: o.in, batch: vec.NewBatch(o.out)}
	case o.n.Limit >= 0:
		o.Operator = newTop(o.n.Keys, o.n.Offset, o.n.Limit, o.in)
	default:
		o.Operator = &Temporal{n: o.n, schema: o.in, rows: vec.NewBatch(o.in), batch: vec.NewBatch(o.out)}
	}
	return o.Operator.Open(c, out)
}

// Close implements op.Operator.
func (o *Sort) Close() error {
	if o.Operator == nil {
		return nil
	}
	return o.Operator.Close()
}

// ProcTime implements op.ProcTimer.
func (o *Sort) ProcTime(nowMs int64) error {
	if p, ok := o.Operator.(op.ProcTimer); ok {
		return p.ProcTime(nowMs)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Sort) NextProcTime() int64 {
	if p, ok := o.Operator.(op.ProcTimer); ok {
		return p.NextProcTime()
	}
	return vec.MaxTime
}

// All keeps every row and emits them sorted when the input has ended; rows with equal keys stay
// in the order they came.
type All struct {
	n      *plan.Sort
	schema types.Schema
	c      *op.Context
	out    op.Output
	chunks []*vec.Batch
	rows   []place
	batch  *vec.Batch
	log    log // of rows, by their place in rows
}

// place is where a row lies: a chunk and the position in it.
type place struct{ chunk, row int32 }

const (
	// chunkRows and chunkBytes bound a chunk, in which strings must start below 4 GiB.
	chunkRows  = 1 << 16
	chunkBytes = 1 << 30
)

// Open implements op.Operator.
func (o *All) Open(c *op.Context, out op.Output) error {
	o.c, o.out = c, out
	o.log.open(c)
	return nil
}

// chunk is the one that has room.
func (o *All) chunk() int {
	if n := len(o.chunks); n == 0 || full(o.chunks[n-1]) {
		o.chunks = append(o.chunks, vec.NewBatch(o.schema))
	}
	return len(o.chunks) - 1
}

// Process implements op.Operator.
func (o *All) Process(_ int, b *vec.Batch) error {
	at := o.chunk()
	chunk := o.chunks[at]
	from := chunk.N
	chunk.Gather(&vec.Batch{N: b.N, Cols: b.Cols}, b.Selected())
	for i := from; i < chunk.N; i++ {
		o.rows = append(o.rows, place{int32(at), int32(i)})
	}
	o.log.next = uint64(len(o.rows))
	if o.c.Counters != nil {
		o.c.Counters.StateEntries.Store(int64(len(o.rows)))
	}
	return nil
}

func full(b *vec.Batch) bool {
	if b.N >= chunkRows {
		return true
	}
	for _, c := range b.Cols {
		if len(c.Buf) >= chunkBytes {
			return true
		}
	}
	return false
}

// Watermark implements op.Operator. The rows come at the end, so that only the end of time passes.
func (o *All) Watermark(int64) error { return nil }

// Finish implements op.Operator.
func (o *All) Finish() error {
	slices.SortStableFunc(o.rows, func(x, y place) int {
		return compareRows(o.n.Keys, o.chunks[x.chunk].Cols, int(x.row), o.chunks[y.chunk].Cols, int(y.row))
	})
	from := min(int(o.n.Offset), len(o.rows))
	to := len(o.rows)
	if o.n.Limit >= 0 && o.n.Limit < int64(to-from) {
		to = from + int(o.n.Limit)
	}
	if dropped := len(o.rows) - (to - from); dropped > 0 && o.c.Counters != nil {
		o.c.Counters.Drop(op.DropLimit, dropped)
	}
	var one [1]int32
	for rows := o.rows[from:to]; len(rows) > 0; {
		n := min(len(rows), vec.BatchRows)
		o.batch.Reset(0)
		for _, r := range rows[:n] {
			one[0] = r.row
			o.batch.Gather(o.chunks[r.chunk], one[:])
		}
		if err := o.out.Emit(o.batch); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return o.out.Watermark(vec.MaxTime)
}

// Close implements op.Operator.
func (o *All) Close() error { return nil }

// sorted orders the rows of b and returns them.
func sorted(keys []plan.SortKey, b *vec.Batch, rows []int32) []int32 {
	slices.SortStableFunc(rows, func(i, j int32) int {
		return compareRows(keys, b.Cols, int(i), b.Cols, int(j))
	})
	return rows
}

// emitRows emits rows of b in batches, copied into tmp.
func emitRows(out op.Output, tmp, b *vec.Batch, rows []int32) error {
	for len(rows) > 0 {
		n := min(len(rows), vec.BatchRows)
		tmp.Reset(0)
		tmp.Gather(b, rows[:n])
		if err := out.Emit(tmp); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// Temporal emits rows in the order of their event time, then of the other keys, as the watermark
// passes. As in Flink a row is late when one of its time, or a later one, has been emitted: being
// behind the watermark alone does not make it late.
type Temporal struct {
	n      *plan.Sort
	schema types.Schema
	c      *op.Context
	out    op.Output
	rows   *vec.Batch
	batch  *vec.Batch
	wm     int64
	// waiting are the times of the rows that a machine that takes rows one by one has not emitted
	// yet, a heap; emitted is the last time that it has.
	waiting []int64
	emitted int64
	left    int64 // rows left out for OFFSET
	proc    bool  // the first key is processing time
	log     log
	numbers []uint64 // of rows, where they are saved
}

// Open implements op.Operator.
func (o *Temporal) Open(c *op.Context, out op.Output) error {
	o.c, o.out, o.wm, o.emitted = c, out, vec.MinTime, vec.MinTime
	o.log.open(c)
	o.proc = o.schema.Fields[o.n.Keys[0].Col].Type.Attr == types.ProcTime
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
	kept := make([]int32, 0, len(rows))
	for _, r := range rows {
		stamp := o.wm
		if b.Stamps != nil {
			stamp = b.Stamps[r]
		}
		o.pass(stamp)
		if t := o.time(b, int(r)); t > o.emitted {
			kept = append(kept, r)
			o.waiting = push(o.waiting, t)
		}
	}
	if late := len(rows) - len(kept); late > 0 && o.c.Counters != nil {
		o.c.Counters.Drop(op.DropLate, late)
	}
	o.keep(b, kept)
	return nil
}

// keep holds rows of b back.
func (o *Temporal) keep(b *vec.Batch, rows []int32) {
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
	if len(due) == 0 {
		return nil
	}
	b := o.rows
	for i := range b.Stamps {
		b.Stamps[i] = o.wm
	}
	o.forget(due)
	due = sorted(o.n.Keys, b, due)
	if n := o.n.Offset - o.left; n > 0 {
		n = min(n, int64(len(due)))
		o.left += n
		due = due[n:]
	}
	err := emitRows(o.out, o.batch, b, due)
	o.rows = vec.NewBatch(o.schema)
	o.rows.Gather(b, rest)
	o.count()
	return err
}

// forget notes that rows, in ascending order, are not held back any more.
func (o *Temporal) forget(rows []int32) {
	if !o.log.on {
		return
	}
	stay := o.numbers[:0]
	for i, n := range o.numbers {
		if len(rows) > 0 && int(rows[0]) == i {
			o.log.remove(n)
			rows = rows[1:]
		} else {
			stay = append(stay, n)
		}
	}
	o.numbers = stay
}

func (o *Temporal) count() {
	if o.c.Counters != nil {
		o.c.Counters.StateEntries.Store(int64(o.rows.N))
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
func (o *Temporal) Close() error { return nil }
