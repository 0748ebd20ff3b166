package postgres

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/connector"
)

// rows is a run of encoded rows. Its memory is used again.
type rows struct {
	buf  []byte // the tuples, one behind the other
	ends []int
	gone []bool // rows to be deleted
	// places are what the rows came from; fewer rows than there are where nothing is known of the last.
	places connector.Places
}

func (r *rows) len() int { return len(r.ends) }

func (r *rows) reset() {
	r.buf, r.ends, r.gone = r.buf[:0], r.ends[:0], r.gone[:0]
	r.places.Reset()
}

// end ends the tuple that was appended to buf.
func (r *rows) end(gone bool) {
	r.ends = append(r.ends, len(r.buf))
	r.gone = append(r.gone, gone)
}

// from is where row i begins.
func (r *rows) from(i int) int {
	if i == 0 {
		return 0
	}
	return r.ends[i-1]
}

func (r *rows) tuple(i int) []byte { return r.buf[r.from(i):r.ends[i]] }

// chunk returns where a chunk of rows that begins at lo ends: after most rows or mostBytes bytes.
func (r *rows) chunk(lo, most, mostBytes int) int {
	hi := min(lo+most, r.len())
	for hi > lo+1 && r.ends[hi-1]-r.from(lo) > mostBytes {
		hi = lo + (hi-lo)/2
	}
	return hi
}

var errTuple = errors.New("a row has not the form that its columns say")

// split cuts a tuple into its fields, nil for NULL, and checks its form.
func (s *shape) split(out [][]byte, tuple []byte) ([][]byte, error) {
	out = out[:0]
	if len(tuple) < 2 || int(be.Uint16(tuple)) != len(s.cols) {
		return out, errTuple
	}
	tuple = tuple[2:]
	for k := range s.cols {
		if len(tuple) < 4 {
			return out, errTuple
		}
		n := int32(be.Uint32(tuple))
		tuple = tuple[4:]
		if n == -1 {
			out = append(out, nil)
			continue
		}
		if n < 0 || int(n) > len(tuple) {
			return out, errTuple
		}
		if size := wires[s.cols[k].wire].size; size > 0 && int(n) != size {
			return out, fmt.Errorf("%w: column '%s' has %d bytes", errTuple, s.cols[k].name, n)
		}
		out = append(out, tuple[:n:n])
		tuple = tuple[n:]
	}
	if len(tuple) > 0 {
		return out, errTuple
	}
	return out, nil
}

// latest finds the last row of each key, as one statement must not touch a key twice.
type latest struct {
	slots  []int32 // number of a key + 1
	keys   []byte  // the keys, one behind the other
	ends   []int
	last   []int32 // the last row of each key
	fields [][]byte
}

// find returns rows lo..hi-1 of r without those that a later one with the same key replaces. The
// order of keys is that of their first row. The result is valid until the next call.
func (l *latest) find(s *shape, r *rows, lo, hi int) ([]int32, error) {
	size := 16
	for size < 2*(hi-lo) {
		size *= 2
	}
	if len(l.slots) < size {
		l.slots = make([]int32, size)
	} else {
		clear(l.slots)
	}
	mask := uint64(len(l.slots) - 1)
	l.keys, l.ends, l.last = l.keys[:0], l.ends[:0], l.last[:0]
	for i := lo; i < hi; i++ {
		var err error
		if l.fields, err = s.split(l.fields, r.tuple(i)); err != nil {
			return nil, err
		}
		from := len(l.keys)
		for _, k := range s.keys {
			l.keys = be.AppendUint32(l.keys, uint32(len(l.fields[k])))
			l.keys = append(l.keys, l.fields[k]...)
		}
		key := l.keys[from:]
		for at := xxh3.Hash(key) & mask; ; at = (at + 1) & mask {
			n := l.slots[at]
			if n == 0 {
				l.ends = append(l.ends, len(l.keys))
				l.last = append(l.last, int32(i))
				l.slots[at] = int32(len(l.ends))
				break
			}
			if bytes.Equal(l.keys[l.start(int(n)-1):l.ends[n-1]], key) {
				l.last[n-1] = int32(i)
				l.keys = l.keys[:from]
				break
			}
		}
	}
	return l.last, nil
}

func (l *latest) start(n int) int {
	if n == 0 {
		return 0
	}
	return l.ends[n-1]
}

// arrays collects rows column by column, as the binary form of one-dimensional arrays: parameters
// of a statement over unnest.
type arrays struct {
	cols   [][]byte
	oids   []uint32
	format []int16
	n      int
	fields [][]byte
}

// begin starts arrays of the given columns.
func (a *arrays) begin(s *shape, cols []int) {
	for len(a.cols) < len(cols) {
		a.cols = append(a.cols, nil)
	}
	a.cols, a.oids, a.format, a.n = a.cols[:len(cols)], a.oids[:0], a.format[:0], 0
	for k, c := range cols {
		w := wires[s.cols[c].wire]
		a.oids = append(a.oids, w.array)
		a.format = append(a.format, 1)
		b := be.AppendUint32(a.cols[k][:0], 1) // dimensions
		b = be.AppendUint32(b, 0)              // whether there are NULLs
		b = be.AppendUint32(b, w.oid)
		b = be.AppendUint32(b, 0) // length
		a.cols[k] = be.AppendUint32(b, 1)
	}
}

// add appends a tuple.
func (a *arrays) add(s *shape, cols []int, tuple []byte) error {
	var err error
	if a.fields, err = s.split(a.fields, tuple); err != nil {
		return err
	}
	for k, c := range cols {
		f := a.fields[c]
		if f == nil {
			a.cols[k] = append(a.cols[k], 0xff, 0xff, 0xff, 0xff)
			be.PutUint32(a.cols[k][4:], 1)
			continue
		}
		a.cols[k] = append(be.AppendUint32(a.cols[k], uint32(len(f))), f...)
	}
	a.n++
	return nil
}

// finish writes the lengths.
func (a *arrays) finish() {
	for k := range a.cols {
		be.PutUint32(a.cols[k][12:], uint32(a.n))
	}
}
