package state

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// AppendValue appends value i of v to dst in a form that DecodeValue reads, and that is equal for
// equal values:
//
//	value   = 0x00 (NULL) | 0x01 payload
//	payload = fixed width, little endian | length (4 bytes) bytes | count (4 bytes) elements of
//	          each child | fields
func AppendValue(dst []byte, v *vec.Vec, i int) []byte {
	if v.IsNull(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	le := binary.LittleEndian
	switch v.Phys {
	case types.PBool:
		if v.Bool[i] {
			return append(dst, 1)
		}
		return append(dst, 0)
	case types.PI32:
		return le.AppendUint32(dst, uint32(v.I32[i]))
	case types.PI64:
		return le.AppendUint64(dst, uint64(v.I64[i]))
	case types.PI128:
		return le.AppendUint64(le.AppendUint64(dst, v.I128[i].Lo), uint64(v.I128[i].Hi))
	case types.PF32:
		return le.AppendUint32(dst, math.Float32bits(v.F32[i]))
	case types.PF64:
		return le.AppendUint64(dst, math.Float64bits(v.F64[i]))
	case types.PBytes:
		b := v.Bytes(i)
		return append(le.AppendUint32(dst, uint32(len(b))), b...)
	case types.PList:
		r := v.Refs[i]
		dst = le.AppendUint32(dst, r.Len)
		for _, kid := range v.Kids {
			for k := r.Off; k < r.Off+r.Len; k++ {
				dst = AppendValue(dst, kid, int(k))
			}
		}
	case types.PRow:
		for _, kid := range v.Kids {
			dst = AppendValue(dst, kid, i)
		}
	}
	return dst
}

// DecodeValue stores the value at the start of src as value i of v and returns the rest of src.
// src must come from AppendValue of a vector of the same type.
func DecodeValue(src []byte, v *vec.Vec, i int) []byte {
	if src[0] == 0 {
		v.SetNull(i)
		return src[1:]
	}
	v.SetValid(i)
	src = src[1:]
	le := binary.LittleEndian
	switch v.Phys {
	case types.PBool:
		v.Bool[i] = src[0] != 0
		return src[1:]
	case types.PI32:
		v.I32[i] = int32(le.Uint32(src))
		return src[4:]
	case types.PI64:
		v.I64[i] = int64(le.Uint64(src))
		return src[8:]
	case types.PI128:
		v.I128[i] = types.Int128{Lo: le.Uint64(src), Hi: int64(le.Uint64(src[8:]))}
		return src[16:]
	case types.PF32:
		v.F32[i] = math.Float32frombits(le.Uint32(src))
		return src[4:]
	case types.PF64:
		v.F64[i] = math.Float64frombits(le.Uint64(src))
		return src[8:]
	case types.PBytes:
		n := le.Uint32(src)
		v.SetBytes(i, src[4:4+n])
		return src[4+n:]
	case types.PList:
		n := le.Uint32(src)
		src = src[4:]
		at := v.Kids[0].Len()
		for _, kid := range v.Kids {
			kid.Resize(at + int(n))
			for k := range int(n) {
				src = DecodeValue(src, kid, at+k)
			}
		}
		v.Refs[i] = vec.Ref{Off: uint32(at), Len: n}
		return src
	case types.PRow:
		for _, kid := range v.Kids {
			src = DecodeValue(src, kid, i)
		}
		return src
	}
	panic(fmt.Sprintf("BUG: encoded value of %s", v.Type))
}

// CheckValue reads over the value of type t at the start of src as DecodeValue would, and reports
// whether that is one: for bytes that come from a file.
func CheckValue(src []byte, t types.Type) (rest []byte, ok bool) {
	if len(src) == 0 || src[0] > 1 {
		return nil, false
	}
	null := src[0] == 0
	src = src[1:]
	if null {
		return src, true
	}
	le := binary.LittleEndian
	switch p := t.Phys(); p {
	case types.PBool:
		return cut(src, 1)
	case types.PI32, types.PF32:
		return cut(src, 4)
	case types.PI64, types.PF64:
		return cut(src, 8)
	case types.PI128:
		return cut(src, 16)
	case types.PBytes:
		if len(src) < 4 {
			return nil, false
		}
		return cut(src[4:], uint64(le.Uint32(src)))
	case types.PList:
		if len(src) < 4 || uint64(le.Uint32(src)) > uint64(len(src)) {
			return nil, false
		}
		n := le.Uint32(src)
		src = src[4:]
		for _, kid := range elements(t) {
			for range n {
				if src, ok = CheckValue(src, kid); !ok {
					return nil, false
				}
			}
		}
		return src, true
	case types.PRow:
		for _, f := range t.Fields {
			if src, ok = CheckValue(src, f.Type); !ok {
				return nil, false
			}
		}
		return src, true
	}
	return nil, false
}

func cut(b []byte, n uint64) ([]byte, bool) {
	if n > uint64(len(b)) {
		return nil, false
	}
	return b[n:], true
}

// elements are the types of a list's children, as vec.Init makes them.
func elements(t types.Type) []types.Type {
	switch t.Kind {
	case types.Map:
		return []types.Type{*t.Key, *t.Elem}
	case types.Multiset:
		return []types.Type{*t.Elem, types.IntType.NotNull()}
	}
	return []types.Type{*t.Elem}
}
