package vec

import (
	"math"

	"github.com/tidemark-stream/tidemark/types"
)

// The ends of event time, in ms. A watermark of MaxTime ends the stream: every window fires.
const (
	MinTime int64 = math.MinInt64
	MaxTime int64 = math.MaxInt64
)

// Origin names where the rows of a batch were read, for errors, dead letters and explanations.
type Origin struct {
	Source string // the table
	Split  string // the file, or topic and partition
	// Unit says what a position counts: "byte", "offset" or "row".
	Unit string
}

// Batch is a group of rows that flow together. Rows are the positions listed in Sel, in order, or
// 0..N-1 where Sel is nil; every per-row slice is indexed by position, not by rank in Sel.
type Batch struct {
	N    int // positions, selected or not
	Cols []*Vec
	// Sel lists the selected positions, ascending. nil selects all. An empty non-nil Sel
	// selects none.
	Sel []int32
	// Kinds holds the row kinds. nil: all rows are inserts.
	Kinds []types.RowKind
	// Stamps holds for each row the watermark (ms) that was in force when it arrived: the
	// combined watermark of the sources that feed its time attribute, before the row itself.
	// Selected stamps never fall within a batch. nil where nothing downstream judges time.
	Stamps []int64
	// Origin and Pos identify rows that still come one to one from a split: Pos[i] is the
	// position of row i in it. Origin is nil after operators that combine rows.
	Origin *Origin
	Pos    []int64
}

// NewBatch returns an empty batch with one vector a field of s.
func NewBatch(s types.Schema) *Batch {
	b := &Batch{Cols: make([]*Vec, s.Len())}
	for i, f := range s.Fields {
		b.Cols[i] = New(f.Type, 0)
	}
	return b
}

// Reset makes b a batch of n positions, all selected inserts, keeping the memory of vectors that
// b owns. Do not call it on a batch whose vectors were borrowed.
func (b *Batch) Reset(n int) {
	for _, c := range b.Cols {
		c.Reset(n)
	}
	*b = Batch{N: n, Cols: b.Cols}
}

// Rows is the number of selected rows.
func (b *Batch) Rows() int {
	if b.Sel != nil {
		return len(b.Sel)
	}
	return b.N
}

// Selected returns the selected positions, in order. The slice is shared: it is only read.
func (b *Batch) Selected() []int32 {
	if b.Sel != nil {
		return b.Sel
	}
	return Positions(b.N)
}

// positions are 0, 1, 2 ...; they are only read.
var positions = countTo(1 << 14)

func countTo(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// Positions returns 0, 1, 2 ... n-1. The slice is shared: it is only read.
func Positions(n int) []int32 {
	if n <= len(positions) {
		return positions[:n:n]
	}
	return countTo(n)
}

// Kind returns the row kind of position i.
func (b *Batch) Kind(i int) types.RowKind {
	if b.Kinds == nil {
		return types.Insert
	}
	return b.Kinds[i]
}

// Stamp returns the watermark that was in force when the row at position i arrived.
func (b *Batch) Stamp(i int) int64 {
	if b.Stamps == nil {
		return MinTime
	}
	return b.Stamps[i]
}

// Each calls f with every selected position. For paths that are not hot.
func (b *Batch) Each(f func(i int)) {
	if b.Sel != nil {
		for _, i := range b.Sel {
			f(int(i))
		}
		return
	}
	for i := 0; i < b.N; i++ {
		f(i)
	}
}

// Gather appends the rows of src at the given positions, with kinds, stamps and positions, to b,
// whose Sel must be nil. Column by column; the path of exchanges.
func (b *Batch) Gather(src *Batch, rows []int32) {
	n := b.N
	if src.Kinds != nil || b.Kinds != nil {
		b.Kinds = pad(b.Kinds, n, types.Insert)
		for _, i := range rows {
			b.Kinds = append(b.Kinds, src.Kind(int(i)))
		}
	}
	if src.Stamps != nil || b.Stamps != nil {
		b.Stamps = pad(b.Stamps, n, MinTime)
		for _, i := range rows {
			b.Stamps = append(b.Stamps, src.Stamp(int(i)))
		}
	}
	// Positions are kept only where all rows have one, of the same origin.
	if src.Pos != nil && (n == 0 || len(b.Pos) == n && b.Origin == src.Origin) {
		b.Origin, b.Pos = src.Origin, b.Pos[:n]
		for _, i := range rows {
			b.Pos = append(b.Pos, src.Pos[i])
		}
	} else {
		b.Origin, b.Pos = nil, nil
	}
	for c, v := range b.Cols {
		v.Gather(src.Cols[c], rows)
	}
	b.N = n + len(rows)
}

// AppendRow appends the row at position i of src. For paths that are not hot.
func (b *Batch) AppendRow(src *Batch, i int) { b.Gather(src, []int32{int32(i)}) }

func pad[T any](s []T, n int, v T) []T {
	for len(s) < n {
		s = append(s, v)
	}
	return s
}
