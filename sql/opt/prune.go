package opt

import (
	"cmp"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// prune rewrites n so that it computes the needed columns only. It returns the place of each old
// column in the new node, -1 for those that are gone. A node may keep more than was asked for.
func prune(n logical.Node, need []bool) (logical.Node, []int) {
	switch n := n.(type) {
	case *Read:
		return pruneRead(n, need)
	case *logical.Values:
		return n, upTo(len(need))
	case *Calc:
		return pruneCalc(n, need)
	case *Expand:
		return pruneExpand(n, need)
	case *logical.Aggregate:
		return pruneAggregate(n, need)
	case *WindowAgg:
		return pruneWindowAgg(n, need)
	case *logical.WindowTVF:
		return pruneTVF(n, need)
	case *logical.Sort:
		in := slices.Clone(need)
		for _, k := range n.Keys {
			in[k.Col] = true
		}
		s := *n
		var to []int
		s.Input, to = prune(n.Input, in)
		s.Keys = slices.Clone(n.Keys)
		for i := range s.Keys {
			s.Keys[i].Col = to[s.Keys[i].Col]
		}
		return &s, to
	case *logical.RowNumber: // nothing runs it
		r := *n
		r.Input, _ = prune(n.Input, all(n.Input.Schema().Len()))
		return &r, upTo(len(need))
	case *Dedup:
		return pruneDedup(n, need)
	case *logical.Join:
		return pruneJoin(n, need)
	case *logical.Union:
		return pruneUnion(n, need)
	}
	panic("BUG: prune does not know the node")
}

func pruneRead(n *Read, need []bool) (logical.Node, []int) {
	r := &Read{Scan: n.Scan}
	to := make([]int, len(n.Cols))
	changes := n.Scan.Upsert != nil || givesChanges(n.Scan)
	for i, c := range n.Cols {
		key := changes && slices.Contains(n.Scan.Table.Spec(n.Scan.Hints).PrimaryKey, n.Scan.Table.Columns[c].Name) ||
			n.Scan.Upsert != nil && c == n.Scan.Upsert.Version
		if to[i] = -1; need[i] || key {
			to[i] = len(r.Cols)
			r.Cols = append(r.Cols, c)
		}
	}
	return r, to
}

// givesChanges reports whether the rows of a table may be changes: then its key is read whatever the
// query asks for, since changes belong to rows by it.
func givesChanges(s *logical.Scan) bool {
	t := s.Table.Spec(s.Hints)
	f := connector.Lookup(t.Connector)
	if f == nil || f.SourceChangelog != nil {
		return f != nil
	}
	name := cmp.Or(t.Options["value.format"], t.Options["format"])
	ff := format.Lookup(name)
	return ff != nil && !ff.Changelog.IsInsertOnly()
}

func pruneCalc(n *Calc, need []bool) (logical.Node, []int) {
	in := make([]bool, n.Input.Schema().Len())
	c := &Calc{}
	to := make([]int, len(n.Exprs))
	for i, e := range n.Exprs {
		if to[i] = -1; !need[i] {
			continue
		}
		to[i] = len(c.Exprs)
		c.Exprs, c.Names = append(c.Exprs, e), append(c.Names, n.Names[i])
		mark(e, in)
	}
	mark(n.Filter, in)
	input, at := prune(n.Input, in)
	c.Input, c.Filter = input, Remap(n.Filter, at)
	for i, e := range c.Exprs {
		c.Exprs[i] = Remap(e, at)
	}
	return c, to
}

func mark(e expr.Expr, cols []bool) {
	reads(e, func(i int) bool { cols[i] = true; return false })
}

func pruneExpand(n *Expand, need []bool) (logical.Node, []int) {
	x := &Expand{Projects: make([][]expr.Expr, len(n.Projects))}
	in := make([]bool, n.Input.Schema().Len())
	to := make([]int, len(n.S.Fields))
	for i, f := range n.S.Fields {
		if to[i] = -1; !need[i] {
			continue
		}
		to[i] = len(x.S.Fields)
		x.S.Fields = append(x.S.Fields, f)
		for s, p := range n.Projects {
			x.Projects[s] = append(x.Projects[s], p[i])
			mark(p[i], in)
		}
	}
	input, at := prune(n.Input, in)
	x.Input = input
	for _, p := range x.Projects {
		for i := range p {
			p[i] = Remap(p[i], at)
		}
	}
	return x, to
}

// pruneAggs keeps the aggregates that are needed: need[i] is about aggs[i]. It marks what they
// read in cols and sets their places, which start at base, in to.
func pruneAggs(aggs []plan.AggCall, need []bool, cols []bool, to []int, base int) []plan.AggCall {
	var out []plan.AggCall
	for i, g := range aggs {
		if to[i] = -1; !need[i] {
			continue
		}
		to[i] = base + len(out)
		out = append(out, g)
		for _, c := range g.Args {
			if c >= 0 {
				cols[c] = true
			}
		}
		if g.Filter >= 0 {
			cols[g.Filter] = true
		}
	}
	return out
}

func pruneAggregate(n *logical.Aggregate, need []bool) (logical.Node, []int) {
	a := *n
	in := make([]bool, n.Input.Schema().Len())
	to := upTo(len(need))
	for _, k := range n.Keys {
		in[k] = true
	}
	k := len(n.Keys)
	a.Aggs = pruneAggs(n.Aggs, need[k:], in, to[k:k+len(n.Aggs)], k)
	if k == 0 && len(a.Aggs) == 0 {
		// One row without columns would be lost: count, which reads nothing.
		a.Aggs = []plan.AggCall{{Fn: "COUNT", Filter: -1, T: types.BigIntType.NotNull(), Name: "$count"}}
	}
	input, at := prune(n.Input, in)
	a.Input, a.Keys, a.Aggs = input, remapAll(n.Keys, at), remapAggs(a.Aggs, at)
	a.Emit, a.Late = nil, nil // no windows
	return &a, to
}

func pruneWindowAgg(n *WindowAgg, need []bool) (logical.Node, []int) {
	a := *n
	in := make([]bool, n.Input.Schema().Len())
	to := upTo(len(need))
	for _, k := range n.Keys {
		in[k] = true
	}
	k := len(n.Keys)
	a.Aggs = pruneAggs(n.Aggs, need[k:], in, to[k:k+len(n.Aggs)], k)
	a.Props, a.PropNames = nil, nil
	for i, p := range n.Props {
		c := k + len(n.Aggs) + i
		if to[c] = -1; !need[c] {
			continue
		}
		to[c] = k + len(a.Aggs) + len(a.Props)
		a.Props, a.PropNames = append(a.Props, p), append(a.PropNames, n.PropNames[i])
	}
	if k+len(a.Aggs)+len(a.Props) == 0 { // a row has at least one column
		a.Props, a.PropNames = []plan.WindowProp{plan.WindowEnd}, []string{"window_end"}
	}
	if n.Late != nil {
		for _, c := range n.Late.Cols {
			in[c] = true
		}
	}
	if n.Attached {
		in[n.StartCol], in[n.EndCol] = true, true
	} else if n.Window.TimeCol >= 0 {
		in[n.Window.TimeCol] = true
	}
	input, at := prune(n.Input, in)
	a.Input, a.Keys, a.Aggs = input, remapAll(n.Keys, at), remapAggs(a.Aggs, at)
	a.Late = n.Late.Remap(at)
	a.Window.PartitionKeys = a.Keys
	if n.Attached {
		a.StartCol, a.EndCol = at[n.StartCol], at[n.EndCol]
	} else if n.Window.TimeCol >= 0 {
		a.Window.TimeCol = at[n.Window.TimeCol]
	}
	return &a, to
}

// pruneTVF keeps the window's own columns, which cost little.
func pruneTVF(n *logical.WindowTVF, need []bool) (logical.Node, []int) {
	width := n.Input.Schema().Len()
	in := slices.Clone(need[:width])
	if n.Window.TimeCol >= 0 && !n.Window.ProcTime {
		in[n.Window.TimeCol] = true
	}
	for _, k := range n.Window.PartitionKeys {
		in[k] = true
	}
	t := *n
	input, at := prune(n.Input, in)
	t.Input = input
	if n.Window.ProcTime {
		t.Window.TimeCol = -1
	} else {
		t.Window.TimeCol = at[n.Window.TimeCol]
	}
	t.Window.PartitionKeys = remapAll(n.Window.PartitionKeys, at)
	to := append(slices.Clone(at), 0, 0, 0)
	for i := range 3 {
		to[width+i] = input.Schema().Len() + i
	}
	return &t, to
}

func pruneDedup(n *Dedup, need []bool) (logical.Node, []int) {
	in := slices.Clone(need)
	for _, k := range append(slices.Clone(n.Keys), n.Order) {
		in[k] = true
	}
	d := *n
	var to []int
	d.Input, to = prune(n.Input, in)
	d.Keys, d.Order = remapAll(n.Keys, to), to[n.Order]
	return &d, to
}

// pruneUnion makes all inputs keep the same columns.
func pruneUnion(n *logical.Union, need []bool) (logical.Node, []int) {
	u := &logical.Union{}
	to := make([]int, len(need))
	width := 0
	for i := range need {
		if to[i] = -1; need[i] {
			to[i] = width
			width++
		}
	}
	for _, in := range n.All {
		p, at := prune(in, need)
		s := p.Schema()
		c := &Calc{Input: p}
		for i := range need {
			if need[i] {
				c.Exprs = append(c.Exprs, column(s, at[i]))
				c.Names = append(c.Names, s.Fields[at[i]].Name)
			}
		}
		u.All = append(u.All, c)
	}
	return u, to
}
