package join

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// spilling is a join of rows (key, value, text) with a budget and a store on disk, driven as a job does.
type spilling struct {
	tb     testing.TB
	o      *Join
	budget *state.Budget
	store  *store.Store
	spill  *state.Spill
	ctx    *op.Context
	d      state.Delta
	in     *vec.Batch
	text   string // of every row

	rows, sum, padded int64 // what came out, folded
	most              int64 // of the budget that was used while something came out
}

func newSpilling(tb testing.TB, kind plan.JoinKind, budget int64) *spilling {
	s := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "v", Type: types.BigIntType},
		types.Field{Name: "s", Type: types.StringType})
	o, err := New(&plan.Join{Kind: kind, LeftKeys: []int{0}, RightKeys: []int{0}}, s, s, both(s, s))
	if err != nil {
		tb.Fatal(err)
	}
	w := &spilling{tb: tb, o: o.(*Join), in: vec.NewBatch(s)}
	w.ctx = &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{},
		BatchRows: vec.BatchRows, Saves: true}
	if budget > 0 {
		w.store, err = store.Open(filepath.Join(tb.TempDir(), "state"), store.Options{MemoryBytes: budget / 4})
		if err != nil {
			tb.Fatal(err)
		}
		w.budget = state.NewBudget(budget)
		w.spill = state.NewSpill(w.budget, w.store, state.SpillOptions{Operator: 7, Hi: 128})
		w.ctx.Budget, w.ctx.Spill = w.budget, w.spill
	}
	if err := o.Open(w.ctx, w); err != nil {
		tb.Fatal(err)
	}
	return w
}

// Emit implements op.Output.
func (w *spilling) Emit(b *vec.Batch) error {
	w.most = max(w.most, w.budget.Used())
	for i := range b.N {
		n := int64(1)
		if b.Kind(i).Retracts() {
			n = -1
		}
		w.rows += n
		if b.Cols[0].IsNull(i) || b.Cols[3].IsNull(i) {
			w.padded += n
			continue
		}
		if b.Cols[0].I64[i] != b.Cols[3].I64[i] || string(b.Cols[5].Bytes(i)) != w.text {
			w.tb.Fatal("a row is wrong")
		}
		w.sum += n * (b.Cols[1].I64[i] ^ b.Cols[4].I64[i]*3)
	}
	return nil
}

// Watermark implements op.Output.
func (w *spilling) Watermark(int64) error { return nil }

// push gives the join n rows of one input.
func (w *spilling) push(in, n int, row func(i int) (k, v int64)) {
	w.in.Reset(n)
	for i := range n {
		w.in.Cols[0].I64[i], w.in.Cols[1].I64[i] = row(i)
		w.in.Cols[2].SetString(i, w.text)
	}
	if err := w.o.Process(in, w.in); err != nil {
		w.tb.Fatal(err)
	}
	if w.spill == nil {
		return
	}
	if w.o.Dirty() > 16<<20 || w.spill.NeedsFreeze() {
		w.freeze()
	}
	w.spill.Between()
}

func (w *spilling) freeze() {
	if err := w.o.Freeze(&w.d); err != nil {
		w.tb.Fatal(err)
	}
	n := w.spill.Frozen()
	if err := w.store.Apply(7, w.d.Bytes()); err != nil {
		w.tb.Fatal(err)
	}
	w.d.Reset()
	w.spill.Applied(n)
}

func (w *spilling) close() {
	if err := w.o.Close(); err != nil {
		w.tb.Fatal(err)
	}
	if n := w.o.mem.Bytes(); n != 0 {
		w.tb.Errorf("%d bytes are counted after Close", n)
	}
	if w.store != nil {
		if err := w.store.Close(); err != nil {
			w.tb.Fatal(err)
		}
	}
}

// TestSpill_Bounded: of a join whose state is many times its budget, memory stays bounded, and what
// comes out is what comes out without a bound.
func TestSpill_Bounded(t *testing.T) {
	const rows, budget = 20_000, 4 << 20
	for _, kind := range []plan.JoinKind{plan.LeftJoin} { // which also counts matches
		w := newSpilling(t, kind, budget)
		w.text = strings.Repeat("a long text ", 25)
		wantSum, most := int64(0), int64(0)
		for at := 0; at < rows; at += 1000 {
			for in := range 2 {
				w.push(in, 1000, func(i int) (int64, int64) {
					n := int64(at + i)
					k := n * []int64{7919, 104729}[in] % rows // each key once a side, in orders of their own
					return k, k + int64(in)
				})
				most = max(most, w.budget.Used())
			}
		}
		for k := range int64(rows) {
			wantSum += k ^ (k+1)*3
		}
		if w.rows != rows || w.sum != wantSum || w.padded != 0 {
			t.Errorf("%s: %d rows, sum %d, %d padded; want %d, %d, 0", kind, w.rows, w.sum, w.padded, rows, wantSum)
		}
		held := int64(w.o.sides[0].len()+w.o.sides[1].len()) * int64(w.o.sides[0].rows.Stride()*8+len(w.text))
		t.Logf("%s: %d KiB of state, %d KiB at most", kind, held>>10, most>>10)
		if held < 3*budget || most > 2*budget || w.most > 2*budget {
			t.Errorf("%s: %d bytes of state, %d in memory at most, %d while it emits", kind, held, most, w.most)
		}
		w.close()
	}
}

// TestSpill_HotKey: the rows of one key need not fit.
func TestSpill_HotKey(t *testing.T) {
	const rows, budget = 50_000, 2 << 20
	for _, kind := range []plan.JoinKind{plan.InnerJoin, plan.RightJoin} {
		w := newSpilling(t, kind, budget)
		w.text = strings.Repeat("a long text ", 25)
		for at := 0; at < rows; at += 1000 {
			w.push(0, 1000, func(i int) (int64, int64) { return 5, int64(at + i) })
		}
		if hot := w.o.sides[0].rows.Len(); hot > rows/4 {
			t.Errorf("%s: %d of %d rows are in memory", kind, hot, rows)
		}
		w.most = 0
		w.push(1, 3, func(i int) (int64, int64) { return int64(4 + i), 1 })
		wantSum := int64(0)
		for v := range int64(rows) {
			wantSum += v ^ 3
		}
		want, padded := int64(rows), int64(0)
		if kind == plan.RightJoin {
			want, padded = want+2, 2 // the keys 4 and 6
		}
		if w.rows != want || w.sum != wantSum || w.padded != padded {
			t.Errorf("%s: %d rows, sum %d; want %d, %d", kind, w.rows, w.sum, want, wantSum)
		}
		t.Logf("%s: %d KiB at most while it emits", kind, w.most>>10)
		if w.most > 2*budget {
			t.Errorf("%s: %d bytes in memory while it emits", kind, w.most)
		}
		w.close()
	}
}

// BenchmarkSpill joins two streams of which every key comes once a side, in orders of their own, with a
// budget of about an eighth of the state: most rows have to be looked for among all that came before.
func BenchmarkSpill(b *testing.B) {
	const rows, budget = 500_009, 32 << 20
	for range b.N {
		w := newSpilling(b, plan.InnerJoin, budget)
		for at := int64(0); at < rows; at += vec.BatchRows {
			n := int(min(rows-at, vec.BatchRows))
			for in := range 2 {
				step := []int64{7919, 104729}[in]
				w.push(in, n, func(i int) (int64, int64) { return (at + int64(i)) * step % rows, at + int64(i) })
			}
		}
		if w.rows != rows {
			b.Fatalf("%d rows", w.rows)
		}
		m := w.store.Metrics()
		b.ReportMetric(float64(m.Lookups)/rows/2, "lookups/row")
		b.ReportMetric(float64(m.Hits)/rows/2, "hits/row")
		b.ReportMetric(float64(m.WrittenBytes)/rows/2, "written/row")
		b.ReportMetric(float64(m.DiskBytes)/(1<<20), "disk-MB")
		w.close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows/2, "ns/row")
}
