package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
)

// NewCommitter implements connector.Sink.
func (s *sink) NewCommitter(ctx context.Context) (connector.Committer, error) {
	if t, ok := s.to.(*objectTarget); ok {
		err := t.check(ctx)
		t.close()
		if err != nil {
			return nil, err
		}
	}
	if s.delivery != connector.ExactlyOnce {
		return nil, nil
	}
	return &committer{s: s, cleared: map[string]bool{}, dead: map[string]bool{}}, nil
}

// committer makes finished files visible. INSERT OVERWRITE then removes what earlier runs left in the
// folder.
type committer struct {
	s       *sink
	mu      sync.Mutex
	cleared map[string]bool
	// dead are earlier runs of this job, as its checkpoint knows them. Who has the checkpoint has the
	// lock of the job, so nothing runs any more that could still want what they left behind.
	dead map[string]bool
}

// Commit implements connector.Committer.
func (c *committer) Commit(ctx context.Context, _ connector.CommitID, cs []connector.Committable) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var dirs []string
	own := false
	for _, raw := range cs {
		var folders []string
		var run string
		err := again(ctx, func() (err error) {
			folders, run, err = c.s.to.publish(ctx, raw)
			return err
		})
		if err != nil {
			return err
		}
		dirs = append(dirs, folders...)
		if run == c.s.run() {
			own = true
		} else if run != "" {
			c.dead[run] = true
			c.s.adopt(run)
		}
	}
	slices.Sort(dirs)
	for _, d := range slices.Compact(dirs) {
		if c.s.cfg.Overwrite && !c.cleared[d] {
			if err := c.clear(ctx, d); err != nil {
				return err
			}
		}
		if err := again(ctx, func() error { return c.s.to.settle(ctx, d, c.s.successFile()) }); err != nil {
			return err
		}
	}
	// With output of this run everything of those before is committed, as the oldest comes first.
	if own && len(c.dead) > 0 {
		if err := c.s.to.sweep(ctx, c.dead); err != nil {
			slog.Warn(fmt.Sprintf("table %s: what earlier runs of this job did not finish was not removed: %v", c.s.cfg.Table.Name, err))
		}
		clear(c.dead)
	}
	return nil
}

// Finish implements connector.Finisher: INSERT OVERWRITE of a table without partitions, or of one
// partition, replaces what was there also when the query gave no row.
func (c *committer) Finish(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.s.cfg.Overwrite || len(c.s.part) > 0 && len(c.s.cfg.StaticPartition) < len(c.s.part) {
		return nil
	}
	folder := ""
	for n, k := range c.s.cfg.Table.PartitionKeys {
		if n > 0 {
			folder += "/"
		}
		folder += escapePart(k) + "=" + escapePart(c.s.cfg.StaticPartition[k])
	}
	if c.cleared[folder] {
		return nil
	}
	return c.clear(ctx, folder)
}

// clear removes the files of earlier runs from a folder.
func (c *committer) clear(ctx context.Context, folder string) error {
	c.cleared[folder] = true
	return again(ctx, func() error { return c.s.to.clear(ctx, folder, c.s.run()) })
}

// Abort implements connector.Committer.
func (c *committer) Abort(ctx context.Context, cs []connector.Committable) error {
	var errs []error
	for _, raw := range cs {
		errs = append(errs, c.s.to.abort(ctx, raw))
	}
	return errors.Join(errs...)
}

// Close implements connector.Committer.
func (c *committer) Close() error {
	if t, ok := c.s.to.(*objectTarget); ok {
		t.close()
	}
	return nil
}

// The pauses between tries of a commit. Tests change the first.
var firstPause = 250 * time.Millisecond

const mostPause = 30 * time.Second

// again does something until it succeeds, as long as ctx lives, unless trying again is of no use. The
// pauses grow and are left to chance, so that many jobs do not come back at the same moment.
func again(ctx context.Context, do func() error) error {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := do()
		var away *awayError
		if err == nil || !errors.As(err, &away) || ctx.Err() != nil {
			return err
		}
		slog.Warn(fmt.Sprintf("%v; it is tried again", err))
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// awayError is an error of a store that may pass.
type awayError struct{ err error }

// Error implements error.
func (a *awayError) Error() string { return a.err.Error() }

// Unwrap gives the cause.
func (a *awayError) Unwrap() error { return a.err }
