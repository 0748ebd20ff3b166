package job

import (
	"testing"

	"github.com/tidemark-stream/tidemark/vec"
)

func TestClock_Combines(t *testing.T) {
	c := newClock()
	c.addSource()
	a, b := c.add("a"), c.add("b")
	want := func(got, exp int64) {
		t.Helper()
		if got != exp {
			t.Fatalf("combined watermark %d, want %d", got, exp)
		}
	}
	want(c.advance(a, 10), vec.MinTime) // b has not shown anything
	want(c.advance(b, 7), 7)
	want(c.advance(b, 3), 7) // never back
	want(c.setStatus(b, splitIdle), 10)
	want(c.advance(b, 8), 10) // active again, behind: the combined one stays
	want(c.advance(a, 20), 10)
	want(c.advance(b, 15), 15)
	want(c.setStatus(a, splitFinished), 15)
	want(c.setStatus(b, splitIdle), 15) // only idle ones: their maximum
	want(c.setStatus(b, splitFinished), 15)
	c.sourceDone()
	want(c.now(), vec.MaxTime)
}

func TestClock_FinishedAndIdleIsNotTheEnd(t *testing.T) {
	c := newClock()
	c.addSource()
	a, b := c.add("a"), c.add("b")
	c.sourceDone()
	c.advance(a, 100)
	c.advance(b, 50)
	c.setStatus(a, splitFinished)
	if got := c.setStatus(b, splitIdle); got != 50 {
		t.Fatalf("one split finished, one idle at 50: combined %d", got)
	}
	if got := c.advance(b, 60); got != 60 {
		t.Fatalf("the idle split came back at 60: combined %d", got)
	}
}

func TestClock_Apart(t *testing.T) {
	c := newClock()
	a, b, d := c.add("a"), c.add("b"), c.add("d")
	one, two := &sourceRun{}, &sourceRun{}
	c.assign(a, one)
	c.assign(b, one)
	c.assign(d, two)
	c.advance(a, 10)
	c.advance(b, 20)
	c.advance(d, 15)
	want := func(r *sourceRun, own, others int64) {
		t.Helper()
		if o, x := c.apart(r); o != own || x != others {
			t.Fatalf("own %d, others %d; want %d, %d", o, x, own, others)
		}
	}
	want(one, 10, 15)
	want(two, 15, 10)
	c.setStatus(a, splitIdle)
	want(one, 20, 15)
	c.setStatus(d, splitFinished)
	want(one, 20, vec.MaxTime)
	want(two, vec.MaxTime, 20)
}
