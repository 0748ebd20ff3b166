package postgres

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// encodeArray writes an array as the text that PostgreSQL reads: {1,2,NULL}. Arrays of arrays are
// nested; it refuses them where they are not rectangular.
func encodeArray(dst []byte, v *vec.Vec, i int) []byte {
	r, kid := v.Refs[i], v.Kids[0]
	dst = append(dst, '{')
	for k := int(r.Off); k < int(r.Off+r.Len); k++ {
		if k > int(r.Off) {
			dst = append(dst, ',')
		}
		if kid.IsNull(k) {
			dst = append(dst, "NULL"...)
			continue
		}
		dst = appendElement(dst, kid, k)
	}
	return append(dst, '}')
}

func appendElement(dst []byte, v *vec.Vec, i int) []byte {
	switch v.Type.Kind {
	case types.Array:
		return encodeArray(dst, v, i)
	case types.Boolean:
		return strconv.AppendBool(dst, v.Bool[i])
	case types.TinyInt, types.SmallInt, types.Int:
		return strconv.AppendInt(dst, int64(v.I32[i]), 10)
	case types.BigInt:
		return strconv.AppendInt(dst, v.I64[i], 10)
	case types.Float:
		return appendFloat(dst, float64(v.F32[i]), 32)
	case types.Double:
		return appendFloat(dst, v.F64[i], 64)
	case types.Decimal:
		if v.Phys == types.PI64 {
			return types.AppendDecimal(dst, types.I128(v.I64[i]), v.Type.Scale)
		}
		return types.AppendDecimal(dst, v.I128[i], v.Type.Scale)
	case types.Date:
		return append(appendDate(append(dst, '"'), v.I32[i]), '"')
	case types.Time:
		return types.AppendTime(dst, v.I32[i], 3)
	case types.Timestamp, types.TimestampLTZ:
		ms, nanos := int64(0), uint64(0)
		if v.Phys == types.PI64 {
			ms = v.I64[i]
		} else {
			ms, nanos = v.I128[i].Hi, v.I128[i].Lo
		}
		dst = appendMicros(append(dst, '"'), pgMicros(ms, nanos), v.Type.Kind == types.TimestampLTZ)
		return append(dst, '"')
	case types.IntervalYearMonth:
		return append(strconv.AppendInt(append(dst, '"'), int64(v.I32[i]), 10), ` months"`...)
	case types.IntervalDayTime:
		return append(strconv.AppendInt(append(dst, '"'), v.I64[i], 10), ` milliseconds"`...)
	case types.Binary, types.VarBinary:
		return append(hex.AppendEncode(append(dst, `"\\x`...), v.Bytes(i)), '"')
	}
	dst = append(dst, '"')
	for _, c := range v.Bytes(i) {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func appendFloat(dst []byte, f float64, size int) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, size)
}

// appendDate prints days since 1970 as PostgreSQL does: with BC before the year 1.
func appendDate(dst []byte, days int32) []byte {
	y, m, d := types.CivilFromDays(days)
	dst, bc := appendCivil(dst, y, m, d)
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

func appendCivil(dst []byte, y, m, d int) (_ []byte, bc bool) {
	if y < 1 {
		y, bc = 1-y, true
	}
	dst = appendPadded(dst, y, 4)
	dst = appendPadded(append(dst, '-'), m, 2)
	return appendPadded(append(dst, '-'), d, 2), bc
}

// appendPadded prints n, which is not negative, with zeros in front up to width digits.
func appendPadded(dst []byte, n, width int) []byte {
	limit := 10
	for range width - 2 {
		limit *= 10
	}
	for ; limit > 1 && n < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// appendMicros prints microseconds since 2000 as a timestamp.
func appendMicros(dst []byte, us int64, utc bool) []byte {
	const day = 86_400_000_000
	days, left := us/day, us%day
	if left < 0 {
		days, left = days-1, left+day
	}
	y, m, d := types.CivilFromDays(int32(days + days2000))
	dst, bc := appendCivil(dst, y, m, d)
	dst = appendTimeOfDay(append(dst, ' '), left)
	if utc {
		dst = append(dst, "+00"...)
	}
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// appendTimeOfDay prints microseconds of the day, as many digits of the second as there are.
func appendTimeOfDay(dst []byte, us int64) []byte {
	s := int(us / 1_000_000)
	dst = appendPadded(dst, s/3600, 2)
	dst = appendPadded(append(dst, ':'), s/60%60, 2)
	dst = appendPadded(append(dst, ':'), s%60, 2)
	part := int(us % 1_000_000)
	if part == 0 {
		return dst
	}
	dst = appendPadded(append(dst, '.'), part, 6)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendText prints a value of a wire as PostgreSQL does; quoted says that JSON needs quotes around.
func appendText(dst []byte, w wire, b []byte) (_ []byte, quoted bool) {
	switch w {
	case wBool:
		return strconv.AppendBool(dst, b[0] != 0), false
	case wInt2:
		return strconv.AppendInt(dst, int64(int16(be.Uint16(b))), 10), false
	case wInt4:
		return strconv.AppendInt(dst, int64(int32(be.Uint32(b))), 10), false
	case wInt8:
		return strconv.AppendInt(dst, int64(be.Uint64(b)), 10), false
	case wFloat4:
		f := float64(math.Float32frombits(be.Uint32(b)))
		return appendFloat(dst, f, 32), math.IsNaN(f) || math.IsInf(f, 0)
	case wFloat8:
		f := math.Float64frombits(be.Uint64(b))
		return appendFloat(dst, f, 64), math.IsNaN(f) || math.IsInf(f, 0)
	case wNumeric:
		return appendNumericText(dst, b), false
	case wBytea:
		return hex.AppendEncode(append(dst, `\x`...), b), true
	case wDate:
		return appendDate(dst, int32(min(int64(int32(be.Uint32(b)))+days2000, math.MaxInt32))), true
	case wTime:
		return appendTimeOfDay(dst, int64(be.Uint64(b)%86_400_000_000)), true
	case wTimestamp, wTimestampTZ:
		return appendMicros(dst, int64(be.Uint64(b)), w == wTimestampTZ), true
	case wInterval:
		dst = append(strconv.AppendInt(dst, int64(int32(be.Uint32(b[12:]))), 10), " months "...)
		return append(strconv.AppendInt(dst, int64(be.Uint64(b)), 10), " microseconds"...), true
	}
	return append(dst, b...), true
}

// appendNumericText prints a numeric; what is none becomes null.
func appendNumericText(dst, b []byte) []byte {
	if len(b) < 8 || len(b) != 8+2*int(be.Uint16(b)) || int16(be.Uint16(b[2:])) > 1<<10 || be.Uint16(b[6:]) > 1<<12 {
		return append(dst, "null"...)
	}
	n, weight, scale := int(be.Uint16(b)), int(int16(be.Uint16(b[2:]))), int(be.Uint16(b[6:]))
	group := func(k int) int { // of weight k
		if at := weight - k; at >= 0 && at < n {
			return int(be.Uint16(b[8+2*at:])) % 10000
		}
		return 0
	}
	if be.Uint16(b[4:]) == 0x4000 {
		dst = append(dst, '-')
	}
	if weight < 0 {
		dst = append(dst, '0')
	}
	for k := weight; k >= 0; k-- {
		if k == weight {
			dst = strconv.AppendInt(dst, int64(group(k)), 10)
			continue
		}
		dst = appendPadded(dst, group(k), 4)
	}
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	at := len(dst)
	for k := -1; len(dst) < at+scale; k-- {
		dst = appendPadded(dst, group(k), 4)
	}
	return dst[:at+scale]
}

// rowText is a row as a JSON object, for dead letters.
func (s *shape) rowText(tuple []byte) []byte {
	fields, err := s.split(nil, tuple)
	if err != nil {
		return []byte(err.Error())
	}
	out := []byte{'{'}
	var buf []byte
	for k, f := range fields {
		if k > 0 {
			out = append(out, ',')
		}
		out = append(appendJSON(out, []byte(s.cols[k].name)), ':')
		if f == nil {
			out = append(out, "null"...)
			continue
		}
		var quoted bool
		if buf, quoted = appendText(buf[:0], s.cols[k].wire, f); quoted {
			out = appendJSON(out, buf)
		} else {
			out = append(out, buf...)
		}
	}
	return append(out, '}')
}

func appendJSON(dst, text []byte) []byte {
	b, _ := json.Marshal(string(text)) // a string cannot fail
	return append(dst, b...)
}
