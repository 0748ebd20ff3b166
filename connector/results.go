package connector

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// Results says that a table holds the history of the revisions of results: appended rows, each a full
// snapshot of the row with a key. In Table.Columns the metadata of results are ordinary columns, behind
// the others, and Table.PrimaryKey is what tells revisions apart: Key, then the columns Generation (where
// there is one) and Revision.
type Results struct {
	// Key is what revisions are counted for: the primary key of the table's definition.
	Key []string
	// WindowStart and WindowEnd are the columns, among Key or not, that say which window a row is of; ""
	// where there is none.
	WindowStart, WindowEnd string
	// Zone is the time zone that the windows are aligned in (an IANA name), so that their columns can be
	// compared with watermarks, which are instants; "" where the windows are of plain TIMESTAMP.
	Zone string
	// Column names the column with each metadata that the table asked for: by "revision", "generation",
	// "watermark", "is_final", "is_deleted", "emit_reason", "input_count", "cause". "revision" is always
	// there.
	Column map[string]string
	// Units are the units of columns, by name, from COMMENT 'unit: minutes'.
	Units map[string]string
	// Generation is that of this run.
	Generation string
	// LatenessMs is how long after its end a window may be corrected.
	LatenessMs int64
	// Windows says which windows there are, also those without a row; nil where only rows tell: sessions,
	// windows by the clock, results of no windows.
	Windows *WindowGrid
}

// WindowGrid is windows of a fixed length, in local time, ms: one ends at each multiple of Step behind Offset.
type WindowGrid struct {
	// Size is the length of a window, where Cumulative of the longest one: those between two multiples of
	// Size begin at the first of them.
	Size, Step, Offset int64
	Cumulative         bool
	// Delay is how far the watermark is beyond the end of a window when its first result is there at the
	// latest.
	Delay int64
}

// Last is the newest window that ends at or before ms.
func (g *WindowGrid) Last(ms int64) (start, end int64) {
	end = g.floor(ms, g.Step)
	return g.StartOf(end), end
}

// Ending reports whether a window ends at end, and Starting whether one starts at start.
func (g *WindowGrid) Ending(end int64) bool { return g.floor(end, g.Step) == end }

// Starting is described at Ending.
func (g *WindowGrid) Starting(start int64) bool {
	if g.Cumulative {
		return g.floor(start, g.Size) == start
	}
	return g.Ending(start + g.Size)
}

// StartOf is the start of the window that ends at end.
func (g *WindowGrid) StartOf(end int64) int64 {
	if g.Cumulative {
		return g.floor(end-1, g.Size)
	}
	return end - g.Size
}

// floor is the greatest multiple of step behind Offset that is not above ms.
func (g *WindowGrid) floor(ms, step int64) int64 {
	rest := (ms - g.Offset) % step
	if rest < 0 {
		rest += step
	}
	return ms - rest
}

// Values are the columns of t that are neither metadata of results nor part of the key.
func (r *Results) Values(t *Table) []types.Field {
	meta := map[string]bool{}
	for _, k := range r.Key {
		meta[k] = true
	}
	for _, c := range r.Column {
		meta[c] = true
	}
	var out []types.Field
	for _, f := range t.Columns {
		if !meta[f.Name] {
			out = append(out, f)
		}
	}
	return out
}

// Progress is how far a result had come at a checkpoint: what is said beside it, so that a reader knows
// how final and how complete it is. Times are ms since 1970 UTC.
type Progress struct {
	Job, Table string
	Lineage    string
	Checkpoint int64
	Generation string
	// Watermark is what the results take in account: all windows that end before it have been written.
	// vec.MinTime before the first row, vec.MaxTime when the input has ended.
	Watermark int64
	// MaxTime is the highest event time read, MinTime where unknown: with At it gives the age of the source.
	MaxTime int64
	// Of the splits that feed the result: those whose watermark is not below Watermark and which are active,
	// those read to their end, those that are idle, and all that are known.
	SplitsPassed, SplitsDone, SplitsIdle, Splits int
	// IdleSplits names some of the idle ones.
	IdleSplits []string
	// Expected and Seen are producers, or where DueRows rows, due and seen in the newest window that is over and for
	// which any are due: DueStart to DueEnd, in the windows' local time, ms. Missing names some of the producers
	// that are missing, or have not as many rows as are due. Expected is 0 where nobody said who is expected, and
	// before the first such window.
	Expected, Seen   int64
	DueRows          bool
	DueStart, DueEnd int64
	Missing          []string
	// Rows dropped before the result so far, by reason.
	Late, Rejected, Duplicates, Stale, Conflicts, Expired int64
	// LateBy are the rows that missed a window so far by how late they were: up to each of LateBounds, and above
	// them all; LateByMs is the sum. nil: none. Those that were in time for another window are no part of Late.
	LateBy   []int64 `json:",omitempty"`
	LateByMs int64   `json:",omitempty"`
	// Missed are windows for which rows came too late since the progress before: they need a backfill.
	// Where there are many, neighbours are put together.
	Missed []MissedWindow
	// Rows is the number of rows written so far.
	Rows int64
	At   int64 // when the checkpoint was begun
}

// LateBounds are the upper bounds, inclusive, of the buckets that late rows are counted in, in ms: 1 s, 10 s, 1 min,
// 5 min, 1 h, 6 h and 1 d.
var LateBounds = [...]int64{1_000, 10_000, 60_000, 300_000, 3_600_000, 21_600_000, 86_400_000}

// Completeness says in words who has reported of who is expected: "411 of 412 reported, missing store 17", "950 of
// 1,000 rows"; "" where nobody is expected.
func (p *Progress) Completeness() string {
	if p.Expected == 0 {
		return ""
	}
	out := grouped(p.Seen) + " of " + grouped(p.Expected) + " reported"
	lead := ", missing "
	if p.DueRows {
		out, lead = strings.TrimSuffix(out, "reported")+"rows", "; "
	}
	const named = 3
	if len(p.Missing) > 0 {
		out += lead + strings.Join(p.Missing[:min(named, len(p.Missing))], ", ")
		if len(p.Missing) > named {
			out += ", ..."
		}
	}
	return out
}

// grouped is n with a comma between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// MissedWindow is a window, or a run of them, that rows came too late for. Local time of the window, ms;
// the end is exclusive.
type MissedWindow struct {
	Start, End, Rows int64
	// Windows is how many were put together; 0: it is one.
	Windows int64 `json:",omitempty"`
}

// Count is the number of windows, at least 1.
func (m *MissedWindow) Count() int64 { return max(1, m.Windows) }

// MissedCount is the number of windows in Missed.
func (p *Progress) MissedCount() int64 {
	var n int64
	for i := range p.Missed {
		n += p.Missed[i].Count()
	}
	return n
}

// ProgressCommitter is implemented by committers of tables with Results that keep a progress table.
type ProgressCommitter interface {
	// CommitProgress commits as Commit does and notes p: in the same transaction where there is one, else
	// behind the rows. Repeating it must change nothing. It is called instead of Commit, also with no
	// committables.
	CommitProgress(ctx context.Context, id CommitID, cs []Committable, p *Progress) error
}
