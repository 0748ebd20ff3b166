package window

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/state"
)

// distinct is what sweeping groups with distinct values takes besides: the values of the groups at hand are
// read next to their groups, in the same order, and united with what stores in memory have (agg.Union), so
// that a group may have more values than there is memory.
type distinct struct {
	union   *agg.Union
	readers [][]*reader // by set of values
	heaps   []readers
	where   [][]uint32 // by source: the records there of the groups at hand
	key     []byte
	stores  []*agg.Store
}

// init is for a set of aggregates whose parts may be merged in any order; others that have values are not
// swept by this.
func (d *distinct) init(o *Agg) {
	if n := o.runState() - 1; n > 0 && o.set.Splits() {
		d.union = o.set.NewUnion(o.sweeper.block)
		d.readers, d.heaps = make([][]*reader, n), make([]readers, n)
	}
}

// open prepares for the readers and sources of w, and returns how many bytes that took.
func (d *distinct) open(w *sweeper) int64 {
	if d.union == nil {
		return 0
	}
	for i := range d.readers {
		d.readers[i] = d.readers[i][:0]
		for _, r := range w.readers {
			d.readers[i] = append(d.readers[i], &reader{slice: r.slice, sl: r.sl, state: r.state + 1 + i, prefix: r.prefix})
		}
	}
	for len(d.where) < len(w.sources) {
		d.where = append(d.where, nil)
	}
	for _, s := range w.sources {
		d.stores = append(d.stores, s.st)
	}
	held := d.union.Open(d.stores)
	clear(d.stores)
	d.stores = d.stores[:0]
	return held
}

func (d *distinct) close() {
	if d.union != nil {
		d.union.Close()
	}
}

// begin goes to the start of a key group.
func (d *distinct) begin(w *sweeper, sp *state.Spill, group int) error {
	for i := range d.readers {
		if err := w.begin(&d.heaps[i], d.readers[i], sp, group); err != nil {
			return err
		}
	}
	return nil
}

// groups says that n groups are at hand, which were not found anywhere yet.
func (d *distinct) groups(w *sweeper, n int) {
	if d.union == nil {
		return
	}
	for j := range w.sources {
		d.where[j] = sized(d.where[j], n)
		clear(d.where[j])
	}
}

// found is where to put the records of the groups at hand in source j.
func (d *distinct) found(w *sweeper, j int) []uint32 {
	if d.union == nil {
		return w.found
	}
	return d.where[j]
}

// unite gives the groups at hand, whose own accumulators are merged, what follows from their values. sp is
// nil where none of these are on disk.
func (d *distinct) unite(w *sweeper, sp *state.Spill, group int) error {
	if d.union == nil {
		return nil
	}
	d.union.Begin(w.ids, d.where[:len(w.sources)])
	if sp != nil {
		for i := range d.heaps {
			if err := d.read(w, i, sp, group); err != nil {
				return err
			}
		}
	}
	d.union.End()
	return nil
}

// read adds the values of set i that the store has of the groups at hand.
func (d *distinct) read(w *sweeper, i int, sp *state.Spill, group int) error {
	h := &d.heaps[i]
	var r *reader
	inMemory := func(rest []byte) (bool, error) {
		run, err := runOf(rest)
		return err == nil && r.sl.inMemory(run), err
	}
	for k, id := range w.ids {
		d.key = w.block.T.AppendKey(d.key[:0], id)
		for len(*h) > 0 {
			r = (*h)[0]
			value, ok := bytes.CutPrefix(r.key(), d.key)
			if !ok {
				if bytes.Compare(r.key(), d.key) > 0 {
					break
				}
				if err := d.stray(w, i, r.key(), inMemory); err != nil {
					return err
				}
				if err := h.advance(sp, group); err != nil {
					return err
				}
				continue
			}
			if err := d.union.Add(i, k, value, r.value(), inMemory); err != nil {
				return err
			}
			if err := h.advance(sp, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// stray looks at a value of a group that no entry was read of. That of a run in memory may have been put into the
// store after its groups had been read, as changes go there beside the operator; it counts where it is in memory.
func (d *distinct) stray(w *sweeper, i int, key []byte, inMemory func(rest []byte) (bool, error)) error {
	rest, err := w.block.ValueSuffix(i, key)
	if err != nil {
		return err
	}
	known, err := inMemory(rest)
	if err == nil && !known {
		err = errEntry
	}
	return err
}
