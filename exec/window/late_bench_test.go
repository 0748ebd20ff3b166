package window_test

import (
	"fmt"
	"math/rand"
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

// withLate makes one row in so many come late by behind ms, by some minutes.
func withLate(g *bids, one int, behind int64) *bids {
	if one == 0 {
		return g
	}
	r := rand.New(rand.NewSource(3))
	for _, b := range g.batches {
		for i := range b.N {
			if r.Intn(one) == 0 {
				b.Cols[2].I64[i] -= behind + r.Int63n(300_000)
			}
		}
	}
	return g
}

// BenchmarkLate is what late rows cost: none, 5 % that are dropped, 5 % that go to a late sink, and 5 % that
// correct windows within the allowed lateness (shown with each batch, and by the clock).
func BenchmarkLate(b *testing.B) {
	const late = 20
	for _, w := range []plan.Window{{Kind: plan.Tumble, Size: 10_000}, {Kind: plan.Hop, Size: 10_000, Step: 2000},
		{Kind: plan.Session, Size: 1000}} {
		for _, c := range []struct {
			name     string
			one      int
			sink     bool
			lateness int64
			fire     int64
			final    bool
		}{
			{"none", 0, false, 0, -1, false}, {"dropped", late, false, 0, -1, false}, {"sink", late, true, 0, -1, false},
			{"final,none", 0, false, 60_000, -1, true}, {"final", late, true, 60_000, -1, true},
			{"corrected,none", 0, false, 60_000, 1000, false}, {"corrected", late, true, 60_000, 1000, false},
		} {
			b.Run(fmt.Sprintf("%s/%s", w.Kind, c.name), func(b *testing.B) {
				cs := exectest.Case{Schema: bidSchema}
				aggs, err := cs.Aggs("COUNT(*); SUM(price)", true)
				if err != nil {
					b.Fatal(err)
				}
				w := w
				w.TimeCol = 2
				n := &plan.WindowAgg{Window: w, Keys: []int{0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: c.fire, FinalOnly: c.final,
					AllowedLatenessMs: c.lateness, Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}}
				o, err := window.NewAgg(n, bidSchema, outSchema(bidSchema, n))
				if err != nil {
					b.Fatal(err)
				}
				if c.sink {
					o = &lateSink{Operator: o}
				}
				behind := int64(15_000) // beyond the window; within the lateness for a part
				exectest.Bench(b, o, withLate(newBids(300, 1000, 100_000, false), c.one, behind).next)
			})
		}
	}
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
			g := withLate(newBids(20, 500, 40_000, false), 20, 1500)
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
