// Package calc holds the stateless operators: Calc filters and projects, Expand repeats rows for
// grouping sets, Union passes rows on.
package calc

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// projection evaluates a list of expressions over batches, or over those of their rows that a
// condition selected, and sets rows aside that fail.
type projection struct {
	c     *op.Context
	stage *expr.Stage
	ctx   expr.EvalCtx
	sel   []int32
	out   vec.Batch
}

// newProjection compiles es, and what they share with cond (nil: none) to be computed once.
func newProjection(c *op.Context, cond expr.Expr, es []expr.Expr) (*projection, error) {
	stage, err := expr.CompileStage(cond, es, c.Env)
	if err != nil {
		return nil, err
	}
	return &projection{c: c, stage: stage, ctx: expr.EvalCtx{Env: c.Env}}, nil
}

// apply returns b projected; where there is a condition, b is the batch of the last Select of the
// stage with the rows that passed. The result is valid until the next call and shares b's kinds,
// stamps and positions.
func (p *projection) apply(b *vec.Batch) (*vec.Batch, error) {
	p.ctx.Errs = p.ctx.Errs[:0]
	cols := p.stage.Project(&p.ctx, b)
	p.out = vec.Batch{N: b.N, Cols: append(p.out.Cols[:0], cols...), Sel: b.Sel, Kinds: b.Kinds,
		Stamps: b.Stamps, Origin: b.Origin, Pos: b.Pos}
	if len(p.ctx.Errs) > 0 {
		sel, err := refuse(p.c, b, p.ctx.Errs, p.sel[:0])
		if err != nil {
			return nil, err
		}
		p.sel, p.out.Sel = sel, sel
	}
	return &p.out, nil
}

// refuse hands failed rows to the dead-letter handling, each once, and returns the selection
// without them.
func refuse(c *op.Context, b *vec.Batch, errs []expr.RowError, sel []int32) ([]int32, error) {
	if sel == nil {
		sel = make([]int32, 0, b.N) // a nil selection would select all
	}
	bad := map[int]bool{}
	for _, e := range errs {
		if bad[e.Row] {
			continue
		}
		bad[e.Row] = true
		if err := c.BadRow(b, e.Row, e.Pos, e.Err); err != nil {
			return nil, err
		}
	}
	b.Each(func(i int) {
		if !bad[i] {
			sel = append(sel, int32(i))
		}
	})
	return sel, nil
}

// Calc is the operator of plan.Calc.
type Calc struct {
	n    *plan.Calc
	c    *op.Context
	out  op.Output
	fctx expr.EvalCtx
	sel  []int32
	good []int32
	proj *projection // also filters
	in   vec.Batch
}

// New returns the operator of n.
func New(n *plan.Calc) *Calc { return &Calc{n: n} }

// Open implements op.Operator.
func (o *Calc) Open(c *op.Context, out op.Output) (err error) {
	o.c, o.out = c, out
	o.fctx.Env = c.Env
	o.proj, err = newProjection(c, o.n.Filter, o.n.Project)
	return err
}

// Process implements op.Operator.
func (o *Calc) Process(_ int, b *vec.Batch) error {
	if o.n.Filter != nil {
		o.fctx.Errs = o.fctx.Errs[:0]
		o.sel = o.proj.stage.Select(&o.fctx, b, o.sel[:0])
		if len(o.fctx.Errs) > 0 {
			if err := o.refuseFiltered(b); err != nil {
				return err
			}
		}
		if dropped := b.Rows() - len(o.sel) - o.failed(); dropped > 0 {
			o.c.Counters.Drop(op.DropFilter, dropped)
		}
		if len(o.sel) == 0 {
			return nil
		}
		if len(o.sel) < b.N {
			o.in = *b
			o.in.Sel = o.sel
			b = &o.in
		}
	}
	if o.n.Project == nil { // the planner leaves a projection that changes nothing empty
		return o.out.Emit(b)
	}
	out, err := o.proj.apply(b)
	if err != nil {
		return err
	}
	if out.Rows() == 0 {
		return nil
	}
	return o.out.Emit(out)
}

// refuseFiltered sets rows aside whose condition could not be computed.
func (o *Calc) refuseFiltered(b *vec.Batch) error {
	var err error
	o.good, err = refuse(o.c, b, o.fctx.Errs, o.good[:0])
	if err != nil {
		return err
	}
	bad := map[int32]bool{}
	for _, e := range o.fctx.Errs {
		bad[int32(e.Row)] = true
	}
	keep := o.sel[:0]
	for _, i := range o.sel {
		if !bad[i] {
			keep = append(keep, i)
		}
	}
	o.sel = keep
	return nil
}

// failed counts the rows of this batch whose condition could not be computed.
func (o *Calc) failed() int {
	if len(o.fctx.Errs) == 0 {
		return 0
	}
	bad := map[int]bool{}
	for _, e := range o.fctx.Errs {
		bad[e.Row] = true
	}
	return len(bad)
}

// Watermark implements op.Operator.
func (o *Calc) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Calc) Finish() error { return nil }

// Close implements op.Operator.
func (o *Calc) Close() error { return nil }

// Expand is the operator of plan.Expand.
type Expand struct {
	n     *plan.Expand
	out   op.Output
	projs []*projection
}

// NewExpand returns the operator of n; s is its output schema, which types the NULLs.
func NewExpand(n *plan.Expand, s types.Schema) *Expand {
	typed := &plan.Expand{Projects: make([][]expr.Expr, len(n.Projects))}
	for i, es := range n.Projects {
		for k, e := range es {
			if e == nil {
				e = &expr.Literal{T: s.Fields[k].Type.AsNullable()}
			}
			typed.Projects[i] = append(typed.Projects[i], e)
		}
	}
	return &Expand{n: typed}
}

// Open implements op.Operator.
func (o *Expand) Open(c *op.Context, out op.Output) error {
	o.out = out
	for _, es := range o.n.Projects {
		p, err := newProjection(c, nil, es)
		if err != nil {
			return err
		}
		o.projs = append(o.projs, p)
	}
	return nil
}

// Process implements op.Operator.
func (o *Expand) Process(_ int, b *vec.Batch) error {
	for _, p := range o.projs {
		out, err := p.apply(b)
		if err != nil {
			return err
		}
		if out.Rows() > 0 {
			if err := o.out.Emit(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// Watermark implements op.Operator.
func (o *Expand) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Expand) Finish() error { return nil }

// Close implements op.Operator.
func (o *Expand) Close() error { return nil }

// Union is the operator of plan.Union.
type Union struct{ out op.Output }

// Open implements op.Operator.
func (o *Union) Open(_ *op.Context, out op.Output) error { o.out = out; return nil }

// Process implements op.Operator.
func (o *Union) Process(_ int, b *vec.Batch) error { return o.out.Emit(b) }

// Watermark implements op.Operator.
func (o *Union) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Union) Finish() error { return nil }

// Close implements op.Operator.
func (o *Union) Close() error { return nil }
