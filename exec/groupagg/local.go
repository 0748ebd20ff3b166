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
	// localKeys is how many keys a local phase holds at most: a table that stays in the second
	// level of cache.
	localKeys = 1 << 14
	// localDelayMs bounds how long a row waits in a local phase.
	localDelayMs = 100
)

// Local is the local phase of an aggregation in two phases: it emits the keys and the packed
// accumulators of what came since the last time, at a watermark, after localDelayMs of processing
// time, or when it holds localKeys keys.
type Local struct {
	Agg
	since int64 // when the oldest row came, processing time
	ids   []uint32
}

func newLocal(n *plan.GroupAgg, in, out types.Schema) (op.Operator, error) {
	set, err := agg.New(n.Aggs, agg.PhaseSchema(n.Aggs), agg.Options{Owned: n.TTLMs > 0})
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
	o.since = vec.MaxTime
	return err
}

// Process implements op.Operator.
func (o *Local) Process(_ int, b *vec.Batch) error {
	if b.Rows() == 0 {
		return nil
	}
	o.lookup(b)
	o.useRows()
	o.apply(b, o.rows, o.recs, nil)
	if b.Stamps != nil {
		o.stamp = b.Stamps[o.rows[len(o.rows)-1]]
	}
	if o.since == vec.MaxTime {
		o.since = o.ctx.Now()
	}
	if o.st.R.Len() >= localKeys {
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
	o.since = vec.MaxTime
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
