package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/connector/results/resultstest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// resultTable is the suite's table in the rig's schema, and how its sink is made.
func (r *rig) resultTable() connector.SinkConfig {
	t := resultstest.Table("board", "postgres", map[string]string{"connector": "postgres", "url": r.url, "table-name": r.schema + ".board",
		"sink.delivery-guarantee": "exactly-once"})
	f := connector.Lookup("postgres")
	return connector.SinkConfig{Table: t, Options: option.Of(t.Options, f.Options, connector.CommonOptions), Schema: t.Schema(), Mode: types.InsertOnly,
		Segments: &connectortest.Segments{}, Job: "job", Node: "board", Bad: func(b format.BadRecord) error {
			return fmt.Errorf("refused: %s: %w", b.Bytes, b.Err)
		}}
}

// TestResults runs the suite of stores; rows go in as the sink commits them.
func TestResults(t *testing.T) {
	resultstest.Run(t, func(t testing.TB) resultstest.Target {
		r := live(t)
		cfg := r.resultTable()
		st, err := newStore(cfg.Table, cfg.Options)
		must(t, err)
		return resultstest.Target{Store: st, Conflicts: true, Write: r.commitResults(cfg)}
	})
}

// openResults makes the table of results and what it needs, and returns it with its store.
func (r *rig) openResults() (connector.SinkConfig, *store) {
	r.t.Helper()
	cfg := r.resultTable()
	st, err := newStore(cfg.Table, cfg.Options)
	must(r.t, err)
	r.t.Cleanup(func() { st.Close() })
	must(r.t, st.Ensure(r.t.Context()))
	return cfg, st
}

// commitResults writes revisions through a sink of its own each time, as a process after a crash would.
func (r *rig) commitResults(cfg connector.SinkConfig) func(testing.TB, [][]types.Value, *connector.Progress) {
	return func(t testing.TB, values [][]types.Value, p *connector.Progress) {
		t.Helper()
		s, err := newSink(cfg)
		must(t, err)
		w, err := s.NewWriter(t.Context(), 0, 1)
		must(t, err)
		defer w.Close()
		var changes []row
		for _, v := range values {
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
	cfg := r.resultTable()
	st, err := newStore(cfg.Table, cfg.Options)
	must(t, err)
	defer st.Close()
	must(t, st.Ensure(t.Context()), st.Ensure(t.Context()), st.MayWrite(t.Context()))
	r.exec("CREATE VIEW good AS SELECT origin, sum(flights) AS n FROM board_latest GROUP BY origin; CREATE VIEW plain AS SELECT origin FROM board")
	if got, err := st.Lint(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("found %q, %v", got, err)
	}
	r.exec("CREATE VIEW wrong AS SELECT origin, sum(flights) AS n FROM board GROUP BY origin")
	if got, err := st.Lint(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("found %q, %v", got, err)
	}
	must(t, st.MayWrite(t.Context()))
	r.exec("CREATE MATERIALIZED VIEW stale AS SELECT origin, count(*) AS n FROM plain GROUP BY origin")
	if err := st.MayWrite(t.Context()); err == nil {
		t.Error("a materialized view that adds up versions was taken, over a view")
	}
	r.exec("DROP MATERIALIZED VIEW stale; CREATE MATERIALIZED VIEW stale AS SELECT * FROM wrong")
	if err := st.MayWrite(t.Context()); err == nil {
		t.Error("a materialized view of a view that adds up versions was taken")
	}
	r.exec("DROP MATERIALIZED VIEW stale; CREATE MATERIALIZED VIEW fine AS SELECT sum(flights) AS n FROM board_latest")
	must(t, st.MayWrite(t.Context()))
	wider := r.resultTable()
	wider.Table.Columns = append(wider.Table.Columns, types.Field{Name: "extra", Type: types.BigIntType})
	other, err := newStore(wider.Table, wider.Options)
	must(t, err)
	defer other.Close()
	err = other.Ensure(t.Context())
	_, how, ok := strings.Cut(fmt.Sprint(err), "add it with ")
	if how, _, _ = strings.Cut(how, ", then"); !ok || !strings.Contains(err.Error(), "column 'extra' does not exist") {
		t.Fatalf("a column that is missing: %v", err)
	}
	r.exec(how + "; DROP VIEW board_totals, board_latest CASCADE")
	must(t, other.Ensure(t.Context()))
	r.exec("SELECT extra FROM board_latest")
}

// TestResultsStatements shows what is created.
func TestResultsStatements(t *testing.T) {
	tab := resultstest.Table("board", "postgres", map[string]string{"connector": "postgres", "url": "postgres://h/shop", "table-name": "public.board"})
	f := connector.Lookup("postgres")
	st, err := newStore(tab, option.Of(tab.Options, f.Options, connector.CommonOptions))
	must(t, err)
	var all string
	for _, s := range st.Statements() {
		all += s.SQL + ";\n"
	}
	file := "testdata/results.sql"
	if os.Getenv("UPDATE") != "" {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(all), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if string(want) != all {
		t.Errorf("%s is now (UPDATE=1 writes it):\n%s", file, all)
	}
}

// TestResultsViews reads the views that anybody may read, while generations are promoted.
func TestResultsViews(t *testing.T) {
	r := live(t)
	_, st := r.openResults()
	fill := func(generation string, revision, flights int) {
		r.exec(fmt.Sprintf(`INSERT INTO board (origin, window_start, window_end, flights, delay, revision, generation, is_final, is_deleted, emit_reason)
			SELECT o, TIMESTAMP '2013-01-31 12:00:00' + h * INTERVAL '1 hour', NULL, %d, 0.5, %d, '%s', true, o = 'JFK' AND h = 3, 'late' FROM unnest(ARRAY['SFO', 'JFK']) AS o, generate_series(0, 23) AS h`,
			flights, revision, generation))
	}
	fill("live", 1, 1)
	fill("live", 2, 2)
	fill("g2", 1, 5)
	const latest = "SELECT count(*), sum(flights), min(revision) FROM board_latest"
	r.expect("the latest", latest, "47 | 94 | 2")
	r.expect("totals", "SELECT cells, sum_flights, sum_delay FROM board_totals ORDER BY window_start LIMIT 2 OFFSET 2", "2 | 4 | 1.00", "1 | 2 | 0.50")
	r.exec("UPDATE board SET flights = 77 WHERE origin = 'SFO' AND revision = 1 AND generation = 'g2'")
	r.expect("conflicts", "SELECT count(*), min((has->>'flights')::int), max((came->>'flights')::int) FROM board_conflicts", "24 | 5 | 77")
	r.expect("the unit", "SELECT col_description('board'::regclass, attnum) FROM pg_attribute WHERE attrelid = 'board'::regclass AND attname = 'delay'", "unit: minutes")
	at := func(h int) int64 { return time.Date(2013, 1, 31, 12+h, 0, 0, 0, time.UTC).UnixMilli() }
	stop := make(chan struct{})
	looks := make(chan int)
	go func() {
		n := 0
		defer func() { looks <- n }()
		other := &rig{t: t, schema: r.schema}
		other.connect()
		defer other.conn.Close(context.Background())
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Windows 4 to 9 are always promoted together; all windows are always there.
			got := other.rows("SELECT count(DISTINCT window_start), count(DISTINCT generation) FILTER (WHERE window_start >= '2013-01-31 16:00:00' AND window_start < '2013-01-31 22:00:00'), count(*) FROM board_latest")
			if len(got) != 1 || got[0] != "24 | 1 | 47" {
				t.Errorf("a reader sees %q", got)
				return
			}
			n++
		}
	}()
	for i := range 21 {
		_, err := results.Promote(t.Context(), st, []string{"g2", "live"}[i%2], at(4), at(10), true)
		must(t, err)
	}
	close(stop)
	if n := <-looks; n < 2 {
		t.Errorf("the reader looked %d times only", n)
	}
	r.expect("promoted", latest, "47 | 130 | 1")
	r.expect("by generation", "SELECT generation, count(*), sum(flights) FROM board_latest GROUP BY generation ORDER BY generation", "g2 | 12 | 60", "live | 35 | 70")
}

// TestResultsCrash fails between the rows and their progress: neither is there, until the commit comes again.
func TestResultsCrash(t *testing.T) {
	r := live(t)
	cfg, _ := r.openResults()
	start := time.Date(2013, 1, 31, 0, 0, 0, 0, time.UTC).UnixMilli()
	rows := [][]types.Value{{"SFO", start, start + 3_600_000, int64(4), int64(25), nil, nil, int64(1), "live", nil, true, false, "on-time", nil, nil}}
	s, err := newSink(cfg)
	must(t, err)
	w, err := s.NewWriter(t.Context(), 0, 1)
	must(t, err)
	defer w.Close()
	must(t, w.Write(t.Context(), batch(cfg.Table.Columns, put(rows[0]...))))
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
	r.exec("ALTER TABLE board_progress RENAME TO away")
	if err := commit(); err == nil || !strings.Contains(err.Error(), "tidemark ddl") {
		t.Fatalf("committed without a place for its progress: %v", err)
	}
	r.expect("rows whose progress is not told", "SELECT count(*) FROM board", "0")
	r.exec("ALTER TABLE away RENAME TO board_progress")
	for range 2 {
		must(t, commit())
		r.expect("rows and progress", "SELECT (SELECT count(*) FROM board), (SELECT count(*) FROM board_progress)", "1 | 1")
	}
}

// TestResultsHealth has the database tell what reading the table costs. It says so some time after.
func TestResultsHealth(t *testing.T) {
	r := live(t)
	_, st := r.openResults()
	r.exec("INSERT INTO board (origin, window_start, generation, revision, is_final, is_deleted, emit_reason) " +
		"SELECT 'X' || n, '2024-01-01', 'live', 1, false, false, 'on-time' FROM generate_series(1, 1000) n")
	for end := time.Now().Add(20 * time.Second); ; {
		r.exec("SELECT count(note) FROM board")
		h, err := st.Health(t.Context())
		must(t, err)
		if h["scans"] > 0 && h["scan_rows_read"] >= 1000*h["scans"]/2 && h["scan_bytes_read"] > 8192 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v", h)
		}
		connector.Pause(t.Context(), 100*time.Millisecond)
	}
}
