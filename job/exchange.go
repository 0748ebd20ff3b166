package job

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// channelBytes bounds what one channel (an upstream subtask to a downstream one) may hold; one
// message is always let through. Enough to keep both sides busy, small enough that backpressure
// reaches the source within a few batches.
const channelBytes = 4 << 20

// message is what travels on a channel: a batch (or nil), then what happened after it.
type message struct {
	channel int
	batch   *vec.Batch // owned by the receiver until recycled; nil for none
	bytes   int64
	wm      int64 // the sender's watermark after the batch
	epoch   int64 // > 0: an epoch ends here
	end     bool  // no more messages on this channel
}

// inbox is the receiving side of a subtask: messages of all its channels, in order per channel.
type inbox struct {
	mu       sync.Mutex
	queue    []message
	held     []int64 // bytes outstanding per channel, from send until done
	merge    []int   // per channel: the ordered input that it belongs to, or -1
	unseen   []bool  // per ordered input: the receiver has not processed all that was sent to it
	space    *sync.Cond
	ready    chan struct{}
	closed   bool
	lifted   bool // a cut is being taken: channels have no bound
	channels int
}

func newInbox() *inbox {
	in := &inbox{ready: make(chan struct{}, 1)}
	in.space = sync.NewCond(&in.mu)
	return in
}

// addChannel makes a channel and returns its number.
func (in *inbox) addChannel() int {
	in.held = append(in.held, 0)
	in.merge = append(in.merge, -1)
	in.channels++
	return in.channels - 1
}

// merged says that the channels are those of an input that merges them in the order of stamps.
func (in *inbox) merged(channels []int) {
	for _, c := range channels {
		in.merge[c] = len(in.unseen)
	}
	in.unseen = append(in.unseen, false)
}

// full reports whether m has to wait: its channel is full. A full channel of an ordered input lets
// messages through once the receiver has seen all that was sent to that input: what it still holds
// then waits for a channel that is behind, whose sender may in turn wait for this one to go on.
func (in *inbox) full(m message) bool {
	held := in.held[m.channel]
	if held == 0 || held+m.bytes <= channelBytes || in.closed || in.lifted {
		return false
	}
	g := in.merge[m.channel]
	return g < 0 || in.unseen[g]
}

// send queues m, waiting while its channel is full, which waited counts. It returns false when the
// inbox was closed.
func (in *inbox) send(m message, waited *stopwatch) bool {
	in.mu.Lock()
	if in.full(m) {
		waited.start(time.Now())
		for in.full(m) {
			in.space.Wait()
		}
		waited.stop(time.Now(), true)
	}
	if in.closed {
		in.mu.Unlock()
		return false
	}
	in.held[m.channel] += m.bytes
	in.queue = append(in.queue, m)
	if g := in.merge[m.channel]; g >= 0 {
		in.unseen[g] = true
	}
	in.mu.Unlock()
	in.wakeUp()
	return true
}

// wakeUp makes the receiver look around.
func (in *inbox) wakeUp() {
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

// take moves everything queued to dst. The receiver has processed what it took before.
func (in *inbox) take(dst []message) []message {
	in.mu.Lock()
	dst = append(dst, in.queue...)
	clear(in.unseen)
	for _, m := range in.queue {
		if g := in.merge[m.channel]; g >= 0 {
			in.unseen[g] = true
		}
	}
	clear(in.queue)
	in.queue = in.queue[:0]
	wake := len(in.unseen) > 0
	in.mu.Unlock()
	if wake {
		in.space.Broadcast()
	}
	return dst
}

// done gives back the room of m.
func (in *inbox) done(m message) {
	in.mu.Lock()
	in.held[m.channel] -= m.bytes
	in.mu.Unlock()
	in.space.Broadcast()
}

// bytesHeld is what is queued or being processed.
func (in *inbox) bytesHeld() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	var n int64
	for _, h := range in.held {
		n += h
	}
	return n
}

// lift takes the bound off the channels while a cut is being taken, or puts it back.
func (in *inbox) lift(on bool) {
	in.mu.Lock()
	in.lifted = on
	in.mu.Unlock()
	in.space.Broadcast()
}

// close lets all senders go.
func (in *inbox) close() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.space.Broadcast()
}

// poolBatches is how many batches an edge keeps for reuse: what is on its way when a receiver gets
// its turn only every 10 ms, as all do where subtasks are more than cores.
const poolBatches = 64

// batchPool recycles the batches of one edge.
type batchPool struct {
	schema types.Schema
	mu     sync.Mutex
	free   []*vec.Batch
}

func (p *batchPool) get() *vec.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return vec.NewBatch(p.schema)
}

func (p *batchPool) put(b *vec.Batch) {
	kinds, stamps, pos := b.Kinds[:0], b.Stamps[:0], b.Pos[:0]
	b.Reset(0)
	b.Kinds, b.Stamps, b.Pos = kinds, stamps, pos
	if cap(kinds) == 0 {
		b.Kinds = nil
	}
	if cap(stamps) == 0 {
		b.Stamps = nil
	}
	if cap(pos) == 0 {
		b.Pos = nil
	}
	p.mu.Lock()
	if len(p.free) < poolBatches {
		p.free = append(p.free, b)
	}
	p.mu.Unlock()
}

// sender is the sending side of an edge in one upstream subtask: an output that distributes rows
// over the downstream subtasks.
type sender struct {
	ctx     context.Context
	dist    plan.Distribution
	keys    []int
	enc     *state.Encoder // hashes keys as keyed state does, so that a key's subtask owns its state
	cols    []*vec.Vec
	maxPar  int
	pool    *batchPool
	waited  *stopwatch // for room, of the subtask that sends
	inboxes []*inbox
	channel []int // channel number of this subtask in each inbox
	rows    [][]int32
	wm      int64
	next    int // for rebalance
}

// distribute sorts the selected rows of b by the channel they go to.
func (s *sender) distribute(b *vec.Batch) {
	n := len(s.inboxes)
	for i := range s.rows {
		s.rows[i] = s.rows[i][:0]
	}
	switch {
	case s.dist == plan.Broadcast:
		for i := range s.rows {
			s.rows[i] = append(s.rows[i], b.Selected()...)
		}
	case s.dist == plan.Hash && n > 1:
		s.route(b)
	default:
		t := 0
		if s.dist == plan.Rebalance {
			t = s.next % n
			s.next++
		}
		s.rows[t] = append(s.rows[t], b.Selected()...)
	}
}

// Emit distributes b.
func (s *sender) Emit(b *vec.Batch) error {
	s.distribute(b)
	for t, rows := range s.rows {
		if len(rows) == 0 {
			continue
		}
		out := s.pool.get()
		out.Gather(b, rows)
		if b.Kinds == nil {
			out.Kinds = nil
		}
		if b.Stamps == nil {
			out.Stamps = nil
		}
		size := out.Bytes()
		if !s.inboxes[t].send(message{channel: s.channel[t], batch: out, bytes: size, wm: s.wm}, s.waited) {
			return context.Cause(s.ctx)
		}
	}
	return nil
}

// route gives each row to the subtask that owns its key group.
func (s *sender) route(b *vec.Batch) {
	rows := b.Selected()
	s.cols = s.cols[:0]
	for _, k := range s.keys {
		s.cols = append(s.cols, b.Cols[k])
	}
	s.enc.Encode(s.cols, rows, nil)
	n := len(s.inboxes)
	for k, i := range rows {
		t := state.Subtask(state.KeyGroup(s.enc.Hash(k), s.maxPar), s.maxPar, n)
		s.rows[t] = append(s.rows[t], i)
	}
}

// Watermark tells every downstream subtask.
func (s *sender) Watermark(wm int64) error {
	s.wm = wm
	return s.tell(message{wm: wm})
}

func (s *sender) tell(m message) error {
	for t, in := range s.inboxes {
		m.channel = s.channel[t]
		if !in.send(m, s.waited) {
			return context.Cause(s.ctx)
		}
	}
	return nil
}
