package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// A script may hold several jobs, and be changed between two runs. Which checkpoints each job goes on
// with is found before the first of them starts: by what it computes, then by the tables that it
// writes. So INSERTs may be added, left out and put in another order. The folders of checkpoints are
// called after the script, the second and later ones with a number, and stay as they are.

// scriptJob is a job of a script that takes checkpoints, before it runs.
type scriptJob struct {
	at     int // number of its statement in the script
	p      *plan.Plan
	prints []plan.Fingerprint
	o      checkpoint.Options
	given  map[string]string
	maxPar int
	par    int
	base   string // what its folder is called, but for a number
	dir    string // where checkpoints go

	name   string               // of its folder
	newest *checkpoint.Manifest // its newest checkpoint; nil: none that can be read
	// unsettled says that the job came to its end with newest and may have output to be committed.
	unsettled bool
	run       *checkpoint.ScriptRun
	// done says that the job came to its end in the run of the script that this one goes on with.
	done bool
}

// newScriptJob is nil for a job that can take no checkpoints.
func (e *Engine) newScriptJob(at int, p *plan.Plan, cfg *catalog.Config) (*scriptJob, error) {
	if !takesCheckpoints(p) {
		return nil, nil
	}
	j := &scriptJob{at: at, p: p, given: cfg.All(), maxPar: maxParallelism(cfg), par: max(1, int(cfg.Int("parallelism.default")))}
	var err error
	if j.o, err = checkpoint.ReadOptions(j.given); err != nil {
		return nil, err
	}
	if e.o.Recovery.From != "" {
		j.o.From = e.o.Recovery.From
	}
	j.o.AllowDropped = j.o.AllowDropped || e.o.Recovery.AllowDropped
	j.prints = plan.Fingerprints(p)
	j.base, j.dir = homeOf(p, j.o)
	return j, nil
}

// takes reports whether the job takes checkpoints.
func (j *scriptJob) takes() bool {
	return j.o.Coordinator.Interval > 0 || j.o.SavepointDir != "" || j.o.From != ""
}

// homeOf names a job that can take checkpoints, and the place of all jobs' checkpoints: by default
// beside the script, however the path to that was typed.
func homeOf(p *plan.Plan, o checkpoint.Options) (name, dir string) {
	name, dir = p.Name, DefaultCheckpoints
	if p.Name == p.File {
		name, dir = filepath.Base(p.File), filepath.Join(filepath.Dir(p.File), DefaultCheckpoints)
	}
	if o.Dir != "" {
		dir = o.Dir
	}
	return name, dir
}

func numbered(base string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s-%d", base, n)
	}
	return base
}

// knownJob is a job that has checkpoints.
type knownJob struct {
	n    int // its number among those of its base
	name string
	m    *checkpoint.Manifest // the newest; nil: it cannot be read
	bad  *checkpoint.Damage   // what is wrong with the newest then
	// unsettled says that the job came to its end with m and may have output to be committed.
	unsettled bool
	of        *scriptJob // that goes on with it
}

// known lists the jobs of a base that have checkpoints. Numbers may be missing, since folders are
// removed by people; of those that follow two missing ones in a row only the first atLeast are found.
func (e *Engine) known(ctx context.Context, j *scriptJob, atLeast int, warn func(string)) ([]*knownJob, error) {
	store, err := e.store(j.dir, j.given)
	if err != nil {
		return nil, &keyError{checkpoint.KeyDir, err}
	}
	tells(store, warn)
	var out []*knownJob
	for n, missing := 1, 0; n <= atLeast || missing < 2; n++ {
		k := &knownJob{n: n, name: numbered(j.base, n)}
		r, err := checkpoint.OpenRepository(ctx, checkpoint.RepositoryOptions{Store: store, Job: k.name, ReadOnly: true})
		if err != nil {
			return nil, err
		}
		var damage []*checkpoint.Damage
		if k.m, damage, err = r.Newest(ctx); err != nil {
			return nil, err
		}
		if k.m == nil && len(damage) == 0 {
			missing++
			continue
		}
		if missing = 0; k.m == nil {
			k.bad = damage[0]
		}
		if k.unsettled, err = r.Unsettled(ctx, k.m); err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// How well a job fits what a checkpoint was taken of.
const (
	fitsNot    = iota
	fitsPartly // it writes one of the tables
	fitsTables // it writes the same tables
	fitsWholly // it writes the same to the same tables
)

// fit compares what a job writes with what the job of a checkpoint wrote.
func (j *scriptJob) fit(m *checkpoint.Manifest) int {
	if m == nil {
		return fitsNot
	}
	var fed, places, oldFed, oldPlaces []string
	for _, f := range j.prints {
		if _, ok := f.Node.Op.(*plan.Sink); ok {
			fed, places = append(fed, f.Fed), append(places, f.Computes)
		}
	}
	for _, s := range m.Sinks {
		oldFed = append(oldFed, s.Fed)
		for i := range m.Operators {
			if o := &m.Operators[i]; o.Node == s.Node {
				oldPlaces = append(oldPlaces, o.Computes)
			}
		}
	}
	for _, l := range [][]string{fed, places, oldFed, oldPlaces} {
		slices.Sort(l)
	}
	switch {
	case slices.Equal(fed, oldFed):
		return fitsWholly
	case slices.Equal(places, oldPlaces):
		return fitsTables
	case slices.ContainsFunc(places, func(p string) bool { return slices.Contains(oldPlaces, p) }):
		return fitsPartly
	}
	return fitsNot
}

// settle finds out what the jobs of a script go on with. With fresh nothing is refused.
func (e *Engine) settle(ctx context.Context, jobs []*scriptJob, later int, warn func(string)) error {
	groups := map[[2]string][]*scriptJob{}
	var order [][2]string
	for _, j := range jobs {
		k := [2]string{j.dir, j.base}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], j)
	}
	for _, k := range order {
		group := groups[k]
		known, err := e.known(ctx, group[0], len(group), warn)
		if err != nil {
			return err
		}
		if err := pair(group, known, e.o.Recovery.Fresh); err != nil {
			return err
		}
		for _, x := range known {
			if x.of == nil && x.m != nil && (!x.m.Finished || x.unsettled) {
				warn(fmt.Sprintf("job %s, which wrote %s, has checkpoint %d in %s, and no INSERT of the script goes on with it",
					x.name, tablesOf(x.m), x.m.ID, group[0].dir))
			}
		}
	}
	e.continueRun(jobs, later)
	return e.belongs(ctx, jobs)
}

// pair names the jobs of one base by those that are known.
func pair(jobs []*scriptJob, known []*knownJob, fresh bool) error {
	if j := jobs[0]; len(jobs) == 1 && j.p.Name != j.p.File {
		j.take(named(known, j.base)) // it was given its name
	}
	for level := fitsWholly; level > fitsNot; level-- {
		for _, j := range jobs {
			if j.name != "" {
				continue
			}
			olds := free(known, func(k *knownJob) bool { return j.fit(k.m) >= level })
			if len(olds) == 0 {
				continue
			}
			var rivals []*scriptJob
			for _, r := range jobs {
				if r.name == "" && slices.ContainsFunc(olds, func(k *knownJob) bool { return r.fit(k.m) >= level }) {
					rivals = append(rivals, r)
				}
			}
			if level == fitsTables && len(rivals) != len(olds) && !fresh {
				return unclear(rivals, olds)
			}
			for i := range min(len(rivals), len(olds)) {
				rivals[i].take(olds[i])
			}
		}
	}
	for _, j := range jobs {
		if j.name != "" {
			continue
		}
		if k := named(known, j.base); len(jobs) == 1 && k != nil && k.of == nil {
			j.take(k) // what there is of its state is for people to judge
			continue
		}
		if bad := free(known, func(k *knownJob) bool { return k.bad != nil }); len(bad) > 0 && !fresh {
			// It may be this one's: starting from nothing would write everything again.
			return &connector.Fatal{Err: fmt.Errorf("whose checkpoint this is, and so where the INSERT that writes %s goes on, "+
				"is not known (--fresh starts all jobs of the script from nothing): %w", strings.Join(j.tables(), " and "), bad[0].bad)}
		}
		for n := 1; j.name == ""; n++ {
			name := numbered(j.base, n)
			if named(known, name) == nil && !slices.ContainsFunc(jobs, func(o *scriptJob) bool { return o.name == name }) {
				j.name = name
			}
		}
	}
	return nil
}

// tables lists what the job writes.
func (j *scriptJob) tables() (out []string) {
	for _, f := range j.prints {
		if sink, ok := f.Node.Op.(*plan.Sink); ok && sink.Table != nil {
			out = append(out, "table "+sink.Table.Name)
		}
	}
	return out
}

func (j *scriptJob) take(k *knownJob) {
	if k != nil {
		j.name, j.newest, j.unsettled, k.of = k.name, k.m, k.unsettled, j
	}
}

func named(known []*knownJob, name string) *knownJob {
	if i := slices.IndexFunc(known, func(k *knownJob) bool { return k.name == name }); i >= 0 {
		return known[i]
	}
	return nil
}

// free lists the known jobs that nobody has taken and that hold.
func free(known []*knownJob, holds func(*knownJob) bool) (out []*knownJob) {
	for _, k := range known {
		if k.of == nil && holds(k) {
			out = append(out, k)
		}
	}
	return out
}

// unclear says that it is not known which job goes on with which checkpoint.
func unclear(jobs []*scriptJob, olds []*knownJob) error {
	var names []string
	for _, k := range olds {
		names = append(names, fmt.Sprintf("%s (checkpoint %d)", k.name, k.m.ID))
	}
	what := "an INSERT writes " + tablesOf(olds[0].m)
	if len(jobs) > 1 {
		what = fmt.Sprintf("%d INSERTs write %s", len(jobs), tablesOf(olds[0].m))
	}
	return fmt.Errorf("%s, and none computes what %s did, so it is not known which goes on with which checkpoint; SET 'pipeline.name' = '%s' "+
		"before the one that goes on with that, and another name before each other one, or start with --fresh",
		what, strings.Join(names, " or "), olds[0].name)
}

// tablesOf lists what the job of a checkpoint wrote.
func tablesOf(m *checkpoint.Manifest) string {
	var out []string
	for _, s := range m.Sinks {
		if t := "table " + s.Table; !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, " and ")
}

// continueRun finds out whether the latest run of the script had come to its end. If not, it is gone
// on with: jobs that had ended in it do not start again. later is how many jobs stand in the script from
// its first mistake on: they belong to the run, which ends when the mistake is mended and they have run.
func (e *Engine) continueRun(jobs []*scriptJob, later int) {
	if len(jobs)+later < 2 && (len(jobs) == 0 || jobs[0].newest == nil || jobs[0].newest.Run == nil) {
		return
	}
	run := &checkpoint.ScriptRun{ID: newRun(), Jobs: len(jobs) + later}
	var latest *checkpoint.Manifest
	for _, j := range jobs {
		if m := j.newest; m != nil && m.Run != nil && (latest == nil || m.Started.After(latest.Started)) {
			latest = m
		}
	}
	if latest != nil && !e.o.Recovery.Fresh {
		ended, others := 0, 0
		goesOn := false
		for _, j := range jobs {
			switch m := j.newest; {
			case m == nil || m.Run == nil || m.Run.ID != latest.Run.ID:
				others++
			case m.Finished && !j.unsettled:
				ended++
			default:
				goesOn = true
			}
		}
		// A job that has no checkpoint of that run had not come to its turn.
		if goesOn || others > 0 && ended < latest.Run.Jobs {
			run.ID = latest.Run.ID
		}
	}
	for _, j := range jobs {
		j.run = run
		j.done = ended(j.newest, run)
	}
}

// ended reports whether a job came to its end with m in a run of a script.
func ended(m *checkpoint.Manifest, run *checkpoint.ScriptRun) bool {
	return m != nil && m.Finished && run != nil && m.Run != nil && m.Run.ID == run.ID
}

func newRun() string {
	var b [8]byte
	rand.Read(b[:]) // it never returns an error
	return hex.EncodeToString(b[:])
}

// belongs leaves the savepoint to start from to the job that it is of.
func (e *Engine) belongs(ctx context.Context, jobs []*scriptJob) error {
	seen := map[string]bool{}
	for _, j := range jobs {
		place := j.o.From
		if place == "" || seen[place] {
			continue
		}
		seen[place] = true
		var among []*scriptJob
		for _, o := range jobs {
			if o.o.From == place {
				among = append(among, o)
			}
		}
		owner := among[0]
		if len(among) > 1 {
			snap, err := e.snapshot(ctx, place, j.given)
			if err != nil {
				return err
			}
			if owner, err = ownerOf(snap, among); err != nil {
				return err
			}
		}
		for _, o := range among {
			if o != owner {
				o.o.From = ""
			} else {
				o.done = false
			}
		}
	}
	return nil
}

// ownerOf finds the job that a savepoint is of.
func ownerOf(s *checkpoint.Snapshot, jobs []*scriptJob) (*scriptJob, error) {
	best := fitsNot
	var owners []*scriptJob
	for _, j := range jobs {
		switch f := j.fit(s.Manifest); {
		case f == fitsNot || f < best:
		case f > best:
			best, owners = f, []*scriptJob{j}
		default:
			owners = append(owners, j)
		}
	}
	// Of several that fit the name decides, unless that was only given to a new job.
	named := func(j *scriptJob) bool { return j.name == s.Manifest.Job && (best == fitsWholly || j.newest != nil) }
	if i := slices.IndexFunc(owners, named); len(owners) > 1 && i >= 0 {
		owners = owners[i : i+1]
	}
	where := strings.TrimSuffix(s.Location, "/manifest")
	switch len(owners) {
	case 0:
		return nil, fmt.Errorf("%s is of job %s, which wrote %s, and no INSERT of the script does; to start one from it all the same, "+
			"SET '%s' = '%[1]s' before that one", where, s.Manifest.Job, tablesOf(s.Manifest), checkpoint.KeyFrom)
	case 1:
		return owners[0], nil
	}
	return nil, fmt.Errorf("%s is of job %s, which wrote %s, and %d INSERTs of the script do, so it is not known which one starts from it; "+
		"SET '%s' = '%[1]s' before that one, and RESET it behind", where, s.Manifest.Job, tablesOf(s.Manifest), len(owners), checkpoint.KeyFrom)
}

// makesJob reports whether a statement makes a job that may take checkpoints.
func makesJob(st ast.Statement) bool {
	switch st.(type) {
	case *ast.Insert, *ast.StatementSet:
		return true
	}
	return false
}

// ahead plans the jobs of a script before it runs, in a session of its own in which past was executed,
// and finds out what they go on with. A mistake in the text ends it: the run meets that too.
func (e *Engine) ahead(ctx context.Context, name, text string, past, stmts []ast.Statement, warn func(string)) (map[int]*scriptJob, error) {
	s, err := e.session(name, text, Handler{})
	if err != nil {
		return nil, err
	}
	var jobs []*scriptJob
	all := slices.Concat(past, stmts)
	mistaken := len(all) // the first statement that cannot be understood, yet
	for i, st := range all {
		if _, ok := st.(*ast.QueryStmt); ok || e.overridden(st) || !changesSession(st) && !makesJob(st) {
			continue
		}
		res, err := s.Execute(st)
		if err == nil {
			err = e.fixAfter(s, st)
		}
		if err != nil {
			mistaken = i
			break
		}
		if res.Plan == nil {
			continue
		}
		j, err := e.newScriptJob(i-len(past), res.Plan, s.Config())
		if err != nil {
			mistaken = i
			break
		}
		if j != nil && j.takes() {
			jobs = append(jobs, j)
		}
	}
	later := 0
	for _, st := range all[mistaken:] {
		if makesJob(st) {
			later++
		}
	}
	if err := e.settle(ctx, jobs, later, warn); err != nil {
		return nil, err
	}
	out := map[int]*scriptJob{}
	for _, j := range jobs {
		out[j.at] = j
	}
	return out, nil
}

// changesSession reports whether a statement may change what later ones mean.
func changesSession(st ast.Statement) bool {
	switch st.(type) {
	case *ast.QueryStmt, *ast.Insert, *ast.StatementSet, *ast.Explain, *ast.Show, *ast.Describe:
		return false
	}
	return true
}

// folder is the folder of a job's checkpoints, as a place.
func (j *scriptJob) folder() string { return object.Join(j.dir, checkpoint.JobFolder(j.name)) }
