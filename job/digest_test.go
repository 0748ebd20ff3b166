package job

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func digestSchema() types.Schema {
	return types.NewSchema(types.Field{Name: "k", Type: types.StringType}, types.Field{Name: "n", Type: types.BigIntType},
		types.Field{Name: "i", Type: types.IntType}, types.Field{Name: "d", Type: types.DoubleType}, types.Field{Name: "b", Type: types.BooleanType},
		types.Field{Name: "t", Type: types.TimestampType(9)}, types.Field{Name: "l", Type: types.ArrayType(types.IntType)})
}

func digestBatch(r *rand.Rand, n int) *vec.Batch {
	b := vec.NewBatch(digestSchema())
	b.Reset(n)
	for i := range n {
		b.Cols[0].SetString(i, fmt.Sprint(r.Intn(9)))
		b.Cols[1].I64[i] = r.Int63n(9)
		b.Cols[2].I32[i] = int32(r.Intn(9))
		b.Cols[3].F64[i] = float64(r.Intn(9))
		b.Cols[4].Bool[i] = r.Intn(2) == 0
		b.Cols[5].I128[i] = types.Int128{Hi: r.Int63n(3), Lo: uint64(r.Intn(3))}
		b.Cols[6].SetValue(i, []types.Value{int64(r.Intn(3))})
		if c := r.Intn(20); c < 7 {
			b.Cols[c].SetNull(i)
		}
	}
	return b
}

// TestDigest_IsOfTheRows: neither the order of rows nor the batches that they come in matter, what was taken back
// counts for nothing, and any other value makes another digest.
func TestDigest_IsOfTheRows(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	b := digestBatch(r, 500)
	var whole digester
	whole.add(b)
	var parts digester
	for _, i := range r.Perm(b.N) {
		one := *b
		one.Sel = []int32{int32(i)}
		parts.add(&one)
	}
	if parts.total != whole.total || whole.total.rows != 500 {
		t.Errorf("row by row %v, in one batch %v", parts.total, whole.total)
	}
	back := *b
	back.Kinds = make([]types.RowKind, b.N)
	for i := range back.Kinds {
		back.Kinds[i] = []types.RowKind{types.UpdateBefore, types.Delete}[i%2]
	}
	if parts.add(&back); parts.total != (digest{}) {
		t.Errorf("with all rows taken back %v", parts.total)
	}
	for c := range b.Cols {
		other := digestBatch(rand.New(rand.NewSource(1)), 500)
		if v := other.Cols[c]; v.IsNull(7) {
			v.SetValid(7)
		} else {
			v.SetNull(7)
		}
		var d digester
		if d.add(other); d.total.sum == whole.total.sum {
			t.Errorf("another value in column %d makes no difference", c)
		}
	}
}

// TestDigest_StaysAsItIs: sums are compared with those of earlier programs.
func TestDigest_StaysAsItIs(t *testing.T) {
	b := digestBatch(rand.New(rand.NewSource(7)), 64)
	b.Cols[3].F64[1], b.Cols[3].F64[2] = math.Copysign(0, -1), math.NaN()
	var d digester
	d.add(b)
	if got := fmt.Sprintf("%016x", d.total.sum); got != "e230193c3a9a270f" {
		t.Errorf("the sum is %s: a change of it wants another checkpoint.DigestVersion", got)
	}
}

// BenchmarkDigest adds up rows of six columns, one of them a string.
func BenchmarkDigest(b *testing.B) {
	batch := digestBatch(rand.New(rand.NewSource(1)), vec.BatchRows)
	batch.Cols = batch.Cols[:6]
	for _, c := range batch.Cols {
		c.Valid = nil
	}
	var d digester
	for b.Loop() {
		d.add(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/vec.BatchRows, "ns/row")
}
