package job

import (
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// Trace follows records through a job, for people who ask what became of them. Rows of such a record are given to
// each operator one by one, so that what its books say after a row is about that row alone; results do not depend on
// how rows come in batches. The job must have a parallelism of 1 and should collect the rows of its sinks: what
// cannot be used is told here, goes to no dead-letter output, and does not stop the job. All calls come
// from one goroutine.
type Trace struct {
	// Follows reports whether a record is followed. It is asked of every row, at every operator.
	Follows func(o *vec.Origin, pos int64) bool
	// Step is told what an operator did with a row of a record that is followed, when all that it passed on at once has
	// been through the operators behind it. What it holds is valid during the call.
	Step func(s *TraceStep)
	// Refused is told of every record and row that cannot be used; what it holds is valid during the call.
	Refused func(r *TraceRefusal)

	at *TraceStep // whose operator is at work
}

// TraceStep is what an operator did with a row.
type TraceStep struct {
	Node  *plan.Node
	Input int
	Batch *vec.Batch
	Row   int // its position in Batch
	// Used and Out are by how much these counters have grown, Drops and Refused why it was dropped.
	Used, Out int64
	Drops     [op.DropReasons]int64
	Refused   error
	// Missed are windows that the row was too late for.
	Missed []MissedWindow
}

// MissedWindow is a window that a row was too late for, as plan.LateColumns has it.
type MissedWindow struct {
	Start, End int64 // Start is vec.MinTime where it is not known
	Watermark  int64
	LateBy     int64
}

// TraceRefusal is a record or row that cannot be used.
type TraceRefusal struct {
	Table *connector.Table
	Node  *plan.Node  // nil: the record could not be decoded
	At    *vec.Origin // nil: its place is not known
	Pos   int64
	Bytes []byte // of the record, nil where they are not at hand
	// Batch and Row are the row: of a source that which was decoded, before the projection; else as it came to
	// the operator.
	Batch  *vec.Batch
	Row    int
	Reason op.DropReason
	Err    error
	// Kept says that the table has an output for dead letters, Skipped that it is left out where there is none.
	Kept, Skipped bool
}

// split gives a batch to the operator, the rows that are followed one by one.
func (t *Trace) split(r *opRun, input int, b *vec.Batch) error {
	if b.Pos == nil || t.Follows == nil {
		return r.op.Process(input, b)
	}
	rows := b.Selected()
	from := 0
	several := func(to int) error {
		if to == from {
			return nil
		}
		some := *b
		some.Sel = rows[from:to]
		return r.op.Process(input, &some)
	}
	for k, i := range rows {
		if !t.Follows(b.Origin, b.Pos[i]) {
			continue
		}
		if err := several(k); err != nil {
			return err
		}
		one := *b
		one.Sel = rows[k : k+1]
		if err := t.step(r, input, &one, int(i)); err != nil {
			return err
		}
		from = k + 1
	}
	return several(len(rows))
}

// step gives one row to the operator and tells what became of it.
func (t *Trace) step(r *opRun, input int, b *vec.Batch, row int) error {
	s := &TraceStep{Node: r.node, Input: input, Batch: b, Row: row, Used: r.books.Used.Load(), Out: r.books.RowsOut.Load()}
	for i := range s.Drops {
		s.Drops[i] = r.books.Drops[i].Load()
	}
	before := t.at
	t.at = s
	err := r.op.Process(input, b)
	t.at = before
	if err != nil {
		return err
	}
	s.Used, s.Out = r.books.Used.Load()-s.Used, r.books.RowsOut.Load()-s.Out
	for i := range s.Drops {
		s.Drops[i] = r.books.Drops[i].Load() - s.Drops[i]
	}
	if t.Step != nil {
		t.Step(s)
	}
	return nil
}

// late has the late rows of a window aggregation told, besides to next.
func (t *Trace) late(n *plan.WindowAgg, columns int, next func(*vec.Batch) error) func(*vec.Batch) error {
	return func(b *vec.Batch) error {
		if t.at != nil && t.at.Node.Op == plan.Op(n) {
			c := b.Cols[columns:]
			b.Each(func(i int) {
				m := MissedWindow{Start: vec.MinTime, End: c[2].I64[i], Watermark: c[3].I64[i], LateBy: c[4].I64[i]}
				if !c[1].IsNull(i) {
					m.Start = c[1].I64[i]
				}
				t.at.Missed = append(t.at.Missed, m)
			})
		}
		if next == nil {
			return nil
		}
		return next(b)
	}
}

// record tells of a record that could not be decoded.
func (t *Trace) record(table *connector.Table, b format.BadRecord) error {
	if t.Refused != nil {
		t.Refused(&TraceRefusal{Table: table, At: b.Origin, Pos: b.Pos, Bytes: b.Bytes, Reason: op.DropDeadLetter, Err: b.Err, Kept: hasDeadLetter(table)})
	}
	return nil
}

// row tells of a row that node n cannot use.
func (t *Trace) row(table *connector.Table, n *plan.Node, b *vec.Batch, row int, bytes []byte, why error) error {
	if t.at != nil && t.at.Node == n {
		t.at.Refused = why
	}
	if t.Refused == nil {
		return nil
	}
	x := &TraceRefusal{Table: table, Node: n, Bytes: bytes, Batch: b, Row: row, Err: why, Kept: hasDeadLetter(table)}
	x.Reason, x.Skipped = op.Refused(why)
	if b.Pos != nil {
		x.At, x.Pos = b.Origin, b.Pos[row]
	}
	t.Refused(x)
	return nil
}
