// Package logical holds the relational tree that the binder makes of a query: names resolved,
// expressions typed, nothing decided about how to run it. Nodes are immutable once built;
// rewrites (sql/opt) build new ones. A sub-query used twice (a view, a CTE) is the same pointer
// only where the binder made it once; equal scans are merged by the physical planner.
package logical

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/types"
)

// Node is a relation.
type Node interface {
	// Schema is the columns of the result. Time attributes stand in the types.
	Schema() types.Schema
	Inputs() []Node
}

// Scan reads all columns of a table, in the order of its definition.
type Scan struct {
	Table *catalog.Table
	// Hints are the options of /*+ OPTIONS(...) */.
	Hints map[string]string
	// Upsert says that rows are versions of the entities that the primary key names; nil: they are what
	// the connector says.
	Upsert *Upsert
	Pos    expr.Pos
}

// Upsert is how versions of entities are told apart and for how long ('upsert.*').
type Upsert struct {
	Version   int   // column of the table, or -1: what comes last is newest
	HorizonMs int64 // 0: for ever
}

// Values is constant rows.
type Values struct {
	Rows [][]types.Value
	S    types.Schema
}

// Filter keeps the rows for which Cond is TRUE.
type Filter struct {
	Input Node
	Cond  expr.Expr
}

// Project computes columns.
type Project struct {
	Input Node
	Exprs []expr.Expr
	Names []string
}

// Aggregate groups by columns of the input. Output: Keys, then Aggs, then for each of GroupingIDs
// a BIGINT (see there).
type Aggregate struct {
	Input Node
	Keys  []int
	Aggs  []plan.AggCall
	// Sets are the grouping sets as indexes into Keys; nil means one set of all keys. With
	// sets, all keys are nullable in the output.
	Sets [][]int
	// GroupingIDs are GROUPING(a, b, ...) and GROUPING_ID calls: each lists indexes into Keys;
	// bit i from the left is 1 where the key is not in the row's grouping set. A GROUP_ID()
	// is a nil list.
	GroupingIDs [][]int
	// Window is set for the old group window functions (GROUP BY TUMBLE(ts, ...)); Props are
	// then appended to the output, as columns called PropNames.
	Window    *plan.Window
	Props     []plan.WindowProp
	PropNames []string
	// TTLMs says after how long a key without a new row is forgotten (0: never), where the query
	// does; nil: table.exec.state.ttl. Windows do not mind it.
	TTLMs *int64
	// Emit and Late are about aggregations per window; both may be nil.
	Emit *Emit
	Late *Late
	// Made says that Input is a projection of what the aggregation reads, made for it.
	Made bool
	Pos  expr.Pos
}

// WindowTVF appends window_start, window_end and window_time to the rows of Input.
type WindowTVF struct {
	Input  Node
	Window plan.Window
	Pos    expr.Pos
}

// Union is UNION ALL. All inputs have the same column types; names are those of the first.
type Union struct{ All []Node }

// Join is the regular join of two inputs. Output: the columns of L, then those of R, all without
// time attributes, those of a side that may be missing nullable.
type Join struct {
	L, R Node
	Kind plan.JoinKind
	// Cond is the condition over the columns of L, then those of R; nil for a cross join.
	Cond expr.Expr
	// LeftTTLMs and RightTTLMs are like Aggregate.TTLMs, for the rows of L and of R.
	LeftTTLMs, RightTTLMs *int64
	Pos                   expr.Pos

	// LeftKeys and RightKeys are set by the optimiser, which takes equalities out of Cond: pairs
	// of columns of L and of R of the same types. NullSafe is nil or says of each pair whether
	// NULL equals NULL.
	LeftKeys, RightKeys []int
	NullSafe            []bool
	// Special names the kind of join whose condition it is where that has another result than a
	// regular join on streams: "an interval join".
	Special string
}

// Sort is ORDER BY with OFFSET and LIMIT (-1: none).
type Sort struct {
	Input         Node
	Keys          []plan.SortKey
	Offset, Limit int64
	Pos           expr.Pos
}

// Sink writes Input, already cast to the columns of the table, into it.
type Sink struct {
	Input Node
	// Table is nil for a bare SELECT.
	Table *catalog.Table
	// Columns are the indexes of Table.Columns that Input's columns go to; the planner fills the
	// others with NULL. (Computed and virtual columns are never among them.)
	Columns         []int
	Hints           map[string]string
	Overwrite       bool
	StaticPartition map[string]string
	Pos             expr.Pos // of the table's name
}

// Schema implements Node.
func (n *Scan) Schema() types.Schema { return n.Table.Schema() }

// Schema implements Node.
func (n *Values) Schema() types.Schema { return n.S }

// Schema implements Node.
func (n *Filter) Schema() types.Schema { return n.Input.Schema() }

// Schema implements Node.
func (n *Project) Schema() types.Schema {
	s := types.Schema{Fields: make([]types.Field, len(n.Exprs))}
	for i, e := range n.Exprs {
		s.Fields[i] = types.Field{Name: n.Names[i], Type: e.Type()}
	}
	return s
}

// Schema implements Node.
func (n *Aggregate) Schema() types.Schema {
	var s types.Schema
	in := n.Input.Schema()
	for _, k := range n.Keys {
		f := in.Fields[k]
		f.Type = f.Type.WithoutAttr()
		if n.Sets != nil {
			f.Type = f.Type.AsNullable()
		}
		s.Fields = append(s.Fields, f)
	}
	for _, a := range n.Aggs {
		s.Fields = append(s.Fields, types.Field{Name: a.Name, Type: a.T})
	}
	for range n.GroupingIDs {
		s.Fields = append(s.Fields, types.Field{Name: "grouping_id", Type: types.BigIntType.NotNull()})
	}
	for i, p := range n.Props {
		s.Fields = append(s.Fields, types.Field{Name: n.PropNames[i], Type: PropType(p, n.Window)})
	}
	return s
}

// Schema implements Node.
func (n *WindowTVF) Schema() types.Schema {
	s := types.Schema{Fields: append([]types.Field{}, n.Input.Schema().Fields...)}
	for i, name := range [...]string{"window_start", "window_end", "window_time"} {
		p := plan.WindowProp(i)
		if p == plan.WindowTime && n.Window.ProcTime {
			p = plan.WindowProcTime
		}
		s.Fields = append(s.Fields, types.Field{Name: name, Type: PropType(p, &n.Window)})
	}
	// Only window_time is a time attribute behind a window function.
	return s
}

// Schema implements Node.
func (n *Union) Schema() types.Schema { return n.All[0].Schema() }

// Schema implements Node.
func (n *Join) Schema() types.Schema {
	var s types.Schema
	for i, in := range [...]Node{n.L, n.R} {
		padded := n.Kind == plan.FullJoin || n.Kind == plan.RightJoin && i == 0 || n.Kind == plan.LeftJoin && i == 1
		for _, f := range in.Schema().Fields {
			if f.Type = f.Type.WithoutAttr(); padded {
				f.Type = f.Type.AsNullable()
			}
			s.Fields = append(s.Fields, f)
		}
	}
	return s
}

// Schema implements Node.
func (n *Sort) Schema() types.Schema { return n.Input.Schema() }

// Schema implements Node.
func (n *Sink) Schema() types.Schema { return n.Input.Schema() }

// PropType is the type of a window property.
func PropType(p plan.WindowProp, w *plan.Window) types.Type {
	switch p {
	case plan.WindowTime:
		t := types.TimestampType(3).NotNull()
		if w.Zone != "" {
			t = types.TimestampLTZType(3).NotNull()
		}
		t.Attr = types.RowTime
		return t
	case plan.WindowProcTime:
		t := types.TimestampLTZType(3).NotNull()
		t.Attr = types.ProcTime
		return t
	case plan.WindowReason, plan.WindowCause:
		return types.StringType.NotNull()
	case plan.WindowCount:
		return types.BigIntType.NotNull()
	}
	return types.TimestampType(3).NotNull()
}

// Inputs implements Node.
func (n *Scan) Inputs() []Node { return nil }

// Inputs implements Node.
func (n *Values) Inputs() []Node { return nil }

// Inputs implements Node.
func (n *Filter) Inputs() []Node { return []Node{n.Input} }

// Inputs implements Node.
func (n *Project) Inputs() []Node { return []Node{n.Input} }

// Inputs implements Node.
func (n *Aggregate) Inputs() []Node { return []Node{n.Input} }

// Inputs implements Node.
func (n *WindowTVF) Inputs() []Node { return []Node{n.Input} }

// Inputs implements Node.
func (n *Union) Inputs() []Node { return n.All }

// Inputs implements Node.
func (n *Join) Inputs() []Node { return []Node{n.L, n.R} }

// Inputs implements Node.
func (n *Sort) Inputs() []Node { return []Node{n.Input} }

// Inputs implements Node.
func (n *Sink) Inputs() []Node { return []Node{n.Input} }

// RowNumber numbers the rows of each key by time. Output: the columns of Input, then the number (BIGINT).
type RowNumber struct {
	Input Node
	Keys  []int
	Order int // a time attribute
	Desc  bool
	Pos   expr.Pos
}

// RowNumberColumn is the name of the number.
const RowNumberColumn = "row_number$"

// Schema implements Node.
func (n *RowNumber) Schema() types.Schema {
	s := types.Schema{Fields: append([]types.Field{}, n.Input.Schema().Fields...)}
	s.Fields = append(s.Fields, types.Field{Name: RowNumberColumn, Type: types.BigIntType.NotNull()})
	return s
}

// Inputs implements Node.
func (n *RowNumber) Inputs() []Node { return []Node{n.Input} }
