package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/internal/version"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// copies are the files of a checkpoint, copied before anybody could drop it: what a replay's job fetches from.
type copies struct{ dir string }

// copied copies the state's files of a checkpoint.
func copied(ctx context.Context, s *checkpoint.Snapshot, dir, name string) (*copies, error) {
	c := &copies{dir: filepath.Join(dir, name)}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	for _, f := range s.Manifest.Files {
		err := s.Fetch(ctx, f, c.path(f))
		if errors.Is(err, checkpoint.ErrDamaged) {
			return nil, fmt.Errorf("%w (where the job has dropped it meanwhile: keep more of them with 'execution.checkpointing.num-retained')", err)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *copies) path(f checkpoint.File) string { return filepath.Join(c.dir, filepath.Base(f.Object)) }

var errDryRun = errors.New("BUG: a replay writes a checkpoint")

// Save implements job.Repository.
func (c *copies) Save(context.Context, *checkpoint.Manifest, map[string]string) (checkpoint.Saved, error) {
	return checkpoint.Saved{}, errDryRun
}

// Drop implements job.Repository.
func (c *copies) Drop(context.Context, int64) error { return errDryRun }

// Fetch implements job.Repository.
func (c *copies) Fetch(_ context.Context, f checkpoint.File, path string) error {
	if os.Link(c.path(f), path) == nil {
		return nil
	}
	in, err := os.Open(c.path(f))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// rerun is one of the two runs of a replay.
type rerun struct {
	job   *job.Job
	notes []string
}

// close ends the run.
func (r *rerun) close() {
	r.job.Stop()
	_, _ = r.job.Wait() // what it gave was taken
}

// rerun runs a job from a checkpoint up to the later one of the interval. folds gets what tables of results are given.
func (e *Engine) rerun(ctx context.Context, j *replayJob, from *checkpoint.Manifest, files *copies, folds map[string]*fold, name string) (*rerun, error) {
	out := &rerun{}
	matched, err := j.matched(from)
	if err != nil {
		return nil, err
	}
	for _, l := range matched.Lines {
		if l.Verdict != checkpoint.Reused {
			out.notes = append(out.notes, fmt.Sprintf("the script is not what ran then: %s: %s%s", l.Label, l.Verdict, detail(l.Detail)))
		}
	}
	if !matched.Same && len(out.notes) == 0 {
		out.notes = append(out.notes, "the script is not what ran then: some of its operators do something else")
	}
	until, err := j.matched(j.to.Manifest)
	if err != nil {
		return nil, err
	}
	o := j.o
	o.Until = &job.Until{Checkpoint: j.to.Manifest, Nodes: nodesOf(j.p, until)}
	o.Checkpoints = &job.CheckpointOptions{Coordinator: checkpoint.CoordinatorOptions{Retained: 2}, Repo: files, Job: j.name, Lineage: from.Lineage,
		From: from, Operators: matched.Taken(), Nodes: nodesOf(j.p, matched), Fingerprints: j.prints, Program: version.String(),
		WorkDir: filepath.Join(j.dir, name), StoreMemory: o.StateMemory / 4}
	o.Collect = func(n *plan.Node, b *vec.Batch) error {
		if f := folds[n.Op.(*plan.Sink).Table.Name]; f != nil {
			return f.add(n.Schema, b)
		}
		return nil
	}
	out.job, err = job.Start(ctx, j.p, o)
	return out, err
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// matched finds the operators of a checkpoint in the plan. What is left over is a note and no error.
func (j *replayJob) matched(m *checkpoint.Manifest) (*checkpoint.Report, error) {
	return matchPlan(m, j.p, j.prints, j.maxPar, true)
}

// nodesOf is, by node number in a checkpoint, the node of the plan that has taken its place.
func nodesOf(p *plan.Plan, r *checkpoint.Report) map[int]*plan.Node {
	out := map[int]*plan.Node{}
	for node, o := range r.Taken() {
		out[o.Node] = p.Nodes[node]
	}
	return out
}

// foldsOf are the tables of results that a plan writes, without cells.
func foldsOf(p *plan.Plan) map[string]*fold {
	out := map[string]*fold{}
	for _, t := range p.Results() {
		out[t.Name] = newFold(t)
	}
	return out
}

// follow tells how far a run has read, until what it returns is called.
func (r *ReplayReport) follow(j *job.Job, tell func(string, int64, int64)) func() {
	if tell == nil {
		return func() {}
	}
	var before, of int64
	for _, n := range r.job.p.Nodes {
		if _, ok := n.Op.(*plan.Source); ok {
			if o := r.before()[n.ID]; o != nil {
				before += o.Books[bookRead]
			}
			of += bookOf(r.then.Manifest, n.ID, bookRead)
		}
	}
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		t := time.NewTicker(200 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
				tell(r.Job, j.Status().RowsRead-before, of-before)
			}
		}
	}()
	return func() { close(stop); done.Wait() }
}
