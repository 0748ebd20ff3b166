package changelog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Entities is Normalize for rows that say themselves how new they are, or that are remembered within a
// horizon only. For an entity whose version v is known:
//
//	row       lower than v   v                                   higher than v
//	+I, +U    stale          the same: duplicate; else see Ties  replaces the row
//	-D        stale          deletes the row                     deletes the row
//
// -D without a version deletes what is there, under the version of that. A deleted entity is kept as a
// tombstone of its version, so that a row that was overtaken does not revive it: only a higher version
// does, the same one is stale. -U says nothing, as the row that follows it does.
//
// An entity is remembered until its last event time, the greatest one that its rows have had, is as far
// behind the watermark as the horizon. After that it is unknown, and rows of unknown entities whose own
// event time is as far behind are not guessed about: they are expired. What is remembered is judged by
// the stamp of the row that asks, and never by what has been cleared away yet, so that neither batches
// nor parallelism decide about it: records are cleared by the operator's watermark, which is not above
// the stamp of any row to come. Without event time the horizon counts in processing time, and nothing
// is expired, as rows do not say how old they are.
//
// The Ref of a record is that of the version (where there are versions), then the columns of the row; of
// a tombstone that of the version alone.
type Entities struct {
	keyed
	before  bool
	version int // column, -1: what came last is newest
	rowTime int // column, -1: processing time
	ties    plan.Ties
	wm      int64
	used    []uint32 // records whose time of last use changed
	drops   [op.DropReasons]int
}

// timeless is the last event time of an entity that has none, from before the first watermark: it is remembered until
// a row says more. (A time given by the first watermark would depend on how rows come in batches.)
const timeless = math.MaxInt64

func newEntities(n *plan.Normalize, in, out types.Schema) (op.Operator, error) {
	ttl := n.HorizonMs
	o := &Entities{before: n.UpdateBefore, version: -1, rowTime: -1, wm: vec.MinTime}
	if ttl == 0 {
		ttl = n.TTLMs
	} else {
		o.rowTime = n.RowTime
	}
	if n.Versioned {
		o.version, o.ties = n.Version, n.Ties
		if t := in.Fields[n.Version].Type; !ordered(t.Phys()) {
			return nil, fmt.Errorf("versions of an entity cannot be of type %s, whose values have no order: use a number, a time or a string", t)
		}
	}
	o.keyed = newKeyed(n.Keys, ttl, in, out)
	o.codec, o.carry = o, true
	return o, nil
}

// Process implements op.Operator.
func (o *Entities) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	o.find(b, rows)
	clear(o.drops[:])
	o.used = o.used[:0]
	for k, i := range rows {
		if err := o.one(b, k, int(i)); err != nil {
			return err
		}
	}
	for r, n := range o.drops {
		o.drop(op.DropReason(r), n)
	}
	o.t.Touch(o.used)
	o.forget()
	if o.rowTime < 0 {
		o.expire()
	}
	o.count()
	return o.send()
}

// one applies the row at position i of b, whose record is recs[k].
func (o *Entities) one(b *vec.Batch, k, i int) error {
	kind := b.Kind(i)
	if kind == types.UpdateBefore {
		return nil
	}
	for _, c := range o.keys {
		if b.Cols[c].IsNull(i) { // NOT NULL is what the definition promises of data that nobody has checked
			return o.ctx.BadRow(b, i, expr.Pos{}, errNoKey)
		}
	}
	now := o.now(b, i)
	at, dated := o.eventTime(b, i, now)
	w := o.words(o.recs[k])
	if w[refAt] != 0 && o.gone(int64(w[usedAt]), now) {
		o.blob.Free(state.Ref(w[refAt]))
		o.set(k, 0)
	}
	known, last := w[refAt] != 0, int64(w[usedAt])
	switch {
	case !known && dated && o.gone(at, now):
		return o.ctx.BadRow(b, i, expr.Pos{}, errExpired)
	case o.version >= 0 && kind != types.Delete && b.Cols[o.version].IsNull(i):
		return o.ctx.BadRow(b, i, expr.Pos{}, errNoVersion)
	}
	var newest bool
	var err error
	if kind == types.Delete {
		newest = o.delete(b, k, i)
	} else {
		newest, err = o.upsert(b, k, i)
	}
	if err != nil || !newest || o.ttlMs == 0 || w[refAt] == 0 {
		return err
	}
	if known && last != timeless && (at < last || at == timeless) {
		at = last
	}
	w[usedAt] = uint64(at)
	o.used = append(o.used, o.recs[k])
	return nil
}

var (
	errNoKey   = errors.New("a column of the primary key is NULL, so it is not known which entity the row is of")
	errExpired = &op.Refusal{Reason: op.DropExpired, Skip: true, Err: errors.New("nothing is known of this entity, and the row is further behind " +
		"the watermark than entities are remembered (upsert.horizon): what it replaces may have been forgotten")}
	errConflict = &op.Refusal{Reason: op.DropConflict, Err: errors.New("a row of the same entity with the same version came before, with other " +
		"content: only one of them can be true; give each change a version of its own")}
	errNoVersion = errors.New("the row has no version (NULL), so nobody can tell whether it is newer than others of its entity")
)

// now is the time by which the row at position i of b is judged.
func (o *Entities) now(b *vec.Batch, i int) int64 {
	switch {
	case o.ttlMs == 0:
		return vec.MinTime
	case o.rowTime < 0:
		return o.ctx.Now()
	case b.Stamps != nil:
		return b.Stamps[i]
	}
	return o.wm
}

// eventTime is when the row at position i of b happened; dated is false where it does not say so: then it
// counts as happening now, if that is known.
func (o *Entities) eventTime(b *vec.Batch, i int, now int64) (at int64, dated bool) {
	switch {
	case o.rowTime >= 0 && !b.Cols[o.rowTime].IsNull(i):
		return b.Cols[o.rowTime].I64[i], true
	case now == vec.MinTime:
		return timeless, false
	}
	return now, false
}

// gone reports whether what happened at last is further behind now than the horizon.
func (o *Entities) gone(last, now int64) bool {
	return o.ttlMs > 0 && now >= vec.MinTime+o.ttlMs && last <= now-o.ttlMs
}

// upsert applies a row that is not a deletion; newest is false where another one stays.
func (o *Entities) upsert(b *vec.Batch, k, i int) (newest bool, err error) {
	w := o.words(o.recs[k])
	old := o.blob.Get(state.Ref(w[refAt]))
	o.row = o.row[:0]
	if o.version >= 0 {
		o.row = state.AppendValue(o.row, b.Cols[o.version], i)
	}
	head := len(o.row)
	for _, c := range b.Cols {
		o.row = state.AppendValue(o.row, c, i)
	}
	version, was := o.split(old)
	order := 1 // of this row to the one that is there
	if old != nil && o.version >= 0 {
		order = compareVersions(b.Cols[o.version].Phys, o.row[:head], version)
	} else if old != nil && bytes.Equal(o.row[head:], was) {
		order = 0
	}
	switch {
	case order < 0, order == 0 && len(was) == 0:
		o.drops[op.DropStale]++
		return false, nil
	case order == 0 && (o.ties == plan.TiesFirst || bytes.Equal(o.row[head:], was)):
		o.drops[op.DropDuplicate]++
		return false, nil
	case order == 0 && o.ties == plan.TiesConflict:
		return false, o.ctx.BadRow(b, i, expr.Pos{}, errConflict)
	case len(was) == 0:
		o.emit(types.Insert, o.row[head:], b, i)
	default:
		if o.before {
			o.emit(types.UpdateBefore, was, b, i)
		}
		o.emit(types.UpdateAfter, o.row[head:], b, i)
	}
	o.set(k, o.blob.Set(state.Ref(w[refAt]), o.row))
	return true, nil
}

// delete applies a deletion, of which only the key and the version count.
func (o *Entities) delete(b *vec.Batch, k, i int) (newest bool) {
	w := o.words(o.recs[k])
	old := o.blob.Get(state.Ref(w[refAt]))
	version, was := o.split(old)
	o.row = o.row[:0]
	if o.version >= 0 && !b.Cols[o.version].IsNull(i) {
		o.row = state.AppendValue(o.row, b.Cols[o.version], i)
	}
	order := 0
	if len(o.row) > 0 && old != nil {
		order = compareVersions(b.Cols[o.version].Phys, o.row, version)
	}
	switch {
	case order < 0, old == nil && len(o.row) == 0:
		o.drops[op.DropStale]++
		return false
	case order == 0 && old != nil && len(was) == 0:
		o.drops[op.DropDuplicate]++
		return false
	case len(was) > 0:
		o.emit(types.Delete, was, b, i)
	}
	if o.version < 0 {
		o.blob.Free(state.Ref(w[refAt]))
		o.set(k, 0)
		return true
	}
	if len(o.row) == 0 {
		o.row = append(o.row, version...)
	}
	o.set(k, o.blob.Set(state.Ref(w[refAt]), o.row))
	return true
}

// split is the version and the row of what a record keeps; a tombstone has no row.
func (o *Entities) split(kept []byte) (version, row []byte) {
	if kept == nil || o.version < 0 {
		return nil, kept
	}
	row, ok := state.CheckValue(kept, o.in.Fields[o.version].Type)
	if !ok {
		panic("BUG: a record of an entity without a version")
	}
	return kept[:len(kept)-len(row)], row
}

// Watermark implements op.Operator.
func (o *Entities) Watermark(wm int64) error {
	o.wm = wm
	// The end of time clears nothing: a job that was drained may go on.
	if o.rowTime >= 0 && o.ttlMs > 0 && wm < vec.MaxTime {
		o.expiry.Step(wm, o.came)
		o.came = 0
		o.count()
	}
	return o.out.Watermark(wm)
}

// ProcTime implements op.ProcTimer.
func (o *Entities) ProcTime(nowMs int64) error {
	if o.rowTime >= 0 {
		return nil
	}
	return o.keyed.ProcTime(nowMs)
}

// ordered reports whether versions of that form can be told older and newer.
func ordered(p types.Phys) bool {
	switch p {
	case types.PI32, types.PI64, types.PI128, types.PF32, types.PF64, types.PBytes:
		return true
	}
	return false
}

// compareVersions compares two versions in the form of state.AppendValue, neither of them NULL.
func compareVersions(p types.Phys, a, b []byte) int {
	le := binary.LittleEndian
	a, b = a[1:], b[1:]
	switch p {
	case types.PI32:
		return cmp.Compare(int32(le.Uint32(a)), int32(le.Uint32(b)))
	case types.PI64:
		return cmp.Compare(int64(le.Uint64(a)), int64(le.Uint64(b)))
	case types.PI128:
		if c := cmp.Compare(int64(le.Uint64(a[8:])), int64(le.Uint64(b[8:]))); c != 0 {
			return c
		}
		return cmp.Compare(le.Uint64(a), le.Uint64(b))
	case types.PF32:
		return cmp.Compare(math.Float32frombits(le.Uint32(a)), math.Float32frombits(le.Uint32(b)))
	case types.PF64:
		return cmp.Compare(math.Float64frombits(le.Uint64(a)), math.Float64frombits(le.Uint64(b)))
	}
	return bytes.Compare(a[4:], b[4:])
}

var (
	_ op.Stateful  = (*Entities)(nil)
	_ op.ProcTimer = (*Entities)(nil)
)
