package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/plan"
)

// epochs ends epochs of output while the job runs: a marker goes from the sources through every
// channel to the sinks, which make everything before it safe; then prepared output is made
// visible, and the positions that the sources had at the marker are committed to the outside
// world.
type epochs struct {
	j     *Job
	mu    sync.Mutex
	sinks map[*opRun]bool // sink subtasks that have not ended: whether they acknowledged id
	id    int64
	done  chan struct{} // closed when all of them have; nil between epochs
	pos   []positions
}

// positions is where one subtask of a source stood at the marker.
type positions struct {
	reader connector.Reader
	at     map[string]connector.Position
}

func newEpochs(j *Job) *epochs {
	e := &epochs{j: j, sinks: map[*opRun]bool{}}
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			for _, r := range s.order {
				if _, ok := r.node.Op.(*plan.Sink); ok {
					e.sinks[r] = false
				}
			}
		}
	}
	return e
}

// run ends an epoch at every interval until stop is closed; when the job is asked to stop it ends
// a last one and cancels the job.
func (e *epochs) run(stop <-chan struct{}) {
	t := time.NewTicker(e.j.o.EpochInterval)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-e.j.stop:
			if err := e.end(stop, stopWithin); err != nil {
				e.j.cancel(err)
			}
			e.j.cancel(errStopped)
			return
		case <-t.C:
			if e.j.unbounded() {
				if err := e.end(stop, time.Minute); err != nil {
					e.j.o.Warn(err.Error())
				}
			}
		}
	}
}

// stopWithin is how long sinks may take to write what they hold when a job is stopped.
const stopWithin = 30 * time.Second

// end ends one epoch. The error says that sinks did not pass the marker within the limit.
func (e *epochs) end(stop <-chan struct{}, limit time.Duration) error {
	passed, err := e.pass(stop, limit)
	if passed {
		e.finish()
	}
	return err
}

// pass sends a marker through the job; true: all sinks have passed it.
func (e *epochs) pass(stop <-chan struct{}, limit time.Duration) (bool, error) {
	e.mu.Lock()
	e.id++
	id := e.id
	for r := range e.sinks {
		e.sinks[r] = false
	}
	e.pos, e.done = nil, make(chan struct{})
	done := e.done
	e.complete()
	e.mu.Unlock()
	for _, t := range e.j.tasks {
		for _, s := range t.subtasks {
			if len(s.sources)+len(s.values) == 0 || s.ended.Load() {
				continue
			}
			s.command(func() error { return s.mark(id) })
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		return false, fmt.Errorf("the sinks have not written everything within %s; what they still hold is not visible", limit)
	case <-stop:
		return false, nil
	case <-e.j.ctx.Done():
		return false, nil
	}
	return true, nil
}

// finish commits what the epoch prepared.
func (e *epochs) finish() {
	ctx := context.WithoutCancel(e.j.ctx)
	if err := errors.Join(e.j.commit(ctx), e.j.dead.sync()); err != nil {
		e.j.cancel(err)
		return
	}
	e.mu.Lock()
	pos := e.pos
	e.mu.Unlock()
	for _, p := range pos {
		ctx, cancel := context.WithTimeout(e.j.ctx, 10*time.Second)
		err := p.reader.Commit(ctx, p.at)
		cancel()
		if err != nil {
			e.j.o.Warn("positions were not committed: " + err.Error())
		}
	}
}

// ack notes that a sink subtask has passed the marker.
func (e *epochs) ack(r *opRun, id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id == e.id {
		e.sinks[r] = true
		e.complete()
	}
}

// leave notes that a sink subtask has ended, with its output prepared.
func (e *epochs) leave(r *opRun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sinks, r)
	e.complete()
}

// complete ends the wait when every sink subtask has acknowledged or ended. Call with mu held.
func (e *epochs) complete() {
	for _, acked := range e.sinks {
		if !acked {
			return
		}
	}
	if e.done != nil {
		close(e.done)
		e.done = nil
	}
}

// mark notes the positions of the sources of s and sends the marker on.
func (s *subtask) mark(id int64) error {
	e := s.j.epochs
	for _, src := range s.sources {
		if src.closedOut {
			continue // nothing follows the end, not even a marker
		}
		e.mu.Lock()
		e.pos = append(e.pos, positions{src.reader, src.positions()})
		e.mu.Unlock()
		if err := s.outs[src.node.ID].epoch(id); err != nil {
			return err
		}
	}
	for _, v := range s.values {
		if !v.done {
			if err := v.out.epoch(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// unbounded reports whether some source does not end by itself.
func (j *Job) unbounded() bool {
	for _, s := range j.sources {
		if !s.source.Bounded() {
			return true
		}
	}
	return false
}
