package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// JobPlan says what a job would make of a savepoint or checkpoint.
type JobPlan struct {
	Job string
	// From is what it would start from; nil: the job takes no checkpoints, or it has none yet, and
	// Why says which.
	From *checkpoint.Snapshot
	Why  string
	// Report says operator by operator what becomes of the state.
	Report *checkpoint.Report
	// Parallelism is what the job would run at.
	Parallelism int
	// Err is why it would not start: a *checkpoint.DroppedError where something would be left
	// behind.
	Err error
}

// PlanFrom plans the jobs of a script and says what each would make of the savepoint or checkpoint
// at a place; "" is the newest checkpoint of each job. Nothing is run.
func (e *Engine) PlanFrom(ctx context.Context, name, text, place string) ([]JobPlan, error) {
	var out []JobPlan
	saving := 0
	err := e.plan(&source{name: name, text: text}, func(s *sql.Session, r *sql.Result) error {
		p := JobPlan{Job: r.Plan.Name, Parallelism: max(1, int(s.Config().Int("parallelism.default")))}
		if !takesCheckpoints(r.Plan) {
			p.Why = "takes no checkpoints, since its rows go to the terminal or it runs in batch mode: it starts with nothing"
			out = append(out, p)
			return nil
		}
		saving++
		if err := e.match(ctx, r.Plan, saving, s.Config(), place, &p); err != nil {
			return err
		}
		out = append(out, p)
		return nil
	})
	return out, err
}

// match fills in what a job, the nth of its script, would make of what is at place.
func (e *Engine) match(ctx context.Context, p *plan.Plan, nth int, cfg *catalog.Config, place string, out *JobPlan) error {
	given := cfg.All()
	o, err := checkpoint.ReadOptions(given)
	if err != nil {
		return err
	}
	newest := place == ""
	var dir string
	if out.Job, dir = homeOf(p, nth, o); newest {
		place = object.Join(dir, checkpoint.JobFolder(out.Job))
	}
	out.From, err = e.snapshot(ctx, place, given)
	switch {
	case newest && errors.Is(err, object.ErrNotFound):
		out.Why = "has no checkpoint yet: it starts with nothing"
		return nil
	case err != nil:
		return err
	}
	m := out.From.Manifest
	if newest && m.Finished {
		out.Why = fmt.Sprintf("came to its end with checkpoint %d: it starts with nothing", m.ID)
		out.From = nil
		return nil
	}
	out.Report, out.Err = matchPlan(m, p, plan.Fingerprints(p), maxParallelism(cfg), o.AllowDropped || e.o.Recovery.AllowDropped)
	return nil
}

// snapshot opens what is at a place; relative ones are below the script's folder.
func (e *Engine) snapshot(ctx context.Context, place string, given map[string]string) (*checkpoint.Snapshot, error) {
	return checkpoint.OpenSavepoint(ctx, e.location(place), given)
}
