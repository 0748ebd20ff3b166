package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// shownBefore finds an operator that goes on with its state and has shown results of t which it will not show again, as it
// shows what changes: where t begins a generation, they would be missing there. nil: there is none.
func shownBefore(p *plan.Plan, r *checkpoint.Report, t *connector.Table) *plan.Node {
	keeps := map[int]bool{}
	for _, l := range r.Lines {
		keeps[l.Node] = l.Verdict != checkpoint.StartsEmpty && l.Verdict != checkpoint.Dropped
	}
	var above func(n *plan.Node) *plan.Node
	above = func(n *plan.Node) *plan.Node {
		for _, e := range n.Inputs {
			if e.Late {
				continue
			}
			from := p.Nodes[e.From]
			switch o := from.Op.(type) {
			case *plan.Source, *plan.Values:
				continue
			case *plan.WindowAgg:
				if o.Phase == plan.LocalPhase {
					break
				}
				if keeps[from.ID] && !o.FinalOnly && (o.EarlyFireMs >= 0 || o.EarlyFireRows > 0 || o.AllowedLatenessMs > 0) {
					return from
				}
				continue // windows that are shown once are shown whole, whatever feeds them
			case *plan.Revise, *plan.Calc:
			default:
				if keeps[from.ID] {
					return from
				}
			}
			if found := above(from); found != nil {
				return found
			}
		}
		return nil
	}
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok && s.Table == t {
			return above(n)
		}
	}
	return nil
}

// minClaim is the shortest time that a job's claim to a generation holds.
const minClaim = 10 * time.Minute

// claimGenerations notes that a job begins to write generations that have no progress yet, so that another one which begins
// before the first checkpoint is refused. A job that goes on has written some, and one that takes no checkpoints has no
// place by which it could be told from another.
func claimGenerations(ctx context.Context, p *plan.Plan, rec *recovery, cfg *catalog.Config) error {
	if rec == nil || rec.from != nil || cfg.All()[keyGoOn] == "true" {
		return nil
	}
	c := results.JobClaim{Place: rec.place(), Lineage: rec.lineage, Run: newRun(), Started: time.Now().UTC()}
	c.Until = c.Started.Add(max(minClaim, 3*cfg.Duration(checkpoint.KeyInterval)))
	for _, t := range p.Results() {
		if !results.Known(t.Connector) {
			continue
		}
		if err := claimGeneration(ctx, t, c); err != nil {
			return err
		}
	}
	return nil
}

func claimGeneration(ctx context.Context, t *connector.Table, c results.JobClaim) error {
	s, err := results.Open(ctx, t)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	defer s.Close()
	rows, err := s.Progress(ctx, t.Results.Generation, 1)
	if err == nil && len(rows) == 0 {
		err = results.ClaimJob(ctx, s, t.Results.Generation, c)
		if err != nil {
			return &connector.Fatal{Err: fmt.Errorf("table %s: %w; or SET '%s' = 'true' to write it all the same", t.Name, err, keyGoOn)}
		}
	}
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}
