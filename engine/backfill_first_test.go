package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestBackfill_BeforeTheJob computes history before the job is started for the first time: what it will go on with is left
// to it, unless its sources end.
func TestBackfill_BeforeTheJob(t *testing.T) {
	watched := strings.Replace(keptScript, "'path' = 'in.json'", "'path' = 'in.json', 'source.monitor-interval' = '1 s'", 1)
	for _, c := range []struct {
		name, script string
		windows      []results.Span
		base, shown  string
	}{
		{"its source ends", keptScript, nil, "g1", "a@0=41/1 b@0=2/1 a@10=4/1 b@30=16/1"},
		// The newest event is of 31 s, so the window of 20 to 30 can be corrected until 35 s.
		{"its source goes on", watched, []results.Span{{From: vec.MinTime, To: 20_000}}, "live", "a@0=41/1 b@0=2/1 a@10=4/1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, ctx := newKeptRun(t, keptInput), context.Background()
			got, err := r.engine(engine.Options{}, "SUM(amount)").Backfill(ctx, "board.sql", c.script, engine.BackfillOptions{Generation: "g1"}, engine.Handler{})
			if err != nil || len(got) != 1 || !slices.Equal(got[0].Windows, c.windows) || (got[0].Windows == nil) != (got[0].Left == nil) {
				t.Fatalf("%+v, %v", got, err)
			}
			p, err := results.Promote(ctx, r.store(), "g1", vec.MinTime, vec.MaxTime, true)
			if err != nil || p.Base() != c.base || p.Of(0) != "g1" {
				t.Errorf("%+v, %v", p, err)
			}
			if got := r.cells(results.Query{}); got != c.shown {
				t.Errorf("readers see %s", got)
			}
		})
	}
}
