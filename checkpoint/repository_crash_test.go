package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/object/objecttest"
)

// life is one process of a job: it opens the repository, takes five checkpoints from where it
// stands on, and drops old ones. It returns the last checkpoint that it knows to be complete.
func (b *bench) life(s object.Store, now time.Time) (complete int64, err error) {
	ctx := context.Background()
	r, err := checkpoint.OpenRepository(ctx, checkpoint.RepositoryOptions{Store: s, Job: "job", Disk: b.disk, Parallel: 1,
		Now: func() time.Time { return now }})
	if err != nil {
		return 0, err
	}
	m, damage, err := r.Newest(ctx)
	if err != nil || len(damage) > 0 {
		return 0, errors.Join(err, fmt.Errorf("damage %v", damage))
	}
	if m == nil {
		if _, err := r.NewLineage(ctx); err != nil {
			return 0, err
		}
	} else {
		complete = m.ID
	}
	last := r.Last()
	for id := last + 1; id <= last+5; id++ {
		b.grow()
		if _, err := r.Save(ctx, b.manifest(id), b.paths); err != nil {
			return complete, err
		}
		complete = id
		if err := r.Drop(ctx, id-1); err != nil {
			return complete, err
		}
	}
	return complete, r.Close()
}

// TestCrashAtEveryCall ends a process at each of its calls to the store, with and without effect
// of that call. The next process finds the last checkpoint that was complete, or the one that was
// being written; both whole. When it has gone on, nothing is left over.
func TestCrashAtEveryCall(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			b, local := newMemoryBench(t)
			now := time.Now()
			if complete, err := b.life(&objecttest.Stopping{Store: local}, now); err != nil || complete != 5 {
				t.Fatal(complete, err)
			}
			stopping := &objecttest.Stopping{Store: local, At: at, Late: late}
			complete, err := b.life(stopping, now)
			if err != nil && !errors.Is(err, objecttest.ErrStopped) {
				t.Fatalf("stopped at call %d: %v", at, err)
			}
			if complete == 0 {
				complete = 5 // it had not come to know
			}
			now = now.Add(time.Hour) // its lease runs out
			r := b.open(local, func(o *checkpoint.RepositoryOptions) { o.ReadOnly = true })
			m := newest(t, r)
			if m == nil || m.ID != complete && m.ID != complete+1 {
				t.Fatalf("stopped at call %d (late %v): %d was complete, the newest is %v", at, late, complete, m)
			}
			b.restore(r, m)
			done := err == nil
			if complete, err = b.life(&objecttest.Stopping{Store: local}, now); err != nil || complete != r.Last()+5 {
				t.Fatalf("stopped at call %d (late %v): the next process comes to %d, %v", at, late, complete, err)
			}
			r = b.open(local, func(o *checkpoint.RepositoryOptions) { o.ReadOnly = true })
			b.restore(r, newest(t, r))
			if ids := r.IDs(); !slices.Equal(ids, []int64{complete - 1, complete}) {
				t.Errorf("stopped at call %d (late %v): left are checkpoints %v", at, late, ids)
			}
			if files := listNames(t, local, "job/files/"); len(files) != 4 {
				t.Errorf("stopped at call %d (late %v): left are files %v", at, late, files)
			}
			if done {
				if at < 30 {
					t.Errorf("there were only %d calls", at)
				}
				break
			}
		}
	}
}

// TestFaultAtEveryCall lets one call fail, with and without effect, and the process go on: a
// checkpoint that failed is followed by one that does not.
func TestFaultAtEveryCall(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 1; at < 60; at++ {
			b, local := newMemoryBench(t)
			s := &objecttest.Stopping{Store: local, At: 1 << 30, Late: late, Once: true}
			r := b.open(s)
			s.At = s.Calls() + at
			var failed []int64
			var dropFailed error
			for id := int64(1); id <= 10; id++ {
				b.grow()
				if _, err := r.Save(t.Context(), b.manifest(id), b.paths); err != nil {
					if !errors.Is(err, objecttest.ErrStopped) {
						t.Fatalf("fault at call %d (late %v): checkpoint %d: %v", at, late, id, err)
					}
					failed = append(failed, id)
				}
				if dropFailed = r.Drop(t.Context(), id-1); dropFailed != nil && !errors.Is(dropFailed, objecttest.ErrStopped) {
					t.Fatalf("fault at call %d (late %v): drop: %v", at, late, dropFailed)
				}
			}
			if len(failed) > 1 {
				t.Errorf("fault at call %d (late %v): %v failed", at, late, failed)
			}
			if s.Calls() < s.At {
				break
			}
			if m := newest(t, r); m.ID != 10 && !slices.Contains(failed, 10) {
				t.Errorf("fault at call %d (late %v): the newest is %d", at, late, m.ID)
			} else {
				b.restore(r, m)
			}
			if !slices.Contains(failed, 9) && !slices.Contains(failed, 10) && dropFailed == nil {
				if got := listNames(t, local, "job/checkpoints/"); len(got) != 2 {
					t.Errorf("fault at call %d (late %v): left are %v", at, late, got)
				}
				if got := listNames(t, local, "job/files/"); len(got) != 4 {
					t.Errorf("fault at call %d (late %v): left are %v", at, late, got)
				}
			}
		}
	}
}

// TestMachineStops stops the machine before each call to the disk, which then keeps what was synced
// and, every other time, some of the rest.
func TestMachineStops(t *testing.T) {
	stops := 0
	for seed := uint64(1); ; seed++ {
		b, local := newMemoryBench(t)
		disk := b.disk.(*objecttest.Disk)
		if _, err := b.life(local, time.Now()); err != nil {
			t.Fatal(err)
		}
		n := int(seed+1) / 2
		disk.StopBefore(n)
		complete, err := b.life(object.NewLocal("/ckpt", disk), time.Now())
		complete = max(complete, 5)
		done := err == nil
		if !done && !errors.Is(err, objecttest.ErrStopped) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var r *rand.Rand
		if seed%2 == 0 {
			r = rand.New(rand.NewPCG(seed, 3))
		}
		disk = disk.Crash(r)
		b.disk = disk
		repo := b.open(object.NewLocal("/ckpt", disk), func(o *checkpoint.RepositoryOptions) { o.ReadOnly = true })
		m := newest(t, repo)
		if m == nil || m.ID != complete && m.ID != complete+1 {
			t.Fatalf("seed %d, stopped before call %d: %d was complete, the newest is %+v", seed, n, complete, m)
		}
		b.restore(repo, m)
		if done {
			break
		}
		stops++
	}
	if stops < 50 {
		t.Errorf("only %d stops", stops)
	}
}

// TestDamageOfEveryObject damages each object of a job, in several ways. What is wrong is told by
// name, and the next older checkpoint is offered; the other checkpoints stay whole.
func TestDamageOfEveryObject(t *testing.T) {
	ways := map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"empty":   func([]byte) []byte { return nil },
		"missing": nil,
	}
	for _, victim := range []string{"checkpoints/0000000004", "files/run1-000004.sst", "files/run1-000002.sst"} {
		for way, change := range ways {
			b := newBench(t)
			dir := t.TempDir()
			s := object.NewLocal(dir, nil)
			r := b.open(s)
			for id := int64(1); id <= 4; id++ {
				b.save(r, id)
			}
			path := filepath.Join(dir, "job", victim)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			os.Remove(path) // it may be linked to the local file
			if change != nil {
				if err := os.WriteFile(path, change(bytes.Clone(data)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r.Close()
			b.checkDamaged(s, victim, way)
		}
	}
}

func (b *bench) checkDamaged(s object.Store, victim, way string) {
	t := b.t.(*testing.T)
	t.Helper()
	r := b.open(s)
	defer r.Close()
	m, damage, err := r.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	older := int64(3) // file 2 belongs to 2, 3 and 4
	if victim == "files/run1-000002.sst" {
		older = 1
	}
	switch {
	case victim[0] == 'c' && way == "missing": // then there is none of it
		if m.ID != 3 || len(damage) > 0 {
			t.Errorf("%s %s: newest is %d, %v", victim, way, m.ID, damage)
		}
		return
	case way == "changed" && victim[0] == 'f': // only who reads it knows
		if m.ID != 4 || len(damage) > 0 {
			t.Fatalf("%s %s: newest is %d, %v", victim, way, m.ID, damage)
		}
		var d *checkpoint.Damage
		for _, f := range m.Files {
			if err := r.Fetch(t.Context(), f, filepath.Join(t.TempDir(), "f")); err != nil {
				if !errors.As(err, &d) || !strings.HasSuffix(victim, f.Object) {
					t.Fatalf("%s %s: %v", victim, way, err)
				}
			}
		}
		if d == nil || d.Checkpoint != 4 || !strings.Contains(d.Error(), "belongs to operator 3 (GroupAggregate)") {
			t.Fatalf("%s %s: found is %v", victim, way, d)
		}
		if m, damage, err = r.Newest(t.Context()); err != nil || m == nil {
			t.Fatal(m, err)
		}
	}
	if m.ID != older || len(damage) != 4-int(older) {
		t.Fatalf("%s %s: newest is %d, %v", victim, way, m.ID, damage)
	}
	d := damage[0]
	if d.Checkpoint != 4 || d.Older != older || !strings.Contains(d.Error(), victim) ||
		!strings.Contains(d.Error(), fmt.Sprintf("the next older checkpoint, %d, can be read", older)) {
		t.Errorf("%s %s: told as %v", victim, way, d)
	}
	b.restore(r, m)
	// It goes on from there. Two that can be read are kept now, and the id of none is used again.
	if r.Last() != 4 {
		t.Errorf("%s %s: the last is %d", victim, way, r.Last())
	}
	b.save(r, 5)
	if err := r.Drop(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	var good []int64
	list, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if l.Err == nil {
			good = append(good, l.ID)
		}
	}
	if victim[0] == 'c' && !slices.Equal(good, []int64{3, 5}) {
		t.Errorf("%s %s: kept are %v", victim, way, good)
	}
	b.save(r, 6)
	if err := r.Drop(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	b.save(r, 7)
	if err := r.Drop(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if ids := r.IDs(); !slices.Equal(ids, []int64{7}) && !slices.Equal(ids, []int64{6, 7}) {
		t.Errorf("%s %s: left are %v", victim, way, ids)
	}
	b.restore(r, newest(t, r))
}

func TestAllDamaged(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	r := b.open(object.NewLocal(dir, nil))
	b.save(r, 1)
	if err := os.WriteFile(filepath.Join(dir, "job/checkpoints/0000000001"), []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, damage, err := r.Newest(t.Context())
	if m != nil || len(damage) != 1 || err != nil || damage[0].Older != 0 {
		t.Errorf("%v, %v, %v", m, damage, err)
	}
}

// TestLaterFormatIsLeftAlone: what a newer program wrote is no damage, and stops this one.
func TestLaterFormatIsLeftAlone(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	r := b.open(object.NewLocal(dir, nil))
	b.save(r, 1)
	b.save(r, 2)
	path := filepath.Join(dir, "job/checkpoints/0000000002")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[8] = checkpoint.FormatVersion + 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if m, _, err := r.Newest(t.Context()); !errors.Is(err, checkpoint.ErrNewer) || m != nil {
		t.Errorf("%v, %v", m, err)
	}
}

// deaf is a store whose first answer to a conditional write is lost, and which asks again.
type deaf struct{ object.Store }

func (d deaf) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := d.Store.PutIfAbsent(ctx, name, data); err != nil {
		return err
	}
	return d.Store.PutIfAbsent(ctx, name, data)
}

// TestAnswerIsLost: that the manifest is there already is no other process, if it is our own.
func TestAnswerIsLost(t *testing.T) {
	b, local := newMemoryBench(t)
	r := b.open(deaf{local})
	if _, err := r.NewLineage(t.Context()); err != nil {
		t.Error(err)
	}
	b.save(r, 1)
	b.save(r, 2)
	b.restore(r, newest(t, r))
}

// TestDropBesideSave removes old checkpoints while new ones are written, and read.
func TestDropBesideSave(t *testing.T) {
	b, local := newMemoryBench(t)
	r := b.open(local, func(o *checkpoint.RepositoryOptions) { o.Parallel = 3 })
	tool := b.open(local, func(o *checkpoint.RepositoryOptions) { o.ReadOnly = true })
	var wait sync.WaitGroup
	for id := int64(1); id <= 100; id++ {
		b.grow()
		b.grow()
		if _, err := r.Save(t.Context(), b.manifest(id), maps.Clone(b.paths)); err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			if err := r.Drop(context.Background(), id); err != nil {
				t.Error(err)
			}
		})
		wait.Go(func() {
			if m, _, err := tool.Newest(context.Background()); err != nil || m == nil {
				t.Errorf("beside it %v is read, %v", m, err)
			}
			r.IDs()
		})
	}
	wait.Wait()
	if err := r.Drop(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	b.restore(r, newest(t, r))
	if got := listNames(t, local, "job/files/"); len(got) != 3 {
		t.Errorf("left are %v", got)
	}
}
