package csv

import (
	"bytes"
	"strconv"

	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/format/strcol"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// column is a column, an element of an ARRAY or a field of a ROW.
type column struct {
	typ  types.Type
	v    *vec.Vec
	str  strcol.Column
	kids []*column
	used int // ARRAY: elements in use; the vector below may have room for more
}

func newColumn(t types.Type) *column {
	c := &column{typ: t}
	switch {
	case t.IsBinary():
		c.str.AlwaysCopy()
	case t.Kind == types.Array:
		c.kids = []*column{newColumn(*t.Elem)}
	case t.Kind == types.Row:
		for _, f := range t.Fields {
			c.kids = append(c.kids, newColumn(f.Type))
		}
	}
	return c
}

func (c *column) bind(v *vec.Vec, data []byte, at int) {
	c.v = v
	switch {
	case c.typ.Kind == types.Array:
		c.used = v.Kids[0].Len()
		c.kids[0].bind(v.Kids[0], data, c.used)
	case c.typ.Kind == types.Row:
		for i, k := range c.kids {
			k.bind(v.Kids[i], data, at)
		}
	case v.Phys == types.PBytes:
		c.str.Bind(v, data, at)
	}
}

// unbind cuts the vectors to n values.
func (c *column) unbind(n int) {
	c.v.Resize(n)
	switch {
	case c.typ.Kind == types.Array:
		c.kids[0].unbind(c.used)
	case c.typ.Kind == types.Row:
		for _, k := range c.kids {
			k.unbind(n)
		}
	case c.v.Phys == types.PBytes:
		c.str.Unbind()
	}
}

func (c *column) null(row int) {
	c.v.SetNull(row)
	if c.typ.Kind == types.Row {
		for _, k := range c.kids {
			k.null(row)
		}
	}
}

// valid takes null back.
func (c *column) valid(row int) {
	c.v.SetValid(row)
	if c.typ.Kind == types.Row {
		for _, k := range c.kids {
			k.valid(row)
		}
	}
}

// store makes value v of data the value at row of c and returns what is wrong with it, or "".
func (d *Decoder) store(c *column, row int, data []byte, v value) string {
	text := data[v.start:v.end]
	if v.is(inText) {
		text = d.text
	}
	switch c.typ.Kind {
	case types.Array:
		return d.storeArray(c, row, data, v, text)
	case types.Row:
		return d.storeRow(c, row, data, v, text)
	}
	return d.storeSimple(c, row, data, v, text)
}

func (d *Decoder) isNull(text []byte) bool {
	return d.hasNull && string(text) == d.null || d.emptyNull && len(text) == 0
}

// storeSimple stores text, which lies in data at v unless it was taken out.
func (d *Decoder) storeSimple(c *column, row int, data []byte, v value, text []byte) string {
	switch {
	case d.isNull(text):
		c.null(row)
	case c.typ.IsString():
		if v.is(inText) {
			c.str.End(row, append(c.str.Begin(row), text...))
		} else {
			c.str.Set(row, data, v.start, v.end)
		}
	case d.convert(c, row, text):
	case d.ignore:
		c.null(row)
	default:
		if len(text) > 60 {
			text = append(text[:57:57], "..."...)
		}
		return "it cannot be read as " + c.typ.WithNullable(true).String() + ": " +
			strconv.Quote(string(text))
	}
	return ""
}

// element cuts the first element off the value v of text.
func (d *Decoder) element(v *value, text []byte) (elem value, first, rest []byte, more bool) {
	n := bytes.Index(text, d.array)
	elem = *v
	if n < 0 {
		return elem, text, nil, false
	}
	elem.end = elem.start + n
	v.start += n + len(d.array)
	return elem, text[:n], text[n+len(d.array):], true
}

func (d *Decoder) storeArray(c *column, row int, data []byte, v value, text []byte) string {
	first := c.used
	elems := c.v.Kids[0]
	for more := len(bytes.TrimSpace(text)) > 0; more; {
		var elem value
		var part []byte
		elem, part, text, more = d.element(&v, text)
		if c.used == elems.Len() {
			elems.Resize(max(16, 2*c.used))
		}
		if msg := d.storeSimple(c.kids[0], c.used, data, elem, part); msg != "" {
			return msg
		}
		c.used++
	}
	c.v.Refs[row] = vec.Ref{Off: uint32(first), Len: uint32(c.used - first)}
	return ""
}

func (d *Decoder) storeRow(c *column, row int, data []byte, v value, text []byte) string {
	more := len(bytes.TrimSpace(text)) > 0
	if !more {
		c.null(row)
		return ""
	}
	for _, k := range c.kids {
		if !more {
			if !d.ignore {
				return "the ROW has too few fields"
			}
			k.null(row)
			continue
		}
		var elem value
		var part []byte
		elem, part, text, more = d.element(&v, text)
		if msg := d.storeSimple(k, row, data, elem, part); msg != "" {
			return msg
		}
	}
	return ""
}

// convert stores text as a value that is not a string and reports whether it could.
func (d *Decoder) convert(c *column, row int, text []byte) (ok bool) {
	v := c.v
	switch c.typ.Kind {
	case types.BigInt:
		v.I64[row], ok = integer(text)
	case types.TinyInt, types.SmallInt, types.Int:
		var x int64
		x, ok = integer(text)
		limit := int64(1) << 31
		switch c.typ.Kind {
		case types.TinyInt:
			limit = 1 << 7
		case types.SmallInt:
			limit = 1 << 15
		}
		v.I32[row] = int32(x)
		ok = ok && x >= -limit && x < limit
	case types.Boolean:
		v.Bool[row], ok = spell.EqualFold(types.TrimSpace(text), "true"), true
	case types.Double:
		f, end := spell.Double(text, 0)
		if ok = end == len(text) && end > 0; !ok {
			f, ok = spell.ParseFloat(text, 64)
		}
		v.F64[row] = f
	case types.Float:
		var f float64
		f, ok = spell.ParseFloat(text, 32)
		v.F32[row] = float32(f)
	case types.Decimal:
		ok = convertDecimal(c, row, text)
	case types.Date:
		v.I32[row], ok = sqlDate(text)
	case types.Time:
		var t spell.Clock
		t, ok = spell.ParseClock(text, true, true)
		unit := [...]int32{1000, 100, 10, 1}[c.typ.Precision]
		v.I32[row] = t.Ms / unit * unit
	case types.Timestamp, types.TimestampLTZ:
		var nanos int32
		zone := c.typ.Kind == types.TimestampLTZ
		ms, usual := d.days.Bare(text, zone)
		if ok = usual; !ok {
			ms, nanos, ok = spell.ParseDateTime(types.TrimSpace(text), false, zone)
		}
		if v.Phys == types.PI64 {
			v.I64[row] = ms
		} else {
			v.I128[row] = types.TS(ms, nanos)
		}
	case types.Binary, types.VarBinary:
		var buf []byte
		if buf, ok = spell.AppendBase64(c.str.Begin(row), text); ok {
			c.str.End(row, buf)
		}
	case types.Null:
		return true
	}
	return ok
}

// integer reads a whole number with an optional sign and white space around it.
func integer(b []byte) (v int64, ok bool) {
	if n := len(b); n > 0 && n <= 18 {
		for _, c := range b {
			if c-'0' > 9 {
				return spell.ParseInt(types.TrimSpace(b))
			}
			v = v*10 + int64(c-'0')
		}
		return v, true
	}
	return spell.ParseInt(types.TrimSpace(b))
}

func convertDecimal(c *column, row int, text []byte) bool {
	if c.v.Phys == types.PI64 {
		limit := types.Pow10Int64(c.typ.Precision)
		if x, end := spell.Decimal(text, 0, c.typ.Scale, limit); end == len(text) && end > 0 {
			c.v.I64[row] = x
			return true
		}
	}
	if !spell.IsDecimal(text) {
		return false
	}
	x, ok := types.ParseDecimal(text, c.typ.Precision, c.typ.Scale)
	switch {
	case !ok:
		c.null(row) // it does not fit
	case c.v.Phys == types.PI64:
		c.v.I64[row] = int64(x.Lo)
	default:
		c.v.I128[row] = x
	}
	return true
}

// sqlDate reads yyyy-M-d as Java's java.sql.Date does: days beyond the month's end roll over.
func sqlDate(b []byte) (days int32, ok bool) {
	year, b, ok1 := part(b, 4, 4)
	month, b, ok2 := part(b, 1, 2)
	day, b, ok3 := part(b, 1, 2)
	if !ok1 || !ok2 || !ok3 || b != nil || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	return types.DaysFromCivil(year, month, day), true
}

// part reads least to most digits and the dash behind them. rest is nil after the last part.
func part(b []byte, least, most int) (n int, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i]-'0' <= 9 {
		n = n*10 + int(b[i]-'0')
		i++
	}
	switch {
	case i < least || i > most:
		return 0, b, false
	case i == len(b):
		return n, nil, true
	case b[i] != '-':
		return 0, b, false
	}
	return n, b[i+1:], true
}
