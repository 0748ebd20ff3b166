package job

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state/store"
)

// CheckpointOptions says where a job's checkpoints go and what it starts from.
type CheckpointOptions struct {
	Coordinator checkpoint.CoordinatorOptions
	Repo        Repository
	// Resumed is what the coordinator goes on from.
	Resumed checkpoint.Resumed
	// Savepoints writes a manifest as a savepoint and returns where it is; nil: there is no place.
	Savepoints func(ctx context.Context, m *checkpoint.Manifest, paths map[string]string) (string, error)
	// Job is the job's name; Lineage what this start belongs to.
	Job, Lineage string
	// From is the checkpoint to go on from; nil: start with nothing. Operators is, by node of the
	// plan, the operator of From whose state it takes; Nodes, by node number in From, the node
	// that took its place.
	From      *checkpoint.Manifest
	Operators map[int]*checkpoint.Operator
	Nodes     map[int]*plan.Node
	// MixedBooks says that From is of another plan, so that the books of nodes do not belong together.
	MixedBooks bool
	// Recover is the checkpoint whose output may not have been committed: From, or the last one of
	// a run that had come to its end. nil: none.
	Recover *checkpoint.Manifest
	// Fingerprints are those of the plan's nodes.
	Fingerprints []plan.Fingerprint
	// StoreMemory is how much memory the store of the state may take, bytes; 0 is its default.
	StoreMemory int64
	// Program is the version of this program.
	Program string
	// WorkDir is a folder for the state's files, on the local disk; it is emptied.
	WorkDir string
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
)

// checkpoints is what a job needs to take them.
type checkpoints struct {
	j *Job
	o CheckpointOptions
	// ids are the operators' prefixes in the store, by node.
	ids       map[int]uint16
	operators map[int]*checkpoint.Operator
	nodes     map[int]*plan.Node
	store     *store.Store
	lastCut   *store.Cut // whose files may still have to be written
	again     bool       // the files of the last cut were perhaps not written
	segments  *segments

	mu      sync.Mutex
	room    *sync.Cond
	changes []stateChange // not yet in the store; guarded by mu
	queued  int           // their bytes

	tail      []checkpoint.Tail // since the files of the store were written
	tailBytes int
	files     []checkpoint.File // of the store, as the newest manifest has them
}

// stateChange is changes of one operator that come before cut.
type stateChange struct {
	cut     int64
	op      uint16
	changes []byte
}

func newCheckpoints(j *Job, o CheckpointOptions) (*checkpoints, error) {
	c := &checkpoints{j: j, o: o, ids: map[int]uint16{}, operators: o.Operators, nodes: o.Nodes}
	c.room = sync.NewCond(&c.mu)
	next := uint16(1)
	if o.From != nil {
		for _, m := range o.From.Operators {
			next = max(next, m.ID+1)
		}
	}
	for _, n := range j.p.Nodes {
		if m := o.Operators[n.ID]; m != nil {
			c.ids[n.ID] = m.ID
			continue
		}
		c.ids[n.ID] = next
		next++
	}
	c.segments = newSegments(o)
	var err error
	if c.store, err = openStore(j.ctx, o); err != nil {
		return nil, err
	}
	if o.From == nil {
		return c, nil
	}
	c.files = o.From.Files
	for _, t := range o.From.Tail {
		if err := c.store.Apply(t.Operator, t.Changes); err != nil {
			return nil, fmt.Errorf("checkpoint %d: %w", o.From.ID, err)
		}
	}
	c.tail = o.From.Tail
	for _, t := range c.tail {
		c.tailBytes += len(t.Changes)
	}
	kept := map[uint16]bool{}
	for _, id := range c.ids {
		kept[id] = true
	}
	for _, m := range o.From.Operators {
		if !kept[m.ID] && len(m.States) > 0 {
			if err := c.store.DropOperator(m.ID); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// add takes changes that come before a cut. It waits while the store is far behind, but never while
// a cut is being taken.
func (c *checkpoints) add(cut int64, node int, changes []byte) {
	if len(changes) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queued > queueMax && c.j.cutting.Load() == nil && c.j.ctx.Err() == nil {
		c.room.Wait()
	}
	c.changes = append(c.changes, stateChange{cut, c.ids[node], changes})
	c.queued += len(changes)
}

// wake lets those go that wait for room.
func (c *checkpoints) wake() {
	c.mu.Lock()
	c.room.Broadcast()
	c.mu.Unlock()
}

// settle moves the changes up to a cut to the tail, and into the store.
func (c *checkpoints) settle(cut int64) error {
	c.mu.Lock()
	var took []stateChange
	kept := c.changes[:0]
	for _, x := range c.changes {
		if x.cut <= cut {
			took = append(took, x)
			c.queued -= len(x.changes)
		} else {
			kept = append(kept, x)
		}
	}
	clear(c.changes[len(kept):])
	c.changes = kept
	c.room.Broadcast()
	c.mu.Unlock()
	for _, x := range took {
		if err := c.store.Apply(x.op, x.changes); err != nil {
			return err
		}
		c.tail = append(c.tail, checkpoint.Tail{Operator: x.op, Changes: x.changes})
		c.tailBytes += len(x.changes)
	}
	return nil
}

// early writes down what the operators of s have changed, when it has become much.
func (s *subtask) early() error {
	c := s.j.checkpoints
	if c == nil {
		return nil
	}
	var n int
	for _, r := range s.order {
		if st, ok := r.op.(op.Stateful); ok && r.open > 0 {
			n += st.Dirty()
		}
	}
	if n < dirtyMax {
		return nil
	}
	next := int64(1)
	if s.lastCut != nil {
		next = s.lastCut.id + 1
	}
	for _, r := range s.order {
		if st, ok := r.op.(op.Stateful); ok && r.open > 0 {
			changes, err := r.changes(st)
			if err != nil {
				return err
			}
			c.add(next, r.node.ID, changes)
		}
	}
	return nil
}

// manifest puts a checkpoint together from what the subtasks wrote down. It returns the files that
// it names, by object name; with whole all of them are at hand.
func (c *checkpoints) manifest(ctx context.Context, k *cut, whole, finished bool) (*checkpoint.Manifest, map[string]string, error) {
	if err := c.settle(k.id); err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	paths := map[string]string{}
	if c.tailBytes > tailMax || whole || c.again {
		c.again = true
		if err := c.cutStore(ctx, paths); err != nil {
			return nil, nil, fmt.Errorf("state: %w", err)
		}
	}
	m := &checkpoint.Manifest{Version: checkpoint.FormatVersion, Job: c.o.Job, Lineage: c.o.Lineage, ID: k.id,
		Finished: finished, MixedBooks: c.mixed(), Started: k.started, Program: c.o.Program,
		Parallelism: c.j.o.Parallelism, MaxParallelism: c.j.o.MaxParallelism,
		Files: c.files, Tail: slices.Clone(c.tail)}
	k.mu.Lock()
	defer k.mu.Unlock()
	c.describe(m, &k.got)
	for _, n := range c.j.p.Nodes {
		for i := range n.Inputs {
			if ch := k.got.channels[[2]int{n.ID, i}]; ch != nil {
				m.Channels = append(m.Channels, *ch)
			}
		}
	}
	for _, n := range c.j.p.Nodes {
		sh := c.j.sinks[n.ID]
		if sh == nil || sh.sink == nil {
			continue
		}
		s := checkpoint.Sink{Node: n.ID, Table: n.Op.(*plan.Sink).Table.Name, Name: c.j.sinkName(n), Fed: c.o.Fingerprints[n.ID].Fed}
		sh.mu.Lock()
		pending := slices.Clone(sh.pending)
		sh.mu.Unlock()
		for _, p := range pending {
			x := checkpoint.Pending{Lineage: p.id.Lineage, Checkpoint: p.id.Checkpoint}
			for _, cm := range p.cs {
				x.Committables = append(x.Committables, cm)
			}
			s.Pending = append(s.Pending, x)
		}
		m.Sinks = append(m.Sinks, s)
	}
	m.Segments = c.segments.files(paths)
	return m, paths, nil
}

// mixed reports whether the books of the nodes do not belong together.
func (c *checkpoints) mixed() bool {
	return c.o.MixedBooks || c.o.From != nil && c.o.From.MixedBooks
}

// describe writes the operators and sources of a manifest.
func (c *checkpoints) describe(m *checkpoint.Manifest, f *frozen) {
	for _, n := range c.j.p.Nodes {
		fp := c.o.Fingerprints[n.ID]
		o := checkpoint.Operator{ID: c.ids[n.ID], Node: n.ID, Label: n.Label, Computes: fp.Computes, Fed: fp.Fed,
			Describe: fp.Describe, Books: f.books[n.ID], Parallelism: len(c.j.books[n.ID])}
		for _, x := range f.ops {
			if x.node != n.ID {
				continue
			}
			o.Ended = x.ended
			if x.stateful && !x.ended {
				if o.Heads == nil {
					o.Heads = make([][]byte, o.Parallelism)
				}
				o.Heads[x.subtask] = x.head
			}
		}
		if st := c.j.stateful(n); st != nil {
			o.States = st.States()
		}
		m.Operators = append(m.Operators, o)
		sh := c.j.sources[n.ID]
		if sh == nil {
			continue
		}
		s := checkpoint.Source{Node: n.ID, Table: sh.table.Name, Fed: fp.Fed, Done: true}
		for _, x := range f.sources {
			if x.node == n.ID {
				s.Splits = append(s.Splits, x.splits...)
				s.Done = s.Done && x.done
				s.Clock = x.clock
			}
		}
		slices.SortFunc(s.Splits, func(a, b checkpoint.Split) int { return a.Order - b.Order })
		m.Sources = append(m.Sources, s)
	}
}

// stateful returns an operator of a node if it keeps state.
func (j *Job) stateful(n *plan.Node) op.Stateful {
	if r := j.subtaskOf(n).ops[n.ID]; r != nil {
		st, _ := r.op.(op.Stateful)
		return st
	}
	return nil
}

// CheckpointStatus is a look at a job's checkpoints.
type CheckpointStatus struct {
	Completed, Failed int64
	Last              int64 // id of the newest
	LastTook          time.Duration
	LastPause         time.Duration
	LastBytes         int64 // written to the store
	LastRequests      int64
	LastAt            time.Time
	LastError         string
	LastSavepoint     string // where it is
}
