package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// A replay computes the interval between two checkpoints of a job again and compares. It runs the plan twice, dry:
//
//	then  from the later checkpoint, reading nothing: what it holds on its way comes through
//	now   from the earlier one, reading the sources up to where the later one has them
//
// Both end with the same rows read and the same watermark (job.Until), so what the sinks were given and the state are
// the same where the job is a function of its input. What had been sealed is in the later checkpoint: the sum of
// the rows of each sink (checkpoint.SinkDigest), and the state that upserts and revisions are made from.

// ReplayOptions says what is computed again.
type ReplayOptions struct {
	// From and To are the checkpoints that the interval lies between: numbers, or places of savepoints or
	// checkpoints. "": the two newest.
	From, To string
	// Job is the name of the job, where a script has several; "": all of them.
	Job string
	// Parallelism of the runs, 0: 1, where order is decided best. Results do not depend on it.
	Parallelism int
	// Limit is how many differences of a sink are listed.
	Limit int
	// Progress, if not nil, is told of the rows read of those to read, from another goroutine.
	Progress func(job string, rows, of int64)
}

// ReplayPoint is one of the checkpoints of a replay.
type ReplayPoint struct {
	ID      int64     `json:"id"`
	Place   string    `json:"place"`
	Started time.Time `json:"started"`
}

// ReplayVerdict says how what was computed again compares.
type ReplayVerdict string

// The verdicts. Unknown is that of what cannot be told.
const (
	ReplayEqual   ReplayVerdict = "equal"
	ReplayDiffers ReplayVerdict = "differs"
	ReplayUnknown ReplayVerdict = "not verified"
)

// ReplayByRows is ReplaySink.By where the rows themselves were compared.
const ReplayByRows = "rows"

// ReplayReport is the replay of one job.
type ReplayReport struct {
	Job     string           `json:"job"`
	From    ReplayPoint      `json:"from"`
	To      ReplayPoint      `json:"to"`
	Sources []ReplaySource   `json:"sources"`
	Sinks   []ReplaySink     `json:"sinks"`
	States  []ReplayState    `json:"states"`
	Notes   []string         `json:"notes,omitempty"`
	Took    time.Duration    `json:"took_ns"`
	job     *replayJob       // that it is of
	then    *job.Still       // what the later checkpoint leads to
	now     *job.Still       // what was computed again
	folds   map[string]*fold // of tables of results, by name: what was computed again
	flying  map[string]*fold // what the later checkpoint leads to
	taken   map[int]*checkpoint.Operator
	bounded bool // all sources of the job end
}

// ReplaySource is what was read of one table.
type ReplaySource struct {
	Table string `json:"table"`
	Then  int64  `json:"rows_then"`
	Now   int64  `json:"rows_now"`
}

// ReplaySink is how the rows of one sink compare.
type ReplaySink struct {
	Table   string        `json:"table"`
	Verdict ReplayVerdict `json:"verdict"`
	// RowsThen and RowsNow are what the rows of the interval add up to, DigestThen and DigestNow their sums. Then
	// counts the rows that were on their way at the later checkpoint, InFlight, as those come in Now too.
	RowsThen   int64  `json:"rows_then"`
	RowsNow    int64  `json:"rows_now"`
	InFlight   int64  `json:"in_flight,omitempty"`
	DigestThen string `json:"digest_then,omitempty"`
	DigestNow  string `json:"digest_now,omitempty"`
	// By is what was compared: "rows", or the state that the rows are made from.
	By string `json:"by,omitempty"`
	// Why says why it is not verified, or what it would take.
	Why []string `json:"why,omitempty"`
	// Changes are the cells of a table of results, or the entries of the state, that differ: old as they were
	// sealed, new as they are computed now. More counts those beyond the limit.
	Changes []CellChange `json:"changes,omitempty"`
	More    int64        `json:"more,omitempty"`
}

// ReplayState is how a state of an operator compares.
type ReplayState struct {
	Operator string        `json:"operator"`
	State    string        `json:"state"`
	Verdict  ReplayVerdict `json:"verdict"`
	Entries  int64         `json:"entries"` // at the later checkpoint
	Differ   int64         `json:"differ,omitempty"`
	node     int
	opaque   bool         // entries differ that have no readable form
	Changes  []CellChange `json:"changes,omitempty"`
}

// Differs reports whether something was found that should not be.
func (r *ReplayReport) Differs() bool {
	return slices.ContainsFunc(r.Sinks, func(s ReplaySink) bool { return s.Verdict == ReplayDiffers })
}

// replayJob is a job of a script whose interval is computed again.
type replayJob struct {
	*scriptJob
	o    job.Options
	from *checkpoint.Snapshot
	to   *checkpoint.Snapshot
	dir  string // of copies and of state
}

// Replay computes the interval between two checkpoints of the jobs of a script again, without touching any target or
// lock, and compares with what was sealed then. Jobs without two checkpoints are an error, unless another has them.
func (e *Engine) Replay(ctx context.Context, name, text string, o ReplayOptions, h Handler) ([]ReplayReport, error) {
	jobs, err := e.replayJobs(ctx, name, text, h)
	if err != nil {
		return nil, err
	}
	var out []ReplayReport
	var errs []error
	for _, j := range jobs {
		if o.Job != "" && o.Job != j.name {
			continue
		}
		if err := e.interval(ctx, j, o); err != nil {
			errs = append(errs, fmt.Errorf("job %s: %w", j.name, err))
			continue
		}
		if j, err = e.asThen(ctx, name, text, j, h); err != nil {
			return nil, err
		}
		if h.Warn != nil {
			for _, n := range j.p.Nodes {
				if s, ok := n.Op.(*plan.Sink); ok {
					for _, why := range clocksOf(j.p, n) {
						h.Warn(fmt.Sprintf("table %s %s; where it differs it is not verified", s.Table.Name, why))
					}
				}
			}
		}
		r, err := e.replay(ctx, j, o)
		if err != nil {
			return out, fmt.Errorf("job %s, from checkpoint %d to %d: %w", j.name, j.from.Manifest.ID, j.to.Manifest.ID, err)
		}
		out = append(out, *r)
	}
	if len(out) == 0 && len(errs) == 0 {
		var names []string
		for _, j := range jobs {
			names = append(names, j.name)
		}
		return nil, fmt.Errorf("the script has no job %s; there are %s", o.Job, strings.Join(names, ", "))
	}
	if len(out) > 0 {
		for _, err := range errs {
			if h.Warn != nil {
				h.Warn(err.Error())
			}
		}
		return out, nil
	}
	return nil, errors.Join(errs...)
}

// replayJobs plans the jobs of a script that can take checkpoints, and finds out what they are called.
func (e *Engine) replayJobs(ctx context.Context, name, text string, h Handler) ([]*replayJob, error) {
	var out []*replayJob
	var jobs []*scriptJob
	n := 0
	err := e.plan(&source{name: name, text: text}, func(s *sql.Session, r *sql.Result) error {
		j, err := e.newScriptJob(n, r.Plan, s.Config())
		n++
		if err != nil || j == nil {
			return err
		}
		j.o.From = ""
		jobs = append(jobs, j)
		out = append(out, &replayJob{scriptJob: j, o: e.jobOptions(s, s.Config(), h)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, errors.New("no job of the script takes checkpoints, so there is nothing to replay from; " +
			"SET 'execution.checkpointing.interval' = '10 s' and 'execution.checkpointing.num-retained' = '2'")
	}
	return out, e.settle(ctx, jobs, 0, func(string) {})
}

// asThen plans a job as it was planned then, where its parallelism was another: rows may be on their way between the
// two phases of an aggregation, which one subtask does not have.
func (e *Engine) asThen(ctx context.Context, name, text string, j *replayJob, h Handler) (*replayJob, error) {
	par := max(j.from.Manifest.Parallelism, j.to.Manifest.Parallelism)
	if par == j.par {
		return j, nil
	}
	then := *e
	if then.o.Override = maps.Clone(e.o.Override); then.o.Override == nil {
		then.o.Override = map[string]string{}
	}
	then.o.Override[catalog.KeyParallelism] = strconv.Itoa(par)
	jobs, err := then.replayJobs(ctx, name, text, h)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(jobs, func(x *replayJob) bool { return x.at == j.at })
	jobs[i].name, jobs[i].from, jobs[i].to = j.name, j.from, j.to
	return jobs[i], nil
}

// interval finds the two checkpoints of a job.
func (e *Engine) interval(ctx context.Context, j *replayJob, o ReplayOptions) error {
	store, err := e.store(j.scriptJob.dir, j.given)
	if err != nil {
		return &keyError{checkpoint.KeyDir, err}
	}
	repo, err := checkpoint.OpenRepository(ctx, checkpoint.RepositoryOptions{Store: store, Job: j.name, ReadOnly: true})
	if err != nil {
		return err
	}
	defer repo.Close()
	ids := repo.IDs()
	open := func(place string) (*checkpoint.Snapshot, error) {
		if id, err := strconv.ParseInt(place, 10, 64); err == nil {
			if !slices.Contains(ids, id) {
				return nil, fmt.Errorf("there is no checkpoint %d; those that are kept are %s", id, listOf(ids))
			}
			place = object.Join(j.folder(), checkpoint.PlaceOf(id))
		}
		return e.snapshot(ctx, place, j.given)
	}
	if o.To == "" {
		if len(ids) == 0 {
			return fmt.Errorf("it has no checkpoint in %s yet", j.folder())
		}
		o.To = strconv.FormatInt(ids[len(ids)-1], 10)
	}
	if j.to, err = open(o.To); err != nil {
		return fmt.Errorf("--to %s: %w", o.To, err)
	}
	to := j.to.Manifest
	if o.From != "" {
		if j.from, err = open(o.From); err != nil {
			return fmt.Errorf("--from %s: %w", o.From, err)
		}
	} else {
		i, _ := slices.BinarySearch(ids, to.ID)
		if i == 0 {
			return fmt.Errorf("only checkpoint %d is kept, and an interval lies between two: SET 'execution.checkpointing.num-retained' = '2' "+
				"(or more) for the job, or give a savepoint of the same run with --from", to.ID)
		}
		if j.from, err = open(strconv.FormatInt(ids[i-1], 10)); err != nil {
			return err
		}
	}
	from := j.from.Manifest
	switch {
	case from.Lineage != to.Lineage:
		return fmt.Errorf("checkpoint %d does not go on from checkpoint %d: between them the job started from elsewhere (lineage %s, then %s)",
			to.ID, from.ID, from.Lineage, to.Lineage)
	case from.ID >= to.ID:
		return fmt.Errorf("checkpoint %d is not before checkpoint %d", from.ID, to.ID)
	case from.Finished:
		return fmt.Errorf("the job had come to its end with checkpoint %d", from.ID)
	}
	return nil
}

func listOf(ids []int64) string {
	if len(ids) == 0 {
		return "none"
	}
	var out []string
	for _, id := range ids {
		out = append(out, strconv.FormatInt(id, 10))
	}
	return strings.Join(out, ", ")
}

// replay runs a job twice and compares.
func (e *Engine) replay(ctx context.Context, j *replayJob, o ReplayOptions) (r *ReplayReport, err error) {
	began := time.Now()
	from, to := j.from.Manifest, j.to.Manifest
	r = &ReplayReport{Job: j.name, job: j, From: pointOf(j.from), To: pointOf(j.to)}
	if j.dir, err = os.MkdirTemp(j.given["io.tmp.dirs"], "tidemark-replay-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(j.dir)
	// Both now: the job beside may drop them any time.
	early, err := copied(ctx, j.from, j.dir, "from")
	if err != nil {
		return nil, err
	}
	late, err := copied(ctx, j.to, j.dir, "to")
	if err != nil {
		return nil, err
	}
	j.prepare(o)
	r.folds, r.flying = foldsOf(j.p), foldsOf(j.p)
	then, err := e.rerun(ctx, j, to, late, r.flying, "then")
	if err != nil {
		return nil, fmt.Errorf("what checkpoint %d has on its way: %w", to.ID, err)
	}
	defer then.close()
	if r.then, err = then.job.Still(ctx); err != nil {
		return nil, fmt.Errorf("what checkpoint %d has on its way: %w", to.ID, err)
	}
	now, err := e.rerun(ctx, j, from, early, r.folds, "now")
	if err != nil {
		return nil, err
	}
	defer now.close()
	r.bounded = now.job.Bounded()
	stop := r.follow(now.job, o.Progress)
	r.now, err = now.job.Still(ctx)
	stop()
	if err != nil {
		return nil, err
	}
	r.Notes = append(then.notes, now.notes...)
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	if err := r.compare(ctx, e, o); err != nil {
		return nil, err
	}
	r.Took = time.Since(began)
	return r, nil
}

func pointOf(s *checkpoint.Snapshot) ReplayPoint {
	return ReplayPoint{ID: s.Manifest.ID, Place: strings.TrimSuffix(s.Location, "/manifest"), Started: s.Manifest.Started}
}

// prepare makes the job's plan and options those of a dry run.
func (j *replayJob) prepare(o ReplayOptions) {
	j.prints = plan.Fingerprints(j.p) // of the plan with its sinks
	dry(j.p)
	at := j.to.Manifest.Started
	env := *j.o.Env
	env.Now = func() time.Time { return at } // what is measured by the clock is not verified; but let it not run on
	j.o.Env = &env
	j.o.StateMemory = j.scriptJob.o.StateMemory
	j.o.MaxParallelism = j.maxPar
	if j.o.Parallelism = o.Parallelism; o.Parallelism < 1 {
		j.o.Parallelism = 1
	}
	for _, n := range j.p.Nodes {
		if j.o.Parallelism == 1 || ordered(j.p) {
			n.Parallelism = 1
		}
	}
	if ordered(j.p) {
		j.o.Parallelism = 1 // what waits for its turn between subtasks would wait in the end
	}
}

func ordered(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Nodes, func(n *plan.Node) bool {
		return slices.ContainsFunc(n.Inputs, func(e plan.Edge) bool { return e.Ordered })
	})
}
