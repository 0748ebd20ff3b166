package main

import (
	"encoding/binary"
	"os"
	"time"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
)

// job is a table and the part of a job that freezes it and applies what was frozen.
type job struct {
	t      *state.Table
	enc    *state.Encoder
	k      *state.Keeper
	b      *state.Budget
	sp     *state.Spill
	st     *store.Store
	jobs   chan frozen
	free   chan *state.Delta
	err    chan error
	waited time.Duration
	cuts   *cuts
}

// frozen is changes on their way to the store; or, without any, a wish to be told when all before have
// got there.
type frozen struct {
	d    *state.Delta
	n    uint64
	done chan struct{}
}

const groups = 128 // key groups

// AppendValue implements state.Codec.
func (j *job) AppendValue(dst []byte, rec uint32) []byte {
	for _, x := range j.t.At(rec)[j.t.Base():] {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return dst
}

// LoadValue implements state.Codec.
func (j *job) LoadValue(rec uint32, v []byte) error {
	w := j.t.At(rec)[j.t.Base():]
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(v[8*i:])
	}
	return nil
}

// DropValue implements state.Dropper.
func (j *job) DropValue(uint32) {}

// table makes the table, with memory of b.
func (j *job) table(b *state.Budget) {
	l := state.NewLayout([]types.Type{types.BigIntType.NotNull()}, false)
	j.b = b
	j.t, j.enc = state.NewTable(b.NewMemory(), l, []uint64{0, 0}), state.NewEncoder(l)
	j.k = &state.Keeper{MaxParallelism: groups, Codec: j, Check: func(int) {}}
}

// storeMemory is the store's part of the budget.
func storeMemory() int64 {
	if *share > 0 {
		return *share
	}
	return *budget / 8
}

func storeOptions() store.Options {
	o := store.Options{MemoryBytes: storeMemory(), Compression: store.Fast}
	if !*compress {
		o.Compression = store.None
	}
	return o
}

func start(path string) (*job, error) {
	j := &job{jobs: make(chan frozen, 1), free: make(chan *state.Delta, 2), err: make(chan error, 1)}
	if *memory {
		j.table(nil)
		return j, nil
	}
	j.table(state.NewBudget(*budget))
	var err error
	if j.st, err = store.Open(path, storeOptions()); err != nil {
		return nil, err
	}
	j.sp = state.NewSpill(j.b, j.st, state.SpillOptions{Operator: 1, Hi: groups})
	j.k.Spill(j.t, j.sp)
	j.free <- &state.Delta{}
	j.free <- &state.Delta{}
	go j.apply()
	return j, nil
}

// apply hands changes to the store, beside the job.
func (j *job) apply() {
	for f := range j.jobs {
		if f.done != nil {
			close(f.done)
			continue
		}
		if err := j.st.Apply(1, f.d.Bytes()); err != nil {
			j.err <- err
			return
		}
		j.b.Add(-int64(f.d.Size()))
		f.d.Reset()
		j.sp.Applied(f.n)
		j.free <- f.d
	}
	j.err <- nil
}

// freeze hands the changes on; it waits where the store cannot keep up.
func (j *job) freeze() (time.Duration, error) {
	start := time.Now()
	select {
	case d := <-j.free:
		j.waited += time.Since(start)
		start = time.Now()
		j.k.Freeze(j.t, d)
		j.b.Add(int64(d.Size()))
		took := time.Since(start)
		j.jobs <- frozen{d: d, n: j.sp.Frozen()}
		return took, nil
	case err := <-j.err:
		return 0, err
	}
}

// between is what a job does between two batches.
func (j *job) between() error {
	if j.sp == nil {
		return nil
	}
	j.sp.Between()
	if j.sp.NeedsFreeze() {
		if _, err := j.freeze(); err != nil {
			return err
		}
	}
	if j.cuts != nil {
		return j.cuts.due(j)
	}
	return nil
}

func folder() (string, error) {
	if *dir != "" {
		return *dir, os.MkdirAll(*dir, 0o755)
	}
	return os.MkdirTemp("", "state-bench")
}
