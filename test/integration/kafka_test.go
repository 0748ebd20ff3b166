package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// order is record i of the tests: its line, and the line that copySQL makes of it.
func order(i int) (in, out string) {
	return fmt.Sprintf(`{"id":%d,"customer":"customer-%d","price":%d,"ts":"2024-03-01 %02d:%02d:%02d.%03d"}`,
			i, i%5000, i%977, i/3_600_000%24, i/60_000%60, i/1000%60, i%1000),
		fmt.Sprintf(`{"id":%d,"customer":"CUSTOMER-%d","twice":%d}`, i, i%5000, i%977*2)
}

const copySQL = `
CREATE TABLE src (id BIGINT, customer STRING, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '${IN}', 'properties.bootstrap.servers' = '${KAFKA}', 'format' = 'json',
  'properties.group.id' = '${IN}', 'scan.startup.mode' = 'earliest-offset' ${MORE});
CREATE TABLE dst (id BIGINT, customer STRING, twice BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '${OUT}', 'properties.bootstrap.servers' = '${KAFKA}', 'format' = 'json', 'properties.compression.type' = 'lz4');
INSERT INTO dst SELECT id, UPPER(customer), price * 2 FROM src;
`

const bounded = ", 'scan.bounded.mode' = 'latest-offset'"

// TestKafkaToKafka copies a topic, row by row, and says how fast.
func TestKafkaToKafka(t *testing.T) {
	need(t)
	const n = 1_000_000
	in := newTopic(t, "orders", 4)
	lines, want := make([]string, n), make([]string, n)
	for i := range lines {
		lines[i], want[i] = order(i)
	}
	produce(t, in, lines)
	file := write(t, "copy.sql", copySQL)
	slices.Sort(want)
	for _, par := range []string{"1", "2"} {
		out := newTopic(t, "copy", 4)
		cmd := tidemark(t.Context(), file, "IN", in, "OUT", out, "KAFKA", bootstrap, "MORE", bounded)
		cmd.Args = append(cmd.Args, "--set", "parallelism.default="+par)
		from := time.Now()
		peers.Output(t, cmd)
		wall := time.Since(from)
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		t.Logf("Kafka to Kafka, parallelism %s: %d rows in %.2f s of wall clock and %.2f s of CPU: %.0f rows/s, %.0f rows a CPU second",
			par, n, wall.Seconds(), cpu.Seconds(), n/wall.Seconds(), n/cpu.Seconds())
		got := consume(t, out)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("parallelism %s: %d rows, want %d; the first that differs: %s", par, len(got), len(want), firstDifference(got, want))
		}
	}
}

func firstDifference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("missing %s", b[i])
		case i >= len(b):
			return fmt.Sprintf("too many: %s", a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("%s instead of %s", a[i], b[i])
		}
	}
	return "none"
}

// TestBrokerAway kills the broker in the middle of a run for ten seconds, while records are
// produced. No row may be lost; at least once is what is promised, so some may be there twice.
func TestBrokerAway(t *testing.T) {
	need(t)
	const n, perSecond, kill = 200_000, 10_000, 60_000
	in, out := newTopic(t, "steady", 2), newTopic(t, "through", 2)
	var log bytes.Buffer
	cmd := tidemark(t.Context(), write(t, "copy.sql", copySQL), "IN", in, "OUT", out, "KAFKA", bootstrap, "MORE", "")
	cmd.Args = append(cmd.Args, "--set", "tidemark.epoch.interval=1 s")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	prod := producer(t.Context(), in)
	prod.Args = append(prod.Args, "--max-block-ms", "240000", "--producer-property", "delivery.timeout.ms=300000", "--producer-property", "request.timeout.ms=5000")
	var prodLog bytes.Buffer
	prod.Stdout, prod.Stderr = &prodLog, &prodLog
	pipe, err := prod.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := prod.Start(); err != nil {
		t.Fatal(err)
	}
	fed := make(chan error, 1)
	killNow := make(chan struct{})
	go func() { fed <- feed(pipe, n, perSecond, kill, killNow) }()
	<-killNow
	peers.Output(t, servers.Command(t.Context(), "kafka", "kill", "1"))
	down := time.Now()
	time.Sleep(10 * time.Second)
	peers.Output(t, servers.Command(t.Context(), "kafka", "start"))
	t.Logf("the broker was away for %.1f s", time.Since(down).Seconds())
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	if err := prod.Wait(); err != nil {
		t.Fatalf("the foreign producer: %v\n%s", err, peers.Tail(prodLog.String()))
	}
	if got := ends(t, in); got < n {
		t.Fatalf("the foreign producer wrote %d of %d records\n%s", got, n, peers.Tail(prodLog.String()))
	}

	want := map[string]bool{}
	for i := range n {
		_, line := order(i)
		want[line] = true
	}
	var seen map[string]bool
	rows := 0
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(2 * time.Second) {
		select {
		case err := <-ended:
			t.Fatalf("the job has ended: %v\n%s", err, peers.Tail(log.String()))
		default:
		}
		if ends(t, out) >= n {
			got := consume(t, out)
			rows = len(got)
			seen = map[string]bool{}
			for _, l := range got {
				seen[l] = true
			}
			if len(seen) >= n {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d distinct rows of %d\n%s", len(seen), n, peers.Tail(log.String()))
		}
	}
	for l := range seen {
		if !want[l] {
			t.Fatalf("a row that nobody wrote: %s", l)
		}
	}
	t.Logf("%d records in, %d rows out, %d distinct", ends(t, in), rows, len(seen))
	cmd.Process.Signal(syscall.SIGINT)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGINT: %v\n%s", err, peers.Tail(log.String()))
		}
	case <-time.After(2 * time.Minute):
		cmd.Process.Kill()
		t.Errorf("the job does not end after SIGINT\n%s", peers.Tail(log.String()))
	}
	groups := servers.Tool(t, "kafka", "groups", "--describe", "--offsets", "--group", in)
	lag := 0
	for _, l := range strings.Split(groups, "\n") {
		if f := strings.Fields(l); len(f) > 5 && f[1] == in {
			var x int
			if _, err := fmt.Sscan(f[5], &x); err != nil {
				t.Errorf("group: %q: %v", l, err)
			}
			lag += x
		}
	}
	if lag != 0 || !strings.Contains(groups, in) {
		t.Errorf("the group's committed offsets leave a lag of %d:\n%s", lag, groups)
	}
}

// feed writes n records at a rate and closes killNow after kill of them.
func feed(w io.WriteCloser, n, perSecond, kill int, killNow chan<- struct{}) error {
	defer w.Close()
	const step = 500
	start := time.Now()
	for i := 0; i < n; i += step {
		var b bytes.Buffer
		for k := i; k < i+step; k++ {
			line, _ := order(k)
			b.WriteString(line + "\n")
		}
		if i == kill {
			close(killNow)
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
		time.Sleep(time.Until(start.Add(time.Duration(i+step) * time.Second / time.Duration(perSecond))))
	}
	return nil
}

// TestMalformed has 1,000 records that are no rows among 100,000 that are.
func TestMalformed(t *testing.T) {
	need(t)
	const n, every = 100_000, 100
	in, out := newTopic(t, "mixed", 3), newTopic(t, "good", 3)
	var lines, want, bad []string
	for i := range n {
		line, good := order(i)
		lines, want = append(lines, line), append(want, good)
		if i%every == every/2 {
			broken := []string{line[:len(line)/2], fmt.Sprintf("no JSON %d", i), fmt.Sprintf("[%d]", i),
				fmt.Sprintf(`{"id":"x%d","customer":"c","price":1}`, i), fmt.Sprintf(`{"id":%d,"price":"12..5"}`, i),
				fmt.Sprintf(`{"id":%d,"customer":,"price":1}`, i)}[len(bad)%6]
			lines, bad = append(lines, broken), append(bad, broken)
		}
	}
	produce(t, in, lines)
	dead := filepath.Join(t.TempDir(), "dead")
	peers.Output(t, tidemark(t.Context(), write(t, "copy.sql", copySQL), "IN", in, "OUT", out, "KAFKA", bootstrap,
		"MORE", bounded+", 'dead-letter.path' = '"+dead+"'"))
	got := consume(t, out)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d; the first that differs: %s", len(got), len(want), firstDifference(got, want))
	}
	// What the foreign consumer sees at each place.
	at := map[string]string{}
	for _, l := range consume(t, in, "print.partition=true", "print.offset=true") {
		f := strings.SplitN(l, "\t", 3)
		if len(f) != 3 {
			t.Fatalf("the consumer printed %q", l)
		}
		at[in+"-"+strings.TrimPrefix(f[0], "Partition:")+" "+strings.TrimPrefix(f[1], "Offset:")] = f[2]
	}
	var letters []string
	files, _ := filepath.Glob(filepath.Join(dead, "*.jsonl"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var d struct {
				Split, Unit, Reason, Record string
				Position                    int64
			}
			if err := json.Unmarshal([]byte(l), &d); err != nil {
				t.Fatalf("dead letter %s: %v", l, err)
			}
			place := fmt.Sprintf("%s %d", d.Split, d.Position)
			if d.Reason == "" || d.Unit != "offset" || at[place] != d.Record {
				t.Errorf("dead letter %s: at that place there is %q", l, at[place])
			}
			delete(at, place)
			letters = append(letters, d.Record)
		}
	}
	slices.Sort(letters)
	slices.Sort(bad)
	if !slices.Equal(letters, bad) {
		t.Errorf("%d dead letters, want %d; the first that differs: %s", len(letters), len(bad), firstDifference(letters, bad))
	}
	t.Logf("%d records: %d rows out, %d dead letters", len(lines), len(got), len(letters))
}
