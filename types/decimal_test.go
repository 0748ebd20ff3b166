package types

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// randomDecimal returns numbers of every length, and the ends of the ranges.
func randomDecimal(r *rand.Rand) Int128 {
	switch r.IntN(12) {
	case 0:
		return I128(int64(r.IntN(21) - 10))
	case 1:
		return Pow10(r.IntN(39)).Add(I128(int64(r.IntN(3) - 1)))
	case 2:
		return Pow10(38).Sub(I128(1)).Neg()
	case 3:
		return I128([]int64{math.MinInt64, math.MaxInt64}[r.IntN(2)])
	}
	v := Int128{Lo: r.Uint64(), Hi: int64(r.Uint64())}
	_, v = v.QuoRem(Pow10(1 + r.IntN(38)))
	return v
}

// roundHalfUp divides by d, half away from zero.
func roundHalfUp(x, d *big.Int) *big.Int {
	q, rem := new(big.Int).QuoRem(x, d, new(big.Int))
	if rem.Abs(rem).Lsh(rem, 1).CmpAbs(d) >= 0 {
		if x.Sign()*d.Sign() < 0 {
			return q.Sub(q, big.NewInt(1))
		}
		return q.Add(q, big.NewInt(1))
	}
	return q
}

func bigPow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

func TestDecimalAgainstBig(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fits := func(x *big.Int) bool { return x.BitLen() <= 127 }
	check := func(what string, got Int128, ok bool, want *big.Int, args ...any) {
		t.Helper()
		if ok != fits(want) || ok && got.Big().Cmp(want) != 0 {
			t.Fatalf("%s%v = %v %v, want %v", what, args, got.Big(), ok, want)
		}
	}
	for range 50000 {
		a, b := randomDecimal(r), randomDecimal(r)
		x, y := a.Big(), b.Big()
		if a.Cmp(b) != x.Cmp(y) || a.Less(b) != (x.Cmp(y) < 0) {
			t.Fatalf("Cmp(%v, %v)", x, y)
		}
		if got, want := a.Add(b).Big(), new(big.Int).Add(x, y); fits(want) && got.Cmp(want) != 0 {
			t.Fatalf("%v + %v = %v", x, y, got)
		}
		if got, want := a.Sub(b).Big(), new(big.Int).Sub(x, y); fits(want) && got.Cmp(want) != 0 {
			t.Fatalf("%v - %v = %v", x, y, got)
		}
		product := new(big.Int).Mul(x, y)
		m, ok := a.Mul(b)
		check("Mul", m, ok, product, x, y)
		drop := r.IntN(60)
		m, ok = MulDecimal(a, b, drop)
		check("MulDecimal", m, ok, roundHalfUp(product, bigPow10(drop)), x, y, drop)
		s, to := r.IntN(39), r.IntN(39)
		m, ok = a.Rescale(s, to)
		want := new(big.Int).Mul(x, bigPow10(max(0, to-s)))
		check("Rescale", m, ok, roundHalfUp(want, bigPow10(max(0, s-to))), x, s, to)
		if want, got := CmpDecimal(a, s, b, to), x.Mul(a.Big(), bigPow10(to)).Cmp(y.Mul(b.Big(), bigPow10(s))); want != got {
			t.Fatalf("CmpDecimal(%v, %d, %v, %d) = %d", a.Big(), s, b.Big(), to, want)
		}
		if b == (Int128{}) {
			continue
		}
		x, y = a.Big(), b.Big()
		shift := r.IntN(90) - 12
		m, ok = DivDecimal(a, b, shift)
		up, down := bigPow10(max(0, shift)), bigPow10(max(0, -shift))
		check("DivDecimal", m, ok, roundHalfUp(up.Mul(up, x), down.Mul(down, y)), x, y, shift)
		q, rem := a.QuoRem(b)
		wq, wr := new(big.Int).QuoRem(x, y, new(big.Int))
		if q.Big().Cmp(wq) != 0 || rem.Big().Cmp(wr) != 0 {
			t.Fatalf("QuoRem(%v, %v) = %v, %v", x, y, q.Big(), rem.Big())
		}
		p := 1 + r.IntN(38)
		if a.FitsDecimal(p) != (new(big.Int).Abs(x).Cmp(bigPow10(p)) < 0) {
			t.Fatalf("FitsDecimal(%v, %d)", x, p)
		}
		sum, ok := AddDecimalWide(a, s, b, to, false, to)
		w := new(big.Int).Add(x.Mul(x, bigPow10(max(0, to-s))), y.Mul(y, bigPow10(max(0, s-to))))
		check("AddDecimalWide", sum, ok, roundHalfUp(w, bigPow10(max(0, s-to))), a.Big(), s, b.Big(), to)
	}
}

func TestDecimalText(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 30000 {
		a, s := randomDecimal(r), r.IntN(39)
		text := AppendDecimal(nil, a, s)
		want := new(big.Rat).SetFrac(a.Big(), bigPow10(s)).FloatString(s)
		if string(text) != want {
			t.Fatalf("AppendDecimal(%v, %d) = %s", a.Big(), s, text)
		}
		got, ok := ParseDecimal(text, 38, s)
		if fit := a.FitsDecimal(38); ok != fit || ok && got != a {
			t.Fatalf("ParseDecimal(%s) = %v %v", text, got.Big(), ok)
		}
		f, _ := strconv.ParseFloat(want, 64)
		if got := a.Float64(s); got != f {
			t.Fatalf("Float64(%s) = %v", want, got)
		}
	}
}

func TestParseDecimal(t *testing.T) {
	f := func(in string, p, s int, want string) {
		t.Helper()
		v, ok := ParseDecimal([]byte(in), p, s)
		got := "no"
		if ok {
			got = v.DecimalString(s)
		}
		if got != want {
			t.Errorf("ParseDecimal(%q, %d, %d) = %s, want %s", in, p, s, got, want)
		}
	}
	f("12.345", 5, 2, "12.35")
	f("-12.345", 5, 2, "-12.35")
	f("999.995", 5, 2, "no")
	f("999.994", 5, 2, "999.99")
	f("1000", 5, 2, "no")
	f(".5", 1, 0, "1")
	f("5.", 1, 0, "5")
	f("0.0004", 5, 2, "0.00")
	f("0.005", 5, 2, "0.01")
	f("00000000000000000000000000000000000000000012", 3, 1, "12.0")
	f("1e3", 5, 1, "1000.0")
	f("1E+3", 5, 1, "1000.0")
	f("12345e-3", 5, 2, "12.35")
	f("1e-999999999999", 5, 2, "0.00")
	f("1e999999999999", 5, 2, "no")
	f("0e999999999999", 5, 2, "0.00")
	f("99999999999999999999999999999999999999", 38, 0, strings.Repeat("9", 38))
	f("0.99999999999999999999999999999999999999", 38, 38, "0."+strings.Repeat("9", 38))
	f("0.999999999999999999999999999999999999995", 38, 38, "no")
	for _, bad := range []string{"", "+", "-", ".", "e3", "1e", "1e+", "1.2.3", "1 ", "0x1", "1-", "NaN"} {
		f(bad, 10, 2, "no")
	}
}

func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"1.5", "-.5e3", "1e-40", "99999999999999999999999999999999999999.5", "--1"} {
		f.Add(s, 38, 10)
	}
	f.Fuzz(func(t *testing.T, in string, p, s int) {
		if p < 1 || p > 38 || s < 0 || s > p {
			return
		}
		v, ok := ParseDecimal([]byte(in), p, s)
		want, good := new(big.Rat).SetString(in)
		if len(in) > 100 || strings.ContainsAny(in, "_/xXoObBpP") || strings.Count(strings.ToLower(in), "e") == 1 && len(in) > 6 {
			return // big.Rat reads more, and large exponents are slow there
		}
		if !good {
			if ok {
				t.Fatalf("ParseDecimal(%q) = %v", in, v.Big())
			}
			return
		}
		num := new(big.Int).Mul(want.Num(), bigPow10(s))
		w := roundHalfUp(num, want.Denom())
		fits := new(big.Int).Abs(w).Cmp(bigPow10(p)) < 0
		if ok != fits || ok && v.Big().Cmp(w) != 0 {
			t.Fatalf("ParseDecimal(%q, %d, %d) = %v %v, want %v", in, p, s, v.Big(), ok, w)
		}
	})
}

func TestDecimalDoesNotAllocate(t *testing.T) {
	a, _ := ParseDecimal([]byte("1234567890123456789012345678.91"), 38, 2)
	b := Pow10(30).Add(I128(7))
	buf := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		x, _ := MulDecimal(a, b, 40)
		y, _ := DivDecimal(a, b, 30)
		z, _ := x.Rescale(2, 5)
		_ = y.Add(z).Float64(3)
		buf = AppendDecimal(buf[:0], z, 5)
		_, _ = ParseDecimal(buf, 38, 5)
		_, _ = DecimalFromFloat(1.5e10, 38, 3)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestJavaFloats(t *testing.T) {
	for f, want := range map[float64]string{
		1: "1.0", 0.1: "0.1", 100: "100.0", 9999999: "9999999.0", 1e7: "1.0E7", 12345678: "1.2345678E7",
		0.001: "0.001", 0.00099: "9.9E-4", 1e-5: "1.0E-5", 1e10: "1.0E10", -1.5e300: "-1.5E300",
		1.7976931348623157e308: "1.7976931348623157E308", 4.9e-324: "4.9E-324", 1e23: "1.0E23",
		6.425800057179654144e18: "6.4258000571796541E18",
		9007199254740993:        "9.007199254740992E15", 123456789012345680: "1.2345678901234568E17",
	} {
		if got := string(AppendDouble(nil, f)); got != want {
			t.Errorf("%v is printed as %s, want %s", f, got, want)
		}
	}
	for f, want := range map[float32]string{
		1: "1.0", 0.1: "0.1", 12345678901: "1.23456788E10", 9.2345682e9: "9.2345682E9", 1e10: "1.0E10",
		16777216: "1.6777216E7", 3.4028235e38: "3.4028235E38", 1.4e-45: "1.4E-45",
	} {
		if got := string(AppendFloat(nil, f)); got != want {
			t.Errorf("float %v is printed as %s, want %s", f, got, want)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)} {
		if got := string(AppendDouble(nil, f)); !strings.Contains("NaN Infinity -Infinity -0.0", got) {
			t.Errorf("%v is printed as %s", f, got)
		}
	}
}
