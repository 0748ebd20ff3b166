package dashboard

import (
	"context"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/vec"
)

// DefaultLiveKeys is how many keys a Live keeps where nobody says.
const DefaultLiveKeys = 50_000

const liveHistory = 4096 // progress rows kept

// Live holds the newest revision of each key of a table of results as a running job makes them, before
// they are sealed. It is filled by the job (Add, Note, Restarted) and read as a Reader; all methods may be
// called from several goroutines. Its memory is bounded by the number of keys: the keys that were there first
// go first, and how many went is known.
type Live struct {
	memory
	epochs []uint32 // by slot: of the start of the job that a row is of; guarded by mu, as all that follows
	epoch  uint32
	past   []connector.Progress // the oldest first
}

// NewLive returns an empty Live of a table with Results; limit 0 is DefaultLiveKeys.
func NewLive(t *connector.Table, limit int) *Live {
	if limit <= 0 {
		limit = DefaultLiveKeys
	}
	return &Live{memory: newMemory(t, limit)}
}

// Add takes the rows of a batch that the job gives to the sink of the table. The batch is only read.
func (l *Live) Add(b *vec.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.cells
	for _, row := range b.Selected() {
		i := int(row)
		slot, ok := c.find(b, i)
		switch {
		case ok:
			if l.epochs[slot] == l.epoch && revisionAt(c.rows.Cols[c.rev], int(slot)) > revisionAt(b.Cols[c.rev], i) {
				continue // a slower subtask's
			}
			c.stale++
		default:
			slot = c.add()
			if int(slot) == len(l.epochs) {
				l.epochs = append(l.epochs, 0)
			}
		}
		l.epochs[slot] = l.epoch
		c.put(slot, b, i)
	}
	c.tidy()
	l.changes++
}

// Note takes how far the results have come: at each checkpoint, and in between as often as it is known. Of
// the same checkpoint the last one counts.
func (l *Live) Note(p connector.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.past); n > 0 && l.past[n-1].Lineage == p.Lineage && l.past[n-1].Checkpoint == p.Checkpoint {
		l.past[n-1] = p
	} else {
		if n == liveHistory {
			l.past = slices.Delete(l.past, 0, liveHistory/2)
		}
		l.past = append(l.past, p)
	}
	l.changes++
}

// Restarted says that the job goes on from a checkpoint: rows that come now count more than those from
// before, whose revisions may be given again.
func (l *Live) Restarted() {
	l.mu.Lock()
	l.epoch++
	l.changes++
	l.mu.Unlock()
}

// held implements inMemory.
func (l *Live) held() HeldStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds()
}

// Query implements Reader.
func (l *Live) Query(_ context.Context, q results.Query) (*results.Rows, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cells.query(&q, nil)
}

// Progress implements Reader.
func (l *Live) Progress(_ context.Context, generation string, n int) ([]connector.Progress, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []connector.Progress
	for _, p := range slices.Backward(l.past) {
		if len(out) < n && (generation == "" || p.Generation == generation) {
			out = append(out, p)
		}
	}
	return out, nil
}

// Pointer implements Reader: memory holds what the job makes, whatever others read.
func (l *Live) Pointer(context.Context) (results.Pointer, error) { return results.Pointer{}, nil }

// Generations implements Reader.
func (l *Live) Generations(context.Context) ([]results.Generation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, err := l.cells.generation("")
	if err != nil || g.Keys == 0 {
		return nil, err
	}
	g.Name = l.table.Results.Generation
	return []results.Generation{g}, nil
}

// Conflicts implements Reader: nobody looks for them in memory.
func (l *Live) Conflicts(context.Context, string) (int64, error) { return -1, nil }

var (
	_ Reader   = (*Live)(nil)
	_ Reader   = results.Store(nil)
	_ inMemory = (*Live)(nil)
)
