// Package arrowvec copies batches into Apache Arrow record batches, for the edges of the engine:
// library users, columnar files. The memory of a result belongs to Arrow.
package arrowvec

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Type returns the Arrow type of t. TIMESTAMP and TIMESTAMP_LTZ become ms up to precision 3, then
// microseconds up to 6, then nanoseconds (years 1677 to 2262); LTZ has the zone UTC.
func Type(t types.Type) (arrow.DataType, error) {
	switch t.Kind {
	case types.Boolean:
		return arrow.FixedWidthTypes.Boolean, nil
	case types.TinyInt:
		return arrow.PrimitiveTypes.Int8, nil
	case types.SmallInt:
		return arrow.PrimitiveTypes.Int16, nil
	case types.Int:
		return arrow.PrimitiveTypes.Int32, nil
	case types.BigInt:
		return arrow.PrimitiveTypes.Int64, nil
	case types.Float:
		return arrow.PrimitiveTypes.Float32, nil
	case types.Double:
		return arrow.PrimitiveTypes.Float64, nil
	case types.Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}, nil
	case types.Char, types.VarChar:
		return arrow.BinaryTypes.String, nil
	case types.Binary, types.VarBinary:
		return arrow.BinaryTypes.Binary, nil
	case types.Date:
		return arrow.FixedWidthTypes.Date32, nil
	case types.Time:
		return arrow.FixedWidthTypes.Time32ms, nil
	case types.Timestamp, types.TimestampLTZ:
		ts := &arrow.TimestampType{Unit: unit(t)}
		if t.Kind == types.TimestampLTZ {
			ts.TimeZone = "UTC"
		}
		return ts, nil
	case types.IntervalYearMonth:
		return arrow.FixedWidthTypes.MonthInterval, nil
	case types.IntervalDayTime:
		return arrow.FixedWidthTypes.Duration_ms, nil
	}
	return nested(t)
}

func unit(t types.Type) arrow.TimeUnit {
	switch {
	case t.Precision <= 3:
		return arrow.Millisecond
	case t.Precision <= 6:
		return arrow.Microsecond
	}
	return arrow.Nanosecond
}

func nested(t types.Type) (arrow.DataType, error) {
	switch t.Kind {
	case types.Array:
		e, err := Type(*t.Elem)
		if err != nil {
			return nil, err
		}
		return arrow.ListOf(e), nil
	case types.Map, types.Multiset:
		kt, vt := t.Key, *t.Elem
		if t.Kind == types.Multiset {
			kt, vt = t.Elem, types.IntType
		}
		k, err := Type(*kt)
		if err != nil {
			return nil, err
		}
		v, err := Type(vt)
		if err != nil {
			return nil, err
		}
		return arrow.MapOf(k, v), nil
	case types.Row:
		s, err := Schema(types.Schema{Fields: t.Fields})
		if err != nil {
			return nil, err
		}
		return arrow.StructOf(s.Fields()...), nil
	}
	return nil, fmt.Errorf("type %s has no Arrow form", t)
}

// Schema returns the Arrow schema of s.
func Schema(s types.Schema) (*arrow.Schema, error) {
	fields := make([]arrow.Field, s.Len())
	for i, f := range s.Fields {
		t, err := Type(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		fields[i] = arrow.Field{Name: f.Name, Type: t, Nullable: f.Type.Nullable}
	}
	return arrow.NewSchema(fields, nil), nil
}

// Record copies the selected rows of b, whose columns are s. Where b has row kinds they make a
// last column, "row_kind".
func Record(s types.Schema, b *vec.Batch) (arrow.RecordBatch, error) {
	schema, err := Schema(s)
	if err != nil {
		return nil, err
	}
	if b.Kinds != nil {
		schema = arrow.NewSchema(append(schema.Fields(), arrow.Field{Name: "row_kind", Type: arrow.BinaryTypes.String}), nil)
	}
	rb := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer rb.Release()
	rb.Reserve(b.Rows())
	for k, c := range b.Cols {
		to := rb.Field(k)
		b.Each(func(i int) { appendValue(to, c, i) })
	}
	if b.Kinds != nil {
		to := rb.Field(len(b.Cols)).(*array.StringBuilder)
		b.Each(func(i int) { to.Append(b.Kinds[i].String()) })
	}
	return rb.NewRecordBatch(), nil
}

func appendValue(to array.Builder, v *vec.Vec, i int) {
	if v.IsNull(i) {
		to.AppendNull()
		return
	}
	switch to := to.(type) {
	case *array.BooleanBuilder:
		to.Append(v.Bool[i])
	case *array.Int8Builder:
		to.Append(int8(v.I32[i]))
	case *array.Int16Builder:
		to.Append(int16(v.I32[i]))
	case *array.Int32Builder:
		to.Append(v.I32[i])
	case *array.Date32Builder:
		to.Append(arrow.Date32(v.I32[i]))
	case *array.Time32Builder:
		to.Append(arrow.Time32(v.I32[i]))
	case *array.MonthIntervalBuilder:
		to.Append(arrow.MonthInterval(v.I32[i]))
	case *array.Int64Builder:
		to.Append(v.I64[i])
	case *array.DurationBuilder:
		to.Append(arrow.Duration(v.I64[i]))
	case *array.Float32Builder:
		to.Append(v.F32[i])
	case *array.Float64Builder:
		to.Append(v.F64[i])
	case *array.StringBuilder:
		to.BinaryBuilder.Append(v.Bytes(i))
	case *array.BinaryBuilder:
		to.Append(v.Bytes(i))
	case *array.Decimal128Builder:
		if v.Phys == types.PI64 {
			to.Append(decimal128.FromI64(v.I64[i]))
			return
		}
		to.Append(decimal128.New(v.I128[i].Hi, v.I128[i].Lo))
	case *array.TimestampBuilder:
		to.Append(timestamp(v, i))
	case *array.ListBuilder:
		to.Append(true)
		r := v.Refs[i]
		for k := r.Off; k < r.Off+r.Len; k++ {
			appendValue(to.ValueBuilder(), v.Kids[0], int(k))
		}
	case *array.MapBuilder:
		to.Append(true)
		r := v.Refs[i]
		for k := r.Off; k < r.Off+r.Len; k++ {
			appendValue(to.KeyBuilder(), v.Kids[0], int(k))
			appendValue(to.ItemBuilder(), v.Kids[1], int(k))
		}
	case *array.StructBuilder:
		to.Append(true)
		for k, kid := range v.Kids {
			appendValue(to.FieldBuilder(k), kid, i)
		}
	default:
		panic(fmt.Sprintf("BUG: no way to append %s to %T", v.Type, to))
	}
}

func timestamp(v *vec.Vec, i int) arrow.Timestamp {
	if v.Phys == types.PI64 {
		return arrow.Timestamp(v.I64[i])
	}
	x := v.I128[i]
	if v.Type.Precision <= 6 {
		return arrow.Timestamp(x.Hi*1000 + int64(x.Lo)/1000)
	}
	return arrow.Timestamp(x.Hi*1_000_000 + int64(x.Lo))
}
