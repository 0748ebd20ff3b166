package state

import "math"

// Expiry removes the records of a table that have not been used for a time to live, those in the store
// too. It goes over all of them in passes, a few records at each step: a pass tells the oldest that is
// left, so that the next one begins only when enough may have expired: when records are an eighth of
// the time to live past it. So what is kept is never much more than what lives, each record is looked at
// eight times in its life at most, and of those in the store only the expired ones are read in, where
// the Codec is Dated. Until it is found a record is there: its owner has to look at its time when he
// uses it.
type Expiry struct {
	t     *Table
	at    int
	ttlMs int64
	// drop frees what a record keeps outside of itself, before it is deleted.
	drop func(rec uint32)

	cursor  SweepCursor
	running bool
	began   int64 // the pass
	stepped int64 // the last step
	oldest  int64 // of what this pass left
	due     int64 // when the next pass begins
	left    int   // records that the pass has to look at about
	ids     [256]uint32
}

// Dated is a Codec of values that say when they were used last, ms.
type Dated interface {
	Codec
	LastUse(value []byte) (ms int64, ok bool)
}

const (
	// passesPerLife is how many passes there are at most in a time to live.
	passesPerLife = 8
	// stepRecords is how many records a step looks at, at least and at most.
	minStepRecords, maxStepRecords = 64, 1 << 13
)

// NewExpiry returns what removes the records of t, whose word at (counted from word 0 of a record) is
// the time of last use, ms; drop is called with each before it is deleted.
func NewExpiry(t *Table, at int, ttlMs int64, drop func(rec uint32)) *Expiry {
	return &Expiry{t: t, at: at, ttlMs: ttlMs, drop: drop, due: math.MinInt64}
}

// Step looks at some records: at more than came, the number of records that are new since the last
// step, so that these do not pile up. It is called between two batches; records that nobody touched
// since the last call of Between may move out of memory.
func (e *Expiry) Step(nowMs int64, came int) {
	if !e.running {
		if nowMs < e.due || e.t.Len()+e.t.Cold() == 0 && !e.unknown() {
			return
		}
		e.running, e.began, e.stepped, e.oldest = true, nowMs, nowMs, nowMs
		e.left = e.t.Len() + e.t.Cold()
		e.cursor = SweepCursor{last: e.cursor.last[:0]}
	}
	// A pass is to be over when the next one may begin.
	pace := float64(nowMs-e.stepped) / (float64(e.ttlMs)/passesPerLife + 1)
	look := min(max(minStepRecords, 2*came, int(2*pace*float64(e.left))), maxStepRecords)
	e.stepped = nowMs
	for look > 0 {
		n, end := e.some(min(look, len(e.ids)), nowMs-e.ttlMs)
		if look -= n; end {
			e.running = false
			e.due = min(e.oldest, e.began) + e.ttlMs + e.ttlMs/passesPerLife
			return
		}
	}
}

func (e *Expiry) unknown() bool { return e.t.spill != nil && e.t.spill.cold }

// some looks at up to n records and removes those that were used last at before or earlier. It returns
// how many it has looked at, and whether these were the last.
func (e *Expiry) some(n int, before int64) (looked int, end bool) {
	t, sp := e.t, e.t.spill
	if sp != nil {
		sp.sweptOut()
	}
	if !e.cursor.cold {
		ids := t.Scan(&e.cursor.hot, e.ids[:n])
		for _, rec := range ids {
			e.look(rec, before)
		}
		if len(ids) > 0 {
			return len(ids), false
		}
		if sp == nil || !sp.cold {
			return 0, true
		}
		e.cursor.cold, e.cursor.group, e.cursor.last = true, sp.s.lo, e.cursor.last[:0]
	}
	dated, _ := sp.k.Codec.(Dated)
	var found []uint32
	for e.cursor.group < sp.s.hi && looked < n {
		sp.rangeFrom(&e.cursor, func(key, value []byte) error {
			if looked == n {
				return errEnough
			}
			looked++
			if dated != nil {
				if used, ok := dated.LastUse(value); ok && used > before {
					e.oldest = min(e.oldest, used)
					return nil
				}
			}
			rec, err := sp.sweepIn(key, value)
			if err == nil && rec != 0 {
				found = append(found, rec)
			}
			return err
		})
	}
	for _, rec := range found {
		e.look(rec, before)
	}
	return looked, e.cursor.group >= sp.s.hi
}

func (e *Expiry) look(rec uint32, before int64) {
	if used := int64(e.t.word(rec, e.at)); used > before {
		e.oldest = min(e.oldest, used)
		return
	}
	e.drop(rec)
	e.t.Delete(rec)
}
