package agg

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/state"
)

// SaveVersion is that of the encodings of groups and values, for state.Spec.
const SaveVersion = 1

// keeping says what of a word of a group is saved.
type keeping uint8

const (
	asWord  keeping = iota // the word
	asValue                // the word is a Ref: its value
	asNone                 // follows from the values or slices of the group
)

// keep fills in s.form once all slots are known.
func (s *Set) keep() {
	s.form, s.plain = s.form[:0], true
	for _, sl := range s.slots {
		for i := range sl.init() {
			k := asWord
			switch sl.(type) {
			case chain, *heapSlot, *deque:
				k = asNone
			case *single:
				if i > 0 {
					k = asValue
				}
			case freer:
				k = asValue
			}
			s.form = append(s.form, k)
			s.plain = s.plain && k == asWord
		}
	}
}

// AppendGroup appends the accumulators of a group in a form that LoadGroup reads, version
// SaveVersion:
//
//	for each word of the accumulators: the word (8 bytes, little endian); if it is a Ref, the
//	length of its value + 1, or 0 for none (4 bytes, little endian), and the value
//
// It holds no address. Distinct values are not in it; what follows from them alone (chains, heaps)
// and from slices (deques of sliding windows) is left out.
func (s *Set) AppendGroup(dst []byte, st *Store, rec uint32) []byte {
	le := binary.LittleEndian
	w := st.R.At(rec)[s.base : s.base+s.words]
	if s.plain {
		for _, x := range w {
			dst = le.AppendUint64(dst, x)
		}
		return dst
	}
	for i, x := range w {
		switch s.form[i] {
		case asWord:
			dst = le.AppendUint64(dst, x)
		case asValue:
			if x == 0 {
				dst = append(dst, 0, 0, 0, 0)
				continue
			}
			b := st.Blob.Get(state.Ref(x))
			dst = append(le.AppendUint32(dst, uint32(len(b))+1), b...)
		}
	}
	return dst
}

var errGroup = errors.New("saved accumulators do not have the shape of the operator's aggregates")

// LoadGroup fills the accumulators of a new group, which have their initial words, from what
// AppendGroup appended.
func (s *Set) LoadGroup(st *Store, rec uint32, b []byte) error {
	le := binary.LittleEndian
	w := st.R.At(rec)[s.base : s.base+s.words]
	if s.plain {
		if len(b) != 8*len(w) {
			return errGroup
		}
		for i := range w {
			w[i] = le.Uint64(b[8*i:])
		}
		return nil
	}
	for i, k := range s.form {
		switch k {
		case asWord:
			if len(b) < 8 {
				return errGroup
			}
			w[i], b = le.Uint64(b), b[8:]
		case asValue:
			if len(b) < 4 {
				return errGroup
			}
			n := le.Uint32(b)
			b = b[4:]
			if n == 0 {
				continue
			}
			if uint64(n-1) > uint64(len(b)) {
				return errGroup
			}
			w[i], b = uint64(st.Blob.Put(b[:n-1])), b[n-1:]
		}
	}
	if len(b) > 0 {
		return errGroup
	}
	return nil
}
