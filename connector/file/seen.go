package file

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"
)

// An object is remembered by 64 bits of a hash of its split's id, which holds name and version. That
// one of a million new objects is taken for one of a million others happens once in 18 million such
// folders. A set of them is sorted and written as the differences of neighbours, in a Rice code: at
// 100,000 objects 49 bits each, at ten million 42; less than half a bit above what no code can beat.
//
//	set = 1 (version), n (uvarint), k (byte), then a string of bits, the lowest of each byte first:
//	      n times: difference >> k in unary (ones, then a zero), the k lowest bits of the difference
const seenVersion = 1

// seenKey is what is remembered of a split.
func seenKey(id string) uint64 { return xxh3.HashString(id) }

// bitWriter appends bits.
type bitWriter struct {
	out  []byte
	word uint64
	n    uint // bits of word
}

func (w *bitWriter) put(v uint64, n uint) {
	for n > 0 {
		take := min(n, 64-w.n)
		part := v
		if take < 64 {
			part &= 1<<take - 1
		}
		w.word |= part << w.n
		w.n += take
		if take < 64 {
			v >>= take
		}
		n -= take
		if w.n == 64 {
			w.out = binary.LittleEndian.AppendUint64(w.out, w.word)
			w.word, w.n = 0, 0
		}
	}
}

func (w *bitWriter) bytes() []byte {
	for i := uint(0); i < w.n; i += 8 {
		w.out = append(w.out, byte(w.word>>i))
	}
	w.word, w.n = 0, 0
	return w.out
}

// encodeSeen writes a set of keys, which it sorts. nil stands for the empty set.
func encodeSeen(keys []uint64) []byte {
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	k := uint(max(0, 64-bits.Len64(uint64(len(keys)))))
	w := bitWriter{out: append(binary.AppendUvarint([]byte{seenVersion}, uint64(len(keys))), byte(k))}
	last := uint64(0)
	for _, x := range keys {
		d := x - last
		last = x
		for q := d >> k; q > 0; {
			n := min(q, 64)
			w.put(1<<64-1, uint(n))
			q -= n
		}
		w.put(0, 1)
		w.put(d, k)
	}
	return w.bytes()
}

var errSeen = errors.New("what the checkpoint remembers of the objects that were read is damaged")

// decodeSeen reads a set of keys.
func decodeSeen(b []byte) ([]uint64, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[0] != seenVersion {
		return nil, errors.New("what the checkpoint remembers of the objects that were read was written by a later version of this program")
	}
	n, used := binary.Uvarint(b[1:])
	if used <= 0 || len(b) < 2+used {
		return nil, errSeen
	}
	k := uint(b[1+used])
	b = b[2+used:]
	if k > 64 || n > uint64(len(b))*8/uint64(k+1) {
		return nil, errSeen
	}
	out := make([]uint64, 0, n)
	at, end := uint64(0), uint64(len(b))*8
	last := uint64(0)
	for range n {
		q := uint64(0)
		for at < end && b[at/8]>>(at%8)&1 == 1 {
			q++
			at++
		}
		at++ // the zero
		if at+uint64(k) > end || k > 0 && k < 64 && q > 1<<(64-k) {
			return nil, errSeen
		}
		d := uint64(0)
		for i := uint(0); i < k; {
			take := min(k-i, 8-uint(at%8))
			d |= uint64(b[at/8]>>(at%8)&(1<<take-1)) << i
			i += take
			at += uint64(take)
		}
		if k < 64 {
			d |= q << k
		}
		if last += d; len(out) > 0 && d == 0 {
			return nil, errSeen
		}
		out = append(out, last)
	}
	return out, nil
}
