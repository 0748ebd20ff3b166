package job_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// repo keeps checkpoints in memory, as bytes.
type repo struct {
	mu        sync.Mutex
	manifests map[int64][]byte
	files     map[string][]byte
	fail      int    // saves that fail
	atEnd     func() // is called when the last checkpoint is in place; may be nil
}

func newRepo() *repo { return &repo{manifests: map[int64][]byte{}, files: map[string][]byte{}} }

func (r *repo) Save(_ context.Context, m *checkpoint.Manifest, paths map[string]string) (checkpoint.Saved, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail > 0 {
		r.fail--
		return checkpoint.Saved{}, errors.New("the store is away")
	}
	for _, f := range append(slices.Clone(m.Files), m.Segments...) {
		if r.files[f.Object] != nil {
			continue
		}
		b, err := os.ReadFile(paths[f.Object])
		if err != nil {
			return checkpoint.Saved{}, err
		}
		r.files[f.Object] = b
	}
	b, err := checkpoint.EncodeManifest(m, "test")
	r.manifests[m.ID] = b
	if m.Finished && r.atEnd != nil {
		r.atEnd()
	}
	return checkpoint.Saved{Bytes: int64(len(b)), Requests: 1}, err
}

func (r *repo) Drop(_ context.Context, id int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.manifests, func(k int64, _ []byte) bool { return k < id })
	return nil
}

func (r *repo) Fetch(_ context.Context, f checkpoint.File, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.files[f.Object]
	if b == nil {
		return fmt.Errorf("no file %s", f.Object)
	}
	return os.WriteFile(path, b, 0o644)
}

func (r *repo) newest(t *testing.T) *checkpoint.Manifest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.manifests) == 0 {
		return nil
	}
	id := slices.Max(slices.Collect(maps.Keys(r.manifests)))
	m, err := checkpoint.DecodeManifest(r.manifests[id], "newest")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// options are those of a start of p from the newest checkpoint of r, whose plan had the same nodes.
func (r *repo) options(t *testing.T, p *plan.Plan, interval time.Duration) *job.CheckpointOptions {
	o := &job.CheckpointOptions{Repo: r, Job: "test", Lineage: "l1", WorkDir: t.TempDir(), Fingerprints: make([]plan.Fingerprint, len(p.Nodes)),
		Coordinator: checkpoint.CoordinatorOptions{Interval: interval, Timeout: 10 * time.Second, Retained: 2, TolerableFailures: 3}}
	m := r.newest(t)
	if m == nil {
		return o
	}
	o.Resumed.Last = m.ID
	o.Recover = m
	if m.Finished {
		return o
	}
	o.From, o.Operators, o.Nodes = m, map[int]*checkpoint.Operator{}, map[int]*plan.Node{}
	for i := range m.Operators {
		o.Operators[m.Operators[i].Node] = &m.Operators[i]
		o.Nodes[m.Operators[i].Node] = p.Nodes[m.Operators[i].Node]
	}
	return o
}

// slow is a source of numbers 0..n-1 in as many splits, that wait a little before every batch.
const slowName = "slow-numbers"

var slowRows = 2000

func init() {
	connector.Register(&connector.Factory{Name: slowName, NewSource: func(connector.SourceConfig) (connector.Source, error) {
		return slowSource{}, nil
	}})
}

type slowSource struct{}

func (slowSource) Bounded() bool { return true }
func (slowSource) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return connector.FixedSplits(connector.Split{ID: "0"}, connector.Split{ID: "1"}, connector.Split{ID: "2"}), nil
}
func (slowSource) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(func(_ context.Context, s connector.Split) (connector.SplitReader, error) {
		return &slowReader{base: int64(s.ID[0]-'0') * 1_000_000, at: s.Position.Offset}, nil
	}), nil
}
func (slowSource) Guarantee() string { return "" }

type slowReader struct{ base, at, waited int64 }

// slowFails makes the next read of a slow source fail.
var slowFails atomic.Bool

func (r *slowReader) Position() connector.Position {
	return connector.Position{Offset: r.at, Set: true}
}
func (r *slowReader) Lag() int64   { return int64(slowRows) - r.at }
func (r *slowReader) Close() error { return nil }
func (r *slowReader) ReadBatch(_ context.Context, b *vec.Batch, maxRows int) error {
	switch {
	case slowFails.CompareAndSwap(true, false):
		return errors.New("the source is away")
	case r.at >= int64(slowRows):
		return io.EOF
	case r.at%50 == r.base/100_000+5 && r.waited != r.at: // now and then it has nothing at once
		r.waited = r.at
		return connector.ErrNoData
	}
	time.Sleep(200 * time.Microsecond)
	n := min(maxRows, 7, slowRows-int(r.at))
	b.Reset(n)
	b.Pos = b.Pos[:0]
	for i := range n {
		b.Cols[0].I64[i] = r.base + r.at
		b.Cols[1].I64[i] = r.at * 1000
		b.Pos = append(b.Pos, r.at)
		r.at++
	}
	return nil
}

// numbers is readings over the slow source, into the folder out as files or, with out "", collected.
func numbers(dist plan.Distribution, out string) *plan.Plan {
	p := readings("", dist, false, nil)
	src := p.Nodes[0].Op.(*plan.Source)
	src.Table = &connector.Table{Name: "numbers", Connector: slowName, Columns: src.Table.Columns,
		Options: map[string]string{"connector": slowName}}
	if out != "" {
		p.Nodes[2].Op = &plan.Sink{Table: &connector.Table{Name: "out", Connector: "filesystem", Columns: src.Table.Columns,
			Options: map[string]string{"connector": "filesystem", "path": out, "format": "csv"}}}
	}
	return p
}

// every checks that each number is there once.
func every(t *testing.T, what string, got []string) {
	t.Helper()
	seen := map[string]int{}
	for _, g := range got {
		seen[g]++
	}
	lost, twice := 0, 0
	for s := range int64(3) {
		for i := range int64(slowRows) {
			switch n := seen[fmt.Sprint(s*1_000_000+i)]; {
			case n == 0:
				lost++
			case n > 1:
				twice++
			}
		}
	}
	if lost+twice > 0 || len(got) != 3*slowRows {
		t.Errorf("%s: %d rows of %d, %d lost, %d repeated", what, len(got), 3*slowRows, lost, twice)
	}
}

// TestCheckpoint_StopAndGoOn stops a job again and again, each time with another parallelism, and
// finds every row once, and the books of the last run those of all runs.
func TestCheckpoint_StopAndGoOn(t *testing.T) {
	r := newRepo()
	var mu sync.Mutex
	var got []string
	for run := 0; ; run++ {
		if run > 50 {
			t.Fatal("the job does not end")
		}
		p := numbers(plan.Hash, "")
		o := job.Options{Parallelism: 1 + run%3, BatchRows: 5, Checkpoints: r.options(t, p, 5*time.Millisecond)}
		o.Collect = func(_ *plan.Node, b *vec.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			b.Each(func(i int) { got = append(got, fmt.Sprint(b.Cols[0].I64[i])) })
			return nil
		}
		j, err := job.Start(context.Background(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(20+10*run)*time.Millisecond, j.Stop)
		rep, err := j.Wait()
		timer.Stop()
		if err != nil {
			t.Fatal(err)
		}
		if !rep.Stopped {
			if run == 0 {
				t.Fatal("the job was not stopped at all")
			}
			every(t, "stopped and gone on", got)
			if len(rep.Unbalanced) > 0 || rep.RowsRead != int64(3*slowRows) {
				t.Errorf("books: %v, read %d", rep.Unbalanced, rep.RowsRead)
			}
			if m := r.newest(t); !m.Finished {
				t.Error("the last checkpoint does not say that the job has come to its end")
			}
			return
		}
	}
}

// TestCheckpoint_Kill kills a job that writes files again and again, and finds every row once.
func TestCheckpoint_Kill(t *testing.T) {
	for _, dist := range []plan.Distribution{plan.Hash, plan.Forward} {
		r := newRepo()
		dir := t.TempDir()
		for run := 0; ; run++ {
			if run > 80 {
				t.Fatal("the job does not end")
			}
			p := numbers(dist, dir)
			o := job.Options{Parallelism: 1 + run%3, BatchRows: 5, Checkpoints: r.options(t, p, 3*time.Millisecond)}
			j, err := job.Start(context.Background(), p, o)
			if err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(time.Duration(30+5*run)*time.Millisecond, func() { j.Kill(errors.New("killed")) })
			_, err = j.Wait()
			timer.Stop()
			if err != nil && r.newest(t) != nil && r.newest(t).Finished {
				// After the last checkpoint, and perhaps before its output was committed: nothing is read again.
				settle(t, r, dist, dir)
				break
			}
			if err == nil {
				if run == 0 {
					t.Error("the job was not killed at all")
				}
				break
			}
		}
		every(t, dist.String(), fileRows(t, dir))
	}
}

// settle commits what the last checkpoint of a job that came to its end holds.
func settle(t *testing.T, r *repo, dist plan.Distribution, dir string) {
	t.Helper()
	p := numbers(dist, dir)
	if err := job.Settle(context.Background(), p, job.Options{Checkpoints: r.options(t, p, time.Hour)}); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpoint_KillAtTheEnd kills a job as soon as its last checkpoint is in place.
func TestCheckpoint_KillAtTheEnd(t *testing.T) {
	r := newRepo()
	dir := t.TempDir()
	p := numbers(plan.Hash, dir)
	started := make(chan *job.Job, 1)
	r.atEnd = func() { (<-started).Kill(errors.New("killed")) }
	j, err := job.Start(context.Background(), p, job.Options{Parallelism: 2, Checkpoints: r.options(t, p, time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	started <- j
	if _, err := j.Wait(); err == nil {
		t.Fatal("the job was not killed")
	}
	settle(t, r, plan.Hash, dir)
	every(t, "killed at the end", fileRows(t, dir))
}

// TestCheckpoint_Ordered stops and kills a job whose rows are merged by their stamps: they come in the
// order of a run that was left alone, also those that were on their way.
func TestCheckpoint_Ordered(t *testing.T) {
	var want []string
	for round := range 4 {
		r := newRepo()
		var mu sync.Mutex
		var got []string
		for run := 0; ; run++ {
			if run > 60 {
				t.Fatal("the job does not end")
			}
			p := numbers(plan.Single, "")
			p.Nodes[1].Inputs[0].Ordered = true
			o := job.Options{Parallelism: 1 + (run+round)%3, BatchRows: 5, Checkpoints: r.options(t, p, time.Hour)}
			o.Collect = func(_ *plan.Node, b *vec.Batch) error {
				mu.Lock()
				defer mu.Unlock()
				b.Each(func(i int) { got = append(got, fmt.Sprintf("%d@%d", b.Cols[0].I64[i], b.Stamp(i))) })
				return nil
			}
			j, err := job.Start(context.Background(), p, o)
			if err != nil {
				t.Fatal(err)
			}
			if round > 0 {
				time.AfterFunc(time.Duration(15+7*run)*time.Millisecond, j.Stop)
			}
			rep, err := j.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if !rep.Stopped {
				break
			}
		}
		// The first row of each split has no watermark before it, so these are in any order where the job was stopped
		// between them.
		slices.Sort(got[:min(3, len(got))])
		if round == 0 {
			want = got
			continue
		}
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("round %d: row %d of %d differs: %s, not %s", round, i, len(got), got[min(i, len(got)-1)], want[i])
			}
		}
	}
}

// TestCheckpoint_FailedWrites goes on over checkpoints that could not be written.
func TestCheckpoint_FailedWrites(t *testing.T) {
	r := newRepo()
	r.fail = 3
	dir := t.TempDir()
	p := numbers(plan.Hash, dir)
	j, err := job.Start(context.Background(), p, job.Options{Parallelism: 2, Checkpoints: r.options(t, p, 3*time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Wait(); err != nil {
		t.Fatal(err)
	}
	every(t, "failed writes", fileRows(t, dir))
	if s, _ := j.Checkpoints(); s.Failed != 3 || s.Completed == 0 {
		t.Errorf("%d failed, %d completed", s.Failed, s.Completed)
	}
}

// fileRows reads the first column of the finished files below dir.
func fileRows(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	names, _ := filepath.Glob(filepath.Join(dir, "part-*"))
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			k, _, _ := strings.Cut(l, ",")
			out = append(out, k)
		}
	}
	return out
}
