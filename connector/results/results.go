// Package results is what commands, the dashboard and metrics know of a table of results in its target:
// the newest revision of each cell through the pointer, how final it is, the generations, the progress
// rows, and the evidence of backfills and reconciliations. The SQL of a target is its connector's; the rules
// are here.
//
// A result table (connector.Results) has companions in its target, made by Ensure or by hand from
// Statements:
//
//	T             the history of revisions, all generations
//	T_progress    a row a checkpoint (connector.Progress)
//	T_pointer     which generation counts for which windows, a version a promotion; the newest counts
//	T_record      what was done: backfills, reconciliations, promotions, as JSON
//	T_latest      view: of each key the newest revision of the generation that counts, without deleted ones
//	T_conflicts   view: equal key, generation and revision with different content
package results

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// ErrMoved says that the pointer is not what it was when it was read.
var ErrMoved = errors.New("the pointer was moved meanwhile")

// Store is one table of results in its target. Methods may be called from several goroutines. Times are
// ms since 1970 UTC; those of windows are of the window's local time, as its columns have them.
type Store interface {
	// Layout is the table's columns by what they are for.
	Layout() *Layout
	// Statements are the statements that make the table, its companions and its views, in order.
	Statements() []Statement
	// Ensure makes what is missing and changes nothing that is there.
	Ensure(ctx context.Context) error
	// Query reads cells.
	Query(ctx context.Context, q Query) (*Rows, error)
	// Progress returns the last n progress rows of a generation, newest first; of any with "".
	Progress(ctx context.Context, generation string, n int) ([]connector.Progress, error)
	// Missed lists the windows that progress rows of a generation, begun after a time, say rows came too late
	// for, by start, each once.
	Missed(ctx context.Context, generation string, after int64) ([]connector.MissedWindow, error)
	// Now is the time by the clock that Corrected goes by: that of the target.
	Now(ctx context.Context) (int64, error)
	// Pointer returns the pointer; one without ranges and version 0 where it was never set. Pointers returns
	// all versions, the newest first.
	Pointer(ctx context.Context) (Pointer, error)
	Pointers(ctx context.Context) ([]Pointer, error)
	// Point sets the pointer to p in one atomic step; p.Version must be one more than what there is, else
	// ErrMoved.
	Point(ctx context.Context, p Pointer) error
	// Generations lists those that have rows.
	Generations(ctx context.Context) ([]Generation, error)
	// Totals adds up the newest revisions of a generation by window: for reconciliation.
	Totals(ctx context.Context, generation string, from, to int64) ([]Total, error)
	// Corrected lists windows of a range of which the given generation got revisions that were written after a
	// time (Now), and how many.
	Corrected(ctx context.Context, generation string, from, to, after int64) ([]connector.MissedWindow, error)
	// Conflicts counts keys with an equal revision and different content: of a generation, or of all with "".
	Conflicts(ctx context.Context, generation string) (int64, error)
	// Note keeps a record; Records returns those of a kind ("" all), the newest first.
	Note(ctx context.Context, r Record) error
	Records(ctx context.Context, kind string) ([]Record, error)
	// Drop removes a generation whole; one that the pointer names is refused. Prune removes superseded
	// revisions of windows that start before a time, in an order in which a stale one is never the newest,
	// and returns how many rows went, or -1.
	Drop(ctx context.Context, generation string) error
	Prune(ctx context.Context, generation string, before int64) (int64, error)
	// PruneProgress removes progress rows of checkpoints begun before a time that Superseded says nothing is lost
	// with, and returns how many.
	PruneProgress(ctx context.Context, before int64) (int64, error)
	// Lint looks for what would add up versions: views over the history.
	Lint(ctx context.Context) ([]string, error)
	// Health are numbers about the table in its target, by name, such as parts and merges: for metrics.
	Health(ctx context.Context) (map[string]float64, error)
	Close() error
}

// Statement is one statement of DDL.
type Statement struct {
	Name string // of what it makes
	Why  string // a sentence
	SQL  string
}

// Query says which cells to read.
type Query struct {
	// Generation is the one to read; "": through the pointer.
	Generation string
	// From and To bound the start of the window: [From, To). vec.MinTime and vec.MaxTime are open.
	From, To int64
	// Where are columns and the values, as text, that they must have.
	Where map[string]string
	// History asks for all revisions and not the newest of each key; Deleted for deleted ones too.
	History, Deleted bool
	// Group and Sums add up the newest revisions, by columns; without them whole rows are read.
	Group []string
	Sums  []Sum
	// Order are columns to sort by, "-" before those that descend. Limit 0: none.
	Order []string
	Limit int
}

// Sum is an aggregate over the newest revisions: Fn is sum, count, min, max or avg.
type Sum struct{ Fn, Column string }

// Rows is a small table of values: nil, bool, int64, float64, string, time.Time (TIMESTAMP in UTC), and
// text for all else (DECIMAL with all its digits).
type Rows struct {
	Columns []types.Field
	Rows    [][]any
}

// Generation is what is known of one generation.
type Generation struct {
	Name                    string
	FirstWindow, LastWindow int64 // starts; vec.MaxTime and vec.MinTime where rows are of no window
	Keys, Revisions         int64
}

// Total is the newest revisions of one window, without deleted ones, added up.
type Total struct {
	Window int64 `json:"window"` // start
	Keys   int64 `json:"keys"`
	// Hash is the sum of a hash of each row's key and values, so that equal windows are told from different
	// ones in a glance. Only hashes of one store can be compared.
	Hash uint64 `json:"hash"`
	// Sums are those of the numeric columns, by name, with all digits; "" where all are NULL.
	Sums map[string]string `json:"sums,omitempty"`
}

// Record is something that was done to the table.
type Record struct {
	Kind     string // backfill, reconcile, promote, rollback, prune
	Name     string // the generation
	At       int64
	Document []byte // JSON
}

// Opener makes the Store of a table.
type Opener func(ctx context.Context, t *connector.Table, o option.Values) (Store, error)

var openers = map[string]Opener{}

// Register says how the tables of a connector are opened. Called from init.
func Register(name string, open Opener) {
	if openers[name] != nil {
		panic("BUG: results of connector registered twice: " + name)
	}
	openers[name] = open
}

// Known reports whether the results of a connector's tables can be opened.
func Known(connector string) bool { return openers[connector] != nil }

// Open returns the Store of t, which must have Results.
func Open(ctx context.Context, t *connector.Table) (Store, error) {
	f := connector.Lookup(t.Connector)
	open := openers[t.Connector]
	switch {
	case t.Results == nil:
		return nil, fmt.Errorf("table %s holds no revisions; give it a column `revision BIGINT METADATA`", t.Name)
	case f == nil || open == nil:
		return nil, fmt.Errorf("the revisions of table %s cannot be looked at: connector '%s' has no such way; those with one are %v",
			t.Name, t.Connector, slices.Sorted(maps.Keys(openers)))
	}
	return open(ctx, t, option.Of(t.Options, f.Options, connector.CommonOptions))
}
