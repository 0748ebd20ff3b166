package agg

import (
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"sort"
	"testing"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// fixture is one aggregate over columns of given types, with two groups at hand.
type fixture struct {
	set *Set
	mem *state.Memory
	st  *Store
	out types.Type
}

func newFixture(t *testing.T, c plan.AggCall, in types.Schema, o Options) *fixture {
	t.Helper()
	for _, a := range c.Args {
		if a >= 0 {
			c.ArgTypes = append(c.ArgTypes, in.Fields[a].Type)
		}
	}
	set, err := New([]plan.AggCall{c}, in, o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{set: set, mem: state.NewMemory(), out: c.T}
	f.st = set.NewRecords(f.mem, 1)
	return f
}

func (f *fixture) group() uint32 {
	r := f.st.R.Alloc()
	f.set.Clear(f.st, r, f.set.Init())
	return r
}

func (f *fixture) add(rec uint32, cols ...*vec.Vec) {
	n := cols[0].Len()
	in := &Input{Cols: cols}
	for i := range n {
		in.Rows = append(in.Rows, int32(i))
		in.Recs = append(in.Recs, rec)
	}
	f.set.Add(f.st, in)
}

func (f *fixture) value(t *testing.T, rec uint32) types.Value {
	t.Helper()
	out := vec.New(f.out, 1)
	if err := f.set.Emit(f.st, []uint32{rec}, []*vec.Vec{out}, 0); err != nil {
		t.Fatal(err)
	}
	return out.Value(0)
}

func oneColumn(t types.Type) types.Schema { return types.NewSchema(types.Field{Name: "x", Type: t}) }

// TestHLL_Error counts up to a million distinct values, in one sketch and merged from three.
func TestHLL_Error(t *testing.T) {
	in := oneColumn(types.BigIntType)
	f := newFixture(t, plan.AggCall{Fn: "APPROX_COUNT_DISTINCT", Args: []int{0}, Filter: -1,
		T: types.BigIntType.NotNull()}, in, Options{})
	for _, n := range []int{0, 1, 100, 512, 513, 5000, 100_000, 1_000_000} {
		whole, parts := f.group(), []uint32{f.group(), f.group(), f.group()}
		for from := 0; from < n; from += 1000 {
			v := vec.New(types.BigIntType, 0)
			for i := from; i < min(n, from+1000); i++ {
				v.AppendValue(int64(i) * 7919)
			}
			f.add(whole, v)
			f.add(whole, v) // again: nothing new
			f.add(parts[from/1000%3], v)
		}
		merged := f.group()
		for _, p := range parts {
			f.set.Merge(f.st, f.st, []uint32{merged}, []uint32{p})
		}
		got, again := f.value(t, whole).(int64), f.value(t, merged).(int64)
		if got != again {
			t.Errorf("%d values: one sketch says %d, merged ones %d", n, got, again)
		}
		// 3 standard errors; exact while sparse.
		limit := 0.025 * float64(n)
		if n <= sparseMax {
			limit = 0
		}
		if math.Abs(float64(got)-float64(n)) > limit {
			t.Errorf("%d distinct values estimated as %d", n, got)
		}
	}
}

// TestQuantiles_Error compares percentiles with those of the sorted values: within 1 % of the value.
func TestQuantiles_Error(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	in := oneColumn(types.DoubleType)
	shares := []float64{0, 0.01, 0.25, 0.5, 0.9, 0.99, 1}
	var list []types.Value
	for _, p := range shares {
		list = append(list, p)
	}
	f := newFixture(t, plan.AggCall{Fn: "APPROX_PERCENTILE", Args: []int{0, -1}, Filter: -1,
		Consts: []*expr.Literal{nil, {Value: list, T: types.ArrayType(types.DoubleType)}},
		T:      types.ArrayType(types.DoubleType)}, in, Options{})
	for name, gen := range map[string]func() float64{
		"uniform":   func() float64 { return r.Float64()*1000 + 1 },
		"log":       func() float64 { return math.Exp(r.NormFloat64() * 4) },
		"both":      func() float64 { return r.NormFloat64() * 100 },
		"with zero": func() float64 { return float64(r.Intn(5) - 2) },
		"tiny":      func() float64 { return r.Float64() * 1e-300 },
	} {
		a, b := f.group(), f.group()
		var all []float64
		v := vec.New(types.DoubleType, 0)
		for range 20_000 {
			x := gen()
			all = append(all, x)
			v.AppendValue(x)
		}
		f.add(a, v)
		f.set.Merge(f.st, f.st, []uint32{b}, []uint32{a})
		sort.Float64s(all)
		got := f.value(t, b).([]types.Value)
		for i, p := range shares {
			want := all[int(p*float64(len(all)-1))]
			if x := got[i].(float64); math.Abs(x-want) > 0.0101*math.Abs(want) {
				t.Errorf("%s: percentile %v is %v, want %v", name, p, x, want)
			}
		}
	}
}

// TestDecimals_AgainstBig compares sums and means with arithmetic of any precision.
func TestDecimals_AgainstBig(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for _, typ := range []types.Type{types.DecimalType(18, 4), types.DecimalType(38, 10), types.DecimalType(5, 0)} {
		in := oneColumn(typ)
		sum := newFixture(t, plan.AggCall{Fn: "SUM", Args: []int{0}, Filter: -1, T: types.DecimalType(38, typ.Scale)}, in, Options{})
		avg := newFixture(t, plan.AggCall{Fn: "AVG", Args: []int{0}, Filter: -1,
			T: types.DecimalType(38, max(6, typ.Scale))}, in, Options{})
		for round := range 200 {
			s, a := sum.group(), avg.group()
			v := vec.New(typ, 0)
			want := new(big.Int)
			n := r.Intn(9) + 1
			for range n {
				x := types.I128(r.Int63n(99999) - 50000)
				if typ.Precision == 38 {
					x = types.Int128{Lo: r.Uint64(), Hi: r.Int63n(1<<58) - 1<<57}
				}
				want.Add(want, x.Big())
				v.AppendValue(x)
			}
			sum.add(s, v)
			avg.add(a, v)
			if got := sum.value(t, s).(types.Int128).Big(); got.Cmp(want) != 0 {
				t.Fatalf("%s round %d: sum %s, want %s", typ, round, got, want)
			}
			num := new(big.Int).Mul(want, tenTo(avg.out.Scale-typ.Scale))
			mean := roundHalfUp(num, big.NewInt(int64(n)))
			if got := avg.value(t, a).(types.Int128).Big(); got.Cmp(mean) != 0 {
				t.Fatalf("%s round %d: mean %s, want %s", typ, round, got, mean)
			}
		}
	}
}

func TestDivDecimal_Limits(t *testing.T) {
	for _, c := range []struct {
		x     types.Int128
		shift int
		n     uint64
		want  string // "" overflow
	}{
		{types.I128(1), 0, 2, "1"},
		{types.I128(-1), 0, 2, "-1"},
		{types.I128(1), 0, 3, "0"},
		{types.I128(7), 6, 1 << 63, "0"},
		{maxDecimal, 0, 1, maxDecimal.Big().String()},
		{maxDecimal, 1, 1, ""},
		{maxDecimal, 1, 10, maxDecimal.Big().String()},
		{maxDecimal, 38, 1, ""},
		{types.I128(1), 37, 1, "1" + fmt.Sprintf("%037d", 0)},
	} {
		got, ok := divDecimal(c.x, c.shift, c.n)
		if ok != (c.want != "") || ok && got.Big().String() != c.want {
			t.Errorf("%s * 10^%d / %d = %s, %v; want %q", c.x.Big(), c.shift, c.n, got.Big(), ok, c.want)
		}
	}
}

// TestSums_NaNAndOrder: FLOATs are added in their own precision and in order.
func TestSums_NaNAndOrder(t *testing.T) {
	f := newFixture(t, plan.AggCall{Fn: "SUM", Args: []int{0}, Filter: -1, T: types.FloatType}, oneColumn(types.FloatType), Options{})
	g := f.group()
	v := vec.New(types.FloatType, 0)
	for _, x := range []float64{1e8, 1, 1, 1, 1, -1e8} {
		v.AppendValue(x)
	}
	f.add(g, v)
	if got := f.value(t, g); got != 0.0 {
		t.Errorf("sum of FLOATs is %v, want 0: single precision loses the ones", got)
	}
	m := newFixture(t, plan.AggCall{Fn: "MAX", Args: []int{0}, Filter: -1, T: types.DoubleType}, oneColumn(types.DoubleType), Options{})
	g = m.group()
	v = vec.New(types.DoubleType, 0)
	for _, x := range []float64{1, math.NaN(), 3} {
		v.AppendValue(x)
	}
	m.add(g, v)
	if got := m.value(t, g); got != 3.0 {
		t.Errorf("MAX(1, NaN, 3) = %v, want 3", got)
	}
}

// TestErrors: what cannot be computed is said so when the job is planned.
func TestErrors(t *testing.T) {
	in := types.NewSchema(types.Field{Name: "x", Type: types.BigIntType}, types.Field{Name: "s", Type: types.StringType})
	for _, c := range []struct {
		call plan.AggCall
		opt  Options
		want string
	}{
		{plan.AggCall{Fn: "MEDIAN", Args: []int{0}, Filter: -1}, Options{}, "aggregate MEDIAN: not supported yet"},
		{plan.AggCall{Fn: "APPROX_COUNT_DISTINCT", Args: []int{0}, Filter: -1}, Options{Retract: true},
			"aggregate APPROX_COUNT_DISTINCT: a sketch cannot take rows back; use COUNT(DISTINCT ...) or PERCENTILE " +
				"over this input, which has updates"},
		{plan.AggCall{Fn: "LISTAGG", Args: []int{1, 1}, Filter: -1}, Options{},
			"aggregate LISTAGG: a separator that is not a constant is not supported yet"},
		{plan.AggCall{Fn: "PERCENTILE", Args: []int{0, -1}, Filter: -1, Consts: []*expr.Literal{nil, {Value: 1.5}}},
			Options{}, "aggregate PERCENTILE: the share must be from 0 to 1, not 1.5"},
	} {
		if _, err := New([]plan.AggCall{c.call}, in, c.opt); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.call.Fn, err, c.want)
		}
	}
}

// TestExtremes_GoneWithinABatch takes values back in the batch that they came in, again and again and in
// random order, and expects the extremes of what is left of each group.
func TestExtremes_GoneWithinABatch(t *testing.T) {
	in := oneColumn(types.BigIntType)
	var calls []plan.AggCall
	for _, fn := range []string{"MIN", "MAX"} {
		calls = append(calls, plan.AggCall{Fn: fn, Args: []int{0}, ArgTypes: []types.Type{types.BigIntType}, Filter: -1, T: types.BigIntType})
	}
	for _, owned := range []bool{false, true} {
		for seed := range int64(50) {
			set, err := New(calls, in, Options{Retract: true, Owned: owned})
			if err != nil {
				t.Fatal(err)
			}
			f := &fixture{set: set, mem: state.NewMemory(), out: types.BigIntType}
			f.st = set.NewRecords(f.mem, 1)
			r := rand.New(rand.NewSource(seed))
			groups := []uint32{f.group(), f.group(), f.group()}
			have := make([]map[int64]int, len(groups))
			for g := range have {
				have[g] = map[int64]int{}
			}
			for range 20 {
				v, batch := vec.New(types.BigIntType, 0), &Input{}
				for range 200 {
					// Each group has values of its own, so that one in the wrong group is seen.
					g := r.Intn(len(groups))
					x := int64(r.Intn(40)*len(groups) + g)
					neg := have[g][x] > 0 && r.Intn(8) > 0
					if neg {
						have[g][x]--
					} else {
						have[g][x]++
					}
					batch.Rows, batch.Recs, batch.Neg = append(batch.Rows, int32(v.Len())), append(batch.Recs, groups[g]), append(batch.Neg, neg)
					v.AppendValue(x)
				}
				batch.Cols = []*vec.Vec{v}
				set.Add(f.st, batch)
				out := []*vec.Vec{vec.New(types.BigIntType, len(groups)), vec.New(types.BigIntType, len(groups))}
				if err := set.Emit(f.st, groups, out, 0); err != nil {
					t.Fatal(err)
				}
				for g := range groups {
					var least, greatest types.Value
					for x := int64(0); x < int64(40*len(groups)); x++ {
						if have[g][x] > 0 {
							if least == nil {
								least = x
							}
							greatest = x
						}
					}
					if out[0].Value(g) != least || out[1].Value(g) != greatest {
						t.Fatalf("seed %d, owned %v, group %d: %v to %v, not %v to %v", seed, owned, g, out[0].Value(g), out[1].Value(g), least, greatest)
					}
				}
			}
		}
	}
}
