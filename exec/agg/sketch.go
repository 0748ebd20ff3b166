package agg

import (
	"encoding/binary"
	"math"
	mathbits "math/bits"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// hll counts distinct values with a HyperLogLog of 2^14 registers (standard error 0.8 %): one
// word, a Ref. A sketch is sparse at first, a list of hashes of 4 bytes, exact but for collisions,
// and becomes dense, a byte a register, when that is smaller.
//
//	sparse  'S', then hashes of 4 bytes, ascending, without repetition
//	dense   'D', then registers
type hll struct {
	col  int
	enc  *state.Encoder
	cols []*vec.Vec
	tmp  []byte
}

const (
	hllBits   = 14
	registers = 1 << hllBits
	sparseMax = 512
)

func newHLL(col int, t types.Type) *hll {
	return &hll{col: col, enc: state.NewEncoder(state.NewLayout([]types.Type{t}, false)),
		cols: make([]*vec.Vec, 1)}
}

func (*hll) init() []uint64 { return []uint64{0} }

func (h *hll) add(st *Store, at int, in *Input) {
	h.cols[0] = in.Cols[h.col]
	h.enc.Encode(h.cols, in.Rows, nil)
	for k, r := range in.Recs {
		h.offer(st, st.word(r, at), h.enc.Hash(k))
	}
}

func (h *hll) offer(st *Store, p *uint64, hash uint32) {
	if *p == 0 {
		*p = uint64(st.Blob.Put([]byte{'S'}))
	}
	b := st.Blob.Get(state.Ref(*p))
	if b[0] == 'D' {
		setRegister(b[1:], hash)
		return
	}
	i, found := sparseFind(b[1:], hash)
	if found {
		return
	}
	if len(b) >= 1+4*sparseMax {
		h.tmp = append(h.tmp[:0], b[1:]...)
		*p = uint64(st.Blob.Grow(state.Ref(*p), 1+registers))
		b = st.Blob.Get(state.Ref(*p))
		b[0] = 'D'
		clear(b[1:])
		for j := 0; j < len(h.tmp); j += 4 {
			setRegister(b[1:], binary.LittleEndian.Uint32(h.tmp[j:]))
		}
		setRegister(b[1:], hash)
		return
	}
	n := len(b)
	*p = uint64(st.Blob.Grow(state.Ref(*p), n+4))
	b = st.Blob.Get(state.Ref(*p))
	copy(b[1+i+4:], b[1+i:n])
	binary.LittleEndian.PutUint32(b[1+i:], hash)
}

// sparseFind returns the offset at which hash is or belongs.
func sparseFind(b []byte, hash uint32) (int, bool) {
	lo, hi := 0, len(b)/4
	for lo < hi {
		m := (lo + hi) / 2
		switch x := binary.LittleEndian.Uint32(b[4*m:]); {
		case x == hash:
			return 4 * m, true
		case x < hash:
			lo = m + 1
		default:
			hi = m
		}
	}
	return 4 * lo, false
}

// setRegister takes the register from the low bits of the hash and the rank from the high ones.
func setRegister(reg []byte, hash uint32) {
	i := hash & (registers - 1)
	rank := byte(mathbits.LeadingZeros32(hash|registers-1) + 1)
	if rank > reg[i] {
		reg[i] = rank
	}
}

func (h *hll) merge(dst, src *Store, at int, d, s []uint32) {
	for k, r := range d {
		from := src.Blob.Get(state.Ref(*src.word(s[k], at)))
		if len(from) == 0 {
			continue
		}
		p := dst.word(r, at)
		h2 := append([]byte(nil), from...) // dst may be src, whose blocks move
		if h2[0] == 'S' {
			for j := 1; j < len(h2); j += 4 {
				h.offer(dst, p, binary.LittleEndian.Uint32(h2[j:]))
			}
			continue
		}
		to := dst.Blob.Get(state.Ref(*p))
		old := append([]byte(nil), to...)
		*p = uint64(dst.Blob.Set(state.Ref(*p), h2))
		if len(old) > 0 && old[0] == 'S' {
			for j := 1; j < len(old); j += 4 {
				h.offer(dst, p, binary.LittleEndian.Uint32(old[j:]))
			}
			continue
		}
		b := dst.Blob.Get(state.Ref(*p))
		for j := 1; j < len(old); j++ {
			b[j] = max(b[j], old[j])
		}
	}
}

func (*hll) free(st *Store, at int, recs []uint32) { freeRefs(st, at, recs) }

type hllOut struct {
	set  *Set
	slot int
}

func (o *hllOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for k, r := range recs {
		out.I64[at+k] = estimate(st.Blob.Get(state.Ref(*st.word(r, o.set.offset(o.slot)))))
	}
	return nil
}

// estimate is the improved raw estimator of Ertl ("New cardinality estimation algorithms for
// HyperLogLog sketches", 2017, algorithm 6), which needs no correction tables.
func estimate(b []byte) int64 {
	if len(b) == 0 {
		return 0
	}
	if b[0] == 'S' {
		return int64(len(b)-1) / 4
	}
	const q = 32 - hllBits
	var hist [q + 2]int
	for _, r := range b[1:] {
		hist[r]++
	}
	const m = float64(registers)
	z := m * tau(1-float64(hist[q+1])/m)
	for k := q; k >= 1; k-- {
		z = (z + float64(hist[k])) / 2
	}
	z += m * sigma(float64(hist[0])/m)
	e := m * m / (2 * math.Ln2 * z)
	// Hashes have 32 bits, so of many values some share one.
	if e > 1<<24 {
		e = -(1 << 32) * math.Log1p(-e/(1<<32))
	}
	return int64(math.Round(e))
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		old := z
		z += x * y
		y += y
		if z == old {
			return z
		}
	}
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		old := z
		y /= 2
		z -= (1 - x) * (1 - x) * y
		if z == old {
			return z / 3
		}
	}
}

// quantiles keeps a DDSketch (Masson, Rim, Lee 2019): values in logarithmic buckets, so that a
// quantile is wrong by at most 1 % of its value. One word, the Ref of
//
//	count of zeros (8 bytes), then for each bucket in order: index (4 bytes), count (8 bytes)
//
// where the index of a negative value is that of its magnitude, mirrored.
type quantiles struct{ col int }

const (
	accuracy   = 0.01
	bucketSize = 12
)

var logGamma = math.Log((1 + accuracy) / (1 - accuracy))

func (*quantiles) init() []uint64 { return []uint64{0} }

// bucket is the index of x, not zero.
func bucket(x float64) int32 {
	i := int32(math.Ceil(math.Log(math.Abs(x)) / logGamma))
	i += 1 << 20 // positive for every float64
	if x < 0 {
		return -i
	}
	return i
}

// middle is the value that stands for a bucket.
func middle(i int32) float64 {
	neg := i < 0
	if neg {
		i = -i
	}
	g := math.Exp(logGamma * float64(i-1<<20))
	x := 2 * g / (1 + math.Exp(logGamma))
	if neg {
		return -x
	}
	return x
}

func (q *quantiles) add(st *Store, at int, in *Input) {
	v := in.Cols[q.col].F64
	for k, r := range in.Recs {
		x := v[in.Rows[k]]
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		if x == 0 {
			q.offer(st, st.word(r, at), 0, 1)
			continue
		}
		q.offer(st, st.word(r, at), bucket(x), 1)
	}
}

// offer adds n to a bucket; bucket 0 counts zeros.
func (q *quantiles) offer(st *Store, p *uint64, idx int32, n uint64) {
	le := binary.LittleEndian
	if *p == 0 {
		var zero [8]byte
		*p = uint64(st.Blob.Put(zero[:]))
	}
	b := st.Blob.Get(state.Ref(*p))
	if idx == 0 {
		le.PutUint64(b, le.Uint64(b)+n)
		return
	}
	list := b[8:]
	lo, hi := 0, len(list)/bucketSize
	for lo < hi {
		m := (lo + hi) / 2
		switch x := int32(le.Uint32(list[m*bucketSize:])); {
		case x == idx:
			c := list[m*bucketSize+4:]
			le.PutUint64(c, le.Uint64(c)+n)
			return
		case x < idx:
			lo = m + 1
		default:
			hi = m
		}
	}
	size := len(b)
	*p = uint64(st.Blob.Grow(state.Ref(*p), size+bucketSize))
	b = st.Blob.Get(state.Ref(*p))
	i := 8 + lo*bucketSize
	copy(b[i+bucketSize:], b[i:size])
	le.PutUint32(b[i:], uint32(idx))
	le.PutUint64(b[i+4:], n)
}

func (q *quantiles) merge(dst, src *Store, at int, d, s []uint32) {
	le := binary.LittleEndian
	for k, r := range d {
		from := append([]byte(nil), src.Blob.Get(state.Ref(*src.word(s[k], at)))...)
		if len(from) == 0 {
			continue
		}
		p := dst.word(r, at)
		q.offer(dst, p, 0, le.Uint64(from))
		for i := 8; i < len(from); i += bucketSize {
			q.offer(dst, p, int32(le.Uint32(from[i:])), le.Uint64(from[i+4:]))
		}
	}
}

func (*quantiles) free(st *Store, at int, recs []uint32) { freeRefs(st, at, recs) }

type quantilesOut struct {
	set    *Set
	slot   int
	shares []float64
	array  bool
}

func (o *quantilesOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for k, r := range recs {
		b := st.Blob.Get(state.Ref(*st.word(r, o.set.offset(o.slot))))
		writeShares(out, at+k, o.shares, o.array, len(b) == 0, func(p float64) float64 {
			return quantile(b, p)
		})
	}
	return nil
}

func quantile(b []byte, p float64) float64 {
	le := binary.LittleEndian
	zeros := le.Uint64(b)
	total := zeros
	for i := 8; i < len(b); i += bucketSize {
		total += le.Uint64(b[i+4:])
	}
	rank := uint64(p * float64(total-1))
	var sum uint64
	passedZero := false
	for i := 8; i < len(b); i += bucketSize {
		idx := int32(le.Uint32(b[i:]))
		if idx > 0 && !passedZero {
			passedZero = true
			if sum += zeros; zeros > 0 && sum > rank {
				return 0
			}
		}
		if sum += le.Uint64(b[i+4:]); sum > rank {
			return middle(idx)
		}
	}
	return 0
}
