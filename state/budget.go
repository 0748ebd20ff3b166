package state

import "sync/atomic"

// Budget is the accountant of a job's memory for state (tidemark.state.memory): all Memory of its
// operators is counted in it, and whatever else is told to Add. It refuses nothing: tables that may
// spill make room when it is exceeded (Spill.Between). Safe for concurrent use; a nil Budget counts
// nothing and is never exceeded.
type Budget struct {
	limit int64
	used  atomic.Int64
	// spillable is the part of used that belongs to tables that may spill.
	spillable atomic.Int64
	// reusable is the part of used that is free within what records keep outside of themselves.
	reusable atomic.Int64
	// outside is the part of used that is not in Go's heap.
	outside atomic.Int64
	heap    *heapShare // of what is left for Go's heap
}

// NewBudget returns an accountant of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit, heap: newHeapShare()} }

// NewMemory is the NewMemory of a job's operator.
func (b *Budget) NewMemory() *Memory {
	m := NewMemory()
	m.budget = b
	return m
}

// mapped says that n bytes of those counted are outside of Go's heap.
func (b *Budget) mapped(n int64) {
	if b != nil {
		b.outside.Add(n)
	}
}

// Add counts n bytes more, or less where n is negative.
func (b *Budget) Add(n int64) {
	if b != nil {
		b.used.Add(n)
	}
}

// Used is the number of bytes counted, Limit what they should stay below.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Limit is the size of the budget in bytes.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 1<<63 - 1
	}
	return b.limit
}

// dirtyRoom is how many bytes of changed records, of all operators together, wait for a freeze while memory
// is short. What is frozen at a time becomes a table of the store's, and these are merged when there are a
// few, at the cost of all that they lie above: few and large ones cost less. A sixteenth of the budget is
// what memory has room for; more than 16 MiB at a time, where a budget is not larger than 1 GiB, would
// stand still for long.
func (b *Budget) dirtyRoom() int64 { return max(b.limit/64, min(b.limit/16, 16<<20)) }

// slack is what tables leave free: for what a batch adds, and for changes on their way to the store.
func (b *Budget) slack() int64 { return b.limit / 16 }
