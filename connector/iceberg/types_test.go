package iceberg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func list(vs ...types.Value) types.Value { return vs }

// typeCase is a type, values of it, and what the library reads.
type typeCase struct {
	typ    types.Type
	ice    string
	values []types.Value
	text   []string
}

var typeCases = []typeCase{
	{types.BooleanType, "boolean", []types.Value{true, false, nil}, []string{"true", "false", "NULL"}},
	{types.TinyIntType, "int", []types.Value{int64(-128), int64(127), nil}, []string{"-128", "127", "NULL"}},
	{types.SmallIntType, "int", []types.Value{int64(-32768), int64(32767), nil}, []string{"-32768", "32767", "NULL"}},
	{types.IntType, "int", []types.Value{int64(math.MinInt32), int64(math.MaxInt32), nil}, []string{"-2147483648", "2147483647", "NULL"}},
	{types.BigIntType, "long", []types.Value{int64(math.MinInt64), int64(math.MaxInt64), nil}, []string{"-9223372036854775808", "9223372036854775807", "NULL"}},
	{types.FloatType, "float", []types.Value{float64(float32(0.1)), math.Inf(-1), nil}, []string{"0.1", "-Inf", "NULL"}},
	{types.DoubleType, "double", []types.Value{-math.MaxFloat64, math.NaN(), nil}, []string{"-1.7976931348623157e+308", "NaN", "NULL"}},
	{types.DecimalType(9, 2), "decimal(9, 2)", []types.Value{dec("-1234567.89", 9, 2), dec("0.05", 9, 2), nil}, []string{"-1234567.89", "0.05", "NULL"}},
	{types.DecimalType(18, 3), "decimal(18, 3)", []types.Value{dec("-123456789012345.678", 18, 3), dec("0", 18, 3), nil}, []string{"-123456789012345.678", "0", "NULL"}},
	{types.DecimalType(38, 18), "decimal(38, 18)", []types.Value{dec("-12345678901234567890.123456789012345678", 38, 18), dec("99999999999999999999", 38, 18), nil},
		[]string{"-12345678901234567890.123456789012345678", "99999999999999999999", "NULL"}},
	{types.StringType, "string", []types.Value{"h\u00e9llo", "", nil}, []string{"h\u00e9llo", "", "NULL"}},
	{types.CharType(3), "string", []types.Value{"abc", "x  ", nil}, []string{"abc", "x  ", "NULL"}},
	{types.BytesType, "binary", []types.Value{[]byte{0, 255, 10}, []byte{}, nil}, []string{"AP8K", "", "NULL"}},
	{types.Type{Kind: types.Binary, Nullable: true, Precision: 4}, "fixed[4]", []types.Value{[]byte{1, 2, 3, 4}, []byte{0, 0, 0, 255}, nil}, []string{"AQIDBA==", "AAAA/w==", "NULL"}},
	{types.DateType, "date", []types.Value{day("1969-12-31"), day("2024-02-29"), nil}, []string{"1969-12-31", "2024-02-29", "NULL"}},
	{types.TimeType(3), "time", []types.Value{int64(86_399_999), int64(0), nil}, []string{"23:59:59.999000", "00:00:00.000000", "NULL"}},
	{types.TimestampType(3), "timestamp", []types.Value{ts("1969-12-31 23:59:59.999"), ts("2024-03-01 12:00:00.5"), nil}, []string{"1969-12-31T23:59:59.999", "2024-03-01T12:00:00.5", "NULL"}},
	{types.TimestampType(6), "timestamp", []types.Value{ts("1960-01-01 00:00:00.123456"), ts("2024-03-01 12:00:00.000001"), nil}, []string{"1960-01-01T00:00:00.123456", "2024-03-01T12:00:00.000001", "NULL"}},
	{types.TimestampType(9), "timestamp", []types.Value{ts("1960-01-01 00:00:00.123456789"), ts("2024-03-01 12:00:00.999999999"), nil},
		[]string{"1960-01-01T00:00:00.123456", "2024-03-01T12:00:00.999999", "NULL"}},
	{types.TimestampLTZType(3), "timestamptz", []types.Value{ts("2024-03-01 12:00:00.5"), ts("1900-01-01 00:00:00"), nil}, []string{"2024-03-01T12:00:00.5Z", "1900-01-01T00:00:00Z", "NULL"}},
	{types.ArrayType(types.IntType), "list<int>", []types.Value{list(int64(1), nil, int64(-3)), list(), nil}, []string{"[1,null,-3]", "[]", "NULL"}},
	{types.ArrayType(types.ArrayType(types.DecimalType(20, 1))), "list<list<decimal(20, 1)>>", []types.Value{list(list(dec("1.5", 20, 1)), nil, list()), list(), nil},
		[]string{`[["1.5"],null,[]]`, "[]", "NULL"}},
	{types.RowType(types.Field{Name: "a", Type: types.IntType}, types.Field{Name: "b", Type: types.TimestampType(3)}), "struct",
		[]types.Value{list(int64(1), ts("2024-03-01 12:00:00.5")), list(nil, nil), nil}, []string{`{"a":1,"b":"2024-03-01T12:00:00.5"}`, `{"a":null,"b":null}`, "NULL"}},
}

// TestTypes writes every type into a table that is made, and reads it with the library; as they lie, and
// with other rows between them.
func TestTypes(t *testing.T) {
	var columns []types.Field
	for i, c := range typeCases {
		columns = append(columns, types.Field{Name: fmt.Sprintf("c%02d", i), Type: c.typ})
	}
	r := newRig(t)
	def := r.table("t", columns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	var rows []row
	var want []string
	for k := range 3 {
		var values []types.Value
		var text []string
		for _, c := range typeCases {
			values, text = append(values, c.values[k]), append(text, c.text[k])
		}
		rows = append(rows, ins(values...))
		want = append(want, strings.Join(text, " | "))
	}
	r.put(w, def, rows...)
	b := vec.NewBatch(def.Schema())
	for _, x := range []row{rows[1], rows[0], rows[0], rows[2], rows[1]} {
		for i, v := range x.Values {
			b.Cols[i].AppendValue(v)
		}
		b.N++
	}
	b.Sel = []int32{1, 3}
	if err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r.commit(c, 1, r.prepare(w))
	tab := r.load(def)
	for i, f := range tab.Schema().Fields() {
		if got := f.Type.String(); !strings.HasPrefix(got, typeCases[i].ice) {
			t.Errorf("%s is made %s, want %s", typeCases[i].typ, got, typeCases[i].ice)
		}
	}
	want = append(want, want[0], want[2])
	got := rowsOf(t, tab)
	slices.Sort(want)
	for k := range min(len(got), len(want)) {
		g, w := strings.Split(got[k], " | "), strings.Split(want[k], " | ")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Errorf("row %d, %s: %q, want %q", k, typeCases[i].typ, g[i], w[i])
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// TestMemoryIsNotKept overwrites the memory of each batch after it was written: nothing may have kept it.
func TestMemoryIsNotKept(t *testing.T) {
	r := newRig(t)
	columns := []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "s", Type: types.StringType}, {Name: "d", Type: types.DecimalType(30, 2)}, {Name: "b", Type: types.BytesType}}
	def := r.table("t", columns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	var want []string
	b := vec.NewBatch(def.Schema())
	for n := range 20 {
		b.Reset(0)
		for i := range 300 {
			id := n*300 + (i*37)%300
			text := fmt.Sprintf("text %d of some length", id)
			for k, v := range []types.Value{int64(id), text, types.I128(int64(id * 100)), []byte(text)} {
				b.Cols[k].AppendValue(v)
			}
			b.N++
			want = append(want, fmt.Sprintf("%d | %s", id, text))
		}
		if err := w.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for _, v := range b.Cols {
			clear(v.I64)
			clear(v.I128)
			for i := range v.Buf {
				v.Buf[i] = '#'
			}
		}
	}
	r.commit(c, 1, r.prepare(w))
	var got []string
	for _, l := range r.rows(def) {
		p := strings.Split(l, " | ")
		got = append(got, p[0]+" | "+p[1])
	}
	sameRows(t, "rows", got, want...)
}

// TestBounds checks the statistics of files by what a scan with a filter skips and finds.
func TestBounds(t *testing.T) {
	r := newRig(t)
	columns := []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "s", Type: types.StringType}, {Name: "d", Type: types.DecimalType(9, 2)}, {Name: "w", Type: types.DecimalType(30, 2)}, {Name: "at", Type: types.TimestampType(3)}}
	def := r.table("t", columns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	for n := range int64(3) {
		for i := range int64(10) {
			x := 10*n + i - 15
			r.put(w, def, ins(x, fmt.Sprintf("%02d a text that is longer than its bounds", x+15), types.I128(x*100), types.I128(x*100), types.I128(x*1000)))
		}
		r.commit(c, n+1, r.prepare(w))
	}
	tab := r.load(def)
	for _, x := range []struct {
		filter iceberg.BooleanExpression
		files  int
		rows   int
	}{
		{iceberg.GreaterThan(iceberg.Reference("id"), int64(10)), 1, 4},
		{iceberg.LessThan(iceberg.Reference("id"), int64(-6)), 1, 9},
		{iceberg.GreaterThanEqual(iceberg.Reference("s"), "20 b"), 1, 9},
		{iceberg.EqualTo(iceberg.Reference("s"), "15 a text that is longer than its bounds"), 1, 1},
		{iceberg.IsNull(iceberg.Reference("s")), 0, 0},
	} {
		scan := tab.Scan(table.WithRowFilter(x.filter))
		tasks, err := scan.PlanFiles(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		_, recs, err := scan.ToArrowRecords(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for rec, err := range recs {
			if err != nil {
				t.Fatal(err)
			}
			n += int(rec.NumRows())
		}
		if len(tasks) != x.files || n != x.rows {
			t.Errorf("%s: %d files and %d rows, want %d and %d", x.filter, len(tasks), n, x.files, x.rows)
		}
	}
	ms, err := tab.CurrentSnapshot().Manifests(localIO{})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, m := range ms {
		for e, err := range m.Entries(localIO{}, false) {
			if err != nil {
				t.Fatal(err)
			}
			f := e.DataFile()
			for _, id := range []int{3, 4} {
				typ := tab.Schema().Field(id - 1).Type
				lo, err1 := iceberg.LiteralFromBytes(typ, f.LowerBoundValues()[id])
				hi, err2 := iceberg.LiteralFromBytes(typ, f.UpperBoundValues()[id])
				first, err3 := iceberg.LiteralFromBytes(iceberg.Int64Type{}, f.LowerBoundValues()[1])
				if err1 != nil || err2 != nil || err3 != nil {
					t.Fatal(err1, err2, err3)
				}
				at := int64(first.(iceberg.Int64Literal))
				if lo.String() != fmt.Sprintf("%d.00", at) || hi.String() != fmt.Sprintf("%d.00", at+9) {
					t.Errorf("bounds of field %d are %s and %s, want %d and %d", id, lo, hi, at, at+9)
				}
				checked++
			}
			if f.Count() != 10 || f.ValueCounts()[2] != 10 || f.NullValueCounts()[2] != 0 || len(f.SplitOffsets()) != 1 {
				t.Errorf("file %v", f)
			}
		}
	}
	if checked != 6 {
		t.Errorf("%d bounds were looked at", checked)
	}
}

// TestTransforms compares the partition values of random rows with the library's.
func TestTransforms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]rune, r.IntN(6))
		for i := range b {
			b[i] = []rune("ab\u00e9\u4e16\U0001f600z")[r.IntN(6)]
		}
		return string(b)
	}
	for _, x := range []struct {
		typ   types.Type
		ice   iceberg.Type
		value func() types.Value
		lit   func(v types.Value) iceberg.Literal
	}{
		{types.IntType, iceberg.Int32Type{}, func() types.Value { return int64(int32(r.Uint32())) }, func(v types.Value) iceberg.Literal { return iceberg.Int32Literal(v.(int64)) }},
		{types.IntType, iceberg.Int64Type{}, func() types.Value { return int64(int32(r.Uint32())) }, func(v types.Value) iceberg.Literal { return iceberg.Int64Literal(v.(int64)) }},
		{types.BigIntType, iceberg.Int64Type{}, func() types.Value { return int64(r.Uint64()) >> 1 }, func(v types.Value) iceberg.Literal { return iceberg.Int64Literal(v.(int64)) }},
		{types.StringType, iceberg.StringType{}, func() types.Value { return text() }, func(v types.Value) iceberg.Literal { return iceberg.StringLiteral(v.(string)) }},
		{types.BytesType, iceberg.BinaryType{}, func() types.Value { return []byte(text()) }, func(v types.Value) iceberg.Literal { return iceberg.BinaryLiteral(v.([]byte)) }},
		{types.DateType, iceberg.DateType{}, func() types.Value { return int64(r.IntN(60_000) - 30_000) }, func(v types.Value) iceberg.Literal { return iceberg.DateLiteral(v.(int64)) }},
		{types.TimestampType(3), iceberg.TimestampType{}, func() types.Value { return types.TS(r.Int64N(1<<42)-1<<41, 0) }, func(v types.Value) iceberg.Literal { return iceberg.TimestampLiteral(v.(types.Int128).Hi * 1000) }},
		{types.TimestampLTZType(6), iceberg.TimestampTzType{}, func() types.Value { return types.TS(r.Int64N(1<<42)-1<<41, int32(r.IntN(1000))*1000) },
			func(v types.Value) iceberg.Literal { return iceberg.TimestampLiteral(micros(v.(types.Int128))) }},
		{types.DecimalType(9, 2), iceberg.DecimalTypeOf(9, 2), func() types.Value { return types.I128(r.Int64N(2_000_000) - 1_000_000) }, decimalLiteral(2)},
		{types.DecimalType(38, 2), iceberg.DecimalTypeOf(38, 2), func() types.Value { return types.MulInt64(r.Int64()-1<<62, r.Int64N(1<<50)) }, decimalLiteral(2)},
		{types.Type{Kind: types.Binary, Nullable: true, Precision: 16}, iceberg.UUIDType{}, func() types.Value { u := uuid.New(); return u[:] }, func(v types.Value) iceberg.Literal { return iceberg.UUIDLiteral(v.([]byte)) }},
	} {
		for _, tr := range []iceberg.Transform{iceberg.IdentityTransform{}, iceberg.BucketTransform{NumBuckets: 7}, iceberg.TruncateTransform{Width: 3}, iceberg.YearTransform{},
			iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.HourTransform{}} {
			f := transformer(tr, x.ice, x.typ)
			if can := tr.CanTransform(x.ice); can != (f != nil) {
				t.Errorf("%s of %s: can be transformed is %t", tr, x.ice, f != nil)
			}
			if f == nil {
				continue
			}
			for range 500 {
				v := vec.New(x.typ, 0)
				value := x.value()
				v.AppendValue(value)
				got := f([]byte{}, v, 0)
				want := tr.Apply(iceberg.Optional[iceberg.Literal]{Valid: true, Val: x.lit(value)})
				lit, err := iceberg.LiteralFromBytes(tr.ResultType(x.ice), got)
				if err != nil || !want.Valid || lit.String() != want.Val.String() {
					t.Fatalf("%s of %s %v: % x is %v (%v), want %v", tr, x.ice, value, got, lit, err, want.Val)
				}
			}
		}
	}
}

func decimalLiteral(scale int) func(types.Value) iceberg.Literal {
	return func(v types.Value) iceberg.Literal {
		l, err := iceberg.LiteralFromBytes(iceberg.DecimalTypeOf(38, scale), appendUnscaled(nil, v.(types.Int128)))
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return l
	}
}

// TestPartitionKey takes keys of all lengths apart again.
func TestPartitionKey(t *testing.T) {
	p := &partitioner{}
	b := vec.NewBatch(types.NewSchema(types.Field{Name: "s", Type: types.StringType}))
	for range 2 {
		p.fields = append(p.fields, partField{value: identity(iceberg.StringType{}, types.StringType)})
	}
	for _, n := range []int{0, 1, 127, 128, 300, 20_000} {
		s := strings.Repeat("x", n)
		b.Reset(0)
		b.Cols[0].AppendValue(s)
		got, err := splitKey(string(p.appendKey(nil, b, 0)))
		if err != nil || len(got) != 2 || string(got[0]) != s || string(got[1]) != s {
			t.Errorf("%d bytes: %q, %v", n, got, err)
		}
	}
	b.Reset(0)
	b.Cols[0].AppendValue(nil)
	if got, err := splitKey(string(p.appendKey(nil, b, 0))); err != nil || len(got) != 2 || got[0] != nil {
		t.Errorf("NULL: %q, %v", got, err)
	}
}

// TestAbove are upper bounds of cut texts.
func TestAbove(t *testing.T) {
	for _, x := range []struct {
		in   string
		text bool
		want string
	}{
		{"abc", true, "abd"}, {"ab\U0010ffff", true, "ac"}, {"\U0010ffff", true, ""}, {"a\ud7ff", true, "a\ue000"}, {"\xff", true, ""},
		{"ab", false, "ac"}, {"a\xff", false, "b"}, {"\xff\xff", false, ""},
	} {
		if got := above([]byte(x.in), x.text); string(got) != x.want || (got == nil) != (x.want == "") {
			t.Errorf("above %q: %q, want %q", x.in, got, x.want)
		}
	}
}

// FuzzDecode reads committables from damaged checkpoints.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"a-1","writer":"a","table":"u","steps":[{"files":[{"path":"p","rows":1}]}]}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"steps":[{"files":[null]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ps, err := decode([]connector.Committable{b})
		if err != nil {
			return
		}
		for _, p := range ps {
			for _, st := range merge([]*pending{p}) {
				for _, f := range st {
					if f.file == nil {
						t.Error("a file that is not there")
					}
					splitKey(f.Path)
				}
			}
		}
	})
}
