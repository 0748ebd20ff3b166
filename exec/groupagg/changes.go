package groupagg

import (
	"bytes"
	"math"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// changes collects the rows that a batch leads to: rows of after, and of before where the old
// results are told. The batch emitted is put together column by column at the end.
type changes struct {
	o                   *Agg
	emit, before, after *vec.Batch
	mixed               bool
}

// add notes row k with a kind; old takes it from before. rowsOut holds k, or ^k for old rows.
func (c *changes) add(k int, kind types.RowKind, old bool) {
	if old && kind == types.Delete && !c.o.needBefore() {
		old = false // -D without the old results; keys are what counts
	}
	if old {
		c.o.rowsOut = append(c.o.rowsOut, ^int32(k))
		c.mixed = true
	} else {
		c.o.rowsOut = append(c.o.rowsOut, int32(k))
	}
	c.o.kinds = append(c.o.kinds, kind)
}

func (c *changes) done() error {
	o := c.o
	rows := o.rowsOut
	o.rowsOut = o.rowsOut[:0]
	if len(rows) == 0 {
		return nil
	}
	nk := len(o.n.Keys)
	if !c.mixed {
		// Every row is one of after: no copy is needed.
		out := &o.batch
		*out = vec.Batch{N: c.after.N, Cols: c.after.Cols, Sel: rows, Kinds: o.positions(rows)}
		if len(rows) == c.after.N {
			out.Sel = nil
		}
		out.Stamps = o.stampRows(out.N)
		return o.out.Emit(out)
	}
	n := len(rows)
	c.emit.Reset(n)
	for i, col := range c.emit.Cols {
		a, b := c.after.Cols[i], c.before.Cols[i]
		if i < nk {
			b = a
		}
		gatherTwo(col, a, b, rows)
	}
	c.emit.Kinds = o.kinds
	c.emit.Stamps = o.stampRows(n)
	return o.out.Emit(c.emit)
}

// positions spreads the kinds of rows over the positions of the batch.
func (o *Agg) positions(rows []int32) []types.RowKind {
	if len(rows) == o.after.N {
		return o.kinds
	}
	n := o.after.N
	for len(o.kindAt) < n {
		o.kindAt = append(o.kindAt, types.Insert)
	}
	for j, r := range rows {
		o.kindAt[r] = o.kinds[j]
	}
	return o.kindAt[:n]
}

func (o *Agg) stampRows(n int) []int64 {
	if cap(o.stamps) < n {
		o.stamps = make([]int64, n, 2*n)
	}
	o.stamps = o.stamps[:n]
	for i := range o.stamps {
		o.stamps[i] = o.stamp
	}
	return o.stamps
}

// gatherTwo fills dst with values of a, or of b where the row is complemented.
func gatherTwo(dst, a, b *vec.Vec, rows []int32) {
	switch {
	case dst.Phys == types.PI64:
		pickTwo(dst.I64, a.I64, b.I64, rows)
	case dst.Phys == types.PI32:
		pickTwo(dst.I32, a.I32, b.I32, rows)
	case dst.Phys == types.PF64:
		pickTwo(dst.F64, a.F64, b.F64, rows)
	case dst.Phys == types.PI128:
		pickTwo(dst.I128, a.I128, b.I128, rows)
	case dst.Phys == types.PBytes && a == b:
		// A key: old and new rows share its bytes.
		dst.ShareBuf(a.Buf)
		pickTwo(dst.Refs, a.Refs, a.Refs, rows)
	default:
		for i, r := range rows {
			if r < 0 {
				dst.Set(i, b, int(^r))
			} else {
				dst.Set(i, a, int(r))
			}
		}
		return
	}
	if a.Valid == nil && b.Valid == nil {
		return
	}
	for i, r := range rows {
		if r < 0 && b.IsNull(int(^r)) || r >= 0 && a.IsNull(int(r)) {
			dst.SetNull(i)
		}
	}
}

func pickTwo[T any](dst, a, b []T, rows []int32) {
	for i, r := range rows {
		if r < 0 {
			dst[i] = b[^r]
		} else {
			dst[i] = a[r]
		}
	}
}

// same reports whether the results of row k, in the columns from nk on, did not change.
func same(a, b *vec.Batch, nk, k int) bool {
	for i := nk; i < len(a.Cols); i++ {
		if !equal(a.Cols[i], b.Cols[i], k) {
			return false
		}
	}
	return true
}

func equal(a, b *vec.Vec, k int) bool {
	if n := a.IsNull(k); n || b.IsNull(k) {
		return n && b.IsNull(k)
	}
	switch a.Phys {
	case types.PBool:
		return a.Bool[k] == b.Bool[k]
	case types.PI32:
		return a.I32[k] == b.I32[k]
	case types.PI64:
		return a.I64[k] == b.I64[k]
	case types.PI128:
		return a.I128[k] == b.I128[k]
	case types.PF32:
		return math.Float32bits(a.F32[k]) == math.Float32bits(b.F32[k])
	case types.PF64:
		return math.Float64bits(a.F64[k]) == math.Float64bits(b.F64[k])
	case types.PBytes:
		return bytes.Equal(a.Bytes(k), b.Bytes(k))
	}
	return bytes.Equal(state.AppendValue(nil, a, k), state.AppendValue(nil, b, k))
}

// Watermark implements op.Operator.
func (o *Agg) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Agg) Finish() error {
	if !o.ctx.BatchMode {
		return nil
	}
	var c state.SweepCursor
	ids := make([]uint32, vec.BatchRows)
	for {
		o.touched = o.st.T.Sweep(&c, ids)
		if len(o.touched) == 0 {
			return nil
		}
		o.st.Fetch(o.touched)
		if err := o.results(o.after); err != nil {
			return err
		}
		for i := range o.n.Keys {
			o.st.T.KeyColumn(i, o.touched, o.after.Cols[i], 0)
		}
		o.rowsOut = o.rowsOut[:0]
		for k, r := range o.touched {
			if !o.n.InputRetracts || o.rowCount(r) > 0 || len(o.n.Keys) == 0 {
				o.rowsOut = append(o.rowsOut, int32(k))
			}
		}
		o.batch = vec.Batch{N: o.after.N, Cols: o.after.Cols, Sel: o.rowsOut}
		if err := o.out.Emit(&o.batch); err != nil {
			return err
		}
	}
}

// Close implements op.Operator.
func (o *Agg) Close() error {
	if o.st != nil {
		o.st.Release()
	}
	if o.parts != nil {
		o.parts.Release()
	}
	if o.mem != nil {
		o.mem.Close()
	}
	return nil
}

func (o *Agg) count() {
	if c := o.ctx.Counters; c != nil {
		c.StateBytes.Store(o.mem.Bytes())
		c.StateEntries.Store(int64(o.st.Entries()))
	}
}

var _ op.Operator = (*Agg)(nil)
