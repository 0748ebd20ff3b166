package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/vec"
)

// script keeps every shape of keys: groups, distinct values of groups, windows, distinct values of
// windows, both sides of a join, rows by key.
const script = `
SET 'execution.checkpointing.interval' = '1 h';
CREATE TABLE bids (item INT, price INT, note STRING, ts AS TO_TIMESTAMP('2026-03-01 10:00:00'), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
  'rows-per-second' = '100000', 'fields.item.min' = '1', 'fields.item.max' = '5', 'fields.price.kind' = 'sequence', 'fields.price.start' = '1',
  'fields.price.end' = '100000000', 'fields.note.length' = '3');
CREATE TABLE items (item INT, name INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10000',
  'fields.item.min' = '1', 'fields.item.max' = '7', 'fields.name.min' = '1', 'fields.name.max' = '3');
CREATE TABLE sums (item INT, n BIGINT, notes BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE hours (s TIMESTAMP(3), item INT, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE named (item INT, name INT, other INT) WITH ('connector' = 'blackhole');
EXECUTE STATEMENT SET BEGIN
INSERT INTO sums SELECT item, COUNT(*), COUNT(DISTINCT price / 1000000) FROM bids GROUP BY item;
INSERT INTO hours SELECT window_start, item, COUNT(DISTINCT price / 1000000) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))
  GROUP BY window_start, window_end, item;
INSERT INTO named SELECT a.item, a.name, b.item FROM items AS a LEFT JOIN items AS b ON a.name = b.name;
END;
`

// stopped runs the script in dir until some rows came, and stops it with a savepoint.
func stopped(t *testing.T, e *engine.Engine, text string) string {
	t.Helper()
	var place string
	err := e.Script(t.Context(), "flow.sql", text, engine.Handler{JobStarted: func(r *engine.Run) {
		go func() {
			for end := time.Now().Add(time.Minute); r.Status().RowsRead < 3000 && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			p, err := r.Savepoint(context.Background())
			if err != nil {
				t.Error(err)
			}
			place = p
			r.Stop()
			<-r.Done()
		}()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if place == "" {
		t.Fatal("there is no savepoint")
	}
	return place
}

func TestSavepoint_LookChangeAndStart(t *testing.T) {
	dir := t.TempDir()
	e := engine.New(engine.Options{Dir: dir, Seed: 7})
	place := stopped(t, e, script)

	list, err := e.Savepoints(t.Context(), dir)
	if err != nil || len(list) < 2 {
		t.Fatalf("%d savepoints and checkpoints are listed: %v", len(list), err)
	}
	sp, err := e.OpenSavepoint(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer sp.Close()
	var seen []string
	for i := range sp.Manifest.Operators {
		o := &sp.Manifest.Operators[i]
		for st, spec := range o.States {
			n, _, err := sp.Measure(o, st)
			if err != nil {
				t.Fatal(err)
			}
			rows := int64(0)
			first := map[string]bool{}
			if err := sp.Entries(t.Context(), o, st, func(b *vec.Batch) error {
				rows += int64(b.N)
				for i := range b.N {
					first[fmt.Sprint(b.Cols[0].Value(i))] = true
				}
				return nil
			}); err != nil {
				t.Errorf("%s/%s: %v", o.Label, spec.Name, err)
			}
			if rows != n {
				t.Errorf("%s/%s: %d rows of %d entries", o.Label, spec.Name, rows, n)
			}
			if n > 0 {
				seen = append(seen, fmt.Sprintf("%s/%s %d", o.Label, spec.Name, len(first)))
			}
		}
	}
	// The first column is the item, of which there are five; the window, of which there is one; or the
	// name, of which there are three.
	for _, want := range []string{"GroupAggregate(by item)/groups 5", "GroupAggregate(by item)/values of 1 5", "TumbleAggregate(by item)/windows 1",
		"TumbleAggregate(by item)/windows: values of 1 1", "/left rows 3", "/right rows 3"} {
		if !slices.ContainsFunc(seen, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%s is not among %q", want, seen)
		}
	}

	agg, err := sp.Operator("groupaggregate")
	if err != nil {
		t.Fatal(err)
	}
	count := func(sp *engine.Savepoint, query string) (rows int) {
		t.Helper()
		if err := e.Query(t.Context(), sp, query, engine.Handler{Rows: func(_ *engine.Run, b *vec.Batch) error {
			rows += len(b.Selected())
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	groups := "`" + engine.StateTable(agg, 0) + "`"
	if n := count(sp, "SELECT item FROM "+groups+" WHERE item > 3 AND row_count > 0 AND count_distinct_column1 = 1"); n != 2 {
		t.Errorf("the query gives %d rows, want 2", n)
	}

	// Entries are written back: one deleted, counts of the others set.
	if _, _, err := e.Write(t.Context(), sp, engine.Edit{Operator: agg, Set: map[string]string{"item": "1"}}, filepath.Join(dir, "no")); err == nil {
		t.Error("a key was set")
	}
	if _, _, err := e.Write(t.Context(), sp, engine.Edit{Operator: agg, Delete: true, Where: "item = 77"}, filepath.Join(dir, "no")); err == nil {
		t.Error("nothing was written back")
	}
	n, less, err := e.Write(t.Context(), sp, engine.Edit{Operator: agg, Delete: true, Where: "item = 5"}, filepath.Join(dir, "less"))
	if err != nil || n != 1 {
		t.Fatalf("%d entries were deleted: %v", n, err)
	}
	sp2, err := e.OpenSavepoint(t.Context(), less)
	if err != nil {
		t.Fatal(err)
	}
	defer sp2.Close()
	n, zeroed, err := e.Write(t.Context(), sp2, engine.Edit{Operator: agg, Set: map[string]string{"row_count": "-item"}, Where: "TRUE"}, filepath.Join(dir, "zero"))
	if err != nil || n != 4 {
		t.Fatalf("%d entries were set: %v", n, err)
	}
	if _, _, err := e.Write(t.Context(), sp2, engine.Edit{Operator: agg, Delete: true}, zeroed); err == nil {
		t.Error("a savepoint was written over another")
	}
	sp3, err := e.OpenSavepoint(t.Context(), zeroed)
	if err != nil {
		t.Fatal(err)
	}
	defer sp3.Close()
	if n := count(sp3, "SELECT * FROM "+groups+" WHERE row_count = -item AND count_distinct_column1 = 1"); n != 4 {
		t.Errorf("%d entries are set, want 4", n)
	}
	if n := count(sp3, "SELECT * FROM "+groups); n != 4 {
		t.Errorf("there are %d entries, want 4", n)
	}

	// The job starts from what was written.
	from := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7, Recovery: engine.RecoveryOptions{From: less}})
	if again := stopped(t, from, script); again == "" {
		t.Error("no savepoint was written")
	}
}

func TestPlanFrom(t *testing.T) {
	dir := t.TempDir()
	e := engine.New(engine.Options{Dir: dir, Seed: 7})
	first, err := e.PlanFrom(t.Context(), "flow.sql", script, "")
	if err != nil || len(first) != 1 || first[0].From != nil || !strings.Contains(first[0].Why, "no checkpoint yet") {
		t.Fatalf("before the first run: %+v, %v", first, err)
	}
	place := stopped(t, e, script)
	for _, c := range []struct{ what, old, new, want string }{
		{"nothing", "", "", ""},
		{"an aggregate", "COUNT(*),", "MAX(price),", "GroupAggregate(by item)"},
		{"parallelism", "SET 'execution.checkpointing.interval' = '1 h';", "SET 'parallelism.default' = '2';", ""},
		{"key groups", "SET 'execution.checkpointing.interval' = '1 h';", "SET 'pipeline.max-parallelism' = '64';", "pipeline.max-parallelism"},
	} {
		for _, from := range []string{place, ""} {
			plans, err := e.PlanFrom(t.Context(), "flow.sql", strings.Replace(script, c.old, c.new, 1), from)
			if err != nil || len(plans) != 1 {
				t.Fatalf("%s: %v", c.what, err)
			}
			p := plans[0]
			if p.From == nil {
				t.Fatalf("%s: it starts from nothing: %s", c.what, p.Why)
			}
			var dropped *checkpoint.DroppedError
			switch {
			case c.want == "" && (p.Err != nil || p.Report == nil):
				t.Errorf("%s: %v", c.what, p.Err)
			case c.want != "" && (p.Err == nil || !strings.Contains(p.Err.Error(), c.want)):
				t.Errorf("%s: the error is %v", c.what, p.Err)
			case c.what == "an aggregate" && !errors.As(p.Err, &dropped):
				t.Errorf("%s: the error is %T", c.what, p.Err)
			}
		}
	}
	if _, err := e.PlanFrom(t.Context(), "flow.sql", script, filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a place without a savepoint is planned from")
	}
	if _, err := os.Stat(filepath.Join(dir, engine.DefaultCheckpoints, "flow.sql", "lock")); err != nil {
		t.Error(err)
	}
}
