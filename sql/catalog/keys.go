package catalog

import (
	"slices"

	"github.com/tidemark-stream/tidemark/option"
)

// The keys that are read in more than one place.
const (
	KeyRuntimeMode    = "execution.runtime-mode"
	KeyParallelism    = "parallelism.default"
	KeyMaxParallelism = "pipeline.max-parallelism"
	KeyPipelineName   = "pipeline.name"
	KeyZone           = "table.local-time-zone"
	KeyIdleTimeout    = "table.exec.source.idle-timeout"
	KeyStateTTL       = "table.exec.state.ttl"
	KeyTTLClock       = "tidemark.state.ttl-clock"
	KeyLegacyCast     = "table.exec.legacy-cast-behaviour"
	KeyNotNull        = "table.exec.sink.not-null-enforcer"
	KeyMiniBatch      = "table.exec.mini-batch.enabled"
	KeyResultMode     = "sql-client.execution.result-mode"
	KeyGeneration     = "tidemark.generation"
	KeyBackfillFrom   = "tidemark.backfill.from"
	KeyBackfillTo     = "tidemark.backfill.to"

	KeyBackfillComplete = "tidemark.backfill.complete"
	KeyBackfillWindows  = "tidemark.backfill.windows."
)

// Keys lists the keys of SET that have a meaning here, with type, default and documentation.
// Other keys are kept and ignored, unless they start with "tidemark.".
func Keys() []option.Spec { return keys }

// Declare adds keys that a layer above understands, or replaces their declarations. To be called
// from init.
func Declare(specs []option.Spec) {
	for _, n := range specs {
		if i := slices.IndexFunc(keys, func(k option.Spec) bool { return k.Name == n.Name }); i >= 0 {
			keys[i] = n
		} else {
			keys = append(keys, n)
		}
	}
}

// keySpec returns the declaration of key.
func keySpec(key string) (option.Spec, bool) {
	for _, k := range keys {
		if k.Matches(key) {
			return k, true
		}
	}
	return option.Spec{}, false
}

var (
	onOff   = []string{"ENABLED", "DISABLED"}
	enforce = []string{"IGNORE", "TRIM_PAD", "ERROR"}
)

var keys = []option.Spec{
	{Name: KeyRuntimeMode, Kind: option.Enum, Default: "streaming",
		Values: []string{"streaming", "batch", "automatic"},
		Doc:    "streaming emits results as they come and corrects them; batch emits the final rows only"},
	{Name: KeyParallelism, Kind: option.Int, Default: "1",
		Doc: "number of subtasks of each operator"},
	{Name: "table.exec.resource.default-parallelism", Kind: option.Int, Default: "-1",
		Doc: "overrides parallelism.default where it is above 0"},
	{Name: KeyMaxParallelism, Kind: option.Int, Default: "128",
		Doc: "number of key groups, the largest parallelism that the job can ever have; fixed for a lineage"},
	{Name: KeyPipelineName, Kind: option.String, Doc: "name of the jobs started from here on"},
	{Name: "pipeline.auto-watermark-interval", Kind: option.Duration, Default: "200 ms",
		Doc: "how often watermarks are emitted where the strategy is on-periodic; 0 means after every row"},
	{Name: "pipeline.object-reuse", Kind: option.Bool, Default: "false", Doc: "accepted; batches are always reused"},
	{Name: "pipeline.operator-chaining.enabled", Kind: option.Bool, Default: "true", Doc: "accepted; chains break at exchanges only"},

	{Name: KeyZone, Kind: option.String, Default: "default",
		Doc: "session time zone: a name of the zone database or an offset such as GMT+02:00"},
	{Name: "table.dml-sync", Kind: option.Bool, Default: "false", Doc: "whether INSERT waits for the job's end before the next statement"},
	{Name: "table.sql-dialect", Kind: option.Enum, Default: "default", Values: []string{"default"}, Doc: "the SQL dialect"},
	{Name: "table.dynamic-table-options.enabled", Kind: option.Bool, Default: "true", Doc: "whether the hint OPTIONS is allowed"},
	{Name: "table.column-expansion-strategy", Kind: option.List,
		Doc: "metadata columns that * leaves out: EXCLUDE_ALIASED_VIRTUAL_METADATA_COLUMNS, EXCLUDE_DEFAULT_VIRTUAL_METADATA_COLUMNS"},
	{Name: "table.display.max-column-width", Kind: option.Int, Default: "30", Doc: "width at which a column is cut when rows are shown"},
	{Name: "table.legacy-nested-row-nullability", Kind: option.Bool, Default: "false", Doc: "accepted"},

	{Name: KeyIdleTimeout, Kind: option.Duration, Default: "30 s",
		Doc: "a split that was read to its end for this long no longer holds the watermark back; 0 means never"},
	{Name: "table.exec.source.cdc-events-duplicate", Kind: option.Bool, Default: "false",
		Doc: "whether change events may come more than once, so that they are normalised by the primary key"},
	{Name: KeyStateTTL, Kind: option.Duration, Default: "0 s",
		Doc: "how long state that was not touched is kept, outside windows; 0 means for ever"},
	{Name: KeyMiniBatch, Kind: option.Bool, Default: "false", Doc: "whether updates are bundled before they are emitted"},
	{Name: "table.exec.mini-batch.allow-latency", Kind: option.Duration, Default: "0 s", Doc: "how long updates may be bundled"},
	{Name: "table.exec.mini-batch.size", Kind: option.Int, Default: "-1", Doc: "the number of rows after which a bundle is emitted"},
	{Name: KeyNotNull, Kind: option.Enum, Default: "ERROR", Values: []string{"ERROR", "DROP"},
		Doc: "what happens to a row with NULL in a NOT NULL column of a sink"},
	{Name: "table.exec.sink.type-length-enforcer", Kind: option.Enum, Default: "IGNORE", Values: enforce,
		Doc: "what happens to values longer than CHAR(n), VARCHAR(n), BINARY(n) or VARBINARY(n) of a sink"},
	{Name: "table.exec.sink.upsert-materialize", Kind: option.Enum, Default: "AUTO", Values: []string{"NONE", "AUTO", "FORCE"},
		Doc: "whether updates are put in order by a map before a sink with another key"},
	{Name: "table.exec.sink.keyed-shuffle", Kind: option.Enum, Default: "AUTO", Values: []string{"NONE", "AUTO", "FORCE"},
		Doc: "whether rows are distributed by the sink's primary key"},
	{Name: "table.exec.sink.rowtime-inserter", Kind: option.Enum, Default: "ENABLED", Values: onOff, Doc: "accepted"},
	{Name: KeyLegacyCast, Kind: option.Enum, Default: "DISABLED", Values: onOff,
		Doc: "ENABLED: a CAST that fails gives NULL instead of an error"},
	{Name: "table.exec.window-agg.buffer-size-limit", Kind: option.Int, Default: "100000", Doc: "accepted"},
	{Name: "table.exec.rank.topn-cache-size", Kind: option.Int, Default: "10000", Doc: "accepted"},

	{Name: "table.exec.emit.early-fire.enabled", Kind: option.Bool, Default: "false", Doc: "whether windows show results before they end"},
	{Name: "table.exec.emit.early-fire.delay", Kind: option.Duration, Default: "0 s", Doc: "interval of early results; 0 means at every row"},
	{Name: "table.exec.emit.late-fire.enabled", Kind: option.Bool, Default: "false", Doc: "whether late rows correct a window's result"},
	{Name: "table.exec.emit.late-fire.delay", Kind: option.Duration, Default: "0 s", Doc: "interval of late corrections; 0 means at every row"},
	{Name: "table.exec.emit.allow-lateness", Kind: option.Duration, Default: "0 s", Doc: "how long a window is open for late rows"},

	{Name: "table.optimizer.agg-phase-strategy", Kind: option.Enum, Default: "AUTO",
		Values: []string{"AUTO", "ONE_PHASE", "TWO_PHASE"}, Doc: "whether aggregates are computed before the exchange too"},
	{Name: "table.optimizer.distinct-agg.split.enabled", Kind: option.Bool, Default: "false", Doc: "accepted"},
	{Name: "table.optimizer.distinct-agg.split.bucket-num", Kind: option.Int, Default: "1024", Doc: "accepted"},
	{Name: "table.optimizer.reuse-sub-plan-enabled", Kind: option.Bool, Default: "true", Doc: "whether equal parts of a plan run once"},
	{Name: "table.optimizer.reuse-source-enabled", Kind: option.Bool, Default: "true", Doc: "whether statements of a set share one scan of a table"},
	{Name: "table.optimizer.source.predicate-pushdown-enabled", Kind: option.Bool, Default: "true", Doc: "whether readers get the filter"},
	{Name: "table.optimizer.non-deterministic-update.strategy", Kind: option.Enum, Default: "IGNORE",
		Values: []string{"IGNORE", "TRY_RESOLVE"}, Doc: "accepted"},

	{Name: KeyResultMode, Kind: option.Enum, Default: "TABLE", Values: []string{"TABLE", "CHANGELOG", "TABLEAU"},
		Doc: "how the rows of a bare SELECT are shown"},
	{Name: "sql-client.execution.max-table-result.rows", Kind: option.Int, Default: "1000000", Doc: "rows kept of a result that is shown as a table"},
	{Name: "sql-client.verbose", Kind: option.Bool, Default: "false", Doc: "accepted"},
	{Name: "execution.checkpointing.interval", Kind: option.Duration, Default: "0 s", Doc: "time between checkpoints; 0 means none"},

	{Name: "tidemark.table.*", Doc: "NAME.OPTION: an option of the table NAME, as if it stood in its WITH clause"},
	{Name: "tidemark.emit.#.allowed-lateness", Kind: option.Duration, Doc: "how long windows of the query into # are open for late rows"},
	{Name: "tidemark.emit.#.early-fire", Kind: option.Duration, Doc: "interval of results before a window's end"},
	{Name: "tidemark.emit.#.early-fire-rows", Kind: option.Int, Doc: "number of rows of a window after which its result is shown before its end"},
	{Name: "tidemark.emit.#.late-fire", Kind: option.Duration, Doc: "interval of corrections after a window's end"},
	{Name: "tidemark.emit.#.late-fire-rows", Kind: option.Int, Doc: "number of late rows of a window after which its result is corrected"},
	{Name: "tidemark.emit.#.late-sink", Doc: "table that gets the rows too late for #"},
	{Name: "tidemark.emit.#.final-only", Kind: option.Bool, Doc: "whether a window is emitted once, when it is final"},
	{Name: "tidemark.emit.#.unmatched-after", Kind: option.Duration, Doc: "how long a row of a join waits for its partner"},
	{Name: "tidemark.emit.#.unmatched-sink", Doc: "table that gets rows without a partner"},
	{Name: "tidemark.completeness.#.expected", Doc: "table of the producers that must have reported for a window of #"},
	{Name: KeyTTLClock, Kind: option.Enum, Values: []string{"event-time", "processing-time"},
		Doc: "the time in which table.exec.state.ttl must count; nothing: each operator goes by its own, see EXPLAIN"},
	{Name: "tidemark.state.memory", Kind: option.Size, Default: "1 gb", Doc: "memory for state before it goes to disk"},
	{Name: "tidemark.epoch.interval", Kind: option.Duration, Default: "10 s",
		Doc: "how often a job that takes no checkpoints makes its output visible and commits the positions of its sources"},
	{Name: KeyGeneration, Default: "live", Doc: "generation that results of this run belong to"},
	{Name: "tidemark.generation.go-on", Kind: option.Bool, Default: "false",
		Doc: "whether a start that is not from the newest checkpoint writes into the generation that is there"},
	{Name: KeyBackfillFrom, Doc: "start of the first window whose results are written, as TIMESTAMP text; nothing: all"},
	{Name: KeyBackfillTo, Doc: "start of the first window whose results are no more written, as TIMESTAMP text"},
	{Name: KeyBackfillWindows + "*", Doc: "NAME: the windows of the table NAME that are written, as FROM/TO, FROM/TO of their starts in ms; nothing: all"},
	{Name: KeyBackfillComplete, Kind: option.Bool, Default: "false",
		Doc: "whether tables of results get each window once, when the input has ended, whatever comes late"},
	{Name: "tidemark.override.*", Doc: "NAME.OPTION: an option of the table NAME, stronger than its definition and hints"},
	{Name: "tidemark.batch.rows", Kind: option.Int, Default: "4096", Doc: "most rows in a batch"},
	{Name: "tidemark.seed", Kind: option.Int, Default: "0", Doc: "makes generated data and random functions repeatable; 0 means random"},
}
