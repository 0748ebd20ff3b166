package types

import "math/big"

// Big returns a as an arbitrary-precision integer.
func (a Int128) Big() *big.Int {
	b := big.NewInt(a.Hi)
	b.Lsh(b, 64)
	return b.Add(b, new(big.Int).SetUint64(a.Lo))
}

// DecimalString prints a as a decimal number with scale fractional digits.
func (a Int128) DecimalString(scale int) string {
	s := a.Big().String()
	if scale <= 0 {
		return s
	}
	neg := s[0] == '-'
	if neg {
		s = s[1:]
	}
	for len(s) <= scale {
		s = "0" + s
	}
	s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	if neg {
		s = "-" + s
	}
	return s
}
