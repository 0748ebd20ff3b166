package expr

import (
	"strconv"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Appender appends value i of v as text.
type Appender func(dst []byte, v *vec.Vec, i int) []byte

// TextOf returns how values of type t are printed by CAST(... AS STRING): 1.0E10, TRUE, [1, 2],
// {a=1}, (1, abc). A NULL is printed as NULL. TIMESTAMP_LTZ is printed in the time zone of env.
func TextOf(t types.Type, env *Env) Appender {
	f := textOf(t, env)
	return func(dst []byte, v *vec.Vec, i int) []byte {
		if v.IsNull(i) {
			return append(dst, "NULL"...)
		}
		return f(dst, v, i)
	}
}

// textOf prints values that are not NULL.
func textOf(t types.Type, env *Env) Appender {
	switch t.Kind {
	case types.Boolean:
		return func(dst []byte, v *vec.Vec, i int) []byte {
			if v.Bool[i] {
				return append(dst, "TRUE"...)
			}
			return append(dst, "FALSE"...)
		}
	case types.TinyInt, types.SmallInt, types.Int:
		return func(dst []byte, v *vec.Vec, i int) []byte { return strconv.AppendInt(dst, int64(v.I32[i]), 10) }
	case types.BigInt:
		return func(dst []byte, v *vec.Vec, i int) []byte { return strconv.AppendInt(dst, v.I64[i], 10) }
	case types.Float:
		return func(dst []byte, v *vec.Vec, i int) []byte { return types.AppendFloat(dst, v.F32[i]) }
	case types.Double:
		return func(dst []byte, v *vec.Vec, i int) []byte { return types.AppendDouble(dst, v.F64[i]) }
	case types.Decimal:
		s := t.Scale
		return func(dst []byte, v *vec.Vec, i int) []byte { return types.AppendDecimal(dst, DecimalAt(v, i), s) }
	case types.Char, types.VarChar, types.Binary, types.VarBinary:
		return func(dst []byte, v *vec.Vec, i int) []byte { return append(dst, v.Bytes(i)...) }
	case types.Date:
		return func(dst []byte, v *vec.Vec, i int) []byte { return types.AppendDate(dst, v.I32[i]) }
	case types.Time:
		// Flink's TIME has no fraction in SQL, whatever its precision.
		return func(dst []byte, v *vec.Vec, i int) []byte { return types.AppendTime(dst, v.I32[i], 0) }
	case types.Timestamp, types.TimestampLTZ:
		p := t.Precision
		zone := types.NewZone(nil)
		if t.Kind == types.TimestampLTZ && env != nil {
			zone = types.NewZone(env.Zone)
		}
		return func(dst []byte, v *vec.Vec, i int) []byte {
			ms, nanos := TimestampAt(v, i)
			return types.AppendTimestamp(dst, zone.ToLocal(ms), nanos, p)
		}
	case types.IntervalYearMonth:
		return func(dst []byte, v *vec.Vec, i int) []byte { return appendMonths(dst, v.I32[i]) }
	case types.IntervalDayTime:
		return func(dst []byte, v *vec.Vec, i int) []byte { return appendSpan(dst, v.I64[i]) }
	case types.Array:
		return listText('[', ']', TextOf(*t.Elem, env), nil)
	case types.Map:
		return listText('{', '}', TextOf(*t.Key, env), TextOf(*t.Elem, env))
	case types.Multiset:
		return listText('{', '}', TextOf(*t.Elem, env), TextOf(types.IntType, env))
	case types.Row:
		return rowText(t, env)
	}
	return func(dst []byte, _ *vec.Vec, _ int) []byte { return append(dst, "NULL"...) }
}

// listText prints [a, b], or {k=v, k=v} where val is not nil.
func listText(open, end byte, key, val Appender) Appender {
	return func(dst []byte, v *vec.Vec, i int) []byte {
		dst = append(dst, open)
		r := v.Refs[i]
		for k := r.Off; k < r.Off+r.Len; k++ {
			if k > r.Off {
				dst = append(dst, ", "...)
			}
			dst = key(dst, v.Kids[0], int(k))
			if val != nil {
				dst = append(dst, '=')
				dst = val(dst, v.Kids[1], int(k))
			}
		}
		return append(dst, end)
	}
}

func rowText(t types.Type, env *Env) Appender {
	fs := make([]Appender, len(t.Fields))
	for k, f := range t.Fields {
		fs[k] = TextOf(f.Type, env)
	}
	return func(dst []byte, v *vec.Vec, i int) []byte {
		dst = append(dst, '(')
		for k, f := range fs {
			if k > 0 {
				dst = append(dst, ", "...)
			}
			dst = f(dst, v.Kids[k], i)
		}
		return append(dst, ')')
	}
}

// appendMonths prints an interval of months: +1-02.
func appendMonths(dst []byte, m int32) []byte {
	x := int64(m)
	if x < 0 {
		dst = append(dst, '-')
		x = -x
	} else {
		dst = append(dst, '+')
	}
	dst = strconv.AppendInt(dst, x/12, 10)
	return append(dst, '-', byte('0'+x%12/10), byte('0'+x%12%10))
}

// appendSpan prints an interval of ms: +1 02:00:00.000.
func appendSpan(dst []byte, ms int64) []byte {
	if ms < 0 {
		dst = append(dst, '-')
		ms = -ms
	} else {
		dst = append(dst, '+')
	}
	dst = strconv.AppendInt(dst, ms/types.MsPerDay, 10)
	dst = append(dst, ' ')
	return types.AppendTime(dst, int32(ms%types.MsPerDay), 3)
}
