// Package groupagg aggregates per key without windows (Flink's GroupAggregate): one record a key,
// for ever or until it expires.
//
// A batch is applied as a whole and each key that it touched then emits one change: +I for a new
// key, -U and +U where a result changed, -D where the last row was taken back. Folded, that is
// what a change a row gives. In batch mode only the final rows are emitted, at Finish.
//
// State: a record a key of
//
//	hash, flags | key | time of last use (TTL only) | rows (retractions only) | accumulators
package groupagg

import (
	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Agg is what both phases of an aggregation have in common; see Keyed and Local.
type Agg struct {
	n     *plan.GroupAgg
	inS   types.Schema
	argS  types.Schema // by which set was compiled
	set   *agg.Set
	ctx   *op.Context
	out   op.Output
	mem   *state.Memory
	st    *agg.Store
	enc   *state.Encoder
	init  []uint64
	input agg.Input

	keyCols []*vec.Vec
	rows    []int32
	recs    []uint32
	neg     []bool
	touched []uint32
	rowsAt  int   // offset of the number of rows of a group, or -1
	reset   bool  // a group may come back within a batch with its sums not quite zero
	ends    []int // with reset: the rows after which a group is empty
	used    []int32

	before, after *vec.Batch // results of touched keys
	emit          *vec.Batch
	rowsOut       []int32
	kinds         []types.RowKind
	stamp         int64
	kindAt        []types.RowKind
	stamps        []int64
	batch         vec.Batch

	parts    *agg.Store // accumulators from the local phase
	partSet  *agg.Set
	partRecs []uint32

	ttl sweeper
}

// New builds the operator of n over rows of schema in, which emits rows of schema out. Its keys
// are columns of in; the accumulators of a local phase are the column after the keys.
func New(n *plan.GroupAgg, in, out types.Schema) (op.Operator, error) {
	if n.Phase == plan.LocalPhase {
		return newLocal(n, in, out)
	}
	o := &Keyed{Agg: Agg{n: n, inS: in}}
	opt := agg.Options{Retract: n.InputRetracts, Owned: n.InputRetracts || n.TTLMs > 0, Spills: true}
	if n.Phase == plan.GlobalPhase {
		in = agg.PhaseSchema(n.Aggs, n.ArgSchema)
	}
	set, err := agg.New(n.Aggs, in, opt)
	if err != nil {
		return nil, err
	}
	o.set, o.argS = set, in
	if n.Phase == plan.GlobalPhase {
		if o.partSet, err = agg.New(n.Aggs, in, opt); err == nil {
			err = set.Packable()
		}
	}
	o.reset = n.InputRetracts && set.Ordered()
	o.before, o.after, o.emit = vec.NewBatch(out), vec.NewBatch(out), vec.NewBatch(out)
	return o, err
}

func keyTypes(in types.Schema, keys []int) []types.Type {
	ts := make([]types.Type, len(keys))
	for i, k := range keys {
		ts[i] = in.Fields[k].Type.WithoutAttr()
	}
	return ts
}

// Open implements op.Operator.
func (o *Agg) Open(c *op.Context, out op.Output) error {
	o.ctx, o.out = c, out
	o.mem = c.Budget.NewMemory()
	l := state.NewLayout(keyTypes(o.inS, o.n.Keys), false)
	o.enc = state.NewEncoder(l)
	extra := 0
	if o.n.TTLMs > 0 && !c.BatchMode {
		extra = 1
	}
	ttl := extra
	o.rowsAt = -1
	if o.n.InputRetracts {
		o.rowsAt = l.Words() + extra
		extra++
	}
	o.st = o.set.NewStore(o.mem, l, extra)
	if c.Saves {
		o.st.Track()
	}
	o.init = o.set.Init()
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	o.stamp = vec.MinTime
	if o.partSet != nil {
		o.parts = o.partSet.NewRecords(o.mem, l.Words()+extra)
	}
	o.ttl.init(o, ttl)
	if c.BatchMode && len(o.n.Keys) == 0 && (o.n.Phase != plan.GlobalPhase || c.Subtask == 0) {
		// Without GROUP BY there is a result even for no rows.
		o.enc.Encode(nil, []int32{0}, nil)
		o.recs = append(o.recs[:0], 0)
		o.st.T.Upsert(o.enc, nil, o.recs)
	}
	return nil
}

// Process implements op.Operator.
func (o *Agg) Process(_ int, b *vec.Batch) error {
	if b.Rows() == 0 {
		return nil
	}
	o.lookup(b)
	if o.ctx.BatchMode {
		o.st.Fetch(o.recs)
		o.settle(b)
		o.useRows()
		o.apply(b, o.rows, o.recs, o.neg)
		o.count()
		return nil
	}
	o.touch()
	o.ttl.use(o.touched)
	o.st.Fetch(o.touched)
	last := o.rows[len(o.rows)-1]
	o.settle(b)
	o.useRows()
	if err := o.snapshot(); err != nil {
		return err
	}
	o.apply(b, o.rows, o.recs, o.neg)
	if b.Stamps != nil {
		o.stamp = b.Stamps[last]
	}
	if err := o.flush(); err != nil {
		return err
	}
	o.ttl.step()
	o.count()
	return nil
}

// lookup finds the records of the rows of b.
func (o *Agg) lookup(b *vec.Batch) {
	o.rows = b.Selected()
	n := len(o.rows)
	if cap(o.recs) < n {
		o.recs, o.neg = make([]uint32, n, 2*n), make([]bool, n, 2*n)
	}
	o.recs = o.recs[:n]
	for i, k := range o.n.Keys {
		o.keyCols[i] = b.Cols[k]
	}
	o.enc.Encode(o.keyCols, o.rows, nil)
	o.st.T.Upsert(o.enc, nil, o.recs)
	o.neg = o.neg[:0]
}

// useRows books the rows that are about to be added.
func (o *Agg) useRows() {
	if o.ctx.Counters != nil {
		o.ctx.Counters.Used.Add(int64(len(o.rows)))
	}
}

// settle counts the rows of the groups, one by one, and leaves out rows that take back what is not
// there: the first of its group, or one after the last was taken back. Flink ignores these too.
func (o *Agg) settle(b *vec.Batch) {
	if o.rowsAt < 0 {
		return
	}
	ch := o.st.R.Chunks
	o.ends = o.ends[:0]
	if b.Kinds == nil {
		for _, r := range o.recs {
			ch[r>>state.ChunkBits][int(r&state.ChunkMask)+o.rowsAt]++
		}
		return
	}
	o.used = o.used[:0]
	n := 0
	for k, row := range o.rows {
		r := o.recs[k]
		p := &ch[r>>state.ChunkBits][int(r&state.ChunkMask)+o.rowsAt]
		neg := b.Kinds[row].Retracts()
		switch {
		case !neg:
			*p++
		case *p == 0:
			continue
		default:
			*p--
		}
		o.used = append(o.used, row)
		o.recs[n] = r
		n++
		o.neg = append(o.neg, neg)
		if neg && *p == 0 {
			o.ends = append(o.ends, n)
		}
	}
	if stale := len(o.rows) - n; stale > 0 && o.ctx.Counters != nil {
		o.ctx.Counters.Drop(op.DropStale, stale)
	}
	o.rows, o.recs = o.used, o.recs[:n]
}

// rowCount is the number of rows of a group; only with retractions.
func (o *Agg) rowCount(rec uint32) uint64 {
	return o.st.R.Chunks[rec>>state.ChunkBits][int(rec&state.ChunkMask)+o.rowsAt]
}

// apply adds rows to their records. Where sums depend on the order, it stops whenever a group is
// left without rows, since such a group starts anew.
func (o *Agg) apply(b *vec.Batch, rows []int32, recs []uint32, neg []bool) {
	if o.parts != nil {
		o.partRecs = o.partSet.Unpack(o.parts, b.Cols[len(o.n.Keys)], rows, o.partRecs)
		o.mergeParts(recs)
		return
	}
	in := &o.input
	*in = agg.Input{Cols: b.Cols, Rows: rows, Recs: recs, One: len(o.n.Keys) == 0 || len(o.touched) == 1}
	if len(rows) == 0 {
		return
	}
	if len(neg) == 0 {
		o.set.Add(o.st, in)
		return
	}
	in.Neg = neg
	if !o.reset {
		o.set.Add(o.st, in)
		return
	}
	at := 0
	for _, end := range append(o.ends, len(rows)) {
		if end == at {
			continue
		}
		*in = agg.Input{Cols: b.Cols, Rows: rows[at:end], Recs: recs[at:end], Neg: neg[at:end]}
		o.set.Add(o.st, in)
		if o.set.RowCount(o.st, recs[end-1]) == 0 {
			o.st.Drop(recs[end-1 : end])
			o.set.Clear(o.st, recs[end-1], o.init)
		}
		at = end
	}
}

// touch lists each record of the batch once.
func (o *Agg) touch() {
	o.touched = o.touched[:0]
	ch := o.st.R.Chunks
	for _, r := range o.recs {
		p := &ch[r>>state.ChunkBits][r&state.ChunkMask]
		if *p&state.FlagMark == 0 {
			*p |= state.FlagMark
			o.touched = append(o.touched, r)
		}
	}
}

// snapshot keeps the results of the touched keys as they were emitted last.
func (o *Agg) snapshot() error {
	if !o.needBefore() {
		return nil
	}
	return o.results(o.before)
}

func (o *Agg) needBefore() bool {
	return o.n.UpdateBefore && len(o.n.Aggs) > 0 || !o.set.AlwaysChanges()
}

func (o *Agg) results(b *vec.Batch) error {
	b.Reset(len(o.touched))
	nk := len(o.n.Keys)
	return o.set.Emit(o.st, o.touched, b.Cols[nk:], 0)
}

// flush emits the changes of the touched keys and forgets those without rows.
func (o *Agg) flush() error {
	if err := o.results(o.after); err != nil {
		return err
	}
	nk := len(o.n.Keys)
	for i := range o.n.Keys {
		o.st.T.KeyColumn(i, o.touched, o.after.Cols[i], 0)
	}
	before := o.needBefore()
	if before {
		for i := range o.n.Keys {
			o.before.Cols[i] = o.after.Cols[i]
		}
	}
	c := changes{o: o, emit: o.emit, before: o.before, after: o.after}
	c.emit.Reset(0)
	o.kinds = o.kinds[:0]
	for k, r := range o.touched {
		p := &o.st.R.Chunks[r>>state.ChunkBits][r&state.ChunkMask]
		fresh := *p&state.FlagNew != 0
		*p &^= state.FlagMark | state.FlagNew
		gone := o.n.InputRetracts && o.rowCount(r) == 0
		switch {
		case gone && fresh: // its rows came and went within the batch
		case gone:
			c.add(k, types.Delete, true)
		case fresh:
			c.add(k, types.Insert, false)
		case before && same(o.before, o.after, nk, k):
		case o.n.UpdateBefore:
			c.add(k, types.UpdateBefore, true)
			c.add(k, types.UpdateAfter, false)
		default:
			c.add(k, types.UpdateAfter, false)
		}
		if gone {
			o.st.Drop(o.touched[k : k+1])
			o.st.T.Delete(r)
		}
	}
	return c.done()
}
