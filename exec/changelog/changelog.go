// Package changelog holds the operators that change the form of a changelog: Normalize makes a full
// one of upserts by key, Entities does so by their versions and within a horizon, Materialize repairs
// the order of updates before a sink whose primary key is not the key that orders its input,
// DropUpdateBefore leaves out what nobody reads.
//
// State of the first three: a record a key of (key, time of last use, Ref), the Ref being that of
// the row, or the rows, in the form of state.AppendValue of each column.
package changelog

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// DropUpdateBefore removes -U rows.
type DropUpdateBefore struct {
	out op.Output
	sel []int32
	b   vec.Batch
}

// NewDropUpdateBefore builds the operator that removes -U rows.
func NewDropUpdateBefore() op.Operator { return &DropUpdateBefore{} }

// Open implements op.Operator.
func (o *DropUpdateBefore) Open(_ *op.Context, out op.Output) error { o.out = out; return nil }

// Process implements op.Operator.
func (o *DropUpdateBefore) Process(_ int, b *vec.Batch) error {
	if b.Kinds == nil {
		return o.out.Emit(b)
	}
	o.sel = o.sel[:0]
	b.Each(func(i int) {
		if b.Kinds[i] != types.UpdateBefore {
			o.sel = append(o.sel, int32(i))
		}
	})
	if len(o.sel) == 0 {
		return nil
	}
	o.b = *b
	o.b.Sel = o.sel
	return o.out.Emit(&o.b)
}

// Watermark implements op.Operator.
func (o *DropUpdateBefore) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *DropUpdateBefore) Finish() error { return nil }

// Close implements op.Operator.
func (o *DropUpdateBefore) Close() error { return nil }

// keyed is what Normalize, Entities and Materialize share: rows kept by key.
type keyed struct {
	keys  []int
	ttlMs int64
	list  bool          // a record keeps several rows
	codec state.Dropper // of the records; nil: keyed itself
	carry bool          // rows that come out come from the row that came in, and no other
	in    types.Schema
	ctx   *op.Context
	out   op.Output
	mem   *state.Memory
	enc   *state.Encoder
	t     *state.Table
	blob  *state.Blob

	keyCols []*vec.Vec
	recs    []uint32
	row     []byte
	batch   *vec.Batch
	expiry  *state.Expiry
	came    int // keys that are new, or were used after they had expired, since the last expire
}

// Words of the owner in a record.
const (
	usedAt = iota
	refAt
)

func newKeyed(keys []int, ttlMs int64, in, out types.Schema) keyed {
	return keyed{keys: keys, ttlMs: ttlMs, in: in, batch: vec.NewBatch(out)}
}

// Open implements op.Operator.
func (o *keyed) Open(c *op.Context, out op.Output) error {
	o.ctx, o.out = c, out
	o.mem = c.Budget.NewMemory()
	ts := make([]types.Type, len(o.keys))
	for i, k := range o.keys {
		ts[i] = o.in.Fields[k].Type.WithoutAttr()
	}
	l := state.NewLayout(ts, false)
	o.enc, o.t, o.blob = state.NewEncoder(l), state.NewTable(o.mem, l, []uint64{0, 0}), state.NewBlob(o.mem)
	if c.Saves {
		o.t.TrackTouched()
		o.keeper().Spill(o.t, c.Spill)
	}
	o.expiry = state.NewExpiry(o.t, o.t.Base()+usedAt, o.ttlMs, o.DropValue)
	o.keyCols = make([]*vec.Vec, len(o.keys))
	return nil
}

// begin finds the records of the rows of b, renews them and empties the batch to emit.
func (o *keyed) begin(b *vec.Batch, rows []int32) {
	o.find(b, rows)
	if o.ttlMs == 0 {
		return
	}
	now := o.ctx.Now()
	o.t.Touch(o.recs)
	for _, r := range o.recs {
		w := o.words(r)
		if w[refAt] != 0 && int64(w[usedAt])+o.ttlMs <= now {
			o.blob.Free(state.Ref(w[refAt]))
			w[refAt] = 0
		}
		w[usedAt] = uint64(now)
	}
}

// find finds the records of the rows of b and empties the batch to emit.
func (o *keyed) find(b *vec.Batch, rows []int32) {
	for i, k := range o.keys {
		o.keyCols[i] = b.Cols[k]
	}
	if cap(o.recs) < len(rows) {
		o.recs = make([]uint32, 2*len(rows))
	}
	o.recs = o.recs[:len(rows)]
	o.enc.Encode(o.keyCols, rows, nil)
	o.t.Upsert(o.enc, nil, o.recs)
	kinds, stamps, pos := o.batch.Kinds[:0], o.batch.Stamps[:0], o.batch.Pos[:0]
	o.batch.Reset(0)
	o.batch.Kinds, o.batch.Stamps = kinds, stamps
	if o.carry && b.Pos != nil {
		o.batch.Origin, o.batch.Pos = b.Origin, pos
	}
}

// set replaces what the record of row k keeps.
func (o *keyed) set(k int, ref state.Ref) {
	o.t.Touch(o.recs[k : k+1])
	w := o.words(o.recs[k])
	if w[refAt] == 0 {
		o.came++
	}
	w[refAt] = uint64(ref)
}

func (o *keyed) words(rec uint32) []uint64 { return o.t.At(rec)[o.t.Base():] }

// encode puts row i of b into o.row.
func (o *keyed) encode(b *vec.Batch, i int) {
	o.row = o.row[:0]
	for _, c := range b.Cols {
		o.row = state.AppendValue(o.row, c, i)
	}
}

// emit adds an encoded row to the batch that goes out, because of row i of from.
func (o *keyed) emit(kind types.RowKind, row []byte, from *vec.Batch, i int) {
	b := o.batch
	for _, c := range b.Cols {
		c.Resize(b.N + 1)
		row = state.DecodeValue(row, c, b.N)
	}
	b.N++
	b.Kinds = append(b.Kinds, kind)
	b.Stamps = append(b.Stamps, from.Stamp(i))
	if o.carry && from.Pos != nil {
		b.Pos = append(b.Pos, from.Pos[i])
	}
}

// end sends the batch and forgets the keys without rows.
func (o *keyed) end() error {
	o.forget()
	o.expire()
	o.count()
	return o.send()
}

// send emits the batch.
func (o *keyed) send() error {
	if o.batch.N == 0 {
		return nil
	}
	return o.out.Emit(o.batch)
}

// forget removes the records of the batch's keys without rows.
func (o *keyed) forget() {
	for _, r := range o.recs {
		switch w := o.t.At(r); {
		case !state.Live(w):
		case w[o.t.Base()+refAt] == 0:
			o.t.Delete(r)
		default:
			w[0] &^= state.FlagNew // which may not be evicted
		}
	}
}

func (o *keyed) count() {
	if c := o.ctx.Counters; c != nil {
		c.StateBytes.Store(o.mem.Bytes())
		c.StateEntries.Store(int64(o.t.Len() + o.t.Cold()))
	}
}

// expire looks at some records and removes those that have not been used for the TTL.
func (o *keyed) expire() {
	if o.ttlMs > 0 {
		o.expiry.Step(o.ctx.Now(), o.came)
		o.came = 0
	}
}

// ProcTime implements op.ProcTimer: rows expire while none come, too.
func (o *keyed) ProcTime(int64) error {
	if o.ttlMs > 0 {
		o.expire()
		o.count()
	}
	return nil
}

// NextProcTime implements op.ProcTimer. No moment is better than another.
func (o *keyed) NextProcTime() int64 { return vec.MaxTime }

func (o *keyed) drop(r op.DropReason, n int) {
	if n > 0 && o.ctx.Counters != nil {
		o.ctx.Counters.Drop(r, n)
	}
}

// Watermark implements op.Operator.
func (o *keyed) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *keyed) Finish() error { return nil }

// Close implements op.Operator.
func (o *keyed) Close() error {
	if o.mem != nil {
		o.t.Release()
		o.blob.Release()
		o.mem.Close()
	}
	return nil
}

// rows of a Materialize record: each is its length (4 bytes) and its bytes.
func eachRow(list []byte, f func(at int, row []byte) bool) {
	for at := 0; at < len(list); {
		n := int(binary.LittleEndian.Uint32(list[at:]))
		if !f(at, list[at+4:at+4+n]) {
			return
		}
		at += 4 + n
	}
}
