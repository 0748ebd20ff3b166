package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/version"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/object/s3"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// DefaultCheckpoints is the folder that checkpoints go to where 'execution.checkpointing.dir' is not
// set, in the folder of the script.
const DefaultCheckpoints = "tidemark-checkpoints"

func init() {
	catalog.Declare(checkpoint.Specs())
	catalog.Declare(s3.Options)
}

// RecoveryOptions say what jobs start from.
type RecoveryOptions struct {
	// Fresh ignores the checkpoints that there are.
	Fresh bool
	// From is the place of a savepoint or checkpoint to start from; it comes before
	// 'execution.state-recovery.path'.
	From string
	// AllowDropped says that state which no operator wants is dropped.
	AllowDropped bool
}

// recovery is what one job of a script needs to survive: the place of its checkpoints, which it
// holds the lock of, and what it goes on from.
type recovery struct {
	e       *Engine
	o       checkpoint.Options
	ro      RecoveryOptions
	given   map[string]string
	job     string
	dir     string // where checkpoints go
	p       *plan.Plan
	prints  []plan.Fingerprint
	repo    *checkpoint.Repository
	savedAt object.Store // where savepoints go; nil: below the job's folder
	work    string
	tmp     bool // work is to be removed at the end
	maxPar  int
	run     *checkpoint.ScriptRun // nil: the script has one job

	from    *checkpoint.Manifest // of the first start
	recover *checkpoint.Manifest
	lineage string
	snap    *checkpoint.Snapshot
	starts  int
	// How says how the job began, for people. done says that it came to its end in the run of the
	// script that this one goes on with, so that it is not run.
	how    string
	done   bool
	report *checkpoint.Report
	cancel context.CancelFunc // of hold
	mu     sync.Mutex
	lost   func(error) // told when the lock is lost
	warn   func(string)
}

// recovery reads the session's options; nil where the job, that of statement at, takes no checkpoints.
func (r *scriptRun) recovery(ctx context.Context, at int, p *plan.Plan, cfg *catalog.Config) (*recovery, error) {
	j, err := r.e.newScriptJob(at, p, cfg)
	if j == nil || err != nil || !j.takes() {
		return nil, err
	}
	for _, n := range j.o.Notes {
		r.warn(n)
	}
	ro := r.e.o.Recovery
	if ro.Fresh && ro.From != "" {
		return nil, errors.New("--fresh and --from contradict each other: leave one out")
	}
	if k := r.known[at]; k != nil {
		j = k
	} else if err = r.e.settle(ctx, []*scriptJob{j}, 0, r.warn); err != nil {
		return nil, err
	}
	c := &recovery{e: r.e, o: j.o, ro: ro, given: j.given, job: j.name, dir: j.dir, p: p, prints: plan.Fingerprints(p), maxPar: j.maxPar, run: j.run, warn: r.warn}
	if err = c.open(ctx); err == nil {
		err = c.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(c.explain(err), c.close())
	}
	return c, nil
}

// place is where the checkpoints are, so that it is told from all other places; that of a job without any is the
// process.
func (c *recovery) place() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if c == nil {
		return fmt.Sprintf("nowhere (process %d on %s)", os.Getpid(), host)
	}
	at := object.Join(c.dir, checkpoint.JobFolder(c.job))
	if strings.Contains(at, "://") {
		return at
	}
	if !filepath.IsAbs(at) {
		if abs, err := filepath.Abs(filepath.Join(c.e.o.Dir, at)); err == nil {
			at = abs
		}
	}
	return at + " on " + host
}

// skip commits what a job that had come to its end may have left to be committed, and does not run it.
func (r *scriptRun) skip(ctx context.Context, c *recovery, o job.Options) error {
	o.Checkpoints = &job.CheckpointOptions{Repo: c.repo, Job: c.job, Recover: c.recover, WorkDir: c.work}
	err := job.Settle(ctx, c.p, o)
	if err == nil && c.recover.Ends {
		err = c.repo.End(ctx, c.recover.ID)
	}
	if err = errors.Join(err, c.close()); err != nil {
		return err
	}
	if r.h.JobSkipped != nil {
		r.h.JobSkipped(c.job, c.how)
	}
	return nil
}

// DamagedError says that a job's newest checkpoint is damaged, and where the next older one is.
type DamagedError struct {
	Job string
	// Older is the place of the newest checkpoint that can be read, "" if there is none, and ID its
	// number.
	Older string
	ID    int64
	Err   error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("job %s does not start, as its newest checkpoint cannot be read: %v", e.Job, e.Err)
}

// Unwrap returns the damage.
func (e *DamagedError) Unwrap() error { return e.Err }

// explain adds to an error where an older checkpoint is, if one is damaged.
func (c *recovery) explain(err error) error {
	var d *checkpoint.Damage
	if c == nil || !errors.As(err, &d) || c.o.From != "" {
		return err
	}
	e := &DamagedError{Job: c.job, Err: err}
	if d.Older > 0 {
		e.ID, e.Older = d.Older, object.Join(c.repo.String(), checkpoint.PlaceOf(d.Older))
	}
	return e
}

// fit makes the plan one that the job can go on with: where it holds rows on their way between the
// two phases of an aggregation, that aggregation has two phases again. again plans the statement
// anew.
func (c *recovery) fit(again func() (*plan.Plan, error)) error {
	if c.from == nil {
		return nil
	}
	_, err := c.match(c.from)
	var channels *checkpoint.ChannelError
	if !errors.As(err, &channels) {
		return err
	}
	p, perr := again()
	if perr != nil {
		return perr
	}
	was, prints := c.p, c.prints
	c.p, c.prints = p, plan.Fingerprints(p)
	if _, err2 := c.match(c.from); err2 != nil {
		c.p, c.prints = was, prints
		return err
	}
	return nil
}

// match finds what becomes of the state of m in the plan.
func (c *recovery) match(m *checkpoint.Manifest) (*checkpoint.Report, error) {
	return matchPlan(m, c.p, c.prints, c.maxPar, c.o.AllowDropped)
}

// matchPlan finds what becomes of the state of m in a plan. The report is there also where the error is
// a *checkpoint.DroppedError.
func matchPlan(m *checkpoint.Manifest, p *plan.Plan, prints []plan.Fingerprint, maxPar int, allowDropped bool) (*checkpoint.Report, error) {
	if m.MaxParallelism != maxPar {
		return nil, fmt.Errorf("'pipeline.max-parallelism' is %d, but checkpoint %d was written with %d, which its key groups follow from; "+
			"SET 'pipeline.max-parallelism' = '%d', or start with --fresh", maxPar, m.ID, m.MaxParallelism, m.MaxParallelism)
	}
	states, err := job.States(p)
	if err != nil {
		return nil, err
	}
	r, err := checkpoint.Match(m, prints, states)
	if err != nil {
		return nil, err
	}
	return r, r.Dropped(allowDropped)
}

// takesCheckpoints reports whether a job can take checkpoints: not where its rows are gone as soon as
// they are shown, or where a start would overwrite what was written before it.
func takesCheckpoints(p *plan.Plan) bool {
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok && (s.Collect || s.Overwrite) {
			return false
		}
	}
	return !p.Batch
}

// maxParallelism is the number of key groups of a session's jobs.
func maxParallelism(cfg *catalog.Config) int {
	if n := cfg.Int("pipeline.max-parallelism"); n > 0 {
		return n
	}
	return job.DefaultMaxParallelism
}

// open opens the places of checkpoints and savepoints and takes the job's lock.
func (c *recovery) open(ctx context.Context) error {
	store, err := c.e.store(c.dir, c.given)
	if err != nil {
		return &keyError{checkpoint.KeyDir, err}
	}
	tells(store, c.warn)
	if c.o.SavepointDir != "" {
		if c.savedAt, err = c.e.store(c.o.SavepointDir, c.given); err != nil {
			return &keyError{checkpoint.KeySavepointDir, err}
		}
		tells(c.savedAt, c.warn)
	}
	if c.repo, err = checkpoint.OpenRepository(ctx, checkpoint.RepositoryOptions{Store: store, Job: c.job}); err != nil {
		return err
	}
	if l, ok := store.(*object.Local); ok {
		// Beside the checkpoints, so that files of the state can be linked into them.
		c.work = filepath.Join(l.String(), checkpoint.JobFolder(c.job), "work")
		if err := os.RemoveAll(c.work); err != nil {
			return err
		}
		return os.MkdirAll(c.work, 0o755)
	}
	c.tmp = true
	c.work, err = os.MkdirTemp(c.given["io.tmp.dirs"], "tidemark-")
	return err
}

// tells has a store whose server is away say so.
func tells(s object.Store, warn func(string)) {
	if t, ok := s.(interface{ Tell(func(string)) }); ok && warn != nil {
		t.Tell(warn)
	}
}

// keyError is what is wrong with the place that an option names.
type keyError struct {
	key string
	err error
}

func (e *keyError) Error() string { return fmt.Sprintf("'%s': %v", e.key, e.err) }
func (e *keyError) Unwrap() error { return e.err }

// store opens a place; relative folders are below the script's.
func (e *Engine) store(location string, given map[string]string) (object.Store, error) {
	return object.Open(e.location(location), given)
}

// location is a place with relative folders below the engine's.
func (e *Engine) location(place string) string {
	if strings.Contains(place, "://") {
		return place
	}
	return e.resolve(place)
}

// hold keeps the lock while the job runs; lost says that another process has it.
// hold keeps the job's lock until close. The context that it returns ends when the lock is lost before
// the job has begun: restoring and waiting for a system that is away may take longer than a lock lasts.
func (c *recovery) hold(ctx context.Context) context.Context {
	holding, cancel := context.WithCancel(context.Background())
	ctx, lost := context.WithCancelCause(ctx)
	c.lost = lost
	c.cancel = func() { cancel(); lost(nil) }
	go func() {
		if err := c.repo.Hold(holding); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lost(err)
		}
	}()
	return ctx
}

// begun says that the job runs: kill ends it when the lock is lost.
func (c *recovery) begun(kill func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = kill
}

func (c *recovery) close() error {
	if c.cancel != nil {
		c.cancel()
	}
	var errs []error
	if c.repo != nil {
		if c.work != "" {
			errs = append(errs, os.RemoveAll(c.work))
		}
		errs = append(errs, c.repo.Close())
	}
	return errors.Join(errs...)
}

// prepare says what a start of the job goes on from.
func (c *recovery) prepare(ctx context.Context) (*job.CheckpointOptions, error) {
	c.starts++
	if c.starts > 1 {
		// The files of the attempt before; it has ended.
		if err := os.RemoveAll(filepath.Join(c.work, fmt.Sprint(c.starts-1))); err != nil {
			return nil, err
		}
	}
	from, recover, err := c.from, c.recover, error(nil)
	if c.starts > 1 {
		if from, recover, err = c.again(ctx); err != nil {
			return nil, err
		}
	}
	o := &job.CheckpointOptions{Coordinator: c.o.Coordinator, Repo: c.repo, Job: c.job, Run: c.run, Lineage: c.lineage, From: from, Recover: recover,
		Fingerprints: c.prints, WorkDir: filepath.Join(c.work, fmt.Sprint(c.starts)), Program: version.String(),
		StoreMemory: c.o.StateMemory / 4, Savepoints: func(ctx context.Context, m *checkpoint.Manifest, paths map[string]string) (string, error) {
			path, _, err := c.repo.Savepoint(ctx, m, paths, c.savedAt)
			return path, err
		}}
	o.Resumed = checkpoint.Resumed{Last: c.repo.Last(), Completed: c.repo.IDs()}
	if from == nil {
		return o, nil
	}
	if c.report, err = c.match(from); err != nil {
		return nil, err
	}
	o.MixedBooks = !c.report.Same
	o.Operators, o.Nodes = map[int]*checkpoint.Operator{}, map[int]*plan.Node{}
	for node, m := range c.report.Taken() {
		o.Operators[node] = m
		o.Nodes[m.Node] = c.p.Nodes[node]
	}
	return o, nil
}

// begin finds the checkpoint that the first start goes on from, nil for none, and the one whose
// output may not have been committed.
func (c *recovery) begin(ctx context.Context) error {
	newest, damage, err := c.repo.Newest(ctx)
	if err != nil {
		return err
	}
	unsettled, err := c.repo.Unsettled(ctx, newest)
	if err != nil {
		return err
	}
	switch {
	case c.ro.Fresh:
		c.how = "starts afresh, as --fresh says"
		if newest != nil {
			c.how += fmt.Sprintf("; checkpoint %d is ignored", newest.ID)
		}
	case c.o.From != "":
		if c.snap, err = c.e.snapshot(ctx, c.o.From, c.given); err != nil {
			return err
		}
		c.repo.From(c.snap)
		c.from = c.snap.Manifest
		if err := c.overtaken(ctx, c.from); err != nil {
			return err
		}
		c.recover = leftover(c.from, newest)
		c.how = fmt.Sprintf("starts from %s of %s", c.snap.Location, when(c.from.Started)) + drained(c.from)
	case len(damage) > 0:
		return &connector.Fatal{Err: damage[0]}
	case newest == nil:
		c.how = "starts for the first time"
	case ended(newest, c.run):
		c.how = fmt.Sprintf("is not run again: it came to its end %s, in the run of the script that this one goes on with", when(newest.Started))
		c.recover, c.done = newest, true
		return nil
	case unsettled:
		c.how = fmt.Sprintf("is not run again: it came to its end %s and was ended before all of its output was committed, which is done now; "+
			"the next run starts afresh", when(newest.Started))
		c.recover, c.done = newest, true
		return nil
	case newest.Finished:
		c.how = fmt.Sprintf("starts afresh, as the last run came to its end %s", when(newest.Started))
		c.recover = newest
	default:
		if err := c.overtaken(ctx, newest); err != nil {
			return err
		}
		c.how = fmt.Sprintf("goes on from checkpoint %d of %s", newest.ID, when(newest.Started)) + drained(newest)
		c.lineage, c.from, c.recover = newest.Lineage, newest, newest
		return nil
	}
	c.lineage, err = c.repo.NewLineage(ctx)
	return err
}

// overtaken refuses to go on from m where output that was prepared with it met that of another run.
func (c *recovery) overtaken(ctx context.Context, m *checkpoint.Manifest) error {
	why, err := c.repo.Overtaken(ctx, m)
	if err == nil && why != "" {
		err = &connector.Fatal{Err: fmt.Errorf("job %s does not go on from checkpoint %d: %s", c.job, m.ID, why)}
	}
	return err
}

// leftover is the output up to m, a savepoint, that may not have been committed when the run that wrote it
// ended: newest is the job's newest checkpoint. nil: none, or later output was committed after it.
func leftover(m, newest *checkpoint.Manifest) *checkpoint.Manifest {
	switch {
	case newest == nil || newest.Lineage != m.Lineage || newest.ID < m.ID:
		return nil
	case newest.ID == m.ID:
		return m
	}
	out := *newest
	out.Sinks = nil
	for _, s := range newest.Sinks {
		s.Pending = slices.DeleteFunc(slices.Clone(s.Pending), func(p checkpoint.Pending) bool {
			return p.Lineage != m.Lineage || p.Checkpoint > m.ID
		})
		out.Sinks = append(out.Sinks, s)
	}
	return &out
}

// again is begin for a job that has failed: its newest checkpoint, or what it began with.
func (c *recovery) again(ctx context.Context) (from, recover *checkpoint.Manifest, err error) {
	newest, damage, err := c.repo.Newest(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case len(damage) > 0:
		return nil, nil, &connector.Fatal{Err: damage[0]} // it does not heal
	case newest != nil && newest.Lineage == c.lineage:
		return newest, newest, nil
	case c.snap != nil:
		return c.snap.Manifest, nil, nil
	}
	return nil, nil, nil
}

// drained says what it means to go on from where a job was drained; "" for others.
func drained(m *checkpoint.Manifest) string {
	if !m.Drained {
		return ""
	}
	return ", where it was drained: windows that were open then were emitted, and are emitted again with the rows that come for them now"
}

func when(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
