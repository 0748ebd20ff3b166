package expr_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// evaluated counts the values that COUNT_ was asked for; drawn is what DRAW_ gave last.
var evaluated, drawn int32

func init() {
	expr.Register(expr.Func{
		Name: "COUNT_", Infer: expr.InferFixed(types.IntType, types.IntType),
		Compile: func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) {
			return expr.EachRowNullable(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
				evaluated++
				out.Set(i, args[0], i)
			}), nil
		},
	})
	expr.Register(expr.Func{
		Name: "DRAW_", Infer: expr.InferFixed(types.IntType.NotNull()), Volatile: true,
		Compile: func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) {
			return expr.EachRowNullable(func(_ *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, i int) {
				drawn++
				out.I32[i] = drawn
			}), nil
		},
	})
	// TAIL_(s) points into the bytes of its argument, as SUBSTRING does.
	expr.Register(expr.Func{
		Name: "TAIL_", Infer: expr.InferFixed(types.StringType, types.StringType),
		Compile: func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) {
			k := expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
				r := args[0].Refs[i]
				cut := min(r.Len, 1)
				out.Refs[i] = vec.Ref{Off: r.Off + cut, Len: r.Len - cut}
			})
			return func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
				out.ShareBuf(args[0].Buf)
				k(ctx, args, out, n, sel)
			}, nil
		},
	})
}

// shareable are the parts of random stages, by type: each occurs in many places of one.
var shareable = map[string][]string{
	"INT": {"i", "j", "j / i", "i + j", "COALESCE(i, j)", "CAST(s AS INT)", "TRY_CAST(TAIL_(s) AS INT)", "COALESCE(j / i, i)",
		"ar[1]", "IF(t, i, j)", "r.x", "CASE WHEN s = 'a' THEN 1 WHEN s = 'ab' THEN j / i WHEN s = '12' THEN i ELSE j END"},
	"STRING": {"s", "TAIL_(s)", "TAIL_(s || 'x')", "s || CAST(i AS STRING)", "TAIL_(TAIL_(s || s))", "COALESCE(s, TAIL_(r.y))",
		"CASE WHEN TAIL_(s) = '' THEN 'none' WHEN TAIL_(s) = 'b' THEN s ELSE TAIL_(s || 'y') END", "r.y", "IF(t, TAIL_(s), s || 'z')",
		"COALESCE(TAIL_(s), 'q')", "CAST(j / i AS STRING)", "CAST(TAIL_(s) AS STRING)"},
	"BOOLEAN": {"t", "i > 0", "j / i > 0", "s = 'ab'", "TAIL_(s) = 'b'", "s IN ('a', 'ab', '12')", "TAIL_(s || 'x') <> 'bx'",
		"i IS NULL", "COALESCE(i, j) > 1", "IF(t, j / i, i) > 0", "TAIL_(s) IN ('', 'b', 'a rather long one')"},
}

// random makes an expression of parts in which what is beneath CASE, AND and COALESCE is wanted for
// some rows only.
func random(r *rand.Rand, t string, depth int) string {
	pick := func() string { ps := shareable[t]; return ps[r.IntN(len(ps))] }
	if depth == 0 {
		return pick()
	}
	sub := func(t string) string { return "(" + random(r, t, depth-1) + ")" }
	switch n := r.IntN(6); {
	case n == 0:
		return random(r, t, 0)
	case n < 3:
		return fmt.Sprintf("IF(%s, %s, %s)", sub("BOOLEAN"), sub(t), sub(t))
	case n == 3:
		return fmt.Sprintf("COALESCE(%s, %s)", sub(t), sub(t))
	case t == "BOOLEAN":
		return sub(t) + []string{" AND ", " OR "}[r.IntN(2)] + sub(t)
	case t == "INT":
		return sub(t) + " + " + sub(t)
	}
	return sub(t) + " || " + sub(t)
}

// TestStages filters and projects with what condition and expressions have in common, and compares
// values and failures with one row and one expression at a time.
func TestStages(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	b := sample(rand.New(rand.NewPCG(seed, 2)), 150)
	for range 100 {
		cond := bindSample(t, random(r, "BOOLEAN", 2))
		var es []expr.Expr
		var texts []expr.Appender
		var want [][]string
		for range 1 + r.IntN(4) {
			e := bindSample(t, random(r, []string{"INT", "STRING", "BOOLEAN"}[r.IntN(3)], 2))
			es = append(es, e)
			texts = append(texts, expr.TextOf(e.Type(), utc))
			want = append(want, oneByOne(t, e, b))
		}
		stage, err := expr.CompileStage(cond, es, utc)
		if err != nil {
			t.Fatal(err)
		}
		judged := oneByOne(t, cond, b)
		for round := range 3 { // what an earlier batch left behind must not show
			in := *b
			if round > 0 {
				in.Sel = []int32{}
				for i := range b.N {
					if r.IntN(3) > 0 {
						in.Sel = append(in.Sel, int32(i))
					}
				}
			}
			where := fmt.Sprintf("seed %d: WHERE %s SELECT %v, round %d", seed, cond, es, round)
			ctx := &expr.EvalCtx{}
			sel := stage.Select(ctx, &in, []int32{})
			sel = slices.DeleteFunc(sel, func(i int32) bool { return judged[i] == "error" })
			var exp []int32
			in.Each(func(i int) {
				if judged[i] == "TRUE" {
					exp = append(exp, int32(i))
				}
			})
			if !slices.Equal(sel, exp) {
				t.Fatalf("%s: selected %v, want %v", where, sel, exp)
			}
			in.Sel = sel
			ctx = &expr.EvalCtx{}
			vs := stage.Project(ctx, &in)
			failed := map[int]bool{}
			for _, e := range ctx.Errs {
				failed[e.Row] = true
			}
			in.Each(func(i int) {
				bad := false
				for k, v := range vs {
					if want[k][i] == "error" {
						bad = true
					} else if got := string(texts[k](nil, v, i)); got != want[k][i] {
						t.Fatalf("%s: %s in row %d is %s, want %s", where, es[k], i, got, want[k][i])
					}
				}
				if bad != failed[i] {
					t.Fatalf("%s: row %d: failed %v, want %v", where, i, failed[i], bad)
				}
			})
		}
	}
}

func stageOf(t *testing.T, cond string, es ...string) *expr.Stage {
	t.Helper()
	bound := make([]expr.Expr, len(es))
	for i, s := range es {
		bound[i] = bindSample(t, s)
	}
	stage, err := expr.CompileStage(bindSample(t, cond), bound, utc)
	if err != nil {
		t.Fatal(err)
	}
	return stage
}

// TestPartsAreComputedOnceARow counts evaluations of what condition and projections share.
func TestPartsAreComputedOnceARow(t *testing.T) {
	b := sample(rand.New(rand.NewPCG(31, 32)), 200)
	run := func(cond string, es ...string) (passed int) {
		stage := stageOf(t, cond, es...)
		evaluated = 0
		in := *b
		in.Sel = stage.Select(&expr.EvalCtx{}, b, []int32{})
		stage.Project(&expr.EvalCtx{}, &in)
		return len(in.Sel)
	}
	count := func(keep func(i int) bool) (n int32) {
		for i := range b.N {
			if keep(i) {
				n++
			}
		}
		return n
	}
	isTrue := func(i int) bool { return !b.Cols[5].IsNull(i) && b.Cols[5].Bool[i] }

	run("COUNT_(j) > 0", "COUNT_(j)", "COUNT_(j) + 1", "IF(t, COUNT_(j), 0)")
	if evaluated != int32(b.N) {
		t.Errorf("once a row: %d evaluations of %d rows", evaluated, b.N)
	}
	// The condition needs it where t is not TRUE, the projection only there too.
	run("t OR COUNT_(j) IS NOT NULL", "IF(t, 0, COUNT_(j))")
	if want := count(func(i int) bool { return !isTrue(i) }); evaluated != want {
		t.Errorf("for some rows: %d evaluations, want %d", evaluated, want)
	}
	// The projection needs it for the rows that the condition did not need it for.
	run("t OR COUNT_(j) IS NOT NULL", "COUNT_(j)")
	if evaluated != int32(b.N) {
		t.Errorf("for more rows: %d evaluations of %d rows", evaluated, b.N)
	}
	// Only rows that pass need it.
	if passed := run("t", "COUNT_(j)"); evaluated != int32(passed) {
		t.Errorf("behind the condition: %d evaluations of %d rows", evaluated, passed)
	}
}

// TestPassedOnThenOwn asks COALESCE first for rows without NULL, for which it passes its argument on,
// and then for others.
func TestPassedOnThenOwn(t *testing.T) {
	b := sample(rand.New(rand.NewPCG(37, 38)), 100)
	const x = "COALESCE(IF(j > 0, j, i), 99)"
	stage := stageOf(t, "t OR j > -9", "IF(j > 0, "+x+", 0)", x)
	in := *b
	in.Sel = stage.Select(&expr.EvalCtx{}, b, []int32{})
	got := stage.Project(&expr.EvalCtx{}, &in)[1]
	want := oneByOne(t, bindSample(t, x), b)
	for i := range b.N {
		if s := fmt.Sprint(got.I32[i]); s != want[i] {
			t.Errorf("row %d is %s, want %s", i, s, want[i])
		}
	}
}

// TestVolatileIsNotShared draws for each call anew, and once for a call that is held twice.
func TestVolatileIsNotShared(t *testing.T) {
	b := sample(rand.New(rand.NewPCG(33, 34)), 50)
	stage := stageOf(t, "DRAW_() > 0", "DRAW_()", "DRAW_()")
	in := *b
	drawn = 0
	in.Sel = stage.Select(&expr.EvalCtx{}, b, []int32{})
	vs := stage.Project(&expr.EvalCtx{}, &in)
	in.Each(func(i int) {
		if vs[0].I32[i] == vs[1].I32[i] {
			t.Fatalf("row %d: two calls gave %d", i, vs[0].I32[i])
		}
	})
	if drawn != int32(3*b.N) {
		t.Errorf("%d draws for three calls and %d rows", drawn, b.N)
	}
	one := bindSample(t, "DRAW_()")
	e, err := expr.Resolve("=", []expr.Expr{one, one}, utc, expr.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := expr.Compile(e, utc)
	if err != nil {
		t.Fatal(err)
	}
	same := p.Eval(&expr.EvalCtx{}, b)
	for i := range b.N {
		if !same.Bool[i] {
			t.Fatalf("row %d: one call gave two values", i)
		}
	}
}

// TestNoAllocationPerStage holds a stage that shares parts to no allocation after the first batches.
func TestNoAllocationPerStage(t *testing.T) {
	b := sample(rand.New(rand.NewPCG(35, 36)), 1000)
	stage := stageOf(t, "t OR TAIL_(s) = 'b' OR TAIL_(s || 'x') = 'bx'", "TAIL_(s)", "IF(t, TAIL_(s || 'x'), s)",
		"CASE WHEN TAIL_(s) = 'b' THEN 1 WHEN TAIL_(s) = '2' THEN 2 ELSE 3 END")
	ctx := &expr.EvalCtx{}
	sel := make([]int32, 0, 2000)
	in := *b
	run := func() {
		sel = stage.Select(ctx, b, sel[:0])
		in.Sel = sel
		stage.Project(ctx, &in)
	}
	for range 3 {
		run()
	}
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("%v allocations a batch", n)
	}
}
