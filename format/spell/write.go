package spell

import (
	"strconv"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// AppendScaled appends the digits ds (no leading zeros; none is 0) divided by 10^scale, without
// trailing zeros, as BigDecimal.toString does: with an exponent where the scale is negative or the
// number below 10^-6.
func AppendScaled(dst, ds []byte, scale int, neg bool) []byte {
	for len(ds) > 0 && ds[len(ds)-1] == '0' {
		ds = ds[:len(ds)-1]
		scale--
	}
	if len(ds) == 0 {
		return append(dst, '0')
	}
	if neg {
		dst = append(dst, '-')
	}
	adjusted := len(ds) - 1 - scale
	if scale >= 0 && adjusted >= -6 {
		return appendPlain(dst, ds, scale)
	}
	dst = append(dst, ds[0])
	if len(ds) > 1 {
		dst = append(dst, '.')
		dst = append(dst, ds[1:]...)
	}
	dst = append(dst, 'E')
	if adjusted > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(adjusted), 10)
}

// appendPlain appends ds / 10^scale without exponent; scale may be negative.
func appendPlain(dst, ds []byte, scale int) []byte {
	whole := len(ds) - scale
	if whole <= 0 {
		dst = append(dst, '0', '.')
		for ; whole < 0; whole++ {
			dst = append(dst, '0')
		}
		return append(dst, ds...)
	}
	if scale > 0 {
		dst = append(dst, ds[:whole]...)
		dst = append(dst, '.')
		return append(dst, ds[whole:]...)
	}
	dst = append(dst, ds...)
	for ; scale < 0; scale++ {
		dst = append(dst, '0')
	}
	return dst
}

// Unscaled returns position row of v, a vector of DECIMAL.
func Unscaled(v *vec.Vec, row int) types.Int128 {
	if v.Phys == types.PI64 {
		return types.I128(v.I64[row])
	}
	return v.I128[row]
}

// AppendDecimal appends x / 10^scale without trailing zeros: plain, or as BigDecimal.toString.
func AppendDecimal(dst []byte, x types.Int128, scale int, plain bool) []byte {
	var room [48]byte
	ds := types.AppendDecimal(room[:0], x, 0)
	neg := ds[0] == '-'
	if neg {
		ds = ds[1:]
	}
	if ds[0] == '0' {
		ds = ds[:0]
	}
	if !plain {
		return AppendScaled(dst, ds, scale, neg)
	}
	for len(ds) > 0 && ds[len(ds)-1] == '0' {
		ds = ds[:len(ds)-1]
		scale--
	}
	if len(ds) == 0 {
		return append(dst, '0')
	}
	if neg {
		dst = append(dst, '-')
	}
	return appendPlain(dst, ds, scale)
}

// AppendDate appends days since 1970 as Java's ISO_LOCAL_DATE does: a year beyond four digits has
// a sign.
func AppendDate(dst []byte, days int32) []byte {
	if days >= firstSigned {
		dst = append(dst, '+')
	}
	return types.AppendDate(dst, days)
}

// firstSigned is 10000-01-01.
const firstSigned = 2932897

// AppendTimestamp appends date and time with sep between them, and as many fractional digits as
// there are.
func AppendTimestamp(dst []byte, ms int64, nanos int32, sep byte) []byte {
	days, rest := types.SplitMs(ms)
	dst = append(AppendDate(dst, days), sep)
	dst = types.AppendTime(dst, rest, 0)
	return AppendFraction(dst, rest%1000*1e6+nanos)
}

// AppendFraction appends a point and the digits of a fraction of a second, without trailing zeros;
// nothing for 0.
func AppendFraction(dst []byte, nanos int32) []byte {
	if nanos == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int32(1e8); nanos > 0; unit /= 10 {
		dst = append(dst, byte('0'+nanos/unit))
		nanos %= unit
	}
	return dst
}
