package job

import (
	"sync/atomic"
	"time"
)

// stopwatch adds up how long one goroutine does something; others may read it meanwhile.
type stopwatch struct {
	total atomic.Int64 // ns of what is over
	since atomic.Int64 // when it began, ns since zeroHour; 0: it stands still
}

// zeroHour is what stopwatches count from.
var zeroHour = time.Now().Add(-time.Second)

// start begins at a time.
func (w *stopwatch) start(at time.Time) { w.since.Store(int64(at.Sub(zeroHour))) }

// stop ends at a time; the time since start counts if it is to.
func (w *stopwatch) stop(at time.Time, counts bool) {
	if counts {
		w.total.Add(int64(at.Sub(zeroHour)) - w.since.Load())
	}
	w.since.Store(0)
}

// read is the time so far, also that of what is not over yet.
func (w *stopwatch) read() time.Duration {
	n := w.total.Load()
	if s := w.since.Load(); s != 0 {
		n += max(0, int64(time.Since(zeroHour))-s)
	}
	return time.Duration(n)
}
