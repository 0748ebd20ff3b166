// Package file is the filesystem connector: files, folders and globs as sources, bounded or
// watched, plain or compressed by .gz and .zst; and sinks whose files appear whole or not at all.
package file

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

func init() {
	connector.Register(&connector.Factory{
		Name:    "filesystem",
		Doc:     "Files of a folder, read once or watched, and written so that each file appears whole.",
		Options: options,
		Formats: true, Partitioned: true, LagInBytes: true,
		SourceMetadata: []types.Field{
			{Name: "file.path", Type: types.StringType.NotNull()},
			{Name: "file.name", Type: types.StringType.NotNull()},
			{Name: "file.size", Type: types.BigIntType.NotNull()},
			{Name: "file.modification-time", Type: types.TimestampLTZType(3).NotNull()},
		},
		Check:     check,
		Delivery:  func(*connector.Table, option.Values) (connector.Delivery, string) { return (&sink{}).Delivery() },
		NewSource: newSource,
		NewSink:   newSink,
	})
}

var options = []option.Spec{
	{Name: "path", Required: true, Doc: "The file or folder; a source also takes a pattern with * ? [ ].", Example: "data/orders/"},
	{Name: "source.monitor-interval", Kind: option.Duration, Doc: "How often a source looks for new files; without it, it ends with the files that are there. Files must appear whole (written aside, then renamed) and are read once.", Example: "10 s"},
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
}

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
	if strings.Contains(o.Get("path"), "://") && !strings.HasPrefix(o.Get("path"), "file:") {
		return &option.Error{Key: "path", Msg: "only local paths are supported yet: " + o.Get("path")}
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
