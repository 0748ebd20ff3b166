package file

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSeen_IsReadBackAndSmall(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 3, 100, 1000, 100_000} {
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = rnd.Uint64()
		}
		if n > 2 {
			keys[0], keys[1] = 0, 1<<64-1
		}
		b := encodeSeen(slices.Clone(keys))
		got, err := decodeSeen(b)
		slices.Sort(keys)
		if err != nil || !slices.Equal(got, keys) {
			t.Fatalf("%d keys: %d come back, %v", n, len(got), err)
		}
		if per := float64(len(b)) * 8 / float64(max(n, 1)); n >= 1000 && per > 57 || n >= 100_000 && per > 50 {
			t.Errorf("%d keys take %.1f bits each", n, per)
		}
	}
	same := slices.Repeat([]uint64{7}, 5)
	if got, err := decodeSeen(encodeSeen(same)); err != nil || len(got) != 1 {
		t.Errorf("one key five times: %v, %v", got, err)
	}
	// Neighbours and far ones in one set.
	if got, err := decodeSeen(encodeSeen([]uint64{5, 6, 7, 1 << 63, 1<<63 + 1})); err != nil || len(got) != 5 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := decodeSeen([]byte{9, 1, 1}); err == nil {
		t.Error("another version is read")
	}
}

func TestSeenKey_TellsVersions(t *testing.T) {
	keys := map[uint64]string{}
	for i := range 100_000 {
		id := fmt.Sprintf("s3://bucket/in/part-%d.jsonl?etag=%d", i/2, i%2)
		if other, ok := keys[seenKey(id)]; ok {
			t.Fatalf("%s and %s are one", id, other)
		}
		keys[seenKey(id)] = id
	}
}

func FuzzDecodeSeen(f *testing.F) {
	f.Add(encodeSeen([]uint64{1, 2, 1 << 40}))
	f.Add(encodeSeen([]uint64{0}))
	f.Add([]byte{1, 200, 1, 64, 255, 255})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := decodeSeen(b)
		if err != nil || !slices.IsSorted(keys) { // a sum that has run over
			return
		}
		again, err := decodeSeen(encodeSeen(slices.Clone(keys)))
		if err != nil || !slices.Equal(keys, again) {
			t.Errorf("%x: %v, then %v, %v", b, keys, again, err)
		}
		if len(keys) > 0 && bytes.Equal(b, nil) {
			t.Error("keys of nothing")
		}
	})
}
