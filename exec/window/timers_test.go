package window

import (
	"math/rand"
	"slices"
	"testing"
)

// TestTimers_AgainstMap moves times on at random and compares what is due with a plain search.
func TestTimers_AgainstMap(t *testing.T) {
	for _, width := range []int64{0, 1, 10, 1000, 100_000} {
		r := rand.New(rand.NewSource(width + 1))
		q := newTimers(width)
		times := map[uint32]int64{}
		now, next := int64(-5000), uint32(1)
		for step := range 4000 {
			for range r.Intn(4) {
				at := now + 1 + r.Int63n(5000)
				times[next] = at
				q.add(at, next)
				next++
			}
			for id := range times {
				switch r.Intn(20) {
				case 0:
					times[id] += r.Int63n(3000)
				case 1:
					delete(times, id) // dropped: expire is told when it asks
				}
				if r.Intn(3) == 0 {
					break
				}
			}
			now += r.Int63n(40)
			if step == 3999 {
				now = never
			}
			var want []uint32
			for id, at := range times {
				if at <= now {
					want = append(want, id)
				}
			}
			if first := q.first(); len(want) > 0 && first > now {
				t.Fatalf("width %d, step %d: first is %d, but something is due at %d", width, step, first, now)
			}
			var got []uint32
			for _, d := range q.expire(now, nil, func(id uint32) (int64, bool) {
				at, ok := times[id]
				return at, ok
			}) {
				if d.at != times[d.id] {
					t.Fatalf("width %d, step %d: %d is due at %d, want %d", width, step, d.id, d.at, times[d.id])
				}
				got = append(got, d.id)
				delete(times, d.id)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("width %d, step %d, now %d: due %v, want %v", width, step, now, got, want)
			}
		}
	}
}

// TestParked_Stays: a key that is in a bucket already need not be added, but may be due earlier in it.
func TestParked_Stays(t *testing.T) {
	q := parked{width: 10}
	q.add(27, []byte("key"))
	id := q.bucket(20)
	switch {
	case id == 0 || q.bucket(30) != 0 || q.bucket(19) != 0:
		t.Fatal("the bucket of 27 is not that of 20 to 29")
	case q.stays(35, id) || q.stays(21, 0):
		t.Fatal("a key stays in a bucket that it is not in")
	case q.first() != 27 || !q.stays(23, id) || q.first() != 23:
		t.Fatalf("a key is due at %d, want 23", q.first())
	}
	q.drop(q.take())
	if q.add(28, []byte("other")); q.stays(27, id) {
		t.Error("a key stays in a bucket that was made since")
	}
}
