package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/connector"
)

// class says what an error means for what was being done.
type class uint8

const (
	broken   class = iota // trying again is of no use here, but may be after a restart
	away                  // the server cannot be reached, or has no room: wait for it
	passing               // a deadlock, a serialisation failure: try again, some times
	hopeless              // no restart can heal it
	refused               // the data are refused for what they are
	clash                 // two rows of one statement hit the same row of the table
	stale                 // the table is another than when it was looked at
)

// classOf sorts errors by their SQLSTATE.
func classOf(err error) class {
	var pe *pgconn.PgError
	var fatal *connector.Fatal
	var unread *connector.UnreadError
	switch {
	case errors.As(err, &fatal), errors.Is(err, errSegment):
		return hopeless
	case errors.As(err, &pe):
		if strings.Contains(pe.Message, changed) {
			return stale
		}
		return classOfState(pe.Code)
	case errors.As(err, &unread), errors.Is(err, errTuple), errors.Is(err, context.Canceled):
		return broken
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &host) {
		return hopeless
	}
	return away // no answer of the server: the connection
}

func classOfState(code string) class {
	switch code {
	case "22P03", "22P04", "42703", "42804", "42P01": // a form that does not fit the column; no such column or table
		return stale
	case "44000", "54000": // a view's check option; a row that is too large for an index
		return refused
	case "21000":
		return clash
	case "57014", "25P02":
		return passing
	case "25006", "25P03", "25P04": // a standby after a failover; transactions that waited too long
		return away
	}
	if len(code) < 2 {
		return broken
	}
	switch code[:2] {
	case "22", "23":
		return refused
	case "08", "53", "57", "58":
		return away
	case "40", "55", "XX":
		return passing
	case "28", "3D", "3F", "42", "0A", "0L", "0P":
		return hopeless
	}
	return broken
}

// explain gives the server's detail and hint too, which its message alone does not have.
func explain(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err
	}
	var more []string
	for _, s := range []string{pe.Detail, pe.Hint} {
		if s != "" {
			more = append(more, s)
		}
	}
	if len(more) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(more, "; "))
}

// patience decides how often, and after which wait, something is tried again.
type patience struct{ connector.Patience }

// again waits and returns nil when what failed with err may be tried again, else the error to give up
// with.
func (p *patience) again(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	switch classOf(err) {
	case away:
		if gone, over := p.Away(); over {
			return fmt.Errorf("the database cannot be used since %s: %w", gone, explain(err))
		}
	case passing:
		if p.Passing() {
			return explain(err)
		}
	case hopeless, stale:
		return connector.AsFatal(explain(err))
	default:
		return explain(err)
	}
	if !p.Pause(ctx) {
		return err
	}
	return nil
}
