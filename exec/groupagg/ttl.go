package groupagg

import (
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// sweeper removes the keys that have not been used for table.exec.state.ttl, in processing time: a row
// that finds an expired record starts a new one, and with every batch some records are looked at.
type sweeper struct {
	o      *Agg
	at     int // offset of the time of last use, or -1
	came   int // new keys since the last step
	expiry *state.Expiry
	one    [1]uint32
}

func (s *sweeper) init(o *Agg, extra int) {
	*s = sweeper{o: o, at: -1}
	if extra > 0 && o.n.Phase != plan.LocalPhase { // which keeps nothing for long
		s.at = o.st.T.Base()
		s.expiry = state.NewExpiry(o.st.T, s.at, o.n.TTLMs, func(rec uint32) {
			s.one[0] = rec
			o.st.Drop(s.one[:])
		})
	}
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
	if s.at >= 0 {
		s.expiry.Step(s.o.ctx.Now(), s.came)
		s.came = 0
	}
}

// ProcTime implements op.ProcTimer: groups expire while no rows come, too.
func (o *Keyed) ProcTime(int64) error {
	if o.ttl.at >= 0 {
		o.ttl.step()
		o.count()
	}
	return nil
}

// NextProcTime implements op.ProcTimer. No moment is better than another.
func (o *Keyed) NextProcTime() int64 { return vec.MaxTime }

var _ op.ProcTimer = (*Keyed)(nil)
