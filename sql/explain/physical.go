package explain

import (
	"fmt"
	"sort"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/physical"
	"github.com/tidemark-stream/tidemark/types"
)

// detail is one labelled line of an operator.
type detail struct{ name, text string }

// Physical prints a plan as one tree a sink. An operator that several others read is printed
// once; its number stands for it elsewhere.
func Physical(p *plan.Plan) string {
	var b strings.Builder
	seen := map[int]bool{}
	for _, n := range p.Nodes {
		if _, ok := n.Op.(*plan.Sink); ok {
			physicalTree(&b, p, n, "", "", nil, seen)
			b.WriteString("\n")
		}
	}
	return b.String()
}

func physicalTree(b *strings.Builder, p *plan.Plan, n *plan.Node, head, rest string, edge *plan.Edge, seen map[int]bool) {
	title := fmt.Sprintf("[%d] %s", n.ID, n.Label)
	if edge != nil {
		title += "  -> " + edgeText(n, edge)
	}
	if seen[n.ID] {
		wrap(b, head, rest+"  ", title+"  (shown above)")
		return
	}
	seen[n.ID] = true
	wrap(b, head, rest+"  ", title)
	bar := "   "
	if len(n.Inputs) > 0 {
		bar = "|  "
	}
	for _, d := range details(p, n) {
		pre := rest + bar + fmt.Sprintf("%-13s", d.name)
		wrap(b, pre, rest+bar+strings.Repeat(" ", 15), d.text)
	}
	for i := range n.Inputs {
		e := &n.Inputs[i]
		r := rest + "   "
		if i+1 < len(n.Inputs) {
			r = rest + "|  "
		}
		physicalTree(b, p, p.Nodes[e.From], rest+"+- ", r, e, seen)
	}
}

// edgeText says what goes along an edge and where to: [I,UA], hash by origin.
func edgeText(from *plan.Node, e *plan.Edge) string {
	if e.Late {
		return "[I] late rows"
	}
	s := from.Mode.String() + " " + e.Dist.String()
	if e.Dist == plan.Hash {
		s += " by " + columns(from.Schema, e.Keys)
	}
	if e.Ordered {
		s += ", in order of time"
	}
	return s
}

func details(p *plan.Plan, n *plan.Node) []detail {
	var in types.Schema
	if len(n.Inputs) > 0 {
		in = p.Nodes[n.Inputs[0].From].Schema
	}
	out := operator(p, n, in)
	add := func(name, text string) {
		if text != "" {
			out = append(out, detail{name, text})
		}
	}
	_, sink := n.Op.(*plan.Sink)
	if !sink && n.RowTime >= 0 {
		add("time", n.Schema.Fields[n.RowTime].Name)
	}
	if !n.Mode.IsInsertOnly() && !sink {
		keys := make([]string, len(n.UpsertKeys))
		for i, k := range n.UpsertKeys {
			keys[i] = "(" + columns(n.Schema, k) + ")"
		}
		add("upsert key", strings.Join(keys, " or "))
		if len(keys) == 0 {
			add("upsert key", "none: rows are told apart by all columns")
		}
	}
	if n.StateGrowth != "" {
		add("state", n.StateGrowth+ttl(p, n.Op))
	}
	var carries []string
	if n.NeedStamps {
		carries = append(carries, "the watermark at each row's arrival")
	}
	if n.NeedPos {
		carries = append(carries, "where each row was read")
	}
	if !sink {
		add("carries", strings.Join(carries, "; "))
	}
	if n.Parallelism > 0 {
		add("parallelism", fmt.Sprint(n.Parallelism))
	}
	return out
}

// ttl says how long state is kept.
func ttl(p *plan.Plan, op plan.Op) string {
	var ms int64
	if p.Batch {
		return ""
	}
	switch o := op.(type) {
	case *plan.GroupAgg:
		ms = o.TTLMs
		if o.Phase == plan.LocalPhase {
			return ""
		}
	case *plan.Normalize:
		if ms = o.TTLMs; o.HorizonMs > 0 {
			return ""
		}
	case *plan.Revise:
		switch {
		case o.TTLMs > 0:
			return "; " + kept(o.TTLMs) + " after its window is final, by event time"
		case o.End < 0:
			return "; kept for ever: a key that comes back counts on"
		}
	case *plan.Materialize:
		ms = o.TTLMs
	case *plan.WindowAgg:
		if o.Phase == plan.LocalPhase {
			return ""
		}
		if o.Window.ProcTime {
			return "; freed when the window is over"
		}
		if o.AllowedLatenessMs > 0 {
			return "; freed " + duration(o.AllowedLatenessMs) + " after the watermark passes its end"
		}
		return "; freed when the watermark passes its end"
	case *plan.Join:
		if ms = o.LeftTTLMs; o.LeftTTLMs != o.RightTTLMs {
			return "; left rows " + kept(o.LeftTTLMs) + ", right rows " + kept(o.RightTTLMs) + ", by the machine's clock"
		}
	default:
		return ""
	}
	if ms > 0 {
		return "; " + kept(ms) + " after the last change, by the machine's clock"
	}
	return "; " + kept(ms) + " (table.exec.state.ttl is not set)"
}

func kept(ms int64) string {
	if ms > 0 {
		return "kept for " + duration(ms)
	}
	return "kept for ever"
}

// operator gives the particulars of n's kind.
func operator(p *plan.Plan, n *plan.Node, in types.Schema) []detail {
	switch o := n.Op.(type) {
	case *plan.Source:
		return source(n, o)
	case *plan.Values:
		return []detail{{"rows", fmt.Sprint(len(o.Rows))}}
	case *plan.Calc:
		d := []detail{{"select", projection(o.Project, n.Schema.Names(), in)}}
		if o.Filter != nil {
			d = append([]detail{{"where", show(o.Filter, in)}}, d...)
		}
		return d
	case *plan.Expand:
		return expand(o, in)
	case *plan.WindowTVF:
		return []detail{{"window", window(&o.Window, in)}}
	case *plan.WindowAgg:
		return windowAgg(p, n, o, in)
	case *plan.Revise:
		return revise(n, o)
	case *plan.Normalize:
		return normalize(n, o)
	case *plan.GroupAgg:
		if o.Phase == plan.GlobalPhase {
			return []detail{{"select", fields(n.Schema)}}
		}
		return []detail{{"select", strings.Join(selected(in, o.Keys, o.Aggs), ", ")}}
	case *plan.Join:
		return joinDetails(n, o, in, p.Nodes[n.Inputs[1].From].Schema)
	case *plan.Sort:
		return []detail{{"order", ordering(o.Keys, o.Offset, o.Limit, in)}}
	case *plan.Limit:
		return []detail{{"limit", ordering(nil, o.Offset, o.Limit, in)}}
	case *plan.Sink:
		return sinkDetails(p, n, o)
	}
	return nil
}

func selected(in types.Schema, keys []int, aggs []plan.AggCall) []string {
	var out []string
	for _, k := range keys {
		out = append(out, in.Fields[k].Name)
	}
	return append(out, aggregates(aggs, in)...)
}

func windowAgg(p *plan.Plan, n *plan.Node, o *plan.WindowAgg, in types.Schema) []detail {
	w := window(&o.Window, in)
	if o.Attached {
		w = fmt.Sprintf("%s of the rows, %s to %s", o.Window.Kind, in.Fields[o.StartCol].Name, in.Fields[o.EndCol].Name)
	}
	d := []detail{{"window", w}}
	if o.Phase == plan.GlobalPhase {
		d = append(d, detail{"select", fields(n.Schema)})
	} else {
		sel := selected(in, o.Keys, o.Aggs)
		for i, x := range o.Props {
			name := n.Schema.Fields[len(o.Keys)+len(o.Aggs)+i].Name
			if name != property(x) {
				name = property(x) + " AS " + name
			}
			sel = append(sel, name)
		}
		d = append(d, detail{"select", strings.Join(sel, ", ")})
	}
	if o.Phase == plan.LocalPhase {
		return d
	}
	return append(d, emission(p, n, o)...)
}

func joinDetails(n *plan.Node, o *plan.Join, l, r types.Schema) []detail {
	var d []detail
	if len(o.LeftKeys) > 0 {
		d = append(d, detail{"keys", equalities(l, r, o.LeftKeys, o.RightKeys, o.NullSafe)})
	} else {
		d = append(d, detail{"keys", "none: every row meets every row of the other side"})
	}
	if o.Filter != nil {
		d = append(d, detail{"where", show(o.Filter, n.Schema)})
	}
	return append(d, detail{"select", fields(n.Schema)})
}

func source(n *plan.Node, o *plan.Source) []detail {
	d := []detail{{"table", o.Table.Name + " (" + connectorName(o.Table.Options) + ")"}}
	var read []string
	for _, c := range o.Columns {
		read = append(read, o.Table.Columns[c].Name)
	}
	for _, m := range o.Metadata {
		read = append(read, o.Table.Metadata[m].Name+" (metadata "+o.Table.Metadata[m].Key+")")
	}
	d = append(d, detail{"reads", strings.Join(read, ", ")})
	if len(read) == 0 {
		d[1].text = "no columns, only the number of rows"
	}
	var computed []string
	for i, e := range o.Project {
		if _, ok := e.(*expr.Column); !ok {
			computed = append(computed, e.String()+" AS "+n.Schema.Fields[i].Name)
		}
	}
	if computed != nil {
		d = append(d, detail{"computes", strings.Join(computed, ", ")})
	}
	if len(o.Filter) > 0 {
		var f []string
		for _, e := range o.Filter {
			f = append(f, show(e, n.Schema))
		}
		d = append(d, detail{"skips", "what cannot be " + strings.Join(f, " AND ")})
	}
	if o.Limit >= 0 {
		d = append(d, detail{"limit", fmt.Sprint(o.Limit)})
	}
	switch {
	case o.Watermark != nil:
		d = append(d, detail{"watermark", o.Watermark.String()})
	case o.RowTime >= 0:
		d = append(d, detail{"watermark", "given by the source"})
	}
	return d
}

// connectorName is "filesystem, json".
func connectorName(o map[string]string) string {
	s := o["connector"]
	for _, k := range [...]string{"format", "value.format"} {
		if f := o[k]; f != "" {
			s += ", " + f
		}
	}
	return s
}

func expand(o *plan.Expand, in types.Schema) []detail {
	var d []detail
	for _, p := range o.Projects {
		cols := make([]string, len(p))
		for i, e := range p {
			if cols[i] = "NULL"; e != nil {
				cols[i] = show(e, in)
			}
		}
		d = append(d, detail{"emits", strings.Join(cols, ", ")})
	}
	return d
}

func sinkDetails(p *plan.Plan, n *plan.Node, o *plan.Sink) []detail {
	var d []detail
	if !o.Collect {
		d = append(d, detail{"table", o.Table.Name + " (" + connectorName(o.Table.Options) + ")"})
		if len(o.Table.PrimaryKey) > 0 {
			d = append(d, detail{"key", strings.Join(o.Table.PrimaryKey, ", ")})
		}
	}
	d = append(d, detail{"columns", fields(n.Schema)})
	if len(o.NotNull) > 0 {
		what := "stop the job"
		if o.DropNulls {
			what = "are dropped and counted"
		}
		d = append(d, detail{"not null", columns(n.Schema, o.NotNull) + ": rows with NULL " + what})
	}
	if o.Guarantee != "" {
		d = append(d, detail{"guarantee", o.Guarantee})
	}
	if o.Table != nil && o.Table.Results != nil {
		for _, w := range physical.Warnings(p) {
			if w, ok := strings.CutPrefix(w, "table "+o.Table.Name+": "); ok {
				d = append(d, detail{"warning", w})
			}
		}
	}
	return d
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
