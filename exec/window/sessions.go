package window

import (
	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Sessions aggregates session windows that are shown before they are over, corrected after that, or told
// the causes of: what Emitting is to aligned windows. A session takes rows, and merges with others, until
// the allowed lateness after its last millisecond has passed, for a row by its stamp.
//
// Its output is a changelog keyed by key, start and end. When a session has grown or merged, what was
// shown of it and of those that it is made of stays until it is shown again; then the old results are
// deleted and the new one is inserted. So nothing is missing in between, also where a session that was
// shown on time goes on, which is shown on time once more.
//
// State: a record a key of (key, first session), with the bucket of Session.parkedIn where sessions may leave
// memory (see sessions_spill.go), and a record a session of
//
//	flags | key record | next session of the key | start | end | shown | rows since | causes since |
//	queued | accumulators
//
// shown is a Ref to the results that were shown and not deleted, in the form that they are saved in;
// queued is how often the session is among the timers, each time no later than it is due. Since it is
// due twice, when it is over and when it takes no more rows, and may then be over later again, that can
// be several times; a record is freed when it is gone from there.
type Sessions struct {
	Session
	emission
	show   *shower
	shown  *state.Blob
	causes *causes // nil: not told

	fresh   []uint32 // sessions that changed in this batch and were not changed before
	pending []uint32 // changed ones that wait for the clock; may name some that do not any more
	waiting []uint32 // those that are to be shown for the rows they got
	list    []uint32
	last    []uint32
	old     []byte
}

// Words of the record of a session, besides those of Session.
const (
	corrShown = sessHead + iota
	corrSince
	corrCause
	corrQueued
	corrHead
)

const (
	// flagChanged marks a session that has changed since it was shown. New records have it.
	flagChanged = state.FlagNew
	// queuedDue is set in corrQueued while a session is among those that are due.
	queuedDue = 1 << 63
)

func newSessions(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	set, err := agg.New(n.Aggs, in, agg.Options{Retract: n.InputRetracts, Owned: true, CountRows: true})
	if err != nil {
		return nil, err
	}
	o := &Sessions{Session: Session{n: n, inS: in, set: set, gap: n.Window.Size, lag: lagOf(n), wm: vec.MinTime, seen: vec.MinTime, sorted: true},
		emission: newEmission(n), show: newShower(n, out)}
	return o, nil
}

// Open implements op.Operator.
func (o *Sessions) Open(c *op.Context, out op.Output) (err error) {
	o.ctx, o.out = c, out
	if o.zone, err = newZone(o.n.Window.Zone); err != nil {
		return err
	}
	o.show.zone, o.show.out = o.zone, out
	o.mem = c.Budget.NewMemory()
	l := state.NewLayout(keyTypes(o.inS, o.n.Keys), false)
	o.enc = state.NewEncoder(l)
	head := []uint64{0}
	if o.mayLeave(c.Spill) {
		head = append(head, 0)
	}
	o.keys = state.NewTable(o.mem, l, head)
	o.st = o.set.NewRecords(o.mem, corrHead)
	o.init = o.set.Init()
	o.shown = state.NewBlob(o.mem)
	if has(o.n, plan.WindowCause) {
		o.causes = newCauses(o.mem)
	}
	o.keyCols = make([]*vec.Vec, len(o.n.Keys))
	o.timers = newTimers(o.gap / 64)
	if c.Saves {
		o.keys.Track()
	}
	o.keeper = state.Keeper{MaxParallelism: c.MaxParallelism, Codec: o, Check: c.CheckGroup}
	o.dueAt = o.nextDue
	o.openSpill(c.Spill, o)
	o.lates = newLateRows(c, o.n, o.inS)
	return nil
}

// Process implements op.Operator.
func (o *Sessions) Process(_ int, b *vec.Batch) error {
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
	o.show.stamp = o.wm // not that of a row: see Emitting.Process
	stamps := b.Stamps
	if o.n.Window.ProcTime {
		stamps = nil
	}
	kept, err := o.sort(b, times, stamps)
	if err != nil {
		return err
	}
	o.apply(b, kept)
	if late := n - kept; late > 0 {
		o.dropLate(late)
		o.dropIdle()
		if err := o.lates.tell(b); err != nil {
			return err
		}
	}
	if o.ctx.Counters != nil {
		o.ctx.Counters.Used.Add(int64(kept))
	}
	if err := o.showWaiting(); err != nil {
		return err
	}
	return o.afterRows()
}

// sort finds the sessions of the rows and returns the number of those that have one.
func (o *Sessions) sort(b *vec.Batch, times, stamps []int64) (kept int, err error) {
	var split uint32
	named := o.causes != nil && b.Pos != nil && b.Origin != nil
	if named {
		split = o.causes.number(b.Origin)
	}
	o.applied = 0
	for k, r := range o.rows {
		stamp := o.wm
		if stamps != nil {
			stamp = stamps[r]
		}
		id, err := o.place(b, o.krecs[k], times[r], stamp, kept)
		if err != nil {
			return 0, err
		}
		if id == 0 {
			end := times[r] + o.gap
			if err := o.lates.miss(b, r, 1, times[r], end, o.closes(end), stamp); err != nil {
				return 0, err
			}
			continue
		}
		o.rows[kept], o.recs[kept] = r, id
		kept++
		w := o.st.R.At(id)
		if named {
			o.causes.note(&w[corrCause], split, b.Pos[r])
		}
		w[corrSince]++
		if every := o.every(o.fired(w)); every > 0 && w[corrSince] >= uint64(every) {
			o.waiting = append(o.waiting, id)
		}
	}
	return kept, nil
}

// closes is the instant from which a session that ends at end takes no rows.
func (o *Sessions) closes(end int64) int64 { return o.over(end) + o.lateness }

// fired reports whether a session is over: it was shown on time, or came later.
func (o *Sessions) fired(w []uint64) bool { return o.over(int64(w[sessEnd])) <= o.wm }

// place finds or makes the session of a row, or returns 0 if the row is late. kept is the number of rows
// that have one so far.
func (o *Sessions) place(b *vec.Batch, kr uint32, t, stamp int64, kept int) (uint32, error) {
	head := func() *uint64 { return &o.keys.Chunks[kr>>state.ChunkBits][int(kr&state.ChunkMask)+o.keys.Base()] }
	start, end := t, t+o.gap
	var mine uint32
	first := int64(0) // start of mine as it was
	o.seen = max(o.seen, stamp)
	for id := uint32(*head()); id != 0; {
		w := o.st.R.At(id)
		next := uint32(w[sessNext])
		s, e := int64(w[sessStart]), int64(w[sessEnd])
		if e < t && o.closes(e) > o.seen {
			break // see Session.passedBy
		}
		if start <= e && end >= s && o.closes(e) > stamp {
			if err := o.rest(b, id, kept); err != nil {
				return 0, err
			}
			start, end = min(start, s), max(end, e)
			if mine == 0 {
				mine, first = id, s
			} else {
				o.absorb(b, head(), mine, id, kept)
			}
			o.grow(mine, start, end)
		}
		id = next
	}
	if mine != 0 {
		if start < first {
			o.unlink(head(), mine)
			o.link(head(), mine)
		}
		return mine, nil
	}
	if o.closes(end) <= stamp {
		if *head() == 0 {
			o.idle = append(o.idle, kr)
		}
		return 0, nil
	}
	id := o.st.R.Alloc()
	w := o.st.R.At(id)
	clear(w[sessKey:corrHead])
	w[sessKey] = uint64(kr)
	w[sessStart], w[sessEnd] = uint64(start), uint64(end)
	copy(w[corrHead:], o.init)
	o.link(head(), id)
	o.fresh = append(o.fresh, id)
	o.queue(id)
	return id, nil
}

// rest shows the sessions that have got enough rows, if id is one of them, before it gets another.
func (o *Sessions) rest(b *vec.Batch, id uint32, kept int) error {
	w := o.st.R.At(id)
	every := uint64(o.every(o.fired(w)))
	if every == 0 || w[corrSince] < every {
		return nil
	}
	o.apply(b, kept)
	if err := o.showWaiting(); err != nil {
		return err
	}
	w[corrSince] = min(w[corrSince], every-1) // if it did not wait: it was over since, or comes from another plan
	return nil
}

// grow gives a session its bounds, which have not become narrower, and notes that it changes.
func (o *Sessions) grow(id uint32, start, end int64) {
	w := o.st.R.At(id)
	was := o.fired(w)
	w[sessStart], w[sessEnd] = uint64(start), uint64(end)
	is := o.fired(w)
	if w[0]&flagChanged == 0 || was != is {
		w[0] |= flagChanged
		o.fresh = append(o.fresh, id)
	}
	if was && !is {
		o.queue(id)
	}
}

// absorb moves session from into session into, both of the key whose first session is head.
func (o *Sessions) absorb(b *vec.Batch, head *uint64, into, from uint32, kept int) {
	o.merge(b, head, into, from, kept)
	o.dead++
	d, s := o.st.R.At(into), o.st.R.At(from)
	d[corrSince] += s[corrSince]
	if o.causes != nil {
		o.causes.merge(&d[corrCause], &s[corrCause])
	}
	if s[corrShown] != 0 {
		o.old = append(o.old[:0], o.shown.Get(state.Ref(s[corrShown]))...)
		d[corrShown] = uint64(o.shown.Append(state.Ref(d[corrShown]), o.old))
		o.shown.Free(state.Ref(s[corrShown]))
		s[corrShown] = 0
	}
	if s[0]&flagChanged != 0 && d[0]&flagChanged == 0 {
		d[0] |= flagChanged
		o.fresh = append(o.fresh, into)
	}
}

// nextDue is when something is to be done about a session next.
func (o *Sessions) nextDue(w []uint64) int64 { return o.dueOfEnd(int64(w[sessEnd])) }

// dueOfEnd is nextDue of a session that ends at end.
func (o *Sessions) dueOfEnd(end int64) int64 {
	if over := o.over(end); over > o.wm {
		return over
	}
	return o.closes(end)
}

// queue puts a session among the timers.
func (o *Sessions) queue(id uint32) {
	w := o.st.R.At(id)
	w[corrQueued]++
	o.timers.add(o.nextDue(w), id)
}

// unqueue notes that a session was taken from the timers once. If it is gone, so is its record with the
// last time.
func (o *Sessions) unqueue(id uint32) {
	w := o.st.R.At(id)
	w[corrQueued]--
	if w[0]&flagDead != 0 && w[corrQueued] == 0 {
		o.st.R.Free(id)
		o.dead--
	}
}

// Watermark implements op.Operator.
func (o *Sessions) Watermark(wm int64) error {
	if !o.n.Window.ProcTime {
		if err := o.advance(wm); err != nil {
			return err
		}
	}
	return o.out.Watermark(wm)
}

// ProcTime implements op.ProcTimer.
func (o *Sessions) ProcTime(nowMs int64) error {
	for _, late := range []bool{false, true} {
		clock := &o.early
		if late {
			clock = &o.late
		}
		if *clock > nowMs {
			continue
		}
		*clock = never
		o.show.stamp = o.wm
		if err := o.showPending(late); err != nil {
			return err
		}
	}
	if o.n.Window.ProcTime {
		return o.advance(nowMs)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (o *Sessions) NextProcTime() int64 {
	next := min(o.early, o.late)
	if o.n.Window.ProcTime {
		next = min(next, o.first())
	}
	return next
}

// Finish implements op.Operator.
func (o *Sessions) Finish() error { return o.advance(vec.MaxTime) }

// Close implements op.Operator.
func (o *Sessions) Close() error {
	if o.mem == nil {
		return nil
	}
	o.spill.Detach(o)
	o.parked.release()
	o.keys.Release()
	o.st.Release()
	o.shown.Release()
	if o.causes != nil {
		o.causes.blob.Release()
	}
	o.mem.Close()
	return nil
}

func (o *Sessions) count() {
	if c := o.ctx.Counters; c != nil {
		c.StateBytes.Store(o.mem.Bytes())
		c.StateEntries.Store(int64(o.st.Entries() - o.dead + o.keys.Cold()))
	}
}

var _ op.ProcTimer = (*Sessions)(nil)
