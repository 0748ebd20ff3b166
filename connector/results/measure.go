package results

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// Measure is a number about a table of results, for metrics.
type Measure struct {
	// Name is in snake case, with its unit at the end; Help says what it is.
	Name, Help string
	// Generation is the one that it is of; "": of the whole table.
	Generation string
	Value      float64
	// Buckets, where it is no single value but a histogram, are the cumulative counts by upper bound; Count and Sum are
	// those of all that was counted.
	Buckets map[float64]uint64
	Count   uint64
	Sum     float64
}

// Lag is how long after the end of a window its result could be seen, in ms: of the newest window that was over
// at a checkpoint whose rows became visible at a time. false where the watermark says nothing: before the first
// row, and at the end of the input.
func (t Times) Lag(p *connector.Progress, visibleAt int64) (int64, bool) {
	if p.Watermark == vec.MinTime || p.Watermark == vec.MaxTime {
		return 0, false
	}
	return max(0, visibleAt-p.Watermark), true
}

// Age is how far the newest event that was read lies back, in ms.
func Age(p *connector.Progress, now int64) (int64, bool) {
	if p.MaxTime == vec.MinTime || p.MaxTime == vec.MaxTime {
		return 0, false
	}
	return max(0, now-p.MaxTime), true
}

// MeasureProgress are the numbers of a progress row. They cost nothing to make.
func MeasureProgress(t Times, p *connector.Progress, visibleAt int64) []Measure {
	var out []Measure
	add := func(name, help string, v float64) {
		out = append(out, Measure{Name: name, Help: help, Generation: p.Generation, Value: v})
	}
	if ms, ok := t.Lag(p, visibleAt); ok {
		add("lag_seconds", "From the end of the newest window that is over until its result could be seen.", float64(ms)/1000)
	}
	if ms, ok := Age(p, visibleAt); ok {
		add("source_age_seconds", "How far the newest event that was read lies back.", float64(ms)/1000)
	}
	add("rows", "Revisions written.", float64(p.Rows))
	add("splits", "Splits that feed the result.", float64(p.Splits))
	add("splits_idle", "Of these, splits that are idle.", float64(p.SplitsIdle))
	add("late_rows", "Rows that came too late for their window.", float64(p.Late))
	add("rejected_rows", "Rows that could not be used.", float64(p.Rejected))
	add("duplicate_rows", "Versions of entities that were there already.", float64(p.Duplicates))
	add("stale_rows", "Versions of entities that were older than what was there.", float64(p.Stale))
	add("conflicting_rows", "Equal versions of entities with different content.", float64(p.Conflicts))
	add("expired_rows", "Versions of entities that may have been forgotten.", float64(p.Expired))
	out = append(out, late(p))
	if p.Expected > 0 {
		add("expected", "Producers, or rows, due for the newest window that is over.", float64(p.Expected))
		add("seen", "Of these, the ones that were seen.", float64(p.Seen))
	}
	return out
}

// late is how late the rows were that missed a window.
func late(p *connector.Progress) Measure {
	m := Measure{Name: "late_seconds", Help: "By how much rows missed a window; a row that missed several counts once, by the one that it missed by most.",
		Generation: p.Generation, Buckets: map[float64]uint64{}, Sum: float64(p.LateByMs) / 1000}
	for i, n := range p.LateBy {
		m.Count += uint64(n)
		if i < len(connector.LateBounds) {
			m.Buckets[float64(connector.LateBounds[i])/1000] = m.Count
		}
	}
	for _, b := range connector.LateBounds { // those of no rows, too, where none came late yet
		m.Buckets[float64(b)/1000] += 0
	}
	return m
}

// MeasureStore are the numbers that the target has to be asked for. It reads the whole history, so it is for
// every few minutes and not for every few seconds.
func MeasureStore(ctx context.Context, s Store) ([]Measure, error) {
	var out []Measure
	p, err := s.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	gens, err := s.Generations(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range gens {
		shown := 0.0
		if slices.Contains(p.Generations(), g.Name) {
			shown = 1
		}
		out = append(out,
			Measure{Name: "generation_shown", Help: "Whether the pointer names the generation.", Generation: g.Name, Value: shown},
			Measure{Name: "keys", Help: "Cells that the generation has.", Generation: g.Name, Value: float64(g.Keys)},
			Measure{Name: "revisions", Help: "Revisions of these cells that are kept.", Generation: g.Name, Value: float64(g.Revisions)},
			Measure{Name: "corrections", Help: "Revisions beyond the first one of a cell that are kept.", Generation: g.Name, Value: float64(g.Revisions - g.Keys)})
		if g.Keys > 0 {
			out = append(out, Measure{Name: "revisions_per_cell", Help: "Revisions a cell.", Generation: g.Name, Value: float64(g.Revisions) / float64(g.Keys)})
		}
	}
	n, err := s.Conflicts(ctx, "")
	if err != nil {
		return nil, err
	}
	out = append(out, Measure{Name: "conflicts", Help: "Cells with an equal revision and different content: there should be none.", Value: float64(n)},
		Measure{Name: "pointer_version", Help: "How often a generation was promoted or taken back.", Value: float64(p.Version)})
	health, err := MeasureHealth(ctx, s)
	return append(out, health...), err
}

// targetHelp says what the numbers of Store.Health are.
var targetHelp = map[string]string{
	"parts": "Active parts of the table.", "parts_in_partition": "Active parts of the partition that has most: inserts are slowed down and refused where there are too many.",
	"partitions": "Partitions of the table.", "rows": "Rows of the table.", "bytes": "Bytes of the table.", "index_bytes": "Bytes of its indexes.",
	"merges": "Merges under way.", "merge_seconds": "How long the longest one has run.", "mutations": "Mutations that wait or run.", "mutation_parts": "Parts that they have to do.",
	"mutations_failing": "Mutations that have failed and are tried again.", "queries": "Queries that have read the table in the last five minutes.", "query_rows_read": "Rows that such a query has read, on average.",
	"query_bytes_read": "Bytes that such a query has read, on average.", "query_result_rows": "Rows of its result, on average.", "query_seconds": "How long it took, on average.",
	"scans": "Scans of the table and its indexes since the statistics were reset: a query makes one or more.", "scan_rows_read": "Rows that these have read.",
	"scan_bytes_read": "Bytes of the blocks that these have read, in memory or not.", "dead_rows": "Rows that wait for VACUUM.", "vacuum_age_seconds": "Since the last VACUUM.",
}

// MeasureHealth are the numbers of Store.Health, named target_ and so on, which cost little.
func MeasureHealth(ctx context.Context, s Store) ([]Measure, error) {
	h, err := s.Health(ctx)
	if err != nil {
		return nil, err
	}
	var out []Measure
	for name, v := range h {
		out = append(out, Measure{Name: "target_" + name, Help: targetHelp[name], Value: v})
	}
	slices.SortFunc(out, func(a, b Measure) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
