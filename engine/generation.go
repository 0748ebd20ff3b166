package engine

import (
	"context"
	"fmt"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// keyGoOn lets a start write into a generation that another lineage has written.
const keyGoOn = "tidemark.generation.go-on"

// freshGeneration refuses a start that would count revisions anew in a generation that has some: the same
// key and revision would get other content. A start that has its counters from the newest checkpoint goes on
// counting; others, such as one with --fresh, from an older savepoint, or of a changed query whose counters are
// dropped, want a generation of their own.
func freshGeneration(ctx context.Context, p *plan.Plan, rec *recovery, cfg *catalog.Config) error {
	if cfg.All()[keyGoOn] == "true" {
		return nil
	}
	lineage, from, kept := "", (*checkpoint.Manifest)(nil), func(*connector.Table) bool { return true }
	shown := func(*connector.Table) *plan.Node { return nil }
	if rec != nil {
		lineage, from = rec.lineage, rec.from
	}
	if from != nil {
		r, err := rec.match(from)
		if err != nil {
			return err
		}
		kept = func(t *connector.Table) bool { return keepsCounter(p, r, t) }
		shown = func(t *connector.Table) *plan.Node { return shownBefore(p, r, t) }
	}
	for _, t := range p.Results() {
		if !results.Known(t.Connector) {
			continue
		}
		counts := kept(t)
		last, err := lastProgress(ctx, t)
		if counts && from != nil && from.Lineage == lineage {
			// Where the target does not answer the first commit finds it out.
			if err == nil && last != nil && last.Lineage == lineage && last.Checkpoint > from.ID {
				id := connector.CommitID{Lineage: lineage, Checkpoint: from.ID, After: from.ID}
				return fmt.Errorf("table %s: %w", t.Name, id.Overtaken(last.Checkpoint))
			}
			if err == nil && last != nil && last.Lineage != lineage && last.At > from.Started.UnixMilli() {
				return &connector.Fatal{Err: fmt.Errorf("generation %s of table %s was written by another run, up to its checkpoint %d, after checkpoint %d that this start goes on from: "+
					"it would contradict it; SET '%s' = '%s' (or another new name) and start with --fresh, or write into it all the same with SET '%s' = 'true'",
					last.Generation, t.Name, last.Checkpoint, from.ID, keyGeneration, next(last.Generation), keyGoOn)}
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if n := shown(t); !counts && last == nil && n != nil {
			return &connector.Fatal{Err: fmt.Errorf("generation %s of table %s would never get the results that %s has shown before: it goes on with its state, and shows what changes; "+
				"make the generation from the beginning with --fresh, or with 'tidemark backfill', or leave them out with SET '%s' = 'true'",
				t.Results.Generation, t.Name, n.Label, keyGoOn)}
		}
		if last == nil || counts && (lineage != "" && last.Lineage == lineage || from != nil && from.Lineage == last.Lineage && from.ID >= last.Checkpoint) {
			continue
		}
		why := fmt.Sprintf("was written by another run, up to its checkpoint %d", last.Checkpoint)
		if !counts {
			why = "has revisions, and the state that counts them is not kept"
		}
		return &connector.Fatal{Err: fmt.Errorf("generation %s of table %s %s: this start counts revisions anew and would contradict it; "+
			"SET '%s' = '%s' (or another new name), or write into it all the same with SET '%s' = 'true'",
			last.Generation, t.Name, why, keyGeneration, next(last.Generation), keyGoOn)}
	}
	return nil
}

// keepsCounter reports whether the counter of the revisions of t finds its state.
func keepsCounter(p *plan.Plan, r *checkpoint.Report, t *connector.Table) bool {
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); !ok || s.Table != t {
			continue
		}
		for len(n.Inputs) > 0 {
			if n = p.Nodes[n.Inputs[0].From]; isRevise(n) {
				break
			}
		}
		for _, l := range r.Lines {
			if l.Node == n.ID && isRevise(n) && l.Verdict == checkpoint.StartsEmpty {
				return false
			}
		}
	}
	return true
}

func isRevise(n *plan.Node) bool {
	_, ok := n.Op.(*plan.Revise)
	return ok
}

// lastProgress is the newest progress row of the generation that t is written in; nil where there is none.
func lastProgress(ctx context.Context, t *connector.Table) (*connector.Progress, error) {
	s, err := results.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	rows, err := s.Progress(ctx, t.Results.Generation, 1)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// next is a name for the generation after g.
func next(g string) string {
	i := len(g)
	for i > 0 && g[i-1] >= '0' && g[i-1] <= '9' {
		i--
	}
	n := 1
	if i < len(g) && len(g)-i < 9 {
		fmt.Sscanf(g[i:], "%d", &n)
	}
	return fmt.Sprintf("%s%d", g[:i], n+1)
}
