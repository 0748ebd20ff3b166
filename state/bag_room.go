package state

import (
	"encoding/binary"
	"slices"
)

// Between implements Spiller.
func (s *bagSpill) Between() {
	s.sp.settle()
	s.stuck = false
	if s.unknown && !s.filterless {
		s.learn()
	}
	b := s.s.budget
	if b == nil {
		return
	}
	s.weigh(b)
	used := b.Used()
	if used < b.limit-b.slack() || s.held < b.limit/smallTable {
		return
	}
	s.relieve(b, used)
}

// NeedsFreeze implements Spiller.
func (s *bagSpill) NeedsFreeze() bool {
	t := s.b.Rows
	dirty := int64(t.Dirty())*int64(t.stride)*8 + 2*int64(len(t.track.gone))
	if s.stuck && !s.s.Pending() {
		return dirty > 0
	}
	b := s.s.budget
	if b == nil || b.Used() < b.limit/2 {
		return false
	}
	share := float64(s.held) / float64(max(b.spillable.Load(), s.held, 1))
	return dirty > max(int64(share*float64(b.dirtyRoom())), 1<<16)
}

// weigh tells the budget what the bag takes.
func (s *bagSpill) weigh(b *Budget) {
	held := int64(s.keys.bytes() + s.sp.filter.bytes())
	free, live := int64(0), int64(0)
	for _, t := range []*Table{s.b.Rows, s.b.Keys} {
		held += int64(len(t.idx)) * 8
		for _, c := range t.Chunks {
			held += int64(len(c)) * 8
		}
		if t.strs != nil {
			h, f := t.strs.Weight()
			held, free, live = held+h, free+f, live+h-f
		}
	}
	s.grows = max(live-s.live, s.grows-s.grows/8)
	s.live = live
	b.spillable.Add(held - s.held)
	b.reusable.Add(free - s.free)
	s.held, s.free = held, free
}

// relieve makes room for the rows of a batch and gives back its share of what is over the budget.
func (s *bagSpill) relieve(b *Budget, used int64) {
	t := s.b.Rows
	reserve := min(max(batchRecords, t.count/32), 8*batchRecords)
	if s.held < b.limit {
		reserve = min(reserve, max(t.count/8, minReserve))
	}
	if over := used - b.reusable.Load() - b.limit; over > 0 && len(t.Chunks) > 1 {
		// Of what a row takes, keys have a part: both tables are to become smaller by the same.
		part := float64(s.held) / float64(max(b.spillable.Load(), 1)) * float64(over) / float64(s.held)
		n := len(t.Chunks) - min(int(part*float64(len(t.Chunks)))+1, (len(t.Chunks)+3)/4)
		s.shrink(max(n, 1), reserve)
	}
	short := reserve - t.freed
	for _, t := range []*Table{t, s.b.Keys} {
		// A larger index is not made where it does not fit.
		if grown := int64(len(t.idx)) * 16; t.room < reserve && used+grown > b.limit {
			short = max(short, reserve-t.room)
		}
	}
	// Long strings are to have room, too.
	short = max(short, outsideShort(s.live, s.free, s.grows, t.count))
	if short > reserve/2 || short > t.count/64 {
		s.evict(short)
	}
}

// evict lets up to n rows go, or a few more, of the keys that were not used since the hand came by last.
func (s *bagSpill) evict(n int) {
	done := s.s.done
	if s.tried == done {
		s.stuck = true // nothing has changed since there was too little
		return
	}
	clean := s.s.clean(done)
	t, out := s.b.Keys, 0
	t.around(&s.hand, func() bool { return out < n }, func(ids []uint32) {
		for _, key := range ids {
			if p := head(t, key); *p&flagUsed != 0 {
				*p &^= flagUsed
				continue
			}
			out += s.out(key, max(n-out, wholeKey), &clean)
		}
	})
	s.tried = 0
	if out < n {
		s.tried, s.stuck = done, true
	}
	evictions.Add(int64(out))
	s.bound()
}

// wholeKey is how many rows of a key leave together, though fewer would do.
const wholeKey = 64

// out evicts up to most rows of a key that the store has, and the key with the last one.
func (s *bagSpill) out(key uint32, most int, clean *[epochs]bool) (n int) {
	t := s.b.Rows
	for rec := s.b.Head(key); rec != 0 && n < most; {
		next := s.b.Next(rec)
		if w := *head(t, rec); w&(flagSaved|flagDirty) == flagSaved && clean[w>>epochShift] {
			if !s.filterless {
				s.sp.filter.add(s.rowSum(rec), t.count)
			}
			s.b.Unlink(key, rec)
			t.remove(rec)
			n++
		}
		rec = next
	}
	if n > 0 {
		s.cold = true
		s.evicted += n
		if !s.filterless {
			s.keys.add(s.keySum(key), s.b.Keys.count)
		}
		*head(s.b.Keys, key) |= bagMore
	}
	if s.b.Size(key) == 0 {
		s.b.Keys.remove(key)
	}
	return n
}

// bound begins the filters anew where they take too much of the budget, as they never forget; where
// what is in the store takes too much by itself, they are given up.
func (s *bagSpill) bound() {
	b := s.s.budget
	if b == nil || s.filterless || int64(s.keys.bytes()+s.sp.filter.bytes()) <= b.limit/4 {
		return
	}
	s.filterless = s.unknown
	s.keys.reset()
	s.sp.filter.reset()
	s.unknown, s.learnt = true, SweepCursor{group: s.s.lo}
}

// learn adds to the filters the next rows that the store has.
func (s *bagSpill) learn() {
	rows, keys := s.b.Rows, s.b.Keys
	if rows.reader == nil {
		rows.reader = newKeyReader(rows.layout)
	}
	n := 0
	s.sp.rangeFrom(&s.learnt, func(key, _ []byte) error {
		if n == learnKeys {
			return errEnough
		}
		n++
		cut, err := s.keyEnd(key)
		if err != nil {
			return err
		}
		if _, err := rows.reader.read(key[cut:], 0); err != nil {
			return err
		}
		s.keys.add(filterKey(keys.reader.w, keys.layout.str), 1<<16)
		s.sp.filter.add(filterKey(rows.reader.w, rows.layout.str), 1<<16)
		return nil
	})
	if s.learnt.group >= s.s.hi {
		s.unknown = false
	}
	s.bound()
}

// shrink gives the last chunks of both tables back, n of Rows' stay; reserve rows are to fit
// afterwards.
func (s *bagSpill) shrink(n, reserve int) {
	t := s.b.Rows
	if len(t.Chunks[0]) < chunkWords {
		return
	}
	if over := t.count + reserve - places(t, n); over > 0 {
		s.evict(over)
	}
	// What could not go needs its place.
	for n < len(t.Chunks) && places(t, n) < t.count+reserve/2 {
		n++
	}
	if n == len(t.Chunks) {
		s.stuck = true
		return
	}
	t.cutOff(n, s.moved)
	k := s.b.Keys
	for n = 1; n < len(k.Chunks) && places(k, n) < k.count+reserve/2; {
		n++
	}
	if n < len(k.Chunks) && len(k.Chunks[0]) == chunkWords {
		k.cutOff(n, s.movedKey)
	}
}

// places is how many records n full chunks have room for.
func places(t *Table, n int) int { return n*(chunkWords/int(t.stride)) - 1 }

// cutOff frees all chunks from number n on. Their records move to freed places before, of which there
// are enough; moved is told each.
func (t *Table) cutOff(n int, moved func(from, to uint32)) {
	end := uint64(n) << ChunkBits
	var keep []uint32
	for rec := t.free; rec != 0; rec = uint32(t.At(rec)[0]) {
		if uint64(rec) < end {
			keep = append(keep, rec)
		}
	}
	slices.Sort(keep)
	t.free, t.freed = 0, 0
	for i := len(keep) - 1; i >= 0; i-- {
		*head(t, keep[i]) = uint64(t.free)
		t.free = keep[i]
		t.freed++
	}
	if t.track != nil {
		t.track.dirty = slices.DeleteFunc(t.track.dirty, func(r uint32) bool { return uint64(r) >= end })
	}
	at := Cursor{end}
	var buf [256]uint32
	for {
		ids := t.Scan(&at, buf[:])
		if len(ids) == 0 {
			break
		}
		for _, rec := range ids {
			to := t.free
			t.move(rec)
			moved(rec, to)
		}
	}
	for i := n; i < len(t.Chunks); i++ {
		t.mem.release(t.Chunks[i])
		t.Chunks[i] = nil
	}
	t.Chunks = t.Chunks[:n]
	t.next, t.limit = uint32(end)-chunkWords%t.stride, uint32(end)
}

// moved makes those that pointed to a row point to its new place.
func (s *bagSpill) moved(_, to uint32) {
	b := s.b
	w := *b.linkOf(to)
	next, prev := uint32(w>>32), uint32(w)
	if prev != 0 {
		p := b.linkOf(prev)
		*p = *p&hashBits | uint64(to)<<32
	}
	if next != 0 {
		p := b.linkOf(next)
		*p = *p&^hashBits | uint64(to)
	}
	if prev != 0 && next != 0 {
		return
	}
	k := b.list(s.owner(to))
	if prev == 0 {
		k[0] = k[0]&hashBits | uint64(to)<<32
	}
	if next == 0 {
		k[0] = k[0]&^hashBits | uint64(to)
	}
}

// owner finds the key of a row.
func (s *bagSpill) owner(rec uint32) uint32 {
	b := s.b
	if b.back > 0 {
		return b.KeyOf(rec)
	}
	s.part, _ = b.Rows.AppendPart(s.part[:0], rec, b.cols)
	return s.key(s.part)
}

// key finds the record of a key in the form of AppendKey.
func (s *bagSpill) key(key []byte) uint32 {
	t := s.b.Keys
	if t.reader == nil {
		t.reader = newKeyReader(t.layout)
	}
	if _, err := t.reader.read(key, 0); err != nil {
		panic("BUG: the key of a row has not the form of keys")
	}
	return t.lookup(t.reader.w, &t.reader.e, false)
}

// movedKey makes the rows of a key point to its new place.
func (s *bagSpill) movedKey(_, to uint32) {
	if s.b.back == 0 {
		return
	}
	for rec := s.b.Head(to); rec != 0; rec = s.b.Next(rec) {
		s.b.Rows.At(rec)[s.b.back] = uint64(to)
	}
}

// buryCold deletes a row that is in the store only, by its key there.
func (s *bagSpill) buryCold(key []byte) error {
	if _, err := s.keyEnd(key); err != nil {
		return err
	}
	t, saved := s.b.Rows, key[StoreHead:]
	le := binary.LittleEndian
	at := len(t.track.gone)
	gone := le.AppendUint32(t.track.gone, s.b.Keys.reader.hash())
	gone = le.AppendUint32(gone, uint32(len(saved)))
	t.track.gone = append(gone, saved...)
	s.sp.bury(t.track.gone, at)
	s.evicted--
	return nil
}

// hash is the frozen hash of the key read last.
func (r *keyReader) hash() uint32 { return uint32(r.w[0]) }
