package fn_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// pool are values from the edges of every type.
func pool() []expr.Expr {
	out := []expr.Expr{lit(nil, types.NullType)}
	add := func(t types.Type, vs ...types.Value) {
		for _, v := range vs {
			out = append(out, lit(v, t))
		}
	}
	add(types.IntType, nil, int64(0), int64(1), int64(-1), int64(3), int64(40), int64(math.MaxInt32), int64(math.MinInt32))
	add(types.TinyIntType, int64(127), int64(-128))
	add(types.BigIntType, nil, int64(2), int64(math.MaxInt64), int64(math.MinInt64))
	add(types.DoubleType, nil, 0.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e-300)
	add(types.FloatType, 1.5, math.Inf(1))
	add(types.DecimalType(4, 2), types.I128(1234), types.I128(-9999))
	add(types.DecimalType(38, 10), types.Int128{Hi: 1 << 60, Lo: 7}, types.Int128{Hi: -(1 << 60)})
	add(types.BooleanType, nil, true, false)
	add(types.StringType, nil, "", "a", "\u00fc", "a,b", "k=v", "1.5", "2024-01-05 07:03:04", "[1,{\"a\":null}]", "\xff\xfe",
		"%d %s", "(a|b)*", "$.a[*]", "yyyy-MM-dd", "QUERY", "http://a@b/c?d=e#f", strings.Repeat("x", 100))
	add(types.BytesType, nil, []byte{}, []byte{0, 255})
	add(types.DateType, nil, int64(0), int64(-719528), int64(2932896), int64(math.MinInt32))
	add(types.TimeType(3), int64(0), int64(86399999))
	add(types.TimestampType(3), types.TS(0, 0), types.TS(-1, 0), types.TS(math.MaxInt64, 0), types.TS(math.MinInt64, 0))
	add(types.TimestampType(9), nil, types.TS(1704438184567, 123456))
	add(types.TimestampLTZType(3), types.TS(1704438184567, 0), types.TS(math.MinInt64, 0))
	add(types.Type{Kind: types.IntervalYearMonth}, int64(14), int64(-1))
	add(types.Type{Kind: types.IntervalDayTime}, int64(90061000))
	add(types.ArrayType(types.IntType), nil, []types.Value{}, []types.Value{int64(1), nil, int64(2)})
	add(types.ArrayType(types.StringType), []types.Value{"a", nil})
	add(types.MapType(types.StringType, types.IntType), nil, []types.Value{"a", int64(1)})
	add(types.RowType(types.Field{Name: "f", Type: types.IntType}), []types.Value{int64(1)})
	for _, w := range []string{"YEAR", "WEEK", "SECOND", "MILLISECOND", "NANOSECOND", "BOTH", "NULL", "ERROR", "DEFAULT", "CONDITIONAL"} {
		add(types.Type{Kind: types.Symbol}, w)
	}
	return out
}

// TestNoPanic calls every function with arguments from the pool: what types accept must compute a
// value or fail the row, and the same value as constants and as columns.
func TestNoPanic(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	values := pool()
	env := &expr.Env{Zone: time.FixedZone("x", 5400), Now: func() time.Time { return clock }, Seed: 3}
	called, typed := 0, 0
	for _, f := range expr.All() {
		if f.Compile == nil {
			continue
		}
		hits := 0
		for try := 0; try < 3000 && hits < 150; try++ {
			args := make([]expr.Expr, rnd.IntN(5))
			for i := range args {
				args[i] = values[rnd.IntN(len(values))]
			}
			called++
			e, err := resolve(t, f.Name, args, env)
			if err != nil {
				continue
			}
			typed++
			hits++
			cols, b := columns(e)
			asColumns, ok1 := run(t, cols, env, b, 5, []int32{1, 3, 4})
			asConstants, ok2 := run(t, e, env, vec.NewBatch(types.Schema{}), 1, nil)
			if ok1 && ok2 && asColumns != asConstants && !f.Volatile && f.Name != "TYPEOF" {
				t.Errorf("%s: %s as constants, %s as columns", describe(f.Name, args), asConstants, asColumns)
			}
		}
	}
	if typed < 2000 {
		t.Errorf("only %d of %d calls have types that fit", typed, called)
	}
}

func describe(fn string, args []expr.Expr) string {
	s := fn + "("
	for i, a := range args {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s %s", a.Type(), a)
	}
	return s + ")"
}

func resolve(t *testing.T, fn string, args []expr.Expr, env *expr.Env) (expr.Expr, error) {
	defer func() {
		if x := recover(); x != nil {
			t.Errorf("%s: resolving panics: %v", describe(fn, args), x)
		}
	}()
	return expr.Resolve(fn, args, env, expr.Pos{Start: 1, End: 2})
}

// run gives the value of the row that has the arguments, or false where the row or the call fails.
func run(t *testing.T, e expr.Expr, env *expr.Env, b *vec.Batch, n int, sel []int32) (value string, ok bool) {
	defer func() {
		if x := recover(); x != nil {
			t.Errorf("%s: running panics: %v", e, x)
		}
	}()
	p, err := expr.Compile(e, env)
	if err != nil {
		return "", false
	}
	b.N, b.Sel = n, sel
	var ctx expr.EvalCtx
	v := p.Eval(&ctx, b)
	at := 0
	if sel != nil {
		at = int(sel[1])
	}
	for _, e := range ctx.Errs {
		if e.Row == at {
			return "", false
		}
	}
	return fmt.Sprint(v.Value(at)), true
}
