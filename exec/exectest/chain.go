package exectest

import (
	"math/rand"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Chain is several operators in a row as one.
type Chain struct{ Ops []op.Operator }

type link struct{ next op.Operator }

// Emit implements op.Output.
func (l link) Emit(b *vec.Batch) error { return l.next.Process(0, b) }

// Watermark implements op.Output.
func (l link) Watermark(wm int64) error { return l.next.Watermark(wm) }

// Open implements op.Operator.
func (c *Chain) Open(ctx *op.Context, out op.Output) error {
	for i := len(c.Ops) - 1; i >= 0; i-- {
		to := out
		if i+1 < len(c.Ops) {
			to = link{c.Ops[i+1]}
		}
		if err := c.Ops[i].Open(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

// Process implements op.Operator.
func (c *Chain) Process(in int, b *vec.Batch) error { return c.Ops[0].Process(in, b) }

// Watermark implements op.Operator.
func (c *Chain) Watermark(wm int64) error { return c.Ops[0].Watermark(wm) }

// Finish implements op.Operator.
func (c *Chain) Finish() error {
	for _, o := range c.Ops {
		if err := o.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// Close implements op.Operator.
func (c *Chain) Close() error {
	for _, o := range c.Ops {
		_ = o.Close()
	}
	return nil
}

// Fan is an operator behind an exchange: its rows come from several upstream subtasks, in an order
// between them that chance decides, and its watermark is the least of theirs.
type Fan struct {
	Op op.Operator
	// Up are the operators before the exchange, one a subtask; nil entries pass rows on.
	Up     []op.Operator
	Schema types.Schema // of what reaches Op
	Seed   int64

	r      *rand.Rand
	queues [][]item
	wms    []int64
	wm     int64
}

type item struct {
	b  *vec.Batch
	wm int64
}

type lane struct {
	f *Fan
	i int
}

// Emit implements op.Output.
func (l lane) Emit(b *vec.Batch) error {
	c := vec.NewBatch(l.f.Schema)
	rows := b.Sel
	if rows == nil {
		for i := range b.N {
			rows = append(rows, int32(i))
		}
	}
	c.Gather(b, rows)
	l.f.queues[l.i] = append(l.f.queues[l.i], item{b: c})
	return nil
}

// Watermark implements op.Output.
func (l lane) Watermark(wm int64) error {
	l.f.queues[l.i] = append(l.f.queues[l.i], item{wm: wm})
	return nil
}

// Open implements op.Operator.
func (f *Fan) Open(ctx *op.Context, out op.Output) error {
	f.r = rand.New(rand.NewSource(f.Seed))
	f.queues = make([][]item, len(f.Up))
	f.wm = vec.MinTime
	for i, u := range f.Up {
		f.wms = append(f.wms, vec.MinTime)
		if u != nil {
			if err := u.Open(ctx, lane{f, i}); err != nil {
				return err
			}
		}
	}
	return f.Op.Open(ctx, out)
}

// Process implements op.Operator: each upstream subtask gets a part of the rows.
func (f *Fan) Process(in int, b *vec.Batch) error {
	parts := make([][]int32, len(f.Up))
	b.Each(func(i int) {
		k := f.r.Intn(len(parts))
		parts[k] = append(parts[k], int32(i))
	})
	for i, u := range f.Up {
		if len(parts[i]) == 0 {
			continue
		}
		p := *b
		p.Sel = parts[i]
		var err error
		if u != nil {
			err = u.Process(in, &p)
		} else {
			err = lane{f, i}.Emit(&p)
		}
		if err != nil {
			return err
		}
	}
	return f.drain(f.r.Intn(3))
}

// Watermark implements op.Operator.
func (f *Fan) Watermark(wm int64) error {
	for i, u := range f.Up {
		var err error
		if u != nil {
			err = u.Watermark(wm)
		} else {
			err = lane{f, i}.Watermark(wm)
		}
		if err != nil {
			return err
		}
	}
	return f.drain(f.r.Intn(4))
}

// drain delivers up to n queued items (-1: all) of lanes chosen by chance.
func (f *Fan) drain(n int) error {
	for ; n != 0; n-- {
		var full []int
		for i, q := range f.queues {
			if len(q) > 0 {
				full = append(full, i)
			}
		}
		if len(full) == 0 {
			return nil
		}
		i := full[f.r.Intn(len(full))]
		it := f.queues[i][0]
		f.queues[i] = f.queues[i][1:]
		if it.b != nil {
			if err := f.Op.Process(0, it.b); err != nil {
				return err
			}
			continue
		}
		f.wms[i] = it.wm
		least := it.wm
		for _, w := range f.wms {
			least = min(least, w)
		}
		if least > f.wm {
			f.wm = least
			if err := f.Op.Watermark(least); err != nil {
				return err
			}
		}
	}
	return nil
}

// Finish implements op.Operator.
func (f *Fan) Finish() error {
	for _, u := range f.Up {
		if u != nil {
			if err := u.Finish(); err != nil {
				return err
			}
		}
	}
	if err := f.drain(-1); err != nil {
		return err
	}
	return f.Op.Finish()
}

// Close implements op.Operator.
func (f *Fan) Close() error {
	for _, u := range f.Up {
		if u != nil {
			_ = u.Close()
		}
	}
	return f.Op.Close()
}
