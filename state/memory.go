package state

import "sync/atomic"

// Memory is the accountant of an operator's slabs, and the place they come from. Memory of at
// least mapWords words is mapped anonymously, outside Go's heap; less comes from the heap (it
// holds no pointers, so the collector does not scan it either).
type Memory struct {
	used  atomic.Int64 // bytes handed out
	spare [][]uint64   // whole chunks given back, kept for the next table
}

const (
	mapWords = 1 << 15
	// spareChunks bounds what is kept for reuse: windows give back chunks as fast as they take
	// new ones, and unmapping costs a page fault for each page when the next window comes.
	spareChunks = 64
)

// NewMemory returns an accountant that has handed out nothing.
func NewMemory() *Memory { return &Memory{} }

// Bytes is what the slabs in use take.
func (m *Memory) Bytes() int64 { return m.used.Load() }

// alloc returns n words. They are zero if zero is set, else undefined.
func (m *Memory) alloc(n int, zero bool) []uint64 {
	m.used.Add(int64(n) * 8)
	if n == chunkWords && len(m.spare) > 0 {
		w := m.spare[len(m.spare)-1]
		m.spare = m.spare[:len(m.spare)-1]
		if zero {
			clear(w)
		}
		return w
	}
	if n >= mapWords {
		return mapMemory(n)
	}
	return make([]uint64, n)
}

// release takes back what alloc returned.
func (m *Memory) release(w []uint64) {
	if len(w) == 0 {
		return
	}
	m.used.Add(-int64(len(w)) * 8)
	if len(w) == chunkWords && len(m.spare) < spareChunks {
		m.spare = append(m.spare, w)
		return
	}
	if len(w) >= mapWords {
		unmapMemory(w)
	}
}

// Close unmaps what is kept for reuse. Tables must have been released before.
func (m *Memory) Close() {
	for _, w := range m.spare {
		unmapMemory(w)
	}
	m.spare = nil
}
