package expr

import (
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	special = map[string]func(*compiler, *Call, *node) error{
		"AND": compileAnd, "OR": compileOr, "CASE": compileCase, "IF": compileCase,
		"COALESCE": compileCoalesce, "IFNULL": compileCoalesce, "ROW": compileRow,
		"FIELD": compileField, "CAST": compileCast, "TRY_CAST": compileCast, "IN": compileIn,
	}
}

// compileAnd evaluates arguments from left to right, each for the rows not FALSE so far only, so
// that a failing argument behind one that is FALSE does not fail.
func compileAnd(_ *compiler, call *Call, nd *node) error {
	compileLogic(call, nd, false)
	return nil
}

// compileOr is compileAnd with TRUE and FALSE swapped.
func compileOr(_ *compiler, call *Call, nd *node) error {
	compileLogic(call, nd, true)
	return nil
}

func compileLogic(call *Call, nd *node, decides bool) {
	for _, a := range call.Args {
		if !total(a) {
			nd.run = logic(decides)
			return
		}
	}
	nd.run = runKernel
	nd.kernel = logicDense(decides)
}

// totals are the functions that cost little and never fail.
var totals = map[string]bool{
	"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true, "NOT": true, "AND": true, "OR": true,
	"IS NULL": true, "IS NOT NULL": true, "IS TRUE": true, "IS FALSE": true, "IS NOT TRUE": true, "IS NOT FALSE": true,
}

// total reports whether e costs little and cannot fail, so that it is better computed for every
// row than for those that need it.
func total(e Expr) bool {
	c, ok := e.(*Call)
	if !ok {
		return true
	}
	if c.Fn == "CAST" && len(c.Args) == 1 {
		from, to := c.Args[0].Type(), c.T
		return (sameForm(from, to) || castLoop(from, to) != nil) && total(c.Args[0])
	}
	if !totals[c.Fn] {
		return false
	}
	for _, a := range c.Args {
		if !total(a) {
			return false
		}
	}
	return true
}

// logicDense computes AND or OR of arguments that are all there.
//
//go:noinline
func logicDense(decides bool) Kernel {
	inv := b2i(!decides) // x ^ inv is whether x decides; arithmetic spares branches
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		andValid(out, args...)
		r := out.Bool[:n]
		clear(r)
		// First whether a row is decided, then what that makes of it.
		for _, a := range args {
			b, valid := a.Bool, a.Valid
			switch {
			case sel != nil:
				for _, i := range sel {
					r[i] = r[i] || b[i] == decides && !a.IsNull(int(i))
				}
			case valid == nil:
				for i, x := range b[:n] {
					r[i] = b2i(r[i])|(b2i(x)^inv) != 0
				}
			default:
				for i, x := range b[:n] {
					known := int32(valid[i>>6] >> (i & 63) & 1)
					r[i] = b2i(r[i])|(b2i(x)^inv)&known != 0
				}
			}
		}
		if w := out.Valid; w != nil {
			for i, x := range r {
				w[i>>6] |= uint64(b2i(x)) << (i & 63)
			}
		}
		if !decides {
			for i, x := range r {
				r[i] = !x
			}
		}
	}
}

// logic computes AND, which FALSE decides, or OR, which TRUE decides.
//
//go:noinline
func logic(decides bool) func(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
	var open [2][]int32 // rows not decided, in turn
	return func(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
		out := nd.out
		first := p.eval(nd.args[0], n, sel)
		out.Reset(n)
		out.CopyValid(first.Valid)
		rest := open[0][:0]
		forRows(n, sel, func(i int32) {
			out.Bool[i] = first.Bool[i]
			if first.Bool[i] != decides || out.Valid != nil && !out.Valid.Get(int(i)) {
				rest = append(rest, i)
			}
		})
		open[0] = rest
		was := p.enter()
		for k, a := range nd.args[1:] {
			if len(rest) == 0 {
				break
			}
			v := p.eval(a, n, rest)
			keep := open[(k+1)%2][:0]
			for _, i := range rest {
				switch {
				case v.IsNull(int(i)):
					out.SetNull(int(i))
					keep = append(keep, i)
				case v.Bool[i] == decides:
					out.Bool[i] = decides
					out.SetValid(int(i))
				default:
					// A NULL before stays NULL.
					if out.Valid == nil || out.Valid.Get(int(i)) {
						out.Bool[i] = !decides
					}
					keep = append(keep, i)
				}
			}
			open[(k+1)%2] = keep
			rest = keep
			p.leave(was)
			was = p.enter()
		}
		p.leave(was)
		return out
	}
}

func forRows(n int, sel []int32, f func(i int32)) {
	if sel != nil {
		for _, i := range sel {
			f(i)
		}
		return
	}
	for i := int32(0); i < int32(n); i++ {
		f(i)
	}
}

// compileCase compiles CASE (cond, value, ..., else) and IF, which is its shortest form. A branch
// is evaluated for the rows that take it only.
func compileCase(c *compiler, call *Call, nd *node) error {
	if s, err := c.switchOf(call); s != nil || err != nil {
		nd.run = s.run
		nd.needs = func(f func(*node)) { s.use(nd, f) }
		return err
	}
	k := &caseForm{}
	for i := 0; i+1 < len(call.Args); i += 2 {
		pr, err := c.pred(call.Args[i])
		if err != nil {
			return err
		}
		k.conds = append(k.conds, pr)
	}
	nd.run = k.run
	nd.needs = func(f func(*node)) {
		useAll(k.conds, f)
		useValues(nd, f)
	}
	return nil
}

type caseForm struct {
	conds []pred
	take  []int32
	rest  [2][]int32
}

func (k *caseForm) run(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
	out := nd.out
	out.Reset(n)
	rest := sel
	if rest == nil {
		rest = k.rest[1][:0]
		for i := int32(0); i < int32(n); i++ {
			rest = append(rest, i)
		}
		k.rest[1] = rest
	}
	top := p.cur
	for c, pr := range k.conds {
		if len(rest) == 0 {
			break
		}
		in := rest
		if c == 0 && sel == nil {
			in = nil
		}
		was := p.enter()
		if c == 0 {
			p.leave(was) // all rows see the first condition
		}
		k.take = pr.pick(p, n, in, k.take[:0])
		p.leave(top)
		if len(k.take) > 0 {
			// The branch may hold this very form no deeper than its own scope, so take and
			// rest are safe: nodes are a DAG.
			putBranch(p, nd.args[2*c+1], out, k.take)
			k.rest[c%2] = subtract(k.rest[c%2][:0], n, rest, k.take)
			rest = k.rest[c%2]
		}
	}
	putBranch(p, nd.args[len(nd.args)-1], out, rest)
	return out
}

// copyRows copies the rows sel of src to the same positions of out.
func copyRows(out, src *vec.Vec, sel []int32) {
	if src.Phys == types.PNone {
		for _, i := range sel {
			out.SetNull(int(i))
		}
		return
	}
	if src.Valid == nil && out.Valid == nil {
		switch out.Phys {
		case types.PBool:
			scatter(out.Bool, src.Bool, sel)
			return
		case types.PI32:
			scatter(out.I32, src.I32, sel)
			return
		case types.PI64:
			scatter(out.I64, src.I64, sel)
			return
		case types.PI128:
			scatter(out.I128, src.I128, sel)
			return
		case types.PF32:
			scatter(out.F32, src.F32, sel)
			return
		case types.PF64:
			scatter(out.F64, src.F64, sel)
			return
		}
	}
	for _, i := range sel {
		out.Set(int(i), src, int(i))
	}
}

func scatter[T any](dst, src []T, sel []int32) {
	for _, i := range sel {
		dst[i] = src[i]
	}
}

// compileCoalesce evaluates an argument for the rows only where those before are NULL.
func compileCoalesce(_ *compiler, _ *Call, nd *node) error {
	var found []int32
	var open [2][]int32
	nd.run = func(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
		first := p.eval(nd.args[0], n, sel)
		if !first.MayHaveNulls() {
			return first
		}
		out := nd.out
		out.Reset(n)
		v, rest := first, sel
		for k := range nd.args {
			if k > 0 {
				v = p.evalIn(nd.args[k], n, rest)
			}
			found = found[:0]
			keep := open[k%2][:0]
			forRows(n, rest, func(i int32) {
				if v.IsNull(int(i)) {
					keep = append(keep, i)
				} else {
					found = append(found, i)
				}
			})
			copyRows(out, v, found)
			open[k%2] = keep
			rest = keep
			if len(rest) == 0 {
				return out
			}
		}
		for _, i := range rest {
			out.SetNull(int(i))
		}
		return out
	}
	return nil
}

// compileRow makes a ROW of the arguments' own vectors.
func compileRow(_ *compiler, _ *Call, nd *node) error {
	nd.view = true
	nd.run = func(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
		for i, a := range nd.args {
			nd.argv[i] = p.eval(a, n, sel)
		}
		nd.out.ShareKids(nd.argv, n)
		return nd.out
	}
	return nil
}

// compileField passes a field of a ROW on, NULL where the row is.
func compileField(_ *compiler, call *Call, nd *node) error {
	at, ok := ConstInt(call.Args[1])
	if !ok || at < 0 || int(at) >= len(call.Args[0].Type().Fields) {
		return Errorf("BUG: FIELD needs the index of a field")
	}
	var view vec.Vec
	var valid vec.Bitmap
	nd.view = true
	nd.run = func(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
		row := p.eval(nd.args[0], n, sel)
		kid := row.Kids[at]
		if row.Valid == nil {
			return kid
		}
		view = *kid
		view.Valid = vec.And(valid, row.Valid, kid.Valid, n)
		valid = view.Valid
		return &view
	}
	return nil
}
