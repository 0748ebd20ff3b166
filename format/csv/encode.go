package csv

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// quoteBeyond is the length in UTF-16 units from which on text is put in quotes without a look.
const quoteBeyond = 24

// Encoder writes rows as lines.
type Encoder struct {
	*syntax
	schema types.Schema
	// safe is the first character from which on text needs no quotes, except for suspect.
	safe      rune
	suspect   rune
	plainDecs bool
	delim     string
	text      []byte // the value at hand
}

// NewEncoder returns an encoder.
func NewEncoder(c format.EncoderConfig) (*Encoder, error) {
	if err := check(c.Schema, c.Options); err != nil {
		return nil, err
	}
	s, err := syntaxOf(c.Options)
	if err != nil {
		return nil, err
	}
	sep, _ := utf8.DecodeRune(s.delimiter)
	e := &Encoder{syntax: s, schema: c.Schema, safe: max(sep, rune(s.quote), '\r') + 1,
		suspect: '\\', delim: c.Delimiter, plainDecs: s.plain || c.Delimiter != ""}
	if s.escape >= 0 {
		e.suspect = rune(s.escape)
	}
	return e, nil
}

// Encode implements format.Encoder.
func (e *Encoder) Encode(dst *format.Encoded, b *vec.Batch) error {
	for k, n := 0, b.Rows(); k < n; k++ {
		row := k
		if b.Sel != nil {
			row = int(b.Sel[k])
		}
		for c, v := range b.Cols {
			if c > 0 {
				dst.Data = append(dst.Data, e.delimiter...)
			}
			dst.Data = e.column(dst.Data, v, row)
		}
		dst.Data = append(dst.Data, e.delim...)
		dst.Ends = append(dst.Ends, len(dst.Data))
	}
	return nil
}

func (e *Encoder) column(dst []byte, v *vec.Vec, row int) []byte {
	if v.IsNull(row) {
		return append(dst, e.null...)
	}
	switch v.Type.Kind {
	case types.Char, types.VarChar:
		return e.quoted(dst, v.Bytes(row))
	case types.Array:
		e.text = e.text[:0]
		ref := v.Refs[row]
		for k := ref.Off; k < ref.Off+ref.Len; k++ {
			if k > ref.Off {
				e.text = append(e.text, e.array...)
			}
			e.text = e.simple(e.text, v.Kids[0], int(k), false)
		}
		return e.quoted(dst, e.text)
	case types.Row:
		e.text = e.text[:0]
		for k, kid := range v.Kids {
			if k > 0 {
				e.text = append(e.text, e.array...)
			}
			e.text = e.simple(e.text, kid, row, false)
		}
		return e.quoted(dst, e.text)
	case types.Date, types.Time, types.Timestamp, types.TimestampLTZ, types.Binary, types.VarBinary,
		types.Decimal:
		e.text = e.simple(e.text[:0], v, row, e.plainDecs)
		return e.quoted(dst, e.text)
	}
	return e.simple(dst, v, row, false)
}

// simple appends a value that is not nested, without quotes.
func (e *Encoder) simple(dst []byte, v *vec.Vec, row int, plain bool) []byte {
	if v.IsNull(row) {
		return append(dst, e.null...)
	}
	switch v.Type.Kind {
	case types.BigInt:
		return strconv.AppendInt(dst, v.I64[row], 10)
	case types.TinyInt, types.SmallInt, types.Int:
		return strconv.AppendInt(dst, int64(v.I32[row]), 10)
	case types.Char, types.VarChar:
		return append(dst, v.Bytes(row)...)
	case types.Boolean:
		return strconv.AppendBool(dst, v.Bool[row])
	case types.Double:
		return types.AppendDouble(dst, v.F64[row])
	case types.Float:
		return types.AppendFloat(dst, v.F32[row])
	case types.Decimal:
		return spell.AppendDecimal(dst, spell.Unscaled(v, row), v.Type.Scale, plain)
	case types.Date:
		return spell.AppendDate(dst, v.I32[row])
	case types.Time:
		dst = types.AppendTime(dst, v.I32[row], 0)
		return spell.AppendFraction(dst, v.I32[row]%1000*1e6)
	case types.Timestamp:
		return appendTimestamp(dst, v, row)
	case types.TimestampLTZ:
		return append(appendTimestamp(dst, v, row), 'Z')
	case types.Binary, types.VarBinary:
		return base64.StdEncoding.AppendEncode(dst, v.Bytes(row))
	}
	return dst
}

func appendTimestamp(dst []byte, v *vec.Vec, row int) []byte {
	if v.Phys == types.PI64 {
		return spell.AppendTimestamp(dst, v.I64[row], 0, ' ')
	}
	return spell.AppendTimestamp(dst, v.I128[row].Hi, int32(v.I128[row].Lo), ' ')
}

// quoted appends text, in quotes where Jackson would put some.
func (e *Encoder) quoted(dst, text []byte) []byte {
	if e.quote < 0 || !e.needsQuotes(text) {
		return append(dst, text...)
	}
	dst = append(dst, byte(e.quote))
	for _, c := range text {
		if int(c) == e.quote || int(c) == e.escape {
			dst = append(dst, c)
		}
		dst = append(dst, c)
	}
	return append(dst, byte(e.quote))
}

func (e *Encoder) needsQuotes(text []byte) bool {
	if len(text) > 3*quoteBeyond {
		return true
	}
	units := 0
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		i += n
		units++
		if r >= 0x10000 {
			units++
		}
		if r < e.safe || r == e.suspect {
			return true
		}
	}
	return units > quoteBeyond
}
