package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// isJSON reports whether argument i holds JSON text, to be taken as it is and not as a string: it
// is made by another JSON constructor, or marked FORMAT JSON.
func isJSON(e ast.Expr, clauses *ast.JSONClauses, i int) bool {
	if clauses != nil {
		for _, k := range clauses.FormatJSON {
			if k == i {
				return true
			}
		}
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

// jsonCall binds the JSON functions, whose clauses become arguments.
func (s *scope) jsonCall(fn string, e *ast.FuncCall) (expr.Expr, error) {
	return s.resolveArgs(fn, e.Span, e.Args...)
}
