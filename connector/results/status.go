package results

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// State is how far a cell of a result can be trusted.
type State uint8

// The states.
const (
	// Provisional is a cell that may change: its window is not over, or can still be corrected.
	Provisional State = iota
	// Final is a cell that nothing will correct any more.
	Final
	// NeedsBackfill is a cell that is known to be incomplete: rows came when its window was gone already, or
	// the generation shown was made before corrections that another one has.
	NeedsBackfill
)

// String gives the words that readers see.
func (s State) String() string { return [...]string{"provisional", "final", "needs backfill"}[s] }

// Status is what a cell says of itself.
type Status struct {
	State      State
	Generation string // that counts for its window
	// Over says that the watermark has passed the end of the window: what is there is not an early result.
	Over bool
	// Idle says that some split was idle when the window was over, so that rows of that split may be
	// missing: IdleSplits names some of them. Not known, and so not said, of windows that were over before
	// the oldest progress row at hand.
	Idle       bool
	IdleSplits []string
	// LateRows came too late for the window, where State is NeedsBackfill; Corrected says instead that another
	// generation has corrected the window since the one shown was made.
	LateRows  int64
	Corrected bool
}

// Times is how windows and watermarks of a result go together.
type Times struct {
	LatenessMs int64 // how long after its end a window may be corrected
	// Zone is where the windows' local time is that of a clock there, and watermarks are instants; nil where
	// both are the same local time.
	Zone *time.Location
}

// Local is a watermark in the windows' local time.
func (t Times) Local(watermark int64) int64 {
	if t.Zone == nil || watermark == vec.MinTime || watermark == vec.MaxTime {
		return watermark
	}
	_, offset := time.UnixMilli(watermark).In(t.Zone).Zone()
	return watermark + int64(offset)*1000
}

// Closed is the watermark at which windows that end at a local time are over.
func (t Times) Closed(local int64) int64 {
	if local == vec.MinTime || local == vec.MaxTime {
		return local
	}
	return t.last(local)
}

// last is the instant of the last millisecond of a window that ends at end: the later one where clocks were
// set back, as the window has both, and where clocks skip it, what they would have shown without that.
func (t Times) last(end int64) int64 {
	const day = 24 * 60 * 60 * 1000
	local := end - 1
	if t.Zone == nil || end > vec.MaxTime-2*day || end < vec.MinTime+2*day {
		return local
	}
	offset := func(instant int64) int64 {
		_, seconds := time.UnixMilli(instant).In(t.Zone).Zone()
		return int64(seconds) * 1000
	}
	before, after := offset(local-day), offset(local+day)
	if u := local - after; after < before && offset(u) == after {
		return u
	}
	if u := local - before; offset(u) != before && offset(local-after) == after {
		return local - after
	}
	return local - before
}

// Over reports whether a window that ends at end is over at a watermark.
func (t Times) Over(end, watermark int64) bool { return watermark >= t.last(end) }

// Final reports whether such a window can no longer be corrected.
func (t Times) Final(end, watermark int64) bool {
	if watermark < vec.MinTime+t.LatenessMs {
		return false
	}
	return watermark == vec.MaxTime || watermark-t.LatenessMs >= t.last(end)
}

// ClosedBy returns, of the progress rows of one generation, newest first, the first one that says that a
// window was over, and whether that is known: the oldest row at hand says nothing of what was before.
func (t Times) ClosedBy(rows []connector.Progress, end int64) (*connector.Progress, bool) {
	var by *connector.Progress
	for i := range rows {
		if !t.Over(end, rows[i].Watermark) {
			return by, by != nil
		}
		by = &rows[i]
	}
	return by, false
}

// MergeMissed puts the windows missed of many progress rows together, by start, each once.
func MergeMissed(rows []connector.Progress) []connector.MissedWindow {
	at := map[[2]int64]int{}
	var out []connector.MissedWindow
	for _, p := range rows {
		for _, m := range p.Missed {
			w := [2]int64{m.Start, m.End}
			i, known := at[w]
			if !known {
				i = len(out)
				at[w] = i
				out = append(out, connector.MissedWindow{Start: m.Start, End: m.End})
			}
			out[i].Rows, out[i].Windows = out[i].Rows+m.Rows, max(out[i].Windows, m.Windows)
		}
	}
	slices.SortFunc(out, func(a, b connector.MissedWindow) int {
		return slices.Compare([]int64{a.Start, a.End}, []int64{b.Start, b.End})
	})
	return out
}

// rowsMissed adds up the rows that a window missed. A missed window may be a run of neighbours.
func rowsMissed(missed []connector.MissedWindow, start, end int64) int64 {
	var n int64
	for _, m := range missed {
		if m.Start > start {
			break
		}
		if end <= m.End {
			n += m.Rows
		}
	}
	return n
}

// Knowledge is what is known of one generation of a table.
type Knowledge struct {
	// Progress are its newest rows, newest first.
	Progress []connector.Progress
	// Missed are the windows that rows came too late for.
	Missed []connector.MissedWindow
	// Since is set for generations that were made by a backfill: what the job's own generation missed or
	// corrected since then is not in them.
	Since int64
	// Corrected are windows that the job's own generation has corrected since, and LiveMissed those it missed.
	Corrected, LiveMissed []connector.MissedWindow
}

// Judge says of cells how far they can be trusted. It does not change.
type Judge struct {
	Times   Times
	Pointer Pointer
	// Of is what is known of the generations that the pointer names.
	Of map[string]Knowledge
}

// Status judges the cells of the window [start, end).
func (j *Judge) Status(start, end int64) Status {
	s := Status{Generation: j.Pointer.Of(start)}
	k := j.Of[s.Generation]
	if len(k.Progress) > 0 {
		w := k.Progress[0].Watermark
		s.Over = j.Times.Over(end, w)
		if j.Times.Final(end, w) {
			s.State = Final
		}
		if p, known := j.Times.ClosedBy(k.Progress, end); known && p.SplitsIdle > 0 {
			s.Idle, s.IdleSplits = true, p.IdleSplits
		}
	}
	s.LateRows = rowsMissed(k.Missed, start, end)
	if k.Since > 0 {
		s.LateRows += rowsMissed(k.LiveMissed, start, end)
		s.Corrected = rowsMissed(k.Corrected, start, end) > 0
	}
	if s.LateRows > 0 || s.Corrected {
		s.State = NeedsBackfill
	}
	return s
}

// NeedsBackfill lists the windows of [from, to) that do, by start.
func (j *Judge) NeedsBackfill(from, to int64) []connector.MissedWindow {
	sum := map[[2]int64]connector.MissedWindow{}
	add := func(generation string, ms []connector.MissedWindow) {
		for _, m := range ms {
			for _, r := range j.Pointer.Covers(generation, max(from, m.Start), min(to, max(m.End, m.Start+1))) {
				if r.From == m.Start || m.Start < from {
					w := sum[[2]int64{m.Start, m.End}]
					sum[[2]int64{m.Start, m.End}] = connector.MissedWindow{Start: m.Start, End: m.End, Rows: w.Rows + m.Rows, Windows: max(w.Windows, m.Windows)}
				}
			}
		}
	}
	for g, k := range j.Of {
		add(g, k.Missed)
		if k.Since > 0 {
			add(g, k.LiveMissed)
			add(g, k.Corrected)
		}
	}
	out := slices.Collect(maps.Values(sum))
	slices.SortFunc(out, func(a, b connector.MissedWindow) int {
		return slices.Compare([]int64{a.Start, a.End}, []int64{b.Start, b.End})
	})
	return out
}

// Newest returns the newest progress of the job's own generation; nil where there is none.
func (j *Judge) Newest() *connector.Progress {
	if k := j.Of[j.Pointer.Base()]; len(k.Progress) > 0 {
		return &k.Progress[0]
	}
	return nil
}

// progressRows is how many progress rows of a generation are looked at for splits that were idle.
const progressRows = 1000

// LoadJudge reads what is needed to judge the cells of a table whose windows start in [from, to).
func LoadJudge(ctx context.Context, s Store, r *connector.Results, from, to int64) (*Judge, error) {
	p, err := s.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	j := &Judge{Times: TimesOf(r), Pointer: p, Of: map[string]Knowledge{}}
	records, err := madeRecords(ctx, s)
	if err != nil {
		return nil, err
	}
	since, written := Since(records), WrittenSince(records)
	live := JobGeneration(r.Generation, &p, since)
	for _, g := range p.Generations() {
		k := Knowledge{}
		if k.Progress, err = s.Progress(ctx, g, progressRows); err != nil {
			return nil, err
		}
		if k.Missed, err = s.Missed(ctx, g, vec.MinTime); err != nil {
			return nil, err
		}
		if g != live && since[g] > 0 {
			k.Since = since[g]
			if k.LiveMissed, err = s.Missed(ctx, live, k.Since); err != nil {
				return nil, err
			}
			for _, part := range p.Covers(g, from, to) {
				c, err := s.Corrected(ctx, live, part.From, part.To, written[g])
				if err != nil {
					return nil, err
				}
				k.Corrected = append(k.Corrected, c...)
			}
		}
		j.Of[g] = k
	}
	return j, nil
}

// TimesOf are those of a table.
func TimesOf(r *connector.Results) Times {
	t := Times{LatenessMs: r.LatenessMs}
	if r.Zone != "" {
		if zone, err := time.LoadLocation(r.Zone); err == nil { // the planner has looked it up
			t.Zone = zone
		}
	}
	return t
}
