package results

import (
	"cmp"
	"slices"

	"github.com/tidemark-stream/tidemark/vec"
)

// Live is the generation of a job that names none ('tidemark.generation'): what counts where nothing was
// promoted.
const Live = "live"

// Pointer says which generation counts for which windows.
type Pointer struct {
	Version int64 `json:"version"`
	// Ranges are disjoint and sorted by From. Windows that start in none belong to Default.
	Ranges []Range `json:"ranges,omitempty"`
	// Default is the generation of all other windows; "": Live.
	Default string `json:"default,omitempty"`
	// Prior is the version that Rollback goes back to.
	Prior int64 `json:"prior,omitempty"`
	At    int64 `json:"at,omitempty"` // when it was set
}

// Range is the windows that start in [From, To). vec.MinTime and vec.MaxTime are open.
type Range struct {
	From       int64  `json:"from"`
	To         int64  `json:"to"`
	Generation string `json:"generation"`
}

// Base is the generation of windows in no range.
func (p *Pointer) Base() string {
	if p.Default == "" {
		return Live
	}
	return p.Default
}

// Generations lists those that count for some windows, the base first.
func (p *Pointer) Generations() []string {
	out := []string{p.Base()}
	for _, r := range p.Ranges {
		if !slices.Contains(out, r.Generation) {
			out = append(out, r.Generation)
		}
	}
	return out
}

// Covers lists the parts of [from, to) that a generation counts for.
func (p *Pointer) Covers(generation string, from, to int64) []Range {
	var out []Range
	add := func(a, b int64, g string) {
		if a, b = max(a, from), min(b, to); a < b && g == generation {
			out = append(out, Range{a, b, g})
		}
	}
	at := vec.MinTime
	for _, r := range p.Ranges {
		add(at, r.From, p.Base())
		add(r.From, r.To, r.Generation)
		at = r.To
	}
	add(at, vec.MaxTime, p.Base())
	return out
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
	return p.Base()
}

// Promote returns the next version of p, in which the windows that start in [from, to) belong to
// generation. The whole of time makes it the default, and ranges go.
func (p *Pointer) Promote(from, to int64, generation string) Pointer {
	out := Pointer{Version: p.Version + 1, Default: p.Default, Prior: p.Version}
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
	slices.SortFunc(out.Ranges, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	merged := out.Ranges[:0]
	for _, r := range out.Ranges {
		if r.Generation == p.Base() {
			continue // as outside of ranges
		}
		if n := len(merged); n > 0 && merged[n-1].To == r.From && merged[n-1].Generation == r.Generation {
			merged[n-1].To = r.To
			continue
		}
		merged = append(merged, r)
	}
	out.Ranges = merged
	return out
}
