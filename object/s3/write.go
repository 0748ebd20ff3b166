package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tidemark-stream/tidemark/object"
)

// Put implements object.Store.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	return s.fail("write", name, s.put(ctx, *key, data, false))
}

func (s *Store) put(ctx context.Context, key string, data []byte, ifAbsent bool) error {
	in := &s3.PutObjectInput{Bucket: s.bucket(), Key: aws.String(key), Body: bytes.NewReader(data),
		ContentLength: aws.Int64(int64(len(data)))}
	if ifAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	_, err := s.client.PutObject(ctx, in)
	return err
}

// PutIfAbsent implements object.Store.
func (s *Store) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	c, err := s.probe(ctx)
	if err != nil {
		return s.fail("write", name, err)
	}
	if c == ignored {
		return s.putUnconditionally(ctx, name, data)
	}
	for try := 0; ; try++ {
		err = s.put(ctx, *key, data, true)
		// Another write of the object was under way, and whether it came first is not decided.
		if status(err) != http.StatusConflict || code(err) != "ConditionalRequestConflict" || try == attempts {
			return s.fail("write", name, err)
		}
		if werr := wait(ctx, time.Duration(try+1)*50*time.Millisecond); werr != nil {
			return werr
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(min(d, maxPause))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// probe finds out, once, whether the server heeds the condition of a write: it writes an object
// twice under the condition that it is absent.
func (s *Store) probe(ctx context.Context) (condition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conditional != unknown {
		return s.conditional, nil
	}
	var b [8]byte
	rand.Read(b[:]) // it never returns an error
	key := s.c.Prefix + ".probe-" + hex.EncodeToString(b[:])
	err := s.put(ctx, key, nil, true)
	switch c := status(err); {
	case err == nil:
	case c == http.StatusNotImplemented || c == http.StatusBadRequest && code(err) != "NoSuchBucket":
		s.conditional = ignored
		return s.conditional, nil
	case c == http.StatusPreconditionFailed: // our own first try, whose answer was lost
	default:
		return unknown, err
	}
	err = s.put(ctx, key, nil, true)
	switch c := status(err); {
	case err == nil:
		s.conditional = ignored
	case c == http.StatusPreconditionFailed:
		s.conditional = works
	default:
		return unknown, err
	}
	if _, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket(), Key: aws.String(key)}); err != nil {
		return s.conditional, err
	}
	return s.conditional, nil
}

// Limits implements object.Limited.
func (s *Store) Limits() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conditional != ignored {
		return ""
	}
	return fmt.Sprintf("the server of %s takes no notice of the header If-None-Match: two processes that write one object at the "+
		"same moment may both believe that they came first; so only the lock of a job keeps a second run of it out", s)
}

// putUnconditionally looks, writes, and looks again who was the last to write. Two that overlap
// both find the later one's content, unless one has looked again before the other writes.
func (s *Store) putUnconditionally(ctx context.Context, name string, data []byte) error {
	exists := fmt.Errorf("write %s/%s: %w", s, name, object.ErrExists)
	if _, err := s.Stat(ctx, name); err == nil {
		return exists
	} else if !errors.Is(err, object.ErrNotFound) {
		return err
	}
	if err := s.Put(ctx, name, data); err != nil {
		return err
	}
	if err := wait(ctx, 200*time.Millisecond); err != nil {
		return err
	}
	there, err := s.Get(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	if !bytes.Equal(there, data) {
		return exists
	}
	return nil
}

// PutFile implements object.Store.
func (s *Store) PutFile(ctx context.Context, name, path string) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	info, err := s.c.Disk.Stat(path)
	if err != nil {
		return err
	}
	f, err := s.c.Disk.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() > s.c.PartSize {
		return s.fail("write", name, s.putParts(ctx, *key, f, info.Size()))
	}
	_, err = s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: s.bucket(), Key: key,
		Body: io.NewSectionReader(f, 0, info.Size()), ContentLength: aws.Int64(info.Size())})
	return s.fail("write", name, err)
}

// putParts writes a file in parts. The object is there when all are.
func (s *Store) putParts(ctx context.Context, key string, f io.ReaderAt, size int64) (err error) {
	up, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: s.bucket(), Key: aws.String(key)})
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		// Parts that nobody completes are paid for.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: s.bucket(), Key: aws.String(key), UploadId: up.UploadId})
	}()
	step := max(s.c.PartSize, (size+mostParts-1)/mostParts)
	var parts []types.CompletedPart
	for at := int64(0); at < size; at += step {
		n := min(step, size-at)
		number := aws.Int32(int32(len(parts) + 1))
		out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{Bucket: s.bucket(), Key: aws.String(key), UploadId: up.UploadId,
			PartNumber: number, Body: io.NewSectionReader(f, at, n), ContentLength: aws.Int64(n)})
		if err != nil {
			return err
		}
		parts = append(parts, types.CompletedPart{ETag: out.ETag, PartNumber: number})
	}
	_, err = s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: s.bucket(), Key: aws.String(key),
		UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	if status(err) == http.StatusNotFound {
		// The answer to the first try was lost, and the upload has become an object.
		if out, herr := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket(), Key: aws.String(key)}); herr == nil &&
			aws.ToInt64(out.ContentLength) == size {
			return nil
		}
	}
	return err
}

// CopyFrom implements object.Copier, inside one server.
func (s *Store) CopyFrom(ctx context.Context, from object.Store, fromName, name string) (bool, error) {
	src, ok := from.(*Store)
	if !ok || src.where != s.where {
		return false, nil
	}
	key, err := s.key(name)
	if err != nil {
		return false, err
	}
	fromKey, err := src.key(fromName)
	if err != nil {
		return false, err
	}
	parts := strings.Split(src.c.Bucket+"/"+*fromKey, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	_, err = s.client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: s.bucket(), Key: key, CopySource: aws.String(strings.Join(parts, "/"))})
	if err != nil && status(err) != http.StatusNotFound {
		return false, ctx.Err() // too large, or the keys of one may not read the other: through here
	}
	return true, src.fail("copy", fromName, err)
}
