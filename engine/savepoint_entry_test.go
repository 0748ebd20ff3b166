package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func field(name string, t types.Type) types.Field { return types.Field{Name: name, Type: t} }

// entryOperators have the shapes of keys that there are.
func entryOperators() []*checkpoint.Operator {
	item, note, raw := field("item", types.IntType), field("note", types.StringType), field("raw", types.BytesType)
	accs := field("accumulators", types.BytesType.NotNull())
	list := types.Type{Kind: types.Array, Elem: &types.IntType, Nullable: true}
	values := state.Spec{Name: "values of 1", Key: []types.Field{item, note, field("1", types.DoubleType)}, Value: []types.Field{field("rows", types.BigIntType.NotNull())}}
	end := field("window_end", types.TimestampType(3).NotNull())
	session := types.Type{Kind: types.Row, Fields: []types.Field{field("start", types.TimestampType(3).NotNull()), accs}}
	parts := map[string][]state.Part{"accumulators": {{Name: "row_count", Type: types.BigIntType, Form: state.PartWord},
		{Name: "max_item", Type: types.IntType, Form: state.PartWord, Unset: binary.LittleEndian.AppendUint64(nil, 1<<63)},
		{Name: "list_raw", Type: types.Type{Kind: types.Array, Elem: &types.BytesType, Nullable: true}, Form: state.PartList}, {Name: "sketch", Type: types.BytesType, Form: state.PartOpaque}}}
	return []*checkpoint.Operator{
		{Label: "group", States: []state.Spec{{Name: "groups", Key: []types.Field{item, note}, Value: []types.Field{accs}}, values}},
		{Label: "slice", States: []state.Spec{{Name: "slices", Key: []types.Field{field("slice_end", end.Type), field("part", types.IntType.NotNull()), item},
			Value: []types.Field{accs}}}},
		{Label: "window", States: []state.Spec{{Name: "windows", Key: []types.Field{end, raw}, Value: []types.Field{field("list", list)}},
			{Name: "windows: values of 1", Key: []types.Field{end, raw, note}, Value: []types.Field{field("rows", types.BigIntType.NotNull())}}}},
		{Label: "join", States: []state.Spec{{Name: "left rows", Key: []types.Field{note, item, note}, Value: []types.Field{field("copies", types.BigIntType.NotNull())}}}},
		{Label: "held", States: []state.Spec{{Name: heldRows, Key: []types.Field{field("row", types.BigIntType.NotNull())}, Value: []types.Field{field("kind", types.IntType.NotNull()), note}}}},
		{Label: "all", States: []state.Spec{{Name: "groups", Value: []types.Field{accs}}}},
		{Label: "told", States: []state.Spec{{Name: "anything", Key: []types.Field{field("number", types.BigIntType.NotNull()), note}, Value: []types.Field{accs},
			KeyParts: []state.KeyPart{{Columns: 1, Form: state.KeyU64}, {Columns: 1, Form: state.KeyTable}}}}},
		{Label: "parts", States: []state.Spec{{Name: "groups", Value: []types.Field{accs}, Parts: parts}}},
		{Label: "sessions", States: []state.Spec{{Name: "sessions", Value: []types.Field{field("sessions", types.Type{Kind: types.Array, Elem: &session})}, Parts: parts}}},
	}
}

// FuzzEntry: an entry of any bytes is refused, or read and written again as it was.
func FuzzEntry(f *testing.F) {
	ops := entryOperators()
	key := append([]byte{0, 0, 0}, binary.BigEndian.AppendUint64(nil, 7)...)
	key = append(key, 0, 0, 0, 2, 'h', 'i')
	value := append([]byte{1, 3, 0, 0, 0}, 1, 2, 3)
	parts := append([]byte{1, 29, 0, 0, 0}, append(binary.LittleEndian.AppendUint64(nil, 2), append(binary.LittleEndian.AppendUint64(nil, 1<<63), 5, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0)...)...)
	f.Add(0, 0, key, value)
	f.Add(0, 1, append(bytes.Clone(key), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), []byte{1, 9, 0, 0, 0, 0, 0, 0, 0})
	f.Add(1, 0, append(append(bytes.Repeat([]byte{0x80}, 8), 0, 0, 0, 1, 0, 0, 0), binary.BigEndian.AppendUint64(nil, 7)...), value)
	f.Add(2, 0, append(bytes.Repeat([]byte{0x80}, 8), 1, 0, 0, 0, 0, 0, 0), []byte{1, 1, 0, 0, 0, 1, 5, 0, 0, 0})
	f.Add(2, 0, append(bytes.Repeat([]byte{0x80}, 8), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9), []byte{1, 1, 0, 0, 0, 1, 5, 0, 0, 0}) // of run 9
	f.Add(4, 0, bytes.Repeat([]byte{1}, 8), []byte{1, 2, 0, 0, 0, 0})
	f.Add(5, 0, []byte{0, 0, 0}, value)
	f.Add(6, 0, []byte{0, 0, 0}, parts)
	f.Add(7, 0, []byte{0, 0, 0}, append([]byte{1, 1, 0, 0, 0, 1, 1}, append(binary.LittleEndian.AppendUint64(nil, 7), parts...)...))
	f.Fuzz(func(t *testing.T, op, st int, key, value []byte) {
		o := ops[uint(op)%uint(len(ops))]
		at := int(uint(st) % uint(len(o.States)))
		for _, sh := range shapes(o, at) {
			r := newEntryReader(o.States[at], sh)
			b := vec.NewBatch(r.schema())
			b.Reset(0)
			if err := r.add(b, key, value); err != nil {
				continue
			}
			rows, _ := r.value.rows(value)
			if b.N != len(rows) {
				t.Fatalf("%s: %d rows of %d", o.Label, b.N, len(rows))
			}
			if b.N == 0 {
				continue
			}
			if k, _, err := r.key(b.Cols, 0); err != nil || !bytes.Equal(k, key) {
				t.Errorf("%s: key %x is written as %x: %v", o.Label, key, k, err)
			}
			sameValue(t, o.Label, r, b, rows)
		}
	})
}

// sameValue writes rows again from what was read of them.
func sameValue(t *testing.T, label string, r *entryReader, b *vec.Batch, rows [][]byte) {
	for i, row := range rows {
		cells := make([][]byte, len(r.value.cols))
		if same, err := r.value.change(row, cells); err != nil || !bytes.Equal(same, row) {
			t.Errorf("%s: value %x, of which nothing changes, becomes %x: %v", label, row, same, err)
		}
		whole := true
		for k, c := range r.value.cols {
			var err error
			if cells[k], err = cellOf(b.Cols[len(r.spec.Key)+k], i, c.Field); err != nil {
				t.Fatal(err)
			}
			// Parts of a field that is not there cannot be set.
			whole = whole && (c.part < 0 || !r.value.fields[c.field].Type.Nullable)
		}
		made, err := r.value.change(row, cells)
		if !whole || err != nil {
			continue // NULL where there is none
		}
		// Values may have odd forms of a boolean, of a number that is not one, of none at all.
		was, _ := r.value.cells(row)
		is, ok := r.value.cells(made)
		if !ok {
			t.Fatalf("%s: value %x is written as %x", label, row, made)
		}
		for k := range was {
			typ := r.value.cols[k].Type
			x, y := vec.New(typ, 1), vec.New(typ, 1)
			state.DecodeValue(was[k], x, 0)
			state.DecodeValue(is[k], y, 0)
			if a, b := fmt.Sprint(x.Value(0)), fmt.Sprint(y.Value(0)); a != b {
				t.Errorf("%s: column %s was %s and is %s", label, r.value.cols[k].Name, a, b)
			}
		}
	}
}

// TestShapes: every state's key is found to be made as it is.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		label string
		state int
		want  string
	}{{"group", 0, "2 table"}, {"group", 1, "2 table, 1 table"}, {"slice", 0, "1 time, 1 u32, 1 table"}, {"window", 0, "1 time, 1 table"},
		{"window", 1, "1 time, 1 table, 1 table"}, {"join", 0, "1 table, 2 table"}, {"held", 0, "1 u64"}, {"all", 0, "0 table"}, {"told", 0, "1 u64, 1 table"}} {
		for _, o := range entryOperators() {
			if o.Label != c.label {
				continue
			}
			var got []string
			for _, p := range shapes(o, c.state)[0] {
				got = append(got, fmt.Sprintf("%d %s", p.Columns, p.Form))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%s, state %d: %s, want %s", c.label, c.state, text, c.want)
			}
		}
	}
}
