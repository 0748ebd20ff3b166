package clickhouse

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func (f *field) boolean() error {
	if f.wire.kind != kBool && (f.wire.kind != kUint && f.wire.kind != kInt || f.wire.size != 1) {
		return f.unlike()
	}
	f.one = func(dst []byte, v *vec.Vec, i int) []byte {
		if v.Bool[i] {
			return append(dst, 1)
		}
		return append(dst, 0)
	}
	return nil
}

// bitsOf is how many bits an integer type has, its sign included.
func bitsOf(k types.Kind) int {
	switch k {
	case types.TinyInt:
		return 8
	case types.SmallInt:
		return 16
	case types.BigInt, types.IntervalDayTime:
		return 64
	}
	return 32
}

// integer writes integers, and intervals as their months or milliseconds, into integers of any width:
// a value that has no place there is refused.
func (f *field) integer() error {
	w := f.wire
	b := bitsOf(f.typ.Kind)
	get := func(v *vec.Vec, i int) int64 { return int64(v.I32[i]) }
	if f.typ.Phys() == types.PI64 {
		get = func(v *vec.Vec, i int) int64 { return v.I64[i] }
	}
	switch w.kind {
	case kInt, kUint:
		f.one = integerWriter(w.size, get)
		f.bulk = integerBulk(f.typ.Phys(), w.size)
		if w.kind == kUint || w.size*8 < b {
			lo, hi := limits(w)
			f.check = func(v *vec.Vec, i int) error {
				if x := get(v, i); x < lo || x > hi {
					return fmt.Errorf("%d does not fit %s", x, w.name)
				}
				return nil
			}
		}
		return nil
	case kDecimal:
		return f.toDecimal(map[int]int{8: 3, 16: 5, 32: 10, 64: 19}[b], 0, func(v *vec.Vec, i int) types.Int128 { return types.I128(get(v, i)) })
	case kFloat:
		if b > map[int]int{4: 16, 8: 32}[w.size] {
			return lossy(castHere, "%s has not as many digits", w.name)
		}
		f.one = floatWriter(w.size, func(v *vec.Vec, i int) float64 { return float64(get(v, i)) })
		return nil
	}
	return f.unlike()
}

// limits are the ends of an integer type, as far as an int64 reaches.
func limits(w *colType) (lo, hi int64) {
	lo, hi = math.MinInt64, math.MaxInt64
	if w.size < 8 {
		hi = 1<<(8*w.size-1) - 1
		lo = -hi - 1
		if w.kind == kUint {
			hi = 1<<(8*w.size) - 1
		}
	}
	if w.kind == kUint {
		lo = 0
	}
	return lo, hi
}

func integerWriter(size int, get func(*vec.Vec, int) int64) func([]byte, *vec.Vec, int) []byte {
	switch size {
	case 1:
		return func(dst []byte, v *vec.Vec, i int) []byte { return append(dst, byte(get(v, i))) }
	case 2:
		return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint16(dst, uint16(get(v, i))) }
	case 4:
		return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint32(dst, uint32(get(v, i))) }
	case 8:
		return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint64(dst, uint64(get(v, i))) }
	}
	return func(dst []byte, v *vec.Vec, i int) []byte { return appendWide(dst, types.I128(get(v, i)), size) }
}

// appendWide appends x as an integer of 16 or 32 bytes.
func appendWide(dst []byte, x types.Int128, size int) []byte {
	dst = le.AppendUint64(le.AppendUint64(dst, x.Lo), uint64(x.Hi))
	for range size/8 - 2 {
		dst = le.AppendUint64(dst, uint64(x.Hi>>63))
	}
	return dst
}

// integerBulk writes the widths that are the most frequent.
func integerBulk(p types.Phys, size int) func([]byte, *vec.Vec, []int32) []byte {
	switch {
	case p == types.PI64 && size == 8:
		return bulk64
	case p == types.PI32 && size == 8:
		return func(dst []byte, v *vec.Vec, rows []int32) []byte {
			dst, into := room(dst, 8*len(rows))
			for k, i := range rows {
				le.PutUint64(into[8*k:], uint64(int64(v.I32[i])))
			}
			return dst
		}
	case p == types.PI32 && size == 4:
		return bulk32
	}
	return nil
}

// room makes dst longer by n bytes and returns these too.
func room(dst []byte, n int) (longer, into []byte) {
	from := len(dst)
	dst = slices.Grow(dst, n)[:from+n]
	return dst, dst[from:]
}

func bulk64(dst []byte, v *vec.Vec, rows []int32) []byte {
	dst, into := room(dst, 8*len(rows))
	for k, i := range rows {
		le.PutUint64(into[8*k:], uint64(v.I64[i]))
	}
	return dst
}

func bulk32(dst []byte, v *vec.Vec, rows []int32) []byte {
	dst, into := room(dst, 4*len(rows))
	for k, i := range rows {
		le.PutUint32(into[4*k:], uint32(v.I32[i]))
	}
	return dst
}

func (f *field) float() error {
	w := f.wire
	if w.kind != kFloat {
		return f.unlike()
	}
	if f.typ.Kind == types.Float {
		f.one = floatWriter(w.size, func(v *vec.Vec, i int) float64 { return float64(v.F32[i]) })
		return nil
	}
	if w.size == 4 {
		return lossy("CAST it to FLOAT in the query, or make the column Float64", "%s has not as many digits", w.name)
	}
	f.one = floatWriter(8, func(v *vec.Vec, i int) float64 { return v.F64[i] })
	f.bulk = func(dst []byte, v *vec.Vec, rows []int32) []byte {
		dst, into := room(dst, 8*len(rows))
		for k, i := range rows {
			le.PutUint64(into[8*k:], math.Float64bits(v.F64[i]))
		}
		return dst
	}
	return nil
}

func floatWriter(size int, get func(*vec.Vec, int) float64) func([]byte, *vec.Vec, int) []byte {
	if size == 4 {
		return func(dst []byte, v *vec.Vec, i int) []byte {
			return le.AppendUint32(dst, math.Float32bits(float32(get(v, i))))
		}
	}
	return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint64(dst, math.Float64bits(get(v, i))) }
}

func (f *field) decimal() error {
	get := func(v *vec.Vec, i int) types.Int128 { return v.I128[i] }
	if f.typ.Phys() == types.PI64 {
		get = func(v *vec.Vec, i int) types.Int128 { return types.I128(v.I64[i]) }
	}
	w := f.wire
	switch w.kind {
	case kDecimal:
		return f.toDecimal(f.typ.Precision, f.typ.Scale, get)
	case kInt, kUint:
		if f.typ.Scale > 0 {
			return lossy(castHere, "%s has no digits after the point", w.name)
		}
		f.one = func(dst []byte, v *vec.Vec, i int) []byte { return appendSized(dst, get(v, i), w.size) }
		lo, hi := limits(w)
		f.check = func(v *vec.Vec, i int) error {
			x := get(v, i)
			small := w.size < 8 || w.size == 8 && w.kind == kInt
			if small && (!x.IsInt64() || int64(x.Lo) < lo || int64(x.Lo) > hi) || w.kind == kUint && (x.Sign() < 0 || w.size == 8 && x.Hi != 0) {
				return fmt.Errorf("%s does not fit %s", types.AppendDecimal(nil, x, 0), w.name)
			}
			return nil
		}
		return nil
	}
	return f.unlike()
}

func appendSized(dst []byte, x types.Int128, size int) []byte {
	switch size {
	case 1:
		return append(dst, byte(x.Lo))
	case 2:
		return le.AppendUint16(dst, uint16(x.Lo))
	case 4:
		return le.AppendUint32(dst, uint32(x.Lo))
	case 8:
		return le.AppendUint64(dst, x.Lo)
	}
	return appendWide(dst, x, size)
}

// toDecimal writes numbers of p digits, s of them after the point, unscaled as get gives them.
func (f *field) toDecimal(p, s int, get func(*vec.Vec, int) types.Int128) error {
	w := f.wire
	if s > w.scale {
		return lossy(castHere, "%s has %d digits after the point less", w.name, s-w.scale)
	}
	up := w.scale - s
	switch {
	case up == 0:
		f.one = func(dst []byte, v *vec.Vec, i int) []byte { return appendSized(dst, get(v, i), w.size) }
		if w.size == 8 && f.typ.Phys() == types.PI64 {
			f.bulk = bulk64
		}
	case w.size <= 8:
		by := types.Pow10Int64(up)
		f.one = func(dst []byte, v *vec.Vec, i int) []byte {
			return appendSized(dst, types.I128(int64(get(v, i).Lo)*by), w.size)
		}
	default:
		f.one = func(dst []byte, v *vec.Vec, i int) []byte { return appendScaled(dst, get(v, i), up, w.size) }
	}
	if whole := w.prec - w.scale; p-s > whole {
		f.check = func(v *vec.Vec, i int) error {
			if x := get(v, i); !x.FitsDecimal(min(whole+s, types.MaxPrecision)) {
				return fmt.Errorf("%s does not fit %s", types.AppendDecimal(nil, x, s), w.name)
			}
			return nil
		}
	}
	return nil
}

// appendScaled appends x * 10^up as an integer of 16 or 32 bytes.
func appendScaled(dst []byte, x types.Int128, up, size int) []byte {
	neg := x.Sign() < 0
	if neg {
		x = x.Neg()
	}
	w := [4]uint64{x.Lo, uint64(x.Hi)}
	for up > 0 {
		step := min(up, 18)
		up -= step
		by, carry := uint64(types.Pow10Int64(step)), uint64(0)
		for k := range w {
			hi, lo := bits.Mul64(w[k], by)
			var c uint64
			w[k], c = bits.Add64(lo, carry, 0)
			carry = hi + c
		}
	}
	if neg {
		carry := uint64(1)
		for k := range w {
			w[k], carry = bits.Add64(^w[k], 0, carry)
		}
	}
	for k := range size / 8 {
		dst = le.AppendUint64(dst, w[k])
	}
	return dst
}

func writeString(dst []byte, v *vec.Vec, i int) []byte { return appendBytes(dst, v.Bytes(i)) }

func bulkStrings(dst []byte, v *vec.Vec, rows []int32) []byte {
	for _, i := range rows {
		r := v.Refs[i]
		if r.Len < 0x80 {
			dst = append(dst, byte(r.Len))
			dst = append(dst, v.Buf[r.Off:r.Off+r.Len]...)
			continue
		}
		dst = appendBytes(dst, v.Buf[r.Off:r.Off+r.Len])
	}
	return dst
}

func (f *field) text() error {
	w := f.wire
	switch w.kind {
	case kString, kJSON:
		f.one, f.bulk = writeString, bulkStrings
	case kFixed:
		f.fixed(func(n int) bool { return n <= w.size })
	case kUUID:
		f.one = func(dst []byte, v *vec.Vec, i int) []byte {
			u, _ := parseUUID(v.Bytes(i))
			return append(dst, u[:]...)
		}
		f.check = func(v *vec.Vec, i int) error {
			if _, ok := parseUUID(v.Bytes(i)); !ok {
				return fmt.Errorf("%.60q is no UUID", v.Bytes(i))
			}
			return nil
		}
	case kEnum:
		f.one = func(dst []byte, v *vec.Vec, i int) []byte {
			n := w.enum[string(v.Bytes(i))]
			if w.size == 1 {
				return append(dst, byte(n))
			}
			return le.AppendUint16(dst, uint16(n))
		}
		f.check = func(v *vec.Vec, i int) error {
			if _, ok := w.enum[string(v.Bytes(i))]; !ok {
				return fmt.Errorf("%.60q is not among the values of the enum: %s", v.Bytes(i), w.labels())
			}
			return nil
		}
	case kIPv4, kIPv6:
		f.address()
	default:
		return f.unlike()
	}
	return nil
}

// fixed writes strings of a fixed length, filled up with zeros.
func (f *field) fixed(fits func(n int) bool) {
	w := f.wire
	zeros := make([]byte, w.size)
	f.one = func(dst []byte, v *vec.Vec, i int) []byte {
		b := v.Bytes(i)
		return append(append(dst, b...), zeros[len(b):]...)
	}
	f.check = func(v *vec.Vec, i int) error {
		if n := len(v.Bytes(i)); !fits(n) {
			return fmt.Errorf("it has %d bytes and does not fit %s", n, w.name)
		}
		return nil
	}
}

// parseUUID reads the text of a UUID, with or without hyphens, in the order of bytes of a block.
func parseUUID(s []byte) (u [16]byte, ok bool) {
	var digits [32]byte
	switch {
	case len(s) == 32:
		copy(digits[:], s)
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-':
		n := copy(digits[:], s[:8])
		n += copy(digits[n:], s[9:13])
		n += copy(digits[n:], s[14:18])
		n += copy(digits[n:], s[19:23])
		copy(digits[n:], s[24:])
	default:
		return u, false
	}
	if _, err := hex.Decode(u[:], digits[:]); err != nil {
		return u, false
	}
	slices.Reverse(u[:8])
	slices.Reverse(u[8:])
	return u, true
}

func (f *field) address() {
	w := f.wire
	parse := func(s []byte) (a netip.Addr, ok bool) {
		a, err := netip.ParseAddr(string(s))
		return a, err == nil && a.Zone() == "" && (a.Is4() || w.kind == kIPv6)
	}
	f.one = func(dst []byte, v *vec.Vec, i int) []byte {
		a, _ := parse(v.Bytes(i))
		if w.kind == kIPv4 {
			b := a.As4()
			return append(dst, b[3], b[2], b[1], b[0])
		}
		b := a.As16()
		return append(dst, b[:]...)
	}
	f.check = func(v *vec.Vec, i int) error {
		if _, ok := parse(v.Bytes(i)); !ok {
			return fmt.Errorf("%.60q is no address for %s", v.Bytes(i), w.name)
		}
		return nil
	}
}

func (f *field) binary() error {
	w := f.wire
	switch w.kind {
	case kString:
		f.one, f.bulk = writeString, bulkStrings
	case kFixed:
		f.fixed(func(n int) bool { return n == w.size })
	default:
		return f.unlike()
	}
	return nil
}

// The days and ms that dates and times of ClickHouse reach.
const (
	day1900, day2300 = -25567, 120530
	msPerDay         = 86_400_000
	nanosEnd         = 9_223_372_036_854 // ms; DateTime64(9) ends there
)

func (f *field) date() error {
	lo, hi := int32(0), int32(math.MaxUint16)
	switch f.wire.kind {
	case kDate:
		f.one = func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint16(dst, uint16(v.I32[i])) }
	case kDate32:
		lo, hi = day1900, day2300-1
		f.one, f.bulk = integerWriter(4, func(v *vec.Vec, i int) int64 { return int64(v.I32[i]) }), bulk32
	default:
		return f.unlike()
	}
	w := f.wire
	f.check = func(v *vec.Vec, i int) error {
		if d := v.I32[i]; d < lo || d > hi {
			return fmt.Errorf("the date does not fit %s, which goes from %s to %s", w.name, dateText(lo), dateText(hi))
		}
		return nil
	}
	return nil
}

func dateText(days int32) string { return time.Unix(int64(days)*86400, 0).UTC().Format(time.DateOnly) }

func (f *field) time() error {
	w := f.wire
	p := min(f.typ.Precision, 3)
	switch w.kind {
	case kTime:
		if p > 0 {
			return lossy(fmt.Sprintf("CAST it to TIME(0) in the query, or make the column Time64(%d)", p), "%s has no fractions of a second", w.name)
		}
		f.one = func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint32(dst, uint32(v.I32[i]/1000)) }
		return nil
	case kTime64:
		if p > w.scale {
			return lossy(fmt.Sprintf("CAST it to TIME(%d) in the query, or make the column Time64(%d)", w.scale, p), "%s has %d digits of the second less", w.name, p-w.scale)
		}
		f.one = func(dst []byte, v *vec.Vec, i int) []byte {
			return le.AppendUint64(dst, uint64(ticks(int64(v.I32[i]), 0, w.scale)))
		}
		return nil
	}
	return f.unlike()
}

// ticks turns ms and nanoseconds within them into ticks of 10^-scale s.
func ticks(ms int64, nanos uint64, scale int) int64 {
	if scale < 3 {
		by := types.Pow10Int64(3 - scale)
		n := ms / by
		if ms%by < 0 {
			n--
		}
		return n
	}
	return ms*types.Pow10Int64(scale-3) + int64(nanos)/types.Pow10Int64(9-scale)
}

// timestamp writes TIMESTAMP as the instant at which clocks in the column's zone show it, and
// TIMESTAMP_LTZ as the instant that it is.
func (m *matcher) timestamp(f *field) error {
	w, t := f.wire, f.typ
	if w.kind != kDateTime && w.kind != kDateTime64 {
		return f.unlike()
	}
	if t.Precision > w.scale {
		there := fmt.Sprintf("make the column DateTime64(%d)", t.Precision)
		return lossy(fmt.Sprintf("CAST it to %s(%d) in the query, or %s", t.Kind, w.scale, there), "%s has %d digits of the second less", w.name, t.Precision-w.scale)
	}
	get := func(v *vec.Vec, i int) (ms int64, nanos uint64) { return v.I64[i], 0 }
	if t.Phys() == types.PI128 {
		get = func(v *vec.Vec, i int) (int64, uint64) { return v.I128[i].Hi, v.I128[i].Lo }
	}
	zone := types.NewZone(m.server)
	if w.zone != "" {
		loc, err := time.LoadLocation(w.zone)
		if err != nil {
			return lossy(castHere, "its time zone is not known here: %v", err)
		}
		zone = types.NewZone(loc)
	}
	if t.Kind == types.TimestampLTZ {
		zone = types.NewZone(time.UTC)
	}
	lo, hi := int64(0), int64(math.MaxUint32)*1000+999
	if w.kind == kDateTime64 {
		lo, hi = day1900*msPerDay, day2300*msPerDay-1
		if w.scale == 9 {
			hi = nanosEnd - 1
		}
	}
	f.one = func(dst []byte, v *vec.Vec, i int) []byte {
		ms, nanos := get(v, i)
		n := ticks(zone.ToInstant(ms), nanos, w.scale)
		if w.kind == kDateTime {
			return le.AppendUint32(dst, uint32(n))
		}
		return le.AppendUint64(dst, uint64(n))
	}
	f.check = func(v *vec.Vec, i int) error {
		ms, _ := get(v, i)
		if ms < lo-msPerDay || ms > hi+msPerDay {
			return fmt.Errorf("the time is %s, which does not fit %s", timeText(ms), w.name)
		}
		at := zone.ToInstant(ms)
		if zone.ToLocal(at) != ms {
			return fmt.Errorf("clocks in the time zone of the column never show %s, as they were put forward then", timeText(ms))
		}
		if at < lo || at > hi {
			return fmt.Errorf("the time is %s, which does not fit %s", timeText(ms), w.name)
		}
		return nil
	}
	return nil
}

func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.999") }
