package postgres

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// encode appends value i of a vector, which is not NULL, in the form of a wire.
type encode func(dst []byte, v *vec.Vec, i int) []byte

var be = binary.BigEndian

// encoder returns the function that turns values of type t into wire w; nil if there is none.
func encoder(t types.Type, w wire) encode {
	switch w {
	case wBool:
		return encodeBool
	case wInt2, wInt4, wInt8:
		return integerEncoder(t, w)
	case wFloat4, wFloat8:
		return floatEncoder(t, w)
	case wNumeric:
		return numericEncoder(t)
	case wText:
		if t.Kind == types.Array {
			return encodeArray
		}
		return encodeBytes
	case wBytea:
		return encodeBytes
	case wDate:
		return func(dst []byte, v *vec.Vec, i int) []byte { return be.AppendUint32(dst, uint32(pgDate(v.I32[i]))) }
	case wTime:
		return func(dst []byte, v *vec.Vec, i int) []byte { return be.AppendUint64(dst, uint64(v.I32[i])*1000) }
	case wTimestamp, wTimestampTZ:
		if t.Phys() == types.PI64 {
			return func(dst []byte, v *vec.Vec, i int) []byte { return be.AppendUint64(dst, uint64(pgMicros(v.I64[i], 0))) }
		}
		return func(dst []byte, v *vec.Vec, i int) []byte {
			return be.AppendUint64(dst, uint64(pgMicros(v.I128[i].Hi, v.I128[i].Lo)))
		}
	case wInterval:
		if t.Kind == types.IntervalYearMonth {
			return func(dst []byte, v *vec.Vec, i int) []byte {
				return be.AppendUint32(append(dst, make([]byte, 12)...), uint32(v.I32[i]))
			}
		}
		return func(dst []byte, v *vec.Vec, i int) []byte {
			ms := min(max(v.I64[i], math.MinInt64/1000), math.MaxInt64/1000)
			return be.AppendUint64(be.AppendUint64(dst, uint64(ms*1000)), 0)
		}
	}
	return nil
}

func encodeBool(dst []byte, v *vec.Vec, i int) []byte {
	if v.Bool[i] {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func encodeBytes(dst []byte, v *vec.Vec, i int) []byte { return append(dst, v.Bytes(i)...) }

func integerEncoder(t types.Type, w wire) encode {
	if t.Phys() == types.PI64 {
		return func(dst []byte, v *vec.Vec, i int) []byte { return be.AppendUint64(dst, uint64(v.I64[i])) }
	}
	switch w {
	case wInt2:
		return func(dst []byte, v *vec.Vec, i int) []byte { return be.AppendUint16(dst, uint16(v.I32[i])) }
	case wInt4:
		return func(dst []byte, v *vec.Vec, i int) []byte { return be.AppendUint32(dst, uint32(v.I32[i])) }
	}
	return func(dst []byte, v *vec.Vec, i int) []byte { return be.AppendUint64(dst, uint64(int64(v.I32[i]))) }
}

// floatEncoder makes all NaNs one, as PostgreSQL takes them for equal: they may be keys.
func floatEncoder(t types.Type, w wire) encode {
	if w == wFloat4 {
		return func(dst []byte, v *vec.Vec, i int) []byte {
			f := v.F32[i]
			if f != f {
				f = float32(math.NaN())
			}
			return be.AppendUint32(dst, math.Float32bits(f))
		}
	}
	narrow := t.Phys() == types.PF32
	return func(dst []byte, v *vec.Vec, i int) []byte {
		var f float64
		if narrow {
			f = float64(v.F32[i])
		} else {
			f = v.F64[i]
		}
		if f != f {
			f = math.NaN()
		}
		return be.AppendUint64(dst, math.Float64bits(f))
	}
}

func numericEncoder(t types.Type) encode {
	switch t.Phys() {
	case types.PI32:
		return func(dst []byte, v *vec.Vec, i int) []byte { return appendNumeric(dst, types.I128(int64(v.I32[i])), 0) }
	case types.PI64:
		return func(dst []byte, v *vec.Vec, i int) []byte { return appendNumeric(dst, types.I128(v.I64[i]), t.Scale) }
	}
	return func(dst []byte, v *vec.Vec, i int) []byte { return appendNumeric(dst, v.I128[i], t.Scale) }
}

// appendNumeric appends x / 10^scale as a numeric: groups of four decimal digits, the point between
// two of them.
func appendNumeric(dst []byte, x types.Int128, scale int) []byte {
	sign := uint16(0)
	if x.Sign() < 0 {
		sign, x = 0x4000, x.Neg()
	}
	hi, lo := uint64(x.Hi), x.Lo
	next := func(by uint64) uint16 {
		var r uint64
		hi, r = hi/by, hi%by
		lo, r = bits.Div64(r, lo, by)
		return uint16(r)
	}
	var digits [16]uint16 // the lowest first
	n, weight := 0, -(scale+3)/4
	add := func(d uint16) {
		if n == 0 && d == 0 {
			weight++ // groups of zeros at the end are left out
			return
		}
		digits[n] = d
		n++
	}
	if part := scale % 4; part > 0 && hi|lo != 0 {
		by := uint64(types.Pow10Int64(part))
		add(next(by) * uint16(10000/by))
	}
	for hi|lo != 0 {
		add(next(10000))
	}
	if n == 0 {
		weight, sign = 0, 0
	} else {
		weight += n - 1
	}
	dst = be.AppendUint16(dst, uint16(n))
	dst = be.AppendUint16(dst, uint16(int16(weight)))
	dst = be.AppendUint16(dst, sign)
	dst = be.AppendUint16(dst, uint16(scale))
	for n--; n >= 0; n-- {
		dst = be.AppendUint16(dst, digits[n])
	}
	return dst
}

// Days, ms and microseconds from 1970 to 2000, where PostgreSQL counts from.
const (
	days2000   = 10957
	micros2000 = days2000 * 86_400_000_000
)

// pgDate shifts a date. What does not fit becomes a date that PostgreSQL refuses: the very ends of
// the range are its infinities.
func pgDate(days int32) int32 {
	if days < math.MinInt32+days2000+1 {
		return math.MinInt32 + 1
	}
	return days - days2000
}

// pgMicros turns ms since 1970 and nanoseconds within them into microseconds since 2000. What is
// finer is cut. Like pgDate at the ends.
func pgMicros(ms int64, nanos uint64) int64 {
	if ms > (math.MaxInt64-1)/1000 {
		return math.MaxInt64 - 1
	}
	if ms < (math.MinInt64+micros2000)/1000+1 {
		return math.MinInt64 + 1
	}
	return ms*1000 + int64(nanos/1000) - micros2000
}

// tuples encodes rows of batches.
type tuples struct {
	shape
	at  []int // the column of the batch for each column
	enc []encode
	key []bool
}

// append appends the row at position i of b as a tuple: the number of columns, then each with its
// length in front, -1 for NULL. Only the key is in the tuple of a row to be deleted.
func (t *tuples) append(dst []byte, b *vec.Batch, i int, onlyKey bool) []byte {
	dst = be.AppendUint16(dst, uint16(len(t.at)))
	for k, c := range t.at {
		v := b.Cols[c]
		if v.IsNull(i) || onlyKey && !t.key[k] {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		from := len(dst)
		dst = t.enc[k](append(dst, 0, 0, 0, 0), v, i)
		be.PutUint32(dst[from:], uint32(len(dst)-from-4))
	}
	return dst
}

// rows appends the selected rows of b. A -U row that comes to a sink of updates by key takes the
// key's row away, as -D does: where the new version follows, that wins.
func (t *tuples) rows(dst *rows, b *vec.Batch) {
	add := func(i int) {
		gone := b.Kind(i).Retracts()
		if gone && !t.upserts() {
			panic("BUG: a table without a key gets a row of kind " + b.Kind(i).String())
		}
		dst.buf = t.append(dst.buf, b, i, gone)
		dst.end(gone)
	}
	dst.places.Add(b, b.Selected())
	if b.Sel == nil {
		for i := range b.N {
			add(i)
		}
		return
	}
	for _, i := range b.Sel {
		add(int(i))
	}
}
