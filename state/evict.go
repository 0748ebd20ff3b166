package state

import "slices"

const (
	// batchRecords is how many records one batch is expected to add at most.
	batchRecords = 1 << 12
	// minReserve is how many records a table has room for at least.
	minReserve = 16
)

// smallTable is the part of a budget below which a table is left alone: what is over the budget then
// is somebody else's, and evicting these would cost much for nothing.
const smallTable = 64

// Between makes room where the budget is exceeded. It is called between two batches, by a subtask
// that is idle now and then too.
func (s *Spill) Between() {
	if s == nil {
		return
	}
	// One number for all: a record whose deletion was settled by an older one is not to leave.
	s.done = s.applied.Load()
	for _, sp := range s.tables {
		sp.settle()
	}
	for _, p := range s.others {
		p.Between()
	}
	if len(s.tables) == 0 {
		return
	}
	b := s.budget
	if b == nil {
		return
	}
	used := b.Used()
	for _, sp := range s.tables {
		sp.weigh()
		if sp.unknown && !sp.filterless {
			sp.learn()
		}
	}
	s.stuck = false
	if used > b.limit/2 {
		b.govern()
	}
	if used < b.limit-b.slack() {
		return
	}
	for _, sp := range s.tables {
		if sp.held < b.limit/smallTable {
			continue
		}
		sp.swept = sp.swept[:0] // these may go like others
		sp.relieve(used)
	}
}

// NeedsFreeze says that the operator should be frozen before the next checkpoint: records should go
// and cannot, because they changed since they were frozen last; or so many changed that freezing
// them at once would take a large part of the budget; or an index that is made anew has to make room.
func (s *Spill) NeedsFreeze() bool {
	if s == nil || s.budget == nil {
		return false
	}
	if s.full && !s.Pending() {
		return true
	}
	for _, p := range s.others {
		if p.NeedsFreeze() {
			return true
		}
	}
	dirty, held := int64(0), int64(0)
	for _, sp := range s.tables {
		dirty += int64(sp.t.Dirty()) * int64(sp.t.stride) * 8
		held += sp.held
	}
	if s.stuck && !s.Pending() {
		return dirty > 0
	}
	// All operators together may have that part of the budget.
	share := float64(held) / float64(max(s.budget.spillable.Load(), held, 1))
	return dirty > max(int64(share*float64(s.budget.dirtyRoom())), 1<<16)
}

// Pending says that frozen changes have not been applied to the store yet.
func (s *Spill) Pending() bool { return s.applied.Load() < s.epoch-1 }

// weigh tells the budget what the table takes.
func (sp *spilled) weigh() {
	t, b := sp.t, sp.s.budget
	n := len(t.idx)*8 + sp.filter.bytes()
	for _, c := range t.Chunks {
		n += len(c) * 8
	}
	held, free := int64(n), int64(0)
	if t.strs != nil {
		h, f := t.strs.Weight()
		held, free = held+h, free+f
	}
	if sp.weight != nil {
		h, f := sp.weight()
		held, free = held+h, free+f
	}
	live := held - int64(n) - free
	sp.grows = max(live-sp.live, sp.grows-sp.grows/8)
	sp.live = live
	b.spillable.Add(held - sp.held)
	b.reusable.Add(free - sp.free)
	sp.held, sp.free = held, free
}

// relieve evicts until the table has room for the records of a batch within what it holds, and
// gives back its share of what is over the budget.
func (sp *spilled) relieve(used int64) {
	t, b := sp.t, sp.s.budget
	reserve := min(max(batchRecords, t.count/32), 8*batchRecords)
	if sp.held < b.limit {
		reserve = min(reserve, max(t.count/8, minReserve)) // few records that keep much each
	}
	if over := used - b.reusable.Load() - b.limit; over > 0 && len(t.Chunks) > 1 && !sp.fixed {
		share := float64(sp.held) / float64(max(b.spillable.Load(), 1))
		chunks := min(int(share*float64(over))/(chunkWords*8)+1, (len(t.Chunks)+3)/4)
		sp.shrink(chunks, reserve)
	}
	// A larger index is not made where it does not fit.
	short := reserve - t.freed
	if grown := int64(len(t.idx)) * 16; t.room < reserve && used+grown > b.limit {
		short = max(short, reserve-t.room)
	}
	// What records keep outside of themselves is to have room for what a batch adds, too.
	short = max(short, outsideShort(sp.live, sp.free, sp.grows, t.count))
	if short > reserve/2 || short > t.count/64 {
		sp.evict(short)
	}
}

// outsideShort is how many of count records have to go, so that what a batch adds outside of records has
// room beside the live bytes there: free is left of that, grows what a batch took lately.
func outsideShort(live, free, grows int64, count int) int {
	outside := live + free
	if outside <= 0 || count == 0 {
		return 0
	}
	room := min(max(2*grows, outside/32), outside/4+1)
	lack := room - free
	if lack <= room/2 {
		return 0
	}
	return int(min(lack/max(live/int64(count), 1), int64(count/4))) + 1
}

// clean tells the epochs, by their bits, of which the store has the changes of all freezes up to done.
func (s *Spill) clean(done uint64) (clean [epochs]bool) {
	for p := range clean {
		clean[p] = s.frozen(uint64(p)) <= done
	}
	return clean
}

// around gives the records from hand on to visit, some at a time and at most twice around the table, while
// more says so. The first time may only clear bits.
func (t *Table) around(hand *uint32, more func() bool, visit func(ids []uint32)) {
	total := 2 * (t.count + t.freed)
	c := Cursor{at: uint64(*hand)}
	var buf [256]uint32
	for total > 0 && more() {
		ids := t.Scan(&c, buf[:])
		if len(ids) == 0 {
			if t.count == 0 {
				break
			}
			c = Cursor{}
			continue
		}
		total -= len(ids)
		visit(ids)
	}
	*hand = uint32(c.at)
}

// evict lets up to n records go that the store has, those first that have not changed since the
// hand came by last, and returns their number.
func (sp *spilled) evict(n int) int {
	t := sp.t
	done := sp.s.done
	if sp.tried == done {
		sp.s.stuck = true // nothing has changed since there was too little
		return 0
	}
	out, pins := sp.round(n, done)
	if out < n && pins > 0 && t.count > 0 {
		// What holds them here goes first.
		left := n - out
		for _, kid := range sp.kids {
			kid.evict(int(int64(left)*int64(kid.t.count)/int64(t.count)) + 1)
		}
		more, _ := sp.round(left, done)
		out += more
	}
	sp.tried = 0
	if out < n {
		sp.tried, sp.s.stuck = done, true
	}
	sp.bound()
	return out
}

// round is evict without a second try; pins is how many had to stay that could have gone otherwise.
func (sp *spilled) round(n int, done uint64) (out, pins int) {
	t, clean := sp.t, sp.s.clean(done)
	t.around(&sp.hand, func() bool { return out < n }, func(ids []uint32) {
		for _, rec := range ids {
			p := &t.Chunks[rec>>ChunkBits][rec&ChunkMask]
			w := *p
			if w&(flagSaved|flagDirty) != flagSaved || !clean[w>>epochShift] {
				continue
			}
			if w&flagUsed != 0 {
				*p = w &^ flagUsed
				continue
			}
			if sp.pinned != nil && sp.pinned(rec) {
				pins++
				continue
			}
			sp.out(rec)
			out++
		}
	})
	return out, pins
}

// out evicts a record.
func (sp *spilled) out(rec uint32) {
	sp.cold = true
	if !sp.filterless {
		var key []byte
		if sp.member != nil {
			key, _ = sp.t.SavedKey(sp.flat[:0], rec)
			sp.flat = key
		}
		sp.filter.add(sp.sum(rec, key), sp.t.count)
	}
	sp.evicted++
	sp.drop(rec)
	sp.t.remove(rec)
}

// bound gives the filter up where it takes too much of the budget: then all keys are looked for.
func (sp *spilled) bound() {
	if b := sp.s.budget; b != nil && int64(sp.filter.bytes()) > b.limit/4 {
		sp.filter.reset()
		sp.unknown, sp.filterless = true, true
	}
}

// shrink gives the last chunks back, moving the records that are left in them; reserve records are
// to fit afterwards.
func (sp *spilled) shrink(chunks, reserve int) {
	t := sp.t
	n := max(len(t.Chunks)-chunks, 1)
	if len(t.Chunks[0]) < chunkWords || n == len(t.Chunks) {
		return
	}
	per := chunkWords / int(t.stride)
	room := n*per - 1
	if over := t.count + reserve - room; over > 0 {
		sp.evict(over)
	}
	// What could not go needs its place.
	for n < len(t.Chunks) && n*per-1 < t.count+reserve/2 {
		n++
	}
	if n == len(t.Chunks) {
		sp.s.stuck = true
		return
	}
	t.truncate(n)
}

// truncate frees all chunks from number n on. Their records move to freed places before.
func (t *Table) truncate(n int) {
	end := uint64(n) << ChunkBits
	at := Cursor{end}
	// New free list: the places in the chunks that stay.
	var keep []uint32
	for rec := t.free; rec != 0; rec = uint32(t.At(rec)[0]) {
		if uint64(rec) < end {
			keep = append(keep, rec)
		}
	}
	slices.Sort(keep)
	t.free, t.freed = 0, 0
	for i := len(keep) - 1; i >= 0; i-- {
		t.Chunks[keep[i]>>ChunkBits][keep[i]&ChunkMask] = uint64(t.free)
		t.free = keep[i]
		t.freed++
	}
	if t.track != nil {
		t.track.dirty = slices.DeleteFunc(t.track.dirty, func(r uint32) bool { return uint64(r) >= end })
	}
	var buf [256]uint32
	for {
		ids := t.Scan(&at, buf[:])
		if len(ids) == 0 {
			break
		}
		for _, rec := range ids {
			t.move(rec)
		}
	}
	for i := n; i < len(t.Chunks); i++ {
		t.mem.release(t.Chunks[i])
		t.Chunks[i] = nil
	}
	t.Chunks = t.Chunks[:n]
	// The next address is where records end, which is not where the chunk ends.
	t.next, t.limit = uint32(end)-chunkWords%t.stride, uint32(end)
}

// move puts a record into the first free place.
func (t *Table) move(rec uint32) {
	to := t.free
	from := t.At(rec)
	t.free = uint32(t.At(to)[0])
	t.freed--
	copy(t.At(to), from)
	i := uint32(from[0]) & t.mask
	for slot := from[0]&hashBits<<32 | uint64(rec); t.idx[i] != slot; {
		i = (i + 1) & t.mask
	}
	t.idx[i] = from[0]&hashBits<<32 | uint64(to)
	if from[0]&flagDirty != 0 {
		t.track.dirty = append(t.track.dirty, to)
	}
	if t.expiry != nil {
		t.expiry.lower(to, int64(t.word(to, t.expiry.at)))
	}
}
