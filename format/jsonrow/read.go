package jsonrow

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
)

// read reads the value at i, however it is spelled, into position row of n's vector and returns
// its end, or -1.
func (r *Reader) read(n *node, row, i int) int {
	data := r.data
	if i = r.start(i); i < 0 {
		return -1
	}
	c := data[i]
	if c == 'n' {
		if i = r.literal(i); i > 0 {
			n.null(row)
		}
		return i
	}
	switch {
	case n.kind == kindString:
		return r.readString(n, row, i)
	case n.kind == kindRow && c == '{':
		return r.object(n.obj, row, i)
	case n.key != nil && c == '{':
		return r.readMap(n, row, i)
	case n.elem != nil && n.key == nil && c == '[':
		return r.readArray(n, row, i)
	}
	end := r.Skip(i)
	if end < 0 {
		return -1
	}
	if msg := r.convert(n, row, data[i:end]); msg != "" {
		return r.refuse(n, row, i, end, msg)
	}
	return end
}

// start returns where the value at i starts. There may be white space before it, where a gap was
// recognised that ends with the colon.
func (r *Reader) start(i int) int {
	if i >= len(r.data) {
		return r.fail(i, "a value was expected")
	}
	if r.data[i] > ' ' {
		return i
	}
	return r.ws(i)
}

// refuse deals with a value that is JSON but not one of n's type.
func (r *Reader) refuse(n *node, row, i, end int, msg string) int {
	if r.opts.IgnoreErrors {
		n.null(row)
		return end
	}
	if r.fault.msg == "" {
		r.fault = fault{pos: i, msg: msg, node: n}
	}
	return -1
}

// readString makes any value a string: objects and arrays become their text, others their
// spelling.
func (r *Reader) readString(n *node, row, i int) int {
	data := r.data
	switch c := data[i]; {
	case c == '"':
		end, esc := r.str(i + 1)
		switch {
		case end < 0:
			return -1
		case esc:
			n.str.End(row, unescape(n.str.Begin(row), data[i+1:end]))
		default:
			n.str.Set(row, data, i+1, end)
		}
		return end + 1
	case c == '{' || c == '[':
		end := r.Skip(i)
		if end > 0 {
			n.str.End(row, r.compact(n.str.Begin(row), data[i:end]))
		}
		return end
	case r.opts.Tree && (c == '-' || c-'0' <= 9):
		end, frac := r.number(i)
		if end > 0 {
			n.str.End(row, r.appendNumber(n.str.Begin(row), data[i:end], frac, false))
		}
		return end
	}
	end := r.scalar(i)
	if end > 0 {
		n.str.Set(row, data, i, end)
	}
	return end
}

func (r *Reader) readArray(n *node, row, i int) int {
	first := n.used
	if i = r.ws(i + 1); i < 0 {
		return -1
	}
	for more := r.data[i] != ']'; more; {
		at := n.grow()
		if i = r.value(n.elem, at, i); i < 0 {
			return -1
		}
		if i = r.ws(i); i < 0 {
			return -1
		}
		switch r.data[i] {
		case ',':
			if i = r.ws(i + 1); i < 0 {
				return -1
			}
		case ']':
			more = false
		default:
			return r.fail(i, "a comma or the closing bracket was expected")
		}
	}
	n.setList(row, first)
	return i + 1
}

func (r *Reader) readMap(n *node, row, i int) int {
	first := n.used
	if i = r.ws(i + 1); i < 0 {
		return -1
	}
	for more := r.data[i] != '}'; more; {
		if r.data[i] != '"' {
			return r.fail(i, "a name in quotes was expected")
		}
		at := n.grow()
		if i = r.readString(n.key, at, i); i < 0 {
			return -1
		}
		if i = r.colon(i); i < 0 {
			return -1
		}
		if same := n.find(first, at); same < at {
			n.used-- // the last of several members with one name counts
			n.elem.valid(same)
			at = same
		}
		if i = r.value(n.elem, at, i); i < 0 {
			return -1
		}
		if i = r.ws(i); i < 0 {
			return -1
		}
		switch r.data[i] {
		case ',':
			if i = r.ws(i + 1); i < 0 {
				return -1
			}
		case '}':
			more = false
		default:
			return r.fail(i, "a comma or the closing brace was expected")
		}
	}
	n.setList(row, first)
	return i + 1
}

// find returns the first position in [first, at] whose key equals that at position at.
func (n *node) find(first, at int) int {
	keys := n.key.v
	key := keys.Bytes(at)
	for first < at && !bytes.Equal(keys.Bytes(first), key) {
		first++
	}
	return first
}

func (n *node) setList(row, first int) {
	n.v.Refs[row].Off, n.v.Refs[row].Len = uint32(first), uint32(n.used-first)
}

// convert makes the token tok, which is valid JSON, position row of n's vector, as Flink's
// converters do. It returns what is wrong, or "".
func (r *Reader) convert(n *node, row int, tok []byte) string {
	text := tok
	switch tok[0] {
	case '"':
		text = tok[1 : len(tok)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			r.text = unescape(r.text[:0], text)
			text = r.text
		}
	case '{', '[':
		return "an object or array is not a value of type " + n.typ.WithNullable(true).String()
	default:
		if n.obj != nil || n.elem != nil {
			return "a plain value is not one of type " + n.typ.WithNullable(true).String()
		}
	}
	if !r.store(n, row, tok, text) {
		return "it cannot be read as " + n.typ.WithNullable(true).String() + ": " + clip(tok)
	}
	return ""
}

// clip shortens a value for an error message.
func clip(tok []byte) string {
	if len(tok) > 60 {
		return string(tok[:60]) + "..."
	}
	return string(tok)
}

// store converts text, what token tok says, and reports whether it could.
func (r *Reader) store(n *node, row int, tok, text []byte) (ok bool) {
	isText := tok[0] == '"'
	v := n.v
	switch n.typ.Kind {
	case types.Boolean:
		// Anything but true counts as false, as in Java.
		v.Bool[row], ok = spell.EqualFold(types.TrimSpace(text), "true"), true
	case types.TinyInt, types.SmallInt, types.Int, types.IntervalYearMonth:
		var x int64
		limit := int64(1) << 31
		switch n.typ.Kind {
		case types.TinyInt:
			limit = 1 << 7
		case types.SmallInt:
			limit = 1 << 15
		}
		if limit == 1<<31 || isText {
			x, ok = whole(text, isText, true)
		} else {
			x, ok = spell.ParseInt(text) // no fraction in the narrow types
		}
		if ok = ok && x >= -limit && x < limit; ok {
			v.I32[row] = int32(x)
		}
	case types.BigInt, types.IntervalDayTime:
		v.I64[row], ok = whole(text, isText, false)
	case types.Float:
		var f float64
		f, ok = spell.ParseFloat(text, 32)
		v.F32[row] = float32(f)
	case types.Double:
		v.F64[row], ok = spell.ParseFloat(text, 64)
	case types.Decimal:
		ok = r.storeDecimal(n, row, text, isText)
	case types.Date:
		v.I32[row], ok = spell.ISODate(text)
	case types.Time:
		var c spell.Clock
		c, ok = spell.ParseClock(text, false, false)
		v.I32[row] = c.Ms / 1000 * 1000 % 86400000 // whole seconds, as in Flink 1.20
	case types.Timestamp, types.TimestampLTZ:
		var ms int64
		var nanos int32
		if ms, nanos, ok = spell.ParseDateTime(text, r.opts.ISO, n.zone); ok {
			if v.Phys == types.PI64 {
				v.I64[row] = ms
			} else {
				v.I128[row] = types.TS(ms, nanos)
			}
		}
	case types.Binary, types.VarBinary:
		if !isText && r.opts.Tree {
			n.null(row)
			return true
		}
		var buf []byte
		if buf, ok = spell.AppendBase64(n.str.Begin(row), text); ok && isText {
			n.str.End(row, buf)
		}
		ok = ok && isText
	case types.Null:
		return true
	}
	return ok
}

// storeDecimal stores a DECIMAL; one that does not fit becomes NULL.
func (r *Reader) storeDecimal(n *node, row int, text []byte, isText bool) bool {
	if isText {
		text = types.TrimSpace(text)
	}
	if !spell.IsDecimal(text) {
		return false
	}
	x, ok := types.ParseDecimal(text, n.typ.Precision, n.typ.Scale)
	switch {
	case !ok:
		n.null(row)
	case n.v.Phys == types.PI64:
		n.v.I64[row] = int64(x.Lo)
	default:
		n.v.I128[row] = x
	}
	return true
}
