package revise

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// maxHeld is the number of -U rows that are held back for longer than one batch: more are taken for
// deletions.
const maxHeld = 2 * vec.BatchRows

// held are the -U rows of which nobody knows yet whether they are deletions: the columns of the key, then
// the end of the window where there is one. A key is there at most once. Between two batches the table
// knows nothing of them, as its records may move or leave.
type held struct {
	cols  []int // of the input
	rows  *vec.Batch
	next  *vec.Batch // what will be held instead
	from  vec.Batch  // the columns cols of a batch
	enc   *state.Encoder
	recs  []uint32
	keep  []int32
	gone  []uint32  // records
	nulls []vec.Vec // columns of the result
}

func (h *held) init(n *plan.Revise, in types.Schema) {
	h.cols = append(h.cols, n.Keys...)
	if n.End >= 0 {
		h.cols = append(h.cols, n.End)
	}
	var s types.Schema
	for _, c := range h.cols {
		s.Fields = append(s.Fields, in.Fields[c])
	}
	h.rows, h.next = vec.NewBatch(s), vec.NewBatch(s)
	h.from.Cols = make([]*vec.Vec, len(h.cols))
	h.nulls = make([]vec.Vec, n.Columns)
}

// find finds the records of the held rows; 0 where one has been forgotten.
func (h *held) find(t *state.Table, keys int) {
	if cap(h.recs) < h.rows.N {
		h.recs = make([]uint32, 2*h.rows.N)
	}
	h.recs = h.recs[:h.rows.N]
	h.enc.Encode(h.rows.Cols[:keys], vec.Positions(h.rows.N), nil)
	t.Find(h.enc, nil, h.recs)
}

// markHeld marks the records of keys whose last row was a -U row.
func (o *Revise) markHeld() {
	if o.held.rows.N == 0 {
		return
	}
	o.held.find(o.t, len(o.n.Keys))
	for _, rec := range o.held.recs {
		if rec != 0 {
			*o.first(rec) |= state.FlagMark
		}
	}
}

// first is the first word of a record.
func (o *Revise) first(rec uint32) *uint64 {
	return &o.t.Chunks[rec>>state.ChunkBits][rec&state.ChunkMask]
}

// keepHeld takes the -U rows out of b that nothing followed, and those held that are still so; it clears
// the marks. Where the latter are many, they are deletions.
func (o *Revise) keepHeld(b *vec.Batch, rows []int32) error {
	h := &o.held
	h.keep = h.keep[:0]
	if b.Kinds != nil {
		for k, i := range rows {
			if p := o.first(o.recs[k]); b.Kinds[i] == types.UpdateBefore && *p&state.FlagMark != 0 {
				*p &^= state.FlagMark
				h.keep = append(h.keep, i)
			}
		}
	}
	if len(h.keep) == 0 && h.rows.N == 0 {
		return nil
	}
	stamps := h.next.Stamps[:0]
	h.next.Reset(0)
	h.next.Stamps = stamps
	if len(h.keep) > 0 {
		for k, c := range h.cols {
			h.from.Cols[k] = b.Cols[c]
		}
		h.from.N, h.from.Stamps = b.N, b.Stamps
		h.next.Gather(&h.from, h.keep)
	}
	h.keep = h.keep[:0]
	for k := range h.rows.N {
		if rec := h.recs[k]; rec != 0 && *o.first(rec)&state.FlagMark != 0 {
			*o.first(rec) &^= state.FlagMark
			h.keep = append(h.keep, int32(k))
		}
	}
	if len(h.keep) > maxHeld {
		if err := o.release(h.keep); err != nil {
			return err
		}
	} else if len(h.keep) > 0 {
		h.next.Gather(h.rows, h.keep)
	}
	h.rows, h.next = h.next, h.rows
	return nil
}

// Flush implements op.Flusher: nothing followed the rows held back.
func (o *Revise) Flush() error {
	h := &o.held
	if h.rows.N == 0 {
		return nil
	}
	h.find(o.t, len(o.n.Keys))
	err := o.release(vec.Positions(h.rows.N))
	stamps := h.rows.Stamps[:0]
	h.rows.Reset(0)
	h.rows.Stamps = stamps
	o.count()
	return err
}

// release emits deletions of the keys of some held rows, whose records are in held.recs.
func (o *Revise) release(rows []int32) error {
	h := &o.held
	n := h.rows.N
	e := &o.dead
	e.begin(n)
	var end *vec.Vec
	if o.n.End >= 0 {
		end = h.rows.Cols[len(o.n.Keys)]
	}
	now, dated := o.now()
	h.gone = h.gone[:0]
	for _, i := range rows {
		rec := h.recs[i]
		if rec == 0 {
			o.drop(op.DropStale, 1)
			continue
		}
		w := o.words(rec)
		o.delete(w)
		h.gone = append(h.gone, rec)
		if use := o.lastUse(end, int(i), now); dated && int64(w[usedAt]) < use {
			w[usedAt] = uint64(use)
		}
		final, wm := o.finality(end, int(i), nil)
		e.add(int(i), w[revisionAt], final, wm)
	}
	o.t.Touch(h.gone)
	cols := o.cols
	for c := range cols {
		cols[c] = &h.nulls[c]
		if !e.isKey[c] {
			nothing(&h.nulls[c], o.in.Fields[c].Type, n)
		}
	}
	for k, c := range o.n.Keys {
		cols[c] = h.rows.Cols[k]
	}
	return e.emit(o.out, origin{cols: cols, from: h.rows})
}
