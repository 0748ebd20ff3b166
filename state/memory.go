package state

import "sync/atomic"

// Memory is the accountant of an operator's slabs, and the place they come from. Memory of at
// least mapWords words is mapped anonymously, outside Go's heap; less comes from the heap (it
// holds no pointers, so the collector does not scan it either). Chunks of records are cut from
// arenas that are aligned for large pages.
type Memory struct {
	used atomic.Int64 // bytes handed out
	// budget, which may be nil, counts them too.
	budget *Budget
	spare  [][]uint64 // chunks given back, kept for the next table
	cold   [][]uint64 // more of them, whose pages were given back to the system
	// arena is where the next chunk is cut from; arenas are all there are.
	arena  []uint64
	arenas []mapping
}

const (
	mapWords = 1 << 15
	// spareChunks bounds what is kept for reuse: windows give back chunks as fast as they take
	// new ones, and pages given back cost a fault each when the next window comes.
	spareChunks = 64
	// arenaChunks is the chunks of an arena: only those in use take memory.
	arenaChunks = 32
)

// NewMemory returns an accountant that has handed out nothing.
func NewMemory() *Memory { return &Memory{} }

// Bytes is what the slabs in use take.
func (m *Memory) Bytes() int64 { return m.used.Load() }

// alloc returns n words. They are zero if zero is set, else undefined.
func (m *Memory) alloc(n int, zero bool) []uint64 {
	m.used.Add(int64(n) * 8)
	m.budget.Add(int64(n) * 8)
	if n == chunkWords {
		m.budget.mapped(int64(n) * 8)
	}
	if n == chunkWords && len(m.spare) > 0 {
		w := m.spare[len(m.spare)-1]
		m.spare = m.spare[:len(m.spare)-1]
		if zero {
			clear(w)
		}
		return w
	}
	if n == chunkWords {
		return m.chunk()
	}
	if n >= mapWords {
		m.budget.mapped(int64(n) * 8)
		return mapMemory(n)
	}
	return make([]uint64, n)
}

// chunk returns a chunk of zeros.
func (m *Memory) chunk() []uint64 {
	if n := len(m.cold); n > 0 {
		w := m.cold[n-1]
		m.cold = m.cold[:n-1]
		clear(w)
		return w
	}
	if len(m.arena) == 0 {
		a, words := mapArena(arenaChunks * chunkWords)
		m.arenas, m.arena = append(m.arenas, a), words
	}
	w := m.arena[:chunkWords:chunkWords]
	m.arena = m.arena[chunkWords:]
	return w
}

// release takes back what alloc returned.
func (m *Memory) release(w []uint64) {
	if len(w) == 0 {
		return
	}
	m.used.Add(-int64(len(w)) * 8)
	m.budget.Add(-int64(len(w)) * 8)
	if len(w) >= mapWords {
		m.budget.mapped(-int64(len(w)) * 8)
	}
	if len(w) == chunkWords {
		// Where memory is short, what is given back is to be free.
		if len(m.spare) < spareChunks && (m.budget == nil || m.budget.Used() < m.budget.limit/2) {
			m.spare = append(m.spare, w)
		} else {
			discard(w)
			m.cold = append(m.cold, w)
		}
		return
	}
	if len(w) >= mapWords {
		unmapMemory(w)
	}
}

// Close unmaps the arenas. Tables must have been released before.
func (m *Memory) Close() {
	for _, a := range m.arenas {
		a.unmap()
	}
	m.spare, m.cold, m.arena, m.arenas = nil, nil, nil, nil
}
