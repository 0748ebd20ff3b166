package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
)

// maxFetching is how many files a fetcher keeps open.
const maxFetching = 8

// NewFetcher implements connector.Refetcher.
func (s *source) NewFetcher(context.Context) (connector.RecordFetcher, error) {
	return &fetcher{r: &reader{s: s}}, nil
}

// fetcher reads single records of files. It keeps the chunk that it read last of each file, so that
// records which lie close together cost one read, and of compressed files the decompressor, so that
// ascending positions decompress each byte once.
type fetcher struct {
	r     connector.Reader
	cut   func([]byte) int
	files []*fetching // the one used last comes last
}

// fetching is one file.
type fetching struct {
	path string
	// seeks says that reading can begin anywhere.
	seeks bool
	rd    connector.ChunkReader
	recs  connector.Records
}

// CutBy sets what finds the end of records, as for a split reader.
func (f *fetcher) CutBy(cut func([]byte) int) { f.cut = cut }

// Fetch implements connector.RecordFetcher.
func (f *fetcher) Fetch(ctx context.Context, split string, pos int64) ([]byte, error) {
	x := f.file(split)
	for !x.holds(pos) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := f.read(ctx, x, pos); err != nil {
			if x.close(); err == io.EOF {
				err = fmt.Errorf("the file ends before byte %d: it has changed", pos)
			}
			return nil, err
		}
	}
	return f.record(x, pos)
}

// file returns the file called path, the oldest of the others being closed where there are many.
func (f *fetcher) file(path string) *fetching {
	at := slices.IndexFunc(f.files, func(x *fetching) bool { return x.path == path })
	if at < 0 {
		if len(f.files) == maxFetching {
			f.files[0].close()
			f.files = slices.Delete(f.files, 0, 1)
		}
		f.files = append(f.files, &fetching{path: path})
		return f.files[len(f.files)-1]
	}
	x := f.files[at]
	f.files = append(slices.Delete(f.files, at, at+1), x)
	return x
}

// holds reports whether pos lies in the chunk read last.
func (x *fetching) holds(pos int64) bool {
	c := &x.recs.Chunk
	if x.rd == nil {
		return false
	}
	if c.Bounds != nil {
		_, ok := slices.BinarySearch(c.Positions, pos)
		return ok
	}
	return pos >= c.Base && pos < c.Base+int64(len(c.Data))
}

// end is the position behind the chunk read last.
func (x *fetching) end() int64 { return x.rd.Position().Offset }

// read reads the next chunk on the way to pos.
func (f *fetcher) read(ctx context.Context, x *fetching, pos int64) error {
	switch {
	case x.rd == nil:
		if err := f.open(ctx, x, 0); err != nil {
			return err
		}
		r, ok := x.rd.(*splitReader)
		if x.seeks = ok && r.size >= 0; x.seeks && pos > 0 {
			return f.readAt(ctx, x, pos)
		}
	case x.seeks:
		return f.readAt(ctx, x, pos)
	case pos < x.end(): // what was decompressed is gone
		if err := f.open(ctx, x, 0); err != nil {
			return err
		}
	}
	return x.rd.Read(ctx, &x.recs)
}

func (f *fetcher) readAt(ctx context.Context, x *fetching, pos int64) error {
	if err := f.open(ctx, x, pos); err != nil {
		return err
	}
	return x.rd.Read(ctx, &x.recs)
}

// open begins to read at pos.
func (f *fetcher) open(ctx context.Context, x *fetching, pos int64) error {
	if err := x.close(); err != nil {
		return err
	}
	rd, err := f.r.Open(ctx, connector.Split{ID: x.path, Position: connector.Position{Offset: pos, Set: true}})
	if err != nil {
		return err
	}
	chunks, ok := rd.(connector.ChunkReader)
	if !ok {
		return errors.Join(errors.New("its records are not bytes"), rd.Close())
	}
	if c, ok := rd.(interface{ CutBy(func([]byte) int) }); ok && f.cut != nil {
		c.CutBy(f.cut)
	}
	x.rd = chunks
	return nil
}

// record returns the record at pos of the chunk, without the newline behind it.
func (f *fetcher) record(x *fetching, pos int64) ([]byte, error) {
	c := &x.recs.Chunk
	if c.Bounds != nil {
		at, _ := slices.BinarySearch(c.Positions, pos)
		b := c.Bounds[at]
		if b == format.NullRecord {
			return nil, nil
		}
		return c.Data[b.Off : b.Off+b.Len], nil
	}
	data := c.Data[pos-c.Base:]
	end := len(data)
	for at := 0; at < len(data); {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
		if f.cut == nil || f.cut(data[:at]) == at {
			end = at
			break
		}
	}
	data = bytes.TrimSuffix(data[:end], []byte{'\n'})
	return bytes.TrimSuffix(data, []byte{'\r'}), nil
}

func (x *fetching) close() error {
	if x.rd == nil {
		return nil
	}
	err := x.rd.Close()
	x.rd, x.recs = nil, connector.Records{}
	return err
}

// Close implements connector.RecordFetcher.
func (f *fetcher) Close() error {
	var errs []error
	for _, x := range f.files {
		errs = append(errs, x.close())
	}
	f.files = nil
	return errors.Join(append(errs, f.r.Close())...)
}
