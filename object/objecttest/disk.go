package objecttest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/object"
)

// ErrStopped is what every call gets after the machine has stopped.
var ErrStopped = errors.New("the machine has stopped")

// Disk is a disk in memory that keeps over a crash only what was synced: the content of a file as
// of its Sync, the entries of a folder as of its SyncDir. It is an object.FS.
type Disk struct {
	mu    sync.Mutex
	root  *node
	locks map[string]string // note by path
	calls int
	stop  int // the call before which the machine stops; 0 is none
	dead  bool
}

// node is a file or a folder. A file has its names in the folders that link it.
type node struct {
	data   []byte
	synced int // bytes of data that a crash leaves
	mod    time.Time

	// Folders only: now, and what a crash leaves.
	entries, kept map[string]*node
}

func folder() *node {
	return &node{entries: map[string]*node{}, kept: map[string]*node{}}
}

// NewDisk returns an empty disk with the folder /.
func NewDisk() *Disk { return &Disk{root: folder(), locks: map[string]string{}} }

// StopBefore makes the machine stop before the n-th call from now, counted from 1.
func (d *Disk) StopBefore(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop = d.calls + n
}

// Stopped reports whether the machine has stopped.
func (d *Disk) Stopped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// Crash stops the machine and returns its disk after the crash. Of what was not synced nothing is
// left; with r some of it, as of real disks.
func (d *Disk) Crash(r *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	out := NewDisk()
	out.root = left(d.root, r, map[*node]*node{})
	return out
}

// left copies what a crash leaves of n. Files that have several names keep being one.
func left(n *node, r *rand.Rand, done map[*node]*node) *node {
	if c := done[n]; c != nil {
		return c
	}
	c := &node{mod: n.mod}
	done[n] = c
	if n.entries == nil {
		c.synced = n.synced
		if r != nil {
			c.synced += r.IntN(len(n.data) - n.synced + 1)
		}
		c.data = slices.Clone(n.data[:c.synced])
		return c
	}
	c.entries = map[string]*node{}
	names := slices.Sorted(maps.Keys(n.kept))
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		if n.kept[name] == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		was, is := n.kept[name], n.entries[name]
		if was != is && r != nil && r.IntN(2) == 0 {
			was = is
		}
		if was != nil {
			c.entries[name] = left(was, r, done)
		}
	}
	c.kept = maps.Clone(c.entries)
	return c
}

// enter starts a call.
func (d *Disk) enter() error {
	d.calls++
	if d.calls == d.stop {
		d.dead = true
	}
	if d.dead {
		return ErrStopped
	}
	return nil
}

// find returns the node of a path, nil if there is none.
func (d *Disk) find(path string) *node {
	n := d.root
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(path)), "/") {
		if part == "" {
			continue
		}
		if n == nil || n.entries == nil {
			return nil
		}
		n = n.entries[part]
	}
	return n
}

// parent returns the folder of a path and the last part of it.
func (d *Disk) parent(op, path string) (*node, string, error) {
	n := d.find(filepath.Dir(path))
	if n == nil || n.entries == nil {
		return nil, "", &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
	}
	return n, filepath.Base(path), nil
}

// MkdirAll implements object.FS.
func (d *Disk) MkdirAll(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return err
	}
	n := d.root
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(dir)), "/") {
		if part == "" {
			continue
		}
		next := n.entries[part]
		if next == nil {
			next = folder()
			n.entries[part] = next
		}
		if next.entries == nil {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
		}
		n = next
	}
	return nil
}

// Create implements object.FS.
func (d *Disk) Create(path string) (object.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return nil, err
	}
	dir, name, err := d.parent("create", path)
	if err != nil {
		return nil, err
	}
	if dir.entries[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	n := &node{mod: time.Now()}
	dir.entries[name] = n
	return &handle{d: d, n: n}, nil
}

// Open implements object.FS.
func (d *Disk) Open(path string) (object.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return nil, err
	}
	n := d.find(path)
	if n == nil || n.entries != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return &handle{d: d, n: n}, nil
}

// SyncDir implements object.FS.
func (d *Disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return err
	}
	n := d.find(dir)
	if n == nil || n.entries == nil {
		return &fs.PathError{Op: "sync", Path: dir, Err: fs.ErrNotExist}
	}
	n.kept = maps.Clone(n.entries)
	return nil
}

// Link implements object.FS.
func (d *Disk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return err
	}
	n := d.find(from)
	if n == nil || n.entries != nil {
		return &fs.PathError{Op: "link", Path: from, Err: fs.ErrNotExist}
	}
	dir, name, err := d.parent("link", to)
	if err != nil {
		return err
	}
	if dir.entries[name] != nil {
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	dir.entries[name] = n
	return nil
}

// Rename implements object.FS.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return err
	}
	n := d.find(from)
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	dir, name, err := d.parent("rename", to)
	if err != nil {
		return err
	}
	if dir.entries[name] == n {
		return nil // two names of one file: both stay, as POSIX says
	}
	dir.entries[name] = n
	old, oldName, _ := d.parent("rename", from)
	delete(old.entries, oldName)
	return nil
}

// Remove implements object.FS.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return err
	}
	dir, name, err := d.parent("remove", path)
	if err != nil {
		return err
	}
	n := dir.entries[name]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	if len(n.entries) > 0 {
		return &fs.PathError{Op: "remove", Path: path, Err: errors.New("folder not empty")}
	}
	delete(dir.entries, name)
	return nil
}

// List implements object.FS.
func (d *Disk) List(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return nil, err
	}
	n := d.find(dir)
	if n == nil || n.entries == nil {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Stat implements object.FS.
func (d *Disk) Stat(path string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return nil, err
	}
	n := d.find(path)
	if n == nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return info{filepath.Base(path), int64(len(n.data)), n.mod, n.entries != nil}, nil
}

// Lock implements object.FS.
func (d *Disk) Lock(path, note string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(); err != nil {
		return nil, err
	}
	if owner, ok := d.locks[path]; ok {
		return nil, &object.LockedError{Note: owner}
	}
	d.locks[path] = note
	return unlock(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locks, path)
		return nil
	}), nil
}

type unlock func() error

func (u unlock) Close() error { return u() }

// Damage changes a file in place, as a disk that goes bad does. It is no call of a machine.
func (d *Disk) Damage(path string, change func([]byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(path)
	if n == nil || n.entries != nil {
		panic(fmt.Sprintf("BUG: no file %s to damage", path))
	}
	n.data = change(slices.Clone(n.data))
	n.synced = len(n.data)
}

// handle is an open file.
type handle struct {
	d   *Disk
	n   *node
	pos int
}

// Read implements object.File.
func (h *handle) Read(p []byte) (int, error) {
	n, err := h.ReadAt(p, int64(h.pos))
	h.pos += n
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt implements object.File.
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.enter(); err != nil {
		return 0, err
	}
	if off >= int64(len(h.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements object.File.
func (h *handle) Write(p []byte) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.enter(); err != nil {
		return 0, err
	}
	h.n.data = append(h.n.data, p...)
	h.n.mod = time.Now()
	return len(p), nil
}

// Sync implements object.File.
func (h *handle) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.enter(); err != nil {
		return err
	}
	h.n.synced = len(h.n.data)
	return nil
}

// Close implements object.File.
func (h *handle) Close() error { return nil }

type info struct {
	name string
	size int64
	mod  time.Time
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.mod }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
