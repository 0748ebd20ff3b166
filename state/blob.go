package state

import (
	"math/bits"
	"unsafe"
)

// Ref names a value in a Blob; 0 names none.
//
//	bits 56-63  size class + 1
//	bits 0-55   number of the block in its class
type Ref uint64

// Blob keeps values of varying size outside Go's heap. Blocks come in size classes, two for each
// power of two, from 16 bytes up; a block starts with the length of its value in 4 bytes, so an
// appended value moves a number of times that is logarithmic in its size.
type Blob struct {
	mem     *Memory
	classes [classes]class
	count   int
	live    int64 // bytes of the blocks in use
	held    int64 // bytes of all chunks
}

type class struct {
	chunks [][]uint64 // of perChunk blocks each
	next   uint64     // blocks ever used
	free   uint64     // the first freed block + 1; the next one is in its first word
}

const (
	classes     = 56 // the largest block has 2^31 bytes
	blockHeader = 4
	chunkBytes  = 1 << 16
)

// NewBlob returns an empty store.
func NewBlob(mem *Memory) *Blob { return &Blob{mem: mem} }

// Len is the number of values.
func (b *Blob) Len() int { return b.count }

// Weight is the memory that the store takes, bytes, and how much of it is free for other values.
func (b *Blob) Weight() (held, free int64) { return b.held, b.held - b.live }

// chunk returns n words.
func (b *Blob) chunk(n int) []uint64 {
	b.held += int64(n) * 8
	return b.mem.alloc(n, false)
}

func (b *Blob) release(w []uint64) {
	b.held -= int64(len(w)) * 8
	b.mem.release(w)
}

// classFor returns the class of the smallest blocks with n bytes after the header.
func classFor(n int) int {
	n += blockHeader
	if n <= 16 {
		return 0
	}
	k := bits.Len(uint(n - 1)) // 2^(k-1) < n <= 2^k
	c := 2 * (k - 4)
	if n <= 3<<(k-2) {
		c--
	}
	return c
}

// classSize is 16, 24, 32, 48, 64, 96 ...
func classSize(c int) int {
	if c&1 == 1 {
		return 24 << (c / 2)
	}
	return 16 << (c / 2)
}

// chunkShift is log2 of the blocks of a chunk, by class.
var chunkShift = func() (shift [classes]uint8) {
	for c := range shift {
		shift[c] = uint8(max(0, bits.Len(uint(chunkBytes/classSize(c)))-1))
	}
	return shift
}()

func perChunk(c int) uint64 { return 1 << chunkShift[c] }

// first is the number of blocks of a class's first chunk; small stores stay small.
const firstBlocks = 8

// block returns the memory of a block.
func (b *Blob) block(c int, n uint64) []byte {
	shift, size := chunkShift[c], classSize(c)
	w := b.classes[c].chunks[n>>shift]
	at := int(n&(1<<shift-1)) * size
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[at/8])), size)
}

func (b *Blob) take(c int) Ref {
	k := &b.classes[c]
	b.count++
	b.live += int64(classSize(c))
	if k.free != 0 {
		n := k.free - 1
		blk := b.block(c, n)
		k.free = *(*uint64)(unsafe.Pointer(&blk[0]))
		return Ref(uint64(c+1)<<56 | n)
	}
	per, size := perChunk(c), classSize(c)
	n := k.next
	chunk := int(n / per)
	switch {
	case chunk == len(k.chunks):
		blocks := int(per)
		if chunk == 0 {
			blocks = min(blocks, firstBlocks)
		}
		k.chunks = append(k.chunks, b.chunk(blocks*size/8))
	case int(n%per)*size >= len(k.chunks[chunk])*8:
		old := k.chunks[chunk]
		w := b.chunk(min(2*len(old), int(per)*size/8))
		copy(w, old)
		b.release(old)
		k.chunks[chunk] = w
	}
	k.next++
	return Ref(uint64(c+1)<<56 | n)
}

func (r Ref) class() int    { return int(r>>56) - 1 }
func (r Ref) block() uint64 { return uint64(r) & (1<<56 - 1) }

// Get returns the value of r, which may be changed in place; it stays valid until the next Put,
// Append or Grow. The value of Ref 0 is nil.
func (b *Blob) Get(r Ref) []byte {
	if r == 0 {
		return nil
	}
	blk := b.block(r.class(), r.block())
	n := *(*uint32)(unsafe.Pointer(&blk[0]))
	return blk[blockHeader : blockHeader+n : blockHeader+n]
}

// Put stores a copy of v.
func (b *Blob) Put(v []byte) Ref { return b.Set(0, v) }

// Set replaces the value of r by a copy of v, which must not lie in b, and returns its new name.
func (b *Blob) Set(r Ref, v []byte) Ref {
	if c := classFor(len(v)); r == 0 || r.class() != c {
		if r != 0 {
			b.Free(r)
		}
		r = b.take(c)
	}
	blk := b.block(r.class(), r.block())
	*(*uint32)(unsafe.Pointer(&blk[0])) = uint32(len(v))
	copy(blk[blockHeader:], v)
	return r
}

// Grow makes the value of r n bytes long and returns its new name. Bytes added are undefined; a
// value that gets shorter keeps its block.
func (b *Blob) Grow(r Ref, n int) Ref {
	r, _ = b.Resize(r, n)
	return r
}

// Resize is Grow that also returns the value.
func (b *Blob) Resize(r Ref, n int) (Ref, []byte) {
	c := classFor(n)
	if r == 0 || r.class() < c {
		next := b.take(c)
		blk := b.block(c, next.block())
		copy(blk[blockHeader:], b.Get(r))
		if r != 0 {
			b.Free(r)
		}
		r = next
	}
	blk := b.block(r.class(), r.block())
	*(*uint32)(unsafe.Pointer(&blk[0])) = uint32(n)
	return r, blk[blockHeader : blockHeader+n : blockHeader+n]
}

// Append adds v, which must not lie in b, to the value of r and returns its new name.
func (b *Blob) Append(r Ref, v []byte) Ref {
	n := len(b.Get(r))
	r = b.Grow(r, n+len(v))
	copy(b.Get(r)[n:], v)
	return r
}

// Free removes the value of r.
func (b *Blob) Free(r Ref) {
	if r == 0 {
		return
	}
	c, n := r.class(), r.block()
	blk := b.block(c, n)
	*(*uint64)(unsafe.Pointer(&blk[0])) = b.classes[c].free
	b.classes[c].free = n + 1
	b.count--
	b.live -= int64(classSize(c))
}

// Reset removes all values; each class keeps one chunk.
func (b *Blob) Reset() {
	b.count, b.live = 0, 0
	for i := range b.classes {
		k := &b.classes[i]
		for j := 1; j < len(k.chunks); j++ {
			b.release(k.chunks[j])
			k.chunks[j] = nil
		}
		k.chunks = k.chunks[:min(1, len(k.chunks))]
		k.next, k.free = 0, 0
	}
}

// Release gives all memory back.
func (b *Blob) Release() {
	b.Reset()
	for i := range b.classes {
		if k := &b.classes[i]; len(k.chunks) > 0 {
			b.release(k.chunks[0])
			k.chunks = nil
		}
	}
}
