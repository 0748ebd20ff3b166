package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
)

// File is one file of a cut.
type File struct {
	// Name is what the file must be called in the folder that a store is opened from.
	Name string
	// Object is a name that no other content has, ever.
	Object string
	// Path is where the file lies, until the cut is released.
	Path string
	Size int64
	// Sum is the XXH3 of the content, 16 hexadecimal digits.
	Sum string
}

// Cut is the content of a store at one moment.
type Cut struct {
	Files []File
	// NewBytes is the size of the files that the cut before did not have, New their number.
	NewBytes int64
	New      int
	// Frozen is how long Apply had to wait.
	Frozen time.Duration

	dir string
}

const (
	headName    = "HEAD"
	headMagic   = "TMLSM"
	headVersion = 1
	tableSuffix = ".sst"
)

// Cut returns the files that hold everything applied so far. Apply waits while the content is
// frozen: as long as what is in memory takes to be written.
func (s *Store) Cut(ctx context.Context) (*Cut, error) {
	if err := s.broken(); err != nil {
		return nil, err
	}
	s.cutting.Lock()
	defer s.cutting.Unlock()
	s.write.Lock()
	s.cuts++
	n := s.cuts
	c := &Cut{dir: s.cutDir(n)}
	start := time.Now()
	err := s.freeze(ctx, c.dir)
	c.Frozen = time.Since(start)
	s.write.Unlock()
	if err == nil {
		err = s.list(ctx, c, n)
	}
	if err != nil {
		_ = os.RemoveAll(c.dir)
		return nil, s.wrap(err)
	}
	return c, nil
}

func (s *Store) freeze(ctx context.Context, dir string) error {
	done, err := s.db.AsyncFlush()
	if err != nil {
		return err
	}
	for flushed := false; !flushed; {
		failing := s.failing()
		if err := s.cause(); err != nil {
			return err
		}
		select {
		case <-done:
			flushed = true
		case <-failing:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.try(func() error { return s.db.Checkpoint(dir) })
}

// list names the files of cut n and packs the small ones.
func (s *Store) list(ctx context.Context, c *Cut, n int) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var small []string
	known := map[string]File{}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := e.Name()
		if !strings.HasSuffix(name, tableSuffix) {
			small = append(small, name)
			continue
		}
		f, ok := s.known[name]
		if !ok {
			f = File{Name: name, Object: s.id + "-" + name}
			if f.Size, f.Sum, err = sum(filepath.Join(c.dir, name)); err != nil {
				return err
			}
			c.New++
			c.NewBytes += f.Size
		}
		f.Path = filepath.Join(c.dir, name)
		known[name] = f
		c.Files = append(c.Files, f)
	}
	head, err := s.pack(c.dir, small, n)
	if err != nil {
		return err
	}
	s.known = known
	c.New++
	c.NewBytes += head.Size
	c.Files = append(c.Files, head)
	return nil
}

// pack writes HEAD in place of the files it holds.
func (s *Store) pack(dir string, names []string, n int) (File, error) {
	le := binary.LittleEndian
	b := append([]byte(headMagic), headVersion)
	slices.Sort(names)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return File{}, err
		}
		b = le.AppendUint32(le.AppendUint16(b, uint16(len(name))), uint32(len(content)))
		b = append(append(b, name...), content...)
	}
	b = le.AppendUint64(b, xxh3.Hash(b))
	f := File{
		Name: headName, Object: fmt.Sprintf("%s-%d-%s", s.id, n, headName), Path: filepath.Join(dir, headName),
		Size: int64(len(b)), Sum: fmt.Sprintf("%016x", xxh3.Hash(b)),
	}
	if err := os.WriteFile(f.Path, b, 0o644); err != nil {
		return File{}, err
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return File{}, err
		}
	}
	return f, nil
}

// unpack writes the files that HEAD in dir holds and removes it.
func unpack(dir string) error {
	path := filepath.Join(dir, headName)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files, err := parseHead(b)
	if err != nil {
		return fmt.Errorf("%s: %w", headName, err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

type headFile struct {
	name    string
	content []byte
}

func parseHead(b []byte) ([]headFile, error) {
	le := binary.LittleEndian
	fixed := len(headMagic) + 1
	if len(b) < fixed+8 || string(b[:len(headMagic)]) != headMagic {
		return nil, fmt.Errorf("it does not begin as such files do")
	}
	if v := b[len(headMagic)]; v != headVersion {
		return nil, fmt.Errorf("it has version %d, this program reads version %d: use a newer program", v, headVersion)
	}
	end := len(b) - 8
	if le.Uint64(b[end:]) != xxh3.Hash(b[:end]) {
		return nil, fmt.Errorf("its checksum is wrong")
	}
	var files []headFile
	for b = b[fixed:end]; len(b) > 0; {
		if len(b) < 6 {
			return nil, fmt.Errorf("it is cut off")
		}
		n, size := uint64(le.Uint16(b)), uint64(le.Uint32(b[2:]))
		b = b[6:]
		if n+size > uint64(len(b)) {
			return nil, fmt.Errorf("it is cut off")
		}
		name := string(b[:n])
		if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
			return nil, fmt.Errorf("it names a file %q", name)
		}
		files = append(files, headFile{name, b[n : n+size]})
		b = b[n+size:]
	}
	return files, nil
}

func sum(path string) (size int64, digits string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := xxh3.New()
	size, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 1<<17))
	return size, fmt.Sprintf("%016x", h.Sum64()), err
}

// Release removes the files of a cut that were not moved away.
func (c *Cut) Release() error { return os.RemoveAll(c.dir) }

// OpenFiles opens a store in the folder dir, in which the files of a cut have been placed under
// their names (File.Name; Path does not count), whose sums the caller has checked. They are the
// store's from now on; as it never changes a table, hard links will do for these.
func OpenFiles(dir string, files []File, o Options) (*Store, error) {
	if len(files) == 0 {
		return nil, fmt.Errorf("state store %s: a cut has at least the file %s", dir, headName)
	}
	for _, f := range files {
		st, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil {
			return nil, fmt.Errorf("state store: %w", err)
		}
		if st.Size() != f.Size {
			return nil, &DamageError{Dir: dir,
				Err: fmt.Errorf("file %s (%s) has %d bytes, it should have %d", f.Name, f.Object, st.Size(), f.Size)}
		}
	}
	if err := unpack(dir); err != nil {
		return nil, &DamageError{Dir: dir, Err: err}
	}
	return open(dir, files, o)
}
