package explain

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
)

// logicalLine describes one node of a logical tree, before or after optimisation.
func logicalLine(n logical.Node) string {
	switch n := n.(type) {
	case *logical.Sink:
		if n.Table == nil {
			return "Result(" + fields(n.Schema()) + ")"
		}
		return fmt.Sprintf("Sink(table=[%s], fields=[%s])", n.Table.Name(), fields(n.Schema()))
	case *logical.Scan:
		return fmt.Sprintf("Scan(table=[%s]%s)", n.Table.Name(), hints(n.Hints))
	case *logical.Values:
		return fmt.Sprintf("Values(rows=[%d])", len(n.Rows))
	case *logical.Filter:
		return "Filter(where=[" + show(n.Cond, n.Input.Schema()) + "])"
	case *logical.Project:
		return "Project(select=[" + projection(n.Exprs, n.Names, n.Input.Schema()) + "])"
	case *logical.Aggregate:
		return logicalAggregate(n)
	case *logical.WindowTVF:
		return "WindowTableFunction(window=[" + window(&n.Window, n.Input.Schema()) + "])"
	case *logical.Join:
		return logicalJoin(n)
	case *logical.RowNumber:
		s := n.Schema()
		return fmt.Sprintf("RowNumber(partitionBy=[%s], orderBy=[%s%s])", columns(s, n.Keys), s.Fields[n.Order].Name, descending(n.Desc))
	case *opt.Dedup:
		s := n.Schema()
		return fmt.Sprintf("Deduplicate(keep=[%s], key=[%s], order=[%s])", map[bool]string{false: "first", true: "last"}[n.Last],
			columns(s, n.Keys), s.Fields[n.Order].Name)
	case *logical.Union:
		return "Union(all=[true])"
	case *logical.Sort:
		return "Sort(" + ordering(n.Keys, n.Offset, n.Limit, n.Schema()) + ")"
	case *opt.Read:
		return fmt.Sprintf("Scan(table=[%s], fields=[%s]%s)", n.Scan.Table.Name(), fields(n.Schema()), hints(n.Scan.Hints))
	case *opt.Calc:
		s := "Calc(select=[" + projection(n.Exprs, n.Names, n.Input.Schema()) + "]"
		if n.Filter != nil {
			s += ", where=[" + show(n.Filter, n.Input.Schema()) + "]"
		}
		return s + ")"
	case *opt.Expand:
		return fmt.Sprintf("Expand(sets=[%d], fields=[%s])", len(n.Projects), fields(n.S))
	case *opt.WindowAgg:
		return optWindow(n)
	}
	return fmt.Sprintf("%T", n)
}

func descending(desc bool) string {
	if desc {
		return " DESC"
	}
	return ""
}

func optWindow(n *opt.WindowAgg) string {
	in := n.Input.Schema()
	var parts []string
	if len(n.Keys) > 0 {
		parts = append(parts, "groupBy=["+columns(in, n.Keys)+"]")
	}
	if n.Attached {
		parts = append(parts, fmt.Sprintf("window=[%s, attached at %s, %s]", n.Window.Kind,
			in.Fields[n.StartCol].Name, in.Fields[n.EndCol].Name))
	} else {
		parts = append(parts, "window=["+window(&n.Window, in)+"]")
	}
	sel := aggregates(n.Aggs, in)
	for i, p := range n.Props {
		sel = append(sel, property(p)+" AS "+n.PropNames[i])
	}
	return "WindowAggregate(" + strings.Join(append(parts, "select=["+strings.Join(sel, ", ")+"]"), ", ") + ")"
}

func logicalJoin(n *logical.Join) string {
	l, r := n.L.Schema(), n.R.Schema()
	s := "Join(type=[" + n.Kind.String() + "]"
	if len(n.LeftKeys) > 0 {
		s += ", keys=[" + equalities(l, r, n.LeftKeys, n.RightKeys, n.NullSafe) + "]"
	}
	if n.Cond != nil {
		s += ", where=[" + show(n.Cond, n.Schema()) + "]"
	}
	return s + ")"
}

// equalities prints the keys of a join: a = b AND ....
func equalities(l, r types.Schema, left, right []int, nullSafe []bool) string {
	out := make([]string, len(left))
	for i := range left {
		how := " = "
		if nullSafe != nil && nullSafe[i] {
			how = " IS NOT DISTINCT FROM "
		}
		out[i] = l.Fields[left[i]].Name + how + r.Fields[right[i]].Name
	}
	return strings.Join(out, " AND ")
}

func logicalAggregate(n *logical.Aggregate) string {
	in := n.Input.Schema()
	var parts []string
	if len(n.Keys) > 0 {
		parts = append(parts, "groupBy=["+columns(in, n.Keys)+"]")
	}
	if n.Sets != nil {
		sets := make([]string, len(n.Sets))
		for i, s := range n.Sets {
			cols := make([]int, len(s))
			for k, at := range s {
				cols[k] = n.Keys[at]
			}
			sets[i] = "(" + columns(in, cols) + ")"
		}
		parts = append(parts, "sets=["+strings.Join(sets, ", ")+"]")
	}
	if n.Window != nil {
		parts = append(parts, "window=["+window(n.Window, in)+"]")
	}
	sel := aggregates(n.Aggs, in)
	for i, p := range n.Props {
		sel = append(sel, property(p)+" AS "+n.PropNames[i])
	}
	if len(sel) > 0 {
		parts = append(parts, "select=["+strings.Join(sel, ", ")+"]")
	}
	return "Aggregate(" + strings.Join(parts, ", ") + ")"
}

func fields(s types.Schema) string { return strings.Join(s.Names(), ", ") }

func columns(s types.Schema, cols []int) string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = s.Fields[c].Name
	}
	return strings.Join(out, ", ")
}

func hints(h map[string]string) string {
	if len(h) == 0 {
		return ""
	}
	var out []string
	for _, k := range sortedKeys(h) {
		out = append(out, k+"="+h[k])
	}
	return ", hints=[" + strings.Join(out, ", ") + "]"
}

// show prints e with the names that its columns have in s.
func show(e expr.Expr, s types.Schema) string {
	return expr.Map(e, func(e expr.Expr) expr.Expr {
		if c, ok := e.(*expr.Column); ok && c.Index < s.Len() && c.Name != s.Fields[c.Index].Name {
			return &expr.Column{Index: c.Index, Name: s.Fields[c.Index].Name, T: c.T}
		}
		return e
	}).String()
}

// projection prints expressions over s with the names they get where those differ.
func projection(es []expr.Expr, names []string, s types.Schema) string {
	if len(es) == 0 {
		return "no columns, only the rows"
	}
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = show(e, s)
		if out[i] != names[i] {
			out[i] += " AS " + names[i]
		}
	}
	return strings.Join(out, ", ")
}

// aggregates prints aggregate calls over columns of s.
func aggregates(aggs []plan.AggCall, s types.Schema) []string {
	var out []string
	for _, a := range aggs {
		args := make([]string, 0, len(a.Args))
		for i, c := range a.Args {
			switch {
			case c >= 0 && c < s.Len():
				args = append(args, s.Fields[c].Name)
			case i < len(a.Consts) && a.Consts[i] != nil:
				args = append(args, a.Consts[i].String())
			}
		}
		text := strings.Join(args, ", ")
		if text == "" && a.Fn == "COUNT" {
			text = "*"
		}
		if a.Distinct {
			text = "DISTINCT " + text
		}
		text = a.Fn + "(" + text + ")"
		if a.Filter >= 0 && a.Filter < s.Len() {
			text += " FILTER (WHERE " + s.Fields[a.Filter].Name + ")"
		}
		if a.Name != "" && a.Name != text {
			text += " AS " + a.Name
		}
		out = append(out, text)
	}
	return out
}

func property(p plan.WindowProp) string {
	return [...]string{"window_start", "window_end", "window_time", "window_proctime", "emit_reason", "input_count", "cause"}[p]
}

// window prints a window with the names of its parameters, over the columns of s.
func window(w *plan.Window, s types.Schema) string {
	parts := []string{}
	switch {
	case w.ProcTime:
		parts = append(parts, "time: processing time")
	case w.TimeCol >= 0 && w.TimeCol < s.Len():
		parts = append(parts, "time: "+s.Fields[w.TimeCol].Name)
	}
	switch w.Kind {
	case plan.Session:
		parts = append(parts, "gap: "+duration(w.Size))
		if len(w.PartitionKeys) > 0 {
			parts = append(parts, "partition: "+columns(s, w.PartitionKeys))
		}
	case plan.Hop:
		parts = append(parts, "size: "+duration(w.Size), "slide: "+duration(w.Step))
	case plan.Cumulate:
		parts = append(parts, "max size: "+duration(w.Size), "step: "+duration(w.Step))
	default:
		parts = append(parts, "size: "+duration(w.Size))
	}
	if w.Offset != 0 {
		parts = append(parts, "offset: "+duration(w.Offset))
	}
	if w.Zone != "" {
		parts = append(parts, "zone: "+w.Zone)
	}
	return w.Kind.String() + "(" + strings.Join(parts, ", ") + ")"
}

func ordering(keys []plan.SortKey, offset, limit int64, s types.Schema) string {
	var parts []string
	if len(keys) > 0 {
		out := make([]string, len(keys))
		for i, k := range keys {
			out[i] = s.Fields[k.Col].Name
			if k.Desc {
				out[i] += " DESC"
			}
			if k.NullsFirst != !k.Desc { // Flink's default: NULLs are smallest
				out[i] += map[bool]string{true: " NULLS FIRST", false: " NULLS LAST"}[k.NullsFirst]
			}
		}
		parts = append(parts, "orderBy=["+strings.Join(out, ", ")+"]")
	}
	if offset > 0 {
		parts = append(parts, fmt.Sprintf("offset=[%d]", offset))
	}
	if limit >= 0 {
		parts = append(parts, fmt.Sprintf("fetch=[%d]", limit))
	}
	return strings.Join(parts, ", ")
}
