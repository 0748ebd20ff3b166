package changelog

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// entitiesVersion is that of the saved form of Entities with versions; without them it is that of
// Normalize.
const entitiesVersion = 2

// States implements op.Stateful: one state, an entry an entity:
//
//	key    state.Table.AppendKey
//	value  with a horizon or a TTL the last event time, or time of last use (BIGINT, ms); with versions
//	       whether it is deleted (BOOLEAN); then the columns of the row, of a deleted one NULL but for
//	       the version; all in the form of state.AppendValue
func (o *Entities) States() []state.Spec {
	specs := o.keyed.States()
	if o.version < 0 {
		return specs
	}
	sp := &specs[0]
	sp.Name, sp.Version = "entities", entitiesVersion
	at := len(sp.Value) - len(o.in.Fields)
	value := append([]types.Field(nil), sp.Value[:at]...)
	value = append(value, types.Field{Name: "deleted", Type: types.BooleanType.NotNull()})
	for _, f := range sp.Value[at:] {
		value = append(value, types.Field{Name: f.Name, Type: f.Type.AsNullable()})
	}
	sp.Value = value
	return specs
}

// AppendValue implements state.Codec.
func (o *Entities) AppendValue(dst []byte, rec uint32) []byte {
	if o.version < 0 {
		return o.keyed.AppendValue(dst, rec)
	}
	w := o.words(rec)
	if o.ttlMs > 0 {
		dst = binary.LittleEndian.AppendUint64(append(dst, 1), w[usedAt])
	}
	version, row := o.split(o.blob.Get(state.Ref(w[refAt])))
	if len(row) > 0 {
		return append(append(dst, 1, 0), row...)
	}
	dst = append(dst, 1, 1)
	for i := range o.in.Fields {
		if i == o.version {
			dst = append(dst, version...)
		} else {
			dst = append(dst, 0)
		}
	}
	return dst
}

// LoadValue implements state.Codec.
func (o *Entities) LoadValue(rec uint32, b []byte) error {
	if o.version < 0 {
		return o.keyed.LoadValue(rec, b)
	}
	w := o.words(rec)
	if o.ttlMs > 0 {
		if len(b) < 9 || b[0] != 1 {
			return errSaved
		}
		w[usedAt], b = binary.LittleEndian.Uint64(b[1:]), b[9:]
	}
	if len(b) < 2 || b[0] != 1 || b[1] > 1 {
		return errSaved
	}
	dead, row := b[1] == 1, b[2:]
	var version []byte
	rest := row
	for i, f := range o.in.Fields {
		next, ok := state.CheckValue(rest, f.Type)
		if !ok {
			return errSaved
		}
		if i == o.version {
			version = rest[:len(rest)-len(next)]
		}
		rest = next
	}
	if len(rest) > 0 || version[0] == 0 {
		return errSaved
	}
	o.row = append(o.row[:0], version...)
	if !dead {
		o.row = append(o.row, row...)
	}
	w[refAt] = uint64(o.blob.Put(o.row))
	return nil
}
