package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/object/objecttest"
)

// world is what is outside of a simulated process: its disk and the targets of its sinks.
type world struct {
	id      string
	job     *testJob
	seed    uint64
	started int        // lives
	r       *rand.Rand // of the process that runs
	bug     string     // planted
	disk    *objecttest.Disk
	life    *life // the process that runs
	targets map[string]*target
	log     []string // what happened, life by life
	// Hooks of other kinds of jobs, nil where there are none: what changes a manifest that was read, and
	// what draws the names of lineages.
	spoils func(m *checkpoint.Manifest)
	token  func() string
}

var worldCount atomic.Int64

func newWorld(j *testJob, seed uint64) *world {
	w := &world{id: strconv.FormatInt(worldCount.Add(1), 10), job: j, seed: seed, disk: objecttest.NewDisk(), targets: map[string]*target{}}
	if err := errors.Join(w.disk.MkdirAll(root), w.disk.SyncDir("/")); err != nil {
		panic(err)
	}
	worlds.Store(w.id, w)
	return w
}

// target returns the target of a table.
func (w *world) target(t *connector.Table) *target {
	o := w.targets[t.Name]
	if o == nil {
		o = newTarget(t)
		w.targets[t.Name] = o
	}
	return o
}

// The places where a process may end, how it ends, and what fails without ending it.
var (
	places = []string{"read", "write", "prepare", "save", "saved", "disk", "commit", "committed", "fetch", "start", "time"}
	faults = []string{"commit fails", "commit is slow", "the answer to a commit is lost", "save fails", "the answer to a save is lost", "save is slow"}
)

// life is one process, from its start to its end.
type life struct {
	w           *world
	checkpoints bool
	finished    bool // the newest checkpoint says so
	empty       bool // the job came to its end in an earlier life: nothing is read any more
	// place and count say where the process ends, "" for nowhere; machine that the machine does too,
	// stop that it is a stop with a savepoint.
	bounded       bool // the sources end, also those of a live job
	place         string
	count         int
	machine, stop bool
	faulty        map[string]bool
	dead          atomic.Bool
	cancel        context.CancelCauseFunc
	stopping      chan struct{}
	drained       chan struct{}
	once          sync.Once
	onceDrained   sync.Once

	mu      sync.Mutex
	seen    map[string]int
	dice    uint64
	sources []*source
	repo    *checkpoint.Repository
}

var (
	errDead      = errors.New("the process has ended")
	errStoreAway = errors.New("the store is away, or its answer is lost")
)

// newLife decides what will happen to the next process; the last one is left alone. What chance decides
// follows from the seed and the number of the process only, not from what happened to those before it.
func (w *world) newLife(last bool) *life {
	w.started++
	w.r = rand.New(rand.NewPCG(w.seed, uint64(w.started)))
	l := &life{w: w, checkpoints: true, faulty: map[string]bool{}, seen: map[string]int{}, stopping: make(chan struct{}), drained: make(chan struct{}),
		dice: w.r.Uint64()}
	if !last {
		l.place = places[w.r.IntN(len(places))]
		most := map[string]int{"read": 60, "write": 40, "prepare": 12, "disk": 150, "time": 100}[l.place]
		if most == 0 {
			most = 4
		}
		l.count = 1 + w.r.IntN(most)
		l.machine = w.r.IntN(3) == 0
		l.stop = (l.place == "read" || l.place == "time") && w.r.IntN(2) == 0
		for _, f := range faults {
			l.faulty[f] = w.r.IntN(8) == 0
		}
	}
	if l.place == "disk" {
		l.w.disk.StopBefore(l.count)
		l.machine = true
	}
	w.life = l
	return l
}

// at is called where the process may end. An error says that it has.
func (l *life) at(place string) error {
	if l.dead.Load() {
		return errDead
	}
	l.mu.Lock()
	l.seen[place]++
	now := l.place == place && l.seen[place] == l.count
	l.mu.Unlock()
	switch {
	case now && l.stop:
		l.once.Do(func() { close(l.stopping) })
	case now:
		l.die()
		return errDead
	}
	return nil
}

// die ends the process: nothing it does from now on has any effect.
func (l *life) die() {
	l.dead.Store(true)
	l.cancel(errDead)
}

func (l *life) allRead() { l.onceDrained.Do(func() { close(l.drained) }) }

// fault draws whether something fails. Each kind of fault has chances of its own, so that it does not
// matter which goroutine asks first.
func (l *life) fault(what string) bool { return l.faulty[what] && l.draw(what, 4) == 0 }

// draw is a number below n, of a series that belongs to what.
func (l *life) draw(what string, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen["draw "+what]++
	h := l.dice
	for _, b := range []byte(what) {
		h = mix(h ^ uint64(b))
	}
	return int(mix(h+uint64(l.seen["draw "+what])) % uint64(n))
}

// root is where the simulated disk is; other paths are those of the operating system.
const root = "/sim"

// mixed is the disk of a process.
type mixed struct{ l *life }

func simulated(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// use returns the disk that a path is on.
func (m mixed) use(path string) (object.FS, error) {
	if m.l.dead.Load() {
		return nil, errDead
	}
	if simulated(path) {
		return m.l.w.disk, nil
	}
	return object.OS{}, nil
}

// after ends the process if the machine has stopped.
func (m mixed) after(err error) error {
	if errors.Is(err, objecttest.ErrStopped) && !m.l.dead.Load() {
		m.l.die()
	}
	return err
}

func (m mixed) do(path string, f func(d object.FS) error) error {
	d, err := m.use(path)
	if err != nil {
		return err
	}
	return m.after(f(d))
}

// MkdirAll implements object.FS.
func (m mixed) MkdirAll(dir string) error {
	return m.do(dir, func(d object.FS) error { return d.MkdirAll(dir) })
}

// Create implements object.FS.
func (m mixed) Create(path string) (f object.File, err error) {
	err = m.do(path, func(d object.FS) error { f, err = d.Create(path); return err })
	return file{f, m}, err
}

// Open implements object.FS.
func (m mixed) Open(path string) (f object.File, err error) {
	err = m.do(path, func(d object.FS) error { f, err = d.Open(path); return err })
	return file{f, m}, err
}

// SyncDir implements object.FS.
func (m mixed) SyncDir(dir string) error {
	return m.do(dir, func(d object.FS) error { return d.SyncDir(dir) })
}

// Link implements object.FS.
func (m mixed) Link(from, to string) error {
	if simulated(from) != simulated(to) {
		return &fs.PathError{Op: "link", Path: from, Err: syscall.EXDEV}
	}
	return m.do(from, func(d object.FS) error { return d.Link(from, to) })
}

// Rename implements object.FS.
func (m mixed) Rename(from, to string) error {
	return m.do(from, func(d object.FS) error { return d.Rename(from, to) })
}

// Remove implements object.FS.
func (m mixed) Remove(path string) error {
	return m.do(path, func(d object.FS) error { return d.Remove(path) })
}

// List implements object.FS.
func (m mixed) List(dir string) (names []string, err error) {
	err = m.do(dir, func(d object.FS) error { names, err = d.List(dir); return err })
	return names, err
}

// Stat implements object.FS.
func (m mixed) Stat(path string) (i fs.FileInfo, err error) {
	err = m.do(path, func(d object.FS) error { i, err = d.Stat(path); return err })
	return i, err
}

// Lock implements object.FS.
func (m mixed) Lock(path, note string) (c io.Closer, err error) {
	err = m.do(path, func(d object.FS) error { c, err = d.Lock(path, note); return err })
	return c, err
}

// file is an open file of a process.
type file struct {
	object.File
	m mixed
}

func (f file) alive(do func() error) error {
	if f.m.l.dead.Load() {
		return errDead
	}
	return f.m.after(do())
}

// Write implements object.File.
func (f file) Write(p []byte) (n int, err error) {
	err = f.alive(func() error { n, err = f.File.Write(p); return err })
	return n, err
}

// Sync implements object.File.
func (f file) Sync() error { return f.alive(f.File.Sync) }

// Read implements object.File.
func (f file) Read(p []byte) (n int, err error) {
	err = f.alive(func() error { n, err = f.File.Read(p); return err })
	return n, err
}

// ReadAt implements object.File.
func (f file) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.alive(func() error { n, err = f.File.ReadAt(p, off); return err })
	return n, err
}

// repository is the job's repository with faults.
type repository struct {
	*checkpoint.Repository
	l *life
}

// Save implements job.Repository.
func (r *repository) Save(ctx context.Context, m *checkpoint.Manifest, paths map[string]string) (checkpoint.Saved, error) {
	l := r.l
	if l.w.bug != "" {
		m = l.plant(m)
	}
	if err := l.at("save"); err != nil {
		if l.w.bug == bugTorn {
			l.tear(m)
		}
		return checkpoint.Saved{}, err
	}
	switch {
	case l.fault("save fails"):
		return checkpoint.Saved{}, errStoreAway
	case l.fault("save is slow"):
		time.Sleep(time.Duration(l.draw("delay of a save", 100)) * time.Millisecond)
	}
	saved, err := r.Repository.Save(ctx, m, paths)
	if err != nil {
		return saved, err
	}
	if err := l.at("saved"); err != nil {
		return saved, err
	}
	if l.fault("the answer to a save is lost") {
		return saved, errStoreAway
	}
	return saved, nil
}

// Fetch implements job.Repository.
func (r *repository) Fetch(ctx context.Context, f checkpoint.File, path string) error {
	if err := r.l.at("fetch"); err != nil {
		return err
	}
	return r.Repository.Fetch(ctx, f, path)
}

var _ job.Repository = (*repository)(nil)

// results are the rows of all targets, in the order of tables.
func (w *world) results() (out []string) {
	var names []string
	for n := range w.targets {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		for _, r := range w.targets[n].result() {
			out = append(out, n+": "+r)
		}
	}
	return out
}

// commits counts the commits that targets have taken.
func (w *world) commits() (n int) {
	for _, t := range w.targets {
		t.mu.Lock()
		n += len(t.seen)
		t.mu.Unlock()
	}
	return n
}

// wrong is what targets have noticed.
func (w *world) wrong() (out []string) {
	for _, t := range w.targets {
		out = append(out, t.bad...)
	}
	return out
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

var folder = filepath.Join(root, "checkpoints")
