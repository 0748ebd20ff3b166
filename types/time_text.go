package types

import (
	"bytes"
	"strconv"
)

// ParseTimestamp reads yyyy-MM-dd HH:mm:ss[.fffffffff], also with T between date and time, a Z at
// the end (which is dropped: what the time refers to is the caller's matter), and shorter fields
// as in 2024-1-5 7:03:00; the time of day may be missing. nanos lies within the ms.
func ParseTimestamp(b []byte) (ms int64, nanos int32, ok bool) {
	if len(b) >= 19 {
		if ms, nanos, ok = parseFixed(b); ok {
			return ms, nanos, true
		}
	}
	if n := len(b); n > 0 && b[n-1] == 'Z' {
		b = b[:n-1]
	}
	return parseLoose(b, true)
}

// ParseSQLTimestamp reads what Flink's CAST of a string to TIMESTAMP accepts: a space between
// date and time, no zone.
func ParseSQLTimestamp(b []byte) (ms int64, nanos int32, ok bool) {
	if len(b) >= 19 && b[10] == ' ' && b[len(b)-1] != 'Z' {
		if ms, nanos, ok = parseFixed(b); ok {
			return ms, nanos, true
		}
	}
	return parseLoose(b, false)
}

// parseFixed is the fast path: every field at its place and in range.
func parseFixed(b []byte) (ms int64, nanos int32, ok bool) {
	_ = b[18]
	if b[4] != '-' || b[7] != '-' || b[10] != ' ' && b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return 0, 0, false
	}
	y1, k1 := two(b[0], b[1])
	y2, k2 := two(b[2], b[3])
	mo, k3 := two(b[5], b[6])
	d, k4 := two(b[8], b[9])
	h, k5 := two(b[11], b[12])
	mi, k6 := two(b[14], b[15])
	s, k7 := two(b[17], b[18])
	y := y1*100 + y2
	if !(k1 && k2 && k3 && k4 && k5 && k6 && k7) || mo < 1 || mo > 12 || d < 1 || h > 23 ||
		mi > 59 || s > 59 || d > 28 && d > DaysInMonth(y, mo) {
		return 0, 0, false
	}
	frac, ok := 0, true
	if len(b) > 19 {
		rest := b[19:]
		if rest[len(rest)-1] == 'Z' {
			rest = rest[:len(rest)-1]
		}
		if frac, ok = parseFraction(rest); !ok {
			return 0, 0, false
		}
	}
	ms = int64(DaysFromCivil(y, mo, d))*MsPerDay +
		int64(h*3600+mi*60+s)*MsPerSecond + int64(frac/1e6)
	return ms, int32(frac % 1e6), true
}

// two reads two digits.
func two(a, b byte) (int, bool) {
	a, b = a-'0', b-'0'
	return int(a)*10 + int(b), a <= 9 && b <= 9
}

// parseFraction reads .fffffffff, up to nine digits, in nanoseconds; empty is 0.
func parseFraction(b []byte) (nanos int, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != '.' || len(b) > 10 {
		return 0, false
	}
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		nanos = nanos*10 + int(c-'0')
	}
	return nanos * int(pow10u[10-len(b)]), true
}

// parseLoose reads year-month-day with one or two digits a field, and a time after one space (or
// T). A day up to 31 beyond its month's end means the last day, as in Java's smart resolution.
func parseLoose(b []byte, iso bool) (ms int64, nanos int32, ok bool) {
	sign := 1
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		if b[0] == '-' {
			sign = -1
		}
		b = b[1:]
	}
	y, b, ok := number(b, 4, 9, '-')
	if !ok {
		return 0, 0, false
	}
	mo, b, ok := number(b, 1, 2, '-')
	if !ok || mo < 1 || mo > 12 {
		return 0, 0, false
	}
	d, b, ok := number(b, 1, 2, 0)
	if !ok || d < 1 || d > 31 || y > 1e6 {
		return 0, 0, false
	}
	y *= sign
	ms = int64(DaysFromCivil(y, mo, min(d, DaysInMonth(y, mo)))) * MsPerDay
	if len(b) == 0 {
		return ms, 0, true
	}
	if b[0] != ' ' && !(iso && b[0] == 'T') {
		return 0, 0, false
	}
	h, b, ok1 := number(b[1:], 1, 2, ':')
	mi, b, ok2 := number(b, 1, 2, ':')
	s, b, ok3 := number(b, 1, 2, 0)
	frac, ok4 := parseFraction(b)
	if !(ok1 && ok2 && ok3 && ok4) || h > 23 || mi > 59 || s > 59 {
		return 0, 0, false
	}
	return ms + int64(h*3600+mi*60+s)*MsPerSecond + int64(frac/1e6), int32(frac % 1e6), true
}

// number reads min to max digits and, unless sep is 0, the separator after them.
func number(b []byte, min, max int, sep byte) (v int, rest []byte, ok bool) {
	i := 0
	for i < len(b) && i < max && b[i] >= '0' && b[i] <= '9' {
		v = v*10 + int(b[i]-'0')
		i++
	}
	if i < min {
		return 0, b, false
	}
	if sep != 0 {
		if i == len(b) || b[i] != sep {
			return 0, b, false
		}
		i++
	}
	return v, b[i:], true
}

// ParseDate reads yyyy-MM-dd as Flink's CAST does: fields may be short or have spaces around
// them, month and day may be missing, and whatever follows the first space is ignored.
func ParseDate(b []byte) (days int32, ok bool) {
	if len(b) == 10 && b[4] == '-' && b[7] == '-' {
		y1, k1 := two(b[0], b[1])
		y2, k2 := two(b[2], b[3])
		m, k3 := two(b[5], b[6])
		d, k4 := two(b[8], b[9])
		if k1 && k2 && k3 && k4 && m >= 1 && m <= 12 && d >= 1 && d <= 31 {
			return DaysFromCivil(y1*100+y2, m, d), true
		}
	}
	if i := bytes.IndexByte(b, ' '); i > 0 {
		b = b[:i]
	}
	f := [3]int{0, 1, 1}
	for k := range f {
		end := len(b)
		for i, c := range b {
			if c == '-' && k < 2 {
				end = i
				break
			}
		}
		v, ok := wholeNumber(b[:end])
		if !ok {
			return 0, false
		}
		f[k] = v
		if end == len(b) {
			break
		}
		b = b[end+1:]
	}
	if f[0] > 9999 || f[1] < 1 || f[1] > 12 || f[2] < 1 || f[2] > 31 {
		return 0, false
	}
	return DaysFromCivil(f[0], f[1], f[2]), true
}

// wholeNumber reads digits with spaces around them.
func wholeNumber(b []byte) (int, bool) {
	b = TrimSpace(b)
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	v, rest, ok := number(b, 1, 9, 0)
	return v, ok && len(rest) == 0
}

// TrimSpace cuts spaces and control characters off both ends, as Java's String.trim.
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// ParseTime reads HH[:mm[:ss[.fff]]] with an optional offset such as +01:00, which is added or
// subtracted as Flink does. Digits beyond the ms are dropped. Like Flink's, it does not check
// that the fields are in range.
func ParseTime(b []byte) (ms int32, ok bool) {
	op, oh, om := 0, 0, 0
	for i, c := range b {
		if c == '-' || c == '+' {
			op = -1
			if c == '+' {
				op = 1
			}
			if oh, om, ok = hourMinute(b[i+1:]); !ok {
				return 0, false
			}
			b = b[:i]
			break
		}
	}
	var f [3]int
	frac := 0
	for k := range f {
		end := len(b)
		for i, c := range b {
			if c == ':' && k < 2 || c == '.' && k == 2 {
				end = i
				break
			}
		}
		if f[k], ok = wholeNumber(b[:end]); !ok || f[k] > 999 {
			return 0, false
		}
		if end == len(b) {
			break
		}
		if k == 2 {
			if frac, ok = fractionMs(TrimSpace(b[end+1:])); !ok {
				return 0, false
			}
			break
		}
		b = b[end+1:]
	}
	h, m := f[0]+op*oh, f[1]+op*om
	return int32(h*3600000 + m*60000 + f[2]*1000 + frac), true
}

func hourMinute(b []byte) (h, m int, ok bool) {
	for i, c := range b {
		if c == ':' {
			h, k1 := wholeNumber(b[:i])
			m, k2 := wholeNumber(b[i+1:])
			return h, m, k1 && k2 && h < 100 && m < 100
		}
	}
	h, ok = wholeNumber(b)
	return h, 0, ok && h < 100
}

// fractionMs reads digits after a point and keeps three.
func fractionMs(b []byte) (ms int, ok bool) {
	unit := 100
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms += int(c-'0') * unit
		unit /= 10
	}
	return ms, true
}

// digits2 holds 00 to 99.
const digits2 = "00010203040506070809101112131415161718192021222324252627282930313233343536373839" +
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"

// put2 writes v, below 100, as two digits.
func put2(b []byte, v int) {
	_ = b[1]
	b[0], b[1] = digits2[2*v], digits2[2*v+1]
}

// AppendDate appends yyyy-MM-dd.
func AppendDate(dst []byte, days int32) []byte {
	y, m, d := CivilFromDays(days)
	if y < 0 || y > 9999 {
		dst = appendYear(dst, y)
		return append(dst, '-', byte('0'+m/10), byte('0'+m%10), '-', byte('0'+d/10), byte('0'+d%10))
	}
	dst = append(dst, "0000-00-00"...)
	b := dst[len(dst)-10:]
	put2(b, y/100)
	put2(b[2:], y%100)
	put2(b[5:], m)
	put2(b[8:], d)
	return dst
}

// appendYear appends a year of more than four digits or before the year 0.
func appendYear(dst []byte, y int) []byte {
	if y < 0 {
		dst = append(dst, '-')
		y = -y
	}
	for p := 1000; p > y && p > 1; p /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(y), 10)
}

// AppendTime appends HH:mm:ss of the ms of the day, with precision fractional digits.
func AppendTime(dst []byte, ms int32, precision int) []byte {
	if ms < 0 {
		ms += int32(MsPerDay)
	}
	dst = appendClock(dst, ms)
	return appendNanos(dst, uint32(ms%1000)*1e6, precision)
}

func appendClock(dst []byte, ms int32) []byte {
	s := uint32(ms) / 1000
	dst = append(dst, "00:00:00"...)
	b := dst[len(dst)-8:]
	put2(b, int(s/3600%100))
	put2(b[3:], int(s/60%60))
	put2(b[6:], int(s%60))
	return dst
}

// appendNanos appends a point and precision digits; nothing for 0.
func appendNanos(dst []byte, nanos uint32, precision int) []byte {
	if precision <= 0 {
		return dst
	}
	dst = append(dst, ".000000000"[:precision+1]...)
	b := dst[len(dst)-precision:]
	nanos /= uint32(pow10u[9-precision])
	for k := precision - 1; k >= 0; k-- {
		b[k] = byte('0' + nanos%10)
		nanos /= 10
	}
	return dst
}

// AppendTimestamp appends yyyy-MM-dd HH:mm:ss with precision fractional digits, at most nine.
func AppendTimestamp(dst []byte, ms int64, nanos int32, precision int) []byte {
	days, rest := SplitMs(ms)
	dst = AppendDate(dst, days)
	dst = append(dst, ' ')
	dst = appendClock(dst, rest)
	return appendNanos(dst, uint32(rest%1000)*1e6+uint32(nanos), precision)
}
