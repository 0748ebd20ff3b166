package job

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
)

// inlineSegment is the size up to which a sealed segment lies in its committable, and so in the
// manifest: small checkpoints are one object.
const inlineSegment = 256 << 10

// segments keeps the sealed output of exactly-once sinks until it was committed. A committable of a
// segment is
//
//	0 bytes        the segment itself
//	1 JSON         a sealedFile
type segments struct {
	o    CheckpointOptions
	dir  string
	mu   sync.Mutex
	run  string                     // tells the names of this process from those of earlier ones
	live map[string]checkpoint.File // sealed in files, not committed; guarded by mu
	next int
	size int64    // bytes sealed and not committed
	gone []string // committed, their files not removed yet

	// grew is told of every few megabytes written: much output calls for a checkpoint.
	grew    func(bytes int64)
	written atomic.Int64
}

// tellEvery is how many bytes lie between two calls of grew.
const tellEvery = 4 << 20

// wrote counts bytes of segments.
func (s *segments) wrote(n int) {
	if total := s.written.Add(int64(n)); total >= tellEvery && s.grew != nil && s.written.CompareAndSwap(total, 0) {
		s.grew(total)
	}
}

// sealedFile names a segment that lies in a file.
type sealedFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

func newSegments(o CheckpointOptions) *segments {
	s := &segments{o: o, dir: filepath.Join(o.WorkDir, "segments"), live: map[string]checkpoint.File{},
		run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	for _, m := range []*checkpoint.Manifest{o.From, o.Recover} {
		if m == nil {
			continue
		}
		for _, f := range m.Segments {
			s.live[f.Name] = f
		}
	}
	for _, f := range s.live {
		s.size += f.Size
	}
	return s
}

// files lists the segments that a manifest must name, and where those of this process lie.
func (s *segments) files(paths map[string]string) []checkpoint.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Nothing is being written now that could still want these.
	for _, name := range s.gone {
		_ = os.Remove(filepath.Join(s.dir, name)) // small ones have no file
	}
	s.gone = nil
	var out []checkpoint.File
	for name, f := range s.live {
		out = append(out, f)
		if p := filepath.Join(s.dir, name); fileExists(p) {
			paths[f.Object] = p
		}
	}
	return out
}

func fileExists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// committed forgets a segment whose output the target has.
func (s *segments) committed(cs []connector.Committable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range cs {
		f, ok := s.file(c)
		if !ok {
			continue
		}
		s.size -= f.Size
		delete(s.live, f.Name)
		s.gone = append(s.gone, f.Name)
	}
}

// file is what a committable says, false if it is none of a segment in a file.
func (s *segments) file(c connector.Committable) (f sealedFile, ok bool) {
	if len(c) < 1 || c[0] != 1 || json.Unmarshal(c[1:], &f) != nil {
		return f, false
	}
	_, ok = s.live[f.Name]
	return f, ok
}

// Create implements connector.Segments.
func (s *segments) Create() (connector.SegmentWriter, error) {
	s.mu.Lock()
	s.next++
	name := fmt.Sprintf("segment-%s-%d", s.run, s.next)
	s.mu.Unlock()
	return &segmentWriter{s: s, name: name, buf: []byte{0}}, nil
}

// Open implements connector.Segments.
func (s *segments) Open(ctx context.Context, c connector.Committable) (io.ReadCloser, error) {
	switch {
	case len(c) > 0 && c[0] == 0:
		return io.NopCloser(bytes.NewReader(c[1:])), nil
	case len(c) == 0 || c[0] != 1:
		return nil, errors.New("BUG: a committable that is no segment")
	}
	var sf sealedFile
	if err := json.Unmarshal(c[1:], &sf); err != nil {
		return nil, fmt.Errorf("BUG: committable of a segment: %w", err)
	}
	if f, err := os.Open(filepath.Join(s.dir, sf.Name)); err == nil {
		return f, nil
	}
	s.mu.Lock()
	f, ok := s.live[sf.Name]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("the checkpoint does not have sealed segment %s", sf.Name)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, sf.Name)
	if err := s.o.Repo.Fetch(ctx, f, path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// segmentWriter writes a segment, in memory first.
type segmentWriter struct {
	s    *segments
	name string
	buf  []byte // 0, then the bytes
	file *os.File
	w    *bufio.Writer
	sum  xxh3.Hasher
	size int64
}

// Write implements io.Writer.
func (w *segmentWriter) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	w.s.wrote(len(p))
	if w.file == nil {
		if w.buf = append(w.buf, p...); len(w.buf) <= inlineSegment {
			return len(p), nil
		}
		if err := os.MkdirAll(w.s.dir, 0o755); err != nil {
			return 0, err
		}
		f, err := os.Create(filepath.Join(w.s.dir, w.name))
		if err != nil {
			return 0, err
		}
		w.file, w.w = f, bufio.NewWriterSize(f, 1<<18)
		p, w.buf = w.buf[1:], nil
		w.sum.Write(p)
		_, err = w.w.Write(p)
		return len(p), err
	}
	w.sum.Write(p)
	return w.w.Write(p)
}

// Size implements connector.SegmentWriter.
func (w *segmentWriter) Size() int64 { return w.size }

// Seal implements connector.SegmentWriter.
func (w *segmentWriter) Seal() (connector.Committable, error) {
	if w.file == nil {
		return w.buf, nil
	}
	if err := errors.Join(w.w.Flush(), w.file.Sync(), w.file.Close()); err != nil {
		return nil, err
	}
	f := sealedFile{w.name, w.size, fmt.Sprintf("%016x", w.sum.Sum64())}
	w.s.mu.Lock()
	w.s.live[f.Name] = checkpoint.File{Name: f.Name, Object: f.Name, Size: f.Size, Sum: f.Sum, Of: "sealed output"}
	w.s.size += f.Size
	w.s.mu.Unlock()
	b, err := json.Marshal(f)
	return append([]byte{1}, b...), err
}

// Discard implements connector.SegmentWriter.
func (w *segmentWriter) Discard() error {
	w.buf = nil
	if w.file == nil {
		return nil
	}
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
}

var _ connector.Segments = (*segments)(nil)
