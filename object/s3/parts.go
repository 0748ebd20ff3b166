package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tidemark-stream/tidemark/object"
)

// uploadTag is the metadata of objects that are made of parts: a random name of the upload, by
// which a second Complete knows what the first has made.
const uploadTag = "tidemark-upload"

// Page implements object.Pager.
func (s *Store) Page(ctx context.Context, prefix, after string) (objects []object.Info, next string, err error) {
	in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: aws.String(s.c.Prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(s.c.Prefix + after)
	}
	page, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", s.fail("list", prefix, err)
	}
	for _, o := range page.Contents {
		if info, ok := s.listed(&o); ok {
			objects = append(objects, info)
		}
	}
	if n := len(page.Contents); n > 0 && aws.ToBool(page.IsTruncated) {
		next = strings.TrimPrefix(aws.ToString(page.Contents[n-1].Key), s.c.Prefix)
	}
	return objects, next, nil
}

// listed is an object as a listing shows it; false: it is none but what consoles and some servers
// show as folders.
func (s *Store) listed(o *types.Object) (object.Info, bool) {
	name, ok := strings.CutPrefix(aws.ToString(o.Key), s.c.Prefix)
	if !ok || name == "" || strings.HasSuffix(name, "/") {
		return object.Info{}, false
	}
	return object.Info{Name: name, Size: aws.ToInt64(o.Size), Version: aws.ToString(o.ETag),
		ModifiedMs: seconds(o.LastModified)}, true
}

// seconds is a time in whole seconds, as ms: a listing may show more digits of it than a look at the
// object.
func seconds(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix() * 1000
}

// ReadVersion implements object.VersionReader.
func (s *Store) ReadVersion(ctx context.Context, name, version string, offset int64, p []byte) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	if len(p) == 0 {
		return nil
	}
	// With or without the quotes that belong to an ETag.
	etag := `"` + strings.Trim(version, `"`) + `"`
	r := &reader{ctx: ctx, s: s, name: name, key: key, at: offset, end: offset + int64(len(p)), etag: aws.String(etag)}
	if err := r.connect(); err != nil {
		return err
	}
	defer r.Close()
	_, err = io.ReadFull(r, p)
	return err
}

// An upload's id is our tag of it, a slash, and what the server calls it.
func splitUpload(id string) (tag, upload string, err error) {
	tag, upload, ok := strings.Cut(id, "/")
	if !ok {
		return "", "", fmt.Errorf("BUG: upload id %q", id)
	}
	return tag, upload, nil
}

// Begin implements object.Uploader.
func (s *Store) Begin(ctx context.Context, name string) (string, error) {
	key, err := s.key(name)
	if err != nil {
		return "", err
	}
	var b [12]byte
	rand.Read(b[:]) // it never returns an error
	tag := hex.EncodeToString(b[:])
	up, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: s.bucket(), Key: key,
		Metadata: map[string]string{uploadTag: tag}})
	if err != nil {
		return "", s.fail("begin to write", name, err)
	}
	return tag + "/" + aws.ToString(up.UploadId), nil
}

// PutPart implements object.Uploader.
func (s *Store) PutPart(ctx context.Context, name, id string, number int, data []byte) (object.Part, error) {
	key, err := s.key(name)
	if err != nil {
		return object.Part{}, err
	}
	_, upload, err := splitUpload(id)
	if err != nil {
		return object.Part{}, err
	}
	n := int64(len(data))
	out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{Bucket: s.bucket(), Key: key, UploadId: aws.String(upload),
		PartNumber: aws.Int32(int32(number)), Body: bytes.NewReader(data), ContentLength: aws.Int64(n)})
	if noUpload(err) {
		return object.Part{}, fmt.Errorf("write part %d of %s/%s: %w", number, s, name, object.ErrUploadGone)
	}
	if err != nil {
		return object.Part{}, s.fail("write", name, err)
	}
	return object.Part{Tag: aws.ToString(out.ETag), Size: n}, nil
}

// noUpload reports whether a server says that it does not have an upload.
func noUpload(err error) bool {
	return code(err) == "NoSuchUpload" || status(err) == http.StatusNotFound && code(err) != "NoSuchBucket"
}

// Complete implements object.Uploader.
func (s *Store) Complete(ctx context.Context, name, id string, parts []object.Part) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	tag, upload, err := splitUpload(id)
	if err != nil {
		return err
	}
	var size int64
	done := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		done[i] = types.CompletedPart{ETag: aws.String(p.Tag), PartNumber: aws.Int32(int32(i + 1))}
		size += p.Size
	}
	_, err = s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: s.bucket(), Key: key,
		UploadId: aws.String(upload), MultipartUpload: &types.CompletedMultipartUpload{Parts: done}})
	if !noUpload(err) {
		return s.fail("complete", name, err)
	}
	// It was completed before, or the answer to that was lost.
	made, err := s.made(ctx, key, tag, size)
	switch {
	case err != nil:
		return s.fail("look at", name, err)
	case !made:
		return fmt.Errorf("complete %s/%s: %w", s, name, object.ErrUploadGone)
	}
	return nil
}

// made reports whether an object is what the upload called tag has become.
func (s *Store) made(ctx context.Context, key *string, tag string, size int64) (bool, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket(), Key: key})
	if status(err) == http.StatusNotFound && code(err) != "NoSuchBucket" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return aws.ToInt64(out.ContentLength) == size && out.Metadata[uploadTag] == tag, nil
}

// Abort implements object.Uploader.
func (s *Store) Abort(ctx context.Context, name, id string) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	_, upload, err := splitUpload(id)
	if err != nil {
		return err
	}
	_, err = s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: s.bucket(), Key: key, UploadId: aws.String(upload)})
	if err == nil || noUpload(err) {
		return nil
	}
	return s.fail("abort the upload of", name, err)
}

// Uploads implements object.Uploader. Their ids serve to abort them; that tag of theirs which a
// second Complete would need is not listed.
func (s *Store) Uploads(ctx context.Context, prefix string) ([]object.Upload, error) {
	if err := object.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	var out []object.Upload
	in := &s3.ListMultipartUploadsInput{Bucket: s.bucket(), Prefix: aws.String(s.c.Prefix + prefix)}
	for {
		page, err := s.client.ListMultipartUploads(ctx, in)
		if noUpload(err) {
			return out, nil // some servers say so where there never was one
		}
		if err != nil {
			return nil, s.fail("list the uploads of", prefix, err)
		}
		for _, u := range page.Uploads {
			name, ok := strings.CutPrefix(aws.ToString(u.Key), s.c.Prefix)
			if !ok || !strings.HasPrefix(name, prefix) {
				continue
			}
			out = append(out, object.Upload{Name: name, ID: "/" + aws.ToString(u.UploadId), Begun: aws.ToTime(u.Initiated)})
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextKeyMarker) == "" {
			return out, nil
		}
		in.KeyMarker, in.UploadIdMarker = page.NextKeyMarker, page.NextUploadIdMarker
	}
}

// Release closes the connections that wait for a next request.
func (s *Store) Release() {
	if s.idle != nil {
		s.idle()
	}
}

var _ interface {
	object.Pager
	object.VersionReader
	object.Uploader
} = (*Store)(nil)
