package kill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// Results that are corrected: windows that show what they have with every batch, each time as a revision, are
// killed on their way into ClickHouse. What must come out: of each cell revisions without gaps, each with one
// content, and the newest is what the rows say.

const boardColumns = `
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), k STRING, n BIGINT, total BIGINT, newest BIGINT,
  revision BIGINT METADATA, generation STRING METADATA, as_of TIMESTAMP_LTZ(3) METADATA FROM 'watermark', is_final BOOLEAN METADATA, is_deleted BOOLEAN METADATA,
  emit_reason STRING METADATA, input_count BIGINT METADATA, cause STRING METADATA,
  PRIMARY KEY (window_start, k) NOT ENFORCED`

const boardInsert = `
INSERT INTO board SELECT /*+ EMIT('early-fire' = '0 s', 'allowed-lateness' = '2 s') */ window_start, window_end, k, COUNT(*), SUM(price), MAX(id)
FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, k;
`

const boardInHouse = `
CREATE TABLE board (` + boardColumns + `) WITH ('connector' = 'clickhouse', 'url' = '${CH}', 'table-name' = '${OUT}', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.buffer-flush.max-rows' = '100', 'connection.max-retry-timeout' = '10 s');
`

const filesToBoard = `
SET 'pipeline.name' = '${OUT}';
SET 'execution.checkpointing.interval' = '200 ms';
SET 'execution.checkpointing.dir' = '${CHECKPOINTS}';
SET 'restart-strategy.exponential-delay.initial-backoff' = '200 ms';
CREATE TABLE src (id BIGINT, k STRING, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH (
  'connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json' ${WATCH});
` + boardInHouse + boardInsert

// kafkaToTopic publishes the revisions in the transactions of checkpoints, and each row, to know how far it is.
const kafkaToTopic = head + `
CREATE TABLE copies_k ` + copyColumns + ` WITH ('connector' = 'kafka', 'topic' = '${OUT}-copies', 'properties.bootstrap.servers' = '${KAFKA}',
  'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '${OUT}-copies');
CREATE TABLE board (` + boardColumns + `) WITH ('connector' = 'kafka', 'topic' = '${OUT}-board', 'properties.bootstrap.servers' = '${KAFKA}',
  'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '${OUT}-board');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO copies_k ` + copyRows + `;
` + boardInsert + `
END;
`

// topicToHouse reads what is committed of them, and appends it, at least once, as it is.
const topicToHouse = `
SET 'execution.checkpointing.interval' = '200 ms';
SET 'execution.checkpointing.dir' = '${CHECKPOINTS}';
SET 'restart-strategy.exponential-delay.initial-backoff' = '200 ms';
CREATE TABLE revisions (window_start TIMESTAMP(3), window_end TIMESTAMP(3), k STRING, n BIGINT, total BIGINT, newest BIGINT, revision BIGINT, generation STRING,
  as_of TIMESTAMP_LTZ(3), is_final BOOLEAN, is_deleted BOOLEAN, emit_reason STRING, input_count BIGINT, cause STRING) WITH (
  'connector' = 'kafka', 'topic' = '${OUT}-board', 'properties.bootstrap.servers' = '${KAFKA}', 'format' = 'json', 'properties.group.id' = '${OUT}-consumer',
  'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE target (window_start TIMESTAMP(3), window_end TIMESTAMP(3), k STRING, n BIGINT, total BIGINT, newest BIGINT, revision BIGINT, generation STRING,
  as_of TIMESTAMP_LTZ(3), is_final BOOLEAN, is_deleted BOOLEAN, emit_reason STRING, input_count BIGINT, cause STRING) WITH (
  'connector' = 'clickhouse', 'url' = '${CH}', 'table-name' = '${OUT}', 'sink.delivery-guarantee' = 'at-least-once',
  'sink.buffer-flush.max-rows' = '200', 'sink.buffer-flush.interval' = '50 ms', 'connection.max-retry-timeout' = '10 s');
INSERT INTO target SELECT * FROM revisions;
`

// command runs another command of the program on the rig's script.
func (r *rig) command(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for k, v := range r.defines {
		args = append(args, "--define", k+"="+v)
	}
	for try := 0; ; try++ {
		out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
		switch {
		case err == nil:
			return string(out)
		case try < 20 && ctx.Err() == nil && excused(string(out)):
			time.Sleep(time.Second)
		default:
			t.Fatalf("tidemark %s: %v\n%s", strings.Join(args[:min(4, len(args))], " "), err, peers.Tail(string(out)))
		}
	}
}

// makeBoard makes the table and its companions, as `tidemark ddl` prints them.
func (r *rig) makeBoard(t testing.TB) {
	t.Helper()
	for _, s := range strings.Split(r.command(t, "ddl", "clickhouse", r.script), ";\n") {
		var lines []string
		for l := range strings.Lines(s) {
			if !strings.HasPrefix(l, "--") {
				lines = append(lines, l)
			}
		}
		if s := strings.TrimSpace(strings.Join(lines, "")); s != "" {
			ask(t, s)
		}
	}
}

// standing is what is in the target at a moment, and how far its source was read.
type standing struct {
	Kill      int              `json:"kill"`
	Phase     string           `json:"phase,omitempty"`
	Source    map[string]int64 `json:"source"`
	Rows      int64            `json:"rows"`      // of the table, repeats included
	Revisions int64            `json:"revisions"` // distinct (key, generation, revision)
	Cells     int64            `json:"cells"`     // distinct keys
	Conflicts int64            `json:"conflicts"` // equal revisions with different content
	Gaps      int64            `json:"gaps"`      // cells whose revisions are not 1, 2, 3 ...
	N         int64            `json:"sum_n"`     // over the newest revisions
	Total     int64            `json:"sum_total"`
	Progress  int64            `json:"progress_checkpoint"`
}

func (r *rig) standing(t testing.TB, source map[string]int64) standing {
	t.Helper()
	s := standing{Source: source}
	one := strings.Fields(ask(t, strings.ReplaceAll(`SELECT count(), uniqExact(window_start, k, generation, revision), uniqExact(window_start, k),
		(SELECT count() FROM OUT_conflicts), (SELECT count() FROM (SELECT max(revision) - uniqExact(revision) AS gap FROM OUT GROUP BY window_start, k, generation HAVING gap > 0)),
		(SELECT sum(n) FROM OUT_latest), (SELECT sum(total) FROM OUT_latest), (SELECT max(checkpoint) FROM OUT_progress) FROM OUT`, "OUT", r.defines["OUT"]))[0])
	for i, to := range []*int64{&s.Rows, &s.Revisions, &s.Cells, &s.Conflicts, &s.Gaps, &s.N, &s.Total, &s.Progress} {
		*to, _ = strconv.ParseInt(one[i], 10, 64)
	}
	return s
}

// evidence writes down how the target stood after each kill, and looks that nothing went wrong on the way.
type evidence struct {
	r    *rig
	all  []standing
	last standing
}

func (e *evidence) note(t testing.TB, kill int, phase string, source map[string]int64) {
	t.Helper()
	s := e.r.standing(t, source)
	s.Kill, s.Phase = kill, phase
	e.all = append(e.all, s)
	if s.Conflicts > 0 || s.Gaps > 0 {
		t.Errorf("after kill %d: %d conflicts, %d cells with gaps", kill, s.Conflicts, s.Gaps)
	}
	if s.N < e.last.N || s.Cells < e.last.Cells || s.Revisions < e.last.Revisions {
		t.Errorf("after kill %d something is gone: %+v, before %+v", kill, s, e.last)
	}
	e.last = s
}

// save writes the file: a line a kill. It stays where TIDEMARK_EVIDENCE names a folder.
func (e *evidence) save(t testing.TB) {
	t.Helper()
	dir := os.Getenv("TIDEMARK_EVIDENCE")
	if dir == "" {
		dir = t.TempDir()
	}
	var b strings.Builder
	for _, s := range e.all {
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	file := filepath.Join(dir, e.r.name+".jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("evidence: %s, %d lines; the last one: %+v", file, len(e.all), e.last)
}

// batch computes the cells of rows 0..n-1 without any engine.
func batch(n int) []string {
	type key struct{ w, k string }
	type cell struct{ n, total, newest int }
	cells := map[key]*cell{}
	for i := range n {
		var row struct {
			ID, Price int
			K, TS     string
		}
		if err := json.Unmarshal([]byte(order(i)), &row); err != nil {
			panic(err)
		}
		at := key{row.TS[:19], row.K}
		c := cells[at]
		if c == nil {
			c = &cell{}
			cells[at] = c
		}
		c.n, c.total, c.newest = c.n+1, c.total+row.Price, max(c.newest, row.ID)
	}
	var out []string
	for at, c := range cells {
		out = append(out, fmt.Sprintf("%s.000\t%s\t%d\t%d\t%d", at.w, at.k, c.n, c.total, c.newest))
	}
	return out
}

// right compares what readers see with batch, before and after a merge.
func (r *rig) right(t testing.TB, n int) {
	t.Helper()
	out := r.defines["OUT"]
	want := batch(n)
	for range 2 {
		same(t, "the newest revisions", ask(t, "SELECT window_start, k, n, total, newest FROM "+out+"_latest"), want)
		ask(t, "OPTIMIZE TABLE "+out+" FINAL")
	}
	if got := ask(t, "SELECT count() = uniqExact(window_start, k, generation, revision) FROM "+out)[0]; got != "1" {
		t.Error("after a merge a revision is there twice")
	}
}

// watch polls the view while all goes on: no window may vanish, and none of a range that is promoted as a
// whole may be of another generation than the rest of it.
func watch(t testing.TB, table, from, to string) (looks *atomic.Int64, stop func()) {
	looks = &atomic.Int64{}
	var wg sync.WaitGroup
	end := make(chan struct{})
	wg.Go(func() {
		windows := 0
		for {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			lines, err := asked(fmt.Sprintf("SELECT uniqExact(window_start), uniqExactIf(generation, window_start >= '%s' AND window_start < '%s') FROM %s_latest", from, to, table))
			if err != nil {
				t.Errorf("a reader: %v", err)
				return
			}
			got := strings.Fields(lines[0])
			n, _ := strconv.Atoi(got[0])
			if n < windows {
				t.Errorf("a reader has seen %d windows, and then %d", windows, n)
			}
			if got[1] != "0" && got[1] != "1" {
				t.Errorf("a reader sees %s generations in windows that are promoted together", got[1])
			}
			windows = n
			looks.Add(1)
		}
	})
	return looks, sync.OnceFunc(func() { close(end); wg.Wait() })
}

// resultKills is how often the tests of results kill: windows must be over before they can be promoted.
func resultKills() int { return max(kills, 30) }

// TestResults kills a job that writes revisions into ClickHouse as checkpoints complete, through a proxy that
// cuts inserts and loses answers, while the server crashes, parts are merged, readers look, and a backfill
// is made, compared, promoted and taken back.
func TestResults(t *testing.T) {
	house.Need(t, "clickhouse")
	t.Cleanup(func() { house.Wipe() })
	from, kills := time.Now(), resultKills()
	const name = "board"
	proxy := newLossy(t, 7)
	in := t.TempDir()
	defines := map[string]string{"IN": in, "OUT": name, "CH": proxy.url(), "WATCH": ", 'source.monitor-interval' = '100 ms'"}
	r := newRig(t, name, filesToBoard, defines)
	r.commits = []string{"commit/clickhouse-begun", "commit/clickhouse-inserted", "commit/clickhouse-progress", "commit/clickhouse-noted", "commit/clickhouse-inserted", "commit/untold"}
	starts, _ := house.Starts("clickhouse")
	r.makeBoard(t)
	var fed atomic.Int64
	f := feedEvery(500, 500*time.Millisecond, feedInto(in, &fed))
	const promotedFrom, promotedTo = "2024-01-01 00:00:02", "2024-01-01 00:00:05"
	looks, stop := watch(t, name, promotedFrom, promotedTo)
	defer stop()
	e := &evidence{r: r}
	admin := func(args ...string) { t.Log(strings.TrimSpace(r.command(t, args...))) }
	ranged := []string{"--from", promotedFrom, "--to", promotedTo}
	r.killOften(t, kills, func(done int) {
		e.note(t, done, "", map[string]int64{"rows": fed.Load()})
		switch {
		case done%15 == 10:
			crash(done / 15)
		case done%5 == 3:
			ask(t, "OPTIMIZE TABLE "+name+" FINAL")
		}
		switch done {
		case kills / 2:
			// The windows are complete by now, unless the machine is slow.
			for more := 0; more < 100 && ask(t, "SELECT max(watermark) >= toDateTime64('"+promotedTo+"', 3, 'UTC') + INTERVAL 2 SECOND FROM "+name+"_progress")[0] != "1"; more++ {
				r.kill(t, "manifest", 5)
			}
			admin(append([]string{"backfill", r.script, "--generation", "g2", "--quiet"}, ranged...)...)
			admin(append([]string{"reconcile", r.script, "g2"}, ranged...)...)
			admin(append([]string{"promote", r.script, "g2"}, ranged...)...)
		case kills * 3 / 4:
			admin("promote", r.script, "--back")
			admin("promote", r.script, "g2", "--from", promotedFrom, "--to", promotedTo)
		}
	})
	n := f.end(t)
	r.finish(t, n, func() int { return r.sum(t) })
	e.note(t, kills, "the end", map[string]int64{"rows": int64(n)})
	r.tell(t)
	e.save(t)
	r.right(t, n)
	if got := ask(t, "SELECT generation, count() > 0 FROM "+name+"_latest GROUP BY generation ORDER BY generation"); !slices.Equal(got, []string{"g2\t1", "live\t1"}) {
		t.Errorf("generations shown: %q", got)
	}
	admin("promote", r.script, "--back")
	admin("prune", r.script, "--grace", "0s", "--before", "2030-01-01")
	r.right(t, n)
	if got := ask(t, "SELECT count() - uniqExact(window_start, k), uniqExact(generation) FROM "+name)[0]; got != "0\t1" {
		t.Errorf("after prune there are more revisions, or generations, than needed: %q", got)
	}
	stop()
	started, _ := house.Starts("clickhouse")
	t.Logf("%d rows in, %d kills, %d inserts were cut, of %d the answer was lost, the server was started %d times, readers looked %d times; %.0f s",
		n, kills, proxy.halves.Load(), proxy.unheard.Load(), started-starts, looks.Load(), time.Since(from).Seconds())
	if proxy.halves.Load() == 0 || proxy.unheard.Load() == 0 || looks.Load() < 10 {
		t.Error("no insert was cut, no answer was lost or nobody looked: nothing was proven")
	}
}

// sum adds up the rows that are in the newest revisions.
func (r *rig) sum(t testing.TB) int {
	n, _ := strconv.Atoi(ask(t, "SELECT sum(n) FROM "+r.defines["OUT"]+"_latest")[0])
	return n
}

// feedInto writes files of rows, which appear whole, and says how many there are.
func feedInto(dir string, fed *atomic.Int64) func(from, to int) error {
	return func(from, to int) error {
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
		fed.Store(int64(to))
		return os.Rename(aside, filepath.Join(dir, name))
	}
}

// TestResultTopic publishes revisions in transactions of Kafka, and kills both the job that makes them and,
// much more often, the one that takes them on into ClickHouse: above all between its inserts and the commit
// of its offsets. It inserts at least once, so rows come again, and change nothing.
func TestResultTopic(t *testing.T) {
	servers.Need(t, "kafka")
	house.Need(t, "clickhouse")
	t.Cleanup(func() { house.Wipe() })
	from, kills := time.Now(), resultKills()
	const name = "topic"
	in := name + "_in"
	newTopics(t, 2, in, name+"-copies", name+"-board")
	proxy := newLossy(t, 7)
	maker := newRig(t, name+"-maker", kafkaToTopic, map[string]string{"IN": in, "OUT": name, "KAFKA": kafka, "UNTIL": "unbounded"})
	maker.commits = []string{"commit/kafka-sent", "commit/kafka-marked", "commit/kafka-ended", "commit/untold"}
	taker := newRig(t, name+"-taker", topicToHouse, map[string]string{"OUT": name, "KAFKA": kafka, "CH": proxy.url()})
	newRig(t, name+"-ddl", filesToBoard, map[string]string{"IN": in, "OUT": name, "CH": "http://127.0.0.1:" + clickhousePort + "/test", "WATCH": ""}).makeBoard(t)
	f := feedTopic(t, in, 300)
	maker.kill(t, "manifest", 2)
	taker.kill(t, "manifest", 1)
	e, makers := &evidence{r: taker}, 1
	// Inserts are done at the cut; offsets are committed after the manifest.
	places := []string{"cut/taken", "sealed", "manifest/saved", "manifest/uncommitted", "anywhere", "restore"}
	for i := range kills {
		if i%2 == 1 {
			place := phases[i/2%len(phases)]
			if place.name == "commit" {
				place.name = maker.commits[i/12%len(maker.commits)]
			}
			makers++
			maker.kill(t, place.name, 1+maker.rand.IntN(place.upTo))
		}
		place, upTo := places[i%len(places)], 4
		switch place {
		case "anywhere":
			upTo = 1500
		case "restore":
			upTo = 2
		}
		taker.kill(t, place, 1+taker.rand.IntN(upTo))
		e.note(t, i, place, groupOffsets(t, name+"-consumer", name+"-board"))
		if i%7 == 3 {
			ask(t, "OPTIMIZE TABLE "+name+" FINAL")
		}
		if i%25 == 12 {
			crash(i / 25)
		}
	}
	n := f.end(t)
	maker.finish(t, n, func() int { return committed(t, name+"-copies") })
	taker.finish(t, n, func() int { return taker.sum(t) })
	e.note(t, kills, "the end", groupOffsets(t, name+"-consumer", name+"-board"))
	maker.tell(t)
	taker.tell(t)
	e.save(t)
	published := committed(t, name+"-board")
	repeated := int64(0)
	for _, s := range e.all {
		repeated = max(repeated, s.Rows-s.Revisions)
	}
	if e.last.Revisions != int64(published) {
		t.Errorf("%d revisions were published, and %d are there", published, e.last.Revisions)
	}
	taker.right(t, n)
	t.Logf("%d rows in, %d revisions published, %d kills of the consumer and %d of the producer; at most %d rows were there again; %.0f s",
		n, published, kills+1, makers, repeated, time.Since(from).Seconds())
	switch {
	case repeated > 0:
	case kills < 100:
		t.Log("no row ever came again, which takes luck with so few kills")
	default:
		t.Error("no row ever came again: nothing was proven")
	}
}

// groupOffsets are the offsets that a group has committed, by topic and partition.
func groupOffsets(t testing.TB, group, topic string) map[string]int64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var got kadm.OffsetResponses
	again(t, "kafka", func() (err error) {
		got, err = kadm.NewClient(cl).FetchOffsetsForTopics(t.Context(), group, topic)
		return err
	})
	out := map[string]int64{}
	got.Each(func(o kadm.OffsetResponse) { out[fmt.Sprintf("%s-%d", o.Topic, o.Partition)] = o.At })
	return out
}
