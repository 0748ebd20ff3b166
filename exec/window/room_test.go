package window_test

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/plan"
)

// TestSpill_WithinABatch: where one batch adds many times what memory has room for, since each of its rows is in many
// windows that are corrected, with some sets of values, it is taken in parts, and the results are those without a bound.
func TestSpill_WithinABatch(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of work")
	}
	const (
		limit = 2 << 20
		hop   = 1000
		rows  = 6_000
	)
	run := func(limit int64) *narrow {
		cs := exectest.Case{Schema: narrowSchema}
		aggs, err := cs.Aggs("COUNT(*); COUNT(DISTINCT i); COUNT(DISTINCT d); COUNT(DISTINCT ts)", true)
		if err != nil {
			t.Fatal(err)
		}
		x := newNarrow(t, &plan.WindowAgg{Window: plan.Window{Kind: plan.Hop, Size: 48 * hop, Step: hop, TimeCol: 1}, Keys: []int{0}, Aggs: aggs,
			EarlyFireMs: -1, LateFireMs: 1000, AllowedLatenessMs: 10 * hop}, limit)
		x.keep = true
		r := rand.New(rand.NewSource(1))
		for i := range int64(rows) {
			at := i * 30 * hop / rows
			x.row(r.Int63n(20), max(0, at-r.Int63n(20*hop)), r.Int63n(1_000_000))
			if i%2500 == 2499 {
				x.watermark(at)
			}
		}
		x.end()
		slices.Sort(x.texts)
		return x
	}
	bound, free := run(limit), run(1<<30)
	if !slices.Equal(bound.texts, free.texts) || len(free.texts) < 1000 {
		t.Errorf("%d results within %d bytes, %d others without a bound", len(bound.texts), limit, len(free.texts))
	}
	t.Logf("%d KiB of memory at most, %d without a bound", bound.peak>>10, free.peak>>10)
	if bound.peak > limit+20<<20 || free.peak < 4*bound.peak {
		t.Errorf("state took %d KiB of memory where %d were given, and %d without a bound", bound.peak>>10, limit>>10, free.peak>>10)
	}
}
