// Package engine turns SQL text into running jobs: it parses a script, executes its statements in
// a session, runs the jobs they make, and hands rows and news to a Handler.
//
// An Engine may be used from several goroutines; each Run has a session of its own.
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
	_ "github.com/tidemark-stream/tidemark/expr/fn" // the function library
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Options is how an engine runs SQL. The zero value is ready.
type Options struct {
	// Config holds settings as SET would make them; they stand before those of a script, and
	// Override after: a SET of the script does not change them.
	Config, Override map[string]string
	// Define replaces ${NAME} in scripts.
	Define map[string]string
	// Stdout and Stderr take what print sinks write (default: the process's).
	Stdout, Stderr connector.Printer
	// Dir is what relative paths start at (default: the working directory).
	Dir string
	// BatchRows is the number of rows of a full batch; results do not depend on it.
	BatchRows int
	// Now is the clock (default: the wall clock). Seed makes random functions and made-up rows
	// repeatable.
	Now  func() time.Time
	Seed uint64
	// Recovery says what jobs start from.
	Recovery RecoveryOptions
	// ReadRate is how many rows a second are read of each source; 0: as many as come.
	ReadRate int64
	// Only, if not nil, says which jobs of a script are run; the others are planned and left out.
	Only func(p *plan.Plan) bool
	// Dry has jobs give the rows of their sinks to Handler.Rows, and touch no target: no table is
	// opened for writing and no checkpoint is taken.
	Dry bool
	// NoDeadLetters has dead letters be counted, and not be written; so has Dry.
	NoDeadLetters bool
}

// Engine runs SQL.
type Engine struct {
	o Options
	// claim is asked before a job begins to write, where its checkpoints are at place; nil: nobody is.
	claim func(ctx context.Context, p *plan.Plan, place string) error
}

// New returns an engine.
func New(o Options) *Engine {
	if o.Stdout == nil {
		o.Stdout = &lockedFile{f: os.Stdout}
	}
	if o.Stderr == nil {
		o.Stderr = &lockedFile{f: os.Stderr}
	}
	return &Engine{o: o}
}

// lockedFile keeps the lines of several writers whole.
type lockedFile struct {
	mu sync.Mutex
	f  *os.File
}

func (l *lockedFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(p)
}

// Handler receives what a script produces. Calls for one statement do not overlap; those for
// jobs that run at the same time may. Every field may be nil.
type Handler struct {
	// Statement is told of each statement before it runs, and whether it is the script's last.
	Statement func(st ast.Statement, last bool)
	// Table takes the result of SHOW, DESCRIBE, EXPLAIN and the like.
	Table func(st ast.Statement, s types.Schema, rows [][]types.Value) error
	// Message takes the answer of statements without rows.
	Message func(st ast.Statement, msg string)
	// JobStarted is told of each job; the job may be watched and stopped.
	JobStarted func(j *Run)
	// Rows takes rows of a bare SELECT; b is valid during the call.
	Rows func(j *Run, b *vec.Batch) error
	// Sunk takes the rows that would go to the table of sink n where Options.Dry is set; b is valid during
	// the call.
	Sunk func(j *Run, n *plan.Node, b *vec.Batch) error
	// Results is shown the rows that go to tables of results, before they are visible there, from several
	// goroutines; b is valid during the call. After a restart of the job some come again.
	Results func(j *Run, t *connector.Table, b *vec.Batch)
	// JobEnded gets the closing account, also of a job that failed.
	JobEnded func(j *Run, r *job.Report, err error)
	// JobSkipped is told of a job that is not run, and why: it had come to its end in the run of the
	// script that this one goes on with.
	JobSkipped func(name, why string)
	// Warn takes messages that are not errors.
	Warn func(msg string)
}

// Run is one job of a script.
type Run struct {
	*job.Supervisor
	Plan      *plan.Plan
	Statement ast.Statement
	// Select has the schema, mode and upsert keys of a bare SELECT's rows; nil for jobs that
	// write tables.
	Select *plan.Node
	Config *catalog.Config
	// Bounded says that the job ends by itself.
	Bounded bool
	// Name is the job's name and Began how it began ("goes on from checkpoint 12 ..."), "" where it
	// takes no checkpoints. Restored says, operator by operator, what became of the state; nil
	// where there was none.
	Name, Began string
	Restored    *checkpoint.Report

	closed  func() error // gives the job's lock back
	explain func(error) error
}

// Script runs a script in a session of its own; see Session.Script.
func (e *Engine) Script(ctx context.Context, name, text string, h Handler) error {
	s, err := e.NewSession()
	if err != nil {
		return err
	}
	return s.Script(ctx, name, text, h)
}

// Session keeps tables, views and settings between scripts. Its methods must not be called at the
// same time.
type Session struct {
	e    *Engine
	s    *sql.Session
	past []ast.Statement // what was executed so far and changed the session
}

// NewSession returns a session with the engine's settings and nothing defined.
func (e *Engine) NewSession() (*Session, error) {
	s, err := e.session("", "", Handler{})
	return &Session{e: e, s: s}, err
}

// Script runs every statement of a script in order, until the last job has ended. A job whose
// sources are all bounded ends before the next statement starts; others go on while the following
// statements run. name is the script's file name for messages and the job's name. The error is a
// *ScriptError where the text is at fault.
func (s *Session) Script(ctx context.Context, name, text string, h Handler) error {
	src := &source{name: name, text: text}
	stmts, text, err := src.parse(s.e.o.Define)
	if err != nil {
		return src.error(err)
	}
	s.s.SetText(name, text)
	s.s.SetWarn(h.Warn)
	r := &scriptRun{e: s.e, h: h, session: s.s}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if several(stmts) && !s.e.o.Dry {
		if r.known, err = s.e.ahead(ctx, name, text, s.past, stmts, r.warn); err != nil {
			return src.error(err)
		}
	}
	for i, st := range stmts {
		if h.Statement != nil {
			h.Statement(st, i == len(stmts)-1)
		}
		if err = r.statement(ctx, cancel, i, st); err != nil {
			cancel(err)
			break
		}
		if changesSession(st) {
			s.past = append(s.past, st)
		}
	}
	if err == nil && slices.ContainsFunc(stmts, makesJob) && !s.e.o.Dry {
		for _, w := range s.s.Unheeded() {
			r.warn(w)
		}
	}
	r.wg.Wait()
	if err == nil {
		err = r.failed()
	}
	return src.error(err)
}

// scriptRun is a script being run.
type scriptRun struct {
	e       *Engine
	h       Handler
	session *sql.Session
	wg      sync.WaitGroup
	known   map[int]*scriptJob // of a script with several jobs, by statement: those that take checkpoints
	mu      sync.Mutex
	err     error
}

// several reports whether a script may have several jobs that take checkpoints.
func several(stmts []ast.Statement) bool {
	n := 0
	for _, st := range stmts {
		if makesJob(st) {
			n++
		}
	}
	return n > 1
}

func (r *scriptRun) warn(msg string) {
	if r.h.Warn != nil {
		r.h.Warn(msg)
	}
}

func (r *scriptRun) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (e *Engine) session(name, text string, h Handler) (*sql.Session, error) {
	s := sql.NewSession(sql.SessionOptions{File: name, Text: text, Now: e.o.Now, Seed: e.o.Seed, Warn: h.Warn})
	for k, v := range e.o.Config {
		if err := s.Config().Set(k, v); err != nil {
			return nil, err
		}
	}
	return s, e.fix(s)
}

// overridden reports whether st is a SET or RESET of a key that the caller has fixed.
func (e *Engine) overridden(st ast.Statement) bool {
	var key string
	switch st := st.(type) {
	case *ast.Set:
		key = st.Key
	case *ast.Reset:
		key = st.Key
	}
	_, fixed := e.o.Override[key]
	return fixed
}

// fix sets the keys that the caller has fixed, at the start and again after a bare RESET.
func (e *Engine) fix(s *sql.Session) error {
	for k, v := range e.o.Override {
		if err := s.Config().Set(k, v); err != nil {
			return err
		}
	}
	return nil
}

// fixAfter is fix where st may have changed what the caller has fixed.
func (e *Engine) fixAfter(s *sql.Session, st ast.Statement) error {
	if _, ok := st.(*ast.Reset); ok {
		return e.fix(s)
	}
	return nil
}

func (r *scriptRun) statement(ctx context.Context, cancel context.CancelCauseFunc, at int, st ast.Statement) error {
	if r.e.overridden(st) {
		return nil
	}
	res, err := r.session.Execute(st)
	if err == nil {
		err = r.e.fixAfter(r.session, st)
	}
	if err != nil {
		return err
	}
	switch {
	case res.Plan != nil && r.e.o.Only != nil && !r.e.o.Only(res.Plan):
		return nil
	case res.Plan != nil:
		if r.e.o.Dry {
			dry(res.Plan)
		} else if err = r.e.startable(r.session, at, res); err != nil {
			return err
		}
		return r.job(ctx, cancel, at, st, res.Plan)
	case res.Schema.Len() > 0:
		if r.h.Table != nil {
			return r.h.Table(st, res.Schema, res.Rows)
		}
	case r.h.Message != nil:
		r.h.Message(st, res.Message)
	}
	return nil
}

// job starts a job and, if it ends by itself, waits for it.
func (r *scriptRun) job(ctx context.Context, cancel context.CancelCauseFunc, at int, st ast.Statement, p *plan.Plan) error {
	cfg := r.session.Config()
	run := &Run{Plan: p, Statement: st, Config: cfg}
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok && s.Collect && !r.e.o.Dry {
			run.Select = &plan.Node{Schema: n.Schema, Mode: p.Nodes[n.Inputs[0].From].Mode,
				UpsertKeys: p.Nodes[n.Inputs[0].From].UpsertKeys}
		}
	}
	o := r.e.jobOptions(r.session, cfg, r.h)
	started := make(chan struct{})
	o.Collect = func(n *plan.Node, b *vec.Batch) error {
		<-started
		if r.e.o.Dry && r.h.Sunk != nil {
			return r.h.Sunk(run, n, b)
		}
		if r.h.Rows == nil || r.e.o.Dry {
			return nil
		}
		return r.h.Rows(run, b)
	}
	var restart *checkpoint.Restart
	var prepare func(context.Context) (*job.CheckpointOptions, error)
	if r.h.Results != nil {
		o.Results = func(n *plan.Node, b *vec.Batch) {
			<-started
			r.h.Results(run, n.Op.(*plan.Sink).Table, b)
		}
	}
	var rec *recovery
	var err error
	if o.Expected, err = r.e.expected(ctx, r.session, p, r.h); err != nil {
		return err
	}
	if !r.e.o.Dry {
		rec, err = r.recovery(ctx, at, p, cfg)
	}
	if err == nil && rec != nil {
		ctx = rec.hold(ctx)
	}
	if rec != nil && rec.done {
		return r.skip(ctx, rec, o)
	}
	if err == nil && rec != nil {
		err = rec.fit(func() (*plan.Plan, error) { return r.twoPhases(st) })
		p, run.Plan = rec.p, rec.p
		if err == nil {
			err = freshGeneration(ctx, p, rec, cfg)
		}
		prepare, restart = rec.prepare, checkpoint.NewRestart(rec.o.Restart)
		o.StateMemory = rec.o.StateMemory
	}
	if err == nil && rec == nil && !r.e.o.Dry {
		err = freshGeneration(ctx, p, nil, cfg)
	}
	switch {
	case err != nil:
	case r.e.claim != nil:
		err = r.e.claim(ctx, p, rec.place())
	case !r.e.o.Dry:
		err = claimGenerations(ctx, p, rec, cfg)
	}
	if _, set := cfg.All()[checkpoint.KeyStateMemory]; err == nil && rec == nil && set {
		// Without checkpoints state still may be larger than memory.
		var dir string
		if dir, err = os.MkdirTemp(cfg.All()["io.tmp.dirs"], "tidemark-"); err == nil {
			run.closed = func() error { return os.RemoveAll(dir) }
			o.StateMemory = cfg.Size(checkpoint.KeyStateMemory)
			prepare = func(context.Context) (*job.CheckpointOptions, error) {
				return &job.CheckpointOptions{WorkDir: dir, StoreMemory: o.StateMemory / 4}, nil
			}
		}
	}
	var j *job.Supervisor
	if err == nil {
		if j, err = job.Supervise(ctx, p, o, restart, prepare); errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // such as a lock that was lost
		}
	}
	if err != nil {
		close(started)
		if rec != nil {
			run.closed = rec.close
		}
		err = rec.explain(err)
		if run.closed != nil {
			err = errors.Join(err, run.closed())
		}
		return err
	}
	run.Supervisor, run.Bounded = j, j.Bounded()
	if rec != nil {
		run.Name, run.Began, run.Restored = rec.job, rec.how, rec.report
		run.closed, run.explain = rec.close, rec.explain
		rec.begun(j.Kill)
	}
	if r.h.JobStarted != nil {
		r.h.JobStarted(run)
	}
	close(started)
	if run.Bounded {
		return r.wait(run)
	}
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		if err := r.wait(run); err != nil {
			r.mu.Lock()
			if r.err == nil {
				r.err = err
			}
			r.mu.Unlock()
			cancel(err)
		}
	}()
	return nil
}

// dry has the sinks of a plan give their rows to the caller.
func dry(p *plan.Plan) {
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok {
			s.Collect = true
		}
	}
}

// twoPhases plans a statement again, with aggregations in two phases wherever that is possible.
func (r *scriptRun) twoPhases(st ast.Statement) (*plan.Plan, error) {
	const key = "table.optimizer.agg-phase-strategy"
	cfg := r.session.Config()
	was, set := cfg.All()[key]
	if err := cfg.Set(key, "TWO_PHASE"); err != nil {
		return nil, err
	}
	defer func() {
		cfg.Reset(key)
		if set {
			_ = cfg.Set(key, was) // it was set before
		}
	}()
	res, err := r.session.Execute(st)
	if err != nil {
		return nil, err
	}
	return res.Plan, nil
}

func (r *scriptRun) wait(run *Run) error {
	report, err := run.Wait()
	if run.explain != nil {
		err = run.explain(err)
	}
	if run.closed != nil {
		if e := run.closed(); err == nil {
			err = e
		}
	}
	if r.h.JobEnded != nil {
		r.h.JobEnded(run, report, err)
	}
	return err
}

// jobOptions reads the session's configuration.
func (e *Engine) jobOptions(s *sql.Session, cfg *catalog.Config, h Handler) job.Options {
	o := job.Options{Env: cfg.Env(), Stdout: e.o.Stdout, Stderr: e.o.Stderr, BatchRows: e.o.BatchRows,
		Resolve: e.resolve, Seed: e.o.Seed, Warn: h.Warn,
		Parallelism:       int(cfg.Int("parallelism.default")),
		MaxParallelism:    int(cfg.Int("pipeline.max-parallelism")),
		IdleTimeout:       30 * time.Second,
		WatermarkInterval: cfg.Duration("pipeline.auto-watermark-interval"),
	}
	if _, set := cfg.All()["table.exec.source.idle-timeout"]; set {
		if o.IdleTimeout = cfg.Duration("table.exec.source.idle-timeout"); o.IdleTimeout == 0 {
			o.IdleTimeout = -1
		}
	}
	o.EpochInterval = cfg.Duration("tidemark.epoch.interval")
	o.ReadRate, o.NoDeadLetters = e.o.ReadRate, e.o.Dry || e.o.NoDeadLetters
	o.DeadLetterSink = func(name string) (connector.Sink, types.Schema, error) {
		return e.deadLetterSink(s, name)
	}
	return o
}

// deadLetterTable finds the table that a 'dead-letter.table' names.
func (e *Engine) deadLetterTable(s *sql.Session, name string) (*connector.Table, types.Schema, *connector.Factory, error) {
	fail := func(format string, args ...any) (*connector.Table, types.Schema, *connector.Factory, error) {
		return nil, types.Schema{}, nil, fmt.Errorf(format, args...)
	}
	t, ok := s.Catalog().Lookup(strings.Split(name, ".")).(*catalog.Table)
	if !ok {
		return fail("there is no table '%s'", name)
	}
	spec := t.Spec(nil)
	schema := spec.Schema()
	for _, f := range schema.Fields {
		i := job.DeadLetterColumns.Index(f.Name)
		if i < 0 {
			return fail("column '%s' of dead-letter table '%s' is none of %s", f.Name, name,
				strings.Join(job.DeadLetterColumns.Names(), ", "))
		}
		want := job.DeadLetterColumns.Fields[i].Type
		if f.Type.Phys() != want.Phys() {
			return fail("column '%s' of dead-letter table '%s' must be %s, not %s", f.Name, name, want, f.Type)
		}
	}
	f := connector.Lookup(spec.Connector)
	if f == nil || f.NewSink == nil {
		return fail("table '%s' cannot be written", name)
	}
	if more := f.Inherited(spec.Options, s.Config().All()); more != nil {
		spec = t.Spec(more)
	}
	return spec, schema, f, nil
}

// deadLetterSink opens the table that a 'dead-letter.table' names.
func (e *Engine) deadLetterSink(s *sql.Session, name string) (connector.Sink, types.Schema, error) {
	spec, schema, f, err := e.deadLetterTable(s, name)
	if err != nil {
		return nil, schema, err
	}
	sink, err := f.NewSink(connector.SinkConfig{Table: spec, Schema: schema, Mode: types.InsertOnly,
		Options: option.Of(spec.Options, f.Options, connector.CommonOptions), Resolve: e.resolve,
		Stdout: e.o.Stdout, Stderr: e.o.Stderr,
		Bad: func(b format.BadRecord) error { return fmt.Errorf("dead-letter table '%s': %w", name, b.Err) }})
	return sink, schema, err
}

func (e *Engine) resolve(p string) string {
	if filepath.IsAbs(p) || e.o.Dir == "" {
		return p
	}
	return filepath.Join(e.o.Dir, p)
}
