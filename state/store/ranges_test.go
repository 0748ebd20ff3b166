package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/state"
)

// TestRanges: many ranges, some empty and one larger than is read ahead, come whole and in order whoever
// reads them; and whoever asks may have enough at any entry.
func TestRanges(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	st, err := Open(filepath.Join(t.TempDir(), "store"), Options{MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var d state.Delta
	var prefixes [][]byte
	var want []string
	for i := range 1000 {
		key := binary.BigEndian.AppendUint32(nil, uint32(i))
		n := i % 4
		if i == 400 {
			n = 4000 // of 100 bytes
		}
		for k := range n {
			d.Put(2, 5, append(slices.Clone(key), fmt.Sprintf("%04d", k)...), []byte(strings.Repeat("v", 100)))
		}
		if i%3 == 0 {
			continue
		}
		prefixes = append(prefixes, append(state.AppendStoreKey(nil, 1, 2, 5), key...))
		for k := range n {
			want = append(want, fmt.Sprintf("%d %04d 100", len(prefixes)-1, k))
		}
	}
	if err := st.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	for _, few := range []int{len(prefixes), 300, 5} {
		for _, most := range []int{1 << 20, 2000, 700, 3} {
			var got []string
			err := st.Ranges(prefixes[:few], func(i int, key, value []byte) error {
				if len(got) == most {
					return state.Enough
				}
				got = append(got, fmt.Sprintf("%d %s %d", i, key[state.StoreHead+4:], len(value)))
				return nil
			})
			all := want
			for n, line := range want {
				if i := 0; func() bool { _, _ = fmt.Sscan(line, &i); return i >= few }() {
					all = want[:n]
					break
				}
			}
			full := len(all) > most
			if full != errors.Is(err, state.Enough) || !full && err != nil || !slices.Equal(got, all[:min(most, len(all))]) {
				t.Fatalf("%d prefixes, %d entries at most: %d entries, %v; want %d", few, most, len(got), err, len(all))
			}
		}
	}
}
