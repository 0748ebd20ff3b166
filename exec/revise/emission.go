package revise

import (
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// emission is the revisions that come out of the rows of one batch. Each row leads to one at most, so the
// columns of the result are those of the batch, under another selection; where rows are deleted, the
// columns that are not their key get NULL bits of the emission's own over the same values.
type emission struct {
	n     *plan.Revise
	isKey []bool
	asked []bool // by ResultMetadata

	rows int     // positions
	sel  []int32 // those that are revisions
	gone []int32 // those of sel whose row is deleted

	meta   []*vec.Vec // by ResultMetadata
	consts constants
	masks  []mask // of the columns of the result
	alive  vec.Bitmap
	cols   []*vec.Vec
	batch  vec.Batch
}

// origin is what rows an emission is made of: vectors of as many positions as it has.
type origin struct {
	cols                 []*vec.Vec // of the result
	reason, count, cause *vec.Vec   // nil where there is none
	from                 *vec.Batch
}

// constants back the strings that are the same in all rows: the generation, and the reasons where the
// input knows none.
type constants struct {
	buf                        []byte
	generation, update, delete vec.Ref
}

func newConstants(generation string) (c constants) {
	add := func(s string) vec.Ref {
		r := vec.Ref{Off: uint32(len(c.buf)), Len: uint32(len(s))}
		c.buf = append(c.buf, s...)
		return r
	}
	c.generation, c.update, c.delete = add(generation), add(plan.ReasonUpdate), add(plan.ReasonDelete)
	return c
}

func (e *emission) init(n *plan.Revise) {
	e.n = n
	e.isKey = make([]bool, n.Columns)
	for _, k := range n.Keys {
		e.isKey[k] = true
	}
	e.asked = make([]bool, len(plan.ResultColumns))
	for i, f := range plan.ResultColumns {
		e.meta = append(e.meta, vec.New(f.Type, 0))
		e.asked[i] = slices.Contains(n.Metadata, plan.ResultMetadata(i))
	}
	e.consts = newConstants(n.Generation)
	e.masks = make([]mask, n.Columns)
	e.cols = make([]*vec.Vec, n.Columns+len(n.Metadata))
}

// begin makes room for revisions at n positions.
func (e *emission) begin(n int) {
	e.rows, e.sel, e.gone = n, e.sel[:0], e.gone[:0]
	for i, v := range e.meta {
		if e.asked[i] {
			v.Reset(n)
		}
	}
}

// add notes that position i is a revision; word is that of the state.
func (e *emission) add(i int, word uint64, final bool, watermark int64) {
	e.sel = append(e.sel, int32(i))
	if word&deleted != 0 {
		e.gone = append(e.gone, int32(i))
	}
	if e.asked[plan.ResultRevision] {
		e.meta[plan.ResultRevision].I64[i] = int64(word >> 1)
	}
	if e.asked[plan.ResultIsFinal] {
		e.meta[plan.ResultIsFinal].Bool[i] = final
	}
	if e.asked[plan.ResultIsDeleted] {
		e.meta[plan.ResultIsDeleted].Bool[i] = word&deleted != 0
	}
	if e.asked[plan.ResultWatermark] {
		if v := e.meta[plan.ResultWatermark]; watermark == vec.MinTime {
			v.SetNull(i)
		} else {
			v.SetValid(i)
			v.I64[i] = watermark
		}
	}
}

// emit sends the revisions on.
func (e *emission) emit(out op.Output, o origin) error {
	if len(e.sel) == 0 {
		return nil
	}
	e.living()
	for c, v := range o.cols {
		if e.cols[c] = v; !e.isKey[c] {
			e.cols[c] = e.masks[c].over(v, e)
		}
	}
	for k, m := range e.n.Metadata {
		v := e.meta[m]
		switch m {
		case plan.ResultGeneration:
			v.ShareBuf(e.consts.buf)
			for _, i := range e.sel {
				v.Refs[i] = e.consts.generation
			}
		case plan.ResultEmitReason:
			v = e.reasons(v, o.reason)
		case plan.ResultInputCount:
			v = known(v, o.count)
		case plan.ResultCause:
			v = known(v, o.cause)
		}
		e.cols[e.n.Columns+k] = v
	}
	b := o.from
	e.batch = vec.Batch{N: e.rows, Cols: e.cols, Sel: e.sel, Stamps: b.Stamps, Origin: b.Origin, Pos: b.Pos}
	if len(e.sel) == e.rows {
		e.batch.Sel = nil
	}
	return out.Emit(&e.batch)
}

// reasons fills v with the reasons of the revisions, or returns those of the input where all hold.
func (e *emission) reasons(v, given *vec.Vec) *vec.Vec {
	switch {
	case given == nil:
		v.ShareBuf(e.consts.buf)
		for _, i := range e.sel {
			v.Refs[i] = e.consts.update
		}
		for _, i := range e.gone {
			v.Refs[i] = e.consts.delete
		}
		return v
	case len(e.gone) == 0:
		return given
	}
	gone := e.gone
	for _, i := range e.sel {
		if len(gone) > 0 && gone[0] == i {
			gone = gone[1:]
			v.SetString(int(i), plan.ReasonDelete)
		} else {
			v.SetBytes(int(i), given.Bytes(int(i)))
		}
	}
	return v
}

// known is what the input gives, also of rows that are deleted: a -D row has the count and the cause of
// the deletion. Where it gives nothing it is v, made nothing but NULL.
func known(v, given *vec.Vec) *vec.Vec {
	if given != nil {
		return given
	}
	v.AllValid()
	clear(v.Valid)
	return v
}

// living notes which positions are not deleted.
func (e *emission) living() {
	if len(e.gone) == 0 {
		return
	}
	if words := (e.rows + 63) / 64; cap(e.alive) < words {
		e.alive = vec.NewBitmap(2 * e.rows)
	} else {
		e.alive = e.alive[:words]
	}
	e.alive.SetAll(e.rows)
	for _, i := range e.gone {
		e.alive.Clear(int(i))
	}
}

// mask is a vector that has the values of another one and more NULLs.
type mask struct {
	v    vec.Vec
	bits vec.Bitmap
}

// over is v with the rows that e deletes NULL.
func (m *mask) over(v *vec.Vec, e *emission) *vec.Vec {
	if len(e.gone) == 0 {
		return v
	}
	m.v = *v
	m.bits = vec.And(m.bits, v.Valid, e.alive, e.rows)
	m.v.Valid = m.bits
	return &m.v
}

// nothing makes v, which belongs to the caller, n NULLs of its type.
func nothing(v *vec.Vec, t types.Type, n int) {
	v.Init(t, n)
	v.AllValid()
	clear(v.Valid)
}
