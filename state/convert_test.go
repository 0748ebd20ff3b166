package state

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
)

func TestConvert(t *testing.T) {
	bigint := types.BigIntType.NotNull()
	spec := func(names ...string) Spec {
		sp := Spec{Name: "groups", Version: 1, Key: []types.Field{{Name: "k", Type: types.StringType}}}
		for _, n := range names {
			ty := bigint
			if n == "accumulators" {
				ty = types.BytesType.NotNull()
			}
			sp.Value = append(sp.Value, types.Field{Name: n, Type: ty})
		}
		return sp
	}
	newer := spec("rows")
	newer.Version = 2
	for _, c := range []struct {
		name     string
		was, now Spec
		ok, same bool
	}{
		{"same", spec("rows", "accumulators"), spec("rows", "accumulators"), true, true},
		{"renamed", spec("rows"), spec("lines"), true, true},
		{"on", spec("rows", "accumulators"), spec(LastUse, "rows", "accumulators"), true, false},
		{"off", spec(LastUse, "accumulators"), spec("accumulators"), true, false},
		{"last of several", spec("copies"), spec("copies", LastUse), true, false},
		{"moved", spec("copies", LastUse), spec(LastUse, "copies"), false, false},
		{"more than that", spec("rows"), spec(LastUse, "accumulators"), false, false},
		{"an earlier version", spec("rows"), newer, true, true},
		{"a later version", newer, spec("rows"), false, false},
	} {
		if conv, ok := Convert(c.was, c.now); ok != c.ok || ok && (conv == nil) != c.same {
			t.Errorf("%s: %v, %v", c.name, conv, ok)
		}
	}
}

func TestConversion_Append(t *testing.T) {
	word := func(n uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{1}, n) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	text := []byte{1, 3, 0, 0, 0, 'a', 'b', 'c'}
	bigint, bin := types.BigIntType.NotNull(), types.BytesType.NotNull()
	col := func(name string, t types.Type) types.Field { return types.Field{Name: name, Type: t} }
	without := []types.Field{col("text", bin), col("rows", bigint)}
	for at := range 3 {
		with := append(append(append([]types.Field{}, without[:at]...), col(LastUse, bigint)), without[at:]...)
		old := [][]byte{text, word(7)}
		long := join(append(append(append([][]byte{}, old[:at]...), word(99)), old[at:]...)...)
		short := join(old...)
		on, _ := Convert(Spec{Value: without}, Spec{Value: with})
		off, _ := Convert(Spec{Value: with}, Spec{Value: without})
		if got, err := on.Append(nil, short, 99); err != nil || !bytes.Equal(got, long) {
			t.Errorf("on at %d: %x, %v, want %x", at, got, err, long)
		}
		if got, err := off.Append(nil, long, 0); err != nil || !bytes.Equal(got, short) {
			t.Errorf("off at %d: %x, %v, want %x", at, got, err, short)
		}
		if _, err := off.Append(nil, long[:4], 0); err == nil {
			t.Errorf("a damaged value at %d is converted", at)
		}
	}
}
