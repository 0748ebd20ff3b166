package connector

import (
	"context"

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
	// Expected and Seen are producers (or rows) due and seen in the newest window that is over; Missing names
	// some of the missing ones. Expected is 0 where nobody said who is expected.
	Expected, Seen int64
	Missing        []string
	// Rows dropped before the result so far, by reason.
	Late, Rejected, Duplicates, Stale, Conflicts, Expired int64
	// Missed are windows for which rows came too late since the progress before: they need a backfill.
	// Where there are many, neighbours are put together.
	Missed []MissedWindow
	// Rows is the number of rows written so far.
	Rows int64
	At   int64 // when the checkpoint was begun
}

// MissedWindow is a window, or a run of them, that rows came too late for. Local time of the window, ms;
// the end is exclusive.
type MissedWindow struct{ Start, End, Rows int64 }

// ProgressCommitter is implemented by committers of tables with Results that keep a progress table.
type ProgressCommitter interface {
	// CommitProgress commits as Commit does and notes p: in the same transaction where there is one, else
	// behind the rows. Repeating it must change nothing. It is called instead of Commit, also with no
	// committables.
	CommitProgress(ctx context.Context, id CommitID, cs []Committable, p *Progress) error
}
