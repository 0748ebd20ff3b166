// Package join is the regular join of two streams: each side's rows are kept, and each row that
// comes is joined with what the other side holds (Flink's StreamingJoinOperator). Inputs may take
// rows back; results are then taken back too.
//
// A batch is applied to its own side as a whole, since its rows do not meet each other, and its
// pairs of (row, record of the other side) are then gathered, judged and emitted in chunks, column
// by column. What is emitted is +I and -D, in the order in which Flink gives it: an outer row's
// padded form is taken back before its first match is shown, and shown again after its last match
// has gone.
//
// In batch mode only final rows are emitted: the padded ones wait until Finish.
//
// State, a side: a state.Bag of each different row with the number of its copies and, on outer sides,
// of its matches. A row that has not been written for the side's TTL is as if it had never come; as in
// Flink its results stay as they are, and a match counts as writing to a row of an outer side.
//
// Rows leave memory when it is short. Those of the keys of a batch are then read before it is joined;
// keys with so many rows that they do not fit are read in parts, and each part is joined and leaves
// again before the next (rest).
package join

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Join is the operator of plan.Join.
type Join struct {
	n      *plan.Join
	in     [2]types.Schema
	ctx    *op.Context
	out    op.Output
	mem    *state.Memory
	sides  [2]side
	filter *expr.Filter
	fctx   expr.EvalCtx

	// The batch at hand: positions of its rows and, by rank, their records.
	rows    []int32
	recs    []uint32
	keyRecs []uint32
	others  []uint32 // records of the keys on the other side, then their first rows; 0 for none
	more    []bool   // others has not all rows of the key; nil: it has
	skip    []bool   // not joined: retraction of nothing, or NULL in the key
	touched []int32  // ranks at which a record came first in the batch

	pairs pairs
	judge *vec.Batch // pairs before the filter
	sel   []int32
	picks []int32

	res     *vec.Batch
	made    results
	pads    []int32
	stamp   int64
	stamps  []int64
	stamped bool
	// matches counts those of the row whose pairs are being looked at.
	matches uint64
	now     int64 // of the batch at hand; only with a TTL
	one     [1]uint32
}

// New builds the operator of n over rows of the schemas left and right, which emits rows of
// schema out: the columns of the left, then those of the right.
func New(n *plan.Join, left, right, out types.Schema) (op.Operator, error) {
	o := &Join{n: n, in: [2]types.Schema{left, right}, judge: vec.NewBatch(out), res: vec.NewBatch(out)}
	o.sides[0] = side{keys: n.LeftKeys, cols: left.Len(), outer: n.Kind == plan.LeftJoin || n.Kind == plan.FullJoin}
	o.sides[1] = side{keys: n.RightKeys, cols: right.Len(), outer: n.Kind == plan.RightJoin || n.Kind == plan.FullJoin}
	return o, nil
}

// Open implements op.Operator.
func (o *Join) Open(c *op.Context, out op.Output) (err error) {
	o.ctx, o.out, o.stamp = c, out, vec.MinTime
	o.fctx.Env = c.Env
	if o.n.Filter != nil {
		if o.filter, err = expr.CompileFilter(o.n.Filter, c.Env); err != nil {
			return err
		}
	}
	o.mem = c.Budget.NewMemory()
	for i := range o.sides {
		s := &o.sides[i]
		s.since = vec.MinTime
		if s.ttlMs = [...]int64{o.n.LeftTTLMs, o.n.RightTTLMs}[i]; c.BatchMode {
			s.ttlMs = 0
		}
		keys := make([]types.Type, len(s.keys))
		for k, col := range s.keys {
			keys[k] = o.in[i].Fields[col].Type.WithoutAttr().AsNullable()
		}
		s.open(o.mem, o.in[i], keys, c.Saves)
		if c.Saves {
			s.bag.Spill(o.keeper(i), c.Spill)
		}
		s.expiry = s.bag.Expire(s.rowBase+usedAt, s.ttlMs, s.forget)
	}
	return nil
}

// Process implements op.Operator.
func (o *Join) Process(in int, b *vec.Batch) error {
	if b.Rows() == 0 {
		return nil
	}
	own, other := &o.sides[in], &o.sides[1-in]
	o.rows = b.Selected()
	o.lookup(own, other, b)
	if err := o.padNullKeys(own, in, b); err != nil {
		return err
	}
	o.renew(own, other)
	o.apply(own, b)
	if err := o.join(own, other, in, b); err != nil {
		return err
	}
	o.settle(own)
	o.expire()
	o.count()
	return nil
}

func (o *Join) count() {
	o.ctx.Counters.StateBytes.Store(o.mem.Bytes())
	o.ctx.Counters.StateEntries.Store(int64(o.sides[0].len() + o.sides[1].len()))
}

// lookup finds the records of the rows of b and of their keys on both sides, adding those of the
// own side, after it has set aside the rows whose key is NULL: skip is set for them and they have
// no records.
func (o *Join) lookup(own, other *side, b *vec.Batch) {
	for i, k := range own.keys {
		own.keyCols[i] = b.Cols[k]
	}
	n := len(o.rows)
	o.recs, o.keyRecs, o.others = room(o.recs, n), room(o.keyRecs, n), room(o.others, n)
	o.skip = room(o.skip, n)
	clear(o.skip)
	o.picks = o.picks[:0]
	nulls := false
	for i, v := range own.keyCols {
		if !v.MayHaveNulls() || o.nullSafe(i) {
			continue
		}
		for k, r := range o.rows {
			if v.IsNull(int(r)) {
				o.skip[k], nulls = true, true
			}
		}
	}
	own.keyEnc.Encode(own.keyCols, o.rows, nil)
	own.rowEnc.Encode(b.Cols[:own.cols], o.rows, nil)
	if !nulls {
		own.bag.Upsert(own.keyEnc, own.rowEnc, nil, o.keyRecs, o.recs)
		o.more = other.bag.Find(own.keyEnc, nil, o.others)
		return
	}
	for k := range o.rows {
		if !o.skip[k] {
			o.picks = append(o.picks, int32(k))
		}
	}
	// Records of the picked ones first, then each to its rank, from the end.
	m := len(o.picks)
	own.bag.Upsert(own.keyEnc, own.rowEnc, o.picks, o.keyRecs[:m], o.recs[:m])
	more := other.bag.Find(own.keyEnc, o.picks, o.others[:m])
	o.more = nil
	if more != nil {
		o.more = append(o.more, make([]bool, n)...)
	}
	for j := m - 1; j >= 0; j-- {
		k := o.picks[j]
		o.keyRecs[k], o.others[k], o.recs[k] = o.keyRecs[j], o.others[j], o.recs[j]
		if more != nil {
			o.more[k] = more[j]
		}
	}
}

func (o *Join) nullSafe(key int) bool { return o.n.NullSafe != nil && o.n.NullSafe[key] }

// padNullKeys emits the rows with a NULL in the key, which never match, where their side is
// outer. They are not kept.
func (o *Join) padNullKeys(own *side, in int, b *vec.Batch) error {
	dropped := 0
	o.made.reset()
	for k, r := range o.rows {
		if !o.skip[k] {
			continue
		}
		if !own.outer {
			dropped++
			continue
		}
		o.made.add(b.Kind(int(r)).Retracts(), r, 0, ownPadded)
	}
	if dropped > 0 {
		o.ctx.Counters.Drop(op.DropFilter, dropped)
	}
	return o.emit(in, b)
}

// apply counts the rows of b in and out. Records without copies stay until settle, so that those
// of the batch are valid; so do the lists, which only the other side's batches read.
func (o *Join) apply(own *side, b *vec.Batch) {
	o.touched = o.touched[:0]
	stale := 0
	for k, r := range o.rows {
		if o.skip[k] {
			continue
		}
		rec := o.recs[k]
		flags := &own.rows.Chunks[rec>>state.ChunkBits][rec&state.ChunkMask]
		if *flags&state.FlagMark == 0 {
			*flags |= state.FlagMark
			o.touched = append(o.touched, int32(k))
		}
		w := own.row(rec)
		switch {
		case b.Kinds == nil || !b.Kinds[r].Retracts():
			w[countAt]++
		case w[countAt] > 0:
			w[countAt]--
		default:
			stale++
			o.skip[k] = true
		}
	}
	if stale > 0 {
		o.ctx.Counters.Drop(op.DropStale, stale)
	}
}

// settle puts new rows into the lists of their keys and forgets those without copies, and keys
// without rows.
func (o *Join) settle(own *side) {
	gone := false
	for _, k := range o.touched {
		rec := o.recs[k]
		flags := &own.rows.Chunks[rec>>state.ChunkBits][rec&state.ChunkMask]
		fresh := *flags&state.FlagNew != 0
		*flags &^= state.FlagMark | state.FlagNew
		switch {
		case own.row(rec)[countAt] > 0:
			if fresh {
				own.bag.Link(o.keyRecs[k], rec)
			}
			o.touch(own, rec)
			continue
		case !fresh:
			own.bag.Unlink(o.keyRecs[k], rec)
		}
		own.rows.Delete(rec)
		gone = true
	}
	if !gone {
		return
	}
	for _, k := range o.touched {
		key := o.keyRecs[k]
		if state.Live(own.bag.Keys.At(key)) && own.bag.Size(key) == 0 {
			own.bag.Keys.Delete(key)
		}
	}
}

// Watermark implements op.Operator.
func (o *Join) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Join) Finish() error {
	if !o.ctx.BatchMode {
		return nil
	}
	for in := range o.sides {
		if o.sides[in].outer {
			if err := o.padRest(in); err != nil {
				return err
			}
		}
	}
	return nil
}

// padRest emits the rows of an outer side that never matched.
func (o *Join) padRest(in int) error {
	s := &o.sides[in]
	ids := make([]uint32, vec.BatchRows)
	var at state.Cursor
	o.made.reset()
	for {
		got := s.rows.Scan(&at, ids)
		if len(got) == 0 {
			break
		}
		if err := o.padUnmatched(in, got); err != nil {
			return err
		}
	}
	return s.bag.EachCold(func(recs []uint32) error { return o.padUnmatched(in, recs) })
}

// padUnmatched emits those of the rows recs of side in that never matched.
func (o *Join) padUnmatched(in int, recs []uint32) error {
	s := &o.sides[in]
	for _, rec := range recs {
		w := s.row(rec)
		if w[matchAt] > 0 {
			continue
		}
		for range w[countAt] {
			// The rows of side in are the other ones of the side that ended with none.
			o.made.add(false, 0, rec, otherPadded)
			if len(o.made.pos) >= vec.BatchRows {
				if err := o.emit(1-in, nil); err != nil {
					return err
				}
			}
		}
	}
	return o.emit(1-in, nil)
}

// Close implements op.Operator.
func (o *Join) Close() error {
	for i := range o.sides {
		o.sides[i].release()
	}
	if o.mem != nil {
		o.mem.Close()
	}
	return nil
}

// room returns a slice of n elements, whose values are undefined.
func room[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, 2*n)
	}
	return s[:n]
}
