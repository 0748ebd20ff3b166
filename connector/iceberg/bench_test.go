package iceberg

import (
	"fmt"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// benchBatch is a full batch of five columns, of the rows from on.
func benchBatch(s types.Schema, from int64) *vec.Batch {
	b := vec.NewBatch(s)
	for i := range int64(vec.BatchRows) {
		id := from + i
		for k, v := range []types.Value{id, fmt.Sprintf("channel-%d", id%50), id * 7 % 1000, types.I128(id * 31 % 100_000), types.TS(1_700_000_000_000+id, 0)} {
			b.Cols[k].AppendValue(v)
		}
		b.N++
	}
	return b
}

var benchColumns = []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: "channel", Type: types.StringType}, {Name: "bidder", Type: types.BigIntType},
	{Name: "price", Type: types.DecimalType(12, 2)}, {Name: "at", Type: types.TimestampType(3)}}

// BenchmarkWrite writes rows; an iteration is a batch.
func BenchmarkWrite(b *testing.B) {
	for _, x := range []struct {
		name string
		key  []string
		more []string
	}{{"append", nil, nil}, {"upsert", []string{"id"}, []string{"upsert-enabled", "true"}}} {
		b.Run(x.name, func(b *testing.B) {
			r := newRig(b)
			def := r.table("t", benchColumns, x.key, x.more...)
			s := r.sink(def, types.Upsert)
			w := r.writer(s)
			var in []*vec.Batch
			for n := range int64(32) {
				in = append(in, benchBatch(def.Schema(), n*vec.BatchRows))
			}
			n := 0
			for b.Loop() {
				if err := w.Write(b.Context(), in[n%len(in)]); err != nil {
					b.Fatal(err)
				}
				n++
			}
			if _, err := w.Prepare(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N*vec.BatchRows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkCommit commits one small file a time, the hundredth commit and later ones.
func BenchmarkCommit(b *testing.B) {
	r := newRig(b)
	def := r.table("t", benchColumns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	batch := benchBatch(def.Schema(), 0)
	at := int64(0)
	for b.Loop() {
		b.StopTimer()
		if err := w.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		cs := r.prepare(w)
		at++
		b.StartTimer()
		if err := c.Commit(b.Context(), connector.CommitID{Lineage: "l", Checkpoint: at}, cs); err != nil {
			b.Fatal(err)
		}
	}
}
