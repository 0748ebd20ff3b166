// Package sim runs whole jobs in one process under a seed: real plans, operators, checkpoints and
// repositories over made-up sources, a disk that keeps only what was synced, and targets that fail,
// answer late, and remember what they were given. Processes end at any point and go on, at another
// parallelism, until the job has come to its end; then what the targets hold must be what they hold
// after a run that nothing happened to; tables of results must hold each revision once, counted without
// gaps, and as many rows as what is said beside them tells. Time is virtual, so a seed takes milliseconds.
//
//	go test ./test/sim -seed 4711        one seed, again
//	go test ./test/sim -seeds 1-10000    many
//
// Where things happen is counted in events, not in time, and what chance decides follows from the seed,
// the number of the process and what it is about, so that a seed repeats itself (see TestRepeats); only
// between channels that are ready at the same time does the language choose.
//
// Planted bugs prove that the simulation finds what it is for: see TestPlanted.
package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed only, and say what happened")
	seedsFlag = flag.String("seeds", "", "run the seeds A-B")
	bugFlag   = flag.String("bug", "", "plant this bug")
)

// lives is the greatest number of processes that a job takes, the last of which nothing happens to.
const lives = 8

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

func TestSim(t *testing.T) {
	from, to := uint64(1), uint64(40)
	if testing.Short() {
		to = 10
	}
	switch {
	case *seedFlag != 0:
		from, to = *seedFlag, *seedFlag
	case *seedsFlag != "":
		if _, err := fmt.Sscanf(*seedsFlag, "%d-%d", &from, &to); err != nil {
			t.Fatal("-seeds is A-B:", err)
		}
	}
	n, ends := 0, map[string]int{}
	for seed := from; seed <= to; seed++ {
		r := simulate(t, seed, *bugFlag)
		n += r.lives
		for _, p := range r.ends {
			ends[p]++
		}
		if len(r.problems) > 0 || *seedFlag != 0 {
			t.Log(r.String())
		}
		if len(r.problems) > 0 {
			t.Errorf("seed %d; repeat it with: go test ./test/sim -run TestSim -seed %d", seed, seed)
		}
	}
	t.Logf("%d seeds, %d processes, ended at %v", to-from+1, n, ends)
}

// TestPlanted plants one bug at a time, and finds each within 200 seeds.
func TestPlanted(t *testing.T) {
	for _, bug := range bugs {
		t.Run(bug, func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				if r := simulate(t, seed, bug); len(r.problems) > 0 {
					t.Logf("found with seed %d: %s", seed, r.problems[0])
					return
				}
			}
			t.Error("not found within 200 seeds")
		})
	}
}

// run is what came of a seed.
type run struct {
	script   string
	lives    int
	log      []string
	ends     []string
	problems []string
	rows     int // of a board: the revisions that came
}

// String is the report of a seed.
func (r *run) String() string {
	return r.script + "\n" + strings.Join(r.log, "\n") + "\n" + strings.Join(r.problems, "\n")
}

// simulate runs a seed.
func simulate(t *testing.T, seed uint64, bug string) *run {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out := &run{}
	synctest.Test(t, func(*testing.T) {
		r := rand.New(rand.NewPCG(seed, 7))
		j := makeJob(r)
		want := newWorld(j, seed)
		defer worlds.Delete(want.id)
		out.script = j.script("N")
		ref, err := want.undisturbed()
		if err != nil {
			out.problems = append(out.problems, "the undisturbed run: "+err.Error())
			return
		}
		w := newWorld(j, seed)
		defer worlds.Delete(w.id)
		w.bug = bug
		got, err := w.disturbed(dir, out)
		out.log = w.log
		if err != nil {
			out.problems = append(out.problems, err.Error())
			return
		}
		out.problems = append(out.problems, slices.Concat(w.wrong(), difference(want.results(), w.results()), books(ref, got))...)
	})
	return out
}

// books compares the accounts; got is nil where the last process found the job at its end.
func books(want, got *job.Report) (out []string) {
	if got == nil {
		return nil
	}
	for _, u := range got.Unbalanced {
		out = append(out, "the books do not balance: "+u)
	}
	if want.RowsRead != got.RowsRead {
		out = append(out, fmt.Sprintf("%d rows were read, %d without the disturbances", got.RowsRead, want.RowsRead))
	}
	if want.Late != got.Late {
		out = append(out, fmt.Sprintf("%d rows were late, %d without the disturbances", got.Late, want.Late))
	}
	return out
}

// difference lists some rows that only one side has.
func difference(want, got []string) (out []string) {
	for _, x := range got {
		if _, ok := slices.BinarySearch(want, x); !ok && len(out) < 6 {
			out = append(out, "too much: "+x)
		}
	}
	for _, x := range want {
		if _, ok := slices.BinarySearch(got, x); !ok && len(out) < 12 {
			out = append(out, "missing: "+x)
		}
	}
	return out
}

// planned is the plan of the job over the tables of w.
func (w *world) planned() (*plan.Plan, error) {
	text := w.job.script(w.id)
	stmts, err := parse.Script(text)
	if err != nil {
		return nil, err
	}
	s := sql.NewSession(sql.SessionOptions{File: "sim.sql", Text: text, Seed: 1, Zone: time.UTC, Now: time.Now})
	for _, st := range stmts {
		res, err := s.Execute(st)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, text)
		}
		if res.Plan != nil {
			return res.Plan, nil
		}
	}
	return nil, errors.New("no job")
}

// undisturbed runs the job to its end, without checkpoints.
func (w *world) undisturbed() (*job.Report, error) {
	l := w.newLife(true)
	l.checkpoints, l.bounded = false, true
	p, err := w.planned()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	j, err := job.Start(ctx, p, job.Options{IdleTimeout: -1})
	if err != nil {
		return nil, err
	}
	return l.attend(j)
}

// attend stops or drains the job when its time has come, and waits for it.
func (l *life) attend(j *job.Job) (*job.Report, error) {
	go func() {
		stopping := l.stopping
		for {
			select {
			case <-stopping:
				j.Stop()
				stopping = nil // it may be refused: then the job goes on
			case <-l.drained:
				j.Drain()
				return
			case <-j.Done():
				return
			}
		}
	}()
	return j.Wait()
}

// disturbed runs the job in as many processes as it takes.
func (w *world) disturbed(dir string, out *run) (*job.Report, error) {
	empty := false
	for n := 1; ; n++ {
		l := w.newLife(n >= lives)
		l.empty = empty
		out.lives++
		rep, over, err := l.run(filepath.Join(dir, fmt.Sprint(n)))
		if l.dead.Load() {
			how := "the process ends at " + l.place
			if l.machine {
				how = "the machine stops at " + l.place
			}
			w.note("  %s %d", how, l.count)
			out.ends = append(out.ends, l.place)
			over, err = false, nil
		}
		if errors.Is(err, errAway) || errors.Is(err, errStoreAway) {
			w.note("  the process fails: %v", err)
			out.ends = append(out.ends, "failure")
			over, err = false, nil
		}
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", n, err)
		}
		if over {
			if l.empty {
				rep = nil
			}
			return rep, nil
		}
		if l.finished {
			empty = true
		}
		if l.machine {
			w.disk = w.disk.Crash(rand.New(rand.NewPCG(w.seed, 1<<32+uint64(n))))
		}
		w.disk.StopBefore(1 << 40)
	}
}

// run is one process: it opens the repository, goes on from the newest checkpoint, and runs the job.
func (l *life) run(dir string) (rep *job.Report, over bool, err error) {
	w := l.w
	// Time passes by itself here. A target that is drawn to be away many times in a row is asked once a minute in the end.
	base, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
	defer cancel()
	ctx, kill := context.WithCancelCause(base)
	defer kill(nil)
	l.cancel = kill
	if l.place == "time" {
		go l.clock(ctx)
	}
	defer os.RemoveAll(dir)
	p, err := w.planned()
	if err != nil {
		return nil, false, err
	}
	o := job.Options{IdleTimeout: -1, Parallelism: 1 + w.r.IntN(4), BatchRows: []int{0, 1, 3, 8}[w.r.IntN(4)],
		StateMemory: []int64{0, 0, 1 << 20, 1}[w.r.IntN(4)], Warn: func(m string) { l.warn(m) }}
	interval := time.Duration(1+w.r.IntN(40)) * time.Millisecond
	r, err := checkpoint.OpenRepository(ctx, checkpoint.RepositoryOptions{Store: object.NewLocal(folder, mixed{l}), Job: "sim", Disk: mixed{l}, Parallel: 1, Draw: w.token})
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	l.repo = r
	c := &job.CheckpointOptions{Repo: &repository{r, l}, Job: "sim", Fingerprints: plan.Fingerprints(p), WorkDir: dir, Program: "sim",
		Coordinator: checkpoint.CoordinatorOptions{Interval: interval, Timeout: time.Minute, Retained: 1 + w.r.IntN(3), TolerableFailures: 1 << 30}}
	o.Checkpoints = c
	if err := l.choose(ctx, r, c, p, o.Parallelism); err != nil {
		return nil, false, err
	}
	if err := l.at("start"); err != nil {
		return nil, false, err
	}
	if l.empty && c.From == nil {
		return l.settle(ctx, r, p, o)
	}
	j, err := job.Start(ctx, p, o)
	if err != nil {
		return nil, false, err
	}
	rep, err = l.attend(j)
	if err != nil {
		return nil, false, err
	}
	drained := false
	select {
	case <-l.drained:
		drained = true
	default:
	}
	switch {
	case rep.Stopped && !drained:
		w.note("  stopped at %s %d", l.place, l.count)
		return rep, false, nil
	case drained && l.place != "":
		// Some of its output may be left to the next start.
		w.note("  drained")
		return rep, false, nil
	}
	return rep, true, nil
}

// settle is a process that finds the job at its end: it commits what is left.
func (l *life) settle(ctx context.Context, r *checkpoint.Repository, p *plan.Plan, o job.Options) (*job.Report, bool, error) {
	m := o.Checkpoints.Recover
	unsettled, err := r.Unsettled(ctx, m)
	if err != nil {
		return nil, false, err
	}
	l.w.note("  unsettled: %v", unsettled)
	before := l.w.commits()
	if err = job.Settle(ctx, p, o); err == nil {
		err = r.End(ctx, m.ID)
	}
	if err != nil {
		return nil, false, err
	}
	if !unsettled && l.w.commits() != before {
		return nil, false, fmt.Errorf("checkpoint %d was not committed, and nothing says so", m.ID)
	}
	if again, err := r.Unsettled(ctx, m); again || err != nil {
		return nil, false, fmt.Errorf("checkpoint %d was committed, and nothing says so: %w", m.ID, err)
	}
	return nil, true, nil
}

// choose finds what the process goes on from, as the engine does.
func (l *life) choose(ctx context.Context, r *checkpoint.Repository, c *job.CheckpointOptions, p *plan.Plan, par int) error {
	w := l.w
	newest, damage, err := r.Newest(ctx)
	switch {
	case err != nil:
		return err
	case len(damage) > 0:
		return damage[0]
	}
	c.Resumed = checkpoint.Resumed{Last: r.Last(), Completed: r.IDs()}
	if newest != nil {
		l.spoil(newest, par)
	}
	switch {
	case newest == nil:
		w.note("parallelism %d: starts for the first time", par)
	case newest.Finished:
		w.note("parallelism %d: the job has come to its end with checkpoint %d", par, newest.ID)
		l.empty, l.finished = true, true
		c.Recover = newest
	default:
		w.note("parallelism %d: goes on from checkpoint %d, parallelism %d", par, newest.ID, newest.Parallelism)
		c.Lineage, c.From, c.Recover = newest.Lineage, newest, newest
	}
	if c.From == nil {
		c.Lineage, err = r.NewLineage(ctx)
		return err
	}
	states, err := job.States(p)
	if err != nil {
		return err
	}
	report, err := checkpoint.Match(newest, c.Fingerprints, states)
	if err == nil {
		err = report.Dropped(false)
	}
	if err != nil {
		return err
	}
	c.Operators, c.Nodes = map[int]*checkpoint.Operator{}, map[int]*plan.Node{}
	for node, old := range report.Taken() {
		c.Operators[node] = old
		c.Nodes[old.Node] = p.Nodes[node]
	}
	return nil
}

// clock ends the process after some time.
func (l *life) clock(ctx context.Context) {
	for range l.count {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return
		}
		if l.at("time") != nil {
			return
		}
	}
}

func (l *life) warn(m string) {
	if *seedFlag != 0 {
		l.mu.Lock()
		l.w.note("  warning: %s", m)
		l.mu.Unlock()
	}
}
