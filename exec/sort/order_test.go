package sort

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// sample is values of many types, ordered or not.
func sample(r *rand.Rand, t types.Type) types.Value {
	if r.IntN(6) == 0 {
		return nil
	}
	switch t.Phys() {
	case types.PBool:
		return r.IntN(2) == 0
	case types.PI32, types.PI64:
		return []int64{math.MinInt32, -1, 0, 1, math.MaxInt32, int64(r.IntN(100) - 50)}[r.IntN(6)]
	case types.PI128:
		return types.Int128{Hi: int64(r.IntN(5) - 2), Lo: r.Uint64()}
	case types.PF32, types.PF64:
		return []float64{math.Inf(-1), -2.5, math.Copysign(0, -1), 0, 1, math.Inf(1), math.NaN()}[r.IntN(7)]
	case types.PBytes:
		b := make([]byte, r.IntN(4))
		for i := range b {
			b[i] = []byte{0, 1, 'a', 0xFE, 0xFF}[r.IntN(5)]
		}
		return string(b)
	}
	list := make([]types.Value, r.IntN(4))
	for i := range list {
		list[i] = sample(r, *t.Elem)
	}
	return list
}

// TestOrder: the bytes of keys are in the order of the keys.
func TestOrder(t *testing.T) {
	array := types.Type{Kind: types.Array, Elem: &types.StringType, Nullable: true}
	kinds := []types.Type{types.BooleanType, types.IntType, types.BigIntType, types.FloatType, types.DoubleType, types.StringType,
		types.TimestampType(3), types.TimestampType(9), types.DecimalType(30, 2), array}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var cols []*vec.Vec
		var keys []plan.SortKey
		const n = 20
		for c := range 1 + r.IntN(3) {
			typ := kinds[r.IntN(len(kinds))]
			v := vec.New(typ, 0)
			for range n {
				v.AppendValue(sample(r, typ))
			}
			cols = append(cols, v)
			keys = append(keys, plan.SortKey{Col: c, Desc: r.IntN(2) == 0, NullsFirst: r.IntN(2) == 0})
		}
		for i := range n {
			for j := range n {
				x, y := appendOrder(nil, keys, cols, i), appendOrder(nil, keys, cols, j)
				if got, want := bytes.Compare(x, y), compareRows(keys, cols, i, cols, j); got != want {
					t.Fatalf("%v, types %v: rows %d and %d compare as %d, want %d: %x and %x", keys, cols[0].Type, i, j, got, want, x, y)
				}
			}
		}
	}
}

func TestCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 200 {
		lo, hi := r.Uint64()>>r.IntN(64), r.Uint64()>>r.IntN(64)
		if lo > hi {
			lo, hi = hi, lo
		}
		if r.IntN(4) == 0 {
			hi = math.MaxUint64
		}
		if r.IntN(4) == 0 {
			lo = 0
		}
		next, n := lo, 0
		covers(lo, hi, func(p []byte) {
			from := make([]byte, 8)
			to := bytes.Repeat([]byte{0xFF}, 8)
			copy(from, p)
			copy(to, p)
			if got := binary.BigEndian.Uint64(from); got != next {
				t.Fatalf("%x to %x: %x follows what ends before %x", lo, hi, p, next)
			}
			next = binary.BigEndian.Uint64(to) + 1
			n++
		})
		if next != hi+1 || n > 4000 {
			t.Fatalf("%x to %x: %d prefixes end before %x", lo, hi, n, next)
		}
	}
}

// TestGlance: what is seen at a glance is the head of the order.
func TestGlance(t *testing.T) {
	s := types.NewSchema(types.Field{Name: "i", Type: types.IntType}, types.Field{Name: "l", Type: types.BigIntType},
		types.Field{Name: "d", Type: types.DoubleType}, types.Field{Name: "s", Type: types.StringType})
	b := vec.NewBatch(s)
	for _, x := range []float64{0, 1, -1, math.Copysign(0, -1), 1e9, -1e9, math.MaxInt32, math.MinInt32, math.NaN()} {
		n := b.N
		for _, c := range b.Cols {
			c.Resize(n + 1)
		}
		b.N++
		if x == x {
			b.Cols[0].I32[n], b.Cols[1].I64[n] = int32(x), int64(x)<<20
		}
		b.Cols[2].F64[n] = x
		b.Cols[3].SetString(n, "text")
	}
	for col := range b.Cols {
		for _, desc := range []bool{false, true} {
			k := plan.SortKey{Col: col, Desc: desc}
			for i := range b.N {
				head, ok := glance(k, b.Cols[col], i)
				if ok != (col < 3) {
					t.Fatalf("column %d is seen: %t", col, ok)
				}
				if want := headOf(appendOrder(nil, []plan.SortKey{k}, b.Cols, i)); ok && head != want {
					t.Errorf("column %d, descending %t, row %d: %x, want %x", col, desc, i, head, want)
				}
			}
		}
	}
}
