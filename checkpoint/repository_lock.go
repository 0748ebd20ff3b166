package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/object"
)

// Two runs of one job at a time are refused. Where the store can lock by itself (a folder, by the
// operating system), that does it: the lock ends with the process, however the process ends.
//
// Elsewhere the lock is a lease: objects lock/1, lock/2, ... of which the greatest counts. It names
// its owner and until when it holds. The owner renews it by writing it again; who finds it run out,
// given back, or its owner dead, takes the next number, if absent. So of two that try, one gets it.
// Clocks that differ, or an owner that is halted for longer than its lease, may let two processes
// believe that they have it: what protects the checkpoints is the fencing of their manifests.
const (
	lockName   = "lock"
	leasesName = "lock/"
	// leaseTime is how long a lease holds. A crash on another machine is waited out for that long
	// at most; renewals, at a third of it, cost 8,640 requests of two kinds a day.
	leaseTime = 30 * time.Second
)

// LockedError says that another process runs the job.
type LockedError struct {
	Job   string
	Owner string    // as processNote tells it
	Until time.Time // when its lease ends; zero where it ends with the process
}

// Error implements error.
func (e *LockedError) Error() string {
	s := fmt.Sprintf("job %q is being run by %s", e.Job, e.Owner)
	if e.Owner == "" {
		s = fmt.Sprintf("job %q is being run by another process", e.Job)
	}
	s += ": stop it first, or give this one another 'pipeline.name'"
	if !e.Until.IsZero() {
		s += "; if it is dead already, this can start after " + e.Until.UTC().Format("15:04:05 UTC")
	}
	return s
}

// jobLock is the lock of a job.
type jobLock interface {
	// hold keeps it until ctx ends; ErrFenced: another has it.
	hold(ctx context.Context) error
	release(ctx context.Context) error
}

func lockJob(ctx context.Context, s object.Store, o RepositoryOptions) (jobLock, error) {
	l, ok := s.(object.Locker)
	if !ok {
		return takeLease(ctx, s, o)
	}
	c, err := l.Lock(ctx, lockName, processNote(o.Now()))
	var locked *object.LockedError
	if errors.As(err, &locked) {
		return nil, &LockedError{Job: o.Job, Owner: locked.Note}
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoints of job %q: %w", o.Job, err)
	}
	return systemLock{c}, nil
}

// systemLock is kept by the operating system.
type systemLock struct{ io.Closer }

func (systemLock) hold(ctx context.Context) error { <-ctx.Done(); return nil }

func (l systemLock) release(context.Context) error { return l.Close() }

// lease is a lock as an object.
type lease struct {
	s   object.Store
	now func() time.Time
	n   int64

	// writing holds a token while the lease is not being written: a renewal on its way when the lease is
	// given back would take it anew. Who has the token may use mine.
	writing chan struct{}
	mine    leaseText
}

// leaseText is the content of a lease.
type leaseText struct {
	Owner   string    `json:"owner"`
	Token   string    `json:"token"` // of this lease and no other
	Process processID `json:"process"`
	Until   time.Time `json:"until"`
	Free    bool      `json:"free,omitempty"` // given back
}

func leaseName(n int64) string { return fmt.Sprintf("%s%010d", leasesName, n) }

// takeLease takes the lease of a job, or returns a *LockedError.
func takeLease(ctx context.Context, s object.Store, o RepositoryOptions) (*lease, error) {
	l := &lease{s: s, now: o.Now, writing: make(chan struct{}, 1), mine: leaseText{Owner: processNote(o.Now()), Token: o.Draw(), Process: thisProcess()}}
	fail := func(err error) error { return fmt.Errorf("lock job %q in %s: %w", o.Job, s, err) }
	last, numbers, err := l.list(ctx)
	if err != nil {
		return nil, fail(err)
	}
	if last > 0 {
		there, err := l.read(ctx, last)
		if err != nil {
			return nil, fail(err)
		}
		if !there.Free && o.Now().Before(there.Until) && !there.Process.dead() {
			return nil, &LockedError{Job: o.Job, Owner: there.Owner, Until: there.Until}
		}
	}
	l.n = last + 1
	l.mine.Until = o.Now().Add(leaseTime)
	text, err := json.Marshal(l.mine)
	if err != nil {
		return nil, fail(err)
	}
	err = s.PutIfAbsent(ctx, leaseName(l.n), text)
	if errors.Is(err, object.ErrExists) {
		there, rerr := l.read(ctx, l.n)
		if rerr != nil {
			return nil, fail(rerr)
		}
		if there.Token != l.mine.Token { // else the answer to the first try was lost
			return nil, &LockedError{Job: o.Job, Owner: there.Owner, Until: there.Until}
		}
	} else if err != nil {
		return nil, fail(err)
	}
	// The number may have been free because whoever took it has gone since, and another has taken a later
	// one: that counts.
	if last, _, err = l.list(ctx); err != nil {
		return nil, fail(err)
	}
	if last > l.n {
		there, err := l.read(ctx, last)
		if err = errors.Join(err, s.Delete(ctx, leaseName(l.n))); err != nil {
			return nil, fail(err)
		}
		return nil, &LockedError{Job: o.Job, Owner: there.Owner, Until: there.Until}
	}
	// An owner that is halted may write its own anew, which counts for nothing below ours.
	if err := s.Delete(ctx, numbers...); err != nil {
		return nil, fail(err)
	}
	l.writing <- struct{}{}
	return l, nil
}

// list returns the number of the last lease, 0 if there is none, and the names of all.
func (l *lease) list(ctx context.Context) (last int64, names []string, err error) {
	list, err := l.s.List(ctx, leasesName)
	for _, i := range list {
		if n, perr := strconv.ParseInt(i.Name[len(leasesName):], 10, 64); perr == nil && n > last {
			last = n
		}
		names = append(names, i.Name)
	}
	return last, names, err
}

func (l *lease) read(ctx context.Context, n int64) (leaseText, error) {
	var t leaseText
	text, err := l.s.Get(ctx, leaseName(n), 0, -1)
	if errors.Is(err, object.ErrNotFound) {
		return leaseText{Free: true}, nil // a later one was taken, and will be found
	}
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return t, fmt.Errorf("%s is no lease (%w): remove it if no process runs the job", leaseName(n), err)
	}
	return t, nil
}

// renew writes the lease anew. ErrFenced: another process has taken it.
func (l *lease) renew(ctx context.Context) error {
	select {
	case <-l.writing:
		defer func() { l.writing <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.mine.Free {
		return nil
	}
	last, _, err := l.list(ctx)
	if err != nil {
		return err
	}
	if last > l.n {
		return ErrFenced
	}
	l.mine.Until = l.now().Add(leaseTime)
	return l.write(ctx)
}

func (l *lease) write(ctx context.Context) error {
	text, err := json.Marshal(l.mine)
	if err != nil {
		return err
	}
	return l.s.Put(ctx, leaseName(l.n), text)
}

// hold renews the lease at a third of its time. A renewal that fails is tried again: until someone
// takes it the lease is ours.
func (l *lease) hold(ctx context.Context) error {
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		attempt, cancel := context.WithTimeout(ctx, leaseTime/3)
		err := l.renew(attempt)
		cancel()
		if errors.Is(err, ErrFenced) {
			return err
		}
	}
}

func (l *lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	select {
	case <-l.writing: // a renewal ends soon: it has a third of the lease's time
		defer func() { l.writing <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mine.Free = true
	return l.write(ctx)
}

// processID tells a process from all others. Processes of another boot of a machine, or of another
// set of process numbers (a container's), are not judged.
type processID struct {
	Boot    string `json:"boot,omitempty"`
	Numbers string `json:"numbers,omitempty"`
	PID     int    `json:"pid"`
	Start   string `json:"start,omitempty"` // clock ticks since boot
}

// thisProcess reads Linux's /proc; elsewhere Boot is empty and nothing is concluded.
func thisProcess() processID {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	numbers, _ := os.Readlink("/proc/self/ns/pid")
	pid := os.Getpid()
	return processID{Boot: strings.TrimSpace(string(boot)), Numbers: numbers, PID: pid, Start: processStart(pid)}
}

// dead reports that the process has certainly ended.
func (p processID) dead() bool {
	here := thisProcess()
	if p.Boot == "" || p.Start == "" || here.Start == "" || p.Boot != here.Boot || p.Numbers != here.Numbers {
		return false
	}
	return processStart(p.PID) != p.Start
}

// processStart is when a process was started, "" if there is none. A number may be given to another
// process later, but not with the same start.
func processStart(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may hold anything.
	i := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[i+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}
