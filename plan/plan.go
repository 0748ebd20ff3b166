// Package plan is the narrow waist between SQL and execution: a directed acyclic graph of
// physical operators with their schemas, changelog modes, keys and distribution. The planner
// (sql/physical) writes it, exec/build and job read it, and explain prints it.
package plan

import (
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

// Plan is everything that one job runs: one or more sinks and what feeds them.
type Plan struct {
	// Nodes in topological order: a node's inputs come before it. Node.ID is its index.
	Nodes []*Node
	// Batch is execution.runtime-mode = batch: only final rows are emitted, all row kinds are
	// inserts.
	Batch bool
	// Config is the session's configuration when the plan was made.
	Config map[string]string
	// Name is pipeline.name or the file's name.
	Name string
	// Sources is the text that expr.Pos points into, for run-time errors.
	File, Text string
}

// Node is one operator.
type Node struct {
	ID     int
	Inputs []Edge
	Schema types.Schema
	// Mode is the kinds of rows that the node emits.
	Mode types.ChangelogMode
	// UpsertKeys are sets of columns by which updates of a row can be told apart and keep their
	// order; none where unknown.
	UpsertKeys [][]int
	// RowTime is the column that is the event-time attribute, or -1. Where it is not -1,
	// watermarks follow it.
	RowTime int
	// NeedStamps says that some operator downstream judges rows by the watermark at their
	// arrival, so batches must carry stamps. NeedPos says the same of origin and position.
	NeedStamps, NeedPos bool
	Op                  Op
	// Parallelism is the number of subtasks: 0 for the job's default, 1 for global operators.
	Parallelism int
	// Label is what a user reads: "TumbleAggregate(by origin)".
	Label string
	// StateGrowth says in words how the node's state grows ("one entry a key of the open
	// windows"), "" for stateless operators.
	StateGrowth string
}

// Edge is an input of a node.
type Edge struct {
	From int // node id
	Dist Distribution
	// Keys are the columns of the input that a hash distribution goes by.
	Keys []int
	// Ordered says that rows of several upstream subtasks are merged in the order of their
	// stamps (ties: by upstream subtask), because the operator's result depends on the order.
	// Only in plans whose sources are all bounded.
	Ordered bool
	// Late says that the rows are those that the window aggregation From found too late, in the form
	// of plan.Late, and not its results. Only the input of a Late node has it.
	Late bool
}

// Results returns the tables of results that p writes, a table for each sink.
func (p *Plan) Results() []*connector.Table {
	var out []*connector.Table
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*Sink); ok && s.Table != nil && s.Table.Results != nil {
			out = append(out, s.Table)
		}
	}
	return out
}

// EdgeSchema returns the columns of the rows of input i of n.
func (p *Plan) EdgeSchema(n *Node, i int) types.Schema {
	if n.Inputs[i].Late {
		return n.Schema
	}
	return p.Nodes[n.Inputs[i].From].Schema
}

// Distribution says which subtask gets a row.
type Distribution uint8

// The distributions. Forward keeps rows in the subtask they are in (and chains operators); it
// becomes Rebalance where parallelisms differ.
const (
	Forward Distribution = iota
	Hash
	Single // everything to one subtask
	Rebalance
	Broadcast
)

// String gives the name used in plans.
func (d Distribution) String() string {
	return [...]string{"forward", "hash", "single", "rebalance", "broadcast"}[d]
}

// Op is the particulars of an operator: one of the pointer types below.
type Op interface{ op() }

// Source reads a table. Its output is Project, over the columns read: the wanted physical columns
// (Columns), then the wanted metadata columns (Metadata). Project also computes computed columns.
// The watermark is taken from the projected row, per split; then the row goes on.
type Source struct {
	Table    *connector.Table
	Columns  []int // of Table.Columns, ascending
	Metadata []int // of Table.Metadata
	Project  []expr.Expr
	// RowTime is the column of the output that the watermark follows, or -1 (always in batch
	// mode, which has no watermarks). Watermark computes it from the output row: it is of type
	// BIGINT, TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p <= 3, which are all stored as ms; NULL
	// leaves the watermark where it is. nil with RowTime >= 0 means that the source itself
	// gives it.
	RowTime   int
	Watermark expr.Expr
	// Filter are conjuncts that readers may use to skip data; rows are filtered again
	// downstream. Over the output columns.
	Filter []expr.Expr
	Limit  int64 // -1: none
}

// Values emits constant rows, then ends.
type Values struct{ Rows [][]types.Value }

// Calc filters (nil: no filter), then projects.
type Calc struct {
	Filter  expr.Expr
	Project []expr.Expr
}

// Expand emits each row once for each of Projects (grouping sets), nil expressions being NULL.
type Expand struct{ Projects [][]expr.Expr }

// WindowKind is the shape of windows.
type WindowKind uint8

// The window shapes.
const (
	Tumble WindowKind = iota
	Hop
	Cumulate
	Session
)

// String gives the SQL name.
func (k WindowKind) String() string { return [...]string{"TUMBLE", "HOP", "CUMULATE", "SESSION"}[k] }

// Window assigns rows to windows by a time column. All times are in ms.
type Window struct {
	Kind WindowKind
	// Size of the window (the maximal one of CUMULATE); the gap of SESSION.
	Size int64
	// Step is the slide of HOP and the step of CUMULATE.
	Step   int64
	Offset int64
	// TimeCol is the time attribute in the input, of precision 3 or less; ProcTime says it is
	// processing time. It is -1 with ProcTime, where the window is attached, and in the global
	// phase.
	TimeCol  int
	ProcTime bool
	// Zone is the time zone windows are aligned in, for TIMESTAMP_LTZ; "" for TIMESTAMP.
	Zone string
	// PartitionKeys of the SESSION table function; the aggregation's keys elsewhere.
	PartitionKeys []int
}

// WindowTVF appends window_start, window_end (TIMESTAMP(3)) and window_time to each row, a row a
// window. For windows that no aggregation was fused with.
type WindowTVF struct {
	Window Window
}

// WindowProp is a property of a window that an aggregation emits.
type WindowProp uint8

// The window properties.
const (
	WindowStart WindowProp = iota
	WindowEnd
	WindowTime     // end - 1 ms, the time attribute of the result (event time)
	WindowProcTime // processing time attribute
	// The following say how an emission came about; they are STRING, BIGINT and STRING, and never NULL.
	WindowReason // EmitReason: why the row was emitted
	WindowCount  // number of input rows in the window, retracted ones taken off
	// WindowCause tells the input rows since the emission before: "SPLIT:FIRST-LAST" for each split that
	// had any, by name and joined by spaces, with the first and the last position; blanks, percent signs and
	// colons in the name of a split are percent-encoded. Rows between the two may belong to other
	// windows or keys. Rows without an origin are left out.
	WindowCause
)

// The reasons of an emission, as WindowReason and the metadata emit_reason have them.
const (
	ReasonEarly  = "early"   // the window is not over yet
	ReasonOnTime = "on-time" // the watermark has reached the end of the window
	ReasonLate   = "late"    // rows came after that
	ReasonUpdate = "update"  // a change of something that is no window, or of which more is not known
	ReasonDelete = "delete"  // the row is no more
)

// Phase says which part of a two-phase aggregation a node is.
type Phase uint8

// The phases. A local phase emits [keys..., accumulators packed in one BYTES column] and, for
// windows, the end of the slice in ms as BIGINT, for the global phase of the same Aggs; what is
// packed how is private to exec. The Keys of a global phase are the first columns of its input;
// Args and Filter of its Aggs are those of the local phase: they point into ArgSchema, not into
// the columns that come.
const (
	SinglePhase Phase = iota
	LocalPhase
	GlobalPhase
)

// AggCall is one aggregate of an aggregation.
type AggCall struct {
	Fn string // canonical name, e.g. COUNT, SUM
	// Args are input columns. COUNT(*) has none. Consts[i] (same length, may be nil) is set
	// where an argument is constant (the delimiter of LISTAGG); its Args entry is then -1.
	Args     []int
	Consts   []*expr.Literal
	ArgTypes []types.Type
	Distinct bool
	// Filter is a BOOLEAN input column, or -1.
	Filter int
	T      types.Type
	Name   string
	// Options are the clauses of JSON aggregates (NULL ON NULL / ABSENT ON NULL).
	Options []string
}

// WindowAgg aggregates per key and window. Output: Keys, then Aggs, then Props.
type WindowAgg struct {
	Window Window
	// Attached says that the input rows carry their window already, as columns StartCol and
	// EndCol (a window function below, or another window aggregation), whose times are in
	// Window.Zone. StartCol is -1 where the window is not known to have a start.
	Attached         bool
	StartCol, EndCol int
	Keys             []int
	Aggs             []AggCall
	Props            []WindowProp
	// InputRetracts says that -U and -D rows come.
	InputRetracts bool
	Phase         Phase
	// ArgSchema is the columns that Args and Filter of Aggs point into: those of the input or,
	// in a global phase, those of the local phase's input.
	ArgSchema types.Schema
	// AllowedLatenessMs keeps windows open beyond the watermark. EarlyFireMs, LateFireMs: -1 off,
	// 0 with each batch, else at full multiples of that of processing time. Results are a changelog
	// where any of these is set.
	AllowedLatenessMs, EarlyFireMs, LateFireMs int64
	// EarlyFireRows and LateFireRows show a result, beside the above, with every so many rows that its
	// window got since it was shown last; 0: off.
	EarlyFireRows, LateFireRows int64
	// FinalOnly says that a window is shown once, when the watermark has passed its end by the allowed
	// lateness: when nothing can correct it any more. Output is insert-only then.
	FinalOnly bool
	// Late says that somebody wants the rows that come too late: there is a Late node.
	Late bool
}

// Late passes on the rows that the window aggregation it reads found too late for a window, one a
// row and window missed, also where the row was in time for others. They are appended rows, retractions
// too. Output: the columns of the aggregation's input, then LateColumns.
type Late struct{}

// LateColumns are what a late row says of itself, with the keys of metadata of late tables.
var LateColumns = []types.Field{
	{Name: "operator", Type: types.StringType},           // label of the aggregation
	{Name: "window_start", Type: types.TimestampType(3)}, // of the window missed; NULL where not known
	{Name: "window_end", Type: types.TimestampType(3)},   //
	{Name: "watermark", Type: types.TimestampLTZType(3)}, // when the row came: its stamp
	{Name: "lateness", Type: types.BigIntType},           // by how much it missed its window, ms: watermark - (last ms of the window + allowed lateness), 0 or more
	{Name: "row_kind", Type: types.StringType},           // +I, -U, +U or -D
}

// GroupAgg aggregates per key without windows. Output: Keys, then Aggs.
type GroupAgg struct {
	Keys          []int
	Aggs          []AggCall
	InputRetracts bool
	// UpdateBefore says that someone downstream needs -U rows.
	UpdateBefore bool
	Phase        Phase
	// ArgSchema is the same as in WindowAgg.
	ArgSchema types.Schema
	TTLMs     int64 // 0: never expires
}

// Union passes on the rows of all inputs.
type Union struct{}

// JoinKind is the kind of a Join.
type JoinKind uint8

// The join kinds.
const (
	InnerJoin JoinKind = iota
	LeftJoin
	RightJoin
	FullJoin
)

// String gives the SQL name.
func (k JoinKind) String() string {
	return [...]string{"INNER", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER"}[k]
}

// Join is the regular join of two inputs, whose rows are all kept. Output: the columns of the
// left, then those of the right.
type Join struct {
	Kind JoinKind
	// LeftKeys and RightKeys are compared for equality, pair by pair; they have the same types
	// but for nullability. NULL equals nothing, unless NullSafe (nil: nowhere) is set for the
	// pair, where it equals NULL.
	LeftKeys, RightKeys []int
	NullSafe            []bool
	// Filter is the rest of the condition, over the output's columns, or nil.
	Filter expr.Expr
	// LeftTTLMs and RightTTLMs say after how long a row of that side that was not written again is
	// forgotten, in processing time; 0: never.
	LeftTTLMs, RightTTLMs int64
}

// Ties says which of two rows of one version counts.
type Ties uint8

// The rules for rows of one version.
const (
	TiesConflict Ties = iota // neither is known to be right: the second is refused
	TiesFirst                // the one that came first; the second is a duplicate
	TiesLast                 // the one that came last
)

// Normalize turns an upsert stream by Keys into a full changelog (Flink's ChangelogNormalize).
type Normalize struct {
	Keys         []int
	UpdateBefore bool
	TTLMs        int64
	// Versioned says that the newest version of an entity wins, by the column Version, and not the row that
	// came last. Lower ones are dropped as stale, the same again as duplicates; an equal version with other
	// content is a conflict: it is refused like a row that cannot be used (dead letter).
	Versioned bool
	Version   int
	// Ties says what becomes of another row of the version that is there, where it has other content.
	Ties Ties
	// HorizonMs is how long an entity is remembered after its last version, 0: for ever. It counts in
	// event time, by the column RowTime of the input, where that is not -1, else in processing time. A row of
	// an unknown entity whose event time is further behind the watermark than that is not guessed
	// about: its entity may have been forgotten, so it is dropped as expired (dead letter where there is one).
	HorizonMs int64
	RowTime   int
}

// ResultMetadata is what a revision of a result says of itself.
type ResultMetadata uint8

// The metadata of results. Types: ResultColumns.
const (
	ResultRevision   ResultMetadata = iota // from 1, without gaps a key and generation
	ResultGeneration                       // Revise.Generation
	ResultWatermark                        // of the operator when the revision was made; NULL before the first
	ResultIsFinal                          // nothing can correct it any more, but a deletion by a longer session or retracted history
	ResultIsDeleted                        // the row is no more; all but the key is NULL
	ResultEmitReason                       // ReasonEarly ...
	ResultInputCount                       // rows in the window, NULL where not known
	ResultCause                            // as WindowCause, NULL where not known
)

// ResultColumns are the metadata of results, by ResultMetadata.
var ResultColumns = []types.Field{
	{Name: "revision", Type: types.BigIntType.NotNull()},
	{Name: "generation", Type: types.StringType.NotNull()},
	{Name: "watermark", Type: types.TimestampLTZType(3)},
	{Name: "is_final", Type: types.BooleanType.NotNull()},
	{Name: "is_deleted", Type: types.BooleanType.NotNull()},
	{Name: "emit_reason", Type: types.StringType.NotNull()},
	{Name: "input_count", Type: types.BigIntType},
	{Name: "cause", Type: types.StringType},
}

// Revise turns the changelog of a result into the history of its revisions, as appended rows. Output:
// the first Columns columns of the input, then Metadata. A row with the values of the revision before is
// no revision. A key that disappears gets one more revision, deleted, whose other columns are NULL;
// when it comes back its count goes on.
type Revise struct {
	// Keys are what revisions are counted for: the sink's primary key, columns of the input.
	Keys []int
	// Columns is the number of columns of the result. Those behind it in the input are for Reason, Count,
	// Cause and End, and not passed on.
	Columns  int
	Metadata []ResultMetadata
	// Reason, Count and Cause are columns of the input with WindowReason, WindowCount and WindowCause, or -1.
	Reason, Count, Cause int
	// Shared says that rows of several keys of the input make one result, so that one on time may be replaced by
	// another.
	Shared bool
	// End is the column with the end of the window (TIMESTAMP(3) or TIMESTAMP_LTZ(3); in Zone), or -1:
	// no windows, nothing is ever final. A row is final when the watermark reaches End - 1 ms + LatenessMs, or
	// where the emission is on time and LatenessMs is 0.
	End        int
	Zone       string
	LatenessMs int64
	Generation string
	// SizeMs is the length of a window, of sessions the gap; 0 without End.
	SizeMs int64
	// TTLMs forgets the count of a key so long after the watermark has reached the end of its window by the lateness,
	// and after it was written last; 0: never, as always without End: the key may come back.
	TTLMs int64
}

// Materialize repairs the order of updates before a sink whose primary key is not the upsert key
// of its input (Flink's SinkUpsertMaterializer).
type Materialize struct {
	Keys  []int // the sink's primary key
	TTLMs int64
}

// DropUpdateBefore removes -U rows.
type DropUpdateBefore struct{}

// SortKey is one key of an ORDER BY.
type SortKey struct {
	Col        int
	Desc       bool
	NullsFirst bool
}

// Sort orders all rows (batch mode) or, with event time as first ascending key, rows up to the
// watermark; with a Limit it keeps the first rows only, in streaming mode as a changelog.
type Sort struct {
	Keys   []SortKey
	Offset int64
	Limit  int64 // -1: none
}

// Limit passes on Limit rows after Offset.
type Limit struct{ Offset, Limit int64 }

// Sink writes rows to a table. The input's columns are the physical columns, then the writable
// metadata columns.
type Sink struct {
	Table *connector.Table
	// Collect is set for a bare SELECT: rows go to the caller instead of a table.
	Collect   bool
	Overwrite bool
	// StaticPartition holds PARTITION (k = v) of the INSERT.
	StaticPartition map[string]string
	// NotNull lists columns that must not be NULL, and DropNulls whether such rows are dropped
	// and counted (table.exec.sink.not-null-enforcer = DROP) rather than refused.
	NotNull   []int
	DropNulls bool
	// Guarantee explains what the whole path gives, for EXPLAIN.
	Guarantee string
}

func (*Source) op()           {}
func (*Values) op()           {}
func (*Calc) op()             {}
func (*Expand) op()           {}
func (*WindowTVF) op()        {}
func (*WindowAgg) op()        {}
func (*GroupAgg) op()         {}
func (*Union) op()            {}
func (*Join) op()             {}
func (*Normalize) op()        {}
func (*Materialize) op()      {}
func (*DropUpdateBefore) op() {}
func (*Late) op()             {}
func (*Revise) op()           {}
func (*Sort) op()             {}
func (*Limit) op()            {}
func (*Sink) op()             {}
