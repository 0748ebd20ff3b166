package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
)

// TestSupervisor_RefusedStop asks a job to stop whose savepoint cannot be written: it goes on, and when it
// fails later it starts again, as if it had never been asked; what its starts did adds up.
func TestSupervisor_RefusedStop(t *testing.T) {
	r := newRepo()
	r.fail = 1
	dir := t.TempDir()
	p := numbers(plan.Hash, dir)
	restart := checkpoint.NewRestart(checkpoint.RestartOptions{Strategy: checkpoint.FixedDelay, FixedAttempts: 3, FixedDelay: time.Millisecond})
	s, err := job.Supervise(t.Context(), p, job.Options{Parallelism: 2, BatchRows: 5}, restart,
		func(context.Context) (*job.CheckpointOptions, error) { return r.options(t, p, time.Hour), nil })
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	within(t, "the stop is not refused", func() bool { return !s.Stopping() })
	if _, err := s.Savepoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	slowFails.Store(true)
	if _, err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if n, why := s.Restarts(); n != 1 || why == nil {
		t.Errorf("%d restarts, because of %v", n, why)
	}
	every(t, "a refused stop and a failure", fileRows(t, dir))
	// The savepoint and the last one; and the stop.
	if c, _ := s.Checkpoints(); c.Completed != 2 || c.Failed != 1 || c.LastError == "" {
		t.Errorf("%d completed, %d failed (%s)", c.Completed, c.Failed, c.LastError)
	}
}

// TestSupervisor_StopIsNotRefused stops a job for good, the second stop being one too many.
func TestSupervisor_StopIsNotRefused(t *testing.T) {
	r := newRepo()
	p := numbers(plan.Hash, t.TempDir())
	s, err := job.Supervise(t.Context(), p, job.Options{}, checkpoint.NewRestart(checkpoint.RestartOptions{}),
		func(context.Context) (*job.CheckpointOptions, error) { return r.options(t, p, time.Hour), nil })
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop()
	if rep, err := s.Wait(); err != nil || !rep.Stopped || !s.Stopping() {
		t.Errorf("stopped %t, stopping %t: %v", rep.Stopped, s.Stopping(), err)
	}
}

// TestSupervisor_Drain drains a job: its checkpoint says so.
func TestSupervisor_Drain(t *testing.T) {
	r := newRepo()
	p := numbers(plan.Hash, t.TempDir())
	s, err := job.Supervise(t.Context(), p, job.Options{}, nil,
		func(context.Context) (*job.CheckpointOptions, error) { return r.options(t, p, time.Hour), nil })
	if err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if _, err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if m := r.newest(t); m == nil || !m.Drained || m.Finished {
		t.Errorf("the checkpoint is %+v", m)
	}
}

// within waits until a condition holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
