package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

func (s *scope) unary(e *ast.Unary) (expr.Expr, error) {
	if n, ok := e.X.(*ast.NumberLit); ok && e.Op == "-" {
		return literalExpr(numberLiteral(n, true))
	}
	switch e.Op {
	case "NOT":
		x, err := s.bind(e.X)
		if err != nil {
			return nil, err
		}
		if x, err = boolean(x, e.X.Pos(), "NOT"); err != nil {
			return nil, err
		}
		return s.resolve("NOT", e.Span, x)
	case "+":
		x, err := s.bind(e.X)
		if err == nil && !x.Type().IsNumeric() && !x.Type().IsInterval() && x.Type().Kind != types.Null {
			return nil, errAt(e.Span, "+ needs a number, not %s", x.Type().AsNullable())
		}
		return x, err
	case "-":
		return s.resolveArgs("NEGATE", e.Span, e.X)
	}
	return nil, unsupported(e.Span, e.Op+" outside MATCH_RECOGNIZE")
}

var comparisons = map[string]bool{"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true}

func (s *scope) binary(e *ast.Binary) (expr.Expr, error) {
	if e.Op == "OVERLAPS" {
		return s.overlaps(e)
	}
	if l, ok := e.L.(*ast.Row); ok && comparisons[e.Op] {
		if r, ok := e.R.(*ast.Row); ok && len(l.Elems) > 1 {
			return s.compareRows(e, l, r)
		}
	}
	switch e.Op {
	case "AND", "OR":
		return s.logic(e)
	case "+", "-", "*", "/", "%", "||", "=", "<>", "<", "<=", ">", ">=":
		l, err := s.bind(e.L)
		if err != nil {
			return nil, err
		}
		r, err := s.bind(e.R)
		if err != nil {
			return nil, err
		}
		return s.resolve(e.Op, e.Span, l, r)
	}
	return nil, unsupported(e.OpSpan, e.Op)
}

// logic binds a chain of ANDs or ORs as one call.
func (s *scope) logic(e *ast.Binary) (expr.Expr, error) {
	var parts []expr.Expr
	var add func(x ast.Expr) error
	add = func(x ast.Expr) error {
		if c, ok := x.(*ast.Binary); ok && c.Op == e.Op {
			if err := add(c.L); err != nil {
				return err
			}
			return add(c.R)
		}
		v, err := s.bind(x)
		if err != nil {
			return err
		}
		if v, err = boolean(v, x.Pos(), e.Op); err != nil {
			return err
		}
		parts = append(parts, v)
		return nil
	}
	if err := add(e); err != nil {
		return nil, err
	}
	return s.chain(e.Op, e.Span, parts)
}

// chain folds conditions with AND or OR from the left.
func (s *scope) chain(op string, at sqlerr.Span, parts []expr.Expr) (expr.Expr, error) {
	out := parts[0]
	for _, p := range parts[1:] {
		var err error
		if out, err = s.resolve(op, at, out, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compareRows compares (a, b) with (c, d): field by field for = and <>.
func (s *scope) compareRows(e *ast.Binary, l, r *ast.Row) (expr.Expr, error) {
	if len(l.Elems) != len(r.Elems) {
		return nil, errAt(e.Span, "rows of %d and %d values cannot be compared", len(l.Elems), len(r.Elems))
	}
	if e.Op != "=" && e.Op != "<>" {
		return nil, unsupported(e.OpSpan, e.Op+" between rows")
	}
	left, err := s.binds(l.Elems)
	if err != nil {
		return nil, err
	}
	right, err := s.binds(r.Elems)
	if err != nil {
		return nil, err
	}
	return s.rowEquals(e.Op, e.Span, left, right)
}

func (s *scope) rowEquals(op string, at sqlerr.Span, left, right []expr.Expr) (expr.Expr, error) {
	var parts []expr.Expr
	for i := range left {
		p, err := s.resolve(op, at, left[i], right[i])
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if op == "<>" {
		return s.chain("OR", at, parts)
	}
	return s.chain("AND", at, parts)
}

func (s *scope) not(x expr.Expr, negated bool, at sqlerr.Span) (expr.Expr, error) {
	if !negated {
		return x, nil
	}
	return s.resolve("NOT", at, x)
}

// between binds x BETWEEN lo AND hi as two comparisons.
func (s *scope) between(e *ast.Between) (expr.Expr, error) {
	v, err := s.binds([]ast.Expr{e.X, e.Lo, e.Hi})
	if err != nil {
		return nil, err
	}
	in, err := s.inRange(v[0], v[1], v[2], e)
	if err != nil || !e.Symmetric {
		return in, err
	}
	swapped, err := s.inRange(v[0], v[2], v[1], e)
	if err != nil {
		return nil, err
	}
	if e.Negated {
		return s.resolve("AND", e.Span, in, swapped)
	}
	return s.resolve("OR", e.Span, in, swapped)
}

func (s *scope) inRange(x, lo, hi expr.Expr, e *ast.Between) (expr.Expr, error) {
	above, below, both := ">=", "<=", "AND"
	if e.Negated {
		above, below, both = "<", ">", "OR"
	}
	l, err := s.resolve(above, e.Span, x, lo)
	if err != nil {
		return nil, err
	}
	h, err := s.resolve(below, e.Span, x, hi)
	if err != nil {
		return nil, err
	}
	return s.resolve(both, e.Span, l, h)
}

func (s *scope) in(e *ast.In) (expr.Expr, error) {
	if e.Query != nil {
		return nil, unsupported(e.Span, "IN (sub-query)")
	}
	if row, ok := e.X.(*ast.Row); ok && len(row.Elems) > 1 {
		return s.inRows(e, row)
	}
	x, err := s.bind(e.X)
	if err != nil {
		return nil, err
	}
	list, err := s.binds(e.List)
	if err != nil {
		return nil, err
	}
	out, err := s.resolve("IN", e.Span, append([]expr.Expr{x}, list...)...)
	if err != nil {
		return nil, err
	}
	return s.not(out, e.Negated, e.Span)
}

// inRows binds (a, b) IN ((1, 2), (3, 4)).
func (s *scope) inRows(e *ast.In, row *ast.Row) (expr.Expr, error) {
	left, err := s.binds(row.Elems)
	if err != nil {
		return nil, err
	}
	var parts []expr.Expr
	for _, item := range e.List {
		r, ok := item.(*ast.Row)
		if !ok || len(r.Elems) != len(left) {
			return nil, errAt(item.Pos(), "this must be a row of %d values, as on the left of IN", len(left))
		}
		right, err := s.binds(r.Elems)
		if err != nil {
			return nil, err
		}
		p, err := s.rowEquals("=", e.Span, left, right)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	out, err := s.chain("OR", e.Span, parts)
	if err != nil {
		return nil, err
	}
	return s.not(out, e.Negated, e.Span)
}

// quantified binds x op ANY|ALL (list) as a chain of comparisons.
func (s *scope) quantified(e *ast.Quantified) (expr.Expr, error) {
	if e.Query != nil {
		return nil, unsupported(e.Span, e.Op+" "+e.Quantifier+" (sub-query)")
	}
	x, err := s.bind(e.X)
	if err != nil {
		return nil, err
	}
	var parts []expr.Expr
	for _, item := range e.List {
		v, err := s.bind(item)
		if err != nil {
			return nil, err
		}
		p, err := s.resolve(e.Op, e.Span, x, v)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	op := "OR"
	if e.Quantifier == "ALL" {
		op = "AND"
	}
	return s.chain(op, e.Span, parts)
}

func (s *scope) like(e *ast.Like) (expr.Expr, error) {
	args := []ast.Expr{e.X, e.Pattern}
	if e.Escape != nil {
		args = append(args, e.Escape)
	}
	fn := "LIKE"
	switch e.Kind {
	case ast.SimilarPattern:
		fn = "SIMILAR TO"
	case ast.RegexpPattern:
		fn = "REGEXP"
	case ast.ILikePattern:
		return nil, unsupported(e.Span, "ILIKE")
	}
	out, err := s.resolveArgs(fn, e.Span, args...)
	if err != nil {
		return nil, err
	}
	return s.not(out, e.Negated, e.Span)
}

var isTests = map[ast.IsTestKind]string{
	ast.IsNull: "NULL", ast.IsUnknown: "NULL", ast.IsTrue: "TRUE", ast.IsFalse: "FALSE",
	ast.IsJSON: "JSON VALUE", ast.IsJSONValue: "JSON VALUE", ast.IsJSONScalar: "JSON SCALAR",
	ast.IsJSONArray: "JSON ARRAY", ast.IsJSONObject: "JSON OBJECT",
}

func (s *scope) is(e *ast.Is) (expr.Expr, error) {
	test, ok := isTests[e.Test]
	if !ok {
		return nil, unsupported(e.Span, "this test of a MULTISET")
	}
	x, err := s.bind(e.X)
	if err != nil {
		return nil, err
	}
	if e.Test == ast.IsTrue || e.Test == ast.IsFalse || e.Test == ast.IsUnknown {
		if x, err = boolean(x, e.X.Pos(), "IS TRUE, IS FALSE or IS UNKNOWN"); err != nil {
			return nil, err
		}
	}
	if e.Negated {
		return s.resolve("IS NOT "+test, e.Span, x)
	}
	return s.resolve("IS "+test, e.Span, x)
}

func (s *scope) isDistinct(e *ast.IsDistinct) (expr.Expr, error) {
	if e.Negated {
		return s.resolveArgs("IS NOT DISTINCT FROM", e.Span, e.X, e.Y)
	}
	return s.resolveArgs("IS DISTINCT FROM", e.Span, e.X, e.Y)
}

// caseExpr binds both forms of CASE to CASE(cond, value, ..., else).
func (s *scope) caseExpr(e *ast.Case) (expr.Expr, error) {
	var operand expr.Expr
	var err error
	if e.Operand != nil {
		if operand, err = s.bind(e.Operand); err != nil {
			return nil, err
		}
	}
	var args []expr.Expr
	for _, w := range e.Whens {
		cond, err := s.when(operand, w)
		if err != nil {
			return nil, err
		}
		value, err := s.bind(w.Result)
		if err != nil {
			return nil, err
		}
		args = append(args, cond, value)
	}
	last := expr.Expr(&expr.Literal{T: types.NullType})
	if e.Else != nil {
		if last, err = s.bind(e.Else); err != nil {
			return nil, err
		}
	}
	return s.resolve("CASE", e.Span, append(args, last)...)
}

// when binds the condition of one branch.
func (s *scope) when(operand expr.Expr, w *ast.When) (expr.Expr, error) {
	var parts []expr.Expr
	for _, c := range w.Conds {
		v, err := s.bind(c)
		if err != nil {
			return nil, err
		}
		if operand == nil {
			v, err = boolean(v, c.Pos(), "WHEN")
		} else {
			v, err = s.resolve("=", c.Pos(), operand, v)
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, v)
	}
	return s.chain("OR", w.Span, parts)
}

// intervalExpr binds INTERVAL x DAY as x times the unit.
func (s *scope) intervalExpr(e *ast.IntervalExpr) (expr.Expr, error) {
	t, err := intervalType(e.Qualifier)
	if err != nil {
		return nil, err
	}
	if e.Qualifier.To != "" {
		return nil, errAt(e.Qualifier.Span, "an interval of several fields is written as a string").
			WithHint("write INTERVAL '1 02:00' DAY TO MINUTE")
	}
	x, err := s.bind(e.Value)
	if err != nil {
		return nil, err
	}
	one, err := intervalLiteral(&ast.IntervalLit{Value: "1", ValueSpan: e.Span, Qualifier: e.Qualifier})
	if err != nil {
		return nil, err
	}
	one.T = t
	return s.resolve("*", e.Span, one, x)
}

// timeDiff binds (x - y) SECOND.
func (s *scope) timeDiff(e *ast.TimeDiff) (expr.Expr, error) {
	t, err := intervalType(e.Qualifier)
	if err != nil {
		return nil, err
	}
	args, err := s.binds([]ast.Expr{e.L, e.R})
	if err != nil {
		return nil, err
	}
	return s.resolve("MINUS DATE", e.Span, append(args, &expr.Literal{T: t})...)
}

// overlaps binds (a, b) OVERLAPS (c, d): each is a start with an end or a length; the order of
// start and end does not matter.
func (s *scope) overlaps(e *ast.Binary) (expr.Expr, error) {
	s1, e1, err := s.period(e.L)
	if err != nil {
		return nil, err
	}
	s2, e2, err := s.period(e.R)
	if err != nil {
		return nil, err
	}
	first, err := s.resolve(">=", e.Span, e1, s2)
	if err != nil {
		return nil, err
	}
	second, err := s.resolve(">=", e.Span, e2, s1)
	if err != nil {
		return nil, err
	}
	return s.resolve("AND", e.Span, first, second)
}

// period binds (start, end) or (start, interval) and puts both in order.
func (s *scope) period(x ast.Expr) (from, to expr.Expr, err error) {
	row, ok := x.(*ast.Row)
	if !ok || len(row.Elems) != 2 {
		return nil, nil, errAt(x.Pos(), "OVERLAPS compares two periods").
			WithHint("write each as (start, end) or (start, INTERVAL '1' DAY)")
	}
	v, err := s.binds(row.Elems)
	if err != nil {
		return nil, nil, err
	}
	at := x.Pos()
	if v[1].Type().IsInterval() {
		if v[1], err = s.resolve("+", at, v[0], v[1]); err != nil {
			return nil, nil, err
		}
	}
	ordered, err := s.resolve("<=", at, v[0], v[1])
	if err != nil {
		return nil, nil, err
	}
	if from, err = s.resolve("CASE", at, ordered, v[0], v[1]); err != nil {
		return nil, nil, err
	}
	to, err = s.resolve("CASE", at, ordered, v[1], v[0])
	return from, to, err
}
