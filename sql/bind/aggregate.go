package bind

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/agg"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// Columns of an aggregation's output are bound before their positions are known: while the items
// of a select list are bound, an aggregate call is a Column at one of these indexes plus its
// number. aggregator.output replaces them.
const (
	aggBase = 1 << (24 + iota)
	groupingBase
	propBase
	// subBase is where the columns of sub-queries start, which come after all others.
	subBase
)

// aggregator gathers what one GROUP BY level computes.
type aggregator struct {
	b     *Binder
	input *relation
	// keys are the group keys over the input, each once, as they were written in keyAt.
	keys  []expr.Expr
	keyAt []sqlerr.Span
	// sets are grouping sets of indexes into keys; nil for one set of all.
	sets [][]int
	// explicit tells GROUP BY from aggregates over all rows.
	explicit bool

	calls     []aggCall
	groupings [][]int // see logical.Aggregate.GroupingIDs
	window    *groupWindow
	props     []plan.WindowProp
	ttlMs     *int64 // see logical.Aggregate
	at        sqlerr.Span
}

// aggCall is one aggregate over expressions of the input.
type aggCall struct {
	sig      agg.Signature
	args     []expr.Expr
	filter   expr.Expr // nil without
	distinct bool
	options  []string
	t        types.Type
}

// aggregate binds an aggregate call and returns its placeholder.
func (s *scope) aggregate(fn string, e *ast.FuncCall) (expr.Expr, error) {
	if s.inAggregate != "" {
		return nil, errAt(e.Span, "%s cannot be nested in %s", fn, s.inAggregate).
			WithHint("compute %s in a sub-query first", fn)
	}
	if s.aggs == nil {
		err := errAt(e.Span, "%s cannot stand in %s", fn, s.clause)
		if s.clause == "WHERE" {
			return nil, err.WithHint("WHERE comes before grouping: write the condition in HAVING")
		}
		return nil, err.WithHint("aggregates stand in the select list, HAVING and ORDER BY of a query")
	}
	if e.OrderBy != nil || e.WithinGroup != nil {
		return nil, unsupported(e.Span, "ORDER BY inside an aggregate")
	}
	call, err := s.aggregateCall(fn, e)
	if err != nil {
		return nil, err
	}
	i := s.aggs.add(call)
	return &expr.Column{Index: aggBase + i, Name: fn, T: call.t}, nil
}

func (s *scope) aggregateCall(fn string, e *ast.FuncCall) (aggCall, error) {
	in := &scope{b: s.b, rel: s.aggs.input, clause: fn, inAggregate: fn}
	call := aggCall{distinct: e.Distinct}
	var err error
	args := e.Args
	if len(args) == 1 {
		if star, ok := args[0].(*ast.Star); ok {
			if fn != "COUNT" || star.Qualifier != nil {
				return call, errAt(star.Span, "* cannot be an argument of %s", fn).WithHint("name a column")
			}
			args = nil
		}
	}
	if call.args, err = in.binds(args); err != nil {
		return call, err
	}
	if e.Filter != nil {
		in.clause = "FILTER"
		if call.filter, err = in.condition(e.Filter); err != nil {
			return call, err
		}
	}
	if fn == "COUNT" && len(call.args) > 1 {
		s.countSeveral(&call, e.Span)
	}
	if fn == "COUNT" && len(call.args) == 0 && len(e.Args) == 0 {
		return call, errAt(e.Span, "COUNT needs an argument").WithHint("write COUNT(*)")
	}
	if call.sig, err = agg.Resolve(fn, call.args, call.distinct); err != nil {
		return call, wrap(e.Span, err)
	}
	for i, p := range call.sig.Params {
		x, ok := s.b.coerceTo(call.args[i], p, e.Span)
		if !ok {
			return call, errAt(e.Args[i].Pos(), "argument %d of %s cannot be %s", i+1, fn, call.args[i].Type().AsNullable())
		}
		call.args[i] = x
		if isConstArg(call, i) {
			lit, ok := constant(x, s.b.env)
			if !ok {
				return call, errAt(e.Args[i].Pos(), "argument %d of %s must be a constant", i+1, fn)
			}
			call.args[i] = lit
		}
	}
	if err := s.aggregateClauses(&call, e); err != nil {
		return call, err
	}
	return s.simplify(call), nil
}

// countSeveral turns COUNT(a, b), the rows in which neither is NULL, into a count of rows.
func (s *scope) countSeveral(call *aggCall, at sqlerr.Span) {
	for _, x := range call.args {
		if !x.Type().Nullable {
			continue
		}
		test, err := s.resolve("IS NOT NULL", at, x)
		if err != nil {
			continue
		}
		if call.filter == nil {
			call.filter = test
		} else if both, err := s.resolve("AND", at, call.filter, test); err == nil {
			call.filter = both
		}
	}
	if call.distinct {
		call.args = []expr.Expr{rowOf(call.args, at)}
	} else {
		call.args = nil
	}
}

// aggregateClauses handles what may stand in or behind the parentheses of some aggregates.
func (s *scope) aggregateClauses(call *aggCall, e *ast.FuncCall) error {
	name := call.sig.Name
	switch {
	case strings.HasPrefix(name, "JSON_"):
		onNull := map[string]string{"JSON_OBJECTAGG": "NULL", "JSON_ARRAYAGG": "ABSENT"}[name]
		if e.JSON != nil && e.JSON.OnNull != "" {
			onNull = e.JSON.OnNull
		}
		call.options = []string{onNull + " ON NULL"}
		if isJSON(e.Args[len(e.Args)-1], e.JSON, len(e.Args)-1) {
			call.options = append(call.options, "FORMAT JSON")
		}
	case e.Nulls == ast.IgnoreNulls && name == "ARRAY_AGG":
		test, err := s.resolve("IS NOT NULL", e.Span, call.args[0])
		if err == nil && call.filter != nil {
			test, err = s.resolve("AND", e.Span, call.filter, test)
		}
		call.filter = test
		return err
	case e.Nulls == ast.RespectNulls && (name == "FIRST_VALUE" || name == "LAST_VALUE"):
		return unsupported(e.Span, name+" with RESPECT NULLS")
	}
	return nil
}

// simplify brings calls that mean the same to one form, and gives the result its type.
func (s *scope) simplify(call aggCall) aggCall {
	if l, ok := call.filter.(*expr.Literal); ok && l.Value == true {
		call.filter = nil
	}
	if call.sig.Name == "COUNT" && !call.distinct && len(call.args) == 1 {
		if l, ok := call.args[0].(*expr.Literal); ok && l.Value != nil {
			call.args = nil
		}
	}
	switch call.sig.Name {
	case "MIN", "MAX":
		call.distinct = false
	}
	call.t = call.sig.Result.WithoutAttr()
	if !call.sig.NotNull && (!s.aggs.explicit || call.filter != nil || s.aggs.hasEmptySet()) {
		call.t = call.t.AsNullable()
	}
	return call
}

func (a *aggregator) hasEmptySet() bool {
	for _, s := range a.sets {
		if len(s) == 0 {
			return true
		}
	}
	return false
}

// add notes a call, once, and returns its number.
func (a *aggregator) add(c aggCall) int {
	for i, o := range a.calls {
		if sameCall(o, c) {
			return i
		}
	}
	a.calls = append(a.calls, c)
	return len(a.calls) - 1
}

func sameCall(x, y aggCall) bool {
	if x.sig.Name != y.sig.Name || x.distinct != y.distinct || len(x.args) != len(y.args) ||
		(x.filter == nil) != (y.filter == nil) || strings.Join(x.options, ",") != strings.Join(y.options, ",") {
		return false
	}
	for i := range x.args {
		if !expr.Equal(x.args[i], y.args[i]) {
			return false
		}
	}
	return x.filter == nil || expr.Equal(x.filter, y.filter)
}

// key returns the number of the group key that e is, or -1.
func (a *aggregator) key(e expr.Expr) int {
	for i, k := range a.keys {
		if expr.Equal(k, e) {
			return i
		}
	}
	return -1
}

// addKey notes a group key, once, and returns its number.
func (a *aggregator) addKey(e expr.Expr, at sqlerr.Span) int {
	if i := a.key(e); i >= 0 {
		return i
	}
	a.keys = append(a.keys, e)
	a.keyAt = append(a.keyAt, at)
	return len(a.keys) - 1
}

// byWindow reports whether the keys hold the start and the end of a window function below.
func (a *aggregator) byWindow() bool {
	var start, end bool
	for i := range a.keys {
		w := a.keyRole(i)
		start = start || w == windowStart
		end = end || w == windowEnd
	}
	return start && end
}

func (a *aggregator) keyRole(i int) windowRole {
	if c, ok := a.keys[i].(*expr.Column); ok {
		return a.input.cols[c.Index].win
	}
	return notWindow
}

// keyColumn is the scope's column for key i: as logical.Aggregate types it, but that the time of
// a window stays a time attribute where the aggregation is by that window.
func (a *aggregator) keyColumn(i int) column {
	t := a.keys[i].Type()
	c := column{name: "EXPR$" + itoa(i), typ: t.WithoutAttr()}
	if k, ok := a.keys[i].(*expr.Column); ok {
		in := a.input.cols[k.Index]
		c.name, c.table = in.name, in.table
		if a.byWindow() {
			c.win = in.win
			if in.win == windowTime {
				c.typ = t
			}
		}
	}
	if a.sets != nil {
		c.typ = c.typ.AsNullable()
	}
	return c
}

// output rewrites an expression bound over the input into one over the aggregation's output:
// parts that are group keys and placeholders become columns; any other column is an error.
func (a *aggregator) output(e expr.Expr, clause string) (expr.Expr, error) {
	if _, constant := e.(*expr.Literal); constant {
		return e, nil
	}
	if i := a.key(e); i >= 0 {
		c := a.keyColumn(i)
		return &expr.Column{Index: i, Name: c.name, T: c.typ}, nil
	}
	switch e := e.(type) {
	case *expr.Column:
		if e.Index >= aggBase {
			c := *e
			c.Index = a.position(e.Index)
			return &c, nil
		}
		return nil, a.notGrouped(e, clause)
	case *expr.Call:
		c := *e
		c.Args = make([]expr.Expr, len(e.Args))
		for i, x := range e.Args {
			out, err := a.output(x, clause)
			if err != nil {
				return nil, err
			}
			c.Args[i] = out
			// A key of grouping sets may be NULL though the column is not.
			c.T.Nullable = c.T.Nullable || out.Type().Nullable && !x.Type().Nullable
		}
		return &c, nil
	}
	return e, nil
}

// position is the output column of a placeholder.
func (a *aggregator) position(index int) int {
	base := len(a.keys)
	switch {
	case index >= subBase:
		return base + len(a.calls) + len(a.groupings) + len(a.props) + index - subBase
	case index >= propBase:
		return base + len(a.calls) + len(a.groupings) + index - propBase
	case index >= groupingBase:
		return base + len(a.calls) + index - groupingBase
	}
	return base + index - aggBase
}

func (a *aggregator) notGrouped(c *expr.Column, clause string) error {
	at := a.b.columnPos[c]
	label := a.input.cols[c.Index].name
	if !a.explicit && len(a.calls) > 0 {
		return errAt(at, "column %s stands in %s beside an aggregate, but there is no GROUP BY", label, clause).
			WithHint("add GROUP BY %s, or wrap it: MAX(%s)", label, label)
	}
	return errAt(at, "column %s is neither grouped nor aggregated", label).
		WithHint("add %s to GROUP BY, or wrap it: MAX(%s)", label, label)
}

// build makes the node, with a projection below for what must be computed first.
func (a *aggregator) build() *relation {
	pre := &preProject{rel: a.input}
	node := &logical.Aggregate{Sets: a.sets, GroupingIDs: a.groupings, TTLMs: a.ttlMs, Pos: pos(a.at)}
	for _, k := range a.keys {
		pre.add(k)
	}
	for _, c := range a.calls {
		pre.call(c)
	}
	if a.window != nil {
		pre.add(a.window.time)
	}
	input := pre.node()
	for _, k := range a.keys {
		node.Keys = append(node.Keys, pre.index(k))
	}
	for i, c := range a.calls {
		node.Aggs = append(node.Aggs, pre.planCall(c, "agg$"+itoa(i)))
	}
	if a.window != nil {
		w := a.window.Window
		w.TimeCol = pre.index(a.window.time)
		node.Window = &w
		node.Props = a.props
		for i := range a.props {
			node.PropNames = append(node.PropNames, "w$"+itoa(i))
		}
	}
	node.Input, node.Made = input, pre.computed
	out := relationOf(node)
	for i := range a.keys {
		out.cols[i] = a.keyColumn(i)
	}
	return out
}

// preProject gathers the expressions that an aggregation reads.
type preProject struct {
	rel      *relation
	exprs    []expr.Expr
	computed bool
}

func (p *preProject) add(e expr.Expr) {
	for _, o := range p.exprs {
		if expr.Equal(o, e) {
			return
		}
	}
	if _, ok := e.(*expr.Column); !ok {
		p.computed = true
	}
	p.exprs = append(p.exprs, e)
}

// call adds what an aggregate call reads; constants that must be constants are not columns.
func (p *preProject) call(c aggCall) {
	for i, x := range c.args {
		if !isConstArg(c, i) {
			p.add(x)
		}
	}
	if c.filter != nil {
		p.add(c.filter)
	}
}

func isConstArg(c aggCall, i int) bool { return i < len(c.sig.Const) && c.sig.Const[i] }

// node is the input of the aggregation: the relation itself where nothing is computed.
func (p *preProject) node() logical.Node {
	if !p.computed {
		return p.rel.node
	}
	used := map[string]bool{}
	n := &logical.Project{Input: p.rel.node, Exprs: p.exprs}
	for i, e := range p.exprs {
		name := "$f" + itoa(i)
		if c, ok := e.(*expr.Column); ok {
			name = c.Name
		}
		n.Names = append(n.Names, uniqueName(name, used))
	}
	return n
}

// index is the column of node that holds e.
func (p *preProject) index(e expr.Expr) int {
	if !p.computed {
		return e.(*expr.Column).Index
	}
	for i, o := range p.exprs {
		if expr.Equal(o, e) {
			return i
		}
	}
	panic("BUG: aggregation reads an expression that was not projected")
}

func (p *preProject) planCall(c aggCall, name string) plan.AggCall {
	out := plan.AggCall{Fn: c.sig.Name, Distinct: c.distinct, Filter: -1, T: c.t, Name: name, Options: c.options}
	for i, x := range c.args {
		out.ArgTypes = append(out.ArgTypes, x.Type())
		at, constant := -1, (*expr.Literal)(nil)
		if isConstArg(c, i) {
			constant = x.(*expr.Literal)
		} else {
			at = p.index(x)
		}
		out.Args = append(out.Args, at)
		out.Consts = append(out.Consts, constant)
	}
	if c.filter != nil {
		out.Filter = p.index(c.filter)
	}
	return out
}
