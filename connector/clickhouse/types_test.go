package clickhouse

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
)

// typeCase is a column, values for it and the text that the database then shows.
type typeCase struct {
	typ    types.Type
	ch     string
	values []types.Value
	text   []string
}

func list(vs ...types.Value) types.Value { return vs }

func part(name string, t types.Type) types.Field { return types.Field{Name: name, Type: t} }

var (
	months = types.Type{Kind: types.IntervalYearMonth, Nullable: true}
	millis = types.Type{Kind: types.IntervalDayTime, Nullable: true}
)

const null = `\N`

var typeCases = []typeCase{
	{types.BooleanType, "Nullable(Bool)", []types.Value{true, false, nil}, []string{"true", "false", null}},
	{types.BooleanType, "UInt8", []types.Value{true, false, true}, []string{"1", "0", "1"}},
	{types.TinyIntType, "Int8", []types.Value{int64(-128), int64(127), int64(0)}, []string{"-128", "127", "0"}},
	{types.SmallIntType, "Nullable(Int16)", []types.Value{int64(-32768), int64(32767), nil}, []string{"-32768", "32767", null}},
	{types.IntType, "Int32", []types.Value{int64(math.MinInt32), int64(math.MaxInt32), int64(7)}, []string{"-2147483648", "2147483647", "7"}},
	{types.IntType, "Nullable(Int64)", []types.Value{int64(-5), int64(7), nil}, []string{"-5", "7", null}},
	{types.IntType, "UInt16", []types.Value{int64(0), int64(65535), int64(7)}, []string{"0", "65535", "7"}},
	{types.IntType, "Decimal(12, 2)", []types.Value{int64(math.MinInt32), int64(0), int64(7)}, []string{"-2147483648", "0", "7"}},
	{types.IntType, "Float64", []types.Value{int64(math.MinInt32), int64(math.MaxInt32), int64(7)}, []string{"-2147483648", "2147483647", "7"}},
	{types.BigIntType, "Int64", []types.Value{int64(math.MinInt64), int64(math.MaxInt64), int64(1)}, []string{"-9223372036854775808", "9223372036854775807", "1"}},
	{types.BigIntType, "UInt64", []types.Value{int64(0), int64(math.MaxInt64), int64(1)}, []string{"0", "9223372036854775807", "1"}},
	{types.BigIntType, "Nullable(Int128)", []types.Value{int64(math.MinInt64), int64(1), nil}, []string{"-9223372036854775808", "1", null}},
	{types.BigIntType, "Int256", []types.Value{int64(-1), int64(1), int64(0)}, []string{"-1", "1", "0"}},
	{types.BigIntType, "UInt256", []types.Value{int64(5), int64(1), int64(0)}, []string{"5", "1", "0"}},
	{types.BigIntType, "Int8", []types.Value{int64(-128), int64(127), int64(0)}, []string{"-128", "127", "0"}},
	{types.FloatType, "Nullable(Float32)", []types.Value{float64(float32(0.1)), math.Inf(-1), nil}, []string{"0.1", "-inf", null}},
	{types.FloatType, "Float64", []types.Value{0.5, math.NaN(), -2.25}, []string{"0.5", "nan", "-2.25"}},
	{types.DoubleType, "Float64", []types.Value{math.NaN(), -math.MaxFloat64, math.Inf(1)}, []string{"nan", "-1.7976931348623157e308", "inf"}},
	{types.DecimalType(9, 2), "Decimal(9, 2)", []types.Value{dec("-1234567.90", 9, 2), dec("0.05", 9, 2), dec("0", 9, 2)}, []string{"-1234567.9", "0.05", "0"}},
	{types.DecimalType(10, 2), "Nullable(Decimal(18, 4))", []types.Value{dec("-12345678.90", 10, 2), dec("0.05", 10, 2), nil}, []string{"-12345678.9", "0.05", null}},
	{types.DecimalType(38, 18), "Decimal(38, 18)", []types.Value{dec("-12345678901234567890.123456789012345678", 38, 18), dec("0", 38, 18), dec("10000", 38, 18)},
		[]string{"-12345678901234567890.123456789012345678", "0", "10000"}},
	{types.DecimalType(38, 0), "Decimal(76, 38)", []types.Value{dec("99999999999999999999999999999999999999", 38, 0), dec("-10000000000000000000000000000000000000", 38, 0), dec("3", 38, 0)},
		[]string{"99999999999999999999999999999999999999", "-10000000000000000000000000000000000000", "3"}},
	{types.DecimalType(20, 0), "UInt64", []types.Value{dec("18446744073709551615", 20, 0), dec("0", 20, 0), dec("3", 20, 0)}, []string{"18446744073709551615", "0", "3"}},
	{types.DecimalType(5, 1), "Decimal(3, 2)", []types.Value{dec("-9.9", 5, 1), dec("0.1", 5, 1), dec("9", 5, 1)}, []string{"-9.9", "0.1", "9"}},
	{types.StringType, "String", []types.Value{"h\u00e9llo", "", strings.Repeat("x", 300)}, []string{"h\u00e9llo", "", strings.Repeat("x", 300)}},
	{types.StringType, "LowCardinality(String)", []types.Value{"a", "b", "a"}, []string{"a", "b", "a"}},
	{types.StringType, "LowCardinality(Nullable(String))", []types.Value{"a", "", nil}, []string{"a", "", null}},
	{types.VarCharType(5), "Nullable(String)", []types.Value{"abcde", `a"b`, nil}, []string{"abcde", `a"b`, null}},
	{types.CharType(3), "FixedString(3)", []types.Value{"abc", "xyz", "  c"}, []string{"abc", "xyz", "  c"}},
	{types.StringType, "Nullable(UUID)", []types.Value{"7F3D0C2E-0000-4000-8000-00000000000a", "7f3d0c2e00004000800000000000000b", nil},
		[]string{"7f3d0c2e-0000-4000-8000-00000000000a", "7f3d0c2e-0000-4000-8000-00000000000b", null}},
	{types.StringType, "Enum8('sad' = -1, 'it''s' = 2, 'a\\\\b' = 3)", []types.Value{"sad", "it's", `a\b`}, []string{"sad", `it\'s`, `a\\b`}},
	{types.StringType, "Nullable(Enum16('x' = 1000, 'y' = -1000))", []types.Value{"x", "y", nil}, []string{"x", "y", null}},
	{types.StringType, "IPv4", []types.Value{"10.0.0.1", "255.255.255.255", "1.2.3.4"}, []string{"10.0.0.1", "255.255.255.255", "1.2.3.4"}},
	{types.StringType, "Nullable(IPv6)", []types.Value{"2001:db8::1", "10.0.0.1", nil}, []string{"2001:db8::1", "::ffff:10.0.0.1", null}},
	{types.StringType, "JSON", []types.Value{`{"a":{"b":1}}`, `{}`, `{"s":"x"}`}, []string{`{"a":{"b":1}}`, `{}`, `{"s":"x"}`}},
	{types.StringType, "JSON(a UInt8, SKIP z)", []types.Value{`{"a":1}`, `{"a":2}`, `{"a":3}`}, []string{`{"a":1}`, `{"a":2}`, `{"a":3}`}},
	{types.StringType, "SimpleAggregateFunction(anyLast, Nullable(String))", []types.Value{"a", "", nil}, []string{"a", "", null}},
	{types.BytesType, "String", []types.Value{[]byte{'a', 255, 'b'}, []byte{}, []byte("x")}, []string{"a\xffb", "", "x"}},
	{types.BytesType, "Nullable(FixedString(2))", []types.Value{[]byte("ab"), []byte("cd"), nil}, []string{"ab", "cd", null}},
	{types.DateType, "Date", []types.Value{day("1970-01-01"), day("2024-02-29"), day("2149-06-06")}, []string{"1970-01-01", "2024-02-29", "2149-06-06"}},
	{types.DateType, "Nullable(Date32)", []types.Value{day("1900-01-01"), day("2299-12-31"), nil}, []string{"1900-01-01", "2299-12-31", null}},
	{types.TimeType(0), "Time", []types.Value{int64(86_399_000), int64(0), int64(1000)}, []string{"23:59:59", "00:00:00", "00:00:01"}},
	{types.TimeType(3), "Nullable(Time64(6))", []types.Value{int64(86_399_999), int64(0), nil}, []string{"23:59:59.999000", "00:00:00.000000", null}},
	{types.TimestampType(0), "DateTime", []types.Value{ts("1970-01-01 00:00:00"), ts("2106-02-07 06:28:15"), ts("2024-03-01 12:00:00")}, []string{"1970-01-01 00:00:00", "2106-02-07 06:28:15", "2024-03-01 12:00:00"}},
	{types.TimestampType(0), "DateTime('Europe/Berlin')", []types.Value{ts("2024-07-01 12:00:00"), ts("2024-10-27 02:30:00"), ts("2024-01-01 00:00:00")}, []string{"2024-07-01 12:00:00", "2024-10-27 02:30:00", "2024-01-01 00:00:00"}},
	{types.TimestampType(3), "DateTime64(3)", []types.Value{ts("1900-01-01 00:00:00"), ts("1969-12-31 23:59:59.999"), ts("2299-12-31 23:59:59.999")}, []string{"1900-01-01 00:00:00.000", "1969-12-31 23:59:59.999", "2299-12-31 23:59:59.999"}},
	{types.TimestampType(3), "Nullable(DateTime64(6, 'America/New_York'))", []types.Value{ts("2024-03-01 12:00:00.5"), ts("1960-06-01 00:00:00"), nil}, []string{"2024-03-01 12:00:00.500000", "1960-06-01 00:00:00.000000", null}},
	{types.TimestampType(9), "DateTime64(9)", []types.Value{ts("1960-01-01 00:00:00.123456789"), ts("2262-04-11 23:47:16.8"), ts("2024-01-01 00:00:00")},
		[]string{"1960-01-01 00:00:00.123456789", "2262-04-11 23:47:16.800000000", "2024-01-01 00:00:00.000000000"}},
	{types.TimestampType(2), "DateTime64(2)", []types.Value{ts("1960-01-01 00:00:00.12"), ts("2024-01-01 00:00:00.99"), ts("1970-01-01 00:00:00")}, []string{"1960-01-01 00:00:00.12", "2024-01-01 00:00:00.99", "1970-01-01 00:00:00.00"}},
	{types.TimestampLTZType(3), "DateTime64(3, 'Asia/Tokyo')", []types.Value{ts("2024-03-01 12:00:00.5"), ts("1900-01-01 00:00:00"), ts("1970-01-01 00:00:00")}, []string{"2024-03-01 21:00:00.500", "1900-01-01 09:00:00.000", "1970-01-01 09:00:00.000"}},
	{months, "Int32", []types.Value{int64(14), int64(-1), int64(0)}, []string{"14", "-1", "0"}},
	{millis, "Nullable(Int64)", []types.Value{int64(90_061_001), int64(-1500), nil}, []string{"90061001", "-1500", null}},
	{types.ArrayType(types.IntType), "Array(Nullable(Int32))", []types.Value{list(int64(1), nil, int64(-3)), list(), list(int64(5))}, []string{"[1,NULL,-3]", "[]", "[5]"}},
	{types.ArrayType(types.StringType), "Array(LowCardinality(String))", []types.Value{list("a", "b"), list(), list("")}, []string{"['a','b']", "[]", "['']"}},
	{types.ArrayType(types.ArrayType(types.BigIntType)), "Array(Array(Int64))", []types.Value{list(list(int64(1), int64(2)), list()), list(), list(list(int64(3)))}, []string{"[[1,2],[]]", "[]", "[[3]]"}},
	{types.ArrayType(types.DecimalType(30, 3)), "Array(Decimal(38, 3))", []types.Value{list(dec("-1.5", 30, 3)), list(), list(dec("123456789012345678901234567.001", 30, 3))}, []string{"[-1.5]", "[]", "[123456789012345678901234567.001]"}},
	{types.MapType(types.StringType, types.IntType), "Map(String, Nullable(Int32))", []types.Value{list("a", int64(1), "b", nil), list(), list("c", int64(3))}, []string{"{'a':1,'b':NULL}", "{}", "{'c':3}"}},
	{types.MapType(types.StringType, types.ArrayType(types.IntType)), "Map(LowCardinality(String), Array(Int64))", []types.Value{list("a", list(int64(1), int64(2))), list(), list("c", list())}, []string{"{'a':[1,2]}", "{}", "{'c':[]}"}},
	{types.MapType(types.StringType, types.IntType), "Array(Tuple(String, Int32))", []types.Value{list("a", int64(1)), list(), list("c", int64(3), "d", int64(4))}, []string{"[('a',1)]", "[]", "[('c',3),('d',4)]"}},
	{types.MultisetType(types.StringType), "Map(String, UInt64)", []types.Value{list("a", int64(2)), list(), list("c", int64(3))}, []string{"{'a':2}", "{}", "{'c':3}"}},
	{types.RowType(part("x", types.IntType), part("y", types.StringType)), "Tuple(x Int32, y Nullable(String))", []types.Value{list(int64(1), "a"), list(int64(2), nil), list(int64(3), "")}, []string{"(1,'a')", "(2,NULL)", "(3,'')"}},
	{types.ArrayType(types.RowType(part("x", types.IntType), part("y", types.ArrayType(types.StringType)))), "Array(Tuple(Int32, Array(String)))",
		[]types.Value{list(list(int64(1), list("p", "q")), list(int64(2), list())), list(), list(list(int64(3), list("r")))}, []string{"[(1,['p','q']),(2,[])]", "[]", "[(3,['r'])]"}},
}

// TestAllTypes writes every type in each of the ways in which rows go in, and reads what the server
// shows.
func TestAllTypes(t *testing.T) {
	for _, way := range []struct {
		name, guarantee, compression string
		native                       bool
	}{
		{"http lz4", "at-least-once", "lz4", false}, {"http zstd", "none", "zstd", false}, {"http none", "at-least-once", "none", false},
		{"native lz4", "at-least-once", "lz4", true}, {"native zstd", "at-least-once", "zstd", true}, {"native none", "none", "none", true},
		{"http exactly once", "exactly-once", "lz4", false}, {"native exactly once", "exactly-once", "lz4", true},
	} {
		t.Run(way.name, func(t *testing.T) {
			r := live(t)
			d := def{name: "every", cols: []types.Field{{Name: "n", Type: types.IntType.NotNull()}}, native: way.native,
				options: map[string]string{"sink.delivery-guarantee": way.guarantee, "compression": way.compression}}
			ddl, sel := "n Int32", "n"
			rows, want := make([]row, 3), make([]string, 3)
			for i := range rows {
				rows[i], want[i] = put(int64(i)), fmt.Sprint(i)
			}
			for k, c := range typeCases {
				name := fmt.Sprintf("c%d", k)
				d.cols = append(d.cols, types.Field{Name: name, Type: c.typ})
				ddl += ", " + name + " " + c.ch
				sel += ", " + name
				for i := range rows {
					rows[i].Values = append(rows[i].Values, c.values[i])
					want[i] += "\t" + c.text[i]
				}
			}
			r.exec("CREATE TABLE DB.every (" + ddl + ") ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100")
			r.write(r.open(d), 1, d.cols, rows...)
			got := r.rows("SELECT " + sel + " FROM DB.every ORDER BY n")
			if len(got) != len(want) {
				t.Fatalf("%d rows", len(got))
			}
			for i := range want {
				g, w := strings.Split(got[i], "\t"), strings.Split(want[i], "\t")
				for k := range w {
					if g[k] != w[k] {
						t.Errorf("row %d, %s into %s: %q, want %q", i, typeCases[max(k-1, 0)].typ, typeCases[max(k-1, 0)].ch, g[k], w[k])
					}
				}
			}
			if len(r.bad) > 0 {
				t.Errorf("refused: %v %v", r.bad, r.why)
			}
		})
	}
}
