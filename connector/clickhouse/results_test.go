package clickhouse

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/connector/results/resultstest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
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
	return connector.SinkConfig{Table: t, Options: option.Of(t.Options, f.Options, resultsOptions, connector.CommonOptions), Schema: t.Schema(), Mode: types.InsertOnly,
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
	must(t, st.Ensure(t.Context()), lintResults(t.Context(), cfg.Table, cfg.Options))
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
	must(t, lintResults(t.Context(), cfg.Table, cfg.Options))
	r.exec("CREATE MATERIALIZED VIEW DB.sums ENGINE = SummingMergeTree ORDER BY origin AS SELECT origin, sum(flights) AS n FROM DB.board GROUP BY origin")
	if got, err := st.Lint(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("found %q, %v", got, err)
	}
	if err := lintResults(t.Context(), cfg.Table, cfg.Options); err == nil {
		t.Error("a materialized view that adds up versions was taken")
	}
}

// TestResultsStatements shows what is created.
func TestResultsStatements(t *testing.T) {
	tab := resultstest.Table("board", "clickhouse", map[string]string{"connector": "clickhouse", "url": "http://h/shop", "table-name": "board", "sink.create.cluster": "c"})
	f := connector.Lookup("clickhouse")
	st, err := newStore(tab, option.Of(tab.Options, f.Options, resultsOptions, connector.CommonOptions))
	must(t, err)
	var all string
	for _, s := range st.Statements() {
		all += s.SQL + ";\n"
	}
	golden(t, "testdata/results.sql", all)
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
