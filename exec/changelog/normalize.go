package changelog

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Normalize turns upserts by key into a full changelog, as Flink's ChangelogNormalize: a first row
// is an insert, a further one an update of the row before; one that changes nothing is left out;
// -D, of which only the key counts, deletes the whole row.
type Normalize struct {
	keyed
	before bool
}

// NewNormalize builds the operator of n over rows of schema in; out is the same columns.
func NewNormalize(n *plan.Normalize, in, out types.Schema) (op.Operator, error) {
	if n.Versioned || n.HorizonMs > 0 {
		return newEntities(n, in, out)
	}
	o := &Normalize{newKeyed(n.Keys, n.TTLMs, in, out), n.UpdateBefore}
	o.carry = true
	return o, nil
}

// Process implements op.Operator.
func (o *Normalize) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	o.begin(b, rows)
	stale, same := 0, 0
	for k, i := range rows {
		w := o.words(o.recs[k])
		old := o.blob.Get(state.Ref(w[refAt]))
		if b.Kind(int(i)).Retracts() {
			if old == nil {
				stale++
				continue
			}
			o.emit(types.Delete, old, b, int(i))
			o.blob.Free(state.Ref(w[refAt]))
			o.set(k, 0)
			continue
		}
		o.encode(b, int(i))
		switch {
		case old == nil:
			o.emit(types.Insert, o.row, b, int(i))
		case bytes.Equal(old, o.row) && o.ttlMs == 0:
			same++
			continue
		default:
			if o.before {
				o.emit(types.UpdateBefore, old, b, int(i))
			}
			o.emit(types.UpdateAfter, o.row, b, int(i))
		}
		o.set(k, o.blob.Set(state.Ref(w[refAt]), o.row))
	}
	o.drop(op.DropStale, stale)
	o.drop(op.DropDuplicate, same)
	return o.end()
}
