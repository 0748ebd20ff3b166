package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// typeCase is a column, values for it and the text that the database then shows.
type typeCase struct {
	typ    types.Type
	pg     string
	values []types.Value
	text   []string
}

func list(vs ...types.Value) types.Value { return vs }

var typeCases = []typeCase{
	{types.BooleanType, "boolean", []types.Value{true, false, nil}, []string{"t", "f", "NULL"}},
	{types.TinyIntType, "smallint", []types.Value{int64(-128), int64(127), nil}, []string{"-128", "127", "NULL"}},
	{types.SmallIntType, "smallint", []types.Value{int64(-32768), int64(32767), nil}, []string{"-32768", "32767", "NULL"}},
	{types.IntType, "integer", []types.Value{int64(math.MinInt32), int64(math.MaxInt32), nil}, []string{"-2147483648", "2147483647", "NULL"}},
	{types.IntType, "bigint", []types.Value{int64(-5), int64(7), nil}, []string{"-5", "7", "NULL"}},
	{types.IntType, "numeric", []types.Value{int64(-50000), int64(0), nil}, []string{"-50000", "0", "NULL"}},
	{types.BigIntType, "bigint", []types.Value{int64(math.MinInt64), int64(math.MaxInt64), nil}, []string{"-9223372036854775808", "9223372036854775807", "NULL"}},
	{types.BigIntType, "integer", []types.Value{int64(-5), int64(7), nil}, []string{"-5", "7", "NULL"}},
	{types.FloatType, "real", []types.Value{float64(float32(0.1)), math.Inf(-1), nil}, []string{"0.1", "-Infinity", "NULL"}},
	{types.FloatType, "double precision", []types.Value{0.5, math.NaN(), nil}, []string{"0.5", "NaN", "NULL"}},
	{types.DoubleType, "double precision", []types.Value{math.NaN(), -math.MaxFloat64, math.Inf(1)}, []string{"NaN", "-1.7976931348623157e+308", "Infinity"}},
	{types.DecimalType(10, 2), "numeric(10,2)", []types.Value{dec("-12345678.90", 10, 2), dec("0.05", 10, 2), nil}, []string{"-12345678.90", "0.05", "NULL"}},
	{types.DecimalType(38, 18), "numeric(38,18)", []types.Value{dec("-12345678901234567890.123456789012345678", 38, 18), dec("0", 38, 18), dec("10000", 38, 18)},
		[]string{"-12345678901234567890.123456789012345678", "0.000000000000000000", "10000.000000000000000000"}},
	{types.DecimalType(38, 0), "numeric", []types.Value{dec("99999999999999999999999999999999999999", 38, 0), dec("-10000000000000000000000000000000000000", 38, 0), nil},
		[]string{"99999999999999999999999999999999999999", "-10000000000000000000000000000000000000", "NULL"}},
	{types.StringType, "text", []types.Value{"h\u00e9llo", "", nil}, []string{"h\u00e9llo", "", "NULL"}},
	{types.VarCharType(5), "varchar(5)", []types.Value{"abcde", `a"\b`, nil}, []string{"abcde", `a"\b`, "NULL"}},
	{types.CharType(3), "char(4)", []types.Value{"abc", "x  ", nil}, []string{"abc", "x", "NULL"}},
	{types.StringType, "jsonb", []types.Value{`{"b": 1,"a":[1]}`, `7`, nil}, []string{`{"a": [1], "b": 1}`, "7", "NULL"}},
	{types.StringType, "json", []types.Value{`{"b": 1,"a":[1]}`, `7`, nil}, []string{`{"b": 1,"a":[1]}`, "7", "NULL"}},
	{types.StringType, "uuid", []types.Value{"7F3D0C2E-0000-4000-8000-00000000000a", "7f3d0c2e00004000800000000000000b", nil},
		[]string{"7f3d0c2e-0000-4000-8000-00000000000a", "7f3d0c2e-0000-4000-8000-00000000000b", "NULL"}},
	{types.StringType, "mood", []types.Value{"sad", "glad", nil}, []string{"sad", "glad", "NULL"}},
	{types.StringType, "inet", []types.Value{"10.0.0.1", "::1", nil}, []string{"10.0.0.1", "::1", "NULL"}},
	{types.IntType, "small", []types.Value{int64(1), int64(9), nil}, []string{"1", "9", "NULL"}},
	{types.BytesType, "bytea", []types.Value{[]byte{0, 255, 10}, []byte{}, nil}, []string{`\x00ff0a`, `\x`, "NULL"}},
	{types.DateType, "date", []types.Value{day("1969-12-31"), day("2024-02-29"), day("9999-12-31")}, []string{"1969-12-31", "2024-02-29", "9999-12-31"}},
	{types.TimeType(3), "time", []types.Value{int64(86_399_999), int64(0), nil}, []string{"23:59:59.999", "00:00:00", "NULL"}},
	{types.TimestampType(3), "timestamp(3)", []types.Value{ts("1969-12-31 23:59:59.999"), ts("2024-03-01 12:00:00.5"), nil}, []string{"1969-12-31 23:59:59.999", "2024-03-01 12:00:00.5", "NULL"}},
	{types.TimestampType(9), "timestamp", []types.Value{ts("1960-01-01 00:00:00.123456789"), ts("2024-03-01 12:00:00.999999999"), nil},
		[]string{"1960-01-01 00:00:00.123456", "2024-03-01 12:00:00.999999", "NULL"}},
	{types.TimestampLTZType(3), "timestamptz", []types.Value{ts("2024-03-01 12:00:00.5"), ts("1900-01-01 00:00:00"), nil}, []string{"2024-03-01 12:00:00.5+00", "1900-01-01 00:00:00+00", "NULL"}},
	{types.Type{Kind: types.IntervalYearMonth, Nullable: true}, "interval", []types.Value{int64(14), int64(-1), nil}, []string{"P1Y2M", "P-1M", "NULL"}},
	{types.Type{Kind: types.IntervalDayTime, Nullable: true}, "interval", []types.Value{int64(90_061_001), int64(-1500), nil}, []string{"PT25H1M1.001S", "PT-1.5S", "NULL"}},
}

var arrayCases = []typeCase{
	{types.ArrayType(types.IntType), "integer[]", []types.Value{list(int64(1), nil, int64(-3)), list(), nil}, []string{"{1,NULL,-3}", "{}", "NULL"}},
	{types.ArrayType(types.ArrayType(types.BigIntType)), "bigint[]", []types.Value{list(list(int64(1), int64(2)), list(int64(3), int64(4))), list(), nil}, []string{"{{1,2},{3,4}}", "{}", "NULL"}},
	{types.ArrayType(types.StringType), "text[]", []types.Value{list("a", `q"\`, "", "NULL", nil), list("{,}"), nil}, []string{`{a,"q\"\\","","NULL",NULL}`, `{"{,}"}`, "NULL"}},
	{types.ArrayType(types.StringType), "uuid[]", []types.Value{list("7f3d0c2e-0000-4000-8000-00000000000a"), list(), nil}, []string{"{7f3d0c2e-0000-4000-8000-00000000000a}", "{}", "NULL"}},
	{types.ArrayType(types.BooleanType), "boolean[]", []types.Value{list(true, false), list(), nil}, []string{"{t,f}", "{}", "NULL"}},
	{types.ArrayType(types.DoubleType), "double precision[]", []types.Value{list(0.1, math.NaN(), math.Inf(-1), 1e300), list(), nil}, []string{"{0.1,NaN,-Infinity,1e+300}", "{}", "NULL"}},
	{types.ArrayType(types.FloatType), "real[]", []types.Value{list(float64(float32(0.1)), math.Inf(1)), list(), nil}, []string{"{0.1,Infinity}", "{}", "NULL"}},
	{types.ArrayType(types.DecimalType(30, 3)), "numeric[]", []types.Value{list(dec("-1.5", 30, 3), dec("123456789012345678901234567.001", 30, 3)), list(), nil},
		[]string{"{-1.500,123456789012345678901234567.001}", "{}", "NULL"}},
	{types.ArrayType(types.DecimalType(5, 1)), "numeric(5,1)[]", []types.Value{list(dec("-1.5", 5, 1)), list(), nil}, []string{"{-1.5}", "{}", "NULL"}},
	{types.ArrayType(types.BytesType), "bytea[]", []types.Value{list([]byte{1, 0xfe}, []byte{}), list(), nil}, []string{`{"\\x01fe","\\x"}`, "{}", "NULL"}},
	{types.ArrayType(types.DateType), "date[]", []types.Value{list(day("2024-02-29"), nil), list(), nil}, []string{"{2024-02-29,NULL}", "{}", "NULL"}},
	{types.ArrayType(types.TimeType(3)), "time[]", []types.Value{list(int64(86_399_999), int64(1000)), list(), nil}, []string{"{23:59:59.999,00:00:01}", "{}", "NULL"}},
	{types.ArrayType(types.TimestampType(9)), "timestamp[]", []types.Value{list(ts("1960-01-01 00:00:00.123456789"), ts("2024-01-01 00:00:00")), list(), nil},
		[]string{`{"1960-01-01 00:00:00.123456","2024-01-01 00:00:00"}`, "{}", "NULL"}},
	{types.ArrayType(types.TimestampLTZType(3)), "timestamptz[]", []types.Value{list(ts("2024-01-01 00:00:00.5")), list(), nil}, []string{`{"2024-01-01 00:00:00.5+00"}`, "{}", "NULL"}},
	{types.ArrayType(types.Type{Kind: types.IntervalDayTime, Nullable: true}), "interval[]", []types.Value{list(int64(1500)), list(), nil}, []string{"{PT1.5S}", "{}", "NULL"}},
	{types.ArrayType(types.Type{Kind: types.IntervalYearMonth, Nullable: true}), "interval[]", []types.Value{list(int64(14)), list(), nil}, []string{"{P1Y2M}", "{}", "NULL"}},
}

// TestAllTypes writes every type in each of the ways in which rows go in.
func TestAllTypes(t *testing.T) {
	for _, way := range []string{"append", "append arrays", "upsert", "exactly once"} {
		t.Run(way, func(t *testing.T) {
			r := live(t)
			r.exec("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN small AS integer CHECK (VALUE < 10)")
			cases := typeCases
			if way != "append" {
				cases = append(slices.Clone(typeCases), arrayCases...)
			}
			if way == "append" { // only what COPY takes
				cases = slices.DeleteFunc(slices.Clone(cases), func(c typeCase) bool {
					return slices.Contains([]string{"jsonb", "uuid", "inet"}, c.pg) || c.typ.Kind == types.BigInt && c.pg == "integer"
				})
			}
			d := def{name: "every", cols: []types.Field{{Name: "n", Type: types.IntType.NotNull()}}, options: map[string]string{}}
			ddl, sel := "n int primary key", "n"
			rows := make([]row, 3)
			want := make([]string, 3)
			for i := range rows {
				rows[i], want[i] = put(int64(i)), fmt.Sprint(i)
			}
			for k, c := range cases {
				name := fmt.Sprintf("c%d", k)
				d.cols = append(d.cols, types.Field{Name: name, Type: c.typ})
				ddl, sel = ddl+", "+name+" "+strings.NewReplacer("mood", r.schema+".mood", "small", r.schema+".small", "smallint", "smallint").Replace(c.pg), sel+", "+name
				for i := range rows {
					rows[i].Values = append(rows[i].Values, c.values[i])
					want[i] += " | " + strings.TrimRight(c.text[i], " ")
				}
			}
			ddl = strings.ReplaceAll(ddl, r.schema+".smallint", "smallint")
			r.exec("CREATE TABLE every (" + ddl + ")")
			if strings.HasPrefix(way, "append") {
				r.exec("ALTER TABLE every DROP CONSTRAINT every_pkey")
			} else {
				d.key = []string{"n"}
			}
			if way == "exactly once" {
				d.options["sink.delivery-guarantee"] = "exactly-once"
			}
			s := r.open(d)
			if way == "exactly once" {
				must(t, r.committer(s).Commit(t.Context(), id("l", 1), r.seal(s, d.cols, rows...)))
			} else {
				w := r.writer(s)
				must(t, w.Write(t.Context(), batch(d.cols, rows...)), w.Flush(t.Context()))
			}
			if got := s.(*sink).rows.copies(); got != (way == "append") {
				t.Errorf("COPY is used: %t", got)
			}
			got := r.rows("SELECT " + sel + " FROM every ORDER BY n")
			for i := range want {
				g, w := strings.Split(got[i], " | "), strings.Split(want[i], " | ")
				for k := range w {
					if k >= len(g) || strings.TrimRight(g[k], " ") != w[k] {
						t.Errorf("row %d, %s: %q, want %q", i, cases[max(k-1, 0)].pg, g[min(k, len(g)-1)], w[k])
					}
				}
			}
			if len(r.bad) > 0 {
				t.Errorf("refused: %v", r.bad)
			}
		})
	}
}

var pair = []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: "v", Type: types.StringType}}

// TestChanges applies random changes and compares with a map.
func TestChanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, g := range []string{"at-least-once", "exactly-once"} {
		t.Run(g, func(t *testing.T) {
			r := live(t)
			r.exec("CREATE TABLE kv (id bigint, part text, v text, PRIMARY KEY (part, id))")
			cols := []types.Field{pair[0], {Name: "part", Type: types.StringType.NotNull()}, pair[1]}
			d := def{name: "kv", cols: cols, key: []string{"id", "part"}, options: map[string]string{"sink.delivery-guarantee": g}}
			s := r.open(d)
			w := r.writer(s)
			var c connector.Committer
			if g == "exactly-once" {
				c = r.committer(s)
			}
			rng := rand.New(rand.NewPCG(seed, 1))
			model := map[string]string{}
			for n := range 200 {
				var rows []row
				for range rng.IntN(60) {
					key, part := int64(rng.IntN(50)), string(rune('a'+rng.IntN(2)))
					name := fmt.Sprintf("%d | %s", key, part)
					switch rng.IntN(4) {
					case 0:
						rows = append(rows, row{Kind: []types.RowKind{types.Delete, types.UpdateBefore}[rng.IntN(2)], Values: []types.Value{key, part, nil}})
						delete(model, name)
					default:
						v := fmt.Sprint(rng.IntN(1000))
						rows = append(rows, row{Kind: []types.RowKind{types.Insert, types.UpdateAfter}[rng.IntN(2)], Values: []types.Value{key, part, v}})
						model[name] = v
					}
				}
				must(t, w.Write(t.Context(), batch(cols, rows...)))
				if n%20 == 19 {
					cs, err := w.Prepare(t.Context())
					must(t, err)
					if c != nil {
						must(t, c.Commit(t.Context(), id("l", int64(n)), cs))
					}
					var want []string
					for k, v := range model {
						want = append(want, k+" | "+v)
					}
					got := r.rows("SELECT id, part, v FROM kv")
					slices.Sort(got)
					slices.Sort(want)
					if !slices.Equal(got, want) {
						t.Fatalf("after %d batches: %d rows, want %d\n%v\n%v", n+1, len(got), len(want), got, want)
					}
				}
			}
		})
	}
}

// TestRefused has rows that the database does not take, among 3,000 that it does.
func TestRefused(t *testing.T) {
	for _, g := range []string{"at-least-once", "exactly-once"} {
		for _, keyed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, key %t", g, keyed), func(t *testing.T) {
				r := live(t)
				r.exec("CREATE TABLE picky (id bigint NOT NULL, v text, n numeric(6,2), CHECK (v <> 'no')" + map[bool]string{true: ", PRIMARY KEY (id)"}[keyed] + ")")
				cols := []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "v", Type: types.StringType}, {Name: "n", Type: types.DecimalType(20, 2)}}
				d := def{name: "picky", cols: cols, options: map[string]string{"sink.delivery-guarantee": g, "sink.buffer-flush.max-rows": "700"}}
				if keyed {
					d.key = []string{"id"}
				}
				s := r.open(d)
				w := r.writer(s)
				var want []string
				for lo := 0; lo < 3000; lo += 500 {
					var rows []row
					for i := lo; i < lo+500; i++ {
						n, v := int64(i), types.Value(fmt.Sprint("v", i))
						num := dec("1.25", 20, 2)
						switch i {
						case 17, 18, 1999:
							v = "no"
						case 700:
							num = dec("123456.00", 20, 2)
						case 2500:
							v = "nul \x00 byte"
						default:
							rows = append(rows, put(n, v, num))
							want = append(want, fmt.Sprintf("%d | %s | 1.25", n, v))
							continue
						}
						rows = append(rows, put(n, v, num))
					}
					must(t, w.Write(t.Context(), batch(cols, rows...)))
				}
				cs, err := w.Prepare(t.Context())
				must(t, err)
				if g == "exactly-once" {
					must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
				}
				if got := r.rows("SELECT * FROM picky ORDER BY id"); !slices.Equal(got, want) {
					t.Errorf("%d rows, want %d", len(got), len(want))
				}
				slices.Sort(r.bad)
				bad := []string{`{"id":17,"v":"no","n":1.25}`, `{"id":18,"v":"no","n":1.25}`, `{"id":1999,"v":"no","n":1.25}`,
					`{"id":2500,"v":"nul \u0000 byte","n":1.25}`, `{"id":700,"v":"v700","n":123456.00}`}
				if !slices.Equal(r.bad, bad) {
					t.Errorf("refused:\n%s\nwant:\n%s", strings.Join(r.bad, "\n"), strings.Join(bad, "\n"))
				}
			})
		}
	}
}

// TestRefused_AtCommit has a constraint that the database checks when the transaction ends.
func TestRefused_AtCommit(t *testing.T) {
	for _, g := range []string{"at-least-once", "exactly-once"} {
		r := live(t)
		r.exec(`CREATE TABLE parent (id bigint PRIMARY KEY); INSERT INTO parent SELECT generate_series(1, 100);
CREATE TABLE child (id bigint REFERENCES parent DEFERRABLE INITIALLY DEFERRED, v text)`)
		s := r.open(def{name: "child", cols: pair, options: map[string]string{"sink.delivery-guarantee": g}})
		var rows []row
		for i := range 101 {
			rows = append(rows, put(int64(i), "x"))
		}
		if g == "exactly-once" {
			must(t, r.committer(s).Commit(t.Context(), id("l", 1), r.seal(s, pair, rows...)))
		} else {
			r.seal(s, pair, rows...)
		}
		r.expect(g, "SELECT count(*), min(id) FROM child", "100 | 1")
		if len(r.bad) != 1 || r.bad[0] != `{"id":0,"v":"x"}` {
			t.Errorf("%s: refused: %v", g, r.bad)
		}
	}
}

// TestRefused_Times are times that PostgreSQL does not have.
func TestRefused_Times(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE times (at timestamptz, list timestamp[], d date)")
	cols := []types.Field{{Name: "at", Type: types.TimestampLTZType(3)}, {Name: "list", Type: types.ArrayType(types.TimestampType(3))}, {Name: "d", Type: types.DateType}}
	w := r.writer(r.open(def{name: "times", cols: cols}))
	var rows []row
	for _, ms := range []int64{math.MinInt64, math.MaxInt64} {
		rows = append(rows, put(types.TS(ms, 0), nil, nil), put(nil, list(types.TS(ms, 0)), nil))
	}
	rows = append(rows, put(nil, nil, int64(math.MaxInt32)), put(nil, nil, int64(math.MinInt32)), put(ts("0001-01-01 00:00:00"), list(ts("0001-01-01 00:00:00")), day("0001-01-01")))
	must(t, w.Write(t.Context(), batch(cols, rows...)), w.Flush(t.Context()))
	r.expect("rows", "SELECT at, list, d FROM times", `0001-01-01 00:00:00+00 | {"0001-01-01 00:00:00"} | 0001-01-01`)
	if len(r.bad) != 6 {
		t.Errorf("%d refused: %v", len(r.bad), r.bad)
	}
}

// TestKeysThatAreEqualThere has keys that differ in bytes and are one to the database: the later row
// wins.
func TestKeysThatAreEqualThere(t *testing.T) {
	for _, g := range []string{"at-least-once", "exactly-once"} {
		r := live(t)
		r.exec("CREATE TABLE floats (f double precision PRIMARY KEY, v text)")
		cols := []types.Field{{Name: "f", Type: types.DoubleType}, pair[1]}
		s := r.open(def{name: "floats", cols: cols, key: []string{"f"}, options: map[string]string{"sink.delivery-guarantee": g}})
		cs := r.seal(s, cols, put(0.0, "a"), put(1.0, "b"), put(math.Copysign(0, -1), "c"), put(math.NaN(), "d"), put(math.Float64frombits(0x7ff8000000000123), "e"))
		if g == "exactly-once" {
			must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
		}
		r.expect(g, "SELECT f + 0, v FROM floats ORDER BY f", "0 | c", "1 | b", "NaN | e")
	}
}

// TestStaysAway is a database that goes away and does not come back.
func TestStaysAway(t *testing.T) {
	for _, g := range []string{"at-least-once", "none", "exactly-once"} {
		r := live(t)
		p := r.proxied()
		r.exec("CREATE TABLE kv (id bigint, v text)")
		s := r.open(def{name: "kv", cols: pair, options: map[string]string{"sink.delivery-guarantee": g, "connection.max-retry-timeout": "300 ms"}})
		w := r.writer(s)
		must(t, w.Write(t.Context(), batch(pair, put(int64(1), "x"))), w.Flush(t.Context()))
		p.l.Close()
		p.cut("", false)
		err := errors.Join(w.Write(t.Context(), batch(pair, put(int64(2), "x"))), w.Flush(t.Context()))
		if g == "exactly-once" {
			must(t, err)
			cs, e := w.Prepare(t.Context())
			must(t, e)
			err = r.committer(s).Commit(t.Context(), id("l", 1), cs)
		}
		var fatal *connector.Fatal
		if g == "none" && err != nil || g != "none" && (err == nil || errors.As(err, &fatal) || !strings.Contains(err.Error(), "cannot be used since")) {
			t.Errorf("%s: %v", g, err)
		}
	}
}

// TestRefused_StopsTheJob is what happens where nothing takes the row: for good, not again and again.
func TestRefused_StopsTheJob(t *testing.T) {
	for _, g := range []string{"at-least-once", "exactly-once"} {
		r := live(t)
		r.exec("CREATE TABLE picky (id bigint CHECK (id > 0), v text)")
		d := def{name: "picky", cols: pair, options: map[string]string{"sink.delivery-guarantee": g}}
		c := r.config(d)
		f := connector.Lookup("postgres")
		stop := errors.New("no dead-letter output")
		c.Bad = func(b format.BadRecord) error { return fmt.Errorf("%w: %w", stop, b.Err) }
		s, err := f.NewSink(c)
		must(t, err)
		w := r.writer(s)
		must(t, w.Write(t.Context(), batch(pair, put(int64(1), "a"), put(int64(-1), "b"))))
		cs, err := w.Prepare(t.Context())
		if g == "exactly-once" {
			must(t, err)
			err = r.committer(s).Commit(t.Context(), id("l", 1), cs)
		}
		var fatal *connector.Fatal
		if !errors.As(err, &fatal) || !errors.Is(err, stop) || !errors.Is(err, connector.ErrRefused) || !strings.Contains(err.Error(), "picky_id_check") {
			t.Errorf("%s: %v", g, err)
		}
	}
}

// TestLost cuts the connection at COMMIT, before and after the server got it, and in other places.
func TestLost(t *testing.T) {
	for _, at := range []string{"COMMIT", "committed_at = clock_timestamp", "BEGIN", "COPY", "INSERT INTO", "PGCOPY"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %t", at, after), func(t *testing.T) {
				r := live(t)
				p := r.proxied()
				r.exec("CREATE TABLE once (id bigint, v text)")
				s := r.open(def{name: "once", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
				first := r.seal(s, pair, put(int64(1), "a"), put(int64(2), "b"))
				c := r.committer(s)
				must(t, c.Commit(t.Context(), id("l", 1), r.seal(s, pair, put(int64(0), "z"))))
				p.cut(at, after)
				must(t, c.Commit(t.Context(), id("l", 2), first))
				if p.losses.Load() != 1 {
					t.Fatalf("%d connections were cut", p.losses.Load())
				}
				r.expect("rows", "SELECT * FROM once ORDER BY id", "0 | z", "1 | a", "2 | b")
				other := r.open(def{name: "once", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
				must(t, r.committer(other).Commit(t.Context(), id("l", 2), first))
				r.expect("rows after a restart", "SELECT count(*) FROM once", "3")
			})
		}
	}
}

// TestLost_AtLeastOnce loses connections while rows are upserted.
func TestLost_AtLeastOnce(t *testing.T) {
	r := live(t)
	p := r.proxied()
	r.exec("CREATE TABLE kv (id bigint PRIMARY KEY, v text)")
	s := r.open(def{name: "kv", cols: pair, key: []string{"id"}})
	w := r.writer(s)
	for i := range 50 {
		if i%5 == 0 {
			p.cut("INSERT INTO", i%2 == 0)
		}
		must(t, w.Write(t.Context(), batch(pair, put(int64(i), "a"), put(int64(i+1), "b"))), w.Flush(t.Context()))
	}
	if p.losses.Load() < 5 {
		t.Errorf("%d connections were cut", p.losses.Load())
	}
	r.expect("rows", "SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'b') FROM kv", "51 | 1275 | 1")
}

// TestLineages commits those of several runs.
func TestLineages(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE once (id bigint, v text)")
	s := r.open(def{name: "once", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
	c := r.committer(s)
	seg := func(n int64) []connector.Committable { return r.seal(s, pair, put(n, "x")) }
	a, b, other := seg(1), seg(2), seg(3)
	for _, x := range []struct {
		id connector.CommitID
		cs []connector.Committable
	}{{id("a", 1), a}, {id("a", 1), a}, {id("a", 5), b}, {id("b", 2), other}, {id("a", 1), a}, {id("a", 5), b}, {id("b", 2), other}, {id("b", 1), a}, {id("b", 3), nil}} {
		must(t, c.Commit(t.Context(), x.id, x.cs))
	}
	r.expect("rows", "SELECT id FROM once ORDER BY id", "1", "2", "3")
	r.expect("progress", "SELECT job, sink, lineage, checkpoint, now() - committed_at < '1 min' FROM tidemark_progress ORDER BY lineage",
		"job | once | a | 5 | t", "job | once | b | 2 | t")
}

// TestTwoProcesses has many committers of the same output at a time.
func TestTwoProcesses(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE once (id bigint, v text)")
	d := def{name: "once", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}}
	s := r.open(d)
	var all [][]connector.Committable
	for n := range 20 {
		all = append(all, r.seal(s, pair, put(int64(n), "x")))
	}
	var wg sync.WaitGroup
	for range 4 {
		c := r.committer(r.open(d))
		wg.Go(func() {
			for n, cs := range all {
				if err := c.Commit(context.Background(), id("l", int64(n+1)), cs); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.expect("rows", "SELECT count(*), count(DISTINCT id) FROM once", "20 | 20")
}

// TestChangedTable commits rows that were sealed for other types.
func TestChangedTable(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE once (id bigint, v text)")
	d := def{name: "once", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}}
	s := r.open(d)
	c := r.committer(s)
	must(t, c.Commit(t.Context(), id("l", 1), r.seal(s, pair, put(int64(1), "x"))))
	cs := r.seal(s, pair, put(int64(2), "x"))
	r.exec("ALTER TABLE once ALTER id TYPE numeric, ALTER v TYPE varchar(3), ADD more int DEFAULT 7")
	must(t, c.Commit(t.Context(), id("l", 2), cs))
	r.expect("rows", "SELECT * FROM once ORDER BY id", "1 | x | 7", "2 | x | 7")
	w := r.writer(r.open(def{name: "once", cols: pair}))
	must(t, w.Write(t.Context(), batch(pair, put(int64(3), "y"))), w.Flush(t.Context()))
	r.exec("ALTER TABLE once ALTER id TYPE bigint, ALTER v TYPE varchar(1)")
	must(t, w.Write(t.Context(), batch(pair, put(int64(4), "z"))), w.Flush(t.Context()))
	r.exec("ALTER TABLE once ALTER id TYPE numeric")
	must(t, w.Write(t.Context(), batch(pair, put(int64(5), "z"))), w.Flush(t.Context()))
	r.expect("written at least once", "SELECT * FROM once WHERE id > 2 ORDER BY id", "3 | y | 7", "4 | z | 7", "5 | z | 7")
	r.exec("ALTER TABLE once DROP v")
	err := errors.Join(w.Write(t.Context(), batch(pair, put(int64(6), "z"))), w.Flush(t.Context()))
	var fatal *connector.Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "column 'v' does not exist; there are id, more") {
		t.Errorf("a column was dropped: %v", err)
	}
	if len(r.bad) > 0 {
		t.Errorf("refused: %v", r.bad)
	}
}

// TestOpenErrors are definitions that do not fit the database.
func TestOpenErrors(t *testing.T) {
	r := live(t)
	r.exec(`CREATE TABLE good (id bigint PRIMARY KEY, v text, n numeric(5,2), a int[], gen int GENERATED ALWAYS AS (1) STORED, d timestamp(3));
CREATE TABLE strict (id bigint, need text NOT NULL); CREATE SEQUENCE seq; CREATE TABLE "Mixed" ("userId" bigint, lower text);
CREATE TABLE partial (id bigint, v text); CREATE UNIQUE INDEX ON partial (id) WHERE v IS NOT NULL;
DO $$ BEGIN CREATE ROLE tidemark_reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	r.exec("GRANT USAGE ON SCHEMA " + r.schema + " TO tidemark_reader; GRANT SELECT ON good TO tidemark_reader")
	f := func(name string, t types.Type) types.Field { return types.Field{Name: name, Type: t} }
	big, str := f("id", types.BigIntType), f("v", types.StringType)
	for _, x := range []struct {
		d    def
		want string
	}{
		{def{name: "good", cols: []types.Field{big, str}}, ""},
		{def{name: "good", cols: []types.Field{big, str}, key: []string{"id"}}, ""},
		{def{name: "GOOD", cols: []types.Field{f("ID", types.BigIntType)}}, ""},
		{def{name: "Mixed", cols: []types.Field{f("userId", types.BigIntType), f("LOWER", types.StringType)}}, ""},
		{def{name: "missing", cols: pair}, "does not exist in database"},
		{def{name: "seq", cols: pair}, "is no table that can be written"},
		{def{name: "good", cols: []types.Field{big, f("w", types.StringType)}}, "column 'w' does not exist; there are id, v, n, a, gen, d"},
		{def{name: "good", cols: []types.Field{f("id", types.StringType)}}, "column 'id' is STRING here and bigint in the database"},
		{def{name: "good", cols: []types.Field{big, f("v", types.IntType)}}, "column 'v' is INT here and text"},
		{def{name: "good", cols: []types.Field{big, f("v", types.MapType(types.StringType, types.IntType))}}, "write it as JSON text"},
		{def{name: "good", cols: []types.Field{big, f("a", types.ArrayType(types.StringType))}}, "column 'a' is ARRAY<STRING> here and integer[]"},
		{def{name: "good", cols: []types.Field{big, f("gen", types.IntType)}}, "always generated"},
		{def{name: "strict", cols: []types.Field{big}}, "column 'need' is NOT NULL without a default"},
		{def{name: "good", cols: []types.Field{big, str}, key: []string{"v"}}, "no unique index over just these columns"},
		{def{name: "partial", cols: []types.Field{big, str}, key: []string{"id"}}, "no unique index over just these columns"},
		{def{name: "good", cols: []types.Field{f("n", types.DecimalType(10, 4))}, key: []string{"n"}}, "loses 2 digits after the point"},
		{def{name: "good", cols: []types.Field{f("d", types.TimestampType(6))}, key: []string{"d"}}, "loses 3 digits of the second"},
		{def{name: "good", cols: []types.Field{big}, options: map[string]string{"username": "tidemark_reader"}}, "permission denied"},
		{def{name: "good", cols: []types.Field{big}, options: map[string]string{"username": "nobody-here"}}, `role "nobody-here" does not exist`},
		{def{name: "good", cols: []types.Field{big}, options: map[string]string{"url": strings.Replace(server.url, "/test", "/nowhere", 1)}}, `database "nowhere" does not exist`},
	} {
		s := r.open(x.d)
		w, err := s.NewWriter(t.Context(), 0, 1)
		if x.want == "" {
			if err != nil {
				t.Errorf("%v: %v", x.d, err)
				continue
			}
			must(t, w.Close())
			continue
		}
		var fatal *connector.Fatal
		if err == nil || !strings.Contains(err.Error(), x.want) || !errors.As(err, &fatal) {
			t.Errorf("table %s, columns %v, key %v: %v, want %s", x.d.name, x.d.cols, x.d.key, err, x.want)
		}
	}
}

// TestAway is a database that nobody listens for: told soon, and worth another start.
func TestAway(t *testing.T) {
	r := live(t)
	s := r.open(def{name: "x", cols: pair, options: map[string]string{"url": "postgres://postgres@127.0.0.1:1/test"}})
	from := time.Now()
	_, err := s.NewWriter(t.Context(), 0, 1)
	var fatal *connector.Fatal
	if err == nil || errors.As(err, &fatal) || !strings.Contains(err.Error(), "connection refused") || time.Since(from) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(from), err)
	}
}

// TestRestart crashes the server while rows are written.
func TestRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := live(t)
	if !server.script {
		t.Skip("SKIPPED: the server was not started by test/peers/postgres, so it cannot be killed")
	}
	r.exec("CREATE TABLE kv (id bigint PRIMARY KEY, v text); CREATE TABLE once (id bigint, v text)")
	s := r.open(def{name: "kv", cols: pair, key: []string{"id"}})
	w := r.writer(s)
	e := r.open(def{name: "once", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
	ew, c := r.writer(e), r.committer(e)
	const rounds, per = 60, 500
	for n := range rounds {
		if n == rounds/3 || n == 2*rounds/3 {
			must(t, peer("kill"))
			back := make(chan error)
			go func() {
				time.Sleep(time.Second)
				back <- peer("start")
			}()
			defer func() { must(t, <-back) }()
		}
		var rows []row
		for i := range per {
			rows = append(rows, put(int64(n*per+i), "v"))
		}
		must(t, w.Write(t.Context(), batch(pair, rows...)), ew.Write(t.Context(), batch(pair, rows...)))
		cs, err := ew.Prepare(t.Context())
		must(t, err, c.Commit(t.Context(), id("l", int64(n+1)), cs))
	}
	must(t, w.Flush(t.Context()))
	const want = "30000 | 30000"
	r.expect("upserted", "SELECT count(*), count(DISTINCT id) FROM kv", want)
	r.expect("committed", "SELECT count(*), count(DISTINCT id) FROM once", want)
}

// TestBackpressure has a table that is locked: rows wait within bounds, then Write does.
func TestBackpressure(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE kv (id bigint, v text)")
	s := r.open(def{name: "kv", cols: pair})
	w := r.writer(s)
	r.exec("BEGIN; LOCK TABLE kv IN ACCESS EXCLUSIVE MODE")
	b := batch(pair, slices.Repeat([]row{put(int64(1), strings.Repeat("x", 100))}, 1000)...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	n := 0
	for ; n < 1000; n++ {
		if err := w.Write(ctx, b); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
	}
	if most := 2*waitRows/1000 + 4; n > most || n < waitRows/1000 {
		t.Errorf("%d batches went in while the table was locked, the bound is %d", n, most)
	}
	r.exec("COMMIT")
	must(t, w.Flush(t.Context()))
	r.expect("rows", "SELECT count(*) FROM kv", fmt.Sprint(n*1000))
}

// TestInterval sends few rows after the interval, and not before.
func TestInterval(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE kv (id bigint, v text)")
	s := r.open(def{name: "kv", cols: pair, options: map[string]string{"sink.buffer-flush.interval": "300 ms"}})
	w := r.writer(s)
	must(t, w.Write(t.Context(), batch(pair, put(int64(1), "x"))), w.Tick(t.Context()))
	r.expect("at once", "SELECT count(*) FROM kv", "0")
	time.Sleep(300 * time.Millisecond)
	must(t, w.Tick(t.Context()))
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && r.rows("SELECT count(*) FROM kv")[0] == "0"; time.Sleep(10 * time.Millisecond) {
	}
	r.expect("later", "SELECT count(*) FROM kv", "1")
}

// TestViews writes through a view and into partitions.
func TestViews(t *testing.T) {
	r := live(t)
	r.exec(`CREATE TABLE base (id bigint PRIMARY KEY, v text); CREATE VIEW view AS SELECT * FROM base WHERE v <> 'no' WITH CHECK OPTION;
CREATE TABLE parts (id bigint, v text, PRIMARY KEY (id)) PARTITION BY HASH (id);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)`)
	for _, d := range []def{{name: "view", cols: pair, key: []string{"id"}}, {name: "parts", cols: pair, key: []string{"id"}}} {
		w := r.writer(r.open(d))
		must(t, w.Write(t.Context(), batch(pair, put(int64(1), "a"), put(int64(2), "b"), put(int64(3), "c"))), w.Flush(t.Context()),
			w.Write(t.Context(), batch(pair, del(int64(2), nil), put(int64(3), "d"))), w.Flush(t.Context()))
		r.expect(d.name, "SELECT * FROM "+d.name+" ORDER BY id", "1 | a", "3 | d")
	}
	w := r.writer(r.open(def{name: "view", cols: pair}))
	must(t, w.Write(t.Context(), batch(pair, put(int64(7), "no"), put(int64(8), "x"))), w.Flush(t.Context()))
	r.expect("appended to a view", "SELECT * FROM view WHERE id > 5", "8 | x")
	if len(r.bad) != 1 {
		t.Errorf("refused: %v", r.bad)
	}
}

// TestConformance runs the suite of connectors.
func TestConformance(t *testing.T) {
	if server.url == "" {
		live(t)
	}
	for _, name := range []string{"postgres", "jdbc"} {
		f := *connector.Lookup(name)
		if f.Name != name || f.NewSink == nil || f.Check == nil {
			t.Fatalf("connector %s: %+v", name, f)
		}
	}
	rows := []connectortest.Row{
		{Values: []types.Value{int64(1), "a"}, Text: "1 | a"}, {Values: []types.Value{int64(2), nil}, Text: "2 | NULL"},
		{Values: []types.Value{int64(3), "c"}, Text: "3 | c"}, {Values: []types.Value{int64(4), "d"}, Text: "4 | d"}, {Values: []types.Value{int64(5), ""}, Text: "5 | "},
	}
	for _, g := range []string{"at-least-once", "exactly-once", "none"} {
		t.Run(g, func(t *testing.T) {
			connectortest.TestSink(t, connectortest.SinkCase{Rows: rows, Ordered: true, Numbered: true, New: func(t testing.TB) connectortest.Target {
				r := live(t)
				r.exec("CREATE TABLE kv (id bigint NOT NULL, v text)")
				table := r.table(def{name: "kv", cols: pair, options: map[string]string{"sink.delivery-guarantee": g}})
				m := &connectortest.Segments{}
				return connectortest.Target{Table: table, Visible: func() []string { return r.rows("SELECT * FROM kv ORDER BY ctid") },
					Config: func(c *connector.SinkConfig) { c.Segments, c.Job, c.Node = m, "job", "sink" }}
			}})
		})
	}
}

// TestSpeed says how many rows a second go in.
func TestSpeed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cols := []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: "customer", Type: types.StringType}, {Name: "price", Type: types.DecimalType(12, 2)},
		{Name: "qty", Type: types.IntType}, {Name: "at", Type: types.TimestampType(3)}}
	const n, per = 400_000, 2000
	for _, x := range []struct {
		name, guarantee string
		key             []string
		keys            int
		options         map[string]string
	}{
		{"append, COPY", "at-least-once", nil, n, nil},
		{"append, COPY, exactly once", "exactly-once", nil, n, nil},
		{"upsert, new keys", "at-least-once", []string{"id"}, n, nil},
		{"upsert, new keys, exactly once", "exactly-once", []string{"id"}, n, nil},
		{"upsert, 20000 keys again and again", "at-least-once", []string{"id"}, 20_000, nil},
	} {
		r := live(t)
		r.exec("CREATE TABLE orders (id bigint NOT NULL, customer text, price numeric(12,2), qty int, at timestamp(3)" + map[bool]string{true: ", PRIMARY KEY (id)"}[x.key != nil] + ")")
		s := r.open(def{name: "orders", cols: cols, key: x.key, options: map[string]string{"sink.delivery-guarantee": x.guarantee}})
		w := r.writer(s)
		b := batch(cols, slices.Repeat([]row{put(int64(0), "customer-1234", dec("12.50", 12, 2), int64(3), ts("2024-03-01 12:00:00"))}, per)...)
		from, before := time.Now(), cpu()
		for lo := 0; lo < n; lo += per {
			for i := range per {
				b.Cols[0].I64[i] = int64((lo + i) % x.keys)
			}
			must(t, w.Write(t.Context(), b))
		}
		sealed := time.Since(from)
		cs, err := w.Prepare(t.Context())
		must(t, err)
		if x.guarantee == "exactly-once" {
			must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
		}
		d := time.Since(from)
		t.Logf("%s: %d rows in %.2f s, %.0f rows/s, %.2f us of CPU here a row (the last Write returned after %.2f s)", x.name, n, d.Seconds(), n/d.Seconds(),
			float64((cpu()-before).Microseconds())/n, sealed.Seconds())
		r.expect(x.name, "SELECT count(*) FROM orders", fmt.Sprint(x.keys))
	}
}

// cpu is the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestJDBC opens a table as users of Flink write it.
func TestJDBC(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE kv (id bigint, v text)")
	d := def{name: "kv", cols: pair}
	table := r.table(d)
	at := strings.TrimPrefix(server.url, "postgres://postgres@")
	table.Connector = "jdbc"
	table.Options = map[string]string{"connector": "jdbc", "url": "jdbc:postgresql://" + at + "&currentSchema=" + r.schema, "table-name": "kv", "username": "postgres",
		"driver": "org.postgresql.Driver", "sink.buffer-flush.max-rows": "10"}
	f := connector.Lookup("jdbc")
	c := r.config(d)
	c.Table, c.Options = table, option.Of(table.Options, f.Options, connector.CommonOptions)
	must(t, c.Options.Check(nil), f.Check(table, c.Options))
	s, err := f.NewSink(c)
	must(t, err)
	w := r.writer(s)
	must(t, w.Write(t.Context(), batch(pair, put(int64(1), "x"))), w.Flush(t.Context()))
	r.expect("rows", "SELECT * FROM kv", "1 | x")
}
