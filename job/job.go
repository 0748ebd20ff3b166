// Package job runs a plan: it arranges operators into subtasks, one goroutine each, connects them
// by exchanges, reads sources, and ends cleanly.
//
// Nodes whose rows need not move form a task, chained in one goroutine by plain calls; with
// parallelism 1 that is the whole job. Tasks are connected by channels that are bounded in bytes.
// The goroutines: one a subtask, one an enumerator of an unbounded source, one coordinator of
// epochs. The first error ends all of them.
package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// DefaultMaxParallelism is the number of key groups where pipeline.max-parallelism is not set.
const DefaultMaxParallelism = 128

// Options is how a plan is run. The zero value of a field means its default.
type Options struct {
	Env *expr.Env
	// Parallelism is the number of subtasks of a task (default 1), MaxParallelism the number of
	// key groups (default 128).
	Parallelism, MaxParallelism int
	// BatchRows is the number of rows of a full batch (default vec.BatchRows).
	BatchRows int
	// Collect takes the rows of a bare SELECT. Calls do not overlap; b is valid during the call.
	Collect func(node *plan.Node, b *vec.Batch) error
	// Results, if not nil, is shown the rows that go to tables of results, from several goroutines; b is
	// valid during the call. A start anew from a checkpoint shows some again.
	Results        func(node *plan.Node, b *vec.Batch)
	Stdout, Stderr connector.Printer
	// Resolve makes paths of the SQL text absolute (default: as they are).
	Resolve func(string) string
	// IdleTimeout is table.exec.source.idle-timeout; negative: splits never become idle.
	IdleTimeout time.Duration
	// WatermarkInterval is pipeline.auto-watermark-interval, for tables whose watermark is shown
	// periodically; 0 shows it with every row.
	WatermarkInterval time.Duration
	// EpochInterval is how often output is made visible and source positions are committed
	// while the job runs (default 10 s).
	EpochInterval time.Duration
	// Expected is what must have been reported for a window, by table of results.
	Expected map[string]*Expected
	// ReadRate is how many rows a second are read of each source; 0: as many as come.
	ReadRate int64
	// Until, if not nil, has the job read up to a checkpoint and then stand still: see there.
	Until *Until
	// Trace, if not nil, follows records: see there.
	Trace *Trace
	// NoDeadLetters has records and rows that would go to a dead-letter output be counted, and not be written.
	NoDeadLetters bool
	// DeadLetterSink opens the table that 'dead-letter.table' names.
	DeadLetterSink func(table string) (connector.Sink, types.Schema, error)
	Seed           uint64
	// Checkpoints says where checkpoints go; nil: none are taken. One without a Repo only has a
	// WorkDir for state that is larger than StateMemory.
	Checkpoints *CheckpointOptions
	// StateMemory is how much memory state may take before it goes to disk, where there are
	// Checkpoints; 0: no bound.
	StateMemory int64
	// Warn takes messages for the user that are not errors.
	Warn func(msg string)

	refused func() // is told that a stop has failed and the job goes on; nil: nobody
}

func (o *Options) setDefaults() {
	if o.Parallelism <= 0 {
		o.Parallelism = 1
	}
	if o.MaxParallelism <= 0 {
		o.MaxParallelism = DefaultMaxParallelism
	}
	if o.BatchRows <= 0 {
		o.BatchRows = vec.BatchRows
	}
	if o.Resolve == nil {
		o.Resolve = func(p string) string { return p }
	}
	if o.EpochInterval <= 0 {
		o.EpochInterval = 10 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Second
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Env == nil {
		o.Env = &expr.Env{Zone: time.UTC}
	}
}

// errStopped is the cause of a clean stop before the input ended.
var errStopped = errors.New("job stopped")

// Job is a running plan.
type Job struct {
	p       *plan.Plan
	o       Options
	ctx     context.Context
	cancel  context.CancelCauseFunc
	tasks   []*task
	sources map[int]*sourceShared
	sinks   map[int]*sinkShared
	dead    *deadLetters
	books   [][]*op.Counters // by node, then subtask
	wg      sync.WaitGroup
	start   time.Time
	stop    chan struct{}
	stopped sync.Once
	epochs  *epochs
	done    chan struct{}
	report  *Report
	err     error
	collect sync.Mutex
	// committing is held while prepared output is made visible: epochs and the end of the job
	// both do so.
	committing sync.Mutex
	commits    int64 // guarded by committing

	checkpoints *checkpoints // nil: none are taken
	cutter      cutter
	cutting     atomic.Pointer[cut] // what subtasks are to take part in
	driver      *driver
	budget      *state.Budget // nil: memory for state has no bound
	pausing     atomic.Bool   // sources do not read, for the sake of a savepoint
	endOfTime   atomic.Bool   // sources end where they are: a drain has begun
	missed      missed
	stood       chan struct{} // closed when the job stands still as Options.Until says, or will not any more
	still       *Still
	stillErr    error
}

// sinkShared is what the subtasks of one sink share.
type sinkShared struct {
	node      *plan.Node
	sink      connector.Sink // nil: collect
	committer connector.Committer
	mu        sync.Mutex
	prepared  []preparedOutput      // not committed yet, in order
	pending   []pendingOutput       // of checkpoints: not committed yet, in order
	after     int64                 // the last checkpoint of the job's lineage that this start has committed here; 0: none
	digest    checkpoint.SinkDigest // of the rows before this start
	// feeds are the nodes that feed a table of results, by id; nil for other tables. latest is its newest
	// progress, shown the newest that is visible.
	feeds         map[int]bool
	latest, shown *connector.Progress
	producers     *completeness // who has reported; nil: nobody is expected
}

// preparedOutput is output of one subtask of a sink up to a cut, or to a marker of an epoch.
type preparedOutput struct {
	cut int64
	cs  []connector.Committable
}

// pendingOutput is the output of a sink up to a checkpoint.
type pendingOutput struct {
	id       connector.CommitID
	cs       []connector.Committable
	progress *connector.Progress // of a table of results, else nil
}

// take removes what was prepared up to a cut and returns it.
func (s *sinkShared) take(cut int64) (cs []connector.Committable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.prepared[:0]
	for _, p := range s.prepared {
		if p.cut <= cut {
			cs = append(cs, p.cs...)
		} else {
			kept = append(kept, p)
		}
	}
	s.prepared = kept
	return cs
}

// Start begins to run p. Wait must be called.
func Start(ctx context.Context, p *plan.Plan, o Options) (*Job, error) {
	o.setDefaults()
	j := newJob(ctx, p, o)
	var err error
	if o.Checkpoints != nil {
		if o.StateMemory > 0 {
			j.budget = state.NewBudget(o.StateMemory)
		}
		j.checkpoints, err = newCheckpoints(j, *o.Checkpoints)
	}
	if err == nil {
		err = j.open()
	}
	if err != nil {
		j.cancel(err)
		j.closeAll()
		return nil, err
	}
	j.run()
	return j, nil
}

func newJob(ctx context.Context, p *plan.Plan, o Options) *Job {
	j := &Job{p: p, o: o, start: time.Now(), stop: make(chan struct{}), done: make(chan struct{}), stood: make(chan struct{}),
		sources: map[int]*sourceShared{}, sinks: map[int]*sinkShared{}}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	j.dead = newDeadLetters(j)
	return j
}

// open makes sources, sinks and subtasks, and finds the first splits.
func (j *Job) open() error {
	j.books = make([][]*op.Counters, len(j.p.Nodes))
	if err := j.openSources(); err != nil {
		return err
	}
	if err := j.openSinks(); err != nil {
		return err
	}
	if err := j.build(); err != nil {
		return err
	}
	c := j.checkpoints
	if c == nil {
		return nil
	}
	if c.o.Repo == nil {
		return nil
	}
	c.restoreDigests()
	if j.o.Until == nil {
		j.driver = newDriver(j)
	}
	if c.o.Recover != nil {
		if err := j.recoverSinks(j.ctx); err != nil {
			return err
		}
	}
	if c.o.From == nil {
		return nil
	}
	return j.restoreAll()
}

func (j *Job) openSinks() error {
	for _, n := range j.p.Nodes {
		s, ok := n.Op.(*plan.Sink)
		if !ok {
			continue
		}
		sh := &sinkShared{node: n}
		j.sinks[n.ID] = sh
		if s.Collect {
			continue
		}
		if s.Table.Results != nil {
			sh.feeds = j.upstream(n)
			if e := j.o.Expected[s.Table.Name]; e != nil {
				var err error
				if sh.producers, err = newCompleteness(n, s.Table, e); err != nil {
					return err
				}
			}
		}
		in := j.p.Nodes[n.Inputs[0].From]
		sink, err := openSink(s.Table, connector.SinkConfig{Schema: n.Schema, Mode: in.Mode,
			Batch: j.p.Batch, Overwrite: s.Overwrite, StaticPartition: s.StaticPartition,
			Segments: j.sealed(), Job: j.jobName(), Node: j.sinkName(n),
			Resolve: j.o.Resolve, Stdout: j.o.Stdout, Stderr: j.o.Stderr, Bad: j.dead.record(s.Table, nil)})
		if err != nil {
			return err
		}
		sh.sink = sink
		if sh.committer, err = sink.NewCommitter(j.ctx); err != nil {
			return fmt.Errorf("open table %s: %w", s.Table.Name, err)
		}
	}
	return nil
}

// sealed is where exactly-once sinks seal their output.
func (j *Job) sealed() connector.Segments {
	if j.checkpoints == nil || j.checkpoints.o.Repo == nil {
		return nil
	}
	return j.checkpoints.segments
}

func (j *Job) jobName() string {
	if j.sealed() == nil {
		return j.p.Name
	}
	return j.checkpoints.o.Job
}

// sinkName tells a sink from the others of the job, also in later runs: by its table, and by its
// number among those of that table.
func (j *Job) sinkName(n *plan.Node) string {
	name, count := n.Op.(*plan.Sink).Table.Name, 0
	for _, o := range j.p.Nodes[:n.ID] {
		if s, ok := o.Op.(*plan.Sink); ok && !s.Collect && s.Table.Name == name {
			count++
		}
	}
	if count > 0 {
		return fmt.Sprintf("%s#%d", name, count+1)
	}
	return name
}

// run starts the goroutines.
func (j *Job) run() {
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			j.wg.Add(1)
			j.cutter.joins(s)
			go func() {
				defer j.wg.Done()
				if err := s.run(); err != nil {
					j.cancel(err)
				}
				s.exited()
			}()
		}
	}
	stopEpochs := make(chan struct{})
	var side, keep sync.WaitGroup
	if c := j.checkpoints; c != nil {
		keep.Add(1)
		go func() {
			defer keep.Done()
			j.guard(func() {
				if err := c.changes.run(); err != nil {
					j.cancel(err)
				}
			})
		}()
	}
	side.Add(1)
	go func() {
		defer side.Done()
		j.guard(func() {
			switch {
			case j.driver != nil:
				j.driver.run()
			case j.o.Until != nil:
				j.standStill()
			default:
				j.epochs.run(stopEpochs)
			}
		})
	}()
	for _, s := range j.sources {
		if !s.discovered && j.o.Until == nil {
			side.Add(1)
			go func() { defer side.Done(); j.guard(func() { j.discover(s) }) }()
		}
	}
	go func() {
		<-j.ctx.Done()
		if j.checkpoints != nil {
			j.checkpoints.changes.rush(true)
		}
		for _, t := range j.tasks {
			for _, s := range t.subtasks {
				s.in.close()
			}
		}
	}()
	go func() {
		j.wg.Wait()
		if j.o.Until != nil {
			<-j.stood
		}
		close(stopEpochs)
		err := context.Cause(j.ctx)
		if err == nil && j.driver != nil {
			// The last checkpoint, and what it commits.
			close(j.driver.ended)
			<-j.driver.over
			if err = context.Cause(j.ctx); errors.Is(err, errStopped) && !j.stoppedByUser() {
				err = nil
			}
		} else if err == nil {
			j.guard(func() { err = j.commit(context.WithoutCancel(j.ctx)) })
		}
		if err == nil {
			j.guard(func() { err = j.finishSinks(context.WithoutCancel(j.ctx)) })
		}
		if err == nil && j.driver == nil {
			err = context.Cause(j.ctx)
		}
		j.cancel(errStopped)
		side.Wait()
		if j.checkpoints != nil {
			j.checkpoints.changes.close()
			keep.Wait()
		}
		j.finish(err)
	}()
}

// guard runs f; a panic, which is a bug here or in a connector, ends the job and not the process.
func (j *Job) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			j.cancel(fmt.Errorf("BUG: %v\n%s", p, debug.Stack()))
		}
	}()
	f()
}

// finish makes output visible, or removes it, and closes everything.
func (j *Job) finish(err error) {
	defer close(j.done)
	defer func() {
		if p := recover(); p != nil {
			j.err = fmt.Errorf("BUG: %v\n%s", p, debug.Stack())
		}
	}()
	stopped := errors.Is(err, errStopped)
	ctx := context.WithoutCancel(j.ctx)
	switch {
	case stopped && j.driver != nil:
		err = nil
	case stopped:
		err = j.commit(ctx)
	case err == nil && j.o.Until == nil:
		j.commitEnds(ctx)
	}
	// With checkpoints one of them may hold it.
	if err != nil && j.driver == nil {
		for _, s := range j.sinks {
			cs := s.take(math.MaxInt64)
			for _, p := range s.pending {
				cs = append(cs, p.cs...)
			}
			if s.committer != nil && len(cs) > 0 {
				if e := s.committer.Abort(ctx, cs); e != nil {
					j.o.Warn("abort: " + e.Error())
				}
			}
		}
	}
	if e := j.closeAll(); err == nil {
		err = e
	}
	j.err = err
	j.report = j.account(stopped)
}

// commitEnds tells the outside world that the input was read to its end.
func (j *Job) commitEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, s := range j.sources {
		for _, r := range s.runs {
			if err := r.reader.Commit(ctx, r.positions()); err != nil {
				j.o.Warn("positions were not committed: " + err.Error())
			}
		}
	}
}

func (j *Job) closeAll() error {
	var errs []error
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			errs = append(errs, s.close())
		}
	}
	for _, s := range j.sinks {
		if s.committer != nil {
			errs = append(errs, s.committer.Close())
		}
	}
	for _, s := range j.sources {
		if s.enum != nil {
			errs = append(errs, s.enum.Close())
		}
	}
	errs = append(errs, j.dead.close())
	if j.checkpoints != nil && j.checkpoints.store != nil {
		errs = append(errs, j.checkpoints.store.Close())
	}
	return errors.Join(errs...)
}

// commit makes prepared output visible.
func (j *Job) commit(ctx context.Context) error {
	j.committing.Lock()
	defer j.committing.Unlock()
	j.commits++
	j.pend(connector.CommitID{Checkpoint: j.commits}, math.MaxInt64, nil)
	return j.commitAll(ctx, math.MaxInt64)
}

// committingSinks lists the sinks that commit, in the order of the plan.
func (j *Job) committingSinks() (out []*sinkShared) {
	for _, n := range j.p.Nodes {
		if s := j.sinks[n.ID]; s != nil && s.committer != nil {
			out = append(out, s)
		}
	}
	return out
}

// pend makes what the sinks have prepared up to a cut the output of commit id.
// c is the cut whose progress goes with it, or nil.
func (j *Job) pend(id connector.CommitID, cut int64, c *cut) {
	for _, s := range j.committingSinks() {
		cs := s.take(cut)
		var p *connector.Progress
		if c != nil && s.feeds != nil {
			p = j.progress(s, c, id)
		}
		if len(cs) == 0 && p == nil {
			continue
		}
		s.mu.Lock()
		s.pending = append(s.pending, pendingOutput{id, cs, p})
		if p != nil {
			s.latest = p
		}
		s.mu.Unlock()
	}
	if c != nil {
		j.missed.told()
	}
}

// commitAll commits the output of all sinks up to checkpoint upTo.
func (j *Job) commitAll(ctx context.Context, upTo int64) error {
	for _, s := range j.committingSinks() {
		if err := j.commitPending(ctx, s, upTo); err != nil {
			return err
		}
	}
	return nil
}

// commitPending commits the output of a sink up to checkpoint upTo, the oldest first.
func (j *Job) commitPending(ctx context.Context, s *sinkShared, upTo int64) error {
	for {
		s.mu.Lock()
		if len(s.pending) == 0 || s.pending[0].id.Checkpoint > upTo {
			s.mu.Unlock()
			return nil
		}
		own := j.checkpoints != nil && s.pending[0].id.Lineage != "" && s.pending[0].id.Lineage == j.checkpoints.o.Lineage
		p := s.pending[0]
		if own { // of another lineage the run that went on may have committed more
			p.id.After = max(p.id.After, s.after, j.committedBefore())
			s.pending[0].id.After = max(p.id.After, p.id.Checkpoint) // from now on it may be in the target
		}
		s.mu.Unlock()
		if err := s.commit(ctx, p); err != nil {
			return j.overtaken(ctx, fmt.Errorf("commit to table %s: %w", s.node.Op.(*plan.Sink).Table.Name, err))
		}
		killpoint.Pass("commit/untold")
		s.mu.Lock()
		s.pending = s.pending[1:]
		if own {
			s.after = max(s.after, p.id.Checkpoint)
		}
		if p.progress != nil {
			s.shown = p.progress
		}
		s.mu.Unlock()
		if j.driver != nil {
			j.checkpoints.segments.committed(p.cs)
		}
	}
}

// committedBefore is the last checkpoint of the job's lineage that may have been committed before this start. In a lineage
// that this start has opened it is 1, as another run can have the second one from a copy, and 0 says nothing.
func (j *Job) committedBefore() int64 {
	if o := j.checkpoints.o; o.From != nil && o.From.Lineage == o.Lineage {
		return o.From.ID
	}
	return 1
}

// overtaken notes beside the checkpoints when a commit found another run of the lineage: the next start must not take
// what was prepared here for a repeat.
func (j *Job) overtaken(ctx context.Context, err error) error {
	var o *connector.Overtaken
	if !errors.As(err, &o) || j.checkpoints == nil {
		return err
	}
	if r, ok := j.checkpoints.o.Repo.(overtaker); ok {
		return errors.Join(err, r.Overtake(context.WithoutCancel(ctx), o.ID.Lineage, o.ID.Checkpoint, err.Error()))
	}
	return err
}

// finishSinks tells the sinks of a job that ended by itself that nothing more will be committed.
func (j *Job) finishSinks(ctx context.Context) error {
	for _, s := range j.sinks {
		if f, ok := s.committer.(connector.Finisher); ok {
			if err := f.Finish(ctx); err != nil {
				return fmt.Errorf("finish table %s: %w", s.node.Op.(*plan.Sink).Table.Name, err)
			}
		}
	}
	return nil
}

// Wait returns when the job has ended. The report is there also when it failed.
func (j *Job) Wait() (*Report, error) {
	<-j.done
	return j.report, j.err
}

// Done is closed when the job has ended.
func (j *Job) Done() <-chan struct{} { return j.done }

// Stop ends the job cleanly before its input does: nothing more is read, what the sinks have is
// made visible. Windows that are still open are dropped with the job's state.
//
// Where checkpoints are taken a last one is, as a savepoint, and the next start goes on from there.
// If that fails, which is said by Warn, the job goes on and may be stopped again.
func (j *Job) Stop() {
	if j.driver != nil {
		j.driver.ask(checkpoint.Stop)
		return
	}
	j.stopped.Do(func() { close(j.stop) })
}

// Drain is Stop after the end of time was sent through the job: what is open is emitted.
func (j *Job) Drain() {
	if j.driver != nil {
		j.driver.ask(checkpoint.Drain)
		return
	}
	j.endOfTime.Store(true)
}

func (j *Job) stoppedByUser() bool {
	select {
	case <-j.stop:
		return true
	default:
		return false
	}
}

// Kill ends the job at once, as a failure would.
func (j *Job) Kill(why error) { j.cancel(why) }

// collectRows serialises the rows of a bare SELECT.
func (j *Job) collectRows(n *plan.Node) func(*vec.Batch) error {
	return func(b *vec.Batch) error {
		j.collect.Lock()
		defer j.collect.Unlock()
		if j.o.Collect == nil {
			return nil
		}
		return j.o.Collect(n, b)
	}
}
