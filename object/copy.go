package object

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Copier is a store that copies objects without their bytes coming here.
type Copier interface {
	// CopyFrom writes the object name with the content of an object of another store, or of itself.
	// done is false where it cannot do that.
	CopyFrom(ctx context.Context, from Store, fromName, name string) (done bool, err error)
}

// Limited is a store that may lack something that a Store should have.
type Limited interface {
	// Limits says what it lacks, for people, as far as it is known; "" is nothing.
	Limits() string
}

// LimitsOf says what a store lacks, as far as it is known.
func LimitsOf(s Store) string {
	b, _ := base(s)
	if l, ok := b.(Limited); ok {
		return l.Limits()
	}
	return ""
}

// CopyTo writes the object toName of to with the content of fromName of from: by a link, inside the
// store, or through a temporary file, as the stores allow.
func CopyTo(ctx context.Context, from Store, fromName string, to Store, toName string) error {
	fromBase, fromPrefix := base(from)
	toBase, toPrefix := base(to)
	if err := CheckName(fromName); err != nil {
		return err
	}
	if err := CheckName(toName); err != nil {
		return err
	}
	if l, ok := fromBase.(*Local); ok {
		path, err := l.begin(ctx, fromPrefix+fromName)
		if err != nil {
			return err
		}
		if _, err := l.disk.Stat(path); err != nil {
			return fmt.Errorf("read %s: %w", path, notFound(err))
		}
		return to.PutFile(ctx, toName, path)
	}
	if c, ok := toBase.(Copier); ok {
		if done, err := c.CopyFrom(ctx, fromBase, fromPrefix+fromName, toPrefix+toName); done || err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "tidemark-copy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "object")
	if err := from.GetFile(ctx, fromName, path); err != nil {
		return err
	}
	return to.PutFile(ctx, toName, path)
}

// base returns the store that s is a part of, and the prefix of its names there.
func base(s Store) (Store, string) {
	switch s := s.(type) {
	case *lockingSub:
		return base(s.sub)
	case *sub:
		b, p := base(s.Store)
		return b, p + s.prefix
	}
	return s, ""
}

// Join is a location below another one, for people and for Open.
func Join(location, name string) string {
	if strings.Contains(location, "://") {
		return strings.TrimSuffix(location, "/") + "/" + name
	}
	return filepath.Join(location, filepath.FromSlash(name))
}

// Split is the folder of a location and the last part of it, "" where there is no folder.
func Split(location string) (folder, name string) {
	if scheme, rest, ok := strings.Cut(location, "://"); ok {
		rest = strings.TrimRight(rest, "/")
		i := strings.LastIndexByte(rest, '/')
		if i <= 0 {
			return "", rest
		}
		return scheme + "://" + rest[:i], rest[i+1:]
	}
	clean := filepath.Clean(location)
	folder, name = filepath.Dir(clean), filepath.Base(clean)
	if folder == clean {
		return "", name
	}
	return folder, name
}
