// Package sql is the front of the SQL compiler: a Session takes parsed statements one after
// another, keeps the catalog and the configuration between them, and answers each with a message,
// with rows, or with the plan of a job.
//
//	text --sql/parse--> ast --Session (sql/bind, sql/opt, sql/physical)--> *plan.Plan
//
// A Session belongs to one goroutine.
//
// Stability: internal use.
package sql

import (
	"time"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/bind"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/physical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// SessionOptions is what a session is made for. The zero value is ready.
type SessionOptions struct {
	// File and Text are what the positions of statements point into.
	File, Text string
	// Zone is the time zone until table.local-time-zone is set (default: the machine's).
	Zone *time.Location
	// Now is the clock (default: the wall clock). Seed makes random functions repeatable.
	Now  func() time.Time
	Seed uint64
	// Warn takes messages that are not errors; may be nil.
	Warn func(msg string)
}

// Session executes statements.
type Session struct {
	o   SessionOptions
	cat *catalog.Catalog
	cfg *catalog.Config
	// warned are the keys that a SET has warned of.
	warned map[string]bool
}

// Result is what a statement answers: a message, rows with their schema, or a job.
type Result struct {
	// Message is the answer of a statement without rows, such as "OK".
	Message string
	// Schema and Rows are the answer of SHOW, DESCRIBE, EXPLAIN: columns of type STRING or
	// BOOLEAN.
	Schema types.Schema
	Rows   [][]types.Value
	// Plan is the job to run, and Job the bound queries that it was made of.
	Plan *plan.Plan
	Job  []*logical.Sink
}

// NewSession returns a session with nothing defined.
func NewSession(o SessionOptions) *Session {
	s := &Session{o: o, cat: catalog.New(), cfg: catalog.NewConfig()}
	if o.Zone != nil {
		s.cfg.DefaultZone = o.Zone
	}
	s.cfg.Now, s.cfg.Seed = o.Now, o.Seed
	return s
}

// Config is the session's configuration.
func (s *Session) Config() *catalog.Config { return s.cfg }

// Catalog is what the session's statements have defined.
func (s *Session) Catalog() *catalog.Catalog { return s.cat }

// SetWarn changes who takes messages that are not errors; nil drops them.
func (s *Session) SetWarn(warn func(msg string)) { s.o.Warn = warn }

// SetText changes what the positions of the following statements point into. What was defined in
// an earlier text loses its positions, so that no error points into the wrong one.
func (s *Session) SetText(file, text string) {
	if text != s.o.Text {
		s.forgetPositions()
	}
	s.o.File, s.o.Text = file, text
}

// forgetPositions replaces the definitions of tables by copies without the positions that errors
// of later statements point at.
func (s *Session) forgetPositions() {
	for _, db := range s.cat.Databases() {
		s.cat.Each(db, func(object any) {
			t, isTable := object.(*catalog.Table)
			if !isTable || t.Def == nil {
				return
			}
			def := *t.Def
			def.Name = ast.NewName(t.Path...)
			def.Options = make([]*ast.Option, len(t.Def.Options))
			for i, o := range t.Def.Options {
				def.Options[i] = &ast.Option{Key: &ast.StringLit{Value: o.Key.Value}, Value: &ast.StringLit{Value: o.Value.Value}}
			}
			if def.Schema != nil {
				schema := *def.Schema
				schema.Columns = make([]*ast.Column, len(def.Schema.Columns))
				for i, c := range def.Schema.Columns {
					plain := *c
					plain.Span, plain.Name.Span = ast.Span{}, ast.Span{}
					schema.Columns[i] = &plain
				}
				def.Schema = &schema
			}
			t.Def = &def
		})
	}
}

// Execute runs a statement up to the plan of a job, which is for the caller to run. Mistakes in
// the text are a *sqlerr.Error.
func (s *Session) Execute(st ast.Statement) (*Result, error) {
	s.cfg.StartQuery()
	switch st := st.(type) {
	case *ast.QueryStmt, *ast.Insert, *ast.StatementSet:
		return s.job(st)
	case *ast.Explain:
		return s.explain(st)
	case *ast.Set:
		return s.set(st)
	case *ast.Reset:
		s.cfg.Reset(st.Key)
		return ok()
	case *ast.CreateTable:
		return s.createTable(st)
	case *ast.CreateView:
		return s.createView(st)
	case *ast.CreateDatabase:
		return s.createDatabase(st)
	case *ast.Drop:
		return s.drop(st)
	case *ast.Alter:
		return s.alter(st)
	case *ast.Use:
		return s.use(st)
	case *ast.Show:
		return s.show(st)
	case *ast.Describe:
		return s.describe(st)
	}
	return nil, unsupported(st)
}

// Startable says why the job of r, which was planned just now, would not start, as far as its plan tells. saves says
// that it takes checkpoints.
func (s *Session) Startable(r *Result, saves bool) error {
	return physical.Startable(r.Job, s.cfg, saves)
}

func ok() (*Result, error) { return &Result{Message: "OK"}, nil }

// Sinks binds a query, an INSERT or a statement set, and does not plan it.
func (s *Session) Sinks(st ast.Statement) ([]*logical.Sink, error) {
	b := bind.New(s.cat, s.cfg)
	switch st := st.(type) {
	case *ast.QueryStmt:
		sink, err := b.Select(st)
		return []*logical.Sink{sink}, err
	case *ast.Insert:
		sink, err := b.Insert(st)
		return []*logical.Sink{sink}, err
	case *ast.StatementSet:
		if len(st.Statements) == 0 {
			return nil, sqlerr.New(st.Span, "the statement set is empty").
				WithHint("write INSERT INTO statements between BEGIN and END")
		}
		var all []*logical.Sink
		for _, one := range st.Statements {
			if _, ok := one.(*ast.Insert); !ok {
				return nil, sqlerr.New(one.Pos(), "a statement set holds INSERT statements only")
			}
			sinks, err := s.Sinks(one)
			if err != nil {
				return nil, err
			}
			all = append(all, sinks...)
		}
		return all, nil
	}
	return nil, sqlerr.New(st.Pos(), "this statement makes no job").
		WithHint("queries, INSERT INTO and statement sets do")
}

// job plans what a statement runs.
func (s *Session) job(st ast.Statement) (*Result, error) {
	sinks, err := s.Sinks(st)
	if err != nil {
		return nil, err
	}
	p, err := physical.Plan(sinks, s.cfg)
	if err != nil {
		return nil, err
	}
	if s.o.Warn != nil {
		for _, w := range physical.Warnings(p) {
			s.o.Warn(w)
		}
	}
	p.File, p.Text = s.o.File, s.o.Text
	if p.Name == "" {
		p.Name = s.o.File
	}
	return &Result{Job: sinks, Plan: p}, nil
}
