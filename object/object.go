// Package object is the contract of object stores: where checkpoints live, and where files are
// read from and written to besides the local disk. Implementations: Local in this package, and S3
// in package object/s3; Open finds the one for a location. Package objecttest is the suite that
// each of them passes.
package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
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
	// ModifiedMs is when it was written, ms since 1970; of S3 in whole seconds.
	ModifiedMs int64
}

// Store is a flat space of objects. Names are relative, separated by slashes. An object is whole
// or not there; a Put that returned nil survives a crash of the machine. Methods may be called
// from several goroutines. Temporary failures are retried inside.
type Store interface {
	// Put writes an object, in place of one of that name.
	Put(ctx context.Context, name string, data []byte) error
	// PutIfAbsent writes an object unless one of that name exists (ErrExists). Of two that try at
	// a time, in any two processes, one succeeds. Where the answer to a request was lost the one
	// that succeeded may get ErrExists too: the content tells, if it is like no other.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// PutFile writes an object with the content of a local file that nobody changes any more.
	// A local store may link it.
	PutFile(ctx context.Context, name, path string) error
	// Get returns n bytes of an object from offset on, or all from there with n < 0. An object
	// that has less is an error (io.ErrUnexpectedEOF).
	Get(ctx context.Context, name string, offset, n int64) ([]byte, error)
	// GetFile writes an object to a local file that does not exist. A local store may link it.
	GetFile(ctx context.Context, name, path string) error
	// Open streams an object from offset on.
	Open(ctx context.Context, name string, offset int64) (io.ReadCloser, error)
	// List returns the objects whose names begin with prefix, in the order of names (by bytes).
	List(ctx context.Context, prefix string) ([]Info, error)
	// Stat describes an object, ErrNotFound if there is none.
	Stat(ctx context.Context, name string) (Info, error)
	// Delete removes objects; those that do not exist are no error.
	Delete(ctx context.Context, names ...string) error
	// Requests is the number of requests made so far.
	Requests() int64
	// String is where the store is, for people.
	String() string
}

// Locker is a store that can exclude other processes by itself, until the lock is closed or the
// process ends.
type Locker interface {
	// Lock takes the lock of a name; note is what others are told of its owner. A *LockedError
	// says that another has it.
	Lock(ctx context.Context, name, note string) (io.Closer, error)
}

// LockedError says that someone has the lock.
type LockedError struct {
	Note string // of the owner
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.Note == "" {
		return "locked by another process"
	}
	return "locked by " + e.Note
}

// CheckName refuses names that are not relative, or that leave the root of their store.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("an object needs a name")
	case strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\\x00"):
		return fmt.Errorf("object name %q: it is relative, with slashes between its parts", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("object name %q: no part of it may be empty, . or ..", name)
		}
	}
	return nil
}

// CheckPrefix refuses prefixes of names that CheckName would refuse.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	dir, _ := path.Split(prefix)
	if dir == "" {
		return CheckName(prefix + "x")
	}
	return CheckName(dir + "x")
}
