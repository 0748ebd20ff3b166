package exectest

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// Discard is an output that counts rows.
type Discard struct{ Rows int64 }

// Emit implements op.Output.
func (d *Discard) Emit(b *vec.Batch) error { d.Rows += int64(b.Rows()); return nil }

// Watermark implements op.Output.
func (d *Discard) Watermark(int64) error { return nil }

// Bench pushes batches of rows through an operator: next gives the i-th batch, which stays as it is
// until the next call, and the watermark after it. It reports CPU time a row, the time of a batch
// that one in ten does not reach, and the mean of the four fifths that took least, all a row: other
// work on the machine disturbs these less than elapsed time.
func Bench(b *testing.B, o op.Operator, next func(i int) (*vec.Batch, int64)) {
	b.Helper()
	bench(b, o, next, 0)
}

// BenchSaved is Bench of a Stateful operator that is saved every so many batches; it reports what is
// saved a row, too.
func BenchSaved(b *testing.B, o op.Operator, next func(i int) (*vec.Batch, int64), every int) {
	b.Helper()
	bench(b, o, next, every)
}

func bench(b *testing.B, o op.Operator, next func(i int) (*vec.Batch, int64), every int) {
	b.Helper()
	ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{},
		Now: func() int64 { return 0 }, BatchRows: vec.BatchRows, Saves: every > 0}
	var delta state.Delta
	saved, saves, froze := 0, 0, time.Duration(0)
	save := func(i int) {
		if every == 0 || i%every != 0 {
			return
		}
		at := time.Now()
		if err := o.(op.Stateful).Freeze(&delta); err != nil {
			b.Fatal(err)
		}
		froze += time.Since(at)
		saves++
		saved += delta.Size()
		delta.Reset()
	}
	out := &Discard{}
	if err := o.Open(ctx, out); err != nil {
		b.Fatal(err)
	}
	defer o.Close()
	push := func(i int) {
		batch, wm := next(i)
		if err := o.Process(0, batch); err != nil {
			b.Fatal(err)
		}
		if err := o.Watermark(wm); err != nil {
			b.Fatal(err)
		}
	}
	const warm = 1000
	for i := range warm {
		push(i)
	}
	save(0)
	out.Rows, saved, saves, froze = 0, 0, 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	rows := 0
	took := make([]time.Duration, 0, b.N)
	for i := 0; i < b.N; i++ {
		batch, wm := next(warm + i)
		at := time.Now()
		err := o.Process(0, batch)
		if err == nil {
			err = o.Watermark(wm)
		}
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(at))
		save(i + 1)
		rows += vec.BatchRows
	}
	b.ReportMetric(float64(cpu()-start)/float64(rows), "cpu-ns/row")
	if saves > 0 {
		b.ReportMetric(float64(saved)/float64(rows), "saved-B/row")
		b.ReportMetric(float64(froze.Microseconds())/1000/float64(saves), "ms/save")
		b.ReportMetric(float64(saved)/float64(froze.Nanoseconds()), "saved-GB/s")
	}
	slices.Sort(took)
	sum := time.Duration(0)
	for _, d := range took[:max(1, len(took)*4/5)] {
		sum += d
	}
	b.ReportMetric(float64(took[len(took)/10])/vec.BatchRows, "p10-ns/row")
	b.ReportMetric(float64(sum)/float64(max(1, len(took)*4/5))/vec.BatchRows, "ns/row")
	b.ReportMetric(float64(out.Rows)/float64(rows), "out/row")
	b.ReportMetric(float64(ctx.Counters.StateBytes.Load())/(1<<20), "MiB")
}

// cpu is the processor time of the process, ns.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprint("BUG: getrusage: ", err))
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
