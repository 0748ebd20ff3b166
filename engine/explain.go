package engine

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/explain"
	"github.com/tidemark-stream/tidemark/sql/physical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// Explain returns the plans of all jobs of a script, as text or JSON, without running any. The
// script's own EXPLAIN statements are skipped.
func (e *Engine) Explain(name, text string, asJSON bool) ([]string, error) {
	var out []string
	err := e.plan(&source{name: name, text: text}, func(s *sql.Session, r *sql.Result) error {
		if asJSON {
			out = append(out, explain.JSON(r.Plan))
			return nil
		}
		t, err := explain.Text(r.Job, r.Plan, s.Config())
		out = append(out, t)
		return err
	})
	return out, err
}

// Check plans every job of a script and returns their number, and what may be other than its user expects. With a target
// it also returns, as lines of file:line:column and text, what the target treats differently.
func (e *Engine) Check(name, text, target string) (jobs int, findings []string, err error) {
	src := &source{name: name, text: text}
	var last *sql.Session
	defer func() {
		if err == nil && last != nil {
			findings = append(findings, last.Unheeded()...)
		}
	}()
	err = e.plan(src, func(s *sql.Session, r *sql.Result) error {
		last = s
		if err := e.startable(s, jobs, r); err != nil {
			return err
		}
		for _, w := range physical.Warnings(r.Plan) {
			findings = append(findings, name+": warning: "+w)
		}
		if jobs++; target == "" {
			return nil
		}
		found, err := explain.Check(r.Job, r.Plan, target)
		for _, f := range found {
			place := name
			if !f.Pos.IsZero() {
				place = fmt.Sprintf("%s:%s", name, sqlerr.PositionAt(text, src.original(f.Pos).Start))
			}
			findings = append(findings, place+": "+f.String())
		}
		return err
	})
	return jobs, findings, err
}

// plan executes the statements of a script up to running jobs, which it gives to f instead.
func (e *Engine) plan(src *source, f func(*sql.Session, *sql.Result) error) error {
	stmts, text, err := src.parse(e.o.Define)
	if err != nil {
		return src.error(err)
	}
	s, err := e.session(src.name, text, Handler{})
	if err != nil {
		return err
	}
	for _, st := range stmts {
		if _, ok := st.(*ast.Explain); ok || e.overridden(st) {
			continue
		}
		r, err := s.Execute(st)
		if err == nil && r.Plan != nil {
			err = f(s, r)
		}
		if err != nil {
			return src.error(err)
		}
	}
	return nil
}
