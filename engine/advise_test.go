package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/job"
)

// TestAdvise compares the curve with a count by hand: times in seconds, windows of ten.
func TestAdvise(t *testing.T) {
	const script = `CREATE TABLE t (s BIGINT, ts AS TO_TIMESTAMP_LTZ(s * 1000, 3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH (
  'connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json');
CREATE TABLE counts (e TIMESTAMP_LTZ(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;`
	dir := t.TempDir()
	// 9 comes when 12 was seen: its window is over once the watermark is 9.999, so a delay up to 2.001 s
	// drops it. 4 comes when 31 was seen: 21.001 s. 29 is behind 31, but its window is over at 29.999: 1.001 s.
	in := `{"s":1}
{"s":12}
{"s":9}
{"s":31}
{"s":29}
{"s":4}
{"s":35}
`
	if err := os.WriteFile(filepath.Join(dir, "in.json"), []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := New(Options{Dir: dir}).Advise(context.Background(), "t.sql", script, AdviseOptions{Rows: 100, Share: 0.15})
	if err != nil {
		t.Fatal(err)
	}
	a := all[0]
	if len(all) != 1 || a.Rows != 7 || a.Now != 3000 || a.None != 21_002 || a.Disorder != 27_000 || !a.Ended || len(a.Windows) != 1 {
		t.Errorf("got %+v", a)
	}
	want := map[int64][2]int64{0: {3, 3}, 1000: {3, 3}, 2000: {2, 2}, 3000: {1, 1}, 10_000: {1, 1}, 21_002: {1, 0}} // behind, late
	for _, p := range a.Curve {
		if w, ok := want[p.Delay]; ok && w != [2]int64{p.Behind, p.Late} {
			t.Errorf("delay %d: %d behind and %d late, want %v", p.Delay, p.Behind, p.Late, w)
		}
	}
	if a.Recommended.Delay != 3000 {
		t.Errorf("recommended %+v", a.Recommended)
	}
	// A sample ends early.
	all, err = New(Options{Dir: dir}).Advise(context.Background(), "t.sql", script, AdviseOptions{Rows: 3, Share: 0.15})
	if err != nil || all[0].Rows != 3 || all[0].Ended {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err = New(Options{Dir: dir}).Advise(context.Background(), "t.sql", script, AdviseOptions{Rows: 3, Table: "u"}); err == nil || !strings.Contains(err.Error(), "no table u") {
		t.Errorf("got %v", err)
	}
}

// TestAdvise_Zone has windows of days that begin at midnight in New York, and of hours in India, also such as come from a
// window function with a filter behind it.
func TestAdvise_Zone(t *testing.T) {
	in := `{"k":"a","ts":"2024-07-01T20:00:00Z"}
{"k":"a","ts":"2024-07-02T03:00:00Z"}
{"k":"a","ts":"2024-07-01T23:00:00Z"}
{"k":"a","ts":"2024-07-02T05:00:00Z"}
{"k":"a","ts":"2024-07-02T03:30:00Z"}
`
	for _, c := range []struct {
		zone, window string
		want         int64 // the least delay that keeps all rows
	}{
		// 23:00Z is of the same day in New York as what came before it. At 05:00Z the day, over at 04:00Z, has been for an hour.
		{"America/New_York", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' DAY)", 3_600_002},
		{"UTC", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' DAY)", 3*3_600_000 + 2},
		// 23:00Z is 4:30 in Kolkata: its hour was over at 23:30Z, and its last window of two hours at 0:30Z, when 03:00Z had come.
		{"Asia/Kolkata", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' HOUR)", 7*1_800_000 + 2},
		{"Asia/Kolkata", "HOP(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '2' HOUR)", 5*1_800_000 + 2},
		{"America/New_York", "CUMULATE(TABLE ev, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY)", 3_600_002},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "in.json"), []byte(in), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{"TABLE(" + c.window + ")", "(SELECT * FROM TABLE(" + c.window + ") WHERE window_start > TIMESTAMP '2000-01-01 00:00:00')"} {
			script := `SET 'table.local-time-zone' = '` + c.zone + `';
CREATE TABLE ev (k STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601');
CREATE TABLE o (k STRING, w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT k, window_start, COUNT(*) FROM ` + from + ` GROUP BY k, window_start, window_end;`
			all, err := New(Options{Dir: dir}).Advise(context.Background(), "t.sql", script, AdviseOptions{Rows: 100, Share: 0})
			if err != nil {
				t.Fatal(err)
			}
			if got := all[0].None; got != c.want || len(all[0].Windows) != 1 {
				t.Errorf("%s, %s: no row is late with %d ms, want %d; windows %v", c.zone, from, got, c.want, all[0].Windows)
			}
		}
	}
}

// TestAdvise_Entities counts what the windows get of entities: a new version takes back the row of the version before it,
// hours ago. As many rows are late as by a run with each delay, and none with the one that keeps all.
func TestAdvise_Entities(t *testing.T) {
	const script = `CREATE TABLE reports (id STRING, rev BIGINT, seen TIMESTAMP(3), due TIMESTAMP(3), WATERMARK FOR seen AS seen - INTERVAL '${DELAY}' SECOND(6),
  PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json', 'upsert.version-column' = 'rev');
CREATE TABLE counts (w TIMESTAMP(3), n BIGINT, PRIMARY KEY (w) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE reports, DESCRIPTOR(seen), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;`
	dir := t.TempDir()
	var in strings.Builder
	line := func(id string, rev int, at string) {
		fmt.Fprintf(&in, `{"id":%q,"rev":%d,"seen":"2024-01-01 %s"}`+"\n", id, rev, at)
	}
	line("a", 1, "00:05:00")
	line("b", 1, "01:00:00")
	line("a", 2, "02:30:00") // takes back the row of 00:05
	line("a", 2, "02:30:00") // a duplicate
	line("b", 0, "00:01:00") // stale
	line("c", 1, "02:05:00") // late by itself
	line("b", 2, "04:00:00") // takes back that of 01:00
	line("d", 1, "06:00:00")
	if err := os.WriteFile(filepath.Join(dir, "in.json"), []byte(in.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	define := func(delay int64) Options {
		return Options{Dir: dir, Define: map[string]string{"DELAY": fmt.Sprintf("%d.%03d", delay/1000, delay%1000)}}
	}
	late := func(delay int64) (n int64) {
		h := Handler{JobEnded: func(_ *Run, report *job.Report, _ error) { n = report.Late }}
		if err := New(define(delay)).Script(t.Context(), "t.sql", script, h); err != nil {
			t.Fatal(err)
		}
		return n
	}
	all, err := New(define(1000)).Advise(t.Context(), "t.sql", script, AdviseOptions{Rows: 100, Share: 0})
	if err != nil {
		t.Fatal(err)
	}
	a := all[0]
	if a.Rows != 8 || a.Into != 8 { // two are stale or a duplicate, and two are taken back
		t.Errorf("%d rows, %d into windows", a.Rows, a.Into)
	}
	for _, p := range a.Curve {
		if n := late(p.Delay); n != p.Late {
			t.Errorf("delay %d ms: %d late, and a run has %d", p.Delay, p.Late, n)
		}
	}
	if n := late(a.None - 1); a.None != 4_800_002 || n == 0 {
		t.Errorf("%d ms is said to be the least delay without late rows; with one less there are %d", a.None, n)
	}
}
