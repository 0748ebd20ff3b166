package revise

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const saveVersion = 1

// States implements op.Stateful: one state, an entry a key, in the forms of state.AppendKey and
// state.AppendValue. Its head is the latest watermark that is a time, and hold (8 bytes each, little endian); the
// second is absent where there are no times of last use, or they say nothing of windows.
func (o *Revise) States() []state.Spec {
	sp := state.Spec{Name: "revisions", Version: saveVersion}
	for _, k := range o.n.Keys {
		f := o.in.Fields[k]
		sp.Key = append(sp.Key, types.Field{Name: f.Name, Type: f.Type.WithoutAttr()})
	}
	if o.n.TTLMs > 0 {
		sp.Value = append(sp.Value, types.Field{Name: state.LastUse, Type: types.BigIntType.NotNull()})
	}
	sp.Value = append(sp.Value, types.Field{Name: "newest_revision", Type: types.BigIntType.NotNull()},
		types.Field{Name: "deleted", Type: types.BooleanType.NotNull()},
		types.Field{Name: "payload_hash", Type: types.BytesType.NotNull()})
	return []state.Spec{sp}
}

func (o *Revise) keeper() *state.Keeper {
	return &state.Keeper{MaxParallelism: o.ctx.MaxParallelism, Codec: o, Check: o.ctx.CheckGroup}
}

// Freeze implements op.Stateful.
func (o *Revise) Freeze(d *state.Delta) error {
	d.Grow(o.Dirty())
	o.keeper().Freeze(o.t, d)
	return nil
}

// Dirty implements op.Stateful.
func (o *Revise) Dirty() int { return o.t.Dirty() * (8*o.t.Layout().Words() + 48) }

// Head implements op.Stateful.
func (o *Revise) Head(dst []byte) ([]byte, error) {
	le := binary.LittleEndian
	if dst = le.AppendUint64(dst, uint64(o.known)); o.n.TTLMs > 0 {
		dst = le.AppendUint64(dst, uint64(o.hold))
	}
	return dst, nil
}

// Restore implements op.Stateful.
func (o *Revise) Restore(saved state.Saved, heads [][]byte) error {
	le := binary.LittleEndian
	for i, h := range heads {
		if len(h) != 8 && len(h) != 16 {
			return errors.New("a saved watermark is not 8 bytes long")
		}
		wm := int64(le.Uint64(h))
		if i == 0 || wm < o.known {
			o.known = wm
		}
		if len(h) == 16 {
			o.hold = max(o.hold, int64(le.Uint64(h[8:])))
		} else if wm < vec.MaxTime/2 {
			o.hold = max(o.hold, wm+o.n.SizeMs+o.n.LatenessMs)
		}
	}
	o.wm = o.known
	// Whether there are any is not known where the state stays in the store.
	o.undated = o.known == vec.MinTime
	err := o.keeper().Restore(o.t, saved)
	o.count()
	return err
}

var errSaved = errors.New("a saved revision is not one")

const hashBytes = 16

// AppendValue implements state.Codec.
func (o *Revise) AppendValue(dst []byte, rec uint32) []byte {
	le := binary.LittleEndian
	w := o.words(rec)
	if o.n.TTLMs > 0 {
		dst = le.AppendUint64(append(dst, 1), w[usedAt])
	}
	dst = le.AppendUint64(append(dst, 1), w[revisionAt]>>1)
	dst = append(dst, 1, byte(w[revisionAt]&deleted))
	dst = le.AppendUint32(append(dst, 1), hashBytes)
	return le.AppendUint64(le.AppendUint64(dst, w[hashAt]), w[hashAt2])
}

// LoadValue implements state.Codec.
func (o *Revise) LoadValue(rec uint32, b []byte) error {
	le := binary.LittleEndian
	w := o.words(rec)
	if o.n.TTLMs > 0 {
		if len(b) < 9 || b[0] != 1 {
			return errSaved
		}
		w[usedAt], b = le.Uint64(b[1:]), b[9:]
	}
	if len(b) != 9+2+5+hashBytes || b[0] != 1 || b[9] != 1 || b[10] > 1 || b[11] != 1 || le.Uint32(b[12:]) != hashBytes {
		return errSaved
	}
	revision := le.Uint64(b[1:])
	if revision == 0 || revision>>62 != 0 {
		return errSaved
	}
	w[revisionAt] = revision<<1 | uint64(b[10])
	w[hashAt], w[hashAt2] = le.Uint64(b[16:]), le.Uint64(b[24:])
	return nil
}

// LastUse implements state.Dated.
func (o *Revise) LastUse(b []byte) (int64, bool) {
	if o.n.TTLMs == 0 || len(b) < 9 {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(b[1:])), true
}

// DropValue implements state.Dropper: records keep nothing outside of themselves.
func (o *Revise) DropValue(uint32) {}
