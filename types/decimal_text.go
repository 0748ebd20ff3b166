package types

// ParseDecimal reads a number such as -12.50, .5 or 1.25e3 as DECIMAL(p, s), unscaled, rounding
// half away from zero. ok is false for anything else, also for spaces around it, and for a number
// with more than p-s integer digits.
func ParseDecimal(b []byte, p, s int) (v Int128, ok bool) {
	i, neg := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg = b[0] == '-'
		i++
	}
	start, point := i, -1
	for ; i < len(b); i++ {
		if c := b[i]; c == '.' && point < 0 {
			point = i
		} else if c < '0' || c > '9' {
			break
		}
	}
	end := i
	if point < 0 {
		point = end
	}
	if digits := end - start; digits == 0 || digits == 1 && point < end {
		return v, false
	}
	exp := 0
	if i < len(b) {
		if exp, ok = parseExponent(b[i:]); !ok {
			return v, false
		}
	}
	// whole counts the digits before the point once leading zeros are gone and the exponent is
	// applied; it may be negative.
	for start < end && (b[start] == '0' || start == point) {
		start++
	}
	if start == end {
		return v, true
	}
	whole := point - start
	if start > point {
		whole++
	}
	whole += exp
	keep := whole + s // digits that remain, the next one rounds
	if whole > p-s {
		return v, false
	}
	if keep < 0 {
		return v, true
	}
	v, half := readDigits(b[start:end], keep)
	if half {
		v = v.Add(I128(1))
	}
	if neg {
		v = v.Neg()
	}
	return v, v.FitsDecimal(p)
}

// parseExponent reads e+12.
func parseExponent(b []byte) (exp int, ok bool) {
	if b[0]|0x20 != 'e' || len(b) < 2 {
		return 0, false
	}
	b = b[1:]
	neg := b[0] == '-'
	if neg || b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		exp = min(exp*10+int(c-'0'), 1<<20)
	}
	if neg {
		exp = -exp
	}
	return exp, true
}

// readDigits reads the first keep digits of b, which may hold a point, padded with zeros; half
// reports whether the digit after them is 5 or more. keep is at most MaxPrecision.
func readDigits(b []byte, keep int) (v Int128, half bool) {
	var word uint64
	n := 0 // digits in word
	for _, c := range b {
		if c == '.' {
			continue
		}
		if keep == 0 {
			half = c >= '5'
			break
		}
		keep--
		word = word*10 + uint64(c-'0')
		if n++; n == 18 {
			v = shiftAdd(v, n, word)
			word, n = 0, 0
		}
	}
	v = shiftAdd(v, n, word)
	if keep > 0 {
		v = shiftAdd(v, keep, 0)
	}
	return v, half
}

// shiftAdd returns v * 10^n + w.
func shiftAdd(v Int128, n int, w uint64) Int128 {
	if v != (Int128{}) {
		v, _ = v.Mul(pow10[n])
	}
	return v.Add(Int128{Lo: w})
}

// AppendDecimal appends v / 10^scale in plain notation with scale fractional digits.
func AppendDecimal(dst []byte, v Int128, scale int) []byte {
	hi, lo, neg := v.abs()
	var buf [42]byte
	at := len(buf)
	for hi != 0 {
		var rem uint64
		hi, lo, rem = divWord(hi, lo, pow10u[19])
		for k := 0; k < 19; k++ {
			at--
			buf[at] = byte('0' + rem%10)
			rem /= 10
		}
	}
	for lo != 0 || at == len(buf) {
		at--
		buf[at] = byte('0' + lo%10)
		lo /= 10
	}
	if neg {
		dst = append(dst, '-')
	}
	d := buf[at:]
	if scale <= 0 {
		return append(dst, d...)
	}
	if len(d) <= scale {
		dst = append(dst, '0', '.')
		for k := len(d); k < scale; k++ {
			dst = append(dst, '0')
		}
		return append(dst, d...)
	}
	dst = append(dst, d[:len(d)-scale]...)
	dst = append(dst, '.')
	return append(dst, d[len(d)-scale:]...)
}
