package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// refetchWithin is how long reading one record again may take.
	refetchWithin = 2 * time.Second
	// refetchFree is how long a table's records may be read again in all before that is measured
	// by the time the job has run, of which it may then take one part in refetchShare.
	refetchFree  = 3 * time.Second
	refetchShare = 10
	// refetchCheap is what does not count: a record that is at hand costs less than its letter.
	refetchCheap = 20 * time.Microsecond
)

// errRefetchTime is why a record is not read again.
var errRefetchTime = errors.New("reading records again has taken its share of the job's time")

// refetcher reads records of one table again, for the dead letters of rows that were refused when
// their record's bytes were no longer at hand.
type refetcher struct {
	table string
	warn  func(string)
	start time.Time // of the job
	// open makes what reads; nil where the source cannot.
	open func(context.Context) (connector.RecordFetcher, error)

	mu     sync.Mutex // several subtasks may refuse rows
	f      connector.RecordFetcher
	spent  time.Duration
	missed int64
}

// refetcher returns the one for rows that were read from table, nil where its source cannot read
// records again.
func (d *deadLetters) refetcher(table string) *refetcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.again[table]
	if ok {
		return r
	}
	for _, n := range d.j.p.Nodes {
		s := d.j.sources[n.ID]
		if s == nil || s.table.Name != table {
			continue
		}
		if src, ok := s.source.(connector.Refetcher); ok {
			r = &refetcher{table: table, warn: d.j.o.Warn, start: d.j.start,
				open: func(ctx context.Context) (connector.RecordFetcher, error) { return openFetcher(ctx, s, src) }}
			break
		}
	}
	d.again[table] = r
	return r
}

// openFetcher makes what reads records of s again. Where they end is known to their format.
func openFetcher(ctx context.Context, s *sourceShared, src connector.Refetcher) (connector.RecordFetcher, error) {
	f, err := src.NewFetcher(ctx)
	if err != nil {
		return nil, err
	}
	c, ok := f.(interface{ CutBy(func([]byte) int) })
	if !ok || len(s.runs) == 0 {
		return f, nil
	}
	dec, _, err := s.runs[0].newDecoders()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if cutter, ok := dec.(format.Cutter); ok {
		c.CutBy(cutter.Complete)
	}
	return f, nil
}

// refetch completes l, the letter of a row that was read at pos of o, with the bytes of its record,
// or says why it has none.
func (d *deadLetters) refetch(l *deadLetter, o *vec.Origin, pos int64) {
	r := d.refetcher(o.Source)
	if r == nil {
		return
	}
	raw, err := r.fetch(d.j.ctx, o.Split, pos)
	switch {
	case err != nil:
		l.RecordError = err.Error()
	case raw != nil:
		l.raw = raw
		l.setRecord(raw)
	}
}

// fetch returns a copy of a record. It gives up, and says so once, when that takes too long: a
// million refused rows must not bring the job to a stand.
func (r *refetcher) fetch(ctx context.Context, split string, pos int64) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := r.try(ctx, split, pos)
	if err == nil {
		return raw, nil
	}
	if r.missed++; r.missed == 1 {
		r.warn(fmt.Sprintf("a dead letter of table %s is without the bytes of its record: %v; others may follow, each says why", r.table, err))
	}
	return nil, err
}

func (r *refetcher) try(ctx context.Context, split string, pos int64) (raw []byte, err error) {
	start := time.Now()
	if r.spent > refetchFree+start.Sub(r.start)/refetchShare {
		return nil, errRefetchTime
	}
	defer func() {
		if took := time.Since(start); took > refetchCheap {
			r.spent += took
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, refetchWithin)
	defer cancel()
	if r.f == nil {
		// What it opens outlives this call, so it does not get the call's context.
		if r.f, err = r.open(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	raw, err = r.f.Fetch(ctx, split, pos)
	if err != nil || raw == nil {
		return nil, err
	}
	return append([]byte{}, raw...), nil
}

// close ends reading and tells how many letters lack their bytes.
func (r *refetcher) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missed > 1 {
		r.warn(fmt.Sprintf("%d dead letters of table %s are without the bytes of their records; each says why", r.missed, r.table))
	}
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f = nil
	return f.Close()
}
