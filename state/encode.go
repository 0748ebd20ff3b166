package state

import (
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// headNulls is the number of leading key columns whose NULL bit is in word 0; later columns take
// a word more each.
const headNulls = 24

// keyCol is where one column of a key lies in a record.
type keyCol struct {
	phys types.Phys
	at   int // first word, counted from word 0 of the record
	null int // the word that says NULL, or 0 for the bit in word 0
}

// Layout is the shape of keys: which word of a record holds what.
type Layout struct {
	Types []types.Type
	cols  []keyCol
	// words is the number of words of a key, word 0 included; lead says that word 1 is a number
	// given by the caller (the group that an entry belongs to).
	words int
	lead  bool
	// str marks the second words of strings, whose meaning depends on the length; nil if none.
	str []bool
	// plain says that the words from 1 on are those of the columns, none of which varies in length,
	// with their NULLs in word 0.
	plain bool
}

// NewLayout lays out keys of the given types. With lead, a word of the caller's comes first.
func NewLayout(keys []types.Type, lead bool) *Layout {
	l := &Layout{Types: keys, words: 1, lead: lead}
	if lead {
		l.words++
	}
	for i, t := range keys {
		c := keyCol{phys: t.Phys()}
		if i >= headNulls {
			c.null = l.words
			l.words++
		}
		c.at = l.words
		switch c.phys {
		case types.PNone:
		case types.PI128:
			l.words += 2
		case types.PBytes, types.PList, types.PRow:
			l.words += 2
			if l.str == nil {
				l.str = []bool{}
			}
		default:
			l.words++
		}
		l.cols = append(l.cols, c)
	}
	l.plain = l.str == nil && !lead && len(keys) <= headNulls
	if l.str != nil {
		l.str = make([]bool, l.words)
		for _, c := range l.cols {
			if c.varies() {
				l.str[c.at+1] = true
			}
		}
	}
	return l
}

func (c keyCol) varies() bool {
	return c.phys == types.PBytes || c.phys == types.PList || c.phys == types.PRow
}

// wide is the number of words of a column of fixed width.
func (c keyCol) wide() int {
	if c.phys == types.PI128 {
		return 2
	}
	return 1
}

// Words is the number of words of a key, word 0 included.
func (l *Layout) Words() int { return l.words }

// Encoder turns the keys of a batch's rows into rows of words, hashed. One encoder serves any
// number of tables of the same layout, a batch at a time.
type Encoder struct {
	*Layout
	n     int
	words []uint64
	hash  []uint64
	buf   []byte // strings over inlineBytes of this batch
	cand  []uint64
}

// NewEncoder returns an encoder for l.
func NewEncoder(l *Layout) *Encoder { return &Encoder{Layout: l} }

// Len is the number of keys encoded.
func (e *Encoder) Len() int { return e.n }

// Hash is the frozen hash of key k.
func (e *Encoder) Hash(k int) uint32 { return uint32(e.words[k*e.Layout.words]) }

// Encode takes the key columns at the positions rows. lead has a number for each row where the
// layout has a lead; it is not part of the frozen hash of the columns but mixed in.
func (e *Encoder) Encode(cols []*vec.Vec, rows []int32, lead []uint32) {
	n := len(rows)
	e.n = n
	e.buf = e.buf[:0]
	if need := n * e.Layout.words; cap(e.words) < need {
		e.words = make([]uint64, need+need/2)
		e.hash = make([]uint64, n+n/2)
		e.cand = make([]uint64, n+n/2)
	}
	e.words = e.words[:n*e.Layout.words]
	e.hash, e.cand = e.hash[:n], e.cand[:n]
	if e.oneInt(cols, rows) {
		return
	}
	stride := e.Layout.words
	if e.lead {
		for k, w := 0, 0; k < n; k, w = k+1, w+stride {
			e.words[w] = 0
			e.words[w+1] = uint64(lead[k])
			e.hash[k] = fold(hashSeed, uint64(lead[k]))
		}
	} else {
		for k, w := 0, 0; k < n; k, w = k+1, w+stride {
			e.words[w] = 0
			e.hash[k] = hashSeed
		}
	}
	for i, c := range e.cols {
		e.column(i, c, cols[i], rows)
	}
	for k, w := 0, 0; k < n; k, w = k+1, w+stride {
		e.words[w] |= uint64(finish(e.hash[k]))
	}
}

// oneInt encodes keys of a single integer column without NULLs in one pass.
func (e *Encoder) oneInt(cols []*vec.Vec, rows []int32) bool {
	if e.lead || len(cols) != 1 || cols[0].Valid != nil {
		return false
	}
	switch e.cols[0].phys {
	case types.PI64:
		encodeOne(e.words, cols[0].I64, rows)
	case types.PI32:
		encodeOne(e.words, cols[0].I32, rows)
	default:
		return false
	}
	return true
}

func encodeOne[T int32 | int64](words []uint64, v []T, rows []int32) {
	words = words[:2*len(rows)]
	for k, r := range rows {
		x := uint64(int64(v[r]))
		words[2*k] = uint64(finish(fold(hashSeed, x)))
		words[2*k+1] = x
	}
}

func (e *Encoder) column(i int, c keyCol, v *vec.Vec, rows []int32) {
	if c.null != 0 {
		for k, r := range rows {
			e.words[k*e.Layout.words+c.null] = 0
			if v.IsNull(int(r)) {
				e.words[k*e.Layout.words+c.null] = 1
			}
		}
	}
	switch c.phys {
	case types.PNone:
		e.nulls(i, c, v, rows)
		return
	case types.PBool:
		w, at := e.words, c.at
		for k, r := range rows {
			var x uint64
			if v.Bool[r] {
				x = 1
			}
			w[at] = x
			at += e.Layout.words
			e.hash[k] = fold(e.hash[k], x)
		}
	case types.PI32:
		encodeInts(e, c.at, v.I32, rows)
	case types.PI64:
		encodeInts(e, c.at, v.I64, rows)
	case types.PF32:
		at := c.at
		for k, r := range rows {
			x := uint64(math.Float32bits(v.F32[r]))
			e.words[at] = x
			at += e.Layout.words
			e.hash[k] = fold(e.hash[k], x)
		}
	case types.PF64:
		at := c.at
		for k, r := range rows {
			x := math.Float64bits(v.F64[r])
			e.words[at] = x
			at += e.Layout.words
			e.hash[k] = fold(e.hash[k], x)
		}
	case types.PI128:
		at := c.at
		for k, r := range rows {
			x := v.I128[r]
			e.words[at], e.words[at+1] = x.Lo, uint64(x.Hi)
			at += e.Layout.words
			e.hash[k] = fold(fold(e.hash[k], x.Lo), uint64(x.Hi))
		}
	case types.PBytes:
		e.strings(c.at, v, rows)
		return // NULLs are seen to: their bytes must not be read
	default:
		e.nested(c.at, v, rows)
		return
	}
	if v.Valid != nil {
		e.nulls(i, c, v, rows)
	}
}

func encodeInts[T int32 | int64](e *Encoder, at int, v []T, rows []int32) {
	stride := e.Layout.words
	hash := e.hash[:len(rows)]
	words := e.words
	for k, r := range rows {
		x := uint64(int64(v[r]))
		words[at] = x
		at += stride
		hash[k] = fold(hash[k], x)
	}
}

// nulls overwrites the slots of NULLs: zero words, their bit, and the hash from the start, since
// what was folded for them came from undefined slots.
func (e *Encoder) nulls(i int, c keyCol, v *vec.Vec, rows []int32) {
	stride := e.Layout.words
	for k, r := range rows {
		if !v.IsNull(int(r)) {
			continue
		}
		w := e.words[k*stride : (k+1)*stride]
		e.setNull(i, c, w)
		e.hash[k] = fold(e.refold(w, i), nullWord)
	}
}

func (e *Encoder) setNull(i int, c keyCol, w []uint64) {
	if c.null == 0 {
		w[0] |= 1 << (32 + i)
	}
	if c.phys == types.PNone {
		return
	}
	w[c.at] = 0
	if c.phys == types.PI128 || c.varies() {
		w[c.at+1] = 0
	}
}

// refold is the running hash of a key of the batch before column n.
func (e *Encoder) refold(w []uint64, n int) uint64 {
	return e.hashWords(w, n, func(at uint64, size uint32) []byte {
		return e.buf[at : at+uint64(size)]
	})
}

// hashWords is the running hash of the key w before column n; long finds the bytes of a long
// string by its second word and its length.
func (l *Layout) hashWords(w []uint64, n int, long func(at uint64, size uint32) []byte) uint64 {
	h := uint64(hashSeed)
	if l.lead {
		h = fold(h, w[1])
	}
	for i, c := range l.cols[:n] {
		switch {
		case c.isNull(i, w):
			h = fold(h, nullWord)
		case c.phys == types.PI128:
			h = fold(fold(h, w[c.at]), w[c.at+1])
		case c.varies():
			h = fold(h, w[c.at])
			if size := uint32(w[c.at]); size > inlineBytes {
				h = fold(h, xxh3.Hash(long(w[c.at+1], size)))
			} else {
				h = fold(h, w[c.at+1])
			}
		default:
			h = fold(h, w[c.at])
		}
	}
	return h
}

func (c keyCol) isNull(i int, w []uint64) bool {
	if c.null != 0 {
		return w[c.null] != 0
	}
	return w[0]&(1<<(32+i)) != 0
}

func (e *Encoder) strings(at int, v *vec.Vec, rows []int32) {
	stride := e.Layout.words
	i := e.colAt(at)
	for k, r := range rows {
		w := e.words[k*stride : (k+1)*stride]
		if v.Valid != nil && !v.Valid.Get(int(r)) {
			e.setNull(i, e.cols[i], w)
			e.hash[k] = fold(e.hash[k], nullWord)
			continue
		}
		ref := v.Refs[r]
		b := v.Buf[ref.Off : ref.Off+ref.Len]
		if n := uint64(len(b)); n >= 8 && n <= inlineBytes {
			// The most frequent lengths of codes and dates; see inline.
			w0 := n | uint64(binary.LittleEndian.Uint32(b))<<32
			w1 := binary.LittleEndian.Uint64(b[n-8:]) >> (8 * (12 - n))
			w[at], w[at+1] = w0, w1
			e.hash[k] = fold(fold(e.hash[k], w0), w1)
			continue
		}
		e.bytes(k, at, w, b)
	}
}

func (e *Encoder) colAt(at int) int {
	for i, c := range e.cols {
		if c.at == at && c.phys != types.PNone {
			return i
		}
	}
	panic("BUG: no key column at that word")
}

func (e *Encoder) bytes(k, at int, w []uint64, b []byte) {
	if len(b) > inlineBytes {
		w[at] = uint64(len(b)) | uint64(binary.LittleEndian.Uint32(b))<<32
		w[at+1] = uint64(len(e.buf))
		e.buf = append(e.buf, b...)
		e.hash[k] = fold(fold(e.hash[k], w[at]), xxh3.Hash(b))
		return
	}
	w0, w1 := inline(b)
	w[at], w[at+1] = w0, w1
	e.hash[k] = fold(fold(e.hash[k], w0), w1)
}

// inline packs up to inlineBytes bytes: length, 4 bytes, then 8.
func inline(b []byte) (w0, w1 uint64) {
	n := uint64(len(b))
	switch {
	case n >= 8:
		// The last 8 bytes are loaded whole and shifted so that bytes 4.. come first.
		w0 = n | uint64(binary.LittleEndian.Uint32(b))<<32
		w1 = binary.LittleEndian.Uint64(b[n-8:]) >> (8 * (12 - n))
	case n >= 4:
		w0 = n | uint64(binary.LittleEndian.Uint32(b))<<32
		w1 = uint64(binary.LittleEndian.Uint32(b[n-4:])) >> (8 * (8 - n))
	default:
		w0 = n
		for i := range b {
			w0 |= uint64(b[i]) << (32 + 8*i)
		}
	}
	return w0, w1
}

func (e *Encoder) nested(at int, v *vec.Vec, rows []int32) {
	stride := e.Layout.words
	i := e.colAt(at)
	var tmp []byte
	for k, r := range rows {
		w := e.words[k*stride : (k+1)*stride]
		if v.IsNull(int(r)) {
			e.setNull(i, e.cols[i], w)
			e.hash[k] = fold(e.hash[k], nullWord)
			continue
		}
		tmp = AppendValue(tmp[:0], v, int(r))
		e.bytes(k, at, w, tmp)
	}
}
