package window_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
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

// TestSpill_Corrected: windows and sessions that are shown early and corrected late, with distinct values, show at each
// watermark what those show that stay in memory.
func TestSpill_Corrected(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of work")
	}
	const (
		limit = 1 << 19
		gap   = 64 * 40 // buckets of parked are 40 ms wide
		keys  = 1500
	)
	for name, c := range map[string]struct {
		w     plan.Window
		aggs  string
		early int64 // by rows
		clock int64
	}{
		"session":       {plan.Window{Kind: plan.Session, Size: gap}, "COUNT(*); COUNT(DISTINCT i); SUM(d)", 0, -1},
		"session,early": {plan.Window{Kind: plan.Session, Size: gap}, "COUNT(DISTINCT i); SUM(i)", 3, -1},
		"session,clock": {plan.Window{Kind: plan.Session, Size: gap}, "COUNT(DISTINCT i); SUM(i)", 0, 500},
		"tumble":        {plan.Window{Kind: plan.Tumble, Size: gap}, "COUNT(DISTINCT i); SUM(d)", 0, 500},
		"hop":           {plan.Window{Kind: plan.Hop, Size: gap, Step: gap / 2}, "COUNT(DISTINCT i); SUM(DISTINCT i)", 4, -1},
	} {
		t.Run(name, func(t *testing.T) {
			cs := exectest.Case{Schema: narrowSchema}
			aggs, err := cs.Aggs(c.aggs, true)
			if err != nil {
				t.Fatal(err)
			}
			c.w.TimeCol = 1
			n := func() *plan.WindowAgg {
				return &plan.WindowAgg{Window: c.w, Keys: []int{0}, Aggs: aggs, EarlyFireMs: c.clock, LateFireMs: -1, EarlyFireRows: c.early,
					AllowedLatenessMs: gap / 2, Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}}
			}
			both := []*narrow{newNarrow(t, n(), limit), newNarrow(t, n(), 1<<30)}
			for _, x := range both {
				x.keep = true
			}
			r := newRand(5)
			shown := 0
			for now := int64(gap); now < 4*gap; {
				for range 800 {
					key, ts, v := r.Int63n(keys)+now/gap*keys/2, now+r.Int63n(gap)-gap*3/4, r.Int63n(60)
					for _, x := range both {
						x.row(key, ts, v)
					}
				}
				now += 1 + r.Int63n(gap/6)
				check := r.Intn(8) == 0
				var folded [2]map[string]int
				for i, x := range both {
					x.flush()
					x.now = now
					x.check(x.o.(op.ProcTimer).ProcTime(now))
					x.watermark(now)
					if check {
						folded[i] = fold(x.texts)
					}
				}
				if !maps.Equal(folded[0], folded[1]) {
					t.Fatalf("watermark %d: %d results, want %d", now, len(folded[0]), len(folded[1]))
				}
				shown = max(shown, len(folded[1]))
			}
			little, much := both[0], both[1]
			little.end()
			much.watermark(vec.MaxTime)
			much.check(much.o.Finish())
			much.check(much.o.Close())
			if got, want := fold(little.texts), fold(much.texts); !maps.Equal(got, want) || len(want) < shown/2 {
				t.Errorf("%d results at the end, want %d", len(got), len(want))
			}
			m, plenty := little.store.Metrics(), much.peak-much.base
			t.Logf("%d results, %d KiB of memory at most, %d where there is plenty; %d entries came back", shown, little.peak>>10, plenty>>10, m.Hits)
			much.check(much.store.Close())
			// Rows come for most keys all the time: it is not much that can leave.
			if m.Hits < keys || little.peak >= plenty {
				t.Errorf("state took %d KiB of memory where %d were given, %d where there is plenty; %d entries came back",
					little.peak>>10, limit>>10, plenty>>10, m.Hits)
			}
		})
	}
}

// fold counts the rows of a changelog that are left.
func fold(texts []string) map[string]int {
	left := map[string]int{}
	for _, s := range texts {
		kind, row, _ := strings.Cut(s, " ")
		if kind == "-U" || kind == "-D" {
			left[row]--
		} else {
			left[row]++
		}
	}
	maps.DeleteFunc(left, func(_ string, n int) bool { return n == 0 })
	return left
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
