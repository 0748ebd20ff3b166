package state

import "encoding/binary"

// Heaps keep, for each group, which of its entries in a Table of (group, value) comes first,
// while entries come and go. A group's heap is a binary heap of record addresses in a Blob. An
// entry that goes is not looked for in the heap: it stays there until it comes up, and alive then
// says that it is to be skipped; when more than half are dead, the heap is rebuilt.
//
//	heap of a group: live entries (4 bytes), then record addresses (4 bytes each)
type Heaps struct {
	blob *Blob
	// less says that entry a comes before b.
	less func(a, b uint32) bool
	// alive says whether an entry still counts. A dead one may be freed once Heaps was told
	// that it is no longer held: see dropped.
	alive func(a uint32) bool
	// dropped is told of each dead entry that no heap holds any more.
	dropped func(a uint32)
}

// NewHeaps returns heaps over entries compared by less; see the type for alive and dropped.
func NewHeaps(blob *Blob, less func(a, b uint32) bool, alive func(uint32) bool,
	dropped func(uint32)) *Heaps {
	return &Heaps{blob: blob, less: less, alive: alive, dropped: dropped}
}

const heapHead = 4

func at(h []byte, i int) uint32       { return binary.LittleEndian.Uint32(h[heapHead+4*i:]) }
func put(h []byte, i int, v uint32)   { binary.LittleEndian.PutUint32(h[heapHead+4*i:], v) }
func size(h []byte) int               { return (len(h) - heapHead) / 4 }
func (p *Heaps) live(h []byte, d int) { binary.LittleEndian.PutUint32(h, uint32(int(p.Live(h))+d)) }

// Live is the number of live entries of heap h.
func (p *Heaps) Live(h []byte) uint32 { return binary.LittleEndian.Uint32(h) }

// Push adds entry e, which the heap does not hold, and returns the heap's new name.
func (p *Heaps) Push(r Ref, e uint32) Ref {
	if r == 0 {
		var head [heapHead]byte
		r = p.blob.Put(head[:])
	}
	h := p.blob.Get(r)
	r = p.blob.Grow(r, len(h)+4)
	h = p.blob.Get(r)
	p.live(h, 1)
	i := size(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		v := at(h, up)
		if !p.less(e, v) {
			break
		}
		put(h, i, v)
		i = up
	}
	put(h, i, e)
	return r
}

// Revive says that an entry that was killed counts again.
func (p *Heaps) Revive(r Ref) { p.live(p.blob.Get(r), 1) }

// Kill says that an entry of the heap no longer counts.
func (p *Heaps) Kill(r Ref) Ref {
	h := p.blob.Get(r)
	p.live(h, -1)
	if n := size(h); n > 16 && int(p.Live(h)) < n/2 {
		return p.rebuild(r)
	}
	return r
}

// First returns the first live entry, or 0. Dead ones before it are dropped.
func (p *Heaps) First(r Ref) (uint32, Ref) {
	if r == 0 {
		return 0, 0
	}
	for {
		h := p.blob.Get(r)
		n := size(h)
		if n == 0 {
			return 0, r
		}
		e := at(h, 0)
		if p.alive(e) {
			return e, r
		}
		last := at(h, n-1)
		r = p.blob.Grow(r, len(h)-4)
		h = p.blob.Get(r)
		if n > 1 {
			p.down(h, 0, last)
		}
		p.dropped(e)
	}
}

func (p *Heaps) down(h []byte, i int, e uint32) {
	n := size(h)
	for {
		kid := 2*i + 1
		if kid >= n {
			break
		}
		if kid+1 < n && p.less(at(h, kid+1), at(h, kid)) {
			kid++
		}
		if !p.less(at(h, kid), e) {
			break
		}
		put(h, i, at(h, kid))
		i = kid
	}
	put(h, i, e)
}

func (p *Heaps) rebuild(r Ref) Ref {
	h := p.blob.Get(r)
	n := 0
	for i := 0; i < size(h); i++ {
		if e := at(h, i); p.alive(e) {
			put(h, n, e)
			n++
		} else {
			p.dropped(e)
		}
	}
	r = p.blob.Grow(r, heapHead+4*n)
	h = p.blob.Get(r)
	for i := n/2 - 1; i >= 0; i-- {
		p.down(h, i, at(h, i))
	}
	return r
}

// Each calls f with every entry of the heap, dead or alive.
func (p *Heaps) Each(r Ref, f func(e uint32)) {
	h := p.blob.Get(r)
	for i := 0; r != 0 && i < size(h); i++ {
		f(at(h, i))
	}
}
