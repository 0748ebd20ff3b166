package bind

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/agg"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// windowCalls are the old group window functions; their auxiliary functions add a suffix.
var windowCalls = map[string]bool{"TUMBLE": true, "HOP": true, "SESSION": true}

var windowSuffixes = []string{"_START", "_END", "_ROWTIME", "_PROCTIME"}

// splitWindowAux cuts TUMBLE_START into TUMBLE and _START.
func splitWindowAux(fn string) (window, suffix string, ok bool) {
	for _, suffix := range windowSuffixes {
		if w, ok := strings.CutSuffix(fn, suffix); ok && windowCalls[w] {
			return w, suffix, true
		}
	}
	return "", "", false
}

func (s *scope) call(e *ast.FuncCall) (expr.Expr, error) {
	if len(e.Name.Parts) > 1 {
		return nil, errAt(e.Name.Span, "unknown function %s", e.Name).
			WithHint("functions have no catalog or database here; write %s", e.Name.Last().Name)
	}
	fn := e.Name.Upper()
	if e.Over != nil && fn == "ROW_NUMBER" {
		return s.rowNumber(e)
	}
	if e.Over != nil {
		return nil, unsupported(e.Span, "OVER")
	}
	if agg.Is(fn) {
		return s.aggregate(fn, e)
	}
	if fn == "GROUPING" || fn == "GROUPING_ID" || fn == "GROUP_ID" {
		return s.groupingCall(fn, e)
	}
	if _, _, ok := splitWindowAux(fn); ok {
		return s.windowAux(fn, e)
	}
	if err := s.checkScalar(fn, e); err != nil {
		return nil, err
	}
	switch fn {
	case "CURRENT_WATERMARK":
		return s.currentWatermark(e)
	case "PROCTIME":
		out, err := s.resolve(fn, e.Span)
		if c, ok := out.(*expr.Call); ok {
			c.T = types.TimestampLTZType(3).NotNull()
			c.T.Attr = types.ProcTime
		}
		return out, err
	}
	if expr.Lookup(fn) == nil {
		return nil, s.unknownFunction(fn, e)
	}
	if e.JSON != nil || strings.HasPrefix(fn, "JSON_") {
		return s.jsonCall(fn, e)
	}
	args, err := s.binds(e.Args)
	if err != nil {
		return nil, err
	}
	return s.resolve(fn, e.Span, args...)
}

// unknownFunction suggests the nearest scalar or aggregate functions.
func (s *scope) unknownFunction(fn string, e *ast.FuncCall) error {
	if onlyOver[fn] {
		return unsupported(e.Span, fn)
	}
	names := agg.Names()
	for _, f := range expr.All() {
		if f.Name[0] >= 'A' && f.Name[0] <= 'Z' && !strings.Contains(f.Name, " ") && !formNames[f.Name] {
			names = append(append(names, f.Name), f.Aliases...)
		}
	}
	return errAt(e.Name.Span, "unknown function %s", fn).WithHint("%s", sqlerr.DidYouMean(fn, names))
}

// formNames are entries of the registry that are no functions to call by name.
var formNames = map[string]bool{"AND": true, "OR": true, "NOT": true, "IN": true, "CASE": true, "ITEM": true,
	"FIELD": true, "NEGATE": true, "LIKE": true, "ROW": true, "MAP": true, "ARRAY": true}

// onlyOver are functions that need an OVER clause.
var onlyOver = map[string]bool{"ROW_NUMBER": true, "RANK": true, "DENSE_RANK": true, "PERCENT_RANK": true,
	"CUME_DIST": true, "NTILE": true, "LAG": true, "LEAD": true, "NTH_VALUE": true,
	"MATCH_ROWTIME": true, "MATCH_PROCTIME": true, "CLASSIFIER": true}

// checkScalar refuses the clauses of aggregates on other functions.
func (s *scope) checkScalar(fn string, e *ast.FuncCall) error {
	if windowCalls[fn] || fn == "CUMULATE" {
		return errAt(e.Span, "%s cannot stand here", fn).
			WithHint("it is a table function in FROM: TABLE(%s(TABLE t, DESCRIPTOR(ts), INTERVAL ...)), or the older group window in GROUP BY", fn)
	}
	what := ""
	switch {
	case e.Filter != nil:
		what = "FILTER"
	case e.Distinct:
		what = "DISTINCT"
	case e.WithinGroup != nil:
		what = "WITHIN GROUP"
	case e.OrderBy != nil:
		what = "ORDER BY"
	case e.Nulls != ast.NullsDefault:
		what = "IGNORE NULLS or RESPECT NULLS"
	}
	if what == "" {
		return nil
	}
	if expr.Lookup(fn) == nil {
		return errAt(e.Name.Span, "unknown aggregate function %s", fn).
			WithHint("%s", suggest(fn, agg.Names(), "aggregate functions are "))
	}
	return errAt(e.Span, "%s is no aggregate function, so it takes no %s", fn, what)
}

// currentWatermark binds CURRENT_WATERMARK, whose argument must be a time attribute.
func (s *scope) currentWatermark(e *ast.FuncCall) (expr.Expr, error) {
	if len(e.Args) != 1 {
		return nil, errAt(e.Span, "CURRENT_WATERMARK takes one argument").WithHint("write CURRENT_WATERMARK(rowtime)")
	}
	x, err := s.item(e.Args[0])
	if err != nil {
		return nil, err
	}
	if x.Type().Attr != types.RowTime {
		return nil, errAt(e.Args[0].Pos(), "CURRENT_WATERMARK needs a rowtime attribute, but %s is %s",
			x, x.Type().AsNullable()).
			WithHint("name the column of the table's WATERMARK clause")
	}
	return s.resolve("CURRENT_WATERMARK", e.Span, x)
}
