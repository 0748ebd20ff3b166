package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestState_OfEarlierVersions reads, changes and starts from a savepoint that a version wrote which did
// not say what keys and accumulators are made of. Its job had read three rows of the script beside it.
func TestState_OfEarlierVersions(t *testing.T) {
	const old = "testdata/savepoint-v1"
	script, err := os.ReadFile(filepath.Join(old, "flow.sql"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFlow(t, "")
	f.text = string(script) // its paths are relative
	f.drops = true          // rows of joins have another form since
	f.rows = 3
	at := filepath.Join(f.dir, "old")
	if err := os.CopyFS(at, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	_, sp := f.look(at)
	var got []string
	for i := range sp.Manifest.Operators {
		o := &sp.Manifest.Operators[i]
		for st := range o.States {
			keys := map[string]bool{}
			if err := sp.Entries(t.Context(), o, st, func(b *vec.Batch) error {
				for i := range b.N {
					keys[fmt.Sprint(b.Cols[0].Value(i))] = true
				}
				return nil
			}); err != nil {
				t.Errorf("%s: %v", engine.StateTable(o, st), err)
			}
			got = append(got, fmt.Sprintf("%s %d", engine.StateTable(o, st), len(keys)))
		}
	}
	// The slices are of 10:00:00 to 10:00:05, all three rows; their first column is the end.
	want := []string{"2/groups 3", "2/values of 1 3", "5/slices 1", "5/held rows 0", "8/sessions 3", "12/left rows 3", "12/right rows 3"}
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	_, rows := f.query(at, "SELECT k, `name`, a.`filters` FROM `2/values of 1` AS a ORDER BY k")
	same(t, rows, "1|n1|1", "2|n2|1", "3|n3|1")
	_, rows = f.query(at, "SELECT entries, fired FROM `5/timers`")
	same(t, rows, "3|false", "3|false")

	at = f.mustEdit(at, "groupagg", "groups", engine.Edit{Where: "k = 2", Delete: true})
	_, rows = f.query(at, "SELECT k FROM `2/groups` ORDER BY k")
	same(t, rows, "1", "3")
	f.put(order(2, "1.00", `"x"`))
	at = f.run(at)
	_, rows = f.query(at, "SELECT k, row_count, sum_price FROM `2/groups` ORDER BY k")
	same(t, rows, "1|1|1.50", "2|1|1.00", "3|1|3.50")
}
