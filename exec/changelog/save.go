package changelog

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

const saveVersion = 1

// States implements op.Stateful: one state, an entry a key:
//
//	key    state.Table.AppendKey
//	value  with a TTL the time of last use (BIGINT, ms, in the form of state.AppendValue), then what
//	       a record keeps: of Normalize the columns of the row, each in the form of state.AppendValue;
//	       of Materialize the rows (BYTES, in that form: each its length, 4 bytes, little endian, and
//	       its columns)
func (o *keyed) States() []state.Spec {
	sp := state.Spec{Name: "rows", Version: saveVersion}
	for _, k := range o.keys {
		f := o.in.Fields[k]
		sp.Key = append(sp.Key, types.Field{Name: f.Name, Type: f.Type.WithoutAttr()})
	}
	if o.ttlMs > 0 {
		sp.Value = append(sp.Value, types.Field{Name: state.LastUse, Type: types.BigIntType.NotNull()})
	}
	if o.list {
		sp.Value = append(sp.Value, types.Field{Name: "rows", Type: types.BytesType.NotNull()})
		var row []types.Field
		for _, f := range o.in.Fields {
			row = append(row, types.Field{Name: f.Name, Type: f.Type.WithoutAttr()})
		}
		sp.Parts = map[string][]state.Part{"rows": {{Name: "rows", Type: types.ArrayType(types.RowType(row...)), Form: state.PartLog}}}
		return []state.Spec{sp}
	}
	for _, f := range o.in.Fields {
		sp.Value = append(sp.Value, types.Field{Name: f.Name, Type: f.Type.WithoutAttr()})
	}
	return []state.Spec{sp}
}

func (o *keyed) keeper() *state.Keeper {
	k := &state.Keeper{MaxParallelism: o.ctx.MaxParallelism, Codec: o.codec, Check: o.ctx.CheckGroup}
	if o.codec == nil {
		k.Codec = o
	}
	return k
}

// Freeze implements op.Stateful.
func (o *keyed) Freeze(d *state.Delta) error {
	d.Grow(o.Dirty())
	o.keeper().Freeze(o.t, d)
	return nil
}

// Dirty implements op.Stateful.
func (o *keyed) Dirty() int {
	return o.t.Dirty() * (8*(o.t.Layout().Words()+1) + 16*len(o.in.Fields))
}

// Head implements op.Stateful.
func (o *keyed) Head(dst []byte) ([]byte, error) { return dst, nil }

// Restore implements op.Stateful.
func (o *keyed) Restore(saved state.Saved, _ [][]byte) error {
	err := o.keeper().Restore(o.t, saved)
	o.count()
	return err
}

// AppendValue implements state.Codec.
func (o *keyed) AppendValue(dst []byte, rec uint32) []byte {
	le := binary.LittleEndian
	w := o.words(rec)
	if o.ttlMs > 0 {
		dst = le.AppendUint64(append(dst, 1), w[usedAt])
	}
	b := o.blob.Get(state.Ref(w[refAt]))
	if o.list {
		dst = le.AppendUint32(append(dst, 1), uint32(len(b)))
	}
	return append(dst, b...)
}

var errSaved = errors.New("a saved row does not have the shape of the operator's rows")

// LoadValue implements state.Codec.
func (o *keyed) LoadValue(rec uint32, b []byte) error {
	le := binary.LittleEndian
	w := o.words(rec)
	if o.ttlMs > 0 {
		if len(b) < 9 {
			return errSaved
		}
		w[usedAt], b = le.Uint64(b[1:]), b[9:]
	}
	if o.list {
		if len(b) < 5 || uint64(le.Uint32(b[1:])) != uint64(len(b)-5) {
			return errSaved
		}
		b = b[5:]
	}
	if len(b) == 0 || !o.valid(b) {
		return errSaved
	}
	w[refAt] = uint64(o.blob.Put(b))
	return nil
}

// LastUse implements state.Dated.
func (o *keyed) LastUse(b []byte) (int64, bool) {
	if o.ttlMs == 0 || len(b) < 9 {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(b[1:])), true
}

// DropValue implements state.Dropper.
func (o *keyed) DropValue(rec uint32) { o.blob.Free(state.Ref(o.words(rec)[refAt])) }

// Weight implements state.Weigher.
func (o *keyed) Weight() (held, free int64) { return o.blob.Weight() }

// valid reports whether b is what a record keeps.
func (o *keyed) valid(b []byte) bool {
	if !o.list {
		return o.validRow(b)
	}
	for len(b) > 0 {
		if len(b) < 4 {
			return false
		}
		n := uint64(binary.LittleEndian.Uint32(b))
		if b = b[4:]; n > uint64(len(b)) || !o.validRow(b[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

func (o *keyed) validRow(b []byte) bool {
	for _, f := range o.in.Fields {
		var ok bool
		if b, ok = state.CheckValue(b, f.Type); !ok {
			return false
		}
	}
	return len(b) == 0
}

var (
	_ op.Stateful = (*Normalize)(nil)
	_ op.Stateful = (*Materialize)(nil)

	_ op.ProcTimer = (*Normalize)(nil)
	_ op.ProcTimer = (*Materialize)(nil)
)
