package physical

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/plan"
)

// unknowns are the metadata that tables of results ask for and do not get.
func unknowns(p *plan.Plan) []string {
	var out []string
	for _, n := range p.Nodes {
		if _, ok := n.Op.(*plan.Revise); !ok {
			continue
		}
		if why := unknown(p, n); why != "" {
			out = append(out, fmt.Sprintf("table %s: %s", sunkInto(p, n), why))
		}
	}
	slices.Sort(out)
	return out
}

// sunkInto is the name of the table that gets the rows of n.
func sunkInto(p *plan.Plan, n *plan.Node) string {
	for _, o := range p.Nodes[n.ID+1:] {
		if len(o.Inputs) > 0 && o.Inputs[0].From == n.ID {
			if s, ok := o.Op.(*plan.Sink); ok {
				return s.Table.Name
			}
			return sunkInto(p, o)
		}
	}
	return ""
}

// unknown says which metadata revisions of n in p cannot give, and why; "" where they give all that was asked for.
func unknown(p *plan.Plan, n *plan.Node) string {
	rv := n.Op.(*plan.Revise)
	var nulls []string
	update := false
	for _, m := range rv.Metadata {
		switch {
		case m == plan.ResultEmitReason && rv.Reason < 0:
			update = true
		case m == plan.ResultInputCount && rv.Count < 0, m == plan.ResultCause && rv.Cause < 0:
			nulls = append(nulls, plan.ResultColumns[m].Name)
		}
	}
	var said []string
	if update {
		said = append(said, "emit_reason is 'update' or 'delete'")
	}
	if len(nulls) > 0 {
		said = append(said, strings.Join(nulls, " and ")+" NULL")
	}
	if said == nil {
		return ""
	}
	return strings.Join(said, ", ") + ": " + hider(p, p.Nodes[n.Inputs[0].From])
}

// hider says which operator at or above n keeps from its rows how they came about.
func hider(p *plan.Plan, n *plan.Node) string {
	switch o := n.Op.(type) {
	case *plan.Calc, *plan.Materialize, *plan.DropUpdateBefore:
		return hider(p, p.Nodes[n.Inputs[0].From])
	case *plan.Normalize:
		if _, source := p.Nodes[n.Inputs[0].From].Op.(*plan.Source); !source && (o.Ties != plan.TiesConflict || !o.Versioned) {
			return hider(p, p.Nodes[n.Inputs[0].From]) // a row of each key
		}
	case *plan.Union:
		for _, e := range n.Inputs {
			return hider(p, p.Nodes[e.From])
		}
	}
	if windowAbove(p, n) {
		return "rows of " + strings.TrimPrefix(n.Label, "Global") + " do not say which emissions or records they come from"
	}
	return "the rows are not results of windows"
}

// windowAbove reports whether a window aggregation feeds n.
func windowAbove(p *plan.Plan, n *plan.Node) bool {
	for id := range above(p, n.ID) {
		if _, ok := p.Nodes[id].Op.(*plan.WindowAgg); ok {
			return true
		}
	}
	return false
}
