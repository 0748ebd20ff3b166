package dashboard

import (
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/vec"
)

// Status is what the page says of a source. Times are ms since 1970; those that are unknown are absent.
type Status struct {
	Name   string `json:"name"`
	Table  string `json:"table"`
	Memory bool   `json:"memory,omitempty"`
	Error  string `json:"error,omitempty"`
	// Pointer is the version of the pointer; Ranges are what it says, Default the generation of all else.
	Pointer     int64            `json:"pointer"`
	Default     string           `json:"default"`
	Ranges      []RangeStatus    `json:"ranges,omitempty"`
	Generations []GenerationInfo `json:"generations,omitempty"`
	// Progress is that of each generation that is shown.
	Progress map[string]ProgressStatus `json:"progress"`
	// VersionConflicts are keys with an equal revision and different content; absent where not counted.
	VersionConflicts *int64      `json:"versionConflicts,omitempty"`
	Held             *HeldStatus `json:"held,omitempty"`
	// Needed is there where windows that are shown need a backfill.
	Needed *NeededStatus `json:"needed,omitempty"`
}

// NeededStatus says which windows need a backfill.
type NeededStatus struct {
	Windows int64          `json:"windows"`
	Rows    int64          `json:"rows"` // that came too late for them, or corrections that the generation shown has not
	First   []NeededWindow `json:"first"`
}

// NeededWindow is a window, or a run of neighbours.
type NeededWindow struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	Rows  int64 `json:"rows"`
}

// maxNeeded is how many windows that need a backfill are named.
const maxNeeded = 8

// needed lists the windows that need a backfill. It is worked out again when something has changed.
func (b *books) needed() *NeededStatus {
	if m, ok := b.mark(); !ok || !b.needs.known || b.needs.mark != m {
		b.needs.mark, b.needs.known, b.needs.status = m, ok, b.listNeeded()
	}
	return b.needs.status
}

func (b *books) listNeeded() *NeededStatus {
	j := results.Judge{Times: b.times, Pointer: b.pointer, Of: b.known}
	if b.pointer.Default == "" {
		j.Pointer.Default = b.live
	}
	list := j.NeedsBackfill(vec.MinTime, vec.MaxTime)
	if len(list) == 0 {
		return nil
	}
	out := &NeededStatus{}
	for i, w := range list {
		out.Windows += w.Count()
		out.Rows += w.Rows
		if i < maxNeeded {
			out.First = append(out.First, NeededWindow{w.Start, w.End, w.Rows})
		}
	}
	return out
}

// RangeStatus is a range of windows that belongs to a generation.
type RangeStatus struct {
	From       *int64 `json:"from,omitempty"`
	To         *int64 `json:"to,omitempty"`
	Generation string `json:"generation"`
}

// GenerationInfo is a generation that the table has rows of.
type GenerationInfo struct {
	Name       string `json:"name"`
	First      int64  `json:"first"`
	Last       int64  `json:"last"`
	Keys       int64  `json:"keys"`
	Revisions  int64  `json:"revisions"`
	Reconciled bool   `json:"reconciled,omitempty"`
}

// ProgressStatus is how far a generation has come.
type ProgressStatus struct {
	Watermark  *int64   `json:"watermark,omitempty"`
	Ended      bool     `json:"ended,omitempty"` // the input has
	MaxTime    *int64   `json:"maxTime,omitempty"`
	Checkpoint int64    `json:"checkpoint"`
	At         int64    `json:"at"`
	Passed     int      `json:"passed"`
	Done       int      `json:"done"`
	Idle       int      `json:"idle"`
	Splits     int      `json:"splits"`
	IdleSplits []string `json:"idleSplits,omitempty"`
	Expected   int64    `json:"expected,omitempty"`
	Seen       int64    `json:"seen,omitempty"`
	Missing    []string `json:"missing,omitempty"`
	// DueRows says that Expected and Seen count rows, and DueStart and DueEnd which window they are of.
	DueRows    bool  `json:"dueRows,omitempty"`
	DueStart   int64 `json:"dueStart,omitempty"`
	DueEnd     int64 `json:"dueEnd,omitempty"`
	Late       int64 `json:"late"`
	Rejected   int64 `json:"rejected"`
	Duplicates int64 `json:"duplicates"`
	Stale      int64 `json:"stale"`
	Conflicts  int64 `json:"conflicts"`
	Expired    int64 `json:"expired"`
	Rows       int64 `json:"rows"`
	Missed     int   `json:"missed,omitempty"` // windows that need a backfill for rows that came too late
}

// HeldStatus is what memory holds of a table.
type HeldStatus struct {
	Keys    int   `json:"keys"`
	Limit   int   `json:"limit"`
	Dropped int64 `json:"dropped"`
	Since   int64 `json:"since"`
	// Topic says that the rows are those of a topic, which has neither a pointer nor progress: the newest
	// generation counts, and the watermark is that of the rows; Undated that rows carry none.
	Topic   bool `json:"topic,omitempty"`
	Undated bool `json:"undated,omitempty"`
	// From says where in the topic the reading began, where that is not its beginning.
	From string `json:"from,omitempty"`
	// Behind is how many records are left to read until the present is reached, -1 where that is not known;
	// absent when it was reached.
	Behind *int64 `json:"behind,omitempty"`
}

// inMemory is implemented by Readers whose rows are in this process.
type inMemory interface {
	// version rises with each change.
	version() uint64
	held() HeldStatus
}

// status is what the page says of the source. wanted are generations that tiles ask for besides.
func (b *books) status(err error, wanted []string) *Status {
	s := &Status{Name: b.src.key(), Table: b.src.Table.Name, Memory: b.src.Memory, Pointer: b.pointer.Version, Default: b.live,
		Progress: map[string]ProgressStatus{}}
	if err != nil {
		s.Error = err.Error()
	}
	shown := append([]string{b.live}, wanted...)
	for _, r := range b.pointer.Ranges {
		s.Ranges = append(s.Ranges, RangeStatus{moment(r.From), moment(r.To), r.Generation})
		shown = append(shown, r.Generation)
	}
	for _, g := range b.listed {
		s.Generations = append(s.Generations, GenerationInfo{g.Name, g.FirstWindow, g.LastWindow, g.Keys, g.Revisions, len(b.reconciled[g.Name]) > 0})
	}
	for _, name := range shown {
		if g := b.gens[name]; g != nil && g.known {
			s.Progress[name] = g.status(b.times.Local(g.last.Watermark))
		}
	}
	if b.conflicts >= 0 {
		s.VersionConflicts = &b.conflicts
	}
	if l, ok := b.src.Store.(inMemory); ok {
		held := l.held()
		s.Held = &held
	}
	if err == nil {
		s.Needed = b.needed()
	}
	return s
}

// moment is a point in time, nil for the ends of time.
func moment(ms int64) *int64 {
	if ms == vec.MinTime || ms == vec.MaxTime {
		return nil
	}
	return &ms
}

// status is how far a generation has come; local is its watermark in the windows' local time.
func (g *generation) status(local int64) ProgressStatus {
	p := &g.last
	return ProgressStatus{Watermark: moment(local), Ended: p.Watermark == vec.MaxTime, MaxTime: moment(p.MaxTime),
		Checkpoint: p.Checkpoint, At: p.At, Passed: p.SplitsPassed, Done: p.SplitsDone, Idle: p.SplitsIdle, Splits: p.Splits,
		IdleSplits: p.IdleSplits, Expected: p.Expected, Seen: p.Seen, Missing: p.Missing, DueRows: p.DueRows, DueStart: p.DueStart, DueEnd: p.DueEnd, Late: p.Late, Rejected: p.Rejected,
		Duplicates: p.Duplicates, Stale: p.Stale, Conflicts: p.Conflicts, Expired: p.Expired, Rows: p.Rows, Missed: len(g.missed)}
}
