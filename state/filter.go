package state

// filter says of a hash whether a key with it may have been evicted: a blocked Bloom filter in
// layers. A layer has room for half of what the filter holds when it is added, so there are few
// layers. It is wrong for one key in a hundred a layer, which is looked for in the store for nothing.
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
	// keysPerBlock makes a block of 512 bits wrong for one key in a hundred.
	keysPerBlock  = 46
	firstInFilter = 1 << 12
)

func mixHash(hash uint32) uint64 {
	x := (uint64(hash) + hashSeed) * mulFold
	x ^= x >> 32
	return x * mulFinal
}

// at returns the block of x and six numbers of 9 bits.
func (l *layer) at(x uint64) (block []uint64, bits uint64) {
	i := (x >> 32) * l.blocks >> 32 * 8
	return l.words[i : i+8 : i+8], x * mulFold >> (64 - 9*filterBits)
}

func (f *filter) has(hash uint32) bool {
	x := mixHash(hash)
next:
	for i := len(f.layers) - 1; i >= 0; i-- {
		block, bits := f.layers[i].at(x)
		for range filterBits {
			if block[bits>>6&7]&(1<<(bits&63)) == 0 {
				continue next
			}
			bits >>= 9
		}
		return true
	}
	return false
}

// add adds a hash; expect is how many keys there may be.
func (f *filter) add(hash uint32, expect int) {
	if f.has(hash) {
		return
	}
	n := len(f.layers)
	if n == 0 || f.layers[n-1].room == 0 {
		keys := max(firstInFilter, f.n/2, expect/4)
		blocks := (keys + keysPerBlock - 1) / keysPerBlock
		f.layers = append(f.layers, layer{f.mem.alloc(8*blocks, true), uint64(blocks), keys})
		n++
	}
	l := &f.layers[n-1]
	l.room--
	f.n++
	block, bits := l.at(mixHash(hash))
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
