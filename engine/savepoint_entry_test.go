package engine

import (
	"bytes"
	"encoding/binary"
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
	return []*checkpoint.Operator{
		{Label: "group", States: []state.Spec{{Name: "groups", Key: []types.Field{item, note}, Value: []types.Field{accs}}, values}},
		{Label: "slice", States: []state.Spec{{Name: "slices", Key: []types.Field{field("slice_end", end.Type), field("part", types.IntType.NotNull()), item},
			Value: []types.Field{accs}}}},
		{Label: "window", States: []state.Spec{{Name: "windows", Key: []types.Field{end, raw}, Value: []types.Field{field("list", list)}},
			{Name: "windows: values of 1", Key: []types.Field{end, raw, note}, Value: []types.Field{field("rows", types.BigIntType.NotNull())}}}},
		{Label: "join", States: []state.Spec{{Name: "left rows", Key: []types.Field{note, item, note}, Value: []types.Field{field("copies", types.BigIntType.NotNull())}}}},
		{Label: "held", States: []state.Spec{{Name: heldRows, Key: []types.Field{field("row", types.BigIntType.NotNull())}, Value: []types.Field{field("kind", types.IntType.NotNull()), note}}}},
		{Label: "all", States: []state.Spec{{Name: "groups", Value: []types.Field{accs}}}},
	}
}

// FuzzEntry: an entry of any bytes is refused, or read and written again as it was.
func FuzzEntry(f *testing.F) {
	ops := entryOperators()
	key := append([]byte{0, 0, 0}, binary.BigEndian.AppendUint64(nil, 7)...)
	key = append(key, 0, 0, 0, 2, 'h', 'i')
	value := append([]byte{1, 3, 0, 0, 0}, 1, 2, 3)
	f.Add(0, 0, key, value)
	f.Add(0, 1, append(bytes.Clone(key), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), []byte{1, 9, 0, 0, 0, 0, 0, 0, 0})
	f.Add(1, 0, append(append(bytes.Repeat([]byte{0x80}, 8), 0, 0, 0, 1, 0, 0, 0), binary.BigEndian.AppendUint64(nil, 7)...), value)
	f.Add(2, 0, append(bytes.Repeat([]byte{0x80}, 8), 1, 0, 0, 0, 0, 0, 0), []byte{1, 1, 0, 0, 0, 1, 5, 0, 0, 0})
	f.Add(4, 0, bytes.Repeat([]byte{1}, 8), []byte{1, 2, 0, 0, 0, 0})
	f.Add(5, 0, []byte{0, 0, 0}, value)
	f.Fuzz(func(t *testing.T, op, st int, key, value []byte) {
		o := ops[uint(op)%uint(len(ops))]
		at := int(uint(st) % uint(len(o.States)))
		for _, sh := range shapes(o, at) {
			r := newEntryReader(o.States[at], sh)
			b := vec.NewBatch(EntrySchema(o.States[at]))
			b.Reset(0)
			if err := r.add(b, key, value); err != nil {
				continue
			}
			k, v, err := r.encode(b, 0)
			if err != nil {
				continue // NULL where there is none
			}
			if !bytes.Equal(k, key) {
				t.Errorf("%s: key %x is written as %x", o.Label, key, k)
			}
			// Values may have odd forms of a boolean, and no others.
			again := vec.NewBatch(EntrySchema(o.States[at]))
			again.Reset(0)
			if err := r.add(again, k, v); err != nil || len(v) != len(value) {
				t.Errorf("%s: value %x is written as %x: %v", o.Label, value, v, err)
			}
		}
	})
}

// TestShapes: every state's key is found to be made as it is.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		label string
		state int
		want  keyShape
	}{{"group", 0, keyShape{0, 2}}, {"group", 1, keyShape{0, 2}}, {"slice", 0, keyShape{2, 3}}, {"window", 0, keyShape{1, 2}}, {"window", 1, keyShape{1, 2}},
		{"join", 0, keyShape{0, 1}}, {"held", 0, keyShape{1, 1}}, {"all", 0, keyShape{0, 0}}} {
		for _, o := range entryOperators() {
			if o.Label == c.label {
				if got := shapes(o, c.state)[0]; got != c.want {
					t.Errorf("%s, state %d: %v, want %v", c.label, c.state, got, c.want)
				}
			}
		}
	}
}
