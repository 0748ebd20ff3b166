package join

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// word returns a word of a row's record beyond rowWords.
func (s *side) word(rec uint32, at int) *uint64 {
	return &s.rows.Chunks[rec>>state.ChunkBits][int(rec&state.ChunkMask)+s.rowBase+at]
}

// expired reports whether a row counts no more. One that was renewed in the batch at hand does.
func (s *side) expired(rec uint32, now int64) bool {
	return s.ttlMs > 0 && int64(*s.word(rec, usedAt))+s.ttlMs <= now
}

// renew gives the rows of the batch the current time; those that have expired start anew.
func (o *Join) renew(own, other *side) {
	if own.ttlMs > 0 || other.ttlMs > 0 {
		o.now = o.ctx.Now()
	}
	if own.ttlMs == 0 {
		return
	}
	for k := range o.rows {
		if o.skip[k] {
			continue
		}
		rec := o.recs[k]
		fresh := own.rows.Chunks[rec>>state.ChunkBits][rec&state.ChunkMask]&state.FlagNew != 0
		if !fresh && own.expired(rec, o.now) {
			w := own.row(rec)
			w[countAt], w[matchAt] = 0, 0
		}
		*own.word(rec, usedAt) = uint64(o.now)
	}
}

// expire looks at a few rows of each side and forgets those that have expired: at more than have
// come since the last time, so that there are never many of them.
func (o *Join) expire() {
	for i := range o.sides {
		s := &o.sides[i]
		if s.ttlMs == 0 {
			continue
		}
		s.expiry.Step(o.now, max(s.len()-s.swept, 0))
		s.swept = s.len()
	}
}

// ProcTime implements op.ProcTimer: rows expire while none come, too.
func (o *Join) ProcTime(nowMs int64) error {
	if o.sides[0].ttlMs > 0 || o.sides[1].ttlMs > 0 {
		o.now = nowMs
		o.expire()
		o.count()
	}
	return nil
}

// NextProcTime implements op.ProcTimer. No moment is better than another.
func (o *Join) NextProcTime() int64 { return vec.MaxTime }

var _ op.ProcTimer = (*Join)(nil)

// LastUse implements state.Dated.
func (c *codec) LastUse(value []byte) (int64, bool) {
	if c.s.ttlMs == 0 || len(value) < 8 {
		return 0, false
	}
	used := int64(binary.LittleEndian.Uint64(value[len(value)-8:])) // the last of savedWords
	return max(used, c.s.since), true
}

// forget removes a row, and its key with the last one.
func (s *side) forget(rec uint32) {
	key := s.bag.KeyOf(rec)
	s.bag.Unlink(key, rec)
	s.rows.Delete(rec)
	if s.bag.Size(key) == 0 {
		s.bag.Keys.Delete(key)
	}
}
