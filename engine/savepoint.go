package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/sql"
)

// JobPlan says what a job would make of a savepoint or checkpoint.
type JobPlan struct {
	Job string
	// From is what it would start from; nil: the job takes no checkpoints, or it has none yet, and
	// Why says which.
	From *checkpoint.Snapshot
	Why  string
	// Given says that From is the place that was asked about, and not the job's newest checkpoint.
	Given bool
	// Report says operator by operator what becomes of the state.
	Report *checkpoint.Report
	// Parallelism is what the job would run at.
	Parallelism int
	// Err is why it would not start: a *checkpoint.DroppedError where something would be left
	// behind.
	Err error
}

// PlanFrom plans the jobs of a script and says what each would make of the savepoint or checkpoint
// at a place; "" is the newest checkpoint of each job, which is also what jobs go on from that the
// place does not belong to. Nothing is run.
func (e *Engine) PlanFrom(ctx context.Context, name, text, place string) ([]JobPlan, error) {
	var out []JobPlan
	var jobs []*scriptJob
	from := *e
	from.o.Recovery.From = place
	err := e.plan(&source{name: name, text: text}, func(s *sql.Session, r *sql.Result) error {
		p := JobPlan{Job: r.Plan.Name, Parallelism: max(1, int(s.Config().Int("parallelism.default")))}
		j, err := from.newScriptJob(len(out), r.Plan, s.Config())
		switch {
		case err != nil:
			return err
		case j != nil:
			jobs = append(jobs, j)
		default:
			p.Why = "takes no checkpoints, since its rows go to the terminal or it runs in batch mode: it starts with nothing"
		}
		out = append(out, p)
		return nil
	})
	if err == nil {
		err = e.settle(ctx, jobs, 0, func(string) {})
	}
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if err := e.match(ctx, j, &out[j.at]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// match fills in what a job would make of what it would start from.
func (e *Engine) match(ctx context.Context, j *scriptJob, out *JobPlan) error {
	out.Job = j.name
	out.Given = j.o.From != ""
	place := j.o.From
	if place == "" {
		place = j.folder()
	}
	var err error
	out.From, err = e.snapshot(ctx, place, j.given)
	switch {
	case j.o.From == "" && errors.Is(err, object.ErrNotFound):
		out.Why = "has no checkpoint yet: it starts with nothing"
		return nil
	case err != nil:
		return err
	}
	m := out.From.Manifest
	switch {
	case j.done:
		out.Why = fmt.Sprintf("came to its end with checkpoint %d, in the run of the script that the next one goes on with: it is not run again", m.ID)
	case j.o.From == "" && j.unsettled:
		out.Why = fmt.Sprintf("came to its end with checkpoint %d, whose output may not be committed: that is done, and it is not run again", m.ID)
	case j.o.From == "" && m.Finished:
		out.Why = fmt.Sprintf("came to its end with checkpoint %d: it starts with nothing", m.ID)
	}
	if out.Why != "" {
		out.From = nil
		return nil
	}
	if out.Report, out.Err = matchPlan(m, j.p, j.prints, j.maxPar, j.o.AllowDropped); out.Err == nil {
		out.Err = out.From.Check(ctx)
	}
	return nil
}

// snapshot opens what is at a place; relative ones are below the script's folder.
func (e *Engine) snapshot(ctx context.Context, place string, given map[string]string) (*checkpoint.Snapshot, error) {
	return checkpoint.OpenSavepoint(ctx, e.location(place), given)
}
