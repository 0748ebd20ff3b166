package window

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// lateRows counts the rows that are late for a window by how late they are (Counters.Late), and tells whoever wants to
// know of them: one row a window missed to Context.Late, in the form of plan.Late, and the windows to
// Context.Missed, once a batch. It is not asked about rows that are late for none, and nil where nobody counts.
// Rows are noted while a batch is sorted into its windows (miss) and told at the end of it (tell), or earlier where
// there are many.
type lateRows struct {
	n       *plan.WindowAgg
	ctx     *op.Context
	label   string
	columns int        // of the input
	batch   *vec.Batch // the input's columns, then plan.LateColumns; nil: rows are not wanted
	known   bool       // windows are known to have a start

	row int32     // the one that was counted last in by, -1 for none of the batch at hand
	by  op.LateBy // of the batch at hand

	rows           []int32
	start, end     []int64
	stamps, lateBy []int64
	pos            []int64

	missed []missedWindow // of the batch at hand
	last   int            // the one that was counted last
	// byEnd and byBoth find the others: their windows follow from their ends, but for those that came with
	// the rows. nil: windows are not wanted. Of aligned windows near finds those whose ends are not far from
	// the first one: the number in missed, plus one, of the window that ends at nearEnd + i*step.
	byEnd   map[int64]int
	byBoth  map[missedWindow]int
	near    []int32
	nearEnd int64
	at      int64 // the one in near that was counted last
	step    int64 // 0: not aligned
}

// nearWindows is how many windows near is for, the first one in the middle.
const nearWindows = 1 << 12

// missedWindow is a window and, but in a key, the number of rows late for it.
type missedWindow struct{ start, end, rows int64 }

func newLateRows(ctx *op.Context, n *plan.WindowAgg, in types.Schema) *lateRows {
	if ctx.Late == nil && ctx.Missed == nil && ctx.Counters == nil {
		return nil
	}
	l := &lateRows{n: n, ctx: ctx, label: ctx.Label, columns: in.Len(), known: !n.Attached || n.StartCol >= 0, row: -1}
	if ctx.Late != nil {
		l.batch = vec.NewBatch(in)
		for _, f := range plan.LateColumns {
			l.batch.Cols = append(l.batch.Cols, vec.New(f.Type, 0))
		}
	}
	if ctx.Missed != nil {
		l.byEnd, l.byBoth = map[int64]int{}, map[missedWindow]int{}
		if l.step = stepOf(n); l.step > 0 {
			l.near = make([]int32, nearWindows)
		}
	}
	return l
}

// stepOf is how far the ends of n's windows are from each other, 0 where they are not aligned.
func stepOf(n *plan.WindowAgg) int64 {
	switch {
	case n.Attached || n.Window.Kind == plan.Session:
		return 0
	case n.Window.Kind == plan.Tumble:
		return n.Window.Size
	}
	return n.Window.Step
}

// wanted reports whether somebody wants to know of the windows that a row missed.
func (l *lateRows) wanted() bool { return l.batch != nil || l.byEnd != nil }

// note counts row r, which missed a window by lateBy ms. The windows of a row come one after the other, the earliest
// first: it is the first that it missed by most.
func (l *lateRows) note(r int32, lateBy int64) {
	if r != l.row {
		l.row = r
		l.by.Note(lateBy)
	}
}

// miss notes that row r of b, stamped with stamp, is late for a window that took rows up to the instant
// over (exclusive: a stamp of over or more is late).
func (l *lateRows) miss(b *vec.Batch, r int32, start, end, over, stamp int64) error {
	if l == nil {
		return nil
	}
	l.note(r, stamp-over)
	if l.byEnd != nil {
		l.count(start, end)
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

// count counts a row for a window.
func (l *lateRows) count(start, end int64) {
	if l.last < len(l.missed) {
		if w := &l.missed[l.last]; w.start == start && w.end == end {
			w.rows++
			return
		}
	}
	if l.step > 0 && l.countNear(start, end) {
		return
	}
	var ok bool
	if l.n.Attached {
		key := missedWindow{start: start, end: end}
		if l.last, ok = l.byBoth[key]; !ok {
			l.last = len(l.missed)
			l.byBoth[key] = l.last
		}
	} else if l.last, ok = l.byEnd[end]; !ok {
		l.last = len(l.missed)
		l.byEnd[end] = l.last
	}
	if !ok {
		l.missed = append(l.missed, missedWindow{start: start, end: end})
	}
	l.missed[l.last].rows++
}

// countNear is count of a window that is not far from the first one; false: it is.
func (l *lateRows) countNear(start, end int64) bool {
	if len(l.missed) == 0 {
		l.nearEnd = end - nearWindows/2*l.step
	}
	i := l.at + 1 // the windows of a row come one after the other
	if end-l.nearEnd != i*l.step {
		i = (end - l.nearEnd) / l.step
	}
	if i < 0 || i >= nearWindows {
		return false
	}
	l.at = i
	if l.last = int(l.near[i]) - 1; l.last >= 0 {
		l.missed[l.last].rows++
		return true
	}
	l.last = len(l.missed)
	l.missed = append(l.missed, missedWindow{start, end, 1})
	l.near[i] = int32(len(l.missed))
	return true
}

// tell passes on what was noted of the rows of b.
func (l *lateRows) tell(b *vec.Batch) error {
	if l == nil || l.row < 0 {
		return nil
	}
	l.row = -1
	if l.ctx.Counters != nil {
		l.ctx.Counters.Late.Add(&l.by)
	}
	l.by = op.LateBy{}
	if len(l.missed) > 0 {
		for _, w := range l.missed {
			l.ctx.Missed(w.start, w.end, w.rows)
			if l.step > 0 {
				if i := (w.end - l.nearEnd) / l.step; i >= 0 && i < nearWindows {
					l.near[i] = 0
				}
			}
		}
		l.missed = l.missed[:0]
		clear(l.byEnd)
		clear(l.byBoth)
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
	// The same few words again and again are written once.
	cols[0].SetString(0, l.label)
	for k := range n {
		cols[0].Refs[k] = cols[0].Refs[0]
	}
	var kinds [types.Delete + 1]vec.Ref
	for k := range kinds {
		cols[5].SetString(0, types.RowKind(k).String())
		kinds[k] = cols[5].Refs[0]
	}
	if b.Kinds == nil {
		for k := range n {
			cols[5].Refs[k] = kinds[types.Insert]
		}
	} else {
		for k, r := range l.rows {
			cols[5].Refs[k] = kinds[b.Kind(int(r))]
		}
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
