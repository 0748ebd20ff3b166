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

// TestSpill_Random: rows that leave memory come out in the order, at the watermarks, and with the late
// rows, of a sort that keeps all.
func TestSpill_Random(t *testing.T) {
	before := state.Evictions()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		batch := seed%3 == 0
		n := &plan.Sort{Keys: []plan.SortKey{{Col: 0}, {Col: 1, Desc: seed%2 == 0}}, Limit: -1, Offset: int64(r.IntN(3))}
		if batch {
			n.Keys[0].Desc = seed%4 == 0
			if seed%5 == 0 {
				n.Limit = 20
			}
		}
		var script []exectest.Step
		now := int64(0)
		for range 40 + r.IntN(200) {
			now += r.Int64N(3)
			script = append(script, at(now+r.Int64N(20)-10, strings.Repeat("x", r.IntN(4))))
			if !batch && r.IntN(6) == 0 {
				script = append(script, exectest.WM(now-r.Int64N(8)))
			}
		}
		for _, v := range []exectest.Variant{{Size: 1}, {Size: 7}, {Size: 40}} {
			mk := func() (op.Operator, error) { return sort.New(n, timed, timed, false) }
			o, _ := mk()
			plain, err := exectest.Drive(o, timed, script, v, exectest.Options{BatchMode: batch})
			if err != nil {
				t.Fatal(err)
			}
			c := &exectest.Cluster{Make: mk, Seed: int64(seed), Every: 12, Spills: true}
			got, err := exectest.Drive(c, timed, script, v, exectest.Options{BatchMode: batch})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Trace, plain.Trace) || got.Drops != plain.Drops {
				t.Fatalf("seed %d, %+v, %d starts: dropped %v, want %v; got\n%s\nwant\n%s", seed, v, c.Starts, got.Drops, plain.Drops,
					strings.Join(got.Trace, "\n"), strings.Join(plain.Trace, "\n"))
			}
			for i := range got.Rows {
				if got.Rows[i].Stamp != plain.Rows[i].Stamp {
					t.Fatalf("seed %d, %+v, row %d: stamp %d, want %d", seed, v, i, got.Rows[i].Stamp, plain.Rows[i].Stamp)
				}
			}
		}
	}
	if n := state.Evictions() - before; n < 1000 {
		t.Errorf("%d rows left memory", n)
	}
}

// checked checks that rows come in order, and how much memory is in use meanwhile.
type checked struct {
	t      *testing.T
	budget *state.Budget
	rows   int
	last   int64
	most   int64
}

func (c *checked) Emit(b *vec.Batch) error {
	c.most = max(c.most, c.budget.Used())
	for _, x := range b.Cols[0].I64[:b.N] {
		if x < c.last {
			c.t.Fatalf("%d comes after %d", x, c.last)
		}
		c.last = x
	}
	c.rows += b.N
	return nil
}

func (c *checked) Watermark(int64) error { return nil }

// TestSpill_Bounded: the rows to be sorted are many times the budget.
func TestSpill_Bounded(t *testing.T) {
	const rows, budget = 60_000, 3 << 20
	text := strings.Repeat("a long text ", 20)
	for _, batch := range []bool{true, false} {
		t.Run(fmt.Sprint("batch ", batch), func(t *testing.T) {
			st, err := store.Open(filepath.Join(t.TempDir(), "state"), store.Options{MemoryBytes: budget / 4})
			if err != nil {
				t.Fatal(err)
			}
			b := state.NewBudget(budget)
			spill := state.NewSpill(b, st, state.SpillOptions{Operator: 7, Hi: 128})
			o, err := sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0}}, Limit: -1}, timed, timed, false)
			if err != nil {
				t.Fatal(err)
			}
			out := &checked{t: t, budget: b}
			ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{}, BatchMode: batch,
				BatchRows: vec.BatchRows, Saves: true, Budget: b, Spill: spill}
			if err := o.Open(ctx, out); err != nil {
				t.Fatal(err)
			}
			so := o.(op.Stateful)
			in := vec.NewBatch(timed)
			var d state.Delta
			most := int64(0)
			for at := 0; at < rows; at += 1000 {
				in.Reset(1000)
				for i := range 1000 {
					in.Cols[0].I64[i] = int64((at+i)*7919%rows) + 1
					in.Cols[1].SetString(i, text)
				}
				if err := o.Process(0, in); err != nil {
					t.Fatal(err)
				}
				if so.Dirty() > 16<<20 || spill.NeedsFreeze() {
					if err := so.Freeze(&d); err != nil {
						t.Fatal(err)
					}
					n := spill.Frozen()
					if err := st.Apply(7, d.Bytes()); err != nil {
						t.Fatal(err)
					}
					d.Reset()
					spill.Applied(n)
				}
				spill.Between()
				most = max(most, b.Used())
			}
			for _, wm := range []int64{rows / 10, rows / 2, vec.MaxTime} {
				if err := o.Watermark(wm); err != nil {
					t.Fatal(err)
				}
				if !batch && wm != vec.MaxTime && out.rows != int(wm) {
					t.Errorf("%d rows up to %d", out.rows, wm)
				}
			}
			if err := o.Finish(); err != nil {
				t.Fatal(err)
			}
			if err := so.Freeze(&d); err != nil {
				t.Fatal(err)
			}
			if out.rows != rows {
				t.Errorf("%d rows, want %d", out.rows, rows)
			}
			t.Logf("%d MiB of rows, %d KiB in memory at most, %d while they come out", rows*len(text)>>20, most>>10, out.most>>10)
			if limit := int64(budget) * 3 / 2; most > limit || out.most > limit {
				t.Errorf("%d and %d bytes in memory, the budget is %d", most, out.most, budget)
			}
			if err := st.Apply(7, d.Bytes()); err != nil {
				t.Fatal(err)
			}
			if !batch {
				n := 0
				if err := st.Scan(7, 0, 0, 128, func(int, []byte, []byte) error { n++; return nil }); err != nil || n > 0 {
					t.Errorf("%d rows are left in the store, %v", n, err)
				}
			}
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func BenchmarkAll(b *testing.B) {
	s := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "s", Type: types.StringType})
	in := vec.NewBatch(s)
	const batches = 100
	b.ReportAllocs()
	for range b.N {
		o, err := sort.New(&plan.Sort{Keys: []plan.SortKey{{Col: 0}}, Limit: -1}, s, s, false)
		if err != nil {
			b.Fatal(err)
		}
		if err := o.Open(&op.Context{Env: &expr.Env{}, BatchMode: true, Counters: &op.Counters{}}, &exectest.Discard{}); err != nil {
			b.Fatal(err)
		}
		for k := range int64(batches) {
			in.Reset(vec.BatchRows)
			for i := range in.N {
				in.Cols[0].I64[i] = (k*vec.BatchRows + int64(i)) * 7919 % 100_003
				in.Cols[1].SetString(i, "some text")
			}
			if err := o.Process(0, in); err != nil {
				b.Fatal(err)
			}
		}
		if err := o.Finish(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batches/vec.BatchRows, "ns/row")
}
