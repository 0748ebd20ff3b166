package changelog

import (
	"bytes"
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Materialize keeps, for each primary key of a sink, the rows that are there in the order they
// came, and shows the last one, as Flink's SinkUpsertMaterializer: so that the row of a key is
// right even if the insert of the new one overtakes the deletion of the old one.
type Materialize struct{ keyed }

// NewMaterialize builds the operator of n over rows of schema in; out is the same columns.
func NewMaterialize(n *plan.Materialize, in, out types.Schema) (op.Operator, error) {
	o := &Materialize{newKeyed(n.Keys, n.TTLMs, in, out)}
	o.list = true
	return o, nil
}

// Process implements op.Operator.
func (o *Materialize) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	o.begin(b, rows)
	stale := 0
	for k, i := range rows {
		w := o.words(o.recs[k])
		o.encode(b, int(i))
		if !b.Kind(int(i)).Retracts() {
			kind := types.UpdateAfter
			if w[refAt] == 0 {
				kind = types.Insert
			}
			o.emit(kind, o.row, b, int(i))
			o.row = append(o.row, 0, 0, 0, 0)
			n := len(o.row) - 4
			copy(o.row[4:], o.row[:n])
			binary.LittleEndian.PutUint32(o.row, uint32(n))
			o.set(k, o.blob.Append(state.Ref(w[refAt]), o.row))
			continue
		}
		if !o.remove(k, w, b, int(i)) {
			stale++
		}
	}
	o.drop(op.DropStale, stale)
	return o.end()
}

// remove takes the first row equal to o.row out of the rows of the record of row k, whose words are
// w, and shows what that changes.
func (o *Materialize) remove(k int, w []uint64, b *vec.Batch, i int) bool {
	list := o.blob.Get(state.Ref(w[refAt]))
	found, last, shown := -1, 0, -1
	eachRow(list, func(at int, row []byte) bool {
		if found < 0 && bytes.Equal(row, o.row) {
			found = at
		} else {
			shown = at
		}
		last = at
		return true
	})
	if found < 0 {
		return false
	}
	switch {
	case shown < 0:
		o.emit(types.Delete, o.row, b, i)
		o.blob.Free(state.Ref(w[refAt]))
		o.set(k, 0)
		return true
	case found == last:
		n := int(binary.LittleEndian.Uint32(list[shown:]))
		o.emit(types.UpdateAfter, list[shown+4:shown+4+n], b, i)
	}
	n := 4 + int(binary.LittleEndian.Uint32(list[found:]))
	copy(list[found:], list[found+n:])
	o.set(k, o.blob.Grow(state.Ref(w[refAt]), len(list)-n))
	return true
}
