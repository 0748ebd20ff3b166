package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// topicSQL is a job that writes revisions to a topic, in the checkpoint's transaction, and the table that the page shows.
const topicSQL = `SET 'execution.checkpointing.interval' = '300 ms';
SET 'execution.checkpointing.dir' = 'state';
SET 'tidemark.generation' = '${GEN}';
CREATE TABLE reports (origin STRING, passengers BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '100 ms');
CREATE TABLE board (
  origin STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), passengers BIGINT COMMENT 'unit: people',
  revision BIGINT METADATA, generation STRING METADATA, as_of TIMESTAMP_LTZ(3) METADATA FROM 'watermark', is_final BOOLEAN METADATA, is_deleted BOOLEAN METADATA,
  PRIMARY KEY (origin, window_start, window_end) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'board', 'properties.bootstrap.servers' = '${K}', 'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '${GEN}');
INSERT INTO board SELECT /*+ EMIT('allowed-lateness' = '1 h', 'early-fire' = '0 s') */ origin, window_start, window_end, SUM(passengers)
FROM TABLE(TUMBLE(TABLE reports, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY origin, window_start, window_end;
`

const topicYAML = `title: Passengers
script: board.sql
refresh: 200ms
tiles:
  - {title: In the hour, kind: number, value: sum(passengers)}
  - {kind: series, value: passengers, by: origin, width: 2}
  - {title: As it was, kind: number, value: sum(passengers), generation: live}
  - {kind: table, columns: [window_start, origin, passengers], width: 4}
`

// command runs the program until the test ends or stop is called, and returns what it writes.
func command(t *testing.T, dir, bin string, args ...string) (out *output, stop func()) {
	t.Helper()
	out = &output{}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Stderr, cmd.Stdout = dir, out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Logf("%v: %s", args, out.String())
		}
	}
	t.Cleanup(stop)
	return out, stop
}

// program builds the command.
func program(t *testing.T, dir string) string {
	t.Helper()
	bin := filepath.Join(dir, "tidemark")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/tidemark").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestTopic watches a topic of revisions that a job writes in transactions: provisional cells become final, a
// correction comes, another generation takes over.
func TestTopic(t *testing.T) {
	b := start(t, 1440, 900)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "board"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	address := cluster.ListenAddrs()[0]
	dir := t.TempDir()
	bin := program(t, dir)
	for name, text := range map[string]string{"board.sql": topicSQL, "board.yaml": topicYAML} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := 0
	report := func(lines ...string) { // lines such as EWR 10 2013-01-30 08:10
		t.Helper()
		var text strings.Builder
		for _, l := range lines {
			f := strings.SplitN(l, " ", 3)
			text.WriteString(`{"origin":"` + f[0] + `","passengers":` + f[1] + `,"ts":"` + f[2] + ":00\"}\n")
		}
		files++
		path := filepath.Join(dir, "in", string(rune('a'+files))+".json")
		if err := os.WriteFile(filepath.Join(dir, "new"), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := command(t, dir, bin, "dashboard", "--http", "127.0.0.1:0", "--config", "board.yaml", "--define", "K="+address, "--define", "GEN=live")
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)
	within(t, waitFor, "the page is announced", func() bool { return url.MatchString(out.String()) })
	home := url.FindString(out.String())
	b.open(home)
	b.sees("#title", "Passengers")
	b.sees(`[data-id="t1"]`, "no rows yet")

	_, stop := command(t, dir, bin, "run", "board.sql", "--define", "K="+address, "--define", "GEN=live")
	report("EWR 120 2013-01-30 08:10", "JFK 80 2013-01-30 08:20")
	b.sees(`[data-id="t1"] .big`, "200 people")
	b.sees(`[data-id="t1"] .badges`, "provisional")
	b.sees(`[data-id="t1"] .trust`, "generation live, the newest of the topic")
	b.sees(`[data-id="t1"] .trust`, "not told by a topic")
	report("EWR 30 2013-01-30 09:10", "JFK 20 2013-01-30 09:20")
	report("EWR 5 2013-01-30 08:40") // late, and let in
	b.sees(`[data-id="t4"] tbody`, "2013-01-30 08:00 EWR provisional 125")
	report("EWR 7 2013-01-30 10:30", "JFK 9 2013-01-30 10:31")
	b.sees(`[data-id="t2"] .values`, "EWR 7 people provisional")
	report("EWR 1 2013-01-30 10:40", "JFK 2 2013-01-30 10:41") // which carries that it is 10:30
	b.sees(`[data-id="t4"] tbody`, "2013-01-30 08:00 EWR final 125")
	b.sees(`[data-id="t4"] tbody`, "2013-01-30 08:00 JFK final 80")
	b.sees(`[data-id="t1"] .trust`, "watermark Jan 30 10:3")
	b.sees(`[data-id="t1"] .trust`, "that of the newest row")
	b.sees(`[data-id="t2"] .values`, "EWR 8 people provisional")
	b.sees("#sources", "a topic: its newest generation is shown")
	b.shoot(filepath.Join(images(t), "dashboard-topic.png"))
	stop()

	// The job of another generation: it counts as soon as its first row is there.
	_, stop = command(t, dir, bin, "run", "board.sql", "--define", "K="+address, "--define", "GEN=g2", "--fresh")
	b.sees(`[data-id="t1"] .trust`, "generation g2, the newest of the topic")
	b.sees(`[data-id="t3"] .trust`, "generation live")
	b.sees(`[data-id="t1"] .big`, "19 people")
	stop()
	b.quiet(home)

	// Brokers go: the page says so.
	cluster.Close()
	within(t, 30*time.Second, "the page says that nobody answers", func() bool {
		return strings.Contains(b.text(`[data-id="t1"] .tile-error`), "no broker answers")
	})
	b.sees(`[data-id="t1"] .big`, "19 people")
}
