package job

import (
	"fmt"
	"sync"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
)

// changes is the way of the operators' changes to the store of the job's state. Subtasks add them;
// one goroutine takes them on: into the tail, which a small checkpoint holds itself, and, when that
// has become too long or memory is short, into the store. Changes of the time after a cut stay in
// the queue until the files of that cut have been linked.
type changes struct {
	store *store.Store

	mu     sync.Mutex
	moved  *sync.Cond // something has happened
	queue  []stateChange
	queued int   // their bytes
	limit  int64 // changes that come before later cuts than this one wait
	busy   bool  // one is being taken on
	closed bool
	err    error
	wait   bool // nobody waits for room: a cut is being taken, or the job is over

	tail    []stateChange // since the files of the store were cut
	size    int           // bytes of tail
	applied int           // of tail, the first so many are in the store too
	direct  bool          // the tail was given up: changes go to the store at once
	eager   bool          // changes go to the store and to the tail
	always  bool          // there is no tail at all
	room    int           // how many bytes of changes may wait for the store
}

// stateChange is changes of one operator that come before cut.
type stateChange struct {
	cut     int64
	op      uint16
	changes []byte
	// spill is told when the store has freeze number n; nil: nobody is.
	spill *state.Spill
	n     uint64
}

const (
	// tailMax is how many bytes of changes a checkpoint holds itself before they go to files of the
	// LSM: small checkpoints are one object.
	tailMax = 1 << 20
	// dirtyMax is how many bytes of changes the operators of one subtask may hold before they are
	// written down between two cuts; it bounds the pause of the next.
	dirtyMax = 16 << 20
	// queueMax is how many bytes of changes may wait for the store.
	queueMax = 64 << 20
	// queueMin is how many may in any case: a few batches of long rows.
	queueMin = 1 << 20
	// noLimit lets all changes on: no cut is on its way to the store.
	noLimit = int64(1<<63 - 1)
)

func newChanges(s *store.Store, always bool, memory int64) *changes {
	c := &changes{store: s, limit: noLimit, always: always, direct: always, room: queueMax}
	switch {
	case memory <= 0:
	case always:
		// What waits is beside the memory for state. No cut ever holds changes up, so that little will do.
		c.room = int(min(queueMax, max(memory/8, queueMin)))
	default:
		// What waits also keeps what it says of in memory. Cuts hold changes up for a while.
		c.room = int(min(queueMax, max(memory/4, 16*queueMin)))
	}
	c.moved = sync.NewCond(&c.mu)
	return c
}

// add takes changes that come before a cut. It waits while the store is far behind, but never while
// a cut is being taken.
func (c *changes) add(x stateChange) {
	if len(x.changes) == 0 && x.spill == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queued > c.room && !c.wait && !c.closed && c.err == nil {
		c.moved.Wait()
	}
	c.queue = append(c.queue, x)
	c.queued += len(x.changes)
	c.moved.Broadcast()
}

// rush lets nobody wait for room until it is called with false.
func (c *changes) rush(on bool) {
	c.mu.Lock()
	c.wait = on
	c.moved.Broadcast()
	c.mu.Unlock()
}

// hold makes changes that come after cut wait; noLimit lets them on.
func (c *changes) hold(cut int64) {
	c.mu.Lock()
	c.limit = cut
	c.moved.Broadcast()
	c.mu.Unlock()
}

// hurry makes changes go to the store at once from now on: memory is short.
func (c *changes) hurry() {
	c.mu.Lock()
	c.eager = true
	c.moved.Broadcast()
	c.mu.Unlock()
}

// next removes the first change that may go on. Call with mu held.
func (c *changes) next() (stateChange, bool) {
	for i, x := range c.queue {
		if x.cut <= c.limit {
			copy(c.queue[i:], c.queue[i+1:])
			c.queue[len(c.queue)-1] = stateChange{}
			c.queue = c.queue[:len(c.queue)-1]
			return x, true
		}
	}
	return stateChange{}, false
}

// run takes changes on until close.
func (c *changes) run() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.busy { // with the tail, in whole
			c.moved.Wait()
			continue
		}
		x, ok := c.next()
		if !ok {
			if c.eager && !c.closed && c.applied < len(c.tail) {
				if err := c.catchUp(); err != nil {
					return err
				}
				continue
			}
			if c.closed {
				return nil
			}
			c.moved.Wait()
			continue
		}
		if err := c.take(x); err != nil {
			return err
		}
	}
}

// take puts one change where it belongs. Call with mu held, which is not held while the store works.
func (c *changes) take(x stateChange) error {
	if !c.direct {
		c.tail = append(c.tail, x)
		if c.size += len(x.changes); c.size > tailMax {
			// The next checkpoint needs files anyhow.
			if err := c.catchUp(); err != nil {
				return err
			}
			c.direct, c.tail, c.applied = true, nil, 0
		} else if c.eager {
			if err := c.catchUp(); err != nil {
				return err
			}
		}
	} else if err := c.apply(x); err != nil {
		return err
	}
	c.queued -= len(x.changes)
	c.moved.Broadcast()
	return nil
}

// catchUp puts the part of the tail into the store that is not there.
func (c *changes) catchUp() error {
	for c.applied < len(c.tail) {
		x := c.tail[c.applied]
		c.applied++
		if err := c.apply(x); err != nil {
			return err
		}
	}
	return nil
}

func (c *changes) apply(x stateChange) error {
	c.busy = true
	c.mu.Unlock()
	err := c.store.Apply(x.op, x.changes)
	c.mu.Lock()
	c.busy = false
	c.moved.Broadcast()
	if err != nil {
		c.err = fmt.Errorf("state: %w", err)
		return c.err
	}
	if x.spill != nil {
		x.spill.Applied(x.n)
	}
	return nil
}

// settle waits until all changes before a cut are where they belong.
func (c *changes) settle(cut int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !c.closed && (c.busy || c.waits(cut)) {
		c.moved.Wait()
	}
	return c.err
}

func (c *changes) waits(cut int64) bool {
	for _, x := range c.queue {
		if x.cut <= cut {
			return true
		}
	}
	return false
}

// whole makes the store have everything and begins a new tail; files of the store must be cut.
func (c *changes) whole() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.busy {
		c.moved.Wait()
	}
	err := c.catchUp()
	c.moved.Broadcast()
	if err != nil {
		return err
	}
	c.direct, c.tail, c.applied, c.size = c.always, nil, 0, 0
	return nil
}

// tails returns the tail in the form of a manifest; false where files must be cut instead.
func (c *changes) tails() ([]checkpoint.Tail, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.direct {
		return nil, false
	}
	out := make([]checkpoint.Tail, 0, len(c.tail))
	for _, x := range c.tail {
		if len(x.changes) > 0 {
			out = append(out, checkpoint.Tail{Operator: x.op, Changes: x.changes})
		}
	}
	return out, true
}

// close ends run; what is in the queue is not wanted any more.
func (c *changes) close() {
	c.mu.Lock()
	c.closed, c.queue = true, nil
	c.moved.Broadcast()
	c.mu.Unlock()
}

// nextCut is the cut that changes of now come before.
func (s *subtask) nextCut() int64 {
	if s.lastCut != nil {
		return s.lastCut.seq + 1
	}
	return 1
}

// handOn writes down what an operator has changed and hands it on.
func (r *opRun) handOn(st op.Stateful, cut int64) error {
	if err := st.Freeze(&r.delta); err != nil {
		return fmt.Errorf("operator %s: %w", r.node.Label, err)
	}
	c := r.s.j.checkpoints
	x := stateChange{cut: cut, op: c.ids[r.node.ID], changes: r.delta.Take()}
	if r.spill != nil {
		x.spill, x.n = r.spill, r.spill.Frozen()
	}
	c.changes.add(x)
	return nil
}

// early makes room between two batches: operators move state to disk, and write down what they have
// changed when it has become much.
func (s *subtask) early() error {
	c := s.j.checkpoints
	if c == nil {
		return nil
	}
	s.short()
	dirty := 0
	for _, r := range s.order {
		if st, ok := r.op.(op.Stateful); ok && r.open > 0 {
			dirty += st.Dirty()
		}
	}
	for _, r := range s.order {
		if err := s.makeRoom(r, dirty > dirtyMax); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom is early of one operator. freeze says that its changes are written down in any case.
func (s *subtask) makeRoom(r *opRun, freeze bool) error {
	st, ok := r.op.(op.Stateful)
	if !ok || r.open == 0 {
		return nil
	}
	if freeze || r.spill != nil && r.spill.NeedsFreeze() {
		if err := r.handOn(st, s.nextCut()); err != nil {
			return err
		}
	}
	if r.spill != nil {
		r.spill.Between()
	}
	return nil
}

// relieve makes room for an operator that is within a batch.
func (s *subtask) relieve(r *opRun) error {
	if !s.short() {
		return nil
	}
	return s.makeRoom(r, false)
}

// short reports whether memory for state is short, and has changes go to the store at once from then on.
func (s *subtask) short() bool {
	b := s.j.budget
	if b == nil || s.j.checkpoints == nil || b.Used() <= b.Limit()/2 {
		return false
	}
	if !s.hurried {
		s.hurried = true
		s.j.checkpoints.changes.hurry()
	}
	return true
}
