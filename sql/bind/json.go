package bind

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/types"
)

// isJSON reports whether argument i holds JSON text, to be taken as it is and not as a string: it
// is made by another JSON constructor, or marked FORMAT JSON.
func isJSON(e ast.Expr, clauses *ast.JSONClauses, i int) bool {
	if clauses != nil && slices.Contains(clauses.FormatJSON, i) {
		return true
	}
	c, ok := e.(*ast.FuncCall)
	if !ok {
		return false
	}
	switch c.Name.Upper() {
	case "JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG", "JSON_ARRAYAGG", "JSON":
		return true
	}
	return false
}

// jsonCall binds the JSON functions. Their clauses become arguments in the order that the
// function library documents.
func (s *scope) jsonCall(fn string, e *ast.FuncCall) (expr.Expr, error) {
	c := e.JSON
	if c == nil {
		c = &ast.JSONClauses{Span: e.Span}
	}
	if len(c.Passing) > 0 {
		return nil, unsupported(c.Span, "PASSING")
	}
	args, err := s.binds(e.Args)
	if err != nil {
		return nil, err
	}
	switch fn {
	case "JSON_EXISTS":
		if c.OnError != nil {
			args = append(args, symbol(c.OnError.Kind))
		}
	case "JSON_VALUE", "JSON_QUERY":
		if e.JSON != nil {
			if args, err = s.jsonClauses(fn, args, c); err != nil {
				return nil, err
			}
		}
	case "JSON_OBJECT", "JSON_ARRAY":
		if args, err = s.jsonMembers(fn, args, e, c); err != nil {
			return nil, err
		}
	}
	return s.resolve(fn, e.Span, args...)
}

// jsonClauses appends RETURNING, the wrapper, ON EMPTY and ON ERROR.
func (s *scope) jsonClauses(fn string, args []expr.Expr, c *ast.JSONClauses) ([]expr.Expr, error) {
	returning := types.StringType
	if c.Returning != nil {
		var err error
		if returning, err = typeOf(c.Returning); err != nil {
			return nil, err
		}
	}
	args = append(args, &expr.Literal{T: returning.AsNullable()})
	if fn == "JSON_QUERY" {
		wrapper := c.Wrapper
		if wrapper == "" {
			wrapper = "WITHOUT"
		}
		args = append(args, symbol(wrapper))
	}
	for _, on := range []*ast.JSONBehavior{c.OnEmpty, c.OnError} {
		kind, def := "NULL", expr.Expr(&expr.Literal{T: types.NullType})
		if on != nil {
			kind = on.Kind
		}
		if on != nil && on.Default != nil {
			var err error
			if def, err = s.bind(on.Default); err != nil {
				return nil, err
			}
		}
		args = append(args, symbol(kind))
		if fn == "JSON_VALUE" {
			args = append(args, def)
		}
	}
	return args, nil
}

// jsonMembers puts ON NULL first, and marks values that are JSON already.
func (s *scope) jsonMembers(fn string, args []expr.Expr, e *ast.FuncCall, c *ast.JSONClauses) ([]expr.Expr, error) {
	onNull := c.OnNull
	if onNull == "" {
		onNull = map[string]string{"JSON_OBJECT": "NULL", "JSON_ARRAY": "ABSENT"}[fn]
	}
	for i, a := range args {
		if !isJSON(e.Args[i], e.JSON, i) {
			continue
		}
		// A call of a JSON constructor is known for JSON; the result of an aggregate is a column.
		if call, ok := a.(*expr.Call); ok && isJSON(e.Args[i], nil, i) && call.Fn == e.Args[i].(*ast.FuncCall).Name.Upper() {
			continue
		}
		wrapped, err := s.resolve("JSON", e.Args[i].Pos(), a)
		if err != nil {
			return nil, err
		}
		args[i] = wrapped
	}
	return append([]expr.Expr{symbol(onNull)}, args...), nil
}
