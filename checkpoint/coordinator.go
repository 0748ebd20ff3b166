package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
)

// Kind is why a checkpoint is taken.
type Kind uint8

// The kinds. All of them are checkpoints that a restart goes on from; a savepoint is written a
// second time, on its own feet. After the cut of a Stop or Drain the job stands still until the
// coordinator says Stop or Resume; before the cut of a Drain the end of time is sent through the
// job. A Final is taken when the input has ended.
const (
	Periodic Kind = iota
	Savepoint
	Stop
	Drain
	Final
)

var kindNames = [...]string{"checkpoint", "savepoint", "stop", "drain", "final"}

// String gives the name used in reports.
func (k Kind) String() string { return kindNames[k] }

// Do is what the caller of a coordinator is to do.
type Do uint8

// The actions. Each DoCut is answered once, by CutDone or CutFailed; each DoWrite once, by Written
// or WriteFailed; each DoCommit once, by CommitDone or CommitFailed. The others are not answered.
const (
	// DoCut: cut the job (Action.ID, Kind); what sinks have written since the last cut becomes the
	// prepared output of epoch ID.
	DoCut Do = iota
	// DoWrite: write what was cut as checkpoint ID. The manifest holds the prepared output of all
	// epochs up to ID that no CommitDone was reported for. For kinds other than Periodic and
	// Final write the savepoint too, first.
	DoWrite
	// DoAbandon: give up the cut or the writing of ID, which has to be answered soon all the same:
	// by a failure or, if it was too late, by the success that it was.
	DoAbandon
	// DoCommit: make the prepared output of epoch ID visible: nothing, perhaps. A manifest that
	// holds it is in place.
	DoCommit
	// DoCommitPositions: tell the outside world the positions of the sources at checkpoint ID.
	DoCommitPositions
	// DoDrop: remove the checkpoints whose id is below ID, debris included.
	DoDrop
	// DoReport: tell who asked (Ref) for a savepoint, stop or drain that it is written (ID), or
	// Err. Where a stop was refused by a failure the job goes on.
	DoReport
	// DoResume: let the job, which stands still since the cut of a Stop, go on.
	DoResume
	// DoStop: end the job, well. Err says what is left to be done by the next start, or is nil.
	DoStop
	// DoFail: end the job with Err. Nothing is to be done afterwards.
	DoFail
	// DoTimer: call Tick at AtMs, instead of the time given before.
	DoTimer
)

var doNames = [...]string{"cut", "write", "abandon", "commit", "positions", "drop", "report", "resume", "stop", "fail", "timer"}

// String gives the name used in reports.
func (d Do) String() string { return doNames[d] }

// Action is something that the caller is to do, in the order given.
type Action struct {
	Do   Do
	ID   int64
	Kind Kind
	AtMs int64
	Ref  string
	Err  error
}

// String gives the action as scripts of tests write it.
func (a Action) String() string {
	s := a.Do.String()
	switch a.Do {
	case DoTimer:
		return fmt.Sprintf("%s %d", s, a.AtMs)
	case DoCut, DoWrite:
		return fmt.Sprintf("%s %d %s", s, a.ID, a.Kind)
	case DoReport:
		s += " " + a.Ref
	}
	if a.ID != 0 {
		s += fmt.Sprintf(" %d", a.ID)
	}
	if a.Err != nil {
		s += ": " + a.Err.Error()
	}
	return s
}

// CoordinatorOptions say when checkpoints are taken and what their failures mean.
type CoordinatorOptions struct {
	// Interval is the time from the start of a checkpoint to the start of the next, MinPause that
	// from the end of an attempt to the start of the next. Interval 0: only those asked for.
	Interval, MinPause time.Duration
	// Timeout is how long a checkpoint may take until it is abandoned.
	Timeout time.Duration
	// TolerableFailures is how many checkpoints in a row may fail without the job failing.
	// Savepoints do not count.
	TolerableFailures int
	// Retained is how many checkpoints are kept, at least 1.
	Retained int
	// OutputBytes is how much sealed output calls for a checkpoint before its time; 0: none.
	OutputBytes int64
	// CommitTimeout is how long the commit of an epoch may be tried before the job fails; 0: for
	// ever.
	CommitTimeout time.Duration
}

// Resumed is what a job goes on from. The zero value is a job's first start.
type Resumed struct {
	// Last is the greatest id that any checkpoint of the job has had, in any lineage.
	Last int64
	// Completed are the checkpoints that there are, Epochs those that the manifest restored holds
	// prepared output of, both ascending.
	Completed, Epochs []int64
}

// Coordinator decides when checkpoints are taken, when their output is committed, and when a job
// ends. It is a pure state machine: it has no goroutine, clock or I/O; each event comes with the
// time, in ms of any clock that does not go back, and gives what the caller is to do. The actions
// are valid until the next event. Not safe for concurrent use.
//
// One checkpoint is in flight at most: cut, then written. Commits are a lane of their own, oldest
// epoch first, and may lag behind, since the manifests of later checkpoints hold what is pending.
// Every cut that was begun opens an epoch, whatever becomes of it: some sinks may have prepared
// output for it. Ids ascend and are never used again.
type Coordinator struct {
	o       CoordinatorOptions
	actions []Action
	begun   bool
	over    bool // DoStop or DoFail was given

	lastID int64
	flight flight
	// startMs is when the last cut was started, endMs when the last attempt ended.
	startMs, endMs int64
	early          bool // sealed output calls for a checkpoint before its time
	output         int64
	requests       []request
	failures       int // in a row
	finalTries     int

	epochs    []int64 // begun and not committed, ascending
	placed    []int64 // in place, positions not committed, ascending
	inPlace   int64   // the newest manifest: epochs up to it may be committed
	completed []int64 // in place and not dropped, ascending
	commit    commitLane

	ending  Kind  // the kind that ends the job, once it is in place; Periodic: none
	untilMs int64 // when a stopped job no longer waits for commits
	timerMs int64
}

// flight is the checkpoint being taken; stage is landed where there is none.
type flight struct {
	request
	stage     stage
	id        int64
	limitMs   int64 // of the stage: abandon or, if abandoned, fail
	abandoned bool
}

type stage uint8

const (
	landed stage = iota
	cutting
	writing
)

type request struct {
	kind Kind
	ref  string
}

// commitLane is the state of the commit of the oldest epoch.
type commitLane struct {
	busy    bool
	tries   int
	retryMs int64 // when it is tried again
	sinceMs int64 // when it was tried first
	err     error // of the last try
}

// begun reports whether the commit was tried.
func (l *commitLane) begun() bool { return l.busy || l.tries > 0 }

// Backoff of commits and of the final checkpoint.
const (
	firstRetryMs = 1000
	maxRetryMs   = 60_000
)

const never = math.MaxInt64

// NewCoordinator returns a coordinator that waits for Begin.
func NewCoordinator(o CoordinatorOptions) *Coordinator {
	o.Interval = max(o.Interval, 0)
	if o.Interval > 0 {
		o.Interval = max(o.Interval, o.MinPause)
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	o.Retained = max(o.Retained, 1)
	return &Coordinator{o: o, timerMs: never}
}

// Begin is the first event: the job runs, from r. Output that the manifest restored holds is
// committed at once.
func (c *Coordinator) Begin(nowMs int64, r Resumed) []Action {
	if c.begun {
		panic("BUG: a coordinator begins twice")
	}
	c.begun = true
	c.lastID = r.Last
	c.completed = slices.Clone(r.Completed)
	c.epochs = slices.Clone(r.Epochs)
	for _, ids := range [][]int64{r.Completed, r.Epochs} {
		if !slices.IsSorted(ids) {
			panic(fmt.Sprintf("BUG: checkpoints out of order: %v", ids))
		}
		if len(ids) > 0 {
			c.lastID = max(c.lastID, ids[len(ids)-1])
		}
	}
	if len(r.Epochs) > 0 {
		c.inPlace = r.Epochs[len(r.Epochs)-1]
	}
	c.startMs, c.endMs = nowMs, nowMs-c.o.MinPause.Milliseconds()
	c.actions = c.actions[:0]
	return c.settle(nowMs)
}

// Tick says that time has passed. It may come at any time.
func (c *Coordinator) Tick(nowMs int64) []Action {
	if !c.event() {
		return nil
	}
	return c.settle(nowMs)
}

// Requested asks for a Savepoint, Stop or Drain. ref comes back in the report. A Drain that is asked for
// during a Stop waits for it: if the Stop is refused, the job is drained.
func (c *Coordinator) Requested(nowMs int64, k Kind, ref string) []Action {
	if k == Periodic || k == Final {
		panic("BUG: nobody asks for a " + k.String())
	}
	if !c.event() {
		return nil
	}
	if why := c.closing(); why != "" && !(k == Drain && c.mayGoOn()) {
		c.act(Action{Do: DoReport, Kind: k, Ref: ref, Err: errors.New(why)})
		return c.settle(nowMs)
	}
	c.requests = append(c.requests, request{k, ref})
	return c.settle(nowMs)
}

// closing says why no savepoint is to be had any more, or "".
func (c *Coordinator) closing() string {
	ends := func(r request) bool { return r.kind >= Stop }
	switch {
	case c.ending == Final, c.flight.stage != landed && c.flight.kind == Final,
		slices.ContainsFunc(c.requests, func(r request) bool { return r.kind == Final }):
		return "the job has come to its end"
	case c.ending != Periodic, c.flight.stage != landed && ends(c.flight.request), slices.ContainsFunc(c.requests, ends):
		return "the job is stopping already"
	}
	return ""
}

// mayGoOn reports whether nothing but Stops that are not in place is about to end the job.
func (c *Coordinator) mayGoOn() bool {
	stays := func(r request) bool { return r.kind <= Stop }
	return c.ending == Periodic && (c.flight.stage == landed || stays(c.flight.request)) &&
		!slices.ContainsFunc(c.requests, func(r request) bool { return !stays(r) })
}

// Finished says that the input has ended and that everything it led to was emitted. A last
// checkpoint is taken after those asked for.
func (c *Coordinator) Finished(nowMs int64) []Action {
	if !c.event() {
		return nil
	}
	if c.closing() != "the job has come to its end" {
		c.requests = append(c.requests, request{kind: Final})
	}
	return c.settle(nowMs)
}

// OutputGrew says that sinks have sealed more bytes.
func (c *Coordinator) OutputGrew(nowMs, bytes int64) []Action {
	if !c.event() {
		return nil
	}
	if c.output += bytes; c.o.OutputBytes > 0 && c.o.Interval > 0 && c.output >= c.o.OutputBytes {
		c.early = true
	}
	return c.settle(nowMs)
}

// CutDone answers DoCut.
func (c *Coordinator) CutDone(nowMs, id int64) []Action {
	if !c.answer(id, cutting) {
		return nil
	}
	c.flight.stage = writing
	if c.flight.abandoned {
		// Nothing was written yet, so it is not too late.
		c.missed(nowMs, errors.New("the cut came too late"))
		return c.settle(nowMs)
	}
	c.act(Action{Do: DoWrite, ID: id, Kind: c.flight.kind})
	return c.settle(nowMs)
}

// CutFailed answers DoCut. The job goes on as if nothing had been cut; prepared output stays
// prepared.
func (c *Coordinator) CutFailed(nowMs, id int64, err error) []Action {
	if !c.answer(id, cutting) {
		return nil
	}
	c.missed(nowMs, err)
	return c.settle(nowMs)
}

// Written answers DoWrite: the manifest is in place.
func (c *Coordinator) Written(nowMs, id int64) []Action {
	if !c.answer(id, writing) {
		return nil
	}
	f := c.flight
	c.flight = flight{}
	c.endMs = nowMs
	c.failures, c.finalTries = 0, 0
	c.inPlace = id
	c.placed = append(c.placed, id)
	c.completed = append(c.completed, id)
	if f.kind != Periodic && f.kind != Final {
		c.act(Action{Do: DoReport, ID: id, Kind: f.kind, Ref: f.ref})
	}
	if n := len(c.completed) - c.o.Retained; n > 0 {
		c.completed = slices.Delete(c.completed, 0, n)
		c.act(Action{Do: DoDrop, ID: c.completed[0]})
	}
	if f.kind >= Stop {
		c.end(nowMs, f.kind)
	}
	return c.settle(nowMs)
}

// WriteFailed answers DoWrite: whether the manifest is in place is not known. Where it is, it does
// no harm: it holds a valid cut.
func (c *Coordinator) WriteFailed(nowMs, id int64, err error) []Action {
	if !c.answer(id, writing) {
		return nil
	}
	c.missed(nowMs, err)
	return c.settle(nowMs)
}

// CommitDone answers DoCommit.
func (c *Coordinator) CommitDone(nowMs, id int64) []Action {
	if !c.answerCommit(id) {
		return nil
	}
	c.epochs = slices.Delete(c.epochs, 0, 1)
	c.commit = commitLane{}
	if len(c.placed) > 0 && c.placed[0] == id {
		c.placed = slices.Delete(c.placed, 0, 1)
		c.act(Action{Do: DoCommitPositions, ID: id})
	}
	return c.settle(nowMs)
}

// CommitFailed answers DoCommit. It is tried again after a while, as long as options allow, unless
// err is a *connector.Fatal.
func (c *Coordinator) CommitFailed(nowMs, id int64, err error) []Action {
	if !c.answerCommit(id) {
		return nil
	}
	l := &c.commit
	l.busy, l.err = false, err
	l.retryMs = nowMs + backoff(l.tries)
	l.tries++
	var fatal *connector.Fatal
	if errors.As(err, &fatal) {
		c.fail(fmt.Errorf("the output of checkpoint %d cannot be committed: %w", id, err))
	}
	return c.settle(nowMs)
}

// Status is what there is to say about a coordinator.
type Status struct {
	// LastID is the newest checkpoint begun, Completed the newest in place, 0 before the first.
	LastID, Completed int64
	InFlight          bool
	// Failures is the number of failed checkpoints in a row, Uncommitted that of epochs whose
	// output is not committed, CommitErr why, if it failed.
	Failures, Uncommitted int
	CommitErr             error
}

// Status reports where the coordinator stands.
func (c *Coordinator) Status() Status {
	s := Status{LastID: c.lastID, InFlight: c.flight.stage != landed, Failures: c.failures,
		Uncommitted: len(c.epochs), CommitErr: c.commit.err}
	if n := len(c.completed); n > 0 {
		s.Completed = c.completed[n-1]
	}
	return s
}
