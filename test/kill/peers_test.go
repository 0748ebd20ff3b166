package kill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// The ports of the servers, which nobody else takes; from 32768 on outgoing connections may hold one just when a
// server comes back.
const (
	kafkaPort    = "21092"
	postgresPort = "21432"
	s3Port       = "21333"
	kafka        = "127.0.0.1:" + kafkaPort
	postgres     = "postgres://postgres@127.0.0.1:" + postgresPort + "/test?sslmode=disable"
	s3           = "http://127.0.0.1:" + s3Port
)

// kills is how often the job of each test is killed.
var kills = 40

// binary is the command, built with its places to be killed at.
var binary string

// servers are the real systems. A transaction that nobody ends is looked for every second, and not every
// ten.
var servers = peers.New("KAFKA_PORT="+kafkaPort, "PG_PORT="+postgresPort, "S3_PORT="+s3Port,
	"KAFKA_EXTRA=transaction.abort.timed.out.transaction.cleanup.interval.ms=1000")

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tidemark-kill-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "tidemark")
		return servers.Main(m, build)
	}())
}

// build makes the command, and reads how often it is to be killed.
func build() (err error) {
	if text := os.Getenv("TIDEMARK_KILLS"); text != "" {
		if kills, err = strconv.Atoi(text); err != nil || kills < len(phases) {
			return fmt.Errorf("TIDEMARK_KILLS is %q; write a number of at least %d", text, len(phases))
		}
	}
	if out, err := exec.Command("go", "build", "-tags", "killpoints", "-o", binary, "../../cmd/tidemark").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// newTopics makes topics.
func newTopics(t testing.TB, partitions int32, names ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	again(t, "kafka", func() error {
		made, err := kadm.NewClient(cl).CreateTopics(t.Context(), partitions, 1, nil, names...)
		for _, m := range made {
			if !errors.Is(m.Err, kerr.TopicAlreadyExists) { // of an attempt whose answer was lost
				err = errors.Join(err, m.Err)
			}
		}
		return err
	})
}

// again calls f until it succeeds, as long as a server is away.
func again(t testing.TB, name string, f func() error) {
	t.Helper()
	if err := servers.Again(name, f); err != nil {
		t.Fatal(err)
	}
}

// tool runs a command of a server's script and returns its lines.
func tool(t testing.TB, name string, args ...string) []string {
	t.Helper()
	return peers.Lines(servers.Tool(t, name, args...))
}

// query runs a statement with psql and returns its lines.
func query(t testing.TB, statement string) []string {
	t.Helper()
	return tool(t, "postgres", "sql", "-Atq", "-v", "ON_ERROR_STOP=1", "-c", statement)
}

// consume reads what is committed of topics with Kafka's own consumer, all at once. It cannot be told
// to end where the topic does, so how many rows there are is counted before.
func consume(t testing.TB, topics ...string) [][]string {
	t.Helper()
	rows := make([][]string, len(topics))
	var wait sync.WaitGroup
	for i, topic := range topics {
		n := committed(t, topic)
		if n == 0 {
			continue
		}
		wait.Go(func() {
			err := servers.Again("kafka", func() error {
				var out, errs bytes.Buffer
				cmd := servers.Command(t.Context(), "kafka", "consume", "--topic", topic, "--from-beginning", "--isolation-level", "read_committed",
					"--max-messages", strconv.Itoa(n), "--timeout-ms", "120000")
				cmd.Stdout, cmd.Stderr = &out, &errs
				if err := cmd.Run(); err != nil {
					return fmt.Errorf("%w\n%s", err, peers.Tail(errs.String()))
				}
				rows[i] = peers.Lines(out.String())
				return nil
			})
			if err != nil {
				t.Errorf("consume %s: %v", topic, err)
			}
		})
	}
	wait.Wait()
	return rows
}

// committed counts the records of a topic that a reader of committed ones sees, up to the end that
// the topic has now.
func committed(t testing.TB, topic string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// Markers of transactions too: the end may be one.
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var ends kadm.ListedOffsets
	again(t, "kafka", func() (err error) {
		if ends, err = kadm.NewClient(cl).ListEndOffsets(ctx, topic); err == nil {
			err = ends.Error()
		}
		return err
	})
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("topic %s: the end is not reached, as a transaction is open or the broker is away: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				n++
			}
			if end, there := left[r.Partition]; there && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return n
}

// visible returns the lines of the visible files of a folder.
func visible(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.ContainsAny(e.Name()[:1], "._") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, peers.Lines(string(text))...)
	}
	return out
}

// order is record i of the input: a time that goes on by two milliseconds each, up to two seconds
// out of order.
func order(i int) string {
	at := time.UnixMilli(1_704_067_200_000 + int64(i)*2 - int64(i)*7919%2000).UTC()
	return fmt.Sprintf(`{"id":%d,"k":"k%02d","price":%d,"ts":"%s"}`, i, i*31%20, i%997, at.Format("2006-01-02 15:04:05.000"))
}

// feeder makes the input grow until it is stopped.
type feeder struct {
	stop chan struct{}
	done chan struct{}
	n    int // once done
	err  error
}

// feedEvery calls f with the next rows every 100 ms, of which there are perSecond.
func feedEvery(perSecond int, every time.Duration, f func(from, to int) error) *feeder {
	d := &feeder{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(d.done)
		start := time.Now()
		for {
			to := int(time.Since(start).Seconds() * float64(perSecond))
			if d.err = f(d.n, to); d.err != nil {
				return
			}
			d.n = to
			select {
			case <-d.stop:
				return
			case <-time.After(every):
			}
		}
	}()
	return d
}

// end stops the growth and returns how many rows there are.
func (d *feeder) end(t testing.TB) int {
	t.Helper()
	close(d.stop)
	<-d.done
	if d.err != nil {
		t.Fatalf("feed: %v", d.err)
	}
	return d.n
}

// feedTopic makes a topic of two partitions grow.
func feedTopic(t testing.TB, topic string, perSecond int) *feeder {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return feedEvery(perSecond, 100*time.Millisecond, func(from, to int) error {
		recs := make([]*kgo.Record, 0, to-from)
		for i := from; i < to; i++ {
			recs = append(recs, &kgo.Record{Value: []byte(order(i)), Partition: int32(i % 2)})
		}
		return cl.ProduceSync(context.Background(), recs...).FirstErr()
	})
}

// feedFolder makes a folder grow, by files that appear whole.
func feedFolder(dir string, perSecond int) *feeder {
	return feedEvery(perSecond, 500*time.Millisecond, func(from, to int) error {
		if from == to {
			return nil
		}
		var b strings.Builder
		for i := from; i < to; i++ {
			b.WriteString(order(i) + "\n")
		}
		name := fmt.Sprintf("%09d.jsonl", from)
		aside := filepath.Join(dir, "."+name)
		if err := os.WriteFile(aside, []byte(b.String()), 0o644); err != nil {
			return err
		}
		return os.Rename(aside, filepath.Join(dir, name))
	})
}
