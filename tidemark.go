// Package tidemark embeds the stream processor in a Go program: it runs Flink's SQL over files,
// Kafka and sources of your own, and hands the results to Go code as typed rows or Arrow batches.
//
//	e, err := tidemark.Open(tidemark.Options{})
//	err = e.Exec(ctx, "CREATE TABLE ...")
//	rows, err := e.Query(ctx, "SELECT ...")
//	for rows.Next() {
//		err = rows.Scan(&name, &count)
//	}
//	err = rows.Close()
//
// Connectors and formats are added with connector.Register and format.Register; the packages
// connector and format hold their contracts.
package tidemark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Options is how an engine runs. The zero value is ready.
type Options struct {
	// Parallelism is the number of subtasks of each task (default 1). SET in a script does not
	// change a parallelism given here.
	Parallelism int
	// Config holds settings as SET would make them, before any script.
	Config map[string]string
	// Define replaces ${NAME} in scripts.
	Define map[string]string
	// Dir is what relative paths start at (default: the working directory).
	Dir string
	// Stdout and Stderr take what print sinks write (default: the process's).
	Stdout, Stderr io.Writer
	// Now is the clock (default: the wall clock). Seed makes random functions and made-up rows
	// repeatable.
	Now  func() time.Time
	Seed uint64
}

// Engine runs SQL in one session: what a script defines or sets is there for the next. Its methods
// may be called from several goroutines; scripts wait for one another.
type Engine struct {
	free chan struct{} // holds a token while no script runs
	s    *engine.Session
}

// begin waits until no other script runs.
func (e *Engine) begin(ctx context.Context) error {
	select {
	case <-e.free:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another script or query of this engine is still running: %w", ctx.Err())
	}
}

func (e *Engine) end() { e.free <- struct{}{} }

// RowKind says what a row does to the result: the kinds are Insert, UpdateBefore, UpdateAfter and
// Delete.
type RowKind = types.RowKind

// The kinds of rows, Flink's +I, -U, +U and -D.
const (
	Insert       = types.Insert
	UpdateBefore = types.UpdateBefore
	UpdateAfter  = types.UpdateAfter
	Delete       = types.Delete
)

// Schema is the columns of a result.
type Schema = types.Schema

// Report is the closing account of a job: rows read and written, late, dropped and refused, by
// operator.
type Report = job.Report

// Open returns an engine.
func Open(o Options) (*Engine, error) {
	eo := engine.Options{Config: o.Config, Define: o.Define, Dir: o.Dir, Now: o.Now, Seed: o.Seed, Override: map[string]string{}}
	if o.Parallelism < 0 {
		return nil, fmt.Errorf("parallelism %d is negative", o.Parallelism)
	}
	if o.Parallelism > 0 {
		eo.Override["parallelism.default"] = strconv.Itoa(o.Parallelism)
	}
	if o.Stdout != nil {
		eo.Stdout = &locked{w: o.Stdout}
	}
	if o.Stderr != nil {
		eo.Stderr = &locked{w: o.Stderr}
	}
	s, err := engine.New(eo).NewSession()
	if err != nil {
		return nil, err
	}
	e := &Engine{s: s, free: make(chan struct{}, 1)}
	e.end()
	return e, nil
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Exec runs every statement of a script and returns when its jobs have ended, with their reports
// in the order in which they ended. Rows of a bare SELECT are dropped; see Query. Cancelling ctx
// ends the jobs with its error.
func (e *Engine) Exec(ctx context.Context, script string) ([]*Report, error) {
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	defer e.end()
	var mu sync.Mutex
	var reports []*Report
	err := e.s.Script(ctx, "script", script, engine.Handler{JobEnded: func(_ *engine.Run, r *job.Report, _ error) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, r)
	}})
	return reports, err
}

// Query runs a script whose last statement is a SELECT (or SHOW, DESCRIBE, EXPLAIN) and returns its
// rows as they come; rows of statements before it are dropped. The rows must be closed. While they
// are open, other scripts of the engine wait: a query that another one's rows are to start needs
// an engine of its own.
func (e *Engine) Query(ctx context.Context, script string) (*Rows, error) {
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Rows{batches: make(chan *vec.Batch, 4), started: make(chan struct{}), cancel: cancel}
	go func() {
		defer e.end()
		r.finish(e.s.Script(ctx, "query", script, r.handler(ctx)))
	}()
	<-r.started
	if r.schema.Len() == 0 {
		for range r.batches {
		}
		if r.err == nil {
			r.err = errors.New("the script does not end with a query; run it with Exec")
		}
		return nil, r.err
	}
	return r, nil
}

// handler takes what the last statement gives.
func (r *Rows) handler(ctx context.Context) engine.Handler {
	return engine.Handler{
		Statement: func(_ ast.Statement, last bool) { r.last = last },
		JobStarted: func(j *engine.Run) {
			if r.last && j.Select != nil {
				r.job = j
				r.start(j.Select.Schema)
			}
		},
		Rows: func(j *engine.Run, b *vec.Batch) error {
			if j != r.job {
				return nil
			}
			return r.put(ctx, b)
		},
		Table: func(_ ast.Statement, s types.Schema, rows [][]types.Value) error {
			if !r.last {
				return nil
			}
			r.start(s)
			b := vec.NewBatch(s)
			for _, row := range rows {
				for c, x := range row {
					b.Cols[c].AppendValue(x)
				}
				b.N++
			}
			return r.put(ctx, b)
		},
		JobEnded: func(j *engine.Run, rep *job.Report, _ error) {
			if j == r.job {
				r.report = rep
			}
		},
	}
}
