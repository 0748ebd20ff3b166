package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// tempFolder, below the root, holds what is being written. Its files are called
// <ms since 1970>-<process>-<number>, so that their age does not depend on the time of a file that
// was linked there.
const tempFolder = ".tmp"

// tempAge is how old a temporary file is when it is taken for the leftover of a crash. A write
// takes minutes at most.
const tempAge = 6 * time.Hour

// Local is a Store in a folder. What is written goes to a temporary file first, is synced, and
// then renamed or linked to its name, whose folder is synced: no crash shows half an object.
// Folders need not exist before the first write.
type Local struct {
	root     string
	disk     FS
	requests atomic.Int64
	number   atomic.Int64 // of the last temporary file

	mu     sync.Mutex
	synced map[string]bool // folders that exist and whose entry above is synced; guarded by mu
	swept  bool            // old temporary files are removed; guarded by mu
}

// NewLocal is the store in the folder root. disk may be nil for that of the operating system.
func NewLocal(root string, disk FS) *Local {
	if disk == nil {
		disk = OS{}
	}
	return &Local{root: filepath.Clean(root), disk: disk, synced: map[string]bool{}}
}

// String implements Store.
func (l *Local) String() string { return l.root }

// Requests implements Store.
func (l *Local) Requests() int64 { return l.requests.Load() }

// begin counts a request and returns where an object lies.
func (l *Local) begin(ctx context.Context, name string) (string, error) {
	l.requests.Add(1)
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	if err := CheckName(name); err != nil {
		return "", err
	}
	if first, _, _ := strings.Cut(name, "/"); first == tempFolder {
		return "", fmt.Errorf("object name %q: folder %s is for what is being written", name, tempFolder)
	}
	return filepath.Join(l.root, filepath.FromSlash(name)), nil
}

// notFound adds ErrNotFound to an error that says so: also that what should be a folder is a file.
func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w (%w)", ErrNotFound, err)
	}
	return err
}

// folder makes a folder whose existence survives a crash.
func (l *Local) folder(dir string) error {
	l.mu.Lock()
	known := l.synced[dir]
	l.mu.Unlock()
	if known {
		return nil
	}
	if err := makeFolder(l.disk, dir); err != nil {
		return err
	}
	l.mu.Lock()
	l.synced[dir] = true
	l.mu.Unlock()
	return nil
}

// temp returns a name for a temporary file. The first one removes what crashes left.
func (l *Local) temp() (string, error) {
	dir := filepath.Join(l.root, tempFolder)
	if err := l.folder(dir); err != nil {
		return "", err
	}
	now := time.Now()
	l.mu.Lock()
	first := !l.swept
	l.swept = true
	l.mu.Unlock()
	if first {
		names, _ := l.disk.List(dir)
		for _, n := range names {
			stamp, _, _ := strings.Cut(n, "-")
			if ms, err := strconv.ParseInt(stamp, 10, 64); err == nil && now.Sub(time.UnixMilli(ms)) > tempAge {
				l.disk.Remove(filepath.Join(dir, n)) // it is tried again by the next process
			}
		}
	}
	return filepath.Join(dir, fmt.Sprintf("%d-%d-%d", now.UnixMilli(), os.Getpid(), l.number.Add(1))), nil
}

// write makes a synced temporary file with what fill writes.
func (l *Local) write(fill func(io.Writer) error) (tmp string, err error) {
	var f File
	for { // a process of the same number may have left one, under a clock that was set back
		if tmp, err = l.temp(); err != nil {
			return "", err
		}
		if f, err = l.disk.Create(tmp); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		l.disk.Remove(tmp)
		return "", err
	}
	return tmp, nil
}

func bytesOf(data []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(data); return err }
}

// place renames a temporary file to its name.
func (l *Local) place(tmp, at string) error {
	dir := filepath.Dir(at)
	err := l.folder(dir)
	if err == nil {
		err = l.disk.Rename(tmp, at)
	}
	if err != nil {
		l.disk.Remove(tmp)
		return err
	}
	// Renaming one name of a file over another name of the same file does nothing.
	l.disk.Remove(tmp)
	return l.disk.SyncDir(dir)
}

// Put implements Store.
func (l *Local) Put(ctx context.Context, name string, data []byte) error {
	at, err := l.begin(ctx, name)
	if err != nil {
		return err
	}
	tmp, err := l.write(bytesOf(data))
	if err == nil {
		err = l.place(tmp, at)
	}
	return l.wrote(at, err)
}

// wrote gives the error of a write its place. If a folder has vanished, the next write makes it.
func (l *Local) wrote(at string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		l.mu.Lock()
		clear(l.synced)
		l.mu.Unlock()
	}
	return fmt.Errorf("write %s: %w", at, err)
}

// PutIfAbsent implements Store: a hard link is only made if its name is free, whatever other
// processes do at that time.
func (l *Local) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	at, err := l.begin(ctx, name)
	if err != nil {
		return err
	}
	return l.wrote(at, l.putIfAbsent(at, data))
}

func (l *Local) putIfAbsent(at string, data []byte) error {
	tmp, err := l.write(bytesOf(data))
	if err != nil {
		return err
	}
	defer l.disk.Remove(tmp)
	dir := filepath.Dir(at)
	if err := l.folder(dir); err != nil {
		return err
	}
	switch err := l.disk.Link(tmp, at); {
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil:
		return fmt.Errorf("%w; the file system must allow hard links, which tell who came first", err)
	}
	return l.disk.SyncDir(dir)
}

// PutFile implements Store. On the same file system it links, which costs no copy; the file is
// synced first, since whoever wrote it may not have done that.
func (l *Local) PutFile(ctx context.Context, name, path string) error {
	at, err := l.begin(ctx, name)
	if err != nil {
		return err
	}
	return l.wrote(at, l.putFile(at, path))
}

func (l *Local) putFile(at, path string) error {
	from, err := l.disk.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := from.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	dir := filepath.Dir(at)
	if err := l.folder(dir); err != nil {
		return err
	}
	err = l.disk.Link(path, at)
	if err == nil {
		return l.disk.SyncDir(dir)
	}
	if errors.Is(err, fs.ErrExist) {
		tmp, terr := l.temp()
		if terr != nil {
			return terr
		}
		if l.disk.Link(path, tmp) == nil {
			return l.place(tmp, at)
		}
	}
	// Another file system, or one without links.
	tmp, err := l.write(func(w io.Writer) error { _, err := io.Copy(w, from); return err })
	if err != nil {
		return err
	}
	return l.place(tmp, at)
}

// Get implements Store.
func (l *Local) Get(ctx context.Context, name string, offset, n int64) ([]byte, error) {
	at, err := l.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	data, err := l.get(at, offset, n)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, notFound(err))
	}
	return data, nil
}

func (l *Local) get(at string, offset, n int64) ([]byte, error) {
	info, err := l.disk.Stat(at)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fs.ErrNotExist
	}
	left := info.Size() - offset
	if offset < 0 || left < 0 || n > left {
		return nil, fmt.Errorf("it has %d bytes: %w", info.Size(), io.ErrUnexpectedEOF)
	}
	if n < 0 {
		n = left
	}
	f, err := l.disk.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, n)
	if got, err := f.ReadAt(data, offset); int64(got) < n {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return data, nil
}

// GetFile implements Store.
func (l *Local) GetFile(ctx context.Context, name, path string) error {
	at, err := l.begin(ctx, name)
	if err != nil {
		return err
	}
	if err := l.getFile(at, path); err != nil {
		return fmt.Errorf("read %s into %s: %w", at, path, err)
	}
	return nil
}

func (l *Local) getFile(at, path string) error {
	if info, err := l.disk.Stat(at); err != nil || info.IsDir() {
		if err == nil {
			err = fs.ErrNotExist
		}
		return notFound(err)
	}
	err := l.disk.Link(at, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	from, err := l.disk.Open(at)
	if err != nil {
		return notFound(err)
	}
	defer from.Close()
	to, err := l.disk.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		l.disk.Remove(path)
	}
	return err
}

// Open implements Store.
func (l *Local) Open(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	at, err := l.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	if info, err := l.disk.Stat(at); err != nil || info.IsDir() || offset < 0 || offset > info.Size() {
		switch {
		case err != nil:
			err = notFound(err)
		case info.IsDir():
			err = ErrNotFound
		default:
			err = fmt.Errorf("it has %d bytes: %w", info.Size(), io.ErrUnexpectedEOF)
		}
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	f, err := l.disk.Open(at)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, notFound(err))
	}
	return &section{io.NewSectionReader(f, offset, 1<<62), f}, nil
}

// section is the end of an open file.
type section struct {
	io.Reader
	io.Closer
}

// List implements Store.
func (l *Local) List(ctx context.Context, prefix string) ([]Info, error) {
	l.requests.Add(1)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := CheckPrefix(prefix); err != nil {
		return nil, err
	}
	var out []Info
	err := l.walk(prefix[:strings.LastIndexByte(prefix, '/')+1], prefix, &out)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", filepath.Join(l.root, filepath.FromSlash(prefix)), err)
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// walk collects the objects of a folder, dir, which is empty or ends with a slash.
func (l *Local) walk(dir, prefix string, out *[]Info) error {
	names, err := l.disk.List(filepath.Join(l.root, filepath.FromSlash(dir)))
	if err = notFound(err); errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range names {
		name := dir + n
		if !strings.HasPrefix(name, prefix) || name == tempFolder {
			continue
		}
		info, err := l.disk.Stat(filepath.Join(l.root, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile, or a link that leads nowhere
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			*out = append(*out, l.info(name, info))
		} else if err := l.walk(name+"/", prefix, out); err != nil {
			return err
		}
	}
	return nil
}

func (l *Local) info(name string, i fs.FileInfo) Info {
	return Info{Name: name, Size: i.Size(), Version: fmt.Sprintf("%x-%x", i.ModTime().UnixNano(), i.Size()),
		ModifiedMs: i.ModTime().UnixMilli()}
}

// Stat implements Store.
func (l *Local) Stat(ctx context.Context, name string) (Info, error) {
	at, err := l.begin(ctx, name)
	if err != nil {
		return Info{}, err
	}
	i, err := l.disk.Stat(at)
	if err == nil && i.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Info{}, fmt.Errorf("look at %s: %w", at, notFound(err))
	}
	return l.info(name, i), nil
}

// Delete implements Store.
func (l *Local) Delete(ctx context.Context, names ...string) error {
	var folders []string
	for _, name := range names {
		at, err := l.begin(ctx, name)
		if err != nil {
			return err
		}
		if err := l.disk.Remove(at); err != nil {
			if errors.Is(notFound(err), ErrNotFound) {
				continue
			}
			return fmt.Errorf("delete %s: %w", at, err)
		}
		if dir := filepath.Dir(at); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	for _, dir := range folders {
		if err := l.disk.SyncDir(dir); err != nil {
			return fmt.Errorf("delete in %s: %w", dir, err)
		}
	}
	return nil
}

// Lock implements Locker.
func (l *Local) Lock(ctx context.Context, name, note string) (io.Closer, error) {
	at, err := l.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := l.folder(filepath.Dir(at)); err != nil {
		return nil, fmt.Errorf("lock %s: %w", at, err)
	}
	c, err := l.disk.Lock(at, note)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", at, err)
	}
	return c, nil
}
