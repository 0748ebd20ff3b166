// Package op is the contract of operators: what one thread computes. An operator has no goroutine,
// reads no clock and does no I/O; a subtask (package job) runs a chain of them and calls them from
// one goroutine only.
package op

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// Operator computes. The calls, in order: Open; then Process and Watermark in any number, and
// ProcTime where implemented; then Finish if the input ended; then Close, always.
type Operator interface {
	Open(c *Context, out Output) error
	// Process takes the selected rows of b from input in. b is valid until the call returns.
	// The rows of one call were stamped by one upstream subtask, so stamps do not decrease.
	Process(in int, b *vec.Batch) error
	// Watermark says that the combined event time of the inputs has reached wm (ms), after the
	// rows given so far. It only grows; vec.MaxTime is the end of time. The operator emits what
	// has become due and then passes wm on (out.Watermark), or a smaller one if it holds rows
	// back.
	Watermark(wm int64) error
	// Finish says that no more rows come. Watermark(vec.MaxTime) was called before where the
	// input has event time. The operator emits what it holds.
	Finish() error
	Close() error
}

// ProcTimer is implemented by operators that act on processing time. ProcTime is called between
// batches with the current time, at least every 100 ms while the job runs and when NextProcTime
// has passed.
type ProcTimer interface {
	ProcTime(nowMs int64) error
	// NextProcTime is when the operator wants to be called, or vec.MaxTime.
	NextProcTime() int64
}

// Stateful is implemented by operators that remember something between batches. All calls come
// between two batches. State that belongs to a key is entries of the States, in the key group of
// the key (state.KeyGroup of its frozen hash), which may move to another subtask; the rest, such as
// the watermark reached, is the head, small and written whole each time.
type Stateful interface {
	// States describes the keyed states, the same ones in each run of a plan, in an order in which
	// they can be restored. At most 128. Called before Open too.
	States() []state.Spec
	// Freeze adds to d what changed in the keyed states since the last call or, the first time,
	// since Restore or Open. Several calls may come between two checkpoints.
	Freeze(d *state.Delta) error
	// Dirty is about how many bytes Freeze would add.
	Dirty() int
	// Head appends what else there is to dst.
	Head(dst []byte) ([]byte, error)
	// Restore is called after Open and before all other calls where the job goes on from a
	// checkpoint: with the saved entries of the subtask's key groups, and the heads of all
	// subtasks that there were (by subtask, which may be more or fewer than now). A deadline
	// that has passed meanwhile is met at the next Watermark or ProcTime.
	Restore(saved state.Saved, heads [][]byte) error
}

// Flusher is implemented by operators that hold rows back for a while for the sake of speed, such
// as local aggregations. Flush emits them; it is called before a checkpoint.
type Flusher interface {
	Flush() error
}

// Output takes what an operator emits. A batch given to Emit is the emitter's again when Emit
// returns; it must hold only memory that is valid until then.
type Output interface {
	Emit(b *vec.Batch) error
	Watermark(wm int64) error
}

// DropReason says why rows were not used.
type DropReason uint8

// The reasons.
const (
	DropFilter     DropReason = iota // a WHERE or HAVING was not true
	DropLate                         // behind the watermark
	DropDeadLetter                   // refused for what it contains
	DropNullTime                     // no event time where one is needed
	DropNotNull                      // NULL in a NOT NULL column of a sink that drops such rows
	DropDuplicate                    // the same change again
	DropStale                        // an older version, or a retraction of nothing
	DropLimit                        // beyond LIMIT or before OFFSET
	DropConflict                     // the same version of an entity with other content
	DropExpired                      // of an entity or key that may have been forgotten
	DropUnchanged                    // a result that says what was said of it last
	DropReasons                      // the number of reasons
)

var dropNames = [...]string{
	"filtered", "late", "dead letter", "null time", "null in not-null column", "duplicate", "stale", "limit",
	"conflict", "expired", "unchanged",
}

// String gives the name that the closing account uses.
func (r DropReason) String() string { return dropNames[r] }

// Counters are an operator's books: RowsIn = rows used + the sum of Drops. Written by one
// goroutine, read by any.
type Counters struct {
	RowsIn, RowsOut atomic.Int64
	// Used counts, in aggregations, the rows that went into the state: with the drops it makes up
	// RowsIn when the input has ended.
	Used  atomic.Int64
	Drops [DropReasons]atomic.Int64
	// LateOut counts the rows given to Context.Late.
	LateOut atomic.Int64
	// Late counts the rows that a window aggregation found too late by how late they were.
	Late Lateness
	// StateBytes and StateEntries are what the operator holds.
	StateBytes, StateEntries atomic.Int64
	// Watermark is the latest one passed on.
	Watermark atomic.Int64
	_         [64]byte
}

// Lateness counts late rows by how much the watermark had passed them. A row that missed several windows
// counts once, by the one that it missed by most: a delay longer by more than that would have kept it in all of them.
type Lateness struct {
	// Buckets are the rows up to each of connector.LateBounds and above the one before, then those above all.
	Buckets [len(connector.LateBounds) + 1]atomic.Int64
	// SumMs is by how much all were late.
	SumMs atomic.Int64
}

// LateBy is what a Lateness says at one time. Rows are in the buckets of connector.LateBounds, none of them cumulative.
type LateBy struct {
	Rows  [len(connector.LateBounds) + 1]int64
	SumMs int64
}

// maxLateMs is the most that a row counts with in sums, about 35 years: what comes behind the end of time would
// make them overflow.
const maxLateMs = 1 << 40

// Note counts a row that was late by ms.
func (l *LateBy) Note(ms int64) {
	ms = min(max(ms, 0), maxLateMs)
	i := 0
	for i < len(connector.LateBounds) && ms > connector.LateBounds[i] {
		i++
	}
	l.Rows[i]++
	l.SumMs += ms
}

// Count is the number of rows.
func (l *LateBy) Count() int64 {
	var n int64
	for _, x := range l.Rows {
		n += x
	}
	return n
}

// Add adds what m counted.
func (l *LateBy) Add(m *LateBy) {
	for i, n := range m.Rows {
		l.Rows[i] += n
	}
	l.SumMs += m.SumMs
}

// Add adds what m counted.
func (l *Lateness) Add(m *LateBy) {
	for i, n := range m.Rows {
		if n != 0 {
			l.Buckets[i].Add(n)
		}
	}
	l.SumMs.Add(m.SumMs)
}

// Load returns what was counted.
func (l *Lateness) Load() (m LateBy) {
	for i := range l.Buckets {
		m.Rows[i] = l.Buckets[i].Load()
	}
	m.SumMs = l.SumMs.Load()
	return m
}

// Store sets what was counted.
func (l *Lateness) Store(m *LateBy) {
	for i, n := range m.Rows {
		l.Buckets[i].Store(n)
	}
	l.SumMs.Store(m.SumMs)
}

// Drop counts n rows under reason r.
func (c *Counters) Drop(r DropReason, n int) { c.Drops[r].Add(int64(n)) }

// Refusal is an error for Context.BadRow that names the reason under which the row is counted.
type Refusal struct {
	Reason DropReason
	Err    error
	// Skip says that the row is left out where there is no dead-letter output; otherwise the job stops
	// there.
	Skip bool
}

// Error implements error.
func (e *Refusal) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Refusal) Unwrap() error { return e.Err }

// Refused is the reason under which a row is counted that was given to Context.BadRow with err, and
// whether it is left out where there is no dead-letter output.
func Refused(err error) (r DropReason, skip bool) {
	var x *Refusal
	if errors.As(err, &x) {
		return x.Reason, x.Skip
	}
	return DropDeadLetter, false
}

// Context is what an operator may use, valid from Open to Close.
type Context struct {
	Env *expr.Env
	// Label is what a user reads of the operator.
	Label string
	// NodeID is the operator's node in the plan, Subtask its parallel instance.
	NodeID, Subtask, Parallelism int
	// MaxParallelism is the number of key groups.
	MaxParallelism int
	Counters       *Counters
	// Now gives processing time, ms.
	Now func() int64
	// BadRow handles a row that cannot be used for what it contains: nil to skip it (it was
	// counted and written to the dead-letter output), an error to stop the job. The context
	// counts DropDeadLetter, or the reason of a Refusal in err. pos is the expression in the SQL text.
	BadRow func(b *vec.Batch, row int, pos expr.Pos, err error) error
	// Late takes the rows that a window aggregation found too late, in the form of plan.Late; nil where
	// nobody wants them. They are counted as dropped all the same where no window took them.
	Late func(b *vec.Batch) error
	// Missed is told of rows that a window aggregation found too late: the window missed (local time of
	// the window, ms) and how many; nil where nobody wants to know.
	Missed func(startMs, endMs, rows int64)
	// BatchRows is the number of rows of a full batch.
	BatchRows int
	// BatchMode is execution.runtime-mode = batch.
	BatchMode bool
	// Saves says that checkpoints are taken, so that Stateful operators must note what changes.
	Saves bool
	// Budget counts the memory that state takes, Spill is what tables that may be larger than memory
	// spill to (state.Keeper.Spill). Both may be nil.
	Budget *state.Budget
	Spill  *state.Spill
	// Room makes room within a batch, as the job does between two: the operator calls it after a part of the rows, where
	// a batch may add more than memory has room for, and holds no addresses of records meanwhile. It may be frozen in there.
	// nil: nothing can be done.
	Room func() error
}

// CheckGroup panics where a key group is not one that the subtask owns: its entries would be lost
// when the job goes on.
func (c *Context) CheckGroup(group int) {
	if lo, hi := state.Groups(c.Subtask, c.MaxParallelism, c.Parallelism); group < lo || group >= hi {
		panic(fmt.Sprintf("BUG: subtask %d of %d of node %d keeps state of key group %d", c.Subtask, c.Parallelism,
			c.NodeID, group))
	}
}
