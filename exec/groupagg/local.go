package groupagg

import (
	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// localBytes is what the records of a local phase take at first: little enough that they stay in
	// a second level of cache of 2 MiB beside what is being decoded. Measured with q17 on two lanes
	// (bench/run lanes): 240 KiB gives 1.67 times one lane, 720 KiB 1.75, 1,400 KiB 1.73.
	localBytes = 720 << 10
	// localKeys is how many keys a local phase holds at most.
	localKeys = 1 << 15
	// localGain is how many rows a key are worth a local phase. With fewer it tries a larger table.
	localGain = 3
	// localDelayMs bounds how long a row waits in a local phase.
	localDelayMs = 100
)

// Local is the local phase of an aggregation in two phases: it emits the keys and the packed
// accumulators of what came since the last time, at a watermark, after localDelayMs of processing
// time, or when it holds many keys.
type Local struct {
	Agg
	since int64 // when the oldest row came, processing time
	ids   []uint32
	limit int // keys to hold at most
	step  int // about how many new keys a batch may bring
	held  int // rows since the last time
}

func newLocal(n *plan.GroupAgg, in, out types.Schema) (op.Operator, error) {
	set, err := agg.New(n.Aggs, agg.PhaseSchema(n.Aggs, n.ArgSchema), agg.Options{Owned: n.TTLMs > 0})
	if err == nil {
		err = set.Packable()
	}
	o := &Local{Agg: Agg{n: n, inS: in, set: set}}
	o.after = vec.NewBatch(out)
	return o, err
}

// Open implements op.Operator.
func (o *Local) Open(c *op.Context, out op.Output) error {
	o.ids = make([]uint32, vec.BatchRows)
	global := *c
	global.BatchMode = false // the result for no rows is the global phase's
	global.Saves = false     // Flush leaves nothing to be saved
	err := o.Agg.Open(&global, out)
	if err != nil {
		return err
	}
	o.since = vec.MaxTime
	o.limit = min(localKeys, max(localBytes/8/o.st.R.Stride()-1, localKeys/64))
	o.st.T.Expect(o.limit)
	return nil
}

// Process implements op.Operator.
func (o *Local) Process(_ int, b *vec.Batch) error {
	if b.Rows() == 0 {
		return nil
	}
	before := o.st.R.Len()
	o.lookup(b)
	o.useRows()
	o.apply(b, o.rows, o.recs, nil)
	if b.Stamps != nil {
		o.stamp = b.Stamps[o.rows[len(o.rows)-1]]
	}
	if o.since == vec.MaxTime {
		o.since = o.ctx.Now()
	}
	o.held += len(o.rows)
	n := o.st.R.Len()
	o.step = max(n-before, o.step-o.step/8)
	if n+o.step > o.limit { // a table beyond its limit moves, and loses its memory when it is emptied
		if o.held < localGain*n && o.limit < localKeys {
			o.limit = localKeys
			o.st.T.Expect(o.limit)
		}
		return o.send()
	}
	o.count()
	return nil
}

func (o *Local) send() error {
	var c state.Cursor
	nk := len(o.n.Keys)
	for {
		ids := o.st.R.Scan(&c, o.ids)
		if len(ids) == 0 {
			break
		}
		o.after.Reset(len(ids))
		for i := range o.n.Keys {
			o.st.T.KeyColumn(i, ids, o.after.Cols[i], 0)
		}
		o.set.Pack(o.st, ids, o.after.Cols[nk], 0)
		o.after.Stamps = o.stampRows(len(ids))
		if err := o.out.Emit(o.after); err != nil {
			return err
		}
	}
	o.st.Reset()
	o.since, o.held = vec.MaxTime, 0
	o.count()
	return nil
}

// Watermark implements op.Operator.
func (o *Local) Watermark(wm int64) error {
	if wm == vec.MaxTime {
		if err := o.send(); err != nil {
			return err
		}
	}
	return o.out.Watermark(wm)
}

// Finish implements op.Operator.
func (o *Local) Finish() error { return o.send() }

// ProcTime implements op.ProcTimer.
func (o *Local) ProcTime(nowMs int64) error {
	if nowMs >= o.NextProcTime() {
		return o.send()
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Local) NextProcTime() int64 {
	if o.since == vec.MaxTime {
		return vec.MaxTime
	}
	return o.since + localDelayMs
}

var _ op.ProcTimer = (*Local)(nil)

// mergeParts merges partial accumulators, one a row, into the records recs in their order. A merge
// takes each record once, so those that come again wait for the next round.
func (o *Agg) mergeParts(recs []uint32) {
	ch := o.st.R.Chunks
	unmark := func(recs []uint32) {
		for _, r := range recs {
			ch[r>>state.ChunkBits][r&state.ChunkMask] &^= state.FlagMark
		}
	}
	unmark(recs) // touch has left them marked
	at := 0
	for i, r := range recs {
		p := &ch[r>>state.ChunkBits][r&state.ChunkMask]
		if *p&state.FlagMark != 0 {
			unmark(recs[at:i])
			o.set.Merge(o.st, o.parts, recs[at:i], o.partRecs[at:i])
			at = i
		}
		*p |= state.FlagMark
	}
	unmark(recs[at:])
	o.set.Merge(o.st, o.parts, recs[at:], o.partRecs[at:])
}
