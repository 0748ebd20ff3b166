package bind

import (
	"errors"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// errAt makes an error at a place in the text.
func errAt(at sqlerr.Span, format string, args ...any) *sqlerr.Error {
	return sqlerr.New(at, format, args...)
}

// unsupported refuses what parses but cannot run yet.
func unsupported(at sqlerr.Span, what string) *sqlerr.Error {
	return sqlerr.New(at, "%s is not supported yet", what)
}

// wrap turns an error of another package into one with a position: its own, else at.
func wrap(at sqlerr.Span, err error) error {
	if err == nil {
		return nil
	}
	var se *sqlerr.Error
	if errors.As(err, &se) {
		return sqlerr.At(at, err)
	}
	var ee *expr.Error
	if errors.As(err, &ee) {
		if ee.Pos != (expr.Pos{}) {
			at = sqlerr.Span{Start: ee.Pos.Start, End: ee.Pos.End}
		}
		return &sqlerr.Error{Pos: at, Msg: ee.Msg, Hint: ee.Hint}
	}
	var oe *option.Error
	if errors.As(err, &oe) {
		return &sqlerr.Error{Pos: at, Msg: oe.Msg, Hint: oe.Hint}
	}
	return &sqlerr.Error{Pos: at, Msg: err.Error()}
}
