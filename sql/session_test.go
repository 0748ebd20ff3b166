package sql_test

import (
	"strings"
	"testing"
	"time"

	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	_ "github.com/tidemark-stream/tidemark/expr/fn"            // the function library
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
)

const tables = `
CREATE TABLE orders (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
CREATE TABLE sums (k STRING, w TIMESTAMP(3), s BIGINT) WITH ('connector' = 'print');
`

const query = ` k, window_start, SUM(v)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end`

// run executes a script and returns the last result.
func run(t *testing.T, s *sql.Session, text string) (*sql.Result, error) {
	t.Helper()
	stmts, err := parse.Script(text)
	if err != nil {
		t.Fatal(err)
	}
	var r *sql.Result
	for _, st := range stmts {
		if r, err = s.Execute(st); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func session(t *testing.T) *sql.Session {
	s := sql.NewSession(sql.SessionOptions{File: "job.sql", Zone: time.UTC})
	if _, err := run(t, s, tables); err != nil {
		t.Fatal(err)
	}
	return s
}

func lateness(p *plan.Plan) int64 {
	for _, n := range p.Nodes {
		if w, ok := n.Op.(*plan.WindowAgg); ok && w.Phase != plan.LocalPhase {
			return w.AllowedLatenessMs
		}
	}
	return -1
}

func TestInsertMakesPlan(t *testing.T) {
	r, err := run(t, session(t), "INSERT INTO sums SELECT"+query)
	if err != nil {
		t.Fatal(err)
	}
	if r.Plan == nil || len(r.Job) != 1 || r.Plan.Name != "job.sql" || lateness(r.Plan) != 0 {
		t.Fatalf("%+v", r)
	}
}

func TestEmitHintIsThePortableKey(t *testing.T) {
	s := session(t)
	r, err := run(t, s, "INSERT INTO sums SELECT /*+ EMIT('allowed-lateness' = '10 min') */"+query)
	if err != nil {
		t.Fatal(err)
	}
	if got := lateness(r.Plan); got != 600000 {
		t.Errorf("lateness is %d ms with the hint", got)
	}
	if s.Config().Has("tidemark.emit.sums.allowed-lateness") {
		t.Error("the hint changed the session")
	}
	r, err = run(t, s, "SET 'tidemark.emit.sums.allowed-lateness' = '5 min'; INSERT INTO sums SELECT"+query)
	if err != nil || lateness(r.Plan) != 300000 {
		t.Errorf("lateness with the key: %v", err)
	}
	for text, want := range map[string]string{
		"INSERT INTO sums SELECT /*+ EMIT('allowed-latness' = '1 s') */" + query: "did you mean",
		"INSERT INTO sums SELECT /*+ EMIT('allowed-lateness' = 'x') */" + query:  "number and a unit",
		"SELECT /*+ EMIT('allowed-lateness' = '1 s') */ 1":                       "has none",
		"INSERT INTO sums SELECT /*+ EMIT */" + query:                            "needs options",
	} {
		if _, err := run(t, s, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestExplainAnswersWithText(t *testing.T) {
	r, err := run(t, session(t), "EXPLAIN INSERT INTO sums SELECT"+query)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := r.Rows[0][0].(string)
	if r.Plan != nil || !strings.Contains(text, "Physical") || !strings.Contains(text, "TUMBLE") {
		t.Fatalf("%s", text)
	}
}

func TestBatchTimeIsFixedPerStatement(t *testing.T) {
	now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	s := sql.NewSession(sql.SessionOptions{Zone: time.UTC, Now: func() time.Time { now = now.Add(time.Hour); return now }})
	if _, err := run(t, s, "SET 'execution.runtime-mode' = 'batch'; VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	first := s.Config().Env().QueryStart
	if !first.Equal(s.Config().Env().QueryStart) {
		t.Error("the time moves within a statement")
	}
	if _, err := run(t, s, "VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if first.Equal(s.Config().Env().QueryStart) {
		t.Error("the time stands still between statements")
	}
}
