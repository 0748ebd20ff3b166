package opt

import (
	"slices"
	"strconv"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// sideOf tells which sides e reads: columns below width are those of the left.
func sideOf(e expr.Expr, width int) (left, right bool) {
	left = reads(e, func(i int) bool { return i < width })
	right = reads(e, func(i int) bool { return i >= width })
	return left, right
}

// shift moves the columns of e by n places.
func shift(e expr.Expr, n int) expr.Expr {
	return expr.Map(e, func(e expr.Expr) expr.Expr {
		c, ok := e.(*expr.Column)
		if !ok {
			return e
		}
		m := *c
		m.Index += n
		return &m
	})
}

// pushJoin pushes conditions on the rows of a join, and the join's own, into its inputs. A
// condition above may go into a side whose rows are not padded; a condition of the join into a
// side whose rows without a match are not shown.
func (r *rewriter) pushJoin(j *logical.Join, conds []expr.Expr) logical.Node {
	width := j.L.Schema().Len()
	j = stricter(j, conds)
	var left, right, here, above []expr.Expr
	rest := func(own bool, c expr.Expr) {
		if own || j.Kind == plan.InnerJoin {
			here = append(here, c)
		} else {
			above = append(above, c)
		}
	}
	place := func(own bool, c expr.Expr) {
		l, rt := sideOf(c, width)
		// Which sides' rows a condition may take away before the join.
		mayLeft, mayRight := j.Kind == plan.InnerJoin || j.Kind == plan.LeftJoin, j.Kind == plan.InnerJoin || j.Kind == plan.RightJoin
		if own {
			mayLeft, mayRight = j.Kind == plan.InnerJoin || j.Kind == plan.RightJoin, j.Kind == plan.InnerJoin || j.Kind == plan.LeftJoin
		}
		switch {
		case !movable(c):
			if own {
				here = append(here, c)
			} else {
				above = append(above, c)
			}
		case l && !rt && mayLeft:
			left = append(left, c)
		case rt && !l && mayRight:
			right = append(right, shift(c, -width))
		default:
			rest(own, c)
		}
	}
	for _, c := range Conjuncts(j.Cond) {
		place(true, r.foldExpr(c))
	}
	for _, c := range conds {
		place(false, c)
	}
	out := *j
	out.L, out.R = r.push(j.L, left), r.push(j.R, right)
	out.Cond = And(here...)
	if v, ok := isConst(out.Cond); ok && v {
		out.Cond = nil
	}
	return filtered(&out, above)
}

// joinKeys takes the equalities between the two sides out of a join's condition. A side of one
// that is no column is computed below the join.
func (r *rewriter) joinKeys(j *logical.Join) logical.Node {
	width := j.L.Schema().Len()
	out := *j
	out.Special = special(j)
	left, right := &keyColumns{in: j.L}, &keyColumns{in: j.R}
	var rest []expr.Expr
	nullSafe := false
	for _, c := range Conjuncts(j.Cond) {
		x, y, ok := r.equality(c, width)
		if !ok {
			rest = append(rest, c)
			continue
		}
		safe := c.(*expr.Call).Fn != "="
		nullSafe = nullSafe || safe
		out.LeftKeys = append(out.LeftKeys, left.add(x))
		out.RightKeys = append(out.RightKeys, right.add(shift(y, -width)))
		out.NullSafe = append(out.NullSafe, safe)
	}
	if !nullSafe {
		out.NullSafe = nil
	}
	out.L, out.R = r.keyInput(left), r.keyInput(right)
	more := len(left.more)
	place := make([]int, width+j.R.Schema().Len())
	for i := range place {
		if place[i] = i; i >= width {
			place[i] += more
		}
	}
	out.Cond = Remap(And(rest...), place)
	if more+len(right.more) == 0 {
		return &out
	}
	s, was := out.Schema(), j.Schema()
	top := &Calc{Input: &out}
	for i, p := range place {
		top.Exprs, top.Names = append(top.Exprs, column(s, p)), append(top.Names, was.Fields[i].Name)
	}
	return top
}

// stricter takes out of an outer join the padded rows that the conditions above reject anyway,
// NULL as they are: what is left of it may be an inner join, whose result is append-only.
func stricter(j *logical.Join, conds []expr.Expr) *logical.Join {
	width := j.L.Schema().Len()
	needL, needR := false, false
	for _, c := range conds {
		needL = needL || rejectsNull(c, func(i int) bool { return i < width })
		needR = needR || rejectsNull(c, func(i int) bool { return i >= width })
	}
	out := *j
	if needR { // rows without a right side are of no use
		switch j.Kind {
		case plan.LeftJoin:
			out.Kind = plan.InnerJoin
		case plan.FullJoin:
			out.Kind = plan.RightJoin
		}
	}
	if needL {
		switch out.Kind {
		case plan.RightJoin:
			out.Kind = plan.InnerJoin
		case plan.FullJoin:
			out.Kind = plan.LeftJoin
		}
	}
	return &out
}

// comparisons are NULL where an argument is, as is what they are made of by the operators below.
var comparisons = map[string]bool{"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true}

var strict = map[string]bool{"+": true, "-": true, "*": true, "CAST": true}

// rejectsNull reports whether condition c is not TRUE where all columns of side are NULL.
func rejectsNull(c expr.Expr, side func(int) bool) bool {
	call, ok := c.(*expr.Call)
	if !ok {
		col, isCol := c.(*expr.Column)
		return isCol && side(col.Index)
	}
	switch {
	case call.Fn == "AND":
		return slices.ContainsFunc(call.Args, func(a expr.Expr) bool { return rejectsNull(a, side) })
	case call.Fn == "OR":
		return !slices.ContainsFunc(call.Args, func(a expr.Expr) bool { return !rejectsNull(a, side) })
	case call.Fn == "IS NOT NULL" || comparisons[call.Fn]:
		return slices.ContainsFunc(call.Args, func(a expr.Expr) bool { return nullIfNull(a, side) })
	}
	return false
}

// nullIfNull reports whether e is NULL where all columns of side are.
func nullIfNull(e expr.Expr, side func(int) bool) bool {
	switch e := e.(type) {
	case *expr.Column:
		return side(e.Index)
	case *expr.Call:
		return strict[e.Fn] && slices.ContainsFunc(e.Args, func(a expr.Expr) bool { return nullIfNull(a, side) })
	}
	return false
}

// keyColumns are the columns of one side and the keys computed from them.
type keyColumns struct {
	in   logical.Node
	more []expr.Expr
}

func (k *keyColumns) add(e expr.Expr) int {
	if c, ok := e.(*expr.Column); ok {
		return c.Index
	}
	width := k.in.Schema().Len()
	for i, o := range k.more {
		if expr.Equal(o, e) {
			return width + i
		}
	}
	k.more = append(k.more, e)
	return width + len(k.more) - 1
}

// keyInput is the side with its computed keys behind its columns.
func (r *rewriter) keyInput(k *keyColumns) logical.Node {
	if len(k.more) == 0 {
		return k.in
	}
	c := filterCalc(k.in, nil)
	for i, e := range k.more {
		c.Exprs, c.Names = append(c.Exprs, e), append(c.Names, "$key"+strconv.Itoa(i))
	}
	return r.calc(c)
}

// equality gives the two sides of c if it is an equality of something of the left and something
// of the right, brought to one type.
func (r *rewriter) equality(c expr.Expr, width int) (left, right expr.Expr, ok bool) {
	call, is := c.(*expr.Call)
	if !is || call.Fn != "=" && call.Fn != "IS NOT DISTINCT FROM" || !movable(c) {
		return nil, nil, false
	}
	x, y := call.Args[0], call.Args[1]
	xl, xr := sideOf(x, width)
	yl, yr := sideOf(y, width)
	switch {
	case xl && !xr && yr && !yl:
	case xr && !xl && yl && !yr:
		x, y = y, x
	default:
		return nil, nil, false
	}
	tx, ty := x.Type().WithoutAttr(), y.Type().WithoutAttr()
	if tx.IsNested() || ty.IsNested() {
		return nil, nil, false // compared as the operator does, not as stored
	}
	if tx.EqualIgnoreNull(ty) {
		return x, y, true
	}
	to, ok := expr.CommonType(tx, ty)
	if !ok {
		return nil, nil, false
	}
	x, errX := castTo(x, to, r.env, call.Pos)
	y, errY := castTo(y, to, r.env, call.Pos)
	return x, y, errX == nil && errY == nil
}

func castTo(e expr.Expr, t types.Type, env *expr.Env, pos expr.Pos) (expr.Expr, error) {
	if e.Type().WithoutAttr().EqualIgnoreNull(t) {
		return e, nil
	}
	return expr.Cast(e, t, false, env, pos)
}

// special names the kind of join that j is in Flink where that is none of the regular ones: on
// streams, its result is append-only.
func special(j *logical.Join) string {
	l, r := j.L.Schema(), j.R.Schema()
	width := l.Len()
	attr := func(i int) types.TimeAttr {
		if i < width {
			return l.Fields[i].Type.Attr
		}
		return r.Fields[i-width].Type.Attr
	}
	lw, rw := windowOf(j.L), windowOf(j.R)
	var lower, upper, starts, ends bool
	for _, c := range Conjuncts(j.Cond) {
		call, ok := c.(*expr.Call)
		if !ok || len(call.Args) != 2 {
			continue
		}
		x, y := timeAt(call.Args[0], attr), timeAt(call.Args[1], attr)
		if x >= 0 && y >= 0 && (x < width) != (y < width) && attr(x) == attr(y) {
			flip := x >= width
			switch call.Fn {
			case "=":
				lower, upper = true, true
			case "<", "<=":
				lower, upper = lower || flip, upper || !flip
			case ">", ">=":
				lower, upper = lower || !flip, upper || flip
			}
		}
		if call.Fn != "=" || lw == nil || rw == nil {
			continue
		}
		a, okA := call.Args[0].(*expr.Column)
		b, okB := call.Args[1].(*expr.Column)
		if !okA || !okB {
			continue
		}
		p, q := min(a.Index, b.Index), max(a.Index, b.Index)-width
		starts = starts || slices.Contains(lw.start, p) && slices.Contains(rw.start, q)
		ends = ends || slices.Contains(lw.end, p) && slices.Contains(rw.end, q)
	}
	switch {
	case starts && ends:
		return "a window join"
	case lower && upper:
		return "an interval join"
	}
	return ""
}

// timeAt is the one time attribute that e reads, if it reads nothing else; else -1.
func timeAt(e expr.Expr, attr func(int) types.TimeAttr) int {
	cols := map[int]bool{}
	expr.Columns(e, cols)
	if len(cols) != 1 {
		return -1
	}
	for c := range cols {
		if attr(c) != types.NoTime {
			return c
		}
	}
	return -1
}

// pruneJoin keeps the columns that are needed and those of the condition.
func pruneJoin(n *logical.Join, need []bool) (logical.Node, []int) {
	width := n.L.Schema().Len()
	in := slices.Clone(need)
	mark(n.Cond, in)
	for i := range n.LeftKeys {
		in[n.LeftKeys[i]], in[width+n.RightKeys[i]] = true, true
	}
	j := *n
	var atL, atR []int
	j.L, atL = prune(n.L, in[:width])
	j.R, atR = prune(n.R, in[width:])
	to := slices.Clone(atL)
	left := j.L.Schema().Len()
	for _, p := range atR {
		if p >= 0 {
			p += left
		}
		to = append(to, p)
	}
	j.Cond = Remap(n.Cond, to)
	j.LeftKeys, j.RightKeys = remapAll(n.LeftKeys, atL), remapAll(n.RightKeys, atR)
	return &j, to
}
