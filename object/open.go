package object

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Opener makes the store of a location such as s3://bucket/prefix. given are the options of the
// session; those of other matters among them are passed over.
type Opener func(location *url.URL, given map[string]string) (Store, error)

var openers = struct {
	sync.Mutex
	of map[string]Opener
}{of: map[string]Opener{}}

// Register makes Open understand a scheme. Packages of stores call it when they are linked.
func Register(scheme string, open Opener) {
	openers.Lock()
	defer openers.Unlock()
	openers.of[scheme] = open
}

// Open returns the store of a location: a folder, as a path or as file:///path, or what a
// registered package understands, as s3://bucket/prefix.
func Open(location string, given map[string]string) (Store, error) {
	dir, scheme, err := split(location)
	if err != nil {
		return nil, err
	}
	if scheme == "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("location %q: %w", location, err)
		}
		return NewLocal(abs, nil), nil
	}
	openers.Lock()
	open := openers.of[scheme]
	known := []string{"file"}
	for s := range openers.of {
		known = append(known, s)
	}
	openers.Unlock()
	if open == nil {
		slices.Sort(known)
		return nil, fmt.Errorf("location %q: nothing is known about %s://; give a folder, or one of %s://",
			location, scheme, strings.Join(known, "://, "))
	}
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("location %q: %w", location, err)
	}
	return open(u, given)
}

// split tells folders, with an empty scheme, from other locations.
func split(location string) (dir, scheme string, err error) {
	if location == "" {
		return "", "", fmt.Errorf("a location is empty: give a folder, or a place such as s3://bucket/folder")
	}
	scheme, rest, ok := strings.Cut(location, ":")
	if !ok || len(scheme) < 2 || strings.ContainsAny(scheme, `/\.`) {
		return location, "", nil // C:\ has a letter, not a scheme
	}
	scheme = strings.ToLower(scheme)
	if scheme != "file" {
		if !strings.HasPrefix(rest, "//") {
			return location, "", nil // a file name with a colon
		}
		return "", scheme, nil
	}
	u, err := url.Parse(location)
	if err != nil {
		return "", "", fmt.Errorf("location %q: %w", location, err)
	}
	switch {
	case u.Host != "" && u.Host != "localhost":
		return "", "", fmt.Errorf("location %q: files on host %q cannot be reached; write file:///path, with three slashes", location, u.Host)
	case u.Path != "":
		return filepath.FromSlash(u.Path), "", nil
	case u.Opaque != "":
		return filepath.FromSlash(u.Opaque), "", nil
	}
	return "", "", fmt.Errorf("location %q: the path is missing", location)
}

// Sub is the part of a store below a folder: its names begin there. It is a Locker if s is one.
func Sub(s Store, folder string) (Store, error) {
	if folder == "" {
		return s, nil
	}
	folder = strings.TrimSuffix(folder, "/")
	if err := CheckName(folder); err != nil {
		return nil, err
	}
	out := &sub{Store: s, prefix: folder + "/"}
	if l, ok := s.(Locker); ok {
		return &lockingSub{out, l}, nil
	}
	return out, nil
}

type sub struct {
	Store
	prefix string
}

type lockingSub struct {
	*sub
	locker Locker
}

func (s *sub) name(name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	return s.prefix + name, nil
}

func (s *sub) String() string {
	return strings.TrimSuffix(s.Store.String(), "/") + "/" + strings.TrimSuffix(s.prefix, "/")
}

func (s *sub) Put(ctx context.Context, name string, data []byte) error {
	name, err := s.name(name)
	if err != nil {
		return err
	}
	return s.Store.Put(ctx, name, data)
}

func (s *sub) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	name, err := s.name(name)
	if err != nil {
		return err
	}
	return s.Store.PutIfAbsent(ctx, name, data)
}

func (s *sub) PutFile(ctx context.Context, name, path string) error {
	name, err := s.name(name)
	if err != nil {
		return err
	}
	return s.Store.PutFile(ctx, name, path)
}

func (s *sub) Get(ctx context.Context, name string, offset, n int64) ([]byte, error) {
	name, err := s.name(name)
	if err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, name, offset, n)
}

func (s *sub) GetFile(ctx context.Context, name, path string) error {
	name, err := s.name(name)
	if err != nil {
		return err
	}
	return s.Store.GetFile(ctx, name, path)
}

func (s *sub) Open(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	name, err := s.name(name)
	if err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, name, offset)
}

func (s *sub) List(ctx context.Context, prefix string) ([]Info, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, err
	}
	out, err := s.Store.List(ctx, s.prefix+prefix)
	for i := range out {
		out[i].Name = out[i].Name[len(s.prefix):]
	}
	return out, err
}

func (s *sub) Stat(ctx context.Context, name string) (Info, error) {
	full, err := s.name(name)
	if err != nil {
		return Info{}, err
	}
	info, err := s.Store.Stat(ctx, full)
	info.Name = name
	return info, err
}

func (s *sub) Delete(ctx context.Context, names ...string) error {
	full := make([]string, len(names))
	for i, n := range names {
		var err error
		if full[i], err = s.name(n); err != nil {
			return err
		}
	}
	return s.Store.Delete(ctx, full...)
}

// Lock implements Locker.
func (s *lockingSub) Lock(ctx context.Context, name, note string) (io.Closer, error) {
	name, err := s.name(name)
	if err != nil {
		return nil, err
	}
	return s.locker.Lock(ctx, name, note)
}
