package connector

import "github.com/tidemark-stream/tidemark/option"

// CommonOptions are understood by the runtime, whatever the connector of a table.
var CommonOptions = []option.Spec{
	{Name: "connector", Required: true, Doc: "Which system the table lives in.", Example: "kafka"},
	{Name: "format", Doc: "How bytes become rows.", Example: "json"},
	{Name: "scan.parallelism", Kind: option.Int, Doc: "The number of subtasks that read the table."},
	{Name: "sink.parallelism", Kind: option.Int, Doc: "The number of subtasks that write the table."},
	{Name: "scan.watermark.emit.strategy", Kind: option.Enum, Values: []string{"on-event", "on-periodic"}, Default: "on-event", Doc: "When the watermark moves: with every row, or at intervals of the wall clock."},
	{Name: "scan.watermark.emit.on-event.gap", Kind: option.Int, Default: "1", Doc: "With on-event, how many rows lie between two moves of the watermark."},
	{Name: "scan.watermark.idle-timeout", Kind: option.Duration, Doc: "After how long without data a split no longer holds the watermark back; 0 s is never."},
	{Name: "scan.watermark.alignment.group", Doc: "Tables of one group wait for each other's event time."},
	{Name: "scan.watermark.alignment.max-drift", Kind: option.Duration, Default: "1 min", Doc: "How far a split may be ahead of the group's watermark before it is paused."},
	{Name: "scan.watermark.alignment.update-interval", Kind: option.Duration, Default: "1 s", Doc: "Accepted for compatibility; alignment is looked at before every batch."},
	{Name: "scan.watermark.max-future", Kind: option.Duration, Doc: "An event time further ahead than this of the record's own time goes to the dead-letter output and does not move the watermark.", Example: "1 h"},
	{Name: "dead-letter.path", Doc: "The folder that takes records and rows which cannot be used, as JSON lines.", Example: "dead/"},
	{Name: "dead-letter.table", Doc: "The table that takes records and rows which cannot be used."},
}
