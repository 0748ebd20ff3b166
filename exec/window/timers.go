package window

import (
	"math"
	"slices"
)

// timers are a queue of ids by time. The time of an id may grow after it was added; expire asks for
// it. Ids lie in coarse buckets; those of the bucket that the clock is in, in fine ones, so that
// the few that are due are not looked for among all.
type timers struct {
	coarse, fine row
	at           int64 // the coarse bucket that the clock is in
}

// row is buckets of one width, ascending.
type row struct {
	width   int64
	buckets []*bucket
	spare   []*bucket
}

type bucket struct {
	key int64 // time / width
	min int64 // no id in it is due before
	ids []uint32
}

// fineBuckets is how many fine buckets a coarse one is worth.
const fineBuckets = 64

func newTimers(width int64) timers {
	return timers{coarse: row{width: max(1, width)}, fine: row{width: max(1, width/fineBuckets)}, at: math.MinInt64}
}

// add queues id for the time at.
func (q *timers) add(at int64, id uint32) {
	if floorDiv(at, q.coarse.width) <= q.at {
		q.fine.add(at, id)
		return
	}
	q.coarse.add(at, id)
}

func (q *row) add(at int64, id uint32) {
	key := floorDiv(at, q.width)
	i := len(q.buckets)
	for i > 0 && q.buckets[i-1].key > key {
		i--
	}
	if i == 0 || q.buckets[i-1].key != key {
		q.buckets = append(q.buckets, nil)
		copy(q.buckets[i+1:], q.buckets[i:])
		var b *bucket
		if n := len(q.spare); n > 0 {
			b = q.spare[n-1]
			q.spare = q.spare[:n-1]
		} else {
			b = new(bucket)
		}
		*b = bucket{key: key, min: at, ids: b.ids[:0]}
		q.buckets[i] = b
		i++
	}
	b := q.buckets[i-1]
	b.min = min(b.min, at)
	b.ids = append(b.ids, id)
}

// remove takes bucket i out; its memory is the queue's again when free is called with it.
func (q *row) remove(i int) *bucket {
	b := q.buckets[i]
	copy(q.buckets[i:], q.buckets[i+1:])
	q.buckets = q.buckets[:len(q.buckets)-1]
	return b
}

func (q *row) free(b *bucket) { q.spare = append(q.spare, b) }

func (q *row) first() int64 {
	if len(q.buckets) == 0 {
		return never
	}
	return q.buckets[0].min
}

func floorDiv(a, b int64) int64 {
	d := a / b
	if a%b < 0 {
		d--
	}
	return d
}

// purge removes the ids for which gone is true.
func (q *timers) purge(gone func(id uint32) bool) {
	for _, r := range []*row{&q.coarse, &q.fine} {
		r.buckets = slices.DeleteFunc(r.buckets, func(b *bucket) bool {
			if b.ids = slices.DeleteFunc(b.ids, gone); len(b.ids) > 0 {
				return false
			}
			r.free(b)
			return true
		})
	}
}

// first is a time before which no id is due, or never.
func (q *timers) first() int64 { return min(q.fine.first(), q.coarse.first()) }

// expire removes the ids that are due at now and appends them to due. time gives the time of an id
// as it is now; false drops it.
func (q *timers) expire(now int64, due []dueSession, time func(id uint32) (int64, bool)) []dueSession {
	q.at = max(q.at, floorDiv(now, q.coarse.width))
	for len(q.coarse.buckets) > 0 && q.coarse.buckets[0].key <= q.at {
		b := q.coarse.remove(0)
		for _, id := range b.ids {
			switch at, ok := time(id); {
			case !ok:
			case at <= now:
				due = append(due, dueSession{at, id})
			default:
				q.add(at, id)
			}
		}
		q.coarse.free(b)
	}
	for n := 0; n < len(q.fine.buckets); {
		b := q.fine.buckets[n]
		if b.min > now {
			if floorDiv(now, q.fine.width) < b.key {
				break
			}
			n++
			continue
		}
		kept := b.ids[:0]
		b.min = never
		for _, id := range b.ids {
			switch at, ok := time(id); {
			case !ok:
			case at <= now:
				due = append(due, dueSession{at, id})
			case floorDiv(at, q.fine.width) == b.key:
				kept = append(kept, id)
				b.min = min(b.min, at)
			default:
				q.add(at, id)
			}
		}
		b.ids = kept
		if len(kept) > 0 {
			n++
			continue
		}
		q.fine.free(q.fine.remove(n))
	}
	return due
}
