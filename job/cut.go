package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/vec"
)

// A cut is a state of the whole job at one instant, taken between two batches of every subtask:
//
//	park    each subtask stops at the end of the batch or message it works on; channels have no
//	        bound meanwhile, so that nobody is stuck behind a full one. Operators that hold rows
//	        back emit them (op.Flusher).
//	freeze  when all are parked, each writes down what changed in its operators, where its sources
//	        stand, and the rows on their way to it
//	go on   when all are frozen. Sinks then prepare what they were given before the cut, each in its
//	        own time.
//
// So nothing is aligned, and backpressure does not hold a cut up: what waits in channels is part
// of it.
type cut struct {
	id int64 // of the checkpoint
	// seq counts attempts: a checkpoint whose cut found subtasks on their way to the end is cut again.
	// What operators change and sinks prepare belongs to the first attempt that comes after it.
	seq     int64
	started time.Time
	parked  *barrier
	frozen  *barrier
	given   *barrier // sinks have prepared
	// hold keeps the subtasks standing still after a cut, until it is closed; nil: they go on.
	hold     chan struct{}
	released sync.Once
	mu       sync.Mutex
	got      frozen // guarded by mu
}

// frozen is what the subtasks wrote down.
type frozen struct {
	ops      []frozenOp
	sources  []frozenSource
	channels map[[2]int]*checkpoint.Channel // by node and input
	books    map[int]map[string]int64       // by node
	digests  map[int]digest                 // by node, of sinks: of the rows of this run
	marks    map[int]int64                  // the lowest watermark that came to a node: rows before it are with it
	pause    time.Duration
}

func newFrozen() frozen {
	return frozen{channels: map[[2]int]*checkpoint.Channel{}, books: map[int]map[string]int64{}, digests: map[int]digest{}, marks: map[int]int64{}}
}

// frozenOp is one subtask's part of an operator.
type frozenOp struct {
	node, subtask int
	head          []byte
	stateful      bool
	ended         bool
}

// frozenSource is one subtask's part of a source.
type frozenSource struct {
	node   int
	reader connector.Reader
	splits []checkpoint.Split
	done   bool
	clock  int64
}

// barrier is open when all of its subtasks have arrived or are no more.
type barrier struct {
	mu   sync.Mutex
	left map[*subtask]bool
	open chan struct{}
}

func newBarrier(of map[*subtask]bool) *barrier {
	left := make(map[*subtask]bool, len(of))
	for s := range of {
		left[s] = true
	}
	b := &barrier{left: left, open: make(chan struct{})}
	if len(left) == 0 {
		close(b.open)
	}
	return b
}

func (b *barrier) arrive(s *subtask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.left[s] {
		return
	}
	delete(b.left, s)
	if len(b.left) == 0 {
		close(b.open)
	}
}

// cutter makes cuts, one at a time.
type cutter struct {
	mu    sync.Mutex
	alive map[*subtask]bool
	now   *cut  // being taken; nil between cuts
	seq   int64 // of the last one
}

// errSettling says that no cut can be made at present, as some subtasks of an operator have come
// to their end and others have not.
var errSettling = errors.New("some subtasks are ending")

// cut takes a cut. When it returns, the job goes on; given says when the sinks are done.
func (j *Job) cut(ctx context.Context, id int64, hold bool) (*cut, error) {
	k := &j.cutter
	k.mu.Lock()
	k.seq++
	c := &cut{id: id, seq: k.seq, started: time.Now(), parked: newBarrier(k.alive), frozen: newBarrier(k.alive), given: newBarrier(k.alive),
		got: newFrozen()}
	if hold {
		c.hold = make(chan struct{})
	}
	// Those that have ended already are part of it too.
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			if !k.alive[s] {
				c.add(s.endedPart())
			}
		}
	}
	k.now = c
	k.mu.Unlock()
	// What changes after this cut waits until its files are linked.
	j.checkpoints.changes.hold(c.seq)
	j.checkpoints.changes.rush(true)
	j.cutting.Store(c)
	j.lift(true)
	err := c.wait(ctx, c.parked)
	if err == nil {
		err = c.wait(ctx, c.frozen)
	}
	k.mu.Lock()
	k.now = nil
	k.mu.Unlock()
	j.cutting.Store(nil)
	j.lift(false)
	j.checkpoints.changes.rush(false)
	if err != nil {
		c.abandon()
		c.release()
		j.checkpoints.changes.hold(noLimit)
		return nil, err
	}
	c.got.pause = time.Since(c.started)
	return c, c.settled()
}

// release lets subtasks go on that were held after the cut.
func (c *cut) release() {
	if c.hold != nil {
		c.released.Do(func() { close(c.hold) })
	}
}

// lift takes the bound off all channels, or puts it back, and makes all subtasks look around.
func (j *Job) lift(on bool) {
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			s.in.lift(on)
			s.in.wakeUp()
		}
	}
}

// wait waits for a barrier. A cut that takes too long is given up, not the job.
func (c *cut) wait(ctx context.Context, b *barrier) error {
	select {
	case <-b.open:
		// Subtasks that failed have left it: what the others wrote down is not a cut then.
		return context.Cause(ctx)
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		for s := range b.left {
			return fmt.Errorf("subtask %d of %q does not come to the end of its batch: %w", s.index, s.label(), context.Cause(ctx))
		}
		return context.Cause(ctx)
	}
}

// abandon lets all subtasks go on.
func (c *cut) abandon() {
	for _, b := range []*barrier{c.parked, c.frozen} {
		b.mu.Lock()
		if len(b.left) > 0 {
			clear(b.left)
			close(b.open)
		}
		b.mu.Unlock()
	}
}

// settled reports operators of which a part has ended.
func (c *cut) settled() error {
	ended := map[int]bool{}
	for _, o := range c.got.ops {
		if was, seen := ended[o.node]; o.stateful && seen && was != o.ended {
			return errSettling
		}
		ended[o.node] = o.ended
	}
	return nil
}

// joins takes a subtask that is about to run into the cuts to come; leaves takes it out of them, and
// out of the one being taken.
func (k *cutter) joins(s *subtask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.alive == nil {
		k.alive = map[*subtask]bool{}
	}
	k.alive[s] = true
}

func (k *cutter) leaves(s *subtask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.alive, s)
	for _, c := range []*cut{k.now, s.lastCut} {
		if c == nil {
			continue
		}
		if c == k.now && c != s.lastCut {
			// It ended within the cut's time, before it was parked: its part is that it has ended.
			c.add(s.endedPart())
		}
		c.parked.arrive(s)
		c.frozen.arrive(s)
		c.given.arrive(s)
	}
}

// park takes the subtask's part in a cut.
func (s *subtask) park(c *cut) error {
	s.lastCut = c
	for _, r := range s.order {
		if f, ok := r.op.(op.Flusher); ok && r.open > 0 {
			if err := f.Flush(); err != nil {
				return err
			}
		}
	}
	c.parked.arrive(s)
	if !s.await(c.parked) {
		return nil
	}
	if s.j.cutting.Load() == c {
		f, err := s.freeze()
		if err != nil {
			return err
		}
		c.add(f)
	}
	c.frozen.arrive(s)
	if !s.await(c.frozen) {
		return nil
	}
	for _, r := range s.order {
		if r.open > 0 {
			if err := r.prepare(c.seq); err != nil {
				return err
			}
		}
	}
	c.given.arrive(s)
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-s.j.ctx.Done():
		}
	}
	return nil
}

// await waits for a barrier; false: the job is over.
func (s *subtask) await(b *barrier) bool {
	select {
	case <-b.open:
		return true
	case <-s.j.ctx.Done():
		return false
	}
}

func (c *cut) add(f frozen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got.ops = append(c.got.ops, f.ops...)
	c.got.sources = append(c.got.sources, f.sources...)
	for n, b := range f.books {
		if c.got.books[n] == nil {
			c.got.books[n] = map[string]int64{}
		}
		for k, v := range b {
			c.got.books[n][k] += v
		}
	}
	for n, d := range f.digests {
		c.got.digests[n] = c.got.digests[n].plus(d)
	}
	for n, wm := range f.marks {
		if was, ok := c.got.marks[n]; !ok || wm < was {
			c.got.marks[n] = wm
		}
	}
	for k, ch := range f.channels {
		if have := c.got.channels[k]; have != nil {
			have.Rows = append(have.Rows, ch.Rows...)
		} else {
			c.got.channels[k] = ch
		}
	}
}

// freeze writes down the subtask's part of the job.
func (s *subtask) freeze() (frozen, error) {
	f := s.endedOps()
	for _, r := range s.order {
		st, ok := r.op.(op.Stateful)
		if !ok || r.open == 0 {
			continue
		}
		if err := r.handOn(st, s.lastCut.seq); err != nil {
			return f, err
		}
		head, err := st.Head(nil)
		if err != nil {
			return f, fmt.Errorf("operator %s: %w", r.node.Label, err)
		}
		f.ops = append(f.ops, frozenOp{node: r.node.ID, subtask: s.index, head: head, stateful: true})
	}
	s.freezeSources(&f)
	return f, s.freezeChannels(&f)
}

// endedPart is the part of a subtask that has come to its end, or has failed, in which case nobody
// wants it: also where its sources ended, so that they are not read again.
func (s *subtask) endedPart() frozen {
	f := s.endedOps()
	s.freezeSources(&f)
	return f
}

// freezeSources writes down where the sources stand.
func (s *subtask) freezeSources(f *frozen) {
	for _, src := range s.sources {
		x, unread := src.freeze()
		f.sources = append(f.sources, x)
		f.books[src.node.ID][bookIn] -= unread
	}
	for _, v := range s.values {
		f.ops = append(f.ops, frozenOp{node: v.node, ended: v.done})
	}
}

// endedOps begins the subtask's part: its books, and the operators that have come to their end.
func (s *subtask) endedOps() frozen {
	f := newFrozen()
	for node, out := range s.outs {
		f.books[node] = map[string]int64{}
		addBooks(f.books[node], out.books)
	}
	for _, r := range s.order {
		s.j.missed.add(r.node.ID, r.missed)
		clear(r.missed)
		f.marks[r.node.ID] = r.wm
		if r.digest != nil {
			f.digests[r.node.ID] = r.digest.total
		}
		_, stateful := r.op.(op.Stateful)
		if r.open == 0 {
			f.marks[r.node.ID] = vec.MaxTime
			f.ops = append(f.ops, frozenOp{node: r.node.ID, subtask: s.index, stateful: stateful, ended: true})
		}
	}
	return f
}

// freezeChannels writes down the rows that were sent to the subtask and not processed.
func (s *subtask) freezeChannels(f *frozen) error {
	add := func(m message, from int) {
		if m.batch == nil {
			return
		}
		c := s.channels[m.channel]
		k := [2]int{c.to.node.ID, c.input}
		ch := f.channels[k]
		if ch == nil {
			up := c.to.node.Inputs[c.input].From
			ch = &checkpoint.Channel{From: up, To: k[0], Input: k[1], Schema: s.j.p.EdgeSchema(c.to.node, c.input)}
			f.channels[k] = ch
		}
		ch.Rows = appendRows(ch.Rows, m.batch, from)
	}
	for _, r := range s.order {
		for input, a := range r.ahead {
			s.freezeAhead(f, r, input, a)
		}
	}
	for _, o := range s.ordered {
		for _, c := range o.channels {
			for i, m := range c.queue {
				from := 0
				if i == 0 {
					from = c.cursor
				}
				add(m, from)
			}
		}
	}
	for _, m := range s.msgs {
		add(m, 0)
	}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	for _, m := range s.in.queue {
		add(m, 0)
	}
	return nil
}

// freezeAhead writes down restored rows whose turn has not come.
func (s *subtask) freezeAhead(f *frozen, r *opRun, input int, a *ahead) {
	if len(a.order) == 0 {
		return
	}
	k := [2]int{r.node.ID, input}
	if f.channels[k] == nil {
		up := r.node.Inputs[input].From
		f.channels[k] = &checkpoint.Channel{From: up, To: k[0], Input: k[1], Schema: s.j.p.EdgeSchema(r.node, input)}
	}
	b := *a.rows
	b.Sel = slices.Sorted(slices.Values(a.order))
	f.channels[k].Rows = appendRows(f.channels[k].Rows, &b, 0)
}

// freeze writes down where the source stands, and how many rows were counted that will be read again.
func (s *sourceRun) freeze() (f frozenSource, unread int64) {
	f = frozenSource{node: s.node.ID, reader: s.reader, done: s.done, clock: s.clock.now()}
	if s.memory != nil {
		s.memory.tell(s.ends)
		clear(s.ends)
	}
	for id, p := range s.ends {
		f.splits = append(f.splits, checkpoint.Split{ID: id, Offset: p.Offset, Set: p.Set, Ended: true})
	}
	for _, r := range s.splits {
		f.splits = append(f.splits, r.freeze())
		if !r.pending() {
			continue
		}
		for _, i := range r.out.Selected() {
			if int(i) >= r.cursor {
				unread++
			}
		}
	}
	return f, unread
}

func (r *splitRun) freeze() checkpoint.Split {
	p := r.position()
	c := checkpoint.Split{ID: r.split.ID, Offset: p.Offset, Set: p.Set, Data: r.split.Data, Watermark: r.wm, Shown: r.shown,
		Since: r.sinceN, Order: r.order, Idle: r.s.clock.isIdle(r.cs)}
	if !r.pending() {
		return c
	}
	// The rows decoded and not pushed will be read again.
	c.Shown, c.Since = r.stamps[0], 0
	if r.cursor > 0 {
		c.Shown = r.wms[r.cursor-1]
	}
	c.Watermark = c.Shown
	return c
}

// label names the subtask by its last operator.
func (s *subtask) label() string {
	if n := len(s.task.nodes); n > 0 {
		return s.task.nodes[n-1].Label
	}
	return "task"
}
