package window

// missedWindows counts, for the batch at hand, the rows that are late for each window. Windows may be as many as
// the rows, and the same ones mostly come again, so aligned windows whose ends are not far from those of the first
// one are counted in place; there a row that is late for many windows takes as long as for one. Others are looked
// up.
type missedWindows struct {
	shape
	list []missedWindow       // of others
	at   map[missedWindow]int // where in list; keys have no rows
	last int                  // the one that was counted last

	// change[i] is by how many rows more are late for the window that ends at base + i*step than for the one before.
	// What is outside from and to is 0.
	change   []int64
	base     int64
	from, to int64
}

// nearWindows is how many windows are counted in place, the first one in the middle.
const nearWindows = 1 << 12

// missedWindow is a window and, but in a key, the number of rows late for it.
type missedWindow struct{ start, end, rows int64 }

// newMissedWindows returns a counter of windows of a shape, whose step is 0 where they are not aligned.
func newMissedWindows(s shape) *missedWindows {
	m := &missedWindows{shape: s, at: map[missedWindow]int{}}
	if s.step > 0 {
		m.change = make([]int64, nearWindows+1)
	}
	return m
}

// add counts a row for n windows, of which the first is the one from start to end.
func (m *missedWindows) add(n, start, end int64) {
	if m.step > 0 {
		if m.from == m.to {
			m.base = end - nearWindows/2*m.step
		}
		i := (end - m.base) / m.step
		if i >= 0 && i+n <= nearWindows {
			m.change[i]++
			m.change[i+n]--
			if m.from == m.to {
				m.from, m.to = i, i+n
			}
			m.from, m.to = min(m.from, i), max(m.to, i+n)
			return
		}
	}
	for range n {
		m.look(start, end)
		end += m.step
		if m.step > 0 {
			start = m.start(end)
		}
	}
}

// look counts a row for a window that is looked up.
func (m *missedWindows) look(start, end int64) {
	key := missedWindow{start: start, end: end}
	if m.last < len(m.list) {
		if w := &m.list[m.last]; w.start == start && w.end == end {
			w.rows++
			return
		}
	}
	i, ok := m.at[key]
	if !ok {
		i = len(m.list)
		m.at[key] = i
		m.list = append(m.list, key)
	}
	m.last = i
	m.list[i].rows++
}

// tell calls f with what was counted, and starts again.
func (m *missedWindows) tell(f func(start, end, rows int64)) {
	rows := int64(0)
	for i := m.from; i < m.to; i++ {
		rows += m.change[i]
		m.change[i] = 0
		if rows > 0 {
			end := m.base + i*m.step
			f(m.start(end), end, rows)
		}
	}
	if m.from < m.to {
		m.change[m.to] = 0
	}
	m.from, m.to = 0, 0
	for _, w := range m.list {
		f(w.start, w.end, w.rows)
	}
	m.list = m.list[:0]
	if len(m.at) > 0 {
		clear(m.at)
	}
}
