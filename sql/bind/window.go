package bind

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// groupWindow is an old window function in GROUP BY.
type groupWindow struct {
	plan.Window
	fn   string
	time *expr.Column
	args []ast.Expr
}

var windowKinds = map[string]plan.WindowKind{"TUMBLE": plan.Tumble, "HOP": plan.Hop,
	"CUMULATE": plan.Cumulate, "SESSION": plan.Session}

// groupWindowUsage is what the old functions take.
var groupWindowUsage = map[string]string{
	"TUMBLE":  "TUMBLE(rowtime, INTERVAL '10' MINUTE)",
	"HOP":     "HOP(rowtime, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE) (slide, then size)",
	"SESSION": "SESSION(rowtime, INTERVAL '10' MINUTE)",
}

// groupWindow binds TUMBLE, HOP or SESSION in GROUP BY.
func (s *scope) groupWindow(a *aggregator, fn string, e *ast.FuncCall) error {
	if a.window != nil {
		return errAt(e.Span, "a query can be grouped by one window only").
			WithHint("aggregate in a sub-query by the first, then by the second over its %s_ROWTIME", a.window.fn)
	}
	want := 2
	if fn == "HOP" {
		want = 3
	}
	if len(e.Args) != want {
		return errAt(e.Span, "%s takes %d arguments, not %d", fn, want, len(e.Args)).
			WithHint("write %s", groupWindowUsage[fn])
	}
	x, err := s.item(e.Args[0])
	if err != nil {
		return err
	}
	c, ok := x.(*expr.Column)
	if !ok {
		return errAt(e.Args[0].Pos(), "the first argument of %s must be a time attribute, not an expression", fn).
			WithHint("name the column of the table's WATERMARK clause, or a PROCTIME() column")
	}
	w := groupWindow{fn: fn, time: c, args: e.Args}
	w.Kind = windowKinds[fn]
	if err := s.b.timeColumn(&w.Window, c, fn, e.Args[0].Pos(), s.rel); err != nil {
		return err
	}
	var lengths []int64
	for _, arg := range e.Args[1:] {
		ms, err := s.length(arg, fn)
		if err != nil {
			return err
		}
		lengths = append(lengths, ms)
	}
	w.Size = lengths[len(lengths)-1]
	if fn == "HOP" {
		w.Step = lengths[0]
	}
	a.window = &w
	return nil
}

// timeColumn checks the time attribute that windows go by, and sets how the window reads it.
func (b *Binder) timeColumn(w *plan.Window, c *expr.Column, fn string, at sqlerr.Span, rel *relation) error {
	t := c.T
	if t.Attr == types.NoTime && !(b.cfg.BatchMode() && t.IsTimestamp()) {
		return b.noTimeAttribute(c, fn, at, rel)
	}
	w.TimeCol = c.Index
	w.ProcTime = t.Attr == types.ProcTime
	if t.Kind == types.TimestampLTZ {
		w.Zone = b.env.Zone.String()
	}
	return nil
}

// noTimeAttribute says how to make a column the time attribute that a window needs.
func (b *Binder) noTimeAttribute(c *expr.Column, fn string, at sqlerr.Span, rel *relation) error {
	err := errAt(at, "%s needs a time attribute, but column %s is %s", fn, c.Name, c.T.AsNullable())
	if c.T.Kind == types.Null {
		return err
	}
	for _, o := range rel.cols {
		if o.typ.Attr != types.NoTime && o.name != c.Name {
			return err.WithHint("did you mean %s?", o.label())
		}
	}
	table := "the table"
	if path := rel.cols[c.Index].table; len(path) > 0 {
		table = "table " + path[len(path)-1]
	}
	if !c.T.IsTimestamp() {
		column, how := "ts", "TO_TIMESTAMP(`"+c.Name+"`)"
		if c.T.IsInteger() {
			how = "TO_TIMESTAMP_LTZ(`" + c.Name + "`, 3)"
		}
		return err.WithHint("add to %s: %s AS %s, WATERMARK FOR %s AS %s - INTERVAL '5' SECOND",
			table, column, how, column, column)
	}
	if findScan(rel.node, func(t *logical.Scan) bool { return t.Table.RowTime >= 0 }) {
		return err.WithDetail("A column is a time attribute only as long as it is passed on as it is: an expression, a CAST or an aggregation makes a plain timestamp of it.").
			WithHint("name the column of the WATERMARK clause itself, or window_time of the window below")
	}
	return err.WithHint("add to the definition of %s: WATERMARK FOR `%s` AS `%s` - INTERVAL '5' SECOND",
		table, c.Name, c.Name)
}

// findScan reports whether some table below n satisfies f.
func findScan(n logical.Node, f func(*logical.Scan) bool) bool {
	if s, ok := n.(*logical.Scan); ok && f(s) {
		return true
	}
	for _, in := range n.Inputs() {
		if findScan(in, f) {
			return true
		}
	}
	return false
}

// length binds a constant interval above zero and returns it in ms.
func (s *scope) length(e ast.Expr, what string) (int64, error) {
	ms, err := s.interval(e, what)
	if err == nil && ms <= 0 {
		return 0, errAt(e.Pos(), "%s needs an interval above zero", what)
	}
	return ms, err
}

// interval binds a constant day-time interval and returns it in ms.
func (s *scope) interval(e ast.Expr, what string) (int64, error) {
	x, err := s.bind(e)
	if err != nil {
		return 0, err
	}
	if x.Type().Kind == types.IntervalYearMonth {
		return 0, errAt(e.Pos(), "%s needs an interval of fixed length, not of months", what).
			WithHint("write INTERVAL '30' DAY")
	}
	lit, ok := constant(x, s.b.env)
	if ok && lit.T.Kind == types.IntervalDayTime {
		if ms, ok := lit.Value.(int64); ok {
			return ms, nil
		}
	}
	return 0, errAt(e.Pos(), "%s needs a constant interval here, not %s", what, x.Type().AsNullable()).
		WithHint("write INTERVAL '10' MINUTE")
}

// windowAux binds TUMBLE_START and its kin.
func (s *scope) windowAux(fn string, e *ast.FuncCall) (expr.Expr, error) {
	window, suffix, _ := splitWindowAux(fn)
	if s.inAggregate != "" {
		return nil, errAt(e.Span, "%s cannot be an argument of %s", fn, s.inAggregate)
	}
	if s.aggs == nil || s.aggs.window == nil {
		var args []string
		for _, a := range e.Args {
			args = append(args, ast.Format(a))
		}
		return nil, errAt(e.Span, "%s needs GROUP BY %s", fn, window).
			WithHint("add GROUP BY %s(%s)", window, strings.Join(args, ", "))
	}
	w := s.aggs.window
	if w.fn != window || !s.sameArgs(w.args, e.Args) {
		return nil, errAt(e.Span, "%s does not fit the window of GROUP BY", fn).
			WithHint("write %s%s with the same arguments as %s there", w.fn, suffix, w.fn)
	}
	var p plan.WindowProp
	switch suffix {
	case "_START":
		p = plan.WindowStart
	case "_END":
		p = plan.WindowEnd
	case "_ROWTIME":
		if w.ProcTime {
			return nil, errAt(e.Span, "%s needs a window over event time", fn).WithHint("write %s_PROCTIME", window)
		}
		p = plan.WindowTime
	case "_PROCTIME":
		p = plan.WindowProcTime
	}
	return s.aggs.prop(p, fn), nil
}

// prop returns the placeholder of a window property.
func (a *aggregator) prop(p plan.WindowProp, name string) *expr.Column {
	at := -1
	for i, o := range a.props {
		if o == p {
			at = i
		}
	}
	if at < 0 {
		at = len(a.props)
		a.props = append(a.props, p)
	}
	return &expr.Column{Index: propBase + at, Name: name, T: logical.PropType(p, &a.window.Window)}
}

// sameArgs reports whether two lists of arguments mean the same over the aggregation's input.
func (s *scope) sameArgs(x, y []ast.Expr) bool {
	if len(x) != len(y) {
		return false
	}
	in := &scope{b: s.b, rel: s.aggs.input, clause: "GROUP BY"}
	for i := range x {
		a, err := in.bind(x[i])
		if err != nil {
			return false
		}
		b, err := in.bind(y[i])
		if err != nil || !sameConstant(a, b) {
			return false
		}
	}
	return true
}

// sameConstant is expr.Equal, but that INTERVAL '60' SECOND is INTERVAL '1' MINUTE.
func sameConstant(a, b expr.Expr) bool {
	x, ok1 := a.(*expr.Literal)
	y, ok2 := b.(*expr.Literal)
	if ok1 && ok2 && x.T.Kind == y.T.Kind && x.T.IsInterval() {
		return x.Value == y.Value
	}
	return expr.Equal(a, b)
}
