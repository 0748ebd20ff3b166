package vec

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
)

// anyType lists a type of each physical form, nested ones included.
var anyType = []types.Type{
	types.BooleanType, types.IntType, types.BigIntType, types.DecimalType(10, 2), types.DecimalType(38, 3),
	types.TimestampType(3), types.TimestampLTZType(9), types.FloatType, types.DoubleType, types.StringType,
	types.BytesType, types.DateType, types.TimeType(0), types.ArrayType(types.StringType),
	types.MapType(types.StringType, types.BigIntType), types.MultisetType(types.IntType),
	types.RowType(types.Field{Name: "a", Type: types.IntType}, types.Field{Name: "b", Type: types.ArrayType(types.DoubleType)}),
}

// randomValue makes a value of t, NULL now and then.
func randomValue(r *rand.Rand, t types.Type) types.Value {
	if r.IntN(4) == 0 {
		return nil
	}
	switch t.Kind {
	case types.Boolean:
		return r.IntN(2) == 0
	case types.Int, types.Date, types.Time:
		return int64(int32(r.Uint32()))
	case types.BigInt:
		return int64(r.Uint64())
	case types.Decimal:
		if t.Phys() == types.PI64 {
			return types.I128(r.Int64N(1e10) - 5e9)
		}
		return types.Int128{Lo: r.Uint64(), Hi: r.Int64N(1 << 40)}
	case types.Timestamp, types.TimestampLTZ:
		if t.Phys() == types.PI64 {
			return types.TS(r.Int64N(1<<45), 0)
		}
		return types.TS(r.Int64N(1<<45), int32(r.IntN(1e6)))
	case types.Float:
		return float64(r.Float32())
	case types.Double:
		return r.NormFloat64()
	case types.VarChar:
		return fmt.Sprint(r.Uint32())[:r.IntN(4)]
	case types.VarBinary:
		return []byte(fmt.Sprint(r.Uint32()))[:r.IntN(4)]
	}
	return randomNested(r, t)
}

func randomNested(r *rand.Rand, t types.Type) types.Value {
	out := []types.Value{}
	n := r.IntN(4)
	switch t.Kind {
	case types.Array:
		for range n {
			out = append(out, randomValue(r, *t.Elem))
		}
	case types.Map:
		for range n {
			out = append(out, randomValue(r, t.Key.NotNull()), randomValue(r, *t.Elem))
		}
	case types.Multiset:
		for range n {
			out = append(out, randomValue(r, *t.Elem), int64(1+r.IntN(3)))
		}
	case types.Row:
		for _, f := range t.Fields {
			out = append(out, randomValue(r, f.Type))
		}
	}
	return out
}

// column makes a vector of n random values and returns them too.
func column(r *rand.Rand, t types.Type, n int) (*Vec, []types.Value) {
	v := New(t, 0)
	vals := make([]types.Value, n)
	for i := range vals {
		vals[i] = randomValue(r, t)
		v.AppendValue(vals[i])
	}
	return v, vals
}

func expect(t *testing.T, what string, v *Vec, want []types.Value) {
	t.Helper()
	if v.Len() != len(want) {
		t.Fatalf("%s: %d values, want %d", what, v.Len(), len(want))
	}
	for i, w := range want {
		if got := v.Value(i); !reflect.DeepEqual(got, w) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got, w)
		}
	}
}

func TestVec_KeepsValues(t *testing.T) {
	for _, typ := range anyType {
		t.Run(typ.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for round := range 50 {
				v, vals := column(r, typ, 1+r.IntN(200))
				expect(t, "appended", v, vals)
				// gathered behind others, in any order and repeatedly
				dst, want := column(r, typ, r.IntN(70))
				var rows []int32
				for range r.IntN(150) {
					i := r.IntN(len(vals))
					rows = append(rows, int32(i))
					want = append(want, vals[i])
				}
				dst.Gather(v, rows)
				expect(t, fmt.Sprint("gathered, round ", round), dst, want)
				expect(t, "source of a gather", v, vals)
				dst.Reset(0)
				dst.AppendRange(v, 0, len(vals))
				expect(t, "after Reset", dst, vals)
			}
		})
	}
}

func TestVec_SharedBytesAreNotWritten(t *testing.T) {
	shared := []byte("abcdef")
	v := New(types.StringType, 2)
	v.ShareBuf(shared[:3:6])
	v.Refs[0], v.Refs[1] = Ref{0, 1}, Ref{1, 2}
	v.Resize(3)
	v.SetString(2, "xyz")
	expect(t, "shared, then own", v, []types.Value{"a", "bc", "xyz"})
	if string(shared) != "abcdef" {
		t.Errorf("the shared bytes became %q", shared)
	}
}

func TestBitmap_Resize(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 130} {
		for _, m := range []int{1, 64, 66, 200} {
			v := New(types.IntType, n)
			for i := range n {
				v.I32[i] = int32(i)
				if i%3 == 0 {
					v.SetNull(i)
				}
			}
			v.Resize(m)
			for i := range m {
				if want := i < n && i%3 == 0; v.IsNull(i) != want {
					t.Fatalf("%d to %d: value %d NULL is %v", n, m, i, !want)
				}
			}
		}
	}
	b := NewBitmap(130)
	b.SetAll(130)
	b.Clear(129)
	if c := b.Count(130); c != 129 {
		t.Errorf("129 of 130 bits are set, Count says %d", c)
	}
	if got := And(nil, b, nil, 130); got.Count(130) != 129 {
		t.Errorf("b and everything has %d bits", got.Count(130))
	}
}

func TestBatch_GatherCarriesMarks(t *testing.T) {
	s := types.NewSchema(types.Field{Name: "n", Type: types.BigIntType})
	src := NewBatch(s)
	for i := range 4 {
		src.Cols[0].AppendValue(int64(i))
	}
	src.N = 4
	o := &Origin{Split: "a"}
	src.Stamps, src.Origin, src.Pos = []int64{1, 2, 3, 4}, o, []int64{10, 20, 30, 40}
	dst := NewBatch(s)
	dst.Gather(src, []int32{3, 1})
	src.Kinds = []types.RowKind{types.Insert, types.Delete, types.Insert, types.UpdateAfter}
	dst.Gather(src, []int32{1})
	if !reflect.DeepEqual(dst.Stamps, []int64{4, 2, 2}) || !reflect.DeepEqual(dst.Pos, []int64{40, 20, 20}) ||
		!reflect.DeepEqual(dst.Kinds, []types.RowKind{types.Insert, types.Insert, types.Delete}) || dst.Origin != o {
		t.Errorf("stamps %v, positions %v, kinds %v", dst.Stamps, dst.Pos, dst.Kinds)
	}
	other := *src
	other.Origin = &Origin{Split: "b"}
	dst.Gather(&other, []int32{0})
	if dst.Origin != nil || dst.Pos != nil || dst.N != 4 {
		t.Errorf("rows of two splits keep an origin: %v %v", dst.Origin, dst.Pos)
	}
	// Rows without positions come first, and neither side has an origin.
	plain := &Batch{N: 1, Cols: src.Cols}
	other.Origin = nil
	dst = NewBatch(s)
	dst.Gather(plain, []int32{0})
	dst.Gather(&other, []int32{0, 1})
	if dst.Pos != nil || dst.N != 3 {
		t.Errorf("%d rows have the positions %v", dst.N, dst.Pos)
	}
}

func TestGather_Allocations(t *testing.T) {
	s := types.NewSchema(types.Field{Name: "n", Type: types.BigIntType}, types.Field{Name: "s", Type: types.StringType})
	r := rand.New(rand.NewPCG(1, 1))
	src := &Batch{N: 500}
	for _, f := range s.Fields {
		v, _ := column(r, f.Type.NotNull(), 0)
		for i := range 500 {
			if f.Type.IsString() {
				v.AppendValue(fmt.Sprint(i))
			} else {
				v.AppendValue(int64(i))
			}
		}
		src.Cols = append(src.Cols, v)
	}
	rows := []int32{1, 5, 7, 499}
	dst := NewBatch(s)
	if n := testing.AllocsPerRun(100, func() {
		dst.Reset(0)
		dst.Gather(src, rows)
	}); n > 0 {
		t.Errorf("%v allocations a batch", n)
	}
}
