package state

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestAppendPart compares keys made of columns of longer ones with keys that were encoded as such.
func TestAppendPart(t *testing.T) {
	ts := []types.Type{types.BigIntType, types.StringType, types.DecimalType(30, 2), types.BooleanType, types.IntType}
	for len(ts) < headNulls+2 {
		ts = append(ts, types.IntType)
	}
	wide := len(ts) - 1
	batch := vec.NewBatch(types.Schema{})
	values := [][]types.Value{
		{int64(1), "short", types.I128(7), true, int64(3)},
		{nil, "a string of more than twelve bytes", nil, nil, nil},
		{int64(-5), nil, types.Int128{Lo: 9, Hi: -2}, false, int64(0)},
		{int64(0), "", types.I128(0), false, int64(1 << 30)},
	}
	for i, typ := range ts {
		v := vec.New(typ, 0)
		for _, row := range values {
			if i < len(row) {
				v.AppendValue(row[i])
			} else {
				v.AppendValue(row[4])
			}
		}
		batch.Cols = append(batch.Cols, v)
	}
	rows := []int32{0, 1, 2, 3}
	mem := NewMemory()
	l := NewLayout(ts, false)
	e, all := NewEncoder(l), NewTable(mem, l, nil)
	e.Encode(batch.Cols, rows, nil)
	recs := make([]uint32, len(rows))
	all.Upsert(e, nil, recs)
	every := make([]int, len(ts))
	for i := range every {
		every[i] = wide - i
	}
	for _, cols := range [][]int{{0}, {1}, {2, 1}, {wide, 3}, {4, 0, 1}, {}, every} {
		t.Run(fmt.Sprint(cols), func(t *testing.T) {
			var part []types.Type
			var vecs []*vec.Vec
			for _, c := range cols {
				part, vecs = append(part, ts[c]), append(vecs, batch.Cols[c])
			}
			pl := NewLayout(part, false)
			pe, pt := NewEncoder(pl), NewTable(mem, pl, nil)
			pe.Encode(vecs, rows, nil)
			precs := make([]uint32, len(rows))
			pt.Upsert(pe, nil, precs)
			for k := range rows {
				got, hash := all.AppendPart(nil, recs[k], cols)
				if want := pt.AppendKey(nil, precs[k]); !bytes.Equal(got, want) || hash != pt.Hash(precs[k]) {
					t.Errorf("row %d: key %x (hash %x), want %x (hash %x)", k, got, hash, want, pt.Hash(precs[k]))
				}
			}
		})
	}
}

// TestTrackOwned checks that entries of groups are saved under the keys of their groups, that what
// is not touched is not saved, and that deleted entries are told.
func TestTrackOwned(t *testing.T) {
	mem := NewMemory()
	gl, vl := NewLayout([]types.Type{types.BigIntType}, false), NewLayout([]types.Type{types.StringType}, true)
	groups, values := NewTable(mem, gl, nil), NewTable(mem, vl, nil)
	values.TrackOwned(func(dst []byte, rec uint32) ([]byte, uint32) {
		g := uint32(values.At(rec)[1])
		return groups.AppendKey(dst, g), groups.Hash(g)
	})
	g, s := vec.New(types.BigIntType, 0), vec.New(types.StringType, 0)
	for _, x := range []string{"a", "b", "a value of more than twelve bytes"} {
		g.AppendValue(int64(len(x)))
		s.AppendValue(x)
	}
	rows, recs, vals := []int32{0, 1, 2}, make([]uint32, 3), make([]uint32, 3)
	ge, ve := NewEncoder(gl), NewEncoder(vl)
	ge.Encode([]*vec.Vec{g}, rows, nil)
	groups.Upsert(ge, nil, recs)
	ve.Encode([]*vec.Vec{s}, rows, recs)
	values.Upsert(ve, nil, vals)
	changes := func() (puts, gone []string) {
		values.Changes(func(rec uint32) {
			key, hash := values.SavedKey(nil, rec)
			puts = append(puts, fmt.Sprintf("%x %x", hash, key))
		}, func(hash uint32, key []byte) { gone = append(gone, fmt.Sprintf("%x %x", hash, key)) })
		return puts, gone
	}
	if puts, gone := changes(); len(puts)+len(gone) > 0 {
		t.Errorf("untouched: %v, %v", puts, gone)
	}
	values.Touch(vals)
	puts, gone := changes()
	if len(puts) != 3 || len(gone) != 0 {
		t.Fatalf("touched: %v, %v", puts, gone)
	}
	for k, put := range puts {
		want := fmt.Sprintf("%x %x%x", groups.Hash(recs[k]), groups.AppendKey(nil, recs[k]), values.AppendKey(nil, vals[k]))
		if put != want {
			t.Errorf("entry %d is saved as %s, want %s", k, put, want)
		}
	}
	values.Delete(vals[2])
	groups.Delete(recs[2])
	if again, gone := changes(); len(again) != 0 || len(gone) != 1 || gone[0] != puts[2] {
		t.Errorf("deleted: %v, %v, want %s", again, gone, puts[2])
	}
}
