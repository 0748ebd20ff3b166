package file

import (
	"context"
	"io"
	"sync"
)

// Objects are read by ranges, the next of which are asked for before the one at hand is used up: a
// request takes as long as a megabyte to arrive, and one connection is slower than several.
const (
	// mostRange is how long ranges grow.
	mostRange = 8 << 20
	// leastRange is asked for when the memory of all is used up.
	leastRange = 256 << 10
	// rangesAhead is how many ranges are asked for at a time.
	rangesAhead = 3
	// aheadMemory bounds the bytes that the objects of one table hold besides one least range each.
	aheadMemory = 64 << 20
)

// firstRange is how much is asked for first. Whoever only wants to see where the time of an object begins
// closes it soon; what is not much longer comes whole. Tests change it.
var firstRange int64 = 1 << 20

// readAhead is the memory that the streams of a table share.
type readAhead struct {
	mu   sync.Mutex
	free int64
	bufs [][]byte // of mostRange, for the next
}

func newReadAhead(n int64) *readAhead { return &readAhead{free: n} }

// take reserves n bytes.
func (r *readAhead) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free < n {
		return false
	}
	r.free -= n
	return true
}

// buffer returns n bytes.
func (r *readAhead) buffer(n int64) []byte {
	if n <= mostRange/2 {
		return make([]byte, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := len(r.bufs) - 1; i >= 0 {
		b := r.bufs[i]
		r.bufs = r.bufs[:i]
		return b[:n]
	}
	return make([]byte, n, mostRange)
}

// give gives back what was reserved, and the buffer that nobody reads any more.
func (r *readAhead) give(n int64, buf []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	if cap(buf) == mostRange && len(r.bufs) < rangesAhead {
		r.bufs = append(r.bufs, buf)
	}
}

// block is a range of an object, on its way or here.
type block struct {
	buf      []byte
	reserved int64
	err      error         // set before done is closed
	done     chan struct{} // closed when it is here
}

// stream reads an object from some byte on. It belongs to one goroutine; ranges are fetched by
// others.
type stream struct {
	get    func(ctx context.Context, offset int64, p []byte) error
	shared *readAhead
	size   int64
	next   int64 // byte that the range asked for next begins with
	step   int64 // its length
	asked  []*block
	cur    *block
	rest   []byte          // of cur
	call   context.Context // of who reads now
	ctx    context.Context // of the ranges
	cancel context.CancelFunc
	wg     sync.WaitGroup
	err    error // for good
}

func newStream(ctx context.Context, shared *readAhead, size, offset, first int64,
	get func(ctx context.Context, offset int64, p []byte) error) *stream {
	s := &stream{get: get, shared: shared, size: size, next: offset, step: first, call: ctx}
	if size-offset <= 2*first {
		s.step = size - offset
	}
	// It outlives the call that opens it.
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if err := s.turn(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	// Who has read half of the first range wants the others.
	if s.cur != nil && len(s.rest) <= len(s.cur.buf)/2 {
		s.ahead()
	}
	return n, nil
}

// turn waits for the next range and makes it the one at hand.
func (s *stream) turn() error {
	s.drop(s.cur)
	s.cur = nil
	if len(s.asked) == 0 {
		if s.next >= s.size {
			return io.EOF
		}
		s.ask(true)
	}
	b := s.asked[0]
	select {
	case <-b.done:
	default:
		select {
		case <-b.done:
		case <-s.call.Done():
			return context.Cause(s.call)
		}
	}
	s.asked = s.asked[1:]
	if b.err != nil {
		s.err = b.err
		s.drop(b)
		return b.err
	}
	s.cur, s.rest = b, b.buf
	return nil
}

// ahead asks for ranges as long as there is memory for them.
func (s *stream) ahead() {
	for len(s.asked) < rangesAhead && s.next < s.size && s.ask(false) {
	}
}

// ask asks for the next range. Without memory left it asks for a short one, if it must.
func (s *stream) ask(must bool) bool {
	n := min(s.step, s.size-s.next)
	b := &block{done: make(chan struct{})}
	switch {
	case s.shared.take(n):
		b.reserved = n
	case must:
		n = min(n, leastRange)
	default:
		return false
	}
	b.buf = s.shared.buffer(n)
	at := s.next
	s.next += n
	s.step = min(s.step*4, mostRange)
	s.asked = append(s.asked, b)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer close(b.done)
		b.err = s.get(s.ctx, at, b.buf)
	}()
	return true
}

func (s *stream) drop(b *block) {
	if b != nil {
		s.shared.give(b.reserved, b.buf)
	}
}

// Close implements io.Closer: it ends what is on its way.
func (s *stream) Close() error {
	s.cancel()
	s.wg.Wait()
	for _, b := range s.asked {
		s.drop(b)
	}
	s.drop(s.cur)
	s.asked, s.cur, s.rest = nil, nil, nil
	if s.err == nil {
		s.err = io.ErrClosedPipe
	}
	return nil
}
