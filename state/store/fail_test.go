package store

import (
	"context"
	"errors"
	"math/rand"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-stream/tidemark/state"
)

// counted counts the files that are open.
type counted struct {
	vfs.FS
	open *atomic.Int64
}

type countedFile struct {
	vfs.File
	open *atomic.Int64
}

func (f *countedFile) Close() error {
	err := f.File.Close()
	if err == nil {
		f.open.Add(-1)
	}
	return err
}

func (c counted) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedFile{f, c.open}, nil
}

func (c counted) Create(name string, k vfs.DiskWriteCategory) (vfs.File, error) {
	return c.count(c.FS.Create(name, k))
}

func (c counted) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return c.count(c.FS.Open(name, o...))
}

func (c counted) OpenDir(name string) (vfs.File, error) { return c.count(c.FS.OpenDir(name)) }

// fullDisk refuses to make tables once it is full.
type fullDisk struct {
	vfs.FS
	full     *atomic.Bool
	manifest *atomic.Bool // the list of the tree's files cannot be written
}

var errFull error = syscall.ENOSPC

func (d fullDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if d.full.Load() && strings.HasSuffix(name, ".sst") {
		return nil, errFull
	}
	f, err := d.FS.Create(name, c)
	if d.manifest != nil && strings.Contains(name, "MANIFEST") {
		return fullFile{f, d.manifest}, err
	}
	return f, err
}

// fullFile is a file on a disk that may be full.
type fullFile struct {
	vfs.File
	full *atomic.Bool
}

func (f fullFile) Write(p []byte) (int, error) {
	if f.full.Load() {
		return 0, errFull
	}
	return f.File.Write(p)
}

// TestFullDisk: nobody waits for a tree that cannot write; all are told why.
func TestFullDisk(t *testing.T) {
	var full atomic.Bool
	s, err := Open(t.TempDir(), Options{MemoryBytes: 8 << 20, fs: fullDisk{FS: vfs.Default, full: &full}})
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
	s, err := Open(t.TempDir(), Options{fs: fullDisk{FS: vfs.Default, full: &full}})
	if err != nil {
		t.Fatal(err)
	}
	var d state.Delta
	d.Put(0, 0, []byte("key"), []byte("value"))
	if err := s.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	_, err = s.Cut(context.Background())
	if !errors.Is(err, errFull) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("Cut: %v", err)
	}
	if err := s.Dead(); err != nil {
		t.Errorf("the store is given up: %v", err)
	}
	full.Store(false)
	for n := 0; ; n++ {
		c, err := s.Cut(context.Background())
		if err == nil {
			if len(c.Files) != 2 {
				t.Errorf("the cut has the files %v", c.Files)
			}
			break
		}
		if n > 1000 || !errors.Is(err, errFull) {
			t.Fatalf("there is room again, and a cut fails: %v", err)
		}
		time.Sleep(time.Millisecond) // the tree tries again
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullDisk_Manifest: a tree that cannot write which files it has is given up, and not the process.
func TestFullDisk_Manifest(t *testing.T) {
	for _, sorted := range []int{0, 1} { // through the tree's buffers, and past them
		var full, manifest atomic.Bool
		var open atomic.Int64
		o := Options{MemoryBytes: 8 << 20, sorted: sorted, fs: fullDisk{counted{vfs.Default, &open}, &full, &manifest}}
		dir := t.TempDir()
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		manifest.Store(true)
		var d state.Delta
		d.Put(0, 0, []byte("key"), []byte("value"))
		err = s.Apply(1, d.Bytes())
		if sorted == 0 && err == nil {
			_, err = s.Cut(context.Background())
		}
		if !errors.Is(err, errFull) || !errors.Is(s.Dead(), errFull) {
			t.Errorf("sorted %d: %v, given up: %v", sorted, err, s.Dead())
		}
		if err := s.Apply(1, d.Bytes()); !errors.Is(err, errFull) {
			t.Errorf("sorted %d: Apply afterwards: %v", sorted, err)
		}
		if err := s.Scan(1, 0, 0, 1, func(int, []byte, []byte) error { return nil }); !errors.Is(err, errFull) {
			t.Errorf("sorted %d: Scan afterwards: %v", sorted, err)
		}
		if _, _, err := s.Get(nil, 1, 0, 0, nil); !errors.Is(err, errFull) {
			t.Errorf("sorted %d: Get afterwards: %v", sorted, err)
		}
		if m := s.Metrics(); m.Tables != 0 {
			t.Errorf("figures of a tree that was given up: %+v", m)
		}
		if open.Load() == 0 {
			t.Error("no file is open before the end")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := open.Load(); n != 0 {
			t.Errorf("sorted %d: %d files stay open", sorted, n)
		}
		if l, err := vfs.Default.Lock(dir + "/LOCK"); err != nil {
			t.Errorf("sorted %d: the folder is locked yet: %v", sorted, err)
		} else if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := Open(t.TempDir(), o); !errors.Is(err, errFull) {
			t.Errorf("a store is opened on a full disk: %v", err)
		}
		if n := open.Load(); n != 0 {
			t.Errorf("sorted %d: %d files stay open of one that was not opened", sorted, n)
		}
	}
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

// fills refuses to write the list of the tree's files after some writes.
type fills struct {
	vfs.FS
	left *atomic.Int64
}

func (d fills) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err == nil && strings.Contains(name, "MANIFEST") {
		return fillingFile{f, d.left}, nil
	}
	return f, err
}

type fillingFile struct {
	vfs.File
	left *atomic.Int64
}

func (f fillingFile) Write(p []byte) (int, error) {
	if f.left.Add(-1) < 0 {
		return 0, errFull
	}
	return f.File.Write(p)
}

// TestFullDisk_Open: a store whose disk is full at any moment of opening it is not waited for.
func TestFullDisk_Open(t *testing.T) {
	s := open0(t, t.TempDir(), Options{})
	var d state.Delta
	d.Put(0, 0, []byte("key"), []byte("value"))
	if err := s.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	cut, err := s.Cut(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(8) {
		dir := place(t, cut)
		var left atomic.Int64
		left.Store(n)
		o := Options{fs: fills{vfs.Default, &left}}
		done := make(chan error, 1)
		go func() {
			s, err := OpenFiles(dir, cut.Files, o)
			if err == nil {
				if err = s.Apply(1, d.Bytes()); err == nil {
					_, err = s.Cut(context.Background())
				}
				err = errors.Join(err, s.Close())
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, errFull) {
				t.Errorf("%d writes: %v", n, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d writes: the store is waited for", n)
		}
	}
}
