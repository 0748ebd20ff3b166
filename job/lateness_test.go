package job

import (
	"testing"

	"github.com/tidemark-stream/tidemark/exec/op"
)

// TestBooks_Lateness has checkpoints keep how late rows were: subtasks are added up, and go on from the sum.
func TestBooks_Lateness(t *testing.T) {
	var a, b op.Counters
	var by op.LateBy
	for _, ms := range []int64{5, 70_000, 1 << 50} {
		by.Note(ms)
	}
	a.Late.Add(&by)
	b.Late.Add(&by)
	saved := map[string]int64{}
	addBooks(saved, &a)
	addBooks(saved, &b)
	var after op.Counters
	setBooks(&after, saved)
	by.Add(&by)
	if got := after.Late.Load(); got != by || lateBy(saved) != by || got.Count() != 6 {
		t.Errorf("%v, want %v", got, by)
	}
}
