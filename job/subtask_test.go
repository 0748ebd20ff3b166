package job

import (
	"context"
	"testing"
)

// TestWaitListensToAllSources has the second of two sources wake a subtask.
func TestWaitListensToAllSources(t *testing.T) {
	s := newSubtask(&Job{ctx: context.Background()}, nil, 0)
	first, second := make(chan struct{}, 1), make(chan struct{}, 1)
	for _, c := range []chan struct{}{first, second} {
		s.wake = append(s.wake, receiving(c))
	}
	second <- struct{}{}
	s.wait()
	if len(second) != 0 {
		t.Fatal("the second source was not heard")
	}
	s.in.wakeUp()
	s.wait()
	if len(s.in.ready) != 0 {
		t.Fatal("the inbox was not heard")
	}
}
