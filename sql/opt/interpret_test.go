package opt

import (
	"fmt"
	"sort"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// evaluate runs a tree over the rows of its only table, row by row and as simply as can be. A
// value is an int64 (times: ms), a bool or nil.
func evaluate(n logical.Node, table [][]any) [][]any {
	var in [][]any
	if ins := n.Inputs(); len(ins) > 0 {
		in = evaluate(ins[0], table)
	}
	switch n := n.(type) {
	case *logical.Scan:
		return table
	case *Read:
		out := make([][]any, len(table))
		for i, row := range table {
			for _, c := range n.Cols {
				if n.Scan.Table.Columns[c].Kind == catalog.Computed {
					out[i] = append(out[i], value(n.Scan.Table.Columns[c].Expr, row))
				} else {
					out[i] = append(out[i], row[c])
				}
			}
		}
		return out
	case *logical.Filter:
		return calc(in, n.Cond, nil)
	case *logical.Project:
		return calc(in, nil, n.Exprs)
	case *Calc:
		return calc(in, n.Filter, append([]expr.Expr{}, n.Exprs...)) // no expressions: no columns
	case *logical.Union:
		var out [][]any
		for _, x := range n.All {
			out = append(out, evaluate(x, table)...)
		}
		return out
	case *Expand:
		var out [][]any
		for _, row := range in {
			for _, p := range n.Projects {
				out = append(out, calc([][]any{row}, nil, p)...)
			}
		}
		return out
	case *logical.Join:
		return joinRows(n, in, evaluate(n.R, table))
	case *logical.WindowTVF:
		return assign(in, &n.Window)
	case *logical.Aggregate:
		return aggregate(n, in)
	case *WindowAgg:
		return windowed(n, in)
	}
	panic(fmt.Sprintf("the interpreter does not know %T", n))
}

func calc(in [][]any, filter expr.Expr, project []expr.Expr) [][]any {
	out := [][]any{}
	for _, row := range in {
		if filter != nil && value(filter, row) != true {
			continue
		}
		if project == nil {
			out = append(out, row)
			continue
		}
		r := make([]any, len(project))
		for i, e := range project {
			if e != nil {
				r[i] = value(e, row)
			}
		}
		out = append(out, r)
	}
	return out
}

func value(e expr.Expr, row []any) any {
	switch e := e.(type) {
	case *expr.Column:
		return row[e.Index]
	case *expr.Literal:
		if ts, ok := e.Value.(types.Int128); ok {
			return ts.Hi
		}
		return e.Value
	}
	c := e.(*expr.Call)
	if c.Fn == "CASE" {
		for i := 0; i+1 < len(c.Args); i += 2 {
			if value(c.Args[i], row) == true {
				return value(c.Args[i+1], row)
			}
		}
		return value(c.Args[len(c.Args)-1], row)
	}
	a, b := value(c.Args[0], row), value(c.Args[len(c.Args)-1], row)
	if c.Fn == "AND" || c.Fn == "OR" {
		return logic(c, row)
	}
	switch c.Fn {
	case "IS NOT NULL":
		return a != nil
	case "IS NOT DISTINCT FROM":
		return a == b
	}
	if a == nil || b == nil {
		return nil
	}
	x, y := a.(int64), b.(int64)
	switch c.Fn {
	case "+":
		return x + y
	case "=":
		return x == y
	case "<>":
		return x != y
	case "<":
		return x < y
	case ">":
		return x > y
	}
	panic("the interpreter does not know " + c.Fn)
}

// logic is AND and OR of three values.
func logic(c *expr.Call, row []any) any {
	decides, null := c.Fn == "OR", false
	for _, a := range c.Args {
		switch value(a, row) {
		case decides:
			return decides
		case nil:
			null = true
		}
	}
	if null {
		return nil
	}
	return !decides
}

// assign appends start, end and time of each of the windows of a row.
func assign(in [][]any, w *plan.Window) [][]any {
	var out [][]any
	add := func(row []any, start, end int64) {
		out = append(out, append(append([]any{}, row...), start, end, end-1))
	}
	if w.Kind == plan.Session {
		for _, s := range sessions(in, w) {
			for _, row := range s.rows {
				add(row, s.start, s.end)
			}
		}
		return out
	}
	step := w.Size
	if w.Kind == plan.Hop {
		step = w.Step
	}
	for _, row := range in {
		ts := row[w.TimeCol].(int64)
		for start := ts - ts%step; start > ts-w.Size; start -= step {
			add(row, start, start+w.Size)
		}
	}
	return out
}

type session struct {
	start, end int64
	rows       [][]any
}

func sessions(in [][]any, w *plan.Window) []session {
	parts, order := group(in, w.PartitionKeys)
	var out []session
	for _, k := range order {
		rows := parts[k]
		sort.SliceStable(rows, func(i, j int) bool { return rows[i][w.TimeCol].(int64) < rows[j][w.TimeCol].(int64) })
		for _, r := range rows {
			ts := r[w.TimeCol].(int64)
			if n := len(out); n > 0 && out[n-1].rows[0] != nil && fmt.Sprint(pickKeys(out[n-1].rows[0], w.PartitionKeys)) == k &&
				ts <= out[n-1].end {
				out[n-1].end = max(out[n-1].end, ts+w.Size)
				out[n-1].rows = append(out[n-1].rows, r)
				continue
			}
			out = append(out, session{ts, ts + w.Size, [][]any{r}})
		}
	}
	return out
}

func pickKeys(row []any, keys []int) []any {
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = row[k]
	}
	return out
}

// group splits rows by keys and lists the groups in the order in which they appear.
func group(in [][]any, keys []int) (map[string][][]any, []string) {
	groups := map[string][][]any{}
	var order []string
	for _, row := range in {
		k := fmt.Sprint(pickKeys(row, keys))
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], row)
	}
	return groups, order
}

func aggregate(n *logical.Aggregate, in [][]any) [][]any {
	sets := n.Sets
	if sets == nil {
		sets = [][]int{upTo(len(n.Keys))}
	}
	var out [][]any
	for _, set := range sets {
		cols := make([]int, len(set))
		for i, k := range set {
			cols[i] = n.Keys[k]
		}
		groups, order := group(in, cols)
		if len(cols) == 0 && len(order) == 0 && len(sets) == 1 {
			groups[""], order = nil, []string{""}
		}
		for _, g := range order {
			row := make([]any, len(n.Keys))
			for _, k := range set {
				row[k] = groups[g][0][n.Keys[k]]
			}
			row = append(row, totals(n.Aggs, groups[g])...)
			for _, ids := range n.GroupingIDs {
				v := int64(0)
				for _, k := range ids {
					v <<= 1
					if !contains(set, k) {
						v |= 1
					}
				}
				row = append(row, v)
			}
			out = append(out, row)
		}
	}
	return out
}

func contains(set []int, k int) bool {
	for _, s := range set {
		if s == k {
			return true
		}
	}
	return false
}

func windowed(n *WindowAgg, in [][]any) [][]any {
	start, end := n.StartCol, n.EndCol
	if !n.Attached {
		width := n.Input.Schema().Len()
		in = assign(in, &n.Window)
		start, end = width, width+1
	}
	groups, order := group(in, append(append([]int{}, n.Keys...), start, end))
	var out [][]any
	for _, g := range order {
		first := groups[g][0]
		row := append(pickKeys(first, n.Keys), totals(n.Aggs, groups[g])...)
		for _, p := range n.Props {
			switch p {
			case plan.WindowStart:
				row = append(row, first[start])
			case plan.WindowEnd:
				row = append(row, first[end])
			default:
				row = append(row, first[end].(int64)-1)
			}
		}
		out = append(out, row)
	}
	return out
}

// totals computes aggregates over the rows of a group.
func totals(aggs []plan.AggCall, rows [][]any) []any {
	out := make([]any, len(aggs))
	for i, a := range aggs {
		count := int64(0)
		var acc any
		for _, r := range rows {
			if a.Filter >= 0 && r[a.Filter] != true || len(a.Args) > 0 && r[a.Args[0]] == nil {
				continue
			}
			count++
			if a.Fn == "COUNT" {
				continue
			}
			x := r[a.Args[0]].(int64)
			switch {
			case acc == nil:
				acc = x
			case a.Fn == "SUM":
				acc = acc.(int64) + x
			case a.Fn == "MIN":
				acc = min(acc.(int64), x)
			default:
				acc = max(acc.(int64), x)
			}
		}
		if out[i] = acc; a.Fn == "COUNT" {
			out[i] = count
		}
	}
	return out
}
