package join

import (
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// benchJoin is a join of two inputs of (key, value) and a way to fill a batch with keys in turn.
func benchJoin(tb testing.TB, kind plan.JoinKind, saves bool) (*Join, *exectest.Discard, func(b *vec.Batch, first, step, keys int64, kind types.RowKind)) {
	s := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "v", Type: types.BigIntType})
	o, err := New(&plan.Join{Kind: kind, LeftKeys: []int{0}, RightKeys: []int{0}}, s, s, both(s, s))
	if err != nil {
		tb.Fatal(err)
	}
	out := &exectest.Discard{}
	ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{},
		BatchRows: vec.BatchRows, Saves: saves}
	if err := o.Open(ctx, out); err != nil {
		tb.Fatal(err)
	}
	return o.(*Join), out, func(b *vec.Batch, first, step, keys int64, kind types.RowKind) {
		b.Reset(vec.BatchRows)
		for i := range b.N {
			n := first + int64(i)
			b.Cols[0].I64[i], b.Cols[1].I64[i] = n*step%keys, n
		}
		if kind != types.Insert {
			b.Kinds = make([]types.RowKind, b.N)
			for i := range b.Kinds {
				b.Kinds[i] = kind
			}
		}
	}
}

// BenchmarkInner joins a stream with a table of 100,000 rows: each row finds one. The stream's
// rows are taken back later, so that state stays as large as it is.
func BenchmarkInner(b *testing.B) { bench(b, plan.InnerJoin, 0) }

// BenchmarkLeft is the same as a LEFT JOIN.
func BenchmarkLeft(b *testing.B) { bench(b, plan.LeftJoin, 0) }

// BenchmarkLeftSaved is the same with a save every 500 batches.
func BenchmarkLeftSaved(b *testing.B) { bench(b, plan.LeftJoin, 500) }

func bench(b *testing.B, kind plan.JoinKind, every int) {
	const keys = 100_000
	o, out, fill := benchJoin(b, kind, every > 0)
	defer o.Close()
	batch := vec.NewBatch(o.in[0])
	for at := int64(0); at < keys; at += vec.BatchRows {
		fill(batch, at, 1, keys, types.Insert)
		if err := o.Process(1, batch); err != nil {
			b.Fatal(err)
		}
	}
	const cycle = 64 // batches that are there before they are taken back
	var in [cycle][2]*vec.Batch
	for i := range in {
		for k, kind := range [...]types.RowKind{types.Insert, types.Delete} {
			in[i][k] = vec.NewBatch(o.in[0])
			fill(in[i][k], int64(i)*vec.BatchRows, 7919, keys, kind)
		}
	}
	out.Rows = 0
	b.ReportAllocs()
	b.ResetTimer()
	var d state.Delta
	for i := range b.N {
		if err := o.Process(0, in[i%cycle][i/cycle%2]); err != nil {
			b.Fatal(err)
		}
		if every > 0 && i%every == 0 {
			if err := o.Freeze(&d); err != nil {
				b.Fatal(err)
			}
			d.Reset()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/vec.BatchRows, "ns/row")
	b.ReportMetric(float64(out.Rows)/float64(b.N)/vec.BatchRows, "out/row")
}

// TestNoAllocations pushes batches of either kind through a join that has seen such before.
func TestNoAllocations(t *testing.T) {
	for _, kind := range []plan.JoinKind{plan.InnerJoin, plan.FullJoin} {
		o, _, fill := benchJoin(t, kind, kind == plan.FullJoin)
		add, take := vec.NewBatch(o.in[0]), vec.NewBatch(o.in[0])
		fill(add, 0, 1, 1000, types.Insert)
		fill(take, 0, 1, 1000, types.Delete)
		round := func() {
			for in := range 2 {
				for _, b := range []*vec.Batch{add, take} {
					if err := o.Process(in, b); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := o.Process(1, add); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			round()
		}
		// The right side grows each round, and its slabs with it; a round makes none a batch.
		if n := testing.AllocsPerRun(20, round); n >= 1 {
			t.Errorf("%s: %g allocations a round", kind, n)
		}
		o.Close()
	}
}
