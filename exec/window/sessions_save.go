package window

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Sessions saves an entry a key, as Session does, with rows that tell more: whether the session has
// changed since it was shown, how many rows it got since and from where, and the results of it, and of
// sessions that it has absorbed, that were shown and not deleted. The columns are the same whatever is
// asked for, so that this may change. The head has, besides the watermark, when results by processing
// time are due.
//
// Where a subtask goes on from a watermark that some of its keys have been further than, it takes
// sessions for open that have been shown for these on time; see emitting_save.go.

// States implements op.Stateful.
func (o *Sessions) States() []state.Spec {
	specs := o.Session.States()
	row := specs[0].Value[0].Type.Elem
	result := types.Type{Kind: types.Row, Fields: []types.Field{timeField("start"), timeField("end"),
		field("result", types.BytesType)}}.NotNull()
	row.Fields = append(row.Fields, field("to_be_shown", types.BooleanType), field("rows_since_shown", types.BigIntType),
		field("cause", types.StringType), field("shown", types.Type{Kind: types.Array, Elem: &result}))
	return specs
}

// Freeze implements op.Stateful.
func (o *Sessions) Freeze(d *state.Delta) error {
	o.keeper.Freeze(o.keys, d)
	o.ended = 0
	return nil
}

// Dirty implements op.Stateful. Sessions with lists or distinct values count as if they were small.
func (o *Sessions) Dirty() int {
	key := 8 * (2 + o.keys.Base())
	return o.keys.Dirty()*(key+8*(corrHead+o.set.Words())) + o.ended*key
}

// Head implements op.Stateful.
func (o *Sessions) Head(dst []byte) ([]byte, error) {
	return appendClocks(appendHead(dst, o.wm, nil, nil), &o.emission), nil
}

// Restore implements op.Stateful.
func (o *Sessions) Restore(saved state.Saved, heads [][]byte) error {
	p, err := readHeads(heads, o.ctx)
	if err != nil {
		return err
	}
	o.wm, o.seen = p.wm, max(o.seen, p.wm)
	if o.spill.Stored() {
		err = o.restoreStored(saved)
	} else {
		err = o.keeper.Restore(o.keys, saved)
	}
	if err != nil {
		return err
	}
	early, late, err := readClocks(p)
	if err != nil {
		return err
	}
	for _, id := range o.pending {
		switch fired := o.fired(o.st.R.At(id)); {
		case !fired && o.earlyMs > 0:
			o.early = min(early, late) // it may have been shown on time, and wait for the other clock
		case fired && o.lateMs > 0:
			o.late = late
		}
	}
	o.count()
	return nil
}

// AppendValue implements state.Codec: the sessions of a key.
func (o *Sessions) AppendValue(dst []byte, kr uint32) []byte {
	le := binary.LittleEndian
	dst = append(dst, 1)
	at := len(dst)
	dst = le.AppendUint32(dst, 0)
	n := uint32(0)
	for id := uint32(o.keys.At(kr)[o.keys.Base()]); id != 0; n++ {
		w := o.st.R.At(id)
		dst = le.AppendUint64(append(dst, 1, 1), w[sessStart])
		dst = le.AppendUint64(append(dst, 1), w[sessEnd])
		begin := len(dst) + 1
		dst = endBytes(o.set.AppendGroup(beginBytes(dst), o.st, id), begin)
		if o.set.HasValues() {
			begin = len(dst) + 1
			dst = endBytes(o.set.AppendValues(beginBytes(dst), o.st, id), begin)
		}
		changed := byte(0)
		if w[0]&flagChanged != 0 {
			changed = 1
		}
		dst = le.AppendUint64(append(dst, 1, changed, 1), w[corrSince])
		begin = len(dst) + 1
		dst = beginBytes(dst)
		if o.causes != nil {
			dst = o.causes.appendText(dst, w[corrCause])
		}
		dst = endBytes(dst, begin)
		shown := o.shown.Get(state.Ref(w[corrShown]))
		count := uint32(0)
		for b := shown; len(b) > 0; count++ {
			_, _, _, b = shownAt(b)
		}
		dst = append(le.AppendUint32(append(dst, 1), count), shown...)
		id = uint32(w[sessNext])
	}
	le.PutUint32(dst[at:], n)
	return dst
}

// LoadValue implements state.Codec.
func (o *Sessions) LoadValue(kr uint32, b []byte) error {
	le := binary.LittleEndian
	if len(b) < 5 || b[0] != 1 {
		return errEntry
	}
	n := le.Uint32(b[1:])
	b = b[5:]
	last := uint32(0) // of the chain
	for ; n > 0; n-- {
		if len(b) < 19 || b[0] != 1 || b[1] != 1 || b[10] != 1 {
			return errEntry
		}
		id := o.st.R.Alloc()
		w := o.st.R.At(id)
		clear(w[sessKey:corrHead])
		w[sessKey] = uint64(kr)
		w[sessStart], w[sessEnd] = le.Uint64(b[2:]), le.Uint64(b[11:])
		copy(w[corrHead:], o.init)
		o.queue(id)
		if last == 0 {
			o.keys.At(kr)[o.keys.Base()] = uint64(id)
		} else {
			o.link(&o.keys.At(kr)[o.keys.Base()], id)
		}
		last = id
		var err error
		if b, err = o.loadSession(id, b[19:]); err != nil {
			return err
		}
	}
	if len(b) > 0 || last == 0 {
		return errEntry
	}
	o.loaded(kr, o.lateness)
	o.unpark(kr)
	return nil
}

// loadSession reads what follows the bounds of a session.
func (o *Sessions) loadSession(id uint32, b []byte) ([]byte, error) {
	group, b, err := readBytes(b)
	if err == nil {
		err = o.set.LoadGroup(o.st, id, group)
	}
	if err == nil && o.set.HasValues() {
		if group, b, err = readBytes(b); err == nil {
			err = o.set.LoadValues(o.st, id, group)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(b) < 11 || b[0] != 1 || b[1] > 1 || b[2] != 1 {
		return nil, errEntry
	}
	w := o.st.R.At(id)
	w[0] &^= flagChanged
	if b[1] == 1 {
		w[0] |= flagChanged
		if o.delay(o.fired(w)) >= 0 {
			o.pending = append(o.pending, id)
		}
	}
	w[corrSince] = binary.LittleEndian.Uint64(b[3:])
	cause, b, err := readBytes(b[11:])
	if err == nil && o.causes != nil {
		err = o.causes.load(&w[corrCause], cause)
	}
	if err != nil || len(b) < 5 || b[0] != 1 {
		return nil, errEntry
	}
	return o.loadShown(w, b)
}

// loadShown reads the results that were shown, an array, at the start of b.
func (o *Sessions) loadShown(w []uint64, b []byte) ([]byte, error) {
	n := binary.LittleEndian.Uint32(b[1:])
	b = b[5:]
	all := b
	for ; n > 0; n-- {
		if len(b) < shownHead || b[0] != 1 || b[1] != 1 || b[10] != 1 || b[19] != 1 {
			return nil, errEntry
		}
		if uint64(binary.LittleEndian.Uint32(b[shownHead-4:])) > uint64(len(b)-shownHead) {
			return nil, errEntry
		}
		_, _, result, rest := shownAt(b)
		if err := o.show.check(result); err != nil {
			return nil, err
		}
		b = rest
	}
	if shown := all[:len(all)-len(b)]; len(shown) > 0 {
		w[corrShown] = uint64(o.shown.Put(shown))
	}
	return b, nil
}

var _ op.Stateful = (*Sessions)(nil)
