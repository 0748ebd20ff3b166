package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/vec"
)

// Until bounds a run by a checkpoint: sources are read up to where it has them, everything that was read goes
// all the way, the watermark moves to where the checkpoint has it, and then the job stands still (Job.Still) until it is
// killed. Nothing ends that has not ended in the checkpoint.
//
// What was given to the sinks then is what they had been given at the checkpoint, and what the rows lead to that
// were on their way in it: a run from the checkpoint itself, which reads nothing, has only the latter. So a run from
// an earlier checkpoint of the same lineage and a run from this one end in the same state, with the same digests.
// Windows that show results by the clock show what they have in the end of both.
//
// Such a run takes no checkpoints, commits neither output nor positions, and writes no dead letters; its
// sinks are those of a dry run. It wants Checkpoints with a Repo, of which only Fetch is called.
type Until struct {
	Checkpoint *checkpoint.Manifest
	// Nodes is, by node number in Checkpoint, the node that has taken its place.
	Nodes map[int]*plan.Node
}

// Still is a job that stands still.
type Still struct {
	// Manifest has the operators, sources and sinks, with digests, as a checkpoint would have them.
	Manifest *checkpoint.Manifest
	// Store holds all of the state, under the ids of Manifest.Operators. It is closed with the job.
	Store *store.Store
}

// Still waits until the job stands still as Options.Until says.
func (j *Job) Still(ctx context.Context) (*Still, error) {
	select {
	case <-j.stood:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if j.still != nil {
		return j.still, nil
	}
	<-j.done
	return nil, errors.Join(j.stillErr, j.err)
}

// source is where the checkpoint has a source, nil where it does not have it.
func (u *Until) source(n *plan.Node) *checkpoint.Source {
	for i := range u.Checkpoint.Sources {
		if s := &u.Checkpoint.Sources[i]; u.Nodes[s.Node] == n {
			return s
		}
	}
	return nil
}

// limit leaves those splits of a source that the checkpoint knows, and says how far they are read.
func (j *Job) limit(s *sourceShared) error {
	m := j.o.Until.Checkpoint
	u := j.o.Until.source(s.node)
	if u == nil {
		return fmt.Errorf("checkpoint %d does not read it", m.ID)
	}
	later, err := s.laterThan(j.ctx, u)
	if err != nil {
		return err
	}
	s.found = slices.DeleteFunc(s.found, func(x connector.Split) bool { return later[x.ID] })
	s.until, s.untilClock, s.discovered = map[string]checkpoint.Split{}, u.Clock, u.Done
	for _, sp := range u.Splits {
		s.until[sp.ID] = sp
	}
	have, ended := map[string]bool{}, 0
	for id := range s.restored {
		have[id] = true
	}
	for _, x := range s.found {
		have[x.ID] = true
		if sp, ok := s.until[x.ID]; !ok || sp.Ended {
			ended++
		}
	}
	for _, sp := range u.Splits {
		if !have[sp.ID] && !sp.Ended {
			return fmt.Errorf("%s, which checkpoint %d had read up to %d, is gone: the interval cannot be computed again without it",
				sp.ID, m.ID, sp.Offset)
		}
	}
	if err := j.limitEnded(s, u, ended); err != nil {
		return err
	}
	if !s.source.Bounded() {
		// As they came to a folder that is watched: the next one when those before had been read. So rows are as late as then.
		s.found, s.untilNext = s.split(func(x connector.Split) bool { _, ok := s.restored[x.ID]; return ok })
	}
	return nil
}

// split divides what was found into those that hold and the others.
func (s *sourceShared) split(holds func(connector.Split) bool) (some, others []connector.Split) {
	for _, x := range s.found {
		if holds(x) {
			some = append(some, x)
		} else {
			others = append(others, x)
		}
	}
	return some, others
}

// limitEnded makes sure that all splits are there that were read to their end since the checkpoint that the run goes on
// from, of which ended were found.
func (j *Job) limitEnded(s *sourceShared, u *checkpoint.Source, ended int) error {
	m := j.o.Until.Checkpoint
	if s.memory == nil {
		return nil
	}
	// Of those the checkpoint has no names.
	before := s.memory.n
	now := u.Remembered
	for _, sp := range u.Splits {
		if sp.Ended {
			now++
		}
	}
	if gone := now - before - ended; gone > 0 {
		return fmt.Errorf("%d of the %d splits that were read to their end before checkpoint %d are gone: the interval cannot be computed "+
			"again without them", gone, now-before, m.ID)
	}
	return nil
}

// laterThan finds the splits that there are now and that a checkpoint does not know.
func (s *sourceShared) laterThan(ctx context.Context, u *checkpoint.Source) (map[string]bool, error) {
	enum, err := s.source.NewEnumerator(ctx)
	if err != nil {
		return nil, err
	}
	defer enum.Close()
	r, remembers := enum.(connector.Rememberer)
	if remembers && u.Memory != nil {
		if err := r.Recall(u.Memory); err != nil {
			return nil, err
		}
	}
	var open, ended []string
	for _, sp := range u.Splits {
		if sp.Ended && remembers {
			ended = append(ended, sp.ID)
		} else {
			open = append(open, sp.ID)
		}
	}
	if len(ended) > 0 {
		if _, err := r.Remember(ended); err != nil {
			return nil, err
		}
	}
	enum.Known(open)
	found, _, err := enum.Discover(ctx)
	later := map[string]bool{}
	for _, x := range found {
		later[x.ID] = true
	}
	return later, err
}

// keyOnDataLoss says what sources do whose next record is gone; a run up to a checkpoint never goes on.
const keyOnDataLoss = "scan.on-data-loss"

// strictly is what a source of a bounded run is made for.
func strictly(t *connector.Table, f *connector.Factory) (*connector.Table, option.Values) {
	if _, ok := t.Options[keyOnDataLoss]; ok {
		c := *t
		c.Options = map[string]string{}
		for k, v := range t.Options {
			if k != keyOnDataLoss {
				c.Options[k] = v
			}
		}
		t = &c
	}
	return t, option.Of(t.Options, f.Options, connector.CommonOptions)
}

// bound sets the limit of a split that was just added.
func (r *splitRun) bound() {
	if r.s.until == nil {
		return
	}
	sp, ok := r.s.until[r.split.ID]
	if !ok {
		return // it was read to its end
	}
	r.limit = &sp
	if !sp.Ended {
		at := r.split.Position
		r.through = !sp.Set || at.Set && at.Offset >= sp.Offset
	} else if !sp.Set {
		r.limit = nil
	}
}

// stands reports whether a split has given all rows up to its limit, and goes on behind it.
func (r *splitRun) stands() bool { return r.through && !r.limit.Ended && !r.pending() }

// atLimit is what fill returns at the limit.
func (r *splitRun) atLimit() (bool, error) {
	r.ended = r.limit.Ended
	return false, nil
}

// keepToLimit leaves out the decoded rows from the limit on.
func (r *splitRun) keepToLimit() error {
	if r.limit == nil {
		return nil
	}
	n := r.raw.N
	if n > 0 && r.raw.Pos == nil {
		return fmt.Errorf("the rows of table %s have no positions: it cannot be read up to a checkpoint", r.s.table.Name)
	}
	for n > 0 && r.raw.Pos[n-1] >= r.limit.Offset {
		n--
	}
	r.through = n < r.raw.N || r.resume().Offset >= r.limit.Offset
	if n == r.raw.N {
		return nil
	}
	for _, c := range r.raw.Cols {
		c.Resize(n)
	}
	r.raw.N, r.raw.Pos = n, r.raw.Pos[:n]
	if r.raw.Kinds != nil {
		r.raw.Kinds = r.raw.Kinds[:n]
	}
	r.keys.bad = slices.DeleteFunc(r.keys.bad, func(row int) bool { return row >= n })
	return nil
}

// goneAfter is how long a split without data may have less than its limit before it is taken for one that has lost
// some: what it had at the checkpoint is there, or on its way from a server.
const goneAfter = 15 * time.Second

// noneBeforeLimit is none for a split with a limit.
func (r *splitRun) noneBeforeLimit(err error) (bool, error) {
	at := r.resume()
	if at.Offset >= r.limit.Offset {
		r.through = true
		return r.atLimit()
	}
	if r.quiet.IsZero() {
		r.quiet = time.Now()
	}
	if err == io.EOF || time.Since(r.quiet) > goneAfter && r.rd.Lag() == 0 {
		return false, fmt.Errorf("%s of table %s ends at %d, and had been read up to %d: its data have changed or are gone, and the interval cannot be "+
			"computed again", r.split.ID, r.s.table.Name, at.Offset, r.limit.Offset)
	}
	return false, nil
}

// atLimit reports whether the sources of the subtask have given everything up to their limits.
func (s *subtask) atLimit() bool {
	for _, v := range s.values {
		if !v.done {
			return false
		}
	}
	for _, src := range s.sources {
		for _, r := range src.splits {
			if !r.stands() {
				return false
			}
		}
	}
	return true
}

// standStill waits until the job has read what Options.Until says, and has everything come through.
func (j *Job) standStill() {
	defer func() {
		select {
		case <-j.stood:
		default:
			close(j.stood)
		}
	}()
	if !j.awaitSources() {
		return
	}
	for _, s := range j.sources {
		s.clock.restore(s.untilClock, 0)
	}
	show := func(s *subtask) error {
		for _, src := range s.sources {
			if src.closedOut {
				continue
			}
			if err := src.tick(); err != nil {
				return err
			}
		}
		return nil
	}
	release := func(s *subtask) error {
		for _, r := range s.order {
			if err := r.releaseAll(vec.MaxTime); err != nil {
				return err
			}
		}
		return nil
	}
	for _, f := range []func(*subtask) error{show, release, showMarked} {
		j.everywhere(f)
		if passed, err := j.epochs.pass(j.stop, time.Hour); err != nil || !passed {
			j.stillErr = err
			j.cancel(errors.Join(errStopped, err))
			return
		}
	}
	if j.still, j.stillErr = j.freezeStill(); j.stillErr != nil {
		j.cancel(j.stillErr)
		return
	}
	close(j.stood)
	select {
	case <-j.stop:
	case <-j.ctx.Done():
	}
	j.cancel(errStopped)
}

// showMarked has windows that show results by the clock show what they have, so that it does not matter when the
// clock had them do so last.
func showMarked(s *subtask) error {
	for _, r := range s.order {
		w, ok := r.node.Op.(*plan.WindowAgg)
		if !ok || r.proc == nil || r.open == 0 || w.Window.ProcTime || w.EarlyFireMs <= 0 && w.LateFireMs <= 0 {
			continue
		}
		if err := r.proc.ProcTime(vec.MaxTime - 1); err != nil {
			return err
		}
	}
	return nil
}

// awaitSources waits until all sources are where they should be; false: the job is over before.
func (j *Job) awaitSources() bool {
	t := time.NewTicker(2 * time.Millisecond)
	defer t.Stop()
	for {
		all := true
		for _, task := range j.tasks {
			for _, s := range task.subtasks {
				if len(s.sources)+len(s.values) > 0 && !s.ended.Load() && !s.reached.Load() {
					all = false
				}
			}
		}
		if all && !j.nextSplit() {
			return true
		}
		select {
		case <-j.ctx.Done():
			return false
		case <-j.stop:
			j.cancel(errStopped)
			return false
		case <-t.C:
		}
	}
}

// nextSplit gives each source the next split that was found since the checkpoint that the run goes on from; false: there
// are none left.
func (j *Job) nextSplit() bool {
	some := false
	for _, n := range j.p.Nodes {
		s := j.sources[n.ID]
		if s == nil || len(s.untilNext) == 0 {
			continue
		}
		some = true
		split := s.untilNext[0]
		s.untilNext = s.untilNext[1:]
		r := s.runs[s.assigned%len(s.runs)]
		order, cs := s.assigned, s.clock.add(split.ID)
		s.assigned++
		taken := make(chan struct{})
		st := j.taskOf(n).subtasks[slices.Index(s.runs, r)]
		st.command(func() error {
			r.add(split, order, cs)
			st.reached.Store(false)
			close(taken)
			return nil
		})
		select {
		case <-taken:
		case <-j.ctx.Done():
			return false
		}
	}
	return some
}

// everywhere runs f in all subtasks that have not ended, between two batches, and does not wait for it.
func (j *Job) everywhere(f func(*subtask) error) {
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			s.command(func() error { return f(s) })
		}
	}
}

// freezeStill takes a cut of the job, which stands still from then on, and has all of its state in the store.
func (j *Job) freezeStill() (*Still, error) {
	c := j.checkpoints
	k, err := j.cut(j.ctx, j.o.Until.Checkpoint.ID, true)
	if err != nil && !(errors.Is(err, errSettling) && k != nil) {
		return nil, err
	}
	defer c.changes.hold(noLimit)
	if err := c.changes.settle(k.seq); err != nil {
		return nil, err
	}
	if err := c.changes.whole(); err != nil {
		return nil, err
	}
	m := &checkpoint.Manifest{Job: c.o.Job, Lineage: c.o.Lineage, ID: k.id, Started: j.o.Until.Checkpoint.Started,
		Parallelism: j.o.Parallelism, MaxParallelism: j.o.MaxParallelism}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := c.describe(m, &k.got); err != nil {
		return nil, err
	}
	for _, n := range j.p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok {
			m.Sinks = append(m.Sinks, checkpoint.Sink{Node: n.ID, Table: s.Table.Name, Digest: j.digestAt(n, &k.got)})
		}
	}
	return &Still{Manifest: m, Store: c.store}, nil
}
