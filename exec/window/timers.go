package window

// timers are a queue of ids by time, in buckets of some width. The time of an id may grow after it
// was added; expire asks for it.
type timers struct {
	width   int64
	buckets []*bucket // ascending
	spare   []*bucket
}

type bucket struct {
	key int64 // time / width
	min int64 // no id in it is due before
	ids []uint32
}

// add queues id for the time at.
func (q *timers) add(at int64, id uint32) {
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

func floorDiv(a, b int64) int64 {
	d := a / b
	if a%b < 0 {
		d--
	}
	return d
}

// first is a time before which no id is due, or never.
func (q *timers) first() int64 {
	if len(q.buckets) == 0 {
		return never
	}
	return q.buckets[0].min
}

// expire removes the ids that are due at now and appends them to due. time gives the time of an id
// as it is now; false drops it.
func (q *timers) expire(now int64, due []dueSession, time func(id uint32) (int64, bool)) []dueSession {
	for n := 0; n < len(q.buckets); {
		b := q.buckets[n]
		if b.min > now {
			if floorDiv(now, q.width) < b.key {
				break
			}
			n++
			continue
		}
		kept := b.ids[:0]
		b.min = never
		for _, id := range b.ids {
			at, ok := time(id)
			switch {
			case !ok:
			case at <= now:
				due = append(due, dueSession{at, id})
			case floorDiv(at, q.width) == b.key:
				kept = append(kept, id)
				b.min = min(b.min, at)
			default:
				q.add(at, id)
			}
		}
		b.ids = kept
		if len(kept) == 0 {
			copy(q.buckets[n:], q.buckets[n+1:])
			q.buckets = q.buckets[:len(q.buckets)-1]
			q.spare = append(q.spare, b)
			continue
		}
		n++
	}
	return due
}
