package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// values is a table of rows that are given in the script.
func values(columns string, rows ...string) string {
	return "CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES " + strings.Join(rows, ", ") + ") AS x (" + columns + ");\n"
}

func TestSink_Values(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.rows(table("t", "id INT, v STRING") + "INSERT INTO t VALUES (1, 'a'), (2, CAST(NULL AS STRING)), (3, 'c');")
	r.equal(r.read("t"), `0 - {"id":1,"v":"a"}`, `0 - {"id":2,"v":null}`, `0 - {"id":3,"v":"c"}`)
	r.topic("rw", 1)
	r.rows(table("rw", "v STRING", "format", "raw") + "INSERT INTO rw VALUES ('a'), (''), (CAST(NULL AS STRING));")
	r.equal(r.read("rw"), "0 - a", "0 - ", "0 - -")
	r.topic("csv", 1)
	r.rows(table("csv", "a INT, v STRING", "format", "csv", "properties.compression.type", "zstd") + "INSERT INTO csv VALUES (1, 'x'), (2, 'y');")
	r.equal(r.read("csv"), "0 - 1,x", "0 - 2,y")
	r.topic("d", 1)
	r.rows(values("k, n", "(1, 10)", "(1, 20)", "(2, 5)") + table("d", "k INT, n BIGINT", "format", "debezium-json") +
		"INSERT INTO d SELECT k, SUM(n) FROM v GROUP BY k;")
	if got := r.read("d"); len(got) < 2 {
		t.Error(got)
	}
	r.equal(r.rows(table("d", "k INT, n BIGINT", with("format", "debezium-json")...)+"SELECT k, n FROM d;"), "1 | 30", "2 | 5")
	r.fails(values("k, n", "(1, 10)")+table("t", "k INT, n BIGINT")+"INSERT INTO t SELECT k, SUM(n) FROM v GROUP BY k;", "t")
}

func TestSink_Keys(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "e", "p", "r"} {
		r.topic(name, 1)
	}
	insert := func(name, cols string, options ...string) {
		t.Helper()
		r.rows(table(name, cols, options...) + "INSERT INTO " + name + " VALUES (1, 'x', TRUE);")
	}
	insert("a", "id INT, k STRING, v BOOLEAN", "key.format", "json", "key.fields", "k;id")
	r.equal(r.read("a"), `0 {"k":"x","id":1} {"id":1,"k":"x","v":true}`)
	insert("e", "id INT, k STRING, v BOOLEAN", "key.format", "csv", "key.fields", "k;id", "value.fields-include", "EXCEPT_KEY")
	r.equal(r.read("e"), `0 x,1 {"v":true}`)
	r.equal(r.rows(table("e", "id INT, k STRING, v BOOLEAN", with("key.format", "csv", "key.fields", "k;id", "value.fields-include", "EXCEPT_KEY")...)+
		"SELECT id, k, v FROM e;"), "1 | x | TRUE")
	insert("p", "k_id INT, k_k STRING, id BOOLEAN", "key.format", "json", "key.fields", "k_id;k_k", "key.fields-prefix", "k_",
		"value.fields-include", "EXCEPT_KEY")
	r.equal(r.read("p"), `0 {"id":1,"k":"x"} {"id":true}`)
	insert("r", "id INT, k STRING, v BOOLEAN", "key.format", "raw", "key.fields", "k")
	r.equal(r.read("r"), `0 x {"id":1,"k":"x","v":true}`)
}

func TestSink_Metadata(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.rows(table("t", "v INT, h MAP<STRING, BYTES> METADATA FROM 'headers', ts TIMESTAMP(3) METADATA FROM 'timestamp', o BIGINT METADATA FROM 'offset' VIRTUAL")+
		"INSERT INTO t SELECT 1, MAP['a', CAST('x' AS BYTES), 'b', CAST('' AS BYTES)], TIMESTAMP '2024-01-01 09:00:00.5';",
		"table.local-time-zone", "Asia/Tokyo")
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.addr), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	f := cl.PollFetches(context.Background())
	rec := f.Records()[0]
	if got := rec.Timestamp.UTC().Format(time.RFC3339Nano); got != "2024-01-01T00:00:00.5Z" {
		t.Error("timestamp", got)
	}
	if got := fmt.Sprintf("%s", rec.Headers); got != "[{a x} {b }]" {
		t.Error("headers", got)
	}
	r.fails(table("t", "v INT, o BIGINT METADATA FROM 'offset'")+"INSERT INTO t VALUES (1, 2);", "'offset'", "VIRTUAL")
}

func TestSink_Partitioners(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"fixed", "robin", "keys", "spread"} {
		r.topic(name, 3)
	}
	gen := "CREATE TABLE g (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '300', 'rows-per-second' = '1000000', " +
		"'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '299');\n"
	spread := func(name string) []int {
		n := make([]int, 3)
		for _, l := range r.read(name) {
			n[l[0]-'0']++
		}
		return n
	}
	r.rows(gen+table("fixed", "id INT", "sink.partitioner", "fixed", "sink.parallelism", "2")+"INSERT INTO fixed SELECT id FROM g;",
		"tidemark.batch.rows", "16") // so that each of the two gets some
	if n := spread("fixed"); n[0] == 0 || n[1] == 0 || n[2] != 0 || n[0]+n[1] != 300 {
		t.Error("fixed", n)
	}
	r.rows(gen + table("robin", "id INT", "sink.partitioner", "round-robin") + "INSERT INTO robin SELECT id FROM g;")
	if n := spread("robin"); !slices.Equal(n, []int{100, 100, 100}) {
		t.Error("round-robin", n)
	}
	r.rows(gen + table("spread", "id INT") + "INSERT INTO spread SELECT id FROM g;")
	if n := spread("spread"); n[0]+n[1]+n[2] != 300 {
		t.Error("default without key", n)
	}
	// With keys the partition is that of Kafka's own client: murmur2 of the key.
	r.rows(gen + table("keys", "id INT", "key.format", "json", "key.fields", "id") + "INSERT INTO keys SELECT id FROM g;")
	hash := kgo.StickyKeyPartitioner(nil).ForTopic("keys")
	for _, l := range r.read("keys") {
		p := strings.Fields(l)
		want := hash.Partition(&kgo.Record{Key: []byte(p[1])}, 3)
		if p[0] != fmt.Sprint(want) {
			t.Errorf("%s should be in partition %d", l, want)
		}
	}
	r.fails(table("keys", "id INT", "key.format", "json", "key.fields", "id", "sink.partitioner", "round-robin")+"INSERT INTO keys VALUES (1);", "round-robin")
	r.fails(table("keys", "id INT", "sink.partitioner", "org.example.P")+"INSERT INTO keys VALUES (1);", "org.example.P", "classes of Java")
}

func TestSink_MissingTopic(t *testing.T) {
	r := newRig(t)
	r.rows(table("made", "id INT") + "INSERT INTO made VALUES (1);")
	if got := r.read("made"); len(got) != 1 || !strings.HasSuffix(got[0], `- {"id":1}`) {
		t.Error(got)
	}
	r.fails(table("missing", "id INT", "properties.allow.auto.create.topics", "false")+"INSERT INTO missing VALUES (1);", "topic 'missing' does not exist")
	r.rows(table("up", "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED", "connector", "upsert-kafka", "format", "", "key.format", "json", "value.format", "json") +
		"INSERT INTO up VALUES (1, 2);")
	rcs, err := r.admin.DescribeTopicConfigs(context.Background(), "up")
	if err != nil {
		t.Fatal(err)
	}
	policy := ""
	for _, c := range rcs[0].Configs {
		if c.Key == "cleanup.policy" {
			policy = c.MaybeValue()
		}
	}
	if policy != "compact" {
		t.Errorf("cleanup.policy of a table made for upserts is %q", policy)
	}
}

func TestSink_DeliveryGuarantee(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.rows(table("t", "id INT", "sink.delivery-guarantee", "none") + "INSERT INTO t VALUES (1), (2);")
	r.rows(table("t", "id INT", "properties.acks", "1") + "INSERT INTO t VALUES (3);")
	r.rows(table("t", "id INT", "properties.acks", "0") + "INSERT INTO t VALUES (4);")
	r.rows(table("t", "id INT", "properties.enable.idempotence", "false") + "INSERT INTO t VALUES (5);")
	r.equal(r.read("t"), `0 - {"id":1}`, `0 - {"id":2}`, `0 - {"id":3}`, `0 - {"id":4}`, `0 - {"id":5}`)
	r.fails(table("t", "id INT", "sink.delivery-guarantee", "exactly-once")+"INSERT INTO t VALUES (1);", "exactly-once needs checkpoints", "at-least-once")
	r.fails(table("t", "id INT", "properties.acks", "2")+"INSERT INTO t VALUES (1);", "acks")
	r.fails(table("t", "id INT", "properties.compression.type", "rar")+"INSERT INTO t VALUES (1);", "'rar'", "zstd")
	// A record that the broker never takes ends the job with the reason.
	r.fails(table("t", "v STRING", "format", "raw", "properties.max.request.size", "2048")+"INSERT INTO t SELECT REPEAT('x', 10000);", "record of topic 't'", "MESSAGE_TOO_LARGE")
}

const upsert = "upsert-kafka"

func upsertTable(name, columns string, options ...string) string {
	return table(name, columns, append([]string{"connector", upsert, "format", "", "key.format", "json", "value.format", "json"}, options...)...)
}

func TestUpsert_Sink(t *testing.T) {
	r := newRig(t)
	r.topic("u", 1)
	r.topic("in", 1)
	cols := "k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED"
	// Sums that appear, change and disappear.
	x := r.start(table("src", "k STRING, n BIGINT", "topic", "in", "format", "debezium-json", "scan.startup.mode", "earliest-offset") +
		upsertTable("u", cols) + "INSERT INTO u SELECT k, SUM(n) FROM src GROUP BY k;")
	wrote := 0
	for _, row := range []string{`{"op":"c","after":{"k":"a","n":1}}`, `{"op":"c","after":{"k":"b","n":1}}`, `{"op":"c","after":{"k":"a","n":2}}`,
		`{"op":"d","before":{"k":"b","n":1}}`, `{"op":"c","after":{"k":"c","n":1}}`} {
		r.produce("in", rec(0, "-", row))
		wrote++
		r.eventually(func() string {
			if got := r.read("u"); len(got) < wrote {
				return fmt.Sprintf("%v instead of %d records", got, wrote)
			}
			return ""
		})
	}
	x.stop()
	r.equal(r.read("u"), `0 {"k":"a"} {"k":"a","n":1}`, `0 {"k":"b"} {"k":"b","n":1}`, `0 {"k":"a"} {"k":"a","n":3}`, `0 {"k":"b"} -`, `0 {"k":"c"} {"k":"c","n":1}`)
	// And back: the table as it is.
	r.equal(r.rows(upsertTable("u", cols, "scan.bounded.mode", "latest-offset")+"SELECT k, n FROM u;"), "a | 3", "c | 1")
	// Values without the key.
	r.topic("e", 1)
	r.rows(upsertTable("e", "v INT, id INT, k STRING, PRIMARY KEY (k, id) NOT ENFORCED", "value.fields-include", "EXCEPT_KEY") + "INSERT INTO e VALUES (5, 1, 'x');")
	r.equal(r.read("e"), `0 {"k":"x","id":1} {"v":5}`)
	r.equal(r.rows(upsertTable("e", "v INT, id INT, k STRING, PRIMARY KEY (k, id) NOT ENFORCED", "value.fields-include", "EXCEPT_KEY",
		"scan.bounded.mode", "latest-offset")+"SELECT k, id, v FROM e;"), "x | 1 | 5")
}

func TestUpsert_Source(t *testing.T) {
	r := newRig(t)
	r.topic("u", 2)
	cols := "k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED"
	r.produce("u", rec(0, `{"k":"a"}`, `{"n":1}`), rec(0, `{"k":"b"}`, `{"n":2}`), rec(1, `{"k":"c"}`, `{"n":3}`),
		rec(0, `{"k":"a"}`, `{"n":10}`), rec(0, `{"k":"b"}`, "-"), rec(1, `{"k":"gone"}`, "-"))
	for _, par := range []string{"1", "3"} {
		r.equal(r.rows(upsertTable("u", cols, "scan.bounded.mode", "latest-offset")+"SELECT k, n FROM u;", "parallelism.default", par), "a | 10", "c | 3")
		r.equal(r.rows(upsertTable("u", cols, "scan.bounded.mode", "latest-offset")+"SELECT SUM(n), MAX(k) FROM u;", "parallelism.default", par), "13 | c")
	}
	x := r.start(upsertTable("u", cols) + "SELECT k, n FROM u;")
	x.wait("a | 10", "c | 3")
	r.produce("u", rec(0, `{"k":"a"}`, "-"), rec(0, `{"k":"d"}`, `{"n":4}`), rec(0, `{"k":"b"}`, `{"n":5}`))
	x.wait("b | 5", "c | 3", "d | 4")
	x.stop()
	r.fails(upsertTable("u", "k STRING, n INT")+"SELECT k FROM u;", "PRIMARY KEY")
	r.fails(upsertTable("u", cols, "key.fields", "k")+"SELECT k FROM u;", "key.fields")
	r.fails(upsertTable("u", cols, "value.format", "debezium-json")+"SELECT k FROM u;", "debezium-json")
}
