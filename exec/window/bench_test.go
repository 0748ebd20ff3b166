package window_test

import (
	"fmt"
	"math"
	"math/rand"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var bidSchema = types.NewSchema(
	types.Field{Name: "auction", Type: types.BigIntType},
	types.Field{Name: "price", Type: types.BigIntType},
	types.Field{Name: "ts", Type: types.TimestampType(3)},
)

// bids makes batches of bids: perSecond of them a second of event time, keys of a moving range.
// A few hundred batches are made ahead and used in turn with their times moved on.
type bids struct {
	batches []*vec.Batch
	span    int64 // event time of all batches
	move    int64 // by how much keys move on with every turn
}

func newBids(n, keys, perSecond int, move bool) *bids {
	r := rand.New(rand.NewSource(1))
	g := &bids{}
	at := 0
	for range n {
		b := vec.NewBatch(bidSchema)
		b.Reset(vec.BatchRows)
		b.Stamps = make([]int64, vec.BatchRows)
		for i := range vec.BatchRows {
			t := int64(at) * 1000 / int64(perSecond)
			b.Cols[0].I64[i] = int64(r.Intn(keys))
			b.Cols[1].I64[i] = int64(r.Intn(1_000_000))
			b.Cols[2].I64[i] = t
			b.Stamps[i] = t - 1
			at++
		}
		g.batches = append(g.batches, b)
	}
	g.span = int64(at) * 1000 / int64(perSecond)
	if move {
		g.move = int64(keys) / 2
	}
	return g
}

func (g *bids) next(i int) (*vec.Batch, int64) {
	b := g.batches[i%len(g.batches)]
	if i >= len(g.batches) {
		ts := b.Cols[2].I64
		for k := range ts {
			ts[k] += g.span
			b.Stamps[k] += g.span
		}
		if g.move > 0 {
			for k := range b.Cols[0].I64 {
				b.Cols[0].I64[k] += g.move
			}
		}
	}
	return b, b.Stamps[vec.BatchRows-1]
}

// saving makes an operator note its changes, and takes a checkpoint every so many batches.
type saving struct {
	op.Operator
	every, n int
	d        state.Delta
	bytes    int
	took     time.Duration
}

// Open implements op.Operator.
func (s *saving) Open(c *op.Context, out op.Output) error {
	cc := *c
	cc.Saves = true
	return s.Operator.Open(&cc, out)
}

// Watermark implements op.Operator.
func (s *saving) Watermark(wm int64) error {
	if err := s.Operator.Watermark(wm); err != nil {
		return err
	}
	if s.n++; s.n%s.every > 0 {
		return nil
	}
	s.d.Reset()
	at := time.Now()
	err := s.Operator.(op.Stateful).Freeze(&s.d)
	s.took += time.Since(at)
	s.bytes += s.d.Size()
	return err
}

// BenchmarkSaves is what checkpoints cost: none, only noting what changes, and freezing it once for
// 1000 batches (about 2 million rows).
func BenchmarkSaves(b *testing.B) {
	for _, w := range []plan.Window{{Kind: plan.Tumble, Size: 10_000}, {Kind: plan.Hop, Size: 10_000, Step: 2000},
		{Kind: plan.Cumulate, Size: 10_000, Step: 2000}, {Kind: plan.Session, Size: 1000}} {
		for _, every := range []int{0, math.MaxInt, 1000} {
			name := map[int]string{0: "off", math.MaxInt: "noted", 1000: "frozen"}[every]
			b.Run(fmt.Sprintf("%s/%s", w.Kind, name), func(b *testing.B) {
				o := newBenchAgg(b, w, "COUNT(*); SUM(price)", []int{0})
				g := newBids(500, 10_000, 100_000, true)
				if every == 0 {
					exectest.Bench(b, o, g.next)
					return
				}
				s := &saving{Operator: o, every: every}
				exectest.Bench(b, s, g.next)
				b.ReportMetric(float64(s.bytes)/float64(max(1, s.n/every))/(1<<20), "MiB/freeze")
				b.ReportMetric(float64(s.took.Milliseconds())/float64(max(1, s.n/every)), "ms/freeze")
			})
		}
	}
}

func newBenchAgg(b *testing.B, w plan.Window, list string, keys []int) op.Operator {
	c := exectest.Case{Schema: bidSchema}
	aggs, err := c.Aggs(list, len(keys) > 0)
	if err != nil {
		b.Fatal(err)
	}
	w.TimeCol = 2
	n := &plan.WindowAgg{Window: w, Keys: keys, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1, Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}}
	o, err := window.NewAgg(n, bidSchema, outSchema(bidSchema, n))
	if err != nil {
		b.Fatal(err)
	}
	return o
}

func benchAgg(b *testing.B, w plan.Window, list string, keys []int, g *bids) {
	exectest.Bench(b, newBenchAgg(b, w, list, keys), g.next)
}

// BenchmarkQ5w counts bids an auction in a hop of 10 s by 2 s.
func BenchmarkQ5w(b *testing.B) {
	for _, keys := range []int{1000, 30_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			benchAgg(b, plan.Window{Kind: plan.Hop, Size: 10_000, Step: 2000}, "COUNT(*)", []int{0},
				newBids(500, keys, 100_000, true))
		})
	}
}

// BenchmarkQ5wLocal is the local phase of Q5w alone, as each of several lanes does it.
func BenchmarkQ5wLocal(b *testing.B) {
	c := exectest.Case{Schema: bidSchema}
	aggs, err := c.Aggs("COUNT(*)", true)
	if err != nil {
		b.Fatal(err)
	}
	n := &plan.WindowAgg{Window: plan.Window{Kind: plan.Hop, Size: 10_000, Step: 2000, TimeCol: 2}, Keys: []int{0}, Aggs: aggs,
		EarlyFireMs: -1, LateFireMs: -1, Phase: plan.LocalPhase}
	out := types.NewSchema(bidSchema.Fields[0], types.Field{Name: "$acc", Type: types.BytesType.NotNull()},
		types.Field{Name: "$slice_end", Type: types.BigIntType.NotNull()})
	o, err := window.NewAgg(n, bidSchema, out)
	if err != nil {
		b.Fatal(err)
	}
	exectest.Bench(b, o, newBids(500, 1000, 10_000, true).next)
}

// BenchmarkQ7w takes the highest price and the number of bids in a tumble of 10 s.
func BenchmarkQ7w(b *testing.B) {
	benchAgg(b, plan.Window{Kind: plan.Tumble, Size: 10_000}, "MAX(price); COUNT(*)", nil, newBids(500, 1000, 100_000, false))
}

// BenchmarkQ11 counts the bids of a bidder in sessions with a gap of 10 s.
func BenchmarkQ11(b *testing.B) {
	for _, keys := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			benchAgg(b, plan.Window{Kind: plan.Session, Size: 10_000}, "COUNT(*)", []int{0}, newBids(500, keys, 10_000, true))
		})
	}
}

// BenchmarkDay compares a hop of 24 hours by one minute with a tumble of one minute: 1000 keys,
// about 3500 rows a minute.
func BenchmarkDay(b *testing.B) {
	for _, list := range []string{"COUNT(*); SUM(price)", "COUNT(*); MAX(price)"} {
		for _, w := range []plan.Window{{Kind: plan.Tumble, Size: 60_000}, {Kind: plan.Hop, Size: 24 * 3600_000, Step: 60_000}} {
			b.Run(fmt.Sprintf("%s/%s", list, w.Kind), func(b *testing.B) {
				benchAgg(b, w, list, []int{0}, newBids(500, 1000, 58, false))
			})
		}
	}
}
