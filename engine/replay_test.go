package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/engine"
)

// replayRows writes rows (k, v, ts) to files of JSON lines, whose time goes on with some disorder.
func replayRows(t *testing.T, dir string, files, rows int, seed int64) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(seed))
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for f := range files {
		var b strings.Builder
		for i := range rows {
			ts := at.Add(time.Duration(i)*100*time.Millisecond - time.Duration(r.Intn(8000))*time.Millisecond)
			if r.Intn(50) == 0 {
				ts = ts.Add(-20 * time.Second)
			}
			fmt.Fprintf(&b, "{\"k\":%d,\"v\":%d,\"ts\":\"%s\"}\n", r.Intn(40), r.Intn(1000)-500, ts.Format("2006-01-02 15:04:05.000"))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.jsonl", f)), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const replayTables = `
SET 'execution.checkpointing.interval' = '10 ms';
SET 'execution.checkpointing.num-retained' = '1000';
SET 'parallelism.default' = '%d';
CREATE TABLE facts (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE rows_out (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
CREATE TABLE windows (k INT, ws TIMESTAMP(3), n BIGINT, s BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE counts (k INT, n BIGINT, s BIGINT, top INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE late_rows (k INT, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
CREATE TABLE board (shop STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, s BIGINT,
  rev BIGINT METADATA FROM 'revision', generation STRING METADATA, is_final BOOLEAN METADATA, is_deleted BOOLEAN METADATA,
  emit_reason STRING METADATA, PRIMARY KEY (shop, window_start, window_end) NOT ENFORCED) WITH ('connector' = 'kept', 'at' = '%s');
`

// replayShapes are statements by what their sinks are compared by.
var replayShapes = map[string]string{
	"rows":    "INSERT INTO rows_out SELECT k, v FROM facts WHERE v > 0;",
	"windows": "INSERT INTO windows SELECT k, window_start, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE facts, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;",
	"hops":    "INSERT INTO windows SELECT k, window_start, COUNT(*), SUM(v) FROM TABLE(HOP(TABLE facts, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY k, window_start, window_end;",
	"counts":  "INSERT INTO counts SELECT k, COUNT(*), SUM(v), MAX(v) FROM facts GROUP BY k;",
	"late": "INSERT INTO counts SELECT k, COUNT(*), SUM(n), CAST(MAX(s) AS INT) FROM (SELECT /*+ EMIT('allowed-lateness'='15 s', 'early-fire'='0 s') */ k, window_start, COUNT(*) AS n, SUM(v) AS s " +
		"FROM TABLE(TUMBLE(TABLE facts, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) GROUP BY k;",
	"board": `INSERT INTO board SELECT /*+ EMIT('allowed-lateness'='15 s', 'early-fire'='30 ms', 'late-fire'='20 ms', 'late-sink'='late_rows') */ CAST(k AS STRING),
  window_start, window_end, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE facts, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;`,
	"top":      "INSERT INTO counts SELECT k, n, s, top FROM (SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS top FROM facts GROUP BY k) ORDER BY s, k LIMIT 5 OFFSET 2;",
	"sessions": "INSERT INTO windows SELECT k, window_start, COUNT(*), SUM(v) FROM TABLE(SESSION(TABLE facts PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;",
	"joined":   "INSERT INTO counts SELECT a.k, COUNT(*), SUM(a.v), MAX(b.v) FROM (SELECT k, v FROM facts) AS a LEFT JOIN (SELECT k, v FROM facts WHERE v > 250) AS b ON a.k = b.k AND a.v = b.v GROUP BY a.k;",
	"set": "EXECUTE STATEMENT SET BEGIN INSERT INTO rows_out SELECT k, v FROM facts; " +
		"INSERT INTO counts SELECT k, COUNT(*), SUM(v), MAX(v) FROM facts GROUP BY k; END;",
}

func replayIDs(t *testing.T, e *engine.Engine) []int64 {
	t.Helper()
	list, err := e.Savepoints(t.Context(), "tidemark-checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, s := range list {
		if !s.Manifest.Savepoint {
			ids = append(ids, s.Manifest.ID)
		}
	}
	return ids
}

// endedUpserts reports whether a sink is not verified since the operator that its upserts come from had ended.
func endedUpserts(s *engine.ReplaySink) bool {
	return s.Verdict == engine.ReplayUnknown && s.Table == "counts" && (strings.Contains(s.Why[0], "which had come to its end") ||
		strings.Contains(s.Why[0], "TopN") && strings.Contains(s.Why[0], "has no readable form"))
}

func replayText(r []engine.ReplayReport) string {
	b, _ := json.MarshalIndent(r, "", " ")
	return string(b)
}

// TestReplay_EveryInterval computes all intervals between checkpoints of jobs again, most of them with rows on their
// way at both ends.
func TestReplay_EveryInterval(t *testing.T) {
	for name, insert := range replayShapes {
		for _, par := range []int{1, 3} {
			if par == 1 && name != "set" && name != "board" {
				continue // with one subtask nothing is ever on its way
			}
			t.Run(fmt.Sprintf("%s,parallelism=%d", name, par), func(t *testing.T) {
				dir := t.TempDir()
				replayRows(t, filepath.Join(dir, "in"), 3, 1500, 1)
				o := engine.Options{Dir: dir, BatchRows: 64, ReadRate: 40000}
				text := fmt.Sprintf(replayTables, par, t.Name()) + insert
				if err := engine.New(o).Script(t.Context(), "job.sql", text, engine.Handler{}); err != nil {
					t.Fatal(err)
				}
				e := engine.New(o)
				ids := replayIDs(t, e)
				if len(ids) < 3 {
					t.Skipf("the machine was too busy or too fast: %d checkpoints", len(ids))
				}
				flying := int64(0)
				for i := 1; i < len(ids); i++ {
					r, err := e.Replay(context.Background(), "job.sql", text, engine.ReplayOptions{From: fmt.Sprint(ids[i-1]), To: fmt.Sprint(ids[i]), Limit: 20}, engine.Handler{})
					if err != nil {
						t.Fatalf("%d to %d: %v", ids[i-1], ids[i], err)
					}
					for _, s := range r[0].Sinks {
						flying += s.InFlight
						if s.Verdict != engine.ReplayEqual && !endedUpserts(&s) {
							t.Fatalf("%d to %d of %v: %s", ids[i-1], ids[i], ids, replayText(r))
						}
					}
				}
				t.Logf("%d intervals, %d rows in flight", len(ids)-1, flying)
			})
		}
	}
}

// replayed runs the statement and returns an engine and two of the checkpoints in the middle.
func replayed(t *testing.T, par int, insert string) (e *engine.Engine, dir, text string, ids []int64) {
	t.Helper()
	dir = t.TempDir()
	replayRows(t, filepath.Join(dir, "in"), 2, 6000, 1)
	o := engine.Options{Dir: dir, BatchRows: 64, ReadRate: 30000}
	text = fmt.Sprintf(replayTables, par, t.Name()) + insert
	if err := engine.New(o).Script(t.Context(), "job.sql", text, engine.Handler{}); err != nil {
		t.Fatal(err)
	}
	e = engine.New(o)
	all := replayIDs(t, e)
	if len(all) < 6 {
		t.Skipf("the machine was too busy: %d checkpoints", len(all))
	}
	return e, dir, text, all[len(all)/2-2 : len(all)/2+2]
}

func verify(e *engine.Engine, text string, from, to any) ([]engine.ReplayReport, error) {
	return e.Replay(context.Background(), "job.sql", text, engine.ReplayOptions{From: fmt.Sprint(from), To: fmt.Sprint(to), Limit: 20}, engine.Handler{})
}

// between finds a row of a file that was read between two checkpoints: where it begins and ends.
func between(t *testing.T, e *engine.Engine, dir string, from, to int64) (path string, begin, end int) {
	t.Helper()
	list, err := e.Savepoints(t.Context(), "tidemark-checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	at := map[int64]map[string]int64{}
	for _, s := range list {
		at[s.Manifest.ID] = map[string]int64{}
		for _, sp := range s.Manifest.Sources[0].Splits {
			at[s.Manifest.ID][sp.ID] = sp.Offset
		}
	}
	for id, hi := range at[to] {
		lo := at[from][id]
		if hi <= lo {
			continue
		}
		path = filepath.Join(dir, "in", filepath.Base(id))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, int(lo), int(lo) + bytes.IndexByte(b[lo:], '\n')
	}
	t.Fatal("nothing was read between the checkpoints")
	return "", 0, 0
}

// TestReplay_FindsWhatChanged changes the input, the script and the state, and wants that to be told where it shows.
func TestReplay_FindsWhatChanged(t *testing.T) {
	for _, par := range []int{1, 3} {
		e, dir, text, ids := replayed(t, par, replayShapes["set"])
		from, to := ids[0], ids[2]
		verdicts := func(what string, r []engine.ReplayReport, err error, want ...engine.ReplayVerdict) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for i, s := range r[0].Sinks {
				if s.Verdict != want[i] {
					t.Errorf("parallelism %d, %s: table %s %s, want %s: %s", par, what, s.Table, s.Verdict, want[i], replayText(r))
				}
			}
			if r[0].Differs() != slices.Contains(want, engine.ReplayDiffers) {
				t.Errorf("%s: Differs is %v", what, r[0].Differs())
			}
		}
		r, err := verify(e, text, from, to)
		verdicts("nothing changed, over a checkpoint between", r, err, engine.ReplayEqual, engine.ReplayEqual)

		r, err = verify(e, strings.Replace(text, "SELECT k, v FROM facts;", "SELECT k, v + 1 FROM facts;", 1), from, to)
		verdicts("a column computed otherwise", r, err, engine.ReplayDiffers, engine.ReplayEqual)

		s, err := e.OpenSavepoint(t.Context(), fmt.Sprintf("tidemark-checkpoints/job.sql/checkpoints/%010d", from))
		if err != nil {
			t.Fatal(err)
		}
		all := s.Manifest.Operators
		o := &all[slices.IndexFunc(all, func(o checkpoint.Operator) bool { return len(o.States) > 0 })]
		_, place, err := e.Write(t.Context(), s, engine.Edit{Operator: o, Set: map[string]string{"row_count": "row_count + 1"}, Where: "k = 3"}, filepath.Join(dir, "edited"))
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		r, err = verify(e, text, place, to)
		verdicts("a count edited", r, err, engine.ReplayEqual, engine.ReplayDiffers)
		if len(r[0].Sinks[1].Changes) != 1 || r[0].Sinks[1].Changes[0].Key["k"] != "3" {
			t.Errorf("a count edited: %s", replayText(r))
		}

		path, begin, end := between(t, e, dir, from, to)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		change := func(b []byte) {
			t.Helper()
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		other := slices.Clone(whole)
		v := begin + bytes.Index(other[begin:end], []byte(`"v":`))
		digit := v + bytes.IndexByte(other[v:end], ',') - 1
		if other[digit]++; other[digit] > '9' {
			other[digit] = '8'
		}
		change(other)
		r, err = verify(e, text, from, to)
		verdicts("a record changed", r, err, engine.ReplayDiffers, engine.ReplayDiffers)

		change(whole[:begin])
		if _, err = verify(e, text, from, to); err == nil || !strings.Contains(err.Error(), "its data have changed or are gone") {
			t.Errorf("the file is shorter: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err = verify(e, text, from, to); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("the file is gone: %v", err)
		}
	}
}

// TestReplay_Refuses tells what there is to do where no interval can be computed again.
func TestReplay_Refuses(t *testing.T) {
	dir := t.TempDir()
	replayRows(t, filepath.Join(dir, "in"), 1, 100, 1)
	e := engine.New(engine.Options{Dir: dir})
	text := strings.Replace(fmt.Sprintf(replayTables, 1, t.Name()), "'1000'", "'1'", 1) + replayShapes["rows"]
	want := func(what, text, from, to, message string) {
		t.Helper()
		_, err := e.Replay(t.Context(), "job.sql", text, engine.ReplayOptions{From: from, To: to}, engine.Handler{})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", what, err)
		}
	}
	want("no run yet", text, "", "", "it has no checkpoint in")
	want("a SELECT", "SELECT 1;", "", "", "no job of the script takes checkpoints")
	if err := e.Script(t.Context(), "job.sql", text, engine.Handler{}); err != nil {
		t.Fatal(err)
	}
	want("one kept", text, "", "", "SET 'execution.checkpointing.num-retained' = '2'")
	want("another number", text, "", "7777", "there is no checkpoint 7777; those that are kept are")
}

// TestReplay_TellsCells computes with a script that shows some cells of a table of results otherwise.
func TestReplay_TellsCells(t *testing.T) {
	e, _, text, ids := replayed(t, 1, replayShapes["board"])
	changed := strings.Replace(text, "COUNT(*), SUM(v) FROM TABLE(TUMBLE", "COUNT(*), SUM(v) + CASE WHEN k = 7 THEN 1 ELSE 0 END FROM TABLE(TUMBLE", 1)
	r, err := verify(e, changed, ids[0], ids[3])
	if err != nil || !r[0].Differs() || len(r[0].Notes) == 0 {
		t.Fatalf("a changed script: %v, %s", err, replayText(r))
	}
	for _, s := range r[0].Sinks {
		if (s.Table == "board") != (s.Verdict == engine.ReplayDiffers) || (s.Table == "board") != (len(s.Changes) > 0) {
			t.Errorf("a changed script: table %s %s: %s", s.Table, s.Verdict, replayText(r))
		}
		for _, c := range s.Changes {
			// How often a cell was shown depends on the clock: it is compared with the revision of the nearest number.
			if c.Key["shop"] != "7" || c.Old["s"] == c.New["s"] {
				t.Errorf("a changed script: %+v", c)
			}
		}
	}
	if r, err = verify(e, text, ids[0], ids[3]); err != nil || r[0].Differs() {
		t.Errorf("the same script: %v, %s", err, replayText(r))
	}
}
