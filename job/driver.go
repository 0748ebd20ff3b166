package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/plan"
)

// driver does what the coordinator of checkpoints decides. Its loop is one goroutine; cuts, writes
// and commits run beside it, one of each at most, and answer with an event.
type driver struct {
	j      *Job
	c      *checkpoints
	co     *checkpoint.Coordinator
	events chan func() []checkpoint.Action
	start  time.Time
	timer  *time.Timer
	wg     sync.WaitGroup
	ended  chan struct{} // closed when the input of the job has ended
	over   chan struct{} // closed when the driver is done

	// Of the checkpoint in flight; set by the loop before what runs beside it is started.
	cut       *cut
	kind      checkpoint.Kind
	abandon   context.CancelCauseFunc
	reports   map[string]chan savepointResult
	positions map[int64][]frozenSource // of checkpoints whose output is not committed
	final     int64                    // the checkpoint that the job came to its end with
	asked     int

	telling sync.Mutex // held while positions are committed

	mu     sync.Mutex
	status CheckpointStatus
}

type savepointResult struct {
	path string
	err  error
}

func newDriver(j *Job) *driver {
	c := j.checkpoints
	d := &driver{j: j, c: c, co: checkpoint.NewCoordinator(c.o.Coordinator), events: make(chan func() []checkpoint.Action, 64),
		start: time.Now(), timer: time.NewTimer(time.Hour), ended: make(chan struct{}), over: make(chan struct{}),
		reports: map[string]chan savepointResult{}, positions: map[int64][]frozenSource{}}
	c.segments.grew = func(n int64) {
		d.post(func() []checkpoint.Action { return d.co.OutputGrew(d.now(), n) })
	}
	return d
}

func (d *driver) now() int64 { return time.Since(d.start).Milliseconds() }

// post gives the loop an event, unless the job is over.
func (d *driver) post(f func() []checkpoint.Action) {
	select {
	case d.events <- f:
	case <-d.over:
	}
}

// run is the loop, until the coordinator has ended the job or the job has failed.
func (d *driver) run() {
	defer close(d.over)
	ended := d.ended
	if d.do(d.co.Begin(d.now(), d.c.o.Resumed)) {
		return
	}
	for {
		var actions []checkpoint.Action
		select {
		case f := <-d.events:
			actions = f()
		case <-d.timer.C:
			actions = d.co.Tick(d.now())
		case <-ended:
			ended = nil
			actions = d.co.Finished(d.now())
		case <-d.j.ctx.Done():
			if d.abandon != nil {
				d.abandon(context.Cause(d.j.ctx))
			}
			d.wait()
			return
		}
		if d.do(actions) {
			d.wait()
			return
		}
	}
}

// ask asks for the end of the job.
func (d *driver) ask(k checkpoint.Kind) {
	d.post(func() []checkpoint.Action { return d.co.Requested(d.now(), k, "stop") })
}

// wait waits for what runs beside the loop; its answers are not wanted any more.
func (d *driver) wait() {
	done := make(chan struct{})
	go func() { d.wg.Wait(); close(done) }()
	for {
		select {
		case <-d.events:
		case <-done:
			return
		}
	}
}

// do performs actions; true: the job is over.
func (d *driver) do(actions []checkpoint.Action) bool {
	for _, a := range actions {
		switch a.Do {
		case checkpoint.DoCut:
			d.doCut(a)
		case checkpoint.DoWrite:
			d.doWrite(a)
		case checkpoint.DoAbandon:
			d.abandon(errors.New("it took too long"))
		case checkpoint.DoCommit:
			d.doCommit(a.ID)
		case checkpoint.DoCommitPositions:
			d.doPositions(a.ID)
		case checkpoint.DoDrop:
			d.beside(func(ctx context.Context) {
				if err := d.c.o.Repo.Drop(ctx, a.ID); err != nil {
					d.j.o.Warn(fmt.Sprintf("checkpoints before %d were not removed: %v", a.ID, err))
				}
			})
		case checkpoint.DoReport:
			d.report(a)
		case checkpoint.DoResume:
			if d.cut != nil {
				d.cut.release()
			}
			if d.j.o.refused != nil {
				d.j.o.refused()
			}
		case checkpoint.DoStop:
			if a.Err != nil {
				d.j.o.Warn(a.Err.Error())
			}
			if a.Err == nil {
				d.end()
			}
			if d.kind == checkpoint.Stop || d.kind == checkpoint.Drain {
				d.j.stopped.Do(func() { close(d.j.stop) })
			}
			d.j.cancel(errStopped)
			return true
		case checkpoint.DoFail:
			d.j.cancel(a.Err)
			return true
		case checkpoint.DoTimer:
			d.timer.Reset(time.Duration(max(0, a.AtMs-d.now())) * time.Millisecond)
		}
	}
	return false
}

// end tells the repository that everything of a job that came to its end was committed.
func (d *driver) end() {
	r, ok := d.c.o.Repo.(ender)
	if !ok || d.final == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.j.ctx), endWithin)
	defer cancel()
	if err := r.End(ctx, d.final); err != nil {
		d.j.o.Warn(fmt.Sprintf("%v; the next start only looks whether everything is committed, and the one after it starts afresh", err))
	}
}

// endWithin is how long a job that has come to its end waits for the repository to note it.
const endWithin = 30 * time.Second

// beside runs f beside the loop. A panic, which is a bug here or in a connector, ends the job.
func (d *driver) beside(f func(ctx context.Context)) {
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		d.j.guard(func() { f(context.WithoutCancel(d.j.ctx)) })
	}()
}

// doCut takes a cut beside the loop.
func (d *driver) doCut(a checkpoint.Action) {
	ctx, cancel := context.WithCancelCause(d.j.ctx)
	d.abandon, d.kind = cancel, a.Kind
	d.beside(func(context.Context) {
		defer cancel(nil)
		c, err := d.takeCut(ctx, a)
		d.post(func() []checkpoint.Action {
			if err != nil {
				d.c.changes.hold(noLimit)
				d.failed(err)
				return d.co.CutFailed(d.now(), a.ID, err)
			}
			d.cut = c
			actions := d.co.CutDone(d.now(), a.ID)
			if !slices.ContainsFunc(actions, func(a checkpoint.Action) bool { return a.Do == checkpoint.DoWrite }) {
				d.c.changes.hold(noLimit) // it was given up meanwhile
			}
			return actions
		})
	})
}

// takeCut takes the cut that an action asks for and waits until the sinks have prepared.
func (d *driver) takeCut(ctx context.Context, a checkpoint.Action) (*cut, error) {
	killpoint.Pass("cut/begin")
	switch a.Kind {
	case checkpoint.Drain:
		// Not before the driver knows: no other checkpoint may see operators that have ended so.
		d.j.endOfTime.Store(true)
		select {
		case <-d.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case checkpoint.Stop, checkpoint.Savepoint:
		// Nothing is on its way in a savepoint: another plan may not have the operators it is for. But
		// where rows are merged by their stamps, those of the one ahead wait for the others.
		d.j.pausing.Store(true)
		defer d.j.pausing.Store(false)
		if !d.j.ordered() {
			if _, err := d.j.epochs.pass(d.over, stopWithin); err != nil {
				d.j.o.Warn("the savepoint holds rows on their way, as the sinks do not take them: " + err.Error())
			}
		}
	}
	for {
		c, err := d.j.cut(ctx, a.ID, a.Kind == checkpoint.Stop)
		if errors.Is(err, errSettling) && ctx.Err() == nil {
			c.release()
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		killpoint.Pass("cut/taken")
		if err = c.wait(ctx, c.given); err != nil {
			c.release()
			return nil, err
		}
		if err = d.j.dead.sync(); err != nil {
			c.release()
			return nil, err
		}
		d.j.pend(connector.CommitID{Lineage: d.c.o.Lineage, Checkpoint: a.ID}, c.seq, c)
		killpoint.Pass("sealed/prepared")
		return c, nil
	}
}

// doWrite writes the checkpoint of the cut beside the loop.
func (d *driver) doWrite(a checkpoint.Action) {
	c := d.cut
	ctx, cancel := context.WithCancelCause(d.j.ctx)
	d.abandon = cancel
	d.beside(func(context.Context) {
		defer cancel(nil)
		err := d.write(ctx, c, a)
		d.post(func() []checkpoint.Action {
			if err != nil {
				d.failed(err)
				if dead := d.c.store.Dead(); dead != nil {
					// No later checkpoint would be better: the job starts again from the last one.
					d.j.cancel(fmt.Errorf("state: %w", dead))
				}
				return d.co.WriteFailed(d.now(), a.ID, err)
			}
			d.positions[a.ID] = c.got.sources
			if a.Kind == checkpoint.Final {
				d.final = a.ID
			}
			return d.co.Written(d.now(), a.ID)
		})
	})
}

func (d *driver) write(ctx context.Context, c *cut, a checkpoint.Action) error {
	if a.Kind == checkpoint.Drain {
		if err := d.j.freezeEnded(c); err != nil {
			return err
		}
	}
	m, paths, err := d.c.manifest(ctx, c, a.Kind != checkpoint.Periodic && a.Kind != checkpoint.Final, a.Kind == checkpoint.Final)
	if err != nil {
		return err
	}
	m.Drained = a.Kind == checkpoint.Drain
	if a.Kind == checkpoint.Savepoint || a.Kind == checkpoint.Stop || a.Kind == checkpoint.Drain {
		// On its own feet: all of its files are at hand, as the state was just cut.
		switch err := d.writeSavepoint(ctx, m, paths); {
		case err != nil && a.Kind == checkpoint.Savepoint:
			return err
		case err != nil: // who wants the job to end gets that
			d.j.o.Warn(fmt.Sprintf("%v; the next start goes on from checkpoint %d all the same", err, a.ID))
		}
	}
	killpoint.Pass("sealed/unsaved")
	saved, err := d.c.o.Repo.Save(ctx, m, paths)
	if errors.Is(err, checkpoint.ErrFenced) {
		return &connector.Fatal{Err: err}
	}
	if err != nil {
		return err
	}
	killpoint.Pass("manifest/saved")
	d.c.again = false
	d.mu.Lock()
	d.status.Completed++
	d.status.Last, d.status.LastAt, d.status.LastPause = a.ID, c.started, c.got.pause
	d.status.LastTook, d.status.LastBytes, d.status.LastRequests = time.Since(c.started), saved.Bytes, saved.Requests
	d.mu.Unlock()
	return nil
}

// writeSavepoint writes m on its own feet, where savepoints are kept.
func (d *driver) writeSavepoint(ctx context.Context, m *checkpoint.Manifest, paths map[string]string) error {
	if d.c.o.Savepoints == nil {
		return nil
	}
	s := *m
	s.Savepoint = true
	path, err := d.c.o.Savepoints(ctx, &s, paths)
	if err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	d.mu.Lock()
	d.status.LastSavepoint = path
	d.mu.Unlock()
	return nil
}

func (d *driver) failed(err error) {
	d.mu.Lock()
	d.status.Failed++
	d.status.LastError = err.Error()
	d.mu.Unlock()
	if d.j.ctx.Err() == nil {
		d.j.o.Warn("checkpoint: " + err.Error())
	}
}

// doCommit makes the output of an epoch visible beside the loop.
func (d *driver) doCommit(id int64) {
	d.beside(func(ctx context.Context) {
		killpoint.Pass("manifest/uncommitted")
		err := d.j.commitAll(ctx, id)
		d.post(func() []checkpoint.Action {
			if err != nil {
				d.j.o.Warn(err.Error())
				return d.co.CommitFailed(d.now(), id, err)
			}
			return d.co.CommitDone(d.now(), id)
		})
	})
}

// doPositions tells the outside world how far the sources were at a checkpoint.
func (d *driver) doPositions(id int64) {
	sources := d.positions[id]
	delete(d.positions, id)
	if sources == nil {
		return
	}
	d.beside(func(ctx context.Context) {
		d.telling.Lock() // oldest first
		defer d.telling.Unlock()
		for _, s := range sources {
			if s.reader == nil {
				continue
			}
			at := map[string]connector.Position{}
			for _, sp := range s.splits {
				at[sp.ID] = connector.Position{Offset: sp.Offset, Set: sp.Set}
			}
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			err := s.reader.Commit(ctx, at)
			cancel()
			if err != nil {
				d.j.o.Warn("positions were not committed: " + err.Error())
			}
		}
	})
}

// report answers who asked for a savepoint.
func (d *driver) report(a checkpoint.Action) {
	d.mu.Lock()
	r := savepointResult{d.status.LastSavepoint, a.Err}
	ch := d.reports[a.Ref]
	delete(d.reports, a.Ref)
	d.mu.Unlock()
	if ch != nil {
		ch <- r
	} else if a.Err != nil {
		d.j.o.Warn(a.Err.Error())
	}
}

// freezeEnded writes down the state of operators that have come to their end: after a drain it is
// what the next start goes on from.
func (j *Job) freezeEnded(c *cut) error {
	heads := map[[2]int][]byte{} // by node and subtask
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			for _, r := range s.order {
				st, ok := r.op.(op.Stateful)
				if !ok {
					continue
				}
				if err := r.handOn(st, c.seq); err != nil {
					return err
				}
				head, err := st.Head(nil)
				if err != nil {
					return fmt.Errorf("operator %s: %w", r.node.Label, err)
				}
				heads[[2]int{r.node.ID, s.index}] = head
			}
		}
	}
	for i := range c.got.ops {
		o := &c.got.ops[i]
		if _, ok := j.p.Nodes[o.node].Op.(*plan.Values); ok {
			continue // they are not given again
		}
		o.ended = false // what comes after it starts with what is kept
		o.head = heads[[2]int{o.node, o.subtask}]
	}
	for i := range c.got.sources {
		c.got.sources[i].done = false
	}
	return nil
}

// Savepoint writes a savepoint while the job goes on, and returns its path.
func (j *Job) Savepoint(ctx context.Context) (string, error) {
	d := j.driver
	if d == nil {
		return "", errors.New("the job takes no checkpoints; set 'execution.checkpointing.interval'")
	}
	ch := make(chan savepointResult, 1)
	d.mu.Lock()
	d.asked++
	ref := fmt.Sprintf("savepoint %d", d.asked)
	d.reports[ref] = ch
	d.mu.Unlock()
	d.post(func() []checkpoint.Action { return d.co.Requested(d.now(), checkpoint.Savepoint, ref) })
	select {
	case r := <-ch:
		return r.path, r.err
	case <-d.over:
		return "", errors.New("the job has ended")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Checkpoints is a look at the job's checkpoints; false where none are taken.
func (j *Job) Checkpoints() (CheckpointStatus, bool) {
	d := j.driver
	if d == nil {
		return CheckpointStatus{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status, true
}
