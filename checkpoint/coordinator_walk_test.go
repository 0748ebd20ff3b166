package checkpoint

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var walkSeed = flag.Uint64("walk-seed", 0, "run the random walk of this seed only")

// world is what a coordinator commands, simulated: a store of manifests, a target of output, and
// answers that are late, failures, or never come because the process was killed.
type world struct {
	t    *testing.T
	seed uint64
	rnd  *rand.Rand
	o    CoordinatorOptions
	c    *Coordinator
	now  int64
	log  []string

	store   map[int64][]int64 // manifests in place: their epochs not known to be committed
	known   map[int64]bool    // reported as written by this process, or restored
	applied []int64           // epochs that the target has, in the order it got them
	// Of the process that runs:
	cut, write, commit int64 // waiting for an answer; 0: none
	lastID             int64
	abandoned          bool
	begun, committed   []int64 // epochs
	inWrite            []int64 // epochs of the manifest being written
	timer              int64
	over               bool
	stops              int
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(l)
	}
	w.t.Fatalf("%s\nrerun: go test ./checkpoint -run RandomWalk -walk-seed %d", fmt.Sprintf(format, args...), w.seed)
}

func (w *world) did(event string, actions []Action) {
	w.t.Helper()
	w.log = append(w.log, fmt.Sprintf("%d %s", w.now, event))
	if w.over && len(actions) > 0 {
		w.failf("actions after the end: %v", actions)
	}
	for _, a := range actions {
		w.log = append(w.log, "  "+a.String())
		w.perform(a)
	}
}

// perform checks an action and takes it on.
func (w *world) perform(a Action) {
	w.t.Helper()
	if w.over {
		w.failf("%s after the end", a)
	}
	switch a.Do {
	case DoCut:
		if w.cut != 0 || w.write != 0 {
			w.failf("two in flight")
		}
		if a.ID <= w.lastID {
			w.failf("id %d after %d", a.ID, w.lastID)
		}
		w.lastID, w.cut, w.abandoned = a.ID, a.ID, false
		w.begun = append(w.begun, a.ID)
	case DoWrite:
		if w.write != 0 || a.ID != w.lastID || w.cut != 0 {
			w.failf("writes %d, which was not cut", a.ID)
		}
		w.write = a.ID
		w.inWrite = slices.DeleteFunc(slices.Clone(w.begun), func(e int64) bool { return slices.Contains(w.committed, e) })
	case DoAbandon:
		if a.ID != w.cut && a.ID != w.write || w.abandoned {
			w.failf("abandons %d", a.ID)
		}
		w.abandoned = true
	case DoCommit:
		w.checkCommit(a.ID)
	case DoCommitPositions:
		if !w.known[a.ID] || slices.ContainsFunc(w.begun, func(e int64) bool { return e <= a.ID && !slices.Contains(w.applied, e) }) {
			w.failf("positions of %d ahead of the output", a.ID)
		}
	case DoDrop:
		if _, there := w.store[a.ID]; !there {
			w.failf("keeps from %d on, which is not in place", a.ID)
		}
		maps.DeleteFunc(w.store, func(id int64, _ []int64) bool { return id < a.ID })
	case DoStop:
		if w.cut != 0 || w.write != 0 {
			w.failf("stops in flight")
		}
		w.over = true
		w.stops++
	case DoFail:
		w.over = true
	case DoTimer:
		if w.timer = a.AtMs; a.AtMs <= w.now {
			w.failf("a timer in the past: %d", a.AtMs)
		}
	}
}

func (w *world) checkCommit(id int64) {
	w.t.Helper()
	if w.commit != 0 {
		w.failf("two commits at a time")
	}
	for _, e := range w.begun {
		if e < id && !slices.Contains(w.committed, e) {
			w.failf("commits %d before %d", id, e)
		}
	}
	if slices.Contains(w.committed, id) {
		w.failf("commits %d twice", id)
	}
	held := false
	for m, epochs := range w.store {
		held = held || w.known[m] && slices.Contains(epochs, id)
	}
	if !held {
		w.failf("commits %d, which no manifest in place holds", id)
	}
	w.commit = id
}

// apply is the target's side of a commit: the same epoch again changes nothing.
func (w *world) apply(id int64) {
	if slices.Contains(w.applied, id) {
		return
	}
	if n := len(w.applied); n > 0 && w.applied[n-1] > id {
		w.failf("the target gets %d after %d", id, w.applied[n-1])
	}
	w.applied = append(w.applied, id)
}

// boot starts a process, from the newest manifest that is in place, known or not.
func (w *world) boot() {
	w.cut, w.write, w.commit, w.over, w.timer = 0, 0, 0, false, never
	w.committed, w.begun, w.known = nil, nil, map[int64]bool{}
	r := Resumed{Completed: slices.Sorted(maps.Keys(w.store))}
	newest := int64(0)
	if n := len(r.Completed); n > 0 {
		newest = r.Completed[n-1]
		r.Epochs = slices.Clone(w.store[newest])
		w.begun = slices.Clone(r.Epochs)
		w.known[newest] = true
	}
	// What was computed after the manifest is computed again: none of it may be out already.
	if n := len(w.applied); n > 0 && w.applied[n-1] > newest {
		w.failf("the target has epoch %d, but the newest manifest is %d: rows would come twice", w.applied[n-1], newest)
	}
	r.Last = newest
	w.lastID = newest
	w.c = NewCoordinator(w.o)
	w.did(fmt.Sprintf("boot %+v", r), w.c.Begin(w.now, r))
}

// step lets something happen.
func (w *world) step() {
	why := errors.New("chance")
	late := w.abandoned && w.rnd.IntN(3) > 0
	switch n := w.rnd.IntN(100); {
	case n < 2:
		w.boot() // kill -9
	case w.over:
		w.boot()
	case w.cut != 0 && (late || n < 30):
		id := w.cut
		w.cut = 0
		if w.rnd.IntN(4) == 0 {
			w.did(fmt.Sprint("cut-failed ", id), w.c.CutFailed(w.now, id, why))
		} else {
			w.did(fmt.Sprint("cut-done ", id), w.c.CutDone(w.now, id))
		}
	case w.write != 0 && (late || n < 30):
		id := w.write
		w.write = 0
		failed := w.rnd.IntN(4) == 0
		if !failed || w.rnd.IntN(2) == 0 {
			w.store[id] = w.inWrite
		}
		if failed {
			w.did(fmt.Sprint("write-failed ", id), w.c.WriteFailed(w.now, id, why))
		} else {
			w.known[id] = true
			w.did(fmt.Sprint("written ", id), w.c.Written(w.now, id))
		}
	case w.commit != 0 && n < 60:
		w.answerCommit(w.rnd.IntN(3) == 0, w.rnd.IntN(2) == 0)
	case n < 85:
		w.now += w.rnd.Int64N(1500)
		if w.timer != never && w.rnd.IntN(2) == 0 {
			w.now = max(w.now, w.timer)
		}
		w.did("tick", w.c.Tick(w.now))
	case n < 87:
		w.did("savepoint", w.c.Requested(w.now, Savepoint, "s"))
	case n < 88:
		w.did("stop", w.c.Requested(w.now, Stop+Kind(w.rnd.IntN(2)), "t"))
	case n < 89:
		w.did("finished", w.c.Finished(w.now))
	default:
		w.did("grew", w.c.OutputGrew(w.now, w.rnd.Int64N(400)))
	}
}

func (w *world) answerCommit(failed, applied bool) {
	id := w.commit
	w.commit = 0
	if !failed || applied {
		w.apply(id)
	}
	if failed {
		w.did(fmt.Sprint("commit-failed ", id), w.c.CommitFailed(w.now, id, errors.New("chance")))
		return
	}
	w.committed = append(w.committed, id)
	w.did(fmt.Sprint("committed ", id), w.c.CommitDone(w.now, id))
}

// awake checks on a copy that a time far ahead always brings something, unless only a commit or a
// request is waited for.
func (w *world) awake() {
	if w.over {
		return
	}
	c := *w.c
	c.actions = nil
	c.requests, c.epochs = slices.Clone(c.requests), slices.Clone(c.epochs)
	c.placed, c.completed = slices.Clone(c.placed), slices.Clone(c.completed)
	got := slices.DeleteFunc(slices.Clone(c.Tick(w.now+1e9)), func(a Action) bool { return a.Do == DoTimer })
	if len(got) == 0 && (c.o.Interval > 0 && c.ending == Periodic || c.flight.stage != landed || w.commit == 0 && len(w.epochsDue()) > 0) {
		w.failf("nothing happens any more: %+v", c)
	}
}

func (w *world) epochsDue() []int64 {
	return slices.DeleteFunc(slices.Clone(w.begun), func(e int64) bool { return e > w.c.inPlace || slices.Contains(w.committed, e) })
}

// settle lets everything go well from now on; the job must come to its end, with all output of
// what it is made of in the target.
func (w *world) settle() {
	if w.over {
		w.boot()
	}
	w.did("finished", w.c.Finished(w.now))
	for range 1000 {
		switch {
		case w.over:
			if w.stops == 0 {
				w.failf("failed although all went well")
			}
			for _, e := range w.begun {
				if !slices.Contains(w.applied, e) {
					w.failf("the output of epoch %d is lost; the target has %v", e, w.applied)
				}
			}
			return
		case w.cut != 0:
			id := w.cut
			w.cut = 0
			w.did(fmt.Sprint("cut-done ", id), w.c.CutDone(w.now, id))
		case w.write != 0:
			id := w.write
			w.write = 0
			w.store[id], w.known[id] = w.inWrite, true
			w.did(fmt.Sprint("written ", id), w.c.Written(w.now, id))
		case w.commit != 0:
			w.answerCommit(false, true)
		default:
			w.now = max(w.now+1, w.timer)
			if w.timer == never {
				w.failf("waits for nothing")
			}
			w.did("tick", w.c.Tick(w.now))
		}
	}
	w.failf("no end")
}

func TestCoordinatorRandomWalk(t *testing.T) {
	walks := uint64(800)
	first := rand.Uint64()
	if *walkSeed != 0 {
		first, walks = *walkSeed, 1
	}
	reached := map[string]int{}
	for seed := first; seed < first+walks; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := &world{t: t, seed: seed, rnd: rnd, store: map[int64][]int64{}, o: CoordinatorOptions{
			Interval: time.Duration(rnd.IntN(3)) * time.Second, MinPause: time.Duration(rnd.IntN(3)) * 700 * time.Millisecond,
			Timeout: 3 * time.Second, TolerableFailures: rnd.IntN(3) * 5, Retained: 1 + rnd.IntN(3), OutputBytes: 1000,
			CommitTimeout: time.Duration(rnd.IntN(2)) * 20 * time.Second}}
		w.boot()
		for range 200 {
			w.step()
			w.awake()
		}
		w.o.CommitTimeout, w.o.TolerableFailures, w.stops = 0, 100, 0
		w.boot()
		w.settle()
		for _, l := range w.log {
			reached[firstWord(l)]++
		}
	}
	for _, d := range doNames {
		if reached["  "+d] == 0 && *walkSeed == 0 && d != "cut" {
			t.Errorf("no walk led to %s", d)
		}
	}
}

func firstWord(l string) string {
	for i := 2; i < len(l); i++ {
		if l[i] == ' ' || l[i] == ':' {
			return l[:i]
		}
	}
	return l
}
