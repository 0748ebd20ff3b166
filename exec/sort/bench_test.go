package sort_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/sort"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// BenchmarkTop is the first rows of a stream: of rows that only come, and of counts by key that change, of
// which one in two thousand is shown. ns/row is for each of the latter's two rows a change, once there
// are all keys.
func BenchmarkTop(b *testing.B) {
	run := func(b *testing.B, limit int64, changing bool, batches int, fill func(k int, in *vec.Batch)) {
		in := vec.NewBatch(scored)
		b.ReportAllocs()
		rows := 0
		for range b.N {
			b.StopTimer()
			o, err := sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0, Desc: true}}, Limit: limit}, scored, scored, changing)
			if err != nil {
				b.Fatal(err)
			}
			ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{}}
			if err := o.Open(ctx, &exectest.Discard{}); err != nil {
				b.Fatal(err)
			}
			for k := range batches {
				if k == batches/2 {
					b.StartTimer()
				}
				in.Reset(vec.BatchRows)
				fill(k, in)
				if k >= batches/2 {
					rows += in.N
				}
				if err := o.Process(0, in); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
	}
	for _, limit := range []int64{10, 1000} {
		b.Run(fmt.Sprint("rows/limit ", limit), func(b *testing.B) {
			run(b, limit, false, 100, func(k int, in *vec.Batch) {
				for i := range in.N {
					in.Cols[0].I64[i] = int64((k*vec.BatchRows+i)*7919%1_000_003) + int64(k)*100
					in.Cols[1].SetString(i, "some text of some length")
				}
			})
		})
	}
	for _, keys := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("changes/keys ", keys), func(b *testing.B) {
			counts := make([]int64, keys)
			half := (keys + vec.BatchRows - 1) / vec.BatchRows
			x := uint64(1)
			run(b, 10, true, 2*half, func(k int, in *vec.Batch) {
				in.Kinds = in.Kinds[:0]
				for i := range in.N {
					if k == 0 && i == 0 {
						clear(counts)
					}
					key, kind := (k*vec.BatchRows+i)%keys, types.Insert
					if k >= half {
						if kind = types.UpdateBefore; i%2 == 0 {
							x = x*6364136223846793005 + 1442695040888963407
						} else {
							kind = types.UpdateAfter
						}
						key = int((x >> 33) % uint64(keys))
					}
					if kind == types.UpdateAfter {
						counts[key] += int64(x >> 60)
					}
					if kind == types.Insert {
						counts[key] = int64(key * 7919 % 1_000_003)
					}
					in.Kinds = append(in.Kinds, kind)
					in.Cols[0].I64[i] = counts[key]
					in.Cols[1].SetString(i, fmt.Sprint("key ", key))
				}
			})
		})
	}
}
