// Package connector holds the contracts between Tidemark and the systems it reads and writes:
// Source, Enumerator, Split, Reader; Sink, Writer, Committer; and the registry of connectors,
// which live in packages below. A connector is added by one Factory.
//
// A source finds splits (a file, a Kafka partition) and reads each from a position onwards. The
// runtime decides which split is read next: the one whose watermark is lowest, so that history is
// read in the order of event time; not reading a split is how it is paused.
package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// ErrNoData is returned by a split that has nothing to read at present but may have later.
var ErrNoData = errors.New("no data at present")

// Table is a table as its definition says, without names that only SQL needs.
type Table struct {
	Name      string
	Connector string
	// Options holds every option of WITH, overlaid by hints, the key 'connector' included.
	Options map[string]string
	// Columns are the physical columns in order.
	Columns []types.Field
	// Metadata are the metadata columns in order of definition.
	Metadata      []MetadataColumn
	PrimaryKey    []string
	PartitionKeys []string
	Comment       string
	// Results is set where the table holds the history of revisions of results.
	Results *Results
}

// MetadataColumn is a column that comes from the record's envelope.
type MetadataColumn struct {
	Name    string // of the column
	Key     string // of the metadata, such as offset
	Type    types.Type
	Virtual bool // read only: not part of what a sink writes
}

// Schema returns the physical columns.
func (t *Table) Schema() types.Schema { return types.Schema{Fields: t.Columns} }

// Factory makes the sources and sinks of one connector.
type Factory struct {
	Name    string
	Doc     string
	Options []option.Spec
	// Formats says that the options "format" (or "key.format" and "value.format" where Keyed)
	// choose how bytes become rows.
	Formats bool
	Keyed   bool
	// SkipsUpdateBefore says that a sink takes -U rows without looking at them, so that they need
	// not be made.
	SkipsUpdateBefore bool
	// Partitioned says that partition columns are not in the records but constants of a split,
	// which its SplitReader gives as Constants.
	Partitioned bool
	// NullDeletes says that a record without a value deletes the row of its key.
	NullDeletes bool
	// LagInBytes says that the lag of its splits counts bytes, not records.
	LagInBytes bool
	// Session lists prefixes of options that a table takes over from the session's SET statements
	// where it does not have them itself, such as "s3.": how to reach a place that many tables share.
	Session []string
	// SourceMetadata and SinkMetadata list the metadata keys that can be read and written.
	SourceMetadata, SinkMetadata []types.Field
	// Check refuses definitions that cannot work, at planning: combinations of options, a
	// missing primary key. May be nil.
	Check func(t *Table, o option.Values) error
	// SourceChangelog and SinkChangelog give the row kinds of a table; nil means those of its
	// format, or insert-only without one. A sink of updates by key may get a -U row all the same,
	// where a filter may not let the new version pass: it is the deletion of the key.
	SourceChangelog func(t *Table, o option.Values) types.ChangelogMode
	SinkChangelog   func(t *Table, o option.Values) types.ChangelogMode
	// Delivery is what a sink of the table gives and how, as Sink.Delivery says it, without making
	// the sink: for EXPLAIN. nil: what 'sink.delivery-guarantee' says.
	Delivery  func(t *Table, o option.Values) (Delivery, string)
	NewSource func(SourceConfig) (Source, error) // nil: cannot be read
	NewSink   func(SinkConfig) (Sink, error)     // nil: cannot be written
}

// Inherited returns those of the options set in the session that a table with the given options
// takes over; nil where there are none.
func (f *Factory) Inherited(options, session map[string]string) map[string]string {
	var out map[string]string
	for _, prefix := range f.Session {
		for k, v := range session {
			if _, own := options[k]; own || !strings.HasPrefix(k, prefix) {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

// SourceConfig is what a source is made for.
type SourceConfig struct {
	Table   *Table
	Options option.Values
	// Columns are the indexes of the physical columns wanted, ascending; Metadata those of the
	// metadata columns wanted. Sources of bytes leave Columns to the decoder.
	Columns  []int
	Metadata []int
	// Limit is the number of rows after which nobody reads on, or -1.
	Limit int64
	// Batch is true in batch mode, where an unbounded source is refused.
	Batch bool
	// Resolve makes a path of the SQL text absolute. Never nil.
	Resolve func(path string) string
	// Seed makes generated data repeatable; 0 lets the source choose.
	Seed uint64
	// Warn takes messages for the user that are not errors, from any goroutine; may be nil.
	Warn func(msg string)
}

// Warning gives a message to Warn, if there is one.
func (c *SourceConfig) Warning(format string, args ...any) {
	if c.Warn != nil {
		c.Warn(fmt.Sprintf(format, args...))
	}
}

// Source is one table being read. Methods may be called from several goroutines.
type Source interface {
	// Bounded reports whether the set of splits and each split ends.
	Bounded() bool
	// NewEnumerator is called once for a run.
	NewEnumerator(ctx context.Context) (Enumerator, error)
	// NewReader is called once a subtask.
	NewReader(ctx context.Context, subtask int) (Reader, error)
	// Guarantee says in a few words what the source gives after a restart, for EXPLAIN.
	Guarantee() string
}

// Enumerator finds splits. Its calls do not overlap.
type Enumerator interface {
	// Discover returns splits that it did not return before; done says that there will be no
	// more. Unless done, it is called again from time to time.
	Discover(ctx context.Context) (splits []Split, done bool, err error)
	// Known tells an enumerator that starts from a checkpoint which splits exist already; a
	// Rememberer only those that are still to be read.
	Known(ids []string)
	Close() error
}

// Rememberer is implemented by enumerators that remember which splits were read to their end in less
// room than their names take. Others are told of all splits by Known, and every checkpoint names them.
// Its methods may be called while Discover is.
type Rememberer interface {
	// Remember takes note of splits that were read to their end, and returns what checkpoints from
	// now on hold in place of these and of all that it was told of before.
	Remember(ended []string) ([]byte, error)
	// Recall is given what Remember returned, at a start from a checkpoint, before Known and Discover.
	Recall(memory []byte) error
}

// Split is a piece of a source that is read in order.
type Split struct {
	// ID names the split within its table, for ever the same: a path, topic-partition.
	ID string
	// Position is where to start. The zero Position is the start that the options ask for.
	Position Position
	// Data is what else the reader needs, opaque and serialisable.
	Data []byte
}

// Position is a place in a split.
type Position struct {
	// Offset counts what Origin.Unit says; reading starts with the record at Offset.
	Offset int64
	// Set tells offset 0 from no position.
	Set bool
}

// Sizer is implemented by readers that know how much a split holds that is not open, in the units of
// SplitReader.Lag: from its position on, or -1. It is asked between two batches, once a split.
type Sizer interface {
	SizeOf(s Split) int64
}

// Reader opens splits for one subtask.
type Reader interface {
	// Open starts reading s. Many splits may be open at a time.
	Open(ctx context.Context, s Split) (SplitReader, error)
	// Wake returns a channel that gets a value (without blocking the sender) when a split that
	// had no data may have some. nil where that never happens.
	Wake() <-chan struct{}
	// Commit tells the outside world how far splits are read, after a checkpoint or, without
	// checkpoints, at intervals. Sources without such a notion do nothing.
	Commit(ctx context.Context, positions map[string]Position) error
	Close() error
}

// SplitReader reads one split. Its calls do not overlap. It is also a ChunkReader or a
// BatchReader.
type SplitReader interface {
	// Position is where to go on after a restart: just behind what Read returned last.
	Position() Position
	// Lag is the number of units (Origin.Unit) between Position and the end of the split as
	// last seen, or -1 if unknown.
	Lag() int64
	Close() error
}

// ChunkReader is a split of bytes, which a format decodes.
type ChunkReader interface {
	SplitReader
	// Read fills r with the next records. It may block for I/O but not for records that do not
	// exist yet: then it returns ErrNoData. At the end of the split it returns io.EOF and no
	// records. What it filled stays valid until the next call.
	Read(ctx context.Context, r *Records) error
}

// Constants is implemented by split readers of Partitioned connectors: the values, as text, of
// the partition columns, which all records of the split share. A missing column is NULL.
type Constants interface {
	Constants() map[string]string
}

// BatchReader is a split of rows.
type BatchReader interface {
	SplitReader
	// ReadBatch fills b, which has one vector a wanted physical column and then one a wanted
	// metadata column, with at most maxRows rows. Otherwise like ChunkReader.Read.
	ReadBatch(ctx context.Context, b *vec.Batch, maxRows int) error
}

// Refetcher is implemented by sources that can read a single record again, long after it was read:
// for the dead letters of rows that a later operator refuses.
type Refetcher interface {
	// NewFetcher is called at most once a run, when the first record is wanted.
	NewFetcher(ctx context.Context) (RecordFetcher, error)
}

// RecordFetcher reads single records by their place. Its calls do not overlap. Like a SplitReader
// it may have a method CutBy, which is then called before the first Fetch.
type RecordFetcher interface {
	// Fetch returns the bytes of the record at the position pos of the split called split, in
	// the form of format.BadRecord; nil for a record that is NULL as a whole. They are valid
	// until the next call. It returns soon after ctx has ended. Positions that ascend within a
	// split should cost little more than reading on.
	Fetch(ctx context.Context, split string, pos int64) ([]byte, error)
	Close() error
}

// Records is a run of records from one split.
type Records struct {
	// Chunk holds the values for the value format.
	Chunk format.Chunk
	// Keys holds the keys for the key format: same number of records, only of keyed sources.
	Keys *format.Chunk
	// Metadata has one vector a wanted metadata column, one value a record, or a single one that
	// all records share where Chunk.Bounds is nil.
	Metadata []*vec.Vec
	// TimeMs holds the time that the system gave each record (Kafka's timestamp), ms; may be
	// nil.
	TimeMs []int64
}

// Delivery is a sink's guarantee.
type Delivery uint8

// The guarantees, as 'sink.delivery-guarantee' names them.
const (
	AtMostOnce Delivery = iota
	AtLeastOnce
	ExactlyOnce
)

// String gives the option's spelling.
func (d Delivery) String() string { return [...]string{"none", "at-least-once", "exactly-once"}[d] }

// SinkConfig is what a sink is made for.
type SinkConfig struct {
	Table   *Table
	Options option.Values
	// Schema is the columns of the rows written: the physical columns, then the metadata
	// columns that can be written.
	Schema types.Schema
	// Mode is the kinds of rows that will come.
	Mode types.ChangelogMode
	// Batch and Overwrite come from the statement.
	Batch, Overwrite bool
	// StaticPartition holds INSERT ... PARTITION (k = v).
	StaticPartition map[string]string
	Resolve         func(path string) string
	// Segments is where an exactly-once sink seals its output; nil where no checkpoints are taken,
	// in which case such a sink refuses to be made unless it can do without.
	Segments Segments
	// Job names the job for ever: what a target remembers of earlier runs is found under it. Node
	// tells its sinks apart: the same in every run of the same plan.
	Job, Node string
	// Stdout and Stderr are where sinks that print write to.
	Stdout, Stderr Printer
	// Bad handles a row that the target refuses for what it contains. Never nil.
	Bad func(format.BadRecord) error
}

// Printer takes whole lines from many goroutines and keeps them whole.
type Printer interface {
	Write(p []byte) (int, error)
}

// Sink is one table being written. Methods may be called from several goroutines.
type Sink interface {
	// NewWriter is called once a subtask.
	NewWriter(ctx context.Context, subtask, parallelism int) (Writer, error)
	// NewCommitter returns what makes prepared output visible, or nil for sinks whose output
	// is visible when written.
	NewCommitter(ctx context.Context) (Committer, error)
	// Delivery is the guarantee the sink was configured for, and how it is kept, for EXPLAIN.
	Delivery() (Delivery, string)
}

// Writer writes the rows of one subtask. Its calls do not overlap.
type Writer interface {
	// Write takes the selected rows of b in order. It may buffer, within bounds; blocking is
	// backpressure.
	Write(ctx context.Context, b *vec.Batch) error
	// Flush makes everything written so far safe in the target (at least once).
	Flush(ctx context.Context) error
	// Prepare ends an epoch: what was written since the last call becomes a list of
	// committables, which survive a crash of this process once the checkpoint that holds them
	// is complete. Sinks without a Committer flush and return nil.
	Prepare(ctx context.Context) ([]Committable, error)
	// Tick is called several times a second while the job runs, for time limits of buffers.
	Tick(ctx context.Context) error
	// Close ends the writer. Output that was not prepared is dropped.
	Close() error
}

// Committable is prepared output, serialisable: a few hundred bytes, or a sealed segment.
type Committable []byte

// CommitID tells a commit of one sink from all others. The same id always comes with the same
// committables. Within a lineage checkpoints ascend.
type CommitID struct {
	// Lineage is that of the checkpoint; "" where none are taken and Checkpoint counts the epochs
	// of this process.
	Lineage    string
	Checkpoint int64
	// After is the last checkpoint of the lineage that may have been committed to this target before: Checkpoint itself
	// where this may not be the first time, the last one that the run has committed here, or the one that it went on
	// from. A target that has a later one has it from another run, which went on from the same state: see Overtaken.
	// 0: not known. It does not tell commits apart.
	After int64
}

// Overtaken is the error of a commit into a target that has a checkpoint of the lineage beyond what this run may have
// committed. Rows of this commit are not in the target, and to skip them as a repeat would lose them.
type Overtaken struct {
	ID  CommitID
	Has int64 // the checkpoint that the target has
}

// Overtaken returns the error, which is Fatal, where the target has checkpoint has of the lineage and may not.
func (id CommitID) Overtaken(has int64) error {
	if id.After == 0 || has <= id.After {
		return nil
	}
	return &Fatal{Err: &Overtaken{id, has}}
}

// Error implements error.
func (e *Overtaken) Error() string {
	return fmt.Sprintf("the table has the output of checkpoint %d of this job already, and this run comes with checkpoint %d as its own: it goes on from an older copy "+
		"of the state, or another run goes on from a copy of it; nothing was written. Start from the newest checkpoints where these are still there, "+
		"and one run only; or start anew with --fresh, when what the table has of the input that is then read again was taken out of it", e.Has, e.ID.Checkpoint)
}

// Committer makes prepared output visible, in the order given. Committing again, with the same id
// and committables, must change nothing, also after a crash in the middle of the first time and
// in another process. Temporary failures are retried inside, as long as ctx lives.
type Committer interface {
	Commit(ctx context.Context, id CommitID, cs []Committable) error
	// Abort removes prepared output of a run that did not complete.
	Abort(ctx context.Context, cs []Committable) error
	Close() error
}

// Segments is the place for the output of an epoch of an exactly-once sink, until the checkpoint
// that it belongs to is complete and the target has taken it. Methods may be called from several
// goroutines.
type Segments interface {
	// Create begins a segment. It lies in memory while it is small, then on disk.
	Create() (SegmentWriter, error)
	// Open reads a sealed segment, also in a later process.
	Open(ctx context.Context, c Committable) (io.ReadCloser, error)
}

// SegmentWriter writes one segment. It belongs to one goroutine.
type SegmentWriter interface {
	io.Writer
	// Size is the number of bytes written.
	Size() int64
	// Seal ends the segment; the committable names it, or holds it whole where it is small.
	Seal() (Committable, error)
	// Discard ends it without a trace.
	Discard() error
}

// ErrRefused says that a target refuses data for what they are, so that trying again is of no use.
// Committers bisect what they write down to the rows refused, which go to SinkConfig.Bad.
var ErrRefused = errors.New("refused by the target")

// Fatal marks an error that no restart can heal: a wrong password, a topic that does not exist.
// errors.As finds it.
type Fatal struct{ Err error }

// Error implements error.
func (f *Fatal) Error() string { return f.Err.Error() }

// Unwrap gives the cause.
func (f *Fatal) Unwrap() error { return f.Err }

// Finisher is implemented by committers that have something to do when a job that ended by itself
// has committed everything, also when there was nothing to commit.
type Finisher interface {
	Finish(ctx context.Context) error
}

var factories = map[string]*Factory{}

// Register adds a connector; it panics when the name is taken. Called from init, or by a library
// user before any SQL runs.
func Register(f *Factory) {
	if factories[f.Name] != nil {
		panic("BUG: connector registered twice: " + f.Name)
	}
	factories[f.Name] = f
}

// Lookup returns the connector called name, or nil.
func Lookup(name string) *Factory { return factories[name] }

// Names lists the registered connectors, sorted.
func Names() []string { return slices.Sorted(maps.Keys(factories)) }
