package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// RecordFate is what a job did with a record.
type RecordFate struct {
	// Job is the job's name and the tables that it writes.
	Job    string
	Writes []string
	// Outcome is the worst that happened to it.
	Outcome Outcome
	// Reason says more of a record that did not become a row, and of one of which nothing can be said.
	Reason string
	// Steps are the operators that it came to, in the order of the plan. An operator may have been given several rows
	// of it: a new version of an entity takes back the one before (-U) and adds itself (+U).
	Steps []RecordStep
}

// RecordStep is what an operator did with a row that a record became.
type RecordStep struct {
	Operator string
	RowKind  string // +I, -U, +U or -D
	Outcome  Outcome
	Reason   string // of a row that was refused
	// Windows are those that the row belongs to, of window aggregations.
	Windows []RecordWindow `json:",omitempty"`
	// Note says what a live job may have done otherwise.
	Note string `json:",omitempty"`
}

// Outcome is what became of a record or row.
type Outcome string

// The outcomes.
const (
	OutcomePassed     Outcome = "passed on"
	OutcomeWritten    Outcome = "written"
	OutcomeUsed       Outcome = "used"        // by an aggregation
	OutcomeInTime     Outcome = "in time"     // used in all of its windows
	OutcomeHeld       Outcome = "held"        // in the operator's state, for rows that come
	OutcomePartlyLate Outcome = "partly late" // too late for some of its windows
	OutcomeLate       Outcome = "late"
	OutcomeFiltered   Outcome = "filtered"
	OutcomeStale      Outcome = "stale"
	OutcomeDuplicate  Outcome = "duplicate"
	OutcomeConflict   Outcome = "conflict"
	OutcomeExpired    Outcome = "expired"
	OutcomeUnchanged  Outcome = "unchanged"
	OutcomeLimit      Outcome = "beyond the limit"
	OutcomeNotNull    Outcome = "null in a not-null column"
	OutcomeNoTime     Outcome = "no event time"
	OutcomeRejected   Outcome = "rejected"
	OutcomeSkipped    Outcome = "skipped" // ignore-parse-errors
	OutcomeUnknown    Outcome = "unknown"
)

// outcomes are those of rows that operators drop.
var outcomes = [op.DropReasons]Outcome{
	op.DropFilter: OutcomeFiltered, op.DropLate: OutcomeLate, op.DropDeadLetter: OutcomeRejected, op.DropNullTime: OutcomeNoTime,
	op.DropNotNull: OutcomeNotNull, op.DropDuplicate: OutcomeDuplicate, op.DropStale: OutcomeStale, op.DropLimit: OutcomeLimit,
	op.DropConflict: OutcomeConflict, op.DropExpired: OutcomeExpired, op.DropUnchanged: OutcomeUnchanged,
}

// severity orders outcomes: of several that one counts which is furthest behind.
var severity = []Outcome{OutcomePassed, OutcomeWritten, OutcomeHeld, OutcomeUsed, OutcomeInTime, OutcomeUnchanged, OutcomeLimit, OutcomeFiltered,
	OutcomeDuplicate, OutcomeStale, OutcomePartlyLate, OutcomeLate, OutcomeNotNull, OutcomeNoTime, OutcomeExpired, OutcomeConflict, OutcomeRejected}

// tracer follows records through one job.
type tracer struct {
	plan    *plan.Plan
	out     []RecordAnswer
	table   string
	at      map[string]map[int64][]int // of the records, by split and position
	left    map[[3]int]bool            // record, node and input at which it is awaited
	fates   []RecordFate
	order   []([]int) // of the steps of a record: node ids
	windows map[*plan.WindowAgg]*window.Assigner
	enough  func()
	err     error
}

// follow runs a job dry and notes what it does with the records of out.
func (e *Engine) follow(ctx context.Context, r *reading, out []RecordAnswer) error {
	t := newTracer(r.plan, out)
	p := *r.plan
	p.Nodes = slices.Clone(p.Nodes)
	for i, n := range p.Nodes {
		x := *n
		x.NeedPos, x.Parallelism = true, 1
		if s, ok := n.Op.(*plan.Source); ok {
			all := *s
			all.Filter, all.Limit = nil, -1
			x.Op = &all
		}
		p.Nodes[i] = &x
	}
	t.plan = &p
	dry(&p)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.enough = func() { cancel(errSampled) }
	o := e.jobOptions(r.s, r.s.Config(), Handler{})
	o.Parallelism = 1
	o.Collect = func(*plan.Node, *vec.Batch) error { return nil }
	o.Trace = &job.Trace{Follows: t.follows, Step: t.step, Refused: t.refuse}
	t.await()
	j, err := job.Start(ctx, &p, o)
	if err == nil {
		_, err = j.Wait()
	}
	if err != nil && !errors.Is(err, errSampled) {
		return err
	}
	if t.err != nil {
		return t.err
	}
	t.tell()
	return nil
}

func newTracer(p *plan.Plan, out []RecordAnswer) *tracer {
	t := &tracer{plan: p, out: out, table: out[0].Table, at: map[string]map[int64][]int{}, left: map[[3]int]bool{},
		fates: make([]RecordFate, len(out)), order: make([][]int, len(out)), windows: map[*plan.WindowAgg]*window.Assigner{}}
	for i, a := range out {
		if a.Position < 0 {
			continue
		}
		if t.at[a.Split] == nil {
			t.at[a.Split] = map[int64][]int{}
		}
		t.at[a.Split][a.Position] = append(t.at[a.Split][a.Position], i)
	}
	for i := range t.fates {
		t.fates[i].Job = p.Name
		for _, n := range p.Nodes {
			if s, ok := n.Op.(*plan.Sink); ok && s.Table != nil {
				t.fates[i].Writes = append(t.fates[i].Writes, s.Table.Name)
			}
		}
	}
	return t
}

// await lists where records are expected: at each operator that reads the table.
func (t *tracer) await() {
	for _, n := range t.plan.Nodes {
		for k, in := range n.Inputs {
			if !t.reads(in.From) {
				continue
			}
			for _, byPos := range t.at {
				for _, at := range byPos {
					for _, i := range at {
						t.left[[3]int{i, n.ID, k}] = true
					}
				}
			}
		}
	}
	if len(t.left) == 0 {
		t.enough()
	}
}

// reads reports whether a node is a source of the table.
func (t *tracer) reads(node int) bool {
	s, ok := t.plan.Nodes[node].Op.(*plan.Source)
	return ok && s.Table.Name == t.table
}

func (t *tracer) follows(o *vec.Origin, pos int64) bool {
	return o != nil && o.Source == t.table && t.at[o.Split] != nil && t.at[o.Split][pos] != nil
}

// came notes that a record has come to an operator. When all have, no more needs to be read: what a record does to
// operators behind is done by the time that the batch is.
func (t *tracer) came(i, node, input int) {
	if !t.left[[3]int{i, node, input}] {
		return
	}
	if delete(t.left, [3]int{i, node, input}); len(t.left) == 0 {
		t.enough()
	}
}

// step takes what an operator did with a row.
func (t *tracer) step(s *job.TraceStep) {
	b := s.Batch
	for _, i := range t.at[b.Origin.Split][b.Pos[s.Row]] {
		x := RecordStep{Operator: s.Node.Label, RowKind: b.Kind(s.Row).String()}
		x.Outcome = t.outcome(s)
		if s.Refused != nil {
			x.Reason = s.Refused.Error()
		}
		var err error
		if w, ok := s.Node.Op.(*plan.WindowAgg); ok && x.Outcome != OutcomeNoTime {
			if x.Windows, err = t.windowsOf(w, s, &t.out[i]); err != nil && t.err == nil {
				t.err = err
				t.enough()
			}
			missed := 0
			for _, y := range x.Windows {
				if y.LateBy >= 0 {
					missed++
				}
			}
			switch {
			case x.Outcome == OutcomeLate:
			case missed > 0:
				x.Outcome = OutcomePartlyLate
			case len(x.Windows) > 0:
				x.Outcome = OutcomeInTime
			}
		}
		x.Note = noteOf(s.Node)
		// Steps come when all behind them are through; the order of the plan is that of the rows.
		f := &t.fates[i]
		at, _ := slices.BinarySearch(t.order[i], s.Node.ID+1)
		t.order[i] = slices.Insert(t.order[i], at, s.Node.ID)
		f.Steps = slices.Insert(f.Steps, at, x)
		if t.reads(s.Node.Inputs[s.Input].From) {
			t.came(i, s.Node.ID, s.Input)
		}
	}
}

// outcome is what an operator's books say.
func (t *tracer) outcome(s *job.TraceStep) Outcome {
	for r, n := range s.Drops {
		if n > 0 {
			return outcomes[r]
		}
	}
	if _, ok := s.Node.Op.(*plan.Sink); ok {
		return OutcomeWritten
	}
	switch {
	case s.Refused != nil: // by a note of the operator's that counts otherwise
		return OutcomeRejected
	case s.Used > 0:
		return OutcomeUsed
	case s.Out > 0:
		return OutcomePassed
	}
	return OutcomeHeld
}

// noteOf says where a run of another time may do otherwise with a row.
func noteOf(n *plan.Node) string {
	if o, ok := n.Op.(*plan.Normalize); ok && o.HorizonMs > 0 && o.RowTime < 0 {
		return fmt.Sprintf("entities are remembered for %s of the wall clock, so what a live job still knew of it cannot be told", Interval(o.HorizonMs))
	}
	return ""
}

// windowsOf are the windows of a row at a window aggregation.
func (t *tracer) windowsOf(w *plan.WindowAgg, s *job.TraceStep, a *RecordAnswer) ([]RecordWindow, error) {
	if w.Window.ProcTime {
		return nil, nil
	}
	var out []RecordWindow
	if w.Attached {
		x := RecordWindow{Start: vec.MinTime, LateBy: -1}
		if w.StartCol >= 0 {
			x.Start, _ = timeOf(s.Batch.Cols[w.StartCol], s.Row)
		}
		var ok bool
		if x.End, ok = timeOf(s.Batch.Cols[w.EndCol], s.Row); ok {
			out = append(out, x)
		}
	} else if at, ok := timeOf(s.Batch.Cols[w.Window.TimeCol], s.Row); ok {
		as := t.windows[w]
		if as == nil {
			var err error
			if as, err = window.NewAssigner(w); err != nil {
				return nil, err
			}
			t.windows[w] = as
		}
		for _, x := range as.Of(nil, at) {
			out = append(out, RecordWindow{Start: x.Start, End: x.End, LateBy: -1})
		}
	}
	for i := range out {
		x := &out[i]
		x.LatenessMs, x.Watermark = w.AllowedLatenessMs, vec.MinTime
		if s.Batch.Stamps != nil {
			x.Watermark = s.Batch.Stamps[s.Row]
		}
		for _, m := range s.Missed {
			if m.End != x.End || m.Start != vec.MinTime && m.Start != x.Start {
				continue
			}
			x.Watermark, x.LateBy = m.Watermark, m.LateBy
			if a.DriverAgo > 0 && a.Watermark == m.Watermark {
				// Now the delay is what lies between the driver's time and the watermark; one more ms than the record
				// was late keeps it.
				x.Keep = a.DriverTime - m.Watermark + m.LateBy + 1
			}
		}
	}
	return out, nil
}

// timeOf is a time in ms.
func timeOf(v *vec.Vec, i int) (int64, bool) {
	switch {
	case v.IsNull(i):
		return 0, false
	case v.Phys == types.PI128:
		return v.I128[i].Hi, true
	}
	return v.I64[i], true
}

// refuse takes what the table's source, or the format, could not use; operators tell of theirs with the step.
func (t *tracer) refuse(x *job.TraceRefusal) {
	if x.At == nil || !t.follows(x.At, x.Pos) || x.Node != nil && len(x.Node.Inputs) > 0 {
		return
	}
	for _, i := range t.at[x.At.Split][x.Pos] {
		f := &t.fates[i]
		f.Outcome, f.Reason = OutcomeRejected, x.Err.Error()
		switch {
		case t.out[i].NoTime:
			f.Outcome = OutcomeNoTime
		case !x.Kept:
			f.Reason += "; the table has no output for dead letters, so the job stops at it"
		}
		for _, n := range t.plan.Nodes {
			for k, in := range n.Inputs {
				if x.Node != nil && in.From == x.Node.ID || x.Node == nil && t.reads(in.From) {
					t.came(i, n.ID, k)
				}
			}
		}
	}
}

// tell adds the fates to the answers.
func (t *tracer) tell() {
	for i := range t.out {
		a, f := &t.out[i], &t.fates[i]
		for _, s := range f.Steps {
			if slices.Index(severity, s.Outcome) > slices.Index(severity, f.Outcome) {
				f.Outcome = s.Outcome
			}
		}
		switch {
		case f.Outcome != "":
		case a.Position < 0:
			f.Outcome, f.Reason = OutcomeUnknown, "its source gives records no positions, so it cannot be followed through the job"
		case a.refused != "":
			f.Outcome, f.Reason = OutcomeSkipped, a.refused+"; the table is told to pass over such records (ignore-parse-errors)"
		default:
			f.Outcome, f.Reason = OutcomeUnknown, "the job was not given it when it was run again, so what became of it cannot be told"
		}
		a.Jobs = append(a.Jobs, *f)
	}
}
