package sort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// shelf keeps rows as bytes, in the order of their keys and then of their numbers, in leaves of a few
// hundred: what comes or goes moves the rest of its leaf only.
//
//	entry  length of the order (4 bytes, little endian) order (appendOrder) value (as it is saved)
//
// An entry of a shelf that is an index is empty: its head says all.
type shelf struct {
	leaves []*leaf
	n      int
	held   int64 // bytes that the leaves take
	// short says that the heads of two rows tell their order, but for those of rows that may be NULL
	// there; single that there is no order but that of numbers.
	short, single bool
}

// leaf is some rows that follow each other.
type leaf struct {
	recs  []rec
	buf   []byte
	live  int  // bytes of buf that belong to recs
	fresh bool // there may be rows that are not saved
}

// rec is a row of a leaf.
type rec struct {
	head      uint64 // the first bytes of the order: headOf
	number    uint64
	off, size uint32 // of the entry in buf
}

// where is a place on a shelf: that of a row, or the one behind all.
type where struct{ leaf, pos int }

const (
	leafRows  = 512
	leafBytes = 256 << 10
	recBytes  = 24
	entryHead = 4
)

// headOf is a number that does not order otherwise than the bytes of an order do.
func headOf(order []byte) uint64 {
	switch {
	case len(order) == 0 || order[0] == 0:
		return 0
	case order[0] == 2:
		return math.MaxUint64
	case len(order) > 8:
		return binary.BigEndian.Uint64(order[1:])
	}
	var b [8]byte
	copy(b[:], order[1:])
	return binary.BigEndian.Uint64(b[:])
}

// order is that of a row, value what is saved of it.
func (l *leaf) order(r *rec) []byte {
	if r.size == 0 {
		return nil
	}
	b := l.buf[r.off:]
	n := binary.LittleEndian.Uint32(b)
	return b[entryHead : entryHead+n : entryHead+n]
}

func (l *leaf) value(r *rec) []byte {
	b := l.buf[r.off : r.off+r.size : r.off+r.size]
	return b[entryHead+binary.LittleEndian.Uint32(b):]
}

func (l *leaf) bytes() int64 { return int64(cap(l.recs))*recBytes + int64(cap(l.buf)) + 64 }

// compare orders a row and another, of which head, order and number are given.
func (s *shelf) compare(l *leaf, r *rec, head uint64, order []byte, number uint64) int {
	if r.head != head {
		return cmp.Compare(r.head, head)
	}
	if !s.single && (!s.short || head == 0 || head == math.MaxUint64) {
		if c := bytes.Compare(l.order(r), order); c != 0 {
			return c
		}
	}
	return cmp.Compare(r.number, number)
}

// find is the place of a row, or of the first one behind it; ok: it is there.
func (s *shelf) find(head uint64, order []byte, number uint64) (at where, ok bool) {
	// The last leaf that does not begin behind it.
	lo, hi := 0, len(s.leaves)
	for lo < hi {
		m := int(uint(lo+hi) / 2)
		l := s.leaves[m]
		if s.compare(l, &l.recs[0], head, order, number) <= 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == 0 {
		return where{}, false
	}
	at.leaf = lo - 1
	l := s.leaves[at.leaf]
	lo, hi = 0, len(l.recs)
	for lo < hi {
		m := int(uint(lo+hi) / 2)
		switch c := s.compare(l, &l.recs[m], head, order, number); {
		case c < 0:
			lo = m + 1
		case c > 0:
			hi = m
		default:
			return where{at.leaf, m}, true
		}
	}
	at.pos = lo
	return s.norm(at), false
}

// norm is at, or the first place of the next leaf where at is behind the rows of its own.
func (s *shelf) norm(at where) where {
	if at.leaf < len(s.leaves) && at.pos >= len(s.leaves[at.leaf].recs) {
		return where{at.leaf + 1, 0}
	}
	return at
}

// end reports whether at is behind all rows.
func (s *shelf) end(at where) bool { return at.leaf >= len(s.leaves) }

func (s *shelf) next(at where) where {
	at.pos++
	return s.norm(at)
}

// prev is the place before at, which is not the first.
func (s *shelf) prev(at where) where {
	if at.pos == 0 {
		at.leaf--
		at.pos = len(s.leaves[at.leaf].recs)
	}
	at.pos--
	return at
}

// at returns the row of a place.
func (s *shelf) at(at where) (*leaf, *rec) {
	l := s.leaves[at.leaf]
	return l, &l.recs[at.pos]
}

// nth is the place of row n, from 0 on.
func (s *shelf) nth(n int64) where {
	for i, l := range s.leaves {
		if n < int64(len(l.recs)) {
			return where{i, int(n)}
		}
		n -= int64(len(l.recs))
	}
	return where{len(s.leaves), 0}
}

// last is the place of the last row of those that are there.
func (s *shelf) last() where {
	n := len(s.leaves) - 1
	return where{n, len(s.leaves[n].recs) - 1}
}

// insert adds a row of the given order and value, of which nothing is kept. Its number is not there.
func (s *shelf) insert(head uint64, order []byte, number uint64, value []byte, fresh bool) {
	at, _ := s.find(head, order, number)
	switch {
	case len(s.leaves) == 0:
		s.leaves = append(s.leaves, &leaf{})
		s.held += s.leaves[0].bytes()
	case s.end(at) || at.pos == 0 && at.leaf > 0:
		at = where{at.leaf - 1, len(s.leaves[at.leaf-1].recs)}
	}
	l := s.leaves[at.leaf]
	if len(l.recs) >= leafRows || l.live >= leafBytes && len(l.recs) > 1 {
		at = s.split(at)
		l = s.leaves[at.leaf]
	}
	before := l.bytes()
	r := rec{head: head, number: number}
	if value != nil {
		if 2*l.live < len(l.buf) && len(l.buf) >= 4<<10 {
			l.compact(l.recs, l.live+l.live/4)
		}
		r.off = uint32(len(l.buf))
		l.buf = append(append(binary.LittleEndian.AppendUint32(l.buf, uint32(len(order))), order...), value...)
		r.size = uint32(len(l.buf)) - r.off
		l.live += int(r.size)
	}
	l.recs = slices.Insert(l.recs, at.pos, r)
	l.fresh = l.fresh || fresh
	s.n++
	s.held += l.bytes() - before
}

// compact makes recs, which belong to l, its rows, in a buffer of their own with the given capacity.
func (l *leaf) compact(recs []rec, room int) {
	buf := make([]byte, 0, room)
	for i := range recs {
		r := &recs[i]
		off := uint32(len(buf))
		buf = append(buf, l.buf[r.off:r.off+r.size]...)
		r.off = off
	}
	l.recs, l.buf, l.live = recs, buf, len(buf)
}

// split divides a leaf and returns where at is then. What is added at the end of a leaf begins another.
func (s *shelf) split(at where) where {
	l := s.leaves[at.leaf]
	half := len(l.recs) / 2
	if at.pos == len(l.recs) && at.leaf == len(s.leaves)-1 {
		half = len(l.recs)
	}
	s.held -= l.bytes()
	right := &leaf{buf: l.buf, fresh: l.fresh}
	if half < len(l.recs) {
		size := 0
		for _, r := range l.recs[half:] {
			size += int(r.size)
		}
		right.compact(slices.Clone(l.recs[half:]), size+size/2)
		l.compact(l.recs[:half], l.live-size+(l.live-size)/2)
	} else {
		right.buf, right.fresh = nil, false
	}
	s.leaves = slices.Insert(s.leaves, at.leaf+1, right)
	s.held += l.bytes() + right.bytes()
	if at.pos >= half {
		return where{at.leaf + 1, at.pos - half}
	}
	return at
}

// remove takes a row out.
func (s *shelf) remove(at where) {
	l := s.leaves[at.leaf]
	l.live -= int(l.recs[at.pos].size)
	l.recs = slices.Delete(l.recs, at.pos, at.pos+1)
	s.n--
	if len(l.recs) >= leafRows/4 || len(s.leaves) == 1 && len(l.recs) > 0 {
		return
	}
	if len(l.recs) == 0 {
		s.drop(at.leaf, at.leaf+1)
		return
	}
	// Small neighbours become one.
	i := at.leaf
	if i == len(s.leaves)-1 {
		i--
	}
	if a, b := s.leaves[i], s.leaves[i+1]; len(a.recs)+len(b.recs) <= leafRows/2 && a.live+b.live <= leafBytes/2 {
		s.join(i)
	}
}

// join makes leaf i and the one behind it one.
func (s *shelf) join(i int) {
	a, b := s.leaves[i], s.leaves[i+1]
	before := a.bytes()
	a.compact(a.recs, a.live+b.live)
	for _, r := range b.recs {
		off := uint32(len(a.buf))
		a.buf = append(a.buf, b.buf[r.off:r.off+r.size]...)
		r.off = off
		a.recs = append(a.recs, r)
	}
	a.live, a.fresh = len(a.buf), a.fresh || b.fresh
	s.held += a.bytes() - before
	s.drop(i+1, i+2)
}

// tidy takes out empty leaves from number from on, and makes small neighbours one.
func (s *shelf) tidy(from int) {
	s.leaves = append(s.leaves[:from], slices.DeleteFunc(s.leaves[from:], func(l *leaf) bool {
		if len(l.recs) == 0 {
			s.held -= l.bytes()
		}
		return len(l.recs) == 0
	})...)
	for i := len(s.leaves) - 2; i >= from; i-- {
		if a, b := s.leaves[i], s.leaves[i+1]; len(a.recs)+len(b.recs) <= leafRows/2 && a.live+b.live <= leafBytes/2 {
			s.join(i)
		}
	}
}

// drop takes leaves out; their rows are counted by the caller.
func (s *shelf) drop(from, to int) {
	for _, l := range s.leaves[from:to] {
		s.held -= l.bytes()
	}
	s.leaves = slices.Delete(s.leaves, from, to)
}
