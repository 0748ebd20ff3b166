package object_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/object/objecttest"
)

func TestLocal(t *testing.T) {
	objecttest.Run(t, object.NewLocal(filepath.Join(t.TempDir(), "not", "yet"), nil), 1<<20)
}

func TestSub(t *testing.T) {
	s, err := object.Sub(object.NewLocal(t.TempDir(), nil), "jobs/a b")
	if err != nil {
		t.Fatal(err)
	}
	objecttest.Run(t, s, 1000)
	if _, ok := s.(object.Locker); !ok {
		t.Errorf("a part of a folder cannot be locked")
	}
}

// noLinks is a disk without hard links between folders a and b, as of two file systems.
type noLinks struct{ object.OS }

func (noLinks) Link(from, to string) error {
	if !strings.Contains(from, ".tmp") {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: errors.New("invalid cross-device link")}
	}
	return os.Link(from, to)
}

func TestLocalAcrossFileSystems(t *testing.T) {
	objecttest.Run(t, object.NewLocal(t.TempDir(), noLinks{}), 1<<20)
}

func TestLocalLinks(t *testing.T) {
	dir := t.TempDir()
	s := object.NewLocal(filepath.Join(dir, "store"), nil)
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	check(t, os.WriteFile(from, []byte("x"), 0o644))
	check(t, s.PutFile(t.Context(), "o", from))
	check(t, s.GetFile(t.Context(), "o", to))
	a, err := os.Stat(from)
	check(t, err)
	b, err := os.Stat(to)
	check(t, err)
	if !os.SameFile(a, b) {
		t.Errorf("the file was copied twice, and could be linked")
	}
}

func TestLocalKeepsOutOfItsTemporaryFolder(t *testing.T) {
	s := object.NewLocal(t.TempDir(), nil)
	if err := s.Put(t.Context(), ".tmp/x", nil); err == nil {
		t.Errorf("an object may be called .tmp/x")
	}
	check(t, s.Put(t.Context(), "x", nil))
	got, err := s.List(t.Context(), "")
	if err != nil || len(got) != 1 {
		t.Errorf("listed are %v, %v", got, err)
	}
}

func TestLocalRemovesWhatCrashesLeft(t *testing.T) {
	dir := t.TempDir()
	tmp := filepath.Join(dir, ".tmp")
	check(t, os.Mkdir(tmp, 0o755))
	old := fmt.Sprintf("%d-1-1", time.Now().Add(-7*time.Hour).UnixMilli())
	young := fmt.Sprintf("%d-1-1", time.Now().Add(-time.Hour).UnixMilli())
	for _, n := range []string{old, young} {
		check(t, os.WriteFile(filepath.Join(tmp, n), []byte("half"), 0o644))
	}
	check(t, object.NewLocal(dir, nil).Put(t.Context(), "x", nil))
	got, err := (object.OS{}).List(tmp)
	if err != nil || len(got) != 1 || got[0] != young {
		t.Errorf("left are %v, %v", got, err)
	}
}

func TestLocalFolderThatVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s := object.NewLocal(dir, nil)
	check(t, s.Put(t.Context(), "a/x", nil))
	check(t, os.RemoveAll(dir))
	if err := s.Put(t.Context(), "a/x", nil); err == nil {
		return // it noticed at once
	}
	check(t, s.Put(t.Context(), "a/x", nil))
}

// TestLocalCrash stops the machine before every single call to the disk. What a write that
// returned nil has written is there afterwards; other objects are whole, old or new.
func TestLocalCrash(t *testing.T) {
	stopped := 0
	for seed := uint64(1); ; seed++ {
		n := int(seed+1) / 2
		disk := objecttest.NewDisk()
		check(t, disk.MkdirAll("/data"))
		check(t, disk.SyncDir("/"))
		file, err := disk.Create("/data/file")
		check(t, err)
		_, err = file.Write([]byte("from a file"))
		check(t, err)
		check(t, disk.SyncDir("/data"))
		disk.StopBefore(n)
		want := crashScript(t.Context(), object.NewLocal("/ckpt/deep", disk))
		done := !disk.Stopped()
		var r *rand.Rand
		if seed%2 == 0 {
			r = rand.New(rand.NewPCG(seed, 7))
		}
		disk = disk.Crash(r)
		after := object.NewLocal("/ckpt/deep", disk)
		for name, ok := range want {
			got, err := after.Get(t.Context(), name, 0, -1)
			text := string(got)
			if errors.Is(err, object.ErrNotFound) {
				text = "absent"
			} else {
				check(t, err)
			}
			if !strings.Contains(ok, "|"+text+"|") {
				t.Errorf("seed %d, stopped before call %d: %s holds %q, want one of %s", seed, n, name, text, ok)
			}
		}
		check(t, after.Put(t.Context(), "a/x", []byte("goes on")))
		if done {
			break
		}
		stopped++
	}
	if stopped < 100 {
		t.Errorf("only %d crashes", stopped)
	}
}

// crashScript writes until something fails and returns, by name, what may be there then.
func crashScript(ctx context.Context, s *object.Local) map[string]string {
	want := map[string]string{"a/x": "|absent|", "a/once": "|absent|", "b/file": "|absent|"}
	step := func(name, before, after string, err error) bool {
		want[name] = "|" + after + "|"
		if err != nil {
			want[name] = "|" + before + "|" + after + "|"
		}
		return err == nil
	}
	_ = step("a/x", "absent", "one", s.Put(ctx, "a/x", []byte("one"))) &&
		step("a/x", "one", "two", s.Put(ctx, "a/x", []byte("two"))) &&
		step("a/once", "absent", "first", s.PutIfAbsent(ctx, "a/once", []byte("first"))) &&
		step("b/file", "absent", "from a file", s.PutFile(ctx, "b/file", "/data/file")) &&
		step("b/file", "from a file", "other", s.Put(ctx, "b/file", []byte("other"))) &&
		step("b/file", "other", "from a file", s.PutFile(ctx, "b/file", "/data/file")) &&
		step("a/x", "two", "absent", s.Delete(ctx, "a/x"))
	return want
}

// TestLock starts this test as another process that takes the lock, and kills it.
func TestLock(t *testing.T) {
	if dir := os.Getenv("OBJECT_TEST_LOCK"); dir != "" {
		_, err := object.NewLocal(dir, nil).Lock(t.Context(), "job/lock", "the other process")
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println("locked")
		select {}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLock$")
	cmd.Env = append(os.Environ(), "OBJECT_TEST_LOCK="+dir)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "locked" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	s := object.NewLocal(dir, nil)
	var locked *object.LockedError
	if _, err := s.Lock(t.Context(), "job/lock", "this one"); !errors.As(err, &locked) || locked.Note != "the other process" {
		t.Errorf("while the other process has the lock: %v", err)
	}
	check(t, cmd.Process.Kill())
	cmd.Wait()
	c, err := s.Lock(t.Context(), "job/lock", "this one")
	check(t, err)
	if _, err := s.Lock(t.Context(), "job/lock", "again"); !errors.As(err, &locked) || locked.Note != "this one" {
		t.Errorf("while this process has the lock: %v", err)
	}
	check(t, c.Close())
	c, err = s.Lock(t.Context(), "job/lock", "again")
	check(t, err)
	check(t, c.Close())
}

func TestOpen(t *testing.T) {
	wd, err := os.Getwd()
	check(t, err)
	for location, want := range map[string]string{
		"/a/b": "/a/b", "file:///a/b": "/a/b", "file:/a/b": "/a/b", "rel": filepath.Join(wd, "rel"),
		"file://localhost/a": "/a", "a:b": filepath.Join(wd, "a:b"), "file:///a%20b": "/a b",
	} {
		s, err := object.Open(location, nil)
		if err != nil || s.String() != want {
			t.Errorf("%s: %v, %v", location, s, err)
		}
	}
	for location, want := range map[string]string{
		"": "empty", "gopher://x/y": "file://", "file://host/a": "three slashes", "file:": "path is missing",
	} {
		if _, err := object.Open(location, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", location, err, want)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
