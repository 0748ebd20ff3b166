package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	// requestTimeout bounds a request to the catalog that loads or makes a table.
	requestTimeout = time.Minute
	// mostOvertaken is how often in a row a commit may be overtaken.
	mostOvertaken = 100
)

// patience decides how often, and after which wait, something is tried again.
type patience struct {
	connector.Patience
	failed    int // since a commit was overtaken
	overtaken int
}

func (s *sink) patience() *patience {
	return &patience{Patience: connector.Patience{Within: s.cfg.Options.Duration("sink.max-retry-timeout")}}
}

// again waits and returns nil when what failed with err may be tried again, else the error to give up
// with.
func (p *patience) again(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var wait time.Duration
	switch classOf(err) {
	case hopeless:
		return connector.AsFatal(err)
	case overtake:
		p.failed = 0
		p.Worked()
		if p.overtaken++; p.overtaken > mostOvertaken {
			return fmt.Errorf("other writers were faster %d times: %w", p.overtaken, err)
		}
		wait = 10 * time.Millisecond << min(p.overtaken, 7)
	default:
		if gone, over := p.Away(); over {
			return fmt.Errorf("the catalog or the store cannot be used since %s: %w", gone, err)
		}
		p.failed++
		wait = 50 * time.Millisecond << min(p.failed, 7)
	}
	if !connector.Pause(ctx, wait) {
		return err
	}
	return nil
}
