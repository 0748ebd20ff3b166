package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/object/objecttest"
)

// bench is a job that writes checkpoints: of files, one more each time, the last three alive.
type bench struct {
	t     testing.TB
	disk  object.FS
	dir   string // local files
	names int
	alive []checkpoint.File
	paths map[string]string
}

func newBench(t testing.TB) *bench {
	return &bench{t: t, disk: object.OS{}, dir: t.TempDir(), paths: map[string]string{}}
}

// newMemoryBench is newBench with all files in memory, and a store there.
func newMemoryBench(t testing.TB) (*bench, *object.Local) {
	disk := objecttest.NewDisk()
	disk.MkdirAll("/ckpt")
	disk.SyncDir("/")
	return &bench{t: t, disk: disk, dir: "/work", paths: map[string]string{}}, object.NewLocal("/ckpt", disk)
}

// grow makes a file and forgets the oldest beyond three.
func (b *bench) grow() {
	b.names++
	name := fmt.Sprintf("%06d.sst", b.names)
	f := checkpoint.File{Name: name, Object: "run1-" + name, Of: "operator 3 (GroupAggregate)"}
	path := filepath.Join(b.dir, name)
	b.disk.MkdirAll(b.dir)
	if w, err := b.disk.Create(path); err == nil {
		w.Write([]byte(content(f.Object)))
		w.Close()
	} else if !errors.Is(err, objecttest.ErrStopped) {
		b.t.Fatal(err)
	}
	b.paths[f.Object] = path
	if b.alive = append(b.alive, f); len(b.alive) > 3 {
		b.alive = b.alive[1:]
	}
}

// content is what a file of a name holds.
func content(object string) string { return strings.Repeat(object+"|", 50) }

func (b *bench) manifest(id int64) *checkpoint.Manifest {
	return &checkpoint.Manifest{Version: 1, Job: "job", ID: id, Lineage: "l", Files: slices.Clone(b.alive),
		Tail: []checkpoint.Tail{{Operator: 3, Changes: fmt.Appendf(nil, "changes of %d", id)}}}
}

func (b *bench) open(s object.Store, change ...func(*checkpoint.RepositoryOptions)) *checkpoint.Repository {
	b.t.Helper()
	o := checkpoint.RepositoryOptions{Store: s, Job: "job", Disk: b.disk}
	for _, c := range change {
		c(&o)
	}
	r, err := checkpoint.OpenRepository(b.t.Context(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { r.Close() })
	return r
}

// save writes checkpoint id with one more file.
func (b *bench) save(r *checkpoint.Repository, id int64) checkpoint.Saved {
	b.t.Helper()
	b.grow()
	saved, err := r.Save(b.t.Context(), b.manifest(id), b.paths)
	if err != nil {
		b.t.Fatal(err)
	}
	return saved
}

// restore fails unless a checkpoint can be restored: its files are there with their content.
func (b *bench) restore(r *checkpoint.Repository, m *checkpoint.Manifest) {
	b.t.Helper()
	if got, want := string(m.Tail[0].Changes), fmt.Sprintf("changes of %d", m.ID); got != want {
		b.t.Errorf("checkpoint %d holds %q", m.ID, got)
	}
	for _, f := range m.Files {
		b.disk.MkdirAll(b.dir)
		path := filepath.Join(b.dir, "fetched-"+f.Name)
		b.disk.Remove(path)
		if err := r.Fetch(context.Background(), f, path); err != nil {
			b.t.Errorf("checkpoint %d: %v", m.ID, err)
			continue
		}
		w, err := b.disk.Open(path)
		if err != nil {
			b.t.Fatal(err)
		}
		text, err := io.ReadAll(w)
		w.Close()
		if err != nil || string(text) != content(f.Object) {
			b.t.Errorf("checkpoint %d: %s holds %q, %v", m.ID, f.Name, text, err)
		}
	}
}

func newest(t testing.TB, r *checkpoint.Repository) *checkpoint.Manifest {
	t.Helper()
	m, damage, err := r.Newest(context.Background())
	if err != nil || len(damage) > 0 {
		t.Fatalf("newest: %v, %v", damage, err)
	}
	return m
}

func listNames(t testing.TB, s object.Store, prefix string) []string {
	t.Helper()
	list, err := s.List(context.Background(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range list {
		out = append(out, i.Name)
	}
	return out
}

func TestRepositoryGoesOn(t *testing.T) {
	b := newBench(t)
	s := object.NewLocal(t.TempDir(), nil)
	r := b.open(s)
	if m := newest(t, r); m != nil || r.Last() != 0 {
		t.Fatalf("a new job has checkpoint %v", m)
	}
	for id := int64(1); id <= 5; id++ {
		saved := b.save(r, id)
		if saved.Files != 2 || saved.Requests > 4 {
			t.Errorf("checkpoint %d took %+v", id, saved)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = b.open(s)
	m := newest(t, r)
	if m == nil || m.ID != 5 || r.Last() != 5 || len(m.Files) != 3 {
		t.Fatalf("newest is %+v, last %d", m, r.Last())
	}
	b.restore(r, m)
	if older, _, err := r.Before(t.Context(), 5); err != nil || older.ID != 4 {
		t.Errorf("before 5 comes %v, %v", older, err)
	}
	// Files of checkpoints before are not uploaded again, by the next process neither, although
	// they are no longer on the local disk.
	for _, f := range m.Files {
		delete(b.paths, f.Object)
	}
	if saved := b.save(r, 6); saved.Files != 2 {
		t.Errorf("checkpoint 6 took %+v", saved)
	}
	b.restore(r, newest(t, r))
	list, err := r.List(t.Context())
	if err != nil || len(list) != 6 || list[5].Manifest.ID != 6 {
		t.Errorf("listed are %v, %v", list, err)
	}
	if _, err := r.Load(t.Context(), 77); !errors.Is(err, object.ErrNotFound) || !strings.Contains(err.Error(), "there are: 1, 2") {
		t.Errorf("load of a checkpoint that is not there: %v", err)
	}
}

func TestSmallCheckpointIsOneObject(t *testing.T) {
	b := newBench(t)
	s := object.NewLocal(t.TempDir(), nil)
	r := b.open(s)
	for id := int64(1); id <= 3; id++ {
		saved, err := r.Save(t.Context(), b.manifest(id), nil)
		if err != nil || saved.Files != 1 || saved.Requests != 2 { // written, then looked for younger ones
			t.Errorf("%+v, %v", saved, err)
		}
	}
}

func TestRepositoryDrops(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	s := object.NewLocal(dir, nil)
	orphan := filepath.Join(dir, "job", "files", "run0-000009.sst")
	if err := s.Put(t.Context(), "job/files/run0-000009.sst", []byte("of a process that crashed")); err != nil {
		t.Fatal(err)
	}
	r := b.open(s)
	if err := r.Drop(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(orphan); err != nil {
		t.Errorf("a file was removed before this process has written a checkpoint: %v", err)
	}
	for id := int64(1); id <= 8; id++ {
		b.save(r, id)
		if err := r.Drop(t.Context(), id-1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(orphan); err == nil {
		t.Errorf("an orphan is still there")
	}
	check := func(ids []int64, files ...string) {
		t.Helper()
		if !slices.Equal(r.IDs(), ids) {
			t.Errorf("left are checkpoints %v", r.IDs())
		}
		for i, f := range files {
			files[i] = "job/files/run1-" + f + ".sst"
		}
		if got := listNames(t, s, "job/files/"); !slices.Equal(got, files) {
			t.Errorf("left are files %v", got)
		}
	}
	check([]int64{7, 8}, "000005", "000006", "000007", "000008")
	// The newest stays, whatever is asked for.
	if err := r.Drop(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	check([]int64{8}, "000006", "000007", "000008")
	r.Close()
	// A new process knows the files of what it did not load.
	r = b.open(s)
	b.save(r, 9)
	if err := r.Drop(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	check([]int64{9}, "000007", "000008", "000009")
	b.restore(r, newest(t, r))
}

func TestTwoRunsAreRefused(t *testing.T) {
	for name, s := range map[string]object.Store{
		"by the system": object.NewLocal(t.TempDir(), nil),
		"by a lease":    &objecttest.Stopping{Store: object.NewLocal(t.TempDir(), nil)},
	} {
		b := newBench(t)
		r := b.open(s)
		_, err := checkpoint.OpenRepository(t.Context(), checkpoint.RepositoryOptions{Store: s, Job: "job"})
		var locked *checkpoint.LockedError
		if !errors.As(err, &locked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d on ", os.Getpid())) ||
			!strings.Contains(err.Error(), "pipeline.name") {
			t.Errorf("%s: %v", name, err)
		}
		b.open(s, func(o *checkpoint.RepositoryOptions) { o.Job = "other" })
		b.open(s, func(o *checkpoint.RepositoryOptions) { o.ReadOnly = true })
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		r = b.open(s)
		r.Close()
	}
}

func TestLease(t *testing.T) {
	b := newBench(t)
	s := &objecttest.Stopping{Store: object.NewLocal(t.TempDir(), nil)}
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	clock := func(o *checkpoint.RepositoryOptions) { o.Now = func() time.Time { return now } }
	a := b.open(s, clock)
	now = now.Add(29 * time.Second)
	_, err := checkpoint.OpenRepository(t.Context(), checkpoint.RepositoryOptions{Store: s, Job: "job", Now: func() time.Time { return now }})
	if err == nil || !strings.Contains(err.Error(), "after 12:00:30 UTC") {
		t.Fatalf("within the lease: %v", err)
	}
	b.save(a, 1)
	now = now.Add(2 * time.Second)
	c := b.open(s, clock)
	if len(listNames(t, s, "job/lock/")) != 1 {
		t.Errorf("old leases stay: %v", listNames(t, s, "job/lock/"))
	}
	b.save(c, 2)
	if _, err := a.Save(t.Context(), b.manifest(2), b.paths); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("the process whose lease has ended writes: %v", err)
	}
	// A lease whose owner is dead does not hold anybody up: that of a process that never was.
	text := fmt.Sprintf(`{"owner":"x","token":"y","process":%s,"until":"2099-01-01T00:00:00Z"}`, deadProcess(t, s))
	if err := s.Put(t.Context(), "job/lock/0000000007", []byte(text)); err != nil {
		t.Fatal(err)
	}
	b.open(s, clock)
}

// deadProcess is this process as leases name it, had it been started at another time.
func deadProcess(t *testing.T, s object.Store) string {
	t.Helper()
	names := listNames(t, s, "job/lock/")
	text, err := s.Get(t.Context(), names[len(names)-1], 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	_, p, _ := strings.Cut(string(text), `"process":`)
	p, _, _ = strings.Cut(p, "}")
	before, start, ok := strings.Cut(p, `"start":"`)
	if !ok {
		t.Skip("SKIPPED: this system does not tell when a process was started")
	}
	return before + `"start":"1` + start + "}"
}

// TestUnwritablePlaceIsHopeless has a store refuse what is written to it: trying again would not help,
// unless it may by itself.
func TestUnwritablePlaceIsHopeless(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, true},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}, true},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}, false},
		{coded("AccessDenied"), true},
		{coded("NoSuchBucket"), true},
		{coded("SlowDown"), false},
	} {
		b := newBench(t)
		s := &refusing{Store: object.NewLocal(t.TempDir(), nil)}
		r := b.open(s)
		s.err = c.err
		_, err := r.Save(t.Context(), b.manifest(1), b.paths)
		var fatal *connector.Fatal
		if !errors.Is(err, c.err) || errors.As(err, &fatal) != c.want {
			t.Errorf("%v: fatal is %t (%v)", c.err, !c.want, err)
		}
		s.err = nil
		r.Close()
	}
}

// refusing is a store that fails to write with err, where there is one.
type refusing struct {
	object.Store
	err error
}

func (s *refusing) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.PutIfAbsent(ctx, name, data)
}

// coded is an error with a code, as clients of object stores give it.
type coded string

func (c coded) Error() string     { return string(c) }
func (c coded) ErrorCode() string { return string(c) }

// TestFencing lets two processes go on from one checkpoint, in all orders of their next steps.
func TestFencing(t *testing.T) {
	for order := range 1 << 6 {
		first, local := newMemoryBench(t)
		s := &objecttest.Stopping{Store: local}
		now := time.Now()
		clock := func(o *checkpoint.RepositoryOptions) { o.Now = func() time.Time { return now } }
		second := &bench{t: t, disk: first.disk, dir: "/work2", paths: map[string]string{}}
		a := first.open(s, clock)
		first.save(a, 1)
		now = now.Add(time.Hour)
		c := second.open(s, clock)
		newest(t, c)
		second.names = 100 // its files are others
		next := [2]int64{2, 2}
		dead := [2]bool{}
		wrote := map[int64]int{}
		for step := range 6 {
			who := order >> step & 1
			b, r := first, a
			if who == 1 {
				b, r = second, c
			}
			if dead[who] {
				continue
			}
			b.grow()
			_, err := r.Save(t.Context(), b.manifest(next[who]), b.paths)
			if errors.Is(err, checkpoint.ErrFenced) {
				dead[who] = true
				if _, err := r.Save(t.Context(), b.manifest(99), b.paths); !errors.Is(err, checkpoint.ErrFenced) {
					t.Errorf("order %b: after it was fenced a process writes: %v", order, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := wrote[next[who]]; ok && other != who {
				t.Fatalf("order %b: both wrote checkpoint %d", order, next[who])
			}
			if dead[1-who] == false && len(wrote) > 0 && wrote[next[who]-1] != who && next[who] > 2 {
				t.Fatalf("order %b: they write in turns", order)
			}
			wrote[next[who]] = who
			if err := r.Drop(t.Context(), next[who]); err != nil { // the newest only
				t.Fatal(err)
			}
			next[who]++
		}
		winner := wrote[2]
		for id, who := range wrote {
			if who != winner {
				t.Errorf("order %b: checkpoint %d was written by %d, and 2 by %d", order, id, who, winner)
			}
		}
		r := first.open(s, func(o *checkpoint.RepositoryOptions) { o.ReadOnly = true })
		first.restore(r, newest(t, r))
	}
}

func TestJobFolder(t *testing.T) {
	seen := map[string]string{}
	for _, job := range []string{"a", "A b", "../x", "..", ".", ".tmp", "a/b", "\u00fc", "a%2Fb", strings.Repeat("x", 300), strings.Repeat("x", 301)} {
		f := checkpoint.JobFolder(job)
		if err := object.CheckName(f); err != nil || len(f) > 220 || strings.HasPrefix(f, ".") || seen[f] != "" {
			t.Errorf("job %q: folder %q (%v), as of job %q", job, f, err, seen[f])
		}
		seen[f] = job
	}
	if got := checkpoint.JobFolder("hourly/by origin"); got != "hourly%2Fby%20origin" {
		t.Errorf("got %s", got)
	}
}

func TestLineages(t *testing.T) {
	b := newBench(t)
	s := object.NewLocal(t.TempDir(), nil)
	r := b.open(s)
	seen := map[string]bool{}
	for range 12 {
		l, err := r.NewLineage(t.Context())
		if err != nil || len(l) != 16 || seen[l] {
			t.Fatalf("lineage %q, %v", l, err)
		}
		seen[l] = true
	}
	if got := listNames(t, s, "job/lineages/"); len(got) != 12 || got[11] != "job/lineages/0000000012" {
		t.Errorf("lineages are %v", got)
	}
}
