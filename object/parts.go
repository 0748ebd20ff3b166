package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// ErrChanged says that an object is not the version any more that was asked for.
var ErrChanged = errors.New("the object was replaced")

// ErrUploadGone says that an upload is not there any more, and that no object came of it.
var ErrUploadGone = errors.New("the upload is gone")

// Hopeless marks an error that trying again does not heal, now or later: no such bucket, wrong keys,
// no permission. Its text says what to do. errors.As finds it.
type Hopeless struct{ Err error }

// Error implements error.
func (h *Hopeless) Error() string { return h.Err.Error() }

// Unwrap gives the cause.
func (h *Hopeless) Unwrap() error { return h.Err }

// Pager is a store that lists objects some at a time. Use it through Page.
type Pager interface {
	// Page is what function Page describes.
	Page(ctx context.Context, prefix, after string) (objects []Info, next string, err error)
}

// Page lists some of the objects whose names begin with prefix, at the cost of one request: those
// that follow the name after in the order of the store, which is that of the bytes of names or, with
// some servers, folder by folder. next is where the next page goes on; "" is the end. A name given as
// after need not exist; "" is the beginning.
func Page(ctx context.Context, s Store, prefix, after string) (objects []Info, next string, err error) {
	b, folder := base(s)
	p, ok := b.(Pager)
	if !ok {
		all, err := s.List(ctx, prefix)
		i, _ := slices.BinarySearchFunc(all, after, func(o Info, name string) int {
			if o.Name <= name {
				return -1
			}
			return 1
		})
		return all[i:], "", err
	}
	if err := CheckPrefix(prefix); err != nil {
		return nil, "", err
	}
	if after != "" {
		after = folder + after
	}
	objects, next, err = p.Page(ctx, folder+prefix, after)
	for i := range objects {
		objects[i].Name = objects[i].Name[len(folder):]
	}
	return objects, strings.TrimPrefix(next, folder), err
}

// VersionReader is a store that reads one version of an object by one request. Use it through
// ReadVersion.
type VersionReader interface {
	// ReadVersion is what function ReadVersion describes.
	ReadVersion(ctx context.Context, name, version string, offset int64, p []byte) error
}

// ReadVersion fills p with the bytes of an object from offset on, if the object is still of that
// version (Info.Version); else ErrChanged, or ErrNotFound.
func ReadVersion(ctx context.Context, s Store, name, version string, offset int64, p []byte) error {
	b, folder := base(s)
	if r, ok := b.(VersionReader); ok {
		if err := CheckName(name); err != nil {
			return err
		}
		return r.ReadVersion(ctx, folder+name, version, offset, p)
	}
	check := func() error {
		info, err := s.Stat(ctx, name)
		if err == nil && info.Version != version {
			err = fmt.Errorf("read %s: %w", Join(s.String(), name), ErrChanged)
		}
		return err
	}
	if err := check(); err != nil {
		return err
	}
	data, err := s.Get(ctx, name, offset, int64(len(p)))
	if errors.Is(err, io.ErrUnexpectedEOF) { // it may have become shorter
		return errors.Join(check(), err)
	}
	if err != nil {
		return err
	}
	copy(p, data)
	return check()
}

// Part is a part of an upload that the store has.
type Part struct {
	// Tag is what the store calls its content.
	Tag  string `json:"t"`
	Size int64  `json:"n"`
}

// Upload is an object in the making: parts that nobody sees.
type Upload struct {
	Name, ID string
	// Begun is when it began, as the store says.
	Begun time.Time
}

// Uploader is a store in which an object can be put together of parts that were sent before, so that
// a large one becomes visible at once. Parts survive a crash of the sender; a store may remove them
// after days, which is told as ErrUploadGone. Part numbers begin with 1; all but the last part have
// at least LeastPart bytes, and there are at most MostParts. Methods may be called from several
// goroutines. Use it through UploaderOf.
type Uploader interface {
	// Begin starts an upload; its id is opaque, some hundred bytes.
	Begin(ctx context.Context, name string) (id string, err error)
	// PutPart sends a part, in place of one of that number.
	PutPart(ctx context.Context, name, id string, number int, data []byte) (Part, error)
	// Complete makes the object of parts 1, 2, ... . To complete again is no error as long as the
	// object is the one that this upload has become.
	Complete(ctx context.Context, name, id string, parts []Part) error
	// Abort removes an upload; one that is gone is no error.
	Abort(ctx context.Context, name, id string) error
	// Uploads lists those whose object's name begins with prefix.
	Uploads(ctx context.Context, prefix string) ([]Upload, error)
}

// The bounds of uploads in parts, which are those of S3.
const (
	LeastPart = 5 << 20
	MostParts = 10_000
)

// UploaderOf returns the uploader of a store, nil where it has none.
func UploaderOf(s Store) Uploader {
	b, folder := base(s)
	u, ok := b.(Uploader)
	if !ok {
		return nil
	}
	if folder == "" {
		return u
	}
	return &subUploader{u, folder}
}

// subUploader uploads below a folder.
type subUploader struct {
	u      Uploader
	prefix string
}

// Begin implements Uploader.
func (s *subUploader) Begin(ctx context.Context, name string) (string, error) {
	return s.u.Begin(ctx, s.prefix+name)
}

// PutPart implements Uploader.
func (s *subUploader) PutPart(ctx context.Context, name, id string, number int, data []byte) (Part, error) {
	return s.u.PutPart(ctx, s.prefix+name, id, number, data)
}

// Complete implements Uploader.
func (s *subUploader) Complete(ctx context.Context, name, id string, parts []Part) error {
	return s.u.Complete(ctx, s.prefix+name, id, parts)
}

// Abort implements Uploader.
func (s *subUploader) Abort(ctx context.Context, name, id string) error {
	return s.u.Abort(ctx, s.prefix+name, id)
}

// Uploads implements Uploader.
func (s *subUploader) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	out, err := s.u.Uploads(ctx, s.prefix+prefix)
	for i := range out {
		out[i].Name = strings.TrimPrefix(out[i].Name, s.prefix)
	}
	return out, err
}

// Release lets go of what a store keeps for the next request, such as connections. It can be used
// again at any time.
func Release(s Store) {
	b, _ := base(s)
	if r, ok := b.(interface{ Release() }); ok {
		r.Release()
	}
}
