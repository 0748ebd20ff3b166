package file

import (
	"bytes"
	"cmp"
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/object"
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

// separators end folders in paths, of the system and of object stores.
const separators = "/" + string(filepath.Separator)

type source struct {
	cfg     connector.SourceConfig
	path    string
	pattern *regexp.Regexp
	watch   time.Duration
	objects *objects     // nil: the path is on the local disk
	ended   atomic.Int64 // local files read to their end since takeEnded
}

// takeEnded returns how many local files were read to their end since the last call.
func (s *source) takeEnded() int { return int(s.ended.Swap(0)) }

func newSource(c connector.SourceConfig) (connector.Source, error) {
	s := &source{cfg: c, path: c.Options.Get("path"), watch: c.Options.Duration("source.monitor-interval")}
	if p := c.Options.Get("source.path.regex-pattern"); p != "" {
		re, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			return nil, err
		}
		s.pattern = re
	}
	if isObjects(s.path) {
		var err error
		s.objects, err = newObjects(s, c)
		return s, err
	}
	s.path = c.Resolve(localPath(s.path))
	return s, nil
}

func (s *source) Bounded() bool { return s.watch <= 0 }

func (s *source) Guarantee() string {
	if s.objects != nil {
		return "objects are read again from a position: every record of each version of an object is there exactly once as long as it stays until it was read"
	}
	return "files are read again from a position: every record is there exactly once as long as files are only added"
}

func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	if s.objects != nil {
		return newObjectEnumerator(s.objects, s.watch), nil
	}
	return &enumerator{s: s, known: map[uint64]bool{}}, nil
}

func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	return &reader{s: s, counts: true}, nil
}

// enumerator lists files. A file is a split; it is expected not to change once it is seen. Those that are
// gone are remembered too: a folder may be away for a while.
type enumerator struct {
	s    *source
	last time.Time

	mu     sync.Mutex      // Remember may be called during Discover
	known  map[uint64]bool // by seenKey; true: read to its end
	ended  seenSet         // those
	queue  []waitingFile   // of a watched folder, found and waiting
	unread int             // handed out and not read to their end
}

// waitingFile is a file that is to be read.
type waitingFile struct {
	name    string
	written time.Time // where it had to be asked for
	asked   bool
}

// Discover implements connector.Enumerator.
func (e *enumerator) Discover(context.Context) ([]connector.Split, bool, error) {
	bounded := e.s.Bounded()
	if bounded || e.last.IsZero() || time.Since(e.last) >= e.s.watch {
		e.last = time.Now()
		files, err := e.s.list()
		if err != nil {
			return nil, false, err
		}
		e.found(files)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.queue)
	if !bounded {
		e.unread = max(0, e.unread-e.s.takeEnded())
		n = min(n, max(0, maxUnread-e.unread))
	}
	var out []connector.Split
	for _, f := range e.queue[:n] {
		out = append(out, connector.Split{ID: f.name})
	}
	e.queue, e.unread = e.queue[n:], e.unread+n
	return out, bounded, nil
}

// found queues those of the files that are not known, the oldest first where they will have to wait.
func (e *enumerator) found(files []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.queue)
	for _, f := range files {
		k := seenKey(f)
		if _, ok := e.known[k]; !ok {
			e.known[k] = false
			e.queue = append(e.queue, waitingFile{name: f})
		}
	}
	if e.s.Bounded() || len(e.queue) <= maxUnread || len(e.queue) == before {
		return
	}
	for i := range e.queue {
		f := &e.queue[i]
		if f.asked {
			continue
		}
		f.asked = true
		if info, err := os.Stat(f.name); err == nil { // else opening it will say what is wrong
			f.written = info.ModTime()
		}
	}
	slices.SortFunc(e.queue, func(a, b waitingFile) int {
		return cmp.Or(a.written.Compare(b.written), strings.Compare(a.name, b.name))
	})
}

// Known implements connector.Enumerator: none of these was read to its end.
func (e *enumerator) Known(ids []string) {
	for _, id := range ids {
		e.known[seenKey(id)] = false
	}
	e.unread += len(ids)
}

// Remember implements connector.Rememberer.
func (e *enumerator) Remember(ended []string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ended {
		k := seenKey(id)
		e.known[k] = true
		e.ended.add(k)
	}
	return e.ended.encode(), nil
}

// Recall implements connector.Rememberer.
func (e *enumerator) Recall(memory []byte) error {
	keys, err := decodeSeen(memory)
	for _, k := range keys {
		e.known[k] = true
	}
	e.ended.add(keys...)
	return err
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

type reader struct {
	s      *source
	counts bool // files that it reads to their end count as read
}

func (r *reader) Wake() <-chan struct{} { return nil }

func (r *reader) Commit(context.Context, map[string]connector.Position) error { return nil }

func (r *reader) Close() error {
	if r.s.objects != nil {
		object.Release(r.s.objects.store)
	}
	return nil
}

// Open implements connector.Reader.
func (r *reader) Open(ctx context.Context, sp connector.Split) (connector.SplitReader, error) {
	open := openFile
	if r.s.objects != nil {
		open = r.s.objects.open
	}
	s, err := open(ctx, sp)
	if err != nil {
		return nil, err
	}
	if r.counts && r.s.objects == nil {
		s.ended = func() { r.s.ended.Add(1) }
	}
	s.cfg, s.cut, s.begun = &r.s.cfg, lines, sp.Position.Offset > 0
	s.origin = &vec.Origin{Source: r.s.cfg.Table.Name, Split: sp.ID, Unit: "byte"}
	if err := s.decompress(sp.Position.Offset); err != nil {
		s.Close()
		return nil, err
	}
	s.partitions()
	return s, nil
}

// openFile opens a local file at the position of a split, or at its beginning if it is compressed.
func openFile(_ context.Context, sp connector.Split) (*splitReader, error) {
	f, err := os.Open(sp.ID)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	s := &splitReader{path: sp.ID, in: f}
	if err == nil {
		s.size, s.about = info.Size(), about{info.Size(), info.ModTime().UnixMilli()}
		if !compressed(sp.ID) {
			s.at, err = f.Seek(sp.Position.Offset, io.SeekStart)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// about is what metadata columns tell of a file.
type about struct{ size, modifiedMs int64 }

// splitReader reads one file in chunks that end with a whole record. Positions count bytes, of
// the decompressed content where the file is compressed.
type splitReader struct {
	in     io.ReadCloser // the file
	r      io.Reader     // its content
	stream *stream       // in, where that is an object
	closer func()
	path   string
	size   int64     // -1: unknown (compressed)
	packed *counting // in, where it is compressed
	cfg    *connector.SourceConfig
	about  about
	origin *vec.Origin
	buf    []byte
	have   int   // bytes of buf filled
	used   int   // bytes of buf handed out
	at     int64 // position of buf[0]
	eof    bool
	begun  bool // records were read, in this run or an earlier one
	consts map[string]string
	cut    func([]byte) int
	lost   func(err error, begun bool) error // what becomes of a failure; nil: it is one
	ended  func()                            // is told once of the end; may be nil
}

// compressed reports whether the name of a file says that it is.
func compressed(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
}

// decompress begins with the content, at a position.
func (s *splitReader) decompress(offset int64) error {
	s.r = s.in
	if !compressed(s.path) {
		return nil
	}
	s.size, s.at, s.packed = -1, offset, &counting{r: s.in}
	if strings.HasSuffix(strings.ToLower(s.path), ".zst") {
		z, err := zstd.NewReader(s.packed, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return fmt.Errorf("not a zstd file: %w", err)
		}
		s.r, s.closer = z, z.Close
	} else {
		z, err := gzip.NewReader(s.packed)
		switch {
		case err == io.EOF:
			s.eof = true // an empty file
			return nil
		case s.isLost(err):
			return s.failed(err)
		case err != nil:
			return fmt.Errorf("not a gzip file: %w", err)
		}
		s.r, s.closer = z, func() { z.Close() }
	}
	if offset == 0 {
		return nil
	}
	if _, err := io.CopyN(io.Discard, s.r, offset); err != nil {
		if s.isLost(err) {
			return s.failed(err)
		}
		return fmt.Errorf("skip to byte %d: %w", offset, err)
	}
	return nil
}

// isLost reports whether an error is of reading the object, and not of what it contains.
func (s *splitReader) isLost(err error) bool {
	return err != nil && s.stream != nil && s.stream.err != nil && errors.Is(err, s.stream.err)
}

// failed handles a failure to read the file: nil says that it is to be taken for the end, without the
// record that was not read to its end.
func (s *splitReader) failed(err error) error {
	if s.lost == nil {
		return err
	}
	if err = s.lost(err, s.begun); err != io.EOF {
		return err
	}
	s.eof = true
	s.have = s.cut(s.buf[:s.have])
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
func (s *splitReader) Read(ctx context.Context, r *connector.Records) error {
	if s.stream != nil {
		s.stream.call = ctx
	}
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
				if s.ended != nil {
					s.ended()
					s.ended = nil
				}
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
		if s.isLost(err) {
			if err := s.failed(err); err != nil {
				return err
			}
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
	s.used, s.begun = n, true
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
			v.SetString(0, s.path[strings.LastIndexAny(s.path, separators)+1:])
		case "file.size":
			v.SetValue(0, s.about.size)
		case "file.modification-time":
			v.SetValue(0, types.TS(s.about.modifiedMs, 0))
		}
		r.Metadata = append(r.Metadata, v)
	}
	return nil
}

// Position implements connector.SplitReader.
func (s *splitReader) Position() connector.Position {
	return connector.Position{Offset: s.at + int64(s.used), Set: true}
}

// Close implements connector.SplitReader.
func (s *splitReader) Close() error {
	if s.closer != nil {
		s.closer()
		s.closer = nil
	}
	if err := s.in.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
