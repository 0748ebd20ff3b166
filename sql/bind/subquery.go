package bind

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// A scalar sub-query becomes a LEFT JOIN whose right side has at most one row for each row of the
// left. Its columns come after those of the relation that the expression is bound over, hidden.
// One without a reference to the query around it is joined on nothing. One that compares columns
// of its own with such references for equality is grouped by them and joined by them.

// subqueries are those of one scope.
type subqueries struct {
	with *ctes
	// waiting are joined above the aggregation of the scope, when its columns are known.
	waiting []*subquery
	width   int // of those waiting
}

// subquery is the right side of a join that gives a value.
type subquery struct {
	rel *relation
	// keys are its columns that must be equal to outer, expressions over the left side.
	keys  []int
	outer []expr.Expr
	at    ast.Span
}

// scalar binds a sub-query as a value.
func (s *scope) scalar(e *ast.Subquery) (expr.Expr, error) {
	if s.rel.node == nil {
		return nil, unsupported(e.Span, "a sub-query as a value in "+s.clause)
	}
	rel, err := s.b.query(e.Query, s.subs.with)
	if err != nil {
		sub, value, ok, errSub := s.correlated(e)
		switch {
		case errSub != nil:
			return nil, errSub
		case !ok:
			return nil, err
		}
		return s.attach(sub, value)
	}
	if len(rel.cols) != 1 {
		return nil, errAt(e.Span, "a sub-query as a value must have one column, not %d", len(rel.cols)).
			WithHint("select one column")
	}
	if !oneRowAtMost(rel.node) {
		return nil, unsupported(e.Span, "a sub-query as a value that may have more than one row").
			WithHint("make it an aggregate, such as MAX(...), or add LIMIT 1")
	}
	return s.attach(&subquery{rel: rel, at: e.Span}, rel.column(0))
}

// attach joins sub to the scope's relation, at once or above its aggregation, and moves value,
// which is over the columns of sub, to where these will be.
func (s *scope) attach(sub *subquery, value expr.Expr) (expr.Expr, error) {
	if n := s.rel.node.Schema().Len(); len(s.rel.cols) < n { // the row of no FROM
		s.rel = &relation{node: s.rel.node}
		for _, f := range s.rel.node.Schema().Fields {
			s.rel.cols = append(s.rel.cols, column{name: f.Name, typ: f.Type, hidden: true})
		}
	}
	base := len(s.rel.cols)
	if s.aggs == nil {
		rel, err := s.joined(s.rel, sub)
		if err != nil {
			return nil, err
		}
		s.rel = rel
	} else {
		base = subBase + s.subs.width
		s.subs.width += len(sub.rel.cols)
		s.subs.waiting = append(s.subs.waiting, sub)
	}
	return expr.Map(value, func(e expr.Expr) expr.Expr {
		switch e := e.(type) {
		case *expr.Column:
			c := *e
			c.Index += base
			c.T = c.T.AsNullable().WithoutAttr()
			return &c
		case *expr.Call:
			c := *e
			c.T.Nullable = c.T.Nullable || e.Fn != "COALESCE" && slices.ContainsFunc(e.Args, func(a expr.Expr) bool { return a.Type().Nullable })
			return &c
		}
		return e
	}), nil
}

// attachAll joins what waits to the output of the aggregation.
func (q *subqueries) attachAll(s *scope, rel *relation) (*relation, error) {
	for _, sub := range q.waiting {
		for i, e := range sub.outer {
			out, err := s.aggs.output(e, s.clause)
			if err != nil {
				return nil, err
			}
			sub.outer[i] = out
		}
		var err error
		if rel, err = s.joined(rel, sub); err != nil {
			return nil, err
		}
	}
	return rel, nil
}

// joined is the LEFT JOIN of rel and sub, whose columns are hidden.
func (s *scope) joined(rel *relation, sub *subquery) (*relation, error) {
	right := sub.rel.projected()
	node := &logical.Join{L: rel.node, R: right.node, Kind: plan.LeftJoin, Pos: pos(sub.at)}
	for i, k := range sub.keys {
		key := right.column(k)
		key.Index += len(rel.cols)
		eq, err := s.resolve("=", sub.at, s.b.plain(sub.outer[i]), s.b.plain(key))
		if err != nil {
			return nil, err
		}
		if node.Cond == nil {
			node.Cond = eq
		} else if node.Cond, err = s.resolve("AND", sub.at, node.Cond, eq); err != nil {
			return nil, err
		}
	}
	hidden := slices.Clone(right.cols)
	for i := range hidden {
		hidden[i].hidden = true
		hidden[i].table = nil
		hidden[i].typ = hidden[i].typ.AsNullable().WithoutAttr()
		hidden[i].win = notWindow
	}
	// The left side keeps its rows; time attributes are lost all the same.
	out := joinedColumns(node, append(slices.Clone(rel.cols), hidden...))
	return out, nil
}

// correlated binds a sub-query that refers to the query around it. ok is false if it does not.
func (s *scope) correlated(e *ast.Subquery) (sub *subquery, value expr.Expr, ok bool, err error) {
	sel, isSelect := e.Query.Body.(*ast.Select)
	if !isSelect || sel.From == nil || len(e.Query.With) > 0 {
		return nil, nil, false, nil
	}
	in, err := s.b.from(sel.From, s.subs.with)
	if err != nil {
		return nil, nil, false, nil // the error is known already
	}
	if !s.refersOut(in, sel) {
		return nil, nil, false, nil
	}
	refuse := func(at ast.Span, what string) (*subquery, expr.Expr, bool, error) {
		return nil, nil, true, unsupported(at, what+" in a sub-query that refers to the query around it")
	}
	switch {
	case s.inAggregate != "":
		return refuse(e.Span, "an aggregate around it")
	case len(e.Query.OrderBy) > 0 || e.Query.Limit != nil || e.Query.Offset != nil:
		return refuse(e.Query.Span, "ORDER BY or LIMIT")
	case sel.GroupBy != nil || sel.Having != nil || sel.Distinct || sel.Qualify != nil || len(sel.Windows) > 0:
		return refuse(sel.Span, "GROUP BY, HAVING or DISTINCT")
	case len(sel.Items) != 1:
		return nil, nil, true, errAt(e.Span, "a sub-query as a value must have one column, not %d", len(sel.Items)).
			WithHint("select one column")
	case !hasAggregate(sel, nil):
		return refuse(sel.Span, "a result that is no aggregate")
	case s.outside(in, sel.Items[0].Expr):
		return refuse(sel.Items[0].Span, "such a reference in the select list")
	}
	a := &aggregator{b: s.b, at: sel.Span}
	sub = &subquery{at: e.Span}
	own, keys, err := s.correlation(sub, in, sel.Where)
	if err != nil {
		return nil, nil, true, err
	}
	for _, k := range keys {
		sub.keys = append(sub.keys, a.addKey(k, e.Span))
	}
	a.input = own
	is := &scope{b: s.b, rel: own, clause: "the select list", aggs: a}
	items, err := is.selectItems(sel.Items)
	if err != nil {
		return nil, nil, true, err
	}
	if value, err = a.output(items[0].e, is.clause); err != nil {
		return nil, nil, true, err
	}
	sub.rel = a.build()
	return sub, overNothing(a, value), true, nil
}

// correlation splits the condition of a sub-query: what reads its own relation in only becomes a
// filter of it, equalities with outer columns become keys over the filtered relation and
// expressions over the scope.
func (s *scope) correlation(sub *subquery, in *relation, where ast.Expr) (own *relation, keys []expr.Expr, err error) {
	is := &scope{b: s.b, rel: in, clause: "WHERE", subs: &subqueries{with: s.subs.with}}
	var conds []expr.Expr
	for _, c := range astConjuncts(where) {
		if !s.outside(in, c) {
			x, err := is.condition(c)
			if err != nil {
				return nil, nil, err
			}
			conds = append(conds, x)
			continue
		}
		eq, ok := c.(*ast.Binary)
		if !ok || eq.Op != "=" {
			return nil, nil, unsupported(c.Pos(), "a condition other than own = outer that refers to the query around it")
		}
		mine, outer := eq.L, eq.R
		if s.outside(in, mine) {
			mine, outer = outer, mine
		}
		if s.outside(in, mine) || s.inside(in, outer) {
			return nil, nil, unsupported(c.Pos(), "a comparison that mixes own and outer columns on one side")
		}
		k, err := is.bind(mine)
		if err != nil {
			return nil, nil, err
		}
		o, err := s.bind(outer)
		if err != nil {
			return nil, nil, err
		}
		keys, sub.outer = append(keys, k), append(sub.outer, o)
	}
	own = is.rel
	for _, c := range conds {
		own = &relation{node: &logical.Filter{Input: own.node, Cond: c}, cols: own.cols}
	}
	return own, keys, nil
}

// overNothing is value where no group matched, its columns being NULL then: counts are 0.
func overNothing(a *aggregator, value expr.Expr) expr.Expr {
	return expr.Map(value, func(e expr.Expr) expr.Expr {
		c, ok := e.(*expr.Column)
		if !ok || c.Index < len(a.keys) || c.Index >= len(a.keys)+len(a.calls) || !a.calls[c.Index-len(a.keys)].sig.NotNull ||
			c.T.Kind != types.BigInt {
			return e
		}
		return &expr.Call{Fn: "COALESCE", T: c.T, Args: []expr.Expr{c, &expr.Literal{Value: int64(0), T: c.T}}}
	})
}

// refersOut reports whether a select block over in refers to the scope s around it.
func (s *scope) refersOut(in *relation, sel *ast.Select) bool {
	rest := *sel
	rest.From = nil
	return s.outside(in, &rest)
}

// outside reports whether e reads a column that only the scope s has.
func (s *scope) outside(in *relation, e ast.Node) bool {
	return anyName(e, func(n *ast.Name) bool {
		if _, _, err := in.resolve(n); err == nil {
			return false
		}
		_, _, err := s.rel.resolve(n)
		return err == nil
	})
}

// inside reports whether e reads a column of in.
func (s *scope) inside(in *relation, e ast.Node) bool {
	return anyName(e, func(n *ast.Name) bool {
		_, _, err := in.resolve(n)
		return err == nil
	})
}

// anyName reports whether is holds for a name in e; names of functions are left out.
func anyName(e ast.Node, is func(*ast.Name) bool) bool {
	found := false
	functions := map[*ast.Name]bool{}
	ast.Walk(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncCall:
			functions[n.Name] = true
		case *ast.Name:
			found = found || !functions[n] && is(n)
		}
		return !found
	})
	return found
}

// astConjuncts splits a condition at AND.
func astConjuncts(e ast.Expr) []ast.Expr {
	if e == nil {
		return nil
	}
	if b, ok := e.(*ast.Binary); ok && b.Op == "AND" {
		return append(astConjuncts(b.L), astConjuncts(b.R)...)
	}
	return []ast.Expr{e}
}
