// Package revise turns the changelog of a result into the history of its revisions: the operator of
// plan.Revise, directly before a sink that holds results.
//
// State: a record a key of
//
//	hash, flags | key | time of last use | revision << 1 | deleted | hash of the newest payload (two words)
//
// The payload is the columns of the result that are not its key, each in the form of
// state.AppendValue, one after the other; its hash is the 128-bit one of xxh3, whose upper half is combined
// with the count of rows where the table has it (counted). Both are part of what is saved, so they never
// change: a row that says the same after a restart is no revision. Nor is one that differs in a count of 0
// only: it announces a deletion, which follows.
//
// What comes is a changelog with or without -U rows. A -U row alone says nothing: in an update the +U
// row of the same key follows it, and only where the row has moved to another key does nothing
// follow, and the old key is gone. Batches may end between the two, and rows of other subtasks come
// in between, so a -U row is held back until the next row of its key, the next watermark, a
// checkpoint or the end, whichever is first. If the +U row comes after that all the same, the key has
// one revision that says it is deleted and one more that brings it back: more than needed, and right.
// Held rows are therefore never part of a checkpoint.
package revise

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Revise counts the revisions of each key.
type Revise struct {
	n         *plan.Revise
	in        types.Schema
	eventTime bool
	values    []int // columns of the payload
	counts    bool  // the table has the count of rows: whoever reads it takes it for that of the newest revision
	loc       *time.Location
	ctx       *op.Context
	out       op.Output
	mem       *state.Memory
	enc       *state.Encoder
	t         *state.Table
	expiry    *state.Expiry
	came      int // new keys since the last step of expiry

	// wm is the watermark reached, known the latest one that is a time: not the end of it.
	wm, known int64
	undated   bool // some records were used before the first watermark
	// hold is the watermark up to which nothing is forgotten: state of an earlier version does not say when the
	// windows of its keys are final.
	hold int64

	keyCols []*vec.Vec
	recs    []uint32
	changed []uint32
	buf     []byte
	rows    emission // of what came
	dead    emission // of what was held back
	cols    []*vec.Vec
	held    held
	ended   instants
}

// Words of the owner in a record.
const (
	usedAt = iota
	revisionAt
	hashAt
	hashAt2
	ownWords
)

// deleted is the bit of the revision's word that says that the key's row is no more.
const deleted = 1

// undatedUse is the time of last use of records that were used before the first watermark: they get
// its time then, before anything expires. Times of last use only grow.
const undatedUse = vec.MinTime / 2

// New builds the operator of n over rows of schema in; out is the columns of the result, then
// n.Metadata. eventTime says that the input has a watermark, by which the time to live is counted.
func New(n *plan.Revise, in, out types.Schema, eventTime bool) (op.Operator, error) {
	o := &Revise{n: n, in: in, eventTime: eventTime, wm: vec.MinTime, known: vec.MinTime, hold: vec.MinTime}
	isKey := make([]bool, n.Columns)
	for _, k := range n.Keys {
		isKey[k] = true
	}
	for c := range n.Columns {
		if !isKey[c] {
			o.values = append(o.values, c)
		}
	}
	o.counts = n.Count >= 0 && slices.Contains(n.Metadata, plan.ResultInputCount)
	if n.Zone != "" && n.End >= 0 && in.Fields[n.End].Type.Kind == types.Timestamp {
		var err error
		if o.loc, err = window.LoadZone(n.Zone); err != nil {
			return nil, err
		}
	}
	o.ended.loc = o.loc
	if out.Len() != n.Columns+len(n.Metadata) {
		return nil, fmt.Errorf("BUG: revisions of %d columns for %d", n.Columns+len(n.Metadata), out.Len())
	}
	o.rows.init(n)
	o.dead.init(n)
	o.held.init(n, in)
	o.cols = make([]*vec.Vec, n.Columns)
	return o, nil
}

// Open implements op.Operator.
func (o *Revise) Open(c *op.Context, out op.Output) error {
	o.ctx, o.out = c, out
	o.mem = c.Budget.NewMemory()
	ts := make([]types.Type, len(o.n.Keys))
	for i, k := range o.n.Keys {
		ts[i] = o.in.Fields[k].Type.WithoutAttr()
	}
	l := state.NewLayout(ts, false)
	o.enc, o.t = state.NewEncoder(l), state.NewTable(o.mem, l, make([]uint64, ownWords))
	o.held.enc = state.NewEncoder(l)
	if c.Saves {
		o.t.TrackTouched()
		o.keeper().Spill(o.t, c.Spill)
	}
	o.expiry = state.NewExpiry(o.t, o.t.Base()+usedAt, o.n.TTLMs, o.DropValue)
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	return nil
}

// Process implements op.Operator.
func (o *Revise) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	if len(rows) == 0 {
		return nil
	}
	o.find(b, rows)
	o.markHeld()
	o.rows.begin(b.N)
	stale, same := 0, 0
	for k, i := range rows {
		rec := o.recs[k]
		p, w := o.first(rec), o.words(rec)
		live := w[revisionAt] != 0 && w[revisionAt]&deleted == 0
		switch kind := b.Kind(int(i)); {
		case kind.Retracts() && !live:
			stale++
		case kind == types.UpdateBefore:
			*p |= state.FlagMark
		case kind == types.Delete:
			*p &^= state.FlagMark
			o.delete(w)
			o.changed = append(o.changed, rec)
			o.add(b, int(i), w[revisionAt])
		default:
			*p &^= state.FlagMark
			hash, empty := o.hash(b, int(i))
			if live && w[hashAt] == hash.Lo && (w[hashAt2] == hash.Hi || empty) {
				same++
				continue
			}
			w[revisionAt] = w[revisionAt]&^deleted + 2
			w[hashAt], w[hashAt2] = hash.Lo, hash.Hi
			o.changed = append(o.changed, rec)
			o.add(b, int(i), w[revisionAt])
		}
	}
	o.drop(op.DropStale, stale)
	o.drop(op.DropUnchanged, same)
	if err := o.keepHeld(b, rows); err != nil {
		return err
	}
	o.settle(b, rows)
	from := origin{cols: b.Cols[:o.n.Columns], from: b}
	for _, x := range [...]struct {
		v   **vec.Vec
		col int
	}{{&from.reason, o.n.Reason}, {&from.count, o.n.Count}, {&from.cause, o.n.Cause}} {
		if x.col >= 0 {
			*x.v = b.Cols[x.col]
		}
	}
	return o.rows.emit(o.out, from)
}

// find finds the records of the rows of b.
func (o *Revise) find(b *vec.Batch, rows []int32) {
	for i, k := range o.n.Keys {
		o.keyCols[i] = b.Cols[k]
	}
	if cap(o.recs) < len(rows) {
		o.recs = make([]uint32, 2*len(rows))
	}
	o.recs = o.recs[:len(rows)]
	o.changed = o.changed[:0]
	o.enc.Encode(o.keyCols, rows, nil)
	o.t.Upsert(o.enc, nil, o.recs)
}

func (o *Revise) words(rec uint32) []uint64 {
	at := int(rec&state.ChunkMask) + o.t.Base()
	return o.t.Chunks[rec>>state.ChunkBits][at : at+ownWords : at+ownWords]
}

func (o *Revise) delete(w []uint64) {
	w[revisionAt] = w[revisionAt] + 2 | deleted
	w[hashAt], w[hashAt2] = 0, 0
}

// hash is that of the payload of row i; empty says that the row counts none.
func (o *Revise) hash(b *vec.Batch, i int) (h xxh3.Uint128, empty bool) {
	buf := o.buf[:0]
	for _, c := range o.values {
		buf = state.AppendValue(buf, b.Cols[c], i)
	}
	o.buf = buf
	h = xxh3.Hash128(buf)
	if o.counts {
		n := int64(-1) // not known
		if c := b.Cols[o.n.Count]; !c.IsNull(i) {
			n = c.I64[i]
		}
		h.Hi ^= counted(n)
		empty = n == 0
	}
	return h, empty
}

// counted spreads a count of rows over 64 bits, other counts to others.
func counted(n int64) uint64 { return uint64(n) * 0x9e3779b97f4a7c15 }

// add notes that row i of b is a revision.
func (o *Revise) add(b *vec.Batch, i int, revision uint64) {
	var reason []byte
	if o.n.Reason >= 0 {
		reason = b.Cols[o.n.Reason].Bytes(i)
	}
	var end *vec.Vec
	if o.n.End >= 0 {
		end = b.Cols[o.n.End]
	}
	final, wm := o.finality(end, i, reason)
	o.rows.add(i, revision, final, wm)
}

// finality tells whether what is emitted now for the window that ends at value i of end is final, and
// the watermark that it is made with. An emission comes before the watermark that fired it, so one that
// is on time or late says itself that the watermark is at the end of its window already.
func (o *Revise) finality(end *vec.Vec, i int, reason []byte) (final bool, wm int64) {
	if end == nil || end.IsNull(i) {
		return false, o.known
	}
	first, last := o.ended.of(end.I64[i] - 1)
	onTime := string(reason) == plan.ReasonOnTime
	wm = o.known
	if onTime || string(reason) == plan.ReasonLate {
		wm = max(wm, first)
	}
	return onTime && o.n.LatenessMs == 0 && !o.n.Shared || o.wm >= last+o.n.LatenessMs, wm
}

// settle forgets the keys of rows, those of b, of which nothing came but retractions, and says which records changed.
func (o *Revise) settle(b *vec.Batch, rows []int32) {
	now, dated := o.now()
	var end *vec.Vec
	if dated && o.n.End >= 0 {
		end = b.Cols[o.n.End]
	}
	for k, rec := range o.recs {
		p, w := o.first(rec), o.words(rec)
		fresh := *p&state.FlagNew != 0
		switch {
		case !state.Live(o.t.At(rec)):
			continue // deleted for an earlier row
		case fresh && w[revisionAt] == 0:
			o.t.Delete(rec)
			continue
		case fresh:
			*p &^= state.FlagNew // which may not be evicted
			o.came++
		}
		// A row that says the same keeps the count alive, too.
		if use := o.lastUse(end, int(rows[k]), now); dated && (fresh || int64(w[usedAt]) < use) {
			w[usedAt] = uint64(use)
			o.changed = append(o.changed, rec)
		}
	}
	o.t.Touch(o.changed)
	o.changed = o.changed[:0]
	if !o.eventTime {
		o.expire(o.ctx.Now())
	}
	o.count()
}

// lastUse is the time of last use of a key that is used now, at value i of end: not before the window is final, as
// whoever forgot the count of a window that can be corrected would give a revision twice.
func (o *Revise) lastUse(end *vec.Vec, i int, now int64) int64 {
	if end == nil || end.IsNull(i) {
		return now
	}
	_, last := o.ended.of(end.I64[i] - 1)
	if last > vec.MaxTime-o.n.LatenessMs {
		return vec.MaxTime
	}
	return max(now, last+o.n.LatenessMs)
}

// now is the time of last use of what is used now; dated is false where none is kept.
func (o *Revise) now() (now int64, dated bool) {
	switch {
	case o.n.TTLMs == 0:
		return 0, false
	case !o.eventTime:
		return o.ctx.Now(), true
	case o.known == vec.MinTime:
		o.undated = true
		return undatedUse, true
	}
	return o.known, true
}

// expire looks at some records and removes those that were not used for the time to live.
func (o *Revise) expire(now int64) {
	if o.n.TTLMs > 0 {
		o.expiry.Step(now, o.came)
		o.came = 0
	}
}

// ProcTime implements op.ProcTimer: counts expire while no rows come, too.
func (o *Revise) ProcTime(nowMs int64) error {
	if !o.eventTime {
		o.expire(nowMs)
		o.count()
	}
	return nil
}

// NextProcTime implements op.ProcTimer. No moment is better than another.
func (o *Revise) NextProcTime() int64 { return vec.MaxTime }

// date gives the records that were used before the first watermark its time.
func (o *Revise) date() {
	if !o.undated {
		return
	}
	o.undated = false
	var c state.SweepCursor
	var ids [256]uint32
	for {
		some := o.t.Sweep(&c, ids[:])
		if len(some) == 0 {
			return
		}
		o.changed = o.changed[:0]
		for _, rec := range some {
			if w := o.words(rec); int64(w[usedAt]) == undatedUse {
				w[usedAt] = uint64(o.known)
				o.changed = append(o.changed, rec)
			}
		}
		o.t.Touch(o.changed)
	}
}

func (o *Revise) drop(r op.DropReason, n int) {
	if n > 0 && o.ctx.Counters != nil {
		o.ctx.Counters.Drop(r, n)
	}
}

func (o *Revise) count() {
	if c := o.ctx.Counters; c != nil {
		c.StateBytes.Store(o.mem.Bytes())
		c.StateEntries.Store(int64(o.t.Len() + o.t.Cold()))
	}
}

// Watermark implements op.Operator.
func (o *Revise) Watermark(wm int64) error {
	o.wm = wm
	// At the end of time nothing expires: a job that was drained may go on, and count on.
	if wm < vec.MaxTime {
		o.known = wm
		o.date()
	}
	if err := o.Flush(); err != nil {
		return err
	}
	if o.eventTime && wm < vec.MaxTime && wm >= o.hold {
		o.expire(wm)
		o.count()
	}
	return o.out.Watermark(wm)
}

// Finish implements op.Operator.
func (o *Revise) Finish() error { return o.Flush() }

// Close implements op.Operator.
func (o *Revise) Close() error {
	if o.mem != nil {
		o.t.Release()
		o.mem.Close()
	}
	return nil
}

// instants turns the last ms of windows, in local time, into instants.
type instants struct {
	loc         *time.Location // nil: they are instants
	local       int64          // the last one looked up
	first, last int64
}

// of returns the earliest and the latest instant that local may be: they differ where clocks were set
// back, or forward.
func (z *instants) of(local int64) (first, last int64) {
	const day = 24 * 60 * 60 * 1000
	if z.loc == nil || local > vec.MaxTime-2*day || local < vec.MinTime+2*day {
		return local, local
	}
	if local != z.local || z.first == 0 && z.last == 0 {
		before, after := z.offset(local-day), z.offset(local+day)
		if before != after {
			// Close to the change only those offsets count that were in force then.
			if a, b := z.offset(local-before), z.offset(local-after); a == b {
				before, after = a, b
			}
		}
		z.local, z.first, z.last = local, local-max(before, after), local-min(before, after)
	}
	return z.first, z.last
}

func (z *instants) offset(instant int64) int64 {
	_, secs := time.UnixMilli(instant).In(z.loc).Zone()
	return int64(secs) * 1000
}

var (
	_ op.Flusher   = (*Revise)(nil)
	_ op.ProcTimer = (*Revise)(nil)
	_ op.Stateful  = (*Revise)(nil)
)
