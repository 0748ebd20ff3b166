package window_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestSpill_Distinct takes windows whose distinct values are many times larger than the memory there is through
// all shapes, with keys and without, and compares them with windows that have plenty.
func TestSpill_Distinct(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of work")
	}
	const (
		limit = 1 << 20
		day   = 86_400_000
	)
	for name, c := range map[string]struct {
		w       plan.Window
		aggs    string
		keys    int64 // 0: none
		values  int64
		retract bool
	}{
		"tumble":            {plan.Window{Kind: plan.Tumble, Size: day}, "COUNT(DISTINCT i); SUM(DISTINCT i); COUNT(*)", 500, 30_000, false},
		"tumble,no keys":    {plan.Window{Kind: plan.Tumble, Size: day}, "COUNT(DISTINCT i); SUM(DISTINCT i); COUNT(*)", 0, 80_000, false},
		"tumble,retracts":   {plan.Window{Kind: plan.Tumble, Size: day}, "COUNT(DISTINCT i); MIN(i); MAX(i)", 100, 20_000, true},
		"hop":               {plan.Window{Kind: plan.Hop, Size: day, Step: day / 4}, "COUNT(DISTINCT i); SUM(DISTINCT i)", 300, 25_000, false},
		"hop,no keys":       {plan.Window{Kind: plan.Hop, Size: day, Step: day / 4}, "COUNT(DISTINCT i); SUM(DISTINCT i)", 0, 25_000, false},
		"hop,retracts":      {plan.Window{Kind: plan.Hop, Size: day, Step: day / 2}, "COUNT(DISTINCT i); MIN(i); MAX(i)", 0, 16_000, true},
		"cumulate":          {plan.Window{Kind: plan.Cumulate, Size: day, Step: day / 4}, "COUNT(DISTINCT i); MAX(i)", 300, 25_000, false},
		"cumulate,no keys":  {plan.Window{Kind: plan.Cumulate, Size: day, Step: day / 4}, "COUNT(DISTINCT i); MAX(i)", 0, 25_000, false},
		"cumulate,retracts": {plan.Window{Kind: plan.Cumulate, Size: day, Step: day / 4}, "COUNT(DISTINCT i); MIN(i); MAX(i)", 50, 16_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			cs := exectest.Case{Schema: narrowSchema}
			aggs, err := cs.Aggs(c.aggs, true)
			if err != nil {
				t.Fatal(err)
			}
			c.w.TimeCol = 1
			n := func() *plan.WindowAgg {
				n := &plan.WindowAgg{Window: c.w, Aggs: aggs, InputRetracts: c.retract, EarlyFireMs: -1, LateFireMs: -1}
				if c.keys > 0 {
					n.Keys = []int{0}
				}
				return n
			}
			little, much := newNarrow(t, n(), limit), newNarrow(t, n(), 1<<30)
			for _, x := range []*narrow{little, much} {
				x.keep = true
				// Each value comes in both halves of a day, for the most part.
				for round := range int64(2) {
					for i := range c.values {
						v := i * 7_368_787 % c.values
						at := (round*c.values + i) * (day / 2) / c.values
						x.row(v%max(c.keys, 1), at, v+round*(v%5))
						if c.retract && v%3 == 0 {
							x.kind = types.Delete
							x.row(v%max(c.keys, 1), at, v)
							x.kind = types.Insert
						}
						if i%(c.values/4) == 0 {
							x.watermark(at - 1)
						}
					}
				}
			}
			little.end()
			much.watermark(vec.MaxTime)
			much.check(much.o.Finish())
			much.check(much.o.Close())
			much.check(much.store.Close())
			slices.Sort(little.texts)
			slices.Sort(much.texts)
			if len(much.texts) == 0 || !slices.Equal(little.texts, much.texts) {
				t.Errorf("%d results, want %d: %s", len(little.texts), len(much.texts), firstDiff(little.texts, much.texts))
			}
			plenty := much.peak - much.base
			t.Logf("%d results, %d KiB of memory at most, %d where there is plenty", len(little.texts), little.peak>>10, plenty>>10)
			if little.peak > limit+limit/2+1<<20 || plenty < 2*limit {
				t.Errorf("state took %d KiB of memory where %d were given, %d where there is plenty", little.peak>>10, limit>>10, plenty>>10)
			}
		})
	}
}

// text is row i of a batch.
func text(b *vec.Batch, i int) string {
	s := b.Kind(i).String()
	for _, c := range b.Cols {
		s += fmt.Sprint(" ", exectest.Text(c.Value(i), c.Type))
	}
	return s
}

// firstDiff is where two sorted lists begin to differ.
func firstDiff(got, want []string) string {
	for i, s := range got {
		if i == len(want) || s != want[i] {
			return fmt.Sprintf("%q, want %q", s, want[min(i, len(want)-1)])
		}
	}
	return fmt.Sprintf("%q is missing", want[len(got)])
}
