package expr

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/types"
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

// TestParseDateOfEveryMonth reads the days 1 to 31 of each month of years with and without February
// 29th, written out and short.
func TestParseDateOfEveryMonth(t *testing.T) {
	for _, y := range []int{1, 1900, 1970, 2000, 2023, 2024, 9999} {
		for m := time.January; m <= time.December; m++ {
			for d := 1; d <= 31; d++ {
				at := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
				want, has := int32(at.Unix()/86400), at.Month() == m
				for _, form := range []string{"%04d-%02d-%02d", "%d-%d-%d", " %d - %d - %d", "%04d-%02d-%02d 10:00:00"} {
					s := fmt.Sprintf(form, y, m, d)
					if got, ok := ParseDate([]byte(s)); ok != has || ok && got != want {
						t.Errorf("ParseDate(%q) = %d %v, want %d %v", s, got, ok, want, has)
					}
				}
				text := fmt.Sprintf("%04d-%02d-%02d 24:00:00", y, m, d)
				// In a timestamp, a day that the month lacks stands for its last.
				midnight := min(at.UnixMilli(), time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()-86400000) + 86400000
				if ms, _, ok := ParseTimestamp([]byte(text)); !ok || ms != midnight {
					t.Errorf("ParseTimestamp(%q) = %d %v, want %d", text, ms, ok, midnight)
				}
			}
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2023-02-31", "2024-2-29 24:00:00", "2023-01-01 24:", "2023-01-01 24:00:00.", "-1-1-31", "1-1-031"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, ok := ParseDate(b); ok {
			if again, ok := ParseDate(types.AppendDate(nil, d)); !ok || again != d {
				t.Fatalf("ParseDate(%q) = %d, which reads as %d %v", b, d, again, ok)
			}
		}
		if ms, nanos, ok := ParseTimestamp(b); ok && ms < 253402300800000 {
			text := types.AppendTimestamp(nil, ms, nanos, 9)
			if again, n, ok := ParseTimestamp(text); !ok || again != ms || n != nanos {
				t.Fatalf("ParseTimestamp(%q) = %s, which reads as %d %d %v", b, text, again, n, ok)
			}
		}
	})
}
