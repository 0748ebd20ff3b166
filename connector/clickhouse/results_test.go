package clickhouse

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/connector/results/resultstest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// resultTable is the suite's table in the rig's database, and how its sink is made.
func (r *rig) resultTable(native bool) connector.SinkConfig {
	at := r.base
	if native {
		at = "clickhouse://" + r.native
	}
	t := resultstest.Table("board", "clickhouse", map[string]string{"connector": "clickhouse", "url": at + "/" + r.database, "table-name": "board",
		"sink.delivery-guarantee": "exactly-once"})
	f := connector.Lookup("clickhouse")
	return connector.SinkConfig{Table: t, Options: option.Of(t.Options, f.Options, connector.CommonOptions), Schema: t.Schema(), Mode: types.InsertOnly,
		Segments: &connectortest.Segments{}, Job: "job", Node: "board", Stderr: &r.warn, Bad: func(b format.BadRecord) error {
			return fmt.Errorf("refused: %s: %w", b.Bytes, b.Err)
		}}
}

// TestResults runs the suite of stores over each protocol; rows go in as the sink commits them.
func TestResults(t *testing.T) {
	for _, native := range []bool{false, true} {
		t.Run(fmt.Sprintf("native %t", native), func(t *testing.T) {
			resultstest.Run(t, func(t testing.TB) resultstest.Target {
				r := live(t)
				cfg := r.resultTable(native)
				st, err := newStore(cfg.Table, cfg.Options)
				must(t, err)
				return resultstest.Target{Store: st, Conflicts: true, Write: r.commitResults(cfg), Merge: func(t testing.TB) {
					r.exec("OPTIMIZE TABLE DB.board FINAL", "OPTIMIZE TABLE DB.board_progress FINAL", "OPTIMIZE TABLE DB.board_pointer FINAL")
				}}
			})
		})
	}
}

// commitResults writes revisions through a sink of its own each time, as a process after a crash would.
func (r *rig) commitResults(cfg connector.SinkConfig) func(testing.TB, [][]types.Value, *connector.Progress) {
	return func(t testing.TB, rows [][]types.Value, p *connector.Progress) {
		t.Helper()
		s, err := newSink(cfg)
		must(t, err)
		w, err := s.NewWriter(t.Context(), 0, 1)
		must(t, err)
		defer w.Close()
		var changes []row
		for _, v := range rows {
			changes = append(changes, put(v...))
		}
		var cs []connector.Committable
		if len(changes) > 0 {
			must(t, w.Write(t.Context(), batch(cfg.Table.Columns, changes...)))
			cs, err = w.Prepare(t.Context())
			must(t, err)
		}
		c, err := s.NewCommitter(t.Context())
		must(t, err)
		defer c.Close()
		must(t, c.(connector.ProgressCommitter).CommitProgress(t.Context(), id(p.Lineage, p.Checkpoint), cs, p))
	}
}

// TestResultsLint has views that add up versions, and such that do not.
func TestResultsLint(t *testing.T) {
	r := live(t)
	cfg := r.resultTable(false)
	st, err := newStore(cfg.Table, cfg.Options)
	must(t, err)
	defer st.Close()
	must(t, st.Ensure(t.Context()), st.MayWrite(t.Context()))
	r.exec("CREATE MATERIALIZED VIEW DB.copies ENGINE = MergeTree ORDER BY origin AS SELECT origin, flights FROM DB.board",
		"CREATE VIEW DB.good AS SELECT origin, sum(flights) AS n FROM DB.board_latest GROUP BY origin",
		"CREATE VIEW DB.other AS SELECT count() AS n FROM DB.board_pointer")
	if got, err := st.Lint(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("found %q, %v", got, err)
	}
	r.exec("CREATE VIEW DB.wrong AS SELECT origin, sum(flights) AS n FROM DB.board GROUP BY origin")
	if got, err := st.Lint(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("found %q, %v", got, err)
	}
	must(t, st.MayWrite(t.Context()))
	r.exec("CREATE MATERIALIZED VIEW DB.sums ENGINE = SummingMergeTree ORDER BY origin AS SELECT origin, sum(flights) AS n FROM DB.board GROUP BY origin")
	if got, err := st.Lint(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("found %q, %v", got, err)
	}
	if err := st.MayWrite(t.Context()); err == nil {
		t.Error("a materialized view that adds up versions was taken")
	}
	r.exec("DROP TABLE DB.sums", "CREATE TABLE DB.`the target` (origin String, n Int64) ENGINE = SummingMergeTree ORDER BY origin",
		"CREATE MATERIALIZED VIEW DB.feeds TO DB.`the target` AS SELECT origin, flights AS n FROM DB.board")
	if err := st.MayWrite(t.Context()); err == nil || !strings.Contains(err.Error(), "feeds") {
		t.Errorf("a materialized view that feeds a table which adds up was taken: %v", err)
	}
}

// TestResultsOther opens tables that were made for another definition.
func TestResultsOther(t *testing.T) {
	for _, native := range []bool{false, true} {
		r := live(t)
		cfg := r.resultTable(native)
		st, err := newStore(cfg.Table, cfg.Options)
		must(t, err)
		defer st.Close()
		must(t, st.MayWrite(t.Context()), st.Ensure(t.Context()), st.Ensure(t.Context()), st.MayWrite(t.Context()))
		wider := r.resultTable(native)
		wider.Table.Columns = append(wider.Table.Columns, types.Field{Name: "extra", Type: types.BigIntType})
		other, err := newStore(wider.Table, wider.Options)
		must(t, err)
		defer other.Close()
		err = other.Ensure(t.Context())
		_, how, ok := strings.Cut(fmt.Sprint(err), "add it with ")
		if how, _, _ = strings.Cut(how, ", then"); !ok || !strings.Contains(err.Error(), "column 'extra' does not exist") {
			t.Fatalf("a column that is missing: %v", err)
		}
		r.exec(how, "DROP VIEW DB.board_latest", "DROP VIEW DB.board_totals")
		must(t, other.Ensure(t.Context()))
		r.expect("the view has it", "SELECT count() FROM system.columns WHERE table = 'board_latest' AND name = 'extra' AND database = '"+r.database+"'", "1")
		finer := r.resultTable(native)
		finer.Table.Results.Key = append(finer.Table.Results.Key, "note")
		if other, err = newStore(finer.Table, finer.Options); err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.MayWrite(t.Context()); err == nil || !strings.Contains(err.Error(), "PRIMARY KEY is another one") {
			t.Errorf("another key: %v", err)
		}
	}
}

// TestResultsLong keeps records and progress that are longer than the text of a statement may be.
func TestResultsLong(t *testing.T) {
	for _, native := range []bool{false, true} {
		r := live(t)
		cfg := r.resultTable(native)
		st, err := newStore(cfg.Table, cfg.Options)
		must(t, err)
		defer st.Close()
		must(t, st.Ensure(t.Context()))
		doc := []byte(`{"x":"` + strings.Repeat(`it's \\ `, 100_000) + `"}`)
		must(t, st.Note(t.Context(), results.Record{Kind: "reconcile", Name: "g2", At: 7, Document: doc}))
		got, err := st.Records(t.Context(), "")
		must(t, err)
		if len(got) != 1 || string(got[0].Document) != string(doc) || got[0].Name != "g2" || got[0].At != 7 {
			t.Errorf("%d records came back", len(got))
		}
		p := &connector.Progress{Lineage: "l", Checkpoint: 1, Generation: "live", Watermark: vec.MaxTime, MaxTime: vec.MinTime, At: 8, Late: 3}
		for i := range int64(20_000) {
			p.Missed = append(p.Missed, connector.MissedWindow{Start: i, End: i + 1, Rows: i})
		}
		r.commitResults(cfg)(t, nil, p)
		back, err := st.Progress(t.Context(), "live", 1)
		must(t, err)
		if len(back) != 1 || len(back[0].Missed) != 20_000 || back[0].Late != 3 {
			t.Errorf("%d rows of progress came back", len(back))
		}
		r.expect("its columns", "SELECT watermark, ended, max_time, missed_windows, late FROM DB.board_progress", "\\N\ttrue\t\\N\t20000\t3")
	}
}

// TestResultsStatements shows what is created, on the only shard of a cluster and over several.
func TestResultsStatements(t *testing.T) {
	for file, options := range map[string]map[string]string{"testdata/results.sql": {}, "testdata/results_sharded.sql": {"sink.create.sharded": "true"}} {
		for k, v := range map[string]string{"connector": "clickhouse", "url": "http://h/shop", "table-name": "board", "sink.create.cluster": "c"} {
			options[k] = v
		}
		tab := resultstest.Table("board", "clickhouse", options)
		st, err := newStore(tab, optionsOf(tab, connector.Lookup("clickhouse")))
		must(t, err)
		var all string
		for _, s := range st.Statements() {
			all += s.SQL + ";\n"
		}
		golden(t, file, all)
	}
}

// golden compares text with a file; UPDATE=1 writes that.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if string(want) != text {
		t.Errorf("%s is now (UPDATE=1 writes it):\n%s", file, text)
	}
}

// TestResultsViews reads the views that anybody may read, while generations are promoted and parts merged.
func TestResultsViews(t *testing.T) {
	r := live(t)
	cfg := r.resultTable(false)
	st, err := newStore(cfg.Table, cfg.Options)
	must(t, err)
	defer st.Close()
	must(t, st.Ensure(t.Context()))
	fill := func(generation string, revision, flights int) {
		for h := range 24 {
			r.exec(fmt.Sprintf(`INSERT INTO DB.board (origin, window_start, window_end, flights, delay, revision, generation, is_final, is_deleted, emit_reason)
				SELECT ['SFO', 'JFK'][number + 1], toDateTime64('2013-01-31 12:00:00', 3, 'UTC') + INTERVAL %d HOUR, NULL, %d, 0.5, %d, '%s', true, number = 1 AND %d = 3, 'late' FROM numbers(2)`, h, flights, revision, generation, h))
		}
	}
	fill("live", 1, 1)
	fill("live", 2, 2)
	fill("g2", 1, 5)
	const latest = "SELECT count(), sum(flights), min(revision) FROM DB.board_latest"
	for range 2 {
		r.expect("the latest", latest, "47\t94\t2")
		r.expect("totals", "SELECT cells, sum_flights, sum_delay FROM DB.board_totals ORDER BY window_start LIMIT 2 OFFSET 2", "2\t4\t1", "1\t2\t0.5")
		r.expect("conflicts", "SELECT count() FROM DB.board_conflicts", "0")
		// The same rows again, as after a crash that nothing remembers; a merge removes them.
		r.exec("INSERT INTO DB.board (origin, window_start, window_end, flights, delay, revision, generation, is_final, is_deleted, emit_reason) SELECT origin, window_start, window_end, flights, delay, revision, generation, is_final, is_deleted, emit_reason FROM DB.board")
		r.expect("the latest of rows that are there twice", latest, "47\t94\t2")
		r.expect("conflicts of rows that are there twice", "SELECT count() FROM DB.board_conflicts", "0")
		r.exec("OPTIMIZE TABLE DB.board FINAL")
		r.expect("rows after the merge", "SELECT count() FROM DB.board", "144")
	}
	at := func(h int) int64 { return time.Date(2013, 1, 31, 12+h, 0, 0, 0, time.UTC).UnixMilli() }
	stop := make(chan struct{})
	var readers sync.WaitGroup
	looks := make(chan int, 2)
	for range 2 {
		readers.Go(func() {
			n := 0
			defer func() { looks <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Windows 4 to 9 are always promoted together; all windows are always there.
				got := r.rows("SELECT uniqExact(window_start), uniqExactIf(generation, window_start >= '2013-01-31 16:00:00' AND window_start < '2013-01-31 22:00:00'), count() FROM DB.board_latest")
				if len(got) != 1 || got[0] != "24\t1\t47" {
					t.Errorf("a reader sees %q", got)
					return
				}
				n++
			}
		})
	}
	for i := range 10 {
		g := []string{"g2", "live"}[i%2]
		_, err := results.Promote(t.Context(), st, g, at(4), at(10), true)
		must(t, err)
		if i == 5 {
			r.exec("OPTIMIZE TABLE DB.board FINAL", "OPTIMIZE TABLE DB.board_pointer FINAL")
		}
	}
	_, err = results.Promote(t.Context(), st, "g2", at(4), at(10), true)
	must(t, err)
	close(stop)
	readers.Wait()
	if n := <-looks + <-looks; n < 4 {
		t.Errorf("readers looked %d times only", n)
	}
	r.expect("promoted", latest, "47\t130\t1")
	r.expect("by generation", "SELECT generation, count(), sum(flights) FROM DB.board_latest GROUP BY generation ORDER BY generation", "g2\t12\t60", "live\t35\t70")
	// A window and a generation are enough to leave out what need not be read.
	if plan := strings.Join(r.rows("EXPLAIN indexes = 1 SELECT sum(flights) FROM DB.board_latest WHERE window_start < '2013-02-01 00:00:00'"), "\n"); !strings.Contains(plan, "Partition") || !strings.Contains(plan, "toYYYYMM(window_start)") {
		t.Errorf("partitions are not told apart:\n%s", plan)
	}
}

// TestResultsPartitions writes windows of more months than an insert may touch.
func TestResultsPartitions(t *testing.T) {
	r := live(t)
	cfg := r.resultTable(true)
	st, err := newStore(cfg.Table, cfg.Options)
	must(t, err)
	defer st.Close()
	must(t, st.Ensure(t.Context()))
	var rows [][]types.Value
	for m := range 150 {
		w := time.Date(2000, time.Month(1+m), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		rows = append(rows, []types.Value{"SFO", w, w + 3_600_000, int64(1), int64(25), nil, nil, int64(1), "g2", nil, true, false, "on-time", nil, nil})
	}
	r.commitResults(cfg)(t, rows, &connector.Progress{Lineage: "l", Checkpoint: 1, Generation: "g2"})
	r.expect("rows", "SELECT count(), uniqExact(_partition_id) FROM DB.board", "150\t150")
	n, err := st.Prune(t.Context(), "g2", vec.MaxTime)
	must(t, err, st.Drop(t.Context(), "g2"))
	r.expect("rows after Drop", "SELECT count() FROM DB.board", "0")
	if n != 0 {
		t.Errorf("%d rows were superseded", n)
	}
}

// TestResultsCrash fails between the blocks and their progress, and commits again from other processes: also
// where the table has forgotten the tokens meanwhile, so that the rows are there twice until a merge.
func TestResultsCrash(t *testing.T) {
	r := live(t)
	cfg := r.resultTable(false)
	cfg.Options = option.Of(merged(cfg.Table.Options, "sink.buffer-flush.max-rows", "7"), connector.Lookup("clickhouse").Options, connector.CommonOptions)
	st, err := newStore(cfg.Table, cfg.Options)
	must(t, err)
	defer st.Close()
	must(t, st.Ensure(t.Context()))
	s, err := newSink(cfg)
	must(t, err)
	w, err := s.NewWriter(t.Context(), 0, 1)
	must(t, err)
	defer w.Close()
	var changes []row
	for i := range 40 {
		start := time.Date(2013, 1, 31, i, 0, 0, 0, time.UTC).UnixMilli()
		changes = append(changes, put("SFO", start, start+3_600_000, int64(i), int64(25), nil, nil, int64(1), "live", nil, true, false, "on-time", nil, nil))
	}
	must(t, w.Write(t.Context(), batch(cfg.Table.Columns, changes...)))
	cs, err := w.Prepare(t.Context())
	must(t, err)
	p := &connector.Progress{Lineage: "l", Checkpoint: 7, Generation: "live", Watermark: 99}
	commit := func() error {
		again, err := newSink(cfg)
		must(t, err)
		c, err := again.NewCommitter(t.Context())
		must(t, err)
		defer c.Close()
		return c.(connector.ProgressCommitter).CommitProgress(t.Context(), id("l", 7), cs, p)
	}
	r.exec("RENAME TABLE DB.board_progress TO DB.away")
	if err := commit(); err == nil || !strings.Contains(err.Error(), "tidemark ddl") {
		t.Fatalf("committed without a place for its progress: %v", err)
	}
	r.expect("rows whose progress is not told", "SELECT count() FROM DB.board", "40")
	r.exec("RENAME TABLE DB.away TO DB.board_progress")
	must(t, commit())
	r.expect("rows after the repeat", "SELECT count(), sum(flights) FROM DB.board", "40\t780")
	r.exec("TRUNCATE TABLE DB.tidemark_progress", "ALTER TABLE DB.board MODIFY SETTING non_replicated_deduplication_window = 0", "ALTER TABLE DB.board MODIFY SETTING non_replicated_deduplication_window = 100")
	for range 2 {
		must(t, commit())
		r.expect("what is shown", "SELECT count(), sum(flights) FROM DB.board_latest", "40\t780")
		r.expect("conflicts", "SELECT count() FROM DB.board_conflicts", "0")
		r.expect("progress", "SELECT count() FROM DB.board_progress FINAL", "1")
	}
	r.exec("OPTIMIZE TABLE DB.board FINAL")
	r.expect("rows after a merge", "SELECT count(), sum(flights) FROM DB.board", "40\t780")
}

func optionsOf(t *connector.Table, f *connector.Factory) option.Values {
	return option.Of(t.Options, f.Options, connector.CommonOptions)
}

func merged(m map[string]string, k, v string) map[string]string {
	out := map[string]string{k: v}
	for k, v := range m {
		out[k] = v
	}
	return out
}
