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

// seenSet is a set of keys that is written at each checkpoint and grows by a few in between.
type seenSet struct {
	keys    []uint64 // sorted
	fresh   []uint64 // more keys, in any order
	encoded []byte   // keys as they were written last; nil: not yet
}

// add adds keys, which may be there.
func (s *seenSet) add(keys ...uint64) { s.fresh = append(s.fresh, keys...) }

// retain takes out all keys but those of which stays is true.
func (s *seenSet) retain(stays func(k uint64) bool) {
	s.merge()
	before := len(s.keys)
	s.keys = slices.DeleteFunc(s.keys, func(k uint64) bool { return !stays(k) })
	if len(s.keys) < before {
		s.encoded = nil
	}
}

// merge puts the fresh keys among the others.
func (s *seenSet) merge() {
	if len(s.fresh) == 0 {
		return
	}
	slices.Sort(s.fresh)
	i := len(s.keys)
	s.keys = append(s.keys, s.fresh...)
	for at, j := len(s.keys)-1, len(s.fresh)-1; j >= 0; at-- { // the greatest first, from both
		if i > 0 && s.keys[i-1] > s.fresh[j] {
			i--
			s.keys[at] = s.keys[i]
		} else {
			s.keys[at] = s.fresh[j]
			j--
		}
	}
	s.keys, s.fresh, s.encoded = slices.Compact(s.keys), s.fresh[:0], nil
}

// encode writes the set; who gets it does not change it.
func (s *seenSet) encode() []byte {
	s.merge()
	if s.encoded == nil {
		s.encoded = encodeSeen(s.keys)
	}
	return s.encoded
}

// encodeSeen writes a set of keys, which are sorted. nil stands for the empty set.
func encodeSeen(keys []uint64) []byte {
	if len(keys) == 0 {
		return nil
	}
	k := uint(max(0, 64-bits.Len64(uint64(len(keys)))))
	out := make([]byte, 0, len(keys)*int(k+3)/8+16)
	w := bitWriter{out: append(binary.AppendUvarint(append(out, seenVersion), uint64(len(keys))), byte(k))}
	last := uint64(0)
	for _, x := range keys {
		d := x - last
		last = x
		q := d >> k
		if n := uint(q) + 1 + k; q < 64 && n <= 64 { // all at once
			w.put(1<<q-1|d&(1<<k-1)<<(q+1), n)
			continue
		}
		for q > 0 {
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
