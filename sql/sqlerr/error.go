package sqlerr

import (
	"errors"
	"fmt"
	"strings"
)

// Error is a mistake in a SQL text: where, what, and what to do about it.
type Error struct {
	// Pos is the text that is wrong; zero when no text can be named.
	Pos Span
	// Msg is the primary message: short, lower case, without a full stop.
	Msg string
	// Detail explains in sentences; may be empty.
	Detail string
	// Hint is an action: what to write instead; may be empty.
	Hint string
	// Cause is the error underneath, or nil.
	Cause error
}

// New returns an Error at pos with a formatted message.
func New(pos Span, format string, args ...any) *Error {
	return &Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// WithHint sets the hint and returns the error.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithDetail sets the detail and returns the error.
func (e *Error) WithDetail(format string, args ...any) *Error {
	e.Detail = fmt.Sprintf(format, args...)
	return e
}

// WithCause sets the cause and returns the error.
func (e *Error) WithCause(err error) *Error {
	e.Cause = err
	return e
}

// Error renders the error on one line, without position: message, cause,
// detail, hint. Use Render to show it to a person.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.headline())
	if e.Detail != "" {
		b.WriteString("; " + e.Detail)
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

func (e *Error) headline() string {
	if e.Cause == nil {
		return e.Msg
	}
	if e.Msg == "" {
		return e.Cause.Error()
	}
	return e.Msg + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// At gives err the position pos if it is not an Error that has one already.
// It returns nil for nil.
func At(pos Span, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		if e.Pos.IsZero() {
			c := *e
			c.Pos = pos
			return &c
		}
		return err
	}
	return &Error{Pos: pos, Cause: err}
}

// Render shows any error: an Error in its chain with its position in src,
// another as its text alone.
func Render(err error, fileName, src string) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Render(fileName, src)
	}
	return err.Error()
}
