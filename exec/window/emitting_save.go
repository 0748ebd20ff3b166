package window

import (
	"bytes"
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// An Emitting saves an entry a key and window, with what was shown of it and whether it has changed
// since; where that matters, how many rows it got and what these were; and the distinct values. The head has, besides the watermark, when results by processing
// time are due.
//
// Where a subtask goes on from a watermark that some of its keys have been further than, it takes
// windows for open that have been shown for these on time. It shows them again when they are over,
// but a result that equals the one shown before is not emitted.

// States implements op.Stateful.
func (o *Emitting) States() []state.Spec {
	end := []types.Field{timeField("window_end")}
	if o.withStart() {
		end = append(end, timeField("window_start"))
	}
	key := fieldsOf(o.inS, o.n.Keys, end...)
	value := []types.Field{field("to_be_shown", types.BooleanType), {Name: "shown", Type: types.BytesType}}
	if o.earlyRows > 0 || o.lateRows > 0 {
		value = append(value, field("rows_since_shown", types.BigIntType))
	}
	if has(o.n, plan.WindowCause) {
		value = append(value, field("cause", types.StringType))
	}
	specs := []state.Spec{{Name: "windows", Version: saveVersion, Key: key, Value: append(value, accumulators),
		KeyParts: keyParts(end, len(key), len(key)), Parts: partsOf(o.set, o.n, o.inS)}}
	specs[0].Parts["shown"] = o.show.parts()
	for _, sp := range o.set.ValueSpecs(key) {
		sp.Name, sp.KeyParts = "windows: "+sp.Name, keyParts(end, len(key), len(sp.Key))
		specs = append(specs, sp)
	}
	return specs
}

func (o *Emitting) withStart() bool { return o.n.Attached && o.n.StartCol >= 0 }

// prefixOf is what the keys of a window's saved entries begin with, valid until the next call.
func (o *Emitting) prefixOf(w *opened) []byte {
	o.prefix = appendTime(o.prefix[:0], w.end)
	if o.withStart() {
		o.prefix = appendTime(o.prefix, w.start)
	}
	return o.prefix
}

// Freeze implements op.Stateful.
func (o *Emitting) Freeze(d *state.Delta) error {
	if o.save == nil {
		return nil
	}
	if err := o.save.flush(d); err != nil {
		return err
	}
	for _, w := range o.open {
		o.codec = emittingCodec{o: o, w: w}
		o.save.freeze(d, 0, o.prefixOf(w), w.st, &o.codec, &w.saved)
	}
	return nil
}

// Dirty implements op.Stateful.
func (o *Emitting) Dirty() int {
	if o.save == nil {
		return 0
	}
	n := o.save.gone.Size()
	for _, w := range o.open {
		n += w.st.DirtyBytes(o.save.groupBytes)
	}
	return n
}

// Head implements op.Stateful.
func (o *Emitting) Head(dst []byte) ([]byte, error) {
	return appendClocks(appendHead(dst, o.wm, nil, nil), &o.emission), nil
}

// Restore implements op.Stateful.
func (o *Emitting) Restore(saved state.Saved, heads [][]byte) error {
	p, err := readHeads(heads, o.ctx)
	if err != nil {
		return err
	}
	o.wm = p.wm
	var last *opened
	find := func(group int, key []byte) (*opened, []byte, error) {
		end, key, err := readTime(key)
		if err != nil {
			return nil, nil, err
		}
		start := end
		switch {
		case o.withStart():
			if start, key, err = readTime(key); err != nil {
				return nil, nil, err
			}
		case !o.n.Attached:
			start = o.start(end)
		}
		if last == nil || last.end != end || last.start != start {
			last = o.find(start, end)
		}
		last.saved.note(group)
		return last, key, nil
	}
	if o.spill.Stored() {
		err = o.discover(find)
	} else {
		err = saved.Scan(0, func(group int, key, value []byte) error {
			w, key, err := find(group, key)
			if err != nil {
				return err
			}
			k := state.Keeper{Codec: &emittingCodec{o: o, w: w}}
			return k.Load(w.st.T, key, value)
		})
	}
	for i := 0; i < len(o.States())-1 && err == nil && !o.spill.Stored(); i++ {
		err = saved.Scan(1+i, func(group int, key, value []byte) error {
			w, key, err := find(group, key)
			if err != nil {
				return err
			}
			return w.st.LoadValue(i, key, value)
		})
	}
	if err != nil {
		return err
	}
	for _, w := range o.open {
		w.st.EndLoad()
	}
	o.count()
	return o.setClocks(p)
}

// spillTo lets the groups of a new window go to disk.
func (o *Emitting) spillTo(w *opened) {
	if o.spill != nil {
		k := o.save.k
		k.State, k.Prefix = 0, o.prefixOf(w)
		c := emittingCodec{o: o, w: w}
		if !o.set.HasValues() {
			k.Codec = &c
			k.Spill(w.st.T, o.spill)
			return
		}
		k.Prefix, k.Codec = bytes.Clone(k.Prefix), &emittingValues{emittingCodec: c, Store: w.st}
		w.st.Spill(&k, o.spill)
	}
}

// discover finds the windows that the store has groups of, without reading these.
func (o *Emitting) discover(find func(group int, key []byte) (*opened, []byte, error)) error {
	group, hi := o.spill.Groups()
	var from []byte
	for group < hi {
		g, key, ok, err := o.spill.First(0, group, from)
		if err != nil || !ok {
			return err
		}
		w, rest, err := find(g, key)
		if err == nil {
			if err = (&state.Keeper{}).Restore(w.st.T, nil); err == nil {
				err = w.st.RestoreValues(&state.Keeper{}, nil)
			}
		}
		if err != nil {
			return err
		}
		w.marked = true // perhaps
		if group, from = g, state.Successor(key[:len(key)-len(rest)]); from == nil {
			group++
		}
	}
	return nil
}

// setClocks puts the times when results by processing time are due back, where some are to be shown.
func (o *Emitting) setClocks(p *past) error {
	early, late, err := readClocks(p)
	if err != nil {
		return err
	}
	for _, w := range o.open {
		switch {
		case !w.marked:
		case !w.fired && o.earlyMs > 0:
			// The window may have been shown on time for these keys, and wait for the other clock.
			o.early = min(early, late)
		case w.fired:
			o.late = late
		}
	}
	return nil
}

// appendClocks appends when results by processing time are due.
func appendClocks(dst []byte, e *emission) []byte {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint64(dst, uint64(e.early)), uint64(e.late))
}

// readClocks returns the first times of the subtasks concerned that appendClocks appended.
func readClocks(p *past) (early, late int64, err error) {
	early, late = never, never
	for i := p.first; i <= p.last; i++ {
		b := p.rests[i]
		if len(b) != 16 {
			return 0, 0, errHead
		}
		early = min(early, int64(binary.LittleEndian.Uint64(b)))
		late = min(late, int64(binary.LittleEndian.Uint64(b[8:])))
	}
	return early, late, nil
}

// emittingCodec saves the groups of a window: whether they are to be shown (BOOLEAN), the result
// shown last (BYTES, NULL if none; see shower), where rows are counted their number since then (BIGINT),
// where causes are told those since then (STRING, as plan.WindowCause), and the accumulators (BYTES).
type emittingCodec struct {
	o   *Emitting
	w   *opened
	one [1]uint32
}

// DropValue implements state.Dropper.
func (c *emittingCodec) DropValue(rec uint32) {
	c.o.free(c.w, rec)
	c.one[0] = rec
	c.w.st.Drop(c.one[:])
}

// emittingValues is the codec of groups that spill with their distinct values. The store pins groups, and
// weighs what they keep outside of themselves.
type emittingValues struct {
	emittingCodec
	*agg.Store
}

// DropValue implements state.Dropper.
func (c *emittingValues) DropValue(rec uint32) {
	c.o.free(c.w, rec)
	c.Leave(rec)
}

// LoadValue implements state.Codec.
func (c *emittingValues) LoadValue(rec uint32, b []byte) error {
	c.Came(rec)
	return c.emittingCodec.LoadValue(rec, b)
}

// AppendValue implements state.Codec.
func (c *emittingCodec) AppendValue(dst []byte, rec uint32) []byte {
	words := c.w.st.R.At(rec)
	touched := byte(0)
	if words[0]&state.FlagMark != 0 {
		touched = 1
	}
	dst = append(dst, 1, touched)
	if ref := state.Ref(words[c.o.l.Words()]); ref != 0 {
		begin := len(dst) + 1
		dst = endBytes(append(beginBytes(dst), c.o.shown.Get(ref)...), begin)
	} else {
		dst = append(dst, 0)
	}
	if c.o.sinceAt > 0 {
		dst = binary.LittleEndian.AppendUint64(append(dst, 1), words[c.o.sinceAt])
	}
	if c.o.causes != nil {
		begin := len(dst) + 1
		dst = endBytes(c.o.causes.appendText(beginBytes(dst), words[c.o.causeAt]), begin)
	}
	begin := len(dst) + 1
	return endBytes(c.o.set.AppendGroup(beginBytes(dst), c.w.st, rec), begin)
}

// LoadValue implements state.Codec.
func (c *emittingCodec) LoadValue(rec uint32, b []byte) error {
	if len(b) < 3 || b[0] != 1 || b[1] > 1 {
		return errEntry
	}
	if b[1] == 1 {
		c.w.st.R.At(rec)[0] |= state.FlagMark
		c.w.touched, c.w.marked = append(c.w.touched, rec), true
	}
	if b = b[2:]; b[0] == 0 {
		b = b[1:]
	} else {
		shown, rest, err := readBytes(b)
		if err == nil {
			err = c.o.show.check(shown)
		}
		if err != nil {
			return err
		}
		c.w.st.R.At(rec)[c.o.l.Words()] = uint64(c.o.shown.Put(shown))
		b = rest
	}
	b, err := c.loadSince(rec, b)
	if err != nil {
		return err
	}
	group, rest, err := readBytes(b)
	if err == nil && len(rest) > 0 {
		err = errEntry
	}
	if err != nil {
		return err
	}
	return c.o.set.LoadGroup(c.w.st, rec, group)
}

// loadSince reads what a record has got since it was shown, where that is kept.
func (c *emittingCodec) loadSince(rec uint32, b []byte) ([]byte, error) {
	words := c.w.st.R.At(rec)
	if c.o.sinceAt > 0 {
		if len(b) < 9 || b[0] != 1 {
			return nil, errEntry
		}
		words[c.o.sinceAt] = binary.LittleEndian.Uint64(b[1:])
		b = b[9:]
	}
	if c.o.causes == nil {
		return b, nil
	}
	text, rest, err := readBytes(b)
	if err == nil {
		err = c.o.causes.load(&words[c.o.causeAt], text)
	}
	return rest, err
}

var _ op.Stateful = (*Emitting)(nil)
