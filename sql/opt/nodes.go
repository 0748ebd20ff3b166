// Package opt rewrites logical trees: it folds constants, merges filters and projections, pushes
// filters down, reads only the columns that are used, lowers grouping sets, and fuses window
// functions with the aggregations above them. Every rewrite keeps the result as it is, rows,
// kinds and lateness included. The trees it makes hold the node types of this package besides
// those of sql/logical; sql/physical turns them into a plan.
//
// Everything here is a plain call on immutable nodes, safe for concurrent use.
//
// Stability: internal use.
package opt

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// Read is a scan of some columns of a table. Columns whose value depends on when they are
// computed (PROCTIME()) are never among them: a Calc above computes those.
type Read struct {
	Scan *logical.Scan
	Cols []int // of Scan.Table.Columns, ascending
}

// Calc filters (nil: no filter), then projects.
type Calc struct {
	Input  logical.Node
	Filter expr.Expr
	Exprs  []expr.Expr
	Names  []string
}

// Expand emits each row once for each of Projects, nil expressions being NULL.
type Expand struct {
	Input    logical.Node
	Projects [][]expr.Expr
	S        types.Schema
}

// WindowAgg aggregates per key and window. Output: Keys, then Aggs, then Props.
type WindowAgg struct {
	Input logical.Node
	// Window's TimeCol is a column of Input; -1 with Attached or processing time.
	Window           plan.Window
	Attached         bool
	StartCol, EndCol int
	Keys             []int
	Aggs             []plan.AggCall
	Props            []plan.WindowProp
	PropNames        []string
	// Legacy says that the query used a group window function and not a table function.
	Legacy bool
	// Emit and Late are those of logical.Aggregate.
	Emit *logical.Emit
	Late *logical.Late
	Pos  expr.Pos
}

// Schema implements logical.Node.
func (n *Read) Schema() types.Schema {
	all := n.Scan.Schema()
	s := types.Schema{Fields: make([]types.Field, len(n.Cols))}
	for i, c := range n.Cols {
		s.Fields[i] = all.Fields[c]
	}
	return s
}

// Schema implements logical.Node.
func (n *Calc) Schema() types.Schema {
	s := types.Schema{Fields: make([]types.Field, len(n.Exprs))}
	for i, e := range n.Exprs {
		s.Fields[i] = types.Field{Name: n.Names[i], Type: e.Type()}
	}
	return s
}

// Schema implements logical.Node.
func (n *Expand) Schema() types.Schema { return n.S }

// Schema implements logical.Node.
func (n *WindowAgg) Schema() types.Schema {
	var s types.Schema
	in := n.Input.Schema()
	for _, k := range n.Keys {
		f := in.Fields[k]
		f.Type = f.Type.WithoutAttr()
		s.Fields = append(s.Fields, f)
	}
	for _, a := range n.Aggs {
		s.Fields = append(s.Fields, types.Field{Name: a.Name, Type: a.T})
	}
	for i, p := range n.Props {
		s.Fields = append(s.Fields, types.Field{Name: n.PropNames[i], Type: logical.PropType(p, &n.Window)})
	}
	return s
}

// Inputs implements logical.Node.
func (n *Read) Inputs() []logical.Node { return nil }

// Inputs implements logical.Node.
func (n *Calc) Inputs() []logical.Node { return []logical.Node{n.Input} }

// Inputs implements logical.Node.
func (n *Expand) Inputs() []logical.Node { return []logical.Node{n.Input} }

// Inputs implements logical.Node.
func (n *WindowAgg) Inputs() []logical.Node { return []logical.Node{n.Input} }

// column makes a reference to column i of s.
func column(s types.Schema, i int) *expr.Column {
	return &expr.Column{Index: i, Name: s.Fields[i].Name, T: s.Fields[i].Type}
}

// filterCalc makes a Calc that passes on every column of the rows of n for which f is true.
func filterCalc(n logical.Node, f expr.Expr) *Calc {
	c := &Calc{Input: n, Filter: f}
	s := n.Schema()
	for i, fd := range s.Fields {
		c.Exprs = append(c.Exprs, column(s, i))
		c.Names = append(c.Names, fd.Name)
	}
	return c
}
