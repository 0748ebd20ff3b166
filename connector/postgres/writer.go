package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/vec"
)

// Bounds on the rows that wait while the database is busy; a batch may go beyond them once.
const (
	waitRows  = 4 * chunkRows
	waitBytes = 8 << 20
)

// writer collects the rows of one subtask, and sends them from a goroutine of its own: a batch is as
// large as what has come while the last one was under way.
type writer struct {
	s        *sink
	enc      *tuples
	maxRows  int
	interval time.Duration

	ctx    context.Context // of what is sent; ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // to the sender: look again
	moved  chan struct{} // from the sender: there is room, or an error
	over   chan struct{} // closed when the sender has ended

	mu    sync.Mutex
	fill  *rows     // rows that wait
	since time.Time // when the first of them came
	due   bool      // they are to be sent now
	busy  bool      // the sender has taken rows and has not finished
	err   error
}

func newWriter(ctx context.Context, s *sink, t *table, enc *tuples) *writer {
	w := &writer{s: s, enc: enc, maxRows: int(s.cfg.Options.Int("sink.buffer-flush.max-rows")), interval: s.cfg.Options.Duration("sink.buffer-flush.interval"),
		wake: make(chan struct{}, 1), moved: make(chan struct{}, 1), over: make(chan struct{}), fill: &rows{}}
	if w.maxRows == 0 || w.maxRows > waitRows {
		w.maxRows = waitRows
	}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	sh := shape{slices.Clone(enc.cols), enc.keys}
	sender := &sender{w: w, session: session{config: s.config}, sh: &sh, st: sh.statements(t), patience: s.patience()}
	go sender.run()
	return w
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *writer) full() bool { return w.fill.len() >= w.maxRows || len(w.fill.buf) >= waitBytes }

// Write implements connector.Writer.
func (w *writer) Write(ctx context.Context, b *vec.Batch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && (w.fill.len() >= waitRows || len(w.fill.buf) >= waitBytes) {
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
	if w.err != nil {
		return w.err
	}
	if w.fill.len() == 0 {
		w.since = time.Now()
	}
	w.enc.rows(w.fill, b)
	if w.full() {
		poke(w.wake)
	}
	return nil
}

// wait waits, with mu held, until the sender has done something.
func (w *writer) wait(ctx context.Context) error {
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-w.moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.over:
		return errClosed
	}
}

var errClosed = errors.New("the writer was closed")

// Flush implements connector.Writer.
func (w *writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && (w.fill.len() > 0 || w.busy) {
		w.due = true
		poke(w.wake)
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
	return w.err
}

// Prepare implements connector.Writer.
func (w *writer) Prepare(ctx context.Context) ([]connector.Committable, error) {
	return nil, w.Flush(ctx)
}

// Tick implements connector.Writer.
func (w *writer) Tick(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fill.len() > 0 && w.interval > 0 && time.Since(w.since) >= w.interval {
		w.due = true
		poke(w.wake)
	}
	return w.err
}

// Close implements connector.Writer.
func (w *writer) Close() error {
	w.cancel()
	<-w.over
	return nil
}

// sender is the goroutine that sends.
type sender struct {
	w *writer
	session
	sh       *shape
	st       statements
	patience *patience
	refusals
}

func (s *sender) run() {
	w := s.w
	defer close(w.over)
	defer s.drop()
	out := &rows{}
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
		}
		w.mu.Lock()
		for w.err == nil && w.ctx.Err() == nil && w.fill.len() > 0 && (w.due || w.full()) {
			w.fill, out = out, w.fill
			w.due, w.busy, w.since = false, true, time.Now()
			w.mu.Unlock()
			poke(w.moved)
			err := s.send(w.ctx, out)
			out.reset()
			w.mu.Lock()
			w.busy, w.err = false, err
		}
		w.due = false
		w.mu.Unlock()
		poke(w.moved)
	}
}

// send sends r chunk by chunk and tries again what fails for a time.
func (s *sender) send(ctx context.Context, r *rows) error {
	s.patience.Worked()
	fresh := false
	for lo := 0; lo < r.len(); {
		hi := r.chunk(lo, chunkRows, chunkBytes)
		err := s.chunk(ctx, r, lo, hi)
		if err == nil {
			lo = hi
			s.patience.Worked()
			continue
		}
		s.drop()
		if classOf(err) == stale && !fresh {
			fresh = true
			if err = s.lookAgain(ctx); err == nil {
				continue
			}
		}
		if err = s.patience.again(ctx, err); err == nil {
			continue
		}
		if s.w.s.guarantee() == connector.AtMostOnce && classOf(err) == away && ctx.Err() == nil {
			lo = hi
			continue
		}
		return fmt.Errorf("write to table '%s' of PostgreSQL: %w", s.w.s.cfg.Options.Get("table-name"), err)
	}
	s.refusals.told = nil
	return nil
}

// lookAgain takes over a table that has changed: rows keep their form, and SQL makes the new types of
// them.
func (s *sender) lookAgain(ctx context.Context) error {
	s.w.s.forget()
	t, now, err := s.w.s.described(ctx)
	if err != nil {
		return err
	}
	s.sh.adopt(&now.shape)
	s.st = s.sh.statements(t)
	return nil
}

// chunk sends rows lo..hi-1, first in statements that are transactions of their own; where the server
// refuses some of the rows, in a transaction that finds out which.
func (s *sender) chunk(ctx context.Context, r *rows, lo, hi int) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	err := s.ask(ctx, &s.st, s.sh, r, lo, hi)
	if c := classOf(err); err == nil || c != refused && c != clash {
		return err
	}
	if _, err := s.exec(ctx, beginCarefully); err != nil {
		return err
	}
	s.refusals.found = s.refusals.found[:0]
	if err := s.split(ctx, &s.st, s.sh, r, lo, hi, func(i int, err error) {
		s.refusals.add(s.sh, i, r, i, err)
	}); err != nil {
		return err
	}
	if err := s.refusals.tell(s.w.s.cfg.Bad); err != nil {
		return err
	}
	_, err = s.commit(ctx)
	return err
}

// refusals are the rows that the server refused in a transaction. They are told before it is
// committed, each once although the transaction may be tried again.
type refusals struct {
	found []refusal
	told  map[int]bool
}

type refusal struct {
	n      int // number of the row
	text   []byte
	origin *vec.Origin // what it came from, nil where that is not known
	pos    int64
	err    error
}

// add notes row i of from, which is row n of the transaction.
func (r *refusals) add(sh *shape, n int, from *rows, i int, err error) {
	o, pos := from.places.Of(i)
	r.found = append(r.found, refusal{n, sh.rowText(from.tuple(i)), o, pos, err})
}

// tell hands the rows found to the dead-letter output.
func (r *refusals) tell(bad func(format.BadRecord) error) error {
	for _, f := range r.found {
		if r.told[f.n] {
			continue
		}
		err := bad(format.BadRecord{Bytes: f.text, Origin: f.origin, Pos: f.pos, Err: fmt.Errorf("%w: %w", connector.ErrRefused, explain(f.err))})
		if err != nil {
			return connector.AsFatal(err)
		}
		if r.told == nil {
			r.told = map[int]bool{}
		}
		r.told[f.n] = true
	}
	return nil
}
