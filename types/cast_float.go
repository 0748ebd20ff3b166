package types

import (
	"math"
	"strconv"
)

// AppendDouble appends f as Java's Double.toString does: 1.0, 1.0E10, 1.0E-5, NaN, Infinity.
func AppendDouble(dst []byte, f float64) []byte { return appendJava(dst, f, 64) }

// AppendFloat appends f as Java's Float.toString does.
func AppendFloat(dst []byte, f float32) []byte { return appendJava(dst, float64(f), 32) }

// appendJava prints the shortest digits that read back as f, plain from 10^-3 to 10^7 and with an
// exponent elsewhere, always with a digit after the point.
func appendJava(dst []byte, f float64, size int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0:
		if math.Signbit(f) {
			dst = append(dst, '-')
		}
		return append(dst, "0.0"...)
	}
	if a := math.Abs(f); a >= 1e-3 && a < 1e7 {
		at := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, size)
		for _, c := range dst[at:] {
			if c == '.' {
				return dst
			}
		}
		return append(dst, ".0"...)
	}
	if a := math.Abs(f); a >= 1e7 && a < 1<<63 && a == math.Trunc(a) {
		return appendWhole(dst, f < 0, int64(a), math.Ilogb(a)-size64(size))
	}
	// strconv gives d.ddde+XX; Java wants a point always, E, no plus and no leading zero.
	var buf [32]byte
	b := strconv.AppendFloat(buf[:0], f, 'e', -1, size)
	if len(b) < 3 || b[1] != '.' && b[2] != '.' {
		// Java always gives two digits, the nearest: 4.9E-324.
		b = strconv.AppendFloat(buf[:0], f, 'e', 1, size)
	}
	point := false
	for i, c := range b {
		if c == '.' {
			point = true
		}
		if c != 'e' {
			dst = append(dst, c)
			continue
		}
		if !point {
			dst = append(dst, ".0"...)
		}
		dst = append(dst, 'E')
		e := b[i+1:]
		if e[0] == '-' {
			dst = append(dst, '-')
		}
		for e = e[1:]; len(e) > 1 && e[0] == '0'; {
			e = e[1:]
		}
		return append(dst, e...)
	}
	return dst
}

// size64 is the number of bits of a float's significand.
func size64(size int) int {
	if size == 32 {
		return 24
	}
	return 53
}

// appendWhole prints a whole number in exponent form. Java (up to 18) rounds away only the digits
// that lie wholly below the unit of the significand, beyond bits above it, which leaves one digit
// more than needed at times: 1.23456788E10 for a float.
func appendWhole(dst []byte, neg bool, v int64, beyond int) []byte {
	if neg {
		dst = append(dst, '-')
	}
	drop := 0
	if beyond > 2 {
		drop = (beyond - 1) * 30103 / 100000
		p := int64(pow10u[drop])
		half := v%p >= p/2
		v /= p
		if half && drop > 0 {
			v++
		}
	}
	for v%10 == 0 && v > 9 {
		v /= 10
		drop++
	}
	at := len(dst)
	dst = strconv.AppendInt(append(dst, ' '), v, 10)
	dst[at], dst[at+1] = dst[at+1], '.'
	exp := len(dst) - at - 2 + drop
	if dst[len(dst)-1] == '.' {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(append(dst, 'E'), int64(exp), 10)
}
