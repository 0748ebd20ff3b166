package spell

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/tidemark-stream/tidemark/types"
)

// view returns b as a string that must not outlive the call it is passed to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// EqualFold reports whether b is lower, which is in lower case, whatever the case of b.
func EqualFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// ParseInt reads a whole number with an optional sign.
func ParseInt(b []byte) (int64, bool) {
	i := 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		i++
	}
	if i == len(b) || digits(b, i) != len(b) {
		return 0, false
	}
	v, err := strconv.ParseInt(view(b), 10, 64)
	return v, err == nil
}

// IsDecimal reports whether b is a number as Java's BigDecimal reads it.
func IsDecimal(b []byte) bool {
	i := 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		i++
	}
	n := i
	i = digits(b, i)
	n = i - n
	if i < len(b) && b[i] == '.' {
		end := digits(b, i+1)
		n += end - i - 1
		i = end
	}
	if n == 0 {
		return false
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		end := digits(b, i)
		if end == i || end > i+10 {
			return false
		}
		i = end
	}
	return i == len(b)
}

// ParseFloat reads what Java's parseDouble and ParseFloat do: decimal and hexadecimal numbers,
// NaN and Infinity, with an optional f or d behind them and white space around.
func ParseFloat(b []byte, size int) (float64, bool) {
	b = types.TrimSpace(b)
	unsigned := b
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		unsigned = b[1:]
	}
	switch string(unsigned) {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		if b[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	if n := len(b); n > 1 && (b[n-1]|0x20 == 'd' || b[n-1]|0x20 == 'f') {
		b = b[:n-1]
	}
	hex := len(unsigned) > 2 && unsigned[0] == '0' && unsigned[1]|0x20 == 'x'
	if !hex && !IsDecimal(b) {
		return 0, false
	}
	for _, c := range b {
		if c == '_' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(view(b), size)
	if err != nil {
		// Beyond the range is infinite, as in Java.
		if e, ok := err.(*strconv.NumError); !ok || e.Err != strconv.ErrRange {
			return 0, false
		}
	}
	return f, true
}

// Clock is a time of day. Ms is 86400000 for 24:00:00, which counts as the next day's midnight.
type Clock struct{ Ms, Nanos int32 }

// ParseClock reads HH:mm:ss with up to nine fractional digits; the seconds may be missing where
// short is set, and 24:00:00 is refused where strict is.
func ParseClock(b []byte, short, strict bool) (c Clock, ok bool) {
	var h, m, s int
	if h, ok = two(b, 0); !ok || len(b) < 5 || b[2] != ':' {
		return c, false
	}
	if m, ok = two(b, 3); !ok {
		return c, false
	}
	var frac int32
	switch {
	case len(b) == 5 && short:
	case len(b) < 8 || b[5] != ':':
		return c, false
	default:
		if s, ok = two(b, 6); !ok {
			return c, false
		}
		if frac, ok = parseFraction(b[8:]); !ok {
			return c, false
		}
	}
	if m > 59 || s > 59 || h > 24 || h == 24 && (strict || m > 0 || s > 0 || frac > 0) {
		return c, false
	}
	c.Ms = int32(h*3600000+m*60000+s*1000) + frac/1e6
	c.Nanos = frac % 1e6
	return c, true
}

// parseFraction reads nothing, or a point and up to nine digits, in nanoseconds.
func parseFraction(b []byte) (nanos int32, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != '.' || len(b) > 10 || digits(b, 1) != len(b) {
		return 0, false
	}
	for _, c := range b[1:] {
		nanos = nanos*10 + int32(c-'0')
	}
	for n := len(b); n < 10; n++ {
		nanos *= 10
	}
	return nanos, true
}

func two(b []byte, i int) (int, bool) {
	if i+2 > len(b) || digits(b[:i+2], i) != i+2 {
		return 0, false
	}
	return int(b[i]-'0')*10 + int(b[i+1]-'0'), true
}

// CutDate reads yyyy-MM-dd at the start of b, in days. Years beyond four digits have a sign. A day
// up to 31 beyond its month's end is refused where strict is set, else it means the month's end.
func CutDate(b []byte, strict bool) (days int32, rest []byte, ok bool) {
	i := 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		i++
	}
	end := digits(b, i)
	n := end - i
	if n < 4 || n > 7 || n > 4 && i == 0 || n == 4 && i == 1 && b[0] == '+' {
		return 0, nil, false
	}
	year, _ := ParseInt(b[i:end])
	if i == 1 && b[0] == '-' {
		if year == 0 {
			return 0, nil, false
		}
		year = -year
	}
	b = b[end:]
	if len(b) < 6 || b[0] != '-' || b[3] != '-' || year > 5_000_000 || year < -5_000_000 {
		return 0, nil, false
	}
	month, ok1 := two(b, 1)
	day, ok2 := two(b, 4)
	if !ok1 || !ok2 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, nil, false
	}
	if last := types.DaysInMonth(int(year), month); day > last {
		if strict {
			return 0, nil, false
		}
		day = last
	}
	return types.DaysFromCivil(int(year), month, day), b[6:], true
}

func ISODate(b []byte) (int32, bool) {
	days, rest, ok := CutDate(b, true)
	return days, ok && len(rest) == 0
}

// ParseDateTime reads a timestamp as Flink's formats do: date and time separated by a space, or
// (iso) a T; zone wants a Z behind it. Of the four formatters that Flink puts together only that
// of ISO without zone is strict about dates.
func ParseDateTime(b []byte, iso, zone bool) (ms int64, nanos int32, ok bool) {
	strict := iso && !zone
	days, b, ok := CutDate(b, strict)
	if !ok || len(b) < 2 {
		return 0, 0, false
	}
	if sep := b[0]; !iso && sep != ' ' || iso && sep != 'T' && !(strict && sep == 't') {
		return 0, 0, false
	}
	b = b[1:]
	if zone {
		if b[len(b)-1] != 'Z' {
			return 0, 0, false
		}
		b = b[:len(b)-1]
	}
	c, ok := ParseClock(b, iso, strict)
	return int64(days)*86400000 + int64(c.Ms), c.Nanos, ok
}

const base64Pad, base64Bad = 64, 255

var base64Code = func() (t [256]byte) {
	for i := range t {
		t[i] = base64Bad
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = byte(i)
	}
	t['='] = base64Pad
	return t
}()

// AppendBase64 decodes b, in groups of four characters with white space allowed between groups.
// ok is false for anything else.
func AppendBase64(dst, b []byte) (out []byte, ok bool) {
	for len(b) > 0 {
		if b[0] <= ' ' {
			b = b[1:]
			continue
		}
		if len(b) < 4 {
			return dst, false
		}
		w, x, y, z := base64Code[b[0]], base64Code[b[1]], base64Code[b[2]], base64Code[b[3]]
		b = b[4:]
		if w >= base64Pad || x >= base64Pad || y == base64Bad || z == base64Bad ||
			y == base64Pad && z != base64Pad {
			return dst, false
		}
		dst = append(dst, w<<2|x>>4)
		if y != base64Pad {
			dst = append(dst, x<<4|y>>2)
		}
		if z != base64Pad {
			dst = append(dst, y<<6|z)
		}
	}
	return dst, true
}

func digits(data []byte, i int) int {
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i
}
