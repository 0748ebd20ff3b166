package store

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// health is what is wrong with a store. The tree's own goroutines try again for ever what they could not
// write, and lose nothing: when the disk has room again the store works again. It does not where changes
// were applied in part, or where the tree does not know any more which files it consists of: then only
// opening another one helps.
type health struct {
	mu     sync.Mutex
	err    error         // what they met last, nil after it went well; guarded by mu
	failed chan struct{} // closed while err is set; guarded by mu
	dead   bool          // err stays; guarded by mu
	gone   chan struct{} // closed when the tree has ended a goroutine, and may hold its locks for ever
}

// fail notes an error of the tree's own goroutines.
func (h *health) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		close(h.failed)
	}
	h.dead = h.dead || pebble.IsCorruptionError(err)
}

// worked notes that one of them has ended something; nil: well.
func (h *health) worked(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.err != nil && !h.dead {
		h.err, h.failed = nil, make(chan struct{})
	}
}

// kill notes an error that the store does not survive.
func (h *health) kill(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dead {
		if h.err == nil {
			close(h.failed)
		}
		h.err, h.dead = err, true
	}
}

// failing is closed when the store begins to fail.
func (h *health) failing() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

// abandoned reports whether the tree must not be touched any more.
func (h *health) abandoned() bool {
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

// cause is what the store fails with at present.
func (h *health) cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// broken is cause for those outside.
func (s *Store) broken() error { return s.wrap(s.cause()) }

// Dead returns why the store is of no use any more, whatever becomes of its disk; nil if it is of use.
func (s *Store) Dead() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead {
		return nil
	}
	return s.wrap(s.err)
}

var errEnded = errors.New("the tree has given up")

// try calls f, which may be given up in the middle, or wait for ever for another goroutine that was: see
// quiet.Fatalf. What f uses must not be touched any more where the store is abandoned.
func (s *Store) try(f func() error) error {
	err := errEnded
	var bug any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { bug = recover() }()
		err = f()
	}()
	select {
	case <-done:
	case <-s.gone:
		return s.cause()
	}
	if bug != nil {
		panic(bug)
	}
	if err == errEnded {
		return s.cause()
	}
	return err
}

// quiet keeps the tree's messages to itself but for those that it cannot go on after.
type quiet struct{ s *Store }

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// Fatalf is called where the tree could not record which files it consists of, on a full disk for
// instance, which it does not survive. It must not return; it ends the goroutine, and not the process.
func (q quiet) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if len(args) == 1 {
		if e, ok := args[0].(error); ok {
			err = fmt.Errorf("%w", e)
		}
	}
	q.s.kill(err)
	q.s.mu.Lock()
	if !q.s.abandoned() {
		close(q.s.gone)
	}
	q.s.mu.Unlock()
	runtime.Goexit()
}
