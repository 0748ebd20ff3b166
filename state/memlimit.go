package state

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Go's collector lets garbage grow to the size of what is alive, and knows nothing of slabs outside
// of its heap. So where tables are pressed for memory, the collector is told what they leave to it
// (debug.SetMemoryLimit): what the budgets have in all, less what is outside of the heap, and some for
// the rest of the program. A limit that somebody has set, by GOMEMLIMIT or otherwise, is left alone.

const (
	// heapRest is what the rest of the program gets, bytes.
	heapRest = 48 << 20
	// heapRoom is what garbage may take at least: less would have the collector run all the time.
	heapRoom = 32 << 20
	// governed is the least budget for which the limit is set.
	governed = 64 << 20
	// governEvery is at which of the calls the limit is looked at again.
	governEvery = 64
)

var heapLimit struct {
	mu     sync.Mutex
	shares map[*heapShare]struct{}
	set    int64 // the limit that was set; 0: none
	sample []metrics.Sample
}

// heapShare is what one budget leaves to Go's heap, bytes.
type heapShare struct {
	bytes int64
	calls int
	mu    sync.Mutex
}

func newHeapShare() *heapShare { return &heapShare{} }

// govern sets the limit anew now and then.
func (b *Budget) govern() {
	if b.limit < governed {
		return
	}
	h := b.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls++; h.calls%governEvery != 1 {
		return
	}
	heapLimit.mu.Lock()
	defer heapLimit.mu.Unlock()
	if heapLimit.shares == nil {
		heapLimit.shares = map[*heapShare]struct{}{}
	}
	if _, known := heapLimit.shares[h]; !known {
		heapLimit.shares[h] = struct{}{}
		// The limit goes with the budget.
		runtime.AddCleanup(b, func(h *heapShare) {
			heapLimit.mu.Lock()
			defer heapLimit.mu.Unlock()
			delete(heapLimit.shares, h)
			limitHeap()
		}, h)
	}
	h.bytes = b.limit - b.outside.Load()
	limitHeap()
}

// limitHeap sets the limit to what the shares come to. Call with heapLimit.mu held.
func limitHeap() {
	now := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") != "" || now != math.MaxInt64 && now != heapLimit.set {
		return
	}
	limit := int64(math.MaxInt64)
	if len(heapLimit.shares) > 0 {
		limit = heapRest
		for h := range heapLimit.shares {
			limit += h.bytes
		}
		if heapLimit.sample == nil {
			heapLimit.sample = []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		}
		metrics.Read(heapLimit.sample)
		live := int64(heapLimit.sample[0].Value.Uint64() + heapLimit.sample[1].Value.Uint64())
		limit = max(limit, live+live/4+heapRoom)
	}
	debug.SetMemoryLimit(limit)
	heapLimit.set = limit
}
