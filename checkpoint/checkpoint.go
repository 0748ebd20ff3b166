// Package checkpoint holds what survives a crash: the manifest of a checkpoint or savepoint and how
// it lies in an object store; the coordinator that decides when checkpoints are taken; and how the
// operators of a plan are matched with those of a checkpoint.
//
// What lies under a job's folder in the store:
//
//	checkpoints/<id>            one object: the manifest, with small changes of state inside
//	files/<name>                files of the state's LSM and sealed segments that manifests name
//	lineages/<n>                one object a lineage, written if absent: who writes now
//	ended                       the checkpoint with which the job came to its end
//	overtaken                   a lineage that another run goes on with: see Repository.Overtake
package checkpoint

import (
	"encoding/json"
	"time"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// FormatVersion is the newest version of manifests that this program writes. It reads all up to it.
// Version 2 has a Source.Memory, without which splits would be read again; others are of version 1.
const FormatVersion = 2

// version is the one that m needs to be written in.
func (m *Manifest) version() int {
	for i := range m.Sources {
		if m.Sources[i].Memory != nil {
			return 2
		}
	}
	return 1
}

// Manifest is everything that a checkpoint is made of: complete in itself but for Files, which it
// names with size and checksum.
type Manifest struct {
	Version int    `json:"version"`
	Job     string `json:"job"`
	// Lineage is opened by every start that does not go on from the newest checkpoint; ID counts
	// the checkpoints of a job over all lineages.
	Lineage   string `json:"lineage"`
	ID        int64  `json:"id"`
	Savepoint bool   `json:"savepoint,omitempty"`
	// Finished says that the job came to its end with this checkpoint.
	Finished bool `json:"finished,omitempty"`
	// Ends says that Repository.End is told when the output of this checkpoint, which is Finished, was
	// committed. Earlier programs did not tell.
	Ends bool `json:"ends,omitempty"`
	// Drained says that the end of time had been sent through the job: windows that were open then were
	// emitted with the rows that there were.
	Drained bool `json:"drained,omitempty"`
	// Run is the run of a script with several jobs that this one belongs to; nil where there was one.
	Run *ScriptRun `json:"run,omitempty"`
	// MixedBooks says that the counters of the operators do not belong together any more: some began
	// with a start from a checkpoint of another plan.
	MixedBooks bool `json:"mixedBooks,omitempty"`
	// Started is when the cut was made, by the clock of the machine.
	Started time.Time `json:"started"`
	// Program is the version of the program that wrote it.
	Program        string     `json:"program"`
	Parallelism    int        `json:"parallelism"`
	MaxParallelism int        `json:"maxParallelism"`
	Operators      []Operator `json:"operators"`
	Sources        []Source   `json:"sources"`
	Sinks          []Sink     `json:"sinks"`
	// Files is the content of the LSM.
	Files []File `json:"files"`
	// Segments are the sealed segments that committables of Sinks name.
	Segments []File `json:"segments"`
	// Tail is the changes made since the LSM's files were written: in order, those of many
	// operators.
	Tail []Tail `json:"-"`
	// Channels is the rows on their way between subtasks.
	Channels []Channel `json:"-"`
}

// ScriptRun is a run of a script with several jobs: from its start, over all starts that went on with
// it, until all of its jobs had come to their end.
type ScriptRun struct {
	ID string `json:"id"`
	// Jobs is how many of its jobs take checkpoints.
	Jobs int `json:"jobs"`
}

// Operator is one operator with state, or with books.
type Operator struct {
	// ID is the prefix of the operator's entries in the LSM; it stays the same as long as the
	// state is reused.
	ID uint16 `json:"id"`
	// Node is its number in the plan that was run, Label what a user reads.
	Node  int    `json:"node"`
	Label string `json:"label"`
	// Computes is a fingerprint of what the operator computes, Fed of that and of everything that
	// feeds it.
	Computes string `json:"computes"`
	Fed      string `json:"fed"`
	// Describe says in words what is computed, for people and for tools.
	Describe string       `json:"describe"`
	States   []state.Spec `json:"states,omitempty"`
	// Parallelism is the number of subtasks, of which Heads has one each (nil: none).
	Parallelism int      `json:"parallelism"`
	Heads       [][]byte `json:"heads,omitempty"`
	// Ended says that the input of all subtasks had come to its end.
	Ended bool `json:"ended,omitempty"`
	// Books are the counters, by name, summed over the subtasks.
	Books map[string]int64 `json:"books,omitempty"`
}

// Source is the splits of one source.
type Source struct {
	Node  int    `json:"node"`
	Table string `json:"table"`
	// Fed is the fingerprint of the source.
	Fed    string  `json:"fed"`
	Splits []Split `json:"splits"`
	// Memory is what the source's connector.Rememberer says of splits that were read to their end and
	// are not among Splits.
	Memory []byte `json:"memory,omitempty"`
	// Remembered is how many those were.
	Remembered int `json:"remembered,omitempty"`
	// Done says that no more splits would be found.
	Done bool `json:"done,omitempty"`
	// Clock is the combined watermark of the source's time attribute, ms.
	Clock int64 `json:"clock"`
}

// Split is where a split stood.
type Split struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
	// Set tells an offset of 0 from no position.
	Set bool `json:"set"`
	// Data is what the connector needs to open it.
	Data []byte `json:"data,omitempty"`
	// Watermark, ms, is the highest that a row of the split has given, Shown what the clock was
	// told of it, Since the number of rows since then.
	Watermark int64 `json:"watermark"`
	Shown     int64 `json:"shown"`
	Since     int   `json:"since,omitempty"`
	// Order is the split's number among those of its source, for ties.
	Order int `json:"order"`
	// Idle and Ended are the split's status.
	Idle  bool `json:"idle,omitempty"`
	Ended bool `json:"ended,omitempty"`
}

// Sink is output that was prepared and not committed when the checkpoint was taken.
type Sink struct {
	Node  int    `json:"node"`
	Table string `json:"table"`
	// Name tells the sink from the others of the job: the table's name, with a number where several
	// statements write it.
	Name string `json:"name"`
	Fed  string `json:"fed"`
	// Pending is one element an epoch, the oldest first; an earlier one may have been committed
	// by the time this is read, which committing again does not change.
	Pending []Pending `json:"pending,omitempty"`
	// Progress is the newest connector.Progress of a table of results, Producers which of the expected
	// producers the windows that are not over yet have seen.
	Progress  json.RawMessage `json:"progress,omitempty"`
	Producers json.RawMessage `json:"producers,omitempty"`
	// Digest is of all rows up to here, where it is kept: where two checkpoints are.
	Digest *SinkDigest `json:"digest,omitempty"`
}

// Pending is the prepared output of one epoch of a sink.
type Pending struct {
	Lineage      string   `json:"lineage"`
	Checkpoint   int64    `json:"checkpoint"`
	Committables [][]byte `json:"committables"`
	// Progress is the connector.Progress that goes with it, of a table of results.
	Progress json.RawMessage `json:"progress,omitempty"`
}

// File is an object under files/.
type File struct {
	// Name is what the reader of the file calls it: its name in the LSM's folder, or the segment.
	Name string `json:"name"`
	// Object is its name under files/.
	Object string `json:"object"`
	Size   int64  `json:"size"`
	// Sum is the XXH3 of the content, 16 hexadecimal digits.
	Sum string `json:"sum"`
	// Of says whose damage this would be, for people.
	Of string `json:"of,omitempty"`
}

// Tail is one run of changes of an operator, in the form of state.Delta.
type Tail struct {
	Operator uint16
	Changes  []byte
}

// Channel is rows on their way: what the output of node From had sent to input Input of node To.
type Channel struct {
	From, To, Input int
	// Rows is encoded by package job, for Schema.
	Schema types.Schema
	Rows   []byte
}
