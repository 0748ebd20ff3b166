package sort_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/sort"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var scored = types.NewSchema(types.Field{Name: "score", Type: types.BigIntType}, types.Field{Name: "name", Type: types.StringType})

// shownOf is what a list that is sorted anew for each row shows in the end.
func shownOf(script []exectest.Step, less func(a, b []types.Value) int, offset, limit int) []string {
	var live [][]types.Value
	for _, s := range script {
		if s.Kind.Retracts() {
			if i := slices.IndexFunc(live, func(r []types.Value) bool { return slices.Equal(r, s.Vals) }); i >= 0 {
				live = slices.Delete(live, i, i+1)
			}
			continue
		}
		live = append(live, s.Vals)
		slices.SortStableFunc(live, less)
	}
	to := len(live)
	if limit >= 0 {
		to = min(to, offset+limit)
	}
	want := []string{}
	for _, r := range live[min(offset, to):to] {
		name := r[1]
		if r[0] == nil {
			r = []types.Value{"NULL", name}
		}
		want = append(want, fmt.Sprintf("%v %v", r[0], name))
	}
	slices.Sort(want)
	return want
}

func lessScore(a, b []types.Value) int {
	switch {
	case a[0] == nil && b[0] == nil:
		return 0
	case a[0] == nil:
		return 1
	case b[0] == nil:
		return -1
	}
	return int(b[0].(int64) - a[0].(int64))
}

// changes makes a script of rows that come, are taken back, some twice, and change.
func changes(r *rand.Rand, n int) (script []exectest.Step) {
	var live [][]types.Value
	row := func() []types.Value {
		v := []types.Value{r.Int64N(12), strings.Repeat("n", r.IntN(3)*9) + fmt.Sprint(r.IntN(4))}
		if r.IntN(10) == 0 {
			v[0] = nil
		}
		return v
	}
	grow := r.IntN(3) // phases in which there are ever more, or fewer
	for i := range n {
		if i%60 == 0 {
			grow = r.IntN(3)
		}
		switch k := r.IntN(4); {
		case k == 0 && r.IntN(5) == 0:
			script = append(script, exectest.Change(types.Delete, row()...))
			v := script[len(script)-1].Vals
			if j := slices.IndexFunc(live, func(o []types.Value) bool { return slices.Equal(o, v) }); j >= 0 {
				live = slices.Delete(live, j, j+1)
			}
		case len(live) > 0 && k <= grow:
			j := r.IntN(len(live))
			v := live[j]
			live = slices.Delete(live, j, j+1)
			script = append(script, exectest.Change(types.UpdateBefore, v...))
			if r.IntN(3) == 0 {
				v = row()
				live = append(live, v)
				script = append(script, exectest.Change(types.UpdateAfter, v...))
			}
		default:
			v := row()
			live = append(live, v)
			script = append(script, exectest.Row(v...))
		}
	}
	return script
}

// TestTopSpill_Random: the first rows of a changelog, of which others leave memory, are at all times those
// of one that keeps all, and in the end those of a list that is sorted.
func TestTopSpill_Random(t *testing.T) {
	before, colds := state.Evictions(), 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		offset, limit := r.IntN(4), r.IntN(9)
		mk := func() (op.Operator, error) {
			return sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0, Desc: true}}, Offset: int64(offset), Limit: int64(limit)},
				scored, scored, true)
		}
		less := lessScore
		if seed%4 == 3 {
			if seed%8 == 3 {
				limit = -1
			}
			mk = func() (op.Operator, error) {
				return sort.NewLimit(&plan.Limit{Offset: int64(offset), Limit: int64(limit)}, scored, true), nil
			}
			less = func(a, b []types.Value) int { return 0 }
		}
		script := changes(r, 60+r.IntN(500))
		want := shownOf(script, less, offset, limit)
		for _, v := range []exectest.Variant{{Size: 1}, {Size: 9}, {Size: 50}} {
			o, _ := mk()
			plain, err := exectest.Drive(o, scored, script, v, exectest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := exectest.Fold(plain.Rows); !slices.Equal(got, want) {
				t.Fatalf("seed %d, %+v: shown %q, want %q", seed, v, got, want)
			}
			c := &exectest.Cluster{Make: mk, Seed: int64(seed), Every: 12, Spills: true}
			got, err := exectest.Drive(c, scored, script, v, exectest.Options{})
			if err != nil {
				t.Fatalf("seed %d, %+v: %v", seed, v, err)
			}
			if !slices.Equal(got.Trace, plain.Trace) || got.Drops != plain.Drops {
				t.Fatalf("seed %d, %+v, %d starts: dropped %v, want %v; got\n%s\nwant\n%s", seed, v, c.Starts, got.Drops, plain.Drops,
					strings.Join(got.Trace, "\n"), strings.Join(plain.Trace, "\n"))
			}
			colds += c.Colds
		}
	}
	if n := state.Evictions() - before; n < 1000 {
		t.Errorf("%d rows left memory", n)
	}
}

// top is a Top over a store, fed batch by batch.
type top struct {
	t     *testing.T
	o     op.Operator
	ctx   *op.Context
	st    *store.Store
	b     *state.Budget
	spill *state.Spill
	in    *vec.Batch
	d     state.Delta
	base  int64
	most  int64
	shown map[string]int
	saves int
}

func (x *top) Watermark(int64) error { return nil }

func (x *top) Emit(b *vec.Batch) error {
	for i := range b.N {
		k := fmt.Sprint(b.Cols[0].I64[i])
		if b.Kind(i).Retracts() {
			x.shown[k]--
			if x.shown[k] == 0 {
				delete(x.shown, k)
			}
			continue
		}
		x.shown[k]++
	}
	return nil
}

func openTop(t *testing.T, limit, budget int64) *top {
	x := &top{t: t, in: vec.NewBatch(scored), shown: map[string]int{}}
	var err error
	if x.st, err = store.Open(filepath.Join(t.TempDir(), "state"), store.Options{MemoryBytes: max(budget/4, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.st.Close(); err != nil {
			t.Error(err)
		}
	})
	x.b = state.NewBudget(budget)
	x.start(limit, false, nil)
	x.base = x.b.Used() // the store's own
	return x
}

// start makes the operator, which goes on from the store where stored.
func (x *top) start(limit int64, stored bool, heads [][]byte) {
	x.spill = state.NewSpill(x.b, x.st, state.SpillOptions{Operator: 7, Hi: 128, Stored: stored})
	o, err := sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0, Desc: true}}, Limit: limit}, scored, scored, true)
	if err != nil {
		x.t.Fatal(err)
	}
	x.o = o
	x.ctx = &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{},
		BatchRows: vec.BatchRows, Saves: true, Budget: x.b, Spill: x.spill}
	if err := o.Open(x.ctx, x); err != nil {
		x.t.Fatal(err)
	}
	if stored {
		if err := o.(op.Stateful).Restore(nil, heads); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *top) freeze() {
	if err := x.o.(op.Stateful).Freeze(&x.d); err != nil {
		x.t.Fatal(err)
	}
	n := x.spill.Frozen()
	if err := x.st.Apply(7, x.d.Bytes()); err != nil {
		x.t.Fatal(err)
	}
	x.d.Reset()
	x.spill.Applied(n)
	x.saves++
}

// push gives the operator the batch.
func (x *top) push() {
	if err := x.o.Process(0, x.in); err != nil {
		x.t.Fatal(err)
	}
	x.in.Reset(0)
	if x.spill.NeedsFreeze() {
		x.freeze()
	}
	x.spill.Between()
	x.most = max(x.most, x.b.Used())
}

func (x *top) add(kind types.RowKind, score int64, name string) {
	x.in.Kinds = append(x.in.Kinds, kind)
	n := x.in.N
	for _, c := range x.in.Cols {
		c.Resize(n + 1)
	}
	x.in.Cols[0].I64[n] = score
	x.in.Cols[1].SetString(n, name)
	x.in.N++
	if x.in.N == 1000 {
		x.push()
	}
}

// TestTopSpill_Bounded: the rows are many times the budget; the best are taken back until the worst are
// shown.
func TestTopSpill_Bounded(t *testing.T) {
	const rows, limit, budget = 30_000, 10, 3 << 20
	x := openTop(t, limit, budget)
	name := strings.Repeat("a long name ", 20)
	for i := range int64(rows) {
		x.add(types.Insert, i*7919%rows, name)
	}
	x.push()
	check := func(best int64) {
		t.Helper()
		want := map[string]int{}
		for i := best; i > best-limit && i >= 0; i-- {
			want[fmt.Sprint(i)] = 1
		}
		if fmt.Sprint(x.shown) != fmt.Sprint(want) {
			t.Fatalf("shown %v, want %v", x.shown, want)
		}
	}
	check(rows - 1)
	if n := x.ctx.Counters.StateEntries.Load(); n != rows {
		t.Errorf("%d rows of state, want %d", n, rows)
	}
	for i := int64(rows - 1); i >= rows/2; i-- {
		x.add(types.Delete, i, name)
	}
	check(rows/2 - 1)
	// A restart from the store, of which nothing is read before.
	x.freeze()
	head, err := x.o.(op.Stateful).Head(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.o.Close(); err != nil {
		t.Fatal(err)
	}
	if used := x.b.Used() - x.base; used != 0 {
		t.Errorf("%d bytes are counted after the end", used)
	}
	x.start(limit, true, [][]byte{head})
	for i := int64(rows/2 - 1); i >= 0; i-- {
		x.add(types.Delete, i, name)
	}
	x.push()
	check(-1)
	t.Logf("%d MiB of rows, %d KiB in memory at most, %d saves", rows*len(name)>>20, x.most>>10, x.saves)
	if x.most > budget*3/2 {
		t.Errorf("%d bytes in memory, the budget is %d", x.most, budget)
	}
	x.freeze()
	for st := range 2 {
		n := 0
		if err := x.st.Scan(7, st, 0, 128, func(int, []byte, []byte) error { n++; return nil }); err != nil || n > 0 {
			t.Errorf("%d entries of state %d are left in the store, %v", n, st, err)
		}
	}
	if n := x.ctx.Counters.Drops[op.DropStale].Load(); n != 0 {
		t.Errorf("%d rows were not found", n)
	}
	if err := x.o.Close(); err != nil {
		t.Fatal(err)
	}
}
