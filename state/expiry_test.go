package state

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// expiring is what keeps keys for a time to live, a table or a bag, with a clock, what it should hold, and
// a job that freezes and applies late.
type expiring struct {
	t      *testing.T
	r      *rand.Rand
	bag    bool
	cold   *coldMap
	budget *Budget
	ttl    int64 // 0: for ever
	now    int64
	turn   int64           // counts ms that passed
	want   map[int64]int64 // time of last use by key
	read   int             // entries that ranges gave, and keys that were looked for

	mem    *Memory
	sp     *Spill
	tab    *Table // that of the records with times
	b      *Bag
	k      *Keeper
	enc    *Encoder
	e      *Expiry
	queue  [][]byte
	frozen []uint64
}

// counting counts what is read of a store.
type counting struct {
	*coldMap
	n *int
}

func (c counting) Range(lo, hi []byte, f func(key, value []byte) error) error {
	return c.coldMap.Range(lo, hi, func(k, v []byte) error { *c.n++; return f(k, v) })
}

func (c counting) Lookup(keys [][]byte, found func(i int, value []byte) error) error {
	*c.n += len(keys)
	return c.coldMap.Lookup(keys, found)
}

const (
	usedWord = 1 // of the owner's, and of the bag's
	others   = 1 << 16
)

func (w *expiring) used(rec uint32) *uint64 { return &w.tab.At(rec)[w.tab.Base()+usedWord] }

// AppendValue implements Codec.
func (w *expiring) AppendValue(dst []byte, rec uint32) []byte {
	return binary.LittleEndian.AppendUint64(dst, *w.used(rec))
}

// LoadValue implements Codec.
func (w *expiring) LoadValue(rec uint32, v []byte) error {
	*w.used(rec) = binary.LittleEndian.Uint64(v)
	return nil
}

func (w *expiring) LastUse(v []byte) (int64, bool) { return int64(binary.LittleEndian.Uint64(v)), true }
func (w *expiring) DropValue(uint32)               {}

func (w *expiring) start(stored bool) {
	w.mem = w.budget.NewMemory()
	w.sp = NewSpill(w.budget, counting{w.cold, &w.read}, SpillOptions{Operator: 7, Hi: 16, Stored: stored})
	w.k = &Keeper{State: 1, MaxParallelism: 16, Codec: w, Check: func(int) {}}
	ts := []types.Type{types.BigIntType}
	if w.bag {
		w.b = NewBag(w.mem, ts, []int{0}, ts, []uint64{0}, true)
		w.tab = w.b.Rows
		w.b.Track()
		w.b.Spill(w.k, w.sp)
		w.e = w.b.Expire(w.tab.Base()+usedWord, w.ttl, w.forget)
	} else {
		w.tab = NewTable(w.mem, NewLayout(ts, false), []uint64{0, 0})
		w.tab.TrackTouched()
		w.e = NewExpiry(w.tab, w.tab.Base()+usedWord, w.ttl, func(uint32) {})
		w.k.Spill(w.tab, w.sp)
	}
	w.enc = NewEncoder(w.tab.Layout())
	if !stored {
		return
	}
	var err error
	if w.bag {
		err = w.b.Restore(w.k, nil)
	} else {
		err = w.k.Restore(w.tab, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *expiring) forget(rec uint32) {
	key := w.b.KeyOf(rec)
	w.b.Unlink(key, rec)
	w.tab.Delete(rec)
	if w.b.Size(key) == 0 {
		w.b.Keys.Delete(key)
	}
}

// use uses n keys below keys, which are to be as they were used last, or to be gone if they have expired.
func (w *expiring) use(n int, key func() int64) {
	w.t.Helper()
	v := vec.New(types.BigIntType, 0)
	seen := map[int64]bool{}
	for range n {
		if k := key(); !seen[k] {
			seen[k] = true
			v.AppendValue(k)
		}
	}
	n = len(v.I64)
	recs, keys := make([]uint32, n), make([]uint32, n)
	w.enc.Encode([]*vec.Vec{v}, upTo(n), nil)
	if w.bag {
		w.b.Upsert(w.enc, w.enc, nil, keys, recs)
	} else {
		w.tab.Upsert(w.enc, nil, recs)
	}
	for i, rec := range recs {
		k := v.I64[i]
		last, known := w.want[k]
		got := int64(*w.used(rec))
		fresh := *head(w.tab, rec)&FlagNew != 0
		expired := w.ttl > 0 && last+w.ttl <= w.now
		if !fresh && (!known || got != last) || fresh && known && !expired {
			w.t.Fatalf("at %d key %d was used at %d, it says %d, new %v", w.now, k, last, got, fresh)
		}
		if fresh && w.bag {
			w.b.Link(keys[i], rec)
		}
		*head(w.tab, rec) &^= FlagNew
		w.want[k] = w.now
		*w.used(rec) = uint64(w.now)
		w.tab.Touch(recs[i : i+1])
	}
	w.e.Step(w.now, n)
	w.sp.Between()
}

func (w *expiring) freeze() {
	var d Delta
	w.k.Freeze(w.tab, &d)
	w.queue, w.frozen = append(w.queue, d.Take()), append(w.frozen, w.sp.Frozen())
}

func (w *expiring) apply() {
	for i, b := range w.queue {
		w.cold.apply(7, b)
		w.sp.Applied(w.frozen[i])
	}
	w.queue, w.frozen = nil, nil
}

func (w *expiring) stop() {
	if w.bag {
		w.b.Release()
	} else {
		w.tab.Release()
	}
	w.mem.Close()
	if n := w.budget.Used(); n != 0 && n != others {
		w.t.Fatalf("%d bytes still counted", n)
	}
}

// stored lists the entries in the store with the times they say, and counts those of the index.
func (w *expiring) stored() (times map[string]int64, index int) {
	times = map[string]int64{}
	for k, v := range w.cold.m {
		if k[2] == 1 {
			times[k] = int64(binary.LittleEndian.Uint64([]byte(v)))
		} else {
			index++
		}
	}
	return times, index
}

// check compares the store, to which all has been applied, with what should be there: nothing is missing,
// and nothing is older than the time to live and a quarter of it.
func (w *expiring) check(what string) {
	w.t.Helper()
	w.freeze()
	w.apply()
	times, _ := w.stored()
	alive := 0
	for k, last := range w.want {
		if w.ttl > 0 && last+w.ttl <= w.now {
			continue
		}
		alive++
		if got, ok := times[w.saved(k)]; !ok || got != last {
			w.t.Fatalf("%s: key %d, used at %d, is saved with %d, %v", what, k, last, got, ok)
		}
	}
	for k, last := range times {
		if w.ttl > 0 && last+w.ttl+w.ttl/4 < w.now {
			w.t.Fatalf("%s: at %d entry %x is there yet, used at %d", what, w.now, k, last)
		}
	}
	if alive == 0 {
		w.t.Fatalf("%s: nothing is alive, so nothing can be missing", what)
	}
}

// saved is the key of k in the store.
func (w *expiring) saved(k int64) string {
	v := vec.New(types.BigIntType, 0)
	v.AppendValue(k)
	w.enc.Encode([]*vec.Vec{v}, []int32{0}, nil)
	key := binary.BigEndian.AppendUint64([]byte{0, 0, 0}, uint64(k))
	if w.bag {
		key = append(key, key...)
	}
	return string(append(AppendStoreKey(nil, 7, 1, KeyGroup(w.enc.Hash(0), 16)), key...))
}

// run lets time pass: in each ms some keys are used, some of them again and again.
func (w *expiring) run(ms int64) {
	w.t.Helper()
	for range ms {
		w.now++
		w.turn++
		w.use(10, func() int64 {
			if w.r.Intn(3) > 0 {
				return int64(w.r.Intn(50)) // often
			}
			return 1000*w.turn + int64(w.r.Intn(1000))
		})
		if w.r.Intn(4) == 0 {
			w.freeze()
		}
		if w.r.Intn(4) == 0 {
			w.apply()
		}
	}
}

func eachExpiring(t *testing.T, f func(t *testing.T, w *expiring)) {
	for _, bag := range []bool{false, true} {
		for _, spills := range []bool{false, true} {
			t.Run(fmt.Sprintf("bag %v, spills %v", bag, spills), func(t *testing.T) {
				w := &expiring{t: t, r: rand.New(rand.NewSource(7)), bag: bag, ttl: 200, now: 1000,
					cold: &coldMap{m: map[string]string{}}, want: map[int64]int64{}}
				if w.budget = NewBudget(1 << 30); spills {
					w.budget = NewBudget(others)
					w.budget.Add(others) // less than others take already
				}
				w.start(false)
				f(t, w)
				w.stop()
			})
		}
	}
}

// TestExpiry: what has expired is gone soon, from memory and from the store, with its index; nothing else
// is; and that does not read more than it removes.
func TestExpiry(t *testing.T) {
	eachExpiring(t, func(t *testing.T, w *expiring) {
		for range 8 {
			w.run(100)
			w.check("running")
		}
		_, index := w.stored()
		if w.ttl = 0; len(w.want) < 1000 || index > len(w.want) {
			t.Errorf("%d keys have come, %d entries of the index are left", len(w.want), index)
		}
	})
}

// TestExpiry_Reads: where most entries are used again and again, or do not expire for long, passes read
// the index of what is due only.
func TestExpiry_Reads(t *testing.T) {
	eachExpiring(t, func(t *testing.T, w *expiring) {
		w.ttl = 0 // for reads that this test does not count
		w.stop()
		w.ttl = 10_000
		w.start(false)
		const keys = 1000
		n := int64(0)
		w.use(keys, func() int64 { n++; return n }) // all in one bucket
		w.freeze()
		w.apply()
		w.read = 0
		steps := 0
		for ; w.now < 1000+w.ttl; steps++ {
			w.now += 50
			w.use(1, func() int64 { n++; return n })
			if w.r.Intn(4) == 0 {
				w.freeze()
				w.apply()
			}
		}
		if w.read > 2*steps { // one key a step, where it is looked for
			t.Errorf("%d reads in %d steps before anything has expired", w.read, steps)
		}
		for ; w.now < 1000+w.ttl*5/4; steps++ {
			w.now += 50
			w.use(1, func() int64 { n++; return n })
			w.freeze()
			w.apply()
		}
		// Each of the entries by the index, and most of them in the store.
		if w.read > 2*keys+3*steps {
			t.Errorf("%d reads in %d steps for %d entries that expire", w.read, steps, keys)
		}
		w.check("afterwards")
		if times, _ := w.stored(); len(times) > steps {
			t.Errorf("%d entries are left of %d steps", len(times), steps)
		}
	})
}

// TestExpiry_Writes: an entry that is saved again and again costs the index one entry a bucket.
func TestExpiry_Writes(t *testing.T) {
	eachExpiring(t, func(t *testing.T, w *expiring) {
		puts := 0
		for range 2 * w.ttl {
			w.now++
			w.use(1, func() int64 { return 5 })
			w.freeze()
			_ = EachChange(w.queue[len(w.queue)-1], func(c Change) error {
				if c.State&IndexState != 0 && c.Kind == ChangePut && c.Key[0] == indexEntry {
					puts++
				}
				return nil
			})
			w.apply()
		}
		if puts < bucketsPerLife || puts > 2*bucketsPerLife+1 {
			t.Errorf("%d entries of the index in two times to live", puts)
		}
	})
}

// TestExpiry_Restarts: what was saved expires after restarts at any time, also where it was saved without
// an index, or with that of another time to live.
func TestExpiry_Restarts(t *testing.T) {
	again := func(w *expiring, ttl int64) {
		w.freeze()
		w.apply()
		w.stop()
		times, _ := w.stored()
		for k := range w.want {
			if _, ok := times[w.saved(k)]; !ok {
				delete(w.want, k) // it expired under this time to live
			}
		}
		w.ttl = ttl
		w.start(true)
	}
	eachExpiring(t, func(t *testing.T, w *expiring) {
		for range 6 {
			w.run(70)
			again(w, 200)
			w.check("restarted")
		}
		// As an earlier version has saved it.
		w.run(150)
		w.freeze()
		w.apply()
		for k := range w.cold.m {
			if k[2] == 1|IndexState {
				delete(w.cold.m, k)
			}
		}
		w.cold.sorted = nil
		again(w, 200)
		w.run(250)
		w.check("without an index")
		// With one that lacks what was changed by hand.
		again(w, 200)
		w.run(100)
		w.freeze()
		w.apply()
		var d Delta
		for g := range 16 {
			Reindex(&d, 1, g)
		}
		for k := range w.cold.m {
			if k[2] == 1|IndexState && k[StoreHead] == indexEntry && w.r.Intn(2) == 0 {
				delete(w.cold.m, k)
			}
		}
		w.cold.apply(7, d.Bytes())
		again(w, 200)
		w.run(250)
		w.check("changed by hand")
		// Of another time to live.
		for _, ttl := range []int64{320, 100, 104, 500, 90} {
			again(w, ttl)
			w.run(2 * ttl)
			w.check(fmt.Sprint("a TTL of ", ttl))
		}
		// Switched off and on.
		again(w, 0)
		w.run(100)
		w.check("for ever")
		if _, n := w.stored(); n > 0 {
			t.Errorf("%d entries of the index are left without a TTL", n)
		}
		again(w, 200)
		w.run(300)
		w.check("switched on")
		if times, n := w.stored(); n > 5*len(times) {
			t.Errorf("%d entries of the index for %d entries", n, len(times))
		}
	})
}

// TestExpiry_Halted: an index that is being made anew is not taken for whole after a restart, nor made from
// the beginning.
func TestExpiry_Halted(t *testing.T) {
	again := func(w *expiring, ttl int64) {
		w.freeze()
		w.apply()
		w.stop()
		w.ttl = ttl
		w.start(true)
	}
	eachExpiring(t, func(t *testing.T, w *expiring) {
		// Another time to live, and the first one again before the index was made for it.
		again(w, 100)
		w.run(300)
		again(w, 800)
		w.run(2)
		if w.e.index.complete {
			t.Fatal("the index was made too soon for this test")
		}
		again(w, 100)
		w.run(200)
		w.check("a time to live changed and changed back")

		w.freeze()
		w.apply()
		again(w, 100)
		w.e.Rebuild()
		again(w, 100)
		if w.e.index.complete {
			t.Error("an index that was to be made anew is taken for whole")
		}

		// Started again and again.
		w.run(100)
		again(w, 10_000)
		runs := 0
		for ; !w.e.index.complete && runs < 100; runs++ {
			w.run(2)
			again(w, 10_000)
		}
		if runs < 2 || runs == 100 {
			t.Errorf("the index was made in %d runs", runs)
		}
	})
}

// TestExpiry_MakesRoom: an index that is made anew does not wait for a checkpoint once much of it waits.
func TestExpiry_MakesRoom(t *testing.T) {
	defer func(n int) { maxPending = n }(maxPending)
	eachExpiring(t, func(t *testing.T, w *expiring) {
		w.run(100)
		w.freeze()
		w.apply()
		w.stop()
		w.ttl, maxPending = 10_000, 64
		w.start(true)
		for n := 0; n < 200 && !w.sp.full && !w.e.index.complete; n++ {
			w.now++
			w.e.Step(w.now, 0)
		}
		if !w.sp.full || w.e.index.complete {
			t.Fatalf("full %t, complete %t", w.sp.full, w.e.index.complete)
		}
		w.freeze()
		if w.sp.full {
			t.Error("there is no room after a freeze")
		}
	})
}

// TestExpiry_Rescaled: the index goes with its key groups.
func TestExpiry_Rescaled(t *testing.T) {
	eachExpiring(t, func(t *testing.T, w *expiring) {
		w.run(150)
		w.check("before")
		w.stop()
		at := w.now
		// Two subtasks, which get nothing any more but steps.
		var subs []*expiring
		for i := range 2 {
			s := *w
			s.sp = nil
			s.start(true)
			s.sp.lo, s.sp.hi = 8*i, 8*i+8
			if err := s.tab.restoring(s.k); err != nil {
				t.Fatal(err)
			}
			if !s.e.index.complete {
				t.Error("the index is not found")
			}
			subs = append(subs, &s)
		}
		for now := at; now < at+260; now++ {
			for _, s := range subs {
				s.e.Step(now, 0)
				s.freeze()
				s.apply()
			}
		}
		if times, index := w.stored(); len(times) > 0 || index > 16 {
			t.Errorf("%d entries are left, %d of the index", len(times), index)
		}
		for _, s := range subs {
			s.budget = w.budget
			if s.bag {
				s.b.Release()
			} else {
				s.tab.Release()
			}
			s.mem.Close()
		}
		w.start(false) // for stop
	})
}

// TestExpiry_SetBack: where the clock is set back, by little or by much, also in the middle of a pass,
// what is used from then on stays for its time, and goes after it.
func TestExpiry_SetBack(t *testing.T) {
	eachExpiring(t, func(t *testing.T, w *expiring) {
		w.now = 100_000
		aborted := 0
		for round, back := range []int64{1, 30, 199, 400, 1000, 90, 5000, 201} {
			w.run(250)
			for n := 0; !w.e.running && n < 50; n++ {
				w.run(1)
			}
			if w.e.running {
				aborted++
			}
			for k, last := range w.want {
				if last+w.ttl <= w.now {
					delete(w.want, k)
				}
			}
			w.now -= back
			w.run(30)
			w.check(fmt.Sprintf("round %d, right after the clock was set back by %d", round, back))
			// What the old time said is used again, or would stay until then.
			for k, last := range w.want {
				if last > w.now {
					w.use(1, func() int64 { return k })
				}
			}
			w.run(260)
			w.check(fmt.Sprintf("round %d, after the clock was set back by %d", round, back))
		}
		if aborted < 4 {
			t.Errorf("the clock was set back in %d passes", aborted)
		}
	})
}

// TestExpiry_Late: what of the index is on its way to the store when it is due is not missed.
func TestExpiry_Late(t *testing.T) {
	eachExpiring(t, func(t *testing.T, w *expiring) {
		w.run(100)
		w.freeze()
		w.apply()
		for k := range w.cold.m {
			if k[2] == 1|IndexState {
				delete(w.cold.m, k)
			}
		}
		w.cold.sorted = nil
		w.stop()
		w.start(true)
		w.now += 2 * w.ttl // all has expired
		steps := func(n int) {
			for range n {
				w.now++
				w.e.Step(w.now, 0)
				w.freeze()
			}
		}
		steps(60) // the index is made anew, and frozen
		if w.apply(); len(w.cold.m) < 100 {
			t.Fatalf("%d entries are left before the index is in the store", len(w.cold.m))
		}
		steps(60)
		w.apply()
		if times, _ := w.stored(); len(times) > 0 {
			t.Errorf("%d entries are there yet", len(times))
		}
	})
}

// TestExpiry_Unsaved: records of a table that nobody saves expire by their zones alone.
func TestExpiry_Unsaved(t *testing.T) {
	const ttl, each = 160, 50
	mem := NewMemory()
	l := NewLayout([]types.Type{types.BigIntType}, false)
	tab, enc := NewTable(mem, l, []uint64{0}), NewEncoder(l)
	dropped, recs := 0, make([]uint32, each)
	e := NewExpiry(tab, tab.Base(), ttl, func(uint32) { dropped++ })
	use := func(first, now int64) {
		v := vec.New(types.BigIntType, 0)
		for i := range int64(each) {
			v.AppendValue(first + i)
		}
		enc.Encode([]*vec.Vec{v}, upTo(each), nil)
		tab.Upsert(enc, nil, recs)
		for _, rec := range recs {
			tab.At(rec)[tab.Base()] = uint64(now)
		}
	}
	for now := int64(1); now < 10*ttl; now++ {
		late := now % 2 * 120 // every other batch by a time in the past
		use(each*now, now-late)
		use(0, now) // the same all the time
		e.Step(now, 2*each)
		if live := each * (ttl/2 + (ttl-120)/2 + 1); now > 2*ttl && (tab.Len() < live-each || tab.Len() > live+each*(ttl/passesPerLife+1)) {
			t.Fatalf("at %d there are %d records, %d live", now, tab.Len(), live)
		}
	}
	if want := each * 8 * ttl; dropped < want {
		t.Errorf("%d records were dropped, %d have expired", dropped, want)
	}
	tab.Release()
	mem.Close()
}
