package groupagg_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestGroupAgg_Bounded: on an endless stream of new keys with a time to live, memory and store keep
// about what lives, though most of that is in the store only.
func TestGroupAgg_Bounded(t *testing.T) {
	const rows, ttl, steps = 100, 100, 400 // of a batch; batches, each of which takes 1 ms
	in := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "v", Type: types.BigIntType})
	c := exectest.Case{Schema: in}
	for _, list := range []string{"COUNT(*)", "COUNT(DISTINCT v)"} {
		t.Run(list, func(t *testing.T) {
			aggs, err := c.Aggs(list, true)
			if err != nil {
				t.Fatal(err)
			}
			n := &plan.GroupAgg{Keys: []int{0}, Aggs: aggs, TTLMs: ttl}
			o, err := groupagg.New(n, in, outSchema(in, n))
			if err != nil {
				t.Fatal(err)
			}
			st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{MemoryBytes: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			// Room for a part of what lives.
			budget := state.NewBudget(200 << 10)
			now := int64(0)
			ctx := &op.Context{Env: &expr.Env{}, Counters: &op.Counters{}, Now: func() int64 { return now }, Saves: true,
				Parallelism: 1, MaxParallelism: 16, Budget: budget,
				Spill: state.NewSpill(budget, st, state.SpillOptions{Operator: 1, Hi: 16})}
			budget.Add(-(4 << 20)) // what the store counts for itself
			if err := o.Open(ctx, emitFunc(func(*vec.Batch) {})); err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			b := vec.NewBatch(in)
			var d state.Delta
			most := int64(0)
			for ; now < steps; now++ {
				b.Reset(rows)
				for i := range b.N {
					b.Cols[0].I64[i], b.Cols[1].I64[i] = now*rows+int64(i), int64(i%3)
				}
				if err := o.Process(0, b); err != nil {
					t.Fatal(err)
				}
				ctx.Spill.Between()
				if ctx.Spill.NeedsFreeze() || now%20 == 0 {
					if err := o.(op.Stateful).Freeze(&d); err != nil {
						t.Fatal(err)
					}
					if err := st.Apply(1, d.Bytes()); err != nil {
						t.Fatal(err)
					}
					d.Reset()
					ctx.Spill.Applied(ctx.Spill.Frozen())
				}
				if now > 2*ttl {
					most = max(most, ctx.Counters.StateEntries.Load())
				}
			}
			saved := int64(0)
			for s := range o.(op.Stateful).States() {
				if err := st.Scan(1, s, 0, 16, func(int, []byte, []byte) error { saved++; return nil }); err != nil {
					t.Fatal(err)
				}
			}
			live := int64(rows * ttl * len(o.(op.Stateful).States()))
			index := int64(0)
			if err := st.Scan(1, state.IndexState, 0, 16, func(int, []byte, []byte) error { index++; return nil }); err != nil {
				t.Fatal(err)
			}
			if index < rows*ttl/2 || index > rows*ttl*3/2 {
				t.Errorf("%d entries of the index in the store, where %d groups live", index, rows*ttl)
			}
			if most > live*11/8 || saved > live*3/2 { // and what waits for a freeze
				t.Errorf("%d entries at most, %d in the store at the end, where %d live", most, saved, live)
			}
			if held := budget.Used(); held > 3*budget.Limit() {
				t.Errorf("%d bytes of memory are held of %d", held, budget.Limit())
			}
			if most < live/2 || saved < live/2 {
				t.Errorf("%d entries, %d in the store, where %d live: records are gone too early", most, saved, live)
			}
		})
	}
}
