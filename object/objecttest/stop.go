package objecttest

import (
	"context"
	"io"
	"sync"

	"github.com/tidemark-stream/tidemark/object"
)

// Stopping is a store whose process ends at the n-th call: that one does nothing, or it does what
// it should and nobody hears of it, and every later one fails.
type Stopping struct {
	object.Store
	// At is the call at which it stops, counted from 1; 0 is none. Late lets that call happen.
	At   int
	Late bool
	// Once lets later calls through again: a fault and not the end.
	Once bool

	mu    sync.Mutex
	calls int
}

// Calls is the number of calls so far.
func (s *Stopping) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// call runs one call.
func (s *Stopping) call(do func() error) error {
	s.mu.Lock()
	s.calls++
	n := s.calls
	s.mu.Unlock()
	switch {
	case s.At == 0 || n < s.At || s.Once && n > s.At:
		return do()
	case n == s.At && s.Late:
		do() // its answer is lost
	}
	return ErrStopped
}

// Put implements object.Store.
func (s *Stopping) Put(ctx context.Context, name string, data []byte) error {
	return s.call(func() error { return s.Store.Put(ctx, name, data) })
}

// PutIfAbsent implements object.Store.
func (s *Stopping) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return s.call(func() error { return s.Store.PutIfAbsent(ctx, name, data) })
}

// PutFile implements object.Store.
func (s *Stopping) PutFile(ctx context.Context, name, path string) error {
	return s.call(func() error { return s.Store.PutFile(ctx, name, path) })
}

// Get implements object.Store.
func (s *Stopping) Get(ctx context.Context, name string, offset, n int64) (b []byte, err error) {
	err = s.call(func() error { b, err = s.Store.Get(ctx, name, offset, n); return err })
	return b, err
}

// GetFile implements object.Store.
func (s *Stopping) GetFile(ctx context.Context, name, path string) error {
	return s.call(func() error { return s.Store.GetFile(ctx, name, path) })
}

// Open implements object.Store.
func (s *Stopping) Open(ctx context.Context, name string, offset int64) (r io.ReadCloser, err error) {
	err = s.call(func() error { r, err = s.Store.Open(ctx, name, offset); return err })
	return r, err
}

// List implements object.Store.
func (s *Stopping) List(ctx context.Context, prefix string) (l []object.Info, err error) {
	err = s.call(func() error { l, err = s.Store.List(ctx, prefix); return err })
	return l, err
}

// Stat implements object.Store.
func (s *Stopping) Stat(ctx context.Context, name string) (i object.Info, err error) {
	err = s.call(func() error { i, err = s.Store.Stat(ctx, name); return err })
	return i, err
}

// Delete implements object.Store.
func (s *Stopping) Delete(ctx context.Context, names ...string) error {
	return s.call(func() error { return s.Store.Delete(ctx, names...) })
}
