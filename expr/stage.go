package expr

import "github.com/tidemark-stream/tidemark/vec"

// Stage filters batches and computes expressions for the rows that pass. What the condition and the
// expressions have in common is computed once: the rows for which the condition needed it are not
// computed again. It belongs to one goroutine.
type Stage struct {
	p    *Programs
	cond pred
}

// CompileStage makes a Stage of a BOOLEAN condition, nil for none, and of expressions.
func CompileStage(cond Expr, es []Expr, env *Env) (*Stage, error) {
	c := newCompiler(env)
	all := make([]Expr, len(es), len(es)+1)
	for i, e := range es {
		all[i] = Fold(e, c.env)
	}
	if cond != nil {
		if err := checkCondition(cond); err != nil {
			return nil, err
		}
		all = append(all, Fold(cond, c.env))
	}
	all = fuse(all)
	for _, e := range all[:len(es)] {
		nd, err := c.node(e)
		if err != nil {
			return nil, err
		}
		c.p.roots = append(c.p.roots, nd)
	}
	s := &Stage{p: c.p}
	if cond != nil {
		var err error
		if s.cond, err = c.pred(all[len(es)]); err != nil {
			return nil, err
		}
		c.p.cond = s.cond
	}
	c.p.res = make([]*vec.Vec, len(es))
	c.markShared()
	return s, nil
}

// Select appends to dst the selected positions of b, ascending, for which the condition is TRUE.
// A row for which it fails is in ctx.Errs, and may be selected or not. It starts a batch.
func (s *Stage) Select(ctx *EvalCtx, b *vec.Batch, dst []int32) []int32 {
	s.p.begin(ctx, b)
	return s.cond.pick(s.p, b.N, b.Sel, dst)
}

// Project computes the expressions as Programs.EvalAll does. Where the Stage has a condition, b is the
// batch of the last Select with what that selected, or less.
func (s *Stage) Project(ctx *EvalCtx, b *vec.Batch) []*vec.Vec {
	if s.cond == nil {
		return s.p.EvalAll(ctx, b)
	}
	s.p.attach(ctx, b)
	was := s.p.enter()
	out := s.p.evalRoots(b)
	s.p.leave(was)
	return out
}
