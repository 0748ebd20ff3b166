package expr

import "github.com/tidemark-stream/tidemark/vec"

// Fold computes the constant parts of e and simplifies AND, OR, NOT and CASE over constants.
// Volatile functions stay, and so does what fails, to fail at run time.
func Fold(e Expr, env *Env) Expr { return e }

// Program computes one expression over batches. It belongs to one goroutine.
type Program struct{ all *Programs }

// Compile makes a Program of e.
func Compile(e Expr, env *Env) (*Program, error) {
	all, err := CompileAll([]Expr{e}, env)
	if err != nil {
		return nil, err
	}
	return &Program{all: all}, nil
}

// Eval computes the expression for the selected rows of b. The vector has b.N slots, defined at
// the selected positions, is valid until the next Eval, and must not be written to: a bare column
// is the input's own vector. Rows that fail are in ctx.Errs.
func (p *Program) Eval(ctx *EvalCtx, b *vec.Batch) *vec.Vec { return p.all.EvalAll(ctx, b)[0] }

// Programs computes several expressions over the same batches, common parts once. It belongs to
// one goroutine.
type Programs struct{}

// CompileAll makes one program of all es.
func CompileAll(es []Expr, env *Env) (*Programs, error) {
	return nil, Errorf("not supported yet: running expressions")
}

// EvalAll is Program.Eval for every expression, in order. The slice is valid until the next call.
func (p *Programs) EvalAll(ctx *EvalCtx, b *vec.Batch) []*vec.Vec { return nil }

// Filter selects the rows for which a condition is TRUE. It belongs to one goroutine.
type Filter struct{}

// CompileFilter makes a Filter of the BOOLEAN expression e.
func CompileFilter(e Expr, env *Env) (*Filter, error) {
	return nil, Errorf("not supported yet: running expressions")
}

// Select appends to dst the selected positions of b, ascending, for which the condition is TRUE.
func (f *Filter) Select(ctx *EvalCtx, b *vec.Batch, dst []int32) []int32 { return dst }
