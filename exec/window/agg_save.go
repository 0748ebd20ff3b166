package window

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// The states of an Agg: slices and their distinct values; for a cumulate the running aggregate and
// its distinct values, by the start of its windows; for hops and cumulates the held rows. The
// running aggregate of a hop is not saved: the next window that fires takes all slices in again.
//
// Of time only the watermark is kept, in the head: which windows have fired follows from it. Where
// the key groups of a subtask come from some that were differently far, the least counts, and the
// slices of the others carry how far these were (slice.after), so that windows that have fired for
// their keys are not shown again. Until all are equally far, the head tells this too.

// runSaves reports whether the running aggregate is saved.
func (o *Agg) runSaves() bool { return o.kind == plan.Cumulate }

func (o *Agg) runState() int { return 1 + len(o.set.ValueSpecs(nil)) }

// heldState is the number of the state of held rows, which is the last one.
func (o *Agg) heldState() int {
	if o.kind == plan.Cumulate {
		return 2 * o.runState()
	}
	return o.runState()
}

// holds reports whether rows may be held.
func (o *Agg) holds() bool { return o.fire != nil && !o.n.Window.ProcTime }

// States implements op.Stateful.
func (o *Agg) States() []state.Spec {
	end := []types.Field{timeField("slice_end")}
	name := "slices"
	switch {
	case o.n.Attached:
		end, name = []types.Field{timeField("window_end")}, "windows"
		if o.withStart {
			end = append(end, timeField("window_start"))
		}
	case o.fire == nil:
		end, name = []types.Field{timeField("window_end")}, "windows"
	case o.withPart:
		end = append(end, field("part", types.IntType))
	}
	specs := o.groupSpecs(name, end)
	if o.kind == plan.Cumulate {
		specs = append(specs, o.groupSpecs("running", []types.Field{timeField("window_start")})...)
	}
	if o.holds() {
		specs = append(specs, o.heldSpec())
	}
	return specs
}

// groupSpecs describes groups by a prefix and a key, and their distinct values.
func (o *Agg) groupSpecs(name string, prefix []types.Field) []state.Spec {
	key := fieldsOf(o.inS, o.n.Keys, prefix...)
	specs := []state.Spec{{Name: name, Version: saveVersion, Key: key, Value: []types.Field{accumulators},
		KeyParts: keyParts(prefix, len(key), len(key)), Parts: partsOf(o.set, o.n, o.inS)}}
	for _, sp := range o.set.ValueSpecs(key) {
		sp.Name, sp.KeyParts = name+": "+sp.Name, keyParts(prefix, len(key), len(sp.Key))
		specs = append(specs, sp)
	}
	return specs
}

var accumulators = field("accumulators", types.BytesType)

// Freeze implements op.Stateful.
func (o *Agg) Freeze(d *state.Delta) error {
	if o.save == nil {
		return nil
	}
	if err := o.save.flush(d); err != nil {
		return err
	}
	for _, sl := range o.list {
		o.freezeSlice(d, sl)
	}
	if o.runSaves() {
		o.save.freeze(d, o.runState(), appendTime(o.prefix[:0], o.runStart), o.run, nil, &o.runSaved)
	}
	o.freezeHeld(d)
	return nil
}

// Dirty implements op.Stateful.
func (o *Agg) Dirty() int {
	if o.save == nil {
		return 0
	}
	n := o.save.gone.Size()
	for _, sl := range o.list {
		n += sl.st.DirtyBytes(o.save.groupBytes)
	}
	n += o.dirtySealed()
	if o.runSaves() {
		n += o.run.DirtyBytes(o.save.groupBytes)
	}
	return n + o.held.dirty()
}

// Head implements op.Stateful.
func (o *Agg) Head(dst []byte) ([]byte, error) {
	dst = appendHead(dst, o.wm, &o.levels, o.past)
	return binary.LittleEndian.AppendUint32(dst, o.spill.runs), nil
}

// headRuns is the last number of a run that the subtasks concerned have given; they did not say so
// once.
func headRuns(p *past) (uint32, error) {
	runs := uint32(0)
	for i := p.first; i <= p.last; i++ {
		switch b := p.rests[i]; len(b) {
		case 0:
		case runBytes:
			runs = max(runs, binary.LittleEndian.Uint32(b))
		default:
			return 0, errHead
		}
	}
	return runs, nil
}

// Restore implements op.Stateful.
func (o *Agg) Restore(saved state.Saved, heads [][]byte) error {
	p, err := readHeads(heads, o.ctx)
	if err != nil {
		return err
	}
	if o.spill.runs, err = headRuns(p); err != nil {
		return err
	}
	o.wm, o.past = p.wm, p
	o.levels.start(p.wm, p.levels)
	r := restorer{o: o, slices: map[sliceName]*slice{}, stored: o.spillsTo()}
	if err = r.groups(saved, 0, r.slice); err == nil && o.runSaves() {
		err = r.groups(saved, o.runState(), r.running)
	}
	if err == nil && o.holds() {
		err = saved.Scan(o.heldState(), o.loadHeld)
	}
	if err != nil {
		return err
	}
	r.finish()
	o.count()
	return nil
}

// restorer puts saved entries into slices.
type restorer struct {
	o      *Agg
	slices map[sliceName]*slice
	// stored is what has the groups already, which stay there; nil: they are loaded.
	stored *state.Spill
	last   *slice // what the last entry belonged to; nil for the running aggregate
	name   sliceName
}

// sliceName tells the slices of saved entries apart.
type sliceName struct {
	start, end int64
	part       uint32
	after      int64
	ran        bool
}

// groups loads the groups of state at, and their distinct values in the states behind it; into finds
// where an entry goes and cuts the prefix off its key.
func (r *restorer) groups(saved state.Saved, at int, into func(group int, key []byte) (*agg.Store, *entries, []byte, error)) error {
	if r.stored != nil {
		return r.discover(at, into)
	}
	codec := groupCodec{set: r.o.set}
	err := saved.Scan(at, func(group int, key, value []byte) error {
		st, e, key, err := into(group, key)
		if err != nil {
			return err
		}
		e.note(group)
		st, rec, err := r.entry(st, key)
		if codec.st = st; err == nil {
			err = codec.LoadValue(rec, value)
		}
		if err == nil {
			st.T.Saved(rec)
		}
		return err
	})
	for i := 0; i < r.o.runState()-1 && err == nil; i++ {
		err = saved.Scan(at+1+i, func(group int, key, value []byte) error {
			st, e, key, err := into(group, key)
			if err != nil {
				return err
			}
			e.note(group)
			rest, err := st.ValueSuffix(i, key)
			if err == nil && len(rest) > 0 {
				st, err = r.part(rest)
			}
			if err != nil {
				return err
			}
			return st.LoadValue(i, key[:len(key)-len(rest)], value)
		})
	}
	return err
}

// entry adds the group of a saved key: to st, or to the store of another run of its slice.
func (r *restorer) entry(st *agg.Store, key []byte) (*agg.Store, uint32, error) {
	n := st.R.Len()
	rec, rest, err := st.T.UpsertKey(key, 0)
	if err != nil || len(rest) == 0 {
		return st, rec, err
	}
	if st.R.Len() > n {
		st.T.Delete(rec)
	}
	if st, err = r.part(rest); err == nil {
		rec, _, err = st.T.UpsertKey(key[:len(key)-len(rest)], 0)
	}
	return st, rec, err
}

// part finds the store for an entry of the slice at hand whose key ends with the number of a run.
func (r *restorer) part(rest []byte) (*agg.Store, error) {
	run, err := runOf(rest)
	// The running aggregate has one run.
	if err != nil || r.last == nil || !r.o.set.Splits() || r.o.spill.keyed != nil {
		return nil, errEntry
	}
	return r.run(r.last, run), nil
}

// run returns the store of a run of a slice that is loaded.
func (r *restorer) run(sl *slice, run uint32) *agg.Store {
	for _, s := range sl.sealed {
		if s.run == run {
			return s.st
		}
	}
	s := &sealedRun{st: r.o.store(), run: run, epoch: keepRun}
	sl.sealed = append(sl.sealed, s)
	r.o.sealed++
	return s.st
}

// discover finds the slices that the store has entries of, without reading these.
func (r *restorer) discover(at int, into func(group int, key []byte) (*agg.Store, *entries, []byte, error)) error {
	o := r.o
	group, hi := r.stored.Groups()
	var from []byte
	for group < hi {
		g, key, ok, err := r.stored.First(at, group, from)
		if err != nil || !ok {
			return err
		}
		st, e, rest, err := into(g, key)
		if err != nil {
			return err
		}
		e.note(g)
		switch sl := r.last; {
		case o.spill.keyed != nil:
			k := &state.Keeper{State: at}
			if err = k.Restore(st.T, nil); err == nil {
				err = st.RestoreValues(k, nil)
			}
			if err != nil {
				return err
			}
		case !sl.cold:
			sl.cold, sl.run = true, o.spill.runs+1
		}
		if group, from = g, state.Successor(key[:len(key)-len(rest)]); from == nil {
			group++
		}
	}
	return nil
}

// seen is how far time had come for a key group, where that matters: for windows from the one that
// ends at end on.
func (r *restorer) seen(group int, end int64) int64 {
	if wm := r.o.past.wms[group]; wm > r.o.wm && r.o.over(end) <= wm {
		return wm
	}
	return vec.MinTime
}

// slice finds the slice of an entry.
func (r *restorer) slice(group int, key []byte) (*agg.Store, *entries, []byte, error) {
	o := r.o
	n := sliceName{}
	var err error
	if n.end, key, err = readTime(key); err != nil {
		return nil, nil, nil, err
	}
	n.start = n.end - o.width
	switch {
	case o.withStart:
		if n.start, key, err = readTime(key); err != nil {
			return nil, nil, nil, err
		}
	case o.n.Attached:
		n.start = n.end
	}
	n.after = vec.MinTime
	if o.withPart {
		if len(key) < 4 {
			return nil, nil, nil, errEntry
		}
		n.part, key = binary.BigEndian.Uint32(key), key[4:]
		n.after = r.seen(group, o.firstEnd(n.end))
	}
	sl := r.find(n)
	return sl.st, &sl.saved, key, nil
}

// running finds where an entry of the running aggregate goes: into a slice that is merged when all
// windows that had fired for it have fired here too.
func (r *restorer) running(group int, key []byte) (*agg.Store, *entries, []byte, error) {
	o := r.o
	start, key, err := readTime(key)
	if err != nil {
		return nil, nil, nil, err
	}
	if o.past.wms[group] > o.wm || r.stored != nil {
		n := sliceName{start: start, end: start + o.step, after: vec.MinTime, ran: true}
		if o.past.wms[group] > o.wm {
			n.after = o.past.wms[group]
		}
		sl := r.find(n)
		return sl.st, &sl.saved, key, nil
	}
	o.runTo(start)
	r.last = nil
	return o.run, &o.runSaved, key, nil
}

func (r *restorer) find(n sliceName) *slice {
	if r.last != nil && r.name == n {
		return r.last
	}
	sl := r.slices[n]
	if sl == nil {
		sl = &slice{start: n.start, end: n.end, part: n.part, after: n.after, ran: n.ran, shut: n.ran, st: r.o.store()}
		switch {
		case !n.ran:
			r.o.spillTo(sl)
		case r.o.spill.keyed != nil:
			r.o.spillAs(sl.st, r.o.runState(), appendTime(nil, n.start))
		}
		r.slices[n] = sl
	}
	r.last, r.name = sl, n
	return sl
}

// finish puts the slices in order and finds out what is due next.
func (r *restorer) finish() {
	o := r.o
	if r.stored != nil && o.spill.whole != nil {
		o.spill.runs++
	}
	for _, sl := range r.slices {
		sl.st.EndLoad()
		o.list = append(o.list, sl)
	}
	slices.SortFunc(o.list, func(a, b *slice) int {
		ran := 0
		if a.ran != b.ran {
			if ran = 1; a.ran {
				ran = -1
			}
		}
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), ran, cmp.Compare(a.part, b.part),
			cmp.Compare(a.after, b.after))
	})
	for i, sl := range o.list {
		sl.first, sl.last = o.limits(sl.end)
		o.shut(i)
		if o.fire == nil {
			o.minDue = min(o.minDue, sl.first)
		} else {
			o.next = min(o.next, o.firstAfter(sl.end, max(o.wm, sl.after)))
		}
	}
	if o.kind == plan.Cumulate {
		o.run.EndLoad()
		if o.run.R.Len() > 0 {
			o.next = min(o.next, o.firstAfter(o.runStart+o.step, o.wm))
		}
	}
}

// shut closes slice i, and all of its interval, where some of them have seen more than others: they
// may have entries of the same prefix, so the rows of one key must not go to two of them.
func (o *Agg) shut(i int) {
	sl := o.list[i]
	if sl.after == vec.MinTime {
		return
	}
	same := func(k int) bool {
		return k >= 0 && k < len(o.list) && o.list[k].end == sl.end && o.list[k].start == sl.start
	}
	for k := i; same(k); k-- {
		o.list[k].shut = true
	}
	for k := i; same(k); k++ {
		o.list[k].shut = true
	}
}

var _ op.Stateful = (*Agg)(nil)
