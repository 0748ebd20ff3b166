package postgres

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestNumericIn reads back the numbers that the sink writes, and those of other writers.
func TestNumericIn(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		p := 1 + r.IntN(38)
		scale := r.IntN(p + 1)
		digits := make([]byte, 1+r.IntN(p))
		for i := range digits {
			digits[i] = byte('0' + r.IntN(10))
		}
		x, _ := types.ParseDecimal(digits, 38, 0)
		if r.IntN(2) == 0 {
			x = x.Neg()
		}
		if got, err := numericIn(appendNumeric(nil, x, scale), scale); err != nil || got != x {
			t.Fatalf("%s of scale %d: %v, %v", x.DecimalString(0), scale, got, err)
		}
	}
	for _, c := range []struct {
		groups []uint16
		weight int16
		sign   uint16
		scale  int
		want   string // of the number without its point, or of the error
	}{
		{[]uint16{1}, 0, 0, 0, "1"}, {[]uint16{1}, 2, 0, 2, "10000000000"}, {[]uint16{5000}, -1, 0x4000, 1, "-5"}, {[]uint16{5000}, -1, 0, 0, "more than 0 digits after the point"},
		{[]uint16{1}, 0, 0xc000, 0, "NaN or infinite"}, {[]uint16{1}, 9, 0, 0, "1000000000000000000000000000000000000"}, {[]uint16{1}, 10, 0, 0, "more than 38 digits"}, {nil, 0, 0, 7, "0"},
		{[]uint16{1}, -30, 0, 38, "after the point"}, {[]uint16{1}, 3000, 0, 38, "more than 38 digits"},
	} {
		b := be.AppendUint16(be.AppendUint16(be.AppendUint16(be.AppendUint16(nil, uint16(len(c.groups))), uint16(c.weight)), c.sign), 0)
		for _, g := range c.groups {
			b = be.AppendUint16(b, g)
		}
		x, err := numericIn(b, c.scale)
		got := x.DecimalString(0)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%v: %s, want %s", c, got, c.want)
		}
	}
}

// TestCutRange has each number, and NULL, in one part.
func TestCutRange(t *testing.T) {
	for _, x := range []struct {
		n, lo, hi int64
		want      []string
	}{
		{1, 0, 10, []string{"true"}}, {3, 5, 5, []string{"(c < 5 OR c IS NULL)", "c >= 5"}},
		{3, 1, 9, []string{"(c < 4 OR c IS NULL)", "c >= 4 AND c < 7", "c >= 7"}},
		{2, -1 << 63, 1<<63 - 1, []string{"(c < 0 OR c IS NULL)", "c >= 0"}},
	} {
		if got := cutRange("c", x.n, x.lo, x.hi); !slices.Equal(got, x.want) {
			t.Errorf("%v: %q", x, got)
		}
	}
}

// TestSourceQueries shows what is asked for.
func TestSourceQueries(t *testing.T) {
	col := func(name, typ string, category byte, notNull bool) pgColumn {
		return pgColumn{name: name, typ: typ, full: typ, category: category, kind: 'b', scale: -1, notNull: notNull}
	}
	table := &table{name: `"public"."t"`, cols: []pgColumn{col("id", "int8", 'N', true), col("j", "jsonb", 'U', false), col("n", "int4", 'N', false), col("odd", "point", 'G', false)},
		unique: [][]string{{"n"}, {"id"}}}
	cols := []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "J", Type: types.StringType}, {Name: "n", Type: types.DecimalType(12, 0)}}
	for _, x := range []struct {
		o      []string
		wanted []int
		limit  int64
		want   []string
	}{
		{nil, []int{0, 1, 2}, -1, []string{`SELECT "id", "j", "n"::numeric FROM "public"."t" ORDER BY "id"`}},
		{nil, []int{}, 7, []string{`SELECT  FROM "public"."t" ORDER BY "id" LIMIT 7`}},
		{[]string{"scan.order-by", "n DESC", "scan.filter", "n > 1 OR n < 0"}, []int{1}, -1, []string{`SELECT "j" FROM "public"."t" WHERE (n > 1 OR n < 0) ORDER BY n DESC, "j"::text`}},
		{[]string{"scan.order-by", ""}, []int{0}, -1, []string{`SELECT "id" FROM "public"."t"`}},
		{[]string{"scan.partition.column", "n", "scan.partition.num", "2", "scan.partition.lower-bound", "0", "scan.partition.upper-bound", "9"}, []int{0}, -1,
			[]string{`SELECT "id" FROM "public"."t" WHERE ("n" < 5 OR "n" IS NULL) ORDER BY "n", "id"`, `SELECT "id" FROM "public"."t" WHERE "n" >= 5 ORDER BY "n", "id"`}},
	} {
		s := offlineSource(t, cols, x.wanted, x.limit, x.o...)
		sel, err := s.fit(table)
		if err != nil {
			t.Fatal(err)
		}
		parts := sel.parts
		if parts == nil {
			parts = []string{""}
		}
		for i, p := range parts {
			if got := connector.SelectFrom(sel.text, &s.cfg, p, sel.order, 0); got != x.want[i] {
				t.Errorf("%v: %s", x.o, got)
			}
		}
	}
	for _, x := range []struct {
		f    types.Field
		want string
	}{
		{types.Field{Name: "odd", Type: types.StringType}, "column 'odd' is STRING here and point in the database; declare"},
		{types.Field{Name: "odd", Type: types.IntType}, "column 'odd' is INT here and point in the database; declare"},
		{types.Field{Name: "z", Type: types.IntType}, "column 'z' does not exist; there are id, j, n, odd"},
		{types.Field{Name: "n", Type: types.ArrayType(types.IntType)}, "column 'n' is ARRAY<INT> here"},
	} {
		if x.want == "" {
			continue
		}
		_, err := offlineSource(t, []types.Field{x.f}, []int{0}, -1).fit(table)
		if x.f.Type.IsString() != (err == nil) && err == nil || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.want, err)
		}
	}
}

func offlineSource(t testing.TB, cols []types.Field, wanted []int, limit int64, options ...string) *source {
	t.Helper()
	o := map[string]string{"connector": "postgres", "url": "postgres://h/d", "table-name": "t"}
	for i := 0; i < len(options); i += 2 {
		o[options[i]] = options[i+1]
	}
	def := &connector.Table{Name: "t", Connector: "postgres", Columns: cols, Options: o}
	f := connector.Lookup("postgres")
	v := option.Of(o, f.Options, connector.CommonOptions)
	must(t, v.Check(nil), f.Check(def, v))
	s, err := f.NewSource(connector.SourceConfig{Table: def, Options: v, Columns: wanted, Limit: limit})
	must(t, err)
	return s.(*source)
}

func TestSourceOptions(t *testing.T) {
	all := []string{"scan.partition.column", "n", "scan.partition.num", "2", "scan.partition.lower-bound", "0", "scan.partition.upper-bound", "9"}
	f := connector.Lookup("jdbc")
	for _, x := range []struct {
		o    []string
		want string
	}{{all, ""}, {all[:6], "some of the options"}, {append(slices.Clone(all[:2]), "scan.partition.num", "0", "scan.partition.lower-bound", "0", "scan.partition.upper-bound", "9"), "cannot be read in 0 parts"},
		{append(slices.Clone(all[:6]), "scan.partition.upper-bound", "-1"), "begins behind the end"}} {
		o := map[string]string{"connector": "jdbc", "url": "jdbc:postgresql://h/d", "table-name": "t"}
		for i := 0; i < len(x.o); i += 2 {
			o[x.o[i]] = x.o[i+1]
		}
		err := f.Check(&connector.Table{}, option.Of(o, f.Options, connector.CommonOptions))
		if x.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v", x.o, err)
		}
	}
}

// FuzzGet reads values that are anything.
func FuzzGet(f *testing.F) {
	cases := append(slices.Clone(typeCases), arrayCases...)
	f.Add(0, []byte{1})
	f.Add(len(typeCases), []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7})
	f.Fuzz(func(t *testing.T, n int, b []byte) {
		c := cases[uint(n)%uint(len(cases))]
		typ, depth := c.typ, 0
		for typ.Kind == types.Array {
			typ = *typ.Elem
			depth++
		}
		for _, name := range []string{"bool", "int8", "numeric", "float8", "text", "bytea", "date", "time", "timestamp", "timestamptz", "interval"} {
			_, g := reading(typ, &pgColumn{typ: name, category: 'S'})
			if g == nil {
				continue
			}
			if depth > 0 {
				g = arrayGetter(c.typ, depth, g)
			}
			v := vec.New(c.typ, 1)
			if g(v, 0, b) == nil && !v.IsNull(0) {
				v.Value(0) // must be there
			}
		}
	})
}

// source makes a source of a table here.
func (r *rig) source(d def, limit int64) (connector.Source, error) {
	t := r.table(d)
	f := connector.Lookup("postgres")
	o := option.Of(t.Options, f.Options, connector.CommonOptions)
	if err := errors.Join(o.Check(nil), f.Check(t, o)); err != nil {
		return nil, err
	}
	var wanted []int
	for i := range t.Columns {
		wanted = append(wanted, i)
	}
	return f.NewSource(connector.SourceConfig{Table: t, Options: o, Columns: wanted, Limit: limit, Warn: func(msg string) { r.bad = append(r.bad, msg) }})
}

// readAll reads all splits of a source. between is called after each batch.
func (r *rig) readAll(d def, between func(rows int)) (out []string, err error) {
	r.t.Helper()
	s, err := r.source(d, -1)
	if err != nil {
		return nil, err
	}
	e, err := s.NewEnumerator(r.t.Context())
	if err != nil {
		return nil, err
	}
	splits, _, err := e.Discover(r.t.Context())
	must(r.t, err)
	rd, err := s.NewReader(r.t.Context(), 0)
	must(r.t, err)
	for _, sp := range splits {
		x, err := rd.Open(r.t.Context(), sp)
		if err != nil {
			return out, err
		}
		b := vec.NewBatch(types.Schema{Fields: d.cols})
		for {
			b.Reset(0)
			if err = x.(connector.BatchReader).ReadBatch(r.t.Context(), b, 100); err != nil {
				break
			}
			for i := range b.N {
				var row []string
				for _, c := range b.Cols {
					text := fmt.Sprint(c.Value(i))
					if c.IsNull(i) {
						text = "NULL"
					}
					row = append(row, text)
				}
				out = append(out, strings.Join(row, " | "))
			}
			if between != nil {
				between(len(out))
			}
		}
		must(r.t, x.Close())
		if err != io.EOF {
			return out, err
		}
	}
	return out, nil
}

// respelled are values that come back otherwise: what the database cuts off or spells in its own way.
var respelled = map[string]string{
	"x  ": "x", `{"b": 1,"a":[1]}@jsonb`: `{"a": [1], "b": 1}`, "7F3D0C2E-0000-4000-8000-00000000000a": "7f3d0c2e-0000-4000-8000-00000000000a",
	"7f3d0c2e00004000800000000000000b": "7f3d0c2e-0000-4000-8000-00000000000b",
}

// TestAllTypesBack writes every type and reads it: what comes is what went in.
func TestAllTypesBack(t *testing.T) {
	r := live(t)
	r.exec("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN small AS integer CHECK (VALUE < 10)")
	d := def{name: "every", key: []string{"n"}, cols: []types.Field{{Name: "n", Type: types.IntType.NotNull()}}, options: map[string]string{}}
	ddl := "n int primary key"
	cases := append(slices.Clone(typeCases), arrayCases...)
	rows, want := make([]row, 3), make([]string, 3)
	for i := range rows {
		rows[i], want[i] = put(int64(i)), fmt.Sprint(i)
	}
	for k, c := range cases {
		name := fmt.Sprintf("c%d", k)
		d.cols = append(d.cols, types.Field{Name: name, Type: c.typ})
		typ := c.pg
		if typ == "mood" || typ == "small" {
			typ = r.schema + "." + typ
		}
		ddl += ", " + name + " " + typ
		for i := range rows {
			v := c.values[i]
			rows[i].Values = append(rows[i].Values, v)
			text := strings.NewReplacer("{456789 ", "{456000 ", "{999999 ", "{999000 ").Replace(fmt.Sprint(v))
			for _, spelled := range []string{text, text + "@" + c.pg} {
				if s, ok := respelled[spelled]; ok {
					text = s
				}
			}
			if v == nil {
				text = "NULL"
			}
			want[i] += " | " + text
		}
	}
	r.exec("CREATE TABLE every (" + ddl + ")")
	w := r.writer(r.open(d))
	must(t, w.Write(t.Context(), batch(d.cols, rows...)), w.Flush(t.Context()))
	got, err := r.readAll(d, nil)
	must(t, err)
	if len(got) != 3 {
		t.Fatalf("%d rows", len(got))
	}
	for i := range want {
		g, w := strings.Split(got[i], " | "), strings.Split(want[i], " | ")
		for k := range w {
			if g[k] != w[k] {
				t.Errorf("row %d, %s from %s: %q, want %q", i, cases[max(k-1, 0)].typ, cases[max(k-1, 0)].pg, g[k], w[k])
			}
		}
	}
}

var counted = []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "v", Type: types.StringType}}

func countedRows(lo, hi int) (out []string) {
	for i := lo; i < hi; i++ {
		out = append(out, fmt.Sprintf("%d | v%d", i, i))
	}
	return out
}

// TestReadConformance runs the suite of connectors over a table with a key, one without, and one in parts.
func TestReadConformance(t *testing.T) {
	for name, o := range map[string]map[string]string{
		"key": {}, "order": {"scan.order-by": "v"},
		"parts": {"scan.partition.column": "id", "scan.partition.num": "3", "scan.partition.lower-bound": "10", "scan.partition.upper-bound": "80"},
	} {
		t.Run(name, func(t *testing.T) {
			r := live(t)
			r.exec("CREATE TABLE num (id bigint PRIMARY KEY, v text); INSERT INTO num SELECT i, 'v' || i FROM generate_series(0, 199) i")
			connectortest.TestSource(t, connectortest.SourceCase{Table: r.table(def{name: "num", cols: counted, options: o}), Rows: countedRows(0, 200)})
		})
	}
}

// TestReadBreaks ends the connection in the middle.
func TestReadBreaks(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE num (id bigint PRIMARY KEY, v text); INSERT INTO num SELECT i, 'v' || i FROM generate_series(0, 199999) i; CREATE VIEW vnum AS SELECT * FROM num")
	ended, next := 0, 0
	breaks := func(rows int) {
		if rows > next {
			next += 80_000
			ended += len(r.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT \"id\"%" + r.schema + "%' AND pid <> pg_backend_pid()"))
			time.Sleep(20 * time.Millisecond)
		}
	}
	got, err := r.readAll(def{name: "num", cols: counted}, breaks)
	must(t, err)
	if !slices.Equal(got, countedRows(0, 200_000)) || ended < 2 {
		t.Errorf("%d rows, %d connections ended", len(got), ended)
	}
	next = 0
	got, err = r.readAll(def{name: "vnum", cols: counted}, breaks)
	if err == nil || !strings.Contains(err.Error(), "'scan.order-by'") || len(got) < 100 || len(got) == 200_000 {
		t.Errorf("without an order: %d rows, %v", len(got), err)
	}
}

// TestReadRefuses has values and tables that cannot be read.
func TestReadRefuses(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE num (id bigint, v text, f double precision, at timestamp); INSERT INTO num VALUES (1, 'a', 0.5, '2024-01-01'), (2, NULL, 0.1, 'infinity'), (300, 'c', 1e300, '2024-01-01 00:00:00.0001')")
	for _, x := range []struct {
		name string
		typ  types.Type
		o    string
		want string
	}{
		{"id", types.TinyIntType, "id", "row 2: column 'id': 300 does not fit TINYINT"},
		{"v", types.StringType.NotNull(), "id", "row 1: column 'v': it is NULL, and NOT NULL here"},
		{"f", types.FloatType, "id", "row 1: column 'f': 0.1 has more digits than FLOAT"},
		{"at", types.TimestampType(3), "id", "row 1: column 'at': it is infinite"},
		{"at", types.TimestampType(3), "id DESC", "row 0: column 'at': it has more digits of the second than TIMESTAMP(3)"},
		{"id", types.BigIntType, "nothing", "nothing"},
	} {
		_, err := r.readAll(def{name: "num", cols: []types.Field{{Name: x.name, Type: x.typ}}, options: map[string]string{"scan.order-by": x.o}}, nil)
		var fatal *connector.Fatal
		if err == nil || !strings.Contains(err.Error(), x.want) || !errors.As(err, &fatal) {
			t.Errorf("%s: %v", x.want, err)
		}
	}
	s, err := r.source(def{name: "num", cols: counted}, -1)
	must(t, err)
	if g := s.Guarantee(); !strings.Contains(g, "at least once; 'scan.order-by'") {
		t.Error(g)
	}
	if _, err := s.NewReader(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
