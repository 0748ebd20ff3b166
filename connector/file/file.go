// Package file is the filesystem connector: files, folders and globs as sources, bounded or
// watched, plain or compressed by .gz and .zst; and sinks whose files appear whole or not at all. They
// are on the local disk or objects in a store such as S3.
package file

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/object/s3"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

func init() {
	connector.Register(&connector.Factory{
		Name: "filesystem",
		Doc: "Files of a folder, read once or watched, and written so that each file appears whole: on the local disk, or objects in S3 " +
			"and what speaks its protocol. See docs/object-stores.md.",
		Session: []string{"s3."},
		Options: options,
		Formats: true, Partitioned: true, LagInBytes: true,
		SourceMetadata: []types.Field{
			{Name: "file.path", Type: types.StringType.NotNull()},
			{Name: "file.name", Type: types.StringType.NotNull()},
			{Name: "file.size", Type: types.BigIntType.NotNull()},
			{Name: "file.modification-time", Type: types.TimestampLTZType(3).NotNull()},
		},
		Check:     check,
		Delivery:  func(_ *connector.Table, o option.Values) (connector.Delivery, string) { return delivery(o) },
		NewSource: newSource,
		NewSink:   newSink,
	})
}

var options = append([]option.Spec{
	{Name: "path", Required: true, Doc: "The file or folder, as a path or as s3://bucket/path; a source also takes a pattern with * ? [ ].", Example: "data/orders/"},
	{Name: "source.monitor-interval", Kind: option.Duration, Doc: "How often a source looks for new files; without it, it ends with the files that are there. Files must appear whole (written aside, then renamed) and are read once. An object that is replaced is read again.", Example: "10 s"},
	{Name: onDataLoss, Kind: option.Enum, Values: []string{"fail", "skip"}, Default: "fail", Doc: "What to do where an object was deleted or replaced before it was read to its end: stop, or go on without the rest of it and a warning."},
	{Name: "source.path.regex-pattern", Doc: "Only files whose full path matches are read."},
	{Name: "source.report-statistics", Kind: option.Enum, Values: []string{"NONE", "ALL"}, Default: "ALL", Doc: "Accepted for compatibility; there are no statistics to report."},
	{Name: "partition.default-name", Default: "__DEFAULT_PARTITION__", Doc: "The folder of rows whose partition column is NULL or empty."},
	{Name: "partition.time-extractor.*", Doc: "Accepted for compatibility; partitions are committed with their files."},
	{Name: "sink.rolling-policy.file-size", Kind: option.Size, Default: "128 mb", Doc: "A file is finished when it reaches this size."},
	{Name: "sink.rolling-policy.rollover-interval", Kind: option.Duration, Default: "30 min", Doc: "A file is finished when it has been open this long."},
	{Name: "sink.rolling-policy.inactivity-interval", Kind: option.Duration, Default: "30 min", Doc: "A file is finished when nothing was written to it for this long."},
	{Name: "sink.rolling-policy.check-interval", Kind: option.Duration, Default: "1 min", Doc: "Accepted for compatibility; time limits are checked every second."},
	{Name: "sink.partition-commit.trigger", Kind: option.Enum, Values: []string{"process-time", "partition-time"}, Default: "process-time", Doc: "Accepted for compatibility; files become visible when their epoch is complete."},
	{Name: "sink.partition-commit.delay", Kind: option.Duration, Default: "0 s", Doc: "Accepted for compatibility."},
	{Name: "sink.partition-commit.watermark-time-zone", Default: "UTC", Doc: "Accepted for compatibility."},
	{Name: "sink.partition-commit.policy.kind", Doc: "'success-file' writes an empty file into each folder whose files became visible."},
	{Name: "sink.partition-commit.success-file.name", Default: "_SUCCESS", Doc: "The name of that file."},
	{Name: "sink.shuffle-by-partition.enable", Kind: option.Bool, Default: "false", Doc: "Accepted for compatibility."},
	{Name: "auto-compaction", Kind: option.Bool, Default: "false", Doc: "Merging of small files; only false is supported."},
	{Name: "compaction.*", Doc: "Options of auto-compaction."},
	{Name: "sink.delivery-guarantee", Kind: option.Enum, Values: []string{"exactly-once", "at-least-once", "none"}, Default: "exactly-once", Doc: "What a sink promises after a crash. Exactly once, files appear when the checkpoint that they belong to is complete; at least once, before that; with none, what cannot be written is dropped."},
}, s3.TableOptions()...)

func check(t *connector.Table, o option.Values) error {
	if o.Bool("auto-compaction") {
		return &option.Error{Key: "auto-compaction", Msg: "auto-compaction is not supported yet", Hint: "leave it out"}
	}
	if k := o.Get("sink.partition-commit.policy.kind"); k != "" && k != "success-file" {
		return &option.Error{Key: "sink.partition-commit.policy.kind", Msg: fmt.Sprintf("the policy '%s' is not supported", k), Hint: "use 'success-file'"}
	}
	if p := o.Get("source.path.regex-pattern"); p != "" {
		if _, err := regexp.Compile(p); err != nil {
			return &option.Error{Key: "source.path.regex-pattern", Msg: err.Error()}
		}
	}
	if isObjects(o.Get("path")) {
		if _, err := openBucket(t, o); err != nil {
			return err
		}
	}
	for _, k := range t.PartitionKeys {
		if t.Schema().Index(k) < 0 {
			return &option.Error{Key: "path", Msg: fmt.Sprintf("partition column '%s' is not a column of the table", k)}
		}
	}
	return nil
}

// localPath strips the scheme of a local URL.
func localPath(p string) string {
	if s, ok := strings.CutPrefix(p, "file://"); ok {
		return s
	}
	return strings.TrimPrefix(p, "file:")
}

// formatOf returns the table's format and its options.
func formatOf(t *connector.Table, o option.Values) (*format.Factory, option.Values, error) {
	f := format.Lookup(o.Get("format"))
	if f == nil {
		return nil, option.Values{}, fmt.Errorf("format '%s' is not known; known are %s", o.Get("format"), strings.Join(format.Names(), ", "))
	}
	return f, o.Scoped(f.Name+".", f.Options), nil
}
