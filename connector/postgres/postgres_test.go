package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestEncode checks the bytes on the wire by printing them; the server reads them in live tests.
func TestEncode(t *testing.T) {
	for _, x := range []struct {
		typ  types.Type
		wire wire
		v    types.Value
		want string
	}{
		{types.BooleanType, wBool, true, "true"},
		{types.TinyIntType, wInt2, int64(-7), "-7"},
		{types.SmallIntType, wInt8, int64(-7), "-7"},
		{types.IntType, wInt4, int64(math.MinInt32), "-2147483648"},
		{types.BigIntType, wInt8, int64(math.MaxInt64), "9223372036854775807"},
		{types.FloatType, wFloat4, 0.5, "0.5"},
		{types.FloatType, wFloat8, 0.5, "0.5"},
		{types.DoubleType, wFloat8, math.NaN(), "NaN"},
		{types.DoubleType, wFloat8, math.Inf(-1), "-Infinity"},
		{types.IntType, wNumeric, int64(-120000), "-120000"},
		{types.DecimalType(5, 2), wNumeric, dec("0", 5, 2), "0.00"},
		{types.DecimalType(5, 5), wNumeric, dec("-0.00001", 5, 5), "-0.00001"},
		{types.DecimalType(38, 37), wNumeric, dec("9.0000000000000000000000000000000000001", 38, 37), "9.0000000000000000000000000000000000001"},
		{types.StringType, wText, "x", "x"},
		{types.BytesType, wBytea, []byte{1, 255}, `\x01ff`},
		{types.DateType, wDate, day("0001-01-01"), "0001-01-01"},
		{types.DateType, wDate, int64(-719163), "0001-12-31 BC"},
		{types.TimeType(3), wTime, int64(86_399_050), "23:59:59.05"},
		{types.TimestampType(3), wTimestamp, ts("1999-12-31 23:59:59.999"), "1999-12-31 23:59:59.999"},
		{types.TimestampType(9), wTimestamp, ts("1999-12-31 23:59:59.999999999"), "1999-12-31 23:59:59.999999"},
		{types.TimestampLTZType(6), wTimestampTZ, ts("2024-01-01 00:00:00.000001"), "2024-01-01 00:00:00.000001+00"},
		{types.ArrayType(types.StringType), wText, list("a,", nil, `"`), `{"a,",NULL,"\""}`},
		{types.Type{Kind: types.IntervalYearMonth, Nullable: true}, wInterval, int64(-14), "-14 months 0 microseconds"},
		{types.Type{Kind: types.IntervalDayTime, Nullable: true}, wInterval, int64(1500), "0 months 1500000 microseconds"},
	} {
		v := vec.New(x.typ, 0)
		v.AppendValue(x.v)
		b := encoder(x.typ, x.wire)([]byte("before"), v, 0)
		if got, _ := appendText(nil, x.wire, b[len("before"):]); string(got) != x.want {
			t.Errorf("%s %v as %s: %s, want %s", x.typ, x.v, x.wire, got, x.want)
		}
	}
}

// TestNumeric compares the binary form with the decimal text, for numbers of all sizes.
func TestNumeric(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		p := 1 + r.IntN(38)
		scale := r.IntN(p + 1)
		digits := make([]byte, 1+r.IntN(p))
		for i := range digits {
			digits[i] = byte('0' + r.IntN(10))
			if r.IntN(3) == 0 {
				digits[i] = '0'
			}
		}
		x, ok := types.ParseDecimal(digits, 38, 0)
		if !ok {
			t.Fatalf("%s", digits)
		}
		if r.IntN(2) == 0 {
			x = x.Neg()
		}
		b := appendNumeric(nil, x, scale)
		if got, want := string(appendNumericText(nil, b)), string(types.AppendDecimal(nil, x, scale)); got != want {
			t.Fatalf("%s: %s (% x)", want, got, b)
		}
		if n := be.Uint16(b); n > 0 && (be.Uint16(b[8:]) == 0 || be.Uint16(b[len(b)-2:]) == 0) {
			t.Fatalf("%s has groups of zeros at its ends: % x", types.AppendDecimal(nil, x, scale), b)
		}
	}
}

// TestEnds are times that PostgreSQL does not have: they must not become its infinities, nor wrap.
func TestEnds(t *testing.T) {
	for _, ms := range []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64, math.MaxInt64 / 1000, math.MinInt64 / 1000, (math.MinInt64+micros2000)/1000 + 1} {
		us := pgMicros(ms, 999_999)
		if us == math.MaxInt64 || us == math.MinInt64 || (us > 0) != (ms > 0) {
			t.Errorf("%d ms is %d", ms, us)
		}
	}
	for _, d := range []int32{math.MinInt32, math.MinInt32 + days2000, math.MaxInt32} {
		if got := pgDate(d); got == math.MinInt32 || got == math.MaxInt32 || (got > 0) != (d > 0) {
			t.Errorf("day %d is %d", d, got)
		}
	}
}

func testShape(keys ...int) shape {
	return shape{cols: []column{{"id", wInt8, "", true}, {`we"ird`, wText, "uuid", false}, {"n", wNumeric, "", true}}, keys: keys}
}

func TestStatements(t *testing.T) {
	tab := &table{name: `"s"."t"`, cols: []pgColumn{{name: "other", oid: "1"}, {name: "n", oid: "1700"}, {name: "id", oid: "20"}}}
	s := testShape()
	st := s.statements(tab)
	if st.copy != "" || st.remove != "" || st.insert != `INSERT INTO "s"."t" ("id", "we""ird", "n") SELECT u.c1, u.c2::uuid, u.c3 FROM unnest($1::int8[], $2::text[], $3::numeric[]) AS u(c1, c2, c3)` {
		t.Errorf("%+v", st)
	}
	s.cols = slices.Delete(s.cols, 1, 2)
	st = s.statements(tab)
	if want := `COPY "s"."t" ("id", "n") FROM STDIN (FORMAT binary); SELECT CASE (SELECT string_agg(atttypid::text, ',' ORDER BY attnum) FROM pg_catalog.pg_attribute ` +
		`WHERE attrelid = '"s"."t"'::regclass AND attname IN ('n', 'id')) WHEN '1700,20' THEN 'pg_catalog.pg_class' ELSE 'tidemark_types_changed' END::regclass`; st.copy != want {
		t.Errorf("%s\nwant\n%s", st.copy, want)
	}
	s = testShape(1, 0)
	st = s.statements(tab)
	if want := ` ON CONFLICT ("we""ird", "id") DO UPDATE SET "n" = excluded."n"`; !strings.HasSuffix(st.insert, want) || st.copy != "" {
		t.Errorf("%s\nwant %s", st.insert, want)
	}
	if want := `DELETE FROM "s"."t" AS t USING unnest($1::text[], $2::int8[]) AS u(c1, c2) WHERE t."we""ird" = u.c1::uuid AND t."id" = u.c2`; st.remove != want {
		t.Errorf("%s\nwant\n%s", st.remove, want)
	}
	s = testShape(0, 1, 2)
	if st = s.statements(tab); !strings.HasSuffix(st.insert, "DO NOTHING") {
		t.Errorf("%s", st.insert)
	}
	if got := literal(`it's \ here`); got != ` E'it''s \\ here'` {
		t.Error(got)
	}
}

// tuplesOf encodes rows of (id BIGINT, v STRING), key id.
func tuplesOf() *tuples {
	return &tuples{shape: shape{cols: []column{{"id", wInt8, "", true}, {"v", wText, "", true}}, keys: []int{0}}, at: []int{0, 1},
		enc: []encode{encoder(types.BigIntType, wInt8), encoder(types.StringType, wText)}, key: []bool{true, false}}
}

func TestLatest(t *testing.T) {
	enc := tuplesOf()
	var r rows
	enc.rows(&r, batch(pair, put(int64(1), "a"), put(int64(2), "b"), del(int64(1), "x"), put(int64(3), "c"), put(int64(2), "d"), put(nil, "e"), put(nil, "f")))
	var l latest
	for range 2 { // its memory is used again
		last, err := l.find(&enc.shape, &r, 0, r.len())
		must(t, err)
		var got []string
		for _, i := range last {
			got = append(got, fmt.Sprintf("%t %s", r.gone[i], enc.rowText(r.tuple(int(i)))))
		}
		if want := []string{`true {"id":1,"v":null}`, `false {"id":2,"v":"d"}`, `false {"id":3,"v":"c"}`, `false {"id":null,"v":"f"}`}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	}
	if last, _ := l.find(&enc.shape, &r, 3, 5); len(last) != 2 {
		t.Errorf("rows 3 and 4 have %d keys", len(last))
	}
	r.reset()
	many := make([]row, 5000)
	for i := range many {
		many[i] = put(int64(i%1237), "x")
	}
	enc.rows(&r, batch(pair, many...))
	if last, _ := l.find(&enc.shape, &r, 0, 5000); len(last) != 1237 {
		t.Errorf("%d keys, want 1237", len(last))
	}
}

func TestChunk(t *testing.T) {
	enc := tuplesOf()
	var r rows
	for i := range 100 {
		enc.rows(&r, batch(pair, put(int64(i), strings.Repeat("x", i*10))))
	}
	for lo := 0; lo < 100; {
		hi := r.chunk(lo, 30, 2000)
		if hi <= lo || hi > lo+30 || hi > lo+1 && r.ends[hi-1]-r.from(lo) > 2000 {
			t.Fatalf("chunk %d to %d of %d bytes", lo, hi, r.ends[hi-1]-r.from(lo))
		}
		lo = hi
	}
}

func TestSegment(t *testing.T) {
	enc := tuplesOf()
	enc.cols[1].cast = "jsonb"
	var r rows
	for i := range 10_000 {
		enc.rows(&r, batch(pair, put(int64(i), strings.Repeat("x", i%100)), del(int64(i), nil)))
	}
	whole := appendFrames(enc.appendHeader(nil), &r)
	s, err := readSegment(bytes.NewReader(whole))
	must(t, err)
	if !slices.Equal(s.cols, enc.cols) || !slices.Equal(s.keys, enc.keys) {
		t.Errorf("header: %+v", s.shape)
	}
	var got, part rows
	for err = nil; err == nil; {
		part.reset()
		err = s.read(&part, 700, 1<<20)
		for i := range part.len() {
			got.buf = append(got.buf, part.tuple(i)...)
			got.end(part.gone[i])
		}
	}
	if err != io.EOF || !bytes.Equal(got.buf, r.buf) || !slices.Equal(got.ends, r.ends) || !slices.Equal(got.gone, r.gone) {
		t.Errorf("%d rows: %v", got.len(), err)
	}
	// Every cut but those between rows, and every changed byte of the first rows, is an error or
	// gives rows that fit the columns.
	short := whole[:300]
	for n := range short {
		if err := readAll(short[:n]); err != nil && !errors.Is(err, errSegment) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if err := readAll(whole[:len(whole)-1]); !errors.Is(err, errSegment) {
		t.Errorf("cut in the last row: %v", err)
	}
	if classOf(readAll(whole[:len(whole)-1])) != hopeless {
		t.Error("a damaged segment is worth a restart")
	}
	disk := io.MultiReader(bytes.NewReader(whole[:1000]), &failing{})
	s, err = readSegment(disk)
	must(t, err)
	if err = s.read(&got, 1<<20, 1<<20); errors.Is(err, errSegment) || !errors.Is(err, io.ErrClosedPipe) || classOf(err) != broken {
		t.Errorf("a disk that fails: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func readAll(b []byte) error {
	s, err := readSegment(bytes.NewReader(b))
	for err == nil {
		var r rows
		err = s.read(&r, 100, 1<<20)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func FuzzSegment(f *testing.F) {
	enc := tuplesOf()
	var r rows
	enc.rows(&r, batch(pair, put(int64(1), "abc"), del(int64(2), nil), put(int64(3), nil)))
	f.Add(appendFrames(enc.appendHeader(nil), &r))
	one := shape{cols: []column{{"n", wNumeric, "", true}, {"d", wDate, "", true}, {"t", wTimestampTZ, "", true}, {"i", wInterval, "", true}}}
	f.Add(append(one.appendHeader(nil), 0, 0, 0, 19, 0, 0, 4, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := readSegment(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, errSegment) {
				t.Fatal(err)
			}
			return
		}
		var r rows
		var l latest
		if err = s.read(&r, 1000, 1<<20); err != io.EOF {
			if err != nil && !errors.Is(err, errSegment) {
				t.Fatal(err)
			}
			return
		}
		// What was read is written as it was, and everything that goes on with it takes it.
		again, err := readSegment(bytes.NewReader(appendFrames(s.appendHeader(nil), &r)))
		must(t, err)
		var r2 rows
		if err := again.read(&r2, 1000, 1<<21); err != io.EOF || !bytes.Equal(r.buf, r2.buf) || !slices.Equal(r.gone, r2.gone) {
			t.Fatalf("read again: %v", err)
		}
		var a arrays
		st := s.statements(&table{name: "t"})
		a.begin(&s.shape, st.all)
		for i := range r.len() {
			must(t, a.add(&s.shape, st.all, r.tuple(i)))
			s.rowText(r.tuple(i))
		}
		a.finish()
		if _, err := l.find(&s.shape, &r, 0, r.len()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestURL(t *testing.T) {
	for _, x := range []struct{ connector, url, user, password, want string }{
		{"jdbc", "jdbc:postgresql://db:5433/shop", "me", "secret", "db:5433 shop me secret"},
		{"jdbc", "jdbc:postgresql://db/shop?user=a&password=b%26c&currentSchema=x&reWriteBatchedInserts=true", "", "", "db:5432 shop a b&c search_path=x"},
		{"jdbc", "jdbc:postgresql:shop?user=a&connectTimeout=0&sslmode=disable", "", "", "localhost:5432 shop a "},
		{"jdbc", "jdbc:postgresql://[::1]:5433/shop?user=a&ApplicationName=mine", "", "", "::1:5433 shop a  application_name=mine"},
		{"jdbc", "jdbc:postgresql://a,b:99/shop?user=a&targetServerType=primary", "", "", "a:5432 shop a  +b:99"},
		{"postgres", "postgres://a:b@db/shop?sslmode=disable", "", "", "db:5432 shop a b"},
		{"postgres", "postgresql://a:b@db/shop", "c", "", "db:5432 shop c b"},
		{"postgres", "jdbc:postgresql://db/shop", "c", "d", "db:5432 shop c d"},
		{"jdbc", "jdbc:mysql://db/shop", "", "", "error: the JDBC dialect 'mysql' is not supported yet; only PostgreSQL is"},
		{"jdbc", "jdbc:oracle:thin:@db", "", "", "error: the JDBC dialect 'oracle' is not supported yet; only PostgreSQL is"},
		{"jdbc", "postgres://db/shop", "", "", "error: a URL of the jdbc connector begins with jdbc:"},
		{"postgres", "db:5432", "", "", "error: the URL of a PostgreSQL database begins with postgres://"},
		{"postgres", "postgres://db:port/x", "", "", "error: the URL of the database cannot be used"},
	} {
		given := map[string]string{"connector": x.connector, "url": x.url, "table-name": "t"}
		if x.user != "" {
			given["username"] = x.user
		}
		if x.password != "" {
			given["password"] = x.password
		}
		f := connector.Lookup(x.connector)
		o := option.Of(given, f.Options, connector.CommonOptions)
		err := f.Check(&connector.Table{}, o)
		if err != nil {
			if got := "error: " + err.Error(); !strings.HasPrefix(x.want, "error") || !strings.HasPrefix(got, x.want) {
				t.Errorf("%s: %s, want %s", x.url, got, x.want)
			}
			continue
		}
		c, err := configOf(o)
		must(t, err)
		got := fmt.Sprintf("%s:%d %s %s %s", c.Host, c.Port, c.Database, c.User, c.Password)
		for _, k := range []string{"application_name", "search_path"} {
			if v := c.RuntimeParams[k]; v != "" && v != "tidemark" {
				got += " " + k + "=" + v
			}
		}
		for _, o := range c.Fallbacks {
			if o.Host != c.Host {
				got += fmt.Sprintf(" +%s:%d", o.Host, o.Port)
				break
			}
		}
		if got != x.want {
			t.Errorf("%s: %s, want %s", x.url, got, x.want)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{"jdbc:postgresql://h:1/d?user=a", "postgres://a:b@h/d", `a."b.c"`, "jdbc:postgresql:d", `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := fromJDBC(s); err == nil && !strings.Contains(s, "postgresql:") {
			t.Errorf("%q is a URL", s)
		}
		if parts, err := splitName(s); err == nil {
			for _, p := range parts {
				if p.name == "" {
					t.Errorf("%q has an empty part", s)
				}
			}
		}
	})
}

func TestOptions(t *testing.T) {
	for _, x := range []struct{ key, value, want string }{
		{"table-name", "a.b.c", "the name has 3 parts"},
		{"table-name", `"a`, "a quote that does not end"},
		{"table-name", `"a"b`, "follows a quoted name"},
		{"table-name", "a.", "an empty part"},
		{"sink.buffer-flush.max-rows", "-1", "cannot be -1"},
		{"sink.max-retries", "-1", "cannot be -1"},
		{"sink.delivery-guarantee", "exactly-once", ""},
	} {
		f := connector.Lookup("postgres")
		given := map[string]string{"connector": "postgres", "url": "postgres://h/d", "table-name": "t"}
		given[x.key] = x.value
		err := f.Check(&connector.Table{}, option.Of(given, f.Options, connector.CommonOptions))
		if x.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s = %s: %v, want %s", x.key, x.value, err, x.want)
		}
	}
	got, err := candidates(`Sales."My.Orders"`)
	if want := []string{`"Sales"."My.Orders"`, `"sales"."My.Orders"`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
	f := connector.Lookup("postgres")
	o := option.Of(map[string]string{"connector": "postgres", "url": "postgres://h/d", "table-name": "t", "sink.delivery-guarantee": "exactly-once"}, f.Options)
	if _, err := f.NewSink(connector.SinkConfig{Table: &connector.Table{}, Options: o}); err == nil || !strings.Contains(err.Error(), "exactly-once needs checkpoints") {
		t.Errorf("exactly-once without checkpoints: %v", err)
	}
}

// TestChangelog: with a key a table takes changes, without one only inserts.
func TestChangelog(t *testing.T) {
	for _, name := range []string{"jdbc", "postgres"} {
		f := connector.Lookup(name)
		if m := f.SinkChangelog(&connector.Table{PrimaryKey: []string{"a"}}, option.Values{}); m != types.Upsert {
			t.Errorf("%s with key: %s", name, m)
		}
		if m := f.SinkChangelog(&connector.Table{}, option.Values{}); m != types.InsertOnly {
			t.Errorf("%s without: %s", name, m)
		}
	}
}

func TestErrors(t *testing.T) {
	state := func(code string) error { return fmt.Errorf("x: %w", &pgconn.PgError{Code: code, Message: "m"}) }
	for code, want := range map[string]class{"22003": refused, "23514": refused, "23502": refused, "54000": refused, "44000": refused, "21000": clash,
		"22P03": stale, "42804": stale, "28P01": hopeless, "42501": hopeless, "3D000": hopeless, "40P01": passing, "40001": passing, "55P03": passing,
		"57P01": away, "57P03": away, "53300": away, "08006": away, "25006": away, "P0001": broken, "": broken} {
		if got := classOf(state(code)); got != want {
			t.Errorf("%s: class %d, want %d", code, got, want)
		}
	}
	if classOf(io.ErrUnexpectedEOF) != away || classOf(context.Canceled) != broken {
		t.Error("errors without SQLSTATE")
	}
	p := &patience{connector.Patience{Tries: 2, Within: time.Nanosecond}}
	for n := range 3 {
		if err := p.again(t.Context(), state("40P01")); (err == nil) != (n < 2) {
			t.Errorf("try %d: %v", n, err)
		}
	}
	p.Worked()
	must(t, p.again(t.Context(), state("40P01")))
	p.again(t.Context(), state("57P03"))
	if err := p.again(t.Context(), state("57P03")); err == nil || !strings.Contains(err.Error(), "cannot be used since") {
		t.Errorf("a server that stays away: %v", err)
	}
	var fatal *connector.Fatal
	if err := p.again(t.Context(), state("28P01")); !errors.As(err, &fatal) {
		t.Errorf("a wrong password: %v", err)
	}
	if err := p.again(t.Context(), state("P0001")); errors.As(err, &fatal) || err == nil {
		t.Errorf("an error of a trigger: %v", err)
	}
}

func TestSealer(t *testing.T) {
	s := &sink{cfg: connector.SinkConfig{Segments: &connectortest.Segments{}}}
	w := &sealer{Sealer: connector.Sealer{Segments: s.cfg.Segments}, enc: tuplesOf()}
	if cs, err := w.Prepare(t.Context()); len(cs) != 0 || err != nil {
		t.Errorf("nothing written: %v, %v", cs, err)
	}
	b := batch(pair, put(int64(1), "a"), put(int64(2), "b"), put(int64(3), "c"))
	b.Sel = []int32{0, 2}
	must(t, w.Write(t.Context(), b), w.Write(t.Context(), b))
	cs, err := w.Prepare(t.Context())
	must(t, err)
	file, err := s.cfg.Segments.Open(t.Context(), cs[0])
	must(t, err)
	r, err := readSegment(file)
	must(t, err)
	var got rows
	if err := r.read(&got, 100, 1<<20); err != io.EOF || got.len() != 4 || string(r.rowText(got.tuple(3))) != `{"id":3,"v":"c"}` {
		t.Errorf("%d rows: %v", got.len(), err)
	}
	must(t, w.Write(t.Context(), b), w.Close(), w.Close())
}

// TestAllocs: rows cost no allocation once buffers are there.
func TestAllocs(t *testing.T) {
	enc := tuplesOf()
	many := make([]row, 1000)
	for i := range many {
		many[i] = put(int64(i%700), "some text")
	}
	b := batch(pair, many...)
	var r rows
	var l latest
	var a arrays
	cols := []int{0, 1}
	if n := testing.AllocsPerRun(20, func() {
		r.reset()
		enc.rows(&r, b)
		last, err := l.find(&enc.shape, &r, 0, r.len())
		must(t, err)
		a.begin(&enc.shape, cols)
		for _, i := range last {
			must(t, a.add(&enc.shape, cols, r.tuple(int(i))))
		}
		a.finish()
	}); n > 2 {
		t.Errorf("%.0f allocations for 1000 rows", n)
	}
}

func BenchmarkEncode(b *testing.B) {
	enc := tuplesOf()
	many := make([]row, 2000)
	for i := range many {
		many[i] = put(int64(i), "some text")
	}
	in := batch(pair, many...)
	in.Kinds = nil
	var r rows
	for b.Loop() {
		r.reset()
		enc.rows(&r, in)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2000), "ns/row")
}
