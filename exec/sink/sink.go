// Package sink holds the operator that hands rows to a connector's writer, or to the caller of a
// bare SELECT.
package sink

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Sink is the operator of plan.Sink.
type Sink struct {
	n      *plan.Sink
	schema types.Schema
	ctx    context.Context
	c      *op.Context
	w      connector.Writer // nil: collect
	// collect takes the rows of a bare SELECT; b is valid during the call.
	collect func(b *vec.Batch) error
	sel     []int32
	in      vec.Batch
	ended   bool
}

// New returns the operator of n over rows of schema s that writes to w, or calls collect where w
// is nil. ctx bounds the writer's I/O.
func New(ctx context.Context, n *plan.Sink, s types.Schema, w connector.Writer, collect func(*vec.Batch) error) *Sink {
	return &Sink{n: n, schema: s, ctx: ctx, w: w, collect: collect}
}

// Open implements op.Operator.
func (o *Sink) Open(c *op.Context, _ op.Output) error { o.c = c; return nil }

// Process implements op.Operator.
func (o *Sink) Process(_ int, b *vec.Batch) error {
	for _, k := range o.n.NotNull {
		if b.Cols[k].MayHaveNulls() {
			var err error
			if b, err = o.notNull(b); err != nil {
				return err
			}
			break
		}
	}
	if b.Rows() == 0 {
		return nil
	}
	if o.w == nil {
		return o.collect(b)
	}
	if err := o.w.Write(o.ctx, b); err != nil {
		return fmt.Errorf("write to table %s: %w", o.n.Table.Name, err)
	}
	return nil
}

// notNull drops or refuses rows with a NULL where the table allows none.
func (o *Sink) notNull(b *vec.Batch) (*vec.Batch, error) {
	if o.sel == nil {
		o.sel = make([]int32, 0, b.N) // a nil selection would select all
	}
	o.sel = o.sel[:0]
	var failed error
	b.Each(func(i int) {
		for _, k := range o.n.NotNull {
			if !b.Cols[k].IsNull(i) {
				continue
			}
			if o.n.DropNulls {
				o.c.Counters.Drop(op.DropNotNull, 1)
				return
			}
			err := fmt.Errorf("column '%s' of table %s is NOT NULL, but the value is NULL; set "+
				"'table.exec.sink.not-null-enforcer' = 'DROP' to drop such rows, counted", o.schema.Fields[k].Name, o.n.Table.Name)
			failed = errors.Join(failed, o.c.BadRow(b, i, expr.Pos{}, err))
			return
		}
		o.sel = append(o.sel, int32(i))
	})
	o.in = *b
	o.in.Sel = o.sel
	return &o.in, failed
}

// Epoch ends an epoch of output: see connector.Writer.Prepare.
func (o *Sink) Epoch() ([]connector.Committable, error) {
	if o.w == nil {
		return nil, nil
	}
	cs, err := o.w.Prepare(o.ctx)
	if err != nil {
		return nil, fmt.Errorf("flush table %s: %w", o.n.Table.Name, err)
	}
	return cs, nil
}

// ProcTime implements op.ProcTimer: it lets the writer keep its time limits.
func (o *Sink) ProcTime(int64) error {
	if o.w == nil || o.ended {
		return nil
	}
	return o.w.Tick(o.ctx)
}

// NextProcTime implements op.ProcTimer.
func (o *Sink) NextProcTime() int64 { return vec.MaxTime }

// Watermark implements op.Operator.
func (o *Sink) Watermark(int64) error { return nil }

// Finish implements op.Operator.
func (o *Sink) Finish() error { o.ended = true; return nil }

// Close implements op.Operator.
func (o *Sink) Close() error {
	if o.w == nil {
		return nil
	}
	return o.w.Close()
}
