package window

import (
	"encoding/binary"
	"slices"

	"github.com/tidemark-stream/tidemark/state"
)

// parked are the timers of keys whose sessions are on disk: in buckets of time, the keys that were
// due in it when they left memory. One takes the bytes of the key and four more. A key on disk is in
// the bucket that it is due in, once. It may be in earlier ones as well, once each, from when it was
// due there, and it may be in memory again: what counts is what is found when a bucket is due.
type parked struct {
	width   int64
	buckets []*parkedBucket // ascending
	made    uint64          // buckets so far
	budget  *state.Budget
}

type parkedBucket struct {
	id       uint64 // from 1 on; a bucket that is made again has another
	key, min int64
	chunks   [][]byte // length (4 bytes, little endian) and bytes of each key
}

const (
	firstParked = 1 << 8
	parkedBytes = 1 << 12
)

// add parks a key until the time at.
func (q *parked) add(at int64, key []byte) {
	n := floorDiv(at, q.width)
	i, ok := q.find(n)
	if !ok {
		q.made++
		q.buckets = slices.Insert(q.buckets, i, &parkedBucket{id: q.made, key: n, min: at})
	}
	b := q.buckets[i]
	b.min = min(b.min, at)
	size := 4 + len(key)
	last := len(b.chunks) - 1
	if last < 0 || cap(b.chunks[last])-len(b.chunks[last]) < size {
		room := firstParked
		if last >= 0 {
			room = min(2*cap(b.chunks[last]), parkedBytes)
		}
		b.chunks = append(b.chunks, make([]byte, 0, max(room, size)))
		last++
		q.budget.Add(int64(cap(b.chunks[last])))
	}
	c := binary.LittleEndian.AppendUint32(b.chunks[last], uint32(len(key)))
	b.chunks[last] = append(c, key...)
}

// find is where the bucket with a key is, or would be.
func (q *parked) find(key int64) (int, bool) {
	i := len(q.buckets)
	for i > 0 && q.buckets[i-1].key > key {
		i--
	}
	if i > 0 && q.buckets[i-1].key == key {
		return i - 1, true
	}
	return i, false
}

// bucket is the id of the bucket for the time at, 0 if there is none.
func (q *parked) bucket(at int64) uint64 {
	if i, ok := q.find(floorDiv(at, q.width)); ok {
		return q.buckets[i].id
	}
	return 0
}

// stays reports whether the bucket for the time at is the one with that id, so that a key in it need not
// be added.
func (q *parked) stays(at int64, id uint64) bool {
	i, ok := q.find(floorDiv(at, q.width))
	if !ok || q.buckets[i].id != id {
		return false
	}
	q.buckets[i].min = min(q.buckets[i].min, at)
	return true
}

// first is a time before which no key is due, or never.
func (q *parked) first() int64 {
	if len(q.buckets) == 0 {
		return never
	}
	return q.buckets[0].min
}

// take removes the first bucket. Whoever is done with it gives it to drop.
func (q *parked) take() *parkedBucket {
	b := q.buckets[0]
	q.buckets = q.buckets[:copy(q.buckets, q.buckets[1:])]
	return b
}

func (q *parked) drop(b *parkedBucket) {
	for _, c := range b.chunks {
		q.budget.Add(-int64(cap(c)))
	}
}

// each calls f with the keys of a bucket, some at a time.
func (b *parkedBucket) each(f func(keys [][]byte) error) error {
	var keys [][]byte
	for _, c := range b.chunks {
		for len(c) > 0 {
			n := 4 + binary.LittleEndian.Uint32(c)
			if keys = append(keys, c[4:n]); len(keys) == block {
				if err := f(keys); err != nil {
					return err
				}
				keys = keys[:0]
			}
			c = c[n:]
		}
	}
	return f(keys)
}

func (q *parked) release() {
	for _, b := range q.buckets {
		q.drop(b)
	}
	q.buckets = nil
}
