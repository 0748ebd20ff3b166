package exectest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Cluster is the parallel instances of a Stateful operator that are saved now and then, and now
// and then stopped and replaced by new ones, which go on from what was saved. The rows of a key go
// to the instance that owns its key group. It checks on the way what op.Stateful asks for: a save
// adds nothing twice, keeps to its key groups, and the sizes told are those of changes.
type Cluster struct {
	// Make makes an instance.
	Make func() (op.Operator, error)
	// Keys are the key columns of each input, Schemas the inputs' columns. Without Keys there is
	// one instance at a time.
	Keys    [][]int
	Schemas []types.Schema
	// Par are the numbers of instances, each after the other, round and round; nil: 1.
	Par []int
	// Seed makes the restarts; one call in Every is after one, and one in Every saves only.
	Seed  int64
	Every int
	// Spills gives the instances no memory for tables that may spill: what is saved leaves them.
	Spills bool

	// Colds counts the entries that came back from the store.
	Colds int
	// Starts counts; Puts and Deletes are, for each save, the entries written and deleted by state.
	Starts        int
	Puts, Deletes []map[int]int

	ctx   *op.Context
	out   op.Output
	r     *rand.Rand
	ops   []op.Operator
	spill []*state.Spill
	wms   []int64
	wm    int64
	saved *Saved
	// states is how many an instance has.
	states int
	encs   []*state.Encoder
}

// Saved is keyed state as a map, by state, key group and key.
type Saved struct {
	states map[int]map[int]map[string][]byte
	lo, hi int
}

// Scan implements state.Saved.
func (s *Saved) Scan(at int, f func(group int, key, value []byte) error) error {
	groups := s.states[at]
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if g < s.lo || g >= s.hi {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(groups[g])) {
			key, value := []byte(k), bytes.Clone(groups[g][k])
			if err := f(g, key, value); err != nil {
				return err
			}
			// What was lent is gone after the call.
			for _, b := range [][]byte{key, value} {
				for i := range b {
					b[i] = '#'
				}
			}
		}
	}
	return nil
}

// Len is the number of entries.
func (s *Saved) Len() int {
	n := 0
	for at, groups := range s.states {
		for _, m := range groups {
			if at&state.IndexState != 0 {
				break // they are no entries of the operator
			}
			n += len(m)
		}
	}
	return n
}

func (s *Saved) apply(c state.Change) {
	if s.states[c.State] == nil {
		s.states[c.State] = map[int]map[string][]byte{}
	}
	m := s.states[c.State][c.Group]
	if m == nil {
		m = map[string][]byte{}
		s.states[c.State][c.Group] = m
	}
	switch c.Kind {
	case state.ChangePut:
		m[string(c.Key)] = bytes.Clone(c.Value)
	case state.ChangeDelete:
		delete(m, string(c.Key))
	case state.ChangeDeletePrefix:
		for k := range m {
			if bytes.HasPrefix([]byte(k), c.Key) {
				delete(m, k)
			}
		}
	}
}

// cold is what was saved as the store below the tables.
type cold struct{ c *Cluster }

// Lookup implements state.Cold.
func (s cold) Lookup(keys [][]byte, found func(i int, value []byte) error) error {
	for i, k := range keys {
		group := int(k[3])<<8 | int(k[4])
		if v, ok := s.c.saved.states[int(k[2])][group][string(k[state.StoreHead:])]; ok {
			s.c.Colds++
			if err := found(i, bytes.Clone(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// place is where a key of the store lies: its state and key group.
func place(key []byte) int {
	var head [state.StoreHead]byte
	copy(head[:], key)
	return int(head[2])<<16 | int(head[3])<<8 | int(head[4])
}

// Range implements state.Cold.
func (s cold) Range(lo, hi []byte, f func(key, value []byte) error) error {
	all := map[string][]byte{}
	for at, groups := range s.c.saved.states {
		for g, m := range groups {
			if n := at<<16 | g; n < place(lo) || n > place(hi) {
				continue
			}
			for k, v := range m {
				key := append(state.AppendStoreKey(nil, 7, at, g), k...)
				if bytes.Compare(key, lo) >= 0 && bytes.Compare(key, hi) < 0 {
					all[string(key)] = v
				}
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if err := f([]byte(k), bytes.Clone(all[k])); err != nil {
			return err
		}
	}
	return nil
}

type instance struct {
	c *Cluster
	i int
}

// Emit implements op.Output.
func (o instance) Emit(b *vec.Batch) error { return o.c.out.Emit(b) }

// Watermark implements op.Output.
func (o instance) Watermark(wm int64) error {
	o.c.wms[o.i] = wm
	if least := slices.Min(o.c.wms); least > o.c.wm {
		o.c.wm = least
		return o.c.out.Watermark(least)
	}
	return nil
}

// Open implements op.Operator.
func (c *Cluster) Open(ctx *op.Context, out op.Output) error {
	c.ctx, c.out, c.wm = ctx, out, vec.MinTime
	c.r = rand.New(rand.NewSource(c.Seed))
	c.saved = &Saved{states: map[int]map[int]map[string][]byte{}}
	for i, keys := range c.Keys {
		var ts []types.Type
		for _, k := range keys {
			ts = append(ts, c.Schemas[i].Fields[k].Type.WithoutAttr())
		}
		c.encs = append(c.encs, state.NewEncoder(state.NewLayout(ts, false)))
	}
	return c.start(nil)
}

// start makes and opens the next instances; heads are those of the ones before.
func (c *Cluster) start(heads [][]byte) error {
	n := 1
	if len(c.Par) > 0 {
		n = c.Par[c.Starts%len(c.Par)]
	}
	c.ops, c.wms, c.spill = nil, nil, nil
	for i := range n {
		o, err := c.Make()
		if err != nil {
			return err
		}
		c.ops, c.wms = append(c.ops, o), append(c.wms, c.wm)
		s, ok := o.(op.Stateful)
		if !ok {
			return fmt.Errorf("%T is not op.Stateful", o)
		}
		specs := s.States()
		c.states = len(specs)
		ctx := *c.ctx
		ctx.Subtask, ctx.Parallelism, ctx.Saves = i, n, true
		lo, hi := state.Groups(i, ctx.MaxParallelism, n)
		if c.Spills {
			ctx.Budget = state.NewBudget(1)
			ctx.Spill = state.NewSpill(ctx.Budget, cold{c}, state.SpillOptions{Operator: 7, Lo: lo, Hi: hi,
				Stored: c.Starts > 0 && c.r.Intn(2) == 0})
			c.spill = append(c.spill, ctx.Spill)
		}
		if err := o.Open(&ctx, instance{c, i}); err != nil {
			return err
		}
		if again := s.States(); !reflect.DeepEqual(specs, again) {
			return fmt.Errorf("states before Open %v, after it %v", specs, again)
		}
		if c.Starts == 0 {
			continue
		}
		if err := s.Restore(&Saved{c.saved.states, lo, hi}, heads); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		var d state.Delta
		err = s.Freeze(&d)
		n := 0
		err = errors.Join(err, state.EachChange(d.Bytes(), func(x state.Change) error {
			if x.State&state.IndexState == 0 || x.Kind == state.ChangePut {
				n++ // but an index that is of no use any more may go
			}
			c.saved.apply(x)
			return nil
		}))
		if err != nil || n > 0 {
			return fmt.Errorf("%d changes right after a restore (%v)", n, err)
		}
	}
	c.Starts++
	return nil
}

// Save takes the changes of all instances.
func (c *Cluster) Save() error {
	puts, deletes := map[int]int{}, map[int]int{}
	c.Puts, c.Deletes = append(c.Puts, puts), append(c.Deletes, deletes)
	for i, o := range c.ops {
		s := o.(op.Stateful)
		var d, again state.Delta
		dirty := s.Dirty()
		if err := s.Freeze(&d); err != nil {
			return err
		}
		if err := s.Freeze(&again); err != nil {
			return err
		}
		if again.Len() > 0 || s.Dirty() != 0 {
			return fmt.Errorf("after a save there are %d changes and %d dirty bytes", again.Len(), s.Dirty())
		}
		if c.Spills {
			defer c.spill[i].Applied(c.spill[i].Frozen())
		}
		lo, hi := state.Groups(i, c.ctx.MaxParallelism, len(c.ops))
		if err := state.EachChange(d.Bytes(), func(x state.Change) error {
			if x.Group < lo || x.Group >= hi || x.State&^state.IndexState >= c.states {
				return fmt.Errorf("instance %d of %d saves in group %d of state %d", i, len(c.ops), x.Group, x.State)
			}
			if x.Kind == state.ChangePut {
				puts[x.State]++
				if dirty == 0 {
					return fmt.Errorf("changes though nothing was dirty")
				}
			}
			if x.Kind == state.ChangeDelete {
				deletes[x.State]++
			}
			c.saved.apply(x)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Entries is the number of entries saved.
func (c *Cluster) Entries() int { return c.saved.Len() }

// Restart saves, stops all instances and starts the next ones.
func (c *Cluster) Restart() error {
	for _, o := range c.ops {
		if f, ok := o.(op.Flusher); ok {
			if err := f.Flush(); err != nil {
				return err
			}
		}
	}
	if err := c.Save(); err != nil {
		return err
	}
	var heads [][]byte
	for _, o := range c.ops {
		h, err := o.(op.Stateful).Head(nil)
		if err != nil {
			return err
		}
		heads = append(heads, h)
		if err := o.Close(); err != nil {
			return err
		}
	}
	return c.start(heads)
}

// disturb saves or restarts by chance.
func (c *Cluster) disturb() error {
	if c.Spills {
		if c.r.Intn(2) == 0 {
			if err := c.Save(); err != nil {
				return err
			}
		}
		for _, s := range c.spill {
			s.Between()
		}
	}
	if c.Every == 0 {
		return nil
	}
	switch c.r.Intn(c.Every) {
	case 0:
		return c.Restart()
	case 1:
		return c.Save()
	}
	return nil
}

// Process implements op.Operator.
func (c *Cluster) Process(in int, b *vec.Batch) error {
	if err := c.disturb(); err != nil {
		return err
	}
	if len(c.ops) == 1 {
		return c.ops[0].Process(in, b)
	}
	rows := b.Selected()
	var cols []*vec.Vec
	for _, k := range c.Keys[in] {
		cols = append(cols, b.Cols[k])
	}
	c.encs[in].Encode(cols, rows, nil)
	parts := make([][]int32, len(c.ops))
	for k, r := range rows {
		g := state.KeyGroup(c.encs[in].Hash(k), c.ctx.MaxParallelism)
		i := state.Subtask(g, c.ctx.MaxParallelism, len(c.ops))
		parts[i] = append(parts[i], r)
	}
	for i, p := range parts {
		if len(p) == 0 {
			continue
		}
		part := *b
		part.Sel = p
		if err := c.ops[i].Process(in, &part); err != nil {
			return err
		}
	}
	return nil
}

// Watermark implements op.Operator.
func (c *Cluster) Watermark(wm int64) error {
	if err := c.disturb(); err != nil {
		return err
	}
	for _, o := range c.ops {
		if err := o.Watermark(wm); err != nil {
			return err
		}
	}
	return nil
}

// ProcTime implements op.ProcTimer.
func (c *Cluster) ProcTime(nowMs int64) error {
	if err := c.disturb(); err != nil {
		return err
	}
	for _, o := range c.ops {
		if p, ok := o.(op.ProcTimer); ok {
			if err := p.ProcTime(nowMs); err != nil {
				return err
			}
		}
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (c *Cluster) NextProcTime() int64 {
	next := int64(vec.MaxTime)
	for _, o := range c.ops {
		if p, ok := o.(op.ProcTimer); ok {
			next = min(next, p.NextProcTime())
		}
	}
	return next
}

// Finish implements op.Operator.
func (c *Cluster) Finish() error {
	if err := c.disturb(); err != nil {
		return err
	}
	for _, o := range c.ops {
		if err := o.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// Close implements op.Operator.
func (c *Cluster) Close() error {
	var err error
	for _, o := range c.ops {
		if e := o.Close(); e != nil {
			err = e
		}
	}
	return err
}
