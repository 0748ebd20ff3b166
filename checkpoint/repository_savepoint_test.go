package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
)

// checkSnapshot fetches all files of a snapshot.
func checkSnapshot(t *testing.T, s *checkpoint.Snapshot, id int64, savepoint bool, files int) {
	t.Helper()
	if s.Manifest.ID != id || s.Manifest.Savepoint != savepoint || len(s.Manifest.Files) != files {
		t.Errorf("at %s is %+v", s.Location, s.Manifest)
	}
	for _, f := range s.Manifest.Files {
		path := filepath.Join(t.TempDir(), "f")
		if err := s.Fetch(t.Context(), f, path); err != nil {
			t.Errorf("%s: %v", s.Location, err)
			continue
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != content(f.Object) {
			t.Errorf("%s: %s holds %q, %v", s.Location, f.Name, text, err)
		}
	}
}

func TestSavepoint(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	r := b.open(object.NewLocal(filepath.Join(dir, "checkpoints of jobs"), nil))
	for id := int64(1); id <= 3; id++ {
		b.save(r, id)
	}
	// One file is on the local disk only, two in the store only.
	b.grow()
	delete(b.paths, "run1-000002.sst")
	delete(b.paths, "run1-000003.sst")
	outside := object.NewLocal(filepath.Join(dir, "savepoints"), nil)
	for name, to := range map[string]object.Store{"of the job": nil, "outside": outside} {
		at, saved, err := r.Savepoint(t.Context(), b.manifest(4), b.paths, to)
		if err != nil || saved.Files != 4 || saved.Bytes < 3*750 {
			t.Fatalf("%s: %+v, %v", name, saved, err)
		}
		if to != nil && !strings.HasPrefix(at, filepath.Join(dir, "savepoints", "savepoint-job-4-")) {
			t.Errorf("%s: it is at %s", name, at)
		}
		for _, place := range []string{at, at + "/", at + "/manifest", "file://" + strings.ReplaceAll(at, " ", "%20")} {
			s, err := checkpoint.OpenSavepoint(t.Context(), place, nil)
			if err != nil {
				t.Errorf("%s: %v", place, err)
				continue
			}
			checkSnapshot(t, s, 4, true, 3)
		}
	}
	// It needs nothing of the job.
	b.save(r, 5)
	if err := r.Drop(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := os.RemoveAll(filepath.Join(dir, "checkpoints of jobs", "job")); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(filepath.Join(dir, "savepoints"))
	if err != nil || len(list) != 2 { // and the folder for temporary files
		t.Fatal(list, err)
	}
	moved := filepath.Join(dir, "moved")
	if err := os.Rename(filepath.Join(dir, "savepoints", list[1].Name()), moved); err != nil {
		t.Fatal(err)
	}
	s, err := checkpoint.OpenSavepoint(t.Context(), moved, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkSnapshot(t, s, 4, true, 3)

	// Another job starts from it, and its first checkpoint needs nothing of the savepoint.
	other := b.open(object.NewLocal(filepath.Join(dir, "other"), nil), func(o *checkpoint.RepositoryOptions) { o.Job = "other" })
	other.From(s)
	for _, f := range s.Manifest.Files {
		if err := other.Fetch(t.Context(), f, filepath.Join(t.TempDir(), "f")); err != nil {
			t.Error(err)
		}
	}
	m := b.manifest(5)
	m.Files = s.Manifest.Files
	if _, err := other.Save(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	other.From(nil)
	if err := os.RemoveAll(moved); err != nil {
		t.Fatal(err)
	}
	b.restore(other, newest(t, other))
}

func TestOpenCheckpointByItsPlace(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	r := b.open(object.NewLocal(dir, nil))
	for id := int64(1); id <= 3; id++ {
		b.save(r, id)
	}
	for place, id := range map[string]int64{
		"job": 3, "job/checkpoints/0000000002": 2, "job/checkpoints/0000000003": 3,
	} {
		s, err := checkpoint.OpenSavepoint(t.Context(), filepath.Join(dir, place), nil)
		if err != nil {
			t.Errorf("%s: %v", place, err)
			continue
		}
		checkSnapshot(t, s, id, false, int(id))
	}
	for place, want := range map[string]string{
		"nothing": "there is no savepoint at", "job/checkpoints/0000000009": "there is no savepoint", "job/files": "there is no savepoint", "": "there is no savepoint",
	} {
		_, err := checkpoint.OpenSavepoint(t.Context(), filepath.Join(dir, place), nil)
		if !errors.Is(err, object.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", place, err)
		}
	}
}

func TestSavepointThatFailsLeavesNothing(t *testing.T) {
	b := newBench(t)
	s := object.NewLocal(t.TempDir(), nil)
	r := b.open(s)
	b.save(r, 1)
	b.grow()
	m := b.manifest(2)
	m.Files = append(m.Files, checkpoint.File{Name: "x", Object: "nowhere"})
	if at, _, err := r.Savepoint(t.Context(), m, b.paths, nil); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%s, %v", at, err)
	}
	if got := listNames(t, s, "job/savepoints/"); len(got) > 0 {
		t.Errorf("left are %v", got)
	}
}

func TestDamageInSavepoint(t *testing.T) {
	b := newBench(t)
	r := b.open(object.NewLocal(t.TempDir(), nil))
	b.grow()
	at, _, err := r.Savepoint(t.Context(), b.manifest(7), b.paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(at, "files", "run1-000001.sst")
	os.Remove(path)
	if err := os.WriteFile(path, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := checkpoint.OpenSavepoint(t.Context(), at, nil)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "f")
	err = s.Fetch(t.Context(), s.Manifest.Files[0], to)
	if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "checkpoint 7") || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Errorf("the damaged file was left at %s", to)
	}
}

func TestSaveRefusesFilesThatChanged(t *testing.T) {
	b := newBench(t)
	r := b.open(object.NewLocal(t.TempDir(), nil))
	b.grow()
	m := b.manifest(1)
	m.Files[0].Size, m.Files[0].Sum = 17, "0011223344556677"
	if _, err := r.Save(t.Context(), m, b.paths); err == nil || !strings.Contains(err.Error(), "should have 17") {
		t.Errorf("got %v", err)
	}
	m.Files[0].Size, m.Files[0].Sum = 0, ""
	if _, err := r.Save(t.Context(), m, b.paths); err != nil {
		t.Error(err)
	}
	if m.Files[0].Sum != "" {
		t.Errorf("the caller's manifest was changed")
	}
	if !slices.Equal(r.IDs(), []int64{1}) {
		t.Errorf("there are %v", r.IDs())
	}
}
