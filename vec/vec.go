// Package vec holds the columnar unit that flows through Tidemark: typed vectors with validity
// bitmaps, and batches of them with an optional selection, row kinds and watermark stamps.
//
// Ownership: whoever fills a batch owns it. A receiver may read it until the call it got it in
// returns, and may build a new Batch header over the same vectors (another selection, fewer
// columns), but never writes into vectors, selections, kinds or stamps it did not make. Nothing
// here is safe for concurrent writing.
package vec

import (
	"github.com/tidemark-stream/tidemark/types"
)

// BatchRows is the default number of rows in a full batch, chosen so that a handful of columns of
// a batch stay in the first two levels of cache.
const BatchRows = 2048

// Ref is a place in a buffer or child vector: of a string its first byte and length in Vec.Buf,
// of a list its first element and count in Vec.Kids.
type Ref struct{ Off, Len uint32 }

// Vec is one column of a batch: n values of one type. Only the slice that belongs to Phys is in
// use. A value whose Valid bit is clear is NULL, and what its slot holds is undefined.
type Vec struct {
	Type types.Type
	Phys types.Phys
	// Valid has bit i set when value i is not NULL (Arrow's order, LSB first). nil: no NULLs.
	Valid Bitmap

	Bool []bool
	I32  []int32
	I64  []int64
	I128 []types.Int128
	F32  []float32
	F64  []float64
	// Refs locates strings in Buf (PBytes) or elements in Kids (PList).
	Refs []Ref
	// Buf backs the strings. It may be shared with other vectors and with the bytes a source
	// read; a string never starts beyond 4 GiB.
	Buf []byte
	// Kids are the fields of a ROW (same length as this vector), the elements of an ARRAY, or
	// the keys and values of a MAP or MULTISET.
	Kids []*Vec

	n     int
	spare Bitmap // memory for a bitmap of its own
	// ownsBuf says that Buf belongs to this vector and may be appended to.
	ownsBuf bool
}

// New returns a vector of n values of type t, none NULL, their slots zero.
func New(t types.Type, n int) *Vec {
	v := &Vec{}
	v.Init(t, n)
	return v
}

// Init makes v a vector of n values of type t, reusing its memory: no NULLs, slots undefined,
// Buf empty.
func (v *Vec) Init(t types.Type, n int) {
	v.Type = t
	v.Phys = t.Phys()
	if v.Phys == types.PRow && len(v.Kids) != len(t.Fields) {
		v.Kids = make([]*Vec, len(t.Fields))
		for i := range v.Kids {
			v.Kids[i] = New(t.Fields[i].Type, 0)
		}
	}
	if v.Phys == types.PList && len(v.Kids) == 0 {
		v.Kids = []*Vec{New(*t.Elem, 0)}
		switch t.Kind {
		case types.Map:
			v.Kids = []*Vec{New(*t.Key, 0), New(*t.Elem, 0)}
		case types.Multiset:
			v.Kids = append(v.Kids, New(types.IntType.NotNull(), 0))
		}
	}
	v.Reset(n)
}

// Reset makes room for n values, none NULL, slots undefined, and empties a buffer that is its own.
func (v *Vec) Reset(n int) {
	v.Valid = nil
	if v.ownsBuf {
		v.Buf = v.Buf[:0]
	} else {
		v.Buf = nil
	}
	switch v.Phys {
	case types.PList:
		for _, k := range v.Kids {
			k.Reset(0)
		}
	case types.PRow:
		for _, k := range v.Kids {
			k.Reset(n)
		}
	}
	v.Resize(n)
}

// Resize sets the number of values to n and keeps what is there. New slots are undefined and,
// where there is a bitmap, valid.
func (v *Vec) Resize(n int) {
	switch v.Phys {
	case types.PBool:
		v.Bool = grow(v.Bool, n)
	case types.PI32:
		v.I32 = grow(v.I32, n)
	case types.PI64:
		v.I64 = grow(v.I64, n)
	case types.PI128:
		v.I128 = grow(v.I128, n)
	case types.PF32:
		v.F32 = grow(v.F32, n)
	case types.PF64:
		v.F64 = grow(v.F64, n)
	case types.PBytes, types.PList:
		v.Refs = grow(v.Refs, n)
	case types.PRow:
		for _, k := range v.Kids {
			k.Resize(n)
		}
	}
	if v.Valid != nil {
		grown := v.Valid.resize(v.n, n)
		if cap(grown) != cap(v.Valid) {
			v.spare = grown // new memory is v's own, and used again after Reset
		}
		v.Valid = grown
	}
	v.n = n
}

func grow[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	out := make([]T, n, max(n, 2*cap(s)))
	copy(out, s)
	return out
}

// Len is the number of values.
func (v *Vec) Len() int { return v.n }

// IsNull reports whether value i is NULL.
func (v *Vec) IsNull(i int) bool {
	return v.Valid != nil && !v.Valid.Get(i) || v.Phys == types.PNone
}

// SetNull makes value i NULL.
func (v *Vec) SetNull(i int) {
	if v.Valid == nil {
		v.AllValid()
	}
	v.Valid.Clear(i)
	if v.Refs != nil && i < len(v.Refs) {
		v.Refs[i] = Ref{}
	}
}

// AllValid gives v a bitmap of its own with every bit set, reusing memory.
func (v *Vec) AllValid() {
	w := (v.n + 63) / 64
	if cap(v.spare) < w {
		v.spare = make(Bitmap, w, 2*w)
	}
	v.Valid = v.spare[:w]
	v.Valid.SetAll(v.n)
}

// CopyValid makes v NULL where valid has a clear bit; nil means nowhere.
func (v *Vec) CopyValid(valid Bitmap) {
	if valid == nil {
		v.Valid = nil
		return
	}
	v.AllValid()
	copy(v.Valid, valid[:min(len(valid), len(v.Valid))])
}

// SetValid makes value i not NULL; its slot must be or become defined.
func (v *Vec) SetValid(i int) {
	if v.Valid != nil {
		v.Valid.Set(i)
	}
}

// MayHaveNulls reports whether there is a bitmap; without one no value is NULL.
func (v *Vec) MayHaveNulls() bool { return v.Valid != nil || v.Phys == types.PNone }

// Bytes returns string or binary value i. It points into Buf.
func (v *Vec) Bytes(i int) []byte {
	r := v.Refs[i]
	return v.Buf[r.Off : r.Off+r.Len : r.Off+r.Len]
}

// SetBytes stores a copy of b as value i, appending to the vector's own buffer.
func (v *Vec) SetBytes(i int, b []byte) {
	v.own()
	v.Refs[i] = Ref{uint32(len(v.Buf)), uint32(len(b))}
	v.Buf = append(v.Buf, b...)
}

// SetString is SetBytes of a string.
func (v *Vec) SetString(i int, s string) {
	v.own()
	v.Refs[i] = Ref{uint32(len(v.Buf)), uint32(len(s))}
	v.Buf = append(v.Buf, s...)
}

// BeginBytes returns the vector's own buffer for a value that the caller appends to it and then
// hands back with EndBytes.
func (v *Vec) BeginBytes() []byte { v.own(); return v.Buf }

// EndBytes takes buf, which must be what BeginBytes returned with the bytes of value i appended.
func (v *Vec) EndBytes(i int, buf []byte) {
	v.Refs[i] = Ref{uint32(len(v.Buf)), uint32(len(buf) - len(v.Buf))}
	v.Buf = buf
}

// ShareBuf makes Buf point to bytes that somebody else owns and that outlive the batch; Refs are
// then set by the caller.
func (v *Vec) ShareBuf(b []byte) { v.Buf = b; v.ownsBuf = false }

// own makes Buf appendable: bytes that belong to someone else are copied once.
func (v *Vec) own() {
	if v.ownsBuf {
		return
	}
	if len(v.Buf) > 0 {
		v.Buf = append(make([]byte, 0, 2*len(v.Buf)), v.Buf...)
	} else {
		v.Buf = nil
	}
	v.ownsBuf = true
}

// Set copies value j of src, which must have the same physical form, to value i.
func (v *Vec) Set(i int, src *Vec, j int) {
	if src.IsNull(j) {
		v.SetNull(i)
		return
	}
	if v.Valid != nil {
		v.Valid.Set(i)
	}
	switch v.Phys {
	case types.PBool:
		v.Bool[i] = src.Bool[j]
	case types.PI32:
		v.I32[i] = src.I32[j]
	case types.PI64:
		v.I64[i] = src.I64[j]
	case types.PI128:
		v.I128[i] = src.I128[j]
	case types.PF32:
		v.F32[i] = src.F32[j]
	case types.PF64:
		v.F64[i] = src.F64[j]
	case types.PBytes:
		v.SetBytes(i, src.Bytes(j))
	case types.PList:
		r := src.Refs[j]
		at := v.Kids[0].Len()
		for k, kid := range v.Kids {
			kid.AppendRange(src.Kids[k], int(r.Off), int(r.Len))
		}
		v.Refs[i] = Ref{uint32(at), r.Len}
	case types.PRow:
		for k, kid := range v.Kids {
			kid.Set(i, src.Kids[k], j)
		}
	}
}

// AppendRange appends count values of src from position at.
func (v *Vec) AppendRange(src *Vec, at, count int) {
	n := v.n
	v.Resize(n + count)
	for i := 0; i < count; i++ {
		v.Set(n+i, src, at+i)
	}
}

// Append appends value j of src.
func (v *Vec) Append(src *Vec, j int) {
	n := v.n
	v.Resize(n + 1)
	v.Set(n, src, j)
}

// Gather appends the values of src at the positions rows.
func (v *Vec) Gather(src *Vec, rows []int32) {
	n := v.n
	v.Resize(n + len(rows))
	if src.Valid == nil {
		switch v.Phys {
		case types.PBool:
			gather(v.Bool[n:], src.Bool, rows)
			return
		case types.PI32:
			gather(v.I32[n:], src.I32, rows)
			return
		case types.PI64:
			gather(v.I64[n:], src.I64, rows)
			return
		case types.PI128:
			gather(v.I128[n:], src.I128, rows)
			return
		case types.PF32:
			gather(v.F32[n:], src.F32, rows)
			return
		case types.PF64:
			gather(v.F64[n:], src.F64, rows)
			return
		case types.PBytes:
			v.own()
			buf := v.Buf
			for k, r := range rows {
				ref := src.Refs[r]
				v.Refs[n+k] = Ref{uint32(len(buf)), ref.Len}
				buf = append(buf, src.Buf[ref.Off:ref.Off+ref.Len]...)
			}
			v.Buf = buf
			return
		}
	}
	for k, r := range rows {
		v.Set(n+k, src, int(r))
	}
}

func gather[T any](dst, src []T, rows []int32) {
	dst = dst[:len(rows)]
	for k, r := range rows {
		dst[k] = src[r]
	}
}

// ShareKids makes v, a vector of rows, n rows of the given fields, none of them NULL. The fields
// stay their owners', so v must not be reset or written to afterwards, only shared again.
func (v *Vec) ShareKids(kids []*Vec, n int) {
	v.Kids = append(v.Kids[:0], kids...)
	v.Valid = nil
	v.n = n
}
