package window

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// lateRows tells whoever wants to know of the rows that are late for a window: one row a window missed
// to Context.Late, in the form of plan.Late, and the windows to Context.Missed, once a batch. It is nil,
// and costs nothing, where nobody does. Rows are noted while a batch is sorted into its windows (miss)
// and told at the end of it (tell), or earlier where there are many.
type lateRows struct {
	n       *plan.WindowAgg
	ctx     *op.Context
	label   string
	columns int        // of the input
	batch   *vec.Batch // the input's columns, then plan.LateColumns; nil: rows are not wanted
	known   bool       // windows are known to have a start

	rows           []int32
	start, end     []int64
	stamps, lateBy []int64
	pos            []int64
	windows        map[[2]int64]int64 // rows by window; nil: not wanted
	last           [2]int64           // the window counted last, and how many
	count          int64
}

func newLateRows(ctx *op.Context, n *plan.WindowAgg, in types.Schema) *lateRows {
	if ctx.Late == nil && ctx.Missed == nil {
		return nil
	}
	l := &lateRows{n: n, ctx: ctx, label: ctx.Label, columns: in.Len(), known: !n.Attached || n.StartCol >= 0}
	if ctx.Late != nil {
		l.batch = vec.NewBatch(in)
		for _, f := range plan.LateColumns {
			l.batch.Cols = append(l.batch.Cols, vec.New(f.Type, 0))
		}
	}
	if ctx.Missed != nil {
		l.windows = map[[2]int64]int64{}
	}
	return l
}

// miss notes that row r of b, stamped with stamp, is late for a window that took rows up to the instant
// over (exclusive: a stamp of over or more is late).
func (l *lateRows) miss(b *vec.Batch, r int32, start, end, over, stamp int64) error {
	if l == nil {
		return nil
	}
	if l.windows != nil {
		if w := [2]int64{start, end}; w != l.last {
			l.counted()
			l.last = w
		}
		l.count++
	}
	if l.batch == nil {
		return nil
	}
	l.rows = append(l.rows, r)
	l.start, l.end = append(l.start, start), append(l.end, end)
	l.stamps, l.lateBy = append(l.stamps, stamp), append(l.lateBy, stamp-over)
	if len(l.rows) == vec.BatchRows {
		return l.emit(b)
	}
	return nil
}

// counted books what was counted for the last window.
func (l *lateRows) counted() {
	if l.count > 0 {
		l.windows[l.last] += l.count
		l.count = 0
	}
}

// tell passes on what was noted of the rows of b.
func (l *lateRows) tell(b *vec.Batch) error {
	if l == nil {
		return nil
	}
	if l.windows != nil {
		l.counted()
		if len(l.windows) > 0 {
			for w, n := range l.windows {
				l.ctx.Missed(w[0], w[1], n)
			}
			clear(l.windows)
		}
	}
	if len(l.rows) == 0 {
		return nil
	}
	return l.emit(b)
}

// emit passes on the rows of b noted so far.
func (l *lateRows) emit(b *vec.Batch) error {
	out, n := l.batch, len(l.rows)
	out.Reset(0)
	for i, c := range b.Cols {
		out.Cols[i].Gather(c, l.rows)
	}
	cols := out.Cols[l.columns:]
	for _, c := range cols {
		c.Resize(n)
	}
	for k, r := range l.rows {
		cols[0].SetString(k, l.label)
		cols[5].SetString(k, b.Kind(int(r)).String())
	}
	copy(cols[1].I64, l.start)
	copy(cols[2].I64, l.end)
	copy(cols[3].I64, l.stamps)
	copy(cols[4].I64, l.lateBy)
	if !l.known {
		for k := range n {
			cols[1].SetNull(k)
		}
	}
	out.N, out.Stamps = n, l.stamps
	if b.Pos != nil {
		l.pos = sized(l.pos, n)
		for k, r := range l.rows {
			l.pos[k] = b.Pos[r]
		}
		out.Origin, out.Pos = b.Origin, l.pos
	}
	err := l.ctx.Late(out)
	l.rows, l.start, l.end = l.rows[:0], l.start[:0], l.end[:0]
	l.stamps, l.lateBy = l.stamps[:0], l.lateBy[:0]
	return err
}
