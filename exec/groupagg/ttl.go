package groupagg

import (
	"github.com/tidemark-stream/tidemark/state"
)

// sweeper removes the keys that have not been used for table.exec.state.ttl, in processing time: a row
// that finds an expired record starts a new one, and with every batch some records are looked at: at
// more than have come, so that expired ones do not pile up however many keys are new.
type sweeper struct {
	o      *Agg
	at     int // offset of the time of last use, or -1
	came   int // new keys since the last step
	cursor state.SweepCursor
	ids    [64]uint32
}

func newSweeper(o *Agg, extra int) sweeper {
	if extra == 0 {
		return sweeper{at: -1}
	}
	return sweeper{o: o, at: o.st.T.Base()}
}

// use renews the records; expired ones are emptied.
func (s *sweeper) use(recs []uint32) {
	if s.at < 0 {
		return
	}
	now := s.o.ctx.Now()
	for k, r := range recs {
		w := s.o.st.R.At(r)
		switch {
		case w[0]&state.FlagNew != 0:
			s.came++
		case int64(w[s.at])+s.o.n.TTLMs <= now:
			s.o.st.Drop(recs[k : k+1])
			s.o.set.Clear(s.o.st, r, s.o.init)
			s.o.st.R.At(r)[0] |= state.FlagNew
			if s.o.rowsAt >= 0 {
				s.o.st.R.At(r)[s.o.rowsAt] = 0
			}
		}
		s.o.st.R.At(r)[s.at] = uint64(now)
	}
}

// step looks at the next records.
func (s *sweeper) step() {
	if s.at < 0 {
		return
	}
	now := s.o.ctx.Now()
	for look := max(len(s.ids), 2*s.came); look > 0; look -= len(s.ids) {
		ids := s.o.st.T.Sweep(&s.cursor, s.ids[:])
		if len(ids) == 0 {
			s.cursor = state.SweepCursor{}
			break
		}
		for k, r := range ids {
			if int64(s.o.st.R.At(r)[s.at])+s.o.n.TTLMs <= now {
				s.o.st.Drop(ids[k : k+1])
				s.o.st.T.Delete(r)
			}
		}
	}
	s.came = 0
}
