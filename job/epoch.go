package job

import (
	"context"
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
	sinks int // sink subtasks that acknowledge
	mu    sync.Mutex
	id    int64
	acks  int
	done  chan struct{} // closed when all sinks have acknowledged id
	pos   []positions
}

// positions is where one subtask of a source stood at the marker.
type positions struct {
	reader connector.Reader
	at     map[string]connector.Position
}

func newEpochs(j *Job) *epochs {
	e := &epochs{j: j}
	for _, t := range j.tasks {
		for _, n := range t.nodes {
			if _, ok := n.Op.(*plan.Sink); ok {
				e.sinks += t.par
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
			e.end(stop, 10*time.Second)
			e.j.cancel(errStopped)
			return
		case <-t.C:
			if e.j.unbounded() {
				e.end(stop, time.Minute)
			}
		}
	}
}

// end ends one epoch, giving up after limit: sinks that block, or subtasks that have finished.
func (e *epochs) end(stop <-chan struct{}, limit time.Duration) {
	e.mu.Lock()
	e.id++
	id := e.id
	e.acks, e.pos, e.done = 0, nil, make(chan struct{})
	done := e.done
	e.mu.Unlock()
	for _, t := range e.j.tasks {
		for _, s := range t.subtasks {
			if len(s.sources)+len(s.values) == 0 {
				continue
			}
			select {
			case s.commands <- func() error { return s.mark(id) }:
			case <-e.j.ctx.Done():
				return
			case <-stop:
				return
			}
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		return
	case <-stop:
		return
	case <-e.j.ctx.Done():
		return
	}
	e.finish()
}

// finish commits what the epoch prepared.
func (e *epochs) finish() {
	ctx := context.WithoutCancel(e.j.ctx)
	if err := e.j.commit(ctx); err != nil {
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
func (e *epochs) ack(id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id != e.id {
		return
	}
	if e.acks++; e.acks == e.sinks {
		close(e.done)
	}
}

// mark notes the positions of the sources of s and sends the marker on.
func (s *subtask) mark(id int64) error {
	e := s.j.epochs
	for _, src := range s.sources {
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
