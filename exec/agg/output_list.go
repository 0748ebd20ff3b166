package agg

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// listOut is what outputs over a list share.
type listOut struct {
	set  *Set
	slot int
}

func (o *listOut) get(st *Store, rec uint32) []byte {
	return st.Blob.Get(state.Ref(*st.word(rec, o.set.offset(o.slot))))
}

// endOut writes the first or last value of a list.
type endOut struct {
	listOut
	last bool
}

func (o *endOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for k, r := range recs {
		var found []byte
		rows(o.get(st, r), func(i int, row []byte) {
			if i == 0 || o.last {
				found = row
			}
		})
		if found == nil {
			out.SetNull(at + k)
			continue
		}
		state.DecodeValue(found, out, at+k)
	}
	return nil
}

// joinOut writes LISTAGG: the strings of a list, joined.
type joinOut struct {
	listOut
	sep string
}

func (o *joinOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for k, r := range recs {
		buf := out.BeginBytes()
		n := rows(o.get(st, r), func(i int, row []byte) {
			if i > 0 {
				buf = append(buf, o.sep...)
			}
			buf = append(buf, row[5:]...) // after the mark of NULL and the length
		})
		if n == 0 {
			out.SetNull(at + k)
			continue
		}
		out.EndBytes(at+k, buf)
	}
	return nil
}

// arrayOut writes ARRAY_AGG, NULL for no rows.
type arrayOut struct{ listOut }

func (o *arrayOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	kid := out.Kids[0]
	for k, r := range recs {
		start := kid.Len()
		n := rows(o.get(st, r), func(_ int, row []byte) {
			kid.Resize(kid.Len() + 1)
			state.DecodeValue(row, kid, kid.Len()-1)
		})
		if n == 0 {
			out.SetNull(at + k)
			continue
		}
		out.Refs[at+k] = vec.Ref{Off: uint32(start), Len: uint32(n)}
	}
	return nil
}

// multisetOut writes COLLECT: each different value once, in the order of its first row, with the
// number of its rows.
type multisetOut struct{ listOut }

func (o *multisetOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	elem, count := out.Kids[0], out.Kids[1]
	for k, r := range recs {
		start := elem.Len()
		seen := map[string]int{}
		rows(o.get(st, r), func(_ int, row []byte) {
			i, ok := seen[string(row)]
			if !ok {
				i = elem.Len()
				seen[string(row)] = i
				elem.Resize(i + 1)
				state.DecodeValue(row, elem, i)
				count.Resize(i + 1)
				count.I32[i] = 0
			}
			count.I32[i]++
		})
		out.Refs[at+k] = vec.Ref{Off: uint32(start), Len: uint32(len(seen))}
	}
	return nil
}

// jsonOut writes JSON_ARRAYAGG and JSON_OBJECTAGG. In an object a later value replaces an earlier
// one of the same key, and keys come in order.
type jsonOut struct {
	listOut
	object bool
	absent bool // leave NULLs out
	raw    bool // values are JSON already
	types  []types.Type
	tmp    []*vec.Vec
}

func (o *jsonOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for len(o.tmp) < len(o.types) {
		o.tmp = append(o.tmp, vec.New(o.types[len(o.tmp)], 1))
	}
	for k, r := range recs {
		buf := out.BeginBytes()
		if o.object {
			buf = o.objectOf(buf, o.get(st, r))
		} else {
			buf = append(buf, '[')
			first := true
			rows(o.get(st, r), func(_ int, row []byte) {
				o.decode(row)
				if o.absent && o.tmp[0].IsNull(0) {
					return
				}
				if !first {
					buf = append(buf, ',')
				}
				first = false
				buf = o.value(buf, o.tmp[0])
			})
			buf = append(buf, ']')
		}
		out.EndBytes(at+k, buf)
	}
	return nil
}

func (o *jsonOut) objectOf(buf, list []byte) []byte {
	values := map[string]string{}
	rows(list, func(_ int, row []byte) {
		o.decode(row)
		if o.absent && o.tmp[1].IsNull(0) || o.tmp[0].IsNull(0) {
			return
		}
		values[string(o.tmp[0].Bytes(0))] = string(o.value(nil, o.tmp[1]))
	})
	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	buf = append(buf, '{')
	for i, k := range keys {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(appendJSONString(buf, k), ':')
		buf = append(buf, values[k]...)
	}
	return append(buf, '}')
}

func (o *jsonOut) decode(row []byte) {
	for _, v := range o.tmp {
		v.Reset(1)
		row = state.DecodeValue(row, v, 0)
	}
}

// jsonKinds are the types that value can write.
func jsonKinds(t types.Type) bool {
	switch t.Phys() {
	case types.PList, types.PRow:
		return false
	case types.PI32, types.PI64, types.PI128:
		return t.IsNumeric()
	case types.PBytes:
		return t.IsString()
	}
	return true
}

func (o *jsonOut) value(dst []byte, v *vec.Vec) []byte {
	if v.IsNull(0) {
		return append(dst, "null"...)
	}
	switch v.Phys {
	case types.PBool:
		return strconv.AppendBool(dst, v.Bool[0])
	case types.PI32:
		return strconv.AppendInt(dst, int64(v.I32[0]), 10)
	case types.PI64:
		if v.Type.Kind == types.Decimal {
			return append(dst, types.I128(v.I64[0]).DecimalString(v.Type.Scale)...)
		}
		return strconv.AppendInt(dst, v.I64[0], 10)
	case types.PI128:
		return append(dst, v.I128[0].DecimalString(v.Type.Scale)...)
	case types.PF32:
		return appendFloat(dst, float64(v.F32[0]), 32)
	case types.PF64:
		return appendFloat(dst, v.F64[0], 64)
	}
	if o.raw {
		return append(dst, v.Bytes(0)...)
	}
	return appendJSONString(dst, string(v.Bytes(0)))
}

// appendFloat writes a number as Java does: with a fraction always, with an exponent outside of
// 10^-3 to 10^7. What JSON cannot say is a string.
func appendFloat(dst []byte, x float64, size int) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(strconv.AppendFloat(append(dst, '"'), x, 'g', -1, size), '"')
	}
	if a := math.Abs(x); a != 0 && (a < 1e-3 || a >= 1e7) {
		s := strconv.AppendFloat(nil, x, 'E', -1, size)
		e := slices.Index(s, 'E')
		mant, exp := s[:e], s[e+1:]
		dst = append(dst, mant...)
		if slices.Index(mant, '.') < 0 {
			dst = append(dst, ".0"...)
		}
		n, _ := strconv.Atoi(string(exp))
		return strconv.AppendInt(append(dst, 'E'), int64(n), 10)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, x, 'f', -1, size)
	if slices.Index(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}

// percentileOut writes PERCENTILE: exact, interpolated between neighbours.
type percentileOut struct {
	listOut
	shares []float64
	array  bool
	tmp    []float64
}

func (o *percentileOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for k, r := range recs {
		o.tmp = o.tmp[:0]
		rows(o.get(st, r), func(_ int, row []byte) {
			o.tmp = append(o.tmp, math.Float64frombits(binary.LittleEndian.Uint64(row[1:])))
		})
		slices.Sort(o.tmp)
		writeShares(out, at+k, o.shares, o.array, len(o.tmp) == 0, func(p float64) float64 {
			pos := p * float64(len(o.tmp)-1)
			lo := int(pos)
			hi := min(lo+1, len(o.tmp)-1)
			return o.tmp[lo] + (o.tmp[hi]-o.tmp[lo])*(pos-float64(lo))
		})
	}
	return nil
}

// writeShares writes the value for each share, as an ARRAY or alone.
func writeShares(out *vec.Vec, i int, shares []float64, array, null bool, f func(p float64) float64) {
	switch {
	case null:
		out.SetNull(i)
	case array:
		kid := out.Kids[0]
		start := kid.Len()
		kid.Resize(start + len(shares))
		for j, p := range shares {
			kid.F64[start+j] = f(p)
		}
		out.Refs[i] = vec.Ref{Off: uint32(start), Len: uint32(len(shares))}
	default:
		out.F64[i] = f(shares[0])
	}
}
