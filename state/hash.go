package state

import "math/bits"

// The hash of a key is FROZEN: key groups, and with them checkpoints and the subtask a row goes
// to, follow from it. A test holds sample values.
//
//	h = seed
//	for each key column, in order:
//	    NULL:                     h = fold(h, nullWord)
//	    fixed width:              h = fold(h, word) for each word: integers, dates, times and
//	                              small decimals sign-extended to 64 bits, booleans 0 or 1,
//	                              FLOAT and DOUBLE their IEEE bits, 128-bit values low word first
//	    bytes, up to 12:          h = fold(fold(h, len | first 4 bytes << 32), next 8 bytes)
//	    bytes, more:              h = fold(fold(h, len | first 4 bytes << 32), xxh3(bytes))
//	    nested:                   as bytes, in the encoding of AppendValue
//	hash = high 32 bits of h * mulFinal
//
// where fold(h, w) xors the halves of the 128-bit product (h ^ w) * mulFold. Bytes shorter than
// a word are padded with zeros; words are little endian.
const (
	hashSeed = 0xA0761D6478BD642F
	nullWord = 0xE7037ED1A0B428DB
	mulFold  = 0x9E3779B97F4A7C15
	mulFinal = 0x8EBC6AF09C88C6E3
	// inlineBytes is the length up to which a string lies in the key's own words.
	inlineBytes = 12
)

func fold(h, w uint64) uint64 {
	hi, lo := bits.Mul64(h^w, mulFold)
	return hi ^ lo
}

func finish(h uint64) uint32 { return uint32(h * mulFinal >> 32) }

// KeyGroup is the key group, below maxParallelism, of a key with the given hash. It goes by the
// high bits of the hash, tables by the low ones.
func KeyGroup(hash uint32, maxParallelism int) int {
	return int(uint64(hash) * uint64(maxParallelism) >> 32)
}

// Subtask is the parallel instance, below parallelism, that owns a key group: contiguous ranges.
func Subtask(keyGroup, maxParallelism, parallelism int) int {
	return keyGroup * parallelism / maxParallelism
}
