package store

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// files is a file system that does not wait for the disk: the content of a store is made durable by those
// who copy its cuts. It knows what is open, so that nothing stays so when the tree is given up, which may
// never close what it has.
type files struct {
	vfs.FS
	mu    sync.Mutex
	open  map[io.Closer]bool // guarded by mu
	ended bool               // guarded by mu
}

func newFiles(fs vfs.FS) *files { return &files{FS: fs, open: map[io.Closer]bool{}} }

// end closes what is open, and lets nothing be opened any more.
func (fs *files) end() {
	fs.mu.Lock()
	fs.ended = true
	open := fs.open
	fs.open = nil
	fs.mu.Unlock()
	for c := range open {
		_ = c.Close() // what was written is of no use
	}
}

// add takes note of what was opened, or closes it where it is too late.
func (fs *files) add(c io.Closer) error {
	fs.mu.Lock()
	ended := fs.ended
	if !ended {
		fs.open[c] = true
	}
	fs.mu.Unlock()
	if ended {
		_ = c.Close()
		return os.ErrClosed
	}
	return nil
}

func (fs *files) remove(c io.Closer) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.open, c)
}

func (fs *files) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	w := &file{File: f, fs: fs}
	if err := fs.add(w); err != nil {
		return nil, err
	}
	return w, nil
}

func (fs *files) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.wrap(fs.FS.Create(name, c))
}

func (fs *files) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return fs.wrap(fs.FS.Open(name, o...))
}

func (fs *files) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return fs.wrap(fs.FS.OpenReadWrite(name, c, o...))
}

func (fs *files) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.wrap(fs.FS.ReuseForWrite(from, to, c))
}

func (fs *files) OpenDir(name string) (vfs.File, error) { return fs.wrap(fs.FS.OpenDir(name)) }

func (fs *files) Lock(name string) (io.Closer, error) {
	c, err := fs.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	l := &lock{c, fs}
	if err := fs.add(l); err != nil {
		return nil, err
	}
	return l, nil
}

func (fs *files) Unwrap() vfs.FS { return fs.FS }

type lock struct {
	io.Closer
	fs *files
}

func (l *lock) Close() error {
	l.fs.remove(l)
	return l.Closer.Close()
}

type file struct {
	vfs.File
	fs     *files
	closed atomic.Bool
}

func (f *file) Close() error {
	f.closed.Store(true)
	f.fs.remove(f)
	return f.File.Close()
}

func (*file) Sync() error                { return nil }
func (*file) SyncData() error            { return nil }
func (*file) SyncTo(int64) (bool, error) { return false, nil }

// Preallocate goes by the number of the file, which may be another's after end.
func (f *file) Preallocate(offset, length int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.ended || f.closed.Load() {
		return os.ErrClosed
	}
	return f.File.Preallocate(offset, length)
}
