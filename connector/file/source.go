package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// chunkBytes is how much is read at a time: large enough to make system calls rare, small
	// enough that what was read is still in the cache when it is decoded.
	chunkBytes = 256 << 10
	// maxRecord bounds one record, so that a file without newlines cannot take all memory.
	maxRecord = 256 << 20
)

type source struct {
	cfg     connector.SourceConfig
	path    string
	pattern *regexp.Regexp
	watch   time.Duration
}

func newSource(c connector.SourceConfig) (connector.Source, error) {
	s := &source{cfg: c, path: c.Resolve(localPath(c.Options.Get("path"))), watch: c.Options.Duration("source.monitor-interval")}
	if p := c.Options.Get("source.path.regex-pattern"); p != "" {
		re, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			return nil, err
		}
		s.pattern = re
	}
	return s, nil
}

func (s *source) Bounded() bool { return s.watch <= 0 }

func (s *source) Guarantee() string {
	return "files are read again from a position: every record is there exactly once as long as files are only added"
}

func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return &enumerator{s: s, known: map[string]bool{}}, nil
}

func (s *source) NewReader(context.Context, int) (connector.Reader, error) { return &reader{s}, nil }

// enumerator lists files. A file is a split; it is expected not to change once it is seen.
type enumerator struct {
	s     *source
	known map[string]bool
	last  time.Time
}

// Discover implements connector.Enumerator.
func (e *enumerator) Discover(context.Context) ([]connector.Split, bool, error) {
	bounded := e.s.Bounded()
	if !bounded && !e.last.IsZero() && time.Since(e.last) < e.s.watch {
		return nil, false, nil
	}
	e.last = time.Now()
	files, err := e.s.list()
	if err != nil {
		return nil, false, err
	}
	var out []connector.Split
	for _, f := range files {
		if !e.known[f] {
			e.known[f] = true
			out = append(out, connector.Split{ID: f})
		}
	}
	return out, bounded, nil
}

func (e *enumerator) Known(ids []string) {
	for _, id := range ids {
		e.known[id] = true
	}
}

func (e *enumerator) Close() error { return nil }

// list returns the files of the source, sorted. Names that start with a dot or an underscore are
// not data.
func (s *source) list() ([]string, error) {
	roots := []string{s.path}
	if strings.ContainsAny(s.path, "*?[") {
		if _, err := os.Stat(s.path); err != nil {
			if roots, err = filepath.Glob(s.path); err != nil {
				return nil, fmt.Errorf("pattern %s: %w", s.path, err)
			}
		}
	}
	var out []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case p != root && (d.Name()[0] == '.' || d.Name()[0] == '_'):
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			case d.IsDir() || s.pattern != nil && !s.pattern.MatchString(p):
				return nil
			case d.Type()&fs.ModeSymlink != 0:
				// A link to a file is that file; links to folders are not followed: they may
				// lead back.
				if info, err := os.Stat(p); err != nil || info.IsDir() {
					return err
				}
			}
			out = append(out, p)
			return nil
		})
		if err != nil && (s.Bounded() || !os.IsNotExist(err)) {
			if os.IsNotExist(err) {
				return nil, fmt.Errorf("%s does not exist; relative paths start at the working directory", root)
			}
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

type reader struct{ s *source }

func (r *reader) Wake() <-chan struct{} { return nil }

func (r *reader) Commit(context.Context, map[string]connector.Position) error { return nil }

func (r *reader) Close() error { return nil }

// Open implements connector.Reader.
func (r *reader) Open(_ context.Context, s connector.Split) (connector.SplitReader, error) {
	f, err := os.Open(s.ID)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	sr := &splitReader{f: f, r: f, path: s.ID, size: info.Size(), cfg: &r.s.cfg, info: info, cut: lines,
		origin: &vec.Origin{Source: r.s.cfg.Table.Name, Split: s.ID, Unit: "byte"}}
	if err := sr.decompress(); err != nil {
		f.Close()
		return nil, err
	}
	if err := sr.seek(s.Position.Offset); err != nil {
		sr.Close()
		return nil, err
	}
	sr.partitions()
	return sr, nil
}

// splitReader reads one file in chunks that end with a whole record. Positions count bytes, of
// the decompressed content where the file is compressed.
type splitReader struct {
	f      *os.File
	r      io.Reader
	closer func()
	path   string
	size   int64 // -1: unknown (compressed)
	cfg    *connector.SourceConfig
	info   os.FileInfo
	origin *vec.Origin
	buf    []byte
	have   int   // bytes of buf filled
	used   int   // bytes of buf handed out
	at     int64 // position of buf[0]
	eof    bool
	consts map[string]string
	cut    func([]byte) int
}

func (s *splitReader) decompress() error {
	switch name := strings.ToLower(s.path); {
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(s.f)
		if err == io.EOF {
			s.eof = true // an empty file
			return nil
		}
		if err != nil {
			return fmt.Errorf("not a gzip file: %w", err)
		}
		s.r, s.closer, s.size = z, func() { z.Close() }, -1
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewReader(s.f, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return fmt.Errorf("not a zstd file: %w", err)
		}
		s.r, s.closer, s.size = z, z.Close, -1
	}
	return nil
}

func (s *splitReader) seek(offset int64) error {
	s.at = offset
	if offset == 0 {
		return nil
	}
	if s.size >= 0 {
		_, err := s.f.Seek(offset, io.SeekStart)
		return err
	}
	if _, err := io.CopyN(io.Discard, s.r, offset); err != nil {
		return fmt.Errorf("skip to byte %d: %w", offset, err)
	}
	return nil
}

// partitions reads the values of partition columns from the path: .../key=value/...
func (s *splitReader) partitions() {
	for _, k := range s.cfg.Table.PartitionKeys {
		for _, part := range strings.Split(filepath.ToSlash(s.path), "/") {
			if v, ok := strings.CutPrefix(part, k+"="); ok {
				if s.consts == nil {
					s.consts = map[string]string{}
				}
				s.consts[k] = unescapePart(v)
			}
		}
	}
}

// Constants returns the values, as text, of columns that are the same for every record; a
// missing one is NULL. The partition that stands for NULL is left out.
func (s *splitReader) Constants() map[string]string {
	out := map[string]string{}
	for k, v := range s.consts {
		if v != s.cfg.Options.Get("partition.default-name") {
			out[k] = v
		}
	}
	return out
}

// Read implements connector.ChunkReader.
func (s *splitReader) Read(_ context.Context, r *connector.Records) error {
	if s.buf == nil {
		n := int64(chunkBytes)
		if s.size >= 0 { // a small file needs no more than itself, and room to see its end
			n = min(n, s.size-s.at+1)
		}
		s.buf = make([]byte, max(n, 512))
	}
	rest := copy(s.buf, s.buf[s.used:s.have])
	s.at += int64(s.used)
	s.have, s.used = rest, 0
	for {
		if s.eof {
			if s.have == 0 {
				return io.EOF
			}
			return s.give(r, s.have)
		}
		if s.have == len(s.buf) {
			if len(s.buf) >= maxRecord {
				return fmt.Errorf("the record at byte %d is longer than %d MiB", s.at, maxRecord>>20)
			}
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		n, err := s.r.Read(s.buf[s.have:])
		s.have += n
		if err == io.EOF {
			s.eof = true
			continue
		}
		if err != nil {
			return fmt.Errorf("at byte %d: %w", s.at+int64(s.have), err)
		}
		if s.size < 0 && s.have <= len(s.buf)/2 {
			continue // decompressors give little at a time
		}
		if end := s.cut(s.buf[:s.have]); end > 0 {
			return s.give(r, end)
		}
	}
}

// CutBy makes chunks end where cut says: it returns the length of the longest prefix of data that
// consists of whole records.
func (s *splitReader) CutBy(cut func(data []byte) int) { s.cut = cut }

// lines is the length of the longest prefix of data that ends with a newline.
func lines(data []byte) int { return bytes.LastIndexByte(data, '\n') + 1 }

func (s *splitReader) give(r *connector.Records, n int) error {
	s.used = n
	r.Chunk = format.Chunk{Data: s.buf[:n:n], Base: s.at, Origin: s.origin}
	return s.metadata(r)
}

// metadata fills the wanted metadata columns with one value: all records of a file share it.
func (s *splitReader) metadata(r *connector.Records) error {
	r.Metadata = r.Metadata[:0]
	for _, m := range s.cfg.Metadata {
		md := s.cfg.Table.Metadata[m]
		v := vec.New(md.Type, 1)
		key := md.Key
		if key == "" {
			key = md.Name
		}
		switch key {
		case "file.path":
			v.SetString(0, s.path)
		case "file.name":
			v.SetString(0, filepath.Base(s.path))
		case "file.size":
			v.SetValue(0, s.info.Size())
		case "file.modification-time":
			v.SetValue(0, types.TS(s.info.ModTime().UnixMilli(), 0))
		}
		r.Metadata = append(r.Metadata, v)
	}
	return nil
}

// Position implements connector.SplitReader.
func (s *splitReader) Position() connector.Position {
	return connector.Position{Offset: s.at + int64(s.used), Set: true}
}

// Lag implements connector.SplitReader.
func (s *splitReader) Lag() int64 {
	if s.size < 0 {
		return -1
	}
	return max(0, s.size-s.at-int64(s.used))
}

// Close implements connector.SplitReader.
func (s *splitReader) Close() error {
	if s.closer != nil {
		s.closer()
		s.closer = nil
	}
	if err := s.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
