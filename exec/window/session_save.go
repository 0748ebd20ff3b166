package window

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// A Session saves an entry a key, with all open sessions of it in the order of its chain, since that
// is the order in which sessions merge: an array of rows (start, end, accumulators, distinct values)
// in the form of state.AppendValue. Timers follow from the ends.
//
// Sessions that are over are gone, so it does no harm where a subtask goes on from a watermark that
// some of its keys have been further than: their rows are stamped with what they had seen.

// States implements op.Stateful.
func (o *Session) States() []state.Spec {
	row := types.Type{Kind: types.Row, Fields: []types.Field{timeField("start"), timeField("end"), accumulators}}
	if o.set.HasValues() {
		row.Fields = append(row.Fields, field("values", types.BytesType))
	}
	row = row.NotNull()
	return []state.Spec{{Name: "sessions", Version: saveVersion, Key: fieldsOf(o.inS, o.n.Keys),
		Value: []types.Field{field("sessions", types.Type{Kind: types.Array, Elem: &row})}, Parts: partsOf(o.set, o.n, o.inS)}}
}

// Freeze implements op.Stateful.
func (o *Session) Freeze(d *state.Delta) error {
	o.keeper.Freeze(o.keys, d)
	o.ended = 0
	return nil
}

// Dirty implements op.Stateful. Sessions with lists or distinct values count as if they were small.
func (o *Session) Dirty() int {
	key := 8 * (2 + o.keys.Base())
	return o.keys.Dirty()*(key+8*(sessHead+o.set.Words())) + o.ended*key
}

// Head implements op.Stateful.
func (o *Session) Head(dst []byte) ([]byte, error) { return appendHead(dst, o.wm, &o.levels, nil), nil }

// Restore implements op.Stateful.
func (o *Session) Restore(saved state.Saved, heads [][]byte) error {
	p, err := readHeads(heads, o.ctx)
	if err != nil {
		return err
	}
	o.wm, o.seen = p.wm, max(o.seen, p.wm)
	o.levels.start(p.wm, p.levels)
	if o.spill.Stored() {
		err = o.restoreStored(saved)
	} else {
		err = o.keeper.Restore(o.keys, saved)
	}
	o.count()
	return err
}

// AppendValue implements state.Codec: the sessions of a key.
func (o *Session) AppendValue(dst []byte, kr uint32) []byte {
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
		id = uint32(w[sessNext])
	}
	le.PutUint32(dst[at:], n)
	return dst
}

// LoadValue implements state.Codec.
func (o *Session) LoadValue(kr uint32, b []byte) error {
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
		w[sessKey], w[sessNext] = uint64(kr), 0
		w[sessStart], w[sessEnd] = le.Uint64(b[2:]), le.Uint64(b[11:])
		copy(w[sessHead:], o.init)
		o.timers.add(o.over(int64(w[sessEnd])), id)
		switch {
		case last == 0:
			o.keys.At(kr)[o.keys.Base()] = uint64(id)
		case o.sorted: // perhaps they were not
			o.link(&o.keys.At(kr)[o.keys.Base()], id)
		default:
			o.st.R.At(last)[sessNext] = uint64(id)
		}
		last = id
		group, rest, err := readBytes(b[19:])
		if err == nil {
			err = o.set.LoadGroup(o.st, id, group)
		}
		if err == nil && o.set.HasValues() {
			if group, rest, err = readBytes(rest); err == nil {
				err = o.set.LoadValues(o.st, id, group)
			}
		}
		if err != nil {
			return err
		}
		b = rest
	}
	if len(b) > 0 || last == 0 {
		return errEntry
	}
	o.loaded(kr, 0)
	o.unpark(kr)
	return nil
}

// track makes the operator note what changes.
func (o *Session) track() {
	if o.ctx.Saves {
		o.keys.Track()
	}
	o.keeper = state.Keeper{MaxParallelism: o.ctx.MaxParallelism, Codec: o, Check: o.ctx.CheckGroup}
}

// shrunk notes that a session of key kr has gone, perhaps the last one.
func (o *Session) shrunk(kr uint32, last bool) {
	switch {
	case !o.ctx.Saves:
	case last:
		o.ended++
	default:
		o.lost = append(o.lost[:0], kr)
		o.keys.Touch(o.lost)
	}
}

var _ op.Stateful = (*Session)(nil)

// beginBytes starts a value of BYTES in the form of state.AppendValue, which endBytes ends; begin is
// the length before, plus one.
func beginBytes(dst []byte) []byte { return append(dst, 1, 0, 0, 0, 0) }

func endBytes(dst []byte, begin int) []byte {
	binary.LittleEndian.PutUint32(dst[begin:], uint32(len(dst)-begin-4))
	return dst
}

// readBytes reads a value that endBytes ended.
func readBytes(b []byte) (v, rest []byte, err error) {
	if len(b) < 5 || b[0] != 1 {
		return nil, nil, errEntry
	}
	n := uint64(binary.LittleEndian.Uint32(b[1:]))
	b = b[5:]
	if n > uint64(len(b)) {
		return nil, nil, errEntry
	}
	return b[:n], b[n:], nil
}
