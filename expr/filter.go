package expr

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Filter selects the rows for which a condition is TRUE. It belongs to one goroutine.
type Filter struct{ s *Stage }

// CompileFilter makes a Filter of the BOOLEAN expression e.
func CompileFilter(e Expr, env *Env) (*Filter, error) {
	s, err := CompileStage(e, nil, env)
	if err != nil {
		return nil, err
	}
	return &Filter{s: s}, nil
}

func checkCondition(e Expr) error {
	if k := e.Type().Kind; k != types.Boolean && k != types.Null {
		return Errorf("a condition must be BOOLEAN, not %s", e.Type().AsNullable())
	}
	return nil
}

// Select is Stage.Select.
func (f *Filter) Select(ctx *EvalCtx, b *vec.Batch, dst []int32) []int32 {
	return f.s.Select(ctx, b, dst)
}

// pred picks the rows of in (nil: all n) for which a condition is TRUE, appending them to dst,
// which shares no memory with in.
type pred interface {
	pick(p *Programs, n int, in, dst []int32) []int32
	// use lists the nodes that pick evaluates.
	use(f func(*node))
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
	case "IN":
		if find, set, _, ok := constantList(call); ok {
			nd, err := c.node(call.Args[0])
			return &inPred{nd: nd, find: find, set: set}, err
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
	"$SPLIT": true,
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

func (b *boolPred) use(f func(*node)) { f(b.nd) }

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

func (x *nullPred) use(f func(*node)) { f(x.nd) }

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

func (a *andPred) use(f func(*node)) { useAll(a.parts, f) }

func useAll(parts []pred, f func(*node)) {
	for _, pr := range parts {
		pr.use(f)
	}
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
	rest  [2][]int32
}

func (o *orPred) use(f func(*node)) { useAll(o.parts, f) }

func (o *orPred) pick(p *Programs, n int, in, dst []int32) []int32 {
	was := p.cur
	rest, turn := in, 0
	for k, pr := range o.parts {
		if k > 0 {
			p.leave(was)
			p.enter()
		}
		o.found = pr.pick(p, n, rest, o.found[:0])
		if len(o.found) == 0 {
			continue
		}
		// rest may lie in the buffer of the turn before.
		rest = subtract(o.rest[turn][:0], n, rest, o.found)
		o.rest[turn] = rest
		turn = 1 - turn
		if len(rest) == 0 {
			break
		}
	}
	p.leave(was)
	if rest == nil {
		return dst
	}
	return subtract(dst, n, in, rest)
}

// subtract appends the rows of a (nil: all n) that b lacks; both ascend, and b is part of a. Nothing
// branches on which rows those are.
func subtract(dst []int32, n int, a, b []int32) []int32 {
	k := len(dst)
	dst = room(dst, n, a)
	if a != nil {
		n = len(a)
	}
	if len(b) == 0 {
		for r := range n {
			dst[k] = int32(r)
			if a != nil {
				dst[k] = a[r]
			}
			k++
		}
		return dst[:k]
	}
	at, last := 0, len(b)-1
	for r := range n {
		i := int32(r)
		if a != nil {
			i = a[r]
		}
		dst[k] = i
		same := int(b2i(b[min(at, last)] == i))
		at += same
		k += 1 - same
	}
	return dst[:k]
}
