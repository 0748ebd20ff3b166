package engine

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// The names of counters in checkpoints, by which books are compared.
const (
	bookRead = "in"
	bookLate = "late out"
)

var bookDropped = "dropped: " + op.DropLate.String()

// operatorAt finds the operator at a node in a manifest of the plan itself.
func operatorAt(m *checkpoint.Manifest, node int) *checkpoint.Operator {
	for i := range m.Operators {
		if m.Operators[i].Node == node {
			return &m.Operators[i]
		}
	}
	return nil
}

// bookOf is a counter of a node in a manifest of the plan itself.
func bookOf(m *checkpoint.Manifest, node int, name string) int64 {
	if o := operatorAt(m, node); o != nil {
		return o.Books[name]
	}
	return 0
}

// before are the operators of the earlier checkpoint, by node of the plan.
func (r *ReplayReport) before() map[int]*checkpoint.Operator {
	if r.taken == nil {
		if m, err := r.job.matched(r.job.from.Manifest); err == nil {
			r.taken = m.Taken()
		}
	}
	return r.taken
}

// books are a counter of a node over the interval, then and now.
func (r *ReplayReport) books(node int, name string) (then, now int64) {
	var was int64
	if o := r.before()[node]; o != nil {
		was = o.Books[name]
	}
	return bookOf(r.then.Manifest, node, name) - was, bookOf(r.now.Manifest, node, name) - was
}

// compare fills in the report.
func (r *ReplayReport) compare(ctx context.Context, e *Engine, o ReplayOptions) error {
	p := r.job.p
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Source); ok {
			x := ReplaySource{Table: s.Table.Name}
			x.Then, x.Now = r.books(n.ID, bookRead)
			r.Sources = append(r.Sources, x)
		}
	}
	if err := r.compareStates(ctx, o.Limit); err != nil {
		return err
	}
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok {
			x := r.sink(n, s)
			if s.Table.Results != nil {
				if err := r.cells(ctx, n, s.Table, x, o.Limit); err != nil {
					return err
				}
			}
			r.Sinks = append(r.Sinks, *x)
		}
	}
	return nil
}

// sink compares the rows of one sink.
func (r *ReplayReport) sink(n *plan.Node, s *plan.Sink) *ReplaySink {
	x := &ReplaySink{Table: s.Table.Name, Verdict: ReplayDiffers, By: ReplayByRows}
	from, to := r.digest(r.job.from.Manifest, n), r.digest(r.job.to.Manifest, n)
	then, now := digestOf(r.then.Manifest, n.ID), digestOf(r.now.Manifest, n.ID)
	kept := from != nil && to != nil && from.Since == to.Since || to != nil && to.Since == r.From.ID
	by, same, states := r.made(n)
	summed := r.summed(n)
	if states == nil && by != "" {
		x.Why = append(x.Why, fmt.Sprintf("its rows do not say what they replace, and checkpoint %d does not have the %s, which had come to its end", r.To.ID, by))
		by = ""
	}
	if from == nil {
		from = &checkpoint.SinkDigest{}
	}
	x.RowsNow = now.Rows - from.Rows
	x.DigestNow = (now.Sum - from.Sum).String()
	if kept {
		x.RowsThen, x.DigestThen = then.Rows-from.Rows, (then.Sum - from.Sum).String()
		x.InFlight = then.Rows - to.Rows
	}
	switch {
	case kept && *then == *now:
		x.Verdict = ReplayEqual
	case !summed && by != "" && same, !kept && by != "" && same:
		// Upserts, and revisions, do not say what they replace: how many there are depends on how rows came in batches. What
		// they are made from tells which is the newest of each key.
		x.Verdict, x.By = ReplayEqual, by
	case by != "" && !same && (!summed || !kept) && !slices.ContainsFunc(states, func(s *ReplayState) bool { return s.Verdict == ReplayDiffers }):
		x.Verdict, x.By = ReplayUnknown, ""
		x.Why = append(x.Why, fmt.Sprintf("its rows do not say what they replace, and the %s has no readable form: its bytes are not the same", by))
	case by != "" && !same && !summed:
		x.By = by
		x.changes(states)
	case !summed && len(x.Why) > 0:
		x.Verdict, x.By = ReplayUnknown, ""
	case !kept && by == "":
		x.Verdict, x.By = ReplayUnknown, ""
		x.Why = append(x.Why, "no digest of its rows is kept from the earlier checkpoint on; it is where 'execution.checkpointing.num-retained' "+
			"is 2 or more when the rows are written")
	case !kept:
		x.By = by
		x.changes(states)
	}
	if x.Verdict != ReplayDiffers {
		if x.Verdict == ReplayEqual {
			x.Why = nil
		}
		return x
	}
	if why := r.undetermined(n); len(why) > 0 {
		x.Verdict, x.Why = ReplayUnknown, why
	}
	return x
}

// digest is that of a sink in a checkpoint, nil where it has none that can be compared.
func (r *ReplayReport) digest(m *checkpoint.Manifest, n *plan.Node) *checkpoint.SinkDigest {
	matched, err := r.job.matched(m)
	if err != nil {
		return nil
	}
	o := matched.Taken()[n.ID]
	if o == nil {
		return nil
	}
	d := digestOf(m, o.Node)
	if d != nil && d.Version != checkpoint.DigestVersion {
		return nil
	}
	return d
}

func digestOf(m *checkpoint.Manifest, node int) *checkpoint.SinkDigest {
	for i := range m.Sinks {
		if m.Sinks[i].Node == node {
			return m.Sinks[i].Digest
		}
	}
	return nil
}

// summed reports whether the rows of a sink add up to something that does not depend on batches: changes that come
// with what they replace, made by operators that do not count.
func (r *ReplayReport) summed(n *plan.Node) bool {
	in := r.job.p.Nodes[n.Inputs[0].From]
	if _, ok := in.Op.(*plan.Revise); ok {
		return false
	}
	return in.Mode.IsInsertOnly() || in.Mode.Has(types.UpdateBefore)
}

// made finds the operators whose state says which row of each key is the newest at a sink, and whether it is the same.
// by is "" where there are none; without states they have come to their end.
func (r *ReplayReport) made(n *plan.Node) (by string, same bool, states []*ReplayState) {
	var labels []string
	known, ended := true, false
	var walk func(id int)
	walk = func(id int) {
		from := r.job.p.Nodes[id]
		found := false
		for i := range r.States {
			if r.States[i].node == id {
				states = append(states, &r.States[i])
				found = true
			}
		}
		if found {
			labels = append(labels, from.Label)
			return
		}
		switch from.Op.(type) {
		case *plan.Calc, *plan.DropUpdateBefore, *plan.Union:
			for _, e := range from.Inputs {
				walk(e.From)
			}
		case *plan.Source, *plan.Values:
			known = false
		default:
			ended = true
			labels = append(labels, from.Label)
		}
	}
	walk(n.Inputs[0].From)
	by = "state of " + strings.Join(labels, ", ")
	switch {
	case ended:
		return by, false, nil
	case !known || len(states) == 0:
		return "", false, nil
	}
	same = !slices.ContainsFunc(states, func(s *ReplayState) bool { return s.Verdict != ReplayEqual })
	return by, same, states
}

func (x *ReplaySink) changes(states []*ReplayState) {
	for _, s := range states {
		x.Changes = append(x.Changes, s.Changes...)
		x.More += s.Differ - int64(len(s.Changes))
	}
}

// stateAt is a state of a run that stands still, as savepoints are read.
func (r *ReplayReport) stateAt(m *checkpoint.Manifest, s *store.Store) *Savepoint {
	return &Savepoint{Snapshot: &checkpoint.Snapshot{Manifest: m}, store: s}
}

// compareStates compares the states of all operators that have some in both runs.
func (r *ReplayReport) compareStates(ctx context.Context, limit int) error {
	then, now := r.stateAt(r.then.Manifest, r.then.Store), r.stateAt(r.now.Manifest, r.now.Store)
	for _, n := range r.job.p.Nodes {
		a, b := operatorAt(r.then.Manifest, n.ID), operatorAt(r.now.Manifest, n.ID)
		if a == nil || b == nil || a.Ended || b.Ended {
			continue
		}
		for st := range a.States {
			x := ReplayState{Operator: n.Label, State: a.States[st].Name, node: n.ID, Verdict: ReplayEqual}
			c, err := newStateDiff(then, now, a, b, st, &x, limit)
			if err == nil {
				err = c.run(ctx)
			}
			if err != nil {
				return fmt.Errorf("state %s of operator %s: %w", x.State, n.Label, err)
			}
			switch {
			case x.opaque:
				x.Verdict = ReplayUnknown // the same rows may have been numbered otherwise
			case x.Differ > 0:
				x.Verdict = ReplayDiffers
			}
			r.States = append(r.States, x)
		}
	}
	return nil
}

// stateDiff compares the entries of one state.
type stateDiff struct {
	then, now   *Savepoint
	thenO, nowO *checkpoint.Operator
	st          int
	x           *ReplayState
	limit       int
	reader      *entryReader
	rows        *vec.Batch
	progs       *expr.Programs
	ectx        *expr.EvalCtx
	keys        int
	ignored     []bool // columns that may differ
}

// revisionCount is the column of the state of revisions that counts them: a burst of late rows may make more or fewer.
const revisionCount = "newest_revision"

// payloadHash is the column of the state of revisions that says nothing to people.
const payloadHash = "payload_hash"

func newStateDiff(then, now *Savepoint, a, b *checkpoint.Operator, st int, x *ReplayState, limit int) (*stateDiff, error) {
	d := &stateDiff{then: then, now: now, thenO: a, nowO: b, st: st, x: x, limit: limit}
	var err error
	if d.reader, err = then.reader(a, st); err != nil {
		d.reader = nil // such as rows that are kept in an order: they have no columns, and are compared as bytes
		return d, nil
	}
	s := d.reader.schema()
	d.rows = vec.NewBatch(s)
	env := &expr.Env{}
	if d.progs, err = expr.CompileTexts(s, places(s.Len()), env); err != nil {
		return nil, err
	}
	d.ectx = &expr.EvalCtx{Env: env}
	d.keys = len(d.reader.spec.Key)
	for i, f := range s.Fields {
		d.ignored = append(d.ignored, i >= d.keys && (f.Name == state.LastUse || f.Name == revisionCount))
	}
	return d, nil
}

// savedEntry is one entry of a state.
type savedEntry struct {
	group      int
	key, value []byte
}

func entriesOf(s *Savepoint, o *checkpoint.Operator, st int, failed *error) iter.Seq[savedEntry] {
	return func(yield func(savedEntry) bool) {
		err := s.store.Scan(o.ID, st, 0, s.Manifest.MaxParallelism, func(group int, key, value []byte) error {
			if !yield(savedEntry{group, slices.Clone(key), slices.Clone(value)}) {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			*failed = err
		}
	}
}

// run compares entry by entry; both come in the order of group and key.
func (d *stateDiff) run(ctx context.Context) error {
	var errA, errB error
	nextA, stopA := iter.Pull(entriesOf(d.then, d.thenO, d.st, &errA))
	defer stopA()
	nextB, stopB := iter.Pull(entriesOf(d.now, d.nowO, d.st, &errB))
	defer stopB()
	a, okA := nextA()
	b, okB := nextB()
	for n := 0; okA || okB; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c := 0
		switch {
		case !okA:
			c = 1
		case !okB:
			c = -1
		case a.group != b.group:
			c = a.group - b.group
		default:
			c = bytes.Compare(a.key, b.key)
		}
		switch {
		case c < 0:
			d.x.Entries++
			d.differ(&a, nil)
			a, okA = nextA()
		case c > 0:
			d.differ(nil, &b)
			b, okB = nextB()
		default:
			d.x.Entries++
			if !bytes.Equal(a.value, b.value) {
				d.differ(&a, &b)
			}
			a, okA = nextA()
			b, okB = nextB()
		}
	}
	if errA != nil {
		return errA
	}
	return errB
}

// differ notes a difference, unless it is in columns that may differ only.
func (d *stateDiff) differ(a, b *savedEntry) {
	old, ok := d.text(a)
	now, ok2 := d.text(b)
	if !ok || !ok2 {
		d.x.Differ++
		d.x.opaque = true
		return
	}
	if old != nil && now != nil && len(old) == len(now) && !slices.ContainsFunc(columns(len(old[0])), func(c int) bool {
		return !d.ignored[c] && slices.ContainsFunc(columns(len(old)), func(row int) bool { return old[row][c] != now[row][c] })
	}) {
		return
	}
	d.x.Differ++
	if len(d.x.Changes) >= d.limit {
		return
	}
	c := CellChange{Table: d.x.Operator + ": " + d.x.State, Key: map[string]string{}, Reason: "changes"}
	if old == nil {
		c.Reason = "appears"
	} else if now == nil {
		c.Reason = "disappears"
	}
	for i, f := range d.reader.schema().Fields {
		was, is := column(old, i), column(now, i)
		switch {
		case i < d.keys && old != nil:
			c.Key[f.Name] = was
		case i < d.keys:
			c.Key[f.Name] = is
		case d.ignored[i] || f.Name == payloadHash || old != nil && now != nil && was == is:
		default:
			if old != nil {
				c.Old = put(c.Old, f.Name, was)
			}
			if now != nil {
				c.New = put(c.New, f.Name, is)
			}
		}
	}
	d.x.Changes = append(d.x.Changes, c)
}

func columns(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// column is what the rows of an entry have in one column.
func column(rows [][]string, c int) string {
	var out []string
	for _, r := range rows {
		out = append(out, r[c])
	}
	return strings.Join(out, ", ")
}

// text is the rows of an entry as text, nil for none; false: it has no readable form.
func (d *stateDiff) text(e *savedEntry) ([][]string, bool) {
	if d.reader == nil {
		return nil, false
	}
	if e == nil {
		return nil, true
	}
	d.rows.Reset(0)
	if err := d.reader.add(d.rows, e.key, e.value); err != nil {
		return nil, false
	}
	d.ectx.Batch, d.ectx.Errs = d.rows, d.ectx.Errs[:0]
	cols := d.progs.EvalAll(d.ectx, d.rows)
	out := make([][]string, d.rows.N)
	for i := range out {
		for _, v := range cols {
			s := "NULL"
			if !v.IsNull(i) {
				s = string(v.Bytes(i))
			}
			out[i] = append(out[i], s)
		}
	}
	return out, true
}
