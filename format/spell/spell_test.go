package spell_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
)

// FuzzFast compares the functions for the usual spelling with those for every spelling.
func FuzzFast(f *testing.F) {
	for _, s := range []string{"12", "-123456789012345678", "0.5", "00", "1.", "-0", "12345678",
		"2024-02-29 23:59:59.123", "2024-01-02 03:04:05", "2023-02-29 00:00:00", "1e5",
		"2024-01-02 24:00:00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, tail := range []string{"", ",", "},\"next\":1"} {
			data := append(append([]byte{}, b...), tail...)
			if v, end := spell.Integer(data, 0); end > 0 {
				if want, ok := spell.ParseInt(data[:end]); !ok || v != want {
					t.Fatalf("Integer(%q) = %d, ParseInt %d %v", data, v, want, ok)
				}
			}
			if v, end := spell.Double(data, 0); end > 0 {
				want, err := strconv.ParseFloat(string(data[:end]), 64)
				if err != nil || v != want || math.Signbit(v) != math.Signbit(want) {
					t.Fatalf("Double(%q) = %v, ParseFloat %v %v", data, v, want, err)
				}
			}
			if v, end := spell.Decimal(data, 0, 3, 1e9); end > 0 {
				want, ok := types.ParseDecimal(data[:end], 9, 3)
				if !ok || types.I128(v) != want {
					t.Fatalf("Decimal(%q) = %d, ParseDecimal %v %v", data, v, want, ok)
				}
			}
			quoted := append([]byte{'"'}, b...)
			quoted = append(append(quoted, '"'), tail...)
			for _, iso := range []bool{false, true} {
				for _, zone := range []bool{false, true} {
					fastTime(t, b, quoted, iso, zone)
				}
			}
		}
	})
}

func fastTime(t *testing.T, b, quoted []byte, iso, zone bool) {
	t.Helper()
	d := spell.DateCache{ISO: iso}
	if ms, end := d.Quoted(quoted, 0, zone); end > 0 {
		want, nanos, ok := spell.ParseDateTime(quoted[1:end-1], iso, zone)
		if !ok || ms != want || nanos != 0 {
			t.Fatalf("Quoted(%q) = %d, ParseDateTime %d %d %v", quoted, ms, want, nanos, ok)
		}
	}
	if ms, ok := d.Bare(b, zone); ok {
		want, nanos, ok := spell.ParseDateTime(b, iso, zone)
		if !ok || ms != want || nanos != 0 {
			t.Fatalf("Bare(%q) = %d, ParseDateTime %d %d %v", b, ms, want, nanos, ok)
		}
	}
}

// TestTimestamps writes times of all kinds, reads them back in both ways and asks package time.
func TestTimestamps(t *testing.T) {
	var d spell.DateCache
	for ms := int64(-62135596800000); ms < 253402300800000; ms += 86399999*1013 + 7 {
		text := spell.AppendTimestamp(nil, ms, 0, ' ')
		want := time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.999")
		if string(text) != want {
			t.Fatalf("%d is written %s, want %s", ms, text, want)
		}
		if got, _, ok := spell.ParseDateTime(text, false, false); !ok || got != ms {
			t.Fatalf("%s is read as %d, want %d", text, got, ms)
		}
		full := types.AppendTimestamp(nil, ms, 0, 3)
		if got, ok := d.Bare(full, false); !ok || got != ms {
			t.Fatalf("Bare(%s) = %d %v, want %d", full, got, ok, ms)
		}
	}
}

// TestAppendDecimal compares with what BigDecimal's rule gives by another way.
func TestAppendDecimal(t *testing.T) {
	for _, x := range []int64{0, 1, -1, 10, 100, 1200, -1200, 123456, 1000000, 7, math.MaxInt64} {
		for scale := 0; scale <= 18; scale++ {
			want := new(big.Rat).SetFrac(big.NewInt(x), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
			for _, plain := range []bool{false, true} {
				text := string(spell.AppendDecimal(nil, types.I128(x), scale, plain))
				got, ok := new(big.Rat).SetString(text)
				if !ok || got.Cmp(want) != 0 {
					t.Errorf("%d / 10^%d is written %s", x, scale, text)
				}
				if plain && !spell.IsDecimal([]byte(text)) {
					t.Errorf("%s is no number", text)
				}
			}
		}
	}
	for text, want := range map[string]string{
		"100 0": "1E+2", "1200 1": "1.2E+2", "1 7": "1E-7", "1 6": "0.000001", "-15 1": "-1.5", "0 3": "0",
	} {
		var x int64
		var scale int
		if _, err := fmt.Sscan(text, &x, &scale); err != nil {
			t.Fatal(err)
		}
		if got := string(spell.AppendDecimal(nil, types.I128(x), scale, false)); got != want {
			t.Errorf("%d / 10^%d is written %s, want %s", x, scale, got, want)
		}
	}
}

func TestAppendBase64(t *testing.T) {
	for n := range 40 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*37 + n)
		}
		got, ok := spell.AppendBase64(nil, []byte(base64.StdEncoding.EncodeToString(b)))
		if !ok || string(got) != string(b) {
			t.Fatalf("%x comes back as %x %v", b, got, ok)
		}
	}
	for _, s := range []string{"A", "AB", "ABC", "A===", "AB=C", "AB-_", "A BC", "=ABC"} {
		if got, ok := spell.AppendBase64(nil, []byte(s)); ok {
			t.Errorf("%q is read as %x", s, got)
		}
	}
}
