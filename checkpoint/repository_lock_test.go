package checkpoint_test

import (
	"context"
	"errors"
	"strings"
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

// beforePut calls do before the first PutIfAbsent of a lease.
type beforePut struct {
	object.Store
	do func()
}

func (s *beforePut) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if do := s.do; do != nil && strings.Contains(name, "/lock/") {
		s.do = nil
		do()
	}
	return s.Store.PutIfAbsent(ctx, name, data)
}

// TestLease_BelowTheOneThatCounts halts a process between its look at the leases and its own: meanwhile
// another takes that number and ends, and a third takes the next one and removes the one before.
func TestLease_BelowTheOneThatCounts(t *testing.T) {
	_, local := newMemoryBench(t)
	open := func(s object.Store) (*checkpoint.Repository, error) {
		return checkpoint.OpenRepository(t.Context(), checkpoint.RepositoryOptions{Store: s, Job: "job"})
	}
	var third *checkpoint.Repository
	halted := &beforePut{Store: leased{local}, do: func() {
		second, err := open(leased{local})
		if err == nil {
			err = second.Close()
		}
		if err == nil {
			third, err = open(leased{local})
		}
		if err != nil {
			t.Fatal(err)
		}
	}}
	var locked *checkpoint.LockedError
	if _, err := open(halted); !errors.As(err, &locked) || locked.Owner == "" {
		t.Fatalf("the job is locked twice: %v", err)
	}
	if _, err := open(leased{local}); !errors.As(err, &locked) {
		t.Errorf("the third lost its lease: %v", err)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
	again, err := open(leased{local})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// leased hides that a store can lock.
type leased struct{ object.Store }

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
