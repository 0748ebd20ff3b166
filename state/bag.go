package state

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/types"
)

// Bag keeps rows under keys that are columns of theirs: every different row once, and the rows of a
// key as a list in the order they came. Both tables are the owner's to look into; what he changes
// goes through the Bag where it has a method for it.
//
//	record of Rows  the row | link | the owner's words | the record of its key, where rows know it
//	record of Keys  the key | first<<32 | last row | number of rows
//	link            next<<32 | previous row of the key, 0 for none
//
// Rows are saved one by one: the saved key of a row is its key, then the row itself (each AppendKey),
// in the key group of its key, so that the rows of a key stand together in the store. With Spill
// they leave memory when it is short; see there.
type Bag struct {
	Rows, Keys *Table

	cols  []int
	link  int // offset of the link in a record of Rows
	back  int // offset of the key's record there, 0 where rows do not know it
	ends  int // offset of the list in a record of Keys
	spill *bagSpill
}

// NewBag returns an empty bag of rows of the given types, whose columns cols are the key; the types of
// the key are keys. init are the owner's words of a row. With back every row knows the record of its
// key (KeyOf).
func NewBag(mem *Memory, rows []types.Type, cols []int, keys []types.Type, init []uint64, back bool) *Bag {
	b := &Bag{cols: cols}
	words := append([]uint64{0}, init...)
	if back {
		words = append(words, 0)
	}
	b.Rows = NewTable(mem, NewLayout(rows, false), words)
	b.Keys = NewTable(mem, NewLayout(keys, false), []uint64{0, 0})
	b.link, b.ends = b.Rows.Base(), b.Keys.Base()
	if back {
		b.back = b.link + len(init) + 1
	}
	return b
}

// Track begins to note changes; see Table.TrackOwned: the owner tells by Rows.Touch which rows change.
func (b *Bag) Track() {
	b.Rows.TrackOwned(func(dst []byte, rec uint32) ([]byte, uint32) { return b.Rows.AppendPart(dst, rec, b.cols) })
}

// Release gives all memory back.
func (b *Bag) Release() {
	if b.spill != nil {
		b.spill.release()
	}
	b.Rows.Release()
	b.Keys.Release()
}

// Upsert finds the rows of a batch and their keys, encoded in row and key, adding those that are
// missing; sub is as in Table.Upsert. A row that was added is linked by the owner, and has FlagNew
// until he clears it.
func (b *Bag) Upsert(key, row *Encoder, sub []int32, keys, rows []uint32) {
	b.Keys.Upsert(key, sub, keys)
	b.Rows.Upsert(row, sub, rows)
	if b.spill != nil && b.spill.cold {
		b.spill.resolve(keys, rows)
	}
}

// Find finds keys: keys[k] is the record of the key of row k, 0 where there is none. Where more is not
// nil and more[k], the store may have rows of that key that are not in memory: see Rest. more is
// valid until the next call.
func (b *Bag) Find(key *Encoder, sub []int32, keys []uint32) (more []bool) {
	b.Keys.Find(key, sub, keys)
	if b.spill == nil || !b.spill.cold {
		return nil
	}
	return b.spill.fetch(key, sub, keys)
}

func (b *Bag) linkOf(rec uint32) *uint64 {
	return &b.Rows.Chunks[rec>>ChunkBits][int(rec&ChunkMask)+b.link]
}

func (b *Bag) list(key uint32) []uint64 {
	p := int(key&ChunkMask) + b.ends
	return b.Keys.Chunks[key>>ChunkBits][p : p+2 : p+2]
}

// Head is the first row of a key, 0 if there is none.
func (b *Bag) Head(key uint32) uint32 { return uint32(b.list(key)[0] >> 32) }

// Next is the row after rec in the list of their key, 0 after the last.
func (b *Bag) Next(rec uint32) uint32 { return uint32(*b.linkOf(rec) >> 32) }

// Size is the number of rows of a key that are in memory.
func (b *Bag) Size(key uint32) int { return int(b.list(key)[1]) }

// KeyOf is the record of a row's key; only where rows know it.
func (b *Bag) KeyOf(rec uint32) uint32 {
	return uint32(b.Rows.Chunks[rec>>ChunkBits][int(rec&ChunkMask)+b.back])
}

// Link appends a row to the list of its key.
func (b *Bag) Link(key, rec uint32) {
	k := b.list(key)
	last := uint32(k[0])
	*b.linkOf(rec) = uint64(last)
	if last == 0 {
		k[0] = uint64(rec) << 32
	} else {
		w := b.linkOf(last)
		*w = *w&hashBits | uint64(rec)<<32
	}
	k[0] = k[0]&^hashBits | uint64(rec)
	k[1]++
	if b.back > 0 {
		b.Rows.At(rec)[b.back] = uint64(key)
	}
}

// Unlink takes a row out of the list of its key.
func (b *Bag) Unlink(key, rec uint32) {
	k := b.list(key)
	w := *b.linkOf(rec)
	next, prev := uint32(w>>32), uint32(w)
	if prev == 0 {
		k[0] = k[0]&hashBits | uint64(next)<<32
	} else {
		p := b.linkOf(prev)
		*p = *p&hashBits | uint64(next)<<32
	}
	if next == 0 {
		k[0] = k[0]&^hashBits | uint64(prev)
	} else {
		n := b.linkOf(next)
		*n = *n&^hashBits | uint64(prev)
	}
	k[1]--
}

// Load adds one saved entry; rows of a key come to stand in another order than before. See Restore.
func (b *Bag) Load(k *Keeper, key, value []byte) error {
	kr, rest, err := b.Keys.UpsertKey(key, 0)
	if err != nil {
		return fmt.Errorf("entry %x: %w", key, err)
	}
	before := b.Rows.count
	rec, left, err := b.Rows.UpsertKey(rest, 0)
	if err == nil && (len(left) > 0 || b.Rows.count == before || !b.ownKey(rec, key[:len(key)-len(rest)])) {
		err = errKey
	}
	if err == nil {
		err = k.Codec.LoadValue(rec, value)
	}
	if err != nil {
		return fmt.Errorf("entry %x: %w", key, err)
	}
	b.Link(kr, rec)
	b.Rows.Saved(rec)
	return nil
}

// ownKey reports whether key is that of a row.
func (b *Bag) ownKey(rec uint32, key []byte) bool {
	var buf [64]byte
	part, _ := b.Rows.AppendPart(buf[:0], rec, b.cols)
	return string(part) == string(key)
}

// Restore loads the rows of saved, or leaves them in the store where the bag spills to one that has
// them already.
func (b *Bag) Restore(k *Keeper, saved Saved) error {
	if err := b.Rows.restoring(k); err != nil {
		return err
	}
	if s := b.spill; s != nil && s.s.stored {
		s.cold, s.unknown, s.learnt = true, true, SweepCursor{group: s.s.lo}
		return nil
	}
	return saved.Scan(k.State, func(_ int, key, value []byte) error { return b.Load(k, key, value) })
}
