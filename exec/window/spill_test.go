package window_test

import (
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// narrow is an operator over a real store with little memory, in the hands of a job of one subtask.
type narrow struct {
	t        *testing.T
	o        op.Operator
	budget   *state.Budget
	spill    *state.Spill
	store    *store.Store
	batch    *vec.Batch
	wm, now  int64
	base     int64 // what the store counts
	counters op.Counters
	peak     int64
	// rows, count and sum add up what was emitted: the second column is a count, the third a sum.
	rows, count int64
	sum         float64
	// keep has texts gather the rows instead; kind is that of rows that are added.
	keep  bool
	texts []string
	kind  types.RowKind
}

// Emit implements op.Output.
func (x *narrow) Emit(b *vec.Batch) error {
	b.Each(func(i int) {
		if x.keep {
			x.texts = append(x.texts, text(b, i))
			return
		}
		sign := int64(1)
		if b.Kind(i).Retracts() {
			sign = -1
		}
		x.rows += sign
		x.count += sign * b.Cols[1].I64[i]
		switch c := b.Cols[2]; c.Phys {
		case types.PF64:
			x.sum += float64(sign) * c.F64[i]
		default:
			x.sum += float64(sign) * float64(c.I32[i])
		}
	})
	x.look()
	return nil
}

// Watermark implements op.Output.
func (x *narrow) Watermark(int64) error { return nil }

func (x *narrow) look() { x.peak = max(x.peak, x.budget.Used()) }

func (x *narrow) check(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

var narrowSchema = types.NewSchema(
	types.Field{Name: "k", Type: types.BigIntType},
	types.Field{Name: "ts", Type: types.TimestampType(3)},
	types.Field{Name: "i", Type: types.IntType},
	types.Field{Name: "d", Type: types.DoubleType},
)

func newNarrow(t *testing.T, n *plan.WindowAgg, limit int64) *narrow {
	x := &narrow{t: t, budget: state.NewBudget(limit), batch: vec.NewBatch(narrowSchema), wm: vec.MinTime}
	var err error
	x.o, err = window.NewAgg(n, narrowSchema, outSchema(narrowSchema, n))
	x.check(err)
	x.store, err = store.Open(t.TempDir(), store.Options{MemoryBytes: limit / 4})
	x.check(err)
	x.spill = state.NewSpill(x.budget, x.store, state.SpillOptions{Operator: 1, Hi: keyGroups})
	x.base = x.budget.Used()
	x.check(x.o.Open(&op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: keyGroups, Counters: &x.counters,
		Now: func() int64 { return x.now }, BatchRows: vec.BatchRows, Saves: true, Budget: x.budget, Spill: x.spill,
		Room: func() error { x.room(); return nil }}, x))
	return x
}

// entries is what the operator counts.
func (x *narrow) entries() int64 { return x.counters.StateEntries.Load() }

// row adds a row whose integer and double are v.
func (x *narrow) row(key, ts, v int64) {
	b := x.batch
	if b.N == 0 {
		for _, c := range b.Cols {
			c.Resize(0)
		}
	}
	b.Cols[0].AppendValue(key)
	b.Cols[1].AppendValue(types.TS(ts, 0))
	b.Cols[2].AppendValue(v)
	b.Cols[3].AppendValue(float64(v))
	b.Stamps = append(b.Stamps, x.wm)
	b.Kinds = append(b.Kinds, x.kind)
	if b.N++; b.N == vec.BatchRows {
		x.flush()
	}
}

// flush gives the operator its batch and does what a job does between two.
func (x *narrow) flush() {
	if x.batch.N > 0 {
		x.check(x.o.Process(0, x.batch))
		x.batch = vec.NewBatch(narrowSchema)
	}
	x.room()
}

func (x *narrow) room() {
	x.look()
	if st := x.o.(op.Stateful); x.spill.NeedsFreeze() || st.Dirty() > 16<<20 {
		var d state.Delta
		x.check(st.Freeze(&d))
		n := x.spill.Frozen()
		x.check(x.store.Apply(1, d.Bytes()))
		x.spill.Applied(n)
	}
	x.spill.Between()
}

func (x *narrow) watermark(wm int64) {
	x.flush()
	x.wm = wm
	x.check(x.o.Watermark(wm))
	x.look()
	x.flush()
}

func (x *narrow) end() {
	x.watermark(vec.MaxTime)
	x.check(x.o.Finish())
	x.flush()
	m := x.store.Metrics()
	if m.Applied == 0 {
		x.t.Error("nothing went to the store")
	}
	x.check(x.o.Close())
	if n := x.budget.Used() - x.base; n != 0 {
		x.t.Errorf("%d bytes are still counted after Close", n)
	}
	x.check(x.store.Close())
}

// TestSpill_Bounded takes windows many times larger than the memory there is through all shapes.
func TestSpill_Bounded(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of work")
	}
	const (
		limit = 3 << 20
		day   = 86_400_000
		count = "COUNT(*); SUM(i); MAX(i)"
	)
	// Each key comes twice: in the first half of a day, and, in the same order, in the second half.
	for name, c := range map[string]struct {
		w     plan.Window
		aggs  string
		early int64
		keys  int64
		rows  int64 // results and what they count in all, by key
		count int64
	}{
		"tumble":         {plan.Window{Kind: plan.Tumble, Size: day}, count, -1, 160_000, 1, 2},
		"tumble,doubles": {plan.Window{Kind: plan.Tumble, Size: day}, "COUNT(*); SUM(d)", -1, 40_000, 1, 2},
		"hop":            {plan.Window{Kind: plan.Hop, Size: day, Step: day / 4}, count, -1, 40_000, 6, 8},
		"cumulate":       {plan.Window{Kind: plan.Cumulate, Size: day, Step: day / 2}, count, -1, 50_000, 2, 3},
		"session":        {plan.Window{Kind: plan.Session, Size: day}, count, -1, 30_000, 1, 2},
		"early":          {plan.Window{Kind: plan.Tumble, Size: day}, count, 0, 40_000, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			cs := exectest.Case{Schema: narrowSchema}
			aggs, err := cs.Aggs(c.aggs, true)
			if err != nil {
				t.Fatal(err)
			}
			c.w.TimeCol = 1
			x := newNarrow(t, &plan.WindowAgg{Window: c.w, Keys: []int{0}, Aggs: aggs, EarlyFireMs: c.early, LateFireMs: -1}, limit)
			sum := int64(0)
			for round := range int64(2) {
				for i := range c.keys {
					k := i * 7_368_787 % c.keys
					x.row(k, (round*c.keys+i)*(day/2)/c.keys, k%1000)
					sum += k % 1000
				}
			}
			x.end()
			if x.rows != c.rows*c.keys || x.count != c.count*c.keys {
				t.Errorf("%d results of %d rows, want %d of %d", x.rows, x.count, c.rows*c.keys, c.count*c.keys)
			}
			if want := float64(sum * c.count / 2); x.sum != want && c.w.Kind != plan.Cumulate {
				t.Errorf("sum %v, want %v", x.sum, want)
			}
			t.Logf("%d KiB of memory at most", x.peak>>10)
			if x.peak > limit+limit/2+1<<20 {
				t.Errorf("state took %d KiB of memory where %d were given", x.peak>>10, limit>>10)
			}
		})
	}
}

// TestSpill_SessionsThatGrow: keys whose session goes on and on leave memory and come back once a round,
// and what is kept of them there does not grow with the rounds.
func TestSpill_SessionsThatGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of work")
	}
	const (
		limit  = 1 << 20
		gap    = 86_400_000
		keys   = 10_000
		rounds = 8
	)
	for name, step := range map[string]int64{
		"longer":   gap * 2 / 3, // each row makes the session longer
		"the same": 0,           // the session stays as it is, so that it is due in the same bucket
	} {
		t.Run(name, func(t *testing.T) {
			cs := exectest.Case{Schema: narrowSchema}
			aggs, err := cs.Aggs("COUNT(*); SUM(i)", true)
			if err != nil {
				t.Fatal(err)
			}
			x := newNarrow(t, &plan.WindowAgg{Window: plan.Window{Kind: plan.Session, Size: gap, TimeCol: 1}, Keys: []int{0},
				Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1}, limit)
			sum, early, used := int64(0), int64(0), int64(0)
			for round := range int64(rounds) {
				for i := range int64(keys) {
					k := i * 7_368_787 % keys
					x.row(k, round*step+i*(gap/80)/keys, k%1000)
					sum += k % 1000
				}
				x.watermark(round*step + gap/80)
				if n := x.entries(); n != keys {
					t.Fatalf("round %d: %d sessions are counted, want %d", round, n, keys)
				}
				if used = x.budget.Used(); round < 3 {
					early = max(early, used)
				}
				t.Logf("round %d: %d KiB of memory", round, used>>10)
			}
			if x.rows != 0 {
				t.Errorf("%d results before the end", x.rows)
			}
			x.end()
			if x.rows != keys || x.count != rounds*keys || x.sum != float64(sum) {
				t.Errorf("%d results of %d rows with sum %v, want %d of %d with %d", x.rows, x.count, x.sum, keys, rounds*keys, sum)
			}
			if used > early+early/4 {
				t.Errorf("state took %d KiB of memory, %d after three rounds", used>>10, early>>10)
			}
		})
	}
}

// TestSpill_CountsEmitting: the groups on disk of a window with early results are counted.
func TestSpill_CountsEmitting(t *testing.T) {
	const (
		limit = 1 << 20
		day   = 86_400_000
		keys  = 20_000
	)
	cs := exectest.Case{Schema: narrowSchema}
	aggs, err := cs.Aggs("COUNT(*); SUM(i)", true)
	if err != nil {
		t.Fatal(err)
	}
	x := newNarrow(t, &plan.WindowAgg{Window: plan.Window{Kind: plan.Tumble, Size: day, TimeCol: 1}, Keys: []int{0},
		Aggs: aggs, EarlyFireMs: 0, LateFireMs: -1}, limit)
	for k := range int64(keys) {
		x.row(k, k, 1)
	}
	x.watermark(keys)
	if n := x.entries(); n != keys {
		t.Errorf("%d groups are counted, want %d", n, keys)
	}
	if used := x.budget.Used(); used > 2*limit {
		t.Errorf("state took %d KiB of memory where %d were given", used>>10, limit>>10)
	}
	x.end()
}

// TestSpill_SessionsOnTime: sessions that come and go between two watermarks, many of them within one
// bucket of parked, end at the watermark at which those that stay in memory do.
func TestSpill_SessionsOnTime(t *testing.T) {
	const (
		gap  = 64 * 40 // buckets are 40 ms wide
		keys = 3000
	)
	cs := exectest.Case{Schema: narrowSchema}
	aggs, err := cs.Aggs("COUNT(*); SUM(i)", true)
	if err != nil {
		t.Fatal(err)
	}
	n := func() *plan.WindowAgg {
		return &plan.WindowAgg{Window: plan.Window{Kind: plan.Session, Size: gap, TimeCol: 1}, Keys: []int{0},
			Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1}
	}
	little, much := newNarrow(t, n(), 1<<16), newNarrow(t, n(), 1<<30)
	r := rand.New(rand.NewSource(5))
	ended := int64(0)
	both := []*narrow{little, much}
	burst := int64(gap)
	for now := int64(gap); now < 3*gap; {
		row := func(key, ts int64) {
			for _, x := range both {
				x.row(key, ts, key)
			}
		}
		// Rows come late and early by up to half a gap, so that ends move both ways.
		for range r.Intn(80) {
			row(r.Int63n(keys), now+r.Int63n(gap)-gap/2)
		}
		// Keys that end in one bucket, more than are read at once.
		if now >= burst {
			burst += gap / 2
			for key := range int64(2 * keys) {
				row(keys+key, now-gap+7*40+r.Int63n(40))
			}
		}
		now += 1 + r.Int63n(30)
		for _, x := range both {
			x.watermark(now)
		}
		if little.rows != much.rows || little.count != much.count || little.sum != much.sum {
			t.Fatalf("watermark %d: %d sessions of %d rows with sum %v, want %d of %d with %v", now,
				little.rows, little.count, little.sum, much.rows, much.count, much.sum)
		}
		ended = much.rows
	}
	if ended < keys {
		t.Errorf("only %d sessions ended", ended)
	}
	if n := little.store.Metrics().Hits; n < keys {
		t.Errorf("only %d keys came back from disk", n)
	}
	little.end()
	if err := much.o.Finish(); err != nil {
		t.Fatal(err)
	}
	if little.rows != much.rows || little.sum != much.sum {
		t.Errorf("%d sessions with sum %v, want %d with %v", little.rows, little.sum, much.rows, much.sum)
	}
	much.check(much.o.Close())
	much.check(much.store.Close())
}
