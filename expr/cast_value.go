package expr

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// toText prints, then cuts to the length of the type and pads CHAR with spaces.
func toText(from, to types.Type, env *Env) conv {
	text := textOf(from, env)
	return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
		buf := out.BeginBytes()
		at := len(buf)
		buf = text(buf, in, i)
		if to.Precision < types.MaxLength && (len(buf)-at > to.Precision || to.Kind == types.Char) {
			buf = fitText(buf, at, to.Precision, to.Kind == types.Char)
		}
		out.EndBytes(j, buf)
		return true
	}
}

// fitText limits what lies behind at to n characters.
func fitText(buf []byte, at, n int, pad bool) []byte {
	chars := 0
	for k := at; k < len(buf); chars++ {
		if chars == n {
			return buf[:k]
		}
		_, w := utf8.DecodeRune(buf[k:])
		k += w
	}
	for ; pad && chars < n; chars++ {
		buf = append(buf, ' ')
	}
	return buf
}

//go:noinline
func toBinary(from, to types.Type) conv {
	if !from.IsString() && !from.IsBinary() {
		return nil
	}
	return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
		b := in.Bytes(i)
		buf := append(out.BeginBytes(), b[:min(len(b), to.Precision)]...)
		if to.Kind == types.Binary {
			for k := len(b); k < to.Precision; k++ {
				buf = append(buf, 0)
			}
		}
		out.EndBytes(j, buf)
		return true
	}
}

func toBoolean(from types.Type) conv {
	switch {
	case from.IsString():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			v, ok := ParseBoolean(in.Bytes(i))
			out.Bool[j] = v
			return ok
		}
	case from.IsApprox():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			out.Bool[j] = FloatAt(in, i) != 0
			return true
		}
	case from.IsNumeric():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			out.Bool[j] = exactAt(in, i) != types.Int128{}
			return true
		}
	}
	return nil
}

// ParseBoolean reads t, true, y, yes, 1 and their opposites, in any case.
func ParseBoolean(b []byte) (v, ok bool) {
	var low [5]byte
	b = types.TrimSpace(b)
	if len(b) > len(low) {
		return false, false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	switch string(low[:len(b)]) {
	case "t", "true", "y", "yes", "1":
		return true, true
	case "f", "false", "n", "no", "0":
		return false, true
	}
	return false, false
}

// wrap narrows an integer as Java does.
func wrap(k types.Kind, x int64) int64 {
	switch k {
	case types.TinyInt:
		return int64(int8(x))
	case types.SmallInt:
		return int64(int16(x))
	case types.Int:
		return int64(int32(x))
	}
	return x
}

func toInteger(from, to types.Type) conv {
	kind := to.Kind
	switch {
	case from.IsString():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x, ok := ParseInteger(in.Bytes(i))
			if !ok || wrap(kind, x) != x {
				return false
			}
			SetInt(out, j, x)
			return true
		}
	case from.Kind == types.Boolean:
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			SetInt(out, j, int64(b2i(in.Bool[i])))
			return true
		}
	case from.IsInteger():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			SetInt(out, j, wrap(kind, IntAt(in, i)))
			return true
		}
	case from.IsApprox():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x := FloatAt(in, i)
			if kind == types.BigInt {
				SetInt(out, j, saturate(x, math.MinInt64, math.MaxInt64))
				return true
			}
			SetInt(out, j, wrap(kind, saturate(x, math.MinInt32, math.MaxInt32)))
			return true
		}
	case from.Kind == types.Decimal:
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x := DecimalAt(in, i).Truncate(from.Scale, 0)
			SetInt(out, j, wrap(kind, int64(x.Lo)))
			return true
		}
	}
	return nil
}

// saturate truncates x to an integer from lo to hi; NaN gives 0.
func saturate(x float64, lo, hi int64) int64 {
	switch {
	case x != x:
		return 0
	case x <= float64(lo):
		return lo
	case x >= float64(hi):
		return hi
	}
	return int64(x)
}

// ParseInteger reads an integer as Flink's CAST does: spaces around it are cut off, digits after
// a point are checked and dropped.
func ParseInteger(b []byte) (v int64, ok bool) {
	b = types.TrimSpace(b)
	neg := len(b) > 0 && b[0] == '-'
	if neg || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	// Negative numbers reach one further, so the sum is kept negative.
	for i, c := range b {
		if c == '.' {
			for _, c := range b[i+1:] {
				if c < '0' || c > '9' {
					return 0, false
				}
			}
			break
		}
		d := int64(c - '0')
		if c < '0' || c > '9' || v < math.MinInt64/10 || v*10 < math.MinInt64+d {
			return 0, false
		}
		v = v*10 - d
	}
	if !neg {
		if v == math.MinInt64 {
			return 0, false
		}
		v = -v
	}
	return v, true
}

func toFloat(from, to types.Type) conv {
	set := func(out *vec.Vec, j int, x float64) bool { out.F64[j] = x; return true }
	if to.Kind == types.Float {
		set = func(out *vec.Vec, j int, x float64) bool { out.F32[j] = float32(x); return true }
	}
	bits := 8 * to.Phys().FixedWidth()
	switch {
	case from.IsString():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x, ok := ParseFloat(in.Bytes(i), bits)
			return ok && set(out, j, x)
		}
	case from.Kind == types.Boolean:
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool { return set(out, j, float64(b2i(in.Bool[i]))) }
	case from.IsApprox():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool { return set(out, j, FloatAt(in, i)) }
	case from.IsInteger() && to.Kind == types.Float:
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			out.F32[j] = float32(IntAt(in, i)) // not by way of float64, which would round twice
			return true
		}
	case from.IsInteger():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool { return set(out, j, float64(IntAt(in, i))) }
	case from.Kind == types.Decimal:
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			return set(out, j, DecimalAt(in, i).Float64(from.Scale))
		}
	}
	return nil
}

// ParseFloat reads a number as Java's Double.parseDouble does (hexadecimal forms aside), spaces
// around it cut off. What is too large is infinite.
func ParseFloat(b []byte, bits int) (float64, bool) {
	b = types.TrimSpace(b)
	if n := len(b); n > 1 {
		if c := b[n-1] | 0x20; (c == 'd' || c == 'f') && b[n-2] != 'x' {
			b = b[:n-1]
		}
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c|0x20 != 'e' {
			switch string(b) {
			case "NaN", "+NaN", "-NaN":
				return math.NaN(), true
			case "Infinity", "+Infinity":
				return math.Inf(1), true
			case "-Infinity":
				return math.Inf(-1), true
			}
			return 0, false
		}
	}
	x, err := strconv.ParseFloat(string(b), bits)
	return x, err == nil || math.IsInf(x, 0)
}

func toDecimal(from, to types.Type) conv {
	p, s := to.Precision, to.Scale
	store := func(out *vec.Vec, j int, x types.Int128, ok bool) bool {
		if !ok {
			out.SetNull(j)
			return true
		}
		SetDecimal(out, j, x)
		return true
	}
	switch {
	case from.IsString():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x, ok := types.ParseDecimal(types.TrimSpace(in.Bytes(i)), p, s)
			return ok && store(out, j, x, ok)
		}
	case from.Kind == types.Boolean:
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x, ok := types.I128(int64(b2i(in.Bool[i]))).Rescale(0, s)
			return store(out, j, x, ok)
		}
	case from.IsApprox():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x, ok := types.DecimalFromFloat(FloatAt(in, i), p, s)
			return store(out, j, x, ok)
		}
	case from.IsNumeric():
		scale := from.Scale
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			x, ok := exactAt(in, i).Rescale(scale, s)
			return store(out, j, x, ok)
		}
	}
	return nil
}

func zoneOf(env *Env) *types.Zone {
	if env == nil {
		return types.NewZone(nil)
	}
	return types.NewZone(env.Zone)
}

// localMs returns a reader of timestamps as local time.
func localMs(from types.Type, env *Env) func(v *vec.Vec, i int) (int64, int32) {
	if from.Kind == types.Timestamp {
		return TimestampAt
	}
	zone := zoneOf(env)
	return func(v *vec.Vec, i int) (int64, int32) {
		ms, nanos := TimestampAt(v, i)
		return zone.ToLocal(ms), nanos
	}
}

func toDate(from types.Type, env *Env) conv {
	switch {
	case from.IsString():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			d, ok := ParseDate(in.Bytes(i))
			out.I32[j] = d
			return ok
		}
	case from.IsTimestamp():
		local := localMs(from, env)
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			ms, _ := local(in, i)
			out.I32[j], _ = types.SplitMs(ms)
			return true
		}
	}
	return nil
}

func toTime(from, to types.Type, env *Env) conv {
	unit := int32(types.Pow10Int64(max(0, 3-to.Precision)))
	switch {
	case from.IsString():
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			ms, ok := types.ParseTime(in.Bytes(i))
			out.I32[j] = ms - ms%unit
			return ok
		}
	case from.Kind == types.Time:
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			out.I32[j] = in.I32[i] - in.I32[i]%unit
			return true
		}
	case from.IsTimestamp():
		local := localMs(from, env)
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
			ms, _ := local(in, i)
			_, rest := types.SplitMs(ms)
			out.I32[j] = rest - rest%unit
			return true
		}
	}
	return nil
}

func toTimestamp(from, to types.Type, env *Env) conv {
	var read func(v *vec.Vec, i int) (int64, int32, bool)
	zoned := false // whether read gives an instant rather than a local time
	switch {
	case from.IsString():
		read = func(v *vec.Vec, i int) (int64, int32, bool) {
			return ParseTimestamp(types.TrimSpace(v.Bytes(i)))
		}
	case from.Kind == types.Date:
		read = func(v *vec.Vec, i int) (int64, int32, bool) { return int64(v.I32[i]) * types.MsPerDay, 0, true }
	case from.Kind == types.Time:
		read = func(v *vec.Vec, i int) (int64, int32, bool) { return int64(v.I32[i]), 0, true }
	case from.IsTimestamp():
		zoned = from.Kind == types.TimestampLTZ
		read = func(v *vec.Vec, i int) (int64, int32, bool) {
			ms, nanos := TimestampAt(v, i)
			return ms, nanos, true
		}
	default:
		return nil
	}
	shift := func(ms int64) int64 { return ms }
	if zone := zoneOf(env); to.Kind == types.TimestampLTZ && !zoned {
		shift = zone.ToInstant
	} else if to.Kind == types.Timestamp && zoned {
		shift = zone.ToLocal
	}
	p := to.Precision
	return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
		ms, nanos, ok := read(in, i)
		if !ok {
			return false
		}
		ms, nanos = types.RoundTimestamp(shift(ms), nanos, p)
		SetTimestamp(out, j, ms, nanos)
		return true
	}
}
