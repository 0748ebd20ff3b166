package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// flow is a job over the files of a folder, with what its tests put into it.
type flow struct {
	t    *testing.T
	dir  string
	text string
	rows int64 // read in all, by all of its runs
	// drops: state that cannot be read is left behind.
	drops bool
}

func newFlow(t *testing.T, script string) *flow {
	f := &flow{t: t, dir: t.TempDir()}
	f.text = strings.NewReplacer("${IN}", filepath.Join(f.dir, "in"), "${OUT}", filepath.Join(f.dir, "out")).Replace(
		"SET 'execution.checkpointing.interval' = '1 h';\n" + script)
	if err := os.Mkdir(filepath.Join(f.dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

// put adds a file of lines to the input.
func (f *flow) put(lines ...string) {
	f.t.Helper()
	f.rows += int64(len(lines))
	name := fmt.Sprintf("%06d.jsonl", f.rows)
	aside := filepath.Join(f.dir, name)
	if err := os.WriteFile(aside, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(aside, filepath.Join(f.dir, "in", name)); err != nil {
		f.t.Fatal(err)
	}
}

// run runs the job, from a savepoint where one is given, until it has read all there is, and stops it with
// a savepoint.
func (f *flow) run(from string) (place string) {
	f.t.Helper()
	e := engine.New(engine.Options{Dir: f.dir, Recovery: engine.RecoveryOptions{From: from, AllowDropped: f.drops}})
	err := e.Script(f.t.Context(), "flow.sql", f.text, engine.Handler{JobStarted: func(r *engine.Run) {
		go func() {
			settle(f.t, r, f.rows)
			p, err := r.Savepoint(context.Background())
			if err != nil {
				f.t.Error(err)
			}
			place = p
			r.Stop()
			<-r.Done()
		}()
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	return place
}

// settle waits until a job has read so many rows, with those before the savepoint that it started from, and
// its operators have taken in all of them: a savepoint holds rows that are on their way beside the state.
func settle(t *testing.T, r *engine.Run, rows int64) {
	t.Helper()
	var last job.Status
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		now := r.Status()
		if now.RowsRead >= rows && now.RowsRead == last.RowsRead && now.Queued == 0 && now.Busy == last.Busy {
			return // nothing waits, and nobody has worked since
		}
		select {
		case <-r.Done():
			t.Error("the job has ended")
			return
		default:
		}
		if time.Now().After(end) {
			t.Errorf("%d of %d rows were read, %d bytes wait", now.RowsRead, rows, now.Queued)
			return
		}
		last = now
	}
}

// look opens a savepoint.
func (f *flow) look(place string) (*engine.Engine, *engine.Savepoint) {
	f.t.Helper()
	e := engine.New(engine.Options{Dir: f.dir})
	sp, err := e.OpenSavepoint(f.t.Context(), place)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { sp.Close() })
	return e, sp
}

// query returns the rows of a query over a savepoint, columns with | between.
func (f *flow) query(place, text string) (names, rows []string) {
	f.t.Helper()
	e, sp := f.look(place)
	err := e.Query(f.t.Context(), sp, text, engine.Handler{JobStarted: func(r *engine.Run) { names = r.Select.Schema.Names() },
		Rows: func(_ *engine.Run, b *vec.Batch) error {
			for _, i := range b.Selected() {
				var cells []string
				for _, c := range b.Cols {
					v := c.Value(int(i))
					if x, ok := v.(types.Int128); ok {
						v = x.DecimalString(c.Type.Scale)
					}
					cells = append(cells, fmt.Sprint(v))
				}
				rows = append(rows, strings.Join(cells, "|"))
			}
			return nil
		}})
	if err != nil {
		f.t.Fatal(err)
	}
	return names, rows
}

// edit makes a change and returns the new savepoint.
func (f *flow) edit(place, operator, state string, x engine.Edit) (string, error) {
	f.t.Helper()
	e, sp := f.look(place)
	var err error
	if x.Operator, err = sp.Operator(operator); err != nil {
		f.t.Fatal(err)
	}
	if x.State, err = engine.State(x.Operator, state); err != nil {
		f.t.Fatal(err)
	}
	_, at, err := e.Write(f.t.Context(), sp, x, filepath.Join(f.dir, fmt.Sprintf("edited-%d", time.Now().UnixNano())))
	return at, err
}

func (f *flow) mustEdit(place, operator, state string, x engine.Edit) string {
	f.t.Helper()
	at, err := f.edit(place, operator, state, x)
	if err != nil {
		f.t.Fatal(err)
	}
	return at
}

// results are the last row of each key in the output, which is debezium-json with the key in column k.
func (f *flow) results() map[string]string {
	f.t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob(filepath.Join(f.dir, "out", "*"))
	if err != nil {
		f.t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b string) int {
		x, _ := os.Stat(a)
		y, _ := os.Stat(b)
		return x.ModTime().Compare(y.ModTime())
	})
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var event struct{ After map[string]any }
			if json.Unmarshal([]byte(line), &event) != nil || event.After == nil {
				continue
			}
			k := fmt.Sprint(event.After["k"])
			delete(event.After, "k")
			text, _ := json.Marshal(event.After)
			out[k] = string(text)
		}
	}
	return out
}

const source = `CREATE TABLE src (k INT, price DECIMAL(10, 2), name STRING, x DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json', 'source.monitor-interval' = '5 ms');
`

func order(k int, price, name string) string {
	return fmt.Sprintf(`{"k":%d,"price":%s,"name":%s,"x":%d.5,"ts":"2026-03-01 10:00:%02d"}`, k, price, name, k, k)
}

// TestState_Values reads and writes the accumulators of aggregates as values; the job goes on with them.
func TestState_Values(t *testing.T) {
	f := newFlow(t, source+`
CREATE TABLE res (k INT, n BIGINT, total DECIMAL(38, 2), mean DECIMAL(38, 6), least STRING, most DOUBLE, early STRING, names STRING, kinds BIGINT)
  WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'debezium-json');
INSERT INTO res SELECT k, COUNT(*), SUM(price), AVG(price), MIN(name), MAX(x), FIRST_VALUE(name), LISTAGG(name), COUNT(DISTINCT name) FROM src GROUP BY k;`)
	f.put(order(1, "1.50", `"b"`), order(1, "2.25", `"a"`), order(1, "null", `"b"`), order(2, "7.00", "null"), order(3, "3.00", `"c"`))
	at := f.run("")
	names, rows := f.query(at, "SELECT * FROM `2/groups` ORDER BY k")
	if got := strings.Join(names, "|"); got != "k|row_count|count_price|sum_price|count_name|min_name|count_x|max_x|first_name|list_name|count_distinct_name" {
		t.Errorf("the columns are %s", got)
	}
	same(t, rows, "1|3|2|3.75|3|a|3|1.5|b|[b a b]|2", "2|1|1|7.00|0|<nil>|1|2.5|<nil>|<nil>|0", "3|1|1|3.00|1|c|1|3.5|c|[c]|1")
	_, rows = f.query(at, "SELECT * FROM `2/values of 1` ORDER BY k, name")
	same(t, rows, "1|a|1", "1|b|1", "3|c|1")

	at = f.mustEdit(at, "groupagg", "groups", engine.Edit{Where: "k = 1", Set: map[string]string{"row_count": "row_count * 10", "sum_price": "100.00",
		"count_price": "4", "min_name": "NULL", "count_name": "count_name + 0", "max_x": "77.25", "first_name": "UPPER(first_name)", "list_name": "ARRAY['x', 'y']"}})
	at = f.mustEdit(at, "groupagg", "groups", engine.Edit{Where: "k = 2", Delete: true})
	at = f.mustEdit(at, "groupagg", "groups", engine.Edit{Add: true, Set: map[string]string{"k": "7", "row_count": "5", "sum_price": "0.50", "count_price": "1"}})
	at = f.mustEdit(at, "groupagg", "values of 1", engine.Edit{Add: true, Set: map[string]string{"k": "7", "name": "'seen'", "filters": "1"}})
	at = f.mustEdit(at, "groupagg", "groups", engine.Edit{Add: true, From: "SELECT k + 37 AS k, row_count, min_name FROM `2/groups` WHERE k = 3", Set: map[string]string{"count_name": "1"}})
	_, rows = f.query(at, "SELECT * FROM `2/groups` ORDER BY k")
	same(t, rows, "1|30|4|100.00|3|<nil>|3|77.25|B|[x y]|2", "3|1|1|3.00|1|c|1|3.5|c|[c]|1", "7|5|1|0.50|0|<nil>|0|<nil>|<nil>|<nil>|0",
		"40|1|0|0.00|1|c|0|<nil>|<nil>|<nil>|0")

	for what, x := range map[string]engine.Edit{
		"'nothing'":                  {Where: "TRUE", Set: map[string]string{"nothing": "1"}},
		"part of the key":            {Where: "TRUE", Set: map[string]string{"k": "1"}},
		"is there already (k = 7)":   {Add: true, Set: map[string]string{"k": "7"}},
		"of the key has to be":       {Add: true, Set: map[string]string{"row_count": "7"}},
		"'row_count' cannot be NULL": {Where: "TRUE", Set: map[string]string{"row_count": "NULL"}},
		"no entry is changed":        {Where: "k = 55", Delete: true},
	} {
		if _, err := f.edit(at, "groupagg", "groups", x); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	if _, err := f.edit(at, "groupagg", "values of 1", engine.Edit{Add: true, Set: map[string]string{"k": "55", "name": "'y'", "filters": "1"}}); err == nil ||
		!strings.Contains(err.Error(), "no entry in 'groups'") {
		t.Errorf("a value of no group: %v", err)
	}

	f.put(order(1, "4.00", `"q"`), order(2, "1.00", `"z"`), order(7, "1.50", `"seen"`), order(40, "1.00", `"aa"`))
	f.run(at)
	got := f.results()
	for k, want := range map[string]string{
		"1":  `{"early":"B","kinds":3,"least":"q","mean":20.8,"most":77.25,"n":31,"names":"x,y,q","total":104}`,
		"2":  `{"early":"z","kinds":1,"least":"z","mean":1,"most":2.5,"n":1,"names":"z","total":1}`,
		"7":  `{"early":"seen","kinds":0,"least":"seen","mean":1,"most":7.5,"n":6,"names":"seen","total":2}`,
		"40": `{"early":"aa","kinds":1,"least":"aa","mean":1,"most":40.5,"n":2,"names":"aa","total":1}`,
	} {
		if got[k] != want {
			t.Errorf("key %s: %s\nwant %s", k, got[k], want)
		}
	}
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestState_Timers shows windows as rows with times, and when they fire.
func TestState_Timers(t *testing.T) {
	const window = `INSERT INTO res SELECT window_start, k, COUNT(*), SUM(price) FROM TABLE(%s(TABLE src, DESCRIPTOR(ts), %s)) GROUP BY window_start, window_end, k;`
	const sink = `CREATE TABLE res (s TIMESTAMP(3), k INT, n BIGINT, total DECIMAL(38, 2)) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');
`
	for _, c := range []struct{ name, query, timers string }{
		{"tumble", fmt.Sprintf(window, "TUMBLE", "INTERVAL '10' SECOND"), "10:00:00 10:00:10 10:00:09.999 false 2"},
		{"hop", fmt.Sprintf(window, "HOP", "INTERVAL '5' SECOND, INTERVAL '10' SECOND"), "09:59:55 10:00:05 10:00:04.999 false 2, 10:00:00 10:00:10 10:00:09.999 false 2"},
		{"cumulate", fmt.Sprintf(window, "CUMULATE", "INTERVAL '5' SECOND, INTERVAL '10' SECOND"), "10:00:00 10:00:05 10:00:04.999 false 2, 10:00:00 10:00:10 10:00:09.999 false 2"},
		{"session", `INSERT INTO res SELECT SESSION_START(ts, INTERVAL '7' SECOND), k, COUNT(*), SUM(price) FROM src GROUP BY k, SESSION(ts, INTERVAL '7' SECOND);`,
			"10:00:01 10:00:08 10:00:07.999 false 1, 10:00:02 10:00:09 10:00:08.999 false 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t, source+sink+c.query)
			f.put(order(1, "1.50", `"b"`), order(2, "7.00", `"a"`), order(2, "1.00", `"a"`))
			at := f.run("")
			_, sp := f.look(at)
			agg, err := sp.Operator("aggregate")
			if err != nil {
				t.Fatal(err)
			}
			table := engine.TimerTable(agg)
			_, rows := f.query(at, "SELECT DATE_FORMAT(window_start, 'HH:mm:ss'), DATE_FORMAT(window_end, 'HH:mm:ss'), DATE_FORMAT(CAST(fires_at AS TIMESTAMP(3)), 'HH:mm:ss.SSS'), fired, entries FROM `"+table+"`")
			if got := strings.ReplaceAll(strings.Join(rows, ", "), "|", " "); got != c.timers {
				t.Errorf("the timers are %s\nwant            %s", got, c.timers)
			}
		})
	}
}
