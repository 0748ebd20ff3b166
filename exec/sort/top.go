package sort

import (
	"bytes"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Top keeps rows in order and shows those from offset up to offset+limit, as a changelog: after
// each batch, -D for the rows that left, then +I for those that came in. While no row is ever
// taken back it keeps only rows that may still show; after that all of them.
type Top struct {
	keys          []plan.SortKey
	offset, limit int64
	schema        types.Schema
	c             *op.Context
	out           op.Output
	rows          []*topRow // in order
	shown         []*topRow
	changelog     bool // rows may be taken back, so all are kept
	batch         *vec.Batch
	enc           []byte
	log           log
	fresh         []*topRow // rows that may not be saved yet
}

// topRow is a row and its columns, for comparison.
type topRow struct {
	b    *vec.Batch // of this one row
	enc  []byte
	in   bool // among the first rows now
	show bool // told downstream

	number uint64
	gone   bool // not kept any more; noted only where rows are saved
}

func newTop(keys []plan.SortKey, offset, limit int64, s types.Schema) *Top {
	return &Top{keys: keys, offset: offset, limit: limit, schema: s, batch: vec.NewBatch(s)}
}

// Open implements op.Operator.
func (o *Top) Open(c *op.Context, out op.Output) error {
	o.c, o.out = c, out
	o.log.open(c, nil)
	return nil
}

// note numbers a new row.
func (o *Top) note(r *topRow) {
	r.number = o.log.number()
	if len(o.fresh) > 2*len(o.rows)+64 {
		o.fresh = slices.DeleteFunc(o.fresh, func(r *topRow) bool { return r.gone })
	}
	o.fresh = append(o.fresh, r)
}

// drop notes that a row is not kept any more.
func (o *Top) drop(r *topRow) {
	if o.log.on {
		r.gone = true
		o.log.remove(r.b.Cols, 0, r.number)
	}
}

// Process implements op.Operator.
func (o *Top) Process(_ int, b *vec.Batch) error {
	o.changelog = o.changelog || b.Kinds != nil
	dropped, stale := 0, 0
	stamp := int64(vec.MinTime)
	b.Each(func(i int) {
		stamp = b.Stamp(i)
		if b.Kind(i).Retracts() {
			if !o.remove(b, i) {
				stale++
			}
			return
		}
		if !o.insert(b, i) {
			dropped++
		}
	})
	if o.c.Counters != nil {
		if dropped > 0 {
			o.c.Counters.Drop(op.DropLimit, dropped)
		}
		if stale > 0 {
			o.c.Counters.Drop(op.DropStale, stale)
		}
	}
	o.count()
	return o.show(stamp)
}

func (o *Top) count() {
	if o.c.Counters != nil {
		o.c.Counters.StateEntries.Store(int64(len(o.rows)))
	}
}

// place is where row i of b goes: after all rows that are not greater.
func (o *Top) place(b *vec.Batch, i int) int {
	lo, hi := 0, len(o.rows)
	for lo < hi {
		m := (lo + hi) / 2
		if compareRows(o.keys, o.rows[m].b.Cols, 0, b.Cols, i) <= 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

func (o *Top) insert(b *vec.Batch, i int) bool {
	at := o.place(b, i)
	room := o.offset + o.limit
	if !o.changelog && int64(at) >= room {
		return false
	}
	r := &topRow{b: vec.NewBatch(o.schema)}
	r.b.AppendRow(&vec.Batch{N: b.N, Cols: b.Cols}, i)
	o.rows = slices.Insert(o.rows, at, r)
	if o.log.on {
		o.note(r)
	}
	if !o.changelog && int64(len(o.rows)) > room {
		o.drop(o.rows[room])
		o.rows = o.rows[:room]
		if o.c.Counters != nil {
			o.c.Counters.Drop(op.DropLimit, 1)
		}
	}
	return true
}

func (o *Top) encode(dst []byte, b *vec.Batch, i int) []byte {
	for _, c := range b.Cols {
		dst = state.AppendValue(dst, c, i)
	}
	return dst
}

// remove takes out the first row that equals row i of b; rows with its keys end at place.
func (o *Top) remove(b *vec.Batch, i int) bool {
	o.enc = o.encode(o.enc[:0], b, i)
	end := o.place(b, i)
	found := -1
	for k := end - 1; k >= 0 && compareRows(o.keys, o.rows[k].b.Cols, 0, b.Cols, i) == 0; k-- {
		r := o.rows[k]
		if r.enc == nil {
			r.enc = o.encode(nil, r.b, 0)
		}
		if bytes.Equal(r.enc, o.enc) {
			found = k
		}
	}
	if found < 0 {
		return false
	}
	o.drop(o.rows[found])
	o.rows = slices.Delete(o.rows, found, found+1)
	return true
}

// window is the rows that are to be shown.
func (o *Top) window() []*topRow {
	from := min(o.offset, int64(len(o.rows)))
	to := min(o.offset+o.limit, int64(len(o.rows)))
	return o.rows[from:to]
}

// show emits the difference between the rows shown and those that are to be.
func (o *Top) show(stamp int64) error {
	now := o.window()
	for _, r := range now {
		r.in = true
	}
	out := o.batch
	out.Reset(0)
	add := func(r *topRow, k types.RowKind) {
		out.AppendRow(r.b, 0)
		out.Kinds = append(out.Kinds[:out.N-1], k)
	}
	for _, r := range o.shown {
		if !r.in {
			r.show = false
			add(r, types.Delete)
		}
	}
	for _, r := range now {
		if !r.show {
			r.show = true
			add(r, types.Insert)
		}
		r.in = false
	}
	o.shown = append(o.shown[:0], now...)
	if out.N == 0 {
		return nil
	}
	for range out.N {
		out.Stamps = append(out.Stamps, stamp)
	}
	return o.out.Emit(out)
}

// Watermark implements op.Operator.
func (o *Top) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Top) Finish() error { return nil }

// Close implements op.Operator.
func (o *Top) Close() error { return nil }

// Limit passes on the first rows in the order they come. Of a changelog it keeps all rows, as Top
// without keys does.
type Limit struct {
	n    *plan.Limit
	in   types.Schema
	c    *op.Context
	out  op.Output
	seen int64
	b    vec.Batch
	top  *Top
}

// NewLimit builds the operator of n over rows of schema in.
func NewLimit(n *plan.Limit, in types.Schema) op.Operator { return &Limit{n: n, in: in} }

// Open implements op.Operator.
func (o *Limit) Open(c *op.Context, out op.Output) error { o.c, o.out = c, out; return nil }

// Process implements op.Operator.
func (o *Limit) Process(in int, b *vec.Batch) error {
	if o.top == nil && o.seen == 0 && b.Kinds != nil && !o.c.BatchMode {
		if err := o.keep(); err != nil {
			return err
		}
	}
	if o.top != nil {
		return o.top.Process(in, b)
	}
	rows := b.Selected()
	n := int64(len(rows))
	from := min(max(o.n.Offset-o.seen, 0), n)
	to := n
	if o.n.Limit >= 0 {
		to = max(min(o.n.Offset+o.n.Limit-o.seen, n), from)
	}
	o.seen += n
	if dropped := n - (to - from); dropped > 0 && o.c.Counters != nil {
		o.c.Counters.Drop(op.DropLimit, int(dropped))
	}
	if from == to {
		return nil
	}
	o.b = *b
	o.b.Sel = rows[from:to]
	return o.out.Emit(&o.b)
}

// keep begins to keep all rows.
func (o *Limit) keep() error {
	o.top = newTop(nil, o.n.Offset, o.limit(), o.in)
	return o.top.Open(o.c, o.out)
}

func (o *Limit) limit() int64 {
	if o.n.Limit < 0 {
		return 1 << 62
	}
	return o.n.Limit
}

// Watermark implements op.Operator.
func (o *Limit) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Limit) Finish() error { return nil }

// Close implements op.Operator.
func (o *Limit) Close() error { return nil }
