package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// upstream are the nodes that feed n, and n itself, in the order of the plan.
func upstream(p *plan.Plan, n *plan.Node) []*plan.Node {
	in := map[int]bool{n.ID: true}
	var out []*plan.Node
	for id := n.ID; id >= 0; id-- {
		if !in[id] {
			continue
		}
		out = append(out, p.Nodes[id])
		for _, e := range p.Nodes[id].Inputs {
			in[e.From] = true
		}
	}
	slices.Reverse(out)
	return out
}

// undetermined says why the rows of a sink may differ between two runs over the same input.
func (r *ReplayReport) undetermined(n *plan.Node) []string {
	out := clocksOf(r.job.p, n)
	if why := r.interleaved(upstream(r.job.p, n)); why != "" {
		out = append(out, why)
	}
	return out
}

// clocksOf says what of the nodes that feed a sink depends on the clock or on chance.
func clocksOf(p *plan.Plan, n *plan.Node) (out []string) {
	for _, x := range upstream(p, n) {
		if why := clockOf(p, x); why != "" {
			out = append(out, fmt.Sprintf("depends on the clock or on chance: %s: %s", x.Label, why))
		}
	}
	return out
}

// clockOf says what of a node depends on the clock of the machine, on chance, or on how rows come in batches; "" for
// nothing.
func clockOf(p *plan.Plan, n *plan.Node) string {
	var why []string
	add := func(cond bool, s string) {
		if cond {
			why = append(why, s)
		}
	}
	in := func() *plan.Node { return p.Nodes[n.Inputs[0].From] }
	switch o := n.Op.(type) {
	case *plan.Source:
		opts := o.Table.Options
		add(o.RowTime >= 0 && opts["scan.watermark.emit.strategy"] == "on-periodic", "its watermark is shown periodically")
		add(opts["scan.watermark.max-future"] != "" && connector.Lookup(o.Table.Connector) != nil && !connector.Lookup(o.Table.Connector).Keyed,
			"scan.watermark.max-future compares with the time of reading")
		_, seeded := opts["seed"]
		add(o.Table.Connector == "datagen" && !seeded && p.Config["tidemark.seed"] == "", "its rows are made up by chance; give it a 'seed'")
		add(volatile(o.Project...), "it computes "+volatiles(o.Project...))
	case *plan.Calc:
		all := append([]expr.Expr{o.Filter}, o.Project...)
		add(volatile(all...), "it computes "+volatiles(all...))
	case *plan.Expand:
		for _, l := range o.Projects {
			add(volatile(l...), "it computes "+volatiles(l...))
		}
	case *plan.WindowTVF:
		add(o.Window.ProcTime, "windows of processing time")
	case *plan.WindowAgg:
		add(o.Window.ProcTime, "windows of processing time")
		add(o.EarlyFireRows > 0 || o.LateFireRows > 0, "results every so many rows, which come in another order")
	case *plan.GroupAgg:
		add(o.TTLMs > 0, "its state expires by the clock")
	case *plan.Join:
		add(o.LeftTTLMs > 0 || o.RightTTLMs > 0, "its state expires by the clock")
		add(volatile(o.Filter), "it computes "+volatiles(o.Filter))
	case *plan.Normalize:
		add(o.TTLMs > 0 || o.HorizonMs > 0 && o.RowTime < 0, "its state expires by the clock")
	case *plan.Materialize:
		add(o.TTLMs > 0, "its state expires by the clock")
	case *plan.Revise:
		add(o.TTLMs > 0 && in().RowTime < 0, "its state expires by the clock")
	}
	return strings.Join(why, ", ")
}

func volatile(list ...expr.Expr) bool { return volatiles(list...) != "" }

// volatiles names the functions in expressions that give another value each time.
func volatiles(list ...expr.Expr) string {
	var names []string
	for _, e := range list {
		if e == nil {
			continue
		}
		expr.Map(e, func(x expr.Expr) expr.Expr {
			if c, ok := x.(*expr.Call); ok && expr.Volatile(c) && !slices.Contains(names, c.Fn) {
				if f := expr.Lookup(c.Fn); f != nil && f.Volatile {
					names = append(names, c.Fn)
				}
			}
			return x
		})
	}
	return strings.Join(names, ", ")
}

// interleaved says what depends on how the splits of sources that do not end are read side by side; "" for nothing.
func (r *ReplayReport) interleaved(nodes []*plan.Node) string {
	if r.bounded {
		return "" // splits that end are merged in one order
	}
	splits := 0
	for _, n := range nodes {
		if _, ok := n.Op.(*plan.Source); ok {
			for _, m := range r.then.Manifest.Sources {
				if m.Node == n.ID && !(m.Done && len(m.Splits) == 0) {
					splits += len(m.Splits) + m.Remembered
				}
			}
		}
	}
	if splits < 2 {
		return ""
	}
	var then, now int64
	for _, n := range nodes {
		for _, name := range []string{bookDropped, bookLate} {
			a, b := r.books(n.ID, name)
			then, now = then+a, now+b
		}
	}
	if then != now {
		return fmt.Sprintf("depends on how %d splits are read side by side: %d rows were late then, %d now", splits, then, now)
	}
	for _, n := range nodes {
		if by := ordering(n); by != "" {
			return fmt.Sprintf("depends on how %d splits are read side by side: %s: %s", splits, n.Label, by)
		}
	}
	return ""
}

// ordering says what of a node depends on the order of rows; "" for nothing.
func ordering(n *plan.Node) string {
	var aggs []plan.AggCall
	switch o := n.Op.(type) {
	case *plan.GroupAgg:
		aggs = o.Aggs
	case *plan.WindowAgg:
		aggs = o.Aggs
	case *plan.Limit:
		return "the first rows"
	}
	for _, a := range aggs {
		switch a.Fn {
		case "FIRST_VALUE", "LAST_VALUE", "LISTAGG", "STRING_AGG", "ARRAY_AGG", "JSON_ARRAYAGG", "JSON_OBJECTAGG":
			return a.Fn
		}
		if k := a.T.Kind; k == types.Double || k == types.Float {
			return a.Fn + " of floating-point numbers"
		}
	}
	return ""
}
