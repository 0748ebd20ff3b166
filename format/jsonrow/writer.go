package jsonrow

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Writer appends rows as JSON.
type Writer struct {
	opts   Options
	fields []writeField
	text   []byte // memory for map keys
}

// writeField is a member of an object that is written.
type writeField struct {
	name []byte // `"name":`
	typ  types.Type
	kids []writeField // the fields of a ROW; the element of a list; the key and value of a map
}

// NewWriter returns a writer of rows of s.
func NewWriter(s types.Schema, opts Options) (*Writer, error) {
	if err := CheckSchema(s); err != nil {
		return nil, err
	}
	w := &Writer{opts: opts}
	for _, f := range s.Fields {
		w.fields = append(w.fields, newWriteField(f))
	}
	return w, nil
}

func newWriteField(f types.Field) writeField {
	w := writeField{name: append(AppendString(nil, []byte(f.Name)), ':'), typ: f.Type}
	switch f.Type.Kind {
	case types.Row:
		for _, k := range f.Type.Fields {
			w.kids = append(w.kids, newWriteField(k))
		}
	case types.Array:
		w.kids = []writeField{newWriteField(types.Field{Type: *f.Type.Elem})}
	case types.Map:
		w.kids = []writeField{newWriteField(types.Field{Type: *f.Type.Key}),
			newWriteField(types.Field{Type: *f.Type.Elem})}
	case types.Multiset:
		w.kids = []writeField{newWriteField(types.Field{Type: *f.Type.Elem}),
			newWriteField(types.Field{Type: types.IntType})}
	}
	return w
}

// Append appends position row of cols as an object.
func (w *Writer) Append(dst []byte, cols []*vec.Vec, row int) ([]byte, error) {
	return w.object(dst, w.fields, cols, row)
}

func (w *Writer) object(dst []byte, fs []writeField, cols []*vec.Vec, row int) ([]byte, error) {
	var err error
	dst = append(dst, '{')
	for i := range fs {
		f, v := &fs[i], cols[i]
		null := v.IsNull(row)
		if null && w.opts.SkipNulls {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, f.name...)
		if null {
			dst = append(dst, "null"...)
		} else if dst, err = w.value(dst, f, v, row); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// value appends position row of v, which is not NULL.
func (w *Writer) value(dst []byte, f *writeField, v *vec.Vec, row int) ([]byte, error) {
	switch f.typ.Kind {
	case types.BigInt, types.IntervalDayTime:
		return strconv.AppendInt(dst, v.I64[row], 10), nil
	case types.TinyInt, types.SmallInt, types.Int, types.IntervalYearMonth:
		return strconv.AppendInt(dst, int64(v.I32[row]), 10), nil
	case types.Char, types.VarChar:
		return AppendString(dst, v.Bytes(row)), nil
	case types.Boolean:
		return strconv.AppendBool(dst, v.Bool[row]), nil
	case types.Double:
		return appendFloat(dst, v.F64[row], 64), nil
	case types.Float:
		return appendFloat(dst, float64(v.F32[row]), 32), nil
	case types.Decimal:
		return w.appendDecimal(dst, f, v, row), nil
	case types.Timestamp, types.TimestampLTZ:
		return w.appendTimestamp(dst, f, v, row), nil
	case types.Date:
		dst = spell.AppendDate(append(dst, '"'), v.I32[row])
		return append(dst, '"'), nil
	case types.Time:
		dst = types.AppendTime(append(dst, '"'), v.I32[row], 0)
		return append(dst, '"'), nil
	case types.Binary, types.VarBinary:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes(row))
		return append(dst, '"'), nil
	case types.Row:
		return w.object(dst, f.kids, v.Kids, row)
	case types.Array:
		return w.array(dst, f, v, row)
	case types.Map, types.Multiset:
		return w.dict(dst, f, v, row)
	}
	return dst, fmt.Errorf("JSON has no form for %s", f.typ)
}

func (w *Writer) array(dst []byte, f *writeField, v *vec.Vec, row int) ([]byte, error) {
	var err error
	elems, ref := v.Kids[0], v.Refs[row]
	dst = append(dst, '[')
	for k := uint32(0); k < ref.Len; k++ {
		if k > 0 {
			dst = append(dst, ',')
		}
		if at := int(ref.Off + k); elems.IsNull(at) {
			dst = append(dst, "null"...)
		} else if dst, err = w.value(dst, &f.kids[0], elems, at); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (w *Writer) dict(dst []byte, f *writeField, v *vec.Vec, row int) ([]byte, error) {
	var err error
	keys, vals, ref := v.Kids[0], v.Kids[1], v.Refs[row]
	dst = append(dst, '{')
	first := true
	for k := uint32(0); k < ref.Len; k++ {
		at := int(ref.Off + k)
		null := keys.IsNull(at)
		if null && w.opts.NullKeys == DropNullKeys {
			continue
		}
		if null && w.opts.NullKeys == FailNullKeys {
			return dst, errors.New("a key of a map is NULL; set 'map-null-key.mode' to DROP or " +
				"LITERAL, or keep NULL keys out")
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if null {
			w.text = append(w.text[:0], w.opts.NullKey...)
			dst = AppendString(dst, w.text)
		} else {
			dst = AppendString(dst, keys.Bytes(at))
		}
		dst = append(dst, ':')
		if vals.IsNull(at) {
			dst = append(dst, "null"...)
		} else if dst, err = w.value(dst, &f.kids[1], vals, at); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendFloat(dst []byte, f float64, size int) []byte {
	quote := math.IsNaN(f) || math.IsInf(f, 0)
	if quote {
		dst = append(dst, '"')
	}
	if size == 32 {
		dst = types.AppendFloat(dst, float32(f))
	} else {
		dst = types.AppendDouble(dst, f)
	}
	if quote {
		dst = append(dst, '"')
	}
	return dst
}

func (w *Writer) appendDecimal(dst []byte, f *writeField, v *vec.Vec, row int) []byte {
	return spell.AppendDecimal(dst, spell.Unscaled(v, row), f.typ.Scale, w.opts.PlainDecimals)
}

func (w *Writer) appendTimestamp(dst []byte, f *writeField, v *vec.Vec, row int) []byte {
	var ms int64
	var nanos int32
	if v.Phys == types.PI64 {
		ms = v.I64[row]
	} else {
		ms, nanos = v.I128[row].Hi, int32(v.I128[row].Lo)
	}
	sep := byte(' ')
	if w.opts.ISO {
		sep = 'T'
	}
	dst = spell.AppendTimestamp(append(dst, '"'), ms, nanos, sep)
	if f.typ.Kind == types.TimestampLTZ {
		dst = append(dst, 'Z')
	}
	return append(dst, '"')
}
