package job

import "github.com/tidemark-stream/tidemark/vec"

// orderedInput merges the channels of one input in the order of stamps, so that rows of several
// upstream subtasks arrive as they would from one. What it holds is bounded twice: by the bytes of
// a channel while the receiver has something to do (see inbox.full), and, while it waits for a
// channel that is behind, by how far sources get ahead of one another (see aheadBatches).
type orderedInput struct {
	channels []*orderedChannel
}

// orderedChannel holds what one channel has sent and nobody has processed.
type orderedChannel struct {
	no     int // in subtask.channels
	queue  []message
	cursor int   // rows of queue[0].batch already delivered
	wm     int64 // everything to come is stamped at least this
	ended  bool
}

// groupOrdered collects the channels of an input that must be merged.
func (s *subtask) groupOrdered(node, input int, ordered bool) {
	if !ordered {
		return
	}
	o := &orderedInput{}
	var nos []int
	for i, c := range s.channels {
		if c.to.node.ID == node && c.input == input {
			o.channels = append(o.channels, &orderedChannel{no: i, wm: vec.MinTime})
			nos = append(nos, i)
		}
	}
	s.ordered[[2]int{node, input}] = o
	if len(nos) > 1 {
		s.in.merged(nos)
	}
}

// add takes a message and delivers whatever has its turn.
func (o *orderedInput) add(s *subtask, m message) error {
	for _, c := range o.channels {
		if c.no == m.channel {
			c.queue = append(c.queue, m)
		}
	}
	for {
		did, err := o.deliver(s)
		if !did || err != nil {
			return err
		}
	}
}

// head is the stamp of the channel's next row, or the least it can be; known says that a row is
// there.
func (c *orderedChannel) head() (at int64, known bool) {
	if len(c.queue) > 0 && c.queue[0].batch != nil {
		return c.queue[0].batch.Stamp(c.cursor), true
	}
	if c.ended {
		return vec.MaxTime, false
	}
	return c.wm, false
}

// deliver passes on the rows of the channel whose turn it is, as far as it stays its turn.
func (o *orderedInput) deliver(s *subtask) (bool, error) {
	best, next := -1, -1 // the channel whose turn it is, and the one after it
	var low, second int64 = vec.MaxTime, vec.MaxTime
	for i, c := range o.channels {
		for len(c.queue) > 0 && c.queue[0].batch == nil {
			if err := c.pass(s); err != nil {
				return false, err
			}
		}
		at, known := c.head()
		if !known && c.ended {
			continue
		}
		switch {
		case best < 0 || at < low:
			next, second = best, low
			best, low = i, at
		case next < 0 || at < second:
			next, second = i, at
		}
	}
	if best < 0 {
		return false, nil
	}
	c := o.channels[best]
	if _, known := c.head(); !known {
		return false, nil // wait for the channel that is behind
	}
	m := &c.queue[0]
	from, to := c.cursor, c.cursor+1
	for to < m.batch.N && (next < 0 || m.batch.Stamp(to) < second || m.batch.Stamp(to) == second && best < next) {
		to++
	}
	ch := s.channels[c.no]
	part := *m.batch
	if from > 0 || to < m.batch.N {
		part.Sel = make([]int32, 0, to-from)
		for i := from; i < to; i++ {
			part.Sel = append(part.Sel, int32(i))
		}
	}
	if err := ch.to.process(ch.input, &part); err != nil {
		return false, err
	}
	c.cursor = to
	if to < m.batch.N {
		return true, nil
	}
	batch := m.batch
	m.batch = nil
	c.cursor = 0
	ch.pool.put(batch)
	return true, nil
}

// pass handles what follows the rows of the first message.
func (c *orderedChannel) pass(s *subtask) error {
	m := c.queue[0]
	c.queue = c.queue[1:]
	c.wm = max(c.wm, m.wm)
	c.ended = c.ended || m.end
	return s.deliver(m)
}
