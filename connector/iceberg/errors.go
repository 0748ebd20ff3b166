package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/connector"
)

// class says what an error means for what was being done.
type class uint8

const (
	away     class = iota // the catalog or the store cannot be reached: wait for it
	overtake              // another writer committed first, or the answer was lost: look again
	hopeless              // no restart can heal it
)

// classOf sorts errors.
func classOf(err error) class {
	var f *connector.Fatal
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &f):
		return hopeless
	case errors.Is(err, table.ErrCommitFailed), errors.Is(err, rest.ErrCommitStateUnknown):
		return overtake
	case errors.Is(err, catalog.ErrNoSuchTable), errors.Is(err, catalog.ErrNoSuchNamespace), errors.Is(err, catalog.ErrInvalidIdentifier),
		errors.Is(err, rest.ErrUnauthorized), errors.Is(err, rest.ErrForbidden), errors.Is(err, rest.ErrBadRequest), errors.Is(err, rest.ErrOAuthError),
		errors.Is(err, iceberg.ErrInvalidSchema), errors.Is(err, iceberg.ErrInvalidArgument), errors.Is(err, iceberg.ErrNotImplemented),
		errors.Is(err, fs.ErrPermission):
		return hopeless
	case errors.As(err, &pg):
		switch pg.Code[:min(2, len(pg.Code))] {
		case "28", "3D", "42":
			return hopeless
		}
	}
	return away
}

// Limits of patience.
const (
	// openWithin is how long a catalog that is away at the start is waited for: a wrong address should be
	// told soon, and a job that starts again has its own patience.
	openWithin = 2 * time.Second
	// requestTimeout bounds a request to the catalog that loads or makes a table.
	requestTimeout = time.Minute
	// mostOvertaken is how often in a row a commit may be overtaken.
	mostOvertaken = 100
)

// patience decides how often, and after which wait, something is tried again.
type patience struct {
	within    time.Duration // how long what is away is waited for
	since     time.Time     // when it went away
	failed    int           // in a row
	overtaken int
}

func (s *sink) patience() *patience {
	return &patience{within: s.cfg.Options.Duration("sink.max-retry-timeout")}
}

// again waits and returns nil when what failed with err may be tried again, else the error to give up
// with.
func (p *patience) again(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	switch classOf(err) {
	case hopeless:
		return fatal(err)
	case overtake:
		p.since, p.failed = time.Time{}, 0
		if p.overtaken++; p.overtaken > mostOvertaken {
			return fmt.Errorf("other writers were faster %d times: %w", p.overtaken, err)
		}
		return pause(ctx, err, 10*time.Millisecond<<min(p.overtaken, 7))
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if gone := time.Since(p.since); gone >= p.within {
		return fmt.Errorf("the catalog or the store cannot be used since %s: %w", gone.Round(time.Second), err)
	}
	p.failed++
	return pause(ctx, err, 50*time.Millisecond<<min(p.failed, 7))
}

// pause waits for half of wait to wait; it returns err when ctx ends.
func pause(ctx context.Context, err error, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return err
	case <-time.After(wait/2 + rand.N(wait/2+1)):
		return nil
	}
}

// fatal marks err, once.
func fatal(err error) error {
	var f *connector.Fatal
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &connector.Fatal{Err: err}
}

func fatalf(format string, args ...any) error { return fatal(fmt.Errorf(format, args...)) }
