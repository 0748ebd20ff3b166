package agg

import (
	"math"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	bits = state.ChunkBits
	mask = state.ChunkMask
)

type number interface {
	int32 | int64 | float32 | float64
}

// slice returns the values of a column of physical form T.
func slice[T number](v *vec.Vec) []T {
	var out any
	switch any(T(0)).(type) {
	case int32:
		out = v.I32
	case int64:
		out = v.I64
	case float32:
		out = v.F32
	case float64:
		out = v.F64
	}
	return out.([]T)
}

// addWords adds the word at of each record s of src, times sign, to that of d of dst.
func addWords(dst, src *Store, at, srcAt int, d, s []uint32, sub bool) {
	dc, sc := dst.R.Chunks, src.R.Chunks
	for k, r := range d {
		v := sc[s[k]>>bits][int(s[k]&mask)+srcAt]
		if sub {
			v = -v
		}
		dc[r>>bits][int(r&mask)+at] += v
	}
}

// countSlot counts rows: one word.
type countSlot struct{}

func (countSlot) init() []uint64 { return []uint64{0} }

func (countSlot) add(st *Store, at int, in *Input) {
	ch := st.R.Chunks
	if in.Neg == nil {
		if in.One && len(in.Recs) > 0 {
			*st.word(in.Recs[0], at) += uint64(len(in.Recs))
			return
		}
		for _, r := range in.Recs {
			ch[r>>bits][int(r&mask)+at]++
		}
		return
	}
	for k, r := range in.Recs {
		p := &ch[r>>bits][int(r&mask)+at]
		if in.Neg[k] {
			*p--
		} else {
			*p++
		}
	}
}

func (countSlot) merge(dst, src *Store, at int, d, s []uint32) {
	addWords(dst, src, at, at, d, s, false)
}

func (countSlot) slide(dst, src *Store, at, srcAt int, d, s []uint32, _ int64, in bool) {
	addWords(dst, src, at, srcAt, d, s, !in)
}

// sumInt adds integers, or their squares, wrapping around in 64 bits: one word.
type sumInt[T int32 | int64] struct {
	col    int
	square bool
}

func (*sumInt[T]) init() []uint64 { return []uint64{0} }

func (s *sumInt[T]) add(st *Store, at int, in *Input) {
	ch := st.R.Chunks
	v := slice[T](in.Cols[s.col])
	rows := in.Rows[:len(in.Recs)]
	if in.Neg == nil && !s.square {
		if in.One && len(rows) > 0 {
			var sum int64
			for _, r := range rows {
				sum += int64(v[r])
			}
			*st.word(in.Recs[0], at) += uint64(sum)
			return
		}
		for k, r := range in.Recs {
			ch[r>>bits][int(r&mask)+at] += uint64(int64(v[rows[k]]))
		}
		return
	}
	for k, r := range in.Recs {
		x := int64(v[rows[k]])
		if s.square {
			x *= x
		}
		if in.Neg != nil && in.Neg[k] {
			x = -x
		}
		ch[r>>bits][int(r&mask)+at] += uint64(x)
	}
}

func (s *sumInt[T]) merge(dst, src *Store, at int, d, sr []uint32) {
	addWords(dst, src, at, at, d, sr, false)
}

func (s *sumInt[T]) slide(dst, src *Store, at, srcAt int, d, sr []uint32, _ int64, in bool) {
	addWords(dst, src, at, srcAt, d, sr, !in)
}

// sumDouble adds numbers as DOUBLE, or their squares, in the order of arrival: one word.
type sumDouble[T float32 | float64] struct {
	col    int
	square bool
}

func (*sumDouble[T]) init() []uint64 { return []uint64{0} }

func (s *sumDouble[T]) add(st *Store, at int, in *Input) {
	ch := st.R.Chunks
	v := slice[T](in.Cols[s.col])
	for k, r := range in.Recs {
		x := float64(v[in.Rows[k]])
		if s.square {
			x *= x
		}
		if in.Neg != nil && in.Neg[k] {
			x = -x
		}
		p := &ch[r>>bits][int(r&mask)+at]
		*p = math.Float64bits(math.Float64frombits(*p) + x)
	}
}

func (s *sumDouble[T]) merge(dst, src *Store, at int, d, sr []uint32) {
	for k, r := range d {
		p := dst.word(r, at)
		*p = math.Float64bits(math.Float64frombits(*p) + math.Float64frombits(*src.word(sr[k], at)))
	}
}

// sumFloat adds FLOATs in their own precision, as Flink does: one word.
type sumFloat struct {
	col    int
	square bool
}

func (*sumFloat) init() []uint64 { return []uint64{0} }

func addFloat(p *uint64, x float32) {
	*p = uint64(math.Float32bits(math.Float32frombits(uint32(*p)) + x))
}

func (s *sumFloat) add(st *Store, at int, in *Input) {
	v := in.Cols[s.col].F32
	for k, r := range in.Recs {
		x := v[in.Rows[k]]
		if s.square {
			x *= x
		}
		if in.Neg != nil && in.Neg[k] {
			x = -x
		}
		addFloat(st.word(r, at), x)
	}
}

func (s *sumFloat) merge(dst, src *Store, at int, d, sr []uint32) {
	for k, r := range d {
		addFloat(dst.word(r, at), math.Float32frombits(uint32(*src.word(sr[k], at))))
	}
}

// extreme keeps the least or greatest integer: one word, at first the value that loses against
// all others.
type extreme[T int32 | int64] struct {
	col int
	max bool
}

func (e *extreme[T]) init() []uint64 {
	if e.max {
		return []uint64{1 << 63}
	}
	return []uint64{1<<63 - 1}
}

func (e *extreme[T]) add(st *Store, at int, in *Input) {
	ch := st.R.Chunks
	v := slice[T](in.Cols[e.col])
	rows := in.Rows[:len(in.Recs)]
	if in.One && len(rows) > 0 {
		p := st.word(in.Recs[0], at)
		best := int64(*p)
		if e.max {
			for _, r := range rows {
				best = max(best, int64(v[r]))
			}
		} else {
			for _, r := range rows {
				best = min(best, int64(v[r]))
			}
		}
		*p = uint64(best)
		return
	}
	if e.max {
		for k, r := range in.Recs {
			p := &ch[r>>bits][int(r&mask)+at]
			if x := int64(v[rows[k]]); x > int64(*p) {
				*p = uint64(x)
			}
		}
		return
	}
	for k, r := range in.Recs {
		p := &ch[r>>bits][int(r&mask)+at]
		if x := int64(v[rows[k]]); x < int64(*p) {
			*p = uint64(x)
		}
	}
}

func (e *extreme[T]) merge(dst, src *Store, at int, d, s []uint32) {
	for k, r := range d {
		p, x := dst.word(r, at), *src.word(s[k], at)
		if e.max && int64(x) > int64(*p) || !e.max && int64(x) < int64(*p) {
			*p = x
		}
	}
}

// extremeFloat keeps the least or greatest floating-point number. As in Flink a value replaces
// another only if it compares as better, so a NaN that comes first stays.
type extremeFloat[T float32 | float64] struct {
	col int
	max bool
}

// unset is a NaN that no arithmetic produces.
const unset = 0x7FF8_5EED_0BAD_CAFE

func (e *extremeFloat[T]) init() []uint64 { return []uint64{unset} }

func (e *extremeFloat[T]) better(x float64, w uint64) bool {
	if w == unset {
		return true
	}
	if e.max {
		return x > math.Float64frombits(w)
	}
	return x < math.Float64frombits(w)
}

func (e *extremeFloat[T]) add(st *Store, at int, in *Input) {
	v := slice[T](in.Cols[e.col])
	for k, r := range in.Recs {
		p := st.word(r, at)
		if x := float64(v[in.Rows[k]]); e.better(x, *p) {
			*p = math.Float64bits(x)
		}
	}
}

func (e *extremeFloat[T]) merge(dst, src *Store, at int, d, s []uint32) {
	for k, r := range d {
		p, x := dst.word(r, at), *src.word(s[k], at)
		if x != unset && e.better(math.Float64frombits(x), *p) {
			*p = x
		}
	}
}

// extremeBool keeps the least or greatest BOOLEAN, FALSE being less: one word.
type extremeBool struct {
	col int
	max bool
}

func (e *extremeBool) init() []uint64 {
	if e.max {
		return []uint64{0}
	}
	return []uint64{1}
}

func (e *extremeBool) add(st *Store, at int, in *Input) {
	v := in.Cols[e.col].Bool
	for k, r := range in.Recs {
		if v[in.Rows[k]] == e.max {
			*st.word(r, at) = e.init()[0] ^ 1
		}
	}
}

func (e *extremeBool) merge(dst, src *Store, at int, d, s []uint32) {
	for k, r := range d {
		if x := *src.word(s[k], at); x != e.init()[0] {
			*dst.word(r, at) = x
		}
	}
}

// extreme128 keeps the least or greatest 128-bit value: two words, low first.
type extreme128 struct {
	col int
	max bool
}

func (e *extreme128) init() []uint64 {
	if e.max {
		return []uint64{0, 1 << 63}
	}
	return []uint64{1<<64 - 1, 1<<63 - 1}
}

func (e *extreme128) offer(st *Store, rec uint32, at int, x types.Int128) {
	lo, hi := st.word(rec, at), st.word(rec, at+1)
	cur := types.Int128{Lo: *lo, Hi: int64(*hi)}
	if e.max && cur.Less(x) || !e.max && x.Less(cur) {
		*lo, *hi = x.Lo, uint64(x.Hi)
	}
}

func (e *extreme128) add(st *Store, at int, in *Input) {
	v := in.Cols[e.col].I128
	for k, r := range in.Recs {
		e.offer(st, r, at, v[in.Rows[k]])
	}
}

func (e *extreme128) merge(dst, src *Store, at int, d, s []uint32) {
	for k, r := range d {
		e.offer(dst, r, at, types.Int128{Lo: *src.word(s[k], at), Hi: int64(*src.word(s[k], at+1))})
	}
}
