package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkWatched is what a watched folder costs where 100,000 files were read, at a checkpoint after some
// more, and at a look while another 10,000 wait.
func BenchmarkWatched(b *testing.B) {
	const files = 100_000
	e := &enumerator{s: &source{watch: time.Nanosecond}, known: map[uint64]bool{}}
	var names []string
	for i := range files {
		names = append(names, fmt.Sprintf("/data/in/2026/11/30/part-%06d.jsonl", i))
	}
	if _, err := e.Remember(names); err != nil {
		b.Fatal(err)
	}
	for _, more := range []int{0, 10} {
		b.Run(fmt.Sprintf("checkpoint after %d more", more), func(b *testing.B) {
			b.ReportAllocs()
			for n := range b.N {
				var ended []string
				for i := range more {
					ended = append(ended, fmt.Sprintf("/data/in/2026/12/%d-%d", n, i))
				}
				if _, err := e.Remember(ended); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("look", func(b *testing.B) {
		dir := b.TempDir()
		for i := range 10_000 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		e := &enumerator{s: &source{path: dir, watch: time.Nanosecond}, known: map[uint64]bool{}}
		for range b.N {
			if _, _, err := e.Discover(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
