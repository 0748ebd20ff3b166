package fn

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/vec"
)

// Bytes of a word are worked on together: each byte of these words is 1, and 127.
const (
	eachByte = 0x0101010101010101
	low7     = 0x7F7F7F7F7F7F7F7F
)

// asciiCase makes the kernel of UPPER or LOWER, which changes letters from first to last: ASCII is
// changed eight bytes at a time while it is copied; a batch with other characters goes by slow, which
// appends one value to dst.
//
//go:noinline
func asciiCase(first, last byte, slow func(dst, a []byte) ([]byte, bool)) expr.Kernel {
	bySlow := expr.BytesToBytes(slow)
	return func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		a := args[0]
		out.CopyValid(a.Valid)
		buf, ok := copyASCII(out.BeginBytes(), a, out.Refs, n, sel, first, last)
		if !ok {
			bySlow(ctx, args, out, n, sel)
			return
		}
		out.Buf = buf // BeginBytes has made it the vector's own
	}
}

// copyASCII appends the selected values of a to dst, letters from first to last in the other case, and
// notes in refs where they are; false when a byte is not ASCII.
func copyASCII(dst []byte, a *vec.Vec, refs []vec.Ref, n int, sel []int32, first, last byte) ([]byte, bool) {
	rows := n
	if sel != nil {
		rows = len(sel)
	}
	at, size := len(dst), 16 // words are written beyond the last text
	for k := range rows {
		i := k
		if sel != nil {
			i = int(sel[k])
		}
		if !a.IsNull(i) {
			size += int(a.Refs[i].Len)
		}
	}
	if cap(dst)-at < size {
		dst = append(make([]byte, 0, at+size+size/4), dst...)
	}
	dst = dst[:at+size]
	// Added to a byte of seven bits, these carry into its high bit from first and from beyond last on.
	from, beyond := uint64(0x80-first)*eachByte, uint64(0x7F-last)*eachByte
	var high uint64
	for k := range rows {
		i := k
		if sel != nil {
			i = int(sel[k])
		}
		if a.IsNull(i) {
			continue
		}
		r := a.Refs[i]
		refs[i] = vec.Ref{Off: uint32(at), Len: r.Len}
		src, left := a.Buf[r.Off:], int(r.Len)
		// Two words at a time: usual texts need no branch on how long they are. A shift by 64 or
		// more gives 0, so that the mask of a whole word is all ones.
		for ; left > 0 && len(src) >= 16; left -= 16 {
			x := binary.LittleEndian.Uint64(src) & (1<<(8*uint(left)) - 1)
			y := binary.LittleEndian.Uint64(src[8:]) & (1<<(8*uint(max(left-8, 0))) - 1)
			high |= x | y
			binary.LittleEndian.PutUint64(dst[at:], x^letters(x, from, beyond)>>2)
			binary.LittleEndian.PutUint64(dst[at+8:], y^letters(y, from, beyond)>>2)
			src = src[16:]
			at += min(left, 16)
		}
		for ; left > 0; left-- {
			c := src[0]
			high |= uint64(c)
			if c >= first && c <= last {
				c ^= 0x20
			}
			dst[at] = c
			src = src[1:]
			at++
		}
	}
	return dst[:at], high&^low7 == 0
}

// letters has the high bit of each byte of x that is a letter.
func letters(x, from, beyond uint64) uint64 {
	seven := x & low7
	return (seven + from) &^ (seven + beyond) &^ x &^ low7
}
