// Package objecttest is what every object store must pass, a disk in memory that loses what was not
// synced, and a store that stops at a chosen call. It is for tests, also for those of other
// packages.
package objecttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tidemark-stream/tidemark/object"
)

// Run checks a store, which is empty at the beginning and must be used by nobody else. big is the
// size of the largest object that is written: above the size from which a store writes in parts.
func Run(t *testing.T, s object.Store, big int) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, object.Store)
	}{
		{"put and get", putAndGet},
		{"ranges", ranges},
		{"absent", absent},
		{"put if absent", putIfAbsent},
		{"files", func(t *testing.T, s object.Store) { files(t, s, big) }},
		{"list", list},
		{"many", many},
		{"delete", deletes},
		{"names", names},
		{"version", versions},
		{"pages", pages},
		{"read versions", readVersions},
		{"uploads", uploads},
		{"cancelled", cancelled},
		{"requests", requests},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, s object.Store, name string) string {
	t.Helper()
	b, err := s.Get(t.Context(), name, 0, -1)
	check(t, err)
	return string(b)
}

func putAndGet(t *testing.T, s object.Store) {
	ctx := t.Context()
	for _, text := range []string{"one", "", "three \x00\xff", "in place of it"} {
		check(t, s.Put(ctx, "a/b/object", []byte(text)))
		if got := content(t, s, "a/b/object"); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
		info, err := s.Stat(ctx, "a/b/object")
		check(t, err)
		if info.Size != int64(len(text)) || info.Name != "a/b/object" || info.Version == "" {
			t.Errorf("it is described as %+v", info)
		}
	}
}

func ranges(t *testing.T, s object.Store) {
	ctx := t.Context()
	check(t, s.Put(ctx, "r", []byte("0123456789")))
	for _, c := range []struct {
		offset, n int64
		want      string
	}{{0, 3, "012"}, {3, 4, "3456"}, {7, -1, "789"}, {9, 1, "9"}, {4, 0, ""}, {10, -1, ""}, {0, -1, "0123456789"}, {0, 10, "0123456789"}} {
		got, err := s.Get(ctx, "r", c.offset, c.n)
		if err != nil || string(got) != c.want {
			t.Errorf("%d bytes from %d on: %q, %v", c.n, c.offset, got, err)
		}
	}
	for _, c := range [][2]int64{{0, 11}, {8, 3}, {11, 1}, {11, -1}, {50, 2}} {
		if got, err := s.Get(ctx, "r", c[0], c[1]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes from %d on: %q, %v", c[1], c[0], got, err)
		}
	}
	for offset, want := range map[int64]string{0: "0123456789", 6: "6789", 10: ""} {
		f, err := s.Open(ctx, "r", offset)
		check(t, err)
		got, err := io.ReadAll(f)
		check(t, err)
		check(t, f.Close())
		if string(got) != want {
			t.Errorf("streamed from %d on: %q", offset, got)
		}
	}
}

func absent(t *testing.T, s object.Store) {
	ctx := t.Context()
	check(t, s.Put(ctx, "folder/x", []byte("x")))
	for _, name := range []string{"nothing", "folder", "folder/y", "folder/x/y", "no/such/folder/z"} {
		_, gerr := s.Get(ctx, name, 0, -1)
		_, rerr := s.Get(ctx, name, 0, 3)
		_, serr := s.Stat(ctx, name)
		var oerr error
		if f, err := s.Open(ctx, name, 0); err == nil {
			_, oerr = io.ReadAll(f)
			f.Close()
		} else {
			oerr = err
		}
		path := filepath.Join(t.TempDir(), "file")
		ferr := s.GetFile(ctx, name, path)
		for what, err := range map[string]error{"Get": gerr, "Get of a range": rerr, "Stat": serr, "Open": oerr, "GetFile": ferr} {
			if !errors.Is(err, object.ErrNotFound) {
				t.Errorf("%s of %s, which does not exist: %v", what, name, err)
			}
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("GetFile of %s, which does not exist, left a file", name)
		}
	}
	for _, prefix := range []string{"no/such/", "folder/x/"} {
		got, err := s.List(ctx, prefix)
		if err != nil || len(got) > 0 {
			t.Errorf("list of nothing, %s: %v, %v", prefix, got, err)
		}
	}
}

func putIfAbsent(t *testing.T, s object.Store) {
	ctx := t.Context()
	check(t, s.PutIfAbsent(ctx, "once/1", []byte("first")))
	if err := s.PutIfAbsent(ctx, "once/1", []byte("second")); !errors.Is(err, object.ErrExists) {
		t.Errorf("the second got %v", err)
	}
	if got := content(t, s, "once/1"); got != "first" {
		t.Errorf("it holds %q", got)
	}
	check(t, s.Delete(ctx, "once/1"))
	check(t, s.PutIfAbsent(ctx, "once/1", []byte("again")))
	for round := range 20 {
		name := fmt.Sprintf("race/%d", round)
		errs := make([]error, 8)
		var wait sync.WaitGroup
		for i := range errs {
			wait.Go(func() { errs[i] = s.PutIfAbsent(ctx, name, []byte{byte(i)}) })
		}
		wait.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				t.Errorf("%s: %d and %d both came first", name, winner, i)
			case !errors.Is(err, object.ErrExists):
				t.Errorf("%s: %v", name, err)
			}
		}
		if winner < 0 || content(t, s, name) != string([]byte{byte(winner)}) {
			t.Errorf("%s: of %d, which came first, %q was written", name, winner, content(t, s, name))
		}
	}
}

func files(t *testing.T, s object.Store, big int) {
	ctx := t.Context()
	for _, size := range []int{0, 1, 100_000, big} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i>>8) ^ byte(i*7)
		}
		from := filepath.Join(t.TempDir(), "from")
		check(t, os.WriteFile(from, data, 0o644))
		name := fmt.Sprintf("files/%d", size)
		for range 3 { // and in place of itself
			check(t, s.PutFile(ctx, name, from))
		}
		check(t, os.Remove(from)) // the object does not need it any more
		to := filepath.Join(t.TempDir(), "to")
		check(t, s.GetFile(ctx, name, to))
		got, err := os.ReadFile(to)
		check(t, err)
		if sha256.Sum256(got) != sha256.Sum256(data) {
			t.Errorf("a file of %d bytes came back with %d, and others", size, len(got))
		}
		if err := s.GetFile(ctx, name, to); err == nil {
			t.Errorf("GetFile wrote over a file")
		}
		check(t, s.Put(ctx, name, []byte("another")))
		if after, _ := os.ReadFile(to); !bytes.Equal(after, data) {
			t.Errorf("a file that was fetched changed when its object was replaced")
		}
	}
	if err := s.PutFile(ctx, "files/no", filepath.Join(t.TempDir(), "no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("PutFile of no file: %v", err)
	}
}

func list(t *testing.T, s object.Store) {
	ctx := t.Context()
	all := []string{"l/a-b", "l/a/c", "l/a/d/e", "l/ab", "l/b c%20\u00e9", "l2/x"}
	for _, n := range all {
		check(t, s.Put(ctx, n, []byte(n)))
	}
	for prefix, want := range map[string][]string{
		"l/":     {"l/a-b", "l/a/c", "l/a/d/e", "l/ab", "l/b c%20\u00e9"},
		"l":      {"l/a-b", "l/a/c", "l/a/d/e", "l/ab", "l/b c%20\u00e9", "l2/x"},
		"l/a":    {"l/a-b", "l/a/c", "l/a/d/e", "l/ab"},
		"l/a/":   {"l/a/c", "l/a/d/e"},
		"l/a/d":  {"l/a/d/e"},
		"l/b":    {"l/b c%20\u00e9"},
		"l/zzz":  nil,
		"l/a/d/": {"l/a/d/e"},
	} {
		got, err := s.List(ctx, prefix)
		check(t, err)
		var gotNames []string
		for _, i := range got {
			gotNames = append(gotNames, i.Name)
			if i.Size != int64(len(i.Name)) || i.Version == "" {
				t.Errorf("listed as %+v", i)
			}
		}
		if !slices.Equal(gotNames, want) {
			t.Errorf("%q lists %q, want %q", prefix, gotNames, want)
		}
	}
}

func many(t *testing.T, s object.Store) {
	ctx := t.Context()
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("many/%03d", i))
	}
	for _, n := range want {
		check(t, s.Put(ctx, n, nil))
	}
	got, err := s.List(ctx, "many/")
	check(t, err)
	if len(got) != len(want) || got[0].Name != want[0] || got[59].Name != want[59] {
		t.Errorf("%d objects are listed", len(got))
	}
	check(t, s.Delete(ctx, want...))
	if got, err = s.List(ctx, "many/"); err != nil || len(got) > 0 {
		t.Errorf("after their deletion: %v, %v", got, err)
	}
}

func deletes(t *testing.T, s object.Store) {
	ctx := t.Context()
	check(t, s.Put(ctx, "d/1", []byte("1")))
	check(t, s.Put(ctx, "d/2", []byte("2")))
	check(t, s.Put(ctx, "d/3", []byte("3")))
	check(t, s.Delete(ctx, "d/1", "d/none", "nothing/at/all", "d/2/x", "d/3"))
	check(t, s.Delete(ctx, "d/1"))
	check(t, s.Delete(ctx))
	got, err := s.List(ctx, "d/")
	if err != nil || len(got) != 1 || got[0].Name != "d/2" {
		t.Errorf("left is %v, %v", got, err)
	}
}

func names(t *testing.T, s object.Store) {
	ctx := t.Context()
	for _, name := range []string{"", "/etc/x", "..", "../x", "a/../../x", "a/./x", "a//x", "a/", "a\\x", "a\x00"} {
		_, gerr := s.Get(ctx, name, 0, -1)
		_, serr := s.Stat(ctx, name)
		_, oerr := s.Open(ctx, name, 0)
		for what, err := range map[string]error{
			"Put": s.Put(ctx, name, []byte("x")), "PutIfAbsent": s.PutIfAbsent(ctx, name, []byte("x")),
			"PutFile": s.PutFile(ctx, name, "x"), "GetFile": s.GetFile(ctx, name, filepath.Join(t.TempDir(), "x")),
			"Get": gerr, "Stat": serr, "Open": oerr, "Delete": s.Delete(ctx, name),
		} {
			if err == nil || errors.Is(err, object.ErrNotFound) {
				t.Errorf("%s of name %q: %v", what, name, err)
			}
		}
	}
	for _, prefix := range []string{"../", "/", "a/../", "a/../b"} {
		if _, err := s.List(ctx, prefix); err == nil {
			t.Errorf("prefix %q is taken", prefix)
		}
	}
}

func versions(t *testing.T, s object.Store) {
	ctx := t.Context()
	check(t, s.Put(ctx, "v", []byte("1")))
	a, err := s.Stat(ctx, "v")
	check(t, err)
	same, err := s.Stat(ctx, "v")
	check(t, err)
	listed, err := s.List(ctx, "v")
	check(t, err)
	check(t, s.Put(ctx, "v", []byte("23")))
	b, err := s.Stat(ctx, "v")
	check(t, err)
	if a != same || a.Version == b.Version || !slices.Contains(listed, a) {
		t.Errorf("versions: %+v, the same %+v, listed %+v, changed %+v", a, same, listed, b)
	}
}

func cancelled(t *testing.T, s object.Store) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	_, gerr := s.Get(ctx, "v", 0, -1)
	_, lerr := s.List(ctx, "v")
	for what, err := range map[string]error{"Put": s.Put(ctx, "c", nil), "Get": gerr, "List": lerr} {
		if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func requests(t *testing.T, s object.Store) {
	ctx := t.Context()
	at := s.Requests()
	check(t, s.Put(ctx, "q", []byte("q")))
	content(t, s, "q")
	if n := s.Requests() - at; n < 2 || n > 3 {
		t.Errorf("%d requests for a put and a get", n)
	}
	if s.String() == "" {
		t.Errorf("the store does not say where it is")
	}
}
