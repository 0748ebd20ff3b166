package state

// filter says of a key whether it may have been evicted: a blocked Bloom filter in layers. A layer has
// room for half of what the filter holds when it is added, so there are few layers. It is wrong for
// one key in 250 a layer, which is looked for in the store for nothing.
//
// Keys are 64 bits of a mixed hash: the 32 of a record's own would be wrong for one key in fifty by
// themselves where a hundred million are in the filter.
//
//	layer  blocks of 8 words; a key sets filterBits bits of one block
type filter struct {
	mem    *Memory
	layers []layer
	n      int // keys in all layers
}

type layer struct {
	words  []uint64
	blocks uint64
	room   int
}

const (
	filterBits = 6
	// keysPerBlock makes a block of 512 bits wrong for one key in 250: each that is looked for in the
	// store for nothing costs as much as hundreds of questions to the filter.
	keysPerBlock  = 36
	firstInFilter = 1 << 12
)

// filterKey is the filter's key for a key of the words w, of which the second words of long strings,
// told by str, do not count: they say where the bytes lie, which the hash in word 0 stands for.
func filterKey(w []uint64, str []bool) uint64 {
	x := fold(hashSeed, w[0]&keyBits)
	for i := 1; i < len(w); i++ {
		if str != nil && str[i] && uint32(w[i-1]) > inlineBytes {
			continue
		}
		x = fold(x, w[i])
	}
	return mixKey(x)
}

func mixKey(x uint64) uint64 {
	x ^= x >> 32
	x *= mulFinal
	return x ^ x>>29
}

// at returns the block of x and six numbers of 9 bits.
func (l *layer) at(x uint64) (block *[8]uint64, bits uint64) {
	i := (x >> 32) * l.blocks >> 32 * 8
	return (*[8]uint64)(l.words[i : i+8]), x * mulFold >> (64 - 9*filterBits)
}

func (f *filter) has(x uint64) bool {
	for i := len(f.layers) - 1; i >= 0; i-- {
		if f.layers[i].has(x) != 0 {
			return true
		}
	}
	return false
}

// has returns 1 or 0, without a branch, so that the loads for several keys overlap.
func (l *layer) has(x uint64) uint64 {
	b, n := l.at(x)
	return b[n>>6&7] >> (n & 63) & (b[n>>15&7] >> (n >> 9 & 63)) & (b[n>>24&7] >> (n >> 18 & 63)) &
		(b[n>>33&7] >> (n >> 27 & 63)) & (b[n>>42&7] >> (n >> 36 & 63)) & (b[n>>51&7] >> (n >> 45 & 63)) & 1
}

// mark sets may[k] to 1 where the filter may have xs[k], else to 0.
func (f *filter) mark(xs, may []uint64) {
	clear(may)
	may = may[:len(xs)]
	for i := len(f.layers) - 1; i >= 0; i-- {
		l := &f.layers[i]
		for k, x := range xs {
			may[k] |= l.has(x)
		}
	}
}

// add adds a key; expect is how many keys there may be.
func (f *filter) add(x uint64, expect int) {
	if f.has(x) {
		return
	}
	n := len(f.layers)
	if n == 0 || f.layers[n-1].room == 0 {
		keys := max(firstInFilter, f.n/2, expect-f.n)
		blocks := (keys + keysPerBlock - 1) / keysPerBlock
		f.layers = append(f.layers, layer{f.mem.alloc(8*blocks, true), uint64(blocks), keys})
		n++
	}
	l := &f.layers[n-1]
	l.room--
	f.n++
	block, bits := l.at(x)
	for range filterBits {
		block[bits>>6&7] |= 1 << (bits & 63)
		bits >>= 9
	}
}

func (f *filter) bytes() int {
	n := 0
	for _, l := range f.layers {
		n += len(l.words) * 8
	}
	return n
}

func (f *filter) reset() {
	for _, l := range f.layers {
		f.mem.release(l.words)
	}
	f.layers, f.n = nil, 0
}

// Filter is such a filter for state that spills without a Table. Keys are mixed hashes of 64 bits.
type Filter struct{ f filter }

// NewFilter returns a filter without keys whose memory is counted by mem.
func NewFilter(mem *Memory) *Filter { return &Filter{filter{mem: mem}} }

// Has reports whether the filter may have the key x.
func (f *Filter) Has(x uint64) bool { return f.f.has(x) }

// Add adds the key x; expect is about how many keys there are going to be.
func (f *Filter) Add(x uint64, expect int) { f.f.add(x, expect) }

// Bytes is the memory that the filter takes.
func (f *Filter) Bytes() int64 { return int64(f.f.bytes()) }

// Reset removes all keys and gives the memory back.
func (f *Filter) Reset() { f.f.reset() }
