package store

import (
	"context"
	"errors"
	"math/rand"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-stream/tidemark/state"
)

// fullDisk refuses to make tables once it is full.
type fullDisk struct {
	vfs.FS
	full *atomic.Bool
}

var errFull = errors.New("no space left on device")

func (d fullDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if d.full.Load() && strings.HasSuffix(name, ".sst") {
		return nil, errFull
	}
	return d.FS.Create(name, c)
}

// TestFullDisk: nobody waits for a tree that cannot write; all are told why.
func TestFullDisk(t *testing.T) {
	var full atomic.Bool
	s, err := Open(t.TempDir(), Options{MemoryBytes: 8 << 20, fs: fullDisk{vfs.Default, &full}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(1))
	var d state.Delta
	value := make([]byte, 1000)
	fill := func() error {
		d.Reset()
		for range 1000 {
			r.Read(value)
			d.Put(0, 0, value[:8], value)
		}
		return s.Apply(1, d.Bytes())
	}
	if err := fill(); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	for n := 0; err == nil; n++ {
		if err = fill(); n > 1000 {
			t.Fatal("a gigabyte went nowhere")
		}
	}
	if !errors.Is(err, errFull) {
		t.Errorf("Apply: %v", err)
	}
	if _, err := s.Cut(context.Background()); !errors.Is(err, errFull) {
		t.Errorf("Cut: %v", err)
	}
	if err := s.Lookup(nil, nil); !errors.Is(err, errFull) {
		t.Errorf("Lookup: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestFullDisk_Cut: a cut that meets a full disk ends with that error.
func TestFullDisk_Cut(t *testing.T) {
	var full atomic.Bool
	s, err := Open(t.TempDir(), Options{fs: fullDisk{vfs.Default, &full}})
	if err != nil {
		t.Fatal(err)
	}
	var d state.Delta
	d.Put(0, 0, []byte("key"), []byte("value"))
	if err := s.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	if _, err := s.Cut(context.Background()); !errors.Is(err, errFull) {
		t.Errorf("Cut: %v", err)
	}
	_ = s.Close()
}

// TestCut_Cancelled: a cut ends when it is not wanted any more.
func TestCut_Cancelled(t *testing.T) {
	s := open0(t, t.TempDir(), Options{})
	var d state.Delta
	d.Put(0, 0, []byte("key"), []byte("value"))
	if err := s.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errFull)
	if _, err := s.Cut(ctx); err != nil && !errors.Is(err, errFull) && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if c, err := s.Cut(context.Background()); err != nil || len(c.Files) != 2 {
		t.Errorf("the next cut: %v", err)
	}
}
