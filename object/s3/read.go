package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tidemark-stream/tidemark/object"
)

// reader streams an object and goes on where a connection broke, in the same version of the object.
type reader struct {
	ctx  context.Context
	s    *Store
	name string
	key  *string
	at   int64 // of the next byte
	end  int64 // behind the last byte wanted, -1 for the object's end
	etag *string
	size int64 // of the object; known once body was set
	body io.ReadCloser
	// broke counts connections that broke without a byte.
	broke int
}

// open begins to read a range of an object; n < 0 is up to the end.
func (s *Store) open(ctx context.Context, name string, offset, n int64) (*reader, error) {
	key, err := s.key(name)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, s: s, name: name, key: key, at: offset, end: -1}
	if n >= 0 {
		r.end = offset + n
	}
	if offset < 0 {
		return nil, fmt.Errorf("read %s/%s: offset %d: %w", s, name, offset, io.ErrUnexpectedEOF)
	}
	return r, r.connect()
}

// connect asks for what is left to read.
func (r *reader) connect() error {
	in := &s3.GetObjectInput{Bucket: r.s.bucket(), Key: r.key, IfMatch: r.etag}
	switch {
	case r.end == r.at:
		return r.empty()
	case r.end >= 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", r.at, r.end-1))
	case r.at > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", r.at))
	}
	out, err := r.s.client.GetObject(r.ctx, in)
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		return r.empty() // it begins at the end, or behind it
	}
	replaced := status(err) == http.StatusPreconditionFailed
	if err == nil && r.etag != nil && aws.ToString(out.ETag) != *r.etag { // not all servers heed If-Match
		out.Body.Close()
		replaced = true
	}
	if replaced {
		return fmt.Errorf("read %s/%s: it was replaced while it was read: %w", r.s, r.name, object.ErrChanged)
	}
	if err != nil {
		return r.s.fail("read", r.name, err)
	}
	r.body, r.etag = out.Body, out.ETag
	left := aws.ToInt64(out.ContentLength)
	if in.Range != nil && out.ContentRange == nil {
		out.Body.Close()
		return fmt.Errorf("read %s/%s: the server cannot read parts of objects", r.s, r.name)
	}
	if r.size = r.at + left; r.end >= 0 && r.size < r.end {
		out.Body.Close()
		return r.short()
	}
	r.end = r.size
	return nil
}

// empty ends a range without bytes, if the object has that place.
func (r *reader) empty() error {
	info, err := r.s.Stat(r.ctx, r.name)
	if err != nil {
		return err
	}
	if r.size = info.Size; r.at > r.size || r.end > r.size {
		return r.short()
	}
	r.end = r.at
	return nil
}

func (r *reader) short() error {
	return fmt.Errorf("read %s/%s: it has %d bytes: %w", r.s, r.name, r.size, io.ErrUnexpectedEOF)
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for {
		if r.at >= r.end {
			return 0, io.EOF
		}
		if r.body == nil {
			if err := r.connect(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.end-r.at)])
		r.at += int64(n)
		if n > 0 {
			r.broke = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		r.body.Close()
		r.body = nil
		if r.broke++; r.broke >= attempts {
			return 0, fmt.Errorf("read %s/%s at byte %d of %d: %w", r.s, r.name, r.at, r.end, err)
		}
		if err := wait(r.ctx, min(time.Duration(r.broke)*100*time.Millisecond, r.s.c.MaxPause)); err != nil {
			return 0, err
		}
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// Get implements object.Store.
func (s *Store) Get(ctx context.Context, name string, offset, n int64) ([]byte, error) {
	r, err := s.open(ctx, name, offset, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, r.end-r.at)
	_, err = io.ReadFull(r, data)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Open implements object.Store.
func (s *Store) Open(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	r, err := s.open(ctx, name, offset, -1)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// GetFile implements object.Store.
func (s *Store) GetFile(ctx context.Context, name, path string) error {
	r, err := s.open(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := s.c.Disk.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(err, s.c.Disk.Remove(path))
	}
	return nil
}

var _ object.Store = (*Store)(nil)
