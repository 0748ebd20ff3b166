package store

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// TestConvert: the entries of one state get a time of last use, and lose it again; others stay.
func TestConvert(t *testing.T) {
	st, err := Open(filepath.Join(t.TempDir(), "store"), Options{MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	bigint := types.BigIntType.NotNull()
	rows := types.Field{Name: "rows", Type: bigint}
	without := state.Spec{Name: "groups", Value: []types.Field{rows}}
	with := state.Spec{Name: "groups", Value: []types.Field{{Name: state.LastUse, Type: bigint}, rows}}
	on, _ := state.Convert(without, with)
	off, _ := state.Convert(with, without)
	word := func(n int) []byte { return binary.LittleEndian.AppendUint64([]byte{1}, uint64(n)) }
	var d state.Delta
	for i := range 1000 {
		d.Put(3, i%7, binary.BigEndian.AppendUint32(nil, uint32(i)), word(i))
		d.Put(4, i%7, binary.BigEndian.AppendUint32(nil, uint32(i)), word(i))
	}
	for _, at := range []int{3, 4} {
		d.Put(at|state.IndexState, 5, []byte("an index by the time of last use"), nil)
	}
	if err := st.Apply(65535, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	check := func(what string, at int, want func(i int) []byte) {
		t.Helper()
		n := 0
		if err := st.Scan(65535, at, 0, 7, func(group int, key, value []byte) error {
			i := int(binary.BigEndian.Uint32(key))
			if n++; group != i%7 || string(value) != string(want(i)) {
				t.Fatalf("%s: entry %d in group %d is %x, want %x", what, i, group, value, want(i))
			}
			return nil
		}); err != nil || n != 1000 {
			t.Fatalf("%s: %d entries, %v", what, n, err)
		}
	}
	if err := st.Convert(65535, 3, on, 77); err != nil {
		t.Fatal(err)
	}
	check("on", 3, func(i int) []byte { return append(word(77), word(i)...) })
	check("another state", 4, word)
	for at, want := range map[int]int{3: 0, 4: 1} {
		n := 0
		if err := st.Scan(65535, at|state.IndexState, 0, 7, func(int, []byte, []byte) error { n++; return nil }); err != nil || n != want {
			t.Errorf("%d entries of the index of state %d, want %d, %v", n, at, want, err)
		}
	}
	if err := st.Convert(65535, 3, off, 0); err != nil {
		t.Fatal(err)
	}
	check("off", 3, word)
	if st.Convert(65535, 3, off, 0) != nil { // which takes the number of rows for the time
		t.Fatal("values of one number are refused")
	}
	if st.Convert(65535, 3, off, 0) == nil {
		t.Error("values without a number lose one")
	}
}
