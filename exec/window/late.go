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
	ctx     *op.Context
	label   string
	columns int        // of the input
	batch   *vec.Batch // the input's columns, then plan.LateColumns; nil: rows are not wanted
	known   bool       // windows are known to have a start
	shape              // of aligned windows; else its step is 0

	row int32     // the one that was counted last in by, -1 for none of the batch at hand
	by  op.LateBy // of the batch at hand

	runs        []lateRun
	noted       int     // rows that the runs stand for
	once, rows  []int32 // the row of each run; and as often as it is late
	stamps, pos []int64
	missed      *missedWindows // nil: windows are not wanted
}

// lateRun is a row that is late for n windows: the one from start to end, which took rows up to the instant
// over, and those that follow, each of which ends and is over a step later than the one before it.
type lateRun struct {
	row, n                  int32
	start, end, over, stamp int64
}

func newLateRows(ctx *op.Context, n *plan.WindowAgg, in types.Schema) *lateRows {
	if ctx.Late == nil && ctx.Missed == nil && ctx.Counters == nil {
		return nil
	}
	l := &lateRows{ctx: ctx, label: ctx.Label, columns: in.Len(), known: !n.Attached || n.StartCol >= 0, row: -1}
	if !n.Attached && n.Window.Kind != plan.Session {
		l.shape, _ = newShape(&n.Window) // the operator has checked that
	}
	if ctx.Late != nil {
		l.batch = vec.NewBatch(in)
		for _, f := range plan.LateColumns {
			l.batch.Cols = append(l.batch.Cols, vec.New(f.Type, 0))
		}
	}
	if ctx.Missed != nil {
		l.missed = newMissedWindows(l.shape)
	}
	return l
}

// wanted reports whether somebody wants to know of the windows that a row missed.
func (l *lateRows) wanted() bool { return l.batch != nil || l.missed != nil }

// note counts row r, which missed a window by lateBy ms. The windows of a row come one after the other, the earliest
// first: it is the first that it missed by most.
func (l *lateRows) note(r int32, lateBy int64) {
	if r != l.row {
		l.row = r
		l.by.Note(lateBy)
	}
}

// miss notes that row r of b, stamped with stamp, is late for a window that took rows up to the instant
// over (exclusive: a stamp of over or more is late), and for the n-1 ones that follow it.
func (l *lateRows) miss(b *vec.Batch, r int32, n, start, end, over, stamp int64) error {
	if l == nil || n == 0 {
		return nil
	}
	l.note(r, stamp-over)
	if l.missed != nil {
		l.missed.add(n, start, end)
	}
	if l.batch == nil {
		return nil
	}
	for {
		some := min(n, int64(vec.BatchRows-l.noted))
		l.runs = append(l.runs, lateRun{r, int32(some), start, end, over, stamp})
		if l.noted += int(some); l.noted == vec.BatchRows {
			if err := l.emit(b); err != nil {
				return err
			}
		}
		if n -= some; n == 0 {
			return nil
		}
		end, over = end+some*l.step, over+some*l.step
		start = l.start(end)
	}
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
	if l.missed != nil {
		l.missed.tell(l.ctx.Missed)
	}
	if l.noted == 0 {
		return nil
	}
	return l.emit(b)
}

// emit passes on the rows of b noted so far.
func (l *lateRows) emit(b *vec.Batch) error {
	out, n := l.batch, l.noted
	l.spread()
	out.Reset(0)
	for i, c := range b.Cols {
		l.gather(out.Cols[i], c)
	}
	cols := out.Cols[l.columns:]
	for _, c := range cols {
		c.Resize(n)
	}
	l.times(cols)
	// The same few words again and again are written once.
	cols[0].SetString(0, l.label)
	fill(cols[0].Refs, cols[0].Refs[0])
	var kinds [types.Delete + 1]vec.Ref
	for k := range kinds {
		cols[5].SetString(0, types.RowKind(k).String())
		kinds[k] = cols[5].Refs[0]
	}
	if b.Kinds == nil {
		fill(cols[5].Refs, kinds[types.Insert])
	} else {
		for k, r := range l.rows {
			cols[5].Refs[k] = kinds[b.Kind(int(r))]
		}
	}
	if !l.known {
		for k := range n {
			cols[1].SetNull(k)
		}
	}
	l.stamps = append(l.stamps[:0], cols[3].I64...)
	out.N, out.Stamps = n, l.stamps
	if b.Pos != nil {
		l.pos = sized(l.pos, n)
		for k, r := range l.rows {
			l.pos[k] = b.Pos[r]
		}
		out.Origin, out.Pos = b.Origin, l.pos
	}
	l.runs, l.noted = l.runs[:0], 0
	return l.ctx.Late(out)
}

func fill[T any](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}

// spread lists the rows of the runs.
func (l *lateRows) spread() {
	l.once, l.rows = sized(l.once, len(l.runs)), sized(l.rows, l.noted)
	at := 0
	for i := range l.runs {
		r := &l.runs[i]
		l.once[i] = r.row
		fill(l.rows[at:at+int(r.n)], r.row)
		at += int(r.n)
	}
}

// gather fills a column of the rows with their values in src. The bytes of a string are copied once a run.
func (l *lateRows) gather(dst, src *vec.Vec) {
	if dst.Phys != types.PBytes || src.Valid != nil || len(l.once) == l.noted {
		dst.Gather(src, l.rows)
		return
	}
	dst.Gather(src, l.once)
	dst.Resize(l.noted)
	at := l.noted
	for i := len(l.runs) - 1; i >= 0; i-- {
		from := at - int(l.runs[i].n)
		fill(dst.Refs[from:at], dst.Refs[i])
		at = from
	}
}

// times fills the columns of plan.LateColumns that are times.
func (l *lateRows) times(cols []*vec.Vec) {
	start, end, stamps, by := cols[1].I64, cols[2].I64, cols[3].I64, cols[4].I64
	move := l.step // by how much the next window starts later
	if l.kind == plan.Cumulate {
		move = 0 // those of one row start together
	}
	at := 0
	for i := range l.runs {
		r := l.runs[i]
		for range r.n {
			start[at], end[at], stamps[at], by[at] = r.start, r.end, r.stamp, r.stamp-r.over
			r.start, r.end, r.over = r.start+move, r.end+l.step, r.over+l.step
			at++
		}
	}
}
