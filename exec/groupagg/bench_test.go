package groupagg_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var bidSchema = types.NewSchema(
	types.Field{Name: "auction", Type: types.BigIntType},
	types.Field{Name: "bidder", Type: types.BigIntType},
	types.Field{Name: "price", Type: types.BigIntType},
	types.Field{Name: "day", Type: types.StringType},
	types.Field{Name: "r1", Type: types.BooleanType},
	types.Field{Name: "r2", Type: types.BooleanType},
	types.Field{Name: "r3", Type: types.BooleanType},
)

func bidBatches(n, keys int) []*vec.Batch {
	r := rand.New(rand.NewSource(1))
	var out []*vec.Batch
	for range n {
		b := vec.NewBatch(bidSchema)
		b.Reset(vec.BatchRows)
		for i := range vec.BatchRows {
			price := int64(r.Intn(2_000_000))
			b.Cols[0].I64[i] = int64(r.Intn(keys))
			b.Cols[1].I64[i] = int64(r.Intn(keys))
			b.Cols[2].I64[i] = price
			b.Cols[3].SetString(i, "2024-05-17")
			b.Cols[4].Bool[i] = price < 10_000
			b.Cols[5].Bool[i] = price >= 10_000 && price < 1_000_000
			b.Cols[6].Bool[i] = price >= 1_000_000
		}
		out = append(out, b)
	}
	return out
}

func bench(b *testing.B, keys []int, list string, distinct int, before bool) {
	benchSaved(b, keys, list, distinct, before, 0)
}

// benchSaved is bench with a save every so many batches; 0: never.
func benchSaved(b *testing.B, keys []int, list string, distinct int, before bool, every int) {
	c := exectest.Case{Schema: bidSchema}
	aggs, err := c.Aggs(list, true)
	if err != nil {
		b.Fatal(err)
	}
	n := &plan.GroupAgg{Keys: keys, Aggs: aggs, UpdateBefore: before}
	o, err := groupagg.New(n, bidSchema, outSchema(bidSchema, n))
	if err != nil {
		b.Fatal(err)
	}
	batches := bidBatches(600, distinct)
	next := func(i int) (*vec.Batch, int64) { return batches[i%len(batches)], int64(i) }
	if every > 0 {
		exectest.BenchSaved(b, o, next, every)
		return
	}
	exectest.Bench(b, o, next)
}

// BenchmarkSaved is BenchmarkKeyed and BenchmarkQ15 with a save every 2,000 batches.
func BenchmarkSaved(b *testing.B) {
	for _, keys := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			benchSaved(b, []int{0}, "COUNT(*); SUM(price); MAX(price)", keys, false, 2000)
		})
	}
	b.Run("distinct", func(b *testing.B) {
		benchSaved(b, []int{3}, "COUNT(DISTINCT bidder); COUNT(DISTINCT bidder) FILTER r1", 1_000_000, true, 2000)
	})
}

// BenchmarkKeyed updates COUNT, SUM and MAX of BIGINT keys and emits the changes.
func BenchmarkKeyed(b *testing.B) {
	for _, keys := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			bench(b, []int{0}, "COUNT(*); SUM(price); MAX(price)", keys, false)
		})
	}
}

// BenchmarkQ15 has one key, 12 counts, 8 of them of two sets of distinct values.
func BenchmarkQ15(b *testing.B) {
	bench(b, []int{3}, `COUNT(*); COUNT(*) FILTER r1; COUNT(*) FILTER r2; COUNT(*) FILTER r3;
		COUNT(DISTINCT bidder); COUNT(DISTINCT bidder) FILTER r1; COUNT(DISTINCT bidder) FILTER r2;
		COUNT(DISTINCT bidder) FILTER r3; COUNT(DISTINCT auction); COUNT(DISTINCT auction) FILTER r1;
		COUNT(DISTINCT auction) FILTER r2; COUNT(DISTINCT auction) FILTER r3`, 100_000, true)
}

// BenchmarkQ17 has a key of an auction and a day and 8 aggregates.
func BenchmarkQ17(b *testing.B) {
	for _, before := range []bool{false, true} {
		b.Run(fmt.Sprintf("before=%v", before), func(b *testing.B) {
			bench(b, []int{0, 3}, `COUNT(*); COUNT(*) FILTER r1; COUNT(*) FILTER r2; COUNT(*) FILTER r3;
				MIN(price); MAX(price); AVG(price); SUM(price)`, 100_000, before)
		})
	}
}
