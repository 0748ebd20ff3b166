package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// commit sets offsets of a group.
func (r *rig) commit(group, topic string, at ...int64) {
	r.t.Helper()
	o := kadm.Offsets{}
	for p, x := range at {
		if x >= 0 {
			o.AddOffset(topic, int32(p), x, -1)
		}
	}
	if err := r.admin.CommitAllOffsets(context.Background(), group, o); err != nil {
		r.t.Fatal(err)
	}
}

// committed returns the offsets of a group.
func (r *rig) committed(group, topic string) map[int32]int64 {
	r.t.Helper()
	got, err := r.admin.FetchOffsets(context.Background(), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		r.t.Fatal(err)
	}
	out := map[int32]int64{}
	got.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			out[o.Partition] = o.At
		}
	})
	return out
}

// TestSource_StartAndStop reads a topic whose partition 0 holds 0, 2 ... 18 and partition 1 holds
// 1, 3 ... 19, record n at 1000 + n ms, in all modes.
func TestSource_StartAndStop(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	var recs []*kgo.Record
	for i := range 20 {
		x := rec(int32(i%2), "-", fmt.Sprintf(`{"n":%d}`, i))
		x.Timestamp = time.UnixMilli(int64(1000 + i))
		recs = append(recs, x)
	}
	r.produce("t", recs...)
	for _, c := range []struct {
		name    string
		options []string
		want    []string
	}{
		{"earliest", all, numbers(0, 19)},
		{"group", with("scan.startup.mode", "group-offsets", "properties.group.id", "g"),
			strings.Fields("6 8 10 12 13 14 15 16 17 18 19")},
		{"default is group", with("scan.startup.mode", "", "properties.group.id", "g"),
			strings.Fields("6 8 10 12 13 14 15 16 17 18 19")},
		{"group without some offsets, earliest", with("scan.startup.mode", "group-offsets", "properties.group.id", "half",
			"properties.auto.offset.reset", "earliest"), strings.Fields("1 3 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")},
		{"group without some offsets, latest", with("scan.startup.mode", "group-offsets", "properties.group.id", "half",
			"properties.auto.offset.reset", "latest"), strings.Fields("6 8 10 12 14 16 18")},
		{"timestamp", with("scan.startup.mode", "timestamp", "scan.startup.timestamp-millis", "1015"), numbers(15, 19)},
		{"timestamp in the future", with("scan.startup.mode", "timestamp", "scan.startup.timestamp-millis", "99000"), nil},
		{"specific", with("scan.startup.mode", "specific-offsets", "scan.startup.specific-offsets", "partition:0,offset:9;partition:1,offset:8"),
			numbers(17, 19)},
		{"specific for one", with("scan.startup.mode", "specific-offsets", "scan.startup.specific-offsets", "partition:0,offset:9"),
			strings.Fields("1 3 5 7 9 11 13 15 17 18 19")},
		{"specific for one, the other as committed", with("scan.startup.mode", "specific-offsets",
			"scan.startup.specific-offsets", "partition:0,offset:9", "properties.group.id", "g"), strings.Fields("13 15 17 18 19")},
		{"latest", with("scan.startup.mode", "latest-offset"), nil},
		{"until a timestamp", with("scan.bounded.mode", "timestamp", "scan.bounded.timestamp-millis", "1005"), numbers(0, 4)},
		{"until what a group has", with("scan.bounded.mode", "group-offsets", "properties.group.id", "g"),
			strings.Fields("0 1 2 3 4 5 7 9 11")},
		{"until offsets", with("scan.bounded.mode", "specific-offsets", "scan.bounded.specific-offsets", "partition:0,offset:2;partition:1,offset:1"),
			numbers(0, 2)},
		{"until an offset of one only", with("scan.bounded.mode", "specific-offsets", "scan.bounded.specific-offsets", "partition:0,offset:2"),
			strings.Fields("0 2")},
		{"stop before the start", with("scan.startup.mode", "latest-offset", "scan.bounded.mode", "timestamp", "scan.bounded.timestamp-millis", "1005"), nil},
	} {
		for _, par := range []string{"1", "3"} {
			r.commit("g", "t", 3, 6)
			r.admin.DeleteGroup(context.Background(), "half")
			r.commit("half", "t", 3)
			got := r.rows(table("t", "n INT", c.options...)+"SELECT n FROM t;", "parallelism.default", par)
			if !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
				t.Errorf("%s, parallelism %s: got %v, want %v", c.name, par, got, c.want)
			}
		}
	}
	r.fails(table("t", "n INT", with("scan.startup.mode", "")...)+"SELECT n FROM t;", "properties.group.id", "earliest-offset")
	r.fails(table("t", "n INT", with("scan.startup.mode", "", "properties.group.id", "new")...)+"SELECT n FROM t;",
		"group 'new' has committed no offset for t-0", "auto.offset.reset")
	r.admin.DeleteGroup(context.Background(), "half")
	r.commit("half", "t", 3)
	r.fails(table("t", "n INT", with("scan.bounded.mode", "group-offsets", "properties.group.id", "half")...)+"SELECT n FROM t;",
		"group 'half' has committed no offset for t-1", "latest-offset")
}

// TestSource_GroupOffsets reads on where the run before ended.
func TestSource_GroupOffsets(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	r.count("t", 2, 0, 10)
	sql := table("t", "n INT", "properties.group.id", "g", "properties.auto.offset.reset", "earliest") + "SELECT n FROM t;"
	x := r.start(sql)
	x.wait(numbers(0, 9)...)
	r.eventually(func() string { // at an interval
		if got := r.committed("g", "t"); got[0] != 5 || got[1] != 5 {
			return fmt.Sprint("committed ", got)
		}
		return ""
	})
	r.count("t", 2, 10, 4)
	x.wait(numbers(0, 13)...)
	x.stop() // at a clean end
	if got := r.committed("g", "t"); got[0] != 7 || got[1] != 7 {
		t.Error("committed", got)
	}
	r.count("t", 2, 14, 2)
	x = r.start(sql)
	x.wait(numbers(14, 15)...)
	x.stop()
	// A bounded read commits where it ended.
	r.count("t", 2, 16, 2)
	r.equal(r.rows(strings.Replace(sql, "WITH (", "WITH ('scan.bounded.mode' = 'latest-offset', ", 1)), "16", "17")
	if got := r.committed("g", "t"); got[0] != 9 || got[1] != 9 {
		t.Error("committed", got)
	}
}

// TestSource_HolesAtTheEnd reads topics whose last offsets hold no record.
func TestSource_HolesAtTheEnd(t *testing.T) {
	r := newRig(t)
	r.topic("txn", 1)
	txn := func(commit kgo.TransactionEndTry, values ...string) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(r.addr), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("txn"))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		ctx := context.Background()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := cl.ProduceSync(ctx, rec(0, "-", v)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	txn(kgo.TryCommit, `{"n":1}`, `{"n":2}`)
	txn(kgo.TryAbort, `{"n":3}`, `{"n":4}`)
	sql := func(name string, options ...string) string {
		return table(name, "n INT", with(options...)...) + "SELECT n FROM " + name + ";"
	}
	r.equal(r.rows(sql("txn", "properties.isolation.level", "read_committed")), "1", "2")
	r.equal(r.rows(sql("txn")), "1", "2", "3", "4")
	txn(kgo.TryCommit, `{"n":5}`)
	r.equal(r.rows(sql("txn", "properties.isolation.level", "read_committed")), "1", "2", "5")

	r.topic("compacted", 1, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0", "segment.ms", "1", "delete.retention.ms", "0")
	for i := range 5 {
		r.produce("compacted", rec(0, fmt.Sprint("k", i%2), fmt.Sprintf(`{"n":%d}`, i)))
	}
	r.produce("compacted", rec(0, "k0", `{"n":9}`))
	time.Sleep(20 * time.Millisecond)
	r.produce("compacted", rec(0, "k2", `{"n":10}`)) // the newest segment is never compacted
	time.Sleep(20 * time.Millisecond)
	r.c.Compact()
	time.Sleep(20 * time.Millisecond)
	r.c.Compact()
	r.equal(r.read("compacted"), `0 k1 {"n":3}`, `0 k0 {"n":9}`, `0 k2 {"n":10}`) // offsets 3, 5 and 6
	r.equal(r.rows(sql("compacted")), "3", "9", "10")
	r.equal(r.rows(sql("compacted", "scan.bounded.mode", "specific-offsets", "scan.bounded.specific-offsets", "partition:0,offset:5")), "3")
	r.equal(r.rows(sql("compacted", "scan.bounded.mode", "specific-offsets", "scan.bounded.specific-offsets", "partition:0,offset:3")))

	// Deleted beginning: earliest is what is left, an offset before it is an error.
	r.topic("cut", 1)
	r.count("cut", 1, 0, 10)
	if err := r.c.DeleteRecords("cut", 0, 6); err != nil {
		t.Fatal(err)
	}
	r.equal(r.rows(sql("cut")), "6", "7", "8", "9")
	r.fails(sql("cut", "scan.startup.mode", "specific-offsets", "scan.startup.specific-offsets", "partition:0,offset:2"),
		"offset 2 of cut-0 is not there", "earliest-offset")
	if err := r.c.DeleteRecords("cut", 0, 10); err != nil {
		t.Fatal(err)
	}
	r.equal(r.rows(sql("cut")))
}

// TestSource_OpenTransaction does not show, nor wait behind, what is not committed.
func TestSource_OpenTransaction(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.addr), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r.produce("t", rec(0, "-", `{"n":1}`))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(context.Background(), rec(0, "-", `{"n":2}`)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.produce("t", rec(0, "-", `{"n":3}`))
	committed := with("properties.isolation.level", "read_committed")
	r.equal(r.rows(table("t", "n INT", committed...)+"SELECT n FROM t;"), "1")
	r.equal(r.rows(table("t", "n INT", all...)+"SELECT n FROM t;"), "1", "2", "3")
	x := r.start(table("t", "n INT", "scan.startup.mode", "earliest-offset", "properties.isolation.level", "read_committed") + "SELECT n FROM t;")
	x.wait("1")
	if err := cl.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	x.wait("1", "2", "3")
	x.stop()
}

func TestSource_ListsAndPatterns(t *testing.T) {
	r := newRig(t)
	for i, name := range []string{"a.1", "a.2", "b.1"} {
		r.topic(name, int32(i+1))
		r.count(name, int32(i+1), i*10, i+1)
	}
	cols := "n INT, tp STRING METADATA FROM 'topic' VIRTUAL"
	r.equal(r.rows(table("t", cols, with("topic", "a.1; b.1")...)+"SELECT tp, n FROM t;"),
		"a.1 | 0", "b.1 | 20", "b.1 | 21", "b.1 | 22")
	r.equal(r.rows(table("t", cols, with("topic", "", "topic-pattern", `a\..*`)...)+"SELECT tp, n FROM t;"),
		"a.1 | 0", "a.2 | 10", "a.2 | 11")
	r.equal(r.rows(table("t", cols, with("topic", "", "topic-pattern", `.*\.1`)...)+"SELECT tp, n FROM t;", "parallelism.default", "2"),
		"a.1 | 0", "b.1 | 20", "b.1 | 21", "b.1 | 22")
	r.equal(r.rows(table("t", cols, with("topic", "", "topic-pattern", `none`)...) + "SELECT tp, n FROM t;"))
	r.fails(table("t", cols, with("topic", "a.1;missing")...)+"SELECT n FROM t;", "topic 'missing' does not exist")
	r.fails(table("t", cols, with("topic-pattern", "x")...)+"SELECT n FROM t;", "either 'topic' or 'topic-pattern'")
	r.fails(table("t", cols, with("topic", "", "topic-pattern", "(")...)+"SELECT n FROM t;", "missing closing")
}

// TestSource_Discovery finds partitions and topics that come later, and reads them from the start.
func TestSource_Discovery(t *testing.T) {
	r := newRig(t)
	r.topic("d.1", 1)
	r.count("d.1", 1, 0, 2)
	x := r.start(table("t", "n INT", "topic", "", "topic-pattern", `d\..*`, "scan.startup.mode", "latest-offset",
		"scan.topic-partition-discovery.interval", "100 ms")+"SELECT n FROM t;", "parallelism.default", "2")
	r.eventually(func() string {
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.jobs) == 0 {
			return "no job"
		}
		return ""
	})
	r.count("d.1", 1, 2, 2)
	x.wait("2", "3")
	r.topic("d.2", 2)
	r.count("d.2", 2, 10, 2)
	x.wait("2", "3", "10", "11")
	if _, err := r.admin.CreatePartitions(context.Background(), 1, "d.1"); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		if i := r.c.TopicInfo("d.1"); i == nil || len(r.c.PartitionInfos("d.1")) < 2 {
			return "no new partition"
		}
		return ""
	})
	r.cl.ForceMetadataRefresh()
	r.eventually(func() string {
		if err := r.cl.ProduceSync(context.Background(), &kgo.Record{Topic: "d.1", Partition: 1, Value: []byte(`{"n":20}`)}).FirstErr(); err != nil {
			return err.Error()
		}
		return ""
	})
	x.wait("2", "3", "10", "11", "20")
	x.stop()
}

func TestSource_KeysAndMetadata(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	x := rec(0, `{"id":7,"b":"x"}`, `{"v":"one","id":70}`)
	x.Timestamp = time.UnixMilli(1_700_000_000_123)
	x.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("first")}, {Key: "i", Value: nil}, {Key: "h", Value: []byte("last")}}
	r.produce("t", x, rec(0, "-", `{"v":"two"}`), rec(0, `{"b":"y"}`, `{"v":"three"}`))
	key := with("key.format", "json", "key.fields", "id;b")
	sel := func(cols, query string, options []string, config ...string) []string {
		t.Helper()
		return r.rows(table("t", cols, options...)+query, config...)
	}
	// The key is also in the value: read from there.
	r.equal(sel("id INT, b STRING, v STRING", "SELECT id, b, v FROM t;", key), "70 | NULL | one", "NULL | NULL | three", "NULL | NULL | two")
	except := append(slices.Clone(key), "value.fields-include", "EXCEPT_KEY")
	r.equal(sel("v STRING, b STRING, id INT", "SELECT id, b, v FROM t;", except), "7 | x | one", "NULL | NULL | two", "NULL | y | three")
	r.equal(sel("v STRING, b STRING, id INT", "SELECT b FROM t WHERE v = 'three';", except), "y")
	r.equal(sel("k_id INT, v STRING, k_b STRING, id INT", "SELECT k_id, k_b, id FROM t;",
		with("key.format", "json", "key.fields", "k_id;k_b", "key.fields-prefix", "k_", "value.fields-include", "EXCEPT_KEY")),
		"7 | x | 70", "NULL | NULL | NULL", "NULL | y | NULL")
	r.equal(sel("k STRING, v STRING", "SELECT k FROM t;", with("key.format", "raw", "key.fields", "k", "value.fields-include", "EXCEPT_KEY")),
		"NULL", `{"b":"y"}`, `{"id":7,"b":"x"}`)
	r.equal(sel("v STRING, tp STRING METADATA FROM 'topic', `partition` BIGINT METADATA VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL, "+
		"h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL, ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, "+
		"ty STRING METADATA FROM 'timestamp-type' VIRTUAL, e INT METADATA FROM 'leader-epoch' VIRTUAL",
		"SELECT tp, `partition`, o, CAST(h['h'] AS STRING), CARDINALITY(h), ts, ty, e >= 0 FROM t WHERE o = 0;", all),
		"t | 0 | 0 | last | 2 | 2023-11-14 22:13:20.123 | CreateTime | TRUE")
	r.equal(sel("ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL",
		"SELECT ts FROM t WHERE o = 0;", all, "table.local-time-zone", "Asia/Tokyo"), "2023-11-15 07:13:20.123")
	r.equal(sel("ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, WATERMARK FOR ts AS ts",
		"SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;", all), "1", "2")
	r.fails(table("t", "x INT METADATA FROM 'ofset' VIRTUAL", all...)+"SELECT x FROM t;", "offset")
}

func TestSource_Formats(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.produce("t", rec(0, "-", "a,1"), rec(0, "-", ""), rec(0, "-", "-"), rec(0, "-", "b,2"))
	r.equal(r.rows(table("t", "a STRING, n INT", with("format", "csv", "csv.ignore-parse-errors", "true")...)+"SELECT a, n FROM t;"), "a | 1", "b | 2")
	r.equal(r.rows(table("t", "a STRING", with("format", "raw")...)+"SELECT a FROM t;"), "", "NULL", "a,1", "b,2")
	r.equal(r.rows(table("t", "a STRING", with("format", "", "value.format", "raw")...)+"SELECT COUNT(*) FROM t;"), "4")
	r.topic("j", 1)
	r.produce("j", rec(0, "-", `{"n":1}`), rec(0, "-", ""), rec(0, "-", "-"), rec(0, "-", `{"n":2}`))
	r.equal(r.rows(table("j", "n INT", all...)+"SELECT n FROM j;"), "1", "2")
	r.topic("d", 1)
	r.produce("d", rec(0, "-", `{"op":"c","after":{"k":1,"v":"a"}}`), rec(0, "-", "-"),
		rec(0, "-", `{"op":"u","before":{"k":1,"v":"a"},"after":{"k":1,"v":"b"}}`), rec(0, "-", `{"op":"c","after":{"k":2,"v":"c"}}`),
		rec(0, "-", `{"op":"d","before":{"k":2,"v":"c"}}`))
	r.equal(r.rows(table("d", "k INT, v STRING", with("format", "debezium-json")...)+"SELECT k, v FROM d;"), "1 | b")
}
