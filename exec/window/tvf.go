package window

import (
	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TVF appends window_start, window_end and window_time to each row, a row for each of its windows.
// As in Flink it lets late rows pass: what follows judges them.
type TVF struct {
	n    *plan.WindowTVF
	ctx  *op.Context
	out  op.Output
	zone *zone
	shape
	zoned  []int64
	batch  *vec.Batch // hop, cumulate: rows copied once a window
	shared vec.Batch  // tumble: the input's columns and three more
	extra  [3]*vec.Vec
	rows   []int32
	starts []int64
	ends   []int64
	sel    []int32
}

// NewTVF builds the window function n over rows of schema in, which emits rows of schema out: those
// of in, then window_start, window_end and window_time.
func NewTVF(n *plan.WindowTVF, in, out types.Schema) (op.Operator, error) {
	if n.Window.Kind == plan.Session {
		return newSessionTVF(n, in, out)
	}
	s, err := newShape(&n.Window)
	if err != nil {
		return nil, err
	}
	o := &TVF{n: n, shape: s, batch: vec.NewBatch(out)}
	for i := range o.extra {
		o.extra[i] = vec.New(out.Fields[in.Len()+i].Type, 0)
	}
	return o, nil
}

// Open implements op.Operator.
func (o *TVF) Open(c *op.Context, out op.Output) (err error) {
	o.ctx, o.out = c, out
	o.zone, err = newZone(o.n.Window.Zone)
	return err
}

// Process implements op.Operator.
func (o *TVF) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	if len(rows) == 0 {
		return nil
	}
	var times []int64
	var valid vec.Bitmap
	if o.n.Window.ProcTime {
		now := o.zone.local(o.ctx.Now())
		times = sized(o.zoned, b.N)
		o.zoned = times
		for _, r := range rows {
			times[r] = now
		}
	} else {
		var err error
		times, valid, err = localTimes(b.Cols[o.n.Window.TimeCol], rows, b.N, o.zone, false, &o.zoned)
		if err != nil {
			return err
		}
	}
	if valid != nil {
		o.sel = o.sel[:0]
		for _, r := range rows {
			if valid.Get(int(r)) {
				o.sel = append(o.sel, r)
			}
		}
		if null := len(rows) - len(o.sel); null > 0 && o.ctx.Counters != nil {
			o.ctx.Counters.Drop(op.DropNullTime, null)
		}
		rows = o.sel
	}
	if len(rows) == 0 {
		return nil
	}
	if o.kind == plan.Tumble {
		return o.tumble(b, rows, times)
	}
	return o.several(b, rows, times)
}

func (o *TVF) tumble(b *vec.Batch, rows []int32, times []int64) error {
	for _, v := range o.extra {
		v.Reset(b.N)
	}
	lo, hi := int64(1), int64(0)
	for _, r := range rows {
		if t := times[r]; t < lo || t >= hi {
			hi = o.sliceEnd(t)
			lo = hi - o.size
		}
		o.props(o.extra[:], int(r), lo, hi)
	}
	o.shared = *b
	o.shared.Sel = rows
	o.shared.Cols = append(append(o.shared.Cols[:0:0], b.Cols...), o.extra[:]...)
	return o.out.Emit(&o.shared)
}

func (o *TVF) props(cols []*vec.Vec, i int, start, end int64) {
	writeProp(cols[0], plan.WindowStart, start, end, o.zone, i, 1)
	writeProp(cols[1], plan.WindowEnd, start, end, o.zone, i, 1)
	writeProp(cols[2], plan.WindowTime, start, end, o.zone, i, 1)
}

func (o *TVF) several(b *vec.Batch, rows []int32, times []int64) error {
	for _, r := range rows {
		slice := o.sliceEnd(times[r])
		last := o.lastEnd(slice)
		for end := o.firstEnd(slice); end <= last; end += o.step {
			o.rows = append(o.rows, r)
			o.starts = append(o.starts, o.start(end))
			o.ends = append(o.ends, end)
		}
		if len(o.rows) >= vec.BatchRows {
			if err := o.flush(b); err != nil {
				return err
			}
		}
	}
	return o.flush(b)
}

func (o *TVF) flush(b *vec.Batch) error {
	n := len(o.rows)
	if n == 0 {
		return nil
	}
	out := o.batch
	out.Reset(0)
	in := vec.Batch{N: out.N, Cols: out.Cols[:len(b.Cols)]}
	in.Gather(b, o.rows)
	for _, v := range out.Cols[len(b.Cols):] {
		v.Reset(n)
	}
	for i := range o.rows {
		o.props(out.Cols[len(b.Cols):], i, o.starts[i], o.ends[i])
	}
	out.N, out.Kinds, out.Stamps, out.Origin, out.Pos = n, in.Kinds, in.Stamps, in.Origin, in.Pos
	o.rows, o.starts, o.ends = o.rows[:0], o.starts[:0], o.ends[:0]
	return o.out.Emit(out)
}

// Watermark implements op.Operator.
func (o *TVF) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *TVF) Finish() error { return nil }

// Close implements op.Operator.
func (o *TVF) Close() error { return nil }

// expander makes a Session write the rows of sessions instead of aggregates.
type expander struct {
	columns int
}

// newSessionTVF builds the session window function: rows wait until their session is over.
func newSessionTVF(n *plan.WindowTVF, in, out types.Schema) (op.Operator, error) {
	agged := &plan.WindowAgg{Window: n.Window, Keys: n.Window.PartitionKeys}
	o := &Session{n: agged, inS: in, set: agg.NewRows(in), gap: n.Window.Size, wm: vec.MinTime,
		expand: &expander{columns: in.Len()}}
	o.levels.start(vec.MinTime, nil)
	o.batch = vec.NewBatch(out)
	return o, nil
}

// emitRows writes the rows of the sessions o.ids and forgets them.
func (o *Session) emitRows(stamp int64) error {
	b, nc := o.batch, o.expand.columns
	b.Reset(0)
	for _, id := range o.ids {
		w := o.st.R.At(id)
		start, end := int64(w[sessStart]), int64(w[sessEnd])
		at := b.N
		o.set.EachRow(o.st, id, func(row []byte) {
			for _, c := range b.Cols[:nc] {
				c.Resize(b.N + 1)
				row = state.DecodeValue(row, c, b.N)
			}
			b.N++
		})
		for i, p := range []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime} {
			v := b.Cols[nc+i]
			v.Resize(b.N)
			writeProp(v, p, start, end, o.zone, at, b.N-at)
		}
	}
	o.close(o.ids)
	o.stamps = sized(o.stamps, b.N)
	for i := range o.stamps {
		o.stamps[i] = stamp
	}
	b.Stamps = o.stamps
	if b.N == 0 {
		return nil
	}
	return o.out.Emit(b)
}
