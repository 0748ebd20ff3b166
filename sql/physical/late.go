package physical

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// lateTable is a table that takes the late rows of one or more aggregations.
type lateTable struct {
	table *catalog.Table
	pos   expr.Pos
	names []string
	rows  []*node
}

// lateRows makes the nodes that give the late rows of the window aggregation agg the form of the table that takes
// them; its sink is made when all of them are known. in is what the aggregation reads.
func (b *builder) lateRows(agg, in *node, l *logical.Late) {
	if l.Err != nil && !(l.Lacks && overWindows(in)) {
		if b.err == nil {
			b.err = l.Err
		}
		return
	}
	s := types.Schema{Fields: append(append([]types.Field{}, in.Schema.Fields...), plan.LateColumns...)}
	late := b.add(&node{Node: plan.Node{Schema: s, Mode: types.InsertOnly, RowTime: -1, Parallelism: agg.Parallelism,
		Label: "LateRows(of " + strings.TrimPrefix(agg.Label, "Global") + ")", Op: &plan.Late{}},
		in: []input{{from: agg, late: true}}, single: agg.single, pos: l.Pos, what: "LateRows"})
	width := in.Schema.Len()
	place := func(i int) int {
		if i < l.Width {
			return l.Cols[i]
		}
		return width + i - l.Width
	}
	exprs := make([]expr.Expr, len(l.Exprs))
	for i, e := range l.Exprs {
		exprs[i] = expr.Map(e, func(e expr.Expr) expr.Expr {
			if c, ok := e.(*expr.Column); ok {
				f := s.Fields[place(c.Index)]
				return &expr.Column{Index: place(c.Index), Name: f.Name, T: f.Type}
			}
			return e
		})
	}
	var filter expr.Expr
	if len(l.Cols) > l.Width { // each row came once a grouping set
		set := l.Cols[l.Width]
		filter = &expr.Call{Fn: "=", T: types.BooleanType.NotNull(), Args: []expr.Expr{
			&expr.Column{Index: set, Name: s.Fields[set].Name, T: s.Fields[set].Type},
			&expr.Literal{Value: int64(0), T: s.Fields[set].Type}}}
	}
	rows := b.calcOver(late, filter, exprs, l.Names)
	for _, t := range b.late {
		if t.table == l.Table {
			if !containsNode(t.rows, rows) {
				t.rows = append(t.rows, rows)
			}
			return
		}
	}
	b.late = append(b.late, &lateTable{table: l.Table, pos: l.Pos, names: l.Names, rows: []*node{rows}})
}

func containsNode(all []*node, n *node) bool {
	for _, o := range all {
		if o == n {
			return true
		}
	}
	return false
}

// overWindows reports whether the rows of n are results of window aggregations.
func overWindows(n *node) bool {
	if _, ok := n.Op.(*plan.WindowAgg); ok {
		return true
	}
	for _, in := range n.in {
		if overWindows(in.from) {
			return true
		}
	}
	return false
}

// lateSinks makes the sinks of late rows.
func (b *builder) lateSinks() {
	for _, l := range b.late {
		t := b.table(l.table, nil, l.pos)
		if t == nil {
			return
		}
		in := l.rows[0]
		if len(l.rows) > 1 {
			u := &node{Node: plan.Node{Schema: in.Schema, RowTime: -1, Mode: types.InsertOnly, Label: "Union", Op: &plan.Union{}}, what: "Union"}
			u.Schema.Fields = append([]types.Field{}, in.Schema.Fields...)
			for _, r := range l.rows {
				u.in = append(u.in, input{from: r})
				for c, f := range r.Schema.Fields {
					u.Schema.Fields[c].Type.Nullable = u.Schema.Fields[c].Type.Nullable || f.Type.Nullable
				}
			}
			in = b.add(u)
		}
		b.write(&plan.Sink{Table: t.spec}, t, in, l.pos)
		if b.err != nil {
			return
		}
	}
}

// unfusedSessions refuses late rows where it is not the aggregation that finds rows too late for a session but
// the window function below it.
func unfusedSessions(a *opt.WindowAgg) bool {
	if !a.Attached || a.Window.Kind != plan.Session {
		return false
	}
	found := false
	var walk func(n logical.Node)
	walk = func(n logical.Node) {
		switch n := n.(type) {
		case *opt.WindowAgg:
			return
		case *logical.WindowTVF:
			found = found || n.Window.Kind == plan.Session
		}
		for _, in := range n.Inputs() {
			walk(in)
		}
	}
	walk(a.Input)
	return found
}
