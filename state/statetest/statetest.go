// Package statetest is the conformance suite of keyed state: whatever is frozen into changes and
// restored from entries, as op.Stateful asks, passes it. A kind of state comes as a Subject with a
// script of steps; the suite saves and restores instances of it at random points, at changing
// parallelism, from real files, with next to no memory, and compares what they emit with what one
// instance emits that nobody disturbed.
package statetest

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
)

// Subject is one parallel instance of what keeps state. The methods are those of op.Stateful but for
// Step and Close.
type Subject interface {
	States() []state.Spec
	Freeze(d *state.Delta) error
	Dirty() int
	Head(dst []byte) ([]byte, error)
	Restore(saved state.Saved, heads [][]byte) error
	// Step does step n of the script, as far as it concerns keys of the instance's key groups, and
	// returns what is emitted, a line each, in any order. The script is a function of n.
	Step(n int) ([]string, error)
	Close() error
}

// Instance says which of the parallel instances a Subject is.
type Instance struct {
	Subtask, Parallelism, MaxParallelism int
	// Budget is what memory is to be counted in, Spill what tables may spill to; nil where the
	// state stays in memory.
	Budget *state.Budget
	Spill  *state.Spill
}

// Owns reports whether a key group belongs to the instance.
func (i Instance) Owns(group int) bool {
	lo, hi := state.Groups(i.Subtask, i.MaxParallelism, i.Parallelism)
	return group >= lo && group < hi
}

// Kind is a kind of state.
type Kind struct {
	// Start makes an instance, which goes on from what Restore is given if that is called.
	Start func(Instance) (Subject, error)
	// Steps is the length of the script.
	Steps int
	// Loose says that the same content may be saved as different bytes.
	Loose bool
	// Spills says that Instance.Spill is used.
	Spills bool
}

const maxParallelism = 16

// Run is the suite.
func Run(t *testing.T, k Kind) {
	want := k.undisturbed(t)
	for seed := int64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprint("restored/", seed), func(t *testing.T) { k.disturbed(t, want, seed, []int{1}, false) })
		t.Run(fmt.Sprint("rescaled/", seed), func(t *testing.T) { k.disturbed(t, want, seed, []int{1, 3, 2}, false) })
		if k.Spills {
			t.Run(fmt.Sprint("spilled/", seed), func(t *testing.T) { k.disturbed(t, want, seed, []int{1, 3, 2}, true) })
		}
	}
	t.Run("incremental", k.incremental)
	t.Run("files", func(t *testing.T) { k.files(t, want) })
	t.Run("damaged", k.damaged)
}

// undisturbed returns what each step emits, in order of the lines.
func (k Kind) undisturbed(t *testing.T) [][]string {
	t.Helper()
	s := k.start(t, Instance{Parallelism: 1, MaxParallelism: maxParallelism})
	var all [][]string
	lines := 0
	for n := range k.Steps {
		got, err := s.Step(n)
		if err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		slices.Sort(got)
		all, lines = append(all, got), lines+len(got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if lines == 0 {
		t.Fatal("the script emits nothing, so nothing can be compared")
	}
	return all
}

func (k Kind) start(t *testing.T, in Instance) Subject {
	t.Helper()
	s, err := k.Start(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cluster is the instances of one run.
type cluster struct {
	k      Kind
	t      *testing.T
	r      *rand.Rand
	par    []int
	starts int
	list   []Subject
	ins    []Instance
	model  *Model
	budget *state.Budget
	late   []late // frozen and not applied, the oldest first
}

type late struct {
	changes []byte
	in      Instance
	n       uint64
}

func (k Kind) disturbed(t *testing.T, want [][]string, seed int64, par []int, spill bool) {
	c := &cluster{k: k, t: t, r: rand.New(rand.NewSource(seed)), par: par, model: &Model{}}
	if spill {
		// Next to nothing, less than others take already.
		c.budget = state.NewBudget(1 << 16 * seed)
		c.budget.Add(1 << 16 * seed)
	}
	c.start(nil)
	for n := range want {
		switch c.r.Intn(6) {
		case 0:
			c.restart()
		case 1, 2:
			c.freeze()
		}
		c.step(n, want[n])
		c.relieve()
	}
	for _, s := range c.list {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *cluster) start(heads [][]byte) {
	n := c.par[c.starts%len(c.par)]
	c.list, c.ins = nil, nil
	for i := range n {
		in := Instance{Subtask: i, Parallelism: n, MaxParallelism: maxParallelism, Budget: c.budget}
		lo, hi := state.Groups(i, maxParallelism, n)
		if c.budget != nil {
			in.Spill = state.NewSpill(c.budget, c.model,
				state.SpillOptions{Operator: operator, Lo: lo, Hi: hi, Stored: c.starts > 0 && c.r.Intn(3) > 0})
		}
		s := c.k.start(c.t, in)
		if c.starts > 0 {
			if err := s.Restore(c.model.Saved(lo, hi), heads); err != nil {
				c.t.Fatalf("restore: %v", err)
			}
			var d state.Delta
			if err := s.Freeze(&d); err != nil || d.Len() > 0 {
				c.t.Fatalf("%d changes right after a restore, %v", d.Len(), err)
			}
		}
		c.list, c.ins = append(c.list, s), append(c.ins, in)
	}
	c.starts++
}

func (c *cluster) step(n int, want []string) {
	c.t.Helper()
	var got []string
	for _, s := range c.list {
		lines, err := s.Step(n)
		if err != nil {
			c.t.Fatalf("step %d: %v", n, err)
		}
		got = append(got, lines...)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.t.Fatalf("step %d after %d starts emits\n  %s\nnot\n  %s", n, c.starts, strings.Join(got, "\n  "),
			strings.Join(want, "\n  "))
	}
}

// freeze takes the changes of all instances; some get to the model later.
func (c *cluster) freeze() {
	c.t.Helper()
	for i, s := range c.list {
		c.late = append(c.late, c.freezeOne(i, s))
	}
	if c.budget == nil {
		c.apply(len(c.late))
	}
}

// freezeOne checks that a freeze keeps to the instance's groups and states and takes everything.
func (c *cluster) freezeOne(i int, s Subject) late {
	c.t.Helper()
	in := c.ins[i]
	var d, again state.Delta
	dirty := s.Dirty()
	if err := s.Freeze(&d); err != nil {
		c.t.Fatal(err)
	}
	if err := s.Freeze(&again); err != nil || again.Len() > 0 || s.Dirty() != 0 {
		c.t.Fatalf("after a freeze there are %d changes and %d dirty bytes, %v", again.Len(), s.Dirty(), err)
	}
	states := len(s.States())
	if err := state.EachChange(d.Bytes(), func(x state.Change) error {
		if !in.Owns(x.Group) || x.State&^state.IndexState >= states {
			return fmt.Errorf("instance %d of %d changes group %d of state %d", in.Subtask, in.Parallelism, x.Group, x.State)
		}
		if x.Kind == state.ChangePut && dirty == 0 {
			return errors.New("an entry is saved though nothing was dirty")
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	l := late{changes: d.Take(), in: in}
	if in.Spill != nil {
		l.n = in.Spill.Frozen()
	}
	return l
}

func (c *cluster) apply(n int) {
	c.t.Helper()
	for _, l := range c.late[:n] {
		if err := c.model.Apply(l.changes); err != nil {
			c.t.Fatal(err)
		}
		if l.in.Spill != nil {
			l.in.Spill.Applied(l.n)
		}
	}
	c.late = c.late[n:]
}

// relieve applies some of what is late and lets tables spill.
func (c *cluster) relieve() {
	if c.budget == nil {
		return
	}
	c.apply(c.r.Intn(len(c.late) + 1))
	for i, in := range c.ins {
		in.Spill.Between()
		if in.Spill.NeedsFreeze() && c.r.Intn(2) == 0 {
			c.late = append(c.late, c.freezeOne(i, c.list[i]))
		}
	}
}

// restart stops all instances and starts the next ones.
func (c *cluster) restart() {
	c.t.Helper()
	c.freeze()
	c.apply(len(c.late))
	var heads [][]byte
	for _, s := range c.list {
		h, err := s.Head(nil)
		if err != nil {
			c.t.Fatal(err)
		}
		heads = append(heads, h)
		if err := s.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
	c.start(heads)
}

// incremental: the changes of many freezes come to what one freeze at the end gives.
func (k Kind) incremental(t *testing.T) {
	often, once := &Model{}, &Model{}
	for _, m := range []*Model{often, once} {
		s := k.start(t, Instance{Parallelism: 1, MaxParallelism: maxParallelism})
		var d state.Delta
		for n := range k.Steps {
			if _, err := s.Step(n); err != nil {
				t.Fatal(err)
			}
			if m == once && n < k.Steps-1 {
				continue
			}
			d.Reset()
			if err := s.Freeze(&d); err != nil {
				t.Fatal(err)
			}
			if err := m.Apply(d.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := often.Diff(once, k.Loose); err != nil {
		t.Errorf("frozen after each step, and once at the end: %v", err)
	}
}

// files: the changes go to a store on disk, of which cuts are taken and opened again.
func (k Kind) files(t *testing.T, want [][]string) {
	r := rand.New(rand.NewSource(9))
	st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	s := k.start(t, Instance{Parallelism: 1, MaxParallelism: maxParallelism})
	var d state.Delta
	for n := range want {
		if r.Intn(len(want)/3+1) == 0 {
			if err := s.Freeze(&d); err != nil {
				t.Fatal(err)
			}
			head, err := s.Head(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Apply(operator, d.Bytes()); err != nil {
				t.Fatal(err)
			}
			d.Reset()
			st = reopen(t, st)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = k.start(t, Instance{Parallelism: 1, MaxParallelism: maxParallelism})
			if err := s.Restore(stored{st}, [][]byte{head}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Step(n)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Sort(got); !slices.Equal(got, want[n]) {
			t.Fatalf("step %d emits %q, not %q", n, got, want[n])
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

type stored struct{ *store.Store }

// Scan implements state.Saved.
func (s stored) Scan(st int, f func(group int, key, value []byte) error) error {
	return s.Store.Scan(operator, st, 0, maxParallelism, f)
}

// reopen cuts a store and opens the cut.
func reopen(t *testing.T, st *store.Store) *store.Store {
	t.Helper()
	c, err := st.Cut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range c.Files {
		if err := os.Link(f.Path, filepath.Join(dir, f.Name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(c.Release(), st.Close()); err != nil {
		t.Fatal(err)
	}
	next, err := store.OpenFiles(dir, c.Files, store.Options{MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// damaged: entries with changed or missing bytes are refused or read as others, without a panic.
func (k Kind) damaged(t *testing.T) {
	m := &Model{}
	s := k.start(t, Instance{Parallelism: 1, MaxParallelism: maxParallelism})
	for n := range k.Steps {
		if _, err := s.Step(n); err != nil {
			t.Fatal(err)
		}
		var d state.Delta
		if err := s.Freeze(&d); err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(d.Bytes()); err != nil {
			t.Fatal(err)
		}
		if m.Len() > 20 {
			break // enough to damage
		}
	}
	head, err := s.Head(nil)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(3))
	keys := m.keys()
	for range 200 {
		if len(keys) == 0 {
			t.Fatal("nothing is saved")
		}
		bad := m.Clone()
		key := keys[r.Intn(len(keys))]
		v := slices.Clone(bad.m[key])
		switch what := r.Intn(3); {
		case what == 0 && len(v) > 0:
			v = v[:r.Intn(len(v))]
		case what == 1 && len(v) > 0:
			v[r.Intn(len(v))] ^= 1 << r.Intn(8)
		default:
			delete(bad.m, key)
			b := []byte(key)
			at := state.StoreHead + r.Intn(len(b)-state.StoreHead+1)
			key = string(b[:at]) // cut off
		}
		bad.m[key] = v
		s := k.start(t, Instance{Parallelism: 1, MaxParallelism: maxParallelism})
		_ = s.Restore(bad.Saved(0, maxParallelism), [][]byte{head})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
