package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// query binds a query that sees the CTEs of with.
func (b *Binder) query(q *ast.Query, with *ctes) (*relation, error) {
	if q.Recurse {
		return nil, unsupported(q.Span, "WITH RECURSIVE")
	}
	for i, c := range q.With {
		for _, o := range q.With[:i] {
			if o.Name.Name == c.Name.Name {
				return nil, errAt(c.Name.Span, "WITH defines %s twice", c.Name.Name)
			}
		}
		with = &ctes{cte: c, outer: with}
		// Bound at once, so that a mistake in a CTE that nobody uses is found too.
		if _, err := b.bindCTE(with); err != nil {
			return nil, err
		}
	}
	rel, keys, err := b.body(q.Body, with, q.OrderBy)
	if err != nil {
		return nil, err
	}
	return b.sorted(q, rel, keys)
}

// sortKeys are ORDER BY keys over a relation that has, after the columns that the user sees,
// those that only the keys need.
type sortKeys struct {
	keys []plan.SortKey
	// hidden is the number of columns at the end to drop after sorting.
	hidden int
}

// body binds a query without ORDER BY, and the ORDER BY keys of the query around it.
func (b *Binder) body(q ast.QueryBody, with *ctes, order []*ast.OrderItem) (*relation, *sortKeys, error) {
	var rel *relation
	var err error
	switch q := q.(type) {
	case *ast.Select:
		return b.selectBlock(q, with, order)
	case *ast.Query:
		rel, err = b.query(q, with)
	case *ast.SetOp:
		rel, err = b.setOp(q, with)
	case *ast.Values:
		rel, err = b.values(q)
	case *ast.TableQuery:
		rel, err = b.named(q.Name, nil, with)
	default:
		return nil, nil, unsupported(q.Pos(), "this query")
	}
	if err != nil {
		return nil, nil, err
	}
	// Only the columns of the result can be sorted by.
	keys := &sortKeys{}
	s := &scope{b: b, rel: rel, clause: "ORDER BY"}
	for _, item := range order {
		i, err := s.outputKey(item, rel, nil)
		if err != nil {
			return nil, nil, err
		}
		if i < 0 {
			x, err := s.bind(item.Expr)
			if err != nil {
				return nil, nil, err
			}
			c, ok := x.(*expr.Column)
			if !ok {
				return nil, nil, errAt(item.Span, "ORDER BY behind a set operation needs a column of its result").
					WithHint("wrap it: SELECT * FROM (...) ORDER BY ...")
			}
			i = c.Index
		}
		keys.keys = append(keys.keys, sortKey(item, i))
	}
	return rel, keys, nil
}

// sortKey applies Flink's order of NULL: the smallest value.
func sortKey(item *ast.OrderItem, column int) plan.SortKey {
	first := !item.Desc
	if item.Nulls != ast.NullsUnset {
		first = item.Nulls == ast.NullsFirst
	}
	return plan.SortKey{Col: column, Desc: item.Desc, NullsFirst: first}
}

// outputKey resolves an ORDER BY item that is an ordinal or an alias of the select list; -1 if it
// is neither.
func (s *scope) outputKey(item *ast.OrderItem, out *relation, aliases []string) (int, error) {
	if n, ok := item.Expr.(*ast.NumberLit); ok && n.Kind == ast.Integer {
		lit, err := numberLiteral(n, false)
		if err != nil {
			return 0, err
		}
		i, _ := lit.Value.(int64)
		if i < 1 || i > int64(len(out.cols)) {
			return 0, errAt(n.Span, "there is no column %s to sort by", n.Text).
				WithHint("the select list has %d columns", len(out.cols))
		}
		return int(i) - 1, nil
	}
	if n, ok := item.Expr.(*ast.Name); ok && len(n.Parts) == 1 {
		for i, a := range aliases {
			if a == n.Parts[0].Name {
				return i, nil
			}
		}
	}
	return -1, nil
}

// sorted adds ORDER BY, OFFSET and LIMIT, and drops hidden columns.
func (b *Binder) sorted(q *ast.Query, rel *relation, keys *sortKeys) (*relation, error) {
	if len(q.OrderBy) == 0 && q.Limit == nil && q.Offset == nil {
		return rel, nil
	}
	node := &logical.Sort{Input: rel.node, Keys: keys.keys, Limit: -1, Pos: pos(q.Span)}
	if len(q.OrderBy) > 0 {
		node.Pos = pos(q.OrderBy[0].Span.To(q.OrderBy[len(q.OrderBy)-1].Span))
	}
	var err error
	if q.Limit != nil {
		if node.Limit, err = b.count(q.Limit, "LIMIT"); err != nil {
			return nil, err
		}
	}
	if q.Offset != nil {
		if node.Offset, err = b.count(q.Offset, "OFFSET"); err != nil {
			return nil, err
		}
	}
	out := &relation{node: node, cols: rel.cols}
	if keys.hidden == 0 {
		return out, nil
	}
	seen := len(rel.cols) - keys.hidden
	p := &logical.Project{Input: node}
	for i := range seen {
		p.Exprs = append(p.Exprs, out.column(i))
		p.Names = append(p.Names, rel.cols[i].name)
	}
	return &relation{node: p, cols: rel.cols[:seen]}, nil
}

// count binds a constant number of rows.
func (b *Binder) count(e ast.Expr, clause string) (int64, error) {
	s := &scope{b: b, rel: &relation{}, clause: clause}
	x, err := s.bind(e)
	if err != nil {
		return 0, err
	}
	lit, ok := constant(x, b.env)
	if ok && lit.T.IsInteger() {
		if n, ok := lit.Value.(int64); ok && n >= 0 {
			return n, nil
		}
	}
	return 0, errAt(e.Pos(), "%s needs a whole number of rows, 0 or more", clause)
}

// setOp binds UNION; the other set operations are for later.
func (b *Binder) setOp(q *ast.SetOp, with *ctes) (*relation, error) {
	if q.Op != ast.Union {
		return nil, unsupported(q.Span, map[ast.SetOpKind]string{ast.Intersect: "INTERSECT", ast.Except: "EXCEPT"}[q.Op])
	}
	var parts []*relation
	var spans []ast.Span
	var add func(body ast.QueryBody) error
	add = func(body ast.QueryBody) error {
		// A chain of UNION ALL is one union.
		if u, ok := body.(*ast.SetOp); ok && u.Op == ast.Union && u.All == q.All {
			if err := add(u.L); err != nil {
				return err
			}
			return add(u.R)
		}
		rel, _, err := b.body(body, with, nil)
		if err != nil {
			return err
		}
		parts = append(parts, rel)
		spans = append(spans, body.Pos())
		return nil
	}
	if err := add(q); err != nil {
		return nil, err
	}
	rel, err := b.union(parts, spans)
	if err != nil || q.All {
		return rel, err
	}
	return distinct(rel, pos(q.Span)), nil
}

// union brings its parts to common types and puts them together.
func (b *Binder) union(parts []*relation, spans []ast.Span) (*relation, error) {
	first := parts[0]
	for i, p := range parts[1:] {
		if len(p.cols) != len(first.cols) {
			return nil, errAt(spans[i+1], "the parts of UNION have %d and %d columns", len(first.cols), len(p.cols)).
				WithHint("all parts must have the same number of columns")
		}
	}
	common := make([]types.Type, len(first.cols))
	for c := range common {
		var ts []types.Type
		for i, p := range parts {
			ts = append(ts, p.cols[c].typ)
			if _, ok := expr.CommonType(ts...); !ok {
				return nil, errAt(spans[i], "column %d (%s) of UNION is %s here, but %s before", c+1, first.cols[c].name,
					ts[i].AsNullable(), ts[0].AsNullable()).WithHint("CAST one of them")
			}
		}
		common[c], _ = expr.CommonType(ts...)
	}
	node := &logical.Union{}
	for i, p := range parts {
		same, err := b.castColumns(p, common, spans[i])
		if err != nil {
			return nil, err
		}
		node.All = append(node.All, same)
	}
	out := &relation{node: node}
	for i, c := range first.cols {
		out.cols = append(out.cols, column{name: c.name, typ: common[i]})
	}
	return out, nil
}

// castColumns projects a relation to the given types; names stay.
func (b *Binder) castColumns(p *relation, to []types.Type, at ast.Span) (logical.Node, error) {
	schema := p.node.Schema()
	out := &logical.Project{Input: p.node, Names: p.names()}
	same := true
	for i, t := range to {
		var e expr.Expr = p.column(i)
		if !p.cols[i].typ.EqualIgnoreNull(t) {
			x, ok := b.coerceTo(e, t, at)
			if !ok {
				return nil, errAt(at, "column %d (%s) of type %s is not converted to %s", i+1, p.cols[i].name, p.cols[i].typ, t)
			}
			e = x
		} else if !p.cols[i].typ.Equal(t) {
			e = &expr.Column{Index: i, Name: p.cols[i].name, T: t}
		}
		same = same && schema.Fields[i].Type.Equal(t)
		out.Exprs = append(out.Exprs, e)
	}
	if same {
		return p.node, nil
	}
	return out, nil
}

// distinct keeps one of equal rows.
func distinct(rel *relation, at expr.Pos) *relation {
	rel = rel.projected()
	node := &logical.Aggregate{Input: rel.node, Pos: at}
	out := &relation{node: node}
	for i, c := range rel.cols {
		node.Keys = append(node.Keys, i)
		c.typ = c.typ.WithoutAttr()
		out.cols = append(out.cols, c)
	}
	return out
}
