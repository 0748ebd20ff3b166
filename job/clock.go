package job

import (
	"slices"
	"sync"

	"github.com/tidemark-stream/tidemark/vec"
)

// splitStatus says whether a split takes part in the combined watermark.
type splitStatus uint8

const (
	splitActive splitStatus = iota
	splitIdle
	splitFinished
)

// clock combines the watermarks of the splits of all sources that feed one time attribute. All
// subtasks share it, so that each row can be stamped with the watermark of the whole input.
//
// Combined: the minimum over the active splits; with none active, the maximum of the idle ones;
// with all finished (and no more to come), the end of time. It never goes back.
type clock struct {
	mu       sync.Mutex
	splits   []*clockSplit
	open     int // sources whose enumerators may still find splits
	combined int64
	finished int   // splits read to their end, no longer in splits
	latest   int64 // the highest watermark of those
}

// clockSplit is one split's part of a clock. Its fields are guarded by clock.mu.
type clockSplit struct {
	id     string
	reader *sourceRun // of the subtask that reads it
	wm     int64
	status splitStatus
}

func newClock() *clock { return &clock{combined: vec.MinTime, latest: vec.MinTime} }

// addSource announces a source that will add splits until sourceDone.
func (c *clock) addSource() {
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
}

// sourceDone says that a source will add no more splits.
func (c *clock) sourceDone() {
	c.mu.Lock()
	c.open--
	c.recombine()
	c.mu.Unlock()
}

// add registers an active split without a watermark yet.
func (c *clock) add(id string) *clockSplit {
	s := &clockSplit{id: id, wm: vec.MinTime}
	c.mu.Lock()
	c.splits = append(c.splits, s)
	c.mu.Unlock()
	return s
}

// advance raises the watermark of s, makes it active, and returns the combined one.
func (c *clock) advance(s *clockSplit, wm int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wm = max(s.wm, wm)
	s.status = splitActive
	return c.recombine()
}

// isIdle reports whether s is idle.
func (c *clock) isIdle(s *clockSplit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.status == splitIdle
}

// setStatus changes the status of s and returns the combined watermark.
func (c *clock) setStatus(s *clockSplit, st splitStatus) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.status = st
	if st == splitFinished { // of no more consequence; there may be very many
		c.splits = slices.DeleteFunc(c.splits, func(x *clockSplit) bool { return x == s })
		c.finished++
		c.latest = max(c.latest, s.wm)
	}
	return c.recombine()
}

// now returns the combined watermark.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.combined
}

// lowest returns the smallest watermark of an active split other than s, or MaxTime.
func (c *clock) lowest(except *clockSplit) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	low := vec.MaxTime
	for _, s := range c.splits {
		if s != except && s.status == splitActive {
			low = min(low, s.wm)
		}
	}
	return low
}

// assign says who reads s.
func (c *clock) assign(s *clockSplit, to *sourceRun) {
	c.mu.Lock()
	s.reader = to
	c.mu.Unlock()
}

// apart returns the smallest watermark of the active splits that r reads and of the others, or
// MaxTime where there is none.
func (c *clock) apart(r *sourceRun) (own, others int64) {
	own, others = vec.MaxTime, vec.MaxTime
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.splits {
		switch {
		case s.status != splitActive:
		case s.reader == r:
			own = min(own, s.wm)
		default:
			others = min(others, s.wm)
		}
	}
	return own, others
}

func (c *clock) recombine() int64 {
	active, idle := vec.MaxTime, vec.MinTime
	var nActive, nIdle int
	for _, s := range c.splits {
		switch s.status {
		case splitActive:
			nActive++
			active = min(active, s.wm)
		case splitIdle:
			nIdle++
			idle = max(idle, s.wm)
		}
	}
	wm := c.combined
	switch {
	case nActive > 0:
		wm = active
	case nIdle > 0:
		wm = idle
	case c.open == 0:
		wm = vec.MaxTime
	}
	c.combined = max(c.combined, wm)
	return c.combined
}

// last is the highest watermark of the splits that were read to their end.
func (c *clock) last() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// splitState is what a status page shows of a split.
type splitState struct {
	ID     string
	WM     int64
	Status splitStatus
}

// states lists the splits that have not ended, and counts the others.
func (c *clock) states() (open []splitState, finished int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.splits {
		open = append(open, splitState{s.id, s.wm, s.status})
	}
	return open, c.finished
}
