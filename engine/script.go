package engine

import (
	"errors"
	"strings"

	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// source is a script as its author wrote it. Statements point into the text with the variables
// replaced; errors are moved back, so that they show the line that the author knows.
type source struct {
	name, text string
	mapping    *parse.Mapping
}

// parse replaces the variables and returns the statements and the text that they point into.
func (s *source) parse(vars map[string]string) ([]ast.Statement, string, error) {
	text, m, err := parse.SubstituteMapped(s.text, vars)
	if err != nil {
		return nil, "", err
	}
	s.mapping = m
	stmts, err := parse.Script(text)
	return stmts, text, err
}

// original is where at, a place in the text of the statements, is in the author's.
func (s *source) original(at sqlerr.Span) sqlerr.Span {
	if s.mapping == nil {
		return at
	}
	return s.mapping.Original(at)
}

// error makes err a *ScriptError; nil stays nil.
func (s *source) error(err error) error {
	if err == nil {
		return nil
	}
	if s.mapping != nil {
		err = s.mapping.Error(err)
	}
	return &ScriptError{File: s.name, Text: s.text, Err: err, source: s}
}

// ScriptError is an error with the place in the script that it is about.
type ScriptError struct {
	File, Text string
	Err        error
	source     *source
}

// Error implements error: file:line:column, the line with the text underlined, the cause and what
// to write instead.
func (e *ScriptError) Error() string {
	var se *sqlerr.Error
	if errors.As(e.Err, &se) {
		return se.Render(e.File, e.Text)
	}
	var re *job.RowError
	if errors.As(e.Err, &re) && re.Pos.End > re.Pos.Start {
		at := sqlerr.New(e.source.original(sqlerr.Span{Start: re.Pos.Start, End: re.Pos.End}), "%s", e.Err)
		if re.Constant && strings.HasPrefix(re.Err.Error(), "cannot cast") {
			at.Hint = "use TRY_CAST"
		}
		return at.Render(e.File, e.Text)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ScriptError) Unwrap() error { return e.Err }
