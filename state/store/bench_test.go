package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/state"
)

// put adds an entry such as a COUNT and a SUM by a BIGINT make.
func put(d *state.Delta, key uint64, value uint64) {
	h := key * 0x9E3779B97F4A7C15
	group := int(h >> 57)
	b := append(d.BeginPut(0, group), 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, h)
	end := len(b)
	b = binary.LittleEndian.AppendUint64(b, value)
	b = binary.LittleEndian.AppendUint64(b, value*7)
	d.EndPut(b, end)
}

func benchKey(dst []byte, key uint64) []byte {
	h := key * 0x9E3779B97F4A7C15
	dst = append(state.AppendStoreKey(dst, 1, 0, int(h>>57)), 0, 0, 0)
	return binary.BigEndian.AppendUint64(dst, h)
}

// size is the number of entries of the store that benchmarks work on: STORE_ENTRIES, by default
// what takes a second to make.
func size() int {
	if n, err := strconv.Atoi(os.Getenv("STORE_ENTRIES")); err == nil {
		return n
	}
	return 300_000
}

func filled(b *testing.B, n int) *Store {
	s, err := Open(b.TempDir(), Options{MemoryBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	var d state.Delta
	start := time.Now()
	for i := range n {
		put(&d, uint64(i), 1)
		if d.Len() == 100_000 || i == n-1 {
			if err := s.Apply(1, d.Bytes()); err != nil {
				b.Fatal(err)
			}
			d.Reset()
		}
	}
	b.Logf("filled %d entries, %.2f us each: %+v", n, float64(time.Since(start).Microseconds())/float64(n), s.Metrics())
	return s
}

func BenchmarkApply(b *testing.B) {
	s := filled(b, size())
	var d state.Delta
	const batch = 100_000
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		d.Reset()
		for range batch {
			put(&d, rand.Uint64N(uint64(size())), 2)
		}
		b.StartTimer()
		if err := s.Apply(1, d.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/entry")
}

func BenchmarkCut(b *testing.B) {
	s := filled(b, size())
	if c, err := s.Cut(context.Background()); err == nil {
		_ = c.Release()
	}
	for _, changed := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("changed=%d", changed), func(b *testing.B) {
			var bytes, files, freeze int64
			var d state.Delta
			for range b.N {
				b.StopTimer()
				d.Reset()
				for range min(changed, size()) {
					put(&d, rand.Uint64N(uint64(size())), 2)
				}
				if err := s.Apply(1, d.Bytes()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				c, err := s.Cut(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				bytes, files, freeze = bytes+c.NewBytes, files+int64(c.New), freeze+c.Frozen.Microseconds()
				_ = c.Release()
			}
			b.ReportMetric(float64(bytes)/float64(b.N)/1e6, "newMB/cut")
			b.ReportMetric(float64(files)/float64(b.N), "new/cut")
			b.ReportMetric(float64(freeze)/float64(b.N)/1e3, "frozen-ms/cut")
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	s := filled(b, size())
	const batch = 2048
	for _, miss := range []bool{false, true} {
		b.Run(fmt.Sprintf("miss=%v", miss), func(b *testing.B) {
			keys := make([][]byte, batch)
			for range b.N {
				b.StopTimer()
				for i := range keys {
					k := rand.Uint64N(uint64(size()))
					if miss {
						k += 1 << 40
					}
					keys[i] = benchKey(keys[i][:0], k)
				}
				slices.SortFunc(keys, bytes.Compare)
				b.StartTimer()
				n := 0
				if err := s.Lookup(keys, func(int, []byte) error { n++; return nil }); err != nil || n > 0 == miss {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/key")
		})
	}
}
