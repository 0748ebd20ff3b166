package object

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// FS is the disk as Local uses it. The zero value of OS is the real one; a simulation puts another
// in its place that forgets what was not synced. Paths are those of the system. Errors are told
// apart by fs.ErrNotExist and fs.ErrExist. Methods may be called from several goroutines.
type FS interface {
	// MkdirAll makes a folder and those above it.
	MkdirAll(dir string) error
	// Create makes a file that did not exist, for writing.
	Create(path string) (File, error)
	// Open opens a file for reading; Sync is allowed.
	Open(path string) (File, error)
	// SyncDir makes the entries of a folder survive a crash.
	SyncDir(dir string) error
	// Link gives a file a second name, which must not exist.
	Link(from, to string) error
	// Rename moves a file, in place of one that has the new name.
	Rename(from, to string) error
	Remove(path string) error
	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)
	Stat(path string) (fs.FileInfo, error)
	// Lock locks a file, which it makes if needed, against all other callers in all processes,
	// until the result is closed or the process ends. note is kept in the file, so that the
	// *LockedError of others can say who has it.
	Lock(path, note string) (io.Closer, error)
}

// File is an open file of an FS.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	// Sync makes the content survive a crash.
	Sync() error
}

// OS is the FS of the operating system.
type OS struct{}

// MkdirAll implements FS.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) }

// Create implements FS.
func (OS) Create(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open implements FS.
func (OS) Open(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readFile{f}, nil
}

// readFile is a file open for reading.
type readFile struct{ *os.File }

// Sync implements File. Windows refuses it for files that are open for reading; whoever wrote the
// file synced it there, or takes the risk.
func (f readFile) Sync() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return f.File.Sync()
}

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be opened there; NTFS journals its entries
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// MakeFolder makes a folder of the real disk, and those above it, where it is missing, so that its
// existence survives a crash.
func MakeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	return makeFolder(OS{}, dir)
}

// makeFolder makes a folder whose existence survives a crash, also where it is there already.
func makeFolder(disk FS, dir string) error {
	top := dir // the first folder above that exists
	for {
		top = filepath.Dir(top)
		if _, err := disk.Stat(top); err == nil || filepath.Dir(top) == top {
			break
		}
	}
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	for d := filepath.Dir(dir); ; d = filepath.Dir(d) {
		if err := disk.SyncDir(d); err != nil {
			return err
		}
		if d == top {
			return nil
		}
	}
}

// Link implements FS.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(path string) error { return os.Remove(path) }

// List implements FS.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out, nil
}

// Stat implements FS.
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// Lock implements FS by a lock of the system, which ends with the process, however that ends.
func (OS) Lock(path, note string) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	free, err := tryLock(f)
	if err != nil || !free {
		var owner []byte
		if err == nil {
			owner, _ = io.ReadAll(io.LimitReader(f, 1024))
		}
		f.Close()
		if err == nil {
			err = &LockedError{Note: string(owner)}
		}
		return nil, err
	}
	// The note is for people: that it cannot be written is no reason not to run.
	if f.Truncate(0) == nil {
		f.WriteString(note)
	}
	return f, nil
}
