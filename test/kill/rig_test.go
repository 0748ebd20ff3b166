package kill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// phases are where jobs are killed, each equally often. The second number bounds which passing of a
// place it is: it takes about three checkpoints.
var phases = []struct {
	name string
	upTo int
}{
	{"anywhere", 1500}, // ms after the start, by a signal from outside
	{"cut", 6}, {"sealed", 6}, {"manifest", 6}, {"commit", 6}, {"restore", 3},
}

// rig is a job that is killed again and again.
type rig struct {
	name    string // of the job
	script  string // the file
	defines map[string]string
	args    []string
	rand    *rand.Rand
	points  map[string]int // kills, by place
	phases  map[string]int
	slow    int // starts that a server which was away made fail, and that were repeated
	// commits are the places within a commit of the job's sinks, which take turns.
	commits []string
	atLeast bool // rows may be there more than once
}

// newRig writes the script of a job. Words in ${} of it are defines; CHECKPOINTS is a folder unless
// defined.
func newRig(t testing.TB, name, sql string, defines map[string]string) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{name: name, script: filepath.Join(dir, name+".sql"), defines: maps.Clone(defines),
		rand: rand.New(rand.NewPCG(4, uint64(len(name)))), points: map[string]int{}, phases: map[string]int{}}
	if r.defines["CHECKPOINTS"] == "" {
		r.defines["CHECKPOINTS"] = filepath.Join(dir, "checkpoints")
	}
	if err := os.WriteFile(r.script, []byte(sql), 0o644); err != nil {
		t.Fatal(err)
	}
	return r
}

// start starts the job. at is where it is to be killed, "" for nowhere.
func (r *rig) start(t testing.TB, ctx context.Context, at string, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary, append([]string{"run", r.script}, args...)...)
	for _, k := range slices.Sorted(maps.Keys(r.defines)) {
		cmd.Args = append(cmd.Args, "--define", k+"="+r.defines[k])
	}
	cmd.Args = append(cmd.Args, r.args...)
	cmd.Env = append(os.Environ(), "TIDEMARK_KILL_AT="+at)
	cmd.WaitDelay = 10 * time.Second
	log := &output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, log
}

// output is what a process has said so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// patience is how long something may take that takes a second on a machine with nothing else to do.
const patience = 4 * time.Minute

// excused reports whether a process that ended with a text may have done so because a server was away. That
// starts it again, and forgives nothing else.
func excused(text string) bool { return servers.Excuses(text) || house.Excuses(text) }

var killedAt = regexp.MustCompile(`(?m)^killed at (\S+)$`)

// kill starts the job, which is killed at the n-th passing of a place or of any of a phase, or n ms
// after the start.
func (r *rig) kill(t testing.TB, phase string, n int) {
	t.Helper()
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		at := fmt.Sprintf("%s:%d", phase, n)
		if phase == "anywhere" {
			at = ""
		}
		from := time.Now()
		cmd, log := r.start(t, ctx, at, "--set", fmt.Sprintf("parallelism.default=%d", 1+r.rand.IntN(3)))
		if phase == "anywhere" {
			timer := time.AfterFunc(time.Duration(n)*time.Millisecond, func() { cmd.Process.Kill() })
			defer timer.Stop()
		}
		err := cmd.Wait()
		late := ctx.Err() != nil
		cancel()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		m := killedAt.FindStringSubmatch(log.String())
		switch {
		case late:
			t.Fatalf("%s: not killed at %s:%d within %.0f s\n%s", r.name, phase, n, time.Since(from).Seconds(), peers.Tail(log.String()))
		case status.Signal() == syscall.SIGKILL && phase == "anywhere":
			r.points["anywhere"]++
		case status.Signal() == syscall.SIGKILL && m != nil:
			r.points[m[1]]++
		case try < 300 && excused(log.String()):
			r.slow++
			time.Sleep(time.Second)
			continue
		default:
			t.Fatalf("%s: ended by itself instead of being killed at %s:%d: %v\n%s", r.name, phase, n, err, peers.Tail(log.String()))
		}
		if strings.Contains(log.String(), "BUG") {
			t.Errorf("%s: %s", r.name, peers.Tail(log.String()))
		}
		name, _, _ := strings.Cut(phase, "/")
		r.phases[name]++
		return
	}
}

// killOften kills the job n times, in all phases. between is called after each.
func (r *rig) killOften(t testing.TB, n int, between func(done int)) {
	t.Helper()
	r.kill(t, "manifest", 1) // so that there is a checkpoint to restore
	for i := 1; i < n; i++ {
		p := phases[i%len(phases)]
		place := p.name
		if place == "commit" {
			place = r.commits[i/len(phases)%len(r.commits)]
		}
		r.kill(t, place, 1+r.rand.IntN(p.upTo))
		if between != nil {
			between(i)
		}
	}
}

// finish runs the job until progress says that all n rows are through, and then drains it.
func (r *rig) finish(t testing.TB, n int, progress func() int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for try := 0; ; try++ {
		have, log, err := r.drain(t, ctx, n, progress)
		switch {
		case err == nil:
			return
		case try > 20 || ctx.Err() != nil || !excused(log):
			t.Fatalf("%s: ended by itself, or in its drain, at %d of %d rows: %v\n%s", r.name, have, n, err, peers.Tail(log))
		}
		r.slow++
		time.Sleep(time.Second)
	}
}

func (r *rig) drain(t testing.TB, ctx context.Context, n int, progress func() int) (have int, said string, err error) {
	t.Helper()
	cmd, log := r.start(t, ctx, "", "--drain")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// Where rows come more than once all may be there before the process knows of signals: it first says what it goes on from.
	for have < n || log.String() == "" {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("before all rows were through")
			}
			return have, log.String(), err
		case <-time.After(300 * time.Millisecond):
		}
		have = progress()
		if have > n && !r.atLeast {
			t.Errorf("%s: %d rows of an input of %d", r.name, have, n)
		}
	}
	cmd.Process.Signal(os.Interrupt)
	err = <-ended
	return have, log.String(), err
}

// whole runs the job to its end, undisturbed but by servers that die.
func (r *rig) whole(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for try := 0; ; try++ {
		cmd, log := r.start(t, ctx, "")
		err := cmd.Wait()
		if err == nil {
			return
		}
		if try > 20 || ctx.Err() != nil || !excused(log.String()) {
			t.Fatalf("%s: %v\n%s", r.name, err, peers.Tail(log.String()))
		}
		r.slow++
		time.Sleep(time.Second)
	}
}

// tell logs the kills.
func (r *rig) tell(t testing.TB) {
	var phases, points []string
	for _, k := range slices.Sorted(maps.Keys(r.phases)) {
		phases = append(phases, fmt.Sprintf("%s %d", k, r.phases[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(r.points)) {
		points = append(points, fmt.Sprintf("%s %d", k, r.points[k]))
	}
	t.Logf("%s: kills by phase: %s", r.name, strings.Join(phases, ", "))
	t.Logf("%s: kills by place: %s; %d starts had to wait for a server", r.name, strings.Join(points, ", "), r.slow)
}

// same compares multisets of rows.
func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	left := map[string]int{}
	for _, l := range want {
		left[l]++
	}
	for _, l := range got {
		left[l]--
	}
	lost, extra := 0, 0
	var some []string
	for _, l := range slices.Sorted(maps.Keys(left)) {
		switch n := left[l]; {
		case n > 0:
			lost += n
		case n < 0:
			extra -= n
		default:
			continue
		}
		if len(some) < 8 {
			some = append(some, fmt.Sprintf("%+d %s", -left[l], l))
		}
	}
	if lost+extra > 0 {
		t.Errorf("%s: %d rows, undisturbed %d: %d are lost, %d are there too often or wrong:\n%s", what, len(got), len(want), lost, extra, strings.Join(some, "\n"))
	}
	if len(want) == 0 {
		t.Errorf("%s: there are no rows, so nothing is compared", what)
	}
	t.Logf("%s: %d rows", what, len(got))
}
