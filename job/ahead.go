package job

import (
	"cmp"
	"slices"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// ahead is rows that a checkpoint holds of an input whose rows are merged by their stamps: rows of
// upstream subtasks that were ahead of the others. They wait until it is their turn.
type ahead struct {
	rows  *vec.Batch
	order []int32 // positions of rows by stamp
	// atOnce says that they come before all others, in the order in which they were sent. An operator that stamps its rows
	// itself goes on with the lowest watermark of its subtasks: what it sends then may be stamped lower than what one of
	// them had sent of the same key.
	atOnce bool
}

// stamp is what row i is put in order by.
func (a *ahead) stamp(i int32) int64 {
	if a.atOnce {
		return vec.MinTime
	}
	return a.rows.Stamp(int(i))
}

// add takes rows; order is put right by sort.
func (a *ahead) add(b *vec.Batch, rows []int32) {
	for range rows {
		a.order = append(a.order, int32(len(a.order)))
	}
	a.rows.Gather(b, rows)
}

func (a *ahead) sort() {
	slices.SortStableFunc(a.order, func(x, y int32) int {
		return cmp.Compare(a.stamp(x), a.stamp(y))
	})
}

// first is the stamp of the next row, or vec.MaxTime.
func (a *ahead) first() int64 {
	if len(a.order) == 0 {
		return vec.MaxTime
	}
	return a.stamp(a.order[0])
}

// release gives the rows stamped below limit to the operator.
func (a *ahead) release(r *opRun, input int, limit int64) error {
	for len(a.order) > 0 && a.first() < limit {
		n := 1
		for n < len(a.order) && a.stamp(a.order[n]) < limit && a.order[n] > a.order[n-1] {
			n++
		}
		if err := r.give(input, selected(a.rows, a.order[:n])); err != nil {
			return err
		}
		a.order = a.order[n:]
	}
	return nil
}

// merge processes b with the rows that come before each of its own.
func (r *opRun) merge(input int, b *vec.Batch) error {
	a := r.ahead[input]
	rows := b.Selected()
	for len(rows) > 0 && len(a.order) > 0 {
		// Of equal stamps the restored rows come first: they were sent earlier.
		if err := a.release(r, input, b.Stamp(int(rows[0]))+1); err != nil {
			return err
		}
		n := 1
		for n < len(rows) && b.Stamp(int(rows[n])) < a.first() {
			n++
		}
		if err := r.give(input, selected(b, rows[:n])); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if len(rows) == 0 {
		return nil
	}
	return r.give(input, selected(b, rows))
}

// selected is b with another selection.
func selected(b *vec.Batch, rows []int32) *vec.Batch {
	part := *b
	part.Sel = rows
	return &part
}

// releaseAll gives the restored rows stamped below limit to the operator.
func (r *opRun) releaseAll(limit int64) error {
	for input, a := range r.ahead {
		if err := a.release(r, input, limit); err != nil {
			return err
		}
	}
	return nil
}

// restoreOrdered gives the rows of a channel to the subtasks that own them, to wait for their turn.
func (j *Job) restoreOrdered(ch *checkpoint.Channel, from, to *plan.Node) error {
	up, down := j.subtaskOf(from), j.taskOf(to)
	give := func(s *subtask, b *vec.Batch, rows []int32) {
		r := s.ops[to.ID]
		if r.ahead == nil {
			r.ahead = map[int]*ahead{}
		}
		if r.ahead[ch.Input] == nil {
			r.ahead[ch.Input] = &ahead{rows: vec.NewBatch(from.Schema), atOnce: j.restamps(from)}
		}
		r.ahead[ch.Input].add(b, rows)
	}
	err := eachRows(ch.Rows, ch.Schema, j.o.BatchRows, func(b *vec.Batch) error {
		snd, ok := up.edges[[2]int{to.ID, ch.Input}].(*sender)
		if !ok {
			give(down.subtasks[0], b, b.Selected())
			return nil
		}
		snd.distribute(b)
		for d, rows := range snd.rows {
			if len(rows) > 0 {
				give(down.subtasks[d], b, rows)
			}
		}
		return nil
	})
	for _, s := range down.subtasks {
		for _, a := range s.ops[to.ID].ahead {
			a.sort()
		}
	}
	return err
}

// restamps reports whether a node is an operator that stamps its rows itself, or is fed by one.
func (j *Job) restamps(n *plan.Node) bool {
	switch n.Op.(type) {
	case *plan.Source, *plan.Values:
		return false
	case *plan.Calc, *plan.Expand, *plan.Union, *plan.DropUpdateBefore, *plan.WindowTVF:
		return slices.ContainsFunc(n.Inputs, func(e plan.Edge) bool { return j.restamps(j.p.Nodes[e.From]) })
	}
	return true
}
