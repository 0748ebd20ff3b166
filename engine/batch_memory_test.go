package engine_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

const batchRows = 150_000

// batchScript runs a query of a table of batchRows rows of more than 128 bytes each in batch mode, with
// memory for a tenth of them or less.
func batchScript(tmp, query string) string {
	return fmt.Sprintf(`SET 'execution.runtime-mode' = 'batch';
SET 'tidemark.state.memory' = '2 mb';
SET 'io.tmp.dirs' = '%s';
CREATE TABLE src (k INT, v BIGINT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '%d', 'rows-per-second' = '100000000', 'fields.k.min' = '1',
  'fields.k.max' = '100000000', 'fields.v.kind' = 'sequence', 'fields.v.start' = '1', 'fields.v.end' = '%[2]d', 'fields.s.length' = '128');
%[3]s;
`, tmp, batchRows, query)
}

// empty checks that nothing is left in a folder.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v are left in the temporary folder: %v", left, err)
	}
}

// TestBatch_SortsMoreThanMemory sorts an input of several times the memory for state: most rows are on
// disk when the first comes out, all come in order, and the disk is given back.
func TestBatch_SortsMoreThanMemory(t *testing.T) {
	tmp := t.TempDir()
	before, first := state.Evictions(), int64(-1)
	var rows, sum, last int64
	err := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7}).Script(t.Context(), "flow.sql",
		batchScript(tmp, "SELECT k, v, s FROM src ORDER BY k, v"), engine.Handler{Rows: func(_ *engine.Run, b *vec.Batch) error {
			if first < 0 {
				first = state.Evictions() - before
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				t.Logf("%d of %d rows had left memory; the heap has %d MB", first, batchRows, m.HeapAlloc>>20)
			}
			for _, i := range b.Selected() {
				at := int64(b.Cols[0].I32[i])<<32 | b.Cols[1].I64[i]
				if at <= last {
					return fmt.Errorf("row %d is out of order", rows)
				}
				last = at
				rows++
				sum += b.Cols[1].I64[i]
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if rows != batchRows || sum != batchRows*(batchRows+1)/2 {
		t.Errorf("%d rows with the sum %d came out", rows, sum)
	}
	if first < batchRows/4*3 {
		t.Errorf("%d of %d rows had left memory", first, batchRows)
	}
	empty(t, tmp)
}

// TestBatch_KeepsMoreThanMemory joins and groups an input of several times the memory for state.
func TestBatch_KeepsMoreThanMemory(t *testing.T) {
	for _, c := range []struct {
		name, query string
		left        int64 // so many rows leave memory at least
		want        []string
	}{
		{"join", "SELECT COUNT(*), COUNT(b.v), SUM(b.v), SUM(a.v) FROM (SELECT * FROM src WHERE v <= 40000) AS a " +
			"LEFT JOIN (SELECT * FROM src WHERE v <= 40000 AND MOD(v, 4) = 0) AS b ON a.v = b.v AND a.s >= '' AND b.s >= ''",
			10_000, []string{"40000", "10000", "200020000", "800020000"}},
		{"groups", "SELECT COUNT(*), SUM(n), SUM(CHAR_LENGTH(m)), SUM(v) FROM (SELECT v, COUNT(*) AS n, MAX(s) AS m FROM src GROUP BY v) AS g",
			0, []string{"150000", "150000", "19200000", "11250075000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmp := t.TempDir()
			before := state.Evictions()
			var got []string
			err := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7}).Script(t.Context(), "flow.sql", batchScript(tmp, c.query),
				engine.Handler{Rows: func(_ *engine.Run, b *vec.Batch) error {
					for _, i := range b.Selected() {
						for _, col := range b.Cols {
							got = append(got, fmt.Sprint(col.Value(int(i))))
						}
					}
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, c.want...)
			if n := state.Evictions() - before; n < c.left {
				t.Errorf("%d rows left memory", n)
			}
			empty(t, tmp)
		})
	}
}

// TestBatch_FailsAndLeavesNothing has a sort that left memory end with an error, while it reads and while
// it shows rows: its temporary folder is gone.
func TestBatch_FailsAndLeavesNothing(t *testing.T) {
	full := errors.New("the screen is full")
	divides := fmt.Sprintf("SELECT 1 / (v - %d) AS d, s FROM src ORDER BY d", batchRows*9/10)
	for _, c := range []struct {
		query string
		shows error
		want  string
	}{{"SELECT k, v, s FROM src ORDER BY k", full, full.Error()}, {divides, nil, "division by zero"}} {
		tmp := t.TempDir()
		before := state.Evictions()
		err := engine.New(engine.Options{Dir: t.TempDir(), Seed: 7}).Script(t.Context(), "flow.sql", batchScript(tmp, c.query),
			engine.Handler{Rows: func(*engine.Run, *vec.Batch) error { return c.shows }})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v", c.query, err)
		}
		if state.Evictions() == before {
			t.Errorf("%s: no row had left memory", c.query)
		}
		empty(t, tmp)
	}
}
