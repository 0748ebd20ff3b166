package checkpoint_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
)

// slowOnce is a store whose next Put, once it is armed, waits until open is closed.
type slowOnce struct {
	object.Store
	armed atomic.Bool
	open  chan struct{}
}

func (s *slowOnce) Put(ctx context.Context, name string, data []byte) error {
	if s.armed.CompareAndSwap(true, false) {
		<-s.open
	}
	return s.Store.Put(ctx, name, data)
}

// TestLease_GivenBackDuringRenewal gives a lease back while its renewal is on its way to the store: it
// stays given back.
func TestLease_GivenBackDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, local := newMemoryBench(t)
		s := &slowOnce{Store: local, open: make(chan struct{})}
		o := checkpoint.RepositoryOptions{Store: s, Job: "job"}
		r, err := checkpoint.OpenRepository(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		held, closed := make(chan error, 1), make(chan error, 1)
		s.armed.Store(true)
		go func() { held <- r.Hold(ctx) }()
		time.Sleep(15 * time.Second)
		if s.armed.Load() {
			t.Fatal("the lease was not renewed at all")
		}
		cancel()
		go func() { closed <- r.Close() }()
		synctest.Wait()
		close(s.open)
		for _, end := range []chan error{held, closed} {
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
		if r, err = checkpoint.OpenRepository(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		r.Close()
	})
}
