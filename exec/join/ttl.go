package join

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/state"
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
		came := max(len(o.ids), 2*(s.len()-s.swept))
		for look := came; look > 0; look -= len(o.ids) {
			ids := s.rows.Scan(&s.sweep, o.ids[:])
			if len(ids) == 0 {
				s.sweep = state.Cursor{}
				break
			}
			for _, rec := range ids {
				if s.expired(rec, o.now) {
					s.forget(rec)
				}
			}
		}
		s.bag.ExpireCold(&s.cold, came, func(value []byte) bool {
			if len(value) < 8 {
				return false // damaged: found out when it is used
			}
			used := int64(binary.LittleEndian.Uint64(value[len(value)-8:])) // the last of savedWords
			return max(used, s.since)+s.ttlMs <= o.now
		})
		s.swept = s.len()
	}
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
