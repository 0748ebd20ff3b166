package sort

import (
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Sort is the operator of plan.Sort; what it does is decided when it is opened, by the mode of the
// job.
type Sort struct {
	op.Operator
	n        *plan.Sort
	in       types.Schema
	out      types.Schema
	changing bool
}

// New builds the operator of n over rows of schema in; out is the same columns. changing says that rows
// may be taken back.
func New(n *plan.Sort, in, out types.Schema, changing bool) (op.Operator, error) {
	return &Sort{n: n, in: in, out: out, changing: changing}, nil
}

// Open implements op.Operator.
func (o *Sort) Open(c *op.Context, out op.Output) error {
	switch {
	case c.BatchMode:
		o.Operator = &All{n: o.n, schema: o.in, batch: vec.NewBatch(o.out)}
	case o.n.Limit >= 0:
		o.Operator = newTop(o.n.Keys, o.n.Offset, o.n.Limit, o.in, o.changing)
	default:
		o.Operator = &Temporal{n: o.n, schema: o.in, rows: vec.NewBatch(o.in), batch: vec.NewBatch(o.out)}
	}
	return o.Operator.Open(c, out)
}

// Close implements op.Operator.
func (o *Sort) Close() error {
	if o.Operator == nil {
		return nil
	}
	return o.Operator.Close()
}

// ProcTime implements op.ProcTimer.
func (o *Sort) ProcTime(nowMs int64) error {
	if p, ok := o.Operator.(op.ProcTimer); ok {
		return p.ProcTime(nowMs)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Sort) NextProcTime() int64 {
	if p, ok := o.Operator.(op.ProcTimer); ok {
		return p.NextProcTime()
	}
	return vec.MaxTime
}

// sorted orders the rows of b and returns them.
func sorted(keys []plan.SortKey, b *vec.Batch, rows []int32) []int32 {
	slices.SortStableFunc(rows, func(i, j int32) int {
		return compareRows(keys, b.Cols, int(i), b.Cols, int(j))
	})
	return rows
}

// emitRows emits rows of b in batches, copied into tmp.
func emitRows(out op.Output, tmp, b *vec.Batch, rows []int32) error {
	for len(rows) > 0 {
		n := min(len(rows), vec.BatchRows)
		tmp.Reset(0)
		tmp.Gather(b, rows[:n])
		if err := out.Emit(tmp); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
