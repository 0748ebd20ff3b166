// Package raw is the format raw: a record is one value of one column, as bytes, text or a number
// in binary. NULL is a record that is NULL as a whole.
package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/strcol"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Options lists what the format understands.
var Options = []option.Spec{
	{Name: "charset", Kind: option.String, Default: "UTF-8",
		Doc: "the encoding of text: UTF-8, US-ASCII, ISO-8859-1, UTF-16, UTF-16BE or UTF-16LE"},
	{Name: "endianness", Kind: option.Enum, Default: "big-endian",
		Values: []string{"big-endian", "little-endian"},
		Doc:    "the order of the bytes of numbers"},
}

func init() {
	format.Register(&format.Factory{
		Name: "raw",
		Doc: "A record is one value: text, bytes, or a number in binary. The table has a single " +
			"column.",
		Options:   Options,
		Changelog: types.InsertOnly,
		Check: func(s types.Schema, o option.Values) error {
			_, err := newCodec(s, o)
			return err
		},
		NewDecoder: func(c format.DecoderConfig) (format.Decoder, error) { return NewDecoder(c) },
		NewEncoder: func(c format.EncoderConfig) (format.Encoder, error) { return NewEncoder(c) },
	})
}

// codec is what decoding and encoding share.
type codec struct {
	typ   types.Type
	size  int // bytes of a number; 0: any
	text  *charset
	order binary.ByteOrder
}

func newCodec(s types.Schema, o option.Values) (codec, error) {
	if s.Len() != 1 {
		return codec{}, fmt.Errorf("the format raw needs a table with one column, not %d: %s",
			s.Len(), s)
	}
	c := codec{typ: s.Fields[0].Type, order: binary.BigEndian}
	if o.Enum("endianness") == "little-endian" {
		c.order = binary.LittleEndian
	}
	switch c.typ.Kind {
	case types.Char, types.VarChar:
		var err error
		c.text, err = charsetOf(o.Get("charset"))
		return c, err
	case types.Binary, types.VarBinary:
	case types.Boolean, types.TinyInt:
		c.size = 1
	case types.SmallInt:
		c.size = 2
	case types.Int, types.Float:
		c.size = 4
	case types.BigInt, types.Double:
		c.size = 8
	default:
		return c, fmt.Errorf("the format raw cannot carry %s; use a string, BYTES, BOOLEAN or a "+
			"number other than DECIMAL", c.typ.WithNullable(true))
	}
	return c, nil
}

// Decoder decodes values.
type Decoder struct {
	codec
	conf format.DecoderConfig
	str  strcol.Column
}

// NewDecoder returns a decoder.
func NewDecoder(c format.DecoderConfig) (*Decoder, error) {
	k, err := newCodec(c.Schema, c.Options)
	return &Decoder{codec: k, conf: c}, err
}

// Decode implements format.Decoder. In text every line is a row, empty ones too.
func (d *Decoder) Decode(c *format.Chunk, out *format.Rows, maxRows int) error {
	b := out.Batch
	if b.N >= maxRows || c.Done() {
		return nil
	}
	first := b.N
	b.Origin = c.Origin
	var v *vec.Vec
	if len(d.conf.Columns) > 0 {
		v = b.Cols[0]
		v.Resize(maxRows)
		if v.Phys == types.PBytes {
			d.str.Bind(v, c.Data, b.N)
		}
	}
	err := d.rows(c, out, v, maxRows)
	if v != nil {
		v.Resize(b.N)
		if v.Phys == types.PBytes {
			d.str.Unbind()
		}
	}
	for b.Kinds != nil && first < b.N {
		b.Kinds = append(b.Kinds, types.Insert)
		first++
	}
	return err
}

func (d *Decoder) rows(c *format.Chunk, out *format.Rows, v *vec.Vec, maxRows int) error {
	b := out.Batch
	for b.N < maxRows && !c.Done() {
		rec := c.Next
		null := c.Bounds != nil && c.Bounds[rec] == format.NullRecord
		at, end, pos := c.Cut()
		switch {
		case null:
			if v != nil {
				v.SetNull(b.N)
			}
		case d.size > 0 && end-at != d.size:
			err := d.conf.Bad(format.BadRecord{Origin: c.Origin, Pos: pos, Bytes: c.Data[at:end],
				Err: fmt.Errorf("a record of the format raw for %s has %d bytes, not %d",
					d.typ.WithNullable(true), d.size, end-at)})
			if err != nil {
				return err
			}
			continue
		case v != nil:
			d.store(v, b.N, c.Data, at, end)
		}
		b.Pos = append(b.Pos, pos)
		if d.conf.NeedRec && c.Bounds != nil {
			out.Rec = append(out.Rec, int32(rec))
		}
		b.N++
	}
	return nil
}

// store makes data[at:end] the value at row.
func (d *Decoder) store(v *vec.Vec, row int, data []byte, at, end int) {
	p := data[at:end]
	switch d.typ.Kind {
	case types.Char, types.VarChar:
		if d.text.decode != nil {
			d.str.End(row, d.text.decode(d.str.Begin(row), p))
			return
		}
		d.str.Set(row, data, at, end)
	case types.Binary, types.VarBinary:
		d.str.Set(row, data, at, end)
	case types.Boolean:
		v.Bool[row] = p[0] != 0
	case types.TinyInt:
		v.I32[row] = int32(int8(p[0]))
	case types.SmallInt:
		v.I32[row] = int32(int16(d.order.Uint16(p)))
	case types.Int:
		v.I32[row] = int32(d.order.Uint32(p))
	case types.BigInt:
		v.I64[row] = int64(d.order.Uint64(p))
	case types.Float:
		v.F32[row] = math.Float32frombits(d.order.Uint32(p))
	case types.Double:
		v.F64[row] = math.Float64frombits(d.order.Uint64(p))
	}
}

// Encoder writes values.
type Encoder struct {
	codec
	delimiter string
}

// NewEncoder returns an encoder.
func NewEncoder(c format.EncoderConfig) (*Encoder, error) {
	k, err := newCodec(c.Schema, c.Options)
	return &Encoder{codec: k, delimiter: c.Delimiter}, err
}

var errText = errors.New("a line of text cannot be NULL; filter NULLs out, or replace them with " +
	"COALESCE")

// Encode implements format.Encoder. NULL is a record that is NULL as a whole, which files do not
// have.
func (e *Encoder) Encode(dst *format.Encoded, b *vec.Batch) error {
	v := b.Cols[0]
	for k, n := 0, b.Rows(); k < n; k++ {
		row := k
		if b.Sel != nil {
			row = int(b.Sel[k])
		}
		if v.IsNull(row) {
			if e.delimiter != "" {
				return errText
			}
			dst.Nulls = append(dst.Nulls, len(dst.Ends))
		} else {
			dst.Data = e.append(dst.Data, v, row)
			dst.Data = append(dst.Data, e.delimiter...)
		}
		dst.Ends = append(dst.Ends, len(dst.Data))
	}
	return nil
}

func (e *Encoder) append(dst []byte, v *vec.Vec, row int) []byte {
	var zero [8]byte
	at := len(dst)
	dst = append(dst, zero[:e.size]...)
	p := dst[at:]
	switch e.typ.Kind {
	case types.Char, types.VarChar:
		if e.text.encode != nil {
			return e.text.encode(dst, v.Bytes(row))
		}
		return append(dst, v.Bytes(row)...)
	case types.Binary, types.VarBinary:
		return append(dst, v.Bytes(row)...)
	case types.Boolean:
		if v.Bool[row] {
			p[0] = 1
		}
	case types.TinyInt:
		p[0] = byte(v.I32[row])
	case types.SmallInt:
		e.order.PutUint16(p, uint16(v.I32[row]))
	case types.Int:
		e.order.PutUint32(p, uint32(v.I32[row]))
	case types.BigInt:
		e.order.PutUint64(p, uint64(v.I64[row]))
	case types.Float:
		e.order.PutUint32(p, math.Float32bits(v.F32[row]))
	case types.Double:
		e.order.PutUint64(p, math.Float64bits(v.F64[row]))
	}
	return dst
}
