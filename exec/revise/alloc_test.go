package revise_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/revise"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// board is what a window aggregation with everything gives.
var board = types.NewSchema(types.Field{Name: "airport", Type: types.StringType.NotNull()},
	types.Field{Name: "window_start", Type: types.TimestampType(3).NotNull()}, types.Field{Name: "window_end", Type: types.TimestampType(3).NotNull()},
	types.Field{Name: "flights", Type: types.BigIntType.NotNull()}, types.Field{Name: "delay", Type: types.DoubleType},
	types.Field{Name: "reason", Type: types.StringType.NotNull()}, types.Field{Name: "rows", Type: types.BigIntType.NotNull()},
	types.Field{Name: "cause", Type: types.StringType})

func boardNode() (*plan.Revise, types.Schema) {
	n := &plan.Revise{Keys: []int{0, 1}, Columns: 5, Reason: 5, Count: 6, Cause: 7, End: 2, LatenessMs: 1000, Generation: "live"}
	out := types.Schema{Fields: append([]types.Field{}, board.Fields[:5]...)}
	for i, f := range plan.ResultColumns {
		n.Metadata = append(n.Metadata, plan.ResultMetadata(i))
		out.Fields = append(out.Fields, f)
	}
	return n, out
}

// boardBatches makes n full batches of changes of cells: updates, and with retract in every tenth row
// the old row, of which every second one is not followed by a new one, and a deletion in every twentieth.
func boardBatches(n, cells int, retract bool) []*vec.Batch {
	r := rand.New(rand.NewSource(1))
	var out []*vec.Batch
	for range n {
		b := vec.NewBatch(board)
		b.Reset(vec.BatchRows)
		b.Cols[4].AllValid()
		for i := range vec.BatchRows {
			c := r.Intn(cells)
			b.Cols[0].SetString(i, fmt.Sprintf("A%02d", c%97))
			b.Cols[1].I64[i] = int64(c) * 3600
			b.Cols[2].I64[i] = int64(c+1) * 3600
			b.Cols[3].I64[i] = r.Int63n(100)
			b.Cols[4].F64[i] = float64(r.Intn(60))
			if r.Intn(10) == 0 {
				b.Cols[4].SetNull(i)
			}
			b.Cols[5].SetString(i, plan.ReasonEarly)
			b.Cols[6].I64[i] = 5
			b.Cols[7].SetString(i, "flights-3:1200-1300")
			b.Stamps = append(b.Stamps, int64(i))
			kind := types.UpdateAfter
			if retract && i%10 == 0 {
				kind = types.UpdateBefore
			} else if retract && i%20 == 7 {
				kind = types.Delete
			}
			b.Kinds = append(b.Kinds, kind)
		}
		out = append(out, b)
	}
	return out
}

// TestRevise_NoAllocations: once warm, a batch allocates nothing.
func TestRevise_NoAllocations(t *testing.T) {
	for _, retract := range []bool{false, true} {
		n, out := boardNode()
		o, err := revise.New(n, board, out, true)
		if err != nil {
			t.Fatal(err)
		}
		d := &exectest.Discard{}
		if err := o.Open(&op.Context{Env: &expr.Env{}, Counters: &op.Counters{}, Now: func() int64 { return 0 }}, d); err != nil {
			t.Fatal(err)
		}
		batches := boardBatches(4, 3000, retract)
		i := 0
		push := func() {
			if err := o.Process(0, batches[i%len(batches)]); err != nil {
				t.Fatal(err)
			}
			if i++; i%3 == 0 {
				if err := o.Watermark(int64(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 40 {
			push()
		}
		if n := testing.AllocsPerRun(60, push); n != 0 {
			t.Errorf("retract=%v: %v allocations a batch", retract, n)
		}
		if d.Rows < 40*vec.BatchRows/2 {
			t.Errorf("retract=%v: only %d revisions", retract, d.Rows)
		}
		o.Close()
	}
}

// BenchmarkRevise gives updates of cells all metadata.
func BenchmarkRevise(b *testing.B) {
	for _, c := range []struct {
		cells   int
		retract bool
	}{{3000, false}, {3000, true}, {1_000_000, false}} {
		b.Run(fmt.Sprintf("cells=%d,retract=%v", c.cells, c.retract), func(b *testing.B) {
			n, out := boardNode()
			o, err := revise.New(n, board, out, true)
			if err != nil {
				b.Fatal(err)
			}
			batches := boardBatches(600, c.cells, c.retract)
			exectest.Bench(b, o, func(i int) (*vec.Batch, int64) { return batches[i%len(batches)], int64(i) })
		})
	}
}
