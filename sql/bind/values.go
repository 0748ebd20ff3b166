package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// constant computes an expression that depends on nothing.
func constant(e expr.Expr, env *expr.Env) (*expr.Literal, bool) {
	switch e := expr.Fold(e, env).(type) {
	case *expr.Literal:
		return e, true
	case *expr.Call:
		// Constructors are values too, but the folder leaves them as they are.
		if e.Fn != "ARRAY" && e.Fn != "MAP" && e.Fn != "ROW" {
			return nil, false
		}
		vals := make([]types.Value, len(e.Args))
		for i, a := range e.Args {
			l, ok := constant(a, env)
			if !ok {
				return nil, false
			}
			vals[i] = l.Value
		}
		return &expr.Literal{Value: vals, T: e.T}, true
	}
	return nil, false
}

// values binds VALUES: rows of constants, brought to common types. Rows that must be computed
// when the job runs become projections of one row.
func (b *Binder) values(q *ast.Values) (*relation, error) {
	rows, spans, err := b.valueRows(q)
	if err != nil {
		return nil, err
	}
	schema, err := b.unifyRows(rows, spans)
	if err != nil {
		return nil, err
	}
	node := &logical.Values{S: schema}
	for _, row := range rows {
		vals := make([]types.Value, len(row))
		for c, e := range row {
			l, ok := constant(e, b.env)
			if !ok {
				return computedRows(rows, schema), nil
			}
			vals[c] = l.Value
		}
		node.Rows = append(node.Rows, vals)
	}
	return relationOf(node), nil
}

// valueRows binds each row of VALUES.
func (b *Binder) valueRows(q *ast.Values) ([][]expr.Expr, [][]ast.Span, error) {
	s := &scope{b: b, rel: &relation{}, clause: "VALUES"}
	var rows [][]expr.Expr
	var spans [][]ast.Span
	for _, r := range q.Rows {
		elems := []ast.Expr{r}
		if row, ok := r.(*ast.Row); ok {
			elems = row.Elems
		}
		exprs, err := s.binds(elems)
		if err != nil {
			return nil, nil, err
		}
		if len(rows) > 0 && len(exprs) != len(rows[0]) {
			return nil, nil, errAt(r.Pos(), "this row has %d values, but the first has %d", len(exprs), len(rows[0]))
		}
		at := make([]ast.Span, len(elems))
		for i, e := range elems {
			at[i] = e.Pos()
		}
		rows = append(rows, exprs)
		spans = append(spans, at)
	}
	return rows, spans, nil
}

// unifyRows converts each column of the rows to its common type, in place.
func (b *Binder) unifyRows(rows [][]expr.Expr, spans [][]ast.Span) (types.Schema, error) {
	var schema types.Schema
	for c := range rows[0] {
		ts := make([]types.Type, len(rows))
		for r := range rows {
			ts[r] = rows[r][c].Type()
		}
		t, ok := expr.CommonType(ts...)
		for r := range rows {
			if _, fits := expr.CommonType(ts[:r+1]...); !ok && !fits {
				return schema, errAt(spans[r][c], "value %d of this row is %s, but %s in the rows before",
					c+1, ts[r].AsNullable(), ts[0].AsNullable()).
					WithHint("CAST one of them")
			}
		}
		for r := range rows {
			x, fits := b.coerceTo(rows[r][c], t, spans[r][c])
			if !fits {
				return schema, errAt(spans[r][c], "%s is not converted to %s", ts[r].AsNullable(), t.AsNullable()).
					WithHint("write CAST(%s AS %s)", rows[r][c], t.AsNullable())
			}
			rows[r][c] = x
		}
		schema.Fields = append(schema.Fields, types.Field{Name: "EXPR$" + itoa(c), Type: t.WithoutAttr()})
	}
	return schema, nil
}

// computedRows is a union of one projection a row.
func computedRows(rows [][]expr.Expr, schema types.Schema) *relation {
	u := &logical.Union{}
	for _, row := range rows {
		p := &logical.Project{Input: oneRow().node, Names: schema.Names()}
		for c, e := range row {
			// The type of the union's column also says whether another row has NULL.
			if l, ok := e.(*expr.Literal); ok {
				e = &expr.Literal{Value: l.Value, T: l.T.WithNullable(schema.Fields[c].Type.Nullable)}
			}
			p.Exprs = append(p.Exprs, e)
		}
		u.All = append(u.All, p)
	}
	if len(u.All) == 1 {
		return relationOf(u.All[0])
	}
	out := relationOf(u)
	for c := range out.cols {
		out.cols[c].typ = schema.Fields[c].Type
	}
	return out
}
