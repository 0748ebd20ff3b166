package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
)

// memory is what a Live and a Topic have in common: the newest rows of a table of results under one lock, and a count of
// their changes. It answers what only a target knows: neither windows that need a backfill, beyond what the progress
// says, nor records of what was done.
type memory struct {
	table *connector.Table
	since time.Time

	mu      sync.Mutex
	cells   cells  // guarded by mu, as all that follows
	changes uint64 // rises with each change
}

// newMemory makes room for so many keys of t; further columns may be part of the key.
func newMemory(t *connector.Table, limit int, key ...string) memory {
	return memory{table: t, since: time.Now(), cells: newCells(t, limit, key...)}
}

// version implements inMemory.
func (m *memory) version() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

// holds is how much is held. mu is held.
func (m *memory) holds() HeldStatus {
	return HeldStatus{Keys: m.cells.rows.N, Limit: m.cells.limit, Dropped: m.cells.dropped, Since: m.since.UnixMilli()}
}

// Missed implements Reader: all that is known of a running job is in its progress, and a topic does not tell.
func (m *memory) Missed(context.Context, string, int64) ([]connector.MissedWindow, error) {
	return nil, nil
}

// Corrected implements Reader: nobody promotes a generation in memory.
func (m *memory) Corrected(context.Context, string, int64, int64, int64) ([]connector.MissedWindow, error) {
	return nil, nil
}

// Records implements Reader: nobody writes any.
func (m *memory) Records(context.Context, string) ([]results.Record, error) { return nil, nil }
