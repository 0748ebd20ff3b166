// Package build maps plan nodes to operators. It is the only package that knows them all.
package build

import (
	"context"
	"fmt"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/calc"
	"github.com/tidemark-stream/tidemark/exec/changelog"
	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/exec/join"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/revise"
	"github.com/tidemark-stream/tidemark/exec/sink"
	"github.com/tidemark-stream/tidemark/exec/sort"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// SinkIO is what the operator of a sink writes to.
type SinkIO struct {
	Writer  connector.Writer
	Collect func(*vec.Batch) error
}

// Operator returns a new operator for node n of p. Sources and values are read by package job and
// have none.
func Operator(ctx context.Context, p *plan.Plan, n *plan.Node, io SinkIO) (op.Operator, error) {
	var in types.Schema
	changing := false // rows of the input may be taken back
	if len(n.Inputs) > 0 {
		from := p.Nodes[n.Inputs[0].From]
		in, changing = from.Schema, !from.Mode.IsInsertOnly()
	}
	switch o := n.Op.(type) {
	case *plan.Calc:
		return calc.New(o), nil
	case *plan.Expand:
		return calc.NewExpand(o, n.Schema), nil
	case *plan.Union, *plan.Late:
		return &calc.Union{}, nil
	case *plan.Join:
		return join.New(o, in, p.Nodes[n.Inputs[1].From].Schema, n.Schema)
	case *plan.GroupAgg:
		return groupagg.New(o, in, n.Schema)
	case *plan.WindowAgg:
		return window.NewAgg(o, in, n.Schema)
	case *plan.WindowTVF:
		return window.NewTVF(o, in, n.Schema)
	case *plan.Normalize:
		return changelog.NewNormalize(o, in, n.Schema)
	case *plan.Revise:
		return revise.New(o, in, n.Schema, timed(p, n.ID))
	case *plan.Materialize:
		return changelog.NewMaterialize(o, in, n.Schema)
	case *plan.DropUpdateBefore:
		return changelog.NewDropUpdateBefore(), nil
	case *plan.Sort:
		return sort.New(o, in, n.Schema, changing)
	case *plan.Limit:
		return sort.NewLimit(o, in, changing), nil
	case *plan.Sink:
		return sink.New(ctx, o, n.Schema, io.Writer, io.Collect), nil
	}
	return nil, fmt.Errorf("BUG: no operator for %T", n.Op)
}

// timed reports whether watermarks reach node id: whether one of the sources that feed it has event time.
func timed(p *plan.Plan, id int) bool {
	feeds := make([]bool, id+1)
	feeds[id] = true
	for i := id; i >= 0; i-- { // inputs come before their nodes
		if !feeds[i] {
			continue
		}
		if s, ok := p.Nodes[i].Op.(*plan.Source); ok && s.RowTime >= 0 {
			return true
		}
		for _, e := range p.Nodes[i].Inputs {
			feeds[e.From] = true
		}
	}
	return false
}
