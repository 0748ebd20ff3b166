package file

import (
	"bytes"
	"fmt"
	"maps"
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
		var set seenSet
		set.add(keys...)
		b := set.encode()
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
	set := seenSet{fresh: same}
	if got, err := decodeSeen(set.encode()); err != nil || len(got) != 1 {
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

// TestSeenSet: whatever was added and taken out between two times, what is written is the set.
func TestSeenSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var set seenSet
	model := map[uint64]bool{}
	for round := range 300 {
		for range rnd.IntN(20) {
			k := rnd.Uint64N(1 << 12)
			set.add(k)
			model[k] = true
		}
		if rnd.IntN(10) == 0 {
			set.retain(func(k uint64) bool { return k%7 != uint64(round)%7 })
			for k := range model {
				if k%7 == uint64(round)%7 {
					delete(model, k)
				}
			}
		}
		if rnd.IntN(3) == 0 {
			continue
		}
		got, err := decodeSeen(set.encode())
		if want := slices.Sorted(maps.Keys(model)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("round %d: %v, %v, want %v", round, got, err, want)
		}
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
