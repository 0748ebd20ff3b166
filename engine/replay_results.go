package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// cells compares the newest revision that was computed again of each cell with the revisions that are in the target. Only
// cells that the interval touched are looked at.
func (r *ReplayReport) cells(ctx context.Context, n *plan.Node, t *connector.Table, x *ReplaySink, limit int) error {
	f := r.folds[t.Name]
	if f == nil || len(f.cells) == 0 || !results.Known(t.Connector) {
		return nil
	}
	s, err := results.Open(ctx, t)
	if err != nil {
		return err
	}
	defer s.Close()
	q := results.Query{Generation: t.Results.Generation, From: vec.MinTime, To: vec.MaxTime, History: true, Deleted: true}
	rows, err := s.Query(ctx, q)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	old := f.history(rows)
	x.Changes, x.More = nil, 0
	differ := 0
	for _, id := range slices.Sorted(maps.Keys(f.cells)) {
		now, was := f.cells[id], old[id]
		if later, ok := r.flying[t.Name].cells[id]; ok {
			// What was on its way has changed the cell once more: that is not in the target yet, or under another number.
			later.revision = now.revision
			was = []cell{later}
		}
		c := f.against(was, &now)
		if c == nil {
			continue
		}
		if differ++; len(x.Changes) < limit {
			x.Changes = append(x.Changes, *c)
		} else {
			x.More++
		}
	}
	x.By = "revisions in the target"
	if differ == 0 {
		if x.Verdict == ReplayDiffers {
			x.By = "state of " + r.job.p.Nodes[n.Inputs[0].From].Label
		} else {
			x.Verdict, x.Why = ReplayEqual, nil
		}
		return nil
	}
	x.Verdict, x.Why = ReplayDiffers, r.undetermined(n)
	if len(x.Why) > 0 {
		x.Verdict = ReplayUnknown
	}
	return nil
}

// history is the revisions of each cell that a table holds, by the cell's key.
func (f *fold) history(rows *results.Rows) map[string][]cell {
	at := map[string]int{}
	for i, c := range rows.Columns {
		at[c.Name] = i
	}
	out := map[string][]cell{}
	for _, row := range rows.Rows {
		c := cell{values: make([]string, len(f.t.Columns)), same: make([]string, len(f.t.Columns))}
		for i, col := range f.t.Columns {
			if k, ok := at[col.Name]; ok {
				c.values[i], c.same[i] = sqlText(row[k], col.Type), f.same.stored(row[k], col.Type)
			}
		}
		if k, ok := at[f.t.Results.Column["revision"]]; ok {
			c.revision, _ = row[k].(int64)
		}
		if k, ok := at[f.t.Results.Column["is_deleted"]]; ok {
			c.deleted, _ = row[k].(bool)
		}
		id := f.id(c.same)
		out[id] = append(out[id], c)
	}
	return out
}

// against compares a cell with its revisions in the target; nil where one of them says the same. How many revisions a
// burst of rows makes may differ, so the newest may have another number; it is looked for among those that do not
// come before the first that was made again.
func (f *fold) against(old []cell, now *cell) *CellChange {
	meta := map[string]bool{}
	for _, c := range f.t.Results.Column {
		meta[c] = true
	}
	same := func(a *cell) bool {
		if a.deleted || now.deleted {
			return a.deleted == now.deleted
		}
		for i, c := range f.t.Columns {
			if !meta[c.Name] && a.same[i] != now.same[i] {
				return false
			}
		}
		return true
	}
	var nearest *cell
	for i := range old {
		a := &old[i]
		if a.revision >= now.first && same(a) {
			return nil
		}
		if nearest == nil || abs(a.revision-now.revision) < abs(nearest.revision-now.revision) {
			nearest = a
		}
	}
	c := &CellChange{Table: f.t.Name, Key: map[string]string{}, Reason: "changes"}
	if nearest == nil {
		c.Reason = "appears"
	}
	for i, col := range f.t.Columns {
		switch {
		case slices.Contains(f.t.Results.Key, col.Name):
			c.Key[col.Name] = now.values[i]
		case meta[col.Name]:
		case nearest == nil:
			c.New = put(c.New, col.Name, now.values[i])
		case nearest.same[i] != now.same[i]:
			c.Old, c.New = put(c.Old, col.Name, nearest.values[i]), put(c.New, col.Name, now.values[i])
		}
	}
	return c
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
