package results

import (
	"slices"

	"github.com/tidemark-stream/tidemark/vec"
)

// Pointer says which generation counts for which windows.
type Pointer struct {
	Version int64
	// Ranges are disjoint and sorted by From. Windows that start in none belong to Default.
	Ranges []Range
	// Default is the generation of all other windows; "": that of the running job.
	Default string
	At      int64 // when it was set
}

// Range is the windows that start in [From, To).
type Range struct {
	From, To   int64
	Generation string
}

// Of returns the generation of the window that starts at start.
func (p *Pointer) Of(start int64) string {
	i, ok := slices.BinarySearchFunc(p.Ranges, start, func(r Range, t int64) int {
		switch {
		case r.To <= t:
			return -1
		case r.From > t:
			return 1
		}
		return 0
	})
	if ok {
		return p.Ranges[i].Generation
	}
	return p.Default
}

// Promote returns the next version of p, in which the windows that start in [from, to) belong to
// generation. The whole of time makes it the default.
func (p *Pointer) Promote(from, to int64, generation string) Pointer {
	out := Pointer{Version: p.Version + 1, Default: p.Default}
	if from == vec.MinTime && to == vec.MaxTime {
		out.Default = generation
		return out
	}
	for _, r := range p.Ranges {
		if r.From < from {
			out.Ranges = append(out.Ranges, Range{r.From, min(r.To, from), r.Generation})
		}
		if r.To > to {
			out.Ranges = append(out.Ranges, Range{max(r.From, to), r.To, r.Generation})
		}
	}
	if from < to {
		out.Ranges = append(out.Ranges, Range{from, to, generation})
	}
	slices.SortFunc(out.Ranges, func(a, b Range) int { return compare(a.From, b.From) })
	merged := out.Ranges[:0]
	for _, r := range out.Ranges {
		if n := len(merged); n > 0 && merged[n-1].To == r.From && merged[n-1].Generation == r.Generation {
			merged[n-1].To = r.To
			continue
		}
		merged = append(merged, r)
	}
	out.Ranges = merged
	return out
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
