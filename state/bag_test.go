package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// bagCodec keeps how often a row is there: the first word of the owner.
type bagCodec struct{ b *Bag }

func (c bagCodec) count(rec uint32) *uint64 { return &c.b.Rows.At(rec)[c.b.Rows.Base()+1] }

func (c bagCodec) AppendValue(dst []byte, rec uint32) []byte {
	return binary.LittleEndian.AppendUint64(dst, *c.count(rec))
}

func (c bagCodec) LoadValue(rec uint32, v []byte) error {
	if len(v) != 8 {
		return errors.New("damaged")
	}
	*c.count(rec) = binary.LittleEndian.Uint64(v)
	return nil
}

// bagWorld is a bag of rows (k, s) by k that spills, what it should hold, and a job that freezes and
// applies late.
type bagWorld struct {
	t      *testing.T
	r      *rand.Rand
	cold   *coldMap
	budget *Budget
	mem    *Memory
	sp     *Spill
	bag    *Bag
	codec  bagCodec
	keeper *Keeper
	ke, re *Encoder
	back   bool
	long   bool
	want   map[string]map[string]uint64 // rows by key, as text
	queue  [][]byte
	frozen []uint64
	others int64
}

func (w *bagWorld) start(stored bool) {
	w.mem = w.budget.NewMemory()
	row := []types.Type{types.BigIntType, types.StringType}
	w.bag = NewBag(w.mem, row, []int{0}, row[:1], []uint64{0}, w.back)
	w.bag.Track()
	w.codec = bagCodec{w.bag}
	w.keeper = &Keeper{State: 1, MaxParallelism: 16, Codec: w.codec, Check: func(int) {}}
	w.ke, w.re = NewEncoder(w.bag.Keys.Layout()), NewEncoder(w.bag.Rows.Layout())
	w.sp = NewSpill(w.budget, w.cold, SpillOptions{Operator: 7, Lo: 0, Hi: 16, Stored: stored})
	w.bag.Spill(w.keeper, w.sp)
	if stored {
		if err := w.bag.Restore(w.keeper, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *bagWorld) stop() {
	w.bag.Release()
	w.mem.Close()
	if n := w.budget.Used() - w.others; n != 0 {
		w.t.Fatalf("%d bytes still counted", n)
	}
	if n := w.budget.spillable.Load(); n != 0 {
		w.t.Fatalf("%d bytes still counted as spillable", n)
	}
}

func (w *bagWorld) freeze() {
	var d Delta
	w.keeper.Freeze(w.bag.Rows, &d)
	w.queue = append(w.queue, d.Take())
	w.frozen = append(w.frozen, w.sp.Frozen())
}

func (w *bagWorld) apply() {
	if len(w.queue) > 0 {
		w.cold.apply(7, w.queue[0])
		w.sp.Applied(w.frozen[0])
		w.queue, w.frozen = w.queue[1:], w.frozen[1:]
	}
}

// put adds rows, or takes them back where they are there; the keys are below keys, the strings below
// each.
func (w *bagWorld) put(n, keys, each int) {
	k, s := vec.New(types.BigIntType, 0), vec.New(types.StringType, 0)
	for range n {
		k.AppendValue(int64(w.r.Intn(keys)))
		text := fmt.Sprint(w.r.Intn(each))
		if w.long {
			text += " and some more text, so that it does not lie in the record"
		}
		s.AppendValue(text)
	}
	w.ke.Encode([]*vec.Vec{k}, upTo(n), nil)
	w.re.Encode([]*vec.Vec{k, s}, upTo(n), nil)
	kr, rr := make([]uint32, n), make([]uint32, n)
	w.bag.Upsert(w.ke, w.re, nil, kr, rr)
	for i, rec := range rr {
		key, text := fmt.Sprint(k.I64[i]), string(s.Bytes(i))
		if !Live(w.bag.Rows.At(rec)) {
			continue
		}
		fresh := *head(w.bag.Rows, rec)&FlagNew != 0
		c := w.codec.count(rec)
		if want := w.want[key][text]; *c != want || fresh != (want == 0) {
			w.t.Fatalf("row %s %s is there %d times, want %d, fresh %v", key, text, *c, want, fresh)
		}
		if fresh {
			*head(w.bag.Rows, rec) &^= FlagNew
			w.bag.Link(kr[i], rec)
		}
		if w.want[key] == nil {
			w.want[key] = map[string]uint64{}
		}
		if *c > 0 && w.r.Intn(3) == 0 {
			w.bag.Unlink(kr[i], rec)
			w.bag.Rows.Delete(rec)
			delete(w.want[key], text)
			continue
		}
		*c++
		w.want[key][text]++
		w.bag.Rows.Touch(rr[i : i+1])
	}
	for _, rec := range kr {
		if Live(w.bag.Keys.At(rec)) && w.bag.Size(rec) == 0 {
			w.bag.Keys.Delete(rec)
		}
	}
}

// get looks keys up and checks their rows.
func (w *bagWorld) get(n, keys int) {
	k := vec.New(types.BigIntType, 0)
	for range n {
		k.AppendValue(int64(w.r.Intn(keys)))
	}
	w.ke.Encode([]*vec.Vec{k}, upTo(n), nil)
	kr := make([]uint32, n)
	more := w.bag.Find(w.ke, nil, kr)
	for i, rec := range kr {
		key := fmt.Sprint(k.I64[i])
		got := map[string]uint64{}
		add := func(rec uint32, touch bool) {
			out := vec.New(types.StringType, 1)
			w.bag.Rows.KeyColumn(1, []uint32{rec}, out, 0)
			text := string(out.Bytes(0))
			if _, ok := got[text]; ok {
				w.t.Fatalf("key %s has row %s twice", key, text)
			}
			got[text] = *w.codec.count(rec)
			if touch && w.r.Intn(4) == 0 {
				*w.codec.count(rec)++
				w.want[key][text]++
				got[text]++
				w.bag.Rows.Touch([]uint32{rec})
			}
			if w.back && w.bag.KeyOf(rec) == 0 {
				w.t.Fatal("a row does not know its key")
			}
		}
		rest := more != nil && more[i]
		if rest {
			rec = w.bag.HeadOf(w.ke, i)
		} else if rec != 0 {
			rec = w.bag.Head(rec)
		}
		for ; rec != 0; rec = w.bag.Next(rec) {
			add(rec, false)
		}
		if rest {
			if err := w.bag.Rest(w.ke, i, func(recs []uint32) error {
				for _, rec := range recs {
					add(rec, true)
				}
				return nil
			}); err != nil {
				w.t.Fatal(err)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(w.want[key]) && len(got)+len(w.want[key]) > 0 {
			w.t.Fatalf("key %s has %v, want %v", key, got, w.want[key])
		}
	}
}

// all checks that the rows in memory and those in the store only are all that there are.
func (w *bagWorld) all() {
	n, want := w.bag.Rows.Len(), 0
	if err := w.bag.EachCold(func(rows []uint32) error { n += len(rows); return nil }); err != nil {
		w.t.Fatal(err)
	}
	for _, rows := range w.want {
		want += len(rows)
	}
	if n != want {
		w.t.Fatalf("%d rows, want %d", n, want)
	}
}

func (w *bagWorld) step(n, keys, each int) {
	if w.r.Intn(3) == 0 {
		w.get(n, keys)
	} else {
		w.put(n, keys, each)
	}
	if w.r.Intn(4) == 0 || w.sp.NeedsFreeze() {
		w.freeze()
	}
	for w.r.Intn(3) == 0 {
		w.apply()
	}
	w.sp.Between()
}

func (w *bagWorld) restart() {
	w.freeze()
	for len(w.queue) > 0 {
		w.apply()
	}
	w.stop()
	w.start(true)
}

// TestBag_AgainstMap: a bag that may keep nothing in memory, or little, behaves as one that keeps all.
func TestBag_AgainstMap(t *testing.T) {
	for seed := int64(1); seed <= 12; seed++ {
		w := &bagWorld{t: t, r: rand.New(rand.NewSource(seed)), cold: &coldMap{m: map[string]string{}},
			want: map[string]map[string]uint64{}, back: seed%2 == 0, long: seed%3 == 0}
		w.budget = NewBudget(1)
		if seed%4 < 2 {
			// Room for filters, and over the budget all the same.
			w.budget.limit += 1 << 18
			w.others = 1 << 18
			w.budget.Add(w.others)
		}
		w.start(false)
		most, before := 0, Evictions()
		for step := range 300 {
			keys, each := 60, 8
			if seed%5 == 0 {
				keys, each = 3, 300 // keys with more rows than are read at a time
			}
			w.step(w.r.Intn(20)+1, keys, each)
			most = max(most, w.bag.Cold())
			if step%50 == 17 {
				w.all()
			}
			if step%100 == 99 {
				w.restart()
			}
		}
		if most < 20 || Evictions()-before < 100 {
			t.Errorf("seed %d: at most %d rows were in the store only, %d left memory", seed, most, Evictions()-before)
		}
		w.stop()
	}
}

// TestBag_GivesChunksBack: a bag over the budget gives whole chunks back and loses nothing.
func TestBag_GivesChunksBack(t *testing.T) {
	for _, back := range []bool{false, true} {
		w := &bagWorld{t: t, r: rand.New(rand.NewSource(3)), cold: &coldMap{m: map[string]string{}},
			want: map[string]map[string]uint64{}, back: back}
		w.budget = NewBudget(12 << 20)
		w.start(false)
		for len(w.bag.Rows.Chunks) < 4 || len(w.bag.Keys.Chunks) < 2 {
			w.put(2000, 60_000, 4)
			w.freeze()
			w.apply()
			w.sp.Between()
		}
		w.others = 8 << 20
		w.budget.Add(w.others) // somebody else wants memory
		rows, keys := len(w.bag.Rows.Chunks), len(w.bag.Keys.Chunks)
		for range 40 {
			w.step(100, 60_000, 4)
		}
		if r, k := len(w.bag.Rows.Chunks), len(w.bag.Keys.Chunks); r >= rows || k >= keys {
			t.Errorf("%d and %d chunks before, %d and %d after", rows, keys, r, k)
		}
		w.all()
		for range 10 {
			w.get(2000, 60_000)
		}
		w.restart()
		for w.bag.spill.unknown {
			w.sp.Between()
		}
		for range 10 {
			w.get(2000, 60_000)
		}
		w.stop()
	}
}
