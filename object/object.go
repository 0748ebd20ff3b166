// Package object is the contract of object stores: where checkpoints live, and where files are
// read from and written to besides the local disk. Implementations: Local in this package, and S3
// in package object/s3.
package object

import (
	"context"
	"errors"
	"io"
)

// ErrNotFound is returned for an object that does not exist.
var ErrNotFound = errors.New("no such object")

// ErrExists is returned by PutIfAbsent for an object that exists.
var ErrExists = errors.New("the object exists already")

// Info describes an object.
type Info struct {
	Name string // relative to the store's root, separated by slashes
	Size int64
	// Version changes whenever the content does: an ETag, or time and size of a file.
	Version string
}

// Store is a flat space of objects. Names are relative, separated by slashes. An object is whole
// or not there; a Put that returned nil survives a crash of the machine. Methods may be called
// from several goroutines. Temporary failures are retried inside.
type Store interface {
	// Put writes an object, in place of one of that name.
	Put(ctx context.Context, name string, data []byte) error
	// PutIfAbsent writes an object unless one of that name exists (ErrExists). Of two that try at
	// a time, in any two processes, one succeeds.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// PutFile writes an object with the content of a local file that nobody changes any more.
	// A local store may link it.
	PutFile(ctx context.Context, name, path string) error
	// Get returns n bytes of an object from offset on, or all from there with n < 0.
	Get(ctx context.Context, name string, offset, n int64) ([]byte, error)
	// GetFile writes an object to a local file that does not exist. A local store may link it.
	GetFile(ctx context.Context, name, path string) error
	// Open streams an object from offset on.
	Open(ctx context.Context, name string, offset int64) (io.ReadCloser, error)
	// List returns the objects whose names begin with prefix, in the order of names.
	List(ctx context.Context, prefix string) ([]Info, error)
	Stat(ctx context.Context, name string) (Info, error)
	// Delete removes objects; those that do not exist are no error.
	Delete(ctx context.Context, names ...string) error
	// Requests is the number of requests made so far.
	Requests() int64
	// String is where the store is, for people.
	String() string
}
