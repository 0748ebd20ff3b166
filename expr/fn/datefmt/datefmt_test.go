package datefmt

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/types"
)

// local prints a local time as java.time.LocalDateTime does.
func local(ms int64, nanos int32) string {
	t := time.UnixMilli(ms).UTC().Add(time.Duration(nanos))
	s := t.Format("2006-01-02T15:04")
	if t.Year() > 9999 {
		s = "+" + s
	}
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return s
	}
	s += t.Format(":05")
	if n := t.Nanosecond(); n != 0 {
		f := fmt.Sprintf(".%09d", n)
		for strings.HasSuffix(f, "000") {
			f = f[:len(f)-3]
		}
		s += f
	}
	return s
}

func parsed(ms int64, nanos int32, ok bool, bad string) string {
	if !ok {
		return bad
	}
	return local(ms, nanos)
}

func TestAgainstJava(t *testing.T) {
	f, err := os.Open("testdata/java.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		p := strings.Split(line, "|")
		var got, want string
		switch p[0] {
		case "D":
			c, err := Compile(p[1])
			if err != nil {
				t.Error(err)
				continue
			}
			ms, _ := strconv.ParseInt(p[2], 10, 64)
			got, want = string(c.Append(nil, ms, 12345)), p[3]
		case "S":
			c, err := CompileSimple(p[1])
			if err != nil {
				t.Error(err)
				continue
			}
			ms, _ := strconv.ParseInt(p[2], 10, 64)
			loc, _ := LoadZone(p[3])
			got, want = string(c.Append(nil, ms, NewZone(loc))), p[4]
		case "P":
			c, err := Compile(p[1])
			if err != nil {
				t.Error(err)
				continue
			}
			ms, _, ok := c.ParseOr([]byte(p[2]))
			got = parsed(ms, 0, ok, "null") + "|!"
			if s, err := CompileSimple(p[1]); err == nil {
				if ms, ok := s.Parse([]byte(p[2]), NewZone(nil)); ok {
					got = strings.TrimSuffix(got, "!") + fmt.Sprint(ms)
				}
			}
			want = strings.ReplaceAll(p[3]+"|"+p[4], "!Invalid date 'FEBRUARY 30'", "null")
		default:
			continue
		}
		if got != want {
			t.Errorf("%s: got %s", line, got)
		}
	}
}

func TestCivil(t *testing.T) {
	at := time.Date(-500, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; i < 5000; i++ {
		days := int(at.Unix() / 86400)
		y, m, d := Civil(days)
		if y != at.Year() || m != int(at.Month()) || d != at.Day() || Days(y, m, d) != days {
			t.Fatalf("%v: %d-%d-%d", at, y, m, d)
		}
		wy, ww := ISOWeek(days)
		if gy, gw := at.ISOWeek(); wy != gy || ww != gw || YearDay(days) != at.YearDay() {
			t.Fatalf("%v: week %d of %d", at, ww, wy)
		}
		at = at.AddDate(0, 0, 211)
	}
}

func TestMonthsBetween(t *testing.T) {
	f := func(a, b string, want int) {
		t.Helper()
		x, _ := types.ParseDate([]byte(a))
		y, _ := types.ParseDate([]byte(b))
		if got := MonthsBetween(int(x), int(y)); got != want {
			t.Errorf("%s - %s: %d months", a, b, got)
		}
	}
	f("2020-03-31", "2020-02-29", 1)
	f("2020-02-29", "2020-01-31", 1)
	f("2020-02-28", "2020-01-31", 0)
	f("2020-02-15", "2021-03-16", -13)
}

func TestZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	utc := func(s string) string {
		ms, _, _ := types.ParseSQLTimestamp([]byte(s))
		z := NewZone(berlin)
		return local(z.UTC(ms), 0) + " " + local(z.UTCLate(ms), 0)
	}
	f := func(s, want string) {
		t.Helper()
		if got := utc(s); got != want {
			t.Errorf("%s: %s", s, got)
		}
	}
	f("2021-03-28 01:59:00", "2021-03-28T00:59 2021-03-28T00:59")
	f("2021-03-28 02:30:00", "2021-03-28T01:30 2021-03-28T01:30") // skipped
	f("2021-03-28 03:00:00", "2021-03-28T01:00 2021-03-28T01:00")
	f("2021-10-31 02:30:00", "2021-10-31T00:30 2021-10-31T01:30") // twice
	f("2021-10-31 03:00:00", "2021-10-31T02:00 2021-10-31T02:00")
	z := NewZone(berlin)
	for ms := int64(1600000000000); ms < 1640000000000; ms += 1234567891 {
		if back := z.UTC(z.Local(ms)); back != ms && z.UTCLate(z.Local(ms)) != ms {
			t.Fatalf("%d: %d", ms, back)
		}
	}
}

func TestLoadZone(t *testing.T) {
	for name, want := range map[string]int{"GMT+8": 28800, "UTC-05:30": -19800, "+0100": 3600, "UTC": 0} {
		loc, ok := LoadZone(name)
		_, off := time.Unix(0, 0).In(loc).Zone()
		if !ok || off != want {
			t.Errorf("%s: %d %v", name, off, ok)
		}
	}
	if _, ok := LoadZone("Mars/Olympus"); ok {
		t.Error("a zone on Mars")
	}
}

func TestCompileErrors(t *testing.T) {
	for _, p := range []string{"yyyy-'", "b", "HHH", "yyyy]", "z", "{", "SSSSSSSSSS"} {
		if _, err := Compile(p); err == nil {
			t.Errorf("%q compiles", p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("yyyy-MM-dd HH:mm:ss", "2020-01-02 03:04:05")
	f.Add("yyyyMMdd[ HH]['x']", "20200102 03")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if c, err := CompileSimple(pattern); err == nil {
			c.Parse([]byte(s), NewZone(nil))
		}
		c, err := Compile(pattern)
		if err != nil {
			return
		}
		if ms, nanos, ok := c.Parse([]byte(s)); ok && ms > -1e15 && ms < 1e15 {
			c.Append(nil, ms, nanos)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, p := range []string{"yyyy-MM-dd", "HH:mm", "yyyy-MM-dd HH:mm:ss.SSS"} {
		c, _ := Compile(p)
		b.Run(p, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			ms := int64(1700000000000)
			for b.Loop() {
				buf = c.Append(buf[:0], ms, 0)
				ms += 777
			}
		})
	}
}
