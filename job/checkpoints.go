package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Job is the job's name; Lineage what this start belongs to; Run the run of a script with several
	// jobs, or nil.
	Job, Lineage string
	Run          *checkpoint.ScriptRun
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

	changes *changes
	files   []checkpoint.File // of the store, as the newest manifest has them
}

func newCheckpoints(j *Job, o CheckpointOptions) (*checkpoints, error) {
	c := &checkpoints{j: j, o: o, ids: map[int]uint16{}, operators: o.Operators, nodes: o.Nodes}
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
	c.changes = newChanges(c.store, o.Repo == nil, j.o.StateMemory)
	if o.From == nil {
		return c, nil
	}
	c.files = o.From.Files
	for _, t := range o.From.Tail {
		if err := c.store.Apply(t.Operator, t.Changes); err != nil {
			return nil, errors.Join(fmt.Errorf("checkpoint %d: %w", o.From.ID, err), c.store.Close())
		}
		c.changes.tail = append(c.changes.tail, stateChange{op: t.Operator, changes: t.Changes})
		c.changes.size += len(t.Changes)
	}
	c.changes.applied = len(c.changes.tail)
	kept := map[uint16]bool{}
	for _, id := range c.ids {
		kept[id] = true
	}
	for _, m := range o.From.Operators {
		if !kept[m.ID] && len(m.States) > 0 {
			if err := c.store.DropOperator(m.ID); err != nil {
				return nil, errors.Join(err, c.store.Close())
			}
			c.again = true // the files that there are still have it
		}
	}
	return c, nil
}

// manifest puts a checkpoint together from what the subtasks wrote down. It returns the files that
// it names, by object name; with whole all of them are at hand.
func (c *checkpoints) manifest(ctx context.Context, k *cut, whole, finished bool) (*checkpoint.Manifest, map[string]string, error) {
	defer c.changes.hold(noLimit)
	if err := c.changes.settle(k.seq); err != nil {
		return nil, nil, err
	}
	paths := map[string]string{}
	tail, small := c.changes.tails()
	if !small || whole || c.again {
		c.again, tail = true, nil
		if err := c.changes.whole(); err != nil {
			return nil, nil, err
		}
		if err := c.cutStore(ctx, paths); err != nil {
			return nil, nil, fmt.Errorf("state: %w", err)
		}
	}
	m := &checkpoint.Manifest{Job: c.o.Job, Lineage: c.o.Lineage, ID: k.id,
		Finished: finished, Run: c.o.Run, MixedBooks: c.mixed(), Started: k.started, Program: c.o.Program,
		Parallelism: c.j.o.Parallelism, MaxParallelism: c.j.o.MaxParallelism,
		Files: c.files, Tail: tail}
	if _, ok := c.o.Repo.(ender); ok {
		m.Ends = finished
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := c.describe(m, &k.got); err != nil {
		return nil, nil, err
	}
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
		s.Progress, s.Producers = encodeProgress(sh.latest), sh.producers.save()
		sh.mu.Unlock()
		for _, p := range pending {
			x := checkpoint.Pending{Lineage: p.id.Lineage, Checkpoint: p.id.Checkpoint, Progress: encodeProgress(p.progress)}
			for _, cm := range p.cs {
				x.Committables = append(x.Committables, cm)
			}
			s.Pending = append(s.Pending, x)
		}
		s.Digest = c.j.digestAt(n, &k.got)
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
func (c *checkpoints) describe(m *checkpoint.Manifest, f *frozen) error {
	for _, n := range c.j.p.Nodes {
		fp := c.o.Fingerprints[n.ID]
		o := checkpoint.Operator{ID: c.ids[n.ID], Node: n.ID, Label: n.Label, Computes: fp.Computes, Fed: fp.Fed,
			Describe: fp.Describe, Books: f.books[n.ID], Parallelism: len(c.j.books[n.ID])}
		ended := 0
		for _, x := range f.ops {
			if x.node != n.ID {
				continue
			}
			if x.ended {
				ended++
			}
			if x.stateful && !x.ended {
				if o.Heads == nil {
					o.Heads = make([][]byte, o.Parallelism)
				}
				o.Heads[x.subtask] = x.head
			}
		}
		// One that has ended in some subtasks only still has something to give in the others.
		o.Ended = ended > 0 && ended == o.Parallelism
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
		if sh.memory != nil {
			var err error
			if s.Memory, s.Remembered, err = sh.memory.told(); err != nil {
				return fmt.Errorf("what was read of table %s: %w", sh.table.Name, err)
			}
		}
		m.Sources = append(m.Sources, s)
	}
	return nil
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

// after adds what the starts before this one did; what is said of the last checkpoint is of the last
// one that there was.
func (c CheckpointStatus) after(before CheckpointStatus) CheckpointStatus {
	out := c
	out.Completed += before.Completed
	out.Failed += before.Failed
	if c.Last == 0 {
		out.Last, out.LastTook, out.LastPause = before.Last, before.LastTook, before.LastPause
		out.LastBytes, out.LastRequests, out.LastAt = before.LastBytes, before.LastRequests, before.LastAt
	}
	if c.LastError == "" {
		out.LastError = before.LastError
	}
	if c.LastSavepoint == "" {
		out.LastSavepoint = before.LastSavepoint
	}
	return out
}
