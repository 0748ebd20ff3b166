package kill

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestLongDowntime kills the process within a transaction and leaves it away for longer than the
// broker keeps a transaction, once at each step of a commit to Kafka.
func TestLongDowntime(t *testing.T) {
	need(t, "kafka")
	const name, timeout = "downtime", 1000 * time.Millisecond
	in := topics(t, name)
	f := feedTopic(t, in, 1000)
	defines := map[string]string{"IN": in, "KAFKA": kafka, "TXN": "1000"}
	r := newRig(t, name, onlyKafka, with(defines, "OUT", name, "UNTIL", "unbounded"))
	for i, place := range []string{"commit/kafka-sent", "commit/kafka-marked", "commit/kafka-ended", "commit/kafka-marked", "manifest/saved"} {
		r.kill(t, place, 2+i%2) // the first or the second table's
		time.Sleep(timeout + 3*time.Second)
	}
	n := f.end(t)
	finishKafka(t, r, name, n)
	r.tell(t)
	compareTopics(t, name, onlyKafka, defines, n)
}

// TestGroupOffsets moves the offsets of the consumer group while the job is away: it goes on from those
// of its checkpoint.
func TestGroupOffsets(t *testing.T) {
	need(t, "kafka")
	const name = "group"
	in := topics(t, name)
	f := feedTopic(t, in, 1000)
	defines := map[string]string{"IN": in, "KAFKA": kafka, "TXN": "60000"}
	r := newRig(t, name, onlyKafka, with(defines, "OUT", name, "UNTIL", "unbounded"))
	for _, to := range []string{"--to-latest", "--to-earliest"} {
		r.kill(t, "manifest", 5)
		must(t, script(t.Context(), "kafka", "groups", "--reset-offsets", "--group", in, "--topic", in, to, "--execute"))
	}
	n := f.end(t)
	finishKafka(t, r, name, n)
	compareTopics(t, name, onlyKafka, defines, n)
}

// finishKafka lets the job come to its end when its copies of all n rows are there.
func finishKafka(t testing.TB, r *rig, name string, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.ConsumeTopics(name+"-copies"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	have := 0
	r.finish(t, n, func() int {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		have += cl.PollFetches(ctx).NumRecords()
		return have
	})
}

// compareTopics runs the job once more, undisturbed, and compares.
func compareTopics(t testing.TB, name, sql string, defines map[string]string, n int) {
	t.Helper()
	ref := newRig(t, name+"-ref", sql, with(defines, "OUT", name+"_ref", "UNTIL", "latest-offset"))
	ref.whole(t)
	rows := consume(t, name+"-copies", name+"-sums", name+"_ref-copies", name+"_ref-sums")
	for i, table := range []string{"copies", "sums"} {
		same(t, "Kafka, "+table, rows[i], rows[i+2])
	}
	if len(rows[2]) != n {
		t.Errorf("the undisturbed run wrote %d rows of %d", len(rows[2]), n)
	}
	t.Logf("%d rows in", n)
}
