package window_test

import (
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// lateSink gives an operator somebody who wants the late rows.
type lateSink struct {
	op.Operator
	rows, windows int64
}

// Open implements op.Operator.
func (l *lateSink) Open(c *op.Context, out op.Output) error {
	cc := *c
	cc.Label = "TumbleAggregate(by auction)"
	cc.Late = func(b *vec.Batch) error { l.rows += int64(b.Rows()); return nil }
	cc.Missed = func(_, _, _ int64) { l.windows++ }
	return l.Operator.Open(&cc, out)
}

// withLate makes one row in so many come late, by after ms and at most within more.
func withLate(g *bids, one int, after, within int64) *bids {
	r := rand.New(rand.NewSource(3))
	for _, b := range g.batches {
		for i := range b.N {
			if r.Intn(one) == 0 {
				b.Cols[2].I64[i] -= after + r.Int63n(within)
			}
		}
	}
	return g
}

// lateVariants are ways to deal with rows that come late.
var lateVariants = []struct {
	name           string
	sink           bool
	lateness, fire int64
	final          bool
	after          int64 // how much later than their time rows come, at least
	within         int64 // and by how much more at most
}{
	{"dropped", false, 0, -1, false, 15_000, 300_000},
	{"sink", true, 0, -1, false, 15_000, 300_000},
	{"final", true, 60_000, -1, true, 15_000, 300_000},
	{"final,kept", true, 60_000, -1, true, 15_000, 45_000},
	{"corrected", true, 60_000, 1000, false, 15_000, 300_000},
}

// BenchmarkLate is what late rows cost: the throughput of an operator that gets 5 % of them, in percent of
// that of the same operator which gets none. They are dropped; go to a late sink; come to windows that show
// final results only, most too late even for these, or all in time for some; or correct windows that have been
// shown, most too late for that. The two operators take turns, so that other work on the machine disturbs
// both; what counts is the processor time of this thread in the median turn, with all that fires in it.
func BenchmarkLate(b *testing.B) {
	const late = 20
	for _, w := range []plan.Window{{Kind: plan.Tumble, Size: 10_000}, {Kind: plan.Hop, Size: 10_000, Step: 2000},
		{Kind: plan.Cumulate, Size: 10_000, Step: 2000}, {Kind: plan.Session, Size: 1000}} {
		w.TimeCol = 2
		for _, c := range lateVariants {
			b.Run(fmt.Sprintf("%s/%s", w.Kind, c.name), func(b *testing.B) {
				cs := exectest.Case{Schema: bidSchema}
				aggs, err := cs.Aggs("COUNT(*); SUM(price)", true)
				if err != nil {
					b.Fatal(err)
				}
				n := &plan.WindowAgg{Window: w, Keys: []int{0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: c.fire, FinalOnly: c.final,
					AllowedLatenessMs: c.lateness, Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}}
				var turns [2]turn
				for i := range turns {
					o, err := window.NewAgg(n, bidSchema, outSchema(bidSchema, n))
					if err != nil {
						b.Fatal(err)
					}
					if c.sink {
						o = &lateSink{Operator: o}
					}
					turns[i] = turn{o: o, g: newBids(300, 1000, 100_000, false)}
				}
				turns[1].g = withLate(turns[1].g, late, c.after, c.within)
				benchTurns(b, &turns)
			})
		}
	}
}

// turn is an operator that takes turns with another one, and what its turns took.
type turn struct {
	o    op.Operator
	g    *bids
	at   int
	took []int64
}

func (t *turn) take(b *testing.B) {
	start := threadTime()
	for range t.g.batches {
		batch, wm := t.g.next(t.at)
		t.at++
		if err := t.o.Process(0, batch); err != nil {
			b.Fatal(err)
		}
		if err := t.o.Watermark(wm); err != nil {
			b.Fatal(err)
		}
	}
	t.took = append(t.took, threadTime()-start)
}

// threadTime is the processor time of the thread, in ns.
func threadTime() int64 {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(fmt.Sprint("BUG: getrusage: ", err))
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// benchTurns lets the operators take turns, and reports of each the median a row, and in percent how many
// rows the second takes while the first takes 100.
func benchTurns(b *testing.B, turns *[2]turn) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range turns {
		t := &turns[i]
		if err := t.o.Open(benchContext(), &exectest.Discard{}); err != nil {
			b.Fatal(err)
		}
		defer t.o.Close()
		for range 12 { // beyond all lateness
			t.take(b)
		}
		t.took = t.took[:0]
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for i := range turns {
			turns[i].take(b)
		}
	}
	var ns [2]float64
	for i := range turns {
		slices.Sort(turns[i].took)
		ns[i] = float64(turns[i].took[len(turns[i].took)/2]) / float64(len(turns[i].g.batches)*vec.BatchRows)
	}
	b.ReportMetric(ns[0], "without-ns/row")
	b.ReportMetric(ns[1], "with-ns/row")
	b.ReportMetric(100*ns[0]/ns[1], "%")
}

func benchContext() *op.Context {
	return &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{},
		Now: func() int64 { return 0 }, BatchRows: vec.BatchRows}
}

// TestLate_Allocations: late rows, corrections and causes allocate nothing for a row.
func TestLate_Allocations(t *testing.T) {
	c := exectest.Case{Schema: bidSchema}
	aggs, err := c.Aggs("COUNT(*); SUM(price)", true)
	if err != nil {
		t.Fatal(err)
	}
	told := []plan.WindowProp{plan.WindowEnd, plan.WindowReason, plan.WindowCount, plan.WindowCause}
	for _, w := range []plan.Window{{Kind: plan.Tumble, Size: 500}, {Kind: plan.Hop, Size: 1000, Step: 500}, {Kind: plan.Session, Size: 20}} {
		w.TimeCol = 2
		for name, n := range map[string]plan.WindowAgg{
			"late":      {EarlyFireMs: -1, LateFireMs: -1},
			"final":     {EarlyFireMs: -1, LateFireMs: -1, FinalOnly: true, AllowedLatenessMs: 200},
			"corrected": {EarlyFireMs: -1, LateFireMs: -1, AllowedLatenessMs: 2000},
			"rows":      {EarlyFireMs: -1, LateFireMs: -1, EarlyFireRows: 3, LateFireRows: 2, AllowedLatenessMs: 2000, Props: told},
			"early":     {EarlyFireMs: 0, LateFireMs: 0, AllowedLatenessMs: 200, Props: told},
		} {
			n.Window, n.Keys, n.Aggs, n.Late = w, []int{0}, aggs, true
			o, err := window.NewAgg(&n, bidSchema, outSchema(bidSchema, &n))
			if err != nil {
				t.Fatal(err)
			}
			sink := &lateSink{Operator: o}
			ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{}, Saves: true,
				Now: func() int64 { return 0 }}
			if err := sink.Open(ctx, &exectest.Discard{}); err != nil {
				t.Fatal(err)
			}
			g := withLate(newBids(20, 500, 40_000, false), 20, 1500, 300_000)
			origin := &vec.Origin{Source: "bids", Split: "bids-0", Unit: "offset"}
			pos := make([]int64, vec.BatchRows)
			var d state.Delta
			i := 0
			push := func() {
				b, wm := g.next(i)
				b.Origin, b.Pos = origin, pos
				for k := range pos {
					pos[k] = int64(i*vec.BatchRows + k)
				}
				if i++; i%8 == 0 {
					d.Reset()
					if err := o.(op.Stateful).Freeze(&d); err != nil {
						t.Fatal(err)
					}
				}
				if err := sink.Process(0, b); err != nil {
					t.Fatal(err)
				}
				if err := o.Watermark(wm); err != nil {
					t.Fatal(err)
				}
			}
			for range 120 {
				push()
			}
			const most = 24 // of 2048 rows
			if n := testing.AllocsPerRun(30, push); n > most {
				t.Errorf("%s, %s: %v allocations a batch", w.Kind, name, n)
			}
			if sink.rows == 0 || sink.windows == 0 {
				t.Errorf("%s, %s: no late rows", w.Kind, name)
			}
			o.Close()
		}
	}
}
