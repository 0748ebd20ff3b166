package golden

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector/print"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/vec"
)

var (
	restarts    = flag.Int("restarts", 1, "how many runs with stops and restarts in the middle each case gets; TIDEMARK_GOLDEN_RESTARTS says the same")
	restartSeed = flag.Uint64("restart-seed", 1, "the first seed of the runs with restarts")
)

// TestRestart runs the jobs of each case with stops in the middle: after so many reads the job is
// stopped with a savepoint, and goes on from it at another parallelism, until its input ends. Rows,
// late rows and books must be those of a run without a stop. Where it is stopped, and what the
// parallelisms are, follows from the case's name and the seed.
func TestRestart(t *testing.T) {
	n := *restarts
	if s := os.Getenv("TIDEMARK_GOLDEN_RESTARTS"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatal("TIDEMARK_GOLDEN_RESTARTS:", err)
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	var mu sync.Mutex
	skipped := map[string]int{}
	cases, stops := 0, 0
	t.Run("files", func(t *testing.T) {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txt")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				_, cs := parseCases(string(raw))
				for _, c := range cs {
					why, did := "", 0
					t.Run(c.name, func(t *testing.T) {
						if why = notRestarted(c); why == "" {
							did, why = restartCase(t, name, c, n)
						}
						if why != "" {
							t.Skip(why)
						}
					})
					mu.Lock()
					if why != "" {
						skipped[why]++
					} else {
						cases++
						stops += did
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d cases with %d stops in the middle", cases, stops)
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		t.Logf("%d cases left out: %s", skipped[why], why)
	}
	if cases == 0 {
		t.Error("no case was run")
	}
}

// Why cases are left out.
const (
	skipError   = "an error is expected"
	skipProc    = "results that follow the wall clock differ from run to run"
	skipNoJob   = "no job with a source that a checkpoint is taken of"
	skipOnly    = "the case allows one parallelism only"
	skipLetters = "dead letters need the engine"
)

// notRestarted says why a case is not run with restarts, "" if it is.
func notRestarted(c *testCase) string {
	only, _ := c.get("only")
	_, fails := c.get("error")
	text := strings.ToUpper(c.sql)
	switch {
	case fails:
		return skipError
	case strings.HasPrefix(only, "parallelism 1:"):
		return skipOnly
	case strings.Contains(text, "PROCTIME") || strings.Contains(text, "ON-PERIODIC"):
		return skipProc
	case strings.Contains(text, "DEAD-LETTER.TABLE"):
		return skipLetters
	}
	return ""
}

// restartCase runs a case n times. It returns the number of stops, and why there was nothing to stop.
func restartCase(t *testing.T, file string, c *testCase, n int) (stops int, why string) {
	h := fnv.New64a()
	h.Write([]byte(file + "/" + c.name))
	for seed := *restartSeed; seed < *restartSeed+uint64(n); seed++ {
		dir := t.TempDir()
		writeSections(t, c, dir)
		r := &restarting{t: t, dir: dir, out: filepath.Join(dir, "out"), rng: rand.New(rand.NewPCG(seed, h.Sum64())), folded: map[string]int{}}
		o := r.script(c.sql)
		if r.jobs == 0 {
			return 0, skipNoJob
		}
		stops += r.stops
		compare(t, c, fmt.Sprintf("restarted (-restart-seed %d: %s)", seed, strings.Join(r.log, "; ")), o)
	}
	return stops, ""
}

// writeSections writes the input files of a case.
func writeSections(t *testing.T, c *testCase, dir string) {
	for _, s := range c.sections {
		switch s.name {
		case "rows", "error", "late", "only":
			continue
		}
		p := filepath.Join(dir, s.name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		text := s.text
		if text != "" {
			text += "\n"
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// restarting runs a script, and its jobs with stops.
type restarting struct {
	t           *testing.T
	dir, out    string
	rng         *rand.Rand
	session     *sql.Session
	mu          sync.Mutex
	folded      map[string]int // guarded by mu
	late        int64
	errs        string
	jobs, stops int
	log         []string
}

func (r *restarting) script(text string) (o outcome) {
	script, err := r.run(text)
	if err != nil {
		r.errs += strings.ReplaceAll(err.Error(), r.dir, "${DIR}")
	}
	return gathered(r.folded, script, r.errs, r.late, r.dir, r.out)
}

// run executes the statements.
func (r *restarting) run(text string) (script []string, err error) {
	text, _, err = parse.SubstituteMapped(text, map[string]string{"DIR": r.dir, "OUT": r.out})
	if err != nil {
		return nil, err
	}
	stmts, err := parse.Script(text)
	if err != nil {
		return nil, err
	}
	r.session = sql.NewSession(sql.SessionOptions{File: "case.sql", Text: text, Seed: 1,
		Now: func() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) }})
	if err := r.session.Config().Set("table.local-time-zone", "UTC"); err != nil {
		return nil, err
	}
	for _, st := range stmts {
		res, err := r.session.Execute(st)
		if err != nil {
			return script, err
		}
		if res.Plan == nil {
			script = append(script, tableRows(res.Rows)...)
			continue
		}
		if err := r.job(res.Plan); err != nil {
			return script, err
		}
	}
	return script, nil
}

// job runs a plan to the end of its input, with stops where it reads something and keeps state.
func (r *restarting) job(p *plan.Plan) error {
	cfg := r.session.Config()
	var text *print.Text
	reads := false
	for _, n := range p.Nodes {
		switch o := n.Op.(type) {
		case *plan.Source:
			reads = true
			n.Op = throttle(o, r.dir)
		case *plan.Sink:
			if o.Collect {
				var err error
				if text, err = print.NewText(n.Schema, cfg.Env()); err != nil {
					return err
				}
			}
		}
	}
	o := job.Options{Env: cfg.Env(), Seed: 1, IdleTimeout: -1, Stdout: nowhere{}, Stderr: nowhere{}, Resolve: func(p string) string {
		if filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(r.dir, p)
	}}
	o.Collect = func(_ *plan.Node, b *vec.Batch) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		foldRows(r.folded, text, b)
		return nil
	}
	o.MaxParallelism = int(cfg.Int("pipeline.max-parallelism"))
	o.WatermarkInterval = cfg.Duration("pipeline.auto-watermark-interval")
	checkpoints := reads && !p.Batch
	if checkpoints {
		r.jobs++
	}
	repo := newMemory()
	for first := true; ; first = false {
		o.Parallelism, o.BatchRows = 1+r.rng.IntN(3), []int{1, 2, 0}[r.rng.IntN(3)]
		// No budget for state in memory, one that is never used up, one that always is.
		o.StateMemory = []int64{0, 1 << 20, 1}[r.rng.IntN(3)]
		left := -1
		if checkpoints {
			// Cases are small: most stops come after few reads.
			if left = r.rng.IntN(1 << (1 + r.rng.IntN(5))); first && left == 0 {
				left = 1
			}
			var err error
			if o.Checkpoints, err = repo.options(p, o.MaxParallelism, r.t.TempDir()); err != nil {
				return err
			}
		}
		stopped, err := r.start(p, o, left)
		if err != nil || !stopped {
			return err
		}
		r.stops++
	}
}

// start runs p until its input ends or, unless left is negative, so many reads were made.
func (r *restarting) start(p *plan.Plan, o job.Options, left int) (stopped bool, err error) {
	v := newValve(left)
	valves.Store(r.dir, v)
	defer valves.Delete(r.dir)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	j, err := job.Start(ctx, p, o)
	if err != nil {
		return false, err
	}
	go func() {
		select {
		case <-v.shut:
			j.Stop()
		case <-j.Done():
		}
	}()
	rep, err := j.Wait()
	if rep == nil {
		return false, err
	}
	r.log = append(r.log, fmt.Sprintf("parallelism %d, batch %d, memory %d, %d reads", o.Parallelism, o.BatchRows, o.StateMemory, left))
	if err != nil {
		return false, err
	}
	if rep.Stopped {
		return true, nil
	}
	r.late += rep.Late
	for _, u := range rep.Unbalanced {
		r.errs += "the books do not balance: " + u + "\n"
	}
	return false, nil
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// memory keeps checkpoints in memory, as bytes.
type memory struct {
	mu     sync.Mutex
	newest []byte
	files  map[string][]byte
}

func newMemory() *memory { return &memory{files: map[string][]byte{}} }

// Save implements job.Repository.
func (r *memory) Save(_ context.Context, m *checkpoint.Manifest, paths map[string]string) (checkpoint.Saved, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range slices.Concat(m.Files, m.Segments) {
		if r.files[f.Object] != nil {
			continue
		}
		b, err := os.ReadFile(paths[f.Object])
		if err != nil {
			return checkpoint.Saved{}, err
		}
		r.files[f.Object] = b
	}
	b, err := checkpoint.EncodeManifest(m, "test")
	r.newest = b
	return checkpoint.Saved{}, err
}

// Drop implements job.Repository.
func (r *memory) Drop(context.Context, int64) error { return nil }

// Fetch implements job.Repository.
func (r *memory) Fetch(_ context.Context, f checkpoint.File, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.files[f.Object]
	if !ok {
		return fmt.Errorf("no file %s", f.Object)
	}
	return os.WriteFile(path, b, 0o644)
}

// options are those of a start of p from the newest checkpoint, as the engine makes them.
func (r *memory) options(p *plan.Plan, maxPar int, work string) (*job.CheckpointOptions, error) {
	prints := plan.Fingerprints(p)
	o := &job.CheckpointOptions{Repo: r, Job: "case", Lineage: "l1", WorkDir: work, Fingerprints: prints,
		Coordinator: checkpoint.CoordinatorOptions{Timeout: 20 * time.Second, Retained: 1}}
	if r.newest == nil {
		return o, nil
	}
	m, err := checkpoint.DecodeManifest(r.newest, "newest")
	if err != nil {
		return nil, err
	}
	states, err := job.States(p)
	if err != nil {
		return nil, err
	}
	report, err := checkpoint.Match(m, prints, states)
	if err == nil {
		err = report.Dropped(false)
	}
	if err != nil {
		return nil, err
	}
	o.Resumed.Last = m.ID
	o.From, o.Recover = m, m
	o.Operators, o.Nodes = map[int]*checkpoint.Operator{}, map[int]*plan.Node{}
	for node, old := range report.Taken() {
		o.Operators[node] = old
		o.Nodes[old.Node] = p.Nodes[node]
	}
	return o, nil
}

var _ job.Repository = (*memory)(nil)
