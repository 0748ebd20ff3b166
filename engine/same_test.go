package engine

import (
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// TestSameness has values as jobs have them and as targets write them: equal ones, and the next one, which is not.
func TestSameness(t *testing.T) {
	ts := func(text string) types.Int128 {
		ms, nanos, ok := types.ParseTimestamp([]byte(text))
		if !ok {
			t.Fatal(text)
		}
		return types.TS(ms, nanos)
	}
	at := func(text string) time.Time {
		x := ts(text)
		return time.UnixMilli(x.Hi).Add(time.Duration(x.Lo)).UTC()
	}
	array := func(e types.Type) types.Type { return types.Type{Kind: types.Array, Nullable: true, Elem: &e} }
	str, num := types.StringType, types.IntType
	mapOf := types.Type{Kind: types.Map, Nullable: true, Key: &str, Elem: &num}
	row := types.Type{Kind: types.Row, Nullable: true, Fields: []types.Field{{Name: "a", Type: num}, {Name: "b", Type: str}}}
	bytes := types.Type{Kind: types.VarBinary, Nullable: true, Precision: 100}
	char := types.Type{Kind: types.Char, Nullable: true, Precision: 5}
	clock := func(p int) types.Type { return types.Type{Kind: types.Time, Nullable: true, Precision: p} }
	days, months := types.Type{Kind: types.IntervalDayTime, Nullable: true}, types.Type{Kind: types.IntervalYearMonth, Nullable: true}
	type l = []types.Value
	for _, c := range []struct {
		target string
		t      types.Type
		v      types.Value
		stored any
		not    any
	}{
		{"postgres", types.BooleanType, true, true, false},
		{"postgres", types.IntType, int64(-3), int64(-3), int64(3)},
		{"postgres", types.IntType, nil, nil, int64(0)},
		{"postgres", types.StringType, "NULL", "NULL", nil},
		{"clickhouse", char, "ab   ", "ab", "abc"},
		{"postgres", bytes, []byte{0, 255, 'x'}, "00ff78", "00ff79"},
		{"clickhouse", types.FloatType, float64(float32(1.1)), 1.1, 1.2},
		{"clickhouse", types.DoubleType, 0.1, 0.1, 0.1000001},
		{"clickhouse", types.DecimalType(20, 5), types.I128(1_234_500), "12.34500", "12.34501"},
		{"clickhouse", types.DecimalType(20, 5), types.I128(1_200_000), "12", "12.1"},
		{"clickhouse", types.DateType, int64(19737), "2024-01-15", "2024-01-16"},
		{"clickhouse", clock(3), int64(36_063_000), "10:01:03.000", "10:01:03.001"},
		{"postgres", clock(3), int64(36_063_120), "10:01:03.12", "10:01:03"},
		{"postgres", clock(0), int64(36_063_120), "10:01:03", "10:01:04"},
		{"postgres", types.TimestampType(9), ts("2024-01-01 00:00:00.123456789"), at("2024-01-01 00:00:00.123456"), at("2024-01-01 00:00:00.123455")},
		{"clickhouse", types.TimestampType(9), ts("2024-01-01 00:00:00.123456789"), at("2024-01-01 00:00:00.123456789"), at("2024-01-01 00:00:00.123456")},
		{"clickhouse", types.TimestampLTZType(3), ts("1969-12-31 23:59:59.999"), at("1969-12-31 23:59:59.999"), at("1969-12-31 23:59:59.998")},
		{"clickhouse", days, int64(90_061_000), "90061000", "90061001"},
		{"postgres", days, int64(90_061_000), "1 day 01:01:01", "1 day 01:01:02"},
		{"postgres", days, int64(-3_600_500), "-01:00:00.5", "01:00:00.5"},
		{"postgres", months, int64(14), "1 year 2 mons", "1 year 3 mons"},
		{"clickhouse", array(num), l{int64(1), nil, int64(3)}, "[1,NULL,3]", "[1,2,3]"},
		{"postgres", array(num), l{int64(1), nil, int64(3)}, "{1,NULL,3}", "{1,3}"},
		{"clickhouse", array(num), nil, "[]", "[0]"},
		{"postgres", array(num), nil, nil, "{}"},
		{"postgres", array(num), l{}, "{}", nil},
		{"clickhouse", array(str), l{"a", "it's\n\\", "NULL", nil, ""}, `['a','it\'s\n\\','NULL',NULL,'']`, `['a','it\'s\n\\',NULL,NULL,'']`},
		{"postgres", array(str), l{"a", `it's "x", {y} \`, "NULL", nil, ""}, `{a,"it's \"x\", {y} \\","NULL",NULL,""}`, `{a,"it's \"x\", {y} \\",NULL,NULL,""}`},
		{"postgres", array(array(num)), l{l{int64(1)}, l{int64(2)}}, "{{1},{2}}", "{{1},{3}}"},
		{"clickhouse", array(array(str)), l{l{"x", "y"}, l{}}, "[['x','y'],[]]", "[['x,y'],[]]"},
		{"postgres", array(bytes), l{[]byte{0, 'a'}}, `{"\\x0061"}`, `{"\\x0062"}`},
		{"clickhouse", array(bytes), l{[]byte{0, 'a'}}, `['\0a']`, `['\0b']`},
		{"clickhouse", array(types.TimestampType(3)), l{ts("2024-01-01 00:00:00.5")}, "['2024-01-01 00:00:00.500']", "['2024-01-01 00:00:00.501']"},
		{"postgres", array(types.TimestampLTZType(3)), l{ts("2024-01-01 00:00:00.5")}, `{"2024-01-01 05:30:00.5+05:30"}`, `{"2024-01-01 05:30:00.5+05"}`},
		{"postgres", array(clock(0)), l{int64(36_063_000)}, `{10:01:03}`, `{10:01:04}`},
		{"postgres", array(types.BooleanType), l{true, false}, `{t,f}`, `{t,t}`},
		{"clickhouse", array(types.DoubleType), l{1.0, 0.25}, `[1,0.25]`, `[1,0.5]`},
		{"clickhouse", mapOf, l{"b", int64(2), "a", nil}, "{'a':NULL,'b':2}", "{'a':2,'b':NULL}"},
		{"clickhouse", row, l{int64(1), "x,)"}, "(1,'x,)')", "(1,'x')"},
		{"clickhouse", row, nil, "(NULL,NULL)", "(1,NULL)"},
	} {
		s := samenessOf(&connector.Table{Connector: c.target})
		got := s.computed(c.v, c.t)
		if want := s.stored(c.stored, c.t); got != want {
			t.Errorf("%s %s: %v is %q, and %v is %q", c.target, c.t, c.v, got, c.stored, want)
		}
		if other := s.stored(c.not, c.t); got == other {
			t.Errorf("%s %s: %v and %v are both %q", c.target, c.t, c.v, c.not, got)
		}
	}
}

// FuzzSameness reads what no target writes.
func FuzzSameness(f *testing.F) {
	f.Add("[1,NULL,'a\\'',{'k':(1,2)}]")
	f.Add("{1,\"\\\\x00\",{}}")
	e, k := types.StringType, types.IntType
	inner := types.Type{Kind: types.Map, Nullable: true, Key: &e, Elem: &k}
	rows := types.Type{Kind: types.Row, Nullable: true, Fields: []types.Field{{Name: "a", Type: inner}, {Name: "b", Type: types.TimestampLTZType(3)}, {Name: "c", Type: types.Type{Kind: types.IntervalDayTime}}}}
	list := types.Type{Kind: types.Array, Nullable: true, Elem: &rows}
	f.Fuzz(func(t *testing.T, text string) {
		for _, x := range []types.Type{list, rows, inner, types.DateType, types.TimestampType(9), types.Type{Kind: types.Time, Precision: 3}, types.Type{Kind: types.IntervalYearMonth}} {
			for _, target := range []string{"postgres", "clickhouse"} {
				s := samenessOf(&connector.Table{Connector: target})
				if a, b := s.stored(text, x), s.stored(text, x); a != b {
					t.Errorf("%q is %q and %q", text, a, b)
				}
			}
		}
	})
}
