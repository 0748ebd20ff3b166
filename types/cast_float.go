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
	// strconv gives d.ddde+XX; Java wants a point always, E, no plus and no leading zero.
	var buf [32]byte
	b := strconv.AppendFloat(buf[:0], f, 'e', -1, size)
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
