package window

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// held keeps rows until the windows that they are late for have fired. Such rows come only with
// hops and cumulates, when a batch crosses the end of a window: the row's stamp says that the
// window is over, the operator has not been told yet, and other windows of the same slice still
// want the row.
type held struct {
	rows *vec.Batch
	// seq numbers the rows under which they were saved, 0 for those that were not; groups are
	// their key groups then. Both are empty where no checkpoints are taken.
	seq    []uint64
	groups []uint16
	last   uint64 // the number given last
}

// add keeps row r of b.
func (h *held) add(b *vec.Batch, r int32) { h.rows.Gather(b, []int32{r}) }

// first is the first stamp of a held row, or never.
func (h *held) first() int64 {
	first := int64(never)
	for _, s := range h.rows.Stamps {
		first = min(first, s)
	}
	return first
}

// number makes room for what is known of saved rows.
func (h *held) number() {
	for len(h.seq) < h.rows.N {
		h.seq = append(h.seq, 0)
		h.groups = append(h.groups, 0)
	}
}

// dirty is about how many bytes the rows take that were not saved yet.
func (h *held) dirty() int {
	n := h.rows.N
	for _, seq := range h.seq {
		if seq != 0 {
			n--
		}
	}
	return n * 16 * (2 + len(h.rows.Cols))
}

// release adds the held rows of stamp at, when all windows that are over at that watermark have
// fired.
func (o *Agg) release(at int64) error {
	h := &o.held
	var free, stay []int32
	if o.save != nil {
		h.number()
	}
	for i, s := range h.rows.Stamps {
		if s != at {
			if o.save != nil {
				h.seq[len(stay)], h.groups[len(stay)] = h.seq[i], h.groups[i]
			}
			stay = append(stay, int32(i))
			continue
		}
		free = append(free, int32(i))
		if o.save != nil && h.seq[i] != 0 {
			o.save.gone.Delete(o.heldState(), int(h.groups[i]), binary.BigEndian.AppendUint64(nil, h.seq[i]))
		}
	}
	if o.save != nil {
		h.seq, h.groups = h.seq[:len(stay)], h.groups[:len(stay)]
	}
	b := h.rows
	h.rows = vec.NewBatch(o.inS)
	h.rows.Gather(b, stay)
	b.Sel = free
	wm, lates := o.wm, o.lates
	o.wm, o.lates = max(o.wm, at), nil // which windows they missed was told when they came
	err := o.assign(b, free)
	if err == nil {
		err = o.apply(b)
	}
	o.wm, o.lates = wm, lates
	return err
}

// heldSpec describes the held rows: by number, their kind, stamp and columns.
func (o *Agg) heldSpec() state.Spec {
	sp := state.Spec{Name: "held rows", Version: saveVersion, Key: []types.Field{field("row", types.BigIntType)},
		Value: []types.Field{field("kind", types.IntType), field("stamp", types.BigIntType)}}
	sp.Value = append(sp.Value, o.inS.Fields...)
	return sp
}

// freezeHeld saves the rows held since the last time, in the form of state.AppendValue, in the key
// groups of their keys.
func (o *Agg) freezeHeld(d *state.Delta) {
	h := &o.held
	h.number()
	var fresh []int32
	for i, seq := range h.seq {
		if seq == 0 {
			fresh = append(fresh, int32(i))
		}
	}
	if len(fresh) == 0 {
		return
	}
	b := h.rows
	for i, k := range o.n.Keys {
		o.keyCols[i] = b.Cols[k]
	}
	o.enc.Encode(o.keyCols, fresh, nil)
	le := binary.LittleEndian
	for k, r := range fresh {
		group := state.KeyGroup(o.enc.Hash(k), o.ctx.MaxParallelism)
		o.ctx.CheckGroup(group)
		h.last++
		h.seq[r], h.groups[r] = h.last, uint16(group)
		buf := binary.BigEndian.AppendUint64(d.BeginPut(o.heldState(), group), h.last)
		end := len(buf)
		buf = le.AppendUint32(append(buf, 1), uint32(b.Kind(int(r))))
		buf = le.AppendUint64(append(buf, 1), uint64(b.Stamp(int(r))))
		for _, c := range b.Cols {
			buf = state.AppendValue(buf, c, int(r))
		}
		d.EndPut(buf, end)
	}
}

// loadHeld adds one saved row.
func (o *Agg) loadHeld(group int, key, value []byte) error {
	if len(key) != 8 || len(value) < 14 || value[0] != 1 || value[5] != 1 {
		return errEntry
	}
	h, le := &o.held, binary.LittleEndian
	seq := binary.BigEndian.Uint64(key)
	kind, stamp := types.RowKind(le.Uint32(value[1:])), int64(le.Uint64(value[6:]))
	if kind > types.Delete {
		return errEntry
	}
	b := h.rows
	value = value[14:]
	for i, c := range b.Cols {
		if _, ok := state.CheckValue(value, o.inS.Fields[i].Type); !ok {
			return errEntry
		}
		c.Resize(b.N + 1)
		value = state.DecodeValue(value, c, b.N)
	}
	if len(value) > 0 {
		return errEntry
	}
	b.N++
	b.Kinds, b.Stamps = append(b.Kinds, kind), append(b.Stamps, stamp)
	h.seq, h.groups = append(h.seq, seq), append(h.groups, uint16(group))
	h.last = max(h.last, seq)
	return nil
}
