package expr_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// sample is a table with columns of many types, with and without NULLs.
var sampleCols = []types.Field{
	{Name: "i", Type: types.IntType}, {Name: "j", Type: types.IntType.NotNull()},
	{Name: "b", Type: types.BigIntType}, {Name: "d", Type: types.DoubleType},
	{Name: "s", Type: types.StringType}, {Name: "t", Type: types.BooleanType},
	{Name: "p", Type: types.DecimalType(10, 2)}, {Name: "q", Type: types.DecimalType(30, 5)},
	{Name: "ts", Type: types.TimestampType(3)}, {Name: "ar", Type: types.ArrayType(types.IntType)},
	{Name: "r", Type: types.RowType(types.Field{Name: "x", Type: types.IntType}, types.Field{Name: "y", Type: types.StringType})},
	{Name: "m", Type: types.MapType(types.StringType, types.IntType)}, {Name: "ti", Type: types.TinyIntType},
}

func sample(r *rand.Rand, n int) *vec.Batch {
	words := []string{"", "a", "ab", "12", "-7", "xyz", "2024-01-05"}
	b := &vec.Batch{N: n}
	for _, f := range sampleCols {
		v := vec.New(f.Type, 0)
		for range n {
			var x types.Value = int64(r.IntN(11) - 5)
			switch f.Type.Kind {
			case types.TinyInt:
				x = int64(int8(r.Uint32()))
			case types.Double:
				x = float64(r.IntN(41)-20) / 4
			case types.VarChar:
				x = words[r.IntN(len(words))]
			case types.Boolean:
				x = r.IntN(2) == 0
			case types.Decimal:
				x = types.I128(int64(r.IntN(2001) - 1000))
			case types.Timestamp:
				x = types.TS(1700000000000+int64(r.IntN(1e9)), 0)
			case types.Array:
				x = []types.Value{int64(1), nil, int64(r.IntN(9))}[:r.IntN(4)]
			case types.Row:
				x = []types.Value{int64(r.IntN(3)), words[r.IntN(3)]}
			case types.Map:
				x = []types.Value{"a", int64(r.IntN(3)), "b", nil}[:2*r.IntN(3)]
			}
			if f.Type.Nullable && r.IntN(4) == 0 {
				x = nil
			}
			v.AppendValue(x)
		}
		b.Cols = append(b.Cols, v)
	}
	return b
}

// scalars are expressions over sampleCols whose results must not depend on how rows are batched
// or selected.
var scalars = []string{
	"i + j", "i - b", "j * 7", "i / j", "b % j", "ti + ti", "-ti", "d * 2", "d / j", "p + q", "p * p", "p * b",
	"q * q", "p / q", "q % p", "0.908 * b", "i = j", "i < 3", "3 <= b", "s = 'ab'", "s <> s", "s < 'b'", "p > 1.5",
	"p = q", "d >= j", "t AND i > 0", "t OR i > 0", "NOT t", "t IS NOT TRUE", "i IS NULL", "s IS NOT NULL",
	"i = 1 AND j = 1 OR t", "i = 1 OR j / i > 0", "i <> 0 AND j / i > 0", "t AND NULL", "t OR NULL", "i IN (1, 2, 3)",
	"i IN (1, NULL)", "s IN ('a', 'ab')", "i IN (j, 2, b)", "s NOT IN ('a')", "i BETWEEN 0 AND j",
	"CASE WHEN i > 0 THEN j WHEN i IS NULL THEN -1 ELSE i END", "CASE WHEN t THEN s ELSE 'none' END",
	"CASE WHEN i <> 0 THEN j / i END", "CASE WHEN i > 2 THEN 'high' WHEN i > 0 THEN 'low' ELSE NULL END",
	"CASE WHEN t THEN CASE WHEN i > 0 THEN i + j ELSE j END ELSE i + j END", "IF(t, p, q)", "IF(t, ar, ARRAY[i])",
	"COALESCE(i, j)", "COALESCE(s, CAST(b AS STRING), 'x')", "COALESCE(i, b, 0)", "IFNULL(t, FALSE)", "NULLIF(i, j)",
	"s || '-' || CAST(i AS STRING)", "ar[1]", "ar[j]", "r.x", "r.y || s", "m['a']", "ROW(i, s)", "ROW(i, s).y", "MAP[s, i]",
	"ARRAY[i, j, NULL]", "r", "IF(t, r, NULL)", "CAST(i AS BIGINT)", "CAST(p AS DECIMAL(4, 1))", "CAST(q AS INT)",
	"CAST(d AS INT)", "CAST(d AS DECIMAL(5, 1))", "CAST(s AS INT)", "TRY_CAST(s AS INT)", "TRY_CAST(s AS DATE)",
	"CAST(ts AS STRING)", "CAST(ts AS TIMESTAMP(6))", "CAST(ts AS DATE)", "ts + INTERVAL '1' DAY", "ts - INTERVAL '1' MONTH",
	"CAST(ar AS ARRAY<STRING>)", "CAST(m AS STRING)", "CAST(r AS STRING)", "i IS DISTINCT FROM j", "r = ROW(1, 'a')",
	"CAST(b AS TINYINT)", "CAST(i AS BOOLEAN)", "CAST(t AS INT)", "CAST(r AS ROW<a BIGINT, b STRING>)", "TRY_CAST(ar AS ARRAY<TINYINT>)",
	"CAST(p AS DECIMAL(20, 2))", "CAST(p AS DECIMAL(12, 4))", "CAST(p AS DECIMAL(30, 8))", "CAST(q AS DECIMAL(22, 5))",
	"CAST(q AS DECIMAL(12, 1))", "CAST(CAST(q * 1000000000000 AS DECIMAL(38, 5)) AS DECIMAL(19, 5))",
	"i > 0 OR i > 0 OR b < 3", "i > 0 OR j > 99 OR b < 3 OR s = 'a'", "q > 2", "q <= p", "q = q", "q <> 1.5 AND q >= 0", "ar = ARRAY[1, NULL]",
	"CAST(m AS STRING) = '{}' OR i > 2", "j / i > 0 OR i = 0", "CAST(s AS CHAR(3))", "CAST(s AS BYTES)", "q - q", "q + 1", "b + 1", "5 - p",
}

func bindSample(t testing.TB, src string) expr.Expr {
	t.Helper()
	e, err := bindText(src, utc, sampleCols...)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return e
}

// oneByOne computes e row by row, each in a batch of its own: text, or "error".
func oneByOne(t *testing.T, e expr.Expr, b *vec.Batch) []string {
	p, err := expr.Compile(e, utc)
	if err != nil {
		t.Fatal(err)
	}
	text := expr.TextOf(e.Type(), utc)
	out := make([]string, b.N)
	for i := range out {
		one := &vec.Batch{}
		for c, f := range sampleCols {
			v := vec.New(f.Type, 0)
			v.Append(b.Cols[c], i)
			one.Cols = append(one.Cols, v)
		}
		one.N = 1
		ctx := &expr.EvalCtx{}
		v := p.Eval(ctx, one)
		out[i] = "error"
		if len(ctx.Errs) == 0 {
			out[i] = string(text(nil, v, 0))
		}
	}
	return out
}

// TestBatchesAndSelections computes all expressions in one program over whole batches and over
// random selections, and compares with row by row.
func TestBatchesAndSelections(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	b := sample(r, 300)
	var es []expr.Expr
	var texts []expr.Appender
	var want [][]string
	for _, src := range scalars {
		e := bindSample(t, src)
		es = append(es, e)
		texts = append(texts, expr.TextOf(e.Type(), utc))
		want = append(want, oneByOne(t, e, b))
	}
	ps, err := expr.CompileAll(es, utc)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		in := *b
		if round > 0 {
			in.Sel = []int32{}
			for i := range b.N {
				if r.IntN(1+round/4) == 0 {
					in.Sel = append(in.Sel, int32(i))
				}
			}
		}
		ctx := &expr.EvalCtx{}
		vs := ps.EvalAll(ctx, &in)
		failed := map[int]bool{}
		for _, e := range ctx.Errs {
			failed[e.Row] = true
			if e.Pos == (expr.Pos{}) {
				t.Errorf("error without a position: %v", e.Err)
			}
		}
		for k, v := range vs {
			in.Each(func(i int) {
				if want[k][i] == "error" {
					if !failed[i] {
						t.Errorf("%s: row %d should have failed", scalars[k], i)
					}
					return
				}
				if got := string(texts[k](nil, v, i)); got != want[k][i] {
					t.Fatalf("round %d, %s: row %d is %s, want %s", round, scalars[k], i, got, want[k][i])
				}
			})
		}
	}
}

// TestFilter compares what a filter selects with what the condition gives row by row.
func TestFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	b := sample(r, 500)
	for _, src := range scalars {
		e := bindSample(t, src)
		if e.Type().Kind != types.Boolean {
			continue
		}
		want := oneByOne(t, e, b)
		f, err := expr.CompileFilter(e, utc)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 4 {
			in := *b
			if round > 0 {
				in.Sel = []int32{}
				for i := range b.N {
					if r.IntN(round) == 0 {
						in.Sel = append(in.Sel, int32(i))
					}
				}
			}
			ctx := &expr.EvalCtx{}
			got := f.Select(ctx, &in, []int32{-1})[1:]
			failed := map[int]bool{}
			for _, e := range ctx.Errs {
				failed[e.Row] = true
			}
			var exp []int32
			in.Each(func(i int) {
				if want[i] == "TRUE" {
					exp = append(exp, int32(i))
				}
			})
			got = slices.DeleteFunc(slices.Clone(got), func(i int32) bool { return failed[int(i)] && want[i] == "error" })
			if !slices.Equal(got, exp) {
				t.Fatalf("%s: selected %v, want %v", src, got, exp)
			}
		}
	}
}

func TestImplicitCast(t *testing.T) {
	f := func(src string, to types.Type, want string) {
		t.Helper()
		e, err := expr.ImplicitCast(bindSample(t, src), to)
		got := "refused"
		if err == nil {
			got = e.String()
		}
		if got != want {
			t.Errorf("%s to %s: %s, want %s", src, to, got, want)
		}
	}
	f("i", types.IntType.NotNull(), "i")
	f("i", types.BigIntType, "CAST(i AS BIGINT)")
	f("b", types.IntType, "refused")
	f("d", types.DecimalType(10, 2), "CAST(d AS DECIMAL(10, 2))")
	f("d", types.FloatType, "refused")
	f("s", types.VarCharType(3), "CAST(s AS VARCHAR(3))")
	f("i", types.StringType, "refused")
	f("s", types.TimestampType(3), "refused")
	f("NULL", types.DateType, "NULL")
	f("ts", types.TimestampLTZType(3), "CAST(ts AS TIMESTAMP_LTZ(3))")
	f("ts", types.DateType, "CAST(ts AS DATE)")
	f("ar", types.ArrayType(types.BigIntType), "CAST(ar AS ARRAY<BIGINT>)")
	f("ar", types.ArrayType(types.StringType), "refused")
	f("TIMESTAMP '2024-01-01 00:00:00'", types.TimestampLTZType(0),
		"CAST(TIMESTAMP '2024-01-01 00:00:00' AS TIMESTAMP_LTZ(0))")
}

func TestCommonType(t *testing.T) {
	f := func(want string, ts ...types.Type) {
		t.Helper()
		got := "none"
		if c, ok := expr.CommonType(ts...); ok {
			got = c.String()
		}
		if got != want {
			t.Errorf("common type of %v is %s, want %s", ts, got, want)
		}
	}
	not := types.IntType.NotNull()
	f("INT NOT NULL", not, not)
	f("BIGINT", not, types.BigIntType)
	f("INT", not, types.NullType)
	f("DECIMAL(21, 2)", types.BigIntType, types.DecimalType(5, 2))
	f("DECIMAL(38, 8)", types.DecimalType(38, 8), types.DecimalType(30, 0))
	f("DOUBLE", types.FloatType, types.DecimalType(5, 2))
	f("FLOAT", types.FloatType, types.BigIntType)
	f("VARCHAR(5)", types.CharType(5), types.CharType(2))
	f("CHAR(2)", types.CharType(2), types.CharType(2))
	f("STRING", types.CharType(2), types.StringType)
	f("TIMESTAMP(6)", types.DateType, types.TimestampType(3), types.TimestampType(6))
	f("TIMESTAMP_LTZ(6)", types.TimestampLTZType(3), types.TimestampType(6))
	f("ARRAY<DOUBLE>", types.ArrayType(types.IntType), types.ArrayType(types.DoubleType))
	f("none", types.IntType, types.StringType)
	f("none", types.BooleanType, types.IntType)
	f("none", types.TimeType(0), types.DateType)
	f("none", types.DateType, types.StringType)
}

// TestCheapConditionsFirst counts the rows that a dear condition sees.
func TestCheapConditionsFirst(t *testing.T) {
	calls := 0
	expr.Register(expr.Func{
		Name: "REGEXP", Infer: expr.InferFixed(types.BooleanType, types.StringType),
		Compile: func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) {
			return expr.FromBytes(func([]byte) bool { calls++; return false }), nil
		},
	})
	b := sample(rand.New(rand.NewPCG(23, 24)), 400)
	for src, all := range map[string]bool{
		"REGEXP(s) OR s IN ('a', 'ab')": false, "REGEXP(s) AND i = 3": false, "REGEXP(s) OR j / i = 0": true,
	} {
		f, err := expr.CompileFilter(bindSample(t, src), utc)
		if err != nil {
			t.Fatal(err)
		}
		calls = 0
		f.Select(&expr.EvalCtx{}, b, nil)
		if (calls > 290) != all {
			t.Errorf("%s: %d calls", src, calls)
		}
	}
}

func TestLazyBranchesDoNotFail(t *testing.T) {
	b := sample(rand.New(rand.NewPCG(13, 14)), 200)
	for _, src := range []string{
		"CASE WHEN i <> 0 THEN j / i ELSE 0 END", "i <> 0 AND j / i > 0", "i = 0 OR i IS NULL OR j / i > 0",
		"COALESCE(TRY_CAST(s AS INT), 0)", "IF(s = '12', CAST(s AS INT), 0)", "COALESCE(j, 1 / 0)",
		"CASE WHEN TRUE THEN 1 ELSE CAST('x' AS INT) END",
	} {
		p, err := expr.Compile(bindSample(t, src), utc)
		if err != nil {
			t.Fatal(err)
		}
		ctx := &expr.EvalCtx{}
		p.Eval(ctx, b)
		if len(ctx.Errs) > 0 {
			t.Errorf("%s: row %d: %v", src, ctx.Errs[0].Row, ctx.Errs[0].Err)
		}
	}
}

func TestFold(t *testing.T) {
	for src, want := range map[string]string{
		"1 + 2 * 3": "7", "i + (1 + 2)": "i + 3", "t AND TRUE": "t", "t OR TRUE": "TRUE", "FALSE AND t": "FALSE",
		"t OR FALSE": "t", "NOT (i = j)": "i <> j", "NOT NOT t": "t", "NOT (d < j)": "NOT(d < CAST(j AS DOUBLE))",
		"CASE WHEN FALSE THEN i WHEN TRUE THEN j ELSE 3 END": "j", "IF(1 > 2, i, j)": "j",
		"1 / 0": "1 / 0", "COALESCE(NULL, i)": "i", "COALESCE(j, i)": "j", "CAST('12' AS INT)": "12",
		"b = 3": "b = 3", "p > 2": "CAST(p AS DECIMAL(12, 2)) > 2.00", "t AND (t AND i > 1)": "t AND t AND (i > 1)",
		"CAST('x' AS INT)": "CAST('x' AS INT)", "i - (j - i)": "i - (j - i)", "-(i + j)": "-(i + j)",
		"i IS DISTINCT FROM ar[1]": "i IS DISTINCT FROM ar[1]",
	} {
		if got := expr.Fold(bindSample(t, src), utc).String(); got != want {
			t.Errorf("%s folds to %s, want %s", src, got, want)
		}
	}
}

func TestCommonPartsAreComputedOnce(t *testing.T) {
	calls := 0
	expr.Register(expr.Func{
		Name: "COUNTED_", Infer: expr.InferFixed(types.IntType, types.IntType),
		Compile: func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) {
			return expr.Unary(func(a int32) int32 { calls++; return a }), nil
		},
	})
	b := sample(rand.New(rand.NewPCG(15, 16)), 10)
	ps, err := expr.CompileAll([]expr.Expr{
		bindSample(t, "COUNTED_(j) + 1"), bindSample(t, "COUNTED_(j) * 2"),
		bindSample(t, "CASE WHEN t THEN COUNTED_(j) ELSE COUNTED_(j) + 1 END"),
	}, utc)
	if err != nil {
		t.Fatal(err)
	}
	ps.EvalAll(&expr.EvalCtx{}, b)
	if calls != b.N {
		t.Errorf("%d calls for %d rows", calls, b.N)
	}
}

func TestBareColumnIsNotCopied(t *testing.T) {
	b := sample(rand.New(rand.NewPCG(17, 18)), 10)
	p, err := expr.Compile(bindSample(t, "s"), utc)
	if err != nil {
		t.Fatal(err)
	}
	if p.Eval(&expr.EvalCtx{}, b) != b.Cols[4] {
		t.Error("a copy")
	}
}

// TestNoAllocationPerBatch covers what runs in hot paths, after a first batch.
func TestNoAllocationPerBatch(t *testing.T) {
	b := sample(rand.New(rand.NewPCG(19, 20)), 1000)
	b.Sel = nil
	for _, src := range scalars {
		if slices.Contains([]string{"CAST(s AS INT)", "i / j", "b % j", "i = 1 OR j / i > 0", "j / i > 0 OR i = 0"}, src) {
			continue // errors allocate
		}
		p, err := expr.Compile(bindSample(t, src), utc)
		if err != nil {
			t.Fatal(err)
		}
		ctx := &expr.EvalCtx{}
		for range 3 {
			p.Eval(ctx, b)
		}
		if len(ctx.Errs) > 0 {
			continue
		}
		if n := testing.AllocsPerRun(10, func() { p.Eval(ctx, b) }); n > 0 {
			t.Errorf("%s: %v allocations a batch", src, n)
		}
	}
	for _, src := range []string{"i > 0 AND s = 'ab' AND t", "i > 0 OR j < 2 OR b IS NULL", "s IN ('a', 'ab')", "d > 1"} {
		f, err := expr.CompileFilter(bindSample(t, src), utc)
		if err != nil {
			t.Fatal(err)
		}
		ctx := &expr.EvalCtx{}
		dst := f.Select(ctx, b, make([]int32, 0, 2000))
		if n := testing.AllocsPerRun(10, func() { dst = f.Select(ctx, b, dst[:0]) }); n > 0 {
			t.Errorf("filter %s: %v allocations a batch", src, n)
		}
	}
}

func benchBatch(nulls bool) *vec.Batch {
	r := rand.New(rand.NewPCG(21, 22))
	b := sample(r, vec.BatchRows)
	if !nulls {
		for _, c := range b.Cols {
			c.Valid = nil
		}
		for i := range b.N {
			b.Cols[4].SetString(i, []string{"ab", "xyz", "2024-01-05"}[r.IntN(3)])
		}
	}
	return b
}

func BenchmarkEval(b *testing.B) {
	for _, src := range []string{
		"0.908 * b", "i + j", "b * 3 + 1", "p + p", "p * p", "q * q", "p / q", "i > 2", "s = 'ab'",
		"CASE WHEN i > 2 THEN 1 WHEN i > 0 THEN 2 ELSE 3 END", "COALESCE(i, j)", "t AND i > 0", "s || 'x'",
		"CAST(i AS STRING)", "CAST(ts AS STRING)", "TRY_CAST(s AS INT)", "ts + INTERVAL '1' DAY",
	} {
		for _, nulls := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/nulls=%v", src, nulls), func(b *testing.B) {
				in := benchBatch(nulls)
				p, err := expr.Compile(bindSample(b, src), utc)
				if err != nil {
					b.Fatal(err)
				}
				ctx := &expr.EvalCtx{}
				for b.Loop() {
					p.Eval(ctx, in)
					ctx.Errs = ctx.Errs[:0]
				}
				b.ReportMetric(float64(b.N)*float64(in.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
			})
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	for _, src := range []string{"i > 2", "b = 3", "s = 'ab'", "i > 0 AND j > 0 AND s = 'ab'", "i > 3 OR j > 3", "s IN ('a', 'ab')"} {
		for _, nulls := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/nulls=%v", src, nulls), func(b *testing.B) {
				in := benchBatch(nulls)
				f, err := expr.CompileFilter(bindSample(b, src), utc)
				if err != nil {
					b.Fatal(err)
				}
				ctx := &expr.EvalCtx{}
				var dst []int32
				for b.Loop() {
					dst = f.Select(ctx, in, dst[:0])
				}
				b.ReportMetric(float64(b.N)*float64(in.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
			})
		}
	}
}
