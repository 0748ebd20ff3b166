package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// discard takes what an operator emits.
type discard struct{}

// Emit implements op.Output.
func (discard) Emit(*vec.Batch) error { return nil }

// Watermark implements op.Output.
func (discard) Watermark(int64) error { return nil }

// pauses measures how long a job stands still at a checkpoint: an aggregation (COUNT and SUM by a
// BIGINT) holds -state bytes, -dirty of its keys change, at random, and what changed is written down as
// it is while rows wait. The rest of a checkpoint happens beside the job.
func pauses() error {
	bigint := types.BigIntType.NotNull()
	in := types.NewSchema(types.Field{Name: "k", Type: bigint}, types.Field{Name: "v", Type: bigint})
	out := types.NewSchema(types.Field{Name: "k", Type: bigint}, types.Field{Name: "n", Type: bigint}, types.Field{Name: "s", Type: bigint})
	n := &plan.GroupAgg{Keys: []int{0}, Aggs: []plan.AggCall{{Fn: "COUNT", Filter: -1, T: bigint},
		{Fn: "SUM", Args: []int{1}, Consts: make([]*expr.Literal, 1), ArgTypes: []types.Type{bigint}, Filter: -1, T: bigint}}}
	o, err := groupagg.New(n, in, out)
	if err != nil {
		return err
	}
	counters := &op.Counters{}
	ctx := &op.Context{Env: &expr.Env{}, Counters: counters, Now: func() int64 { return 0 }, Parallelism: 1, MaxParallelism: groups, Saves: true}
	if err := o.Open(ctx, discard{}); err != nil {
		return err
	}
	b := vec.NewBatch(in)
	b.Reset(vec.BatchRows)
	held := 0
	for ; counters.StateBytes.Load() < *stateBytes; held += vec.BatchRows {
		for i := range b.N {
			b.Cols[0].I64[i], b.Cols[1].I64[i] = spread(uint64(held+i)), int64(i)
		}
		if err := o.Process(0, b); err != nil {
			return err
		}
	}
	st := o.(op.Stateful)
	runtime.LockOSThread() // whose CPU time is read
	var cpu []time.Duration
	freeze := func() (time.Duration, int, error) {
		begin, used := time.Now(), threadTime()
		var d state.Delta
		err := st.Freeze(&d)
		cpu = append(cpu, threadTime()-used)
		return time.Since(begin), d.Len(), err
	}
	if _, _, err := freeze(); err != nil { // of all of them, which a job does in pieces
		return err
	}
	var took []time.Duration
	dirty := 0
	for range *rounds {
		for left := int(*dirtyShare * float64(held)); left > 0; left -= vec.BatchRows {
			for i := range b.N {
				b.Cols[0].I64[i] = spread(rand.Uint64N(uint64(held)))
			}
			if err := o.Process(0, b); err != nil {
				return err
			}
		}
		t, changes, err := freeze()
		if err != nil {
			return err
		}
		took, dirty = append(took, t), dirty+changes
	}
	fmt.Printf("%d MiB of state, %d keys, %.2f %% of them dirty at each of %d checkpoints: pause %.1f ms (median), %.1f ms (worst); "+
		"CPU time %.1f ms (median), %.1f ms (worst)\n", counters.StateBytes.Load()>>20, held, 100*float64(dirty)/float64(*rounds)/float64(held),
		*rounds, ms(median(took)), ms(slices.Max(took)), ms(median(cpu[1:])), ms(slices.Max(cpu[1:])))
	return o.Close()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// threadTime is the CPU time of the calling thread: what a pause would be if nobody else were there.
func threadTime() time.Duration {
	const rusageThread = 1
	var u syscall.Rusage
	_ = syscall.Getrusage(rusageThread, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
