package window

import (
	"fmt"
	"math"

	"github.com/tidemark-stream/tidemark/plan"
)

// shape is the geometry of aligned windows.
type shape struct {
	kind               plan.WindowKind
	size, step, offset int64
	// width of a slice: no window begins or ends inside of one.
	width int64
}

func newShape(w *plan.Window) (shape, error) {
	s := shape{kind: w.Kind, size: w.Size, step: w.Step, offset: w.Offset}
	if w.Kind == plan.Tumble {
		s.step = w.Size
	}
	if s.size <= 0 || s.step <= 0 {
		return s, fmt.Errorf("a %s window needs a size and a step of at least 1 ms", w.Kind)
	}
	s.width = gcd(s.size, s.step)
	if w.Kind == plan.Cumulate {
		if s.size%s.step != 0 {
			return s, fmt.Errorf("the size of a CUMULATE window (%d ms) must be a multiple of its step (%d ms)",
				s.size, s.step)
		}
		s.width = s.step
	}
	return s, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// floor is the largest k*unit+offset that is not after t.
func floor(t, unit, offset int64) int64 {
	r := (t - offset) % unit
	if r < 0 {
		r += unit
	}
	return t - r
}

// sliceEnd is the end of the slice of time t.
func (s *shape) sliceEnd(t int64) int64 { return floor(t, s.width, s.offset) + s.width }

// firstEnd is the end of the first window that has the slice that ends at end.
func (s *shape) firstEnd(end int64) int64 {
	if s.kind != plan.Hop {
		return end
	}
	f := floor(end-s.size, s.step, s.offset) + s.size
	if f < end {
		f += s.step
	}
	return f
}

// lastEnd is the end of the last window that has the slice; with a hop that leaves gaps it may be
// before firstEnd, and then there is no such window.
func (s *shape) lastEnd(end int64) int64 {
	start := end - s.width
	switch s.kind {
	case plan.Hop:
		return floor(start, s.step, s.offset) + s.size
	case plan.Cumulate:
		return floor(start, s.size, s.offset) + s.size
	}
	return end
}

// start is the start of the window that ends at end.
func (s *shape) start(end int64) int64 {
	if s.kind == plan.Cumulate {
		return floor(end-1, s.size, s.offset)
	}
	return end - s.size
}

// never is a time after all others.
const never = math.MaxInt64
