package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/build"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/vec"
)

// savedState is the entries of one operator in the key groups of one subtask.
type savedState struct {
	store  *store.Store
	id     uint16
	lo, hi int
}

// Scan implements state.Saved.
func (s *savedState) Scan(st int, f func(group int, key, value []byte) error) error {
	return s.store.Scan(s.id, st, s.lo, s.hi, f)
}

// restoreSplits returns the splits of a source as the checkpoint has them and those found since,
// and tells the clock what it knew.
func (s *sourceShared) restoreSplits(ctx context.Context, from *checkpoint.Source) error {
	var open, ended []string
	for _, sp := range from.Splits {
		if sp.Ended && s.memory != nil {
			ended = append(ended, sp.ID) // the checkpoint was written when nobody could remember them
		} else {
			open = append(open, sp.ID)
		}
	}
	if err := s.recall(from, ended); err != nil {
		return err
	}
	s.enum.Known(open)
	found, done, err := s.enum.Discover(ctx)
	if err != nil {
		return err
	}
	s.discovered = done || from.Done
	s.restored = map[string]checkpoint.Split{}
	read := from.Remembered
	for _, sp := range from.Splits {
		if sp.Ended {
			read++
		}
	}
	s.clock.restore(from.Clock, read)
	for _, sp := range from.Splits {
		if sp.Ended && s.memory != nil {
			continue
		}
		s.restored[sp.ID] = sp
		if sp.Ended {
			continue
		}
		s.found = append(s.found, connector.Split{ID: sp.ID, Data: sp.Data,
			Position: connector.Position{Offset: sp.Offset, Set: sp.Set}})
	}
	s.found = append(s.found, found...)
	return nil
}

// savedSource is the source of the checkpoint whose place n has taken, or nil.
func (j *Job) savedSource(n *plan.Node) *checkpoint.Source {
	if j.checkpoints == nil || j.checkpoints.o.From == nil {
		return nil
	}
	m := j.checkpoints.o.From
	for i := range m.Sources {
		if j.checkpoints.nodes[m.Sources[i].Node] == n {
			return &m.Sources[i]
		}
	}
	return nil
}

// restore sets a split that was just added to where the checkpoint has it.
func (r *splitRun) restore(sp checkpoint.Split) {
	r.wm, r.shown, r.sinceN = sp.Watermark, sp.Shown, sp.Since
	if sp.Shown > vec.MinTime {
		r.s.clock.advance(r.cs, sp.Shown)
	}
	if sp.Idle {
		r.s.clock.setStatus(r.cs, splitIdle)
	}
}

// restoreAll gives the operators their state and puts the rows that were on their way back.
func (j *Job) restoreAll() error {
	killpoint.Pass("restore/begin")
	c := j.checkpoints
	m := c.o.From
	if err := j.convertStates(); err != nil {
		return err
	}
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			for _, src := range s.sources {
				src.restoreEnds()
			}
			for _, v := range s.values {
				o := c.operators[v.node]
				v.endedBefore = o != nil && o.Ended
			}
			for _, r := range s.order {
				if err := j.restoreOp(r); err != nil {
					return err
				}
			}
		}
	}
	for _, n := range j.p.Nodes {
		if o := c.operators[n.ID]; o != nil && len(j.books[n.ID]) > 0 {
			setBooks(j.books[n.ID][0], o.Books)
		}
	}
	killpoint.Pass("restore/state")
	return j.restoreChannels(m)
}

// convertStates rewrites the entries of operators whose time to live was switched on or off since the
// checkpoint. They are all in the store, those of its tail too; nobody has read one yet.
func (j *Job) convertStates() error {
	c := j.checkpoints
	for _, n := range j.p.Nodes {
		o := c.operators[n.ID]
		if o == nil || o.Ended || len(o.States) == 0 {
			continue
		}
		st := j.stateful(n)
		if st == nil {
			continue
		}
		for i, now := range st.States() {
			if i >= len(o.States) {
				break
			}
			k, ok := state.Convert(o.States[i], now)
			if !ok || k == nil {
				continue // what else differs is the operator's own business
			}
			if err := c.store.Convert(o.ID, i, k, j.now()); err != nil {
				return fmt.Errorf("convert the state of operator %s from checkpoint %d: %w", n.Label, c.o.From.ID, err)
			}
			c.again = true // files and tail that there are have the old form
		}
	}
	return nil
}

// restoreEnds notes the splits that were read to their end, so that the next checkpoint has them too.
// They go to the first subtask.
func (s *sourceRun) restoreEnds() {
	if s != s.runs[0] {
		return
	}
	for id, sp := range s.restored {
		if !sp.Ended {
			continue
		}
		if s.ends == nil {
			s.ends = map[string]connector.Position{}
		}
		s.ends[id] = connector.Position{Offset: sp.Offset, Set: sp.Set}
	}
}

func (j *Job) restoreOp(r *opRun) error {
	c := j.checkpoints
	o := c.operators[r.node.ID]
	if o == nil {
		return nil
	}
	r.endedBefore = o.Ended
	st, ok := r.op.(op.Stateful)
	if !ok || o.Ended {
		return nil
	}
	lo, hi := state.Groups(r.s.index, j.o.MaxParallelism, r.s.task.par)
	saved := &savedState{store: c.store, id: o.ID, lo: lo, hi: hi}
	if err := st.Restore(saved, o.Heads); err != nil {
		return fmt.Errorf("restore operator %s from checkpoint %d: %w", r.node.Label, c.o.From.ID, err)
	}
	return nil
}

// restoreChannels sends the rows that were on their way once more, before anything else: so neither
// watermarks nor newer rows overtake them.
func (j *Job) restoreChannels(m *checkpoint.Manifest) error {
	c := j.checkpoints
	// From the sinks up: what an operator makes of its rows comes after the rows that it had sent before,
	// of the same keys.
	channels := slices.Clone(m.Channels)
	slices.SortStableFunc(channels, func(a, b checkpoint.Channel) int { return j.newID(b.To) - j.newID(a.To) })
	for _, ch := range channels {
		to, from := c.nodes[ch.To], c.nodes[ch.From]
		if to == nil || from == nil || ch.Input >= len(to.Inputs) || to.Inputs[ch.Input].From != from.ID {
			return fmt.Errorf("checkpoint %d has rows on their way to an operator that the plan does not have any more; "+
				"start from a savepoint, which has none, or with --fresh", m.ID)
		}
		if to.Inputs[ch.Input].Ordered {
			if err := j.restoreOrdered(&ch, from, to); err != nil {
				return err
			}
			continue
		}
		s := j.subtaskOf(from)
		t := s.edges[[2]int{to.ID, ch.Input}]
		send := func() error { return eachRows(ch.Rows, ch.Schema, j.o.BatchRows, t.Emit) }
		if _, exchanged := t.(*sender); !exchanged {
			s.first = append(s.first, send)
			continue
		}
		// Into the inboxes before anybody runs: newer rows of the same keys come from other subtasks.
		j.lift(true)
		err := send()
		j.lift(false)
		if err != nil {
			return err
		}
	}
	return nil
}

// newID is the number of the node that has taken the place of one of the checkpoint, or -1.
func (j *Job) newID(old int) int {
	if n := j.checkpoints.nodes[old]; n != nil {
		return n.ID
	}
	return -1
}

// subtaskOf returns the first subtask of a node.
func (j *Job) subtaskOf(n *plan.Node) *subtask { return j.taskOf(n).subtasks[0] }

func (j *Job) taskOf(n *plan.Node) *task {
	for _, t := range j.tasks {
		if slices.Contains(t.nodes, n) {
			return t
		}
	}
	panic("BUG: node without a task")
}

// recoverSinks commits what the checkpoint says was prepared: the crash may have come before.
func (j *Job) recoverSinks(ctx context.Context) error {
	c := j.checkpoints
	killpoint.Pass("restore/sinks")
	var errs []error
	from := c.o.Recover
	for i := range from.Sinks {
		m := &from.Sinks[i]
		var sh *sinkShared
		for _, n := range j.p.Nodes {
			if s := j.sinks[n.ID]; s != nil && s.sink != nil && j.sinkName(n) == m.Name {
				sh = s
			}
		}
		if sh != nil && sh.feeds != nil {
			p, err := decodeProgress(m.Progress)
			errs = append(errs, err)
			if p != nil && p.Generation == sh.node.Op.(*plan.Sink).Table.Results.Generation {
				sh.latest, sh.shown = p, p
				errs = append(errs, sh.producers.restore(m.Producers, p, zoneOf(sh.node.Op.(*plan.Sink).Table)))
			}
		}
		if len(m.Pending) == 0 {
			continue
		}
		if sh == nil || sh.committer == nil {
			errs = append(errs, fmt.Errorf("checkpoint %d holds output for table %s that was not committed yet, and the job does not "+
				"write that table any more; start the old job once more to commit it, or lose it with --fresh", from.ID, m.Table))
			continue
		}
		for _, p := range m.Pending {
			cs := make([]connector.Committable, len(p.Committables))
			for k, x := range p.Committables {
				cs[k] = x
			}
			progress, err := decodeProgress(p.Progress)
			errs = append(errs, err)
			sh.pending = append(sh.pending, pendingOutput{connector.CommitID{Lineage: p.Lineage, Checkpoint: p.Checkpoint}, cs, progress})
		}
		if err := j.commitPending(ctx, sh, from.ID); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Settle commits what a checkpoint, Checkpoints.Recover, holds of the output of p that was prepared and
// perhaps not committed. Nothing is run.
func Settle(ctx context.Context, p *plan.Plan, o Options) error {
	o.setDefaults()
	j := newJob(ctx, p, o)
	j.checkpoints = &checkpoints{j: j, o: *o.Checkpoints, segments: newSegments(*o.Checkpoints)}
	err := j.openSinks()
	if err == nil {
		err = j.recoverSinks(j.ctx)
	}
	j.cancel(errStopped)
	return errors.Join(err, j.closeAll())
}

// restore sets what the combined watermark had reached, and how many splits had been read to their end.
func (c *clock) restore(wm int64, ended int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.combined = max(c.combined, wm)
	c.finished += ended
}

// bookNames are the names of counters in a checkpoint.
const (
	bookIn, bookOut, bookUsed, bookLate = "in", "out", "used", "late out"
	bookLateMs                          = "late by, ms"
)

// bookLateBy are those of the buckets of op.LateBy, by the upper bound.
var bookLateBy = func() (out [len(connector.LateBounds) + 1]string) {
	for i := range out {
		out[i] = "late by more"
		if i < len(connector.LateBounds) {
			out[i] = fmt.Sprintf("late by %d ms", connector.LateBounds[i])
		}
	}
	return out
}()

// lateBy is what named counters say of late rows.
func lateBy(from map[string]int64) op.LateBy {
	l := op.LateBy{SumMs: from[bookLateMs]}
	for i, name := range bookLateBy {
		l.Rows[i] = from[name]
	}
	return l
}

// addBooks adds counters to named ones.
func addBooks(to map[string]int64, c *op.Counters) {
	to[bookIn] += c.RowsIn.Load()
	to[bookOut] += c.RowsOut.Load()
	to[bookUsed] += c.Used.Load()
	if n := c.LateOut.Load(); n != 0 {
		to[bookLate] += n
	}
	for r := op.DropReason(0); r < op.DropReasons; r++ {
		if n := c.Drops[r].Load(); n != 0 {
			to["dropped: "+r.String()] += n
		}
	}
	by := c.Late.Load()
	for i, n := range by.Rows {
		if n != 0 {
			to[bookLateBy[i]] += n
		}
	}
	if by.SumMs != 0 {
		to[bookLateMs] += by.SumMs
	}
}

// setBooks sets counters to what a checkpoint has.
func setBooks(c *op.Counters, from map[string]int64) {
	c.RowsIn.Store(from[bookIn])
	c.RowsOut.Store(from[bookOut])
	c.Used.Store(from[bookUsed])
	c.LateOut.Store(from[bookLate])
	for r := op.DropReason(0); r < op.DropReasons; r++ {
		c.Drops[r].Store(from["dropped: "+r.String()])
	}
	by := lateBy(from)
	c.Late.Store(&by)
}

var _ state.Saved = (*savedState)(nil)

// States returns the keyed states that the operators of a plan keep, by node.
func States(p *plan.Plan) (map[int][]state.Spec, error) {
	out := map[int][]state.Spec{}
	for _, n := range p.Nodes {
		switch n.Op.(type) {
		case *plan.Source, *plan.Values, *plan.Sink:
			continue
		}
		o, err := build.Operator(context.Background(), p, n, build.SinkIO{})
		if err != nil {
			return nil, err
		}
		if st, ok := o.(op.Stateful); ok {
			out[n.ID] = st.States()
		}
	}
	return out, nil
}
