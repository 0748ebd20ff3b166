package expr

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

func TestParseFloat(t *testing.T) {
	for in, want := range map[string]string{
		"1": "1", " -1.5e3 ": "-1500", ".5": "0.5", "1d": "1", "2F": "2", "1e400": "+Inf", "NaN": "NaN",
		"-Infinity": "-Inf", "": "no", "inf": "no", "0x10": "no", "1_0": "no", "d": "no", "e5": "no", "nan": "no", "--1": "no",
	} {
		got := "no"
		if x, ok := ParseFloat([]byte(in), 64); ok {
			got = strconv.FormatFloat(x, 'g', -1, 64)
		}
		if got != want {
			t.Errorf("ParseFloat(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzParseNumbers(f *testing.F) {
	for _, s := range []string{"1", "-9223372036854775808", "9223372036854775808", "1.x", " +7.5 ", "1e5", "NaN", "true", ".", "-"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := strings.Trim(string(b), "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13"+
			"\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f ")
		whole, frac, _ := strings.Cut(s, ".")
		digits := strings.TrimLeft(whole, "+-")
		if len(whole)-len(digits) > 1 {
			digits = "x"
		}
		want, ok := new(big.Int).SetString("0"+digits, 10)
		ok = ok && strings.Trim(digits+frac, "0123456789") == "" && len(s) > len(whole)-len(digits)
		if ok && whole != digits && whole[0] == '-' {
			want.Neg(want)
		}
		v, got := ParseInteger(b)
		if got != (ok && want.IsInt64()) || got && v != want.Int64() {
			t.Fatalf("ParseInteger(%q) = %d %v, want %v %v", b, v, got, want, ok)
		}
		x, got := ParseFloat(b, 64)
		y, err := strconv.ParseFloat(s, 64)
		if err == nil && !got && !strings.ContainsAny(s, "_xXiInN") || got && err == nil && x != y && !math.IsNaN(x) {
			t.Fatalf("ParseFloat(%q) = %v %v, want %v %v", b, x, got, y, err)
		}
		ParseBoolean(b)
	})
}
