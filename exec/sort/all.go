package sort

import (
	"bytes"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// All keeps every row and emits them sorted when the input has ended; rows with equal keys stay
// in the order they came.
//
// Where memory is short, the oldest rows are left to the store, in which they lie in the order of the
// keys: the store sorts them. At the end those and the ones in memory are merged.
type All struct {
	n      *plan.Sort
	schema types.Schema
	c      *op.Context
	out    op.Output
	chunks []*heldRows // in the order in which rows came
	low    uint64      // rows with lower numbers are in the store only
	batch  *vec.Batch
	log    log

	spill *state.Spill // nil: all rows are in memory
	held  int64        // bytes that were told
	stuck bool

	// Of Finish.
	skip, left int64 // rows to be left out, rows that may come after those; -1: all
}

// heldRows are rows in memory, of numbers from first on.
type heldRows struct {
	b     *vec.Batch
	first uint64
	saved int    // so many of them are saved
	epoch uint64 // of the freeze that saved the last
	done  bool   // no more rows are added
}

// place is where a row lies: a chunk and the position in it.
type place struct{ chunk, row int32 }

const (
	// chunkRows and chunkBytes bound a chunk, in which strings must start below 4 GiB.
	chunkRows  = 1 << 16
	chunkBytes = 1 << 30
)

// Open implements op.Operator.
func (o *All) Open(c *op.Context, out op.Output) error {
	o.c, o.out = c, out
	o.log.open(c, o.n.Keys)
	if o.log.on && c.Spill != nil {
		o.spill = c.Spill
		o.spill.Attach(o)
	}
	return nil
}

// chunk is the one that has room.
func (o *All) chunk() *heldRows {
	if n := len(o.chunks); n == 0 || o.chunks[n-1].done || full(o.chunks[n-1].b) {
		o.chunks = append(o.chunks, &heldRows{b: vec.NewBatch(o.schema), first: o.log.next})
	}
	return o.chunks[len(o.chunks)-1]
}

// Process implements op.Operator.
func (o *All) Process(_ int, b *vec.Batch) error {
	o.add(&vec.Batch{N: b.N, Cols: b.Cols}, b.Selected())
	o.count()
	return nil
}

func (o *All) add(b *vec.Batch, rows []int32) {
	o.chunk().b.Gather(b, rows)
	o.log.next += uint64(len(rows))
}

func (o *All) count() {
	if o.c.Counters != nil {
		o.c.Counters.StateEntries.Store(int64(o.log.next))
	}
}

func full(b *vec.Batch) bool {
	if b.N >= chunkRows {
		return true
	}
	for _, c := range b.Cols {
		if len(c.Buf) >= chunkBytes {
			return true
		}
	}
	return false
}

// Watermark implements op.Operator. The rows come at the end, so that only the end of time passes.
func (o *All) Watermark(int64) error { return nil }

// Finish implements op.Operator.
func (o *All) Finish() error {
	rows := o.sorted()
	total := int64(o.log.next)
	o.skip, o.left = min(o.n.Offset, total), o.n.Limit
	show := total - o.skip
	if o.left >= 0 {
		show = min(show, o.left)
	}
	if dropped := total - show; dropped > 0 && o.c.Counters != nil {
		o.c.Counters.Drop(op.DropLimit, int(dropped))
	}
	o.left = show
	o.batch.Reset(0)
	var err error
	if o.low == 0 {
		rows = rows[o.skip : o.skip+show]
		o.skip = 0
		err = o.giveAll(rows)
	} else {
		err = o.merge(rows)
	}
	if err == nil && o.batch.N > 0 {
		err = o.out.Emit(o.batch)
	}
	if err != nil {
		return err
	}
	return o.out.Watermark(vec.MaxTime)
}

// sorted are the rows in memory, in order.
func (o *All) sorted() []place {
	n := 0
	for _, c := range o.chunks {
		n += c.b.N
	}
	rows := make([]place, 0, n)
	for k, c := range o.chunks {
		for i := range c.b.N {
			rows = append(rows, place{int32(k), int32(i)})
		}
	}
	slices.SortStableFunc(rows, func(x, y place) int {
		return compareRows(o.n.Keys, o.chunks[x.chunk].b.Cols, int(x.row), o.chunks[y.chunk].b.Cols, int(y.row))
	})
	return rows
}

// merge emits the rows in memory and those in the store only.
func (o *All) merge(rows []place) (err error) {
	var own []byte // what rows[0] has, or would have, for a key in the store
	next := func() {
		if len(rows) > 0 {
			c := o.chunks[rows[0].chunk]
			own = o.log.key(own[:0], c.b.Cols, int(rows[0].row), c.first+uint64(rows[0].row))
		}
	}
	next()
	e := o.spill.Entries(0, o.log.group, nil, nil, func(key, value []byte) bool {
		n, ok := number(key)
		if !ok {
			err = errSaved
			return false
		}
		if n >= o.low {
			return true // in memory, too
		}
		for len(rows) > 0 && bytes.Compare(own, key) < 0 {
			if err = o.giveAll(rows[:1]); err != nil {
				return false
			}
			rows = rows[1:]
			next()
		}
		err = o.giveSaved(value)
		return err == nil && o.left > 0
	})
	if err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return o.giveAll(rows)
}

// take reports whether the next row is to be shown.
func (o *All) take() bool {
	switch {
	case o.skip > 0:
		o.skip--
		return false
	case o.left == 0:
		return false
	}
	o.left--
	return true
}

// giveAll adds rows in memory to what is emitted.
func (o *All) giveAll(rows []place) error {
	var one [1]int32
	for _, r := range rows {
		if !o.take() {
			continue
		}
		one[0] = r.row
		o.batch.Gather(o.chunks[r.chunk].b, one[:])
		if err := o.sent(); err != nil {
			return err
		}
	}
	return nil
}

// giveSaved adds a row of the store.
func (o *All) giveSaved(value []byte) error {
	if !o.take() {
		return nil
	}
	if err := decodeRow(value, o.schema, o.batch); err != nil {
		return err
	}
	o.batch.Kinds = nil
	return o.sent()
}

// sent emits a full batch.
func (o *All) sent() error {
	if o.batch.N < vec.BatchRows {
		return nil
	}
	err := o.out.Emit(o.batch)
	o.batch.Reset(0)
	return err
}

// Close implements op.Operator.
func (o *All) Close() error {
	if o.spill != nil {
		o.tell(0)
		o.spill.Detach(o)
	}
	return nil
}

// tell says how many bytes are held.
func (o *All) tell(bytes int64) {
	o.c.Budget.Add(bytes - o.held)
	o.spill.Hold(o.held, bytes)
	o.held = bytes
}

// Between implements state.Spiller: the oldest rows that the store has are left to it.
func (o *All) Between() {
	held := int64(0)
	for _, c := range o.chunks {
		held += c.b.Bytes()
	}
	o.tell(held)
	excess := o.spill.Excess(held)
	for excess > 0 && len(o.chunks) > 0 {
		c := o.chunks[0]
		if c.saved < c.b.N || !o.spill.Has(c.epoch) {
			break
		}
		n := c.b.Bytes()
		excess, held = excess-n, held-n
		o.low = c.first + uint64(c.b.N)
		o.chunks[0] = nil
		o.chunks = o.chunks[1:]
		state.CountEvicted(c.b.N)
	}
	o.stuck = excess > 0
	o.tell(held)
}

// NeedsFreeze implements state.Spiller.
func (o *All) NeedsFreeze() bool {
	if o.log.frozen == o.log.next {
		return false
	}
	return o.stuck && !o.spill.Pending() || o.spill.Much(int64(o.Dirty()), o.held)
}

// Freeze implements op.Stateful; rows of All only come.
func (o *All) Freeze(d *state.Delta) error {
	for _, c := range o.chunks {
		if c.saved == c.b.N {
			continue
		}
		for ; c.saved < c.b.N; c.saved++ {
			o.log.put(d, c.first+uint64(c.saved), c.b, c.saved)
		}
		if o.spill != nil {
			c.epoch, c.done = o.spill.Epoch(), true
		}
	}
	o.log.freeze(d)
	return nil
}

// Dirty implements op.Stateful.
func (o *All) Dirty() int { return int(o.log.next-o.log.frozen) * rowBytes(o.schema) }

// Head implements op.Stateful: the number of the next row (8 bytes, little endian).
func (o *All) Head(dst []byte) ([]byte, error) { return o.log.head(dst), nil }

// Restore implements op.Stateful.
func (o *All) Restore(saved state.Saved, heads [][]byte) error {
	for _, h := range heads {
		if len(h) != 8 {
			return errSaved
		}
		o.log.restoreHead(h)
	}
	if o.spill.Stored() {
		o.low, o.log.frozen = o.log.next, o.log.next
		o.count()
		return nil
	}
	b, numbers, err := o.log.restore(saved, o.schema)
	if err != nil {
		return err
	}
	if len(numbers) > 0 && numbers[len(numbers)-1] != uint64(len(numbers)-1) {
		return errSaved // rows of All do not go
	}
	o.log.next = 0
	rows := vec.Positions(b.N)
	for len(rows) > 0 {
		n := min(len(rows), vec.BatchRows)
		o.add(&vec.Batch{N: b.N, Cols: b.Cols}, rows[:n])
		rows = rows[n:]
	}
	for _, c := range o.chunks {
		c.saved, c.done = c.b.N, o.spill != nil
	}
	o.log.frozen = o.log.next
	o.count()
	return nil
}
