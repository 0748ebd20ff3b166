package kafka_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTrouble_DeadLetterPath(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	r.produce("t", rec(0, "-", `{"n":1}`), rec(1, "-", `{"n":`), rec(1, "-", `{"n":2}`), rec(0, "-", "\xff\xfe"), rec(1, "-", `{"n":"x"}`), rec(1, "-", `{"n":3}`))
	r.equal(r.rows(table("t", "n INT", with("dead-letter.path", "dead")...)+"SELECT n FROM t;"), "1", "2", "3")
	var got []string
	for _, l := range r.lines("dead") {
		var d struct {
			Table, Split, Unit, Reason, Time string
			Position                         int64
			Record                           *string
			Record64                         string `json:"record_base64"`
		}
		if err := json.Unmarshal([]byte(l), &d); err != nil {
			t.Fatal(err, l)
		}
		if d.Record == nil {
			b, _ := base64.StdEncoding.DecodeString(d.Record64)
			s := fmt.Sprintf("%x", b)
			d.Record = &s
		}
		if d.Reason == "" || d.Time == "" {
			t.Error(l)
		}
		got = append(got, fmt.Sprintf("%s %s %s %d %s", d.Table, d.Split, d.Unit, d.Position, *d.Record))
	}
	slices.Sort(got)
	r.equal(got, `t t-0 offset 1 fffe`, `t t-1 offset 0 {"n":`, `t t-1 offset 2 {"n":"x"}`)
	r.fails(table("t", "n INT", all...)+"SELECT n FROM t;", "of table t", "offset", "dead-letter.path")
	r.equal(r.rows(table("t", "n INT", with("json.ignore-parse-errors", "true")...)+"SELECT n FROM t WHERE n IS NOT NULL;"), "1", "2", "3")
}

func TestTrouble_DeadLetterTable(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.topic("dead", 1)
	r.produce("t", rec(0, `{"k":1}`, `{"n":1}`), rec(0, `{"k":`, `{"n":2}`), rec(0, `{"k":3}`, `oops`), rec(0, `{"k":4}`, `{"n":4}`))
	key := with("key.format", "json", "key.fields", "k", "value.fields-include", "EXCEPT_KEY", "dead-letter.table", "dead")
	r.equal(r.rows(table("dead", "split STRING, `position` BIGINT, record STRING, reason STRING")+table("t", "k INT, n INT", key...)+
		"SELECT k, n FROM t;"), "1 | 1", "4 | 4")
	got := r.read("dead")
	if len(got) != 2 || !strings.Contains(got[0]+got[1], `"position":1,"record":"{\"k\":","reason":"key: `) ||
		!strings.Contains(got[0]+got[1], `"split":"t-0","position":2,"record":"oops"`) {
		t.Error(got)
	}
	// The same while the job goes on.
	x := r.start(table("dead", "`position` BIGINT") + table("t", "n INT", "scan.startup.mode", "latest-offset", "dead-letter.table", "dead") + "SELECT n FROM t;")
	r.eventually(func() string {
		r.produce("t", rec(0, "-", "bad"))
		if len(r.read("dead")) == 2 {
			return "no dead letter"
		}
		return ""
	})
	x.stop()
}

func TestTrouble_NoBroker(t *testing.T) {
	r := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ln.Close()
	quick := []string{"properties.default.api.timeout.ms", "700", "properties.bootstrap.servers", addr}
	from := time.Now()
	r.fails(table("t", "n INT", with(quick...)...)+"SELECT n FROM t;", "no connection to the brokers at "+addr, "refused")
	r.fails(table("t", "n INT", quick...)+"INSERT INTO t VALUES (1);", "no connection to the brokers at "+addr, "refused")
	quick[3] = mute.Addr().String()
	r.fails(table("t", "n INT", with(quick...)...)+"SELECT n FROM t;", "did not answer within 700ms")
	quick[3] = "no.such.host.invalid:9092"
	r.fails(table("t", "n INT", with(quick...)...)+"SELECT n FROM t;", "no.such.host.invalid")
	if d := time.Since(from); d > time.Minute {
		t.Errorf("four jobs took %s to give up", d)
	}
}

func TestTrouble_SASL(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "ann", `p"w`),
		kfake.Superuser("SCRAM-SHA-256", "bob", "pw"), kfake.Superuser("SCRAM-SHA-512", "cat", "pw"), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	defer c.Close()
	r := &rig{t: t, c: c, addr: c.ListenAddrs()[0], dir: t.TempDir()}
	login := func(mechanism, user, pass string) []string {
		return []string{"properties.security.protocol", "SASL_PLAINTEXT", "properties.sasl.mechanism", mechanism,
			"properties.sasl.jaas.config", fmt.Sprintf(`org.apache.kafka.common.security.plain.PlainLoginModule required username="%s" password="%s";`, user, pass)}
	}
	r.rows(table("t", "n INT", login("PLAIN", "ann", `p\"w`)...) + "INSERT INTO t VALUES (1);")
	r.rows(table("t", "n INT", login("SCRAM-SHA-256", "bob", "pw")...) + "INSERT INTO t VALUES (2);")
	r.equal(r.rows(table("t", "n INT", with(login("SCRAM-SHA-512", "cat", "pw")...)...)+"SELECT n FROM t;"), "1", "2")
	// Deriving a key takes a machine under load a while, too.
	refused := func(mechanism, user, pass string) []string {
		return append(login(mechanism, user, pass), "properties.default.api.timeout.ms", "4000")
	}
	r.fails(table("t", "n INT", with(refused("PLAIN", "ann", "wrong")...)...)+"SELECT n FROM t;", "no connection to the brokers at "+r.addr)
	r.fails(table("t", "n INT", refused("SCRAM-SHA-256", "bob", "wrong")...)+"INSERT INTO t VALUES (2);", "no connection to the brokers at "+r.addr)
	r.fails(table("t", "n INT", all...)+"SELECT n FROM t;", "brokers at "+r.addr, "is SASL missing")
	r.fails(table("t", "n INT", login("GSSAPI", "a", "b")...)+"INSERT INTO t VALUES (2);", "'GSSAPI' is not supported", "SCRAM-SHA-512")
	r.fails(table("t", "n INT", "properties.security.protocol", "SASL_PLAINTEXT", "properties.sasl.mechanism", "PLAIN")+"INSERT INTO t VALUES (2);", "sasl.jaas.config")
	r.fails(table("t", "n INT", "properties.security.protocol", "SSL", "properties.ssl.truststore.location", "/x.jks")+"INSERT INTO t VALUES (2);", "PEM")
}

// TestTrouble_Errors has brokers answer with errors that pass.
func TestTrouble_Errors(t *testing.T) {
	r := newRig(t, kfake.NumBrokers(3))
	r.topic("in", 4)
	r.topic("out", 4)
	r.count("in", 4, 0, 400)
	for _, f := range []kfake.Fault{
		{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "in", Err: kerr.LeaderNotAvailable, Count: 2},
		{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "in", Err: kerr.NotLeaderForPartition, Count: 2},
		{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Err: kerr.NotLeaderForPartition, Count: 3},
		{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Err: kerr.UnknownServerError, Count: 1, Partitions: []int32{9}},
		{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.NotLeaderForPartition, Count: 3},
		{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.NotEnoughReplicasAfterAppend, Count: 2},
		{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.RequestTimedOut, Count: 1},
	} {
		r.c.Fault(f)
	}
	quick := []string{"properties.retry.backoff.ms", "20"}
	r.rows(table("src", "n INT", with(append(quick, "topic", "in")...)...) + table("dst", "n INT", append(quick, "topic", "out")...) + "INSERT INTO dst SELECT n FROM src;")
	seen := map[string]int{}
	for _, l := range r.read("out") {
		seen[l[strings.IndexByte(l, '{'):]]++
	}
	if len(seen) != 400 {
		t.Errorf("%d of 400 rows", len(seen))
	}
	// One that does not pass ends the job.
	r.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Err: kerr.TopicAuthorizationFailed, Count: -1})
	r.fails(table("src", "n INT", with("topic", "in")...)+"SELECT n FROM src;", "TOPIC_AUTHORIZATION_FAILED")
	r.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.TopicAuthorizationFailed, Count: -1})
	r.fails(table("dst", "n INT", "topic", "out")+"INSERT INTO dst VALUES (1);", "topic 'out'", "TOPIC_AUTHORIZATION_FAILED")
}

// TestTrouble_Restart takes the broker away in the middle of a run; no row is lost.
func TestTrouble_Restart(t *testing.T) {
	data := t.TempDir()
	r := newRig(t, kfake.DataDir(data), kfake.SeedTopics(2, "in", "out"))
	_, port, _ := net.SplitHostPort(r.addr)
	n, _ := strconv.Atoi(port)
	sql := table("src", "n INT", "topic", "in", "scan.startup.mode", "earliest-offset", "properties.group.id", "g") + table("dst", "n INT", "topic", "out") +
		"INSERT INTO dst SELECT n FROM src;"
	r.count("in", 2, 0, 100)
	x := r.start(sql)
	outAtLeast := func(n int) {
		t.Helper()
		r.eventually(func() string {
			select {
			case <-x.done:
				return fmt.Sprintf("the job has ended: %v", x.err)
			default:
			}
			seen := map[string]bool{}
			for _, l := range r.read("out") {
				seen[l[strings.IndexByte(l, '{'):]] = true
			}
			if len(seen) < n {
				return fmt.Sprintf("%d rows out, want %d", len(seen), n)
			}
			return ""
		})
	}
	outAtLeast(100)
	r.c.Close()
	time.Sleep(700 * time.Millisecond)
	back := func() {
		t.Helper()
		r.eventually(func() string { // the port may be that of somebody's connection for a while
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(data), kfake.Ports(n))
			if err != nil {
				return err.Error()
			}
			r.c = c
			return ""
		})
	}
	back()
	r.count("in", 2, 100, 100)
	outAtLeast(200)
	x.stop()

	// Away for longer than a record may wait: the job ends, and says why.
	r.c.Close()
	x = nil
	from := time.Now()
	back()
	x = r.start("CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000');\n" +
		table("dst", "n INT", "topic", "out", "properties.delivery.timeout.ms", "4000") + "INSERT INTO dst SELECT n FROM g;")
	outAtLeast(201)
	r.c.Close()
	<-x.done
	if x.err == nil || !strings.Contains(x.err.Error(), "topic 'out'") || !strings.Contains(x.err.Error(), "refused") {
		t.Errorf("error %v after %s", x.err, time.Since(from))
	}
}

func TestTrouble_TopicDeleted(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.count("t", 1, 0, 1)
	x := r.start(table("t", "n INT", "scan.startup.mode", "earliest-offset", "properties.metadata.max.age.ms", "100") + "SELECT n FROM t;")
	x.wait("0")
	if err := r.c.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	<-x.done
	if x.err == nil || !strings.Contains(x.err.Error(), "topic 't' does not exist any more") {
		t.Error(x.err)
	}
}

// TestTrouble_Backpressure reads far more than the queues hold with a sink that is slow.
func TestTrouble_Backpressure(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	big := strings.Repeat("x", 100_000)
	const n = 400 // 40 MB, five times a queue
	for i := range n {
		if err := r.cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: int32(i % 2), Value: []byte(fmt.Sprintf("%05d%s", i, big))}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	got := r.rows(table("t", "v STRING", with("format", "raw")...) + "SELECT SUBSTRING(v, 1, 5) FROM t;")
	if len(got) != n || got[0] != "00000" || got[n-1] != "00399" {
		t.Errorf("%d rows", len(got))
	}
}
