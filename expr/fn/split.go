package fn

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// SPLIT_INDEX: a piece of a text. With a separator of one byte and a constant index, the usual case, the
// text is searched eight bytes at a time, and several pieces of one text are found in one pass: the
// calls become fields of one row that $SPLIT makes.

func init() {
	expr.Register(expr.Func{
		Name: "SPLIT_INDEX", Usage: "SPLIT_INDEX(string, separator, index)", Category: catString,
		Doc: "Piece number index, from 0, of the string split at each separator (a string, or the code of a " +
			"character); NULL if there is none.",
		Infer:   oneOf(sig(maybe(types.StringType), 3, str, str, integer), sig(maybe(types.StringType), 3, str, integer, integer)),
		Compile: compileSplitIndex, Fuse: fuseSplits,
	})
	expr.RegisterPart(expr.Func{Name: "$SPLIT", Compile: compileSplit})
}

// constSplit returns the separator and the index of a call of SPLIT_INDEX where they are a byte and a
// constant that is not negative.
func constSplit(c *expr.Call) (sep byte, index int, ok bool) {
	n, ok := expr.ConstInt(c.Args[2])
	if !ok || n < 0 {
		return 0, 0, false
	}
	if s, ok := expr.ConstString(c.Args[1]); ok && len(s) == 1 {
		return s[0], int(n), true
	}
	code, ok := expr.ConstInt(c.Args[1])
	return byte(code), int(n), ok && code >= 1 && code < utf8.RuneSelf
}

// maxFused bounds the index up to which pieces are found together: positions are kept for all.
const maxFused = 256

// fuseSplits makes calls that split one text at one separator fields of one $SPLIT.
func fuseSplits(calls []*expr.Call) []expr.Expr {
	type group struct {
		text    expr.Expr
		sep     byte
		indexes []int
		split   *expr.Call
	}
	var groups []*group
	of := make([]*group, len(calls))
	for i, c := range calls {
		sep, at, ok := constSplit(c)
		if !ok || at > maxFused {
			continue
		}
		k := slices.IndexFunc(groups, func(g *group) bool { return g.sep == sep && expr.Same(g.text, c.Args[0]) })
		if k < 0 {
			k = len(groups)
			groups = append(groups, &group{text: c.Args[0], sep: sep})
		}
		of[i] = groups[k]
		if !slices.Contains(of[i].indexes, at) {
			of[i].indexes = append(of[i].indexes, at)
		}
	}
	out := make([]expr.Expr, len(calls))
	for i, g := range of {
		if g == nil || len(g.indexes) < 2 {
			continue
		}
		c := calls[i]
		if g.split == nil {
			slices.Sort(g.indexes)
			g.split = &expr.Call{Fn: "$SPLIT", Pos: c.Pos, Args: []expr.Expr{g.text, number(int(g.sep))}}
			var fields []types.Field
			for _, at := range g.indexes {
				g.split.Args = append(g.split.Args, number(at))
				fields = append(fields, types.Field{Type: types.StringType})
			}
			g.split.T = types.RowType(fields...).NotNull()
		}
		_, at, _ := constSplit(c)
		out[i] = &expr.Call{Fn: "FIELD", T: c.T, Pos: c.Pos,
			Args: []expr.Expr{g.split, number(slices.Index(g.indexes, at))}}
	}
	return out
}

func number(n int) *expr.Literal {
	return &expr.Literal{Value: int64(n), T: types.IntType.NotNull()}
}

// compileSplit compiles $SPLIT(text, separator, index, index ...), indexes ascending, to a row of pieces.
func compileSplit(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	sep, _ := expr.ConstInt(c.Args[1])
	var indexes []int
	for _, a := range c.Args[2:] {
		n, _ := expr.ConstInt(a)
		indexes = append(indexes, int(n))
	}
	k := newPieceFinder(byte(sep), indexes)
	return func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		k.run(args[0], out.Kids, n, sel)
	}, nil
}

func compileSplitIndex(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	if sep, at, ok := constSplit(c); ok && at <= maxFused {
		k := newPieceFinder(sep, []int{at})
		one := make([]*vec.Vec, 1)
		return func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
			one[0] = out
			k.run(args[0], one, n, sel)
		}, nil
	}
	code := c.Args[1].Type().IsInteger()
	var sep [1]byte
	return slicing(0, func(args []*vec.Vec, i int) (from, to int, ok bool) {
		n := int(args[2].I32[i])
		if n < 0 {
			return 0, 0, false
		}
		if !code {
			return piece(text(args, 0, i), text(args, 1, i), n)
		}
		if c := args[1].I32[i]; c >= 1 && c < utf8.RuneSelf {
			sep[0] = byte(c)
			return piece(text(args, 0, i), sep[:], n)
		} else if c >= utf8.RuneSelf && c <= 255 {
			return piece(text(args, 0, i), []byte(string(rune(c))), n)
		}
		return 0, 0, false
	}), nil
}

// pieceFinder finds pieces of texts.
type pieceFinder struct {
	sep     byte
	indexes []int // ascending
	// ends holds where the pieces up to the last one wanted end, with a slot in front for the start of
	// the text: piece k lies between ends[k] and ends[k+1], the separator at its front left out.
	ends []int32
}

func newPieceFinder(sep byte, indexes []int) *pieceFinder {
	return &pieceFinder{sep: sep, indexes: indexes, ends: make([]int32, indexes[len(indexes)-1]+2)}
}

// run writes the pieces of the texts a to out, a vector an index, as places in the texts' own bytes.
func (s *pieceFinder) run(a *vec.Vec, out []*vec.Vec, n int, sel []int32) {
	for _, o := range out {
		o.ShareBuf(a.Buf)
		o.CopyValid(a.Valid)
	}
	if sel != nil {
		for _, i := range sel {
			s.row(a, out, int(i))
		}
		return
	}
	for i := range n {
		s.row(a, out, i)
	}
}

func (s *pieceFinder) row(a *vec.Vec, out []*vec.Vec, i int) {
	if a.IsNull(i) {
		return // the results are NULL already
	}
	r := a.Refs[i]
	found := 0
	if r.Len > 0 { // an empty string has no pieces
		found = s.find(a.Buf, int(r.Off), int(r.Len))
	}
	for j, o := range out {
		k := s.indexes[j]
		if k >= found {
			o.SetNull(i)
			continue
		}
		from := s.ends[k] + 1
		o.Refs[i] = vec.Ref{Off: r.Off + uint32(from), Len: uint32(s.ends[k+1] - from)}
	}
}

// find fills ends for the text of n bytes, at least one, at buf[off] and returns how many pieces it
// found; it stops behind the last one wanted.
func (s *pieceFinder) find(buf []byte, off, n int) int {
	ends := s.ends
	ends[0] = -1
	k, at := 1, 0
	same := uint64(s.sep) * eachByte
	// A word may reach beyond the text, but not beyond the buffer.
	for ; at < n && off+at+8 <= len(buf); at += 8 {
		x := binary.LittleEndian.Uint64(buf[off+at:]) ^ same
		// The high bit of each byte that is zero.
		for hit := ^((x&low7 + low7) | x | low7); hit != 0; hit &= hit - 1 {
			end := at + bits.TrailingZeros64(hit)/8
			if end >= n {
				break
			}
			ends[k] = int32(end)
			if k++; k == len(ends) {
				return k - 1
			}
		}
	}
	for ; at < n; at++ {
		if buf[off+at] == s.sep {
			ends[k] = int32(at)
			if k++; k == len(ends) {
				return k - 1
			}
		}
	}
	ends[k] = int32(n)
	return k
}

// piece finds piece n of s split at sep; an empty separator stands for white space, an empty string
// has no pieces.
func piece(s, sep []byte, n int) (from, to int, ok bool) {
	if len(s) == 0 {
		return 0, 0, false
	}
	for ; ; n-- {
		k, w := bytes.Index(s[from:], sep), len(sep)
		if w == 0 {
			k, w = bytes.IndexAny(s[from:], " \t\n\v\f\r"), 1
		}
		if n == 0 {
			if k < 0 {
				return from, len(s), true
			}
			return from, from + k, true
		}
		if k < 0 {
			return 0, 0, false
		}
		from += k + w
	}
}
