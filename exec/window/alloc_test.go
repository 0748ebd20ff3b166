package window_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
)

// TestWindow_Allocations: once warm, batches and firings allocate next to nothing: a few words
// for each new slice, and with checkpoints where its entries are.
func TestWindow_Allocations(t *testing.T) {
	for _, saves := range []bool{false, true} {
		allocations(t, saves)
	}
}

func allocations(t *testing.T, saves bool) {
	c := exectest.Case{Schema: bidSchema}
	for _, w := range []plan.Window{
		{Kind: plan.Tumble, Size: 500}, {Kind: plan.Hop, Size: 1000, Step: 100},
		{Kind: plan.Cumulate, Size: 1000, Step: 100}, {Kind: plan.Session, Size: 20},
	} {
		w.TimeCol = 2
		aggs, err := c.Aggs("COUNT(*); SUM(price); MAX(price)", true)
		if err != nil {
			t.Fatal(err)
		}
		n := &plan.WindowAgg{Window: w, Keys: []int{0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1,
			Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}}
		o, err := window.NewAgg(n, bidSchema, outSchema(bidSchema, n))
		if err != nil {
			t.Fatal(err)
		}
		ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{}, Saves: saves,
			Now: func() int64 { return 0 }}
		if err := o.Open(ctx, &exectest.Discard{}); err != nil {
			t.Fatal(err)
		}
		g := newBids(20, 500, 40_000, false)
		var d state.Delta
		i := 0
		push := func() {
			b, wm := g.next(i)
			i++
			if err := o.Process(0, b); err != nil {
				t.Fatal(err)
			}
			if err := o.Watermark(wm); err != nil {
				t.Fatal(err)
			}
			if saves && i%4 == 0 {
				d.Reset()
				if err := o.(op.Stateful).Freeze(&d); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 200 {
			push()
		}
		// A batch is 51 ms of event time: half a slice of 100 ms.
		most := 3.0
		if saves {
			most = 8
		}
		if n := testing.AllocsPerRun(100, push); n > most {
			t.Errorf("%s, saves %v: %v allocations a batch", w.Kind, saves, n)
		}
		o.Close()
	}
}
