package bind

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/agg"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// selectItem is one column of a select list, stars expanded.
type selectItem struct {
	e    expr.Expr
	name string
	// alias is the name as written with AS, or of a bare column: what ORDER BY may say.
	alias string
	table []string
	win   windowRole
}

// selectBlock binds SELECT ... FROM ... WHERE ... GROUP BY ... HAVING with the ORDER BY of the
// query around it.
func (b *Binder) selectBlock(q *ast.Select, with *ctes, order []*ast.OrderItem) (*relation, *sortKeys, error) {
	if err := b.checkSelect(q); err != nil {
		return nil, nil, err
	}
	emit, err := b.emitHint(q)
	if err != nil {
		return nil, nil, err
	}
	ttl, err := b.stateTTL(q)
	if err != nil {
		return nil, nil, err
	}
	outer := b.ttl
	b.ttl = ttl
	rel, err := b.input(q, with)
	b.ttl = outer
	if err == nil {
		err = ttl.check()
	}
	if err != nil {
		return nil, nil, err
	}
	var a *aggregator
	switch {
	case q.GroupBy != nil:
		if a, err = b.groupBy(rel, q.GroupBy, q.Items); err != nil {
			return nil, nil, err
		}
	case q.Having != nil || hasAggregate(q, order):
		a = &aggregator{b: b, input: rel, at: q.Span}
	}
	keep := ttl.of(b.inputName(q.From, with))
	if a != nil {
		a.ttlMs = keep
	}
	s := &scope{b: b, rel: rel, clause: "the select list", aggs: a, subs: &subqueries{with: with}}
	items, err := s.selectItems(q.Items)
	if err != nil {
		return nil, nil, err
	}
	rel, keys, err := b.finishSelect(q, s, items, order)
	if err == nil && a == nil {
		distinctTTL(q, rel, keep)
	}
	if err == nil && emit != nil {
		var found int
		if rel.node, found = b.withEmit(rel.node, emit); found == 0 {
			return nil, nil, emit.Hints[0].Unheeded()
		}
	}
	return rel, keys, err
}

// checkSelect refuses the clauses that cannot run yet.
func (b *Binder) checkSelect(q *ast.Select) error {
	switch {
	case q.Qualify != nil:
		return unsupported(q.Qualify.Pos(), "QUALIFY")
	case len(q.Windows) > 0:
		return unsupported(q.Windows[0].Span, "WINDOW")
	}
	return b.checkQueryHints(q)
}

// input binds FROM and WHERE. Without FROM there is one row without a column of use.
func (b *Binder) input(q *ast.Select, with *ctes) (*relation, error) {
	rel := oneRow()
	if q.From != nil {
		var err error
		if rel, err = b.from(q.From, with); err != nil {
			return nil, err
		}
	}
	if q.Where == nil {
		return rel, nil
	}
	s := &scope{b: b, rel: rel, clause: "WHERE", subs: &subqueries{with: with}}
	cond, err := s.condition(q.Where)
	if err != nil {
		return nil, err
	}
	return &relation{node: &logical.Filter{Input: s.rel.node, Cond: cond}, cols: s.rel.cols}, nil
}

// oneRow is a relation of one row; its column has no name to be found by.
func oneRow() *relation {
	s := types.NewSchema(types.Field{Name: "ZERO", Type: types.IntType.NotNull()})
	return &relation{node: &logical.Values{Rows: [][]types.Value{{int64(0)}}, S: s}}
}

// hasAggregate reports whether the select list or ORDER BY aggregates at this level.
func hasAggregate(q *ast.Select, order []*ast.OrderItem) bool {
	found := false
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Query:
			return false
		case *ast.FuncCall:
			if n.Over == nil && len(n.Name.Parts) == 1 && agg.Is(n.Name.Upper()) {
				found = true
			}
		}
		return !found
	}
	for _, it := range q.Items {
		ast.Walk(it.Expr, look)
	}
	for _, o := range order {
		ast.Walk(o.Expr, look)
	}
	return found
}

// selectItems binds a select list over the input.
func (s *scope) selectItems(items []*ast.SelectItem) ([]selectItem, error) {
	var out []selectItem
	for i, it := range items {
		switch e := it.Expr.(type) {
		case *ast.Star:
			more, err := s.star(e)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
			continue
		case *ast.FieldStar:
			more, err := s.fieldStar(e)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
			continue
		}
		e, err := s.item(it.Expr)
		if err != nil {
			return nil, err
		}
		one := selectItem{e: e, name: "EXPR$" + itoa(i)}
		if n, ok := it.Expr.(*ast.Name); ok {
			one.name = n.Last().Name
			one.alias = one.name
			if c, ok := e.(*expr.Column); ok {
				one.table, one.win = s.rel.cols[c.Index].table, s.rel.cols[c.Index].win
			}
		}
		if f, ok := it.Expr.(*ast.Field); ok {
			one.name = f.Name.Name
		}
		if it.Alias != nil {
			one.name, one.alias = it.Alias.Name, it.Alias.Name
		}
		out = append(out, one)
	}
	return out, nil
}

// star expands * and t.*.
func (s *scope) star(e *ast.Star) ([]selectItem, error) {
	var out []selectItem
	for i, c := range s.rel.cols {
		if e.Qualifier != nil && !c.matchesTable(e.Qualifier.Strings()) {
			continue
		}
		if c.hidden || c.byTable || s.hiddenByStar(c) {
			continue
		}
		ref := s.rel.column(i)
		s.b.columnPos[ref] = e.Span
		out = append(out, selectItem{e: ref, name: c.name, alias: c.name, table: c.table, win: c.win})
	}
	if len(out) > 0 {
		return out, nil
	}
	if e.Qualifier == nil {
		return nil, errAt(e.Span, "* needs a FROM clause")
	}
	// r.* of a ROW column.
	if x, err := s.name(e.Qualifier); err == nil && x.Type().Kind == types.Row {
		return rowStar(x, e.Span)
	}
	var tables []string
	for _, c := range s.rel.cols {
		if len(c.table) > 0 {
			tables = append(tables, c.table[len(c.table)-1])
		}
	}
	return nil, errAt(e.Qualifier.Span, "unknown table %s", e.Qualifier).
		WithHint("%s", suggest(e.Qualifier.Last().Name, tables, "FROM has "))
}

// hiddenByStar applies table.column-expansion-strategy to the columns of a table.
func (s *scope) hiddenByStar(c column) bool {
	strategy := s.b.cfg.Get("table.column-expansion-strategy")
	if strategy == "" || len(c.table) != 3 {
		return false
	}
	t, ok := s.b.cat.Lookup(c.table).(*catalog.Table)
	if !ok {
		return false
	}
	for _, o := range t.Columns {
		if o.Name == c.name && o.Kind == catalog.Metadata && o.Virtual {
			if o.Key == o.Name {
				return strings.Contains(strategy, "EXCLUDE_DEFAULT_VIRTUAL_METADATA_COLUMNS")
			}
			return strings.Contains(strategy, "EXCLUDE_ALIASED_VIRTUAL_METADATA_COLUMNS")
		}
	}
	return false
}

// fieldStar expands (r).*.
func (s *scope) fieldStar(e *ast.FieldStar) ([]selectItem, error) {
	x, err := s.bind(e.X)
	if err != nil {
		return nil, err
	}
	return rowStar(x, e.Span)
}

func rowStar(x expr.Expr, at ast.Span) ([]selectItem, error) {
	if x.Type().Kind != types.Row {
		return nil, errAt(at, "%s has no fields: it is %s", x, x.Type().AsNullable())
	}
	var out []selectItem
	for _, f := range x.Type().Fields {
		e, err := fieldOf(x, ast.Ident{Span: at, Name: f.Name}, at)
		if err != nil {
			return nil, err
		}
		out = append(out, selectItem{e: e, name: f.Name})
	}
	return out, nil
}

// finishSelect binds HAVING and ORDER BY, then builds the nodes from the aggregation upwards.
func (b *Binder) finishSelect(
	q *ast.Select, s *scope, items []selectItem, order []*ast.OrderItem,
) (*relation, *sortKeys, error) {
	var having expr.Expr
	var err error
	if q.Having != nil {
		s.clause = "HAVING"
		if having, err = s.condition(q.Having); err != nil {
			return nil, nil, err
		}
	}
	sorts, err := s.orderExprs(order, items)
	if err != nil {
		return nil, nil, err
	}
	rel := s.rel
	if s.aggs != nil {
		if rel, err = s.aggs.rewrite(items, &having, sorts); err != nil {
			return nil, nil, err
		}
		if rel, err = s.subs.attachAll(s, rel); err != nil {
			return nil, nil, err
		}
	}
	if having != nil {
		rel = &relation{node: &logical.Filter{Input: rel.node, Cond: having}, cols: rel.cols}
	}
	return b.project(q, rel, items, sorts, order)
}

// orderExprs binds the ORDER BY items of a select block. An item is the number of a column of the
// select list, or an expression over the input.
func (s *scope) orderExprs(order []*ast.OrderItem, items []selectItem) ([]expr.Expr, error) {
	s.clause = "ORDER BY"
	out := make([]expr.Expr, len(order))
	aliases := make([]string, len(items))
	shape := &relation{cols: make([]column, len(items))}
	for i, it := range items {
		aliases[i] = it.alias
	}
	for i, o := range order {
		at, err := s.outputKey(o, shape, aliases)
		if err != nil {
			return nil, err
		}
		if at >= 0 {
			out[i] = items[at].e
			continue
		}
		if out[i], err = s.item(o.Expr); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rewrite builds the aggregation and turns what was bound over its input into expressions over
// its output.
func (a *aggregator) rewrite(items []selectItem, having *expr.Expr, sorts []expr.Expr) (*relation, error) {
	for i := range items {
		e, err := a.output(items[i].e, "the select list")
		if err != nil {
			return nil, err
		}
		if c, ok := e.(*expr.Column); ok && c.Index < len(a.keys) {
			items[i].win = a.keyColumn(c.Index).win
		} else {
			items[i].win = notWindow
		}
		items[i].e = e
	}
	if *having != nil {
		e, err := a.output(*having, "HAVING")
		if err != nil {
			return nil, err
		}
		*having = e
	}
	for i := range sorts {
		e, err := a.output(sorts[i], "ORDER BY")
		if err != nil {
			return nil, err
		}
		sorts[i] = e
	}
	return a.build(), nil
}

// project builds the select list, with hidden columns for ORDER BY, and DISTINCT.
func (b *Binder) project(
	q *ast.Select, rel *relation, items []selectItem, sorts []expr.Expr, order []*ast.OrderItem,
) (*relation, *sortKeys, error) {
	node := &logical.Project{Input: rel.node}
	out := &relation{}
	for _, it := range items {
		node.Exprs = append(node.Exprs, it.e)
		node.Names = append(node.Names, it.name)
		out.cols = append(out.cols, column{table: it.table, name: it.name, typ: it.e.Type(), win: it.win})
	}
	keys := &sortKeys{}
	for i, e := range sorts {
		at := -1
		for k, have := range node.Exprs {
			if expr.Equal(have, e) {
				at = k
				break
			}
		}
		if at < 0 {
			if q.Distinct {
				return nil, nil, errAt(order[i].Span, "with SELECT DISTINCT, ORDER BY can name columns of the select list only").
					WithHint("add the expression to the select list")
			}
			at = len(node.Exprs)
			keys.hidden++
			node.Exprs = append(node.Exprs, e)
			node.Names = append(node.Names, "sort$"+itoa(i))
			out.cols = append(out.cols, column{name: node.Names[at], typ: e.Type()})
		}
		if e.Type().Kind == types.Multiset {
			return nil, nil, errAt(order[i].Span, "ORDER BY cannot compare %s", e.Type().AsNullable())
		}
		keys.keys = append(keys.keys, sortKey(order[i], at))
	}
	out.node = node
	if identity(node) {
		out.node = rel.node
	}
	if q.Distinct {
		out = distinct(out, pos(q.Span))
	}
	return out, keys, nil
}

// identity reports whether a projection passes its input on unchanged.
func identity(n *logical.Project) bool {
	in := n.Input.Schema()
	if len(in.Fields) != len(n.Exprs) {
		return false
	}
	for i, e := range n.Exprs {
		c, ok := e.(*expr.Column)
		if !ok || c.Index != i || n.Names[i] != in.Fields[i].Name || !c.T.Equal(in.Fields[i].Type) {
			return false
		}
	}
	return true
}
