package window

import (
	"cmp"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Session aggregates session windows. A row opens the interval [time, time + gap), which merges
// with every open session of its key that it overlaps or touches. For a row, a session is over
// when its last millisecond is not after the row's stamp, whether it has been emitted or not.
//
// State: a record a key of (key, first session), with the bucket of Session.parkedIn where sessions may
// leave memory, and a record a session of
//
//	flags | key record | next session of the key | start | end | accumulators
//
// Timers are lazy: a session is in a bucket by an end that it had, and when the bucket is due it
// moves on to the bucket of the end it has by then. So a row that extends a session, which most
// do, costs nothing there.
type Session struct {
	n    *plan.WindowAgg
	inS  types.Schema
	ctx  *op.Context
	out  op.Output
	mem  *state.Memory
	zone *zone
	gap  int64
	lag  int64 // by how much sessions are over later than their last millisecond
	set  *agg.Set
	keys *state.Table
	st   *agg.Store
	init []uint64
	wm   int64
	// sorted says that the sessions of a key are in the order of their starts, the last one first, since
	// there may be many besides the one that most rows are for; seen is the greatest stamp so far.
	sorted bool
	seen   int64
	lates  *lateRows
	levels
	timers  timers
	enc     *state.Encoder
	keyCols []*vec.Vec

	rows    []int32
	krecs   []uint32
	recs    []uint32
	neg     []bool
	idle    []uint32 // keys without sessions, to be removed
	applied int      // rows before are in their accumulators
	zoned   []int64
	input   agg.Input

	batch   *vec.Batch
	due     []dueSession
	packed  []uint64
	ids     []uint32
	gone    []uint32 // sessions whose rows were all taken back
	stamps  []int64
	touched uint64 // keeps the loads of warm
	keeper  state.Keeper
	lost    []uint32
	ended   int // keys removed since the last Freeze
	expand  *expander

	// See session_spill.go. dueAt is when something is to be done about a session, of which it is given the
	// words; nil: when it is over.
	spill  *state.Spill
	dueAt  func(w []uint64) int64
	parked parked
	dead   int // records of sessions that left memory
	key    []byte
}

// Words of the record of a session.
const (
	sessKey = 1 + iota
	sessNext
	sessStart
	sessEnd
	sessHead
)

// flagDead marks a session that was merged into another; its timer frees it.
const flagDead = state.FlagMark

type dueSession struct {
	at int64
	id uint32
}

func newSession(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	set, err := agg.New(n.Aggs, in, agg.Options{Retract: n.InputRetracts, Owned: true, CountRows: has(n, plan.WindowCount)})
	if err != nil {
		return nil, err
	}
	o := &Session{n: n, inS: in, set: set, gap: n.Window.Size, lag: lagOf(n), wm: vec.MinTime, seen: vec.MinTime}
	o.sorted = o.lag > 0
	o.levels.start(vec.MinTime, nil)
	o.batch = vec.NewBatch(out)
	return o, nil
}

// Open implements op.Operator.
func (o *Session) Open(c *op.Context, out op.Output) (err error) {
	o.ctx, o.out = c, out
	if o.zone, err = newZone(o.n.Window.Zone); err != nil {
		return err
	}
	o.mem = c.Budget.NewMemory()
	l := state.NewLayout(keyTypes(o.inS, o.n.Keys), false)
	o.enc = state.NewEncoder(l)
	head := []uint64{0}
	if o.mayLeave(c.Spill) {
		head = append(head, 0)
	}
	o.keys = state.NewTable(o.mem, l, head)
	o.st = o.set.NewRecords(o.mem, sessHead)
	o.init = o.set.Init()
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	o.timers = newTimers(o.gap / 64)
	o.track()
	o.openSpill(c.Spill, o)
	o.lates = newLateRows(c, o.n, o.inS)
	return nil
}

// Process implements op.Operator.
func (o *Session) Process(_ int, b *vec.Batch) error {
	rows := b.Selected()
	if len(rows) == 0 {
		return nil
	}
	times, err := o.timed(b, rows)
	if err != nil {
		return err
	}
	n := len(o.rows)
	for i, k := range o.n.Keys {
		o.keyCols[i] = b.Cols[k]
	}
	o.enc.Encode(o.keyCols, o.rows, nil)
	o.krecs, o.recs = sized(o.krecs, n), sized(o.recs, n)
	o.keys.Upsert(o.enc, nil, o.krecs)
	o.warm()
	o.applied = 0
	late, kept := 0, 0
	stamps := b.Stamps
	if o.n.Window.ProcTime {
		stamps = nil
	}
	for k, r := range o.rows {
		stamp := o.wm
		if stamps != nil {
			stamp = stamps[r]
		}
		id := o.assign(b, o.krecs[k], times[r], stamp, kept)
		if id == 0 {
			late++
			t := times[r]
			if err := o.lates.miss(b, r, 1, t, t+o.gap, o.over(t+o.gap), stamp); err != nil {
				return err
			}
			continue
		}
		o.rows[kept], o.recs[kept] = r, id
		kept++
	}
	o.apply(b, kept)
	if o.ctx.Counters != nil {
		o.ctx.Counters.Used.Add(int64(kept))
	}
	if late > 0 {
		o.dropLate(late)
		o.dropIdle()
		if err := o.lates.tell(b); err != nil {
			return err
		}
	}
	if stamps != nil {
		o.levels.note(b, rows, o.first())
	}
	o.count()
	return nil
}

// timed lists the rows with a time in o.rows, which assign then shortens by the late ones.
func (o *Session) timed(b *vec.Batch, rows []int32) ([]int64, error) {
	o.rows = append(o.rows[:0], rows...)
	if o.n.Window.ProcTime {
		now := o.zone.local(o.ctx.Now())
		o.zoned = sized(o.zoned, b.N)
		for _, r := range rows {
			o.zoned[r] = now
		}
		return o.zoned, nil
	}
	times, valid, err := localTimes(b.Cols[o.n.Window.TimeCol], rows, b.N, o.zone, false, &o.zoned)
	if err != nil || valid == nil {
		return times, err
	}
	o.rows = slices.DeleteFunc(o.rows, func(r int32) bool { return !valid.Get(int(r)) })
	if null := len(rows) - len(o.rows); null > 0 && o.ctx.Counters != nil {
		o.ctx.Counters.Drop(op.DropNullTime, null)
	}
	return times, nil
}

// warm loads the sessions that assign will look at one after the other, so that their cache misses
// overlap.
func (o *Session) warm() {
	at := o.keys.Base()
	for k, kr := range o.krecs {
		o.recs[k] = uint32(o.keys.Chunks[kr>>state.ChunkBits][int(kr&state.ChunkMask)+at])
	}
	var x uint64
	if len(o.st.R.Chunks) == 0 {
		return
	}
	for _, id := range o.recs {
		x += o.st.R.Chunks[id>>state.ChunkBits][id&state.ChunkMask]
	}
	o.touched = x
}

// assign finds or makes the session of a row, or returns 0 if the row is late. kept is the number
// of rows that have one so far.
func (o *Session) assign(b *vec.Batch, kr uint32, t, stamp int64, kept int) uint32 {
	head := &o.keys.Chunks[kr>>state.ChunkBits][int(kr&state.ChunkMask)+o.keys.Base()]
	start, end := t, t+o.gap
	var mine uint32
	first := int64(0) // start of mine as it was
	o.seen = max(o.seen, stamp)
	for id := uint32(*head); id != 0; {
		w := o.st.R.At(id)
		next := uint32(w[sessNext])
		s, e := int64(w[sessStart]), int64(w[sessEnd])
		if o.passedBy(t, e) {
			break
		}
		if start <= e && end >= s && o.over(e) > stamp {
			start, end = min(start, s), max(end, e)
			if mine == 0 {
				mine, first = id, s
			} else {
				o.merge(b, head, mine, id, kept)
			}
			w = o.st.R.At(mine)
			w[sessStart], w[sessEnd] = uint64(start), uint64(end)
		}
		id = next
	}
	if mine != 0 {
		if o.sorted && start < first {
			o.unlink(head, mine)
			o.link(head, mine)
		}
		return mine
	}
	due := o.over(end)
	if due <= stamp {
		if *head == 0 {
			o.idle = append(o.idle, kr)
		}
		return 0
	}
	id := o.st.R.Alloc()
	w := o.st.R.At(id)
	w[sessKey], w[sessNext] = uint64(kr), 0
	w[sessStart], w[sessEnd] = uint64(start), uint64(end)
	copy(w[sessHead:], o.init)
	o.link(head, id)
	o.timers.add(due, id)
	return id
}

// over is the instant at which a session that ends at end is over: from then on it takes no rows.
func (o *Session) over(end int64) int64 { return o.zone.timer(end-1) + o.lag }

// merge moves session from into session into, both of the key whose first session is head.
func (o *Session) merge(b *vec.Batch, head *uint64, into, from uint32, kept int) {
	// Rows of this batch before come first, as they would one by one.
	o.apply(b, kept)
	d, s := [1]uint32{into}, [1]uint32{from}
	o.set.Merge(o.st, o.st, d[:], s[:])
	o.st.Drop(s[:])
	o.unlink(head, from)
	o.st.R.At(from)[0] |= flagDead
}

// passedBy reports whether a row at t is for no session that is behind one that ends at end. That is so
// where these are over for all rows or apart from each other: sessions that touched would have merged,
// unless one of them was over for the row that made them touch.
func (o *Session) passedBy(t, end int64) bool {
	return o.sorted && end < t && o.over(end) > o.seen
}

// link puts a session among those of its key, whose first one is head.
func (o *Session) link(head *uint64, id uint32) {
	w := o.st.R.At(id)
	at := head
	if o.sorted {
		for *at != 0 {
			v := o.st.R.At(uint32(*at))
			if int64(v[sessStart]) < int64(w[sessStart]) {
				break
			}
			at = &v[sessNext]
		}
	}
	w[sessNext] = *at
	*at = uint64(id)
}

// loaded notes where the sessions of a key, which were just loaded, are not all apart from each other. They take
// rows for as long as lateness after they are over.
func (o *Session) loaded(kr uint32, lateness int64) {
	if !o.sorted {
		return
	}
	last := int64(never) // the start of the one before
	for id := uint32(o.keys.At(kr)[o.keys.Base()]); id != 0; {
		w := o.st.R.At(id)
		if end := int64(w[sessEnd]); end >= last {
			o.seen = max(o.seen, o.over(end)+lateness)
		}
		last = int64(w[sessStart])
		id = uint32(w[sessNext])
	}
}

func (o *Session) unlink(head *uint64, id uint32) {
	next := o.st.R.At(id)[sessNext]
	if uint32(*head) == id {
		*head = next
		return
	}
	for at := uint32(*head); at != 0; {
		w := o.st.R.At(at)
		if uint32(w[sessNext]) == id {
			w[sessNext] = next
			return
		}
		at = uint32(w[sessNext])
	}
}

// apply adds the rows that have a session and are not in its accumulators yet.
func (o *Session) apply(b *vec.Batch, kept int) {
	rows, recs := o.rows[o.applied:kept], o.recs[o.applied:kept]
	o.applied = kept
	if len(rows) == 0 {
		return
	}
	in := &o.input
	*in = agg.Input{Cols: b.Cols, Rows: rows, Recs: recs}
	if b.Kinds != nil && o.n.InputRetracts {
		o.neg = sized(o.neg, len(rows))
		for k, r := range rows {
			o.neg[k] = b.Kinds[r].Retracts()
		}
		in.Neg = o.neg
	}
	o.set.Add(o.st, in)
}

// dropIdle removes the keys that came with late rows only.
func (o *Session) dropIdle() {
	for _, kr := range o.idle {
		if w := o.keys.At(kr); state.Live(w) && w[o.keys.Base()] == 0 {
			o.keys.Delete(kr)
		}
	}
	o.idle = o.idle[:0]
}

func (o *Session) dropLate(n int) {
	if o.ctx.Counters != nil {
		o.ctx.Counters.Drop(op.DropLate, n)
	}
}

// Watermark implements op.Operator.
func (o *Session) Watermark(wm int64) error {
	if !o.n.Window.ProcTime {
		if err := o.advance(wm); err != nil {
			return err
		}
	}
	return o.out.Watermark(wm)
}

// ProcTime implements op.ProcTimer.
func (o *Session) ProcTime(nowMs int64) error {
	if o.n.Window.ProcTime {
		return o.advance(nowMs)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Session) NextProcTime() int64 {
	if o.n.Window.ProcTime {
		return o.first()
	}
	return vec.MaxTime
}

// Finish implements op.Operator.
func (o *Session) Finish() error { return o.advance(vec.MaxTime) }

// advance emits the sessions that are over at wm, in the order of their ends.
func (o *Session) advance(wm int64) error {
	if wm < o.wm {
		return nil
	}
	told := o.wm
	for o.parked.first() <= wm && o.parked.first() != never {
		// A bucket at a time, so that those on disk are not all in memory at once.
		last, err := o.recall(wm)
		o.Between()
		if err == nil {
			err = o.fire(last, &told)
		}
		if err != nil {
			return err
		}
	}
	if err := o.fire(wm, &told); err != nil {
		return err
	}
	o.wm = wm
	o.levels.passed(wm)
	o.count()
	return nil
}

// fire emits the sessions in memory that are over at wm; told is the last watermark passed on.
func (o *Session) fire(wm int64, told *int64) error {
	o.due = o.timers.expire(wm, o.due[:0], func(id uint32) (int64, bool) {
		w := o.st.R.At(id)
		if w[0]&flagDead != 0 {
			o.st.R.Free(id)
			o.dead = max(0, o.dead-1) // about
			return 0, false
		}
		return o.over(int64(w[sessEnd])), true
	})
	if len(o.levels.list) > 0 {
		o.sortDue()
	}
	for i := 0; i < len(o.due); {
		stamp := int64(vec.MinTime)
		if !o.n.Window.ProcTime {
			stamp = o.levels.before(o.due[i].at)
		}
		j := i + 1
		for j < len(o.due) && j-i < block && (o.due[j].at == o.due[i].at || len(o.levels.list) == 0 ||
			o.levels.before(o.due[j].at) == stamp) {
			j++
		}
		if *told < stamp {
			*told = stamp
			if err := o.out.Watermark(stamp); err != nil {
				return err
			}
		}
		if err := o.emit(o.due[i:j], stamp); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// sortDue orders the sessions by their ends; they are packed into words for that, which sorts much
// faster than comparing them.
func (o *Session) sortDue() {
	least := int64(never)
	for _, d := range o.due {
		least = min(least, d.at)
	}
	o.packed = o.packed[:0]
	for _, d := range o.due {
		if d.at-least >= 1<<32 {
			slices.SortFunc(o.due, func(a, b dueSession) int {
				return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
			})
			return
		}
		o.packed = append(o.packed, uint64(d.at-least)<<32|uint64(d.id))
	}
	slices.Sort(o.packed)
	for i, p := range o.packed {
		o.due[i] = dueSession{least + int64(p>>32), uint32(p)}
	}
}

// emit writes sessions and forgets them.
func (o *Session) emit(due []dueSession, stamp int64) error {
	o.ids, o.krecs = o.ids[:0], o.krecs[:0]
	for _, d := range due {
		if o.n.InputRetracts && o.set.RowCount(o.st, d.id) == 0 {
			o.gone = append(o.gone, d.id)
			continue
		}
		o.ids = append(o.ids, d.id)
		o.krecs = append(o.krecs, uint32(o.st.R.At(d.id)[sessKey]))
	}
	o.close(o.gone)
	o.gone = o.gone[:0]
	if len(o.ids) == 0 {
		return nil
	}
	if o.expand != nil {
		return o.emitRows(stamp)
	}
	n := len(o.ids)
	b := o.batch
	b.Reset(n)
	o.stamps = sized(o.stamps, n)
	for i := range o.stamps {
		o.stamps[i] = stamp
	}
	b.Stamps = o.stamps
	for i := range o.n.Keys {
		o.keys.KeyColumn(i, o.krecs, b.Cols[i], 0)
	}
	nk := len(o.n.Keys)
	if err := o.set.Emit(o.st, o.ids, b.Cols[nk:], 0); err != nil {
		return err
	}
	for i, p := range o.n.Props {
		v := b.Cols[nk+len(o.n.Aggs)+i]
		for k, id := range o.ids {
			switch w := o.st.R.At(id); p {
			case plan.WindowReason:
				v.SetString(k, plan.ReasonOnTime)
			case plan.WindowCount:
				v.I64[k] = o.set.RowCount(o.st, id)
			default:
				writeProp(v, p, int64(w[sessStart]), int64(w[sessEnd]), o.zone, k, 1)
			}
		}
	}
	o.close(o.ids)
	return o.out.Emit(b)
}

// close removes sessions, and keys with their last ones.
func (o *Session) close(ids []uint32) {
	o.st.Drop(ids)
	for _, id := range ids {
		w := o.st.R.At(id)
		kr := uint32(w[sessKey])
		head := &o.keys.Chunks[kr>>state.ChunkBits][int(kr&state.ChunkMask)+o.keys.Base()]
		if uint32(*head) == id {
			*head = w[sessNext]
		} else {
			o.unlink(head, id)
		}
		o.st.R.Free(id)
		last := *head == 0
		if o.shrunk(kr, last); last {
			o.keys.Delete(kr)
		}
	}
}

// Close implements op.Operator.
func (o *Session) Close() error {
	if o.mem == nil {
		return nil
	}
	o.spill.Detach(o)
	o.parked.release()
	o.keys.Release()
	o.st.Release()
	o.mem.Close()
	return nil
}

func (o *Session) count() {
	if c := o.ctx.Counters; c != nil {
		c.StateBytes.Store(o.mem.Bytes())
		c.StateEntries.Store(int64(o.st.Entries() - o.dead + o.keys.Cold()))
	}
}

var _ op.ProcTimer = (*Session)(nil)
