package expr

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Filter selects the rows for which a condition is TRUE. It belongs to one goroutine.
type Filter struct {
	p    *Programs
	cond pred
}

// CompileFilter makes a Filter of the BOOLEAN expression e.
func CompileFilter(e Expr, env *Env) (*Filter, error) {
	if k := e.Type().Kind; k != types.Boolean && k != types.Null {
		return nil, Errorf("a condition must be BOOLEAN, not %s", e.Type().AsNullable())
	}
	c := newCompiler(env)
	pr, err := c.pred(Fold(e, c.env))
	if err != nil {
		return nil, err
	}
	return &Filter{p: c.p, cond: pr}, nil
}

// Select appends to dst the selected positions of b, ascending, for which the condition is TRUE.
// A row for which it fails is in ctx.Errs, and may be selected or not.
func (f *Filter) Select(ctx *EvalCtx, b *vec.Batch, dst []int32) []int32 {
	f.p.begin(ctx, b)
	return f.cond.pick(f.p, b.N, b.Sel, dst)
}

// pred picks the rows of in (nil: all n) for which a condition is TRUE, appending them to dst,
// which shares no memory with in.
type pred interface {
	pick(p *Programs, n int, in, dst []int32) []int32
}

// pred compiles a condition: AND narrows step by step, OR looks at what is left, comparisons,
// tests for NULL and LIKE pick without a vector of booleans in between.
func (c *compiler) pred(e Expr) (pred, error) {
	call, ok := e.(*Call)
	if !ok {
		return c.boolPred(e)
	}
	switch call.Fn {
	case "AND", "OR":
		parts := make([]pred, 0, len(call.Args))
		for _, a := range cheapFirst(call.Args) {
			pr, err := c.pred(a)
			if err != nil {
				return nil, err
			}
			parts = append(parts, pr)
		}
		if call.Fn == "AND" {
			return &andPred{parts: parts}, nil
		}
		return &orPred{parts: parts}, nil
	case "=", "<>", "<", "<=", ">", ">=":
		if pr, err := c.cmpPred(call); pr != nil || err != nil {
			return pr, err
		}
	case "IS NULL", "IS NOT NULL":
		nd, err := c.node(call.Args[0])
		return &nullPred{nd: nd, null: call.Fn == "IS NULL"}, err
	}
	return c.boolPred(e)
}

// cheapFirst orders conditions of AND or OR by what they cost, so that the dear ones see fewer
// rows. What may fail stays where it is, so that the same rows fail as in the order written.
func cheapFirst(args []Expr) []Expr {
	out := slices.Clone(args)
	for i := 1; i < len(out); i++ {
		x := out[i]
		if !neverFails(x) {
			continue
		}
		at := i
		for at > 0 && cost(x)*2 <= cost(out[at-1]) && neverFails(out[at-1]) {
			out[at] = out[at-1]
			at--
		}
		out[at] = x
	}
	return out
}

// steady are the functions that cannot fail besides those in totals.
var steady = map[string]bool{
	"IN": true, "LIKE": true, "LOWER": true, "UPPER": true, "CHAR_LENGTH": true, "TRIM": true, "SUBSTRING": true,
	"+": true, "-": true, "*": true, "||": true, "COALESCE": true, "CASE": true, "IF": true, "FIELD": true,
	"REGEXP": true, "REGEXP_EXTRACT": true, "REGEXP_REPLACE": true, "SPLIT_INDEX": true, "PARSE_URL": true,
}

func neverFails(e Expr) bool {
	ok := true
	Walk(e, func(e Expr) bool {
		c, call := e.(*Call)
		switch {
		case !call || steady[c.Fn] || totals[c.Fn]:
		case c.Fn == "CAST":
			from := c.Args[0].Type()
			ok = ok && (sameForm(from, c.T) || castLoop(from, c.T) != nil)
		default:
			ok = false
		}
		return ok
	})
	return ok
}

// cost is a rough measure of the time that e takes for a row.
func cost(e Expr) int {
	n := 0
	Walk(e, func(e Expr) bool {
		c, ok := e.(*Call)
		switch {
		case !ok:
		case strings.HasPrefix(c.Fn, "REGEXP") || strings.HasPrefix(c.Fn, "JSON") || strings.HasPrefix(c.Fn, "SIMILAR"):
			n += 100
		case totals[c.Fn] || c.Fn == "FIELD":
			n++
		case steady[c.Fn]:
			n += 4
		default:
			n += 10
		}
		return true
	})
	return n
}

// boolPred picks the rows where a vector of booleans is TRUE.
func (c *compiler) boolPred(e Expr) (pred, error) {
	nd, err := c.node(e)
	return &boolPred{nd: nd}, err
}

type boolPred struct{ nd *node }

func (b *boolPred) pick(p *Programs, n int, in, dst []int32) []int32 {
	v := p.eval(b.nd, n, in)
	if v.Phys == types.PNone {
		return dst
	}
	at := len(dst)
	dst = room(dst, n, in)
	k := at
	if in == nil {
		for i, t := range v.Bool[:n] {
			dst[k] = int32(i)
			if t {
				k++
			}
		}
	} else {
		for _, i := range in {
			dst[k] = i
			if v.Bool[i] {
				k++
			}
		}
	}
	return dropNulls(dst[:k], at, v.Valid)
}

// room makes dst long enough for every row of in, and one more.
func room(dst []int32, n int, in []int32) []int32 {
	if in != nil {
		n = len(in)
	}
	need := len(dst) + n + 1
	if cap(dst) < need {
		grown := make([]int32, len(dst), need)
		copy(grown, dst)
		dst = grown
	}
	return dst[:need]
}

// dropNulls removes the rows of dst from at on that valid lacks.
func dropNulls(dst []int32, at int, valid vec.Bitmap) []int32 {
	if valid == nil {
		return dst
	}
	k := at
	for _, i := range dst[at:] {
		dst[k] = i
		if valid.Get(int(i)) {
			k++
		}
	}
	return dst[:k]
}

type nullPred struct {
	nd   *node
	null bool
}

func (x *nullPred) pick(p *Programs, n int, in, dst []int32) []int32 {
	v := p.eval(x.nd, n, in)
	forRows(n, in, func(i int32) {
		if v.IsNull(int(i)) == x.null {
			dst = append(dst, i)
		}
	})
	return dst
}

type andPred struct {
	parts []pred
	buf   [2][]int32
}

func (a *andPred) pick(p *Programs, n int, in, dst []int32) []int32 {
	was := p.cur
	for k, pr := range a.parts {
		if k > 0 {
			p.leave(was)
			p.enter()
		}
		if k == len(a.parts)-1 {
			dst = pr.pick(p, n, in, dst)
			break
		}
		a.buf[k%2] = pr.pick(p, n, in, a.buf[k%2][:0])
		if in = a.buf[k%2]; len(in) == 0 {
			break
		}
	}
	p.leave(was)
	return dst
}

type orPred struct {
	parts []pred
	found []int32
	all   [2][]int32
	rest  [2][]int32
}

func (o *orPred) pick(p *Programs, n int, in, dst []int32) []int32 {
	was := p.cur
	all := o.all[1][:0]
	for k, pr := range o.parts {
		if k > 0 {
			p.leave(was)
			p.enter()
		}
		o.found = pr.pick(p, n, in, o.found[:0])
		if len(o.found) == 0 {
			continue
		}
		o.all[k%2] = merge(o.all[k%2][:0], all, o.found)
		all = o.all[k%2]
		if k == len(o.parts)-1 {
			break
		}
		rest := o.rest[k%2][:0]
		if in == nil {
			at := 0
			for i := int32(0); i < int32(n); i++ {
				if at < len(o.found) && o.found[at] == i {
					at++
					continue
				}
				rest = append(rest, i)
			}
		} else {
			rest = subtract(rest, in, o.found)
		}
		o.rest[k%2] = rest
		if in = rest; len(in) == 0 {
			break
		}
	}
	p.leave(was)
	return append(dst, all...)
}

// merge appends the union of two ascending lists without common rows.
func merge(dst, a, b []int32) []int32 {
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			dst = append(dst, a[0])
			a = a[1:]
		} else {
			dst = append(dst, b[0])
			b = b[1:]
		}
	}
	dst = append(dst, a...)
	return append(dst, b...)
}
