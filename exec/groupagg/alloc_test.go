package groupagg_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestGroupAgg_NoAllocations: once warm, a batch allocates nothing.
func TestGroupAgg_NoAllocations(t *testing.T) {
	c := exectest.Case{Schema: bidSchema}
	for _, list := range []string{
		"COUNT(*); SUM(price); AVG(price); MIN(price); MAX(price); COUNT(*) FILTER r1",
		"COUNT(DISTINCT bidder); COUNT(DISTINCT bidder) FILTER r2; SUM(DISTINCT price)",
		"MIN(day); FIRST_VALUE(price); LAST_VALUE(day)",
	} {
		for _, before := range []bool{false, true} {
			aggs, err := c.Aggs(list, true)
			if err != nil {
				t.Fatal(err)
			}
			n := &plan.GroupAgg{Keys: []int{0, 3}, Aggs: aggs, UpdateBefore: before}
			o, err := groupagg.New(n, bidSchema, outSchema(bidSchema, n))
			if err != nil {
				t.Fatal(err)
			}
			ctx := &op.Context{Env: &expr.Env{}, Counters: &op.Counters{}, Now: func() int64 { return 0 }}
			if err := o.Open(ctx, &exectest.Discard{}); err != nil {
				t.Fatal(err)
			}
			batches := bidBatches(4, 300)
			i := 0
			push := func() {
				if err := o.Process(0, batches[i%len(batches)]); err != nil {
					t.Fatal(err)
				}
				i++
			}
			for range 20 {
				push()
			}
			if n := testing.AllocsPerRun(50, push); n != 0 {
				t.Errorf("%s, before=%v: %v allocations a batch", list, before, n)
			}
			o.Close()
		}
	}
}

// TestGroupAgg_Expires: a key that is not used for the TTL starts anew, and is swept.
func TestGroupAgg_Expires(t *testing.T) {
	in := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType})
	c := exectest.Case{Schema: in}
	aggs, _ := c.Aggs("COUNT(*)", true)
	n := &plan.GroupAgg{Keys: []int{0}, Aggs: aggs, UpdateBefore: true, TTLMs: 100}
	o, err := groupagg.New(n, in, outSchema(in, n))
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	var got []string
	ctx := &op.Context{Env: &expr.Env{}, Counters: &op.Counters{}, Now: func() int64 { return now }}
	if err := o.Open(ctx, emitFunc(func(b *vec.Batch) {
		b.Each(func(i int) {
			got = append(got, b.Kind(i).String()+" "+exectest.Text(b.Cols[0].Value(i), in.Fields[0].Type)+" "+
				exectest.Text(b.Cols[1].Value(i), types.BigIntType))
		})
	})); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	push := func(at, k int64) {
		now = at
		b := vec.NewBatch(in)
		b.Cols[0].AppendValue(k)
		b.N = 1
		if err := o.Process(0, b); err != nil {
			t.Fatal(err)
		}
	}
	push(0, 1)
	push(0, 2)
	push(99, 1)
	push(150, 1)
	push(300, 1)
	want := []string{"+I 1 1", "+I 2 1", "-U 1 1", "+U 1 2", "-U 1 2", "+U 1 3", "+I 1 1"}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if n := ctx.Counters.StateEntries.Load(); n != 1 {
		t.Errorf("%d keys are kept, want 1: key 2 has expired", n)
	}
}

// TestGroupAgg_Sweep: groups of ever new keys do not pile up.
func TestGroupAgg_Sweep(t *testing.T) {
	in := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType})
	c := exectest.Case{Schema: in}
	aggs, _ := c.Aggs("COUNT(*)", true)
	n := &plan.GroupAgg{Keys: []int{0}, Aggs: aggs, TTLMs: 10}
	o, err := groupagg.New(n, in, outSchema(in, n))
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	ctx := &op.Context{Env: &expr.Env{}, Counters: &op.Counters{}, Now: func() int64 { return now }}
	if err := o.Open(ctx, emitFunc(func(*vec.Batch) {})); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for ; now < 200; now += 10 {
		b := vec.NewBatch(in)
		for k := range int64(1000) {
			b.Cols[0].AppendValue(now*1000 + k)
		}
		b.N = 1000
		if err := o.Process(0, b); err != nil {
			t.Fatal(err)
		}
	}
	// 1,000 have not expired at any time.
	if n := ctx.Counters.StateEntries.Load(); n > 4000 {
		t.Errorf("%d keys are kept", n)
	}
}

type emitFunc func(b *vec.Batch)

// Emit implements op.Output.
func (f emitFunc) Emit(b *vec.Batch) error { f(b); return nil }

// Watermark implements op.Output.
func (emitFunc) Watermark(int64) error { return nil }
