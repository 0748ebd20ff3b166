package iceberg

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// encoder makes Arrow records of batches for a schema of files. The arrays of a record share the memory
// of the batch and of the encoder: a record is valid until the next call. Parquet's writer copies what
// it takes before it returns.
type encoder struct {
	schema *arrow.Schema
	cols   []columnEncoder
}

// columnEncoder makes the array of one column.
type columnEncoder struct {
	at    int // the column in the batch
	typ   arrow.DataType
	slow  array.Builder // of nested columns, which are copied value by value
	bits  []byte        // scratch: validity, booleans
	data  []byte        // scratch: values
	offs  []int32       // scratch: offsets of strings
	valid []byte
}

// newEncoder returns the encoder of the columns at[i] of a batch into the fields of s; those with -1
// are left out of the files.
func newEncoder(s *iceberg.Schema, at []int) (*encoder, *iceberg.Schema, error) {
	e := &encoder{}
	var fields []iceberg.NestedField
	for i, f := range s.Fields() {
		if at[i] >= 0 {
			fields = append(fields, f)
			e.cols = append(e.cols, columnEncoder{at: at[i]})
		}
	}
	part := iceberg.NewSchema(s.ID, fields...)
	var err error
	if e.schema, err = table.SchemaToArrowSchema(part, nil, true, false); err != nil {
		return nil, nil, err
	}
	for i := range e.cols {
		c := &e.cols[i]
		c.typ = e.schema.Field(i).Type
		switch c.typ.ID() {
		case arrow.LIST, arrow.MAP, arrow.STRUCT:
			c.slow = array.NewBuilder(memory.DefaultAllocator, c.typ)
		}
	}
	return e, part, nil
}

// record makes a record of the rows of b.
func (e *encoder) record(b *vec.Batch, rows []int32) arrow.RecordBatch {
	arrays := make([]arrow.Array, len(e.cols))
	for i := range e.cols {
		c := &e.cols[i]
		arrays[i] = c.array(b.Cols[c.at], rows, b.N)
	}
	n := b.N
	if rows != nil {
		n = len(rows)
	}
	return array.NewRecordBatch(e.schema, arrays, int64(n))
}

// array makes the array of the rows of v, of which there are n; nil rows are all.
func (c *columnEncoder) array(v *vec.Vec, rows []int32, n int) arrow.Array {
	if c.slow != nil {
		for _, i := range positions(rows, n) {
			appendTo(c.slow, v, int(i))
		}
		return c.slow.NewArray()
	}
	if rows != nil {
		n = len(rows)
	}
	valid, nulls := c.validity(v, rows, n)
	buffers := []*memory.Buffer{valid, nil}
	switch c.typ.ID() {
	case arrow.STRING, arrow.BINARY:
		offs, data := c.strings(v, rows, n)
		buffers = []*memory.Buffer{valid, wrap(offs), memory.NewBufferBytes(data)}
	default:
		buffers[1] = memory.NewBufferBytes(c.values(v, rows, n))
	}
	d := array.NewData(c.typ, n, buffers, nil, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

func positions(rows []int32, n int) []int32 {
	if rows == nil {
		return vec.Positions(n)
	}
	return rows
}

// wrap gives the bytes of a slice, without copying.
func wrap[T any](s []T) *memory.Buffer { return memory.NewBufferBytes(raw(s)) }

func raw[T any](s []T) []byte {
	if len(s) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// cast gives memory of n values of T out of scratch.
func cast[T any](scratch *[]byte, n int) []T {
	var x T
	size := n * int(unsafe.Sizeof(x))
	if cap(*scratch) < size {
		words := (size + 7) / 8
		*scratch = raw(make([]uint64, words+words/4))
	}
	*scratch = (*scratch)[:cap(*scratch)]
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&(*scratch)[0])), n)
}

// validity is the bitmap of the rows, nil where none is NULL.
func (c *columnEncoder) validity(v *vec.Vec, rows []int32, n int) (*memory.Buffer, int) {
	if v.Valid == nil || n == 0 {
		return nil, 0
	}
	if rows == nil {
		return wrap(v.Valid[:(n+63)/64]), n - v.Valid.Count(n)
	}
	c.valid = clearBits(c.valid, n)
	nulls := 0
	for k, i := range rows {
		if v.Valid.Get(int(i)) {
			c.valid[k>>3] |= 1 << (k & 7)
		} else {
			nulls++
		}
	}
	return memory.NewBufferBytes(c.valid), nulls
}

func clearBits(b []byte, n int) []byte {
	size := (n + 7) / 8
	if cap(b) < size {
		return make([]byte, size, 2*size)
	}
	b = b[:size]
	clear(b)
	return b
}

// values are the bytes of the values of a type of fixed width.
func (c *columnEncoder) values(v *vec.Vec, rows []int32, n int) []byte {
	switch v.Type.Kind {
	case types.Boolean:
		c.bits = clearBits(c.bits, n)
		for k, i := range positions(rows, n) {
			if v.Bool[i] {
				c.bits[k>>3] |= 1 << (k & 7)
			}
		}
		return c.bits
	case types.TinyInt, types.SmallInt, types.Int:
		if c.typ.ID() == arrow.INT64 {
			return widen(c, v.I32, rows, n, func(x int32) int64 { return int64(x) })
		}
		return same(c, v.I32, rows, n)
	case types.Date:
		return same(c, v.I32, rows, n)
	case types.Time:
		return widen(c, v.I32, rows, n, func(x int32) int64 { return int64(x) * 1000 })
	case types.BigInt:
		return same(c, v.I64, rows, n)
	case types.Float:
		if c.typ.ID() == arrow.FLOAT64 {
			return widen(c, v.F32, rows, n, func(x float32) float64 { return float64(x) })
		}
		return same(c, v.F32, rows, n)
	case types.Double:
		return same(c, v.F64, rows, n)
	case types.Decimal:
		if v.Phys == types.PI64 {
			return widen(c, v.I64, rows, n, types.I128)
		}
		return same(c, v.I128, rows, n)
	case types.Timestamp, types.TimestampLTZ:
		return c.timestamps(v, rows, n)
	case types.Binary:
		return c.fixed(v, rows, n)
	}
	panic(fmt.Sprintf("BUG: no way to write %s as %s", v.Type, c.typ))
}

// same takes the values as they are.
func same[T any](c *columnEncoder, in []T, rows []int32, n int) []byte {
	if rows == nil {
		return raw(in[:n])
	}
	out := cast[T](&c.data, n)
	for k, i := range rows {
		out[k] = in[i]
	}
	return raw(out)
}

// widen converts each value.
func widen[A, B any](c *columnEncoder, in []A, rows []int32, n int, f func(A) B) []byte {
	out := cast[B](&c.data, n)
	if rows == nil {
		for k, x := range in[:n] {
			out[k] = f(x)
		}
	} else {
		for k, i := range rows {
			out[k] = f(in[i])
		}
	}
	return raw(out)
}

// timestamps gives microseconds, or nanoseconds where the field has them.
func (c *columnEncoder) timestamps(v *vec.Vec, rows []int32, n int) []byte {
	nanos := c.typ.(*arrow.TimestampType).Unit == arrow.Nanosecond
	switch {
	case v.Phys == types.PI64 && nanos:
		return widen(c, v.I64, rows, n, func(x int64) int64 { return x * 1_000_000 })
	case v.Phys == types.PI64:
		return widen(c, v.I64, rows, n, func(x int64) int64 { return x * 1000 })
	case nanos:
		return widen(c, v.I128, rows, n, func(x types.Int128) int64 { return x.Hi*1_000_000 + int64(x.Lo) })
	}
	return widen(c, v.I128, rows, n, micros)
}

func micros(x types.Int128) int64 { return x.Hi*1000 + int64(x.Lo/1000) }

// strings lays the strings one after another.
func (c *columnEncoder) strings(v *vec.Vec, rows []int32, n int) ([]int32, []byte) {
	if cap(c.offs) < n+1 {
		c.offs = make([]int32, n+1, 2*n+1)
	}
	offs, data := c.offs[:n+1], c.data[:0]
	for k, i := range positions(rows, n) {
		offs[k] = int32(len(data))
		if r := v.Refs[i]; v.Valid == nil || v.Valid.Get(int(i)) {
			data = append(data, v.Buf[r.Off:r.Off+r.Len]...)
		}
	}
	offs[n] = int32(len(data))
	c.data = data
	return offs, data
}

// fixed lays binaries of one length one after another.
func (c *columnEncoder) fixed(v *vec.Vec, rows []int32, n int) []byte {
	width := v.Type.Precision
	data := cast[byte](&c.data, n*width)
	for k, i := range positions(rows, n) {
		if to := data[k*width : (k+1)*width]; v.IsNull(int(i)) || copy(to, v.Bytes(int(i))) < width {
			clear(to[min(width, fixedLen(v, int(i))):])
		}
	}
	return data
}

func fixedLen(v *vec.Vec, i int) int {
	if v.IsNull(i) {
		return 0
	}
	return int(v.Refs[i].Len)
}

// appendTo appends value i of v to the builder of a nested column.
func appendTo(to array.Builder, v *vec.Vec, i int) {
	if v.IsNull(i) {
		to.AppendNull()
		return
	}
	switch to := to.(type) {
	case *array.BooleanBuilder:
		to.Append(v.Bool[i])
	case *array.Int32Builder:
		to.Append(v.I32[i])
	case *array.Date32Builder:
		to.Append(arrow.Date32(v.I32[i]))
	case *array.Time64Builder:
		to.Append(arrow.Time64(int64(v.I32[i]) * 1000))
	case *array.Int64Builder:
		if v.Phys == types.PI32 {
			to.Append(int64(v.I32[i]))
			return
		}
		to.Append(v.I64[i])
	case *array.Float32Builder:
		to.Append(v.F32[i])
	case *array.Float64Builder:
		if v.Phys == types.PF32 {
			to.Append(float64(v.F32[i]))
			return
		}
		to.Append(v.F64[i])
	case *array.StringBuilder:
		to.BinaryBuilder.Append(v.Bytes(i))
	case *array.BinaryBuilder:
		to.Append(v.Bytes(i))
	case *array.FixedSizeBinaryBuilder:
		to.Append(padded(v.Bytes(i), v.Type.Precision))
	case *extensions.UUIDBuilder:
		to.Append(uuid.UUID(padded(v.Bytes(i), 16)))
	case *array.Decimal128Builder:
		if v.Phys == types.PI64 {
			to.Append(decimal128.FromI64(v.I64[i]))
			return
		}
		to.Append(decimal128.New(v.I128[i].Hi, v.I128[i].Lo))
	case *array.TimestampBuilder:
		to.Append(timestamp(to.Type().(*arrow.TimestampType).Unit, v, i))
	default:
		appendNested(to, v, i)
	}
}

func timestamp(unit arrow.TimeUnit, v *vec.Vec, i int) arrow.Timestamp {
	ts := types.Int128{}
	if v.Phys == types.PI64 {
		ts.Hi = v.I64[i]
	} else {
		ts = v.I128[i]
	}
	if unit == arrow.Nanosecond {
		return arrow.Timestamp(ts.Hi*1_000_000 + int64(ts.Lo))
	}
	return arrow.Timestamp(micros(ts))
}

func padded(b []byte, width int) []byte {
	if len(b) == width {
		return b
	}
	out := make([]byte, width)
	copy(out, b)
	return out
}

func appendNested(to array.Builder, v *vec.Vec, i int) {
	switch to := to.(type) {
	case *array.ListBuilder:
		to.Append(true)
		r := v.Refs[i]
		for k := r.Off; k < r.Off+r.Len; k++ {
			appendTo(to.ValueBuilder(), v.Kids[0], int(k))
		}
	case *array.MapBuilder:
		to.Append(true)
		r := v.Refs[i]
		for k := r.Off; k < r.Off+r.Len; k++ {
			appendTo(to.KeyBuilder(), v.Kids[0], int(k))
			appendTo(to.ItemBuilder(), v.Kids[1], int(k))
		}
	case *array.StructBuilder:
		to.Append(true)
		fields := to.Type().(*arrow.StructType).Fields()
		for k := range fields {
			at := find(v.Type.Fields, fields[k].Name)
			if at < 0 {
				to.FieldBuilder(k).AppendNull()
				continue
			}
			appendTo(to.FieldBuilder(k), v.Kids[at], i)
		}
	default:
		panic(fmt.Sprintf("BUG: no way to append %s to %T", v.Type, to))
	}
}
