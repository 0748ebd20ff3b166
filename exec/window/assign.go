package window

import "github.com/tidemark-stream/tidemark/plan"

// Interval is a window of a row: its start and end in the windows' local time, and the instant at which it is over.
type Interval struct {
	// Start and End are in ms; the end is the first ms after it. A session ends there where nothing extends it.
	Start, End int64
	// Over is the watermark from which on the window takes no rows.
	Over int64
}

// Assigner tells which windows an aggregation sorts a time into, and when it closes them: for people, who ask for one
// row. Not for concurrent use.
type Assigner struct {
	shape
	gap      int64 // of sessions, else 0
	zone     *zone
	lateness int64
}

// NewAssigner returns what tells the windows of n, which must not be in processing time nor come with the rows.
func NewAssigner(n *plan.WindowAgg) (*Assigner, error) {
	a := &Assigner{lateness: n.AllowedLatenessMs}
	var err error
	if n.Window.Kind == plan.Session {
		a.gap = n.Window.Size
	} else if a.shape, err = newShape(&n.Window); err != nil {
		return nil, err
	}
	a.zone, err = newZone(n.Window.Zone)
	return a, err
}

// Of appends to dst the windows of a row whose time attribute is t, the earliest first. There are none in the gaps of a
// hop that is longer than its windows.
func (a *Assigner) Of(dst []Interval, t int64) []Interval {
	local := a.zone.local(t)
	if a.gap > 0 {
		return append(dst, Interval{Start: local, End: local + a.gap, Over: a.over(local + a.gap)})
	}
	slice := a.sliceEnd(local)
	last := a.lastEnd(slice)
	for end := a.firstEnd(slice); end <= last; end += a.step {
		dst = append(dst, Interval{Start: a.start(end), End: end, Over: a.over(end)})
	}
	return dst
}

// over is the instant from which on the window that ends at end takes no rows.
func (a *Assigner) over(end int64) int64 { return a.zone.timer(end-1) + a.lateness }
