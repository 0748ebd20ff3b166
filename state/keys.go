package state

import (
	"encoding/binary"
	"math"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// KeyColumn writes key column col of the records ids to out, from position at on; out must have
// room for them and be of the column's type, without NULLs so far at these positions.
func (t *Table) KeyColumn(col int, ids []uint32, out *vec.Vec, at int) {
	c := t.layout.cols[col]
	switch c.phys {
	case types.PNone:
		return
	case types.PBool:
		for k, id := range ids {
			out.Bool[at+k] = t.word(id, c.at) != 0
		}
	case types.PI32:
		dst := out.I32[at : at+len(ids)]
		for k, id := range ids {
			dst[k] = int32(t.word(id, c.at))
		}
	case types.PI64:
		dst := out.I64[at : at+len(ids)]
		for k, id := range ids {
			dst[k] = int64(t.word(id, c.at))
		}
	case types.PF32:
		for k, id := range ids {
			out.F32[at+k] = math.Float32frombits(uint32(t.word(id, c.at)))
		}
	case types.PF64:
		for k, id := range ids {
			out.F64[at+k] = math.Float64frombits(t.word(id, c.at))
		}
	case types.PI128:
		for k, id := range ids {
			out.I128[at+k] = types.Int128{Lo: t.word(id, c.at), Hi: int64(t.word(id, c.at+1))}
		}
	case types.PBytes:
		t.stringColumn(c.at, ids, out, at)
	default:
		var tmp []byte
		for k, id := range ids {
			if c.isNull(col, t.At(id)) {
				out.SetNull(at + k)
				continue
			}
			tmp = t.appendBytes(tmp[:0], id, c.at)
			DecodeValue(tmp, out, at+k)
		}
		return
	}
	t.nullColumn(col, ids, out, at)
}

func (t *Table) word(id uint32, off int) uint64 {
	return t.Chunks[id>>ChunkBits][int(id&ChunkMask)+off]
}

func (t *Table) nullColumn(col int, ids []uint32, out *vec.Vec, at int) {
	if !t.layout.Types[col].Nullable {
		return
	}
	c := t.layout.cols[col]
	off, bit := 0, uint64(1)<<(32+col%headNulls)
	if c.null != 0 {
		off, bit = c.null, 1
	}
	for k, id := range ids {
		if t.word(id, off)&bit != 0 {
			out.SetNull(at + k)
		}
	}
}

func (t *Table) stringColumn(off int, ids []uint32, out *vec.Vec, at int) {
	buf := out.BeginBytes()
	for k, id := range ids {
		start := len(buf)
		buf = t.appendBytes(buf, id, off)
		out.Refs[at+k] = vec.Ref{Off: uint32(start), Len: uint32(len(buf) - start)}
	}
	out.Buf = buf
}

// appendBytes appends the string whose words start at off in the record.
func (t *Table) appendBytes(dst []byte, id uint32, off int) []byte {
	w := t.At(id)[off : off+2]
	n := uint32(w[0])
	if n > inlineBytes {
		return append(dst, t.strs.Get(Ref(w[1]))...)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(w[0]>>32))
	dst = binary.LittleEndian.AppendUint64(dst, w[1])
	return dst[:len(dst)-inlineBytes+int(n)]
}

// Compare orders two records by key column col: -1, 0 or 1, NULL first. Strings compare by
// their bytes, floating-point numbers with NaN last.
func (t *Table) Compare(col int, a, b uint32) int {
	c := t.layout.cols[col]
	ra, rb := t.At(a), t.At(b)
	if na, nb := c.isNull(col, ra), c.isNull(col, rb); na || nb {
		return cmpBool(nb, na)
	}
	x, y := ra[c.at], rb[c.at]
	switch c.phys {
	case types.PF32:
		return cmpFloat(float64(math.Float32frombits(uint32(x))),
			float64(math.Float32frombits(uint32(y))))
	case types.PF64:
		return cmpFloat(math.Float64frombits(x), math.Float64frombits(y))
	case types.PI128:
		return types.Int128{Lo: x, Hi: int64(ra[c.at+1])}.Cmp(
			types.Int128{Lo: y, Hi: int64(rb[c.at+1])})
	case types.PBytes, types.PList, types.PRow:
		return t.compareBytes(ra[c.at:c.at+2], rb[c.at:c.at+2])
	}
	return cmpInt(int64(x), int64(y))
}

func (t *Table) compareBytes(x, y []uint64) int {
	var bx, by [inlineBytes]byte
	px, py := t.view(x, &bx), t.view(y, &by)
	n := min(len(px), len(py))
	for i := 0; i < n; i++ {
		if px[i] != py[i] {
			return cmpInt(int64(px[i]), int64(py[i]))
		}
	}
	return cmpInt(int64(len(px)), int64(len(py)))
}

func (t *Table) view(w []uint64, buf *[inlineBytes]byte) []byte {
	n := uint32(w[0])
	if n > inlineBytes {
		return t.strs.Get(Ref(w[1]))
	}
	binary.LittleEndian.PutUint32(buf[:], uint32(w[0]>>32))
	binary.LittleEndian.PutUint64(buf[4:], w[1])
	return buf[:n]
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b || a == a && b != b:
		return -1
	case a > b || a != a && b == b:
		return 1
	}
	return 0
}
