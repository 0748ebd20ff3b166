package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// writer collects the rows of one subtask into blocks, which a goroutine of its own inserts, in order:
// one is filled, one waits and one is under way, and whoever brings more has to wait too.
type writer struct {
	s *sink
	cutter
	interval time.Duration
	since    time.Time // when the first row of the block came

	ctx    context.Context // of inserts; ends with Close
	cancel context.CancelFunc
	queue  chan filledBlock
	free   chan []byte   // blocks that are done, to be filled again
	moved  chan struct{} // from the sender: a block is done, or an error
	over   chan struct{} // closed when the sender has ended

	mu      sync.Mutex
	waiting int // blocks handed over and not done; guarded by mu
	err     error
}

// filledBlock is a block, and what its rows came from.
type filledBlock struct {
	b      []byte
	places connector.Places
}

func newWriter(ctx context.Context, s *sink, t *table, cut cutter) *writer {
	w := &writer{s: s, cutter: cut, interval: s.cfg.Options.Duration("sink.buffer-flush.interval"),
		queue: make(chan filledBlock, 1), free: make(chan []byte, 2), moved: make(chan struct{}, 1), over: make(chan struct{})}
	w.dst = func() []byte {
		select {
		case b := <-w.free:
			return b[:0]
		default:
			return nil
		}
	}
	w.full = func(ctx context.Context, b []byte, places *connector.Places) error {
		w.since = time.Now()
		full := filledBlock{b, *places}
		*places = connector.Places{}
		return w.hand(ctx, full)
	}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go w.send()
	return w
}

// send inserts what comes, until Close or an error.
func (w *writer) send() {
	defer close(w.over)
	in := inserter{s: w.s, session: session{c: w.s.c}, once: w.s.guarantee() == connector.AtMostOnce}
	defer in.close()
	// A token must be new in every run: the rows of a block are others then.
	run := fmt.Sprintf("%s%016x%016x/", w.s.prefix(), rand.Uint64(), rand.Uint64())
	for n := 0; ; n++ {
		select {
		case <-w.ctx.Done():
			return
		case full := <-w.queue:
			b := full.b
			err := in.block(w.ctx, b, fmt.Sprintf("%s%d", run, n), &full.places, 0)
			if in.once && w.ctx.Err() == nil && (errors.Is(err, errLost) || classOf(err) == away) && err != nil {
				w.lost(b, err)
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("write to table '%s' of ClickHouse: %w", w.s.cfg.Options.Get("table-name"), err)
			}
			select {
			case w.free <- b:
			default:
			}
			w.mu.Lock()
			w.waiting--
			w.err = err
			w.mu.Unlock()
			select {
			case w.moved <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}
}

// lost says that a block may be lost, which at most once allows.
func (w *writer) lost(b []byte, err error) {
	if w.s.cfg.Stderr == nil {
		return
	}
	n := 0
	if blk, err := parseBlock(b); err == nil {
		n = blk.rows
	}
	fmt.Fprintf(w.s.cfg.Stderr, "table '%s' of ClickHouse: %d rows may be lost, as 'sink.delivery-guarantee' = 'none' allows: %v\n", w.s.cfg.Options.Get("table-name"), n, err)
}

func (w *writer) state() (waiting int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting, w.err
}

// hand gives a block to the sender; it waits while another one waits.
func (w *writer) hand(ctx context.Context, b filledBlock) error {
	w.mu.Lock()
	w.waiting++
	w.mu.Unlock()
	select {
	case w.queue <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.over:
		if _, err := w.state(); err != nil {
			return err
		}
		return errClosed
	}
}

var errClosed = errors.New("the writer was closed")

// Write implements connector.Writer.
func (w *writer) Write(ctx context.Context, b *vec.Batch) error {
	if _, err := w.state(); err != nil {
		return err
	}
	rows, err := w.enc.take(b, w.s.cfg.Bad)
	if err != nil {
		return err
	}
	if w.enc.n == 0 {
		w.since = time.Now()
	}
	return w.add(ctx, b, rows)
}

// Flush implements connector.Writer.
func (w *writer) Flush(ctx context.Context) error {
	if err := w.cut(ctx); err != nil {
		return err
	}
	for {
		n, err := w.state()
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-w.moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.over:
			if _, err := w.state(); err != nil {
				return err
			}
			return errClosed
		}
	}
}

// Prepare implements connector.Writer.
func (w *writer) Prepare(ctx context.Context) ([]connector.Committable, error) {
	return nil, w.Flush(ctx)
}

// Tick implements connector.Writer. A block that is due while another one waits may grow on.
func (w *writer) Tick(ctx context.Context) error {
	n, err := w.state()
	if err != nil || w.enc.n == 0 || w.interval == 0 || time.Since(w.since) < w.interval || n > 1 {
		return err
	}
	return w.cut(ctx)
}

// Close implements connector.Writer.
func (w *writer) Close() error {
	w.cancel()
	<-w.over
	return nil
}
