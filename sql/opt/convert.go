package opt

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// Optimize rewrites the tree of one sink's input. Its columns stay as they are.
func Optimize(n logical.Node, env *expr.Env) logical.Node {
	r := &rewriter{env: env, done: map[logical.Node]logical.Node{}}
	n = r.convert(n)
	n = r.push(n, nil)
	n = r.lower(n)
	n, _ = prune(n, all(n.Schema().Len()))
	return r.tidy(n)
}

type rewriter struct {
	env *expr.Env
	// done remembers what a node became, so that a sub-query that the tree holds twice stays
	// one node. Used by convert only: later rewrites depend on the node's parent.
	done map[logical.Node]logical.Node
}

func all(n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = true
	}
	return out
}

// convert turns scans into Reads and filters and projections into Calcs, folds expressions and
// merges neighbours.
func (r *rewriter) convert(n logical.Node) logical.Node {
	if d := r.done[n]; d != nil {
		return d
	}
	var out logical.Node
	switch n := n.(type) {
	case *logical.Scan:
		out = readAll(n)
	case *logical.Filter:
		out = r.calc(filterCalc(r.convert(n.Input), n.Cond))
	case *logical.Project:
		out = r.calc(&Calc{Input: r.convert(n.Input), Exprs: n.Exprs, Names: n.Names})
	default:
		out = mapInputs(n, r.convert)
	}
	r.done[n] = out
	return out
}

// mapInputs copies n with its inputs replaced by f of them.
func mapInputs(n logical.Node, f func(logical.Node) logical.Node) logical.Node {
	switch n := n.(type) {
	case *Read, *logical.Values:
		return n
	case *Calc:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *Expand:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *WindowAgg:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *logical.Aggregate:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *logical.WindowTVF:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *logical.Sort:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *logical.RowNumber:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *Dedup:
		c := *n
		c.Input = f(n.Input)
		return &c
	case *logical.Join:
		c := *n
		c.L, c.R = f(n.L), f(n.R)
		return &c
	case *logical.Union:
		c := &logical.Union{}
		for _, in := range n.All {
			c.All = append(c.All, f(in))
		}
		return c
	}
	panic(fmt.Sprintf("BUG: optimizer does not know %T", n))
}

// readAll makes a Read of every column that can be read, and a Calc that computes the others.
func readAll(scan *logical.Scan) logical.Node {
	t := scan.Table
	read := &Read{Scan: scan}
	place := make([]int, len(t.Columns))
	late := make([]bool, len(t.Columns))
	lates := false
	for i, c := range t.Columns {
		if place[i] = -1; c.Kind == catalog.Computed && lateColumn(t, i) {
			late[i], lates = true, true
			continue
		}
		place[i] = len(read.Cols)
		read.Cols = append(read.Cols, i)
	}
	if !lates {
		return read
	}
	out := &Calc{Input: read}
	s := read.Schema()
	var compute func(i int) expr.Expr
	compute = func(i int) expr.Expr {
		if !late[i] {
			return column(s, place[i])
		}
		return expr.Map(t.Columns[i].Expr, func(e expr.Expr) expr.Expr {
			if c, ok := e.(*expr.Column); ok {
				return compute(c.Index)
			}
			return e
		})
	}
	for i, c := range t.Columns {
		e := compute(i)
		if late[i] {
			e = withType(e, c.Type)
		}
		out.Exprs = append(out.Exprs, e)
		out.Names = append(out.Names, c.Name)
	}
	return out
}

// lateColumn reports whether computed column i, or one that it reads, is computed at its use.
func lateColumn(t *catalog.Table, i int) bool {
	if t.Columns[i].Kind != catalog.Computed || t.Columns[i].Expr == nil {
		return false
	}
	if computedAtUse(t.Columns[i].Expr) {
		return true
	}
	cols := map[int]bool{}
	expr.Columns(t.Columns[i].Expr, cols)
	for c := range cols {
		if c != i && lateColumn(t, c) {
			return true
		}
	}
	return false
}

// withType gives a call the type of the column it computes: the time attribute above all.
func withType(e expr.Expr, t types.Type) expr.Expr {
	if e.Type().Equal(t) {
		return e
	}
	switch e := e.(type) {
	case *expr.Call:
		c := *e
		c.T.Attr = t.Attr
		return &c
	case *expr.Column:
		c := *e
		c.T.Attr = t.Attr
		return &c
	}
	return e
}

// calc folds the expressions of c and merges it with a Calc below where that is allowed.
func (r *rewriter) calc(c *Calc) *Calc {
	c = r.fold(c)
	if in, ok := c.Input.(*Calc); ok && mergeable(c, in) {
		m := &Calc{Input: in.Input, Names: c.Names, Exprs: make([]expr.Expr, len(c.Exprs))}
		for i, e := range c.Exprs {
			m.Exprs[i] = substitute(e, in.Exprs)
		}
		if c.Filter != nil {
			m.Filter = substitute(c.Filter, in.Exprs)
		}
		m.Filter = And(in.Filter, m.Filter)
		return r.calc(m)
	}
	return c
}

func (r *rewriter) fold(c *Calc) *Calc {
	f := &Calc{Input: c.Input, Names: c.Names, Exprs: make([]expr.Expr, len(c.Exprs))}
	for i, e := range c.Exprs {
		f.Exprs[i] = r.foldExpr(e)
	}
	if c.Filter != nil {
		f.Filter = r.foldExpr(c.Filter)
		if v, ok := isConst(f.Filter); ok && v {
			f.Filter = nil
		}
	}
	return f
}

// foldExpr folds e and keeps its type: nullability decides about later checks, and a time
// attribute about windows.
func (r *rewriter) foldExpr(e expr.Expr) expr.Expr {
	f := expr.Fold(e, r.env)
	if l, ok := f.(*expr.Literal); ok && !l.T.Equal(e.Type()) {
		return &expr.Literal{Value: l.Value, T: e.Type()}
	}
	return f
}

// maxSize bounds the nodes of the expressions of one Calc: views over views that use a column
// twice each would double them every time.
const maxSize = 5000

// mergeable reports whether outer may read inner's expressions in place of its columns: a
// volatile one must not be computed twice, nor for a filter apart from the projection.
func mergeable(outer, inner *Calc) bool {
	uses := make([]int, len(inner.Exprs))
	for _, e := range outer.Exprs {
		countUses(e, uses)
	}
	inFilter := make([]int, len(inner.Exprs))
	countUses(outer.Filter, inFilter)
	total := 0
	for i, e := range inner.Exprs {
		total += size(e) * (uses[i] + inFilter[i])
		if total > maxSize {
			return false
		}
		if Volatile(e) && !pureProcTime(e) && (uses[i] > 1 || inFilter[i] > 0) {
			return false
		}
	}
	// A volatile outer filter must see the rows that the inner filter kept, which AND does not
	// change, so filters merge always.
	return true
}

// size counts the nodes of e.
func size(e expr.Expr) int {
	n := 0
	expr.Walk(e, func(expr.Expr) bool { n++; return true })
	return n
}

// pureProcTime reports whether e is PROCTIME() itself, which may be read any number of times.
func pureProcTime(e expr.Expr) bool {
	c, ok := e.(*expr.Call)
	return ok && c.Fn == "PROCTIME"
}

// isIdentity reports whether c passes on its input unchanged; names and nullability, which no
// operator looks at, may differ.
func isIdentity(c *Calc) bool {
	s := c.Input.Schema()
	if c.Filter != nil || len(c.Exprs) != s.Len() {
		return false
	}
	for i, e := range c.Exprs {
		col, ok := e.(*expr.Column)
		if !ok || col.Index != i || !col.T.EqualIgnoreNull(s.Fields[i].Type) {
			return false
		}
	}
	return true
}

// tidy merges Calcs again that pruning and lowering left behind, and removes those that do
// nothing.
func (r *rewriter) tidy(n logical.Node) logical.Node {
	n = mapInputs(n, r.tidy)
	c, ok := n.(*Calc)
	if !ok {
		return n
	}
	m := adoptNames(r.calc(c))
	if isIdentity(m) {
		return m.Input
	}
	return m
}
