package state

import "bytes"

// Table maps keys to records: an index of {hash, record} slots with linear probing, at most three
// quarters full, over Records that hold the whole key. Growth copies the index only.
//
//	slot    0 = empty, else hash << 32 | record
//	record  the encoded key (Layout.Words words), then the owner's words
//
// The second word of a string over 12 bytes is a Ref into the table's Blob.
type Table struct {
	Records
	layout *Layout
	idx    []uint64
	mask   uint32
	room   int      // records that still fit before the index grows
	init0  []uint64 // what the owner's words start with
	strs   *Blob
	track  *tracker // nil: changes are not noted
	reader *keyReader
	spill  *spilled // nil: all records are in memory
	expiry *Expiry  // nil: records do not expire
	// unindex says that the store has an index of the entries by time, though they do not expire.
	unindex bool
}

const minSlots = 16

// NewTable returns an empty table of keys laid out by l whose records have the words of init
// after the key, with those values at first.
func NewTable(mem *Memory, l *Layout, init []uint64) *Table {
	t := &Table{layout: l, init0: init}
	t.Records.init(mem, l.words+len(init))
	if l.str != nil {
		t.strs = NewBlob(mem)
	}
	t.index(minSlots)
	return t
}

// Base is the offset of the owner's words in a record.
func (t *Table) Base() int { return t.layout.words }

// Layout is the shape of the keys.
func (t *Table) Layout() *Layout { return t.layout }

func (t *Table) index(slots int) {
	t.idx = t.mem.alloc(slots, true)
	t.mask = uint32(slots - 1)
	t.room = capacity(slots) - t.count
}

// capacity is the number of keys that an index holds: three quarters of its slots, but half of them
// while it is small enough that walks cost more than memory.
func capacity(slots int) int {
	if slots <= 1<<22 {
		return slots / 2
	}
	return slots / 4 * 3
}

// Expect makes room for n keys at once.
func (t *Table) Expect(n int) {
	t.expect = n
	slots := len(t.idx)
	for capacity(slots) < n {
		slots *= 2
	}
	if slots > len(t.idx) {
		t.rehash(slots)
	}
}

func (t *Table) rehash(slots int) {
	old := t.idx
	t.index(slots)
	idx, mask := t.idx, t.mask
	for _, s := range old {
		if s == 0 {
			continue
		}
		i := uint32(s>>32) & mask
		for idx[i] != 0 {
			i = (i + 1) & mask
		}
		idx[i] = s
	}
	t.mem.release(old)
}

// Upsert finds the records of the encoded keys, adding those that are missing: recs[k] is the
// record of key sub[k], or of key k where sub is nil.
func (t *Table) Upsert(e *Encoder, sub []int32, recs []uint32) {
	t.probe(e, sub, recs, true)
	if t.spill != nil && len(t.spill.fresh) > 0 {
		t.spill.resolve()
	}
	if t.track != nil {
		t.touch(recs)
	}
}

// Find is Upsert without adding: recs[k] is 0 where there is no such key.
func (t *Table) Find(e *Encoder, sub []int32, recs []uint32) {
	t.probe(e, sub, recs, false)
	if t.spill != nil && t.spill.cold {
		t.spill.find(e, sub, recs)
	}
}

// probe works in three passes. The first only loads the home slots, so that their cache misses
// overlap. The second, with these lines at hand, walks on to the slot of the right hash. The third
// compares the records, whose loads overlap again as long as the guess holds that keys of equal
// hash are equal.
func (t *Table) probe(e *Encoder, sub []int32, recs []uint32, add bool) {
	stride := e.Layout.words
	if stride == 1 && len(recs) > 0 {
		// Without key columns there is one key.
		recs[0] = t.lookup(e.words[:1], e, add)
		for k := range recs {
			recs[k] = recs[0]
		}
		return
	}
	cand := e.cand[:len(recs)]
	idx, mask := t.idx, t.mask
	words := e.words
	if sub == nil {
		w := 0
		for k := range cand {
			cand[k] = idx[uint32(words[w])&mask]
			w += stride
		}
		w = 0
		for k, s := range cand {
			if h := uint32(words[w]); uint32(s>>32) != h && s != 0 {
				cand[k] = walk(idx, mask, h)
			}
			w += stride
		}
	} else {
		sub = sub[:len(cand)]
		for k := range cand {
			cand[k] = idx[uint32(words[int(sub[k])*stride])&mask]
		}
		for k, s := range cand {
			if h := uint32(words[int(sub[k])*stride]); uint32(s>>32) != h && s != 0 {
				cand[k] = walk(idx, mask, h)
			}
		}
	}
	// Without strings over inlineBytes in the batch, keys are equal where their words are: a
	// longer string in a record has another length.
	if e.str == nil || len(e.buf) == 0 {
		switch stride {
		case 2:
			t.verify2(e, sub, recs, add)
			return
		case 3:
			t.verify3(e, sub, recs, add)
			return
		case 4:
			t.verify4(e, sub, recs, add)
			return
		}
	}
	for k := range recs {
		j := k
		if sub != nil {
			j = int(sub[k])
		}
		w := words[j*stride : (j+1)*stride]
		s := cand[k]
		if s != 0 && uint32(s>>32) == uint32(w[0]) && t.equal(uint32(s), w, e) {
			recs[k] = uint32(s)
			continue
		}
		recs[k] = t.lookup(w, e, add)
	}
}

// walk returns the first slot after the home of h that is empty or has that hash.
func walk(idx []uint64, mask, h uint32) uint64 {
	for i := (h + 1) & mask; ; i = (i + 1) & mask {
		if s := idx[i]; s == 0 || uint32(s>>32) == h {
			return s
		}
	}
}

// verify2, verify3 and verify4 are the second pass for keys of 1, 2 and 3 words.
func (t *Table) verify2(e *Encoder, sub []int32, recs []uint32, add bool) {
	cand, words, chunks := e.cand[:len(recs)], e.words, t.Chunks
	for k := range recs {
		j := k * 2
		if sub != nil {
			j = int(sub[k]) * 2
		}
		w := words[j : j+2 : j+2]
		s := cand[k]
		if s != 0 && uint32(s>>32) == uint32(w[0]) {
			p := uint32(s) & ChunkMask
			c := chunks[uint32(s)>>ChunkBits][p:]
			if len(c) > 1 && c[0]&keyBits == w[0] && c[1] == w[1] {
				recs[k] = uint32(s)
				continue
			}
		}
		recs[k] = t.lookup(w, e, add)
		chunks = t.Chunks
	}
}

func (t *Table) verify3(e *Encoder, sub []int32, recs []uint32, add bool) {
	cand, words, chunks := e.cand[:len(recs)], e.words, t.Chunks
	for k := range recs {
		j := k * 3
		if sub != nil {
			j = int(sub[k]) * 3
		}
		w := words[j : j+3 : j+3]
		s := cand[k]
		if s != 0 && uint32(s>>32) == uint32(w[0]) {
			p := uint32(s) & ChunkMask
			c := chunks[uint32(s)>>ChunkBits][p:]
			if len(c) > 2 && c[0]&keyBits == w[0] && c[1] == w[1] && c[2] == w[2] {
				recs[k] = uint32(s)
				continue
			}
		}
		recs[k] = t.lookup(w, e, add)
		chunks = t.Chunks
	}
}

func (t *Table) verify4(e *Encoder, sub []int32, recs []uint32, add bool) {
	cand, words, chunks := e.cand[:len(recs)], e.words, t.Chunks
	for k := range recs {
		j := k * 4
		if sub != nil {
			j = int(sub[k]) * 4
		}
		w := words[j : j+4 : j+4]
		s := cand[k]
		if s != 0 && uint32(s>>32) == uint32(w[0]) {
			p := uint32(s) & ChunkMask
			c := chunks[uint32(s)>>ChunkBits][p:]
			if len(c) > 3 && c[0]&keyBits == w[0] && c[1] == w[1] && c[2] == w[2] && c[3] == w[3] {
				recs[k] = uint32(s)
				continue
			}
		}
		recs[k] = t.lookup(w, e, add)
		chunks = t.Chunks
	}
}

// equal reports whether the record has the key w.
func (t *Table) equal(rec uint32, w []uint64, e *Encoder) bool {
	p := rec & ChunkMask
	c := t.Chunks[rec>>ChunkBits][p:]
	c = c[:len(w)]
	if c[0]&keyBits != w[0] {
		return false
	}
	if e.str == nil || len(e.buf) == 0 {
		for i := 1; i < len(w); i++ {
			if c[i] != w[i] {
				return false
			}
		}
		return true
	}
	for i := 1; i < len(w); i++ {
		if size := uint64(uint32(w[i-1])); e.str[i] && size > inlineBytes {
			if !bytes.Equal(t.strs.Get(Ref(c[i])), e.buf[w[i]:w[i]+size]) {
				return false
			}
		} else if c[i] != w[i] {
			return false
		}
	}
	return true
}

func (t *Table) lookup(w []uint64, e *Encoder, add bool) uint32 {
	h := uint32(w[0])
	idx, mask := t.idx, t.mask
	for i := h & mask; ; i = (i + 1) & mask {
		s := idx[i]
		if s == 0 {
			if !add {
				return 0
			}
			return t.insert(i, w, e.str, e.buf, nil)
		}
		if uint32(s>>32) == h && t.equal(uint32(s), w, e) {
			return uint32(s)
		}
	}
}

// insert adds a record of key w at the empty slot i. The bytes of its long strings are in buf, or
// in the Blob from if that is not nil.
func (t *Table) insert(i uint32, w []uint64, str []bool, buf []byte, from *Blob) uint32 {
	if t.room == 0 {
		t.rehash(2 * len(t.idx))
		for i = uint32(w[0]) & t.mask; t.idx[i] != 0; i = (i + 1) & t.mask {
		}
	}
	t.room--
	rec := t.Alloc()
	if t.spill != nil {
		t.spill.added(rec)
	}
	if t.expiry != nil {
		t.expiry.lower(rec, t.expiry.floor)
	}
	t.idx[i] = uint64(uint32(w[0]))<<32 | uint64(rec)
	r := t.At(rec)
	// Loops: the copies are of a few words, for which a call costs more.
	r[0] |= w[0] & keyBits
	n := 1
	for ; n < len(w); n++ {
		r[n] = w[n]
	}
	for _, x := range t.init0 {
		r[n] = x
		n++
	}
	if str != nil {
		for k := 1; k < len(w); k++ {
			size := uint64(uint32(w[k-1]))
			if !str[k] || size <= inlineBytes {
				continue
			}
			if from != nil {
				r[k] = uint64(t.strs.Put(from.Get(Ref(w[k]))))
			} else {
				r[k] = uint64(t.strs.Put(buf[w[k] : w[k]+size]))
			}
		}
	}
	return rec
}

// UpsertFrom finds, or adds, the keys of the records ids of o, a table of the same layout:
// recs[k] is the record here for ids[k] there.
func (t *Table) UpsertFrom(o *Table, ids, recs []uint32) {
	n := t.layout.words
	for k, id := range ids {
		w := o.At(id)[:n]
		recs[k] = t.lookupFrom(o, w, w, true)
	}
	if t.spill != nil && len(t.spill.fresh) > 0 {
		t.spill.resolve()
	}
	if t.track != nil {
		t.touch(recs[:len(ids)])
	}
}

// lookupFrom looks for the key w, whose long strings are in o's Blob.
func (t *Table) lookupFrom(o *Table, w, key []uint64, add bool) uint32 {
	h := uint32(w[0])
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		s := t.idx[i]
		if s == 0 {
			if !add {
				return 0
			}
			return t.insert(i, key, t.layout.str, nil, o.strs)
		}
		if uint32(s>>32) == h && t.same(uint32(s), o, w) {
			return uint32(s)
		}
	}
}

func (t *Table) same(rec uint32, o *Table, w []uint64) bool {
	c := t.At(rec)[:len(w)]
	if (c[0]^w[0])&keyBits != 0 {
		return false
	}
	str := t.layout.str
	for i := 1; i < len(w); i++ {
		long := str != nil && str[i] && uint32(w[i-1]) > inlineBytes
		if long && !bytes.Equal(t.strs.Get(Ref(c[i])), o.strs.Get(Ref(w[i]))) ||
			!long && c[i] != w[i] {
			return false
		}
	}
	return true
}

// UpsertLead is UpsertFrom of entries that belong to groups: the lead of ids[k] is replaced by
// lead[k], and the hash follows.
func (t *Table) UpsertLead(o *Table, ids, lead, recs []uint32) {
	n := t.layout.words
	key := make([]uint64, n)
	for k, id := range ids {
		copy(key, o.At(id)[:n])
		key[1] = uint64(lead[k])
		key[0] = key[0]&keyBits&^hashBits | uint64(o.hashOf(key))
		recs[k] = t.lookupFrom(o, key, key, true)
	}
	if t.track != nil {
		t.touch(recs[:len(ids)])
	}
}

// hashOf computes the hash of a key whose long strings are in t's Blob.
func (t *Table) hashOf(w []uint64) uint32 {
	return finish(t.layout.hashWords(w, len(t.layout.cols), func(r uint64, _ uint32) []byte {
		return t.strs.Get(Ref(r))
	}))
}

// Delete removes a record and its key.
func (t *Table) Delete(rec uint32) {
	if t.track != nil {
		t.bury(rec)
	}
	t.remove(rec)
}

// Forget removes a record and its key from memory, and leaves what is saved of it as it is.
func (t *Table) Forget(rec uint32) { t.remove(rec) }

// remove is Delete without a note of it.
func (t *Table) remove(rec uint32) {
	r := t.At(rec)
	slot := r[0]&hashBits<<32 | uint64(rec)
	i := uint32(r[0]) & t.mask
	for t.idx[i] != slot {
		if t.idx[i] == 0 {
			panic("BUG: a record is removed from a table that does not have it")
		}
		i = (i + 1) & t.mask
	}
	// Move back what was displaced over the hole, so that probing needs no tombstones.
	for j := i; ; {
		j = (j + 1) & t.mask
		s := t.idx[j]
		if s == 0 {
			break
		}
		home := uint32(s>>32) & t.mask
		if (j-home)&t.mask >= (j-i)&t.mask {
			t.idx[i] = s
			i = j
		}
	}
	t.idx[i] = 0
	t.room++
	if t.strs != nil {
		for k := 1; k < t.layout.words; k++ {
			if t.layout.str[k] && uint32(r[k-1]) > inlineBytes {
				t.strs.Free(Ref(r[k]))
			}
		}
	}
	t.Free(rec)
}

// Weight is the memory that the table takes, bytes, and how much of it is free for other records.
func (t *Table) Weight() (held, free int64) {
	for _, c := range t.Chunks {
		held += int64(len(c)) * 8
	}
	free = int64(t.freed) * int64(t.stride) * 8
	held += int64(len(t.idx)) * 8
	if t.strs != nil {
		h, f := t.strs.Weight()
		held, free = held+h, free+f
	}
	return held, free
}

// Reset removes all keys and keeps some memory for the next ones. What Changes would have told is
// forgotten: the owner says itself that the saved state has none of it any more.
func (t *Table) Reset() {
	if t.track != nil {
		t.track.dirty, t.track.gone = t.track.dirty[:0], t.track.gone[:0]
	}
	if t.spill != nil {
		t.spill.reset()
	}
	if t.expiry != nil {
		t.expiry.reset()
	}
	n := t.count
	t.Records.Reset()
	if t.strs != nil {
		t.strs.Reset()
	}
	// An index far larger than what it held would cost its clearing every time.
	if slots := len(t.idx); slots > minSlots && n < slots/16 {
		t.mem.release(t.idx)
		t.index(max(minSlots, slots/4))
		return
	}
	clear(t.idx)
	t.room = capacity(len(t.idx))
}

// Release gives all memory back. The table must not be used any more.
func (t *Table) Release() {
	if t.spill != nil {
		t.spill.release()
	}
	t.Records.Release()
	if t.strs != nil {
		t.strs.Release()
	}
	t.mem.release(t.idx)
	t.idx = nil
}
