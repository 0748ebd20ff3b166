package expr

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

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
type Programs struct {
	env   *Env
	roots []*node
	cond  pred // of a Stage or Filter; nil for none
	res   []*vec.Vec

	ctx   *EvalCtx
	batch *vec.Batch
	epoch uint64 // counts batches: what a node holds of an earlier one is void
	// cur is the scope of evaluation: 0 for the batch's own selection, a new number wherever a
	// branch narrows it. parent[s] is the scope that s narrows. What was computed in a scope
	// holds in those within it.
	cur    int32
	parent []int32
}

// node is one distinct sub-expression of a program.
type node struct {
	e    Expr
	args []*node
	// run computes the node for the rows sel and returns a vector that stays as it is while a
	// scope within the current one is evaluated.
	run    func(p *Programs, nd *node, n int, sel []int32) *vec.Vec
	kernel Kernel
	pos    Pos
	out    *vec.Vec
	argv   []*vec.Vec
	// needs lists the nodes that run evaluates where those are not args.
	needs func(f func(*node))
	// view says that run makes no values of its own but passes on those of args.
	view   bool
	shared *shared

	res   *vec.Vec
	epoch uint64
	scope int32
}

// CompileAll makes one program of all es.
func CompileAll(es []Expr, env *Env) (*Programs, error) {
	s, err := CompileStage(nil, es, env)
	if err != nil {
		return nil, err
	}
	return s.p, nil
}

// CompileTexts makes one program of the columns cols of s as text: each as TRY_CAST(... AS STRING) gives it.
func CompileTexts(s types.Schema, cols []int, env *Env) (*Programs, error) {
	casts := make([]Expr, len(cols))
	for k, i := range cols {
		var err error
		f := s.Fields[i]
		if casts[k], err = Cast(&Column{Index: i, Name: f.Name, T: f.Type}, types.StringType, true, env, Pos{}); err != nil {
			return nil, err
		}
	}
	return CompileAll(casts, env)
}

// EvalAll is Program.Eval for every expression, in order. The slice is valid until the next call.
func (p *Programs) EvalAll(ctx *EvalCtx, b *vec.Batch) []*vec.Vec {
	p.begin(ctx, b)
	return p.evalRoots(b)
}

func (p *Programs) evalRoots(b *vec.Batch) []*vec.Vec {
	for i, r := range p.roots {
		p.res[i] = p.eval(r, b.N, b.Sel)
	}
	return p.res
}

// use lists the nodes that are evaluated for a batch.
func (p *Programs) use(f func(*node)) {
	for _, r := range p.roots {
		f(r)
	}
	if p.cond != nil {
		p.cond.use(f)
	}
}

// attach makes b and ctx those of what is evaluated next.
func (p *Programs) attach(ctx *EvalCtx, b *vec.Batch) {
	p.ctx, p.batch = ctx, b
	ctx.Batch = b
	if ctx.Env == nil {
		ctx.Env = p.env
	}
}

// begin prepares for the rows of b.
func (p *Programs) begin(ctx *EvalCtx, b *vec.Batch) {
	p.attach(ctx, b)
	p.epoch++
	p.cur = 0
	p.parent = append(p.parent[:0], 0)
}

// eval returns the values of nd for the rows sel, computed once a scope, and once a row where nd is
// shared.
func (p *Programs) eval(nd *node, n int, sel []int32) *vec.Vec {
	if nd.epoch == p.epoch {
		if p.covers(nd.scope) {
			return nd.res
		}
		if nd.shared != nil {
			return p.extend(nd, n, sel)
		}
	}
	nd.res = nd.run(p, nd, n, sel)
	nd.epoch, nd.scope = p.epoch, p.cur
	if nd.shared != nil {
		nd.shared.note(n, sel)
	}
	return nd.res
}

// covers reports whether scope s is the current one or around it.
func (p *Programs) covers(s int32) bool {
	for c := p.cur; ; c = p.parent[c] {
		if c == s {
			return true
		}
		if c == 0 {
			return false
		}
	}
}

// enter opens a scope for fewer rows and returns what to give to leave.
func (p *Programs) enter() int32 {
	was := p.cur
	p.parent = append(p.parent, was)
	p.cur = int32(len(p.parent) - 1)
	return was
}

func (p *Programs) leave(was int32) { p.cur = was }

// evalIn evaluates nd in a scope of its own.
func (p *Programs) evalIn(nd *node, n int, sel []int32) *vec.Vec {
	was := p.enter()
	v := p.eval(nd, n, sel)
	p.leave(was)
	return v
}

// compiler turns trees into nodes, equal parts into one.
type compiler struct {
	env  *Env
	p    *Programs
	seen map[string]*node
	ids  map[*node]int
}

func newCompiler(env *Env) *compiler {
	if env == nil {
		env = &Env{}
	}
	return &compiler{env: env, p: &Programs{env: env}, seen: map[string]*node{}, ids: map[*node]int{}}
}

// special holds how the forms are compiled that choose themselves which rows of their arguments
// to compute, or that pass vectors on.
var special map[string]func(c *compiler, call *Call, nd *node) error

// node compiles e.
func (c *compiler) node(e Expr) (*node, error) {
	switch e := e.(type) {
	case *Column:
		return c.share(fmt.Sprintf("$%d", e.Index), func() (*node, error) {
			at := e.Index
			return &node{e: e, run: func(p *Programs, _ *node, _ int, _ []int32) *vec.Vec {
				return p.batch.Cols[at]
			}}, nil
		})
	case *Literal:
		return c.share("'"+e.T.String()+" "+FormatLiteral(e.Value, e.T), func() (*node, error) {
			l := &literal{value: e.Value, v: vec.New(e.T, 0)}
			return &node{e: e, run: func(_ *Programs, _ *node, n int, _ []int32) *vec.Vec {
				return l.fill(n)
			}}, nil
		})
	case *Call:
		return c.call(e)
	}
	return nil, Errorf("cannot run an expression of type %T", e)
}

func (c *compiler) share(key string, make func() (*node, error)) (*node, error) {
	if nd := c.seen[key]; nd != nil {
		return nd, nil
	}
	nd, err := make()
	if err != nil {
		return nil, err
	}
	c.seen[key] = nd
	c.ids[nd] = len(c.ids)
	return nd, nil
}

func (c *compiler) call(e *Call) (*node, error) {
	f := Lookup(e.Fn)
	if f == nil {
		f = parts[e.Fn]
	}
	if f == nil {
		return nil, &Error{Pos: e.Pos, Msg: "unknown function " + e.Fn}
	}
	args := make([]*node, len(e.Args))
	var key strings.Builder
	key.WriteString(f.Name)
	key.WriteByte(' ')
	key.WriteString(e.T.String())
	if f.Volatile {
		// Two RAND() are two; one that a tree holds twice is one.
		fmt.Fprintf(&key, " %p", e)
	}
	for i, a := range e.Args {
		nd, err := c.node(a)
		if err != nil {
			return nil, err
		}
		args[i] = nd
		fmt.Fprintf(&key, " %d", c.ids[nd])
	}
	return c.share(key.String(), func() (*node, error) {
		nd := &node{e: e, args: args, pos: e.Pos, out: vec.New(e.T, 0), argv: make([]*vec.Vec, len(args))}
		if s := special[f.Name]; s != nil {
			return nd, s(c, e, nd)
		}
		if f.Compile == nil {
			return nil, &Error{Pos: e.Pos, Msg: f.Name + " cannot be run as an expression"}
		}
		var err error
		nd.run = runKernel
		if nd.kernel, err = f.Compile(&CompileCtx{Env: c.env}, e); err != nil {
			if x, ok := err.(*Error); ok && x.Pos == (Pos{}) {
				y := *x
				y.Pos = e.Pos
				err = &y
			}
			return nil, err
		}
		return nd, nil
	})
}

func runKernel(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
	for i, a := range nd.args {
		nd.argv[i] = p.eval(a, n, sel)
	}
	nd.out.Reset(n)
	p.ctx.pos = nd.pos
	nd.kernel(p.ctx, nd.argv, nd.out, n, sel)
	return nd.out
}

// literal is a constant as a vector.
type literal struct {
	value  types.Value
	v      *vec.Vec
	filled int
}

// fill returns a vector of n equal values.
func (l *literal) fill(n int) *vec.Vec {
	v := l.v
	if v.Len() == n && l.filled >= n {
		return v
	}
	if v.Phys == types.PNone || l.value == nil {
		v.Reset(n)
		v.AllValid()
		clear(v.Valid)
		l.filled = n
		return v
	}
	if n <= l.filled {
		v.Resize(n)
		return v
	}
	v.Reset(n)
	l.filled = n
	v.SetValue(0, l.value)
	switch v.Phys {
	case types.PBool:
		repeat(v.Bool)
	case types.PI32:
		repeat(v.I32)
	case types.PI64:
		repeat(v.I64)
	case types.PI128:
		repeat(v.I128)
	case types.PF32:
		repeat(v.F32)
	case types.PF64:
		repeat(v.F64)
	case types.PBytes, types.PList:
		repeat(v.Refs)
	default:
		for i := 1; i < n; i++ {
			v.SetValue(i, l.value)
		}
	}
	return v
}

// repeat copies s[0] to all of s.
func repeat[T any](s []T) {
	for k := 1; k < len(s); k *= 2 {
		copy(s[k:], s[:k])
	}
}
