package window_test

import (
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestAssigner asks the operators themselves: a row that comes when all its windows are over is told as late for
// each of them, with the instants at which they were.
func TestAssigner(t *testing.T) {
	const hour = int64(3_600_000)
	cs := exectest.Case{Schema: bidSchema}
	aggs, err := cs.Aggs("COUNT(*)", true)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(7))
	several := 0
	for _, zone := range []string{"", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"} {
		for _, w := range []plan.Window{{Kind: plan.Tumble, Size: hour}, {Kind: plan.Tumble, Size: 24 * hour}, {Kind: plan.Tumble, Size: 24 * hour, Offset: 6 * hour},
			{Kind: plan.Hop, Size: 3 * hour, Step: hour / 2}, {Kind: plan.Hop, Size: hour, Step: 2 * hour}, {Kind: plan.Cumulate, Size: 24 * hour, Step: 6 * hour}, {Kind: plan.Session, Size: hour}} {
			for _, lateness := range []int64{0, hour} {
				w.TimeCol, w.Zone = 2, zone
				n := &plan.WindowAgg{Window: w, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1, AllowedLatenessMs: lateness, FinalOnly: true}
				a, err := window.NewAssigner(n)
				if err != nil {
					t.Fatal(err)
				}
				for range 40 {
					// Around the days on which clocks are set in the one or the other zone.
					day := []string{"2024-03-10", "2024-11-03", "2024-04-07", "2024-10-06", "2024-07-01"}[r.Intn(5)]
					at, _ := time.Parse("2006-01-02", day)
					ms := at.UnixMilli() + r.Int63n(72)*hour/2 - 12*hour + r.Int63n(2) - r.Int63n(2)
					want := lateFor(t, n, ms)
					if got := a.Of(nil, ms); !slices.Equal(got, want) {
						t.Fatalf("%s %s, lateness %d, time %s:\n got %v\nwant %v", zone, w.Kind, lateness, time.UnixMilli(ms).UTC(), got, want)
					}
					if len(want) > 1 {
						several++
					}
				}
			}
		}
	}
	if several == 0 {
		t.Error("no time was of several windows")
	}
}

// lateFor are the windows that the operator of n says a row of time ms has missed, at the end of all times.
func lateFor(t *testing.T, n *plan.WindowAgg, ms int64) []window.Interval {
	o, err := window.NewAgg(n, bidSchema, outSchema(bidSchema, n))
	if err != nil {
		t.Fatal(err)
	}
	var out []window.Interval
	ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{}, Now: func() int64 { return 0 },
		Late: func(b *vec.Batch) error {
			cols := b.Cols[bidSchema.Len():]
			for i := range b.N {
				out = append(out, window.Interval{Start: cols[1].I64[i], End: cols[2].I64[i], Over: cols[3].I64[i] - cols[4].I64[i]})
			}
			return nil
		}}
	if err := o.Open(ctx, &exectest.Discard{}); err != nil {
		t.Fatal(err)
	}
	b := vec.NewBatch(bidSchema)
	b.Reset(1)
	b.N, b.Cols[2].I64[0], b.Stamps = 1, ms, []int64{ms + 100*24*3_600_000}
	if err := o.Process(0, b); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}
