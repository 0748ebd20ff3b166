package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidemark-stream/tidemark/types"
)

// Part describes one piece of the bytes of a column of BYTES (accumulators, a result that was
// shown), so that tools can show it as a value of SQL and change it. Pieces follow one another
// without gaps, and together they are all of the bytes.
type Part struct {
	// Name is what people call it: "count", "sum_price".
	Name string `json:"name"`
	// Type is that of the value, which may always be NULL.
	Type types.Type `json:"type"`
	Form PartForm   `json:"form"`
	// Unset is the bytes that stand for NULL, nil where there are none. Where bytes have a length,
	// having none stands for NULL too.
	Unset []byte `json:"unset,omitempty"`
	// Init is the bytes in a new entry, where these are neither Unset nor, without it, zeros.
	Init []byte `json:"init,omitempty"`
	// Size is the number of bytes of a PartRaw.
	Size int `json:"size,omitempty"`
}

// PartForm says how the bytes of a Part are made. All numbers are little endian.
type PartForm string

// The forms of parts. "Sized" bytes have their length + 1 before them (4 bytes), 0 for none.
const (
	PartWord   PartForm = "word"   // 8 bytes: an integer, what is stored as one, a BOOLEAN, the bits of a DOUBLE
	PartFloat  PartForm = "float"  // 8 bytes: the bits of a FLOAT
	PartWide   PartForm = "wide"   // 16 bytes: a 128-bit value, the low half first
	PartRaw    PartForm = "raw"    // Size bytes of a form that is not known
	PartString PartForm = "string" // sized: the bytes of a string
	PartValue  PartForm = "value"  // sized: a value in the form of AppendValue
	PartList   PartForm = "list"   // sized: count (4 bytes), then for each: length (4 bytes), value (AppendValue)
	PartRows   PartForm = "rows"   // the same, each being the fields of a ROW one after the other
	PartOpaque PartForm = "opaque" // sized: bytes of a form that is not known
	PartPlain  PartForm = "plain"  // a value in the form of AppendValue
	PartLog    PartForm = "log"    // up to the end of the bytes, for each: length (4 bytes), the fields of a ROW
)

// Initial is the bytes of the part in a new entry: as if no row had come.
func (p *Part) Initial() []byte {
	switch n := p.fixed(); {
	case p.Init != nil:
		return bytes.Clone(p.Init)
	case n > 0 && p.Unset == nil:
		return make([]byte, n)
	case p.Form == PartPlain:
		return []byte{0}
	case p.Form == PartLog:
		return nil
	case p.fixed() > 0:
		return bytes.Clone(p.Unset)
	}
	return make([]byte, 4)
}

// fixed is the number of bytes of forms of fixed width, 0 of the others.
func (p *Part) fixed() int {
	switch p.Form {
	case PartWord, PartFloat:
		return 8
	case PartWide:
		return 16
	case PartRaw:
		return p.Size
	}
	return 0
}

// Decode appends to dst the value at the start of b, in the form of AppendValue, and returns the rest
// of b. ok is false where b does not begin with such a part.
func (p *Part) Decode(dst, b []byte) (out, rest []byte, ok bool) {
	if n := p.fixed(); n > 0 {
		if len(b) < n {
			return dst, b, false
		}
		dst, ok = p.decodeFixed(dst, b[:n])
		return dst, b[n:], ok
	}
	switch p.Form {
	case PartPlain:
		rest, ok = CheckValue(b, p.Type)
		if !ok {
			return dst, b, false
		}
		return append(dst, b[:len(b)-len(rest)]...), rest, true
	case PartLog:
		dst, ok = decodeRows(dst, b, p.Type, -1, true)
		return dst, nil, ok
	}
	if p.Unset != nil && bytes.HasPrefix(b, p.Unset) {
		return append(dst, 0), b[len(p.Unset):], true
	}
	if len(b) < 4 {
		return dst, b, false
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; n == 0 {
		return append(dst, 0), b, true
	}
	if uint64(n-1) > uint64(len(b)) {
		return dst, b, false
	}
	in, rest := b[:n-1], b[n-1:]
	switch p.Form {
	case PartString, PartOpaque:
		dst = binary.LittleEndian.AppendUint32(append(dst, 1), n-1)
		return append(dst, in...), rest, true
	case PartValue:
		left, valid := CheckValue(in, p.Type)
		return append(dst, in...), rest, valid && len(left) == 0
	case PartList, PartRows:
		if len(in) < 4 {
			return dst, rest, false
		}
		dst, ok = decodeRows(dst, in[4:], p.Type, int64(binary.LittleEndian.Uint32(in)), p.Form == PartRows)
		return dst, rest, ok
	}
	return dst, b, false
}

func (p *Part) decodeFixed(dst, b []byte) ([]byte, bool) {
	le := binary.LittleEndian
	if p.Unset != nil && bytes.Equal(b, p.Unset) {
		return append(dst, 0), true
	}
	dst = append(dst, 1)
	switch p.Form {
	case PartWide:
		return append(dst, b...), p.Type.Phys() == types.PI128
	case PartFloat:
		return append(dst, b[:4]...), p.Type.Phys() == types.PF32 && le.Uint32(b[4:]) == 0
	case PartRaw:
		return append(le.AppendUint32(dst, uint32(len(b))), b...), true
	}
	w := le.Uint64(b)
	switch p.Type.Phys() {
	case types.PBool:
		return append(dst, byte(w)), w <= 1
	case types.PI32:
		return le.AppendUint32(dst, uint32(w)), int64(w) == int64(int32(w))
	case types.PI64, types.PF64:
		return le.AppendUint64(dst, w), true
	case types.PF32: // kept as a DOUBLE
		return le.AppendUint32(dst, math.Float32bits(float32(math.Float64frombits(w)))), true
	}
	return dst, false
}

// decodeRows appends an ARRAY of the elements in b, of which there are n (-1: as many as there are).
// bare says that a row has no mark of its own.
func decodeRows(dst, b []byte, t types.Type, n int64, bare bool) ([]byte, bool) {
	le := binary.LittleEndian
	dst = append(dst, 1)
	head := len(dst)
	dst = le.AppendUint32(dst, 0)
	got := int64(0)
	for ; len(b) > 0; got++ {
		if len(b) < 4 {
			return dst, false
		}
		size := uint64(le.Uint32(b))
		if b = b[4:]; size > uint64(len(b)) {
			return dst, false
		}
		at := len(dst)
		if bare {
			dst = append(dst, 1)
		}
		dst = append(dst, b[:size]...)
		if rest, ok := CheckValue(dst[at:], *t.Elem); !ok || len(rest) > 0 {
			return dst, false
		}
		b = b[size:]
	}
	le.PutUint32(dst[head:], uint32(got))
	return dst, n < 0 || n == got
}

// Encode appends to dst the bytes of the part whose value v is, a whole one in the form of AppendValue.
func (p *Part) Encode(dst, v []byte) ([]byte, error) {
	if rest, ok := CheckValue(v, p.Type); !ok || len(rest) > 0 {
		return dst, fmt.Errorf("the value of '%s' is not a %s", p.Name, p.Type)
	}
	null := v[0] == 0
	switch {
	case p.Form == PartPlain:
		return append(dst, v...), nil
	case null && p.Unset != nil:
		return append(dst, p.Unset...), nil
	case null && p.fixed() == 0 && p.Form != PartLog:
		return append(dst, 0, 0, 0, 0), nil
	case null:
		return dst, fmt.Errorf("'%s' cannot be NULL", p.Name)
	}
	v = v[1:]
	le := binary.LittleEndian
	switch p.Form {
	case PartWide:
		return append(dst, v...), nil
	case PartFloat:
		return append(append(dst, v...), 0, 0, 0, 0), nil
	case PartRaw:
		if len(v)-4 != p.Size {
			return dst, fmt.Errorf("'%s' has %d bytes, not %d", p.Name, p.Size, len(v)-4)
		}
		return append(dst, v[4:]...), nil
	case PartString, PartOpaque:
		return append(le.AppendUint32(dst, le.Uint32(v)+1), v[4:]...), nil
	case PartValue:
		return append(append(le.AppendUint32(dst, uint32(len(v))+2), 1), v...), nil
	case PartLog:
		return p.encodeRows(dst, v[4:], true)
	case PartList, PartRows:
		at := len(dst)
		dst = append(le.AppendUint32(dst, 0), v[:4]...)
		dst, err := p.encodeRows(dst, v[4:], p.Form == PartRows)
		le.PutUint32(dst[at:], uint32(len(dst)-at-4)+1)
		return dst, err
	}
	switch p.Type.Phys() {
	case types.PBool:
		return le.AppendUint64(dst, uint64(v[0])), nil
	case types.PI32:
		return le.AppendUint64(dst, uint64(int64(int32(le.Uint32(v))))), nil
	case types.PF32:
		return le.AppendUint64(dst, math.Float64bits(float64(math.Float32frombits(le.Uint32(v))))), nil
	}
	return append(dst, v...), nil
}

// encodeRows appends the elements of an ARRAY, each with its length.
func (p *Part) encodeRows(dst, v []byte, bare bool) ([]byte, error) {
	for len(v) > 0 {
		rest, ok := CheckValue(v, *p.Type.Elem)
		if !ok {
			panic("BUG: an element was not checked")
		}
		one := v[:len(v)-len(rest)]
		if bare {
			if one[0] == 0 {
				return dst, fmt.Errorf("a row of '%s' cannot be NULL", p.Name)
			}
			one = one[1:]
		}
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(one))), one...)
		v = rest
	}
	return dst, nil
}
