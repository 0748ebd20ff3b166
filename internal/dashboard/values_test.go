package dashboard

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestAdder(t *testing.T) {
	for _, c := range []struct {
		fn   string
		in   []any
		want string
	}{
		{"sum", nil, "<nil>"},
		{"sum", []any{nil, nil}, "<nil>"},
		{"sum", []any{int64(2), int64(3)}, "5"},
		{"sum", []any{int64(math.MaxInt64), int64(1), int64(-2)}, "9223372036854775806"},
		{"sum", []any{int64(math.MinInt64), int64(-1)}, "-9223372036854775809"},
		{"sum", []any{"0.10", "0.2", "12345678901234567890.05"}, "12345678901234567890.35"},
		{"sum", []any{0.5, int64(2)}, "2.5"},
		{"min", []any{int64(3), nil, int64(2)}, "2"},
		{"max", []any{"9.5", "10.25"}, "10.25"},
		{"max", []any{time.UnixMilli(5).UTC(), time.UnixMilli(7).UTC()}, "1970-01-01 00:00:00.007 +0000 UTC"},
		{"avg", []any{"10.05", "20.05"}, "15.05"},
		{"avg", []any{1.5, 2.0}, "1.75"},
	} {
		a := adder{fn: c.fn}
		for _, v := range c.in {
			a.add(v, 1)
		}
		if got := fmt.Sprint(a.result()); got != c.want {
			t.Errorf("%s of %v is %s, not %s", c.fn, c.in, got, c.want)
		}
	}
}

func TestJSONValue(t *testing.T) {
	for _, c := range []struct{ in, want any }{
		{nil, nil}, {true, true}, {int64(7), int64(7)}, {int64(1) << 60, "1152921504606846976"}, {math.Inf(1), "+Inf"}, {"12.50", "12.50"},
		{time.UnixMilli(1500).UTC(), "1970-01-01 00:00:01.5"}, {time.UnixMilli(0).UTC(), "1970-01-01 00:00:00"},
	} {
		if got := jsonValue(c.in); got != c.want {
			t.Errorf("%v is %v, not %v", c.in, got, c.want)
		}
	}
}
