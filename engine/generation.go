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
// key and revision would get other content. A start from the newest checkpoint goes on counting; others, such as
// one with --fresh or from an older savepoint, want a generation of their own.
func freshGeneration(ctx context.Context, p *plan.Plan, lineage string, from *checkpoint.Manifest, cfg *catalog.Config) error {
	if cfg.All()[keyGoOn] == "true" || from != nil && from.Lineage == lineage {
		return nil
	}
	for _, t := range p.Results() {
		if !results.Known(t.Connector) {
			continue
		}
		last, err := lastProgress(ctx, t)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if last == nil || last.Lineage == lineage || from != nil && from.Lineage == last.Lineage && from.ID >= last.Checkpoint {
			continue
		}
		return &connector.Fatal{Err: fmt.Errorf("generation %s of table %s was written by another run, up to its checkpoint %d: this start counts revisions anew and would contradict it; "+
			"SET '%s' = '%s' (or another new name), or write into it all the same with SET '%s' = 'true'",
			last.Generation, t.Name, last.Checkpoint, keyGeneration, next(last.Generation), keyGoOn)}
	}
	return nil
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
