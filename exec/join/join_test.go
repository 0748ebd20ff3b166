package join

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"

	_ "github.com/tidemark-stream/tidemark/expr/fn"
)

var (
	leftSchema = types.NewSchema(types.Field{Name: "k", Type: types.BigIntType},
		types.Field{Name: "s", Type: types.StringType}, types.Field{Name: "a", Type: types.BigIntType})
	rightSchema = types.NewSchema(types.Field{Name: "b", Type: types.BigIntType},
		types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "t", Type: types.StringType})
)

// both is the columns of l, then those of r.
func both(l, r types.Schema) types.Schema {
	return types.Schema{Fields: append(slices.Clone(l.Fields), r.Fields...)}
}

// change is a row of one input.
type change struct {
	in   int
	kind types.RowKind
	vals []types.Value
	at   int64 // processing time
}

// collector keeps what comes out.
type collector struct{ rows []exectest.Out }

func (c *collector) Emit(b *vec.Batch) error {
	last := vec.MinTime
	b.Each(func(i int) {
		r := exectest.Out{Kind: b.Kind(i), Stamp: b.Stamp(i)}
		var text []string
		for _, v := range b.Cols {
			r.Vals = append(r.Vals, v.Value(i))
			text = append(text, exectest.Text(v.Value(i), v.Type))
		}
		if r.Stamp < last {
			panic("stamps decrease")
		}
		last = r.Stamp
		r.Text = strings.Join(text, " ")
		c.rows = append(c.rows, r)
	})
	return nil
}

func (c *collector) Watermark(int64) error { return nil }

func newJoin(n *plan.Join) (op.Operator, error) {
	return New(n, leftSchema, rightSchema, both(leftSchema, rightSchema))
}

// drive runs changes through the join of n.
func drive(t *testing.T, n *plan.Join, changes []change, size int, batchMode bool) ([]exectest.Out, *op.Counters) {
	t.Helper()
	o, err := newJoin(n)
	if err != nil {
		t.Fatal(err)
	}
	return driveOp(t, o, changes, size, batchMode)
}

// restarted is the join of n with restarts now and then, at changing parallelism where it has keys.
func restarted(n *plan.Join, seed, every int) *exectest.Cluster {
	c := &exectest.Cluster{Make: func() (op.Operator, error) { return newJoin(n) }, Seed: int64(seed), Every: every}
	if len(n.LeftKeys) > 0 {
		c.Keys, c.Schemas = [][]int{n.LeftKeys, n.RightKeys}, []types.Schema{leftSchema, rightSchema}
		c.Par = []int{1, 3, 2}
	}
	return c
}

// driveOp runs changes through o in batches of up to size rows, some with rows that are not selected,
// and poisons every batch when the call has returned.
func driveOp(t *testing.T, o op.Operator, changes []change, size int, batchMode bool) ([]exectest.Out, *op.Counters) {
	t.Helper()
	out := &collector{}
	now := int64(0)
	ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{},
		BatchRows: vec.BatchRows, BatchMode: batchMode, Now: func() int64 { return now }}
	if err := o.Open(ctx, out); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(changes); {
		in := changes[at].in
		now = changes[at].at
		b := vec.NewBatch([]types.Schema{leftSchema, rightSchema}[in])
		add := func(c change) {
			for i, x := range c.vals {
				b.Cols[i].AppendValue(x)
			}
			b.Kinds = append(b.Kinds, c.kind)
			b.Stamps = append(b.Stamps, int64(at))
			b.N++
		}
		if size%2 == 1 && size > 1 {
			b.Sel = []int32{}
		}
		for k := 0; k < size && at < len(changes) && changes[at].in == in && changes[at].at == now; k++ {
			if b.Sel != nil {
				add(change{vals: []types.Value{nil, nil, nil}})
				b.Sel = append(b.Sel, int32(b.N))
			}
			add(changes[at])
			at++
		}
		if err := o.Process(in, b); err != nil {
			t.Fatal(err)
		}
		for _, v := range b.Cols {
			for i := range v.I64 {
				v.I64[i] = -6666
			}
			for i := range v.Buf {
				v.Buf[i] = '#'
			}
		}
	}
	if err := o.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	return out.rows, ctx.Counters
}

// naive joins what is left of the changes, by nested loops.
func naive(n *plan.Join, changes []change, filter func(l, r []types.Value) bool) []string {
	var left [2][][]types.Value
	for _, c := range changes {
		if !c.kind.Retracts() {
			left[c.in] = append(left[c.in], c.vals)
			continue
		}
		for i, v := range left[c.in] {
			if slices.Equal(v, c.vals) {
				left[c.in] = slices.Delete(left[c.in], i, i+1)
				break
			}
		}
	}
	out := []string{}
	show := func(l, r []types.Value) {
		var text []string
		for _, x := range append(slices.Clone(l), r...) {
			text = append(text, exectest.Text(x, types.StringType))
		}
		out = append(out, strings.Join(text, " "))
	}
	none := []types.Value{nil, nil, nil}
	matched := map[int]bool{}
	for _, l := range left[0] {
		any := false
		for j, r := range left[1] {
			ok := true
			for i := range n.LeftKeys {
				x, y := l[n.LeftKeys[i]], r[n.RightKeys[i]]
				ok = ok && x == y && (x != nil || n.NullSafe != nil && n.NullSafe[i])
			}
			if ok && (n.Filter == nil || filter(l, r)) {
				show(l, r)
				any, matched[j] = true, true
			}
		}
		if !any && (n.Kind == plan.LeftJoin || n.Kind == plan.FullJoin) {
			show(l, none)
		}
	}
	for j, r := range left[1] {
		if !matched[j] && (n.Kind == plan.RightJoin || n.Kind == plan.FullJoin) {
			show(none, r)
		}
	}
	slices.Sort(out)
	return out
}

// randomChanges makes inserts and, unless plain, retractions of rows that are there.
func randomChanges(rnd *rand.Rand, n, keys int, plain bool) []change {
	texts := []types.Value{nil, "", "x", "a text of more than twelve bytes"}
	var out []change
	var there [2][][]types.Value
	in := 0
	for range n {
		if rnd.IntN(4) == 0 {
			in = 1 - in
		}
		if at := len(there[in]); !plain && at > 0 && rnd.IntN(5) < 2 {
			i := rnd.IntN(at)
			out = append(out, change{in, []types.RowKind{types.Delete, types.UpdateBefore}[rnd.IntN(2)], there[in][i], 0})
			there[in] = slices.Delete(there[in], i, i+1)
			continue
		}
		var key types.Value
		if k := rnd.IntN(keys + 1); k > 0 {
			key = int64(k)
		}
		v := []types.Value{key, texts[rnd.IntN(4)], int64(rnd.IntN(3))}
		if in == 1 {
			v = []types.Value{int64(rnd.IntN(3)), key, texts[rnd.IntN(4)]}
		}
		out = append(out, change{in, []types.RowKind{types.Insert, types.UpdateAfter}[rnd.IntN(2)], v, 0})
		if plain {
			out[len(out)-1].kind = types.Insert
		}
		there[in] = append(there[in], v)
	}
	return out
}

// TestAgainstNestedLoops compares the folded output of random changelogs, and of every prefix's
// retractions, with a join by nested loops.
func TestAgainstNestedLoops(t *testing.T) {
	evicted := state.Evictions()
	t.Cleanup(func() { // when all have run
		if n := state.Evictions() - evicted; n < 1000 {
			t.Errorf("%d rows left memory", n)
		}
	})
	less := &expr.Call{Fn: "<=", T: types.BooleanType, Args: []expr.Expr{
		&expr.Column{Index: 2, Name: "a", T: types.BigIntType}, &expr.Column{Index: 3, Name: "b", T: types.BigIntType}}}
	lessRef := func(l, r []types.Value) bool { return l[2].(int64) <= r[0].(int64) }
	shapes := map[string]plan.Join{
		"key":            {LeftKeys: []int{0}, RightKeys: []int{1}},
		"key and filter": {LeftKeys: []int{0}, RightKeys: []int{1}, Filter: less},
		"two keys":       {LeftKeys: []int{0, 1}, RightKeys: []int{1, 2}},
		"null safe":      {LeftKeys: []int{0, 1}, RightKeys: []int{1, 2}, NullSafe: []bool{false, true}},
		"no key":         {},
		"filter only":    {Filter: less},
	}
	for name, shape := range shapes {
		for _, kind := range []plan.JoinKind{plan.InnerJoin, plan.LeftJoin, plan.RightJoin, plan.FullJoin} {
			t.Run(fmt.Sprintf("%s, %s", name, kind), func(t *testing.T) {
				t.Parallel()
				n := shape
				n.Kind = kind
				for seed := range uint64(3) {
					rnd := rand.New(rand.NewPCG(seed, 7))
					plain := seed%3 == 0
					changes := randomChanges(rnd, 20+rnd.IntN(150), 1+rnd.IntN(8), plain)
					want := naive(&n, changes, lessRef)
					for _, size := range []int{1, 2, 3, 7, 100, 1000} {
						rows, books := drive(t, &n, changes, size, false)
						if got := exectest.Fold(rows); !slices.Equal(got, want) {
							t.Fatalf("seed %d, size %d:\n got %q\nwant %q", seed, size, got, want)
						}
						if d := books.Drops[op.DropStale].Load(); d != 0 {
							t.Fatalf("seed %d, size %d: %d rows are stale", seed, size, d)
						}
						if size == 2 || size == 100 {
							c := restarted(&n, int(seed), max(3, len(changes)/size/4))
							c.Spills = true
							rows, _ = driveOp(t, c, changes, size, false)
							if got := exectest.Fold(rows); !slices.Equal(got, want) {
								t.Fatalf("seed %d, size %d, %d starts, spilled:\n got %q\nwant %q", seed, size, c.Starts, got, want)
							}
						}
						if size == 1 || size == 7 {
							c := restarted(&n, int(seed), max(3, len(changes)/size/8))
							rows, _ = driveOp(t, c, changes, size, false)
							if got := exectest.Fold(rows); !slices.Equal(got, want) {
								t.Fatalf("seed %d, size %d, %d starts:\n got %q\nwant %q", seed, size, c.Starts, got, want)
							}
						}
						if !plain {
							continue
						}
						if size == 3 {
							rows, _ = driveOp(t, restarted(&n, int(seed), 6), changes, size, true)
							if got := exectest.Fold(rows); !slices.Equal(got, want) || len(got) != len(rows) {
								t.Fatalf("batch mode, seed %d, restarted:\n got %q\nwant %q", seed, got, want)
							}
						}
						rows, _ = drive(t, &n, changes, size, true)
						if got := exectest.Fold(rows); !slices.Equal(got, want) || len(got) != len(rows) {
							t.Fatalf("batch mode, seed %d, size %d:\n got %q\nwant %q", seed, size, got, want)
						}
					}
				}
			})
		}
	}
}

// TestStateEnds takes every row back: nothing must be left, neither shown nor kept.
func TestStateEnds(t *testing.T) {
	n := &plan.Join{Kind: plan.FullJoin, LeftKeys: []int{0}, RightKeys: []int{1}}
	changes := randomChanges(rand.New(rand.NewPCG(1, 2)), 300, 5, true)
	for _, c := range slices.Clone(changes) {
		changes = append(changes, change{c.in, types.Delete, c.vals, 0})
	}
	for _, size := range []int{1, 5, 64} {
		rows, books := drive(t, n, changes, size, false)
		if got := exectest.Fold(rows); len(got) > 0 || books.StateEntries.Load() != 0 {
			t.Fatalf("size %d: left %q, and %d entries", size, got, books.StateEntries.Load())
		}
	}
}

// TestOrderOfChanges is the way in which Flink shows the changes of an outer join.
func TestOrderOfChanges(t *testing.T) {
	l := func(k types.RowKind) change { return change{0, k, []types.Value{int64(1), "l", int64(0)}, 0} }
	r := func(k types.RowKind) change { return change{1, k, []types.Value{int64(0), int64(1), "r"}, 0} }
	n := &plan.Join{Kind: plan.LeftJoin, LeftKeys: []int{0}, RightKeys: []int{1}}
	rows, books := drive(t, n, []change{l(types.Insert), r(types.Insert), r(types.Insert), r(types.Delete), r(types.Delete),
		r(types.Delete), l(types.Delete)}, 1, false)
	var got []string
	for _, x := range rows {
		got = append(got, x.Kind.String()+" "+x.Text)
	}
	want := []string{"+I 1 l 0 NULL NULL NULL", "-D 1 l 0 NULL NULL NULL", "+I 1 l 0 0 1 r", "+I 1 l 0 0 1 r",
		"-D 1 l 0 0 1 r", "-D 1 l 0 0 1 r", "+I 1 l 0 NULL NULL NULL", "-D 1 l 0 NULL NULL NULL"}
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d := books.Drops[op.DropStale].Load(); d != 1 {
		t.Fatalf("%d stale rows, want 1: the third deletion", d)
	}
}
