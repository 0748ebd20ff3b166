package sort

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Limit passes on the first rows in the order they come. Of a changelog it keeps all rows, as Top
// without keys does.
type Limit struct {
	n        *plan.Limit
	in       types.Schema
	changing bool
	c        *op.Context
	out      op.Output
	seen     int64
	b        vec.Batch
	top      *Top // nil: no row is taken back
}

// NewLimit builds the operator of n over rows of schema in, which may be taken back where changing.
func NewLimit(n *plan.Limit, in types.Schema, changing bool) op.Operator {
	return &Limit{n: n, in: in, changing: changing}
}

// Open implements op.Operator.
func (o *Limit) Open(c *op.Context, out op.Output) error {
	o.c, o.out = c, out
	if !o.changing || c.BatchMode {
		return nil
	}
	limit := o.n.Limit
	if limit < 0 {
		limit = anyNumber
	}
	o.top = newTop(nil, o.n.Offset, limit, o.in, true)
	return o.top.Open(c, out)
}

// Process implements op.Operator.
func (o *Limit) Process(in int, b *vec.Batch) error {
	if o.top != nil {
		return o.top.Process(in, b)
	}
	rows := b.Selected()
	n := int64(len(rows))
	from := min(max(o.n.Offset-o.seen, 0), n)
	to := n
	if o.n.Limit >= 0 {
		to = max(min(o.n.Offset+o.n.Limit-o.seen, n), from)
	}
	o.seen += n
	if dropped := n - (to - from); dropped > 0 && o.c.Counters != nil {
		o.c.Counters.Drop(op.DropLimit, int(dropped))
	}
	if from == to {
		return nil
	}
	o.b = *b
	o.b.Sel = rows[from:to]
	return o.out.Emit(&o.b)
}

// Watermark implements op.Operator.
func (o *Limit) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Limit) Finish() error { return nil }

// Close implements op.Operator.
func (o *Limit) Close() error {
	if o.top == nil {
		return nil
	}
	return o.top.Close()
}
