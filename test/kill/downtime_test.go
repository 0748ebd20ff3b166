package kill

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// TestLongDowntime kills the process within a transaction and leaves it away for longer than the
// broker keeps a transaction, once at each step of a commit to Kafka.
func TestLongDowntime(t *testing.T) {
	servers.Need(t, "kafka")
	const name, timeout = "downtime", 1000 * time.Millisecond
	in := topics(t, name)
	f := feedTopic(t, in, 1000)
	defines := map[string]string{"IN": in, "KAFKA": kafka, "TXN": "1000", "KAFKA_DELIVERY": "exactly-once"}
	r := newRig(t, name, onlyKafka, with(defines, "OUT", name, "UNTIL", "unbounded"))
	places := []string{"commit/kafka-sent", "commit/kafka-marked", "commit/kafka-ended", "commit/kafka-marked", "manifest/saved"}
	if kills < 40 {
		places = places[:3]
	}
	for i, place := range places {
		r.kill(t, place, 2+i%2) // the first or the second table's
		time.Sleep(timeout + 3*time.Second)
		if place == "commit/kafka-sent" || place == "commit/kafka-marked" {
			aborted(t, name+"-copies_k", name+"-sums_k")
		}
	}
	n := f.end(t)
	finishKafka(t, r, name, n)
	r.tell(t)
	compareTopics(t, name, onlyKafka, defines, n)
}

// aborted waits until the broker has given up what one of the producers left open.
func aborted(t testing.TB, ids ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var found kadm.DescribedTransactions
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		again(t, "kafka", func() (err error) {
			found, err = kadm.NewClient(cl).DescribeTransactions(t.Context(), ids...)
			return err
		})
		for _, d := range found {
			if d.State == "CompleteAbort" {
				return
			}
		}
	}
	t.Errorf("no transaction was given up by the broker: %+v", found)
}

// TestGroupOffsets moves the offsets of the consumer group while the job is away: it goes on from those
// of its checkpoint.
func TestGroupOffsets(t *testing.T) {
	servers.Need(t, "kafka")
	const name = "group"
	in := topics(t, name)
	f := feedTopic(t, in, 1000)
	defines := map[string]string{"IN": in, "KAFKA": kafka, "TXN": "60000", "KAFKA_DELIVERY": "exactly-once"}
	r := newRig(t, name, onlyKafka, with(defines, "OUT", name, "UNTIL", "unbounded"))
	for _, to := range []string{"--to-latest", "--to-earliest"} {
		r.kill(t, "manifest", 5)
		tool(t, "kafka", "groups", "--reset-offsets", "--group", in, "--topic", in, to, "--execute")
	}
	n := f.end(t)
	finishKafka(t, r, name, n)
	compareTopics(t, name, onlyKafka, defines, n)
}

// TestBrokerRestarts has the broker crash and come back within one run of the job, and then kills that.
func TestBrokerRestarts(t *testing.T) {
	servers.Need(t, "kafka")
	const name = "restarts"
	in := topics(t, name)
	f := feedTopic(t, in, 1000)
	defines := map[string]string{"IN": in, "KAFKA": kafka, "TXN": "60000", "KAFKA_DELIVERY": "exactly-once"}
	r := newRig(t, name, onlyKafka, with(defines, "OUT", name, "UNTIL", "unbounded"))
	cmd, log := r.start(t, t.Context(), "")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// grows waits until more than n copies are there, which this run of the job must make.
	grows := func(n int) (have int) {
		for end := time.Now().Add(patience); ; time.Sleep(300 * time.Millisecond) {
			select {
			case err := <-ended:
				t.Fatalf("the job did not outlive the broker: %v\n%s", err, peers.Tail(log.String()))
			default:
			}
			if have = committed(t, name+"-copies"); have > n {
				return have
			}
			if time.Now().After(end) {
				t.Fatalf("the job does not go on at %d rows\n%s", have, peers.Tail(log.String()))
			}
		}
	}
	grows(0)
	_, was := servers.Starts("kafka")
	if !servers.Crash("kafka", "kill", "1") {
		t.Fatal("the broker could not be killed")
	}
	if err := servers.Await(); err != nil {
		t.Fatal(err)
	}
	_, gone := servers.Starts("kafka")
	grows(committed(t, name+"-copies"))
	cmd.Process.Kill()
	<-ended
	n := f.end(t)
	finishKafka(t, r, name, n)
	t.Logf("the broker was away for %.1f s", (gone - was).Seconds())
	compareTopics(t, name, onlyKafka, defines, n)
}

// TestRepeatsAreSeen kills a job that promises rows at least once: the kills above must be able to make
// a difference, and the comparison to see it.
func TestRepeatsAreSeen(t *testing.T) {
	servers.Need(t, "kafka")
	const name = "repeats"
	in := topics(t, name)
	f := feedTopic(t, in, 1000)
	defines := map[string]string{"IN": in, "KAFKA": kafka, "TXN": "60000", "KAFKA_DELIVERY": "at-least-once"}
	r := newRig(t, name, onlyKafka, with(defines, "OUT", name, "UNTIL", "unbounded"))
	for range 3 {
		r.kill(t, "sealed/unsaved", 3)
	}
	n := f.end(t)
	r.atLeast = true
	finishKafka(t, r, name, n+1)
	got := committed(t, name+"-copies")
	if got <= n {
		t.Errorf("%d rows of an input of %d: no row is there twice, so nothing above proves anything", got, n)
	}
	t.Logf("%d rows of %d are there more than once", got-n, n)
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
