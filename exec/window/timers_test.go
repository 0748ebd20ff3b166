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
