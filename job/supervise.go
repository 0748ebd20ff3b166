package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/plan"
)

// Supervisor runs a plan and starts it again when it fails, from its newest checkpoint.
type Supervisor struct {
	p       *plan.Plan
	o       Options
	prepare func(ctx context.Context) (*CheckpointOptions, error)
	restart *checkpoint.Restart
	ctx     context.Context

	resumes bool // the latest start goes on from a checkpoint

	mu       sync.Mutex
	job      *Job
	restarts int
	lastErr  error
	before   CheckpointStatus // of the starts before the latest
	ending   ending           // what was asked for
	stop     chan struct{}    // closed while ending is not goesOn; made anew when a stop was refused
	done     chan struct{}
	report   *Report
	err      error
}

// ending is how a supervised job was asked to end.
type ending uint8

const (
	goesOn ending = iota
	stops
	drains
	killed
)

// Supervise starts p. Before every start prepare says where its checkpoints are and what it goes on
// from; nil: none are taken, and a failure ends the job. An error of the first start is returned, unless
// the job goes on from a checkpoint: then it is a failure like others, as a crash may have taken the
// systems with it that the job needs.
func Supervise(ctx context.Context, p *plan.Plan, o Options, restart *checkpoint.Restart,
	prepare func(ctx context.Context) (*CheckpointOptions, error)) (*Supervisor, error) {
	o.setDefaults()
	s := &Supervisor{p: p, o: o, prepare: prepare, restart: restart, ctx: ctx, stop: make(chan struct{}), done: make(chan struct{})}
	s.o.refused = s.refused
	for {
		j, err := s.begin()
		if err == nil {
			s.job = j
			break
		}
		if !s.resumes || restart == nil {
			return nil, err
		}
		if err := s.pause(err); err != nil {
			return nil, err
		}
	}
	go s.run()
	return s, nil
}

// pause waits after a failure as long as the restart strategy says; an error: there is no other start.
func (s *Supervisor) pause(err error) error {
	d := s.restart.Failed(time.Now().UnixMilli(), err, rand.Float64())
	if !d.Restart {
		return d.Err
	}
	s.o.Warn(fmt.Sprintf("the job failed and starts again in %s from its newest checkpoint: %v", d.Delay.Round(time.Millisecond), err))
	if !s.sleep(d.Delay) {
		return err
	}
	return nil
}

func (s *Supervisor) begin() (*Job, error) {
	o := s.o
	if s.prepare != nil {
		c, err := s.prepare(s.ctx)
		if err != nil {
			return nil, err
		}
		o.Checkpoints = c
		s.resumes = c != nil && c.From != nil
	}
	return Start(s.ctx, s.p, o)
}

// run waits for the job and starts it again as long as it should be.
func (s *Supervisor) run() {
	defer close(s.done)
	for {
		s.report, s.err = s.job.Wait()
		if s.err == nil || !s.again() {
			return
		}
	}
}

// again starts the job again after a failure; false: it does not, and s.err says why.
func (s *Supervisor) again() bool {
	for {
		if s.restart == nil || s.isStopped() || s.ctx.Err() != nil {
			return false
		}
		if c, ok := s.job.Checkpoints(); ok && c.Completed > 0 {
			s.restart.Progressed()
		}
		if err := s.pause(s.err); err != nil {
			s.err = err
			return false
		}
		j, err := s.begin()
		s.mu.Lock()
		s.restarts++
		s.lastErr = s.err
		if err == nil {
			if c, ok := s.job.Checkpoints(); ok {
				s.before = c.after(s.before)
			}
			s.job = j
		}
		asked := s.ending
		s.mu.Unlock()
		if err != nil {
			s.err = err
			continue
		}
		switch asked { // meanwhile
		case stops:
			j.Stop()
		case drains:
			j.Drain()
		case killed:
			j.Kill(s.err)
		}
		return true
	}
}

// sleep waits; false: the job is to stop.
func (s *Supervisor) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	case <-s.ctx.Done():
		return false
	}
}

func (s *Supervisor) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending != goesOn
}

// asked notes how the job is to end, and returns the job of the latest start.
func (s *Supervisor) asked(e ending) *Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending == goesOn {
		close(s.stop)
	}
	s.ending = max(s.ending, e)
	return s.job
}

// refused notes that a stop with a savepoint has failed, so that the job goes on: its failures are
// failures again.
func (s *Supervisor) refused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending == stops {
		s.ending, s.stop = goesOn, make(chan struct{})
	}
}

// Stopping reports whether the job was asked to end. It does not any more after a stop was refused.
func (s *Supervisor) Stopping() bool { return s.isStopped() }

func (s *Supervisor) current() *Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job
}

// Restarts is how often the job was started again, and the failure that was the reason last.
func (s *Supervisor) Restarts() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts, s.lastErr
}

// Status is a look at the running job.
func (s *Supervisor) Status() Status { return s.current().Status() }

// Checkpoints is a look at the job's checkpoints, those of all starts; false where none are taken.
func (s *Supervisor) Checkpoints() (CheckpointStatus, bool) {
	s.mu.Lock()
	j, before := s.job, s.before
	s.mu.Unlock()
	c, ok := j.Checkpoints()
	return c.after(before), ok
}

// Progress is Job.Progress of the latest start.
func (s *Supervisor) Progress() map[string]connector.Progress { return s.current().Progress() }

// Savepoint writes a savepoint while the job goes on, and returns its path.
func (s *Supervisor) Savepoint(ctx context.Context) (string, error) {
	return s.current().Savepoint(ctx)
}

// Stop is Job.Stop; a job that waits to be started again ends with its failure.
func (s *Supervisor) Stop() { s.asked(stops).Stop() }

// Drain is Job.Drain.
func (s *Supervisor) Drain() { s.asked(drains).Drain() }

// Kill ends the job at once, without another start.
func (s *Supervisor) Kill(why error) { s.asked(killed).Kill(why) }

// Wait returns when the job has ended for good.
func (s *Supervisor) Wait() (*Report, error) {
	<-s.done
	return s.report, s.err
}

// Done is closed when the job has ended for good.
func (s *Supervisor) Done() <-chan struct{} { return s.done }

// Bounded reports whether the job ends by itself.
func (s *Supervisor) Bounded() bool { return s.current().Bounded() }
