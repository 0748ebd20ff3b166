package clickhouse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/jsonrow"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// field collects the values of a column, or of a part of a nested one, in the form of a block.
type field struct {
	typ      types.Type
	wire     *colType // without Nullable
	nullable bool     // NULL has a place there
	asZero   bool     // NULL becomes the default of the type
	exact    bool     // every value of typ but NULL has a place
	kids     []*field

	// one appends a value that is not NULL; check says why one has no place. Both nil for nested
	// types; check is nil where exact.
	one   func(dst []byte, v *vec.Vec, i int) []byte
	check func(v *vec.Vec, i int) error
	// bulk appends the values at some positions, none of which is NULL; nil: one by one.
	bulk func(dst []byte, v *vec.Vec, rows []int32) []byte
	zero []byte // the default, as one appends it

	nulls, data []byte
	total       uint64  // elements of lists
	rows        []int32 // the elements of the rows at hand
}

// put appends the values of v at the positions rows, for which verify has found nothing.
func (f *field) put(v *vec.Vec, rows []int32) {
	nulls := v.MayHaveNulls()
	if f.nullable {
		n := len(f.nulls)
		f.nulls = slices.Grow(f.nulls, len(rows))[:n+len(rows)]
		into := f.nulls[n:]
		clear(into)
		if nulls {
			for k, i := range rows {
				if v.IsNull(int(i)) {
					into[k] = 1
				}
			}
		}
	}
	switch f.wire.kind {
	case kArray, kMap:
		f.putList(v, rows)
	case kTuple:
		for k, kid := range f.kids {
			kid.put(v.Kids[k], rows)
		}
	default:
		switch {
		case f.bulk != nil && !nulls:
			f.data = f.bulk(f.data, v, rows)
		case !nulls:
			for _, i := range rows {
				f.data = f.one(f.data, v, int(i))
			}
		default:
			for _, i := range rows {
				if v.IsNull(int(i)) {
					f.data = append(f.data, f.zero...)
				} else {
					f.data = f.one(f.data, v, int(i))
				}
			}
		}
	}
}

func (f *field) putList(v *vec.Vec, rows []int32) {
	f.rows = f.rows[:0]
	for _, i := range rows {
		if !v.IsNull(int(i)) {
			r := v.Refs[i]
			for k := r.Off; k < r.Off+r.Len; k++ {
				f.rows = append(f.rows, int32(k))
			}
			f.total += uint64(r.Len)
		}
		f.data = le.AppendUint64(f.data, f.total)
	}
	for k, kid := range f.kids {
		kid.put(v.Kids[k], f.rows)
	}
}

func (f *field) size() int {
	n := len(f.nulls) + len(f.data)
	for _, k := range f.kids {
		n += k.size()
	}
	return n
}

func (f *field) append(dst []byte) []byte {
	dst = append(append(dst, f.nulls...), f.data...)
	for _, k := range f.kids {
		dst = k.append(dst)
	}
	return dst
}

func (f *field) reset() {
	f.nulls, f.data, f.total = f.nulls[:0], f.data[:0], 0
	for _, k := range f.kids {
		k.reset()
	}
}

// safe reports whether all values of v have a place, so that verify need not look at them.
func (f *field) safe(v *vec.Vec) bool {
	if !f.exact || v.MayHaveNulls() && !f.nullable && (!f.asZero || f.wire.kind == kTuple) {
		return false
	}
	for k, kid := range f.kids {
		if !kid.safe(v.Kids[k]) {
			return false
		}
	}
	return true
}

var errNull = errors.New("it is NULL, which the column does not take")

// verify says why value i of v has no place. With gone, NULL becomes the default anyhow.
func (f *field) verify(v *vec.Vec, i int, gone bool) error {
	if v.IsNull(i) {
		if f.nullable || (f.asZero || gone) && f.wire.kind != kTuple {
			return nil
		}
		return errNull
	}
	if f.check != nil {
		return f.check(v, i)
	}
	switch f.wire.kind {
	case kTuple:
		for k, kid := range f.kids {
			if err := kid.verify(v.Kids[k], i, gone); err != nil {
				return fmt.Errorf("field '%s': %w", f.typ.Fields[k].Name, err)
			}
		}
	case kArray, kMap:
		r := v.Refs[i]
		for k, kid := range f.kids {
			for e := r.Off; e < r.Off+r.Len; e++ {
				if err := kid.verify(v.Kids[k], int(e), gone); err != nil {
					return fmt.Errorf("element %d: %w", e-r.Off+1, err)
				}
			}
		}
	}
	return nil
}

// encoder makes blocks of rows. It belongs to one goroutine.
type encoder struct {
	schema types.Schema
	heads  [][]byte // name and type of each column of the block, and what stands before its values
	cols   []*field // nil for those that the sink fills
	at     []int    // the column of a batch for each column
	key    []bool   // the column is part of the key
	fill   []filled // what the sink fills, one for each nil of cols, in order
	upsert bool     // a row that retracts may have only its key

	n     int // rows since the last block
	texts *jsonrow.Writer
}

// filled is a column that says what a row does to its key.
type filled struct {
	kind filling
	size int
	data []byte
	last int64 // of versions
}

type filling uint8

const (
	fillSign    filling = iota // 1 for a row that comes, -1 for one that goes
	fillDeleted                // 1 for a row that goes
	fillVersion                // grows with each row, also over restarts as far as clocks do
)

// add appends rows of b that take has returned.
func (e *encoder) add(b *vec.Batch, rows []int32) {
	fill := 0
	for k, f := range e.cols {
		if f == nil {
			e.fill[fill].put(b, rows)
			fill++
			continue
		}
		f.put(b.Cols[e.at[k]], rows)
	}
	e.n += len(rows)
}

func (f *filled) put(b *vec.Batch, rows []int32) {
	if f.kind == fillVersion {
		now := max(time.Now().UnixNano(), f.last+1)
		for i := range rows {
			f.data = le.AppendUint64(f.data, uint64(now+int64(i)))
			for range f.size/8 - 1 {
				f.data = le.AppendUint64(f.data, 0)
			}
		}
		f.last = now + int64(len(rows)) - 1
		return
	}
	stays, goes := byte(1), byte(0xff)
	if f.kind == fillDeleted {
		stays, goes = 0, 1
	}
	for _, i := range rows {
		x := stays
		if b.Kind(int(i)).Retracts() {
			x = goes
		}
		f.data = append(f.data, x)
	}
}

// take returns the selected rows of b that have a place in the table; the others go to bad. The
// result is valid until the next call.
func (e *encoder) take(b *vec.Batch, bad func(format.BadRecord) error) ([]int32, error) {
	rows := b.Selected()
	for k, f := range e.cols {
		if f == nil {
			continue
		}
		v := b.Cols[e.at[k]]
		if f.safe(v) {
			continue
		}
		var kept []int32 // rows, without the bad ones; nil while there are none
		for n, i := range rows {
			gone := e.upsert && !e.key[k] && b.Kind(int(i)).Retracts()
			err := f.verify(v, int(i), gone)
			if err == nil {
				if kept != nil {
					kept = append(kept, i)
				}
				continue
			}
			if kept == nil {
				kept = append(make([]int32, 0, len(rows)), rows[:n]...)
			}
			if err := bad(e.badRow(b, int(i), k, err)); err != nil {
				return nil, connector.AsFatal(err)
			}
		}
		if kept != nil {
			rows = kept
		}
	}
	return rows, nil
}

func (e *encoder) badRow(b *vec.Batch, i, col int, err error) format.BadRecord {
	r := format.BadRecord{Origin: b.Origin, Err: fmt.Errorf("%w: column '%s': %w", connector.ErrRefused, e.schema.Fields[e.at[col]].Name, err)}
	if b.Pos != nil {
		r.Pos = b.Pos[i]
	}
	if e.texts == nil {
		e.texts, _ = jsonrow.NewWriter(e.schema, jsonrow.Options{}) // nil where a type has no JSON
	}
	if e.texts != nil {
		if text, err := e.texts.Append(nil, b.Cols, i); err == nil {
			r.Bytes = text
			return r
		}
	}
	var all []types.Value
	for _, c := range b.Cols {
		all = append(all, c.Value(i))
	}
	r.Bytes = fmt.Append(nil, all)
	return r
}

// size is about how many bytes the block has so far.
func (e *encoder) size() int {
	n := 0
	for _, f := range e.cols {
		if f != nil {
			n += f.size()
		}
	}
	return n
}

// block appends the rows added as a block and begins the next one.
func (e *encoder) block(dst []byte) []byte {
	dst = slices.Grow(dst, e.size()+e.n*8+1024)
	dst = appendHead(dst, len(e.cols), e.n)
	fill := 0
	for k, f := range e.cols {
		dst = append(dst, e.heads[k]...)
		if f == nil {
			x := &e.fill[fill]
			dst = append(dst, x.data...)
			x.data = x.data[:0]
			fill++
			continue
		}
		dst = f.append(dst)
		f.reset()
	}
	e.n = 0
	return dst
}

// head is what stands before the values of a column.
func head(name string, t *colType) []byte {
	b := appendString(appendString(nil, name), t.name)
	if t.kind == kJSON {
		b = le.AppendUint64(b, jsonAsText)
	}
	return b
}

// appendBytes appends the length of a string and the string.
func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
