package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/job"
)

// tables of a script with several jobs: two that end, one that does not.
const tables = `
SET 'execution.checkpointing.interval' = '1 h';
CREATE TABLE few (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '30', 'fields.k.min' = '1', 'fields.k.max' = '3');
CREATE TABLE many (k INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.k.min' = '1', 'fields.k.max' = '3');
CREATE TABLE a (k INT, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE b (k INT, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE c (k INT, n BIGINT) WITH ('connector' = 'blackhole');
`

// ran is what became of the jobs of a script: how each began, by the tables that it writes.
type ran struct {
	began, names map[string]string
	skipped      map[string]string
	savepoints   map[string]string
	warnings     []string
	err          error
}

// runJobs runs the jobs of a script; those that do not end are stopped with a savepoint after some rows.
func runJobs(t *testing.T, e *engine.Engine, text string) *ran {
	t.Helper()
	var mu sync.Mutex
	out := &ran{began: map[string]string{}, names: map[string]string{}, skipped: map[string]string{}, savepoints: map[string]string{}}
	of := func(r *engine.Run) string {
		return strings.TrimSuffix(strings.TrimPrefix(r.Plan.Nodes[len(r.Plan.Nodes)-1].Label, "Sink("), ")")
	}
	out.err = e.Script(t.Context(), "etl.sql", text, engine.Handler{
		JobStarted: func(r *engine.Run) {
			mu.Lock()
			defer mu.Unlock()
			out.began[of(r)], out.names[of(r)] = r.Began, r.Name
			if r.Bounded {
				return
			}
			go func() {
				for end := time.Now().Add(time.Minute); r.Status().RowsRead < 10 && time.Now().Before(end); {
					time.Sleep(5 * time.Millisecond)
				}
				r.Stop()
			}()
		},
		JobSkipped: func(name, why string) { out.skipped[name] = why },
		JobEnded: func(r *engine.Run, _ *job.Report, _ error) {
			mu.Lock()
			defer mu.Unlock()
			c, _ := r.Checkpoints()
			out.savepoints[of(r)] = c.LastSavepoint
		},
		Warn: func(m string) {
			mu.Lock()
			defer mu.Unlock()
			out.warnings = append(out.warnings, m)
		},
	})
	return out
}

func insert(table, from string) string {
	return fmt.Sprintf("INSERT INTO %s SELECT k, COUNT(*) FROM %s GROUP BY k;\n", table, from)
}

// TestScript_InsertsComeAndGo changes the INSERTs of a script between its runs: each goes on with its own
// checkpoints.
func TestScript_InsertsComeAndGo(t *testing.T) {
	dir := t.TempDir()
	e := engine.New(engine.Options{Dir: dir, Seed: 7})
	type want map[string]string
	for i, c := range []struct {
		what    string
		inserts string
		names   want
		began   want
		warns   string
	}{
		{"two", insert("a", "many") + insert("b", "many"), want{"a": "etl.sql", "b": "etl.sql-2"}, want{"a": "for the first time", "b": "for the first time"}, ""},
		{"in another order", insert("b", "many") + insert("a", "many"), want{"a": "etl.sql", "b": "etl.sql-2"}, want{"a": "goes on", "b": "goes on"}, ""},
		{"one above", insert("c", "many") + insert("a", "many") + insert("b", "many"), want{"c": "etl.sql-3", "a": "etl.sql", "b": "etl.sql-2"},
			want{"c": "for the first time", "a": "goes on", "b": "goes on"}, ""},
		{"the first left out", insert("c", "many") + insert("b", "many"), want{"c": "etl.sql-3", "b": "etl.sql-2"}, want{"c": "goes on", "b": "goes on"},
			"job etl.sql, which wrote table a, has checkpoint"},
		{"one left", insert("b", "many"), want{"b": "etl.sql-2"}, want{"b": "goes on"}, "job etl.sql"},
		{"a twice, one of them changed", insert("a", "many") + "INSERT INTO a SELECT k, CAST(1 AS BIGINT) FROM many;\n" + insert("b", "many") + insert("c", "many"),
			want{"b": "etl.sql-2", "c": "etl.sql-3"}, want{"b": "goes on", "c": "goes on"}, ""},
	} {
		got := runJobs(t, e, tables+c.inserts)
		if got.err != nil {
			t.Fatalf("%d, %s: %v", i, c.what, got.err)
		}
		for table, name := range c.names {
			if got.names[table] != name || !strings.Contains(got.began[table], c.began[table]) {
				t.Errorf("%s: the job of table %s is %s, which %s; want %s, %s", c.what, table, got.names[table], got.began[table], name, c.began[table])
			}
		}
		if c.warns != "" && !slices.ContainsFunc(got.warnings, func(w string) bool { return strings.HasPrefix(w, c.warns) }) {
			t.Errorf("%s: the warnings are %q", c.what, got.warnings)
		}
	}
}

// TestScript_UnclearInserts has two INSERTs into one table, neither of which is what was there.
func TestScript_UnclearInserts(t *testing.T) {
	e := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7})
	if got := runJobs(t, e, tables+insert("a", "many")); got.err != nil {
		t.Fatal(got.err)
	}
	changed := tables + "INSERT INTO a SELECT k, SUM(k) FROM many GROUP BY k; INSERT INTO a SELECT k, MAX(k) FROM many GROUP BY k;"
	got := runJobs(t, e, changed)
	if got.err == nil || !strings.Contains(got.err.Error(), "2 INSERTs write table a, and none computes what etl.sql") || len(got.began) > 0 {
		t.Errorf("the error is %v, and %v began", got.err, got.began)
	}
}

// TestScript_EndedJobsAreNotRepeated runs a script of which one job ends and another is stopped: the next run
// goes on with that, and does not repeat the first. When all have ended, all start afresh.
func TestScript_EndedJobsAreNotRepeated(t *testing.T) {
	e := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7})
	text := tables + insert("a", "few") + insert("b", "many")
	for run := range 3 {
		got := runJobs(t, e, text)
		if got.err != nil {
			t.Fatal(got.err)
		}
		_, again := got.began["a"]
		if again != (run == 0) || (got.skipped["etl.sql"] != "") == again {
			t.Errorf("run %d: %v began, %v were left out", run, got.began, got.skipped)
		}
	}
	fresh := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7})
	text = tables + insert("a", "few") + insert("b", "few")
	for run := range 3 {
		got := runJobs(t, fresh, text)
		if got.err != nil || len(got.began) != 2 || len(got.skipped) > 0 {
			t.Errorf("run %d: %v began, %v were left out: %v", run, got.began, got.skipped, got.err)
		}
	}
}

// A mistake that is mended goes on with the run that it ended.
func TestScript_MistakeIsMended(t *testing.T) {
	e := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7})
	text := tables + insert("a", "few") + insert("b", "few")
	if got := runJobs(t, e, text+"INSERT INTO c SELECT nope, 1 FROM few;"); got.err == nil || len(got.began) != 2 {
		t.Fatalf("%v began: %v", got.began, got.err)
	}
	got := runJobs(t, e, text+insert("c", "few"))
	if got.err != nil || len(got.skipped) != 2 || len(got.began) != 1 || got.began["c"] == "" {
		t.Errorf("%v began, %v were left out: %v", got.began, got.skipped, got.err)
	}
	if got := runJobs(t, e, text+insert("c", "few")); got.err != nil || len(got.began) != 3 {
		t.Errorf("a new run: %v began, %v were left out: %v", got.began, got.skipped, got.err)
	}
}

// TestScript_FromGoesToItsJob starts a script with several jobs from the savepoint of one.
func TestScript_FromGoesToItsJob(t *testing.T) {
	dir := t.TempDir()
	first := runJobs(t, engine.New(engine.Options{Dir: dir, Seed: 7}), tables+insert("a", "many")+insert("b", "many"))
	if first.err != nil || first.savepoints["b"] == "" {
		t.Fatal(first.savepoints, first.err)
	}
	from := engine.New(engine.Options{Dir: dir, Seed: 7, Recovery: engine.RecoveryOptions{From: first.savepoints["b"]}})
	got := runJobs(t, from, tables+insert("c", "many")+insert("b", "many")+insert("a", "many"))
	if got.err != nil || !strings.HasPrefix(got.began["b"], "starts from") || !strings.HasPrefix(got.began["a"], "goes on") ||
		!strings.Contains(got.began["c"], "first time") {
		t.Errorf("%v: %v", got.began, got.err)
	}
	plans, err := engine.New(engine.Options{Dir: dir}).PlanFrom(t.Context(), "etl.sql", tables+insert("b", "many")+insert("a", "many"), first.savepoints["b"])
	if err != nil || len(plans) != 2 || !plans[0].Given || plans[1].Given || plans[1].From == nil {
		t.Errorf("%+v: %v", plans, err)
	}
	for _, c := range []struct{ inserts, want string }{
		{insert("a", "many") + insert("c", "many"), "which wrote table b, and no INSERT of the script does"},
		{insert("b", "many") + insert("b", "many") + insert("a", "many"), ""},
		{insert("b", "few") + insert("b", "few"), "and 2 INSERTs of the script do"},
	} {
		elsewhere := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7, Recovery: engine.RecoveryOptions{From: first.savepoints["b"]}})
		got := runJobs(t, elsewhere, tables+c.inserts)
		if c.want != "" && (got.err == nil || !strings.Contains(got.err.Error(), c.want)) {
			t.Errorf("%s: %v", c.inserts, got.err)
		}
	}
}

// TestScript_DamagedCheckpoint says where an older checkpoint is; plan finds damage in files.
func TestScript_DamagedCheckpoint(t *testing.T) {
	dir := t.TempDir()
	e := engine.New(engine.Options{Dir: dir, Seed: 7})
	text := tables + "SET 'execution.checkpointing.num-retained' = '3';\n" + insert("a", "many")
	for range 2 {
		if got := runJobs(t, e, text); got.err != nil {
			t.Fatal(got.err)
		}
	}
	names, _ := filepath.Glob(filepath.Join(dir, engine.DefaultCheckpoints, "etl.sql", "checkpoints", "*"))
	if len(names) < 2 {
		t.Fatalf("checkpoints: %v", names)
	}
	slices.Sort(names)
	spoil(t, names[len(names)-1])
	got := runJobs(t, e, text)
	var damaged *engine.DamagedError
	if !errors.As(got.err, &damaged) || damaged.Older != names[len(names)-2] {
		t.Fatalf("%v: %+v", got.err, damaged)
	}
	from := engine.New(engine.Options{Dir: dir, Seed: 7, Recovery: engine.RecoveryOptions{From: damaged.Older}})
	if plans, err := from.PlanFrom(t.Context(), "etl.sql", text, damaged.Older); err != nil || plans[0].Err != nil {
		t.Errorf("plan from the older one: %v, %v", plans, err)
	}
	if got := runJobs(t, from, text); got.err != nil {
		t.Error(got.err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, engine.DefaultCheckpoints, "etl.sql", "savepoints", "*", "files", "*"))
	if len(files) == 0 {
		t.Fatal("savepoints have no files")
	}
	spoil(t, files[0])
	place := filepath.Dir(filepath.Dir(files[0]))
	if plans, err := e.PlanFrom(t.Context(), "etl.sql", text, place); err != nil || plans[0].Err == nil || !strings.Contains(plans[0].Err.Error(), "checksum") {
		t.Errorf("plan from a damaged savepoint: %v, %v", plans, err)
	}
}

// A job whose only checkpoint is damaged has lost what says that it is its: nothing starts from nothing then.
func TestScript_DamagedCheckpointOfOneOfTwo(t *testing.T) {
	dir := t.TempDir()
	e := engine.New(engine.Options{Dir: dir, Seed: 7})
	text := tables + insert("a", "many") + insert("b", "many")
	if got := runJobs(t, e, text); got.err != nil {
		t.Fatal(got.err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, engine.DefaultCheckpoints, "etl.sql-2", "checkpoints", "*"))
	if len(names) != 1 {
		t.Fatalf("checkpoints: %v", names)
	}
	spoil(t, names[0])
	got := runJobs(t, e, text)
	if got.err == nil || !strings.Contains(got.err.Error(), "damaged") || !strings.Contains(got.err.Error(), "table b") {
		t.Errorf("error %v", got.err)
	}
	if len(got.began) > 0 {
		t.Errorf("began %v", got.began)
	}
	fresh := engine.New(engine.Options{Dir: dir, Seed: 7, Recovery: engine.RecoveryOptions{Fresh: true}})
	if got := runJobs(t, fresh, text); got.err != nil {
		t.Error(got.err)
	}
}

// spoil changes a byte in the middle of a file.
func spoil(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		b[len(b)/2] ^= 0x55
		err = errors.Join(os.Remove(path), os.WriteFile(path, b, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestScript_KilledAtItsEnd ends the process of jobs that end between their last checkpoint and the note
// that everything was committed: the next run does not write everything again, and the one after it does.
func TestScript_KilledAtItsEnd(t *testing.T) {
	for what, jobs := range map[string][]string{"one job": {"a"}, "two jobs": {"a", "b"}} {
		dir := t.TempDir()
		e := engine.New(engine.Options{Dir: dir, Seed: 7})
		text := tables
		for _, table := range jobs {
			text += insert(table, "few")
		}
		run := func(began int, skipped string) {
			t.Helper()
			got := runJobs(t, e, text)
			if got.err != nil || len(got.began) != began || len(got.skipped) != len(jobs)-began {
				t.Fatalf("%s: %d jobs began and %v were skipped, %v", what, len(got.began), got.skipped, got.err)
			}
			if skipped != "" && !strings.Contains(got.skipped["etl.sql"], skipped) {
				t.Errorf("%s: it %s", what, got.skipped["etl.sql"])
			}
		}
		run(len(jobs), "")
		last := filepath.Join(dir, engine.DefaultCheckpoints, []string{"etl.sql", "etl.sql-2"}[len(jobs)-1], "ended")
		if err := os.Remove(last); err != nil {
			t.Fatal(err)
		}
		run(0, map[string]string{"one job": "was ended before all of its output was committed", "two jobs": "is not run again"}[what])
		run(len(jobs), "")
	}
}
