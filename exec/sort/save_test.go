package sort_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/sort"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

var timed = types.NewSchema(types.Field{Name: "t", Type: types.TimestampType(3)},
	types.Field{Name: "v", Type: types.StringType})

func at(t int64, v string) exectest.Step { return exectest.Row(t, v) }

// TestSave_Incremental: a save writes the rows that came and stay, and deletes those that went.
func TestSave_Incremental(t *testing.T) {
	save := exectest.Step{Save: true}
	del := func(t int64, v string) exectest.Step { return exectest.Change(types.Delete, t, v) }
	for _, c := range []struct {
		name          string
		limit         int64
		batch         bool
		script        []exectest.Step
		puts, deletes string
	}{
		{"held back until a watermark", -1, false, []exectest.Step{at(5, "a"), at(3, "b"), at(9, "c"), save, save,
			at(2, "d"), exectest.WM(2), at(10, "e"), save, exectest.WM(5), save},
			"[map[0:3] map[] map[0:1] map[]]", "[map[] map[] map[] map[0:2]]"},
		{"the first two", 2, false, []exectest.Step{at(5, "a"), at(3, "b"), save, at(9, "c"), save, at(1, "d"), at(0, "e"),
			save}, "[map[0:2] map[] map[0:2]]", "[map[] map[] map[0:2]]"},
		{"the first two of a changelog", 2, false, []exectest.Step{at(5, "a"), del(5, "a"), save, at(9, "c"), at(1, "d"),
			at(0, "e"), save, del(1, "d"), at(4, "f"), save}, "[map[] map[0:3 1:3] map[0:1 1:1]]", "[map[] map[] map[0:1 1:1]]"},
		{"all at the end", -1, true, []exectest.Step{at(5, "a"), save, at(3, "b"), at(9, "c"), save, save},
			"[map[0:1] map[0:2] map[]]", "[map[] map[] map[]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := &exectest.Cluster{Make: func() (op.Operator, error) {
				return sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0}}, Limit: c.limit}, timed, timed, strings.Contains(c.name, "changelog"))
			}}
			if _, err := exectest.Drive(cl, timed, c.script, exectest.Variant{Size: 1},
				exectest.Options{BatchMode: c.batch}); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(cl.Puts); got != c.puts {
				t.Errorf("written %s, want %s", got, c.puts)
			}
			if got := fmt.Sprint(cl.Deletes); got != c.deletes {
				t.Errorf("deleted %s, want %s", got, c.deletes)
			}
		})
	}
}

func FuzzRestore(f *testing.F) {
	mk := func() (op.Operator, error) {
		return sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0}}, Limit: -1}, timed, timed, false)
	}
	exectest.FuzzRestore(f, mk, timed, []exectest.Step{at(5, "a"), at(3, "a text of more than twelve bytes"), exectest.WM(1)},
		exectest.Options{})
}

func FuzzRestoreTop(f *testing.F) {
	mk := func() (op.Operator, error) {
		return sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0}}, Limit: 2}, timed, timed, true)
	}
	exectest.FuzzRestore(f, mk, timed, []exectest.Step{at(5, "a"), at(3, "a text of more than twelve bytes"),
		exectest.Change(types.Delete, int64(5), "a"), at(4, "c")}, exectest.Options{})
}

func FuzzRestoreLimit(f *testing.F) {
	mk := func() (op.Operator, error) { return sort.NewLimit(&plan.Limit{Limit: 3, Offset: 1}, timed, true), nil }
	exectest.FuzzRestore(f, mk, timed, []exectest.Step{at(5, "a"), exectest.Change(types.Delete, int64(5), "a"),
		at(3, "b"), at(4, "c")}, exectest.Options{})
}
