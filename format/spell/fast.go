package spell

import (
	"encoding/binary"
	"math/bits"

	"github.com/tidemark-stream/tidemark/types"
)

// The functions here read the usual spelling of a value straight from the bytes at i. Each returns
// the position behind it, or 0 where the value is spelled otherwise or does not fit: then the
// functions that take the whole text decide. What follows the value is the caller's to check.

// load returns eight bytes of b from i on, the first in the lowest byte.
func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

const (
	zeros    = 0x3030303030303030 // '0' in each byte
	highs    = 0x8080808080808080
	notDigit = 0x7676767676767676 // added to a byte over 9, sets its top bit
)

// eight combines eight decimal digits, the first in the lowest byte.
func eight(y uint64) int64 {
	const pick = 0x000000ff000000ff
	y = y*10 + y>>8
	return int64((y&pick*0x000f424000000064 + y>>16&pick*0x0000271000000001) >> 32)
}

// Integer reads a whole number of up to 18 digits.
func Integer(data []byte, i int) (v int64, end int) {
	if i+9 > len(data) {
		v, frac, neg, end := plainNumber(data, i)
		if frac > 0 {
			return 0, 0
		}
		if neg {
			v = -v
		}
		return v, end
	}
	neg := data[i] == '-'
	if neg {
		i++
	}
	start := i
	y := load(data, i) ^ zeros
	if m := (y + notDigit | y) & highs; m != 0 {
		n := bits.TrailingZeros64(m) &^ 7
		if n == 0 {
			return 0, 0
		}
		v, i = eight(y<<(64-n)), i+n>>3
	} else {
		v, i = eight(y), i+8
		for i < len(data) && data[i]-'0' <= 9 {
			if i == start+18 {
				return 0, 0
			}
			v = v*10 + int64(data[i]-'0')
			i++
		}
	}
	if data[start] == '0' && i > start+1 {
		return 0, 0
	}
	if i < len(data) && (data[i] == '.' || data[i]|0x20 == 'e') {
		return 0, 0
	}
	if neg {
		v = -v
	}
	return v, i
}

// plainNumber reads digits with an optional point, at most 18 digits in all, as a whole number
// and the number of digits behind the point.
func plainNumber(data []byte, i int) (v int64, frac int, neg bool, end int) {
	if i < len(data) && data[i] == '-' {
		neg = true
		i++
	}
	start, point := i, 0
	for i < len(data) {
		c := data[i]
		if c-'0' <= 9 {
			v = v*10 + int64(c-'0')
		} else if c == '.' && point == 0 && i > start {
			point = i + 1
		} else {
			break
		}
		if i++; i-start > 18 {
			return 0, 0, false, 0
		}
	}
	switch {
	case i == start || i == point || i < len(data) && data[i]|0x20 == 'e':
		return 0, 0, false, 0
	case data[start] == '0' && i > start+1 && point != start+2:
		return 0, 0, false, 0
	case point > 0:
		frac = i - point
	}
	return v, frac, neg, i
}

// powers are the powers of ten that a float64 holds exactly, as far as plainNumber needs them.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
	1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// Double reads a number without exponent whose digits a float64 holds, so that one division, which
// rounds once, gives the nearest value.
func Double(data []byte, i int) (f float64, end int) {
	v, frac, neg, end := plainNumber(data, i)
	if end == 0 || v > 1<<53 {
		return 0, 0
	}
	f = float64(v) / powers[frac]
	if neg {
		f = -f
	}
	return f, end
}

// Decimal reads a number with at most scale digits behind its point, unscaled and below limit.
func Decimal(data []byte, i, scale int, limit int64) (v int64, end int) {
	v, frac, neg, end := plainNumber(data, i)
	if end == 0 || frac > scale {
		return 0, 0
	}
	if up := types.Pow10Int64(scale - frac); v < limit/up || v == 0 {
		v *= up
	} else {
		return 0, 0
	}
	if neg {
		v = -v
	}
	return v, end
}

// The words of "0000-00-00 00:00:00.000", for taking the digits out of a timestamp (by exclusive
// or), then for checking that digits are at most 9 and separators are gone: what is left with
// wordXadd added must not touch wordXmask.
const (
	word1     = 0x2d30302d30303030
	word1add  = 0x0006060006060606
	word1mask = 0xfff0f0fff0f0f0f0
	word2     = 0x30303a3030203030
	wordT     = (' ' ^ 'T') << 16 // turns the space of word2 into a T
	word2add  = 0x0606000606000606
	word2mask = 0xf0f0fff0f0fff0f0
	word3     = 0x003030302e30303a
	word3add  = 0x0006060600060600
	word3mask = 0x00f0f0f0fff0f0ff
	word4mask = 0x0000000000f0f0ff // seconds without fraction
)

// DateCache reads timestamps and remembers the last date, since neighbouring records mostly share
// it.
type DateCache struct {
	// ISO expects a T between date and time instead of a space.
	ISO  bool
	word uint64
	day  uint16
	ms   int64
}

// Quoted reads "yyyy-MM-dd HH:mm:ss" with three or no fractional digits, in quotes, with a Z behind
// it where zone is set.
func (d *DateCache) Quoted(data []byte, i int, zone bool) (ms int64, end int) {
	if i+25 > len(data) || data[i] != '"' {
		return 0, 0
	}
	ms, n := d.words(load(data, i+1), load(data, i+9), load(data, i+17))
	end = i + 1 + n
	if n == 0 || zone && data[end] != 'Z' {
		return 0, 0
	}
	if zone {
		end++
	}
	if end >= len(data) || data[end] != '"' {
		return 0, 0
	}
	return ms, end + 1
}

// Bare reads yyyy-MM-dd HH:mm:ss with three or no fractional digits and a Z behind it where zone is
// set, if that is all of b.
func (d *DateCache) Bare(b []byte, zone bool) (ms int64, ok bool) {
	if zone {
		if len(b) == 0 || b[len(b)-1] != 'Z' {
			return 0, false
		}
		b = b[:len(b)-1]
	}
	n := len(b)
	if n != 19 && n != 23 {
		return 0, false
	}
	ms, read := d.words(load(b, 0), load(b, 8), load(b, n-8)>>(8*(24-n)))
	return ms, read == n
}

// words reads a timestamp from its three words and returns how many bytes of them it is, 19 or 23,
// or 0.
func (d *DateCache) words(x1, x2, x3 uint64) (ms int64, n int) {
	y2, y3 := x2^word2, x3^word3
	if d.ISO {
		y2 ^= wordT
	}
	if (y2|(y2+word2add))&word2mask != 0 {
		return 0, 0
	}
	z2, z3 := y2*10+y2>>8, y3*10+y3>>8
	switch {
	case (y3|(y3+word3add))&word3mask == 0:
		ms, n = int64(z3>>32&0xff)*10+int64(y3>>48&0xff), 23
	case (y3|(y3+word3add))&word4mask == 0:
		n = 19
	default:
		return 0, 0
	}
	hour, minute, second := z2>>24&0xff, z2>>48&0xff, z3>>8&0xff
	if hour > 23 || minute > 59 || second > 59 {
		return 0, 0
	}
	if x1 != d.word || uint16(x2) != d.day {
		if !d.date(x1, uint16(x2), int(z2&0xff)) {
			return 0, 0
		}
	}
	return d.ms + int64(hour)*3600000 + int64(minute)*60000 + int64(second)*1000 + ms, n
}

// date fills the cache.
func (d *DateCache) date(x1 uint64, dayText uint16, day int) bool {
	y1 := x1 ^ word1
	if (y1|(y1+word1add))&word1mask != 0 {
		return false
	}
	z1 := y1*10 + y1>>8
	year, month := int(z1&0xff)*100+int(z1>>16&0xff), int(z1>>40&0xff)
	if month < 1 || month > 12 || day < 1 || day > types.DaysInMonth(year, month) {
		return false
	}
	d.word, d.day = x1, dayText
	d.ms = int64(types.DaysFromCivil(year, month, day)) * 86400000
	return true
}
