package types

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestCivilAgainstTime(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 200000 {
		days := int32(r.IntN(4000000)) - 1500000
		if i < 2000 {
			days = int32(i) - 1000
		}
		at := time.Unix(int64(days)*86400, 0).UTC()
		y, m, d := CivilFromDays(days)
		if y != at.Year() || m != int(at.Month()) || d != at.Day() {
			t.Fatalf("day %d is %d-%d-%d, want %v", days, y, m, d, at)
		}
		if back := DaysFromCivil(y, m, d); back != days {
			t.Fatalf("%d-%d-%d is day %d, want %d", y, m, d, back, days)
		}
		months := r.IntN(100) - 50
		first := time.Date(y, time.Month(m+months), 1, 0, 0, 0, 0, time.UTC)
		want := min(d, DaysInMonth(first.Year(), int(first.Month())))
		y2, m2, d2 := CivilFromDays(AddMonthsToDays(days, months))
		if y2 != first.Year() || m2 != int(first.Month()) || d2 != want {
			t.Fatalf("%d-%d-%d + %d months = %d-%d-%d", y, m, d, months, y2, m2, d2)
		}
	}
}

func TestTimestampText(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100000 {
		ms := r.Int64N(400000000000000) - 62000000000000
		nanos := int32(r.IntN(1e6))
		p := r.IntN(10)
		ms, nanos = RoundTimestamp(ms, nanos, p)
		text := AppendTimestamp(nil, ms, nanos, p)
		at := time.UnixMilli(ms).Add(time.Duration(nanos)).UTC()
		layout := "2006-01-02 15:04:05.000000000"
		if want := at.Format(layout); at.Year() > 0 && at.Year() < 10000 {
			if cut := 20 + p; p == 0 && string(text) != want[:19] || p > 0 && string(text) != want[:cut] {
				t.Fatalf("%s, want %s", text, want)
			}
			gotMs, gotNanos, ok := ParseTimestamp(text)
			if !ok || gotMs != ms || gotNanos != nanos {
				t.Fatalf("ParseTimestamp(%s) = %d %d %v", text, gotMs, gotNanos, ok)
			}
		}
	}
}

func TestParseTimestamp(t *testing.T) {
	f := func(in, want string, sql bool) {
		t.Helper()
		show := func(ms int64, nanos int32, ok bool) string {
			if !ok {
				return "no"
			}
			return string(AppendTimestamp(nil, ms, nanos, 9))
		}
		if got := show(ParseTimestamp([]byte(in))); got != want {
			t.Errorf("ParseTimestamp(%q) = %s, want %s", in, got, want)
		}
		if !sql {
			want = "no"
		}
		if got := show(ParseSQLTimestamp([]byte(in))); got != want {
			t.Errorf("ParseSQLTimestamp(%q) = %s, want %s", in, got, want)
		}
	}
	f("2024-02-03 04:05:06", "2024-02-03 04:05:06.000000000", true)
	f("2024-02-03 04:05:06.7", "2024-02-03 04:05:06.700000000", true)
	f("2024-02-03 04:05:06.123456789", "2024-02-03 04:05:06.123456789", true)
	f("2024-02-03T04:05:06.123Z", "2024-02-03 04:05:06.123000000", false)
	f("2024-02-03T04:05:06", "2024-02-03 04:05:06.000000000", false)
	f("2024-02-03 04:05:06Z", "2024-02-03 04:05:06.000000000", false)
	f("2024-2-3 4:5:6", "2024-02-03 04:05:06.000000000", true)
	f("2024-02-03", "2024-02-03 00:00:00.000000000", true)
	f("2023-02-29 00:00:00", "2023-02-28 00:00:00.000000000", true)
	f("12345-01-01 00:00:00", "12345-01-01 00:00:00.000000000", true)
	for _, bad := range []string{"", "2024", "2024-02", "2024-13-01", "2024-01-32", "2024-01-01 24:00:00",
		"2024-01-01 00:60:00", "2024-01-01 00:00:00.1234567890", "2024-01-01 00:00", "24-01-01", "2024-01-01 ",
		"2024-01-01 00:00:00 ", "2024-01-01 00:00:00.x", "2024-01-01x00:00:00", "Z", "2024-01-01T00:00:00+01:00"} {
		f(bad, "no", false)
	}
}

func TestParseDateAndTime(t *testing.T) {
	for in, want := range map[string]string{
		"2024-02-03": "2024-02-03", " 2024 - 2 - 3": "2024-02-03", "2024-2-3": "2024-02-03", "2024": "2024-01-01",
		"2024-05": "2024-05-01", "2023-02-30": "2023-03-02", "2024-02-03 x": "2024-02-03", "2024-00-01": "no",
		"x": "no", "": "no", "2024/02/03": "no", "2024-02-03-04": "no", "99999-01-01": "no",
	} {
		got := "no"
		if d, ok := ParseDate([]byte(in)); ok {
			got = string(AppendDate(nil, d))
		}
		if got != want {
			t.Errorf("ParseDate(%q) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"04:05:06": "04:05:06.000", "4:5:6.78": "04:05:06.780", "04:05": "04:05:00.000", "4": "04:00:00.000",
		"04:05:06.1239": "04:05:06.123", "10:00:00-02:30": "07:30:00.000", "10:00:00+2": "12:00:00.000",
		"x": "no", "": "no", "2024-01-01": "no", "04:xx": "no", "04:05:06.x": "no",
	} {
		got := "no"
		if ms, ok := ParseTime([]byte(in)); ok {
			got = string(AppendTime(nil, ms, 3))
		}
		if got != want {
			t.Errorf("ParseTime(%q) = %s, want %s", in, got, want)
		}
	}
	if got := string(AppendDate(nil, DaysFromCivil(-44, 3, 15))); got != "-0044-03-15" {
		t.Error(got)
	}
}

// TestZoneAgainstTime compares with package time around every change of an offset in 60 years.
func TestZoneAgainstTime(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		z := NewZone(loc)
		for ms := time.Date(1965, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(); ms < 1800000000000; ms += 7*MsPerHour + 11*MsPerMinute {
			_, off := time.UnixMilli(ms).In(loc).Zone()
			local := z.ToLocal(ms)
			if local != ms+int64(off)*1000 {
				t.Fatalf("%s: local time of %d is %d", name, ms, local)
			}
			back := z.ToInstant(local)
			// A local time that comes twice means its first instant.
			if back != ms && (back > ms || z.ToLocal(back) != local) {
				t.Fatalf("%s: instant of %d is %d, want %d", name, local, back, ms)
			}
		}
	}
}

func FuzzParseTimes(f *testing.F) {
	for _, s := range []string{"2024-02-03 04:05:06.123456789", "2024-02-03T04:05:06Z", "2024-2-3", "10:20:30.5+01:00", "-1-1-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if ms, nanos, ok := ParseTimestamp(b); ok {
			text := AppendTimestamp(nil, ms, nanos, 9)
			if m2, n2, ok := ParseTimestamp(text); !ok && text[0] != '-' || ok && (m2 != ms || n2 != nanos) {
				t.Fatalf("%q reads as %s, which reads as %d %d %v", b, text, m2, n2, ok)
			}
			if m2, n2, ok := ParseSQLTimestamp(b); ok && (m2 != ms || n2 != nanos) {
				t.Fatalf("%q means two things", b)
			}
		}
		if d, ok := ParseDate(b); ok {
			if d2, ok := ParseDate(AppendDate(nil, d)); (!ok || d2 != d) && d < 2932897 {
				t.Fatalf("%q reads as day %d and then %d", b, d, d2)
			}
		}
		if ms, ok := ParseTime(b); ok {
			AppendTime(nil, ms, 3)
		}
	})
}

func BenchmarkTimestampText(b *testing.B) {
	var buf []byte
	b.Run("append", func(b *testing.B) {
		for i := range int64(b.N) {
			buf = AppendTimestamp(buf[:0], 1700000000000+i*1234567, 0, 3)
		}
	})
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, _, ok := ParseTimestamp(buf); !ok {
				b.Fatal()
			}
		}
	})
}
