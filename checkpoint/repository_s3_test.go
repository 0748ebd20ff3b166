package checkpoint_test

import (
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
	_ "github.com/tidemark-stream/tidemark/object/s3" // registers s3://
)

// s3Server returns what reaches a server in this process. TIDEMARK_S3, the endpoint of a real one
// (as of test/peers/s3), takes its place; the bucket is "test".
func s3Server(t *testing.T) map[string]string {
	if real := os.Getenv("TIDEMARK_S3"); real != "" {
		return map[string]string{"s3.endpoint": real, "s3.access-key": "test", "s3.secret-key": "testsecret"}
	}
	server := httptest.NewUnstartedServer(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it answers some requests twice
	server.Start()
	t.Cleanup(server.Close)
	return map[string]string{"s3.endpoint": server.URL, "s3.access-key": "k", "s3.secret-key": "s"}
}

// TestRepositoryOverS3 is a job's way through checkpoints, a savepoint, and a second process, with
// the requests that it takes.
func TestRepositoryOverS3(t *testing.T) {
	given := s3Server(t)
	root := "s3://test/" + strings.ReplaceAll(time.Now().Format("150405.000000"), ".", "-")
	s, err := object.Open(root+"/checkpoints", given)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	clock := func(o *checkpoint.RepositoryOptions) { o.Now = func() time.Time { return now } }
	b := newBench(t)
	r := b.open(s, clock)
	requests := func(what string, most int64, do func()) {
		t.Helper()
		before := s.Requests()
		do()
		if n := s.Requests() - before; n > most {
			t.Errorf("%s took %d requests, and should take %d at most", what, n, most)
		}
	}
	b.save(r, 1)
	requests("a checkpoint with one new file", 3, func() { b.save(r, 2) })
	requests("a small checkpoint", 2, func() {
		if _, err := r.Save(t.Context(), b.manifest(3), nil); err != nil {
			t.Fatal(err)
		}
	})
	b.save(r, 4)
	if err := r.Drop(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	b.save(r, 5)
	requests("dropping a checkpoint", 1, func() { // no file of it is lost
		if err := r.Drop(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
	})
	b.restore(r, newest(t, r))

	to, err := object.Open(root+"/savepoints", given)
	if err != nil {
		t.Fatal(err)
	}
	before := to.Requests()
	at, saved, err := r.Savepoint(t.Context(), b.manifest(6), nil, to)
	if err != nil || !strings.HasPrefix(at, root+"/savepoints/savepoint-job-6-") || saved.Files != 4 {
		t.Fatalf("%s, %+v, %v", at, saved, err)
	}
	if n := to.Requests() - before; n > 7 { // three copies inside the server, a probe of three, the manifest
		t.Errorf("the savepoint took %d requests", n)
	}
	snap, err := checkpoint.OpenSavepoint(t.Context(), at, given)
	if err != nil {
		t.Fatal(err)
	}
	checkSnapshot(t, snap, 6, true, 3)
	if snap, err = checkpoint.OpenSavepoint(t.Context(), root+"/checkpoints/job/checkpoints/0000000004", given); err != nil {
		t.Fatal(err)
	}
	checkSnapshot(t, snap, 4, false, 3)
	if _, err := checkpoint.OpenSavepoint(t.Context(), root+"/nothing", given); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("got %v", err)
	}

	now = now.Add(time.Hour)
	second := b.open(s, clock)
	m := newest(t, second)
	if m.ID != 5 {
		t.Fatalf("the newest is %d", m.ID)
	}
	b.save(second, 6)
	if _, err := r.Save(t.Context(), b.manifest(6), b.paths); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("the first process writes on: %v", err)
	}
	if err := second.Drop(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if got := listNames(t, s, "job/files/"); len(got) != 3 {
		t.Errorf("left are %v", got)
	}
	b.restore(second, newest(t, second))
	if err := second.Fetch(t.Context(), checkpoint.File{Object: "gone", Of: "x"}, filepath.Join(t.TempDir(), "f")); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("a file that is not there: %v", err)
	}
}
