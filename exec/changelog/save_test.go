package changelog_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/changelog"
	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

var kv = types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "v", Type: types.StringType})

func normalize() (op.Operator, error) {
	return changelog.NewNormalize(&plan.Normalize{Keys: []int{0}}, kv, kv)
}

func materialize() (op.Operator, error) {
	return changelog.NewMaterialize(&plan.Materialize{Keys: []int{0}, TTLMs: 1000}, kv, kv)
}

// TestSave_Incremental: rows that come again without a change are not written again.
func TestSave_Incremental(t *testing.T) {
	row := func(kind types.RowKind, k int64, v string) exectest.Step { return exectest.Change(kind, k, v) }
	save := exectest.Step{Save: true}
	const add, del = types.Insert, types.Delete
	script := []exectest.Step{row(add, 1, "a"), row(add, 2, "b"), row(add, 3, "c"), save, row(add, 1, "a"), save,
		row(add, 2, "d"), row(del, 3, "c"), row(add, 4, "e"), row(del, 4, "e"), save, save}
	c := &exectest.Cluster{Make: normalize}
	if _, err := exectest.Drive(c, kv, script, exectest.Variant{Size: 1}, exectest.Options{}); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.Puts), "[map[0:3] map[] map[0:1] map[]]"; got != want {
		t.Errorf("written %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(c.Deletes), "[map[] map[] map[0:1] map[]]"; got != want {
		t.Errorf("deleted %s, want %s", got, want)
	}
}

var fuzzed = []exectest.Step{exectest.Row(int64(1), "a"), exectest.Row(int64(2), "a text of more than twelve bytes"),
	exectest.Row(nil, nil), exectest.Row(int64(1), "b")}

func FuzzRestoreNormalize(f *testing.F) {
	exectest.FuzzRestore(f, normalize, kv, fuzzed, exectest.Options{})
}

func FuzzRestoreMaterialize(f *testing.F) {
	exectest.FuzzRestore(f, materialize, kv, fuzzed, exectest.Options{})
}
