package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/object/s3"
)

// The library finds the place of a table's files by the scheme of their names. Both kinds that are
// registered here keep what a checkpoint counts on: a file whose Close returned nil survives a crash of
// the machine. S3 goes through the store that checkpoints use, so that there is one client in the binary.
func init() {
	for _, scheme := range []string{"", "file"} {
		iceio.Unregister(scheme)
		iceio.Register(scheme, func(context.Context, *url.URL, map[string]string) (iceio.IO, error) { return localIO{}, nil })
	}
	for _, scheme := range []string{"s3", "s3a", "s3n"} {
		iceio.Register(scheme, func(ctx context.Context, _ *url.URL, props map[string]string) (iceio.IO, error) {
			return newBucketIO(ctx, props)
		})
	}
}

// discarder is implemented by files that can be ended without a trace.
type discarder interface{ discard() error }

// localIO is the local disk, with files and their names synced.
type localIO struct{ iceio.LocalFS }

type localFile struct {
	*os.File
	closed bool
}

// plain strips the scheme of a local name.
func plain(name string) string {
	rest, ok := strings.CutPrefix(name, "file:")
	if !ok {
		return name
	}
	if u, err := url.Parse(name); err == nil && u.Path != "" {
		return filepath.FromSlash(u.Path)
	}
	return rest
}

// Create implements iceio.WriteFileIO.
func (localIO) Create(name string) (iceio.FileWriter, error) {
	file := plain(name)
	if err := object.MakeFolder(filepath.Dir(file)); err != nil {
		return nil, err
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	return &localFile{File: f}, nil
}

// WriteFile implements iceio.WriteFileIO.
func (l localIO) WriteFile(name string, content []byte) error {
	f, err := l.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.(discarder).discard())
	}
	return f.Close()
}

// Close syncs the file and its name.
func (f *localFile) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	err := f.Sync()
	if e := f.File.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = object.OS{}.SyncDir(filepath.Dir(f.Name()))
	}
	return err
}

func (f *localFile) discard() error {
	if !f.closed {
		f.closed = true
		f.File.Close()
	}
	return gone(os.Remove(f.Name()))
}

// gone takes a file that does not exist for one that was removed.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrNotFound) {
		return nil
	}
	return err
}

// bucketIO is S3. Names are whole: s3://bucket/key.
type bucketIO struct {
	ctx    context.Context // ends never: the client has its own time limits
	config s3.Config

	mu     sync.Mutex
	stores map[string]*s3.Store // by bucket; guarded by mu
}

// The properties of S3 as Iceberg names them.
const (
	propEndpoint  = "s3.endpoint"
	propAccess    = "s3.access-key-id"
	propSecret    = "s3.secret-access-key"
	propToken     = "s3.session-token"
	propRegion    = "s3.region"
	propPathStyle = "s3.path-style-access"
)

func newBucketIO(ctx context.Context, props map[string]string) (*bucketIO, error) {
	c := s3.Config{Endpoint: props[propEndpoint], Access: props[propAccess], Secret: props[propSecret], Token: props[propToken]}
	for _, k := range []string{propRegion, "client.region"} {
		if c.Region == "" {
			c.Region = props[k]
		}
	}
	style, given := props[propPathStyle]
	c.PathStyle = strings.EqualFold(style, "true") || !given && c.Endpoint != ""
	return &bucketIO{ctx: context.WithoutCancel(ctx), config: c, stores: map[string]*s3.Store{}}, nil
}

// at finds the store and the key of a name.
func (b *bucketIO) at(name string) (*s3.Store, string, error) {
	_, rest, _ := strings.Cut(name, "://")
	bucket, key, _ := strings.Cut(rest, "/")
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.stores[bucket]; s != nil {
		return s, key, nil
	}
	c := b.config
	c.Bucket = bucket
	s, err := s3.New(b.ctx, c)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	b.stores[bucket] = s
	return s, key, nil
}

// ReadFile implements iceio.ReadFileIO.
func (b *bucketIO) ReadFile(name string) ([]byte, error) {
	s, key, err := b.at(name)
	if err != nil {
		return nil, err
	}
	data, err := s.Get(b.ctx, key, 0, -1)
	if errors.Is(err, object.ErrNotFound) {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return data, err
}

// Open implements iceio.IO. Only metadata is read, so files are small and read whole.
func (b *bucketIO) Open(name string) (iceio.File, error) {
	data, err := b.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &memFile{Reader: bytes.NewReader(data), name: path.Base(name), size: int64(len(data))}, nil
}

// Remove implements iceio.IO.
func (b *bucketIO) Remove(name string) error {
	s, key, err := b.at(name)
	if err != nil {
		return err
	}
	return s.Delete(b.ctx, key)
}

// WriteFile implements iceio.WriteFileIO.
func (b *bucketIO) WriteFile(name string, content []byte) error {
	s, key, err := b.at(name)
	if err != nil {
		return err
	}
	return s.Put(b.ctx, key, content)
}

// Create implements iceio.WriteFileIO. The object appears with Close.
func (b *bucketIO) Create(name string) (iceio.FileWriter, error) {
	s, key, err := b.at(name)
	if err != nil {
		return nil, err
	}
	return &upload{b: b, store: s, key: key}, nil
}

// memFile is a file in memory.
type memFile struct {
	*bytes.Reader
	name string
	size int64
}

// Close implements io.Closer.
func (m *memFile) Close() error { return nil }

// Stat implements fs.File.
func (m *memFile) Stat() (fs.FileInfo, error) { return memInfo{m.name, m.size}, nil }

type memInfo struct {
	name string
	size int64
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return 0o444 }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return false }
func (i memInfo) Sys() any           { return nil }

// spillBytes is the size at which a file on its way to a bucket moves from memory to the disk.
const spillBytes = 4 << 20

// upload is an object being written: in memory while it is small, then in a temporary file.
type upload struct {
	b     *bucketIO
	store *s3.Store
	key   string
	buf   []byte
	file  *os.File
	ended bool
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	if u.file == nil && len(u.buf)+len(p) > spillBytes {
		f, err := os.CreateTemp("", "tidemark-iceberg-*")
		if err != nil {
			return 0, err
		}
		u.file = f
		if _, err := f.Write(u.buf); err != nil {
			return 0, err
		}
		u.buf = nil
	}
	if u.file != nil {
		return u.file.Write(p)
	}
	u.buf = append(u.buf, p...)
	return len(p), nil
}

// ReadFrom implements io.ReaderFrom.
func (u *upload) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{u}, r)
}

// Close implements io.Closer: it sends the object.
func (u *upload) Close() error {
	if u.ended {
		return nil
	}
	u.ended = true
	if u.file == nil {
		return u.store.Put(u.b.ctx, u.key, u.buf)
	}
	err := u.file.Close()
	if err == nil {
		err = u.store.PutFile(u.b.ctx, u.key, u.file.Name())
	}
	return errors.Join(err, os.Remove(u.file.Name()))
}

func (u *upload) discard() error {
	if u.ended {
		return gone(u.store.Delete(u.b.ctx, u.key))
	}
	u.ended = true
	if u.file == nil {
		return nil
	}
	u.file.Close()
	return os.Remove(u.file.Name())
}
