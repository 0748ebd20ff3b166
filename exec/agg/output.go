package agg

import (
	"math"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// present is embedded by outputs that are NULL for groups without values: slot counts them, or is
// -1 where every group has some.
type present struct {
	set *Set
	n   int
}

// absences are the ranks of the groups of an emission that have no values.
type absences struct {
	emission int
	ranks    []int32
}

// nulls sets the results of groups without values to NULL.
func (p present) nulls(st *Store, recs []uint32, out *vec.Vec, at int) {
	if p.n < 0 {
		return
	}
	for len(p.set.absent) <= p.n {
		p.set.absent = append(p.set.absent, absences{})
	}
	a := &p.set.absent[p.n]
	if a.emission != p.set.emission {
		a.emission, a.ranks = p.set.emission, a.ranks[:0]
		off := p.set.offset(p.n)
		ch := st.R.Chunks
		for k, r := range recs {
			if ch[r>>bits][int(r&mask)+off] == 0 {
				a.ranks = append(a.ranks, int32(k))
			}
		}
	}
	for _, k := range a.ranks {
		out.SetNull(at + int(k))
	}
}

// countOut writes a count.
type countOut struct {
	set  *Set
	slot int
	all  bool // of all rows
}

func (o *countOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	readInts(st, recs, o.set.offset(o.slot), out.I64[at:at+len(recs)])
	return nil
}

func readInts[T int32 | int64](st *Store, recs []uint32, off int, dst []T) {
	ch := st.R.Chunks
	dst = dst[:len(recs)]
	for k, r := range recs {
		dst[k] = T(ch[r>>bits][int(r&mask)+off])
	}
}

// intOut writes a word as an integer (or what is stored as one), wrapped to the type.
type intOut struct {
	present
	slot int
	kind types.Kind
}

// wrap brings a sum into the range of TINYINT and SMALLINT, which are stored wider.
func wrap(kind types.Kind, v []int32) {
	switch kind {
	case types.TinyInt:
		for i := range v {
			v[i] = int32(int8(v[i]))
		}
	case types.SmallInt:
		for i := range v {
			v[i] = int32(int16(v[i]))
		}
	}
}

func (o *intOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	off := o.set.offset(o.slot)
	if out.Phys == types.PI64 {
		readInts(st, recs, off, out.I64[at:at+len(recs)])
	} else {
		dst := out.I32[at : at+len(recs)]
		readInts(st, recs, off, dst)
		wrap(o.kind, dst)
	}
	o.nulls(st, recs, out, at)
	return nil
}

// avgIntOut writes sum / count, cut off.
type avgIntOut struct {
	present
	sum  int
	kind types.Kind
}

func (o *avgIntOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	sum, n := o.set.offset(o.sum), o.set.offset(o.n)
	ch := st.R.Chunks
	for k, r := range recs {
		c, p := ch[r>>bits], int(r&mask)
		var x int64
		if d := int64(c[p+n]); d != 0 {
			x = int64(c[p+sum]) / d
		}
		if out.Phys == types.PI64 {
			out.I64[at+k] = x
		} else {
			out.I32[at+k] = int32(x)
		}
	}
	if out.Phys == types.PI32 {
		wrap(o.kind, out.I32[at:at+len(recs)])
	}
	o.nulls(st, recs, out, at)
	return nil
}

// floatOut writes a word of 64 (or, single set, 32) bits as a number.
type floatOut struct {
	present
	slot   int
	single bool
	avg    bool // divided by the number of values
}

func (o *floatOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	off := o.set.offset(o.slot)
	for k, r := range recs {
		w := *st.word(r, off)
		var x float64
		switch {
		case o.single:
			x = float64(math.Float32frombits(uint32(w)))
		default:
			x = math.Float64frombits(w)
		}
		if o.avg {
			x /= float64(int64(*st.word(r, o.set.offset(o.n))))
		}
		if out.Phys == types.PF32 {
			out.F32[at+k] = float32(x)
		} else {
			out.F64[at+k] = x
		}
	}
	o.nulls(st, recs, out, at)
	return nil
}

// boolOut writes a word as a BOOLEAN.
type boolOut struct {
	present
	slot int
}

func (o *boolOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for k, r := range recs {
		out.Bool[at+k] = *st.word(r, o.set.offset(o.slot)) != 0
	}
	o.nulls(st, recs, out, at)
	return nil
}

// wideOut writes two words as a 128-bit value.
type wideOut struct {
	present
	slot int
}

func (o *wideOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	off := o.set.offset(o.slot)
	for k, r := range recs {
		out.I128[at+k] = types.Int128{Lo: *st.word(r, off), Hi: int64(*st.word(r, off+1))}
	}
	o.nulls(st, recs, out, at)
	return nil
}

// sumDecimalOut writes a sum of DECIMALs, NULL where it has more than 38 digits.
type sumDecimalOut struct{ wideOut }

func (o *sumDecimalOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	if err := o.wideOut.emit(st, recs, out, at); err != nil {
		return err
	}
	for k := range recs {
		if !fits38(out.I128[at+k]) {
			out.SetNull(at + k)
		}
	}
	return nil
}

// avgDecimalOut writes the mean of DECIMALs, rounded half away from zero to the type's scale;
// shift is how many digits that has more than the sum.
type avgDecimalOut struct {
	present
	sum, shift int
}

func (o *avgDecimalOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	sum, n := o.set.offset(o.sum), o.set.offset(o.n)
	for k, r := range recs {
		d := int64(*st.word(r, n))
		if d == 0 {
			out.SetNull(at + k)
			continue
		}
		x := types.Int128{Lo: *st.word(r, sum), Hi: int64(*st.word(r, sum+1))}
		if d < 0 { // more rows taken back than came
			x, d = x.Neg(), -d
		}
		q, ok := divDecimal(x, o.shift, uint64(d))
		if !ok || !fits38(x) {
			out.SetNull(at + k)
			continue
		}
		out.I128[at+k] = q
	}
	return nil
}

// bytesOut writes a value of the Blob as a string.
type bytesOut struct {
	present
	slot int
}

func (o *bytesOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	off := o.set.offset(o.slot)
	for k, r := range recs {
		ref := state.Ref(*st.word(r, off))
		if ref == 0 {
			out.SetNull(at + k)
			continue
		}
		out.SetBytes(at+k, st.Blob.Get(ref))
	}
	return nil
}

// dequeOut writes the value in front of a deque.
type dequeOut struct {
	present
	slot int
}

func (o *dequeOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	off := o.set.offset(o.slot)
	for k, r := range recs {
		w := *st.word(r, off+dequeFront)
		switch out.Phys {
		case types.PI64:
			out.I64[at+k] = int64(w)
		case types.PI32:
			out.I32[at+k] = int32(w)
		case types.PF32:
			out.F32[at+k] = float32(math.Float64frombits(w))
		case types.PF64:
			out.F64[at+k] = math.Float64frombits(w)
		}
	}
	o.nulls(st, recs, out, at)
	return nil
}

// varianceOut writes VAR_POP, VAR_SAMP, STDDEV_POP or STDDEV_SAMP from the sums of the values and
// of their squares, with the arithmetic that Flink's rewriting of them gives: in the type of the
// argument, so integers are cut off at every division.
type varianceOut struct {
	present
	sum, squares int
	sample, root bool
	arg          types.Type
	scale        int // of the result, DECIMAL
}

func (o *varianceOut) emit(st *Store, recs []uint32, out *vec.Vec, at int) error {
	for k, r := range recs {
		n := int64(*st.word(r, o.set.offset(o.n)))
		d := n
		if o.sample {
			d--
		}
		if d <= 0 {
			out.SetNull(at + k)
			continue
		}
		o.one(st, r, n, d, out, at+k)
	}
	return nil
}

func (o *varianceOut) one(st *Store, r uint32, n, d int64, out *vec.Vec, i int) {
	s, q := o.set.offset(o.sum), o.set.offset(o.squares)
	switch o.arg.Phys() {
	case types.PI32, types.PI64:
		if o.arg.Kind == types.Decimal {
			o.decimal(st, r, n, d, out, i)
			return
		}
		sum, sq := int64(*st.word(r, s)), int64(*st.word(r, q))
		x := (sq - sum*sum/n) / d
		if o.root {
			x = int64(math.Pow(float64(x), 0.5))
		}
		if out.Phys == types.PI64 {
			out.I64[i] = x
		} else {
			out.I32[i] = int32(x)
			wrap(o.arg.Kind, out.I32[i:i+1])
		}
	case types.PF32:
		sum := math.Float32frombits(uint32(*st.word(r, s)))
		sq := math.Float32frombits(uint32(*st.word(r, q)))
		x := (sq - sum*sum/float32(n)) / float32(d)
		if o.root {
			x = float32(math.Pow(float64(x), 0.5))
		}
		out.F32[i] = x
	case types.PF64:
		sum := math.Float64frombits(*st.word(r, s))
		sq := math.Float64frombits(*st.word(r, q))
		x := (sq - sum*sum/float64(n)) / float64(d)
		if o.root {
			x = math.Pow(x, 0.5)
		}
		out.F64[i] = x
	case types.PI128:
		o.decimal(st, r, n, d, out, i)
	}
}
