package agg

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// extremeBytes keeps the least or greatest string, by bytes: one word, a Ref.
type extremeBytes struct {
	col int
	max bool
}

func (*extremeBytes) init() []uint64 { return []uint64{0} }

func (e *extremeBytes) offer(st *Store, rec uint32, at int, b []byte) {
	p := st.word(rec, at)
	if *p != 0 {
		c := bytes.Compare(b, st.Blob.Get(state.Ref(*p)))
		if c == 0 || (c > 0) != e.max {
			return
		}
	}
	*p = uint64(st.Blob.Set(state.Ref(*p), b))
}

func (e *extremeBytes) add(st *Store, at int, in *Input) {
	v := in.Cols[e.col]
	for k, r := range in.Recs {
		e.offer(st, r, at, v.Bytes(int(in.Rows[k])))
	}
}

func (e *extremeBytes) merge(dst, src *Store, at int, d, s []uint32) {
	for k, r := range d {
		if ref := state.Ref(*src.word(s[k], at)); ref != 0 {
			e.offer(dst, r, at, src.Blob.Get(ref))
		}
	}
}

func (*extremeBytes) free(st *Store, at int, recs []uint32) { freeRefs(st, at, recs) }

// pick keeps the first or the last value, in the form of state.AppendValue: one word, a Ref. For
// inputs that are not taken back.
type pick struct {
	col  int
	last bool
	tmp  []byte
}

func (*pick) init() []uint64 { return []uint64{0} }

func (s *pick) add(st *Store, at int, in *Input) {
	v := in.Cols[s.col]
	for k, r := range in.Recs {
		p := st.word(r, at)
		if *p != 0 && !s.last {
			continue
		}
		s.tmp = state.AppendValue(s.tmp[:0], v, int(in.Rows[k]))
		*p = uint64(st.Blob.Set(state.Ref(*p), s.tmp))
	}
}

func (s *pick) merge(dst, src *Store, at int, d, sr []uint32) {
	for k, r := range d {
		ref := state.Ref(*src.word(sr[k], at))
		p := dst.word(r, at)
		if ref == 0 || *p != 0 && !s.last {
			continue
		}
		s.tmp = append(s.tmp[:0], src.Blob.Get(ref)...)
		*p = uint64(dst.Blob.Set(state.Ref(*p), s.tmp))
	}
}

func (*pick) free(st *Store, at int, recs []uint32) { freeRefs(st, at, recs) }

// pickOut writes what pick keeps.
type pickOut struct {
	set  *Set
	slot int
}

func (o *pickOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	off := o.set.offset(o.slot)
	for k, r := range recs {
		b := st.Blob.Get(state.Ref(*st.word(r, off)))
		if len(b) == 0 {
			out.SetNull(at + k)
			continue
		}
		state.DecodeValue(b, out, at+k)
	}
	return nil
}

// list keeps the rows of a group in the order of arrival, each as the values of some columns in
// the form of state.AppendValue: one word, the Ref of
//
//	count (4 bytes), then for each row: length (4 bytes), values
//
// A row that is taken back removes the first equal one.
type list struct {
	cols []int
	tmp  []byte
}

const listHead = 4

func (*list) init() []uint64 { return []uint64{0} }

func (s *list) add(st *Store, at int, in *Input) {
	for k, r := range in.Recs {
		s.tmp = append(s.tmp[:0], 0, 0, 0, 0)
		for _, c := range s.cols {
			s.tmp = state.AppendValue(s.tmp, in.Cols[c], int(in.Rows[k]))
		}
		binary.LittleEndian.PutUint32(s.tmp, uint32(len(s.tmp)-4))
		p := st.word(r, at)
		if in.Neg != nil && in.Neg[k] {
			s.remove(st, p)
		} else {
			s.append(st, p, 1, s.tmp)
		}
	}
}

var emptyList [listHead]byte

func (s *list) append(st *Store, p *uint64, n uint32, rows []byte) {
	if *p == 0 {
		*p = uint64(st.Blob.Put(emptyList[:]))
	}
	*p = uint64(st.Blob.Append(state.Ref(*p), rows))
	b := st.Blob.Get(state.Ref(*p))
	binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)+n)
}

func (s *list) remove(st *Store, p *uint64) {
	b := st.Blob.Get(state.Ref(*p))
	if len(b) == 0 {
		return
	}
	for i := listHead; i < len(b); {
		n := 4 + int(binary.LittleEndian.Uint32(b[i:]))
		if bytes.Equal(b[i:i+n], s.tmp) {
			copy(b[i:], b[i+n:])
			binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)-1)
			*p = uint64(st.Blob.Grow(state.Ref(*p), len(b)-n))
			return
		}
		i += n
	}
}

func (s *list) merge(dst, src *Store, at int, d, sr []uint32) {
	for k, r := range d {
		b := src.Blob.Get(state.Ref(*src.word(sr[k], at)))
		if len(b) <= listHead {
			continue
		}
		s.tmp = append(s.tmp[:0], b[listHead:]...)
		s.append(dst, dst.word(r, at), binary.LittleEndian.Uint32(b), s.tmp)
	}
}

func (*list) free(st *Store, at int, recs []uint32) { freeRefs(st, at, recs) }

// rows calls f with the encoded values of each row of a list and returns how many there are.
func rows(b []byte, f func(i int, row []byte)) int {
	if len(b) == 0 {
		return 0
	}
	i := 0
	for at := listHead; at < len(b); i++ {
		n := 4 + int(binary.LittleEndian.Uint32(b[at:]))
		f(i, b[at+4:at+n])
		at += n
	}
	return i
}

// single keeps the value of the only row of a group: two words, the number of rows and a Ref.
type single struct{ pick }

func (*single) init() []uint64 { return []uint64{0, 0} }

func (s *single) add(st *Store, at int, in *Input) {
	v := in.Cols[s.col]
	for k, r := range in.Recs {
		n, p := st.word(r, at), st.word(r, at+1)
		if in.Neg != nil && in.Neg[k] {
			*n--
			continue
		}
		*n++
		s.tmp = state.AppendValue(s.tmp[:0], v, int(in.Rows[k]))
		*p = uint64(st.Blob.Set(state.Ref(*p), s.tmp))
	}
}

func (*single) merge(_, _ *Store, _ int, _, _ []uint32) {
	panic("BUG: the only rows of two groups merged")
}

func (*single) free(st *Store, at int, recs []uint32) { freeRefs(st, at+1, recs) }

var errSeveral = errors.New("a sub-query used as a value returned more than one row; " +
	"add an aggregate or a condition that leaves one")

type singleOut struct {
	set  *Set
	slot int
}

func (o *singleOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	off := o.set.offset(o.slot)
	for k, r := range recs {
		switch n := int64(*st.word(r, off)); {
		case n > 1:
			return errSeveral
		case n < 1:
			out.SetNull(at + k)
		default:
			state.DecodeValue(st.Blob.Get(state.Ref(*st.word(r, off+1))), out, at+k)
		}
	}
	return nil
}
