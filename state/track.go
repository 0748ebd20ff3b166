package state

import (
	"encoding/binary"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/types"
)

// tracker notes which records of a table changed since the last time they were saved, and which
// saved ones are gone.
type tracker struct {
	dirty []uint32 // records with flagDirty; may name freed or reused ones
	// gone holds deleted keys that were saved: hash (4 bytes), length (4 bytes), key.
	gone []byte
	// manual: only Touch says what changes. For owner see TrackOwned.
	manual bool
	seen   uint64 // what ahead read, so that it is read
	owner  func(dst []byte, rec uint32) (key []byte, hash uint32)
}

// Track begins to note changes: every record that Upsert and its kin return is taken for changed,
// as is one given to Touch, and a deleted one that was saved is remembered. To be called while
// the table is empty.
func (t *Table) Track() { t.track = &tracker{} }

// TrackTouched is Track for an owner who says himself, by Touch, what changes: Upsert notes
// nothing.
func (t *Table) TrackTouched() { t.track = &tracker{manual: true} }

// TrackOwned is TrackTouched for records that are saved as entries of groups: owner appends the key
// of the group that a record, which is live, belongs to, and tells its hash. The saved key of a
// record (SavedKey) begins with it and the entry lies in the key group of that hash.
func (t *Table) TrackOwned(owner func(dst []byte, rec uint32) (key []byte, hash uint32)) {
	t.track = &tracker{manual: true, owner: owner}
}

// SavedKey appends the key under which a record of a tracked table is saved and returns the hash
// that its key group follows from.
func (t *Table) SavedKey(dst []byte, rec uint32) ([]byte, uint32) {
	hash := t.Hash(rec)
	if t.track != nil && t.track.owner != nil {
		dst, hash = t.track.owner(dst, rec)
	}
	return t.AppendKey(dst, rec), hash
}

// Touch says that the records recs change: those not obtained by an Upsert since the last Changes,
// and with TrackTouched and TrackOwned all.
func (t *Table) Touch(recs []uint32) {
	if t.track != nil {
		t.note(recs)
	}
}

// touch is Touch of what Upsert and its kin return.
func (t *Table) touch(recs []uint32) {
	if !t.track.manual {
		t.note(recs)
	}
}

func (t *Table) note(recs []uint32) {
	d := t.track.dirty
	for _, r := range recs {
		p := &t.Chunks[r>>ChunkBits][r&ChunkMask]
		if *p&flagDirty == 0 {
			*p |= flagDirty
			d = append(d, r)
		}
	}
	t.track.dirty = d
}

// Dirty is about the number of records to be saved.
func (t *Table) Dirty() int {
	if t.track == nil {
		return 0
	}
	n := len(t.track.dirty)
	if t.expiry != nil {
		n += t.expiry.index.puts.Len()
	}
	return n
}

// Saved marks a record as one that the saved state has, unchanged: to be called for records that
// were just restored.
func (t *Table) Saved(rec uint32) {
	p := &t.Chunks[rec>>ChunkBits][rec&ChunkMask]
	*p = *p&^(flagDirty|FlagNew) | flagSaved
	if t.expiry != nil {
		t.expiry.came(rec)
	}
}

// Changes calls gone with the keys of saved records that were deleted since the last call, then
// put with each record that changed, and takes the latter for saved. hash and key are those of
// SavedKey; key is valid during the call.
func (t *Table) Changes(put func(rec uint32), gone func(hash uint32, key []byte)) {
	if t.track == nil {
		return
	}
	flags, keep := uint64(0), t.track.gone[:0]
	if t.spill != nil {
		if flags = t.spill.froze(); len(t.track.gone) > 0 {
			keep = nil // the graves have it
		}
	}
	le := binary.LittleEndian
	for b := t.track.gone; len(b) > 0; {
		n := le.Uint32(b[4:])
		gone(le.Uint32(b), b[8:8+n])
		b = b[8+n:]
	}
	t.track.gone = keep
	for dirty := t.track.dirty; len(dirty) > 0; {
		part := dirty[:min(len(dirty), aheadRecords)]
		dirty = dirty[len(part):]
		t.ahead(part)
		for _, r := range part {
			p := &t.Chunks[r>>ChunkBits][r&ChunkMask]
			if *p&(live|flagDirty) != live|flagDirty {
				continue // gone, or reused and seen already
			}
			*p = *p&^(flagDirty|epochMask) | flagSaved | flags
			put(r)
		}
	}
	t.track.dirty = t.track.dirty[:0]
}

// aheadRecords is how many records are brought into the cache at a time.
const aheadRecords = 128

// ahead reads a word of each record, so that the misses of the cache overlap: one after the other
// they are most of the time that a freeze takes.
func (t *Table) ahead(recs []uint32) {
	ch, x := t.Chunks, uint64(0)
	for _, r := range recs {
		x |= ch[r>>ChunkBits][r&ChunkMask]
	}
	t.track.seen |= x
}

// bury notes a record that is about to be deleted.
func (t *Table) bury(rec uint32) {
	w := t.At(rec)
	if w[0]&flagSaved == 0 {
		return
	}
	le := binary.LittleEndian
	at := len(t.track.gone)
	b, hash := t.SavedKey(append(t.track.gone, 0, 0, 0, 0, 0, 0, 0, 0), rec)
	le.PutUint32(b[at:], hash)
	le.PutUint32(b[at+4:], uint32(len(b)-at-8))
	t.track.gone = b
	if t.spill != nil {
		t.spill.bury(b, at)
	}
}

// Hash is the frozen hash of a record's key; with a lead, of the key and the lead.
func (t *Table) Hash(rec uint32) uint32 { return uint32(t.At(rec)[0]) }

// AppendKey appends the key of a record in a form that UpsertKey reads, a lead left out:
//
//	NULL bits (3 bytes), then for each column its words (8 bytes each, big endian), or for one of
//	varying length: length (4 bytes), bytes
func (t *Table) AppendKey(dst []byte, rec uint32) []byte {
	w := t.At(rec)
	dst = append(dst, byte(w[0]>>32), byte(w[0]>>40), byte(w[0]>>48))
	be := binary.BigEndian
	if t.layout.plain {
		for _, x := range w[1:t.layout.words] {
			dst = be.AppendUint64(dst, x)
		}
		return dst
	}
	for i, c := range t.layout.cols {
		if c.null != 0 {
			dst = append(dst, byte(w[c.null]))
		}
		switch {
		case c.phys == 0:
		case c.varies():
			at := len(dst)
			dst = be.AppendUint32(dst, 0)
			if !c.isNull(i, w) {
				dst = t.appendBytes(dst, rec, c.at)
			}
			be.PutUint32(dst[at:], uint32(len(dst)-at-4))
		default:
			for k := c.at; k < c.at+c.wide(); k++ {
				dst = be.AppendUint64(dst, w[k])
			}
		}
	}
	return dst
}

// AppendPart appends the columns cols of a record's key as a key of their own, in the form of
// AppendKey, and tells the frozen hash of that key.
func (t *Table) AppendPart(dst []byte, rec uint32, cols []int) ([]byte, uint32) {
	w := t.At(rec)
	head := len(dst)
	dst = append(dst, 0, 0, 0)
	h := uint64(hashSeed)
	be := binary.BigEndian
	for i, col := range cols {
		c := t.layout.cols[col]
		null := c.isNull(col, w)
		bit := byte(0)
		if null {
			bit = 1
			h = fold(h, nullWord)
		}
		if i < headNulls {
			dst[head+i/8] |= bit << (i % 8)
		} else {
			dst = append(dst, bit)
		}
		switch {
		case c.phys == 0:
		case c.varies():
			at := len(dst)
			dst = be.AppendUint32(dst, 0)
			if !null {
				dst = t.appendBytes(dst, rec, c.at)
				be.PutUint32(dst[at:], uint32(len(dst)-at-4))
				h = hashBytes(h, w[c.at], w[c.at+1], dst[at+4:])
			}
		default:
			for k := c.at; k < c.at+c.wide(); k++ {
				dst = be.AppendUint64(dst, w[k])
				if !null {
					h = fold(h, w[k])
				}
			}
		}
	}
	return dst, finish(h)
}

// hashBytes folds a value of varying length whose words are w0 and w1.
func hashBytes(h, w0, w1 uint64, b []byte) uint64 {
	if len(b) > inlineBytes {
		w1 = xxh3.Hash(b)
	}
	return fold(fold(h, w0), w1)
}

var errKey = errors.New("a saved key does not have the shape of the operator's keys")

// UpsertKey finds, or adds, the record of a key in the form of AppendKey, with the given lead where
// the layout has one. It returns what is left of b. The record does not count as changed: it is to
// be given to Saved or to Touch.
func (t *Table) UpsertKey(b []byte, lead uint32) (rec uint32, rest []byte, err error) {
	if t.reader == nil {
		t.reader = newKeyReader(t.layout)
	}
	if rest, err = t.reader.read(b, lead); err != nil {
		return 0, nil, err
	}
	rec = t.lookup(t.reader.w, &t.reader.e, true)
	if t.spill != nil {
		t.spill.forget()
	}
	return rec, rest, nil
}

// keyReader turns saved keys into words; e holds the bytes of the long strings, to which their
// second words point.
type keyReader struct {
	w []uint64
	e Encoder
}

func newKeyReader(l *Layout) *keyReader {
	return &keyReader{w: make([]uint64, l.words), e: Encoder{Layout: l}}
}

// read accepts what AppendKey writes, and nothing else, so that a key has one form only.
func (r *keyReader) read(b []byte, lead uint32) (rest []byte, err error) {
	l, w := r.e.Layout, r.w
	clear(w)
	r.e.buf = r.e.buf[:0]
	if len(b) < 3 {
		return nil, errKey
	}
	nulls := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16
	if nulls>>min(len(l.cols), headNulls) != 0 {
		return nil, errKey
	}
	w[0] = nulls << 32
	b = b[3:]
	if l.lead {
		w[1] = uint64(lead)
	}
	for i, c := range l.cols {
		if c.null != 0 {
			if len(b) < 1 || b[0] > 1 {
				return nil, errKey
			}
			w[c.null], b = uint64(b[0]), b[1:]
		}
		ok := true
		if c.varies() {
			b, ok = r.readBytes(i, c, b)
		} else if c.phys != types.PNone {
			b, ok = r.readWords(i, c, b)
		} else {
			ok = c.isNull(i, w)
		}
		if !ok {
			return nil, errKey
		}
	}
	w[0] |= uint64(finish(l.hashWords(w, len(l.cols), func(at uint64, n uint32) []byte {
		return r.e.buf[at : at+uint64(n)]
	})))
	return b, nil
}

func (r *keyReader) readBytes(i int, c keyCol, b []byte) (rest []byte, ok bool) {
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, false
	}
	n := binary.BigEndian.Uint32(b)
	v := b[4 : 4+n]
	b = b[4+n:]
	if c.isNull(i, r.w) {
		return b, n == 0
	}
	if c.phys != types.PBytes {
		if left, ok := CheckValue(v, r.e.Types[i]); !ok || len(left) > 0 || v[0] == 0 {
			return nil, false
		}
	}
	if n > inlineBytes {
		r.w[c.at] = uint64(n) | uint64(binary.LittleEndian.Uint32(v))<<32
		r.w[c.at+1] = uint64(len(r.e.buf))
		r.e.buf = append(r.e.buf, v...)
	} else {
		r.w[c.at], r.w[c.at+1] = inline(v)
	}
	return b, true
}

func (r *keyReader) readWords(i int, c keyCol, b []byte) (rest []byte, ok bool) {
	n := c.wide()
	if len(b) < 8*n {
		return nil, false
	}
	for k := range n {
		r.w[c.at+k] = binary.BigEndian.Uint64(b[8*k:])
	}
	x := r.w[c.at]
	switch {
	case c.isNull(i, r.w):
		ok = x == 0 && r.w[c.at+n-1] == 0
	case c.phys == types.PBool:
		ok = x <= 1
	case c.phys == types.PI32:
		ok = x == uint64(int64(int32(x)))
	case c.phys == types.PF32:
		ok = x>>32 == 0
	default:
		ok = true
	}
	return b[8*n:], ok
}
