package state

import (
	"encoding/binary"
	"errors"
)

// tracker notes which records of a table changed since the last time they were saved, and which
// saved ones are gone.
type tracker struct {
	dirty []uint32 // records with flagDirty; may name freed or reused ones
	// gone holds deleted keys that were saved: hash (4 bytes), length (4 bytes), key.
	gone []byte
}

// Track begins to note changes: every record that Upsert and its kin return is taken for changed,
// as is one given to Touch, and a deleted one that was saved is remembered. To be called while
// the table is empty.
func (t *Table) Track() { t.track = &tracker{} }

// Touch says that the records recs, not obtained by an Upsert since the last Changes, change.
func (t *Table) Touch(recs []uint32) {
	if t.track != nil {
		t.touch(recs)
	}
}

func (t *Table) touch(recs []uint32) {
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
	return len(t.track.dirty)
}

// Saved marks a record as one that the saved state has, unchanged: to be called for records that
// were just restored.
func (t *Table) Saved(rec uint32) {
	p := &t.Chunks[rec>>ChunkBits][rec&ChunkMask]
	*p = *p&^(flagDirty|FlagNew) | flagSaved
}

// Changes calls gone with the keys of saved records that were deleted since the last call, then
// put with each record that changed, and takes the latter for saved. key is in the form of
// AppendKey and valid during the call.
func (t *Table) Changes(put func(rec uint32), gone func(hash uint32, key []byte)) {
	if t.track == nil {
		return
	}
	le := binary.LittleEndian
	for b := t.track.gone; len(b) > 0; {
		n := le.Uint32(b[4:])
		gone(le.Uint32(b), b[8:8+n])
		b = b[8+n:]
	}
	t.track.gone = t.track.gone[:0]
	for _, r := range t.track.dirty {
		p := &t.Chunks[r>>ChunkBits][r&ChunkMask]
		if *p&(live|flagDirty) != live|flagDirty {
			continue // gone, or reused and seen already
		}
		*p = *p&^flagDirty | flagSaved
		put(r)
	}
	t.track.dirty = t.track.dirty[:0]
}

// bury notes a record that is about to be deleted.
func (t *Table) bury(rec uint32) {
	w := t.At(rec)
	if w[0]&flagSaved == 0 {
		return
	}
	le := binary.LittleEndian
	b := le.AppendUint32(t.track.gone, uint32(w[0]))
	at := len(b)
	b = t.AppendKey(le.AppendUint32(b, 0), rec)
	le.PutUint32(b[at:], uint32(len(b)-at-4))
	t.track.gone = b
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

var errKey = errors.New("a saved key does not have the shape of the operator's keys")

// UpsertKey finds, or adds, the record of a key in the form of AppendKey, with the given lead where
// the layout has one. It returns what is left of b.
func (t *Table) UpsertKey(b []byte, lead uint32) (rec uint32, rest []byte, err error) {
	l := t.layout
	w := make([]uint64, l.words)
	var long []byte // bytes of the long strings, to which their second words point
	if len(b) < 3 {
		return 0, nil, errKey
	}
	w[0] = uint64(b[0])<<32 | uint64(b[1])<<40 | uint64(b[2])<<48
	b = b[3:]
	if l.lead {
		w[1] = uint64(lead)
	}
	be := binary.BigEndian
	for i, c := range l.cols {
		if c.null != 0 {
			if len(b) < 1 {
				return 0, nil, errKey
			}
			w[c.null], b = uint64(b[0]), b[1:]
		}
		switch {
		case c.phys == 0:
		case c.varies():
			if len(b) < 4 || uint64(be.Uint32(b)) > uint64(len(b)-4) {
				return 0, nil, errKey
			}
			n := be.Uint32(b)
			v := b[4 : 4+n]
			b = b[4+n:]
			switch {
			case c.isNull(i, w):
			case n > inlineBytes:
				w[c.at] = uint64(n) | uint64(binary.LittleEndian.Uint32(v))<<32
				w[c.at+1] = uint64(len(long))
				long = append(long, v...)
			default:
				w[c.at], w[c.at+1] = inline(v)
			}
		default:
			for k := c.at; k < c.at+c.wide(); k++ {
				if len(b) < 8 {
					return 0, nil, errKey
				}
				w[k], b = be.Uint64(b), b[8:]
			}
		}
	}
	w[0] |= uint64(finish(l.hashWords(w, len(l.cols), func(at uint64, n uint32) []byte {
		return long[at : at+uint64(n)]
	})))
	e := Encoder{Layout: l, buf: long}
	return t.lookup(w, &e, true), b, nil
}
