package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fateOf asks for the records with the values of key, "COLUMN=VALUE ...", or one at "SPLIT@POSITION", and writes the
// answers: a line a record and job, "OUTCOME: reason | operator KIND outcome window lateness,...".
func fateOf(t *testing.T, script, in, key string) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.json"), []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	q := RecordQuestion{Table: "ev", Values: map[string]string{}, Limit: 10}
	if split, pos, ok := strings.Cut(key, "@"); ok {
		q.Split = filepath.Join(dir, split)
		if _, err := fmt.Sscan(pos, &q.Position); err != nil {
			t.Fatal(err)
		}
	} else {
		for _, pair := range strings.Fields(key) {
			k, v, _ := strings.Cut(pair, "=")
			q.Values[k] = v
		}
	}
	found, err := New(Options{Dir: dir}).WhyRecord(context.Background(), "t.sql", script, q)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range found {
		for _, f := range a.Jobs {
			line := string(f.Outcome)
			if f.Reason != "" {
				line += ": " + f.Reason
			}
			for _, s := range f.Steps {
				line += fmt.Sprintf(" | %s %s %s", strings.SplitN(s.Operator, "(", 2)[0], s.RowKind, s.Outcome)
				if s.Reason != "" {
					line += ": " + s.Reason
				}
				for _, w := range s.Windows {
					line += fmt.Sprintf(" [%s, %s) %d keep %d", FormatTime(w.Start)[5:16], FormatTime(w.End)[5:16], w.LateBy, w.Keep)
				}
			}
			out = append(out, line)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "dead")); err == nil {
		t.Error("the question has written dead letters")
	}
	return out
}

// TestWhyRecord_Zone asks for rows of windows in local time, at which the operators looked as well.
func TestWhyRecord_Zone(t *testing.T) {
	const in = `{"k":"a","v":1,"ts":"2024-07-01T20:00:00Z"}
{"k":"a","v":2,"ts":"2024-07-02T03:00:00Z"}
{"k":"a","v":3,"ts":"2024-07-01T23:00:00Z"}
{"k":"a","v":4,"ts":"2024-07-02T05:00:00Z"}
{"k":"a","v":5,"ts":"2024-07-02T03:30:00Z"}
{"k":"a","v":6,"ts":"2024-11-03T07:30:00Z"}
{"k":"a","v":7,"ts":"2024-11-03T06:59:59Z"}
{"k":"a","v":8,"ts":"2024-11-03T05:10:00Z"}
`
	for _, c := range []struct{ zone, window, key, want string }{
		{"America/New_York", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' DAY)", "v=3", "in time [07-01 00:00, 07-02 00:00) -1 keep 0"},
		{"America/New_York", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' DAY)", "v=5", "late [07-01 00:00, 07-02 00:00) 3599001 keep 3600002"},
		{"UTC", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' DAY)", "v=3", "late [07-01 00:00, 07-02 00:00) 10799001 keep 10800002"},
		{"UTC", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' DAY)", "v=5", "in time [07-02 00:00, 07-03 00:00) -1 keep 0"},
		{"Asia/Kolkata", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' HOUR)", "v=3", "late [07-02 04:00, 07-02 05:00) 12599001 keep 12600002"},
		{"Asia/Kolkata", "HOP(TABLE ev, DESCRIPTOR(ts), INTERVAL '2' HOUR, INTERVAL '4' HOUR)", "v=3",
			"late [07-02 02:00, 07-02 06:00) 8999001 keep 9000002 [07-02 04:00, 07-02 08:00) 1799001 keep 1800002"},
		{"America/New_York", "CUMULATE(TABLE ev, DESCRIPTOR(ts), INTERVAL '12' HOUR, INTERVAL '1' DAY)", "v=2", "in time [07-01 00:00, 07-02 00:00) -1 keep 0"},
		{"America/New_York", "CUMULATE(TABLE ev, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY)", "v=5", "late [07-01 00:00, 07-02 00:00) 3599001 keep 3600002"},
		// The hour from 1 to 2 comes twice and is over at 7:00Z.
		{"America/New_York", "TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' HOUR)", "v=7", "late [11-03 01:00, 11-03 02:00) 1799001 keep 1800002"},
		{"America/New_York", "HOP(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '3' HOUR)", "v=8",
			"partly late [11-02 23:00, 11-03 02:00) 1799001 keep 1800002 [11-03 00:00, 11-03 03:00) -1 keep 0 [11-03 01:00, 11-03 04:00) -1 keep 0"},
	} {
		script := `SET 'table.local-time-zone' = '` + c.zone + `';
CREATE TABLE ev (k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH (
  'connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601');
CREATE TABLE o (k STRING, w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT k, window_start, COUNT(*) FROM TABLE(` + c.window + `) GROUP BY k, window_start, window_end;`
		got := fateOf(t, script, in, c.key)
		if len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s, %s, %s:\n got %q\nwant %q", c.zone, c.window, c.key, got, c.want)
		}
	}
}

// TestWhyRecord_Fates asks for records that jobs did all kinds of things with.
func TestWhyRecord_Fates(t *testing.T) {
	const table = `CREATE TABLE ev (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json' OPTIONS);
CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE late (k STRING, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
`
	const dead = ", 'dead-letter.path' = 'dead'"
	const hours = "INSERT INTO o SELECT HINT k, SUM(v) FROM TABLE(TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' HOUR)) WHERE k <> 'z' GROUP BY k, window_start, window_end;"
	const entities = `CREATE TABLE ev (k STRING, v INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = 'in.json',
  'format' = 'json', 'upsert.version-column' = 'v', 'upsert.horizon' = '1 d'` + dead + `);
CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT /*+ EMIT('allowed-lateness' = '2 h') */ s, COUNT(*) FROM TABLE(TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY s, window_start, window_end;`
	bad := `{"k":"x","v":"bad","ts":"2024-01-01 00:00:00"}
{"k":"y","v":1,"ts":null}
{"k":"z","v":2,"ts":"2024-01-01 00:00:00"}
{"k":"a","v":3,"ts":"2024-01-01 03:00:00"}
{"k":"b","v":4,"ts":"2024-01-01 01:30:00"}
{"k":"c","v":5,"ts":"2024-01-01 03:30:00"}
`
	versions := `{"k":"a","v":1,"s":"m","ts":"2024-01-01 10:00:00"}
{"k":"a","v":3,"s":"m","ts":"2024-01-01 10:10:00"}
{"k":"a","v":2,"s":"old","ts":"2024-01-01 10:05:00"}
{"k":"a","v":3,"s":"m","ts":"2024-01-01 10:10:00"}
{"k":"a","v":3,"s":"other","ts":"2024-01-01 10:10:00"}
{"k":"b","v":1,"s":"m","ts":"2024-01-05 10:10:00"}
{"k":"c","v":1,"s":"m","ts":"2024-01-02 10:10:00"}
{"k":"a","v":4,"s":"new","ts":"2024-01-05 10:20:00"}
`
	lateSink := strings.Replace(hours, "HINT", "/*+ EMIT('late-sink' = 'late') */", 1)
	plain := strings.Replace(hours, "HINT ", "", 1)
	with := func(options, rest string) string { return strings.Replace(table, " OPTIONS", options, 1) + rest }
	for name, c := range map[string]struct{ script, in, key, want string }{
		"rejected":                            {with(dead, plain), bad, "k=x", "rejected: "},
		"its place":                           {with(dead, plain), bad, "in.json@0", "rejected: "},
		"no output":                           {with("", plain), bad, "k=x", "the table has no output for dead letters, so the job stops at it"},
		"skipped":                             {with(", 'json.ignore-parse-errors' = 'true'", "INSERT INTO o SELECT k, v FROM ev;"), `{"k":"x" "v":1}` + "\n", "in.json@0", "skipped: "},
		"a column that the job does not want": {with(dead, "INSERT INTO o SELECT k, 1 FROM ev;"), bad, "k=x", "written | "},
		"no time":                             {with(dead, plain), bad, "k=y", "no event time: the event time is NULL"},
		"filtered":                            {with(dead, plain), bad, "k=z", "filtered | Calc +I filtered"},
		"late":                                {with(dead, plain), bad, "k=b", "late | Calc +I passed on | TumbleAggregate +I late [01-01 01:00, 01-01 02:00) 3600001 keep 3600002"},
		"a late sink":                         {with(dead, lateSink), bad, "k=b", "late [01-01 01:00, 01-01 02:00) 3600001 keep 3600002 | "},
		"in time":                             {with(dead, plain), bad, "k=c", "in time | Calc +I passed on | TumbleAggregate +I in time [01-01 03:00, 01-01 04:00) -1 keep 0"},
		"a first version":                     {entities, versions, "v=1 k=a", "in time | "},
		"stale":                               {entities, versions, "v=2", "stale | "},
		"duplicate and conflict":              {entities, versions, "v=3 k=a", "duplicate | "},
		"conflict":                            {entities, versions, "s=other", "conflict | "},
		"expired":                             {entities, versions, "k=c", "expired | "},
		// What a new version takes back has gone from a window that is over, and it comes into another.
		"a new version":     {strings.Replace(entities, "1 d", "10 d", 1), versions, "s=new", "-U late [01-01 10:00, 01-01 11:00) "},
		"no time is wanted": {with("", "INSERT INTO o SELECT k, v FROM ev WHERE v > 3;"), bad[strings.Index(bad, `{"k":"z"`):], "k=c", "written | "},
		"two jobs":          {with(dead, plain+"INSERT INTO o SELECT k, v FROM ev;"), bad, "k=b", "written | "},
	} {
		got := strings.Join(fateOf(t, c.script, c.in, c.key), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}
