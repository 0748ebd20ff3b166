package state

import "fmt"

const (
	// ChunkBits is log2 of the words of a full chunk (1 MiB). An address is chunk<<ChunkBits |
	// word in the chunk, so 32 bits reach 32 GiB a table.
	ChunkBits  = 17
	chunkWords = 1 << ChunkBits
	// ChunkMask takes the word in the chunk out of an address.
	ChunkMask = chunkWords - 1
	// firstRecords is the room of a new table; its chunk doubles up to chunkWords, moving its
	// records (not their addresses) while it is small.
	firstRecords = 16
)

// Bits of the first word of a record.
const (
	hashBits = 0xFFFFFFFF
	keyBits  = 1<<56 - 1 // hash and NULL bits: what the key's identity includes
	live     = 1 << 56
	// FlagMark is free for the owner of a table: it is clear in a new record.
	FlagMark = 1 << 57
	// FlagNew is free for the owner and set in a new record.
	FlagNew = 1 << 58
	// flagDirty and flagSaved are of tracked tables: the record is in the list of changed ones;
	// the saved state has a version of it.
	flagDirty = 1 << 59
	flagSaved = 1 << 60
	// Bits 61-63 are of tables that may spill: see spill.go.
)

// Records are fixed-width rows of words. Address 0 is never one of a record.
type Records struct {
	Chunks [][]uint64
	mem    *Memory
	stride uint32
	next   uint32 // the next address that was never used
	limit  uint32 // the end of the room in the current chunk
	free   uint32 // the first freed record; the next is in its word 0
	freed  int    // the number of freed records
	count  int
	expect int // how many records the first chunk is to hold
}

func (r *Records) init(mem *Memory, stride int) {
	if stride > chunkWords/4 {
		panic(fmt.Sprintf("BUG: record of %d words", stride))
	}
	*r = Records{Chunks: r.Chunks[:0], mem: mem, stride: uint32(stride)}
}

// NewRecords returns a store of records of stride words, whose word 0 is for flags (bits 56-63,
// of which bit 56 is taken) and otherwise free.
func NewRecords(mem *Memory, stride int) *Records {
	r := &Records{}
	r.init(mem, stride)
	return r
}

// Len is the number of records.
func (r *Records) Len() int { return r.count }

// Stride is the number of words of a record.
func (r *Records) Stride() int { return int(r.stride) }

// At returns the words of a record. They stay valid until the next Alloc, for while a table is
// small its first chunk moves.
func (r *Records) At(rec uint32) []uint64 {
	p := rec & ChunkMask
	return r.Chunks[rec>>ChunkBits][p : p+r.stride : p+r.stride]
}

// Alloc returns a new record. Word 0 has the flags live and FlagNew; the rest is undefined.
func (r *Records) Alloc() uint32 {
	rec := r.free
	if rec != 0 {
		r.free = uint32(r.At(rec)[0])
		r.freed--
	} else {
		if r.next+r.stride > r.limit {
			r.more()
		}
		rec = r.next
		r.next += r.stride
	}
	r.count++
	r.Chunks[rec>>ChunkBits][rec&ChunkMask] = live | FlagNew
	return rec
}

// Free gives a record back.
func (r *Records) Free(rec uint32) {
	r.Chunks[rec>>ChunkBits][rec&ChunkMask] = uint64(r.free)
	r.free = rec
	r.freed++
	r.count--
}

func (r *Records) more() {
	n := len(r.Chunks)
	if n == 0 {
		// The first record's room stays empty, so that no record has address 0.
		size := min(max(firstRecords, r.expect+1)*int(r.stride), chunkWords)
		r.Chunks = append(r.Chunks, r.mem.alloc(size, false))
		r.next, r.limit = r.stride, uint32(len(r.Chunks[0]))
		return
	}
	if c := r.Chunks[0]; n == 1 && len(c) < chunkWords {
		size := min(2*len(c), chunkWords)
		if chunkWords-size < size/2 {
			size = chunkWords
		}
		d := r.mem.alloc(size, false)
		copy(d, c)
		r.mem.release(c)
		r.Chunks[0] = d
		r.limit = uint32(size)
		if r.next+r.stride <= r.limit {
			return
		}
	}
	if n == 1<<(32-ChunkBits) {
		panic("state: a table has grown over 32 GiB; run the job with a higher parallelism.default")
	}
	r.Chunks = append(r.Chunks, r.mem.alloc(chunkWords, false))
	r.next = uint32(n) << ChunkBits
	// Scan takes every place of a full chunk for used, so none may be left out; but the limit of the
	// very last chunk would be 2^32.
	r.limit = r.next + (chunkWords - 1)
	if n != 1<<(32-ChunkBits)-1 {
		r.limit++
	}
}

// Reset frees all records and keeps one small chunk at most.
func (r *Records) Reset() {
	keep := 0
	if len(r.Chunks) > 0 && len(r.Chunks[0]) < mapWords {
		keep = 1
	}
	for i := keep; i < len(r.Chunks); i++ {
		r.mem.release(r.Chunks[i])
		r.Chunks[i] = nil
	}
	r.Chunks = r.Chunks[:keep]
	r.next, r.limit, r.free, r.freed, r.count = 0, 0, 0, 0, 0
	if keep == 1 {
		r.next, r.limit = r.stride, uint32(len(r.Chunks[0]))
	}
}

// Release gives all memory back; the records are gone.
func (r *Records) Release() {
	for i, c := range r.Chunks {
		r.mem.release(c)
		r.Chunks[i] = nil
	}
	r.Chunks = r.Chunks[:0]
	r.next, r.limit, r.free, r.freed, r.count = 0, 0, 0, 0, 0
}

// Cursor is a place in the order of addresses.
type Cursor struct{ at uint64 }

// Scan fills ids with the next live records after c and returns those; none at the end. Records
// may be freed during a scan; whether one added meanwhile is seen is open.
func (r *Records) Scan(c *Cursor, ids []uint32) []uint32 {
	n := 0
	at := max(c.at, uint64(r.stride))
	for at < uint64(r.next) && n < len(ids) {
		chunk := at >> ChunkBits
		base, last := chunk<<ChunkBits, int(chunk) == len(r.Chunks)-1
		words := r.Chunks[chunk]
		if last {
			words = words[:uint64(r.next)-base]
		}
		pos, stride := int(at-base), int(r.stride)
		for ; pos+stride <= len(words) && n < len(ids); pos += stride {
			if words[pos]&live != 0 {
				ids[n] = uint32(base) + uint32(pos)
				n++
			}
		}
		at = base + uint64(pos)
		if pos+stride > len(words) && !last {
			at = (chunk + 1) << ChunkBits
		}
	}
	c.at = at
	return ids[:n]
}

// Live reports whether the words are those of a record that was not freed.
func Live(w []uint64) bool { return w[0]&live != 0 }
