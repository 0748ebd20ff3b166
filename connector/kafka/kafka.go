// Package kafka holds the kafka and upsert-kafka connectors, over the Kafka protocol.
//
// A split is a partition of a topic; positions are offsets. Each subtask has one client, whose
// goroutine fills a queue per partition; a partition whose queue is full is paused, so a slow job
// holds a bounded amount. Start and stop offsets are decided once, when a partition is found.
package kafka

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// headersType is the type of a record's headers.
var headersType = types.MapType(types.StringType.NotNull(), types.BytesType.NotNull())

// readMetadata and writeMetadata are what a record carries beside key and value.
var (
	readMetadata = []types.Field{
		{Name: "topic", Type: types.StringType.NotNull()},
		{Name: "partition", Type: types.IntType.NotNull()},
		{Name: "headers", Type: headersType.NotNull()},
		{Name: "leader-epoch", Type: types.IntType},
		{Name: "offset", Type: types.BigIntType.NotNull()},
		{Name: "timestamp", Type: types.TimestampLTZType(3).NotNull()},
		{Name: "timestamp-type", Type: types.StringType.NotNull()},
	}
	writeMetadata = []types.Field{
		{Name: "headers", Type: headersType},
		{Name: "timestamp", Type: types.TimestampLTZType(3)},
	}
)

func init() {
	connector.Register(&connector.Factory{
		Name: "kafka", Doc: "Topics of Apache Kafka, read and written as streams of rows.",
		Options: slices.Concat(commonOptions, sourceOptions, keyOptions, sinkOptions),
		Formats: true, Keyed: true, SourceMetadata: readMetadata, SinkMetadata: writeMetadata,
		Check: check, Delivery: delivery(false), NewSource: newSource, NewSink: newSink,
	})
	upsert := func(*connector.Table, option.Values) types.ChangelogMode { return types.Upsert }
	connector.Register(&connector.Factory{
		Name: "upsert-kafka", Doc: "A compacted topic as a table: the newest record of a key is its row, a record without value deletes it.",
		Options: slices.Concat(commonOptions, boundedOptions, keyOptions, upsertOptions, sinkOptions),
		Formats: true, Keyed: true, NullDeletes: true, SourceMetadata: readMetadata, SinkMetadata: writeMetadata,
		SourceChangelog: upsert, SinkChangelog: upsert,
		Check: checkUpsert, Delivery: delivery(true), NewSource: newSource, NewSink: newSink,
	})
}

func delivery(upsert bool) func(*connector.Table, option.Values) (connector.Delivery, string) {
	return func(t *connector.Table, o option.Values) (connector.Delivery, string) {
		return (&sink{cfg: connector.SinkConfig{Table: t, Options: o}, upsert: upsert}).Delivery()
	}
}

var commonOptions = []option.Spec{
	{Name: "topic", Doc: "The topic; a source also takes several, separated by semicolons.", Example: "orders"},
	{Name: "topic-pattern", Doc: "A regular expression: a source reads all topics whose whole name matches, also those created later.", Example: "orders\\..*"},
	{Name: "properties.bootstrap.servers", Required: true, Doc: "The brokers to ask first, host:port separated by commas.", Example: "kafka:9092"},
	{Name: "properties.*", Doc: "Any property of a Kafka client; those without meaning here are ignored, as Kafka's client does."},
	{Name: "scan.topic-partition-discovery.interval", Kind: option.Duration, Default: "5 min", Doc: "How often a source looks for new partitions; 0 is never."},
}

var boundedOptions = []option.Spec{
	{Name: "scan.bounded.mode", Kind: option.Enum, Values: []string{"unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"}, Default: "unbounded", Doc: "Where a source ends by itself."},
	{Name: "scan.bounded.specific-offsets", Doc: "The offset at which each partition ends: partition:0,offset:42;partition:1,offset:300"},
	{Name: "scan.bounded.timestamp-millis", Kind: option.Int, Doc: "The time at which partitions end, ms since 1970."},
	{Name: onDataLoss, Kind: option.Enum, Values: []string{"fail", "earliest", "latest"}, Default: "fail", Doc: "What to do where the next record to read is gone, because retention deleted it or the topic was made anew: stop, or go on with the first record that is left, or with what comes from then on. Going on gives a warning that says how many records were lost."},
}

var sourceOptions = slices.Concat(boundedOptions, []option.Spec{
	{Name: "scan.startup.mode", Kind: option.Enum, Values: []string{"earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"}, Default: "group-offsets", Doc: "Where a source begins."},
	{Name: "scan.startup.specific-offsets", Doc: "The offset at which each partition begins: partition:0,offset:42;partition:1,offset:300"},
	{Name: "scan.startup.timestamp-millis", Kind: option.Int, Doc: "The time at which partitions begin, ms since 1970."},
})

var keyOptions = []option.Spec{
	{Name: "key.format", Doc: "The format of record keys."},
	{Name: "key.fields-prefix", Doc: "A prefix that the names of key columns have in the table but not in the key."},
	{Name: "value.format", Doc: "The format of record values; the same as format."},
	{Name: "value.fields-include", Kind: option.Enum, Values: []string{"ALL", "EXCEPT_KEY"}, Default: "ALL", Doc: "Whether values hold the key's columns too."},
	{Name: "key.fields", Doc: "The columns that make the record key, separated by semicolons."},
}

var upsertOptions = []option.Spec{
	{Name: "sink.buffer-flush.max-rows", Kind: option.Int, Default: "0", Doc: "Accepted for compatibility: changes of one batch are sent as they come."},
	{Name: "sink.buffer-flush.interval", Kind: option.Duration, Default: "0 s", Doc: "Accepted for compatibility."},
}

var sinkOptions = []option.Spec{
	{Name: "sink.partitioner", Default: "default", Doc: "How rows are spread over partitions: default (by key, else in runs), fixed (one partition a subtask), round-robin."},
	{Name: "sink.delivery-guarantee", Kind: option.Enum, Values: []string{"at-least-once", "exactly-once", "none"}, Default: "at-least-once", Doc: "What a sink promises after a crash."},
	{Name: "sink.transactional-id-prefix", Doc: "The prefix of transactional ids, for exactly-once."},
	{Name: "sink.on-unknown-commit", Kind: option.Enum, Values: []string{"fail", "commit", "skip"}, Default: "fail", Doc: "What exactly-once does with a checkpoint's output after the broker " +
		"has dropped what it knew of earlier commits: end the job, write it (it is not in the topic), or leave it out (it is)."},
	{Name: "sink.transaction-naming-strategy", Kind: option.Enum, Values: []string{"incrementing", "pooling"}, Default: "incrementing", Doc: "Accepted for compatibility."},
}

func check(t *connector.Table, o option.Values) error {
	if err := checkTopics(o); err != nil {
		return err
	}
	name := o.Get("format")
	if v := o.Get("value.format"); v != "" {
		if name != "" {
			return &option.Error{Key: "value.format", Msg: "'format' and 'value.format' are the same option", Hint: "give one of them"}
		}
		name = v
	}
	if name == "" {
		return &option.Error{Key: "format", Msg: "option 'format' is missing", Hint: "write for example 'format' = 'json'"}
	}
	if f := format.Lookup(name); f != nil && f.Changelog.IsInsertOnly() && len(t.PrimaryKey) > 0 && t.Results == nil {
		return &option.Error{Key: "connector", Msg: fmt.Sprintf("a kafka table with format '%s' holds only inserts, so it cannot keep a PRIMARY KEY", name),
			Hint: "leave the key out, or use 'connector' = 'upsert-kafka'"}
	}
	if (o.Get("key.format") != "") != (o.Get("key.fields") != "") {
		return &option.Error{Key: "key.format", Msg: "'key.format' and 'key.fields' are only useful together", Hint: "give both or none"}
	}
	if o.Enum("value.fields-include") == "EXCEPT_KEY" && o.Get("key.format") == "" {
		return &option.Error{Key: "value.fields-include", Msg: "EXCEPT_KEY needs 'key.format' and 'key.fields'"}
	}
	if err := checkKeys(t, o, o.List("key.fields")); err != nil {
		return err
	}
	return checkModes(o)
}

func checkUpsert(t *connector.Table, o option.Values) error {
	if err := checkTopics(o); err != nil {
		return err
	}
	if o.Has("topic-pattern") || len(o.List("topic")) != 1 {
		return &option.Error{Key: "topic", Msg: "an upsert-kafka table is one topic"}
	}
	if len(t.PrimaryKey) == 0 {
		return &option.Error{Key: "connector", Msg: "an upsert-kafka table needs a PRIMARY KEY", Hint: "add PRIMARY KEY (...) NOT ENFORCED; its columns make the record key"}
	}
	for _, k := range []string{"key.format", "value.format"} {
		f := format.Lookup(o.Get(k))
		if o.Get(k) == "" {
			return &option.Error{Key: k, Msg: fmt.Sprintf("option '%s' is missing", k), Hint: fmt.Sprintf("write for example '%s' = 'json'", k)}
		}
		if f != nil && !f.Changelog.IsInsertOnly() {
			return &option.Error{Key: k, Msg: fmt.Sprintf("'%s' cannot be '%s': changes are made of keys and missing values here", k, o.Get(k)), Hint: "use an insert-only format such as json"}
		}
	}
	if o.Has("key.fields") {
		return &option.Error{Key: "key.fields", Msg: "the key of an upsert-kafka table is its PRIMARY KEY", Hint: "leave 'key.fields' out"}
	}
	if p := o.Get("sink.partitioner"); p != "default" {
		return &option.Error{Key: "sink.partitioner", Msg: "the changes of a key must stay in one partition", Hint: "leave 'sink.partitioner' out"}
	}
	if err := checkKeys(t, o, t.PrimaryKey); err != nil {
		return err
	}
	return checkModes(o)
}

func checkTopics(o option.Values) error {
	if o.Has("topic") == o.Has("topic-pattern") {
		return &option.Error{Key: "topic", Msg: "give either 'topic' or 'topic-pattern'"}
	}
	if p := o.Get("topic-pattern"); p != "" {
		if _, err := regexp.Compile("^(?:" + p + ")$"); err != nil {
			return &option.Error{Key: "topic-pattern", Msg: err.Error()}
		}
	}
	return nil
}

func checkKeys(t *connector.Table, o option.Values, fields []string) error {
	for _, k := range fields {
		if t.Schema().Index(k) < 0 {
			return &option.Error{Key: "key.fields", Msg: fmt.Sprintf("'%s' is not a physical column of the table", k)}
		}
		if p := o.Get("key.fields-prefix"); !strings.HasPrefix(k, p) {
			return &option.Error{Key: "key.fields-prefix", Msg: fmt.Sprintf("the key column '%s' does not start with '%s'", k, p)}
		}
	}
	if o.Get("key.fields-prefix") != "" && o.Enum("value.fields-include") != "EXCEPT_KEY" {
		return &option.Error{Key: "key.fields-prefix", Msg: "a prefix of key columns needs 'value.fields-include' = 'EXCEPT_KEY'"}
	}
	return nil
}

func checkModes(o option.Values) error {
	for _, end := range []string{"startup", "bounded"} {
		mode := o.Enum("scan." + end + ".mode")
		for m, needs := range map[string]string{"timestamp": ".timestamp-millis", "specific-offsets": ".specific-offsets"} {
			if key := "scan." + end + needs; mode == m && !o.Has(key) {
				return &option.Error{Key: "scan." + end + ".mode", Msg: fmt.Sprintf("mode '%s' needs '%s'", m, key)}
			}
		}
		if mode == "specific-offsets" && len(o.List("topic")) != 1 {
			return &option.Error{Key: "scan." + end + ".mode", Msg: "offsets can be given for one topic only, not for a list or a pattern"}
		}
		if s := o.Get("scan." + end + ".specific-offsets"); s != "" {
			if _, err := parseOffsets(s); err != nil {
				return &option.Error{Key: "scan." + end + ".specific-offsets", Msg: err.Error(), Hint: "write partition:0,offset:42;partition:1,offset:300"}
			}
		}
		if mode == "group-offsets" && (end == "bounded" || o.Has("scan.startup.mode")) && !o.Has("properties.group.id") {
			return &option.Error{Key: "scan." + end + ".mode", Msg: "mode 'group-offsets' needs 'properties.group.id'"}
		}
	}
	switch p := o.Get("sink.partitioner"); p {
	case "default", "fixed":
	case "round-robin":
		if o.Has("key.fields") {
			return &option.Error{Key: "sink.partitioner", Msg: "round-robin would spread the records of a key over partitions",
				Hint: "leave out 'key.fields', or use the default partitioner"}
		}
	default:
		return &option.Error{Key: "sink.partitioner", Msg: fmt.Sprintf("'%s' is not a partitioner; classes of Java cannot be loaded", p), Hint: "use default, fixed or round-robin"}
	}
	return checkClient(o)
}

// checkClient finds properties that the client would refuse.
func checkClient(o option.Values) error {
	opts, err := producerOptions(o)
	if err != nil {
		return err
	}
	if err := kgo.ValidateOpts(opts...); err != nil {
		return &option.Error{Key: "properties.*", Msg: "the properties of the Kafka client do not fit together: " + err.Error()}
	}
	return nil
}

// parseOffsets reads partition:0,offset:42;partition:1,offset:300.
func parseOffsets(s string) (map[int32]int64, error) {
	out := map[int32]int64{}
	for _, part := range strings.Split(s, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, o, ok := strings.Cut(part, ",")
		pn, ok1 := strings.CutPrefix(strings.TrimSpace(p), "partition:")
		on, ok2 := strings.CutPrefix(strings.TrimSpace(o), "offset:")
		pi, err1 := strconv.ParseInt(strings.TrimSpace(pn), 10, 32)
		oi, err2 := strconv.ParseInt(strings.TrimSpace(on), 10, 64)
		if !ok || !ok1 || !ok2 || err1 != nil || err2 != nil || pi < 0 || oi < 0 {
			return nil, fmt.Errorf("'%s' is not partition:N,offset:N", part)
		}
		out[int32(pi)] = oi
	}
	return out, nil
}
