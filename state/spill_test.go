package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
)

// coldMap is a store in memory.
type coldMap struct {
	m       map[string]string
	sorted  []string // keys of m, nil if not up to date
	lookups int
	hits    int
	err     error
}

func (c *coldMap) Lookup(keys [][]byte, found func(i int, value []byte) error) error {
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		return errors.New("keys do not ascend")
	}
	for i, k := range keys {
		c.lookups++
		if v, ok := c.m[string(k)]; ok {
			c.hits++
			if err := found(i, []byte(v)); err != nil {
				return err
			}
		}
	}
	return c.err
}

func (c *coldMap) Range(lo, hi []byte, f func(key, value []byte) error) error {
	if c.sorted == nil {
		c.sorted = slices.Sorted(maps.Keys(c.m))
	}
	i, _ := slices.BinarySearch(c.sorted, string(lo))
	for ; i < len(c.sorted) && c.sorted[i] < string(hi); i++ {
		if err := f([]byte(c.sorted[i]), []byte(c.m[c.sorted[i]])); err != nil {
			return err
		}
	}
	return nil
}

func (c *coldMap) apply(op uint16, b []byte) {
	c.sorted = nil
	_ = EachChange(b, func(ch Change) error {
		k := string(append(AppendStoreKey(nil, op, ch.State, ch.Group), ch.Key...))
		switch ch.Kind {
		case ChangePut:
			c.m[k] = string(ch.Value)
		case ChangeDelete:
			delete(c.m, k)
		case ChangeDeletePrefix:
			maps.DeleteFunc(c.m, func(o, _ string) bool { return strings.HasPrefix(o, k) })
		}
		return nil
	})
}

// valueCodec keeps the value of a record in a Blob: word 0 of the owner.
type valueCodec struct {
	t *Table
	b *Blob
}

func (c valueCodec) AppendValue(dst []byte, rec uint32) []byte {
	return append(dst, c.b.Get(Ref(c.t.At(rec)[c.t.Base()]))...)
}

func (c valueCodec) LoadValue(rec uint32, v []byte) error {
	c.t.At(rec)[c.t.Base()] = uint64(c.b.Put(v))
	return nil
}

func (c valueCodec) DropValue(rec uint32) { c.b.Free(Ref(c.t.At(rec)[c.t.Base()])) }

// spillWorld is a table that spills, what it should hold, and a job that freezes and applies late.
type spillWorld struct {
	t      *testing.T
	r      *rand.Rand
	mem    *Memory
	cold   *coldMap
	budget *Budget
	sp     *Spill
	tab    *Table
	codec  valueCodec
	k      Keeper
	enc    *Encoder
	types  []types.Type
	want   map[string]string // value by key in the form of AppendKey
	queue  [][]byte
	frozen []uint64
	prefix string
	keep   bool  // nothing is deleted
	others int64 // what others take of the budget
}

func newSpillWorld(t *testing.T, seed int64, limit int64, ts []types.Type, prefix string) *spillWorld {
	w := &spillWorld{t: t, r: rand.New(rand.NewSource(seed)), cold: &coldMap{m: map[string]string{}}, types: ts,
		want: map[string]string{}, prefix: prefix}
	w.budget = NewBudget(limit)
	w.start(false)
	return w
}

func (w *spillWorld) start(stored bool) {
	w.mem = w.budget.NewMemory()
	l := NewLayout(w.types, false)
	w.enc = NewEncoder(l)
	w.tab = NewTable(w.mem, l, []uint64{0})
	w.codec = valueCodec{w.tab, NewBlob(w.mem)}
	w.k = Keeper{State: 3, MaxParallelism: 16, Prefix: []byte(w.prefix), Codec: w.codec, Check: func(int) {}}
	w.sp = NewSpill(w.budget, w.cold, SpillOptions{Operator: 7, Lo: 0, Hi: 16, Stored: stored})
	w.k.Spill(w.tab, w.sp)
	if stored {
		if err := w.k.Restore(w.tab, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *spillWorld) stop() {
	w.codec.b.Release()
	w.tab.Release()
	w.mem.Close()
	if n := w.budget.Used() - w.others; n != 0 {
		w.t.Fatalf("%d bytes still counted", n)
	}
	if n := w.budget.spillable.Load(); n != 0 {
		w.t.Fatalf("%d bytes still counted as spillable", n)
	}
}

func (w *spillWorld) freeze() {
	var d Delta
	w.k.Freeze(w.tab, &d)
	w.queue = append(w.queue, d.Take())
	w.frozen = append(w.frozen, w.sp.Frozen())
}

func (w *spillWorld) apply() {
	if len(w.queue) > 0 {
		w.cold.apply(7, w.queue[0])
		w.sp.Applied(w.frozen[0])
		w.queue, w.frozen = w.queue[1:], w.frozen[1:]
	}
}

// batch looks keys up, checks what is found, and changes or deletes some.
func (w *spillWorld) batch(n, distinct int) {
	cols := randomCols(w.r, w.types, n, distinct)
	recs := make([]uint32, n)
	w.enc.Encode(cols, upTo(n), nil)
	add := w.r.Intn(3) > 0
	if add {
		w.tab.Upsert(w.enc, nil, recs)
	} else {
		w.tab.Find(w.enc, nil, recs)
	}
	keys := w.keys(n)
	for i, rec := range recs {
		if rec == 0 {
			if v, ok := w.want[keys[i]]; ok {
				w.t.Fatalf("key %x is not found and holds %q", keys[i], v)
			}
			continue
		}
		if !Live(w.tab.At(rec)) {
			continue
		}
		key := string(w.tab.AppendKey(nil, rec))
		p := &w.tab.At(rec)[w.tab.Base()]
		got, want := string(w.codec.b.Get(Ref(*p))), w.want[key]
		if got != want {
			w.t.Fatalf("key %x holds %q, want %q", key, got, want)
		}
		if _, ok := w.want[key]; !ok && !add {
			w.t.Fatalf("key %x is found and was never added", key)
		}
		switch {
		case !w.keep && w.r.Intn(5) == 0:
			w.codec.DropValue(rec)
			w.tab.Delete(rec)
			delete(w.want, key)
		case add:
			w.want[key] = got + fmt.Sprint(w.r.Intn(10))
			if len(got) > 20 {
				w.want[key] = ""
			}
			*p = uint64(w.codec.b.Set(Ref(*p), []byte(w.want[key])))
		}
	}
}

// keys are the encoded keys in the form of AppendKey.
func (w *spillWorld) keys(n int) []string {
	t := NewTable(NewMemory(), w.tab.Layout(), nil)
	recs, keys := make([]uint32, n), make([]string, n)
	t.Upsert(w.enc, nil, recs)
	for i, rec := range recs {
		keys[i] = string(t.AppendKey(nil, rec))
	}
	return keys
}

// sweep checks that Sweep gives every record once.
func (w *spillWorld) sweep(remove bool) {
	seen := map[string]bool{}
	var c SweepCursor
	ids := make([]uint32, 7)
	for got := w.tab.Sweep(&c, ids); len(got) > 0; got = w.tab.Sweep(&c, ids) {
		for _, rec := range got {
			key := string(w.tab.AppendKey(nil, rec))
			v := string(w.codec.b.Get(Ref(w.tab.At(rec)[w.tab.Base()])))
			if want, ok := w.want[key]; seen[key] || !ok && !remove || v != want {
				w.t.Fatalf("key %x with %q: seen before %v, want %q %v", key, v, seen[key], want, ok)
			}
			seen[key] = true
			if remove && w.r.Intn(20) == 0 {
				w.codec.DropValue(rec)
				w.tab.Delete(rec)
				delete(w.want, key)
			}
		}
	}
	if !remove && len(seen) != len(w.want) {
		w.t.Fatalf("swept %d records, want %d", len(seen), len(w.want))
	}
}

func (w *spillWorld) step(n, distinct int) {
	w.batch(n, distinct)
	if w.r.Intn(4) == 0 {
		w.freeze()
	}
	for w.r.Intn(3) == 0 {
		w.apply()
	}
	w.sp.Between()
}

// TestSpill_AgainstMap: a table that may keep nothing in memory behaves as one that keeps all.
func TestSpill_AgainstMap(t *testing.T) {
	for _, c := range []struct {
		name   string
		types  []types.Type
		prefix string
	}{
		{"bigint", []types.Type{types.BigIntType}, ""},
		{"prefix", []types.Type{types.BigIntType}, "slice 1"},
		{"string", []types.Type{types.StringType, types.IntType}, ""},
		{"none", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := int64(1); seed <= 6; seed++ {
				w := newSpillWorld(t, seed, 1, c.types, c.prefix)
				if seed%2 == 0 {
					// Room for a filter, and over the budget all the same.
					w.budget.limit += 1 << 17
					w.budget.Add(1 << 17)
					w.others = 1 << 17
				}
				most := 0
				for step := range 300 {
					w.step(w.r.Intn(20)+1, 400)
					most = max(most, w.tab.Cold())
					if step%40 == 17 {
						w.sweep(step%80 == 17)
					}
					if step%100 == 99 {
						// A restart: what was frozen is in the store.
						w.freeze()
						for len(w.queue) > 0 {
							w.apply()
						}
						w.stop()
						w.start(true)
					}
				}
				if len(c.types) > 0 && (most < 10 || w.cold.hits < 10) {
					t.Errorf("seed %d: at most %d records were in the store only, %d came back", seed, most, w.cold.hits)
				}
				w.stop()
			}
		})
	}
}

// TestSpill_GivesChunksBack: a table over the budget gives whole chunks back and loses nothing.
func TestSpill_GivesChunksBack(t *testing.T) {
	w := newSpillWorld(t, 3, 6<<20, []types.Type{types.BigIntType, types.StringType}, "")
	for w.tab.Cold() < 20_000 {
		w.batch(2000, 1<<30)
		w.freeze()
		w.apply()
		w.sp.Between()
	}
	w.budget.Add(4 << 20) // somebody else wants memory
	before := len(w.tab.Chunks)
	for range 30 {
		w.step(100, 1<<30)
	}
	for len(w.queue) > 0 {
		w.apply()
	}
	w.sp.Between()
	if len(w.tab.Chunks) >= before {
		t.Errorf("%d chunks before and %d after", before, len(w.tab.Chunks))
	}
	w.sweep(false)
	w.budget.Add(-4 << 20)
	for range 30 {
		w.step(2000, 1<<30)
	}
	w.sweep(false)
	w.stop()
}

// TestSpill_NeedsFreeze: changed records stay, and the job is told.
func TestSpill_NeedsFreeze(t *testing.T) {
	w := newSpillWorld(t, 3, 1<<20, []types.Type{types.BigIntType}, "")
	w.keep = true
	for range 20 {
		w.batch(2000, 1<<30)
		w.sp.Between()
	}
	if !w.sp.NeedsFreeze() || w.tab.Cold() > 0 {
		t.Fatalf("NeedsFreeze %v with %d records in the store", w.sp.NeedsFreeze(), w.tab.Cold())
	}
	w.freeze()
	if w.sp.Between(); w.tab.Cold() > 0 || !w.sp.Pending() {
		t.Fatal("records left that the store does not have")
	}
	w.apply()
	if w.sp.Between(); w.tab.Cold() == 0 || w.sp.Pending() {
		t.Fatal("no record left")
	}
	if w.sp.Between(); w.sp.NeedsFreeze() {
		t.Fatal("NeedsFreeze without changes")
	}
	w.stop()
}

func TestSpill_ErrorOfTheStore(t *testing.T) {
	w := newSpillWorld(t, 3, 1, []types.Type{types.BigIntType}, "")
	for w.tab.Cold() == 0 {
		w.batch(100, 1000)
		w.freeze()
		w.apply()
		w.sp.Between()
	}
	w.cold.err = errors.New("the disk is gone")
	defer func() {
		var e *ColdError
		if err, ok := recover().(error); !ok || !errors.As(err, &e) || !errors.Is(err, w.cold.err) {
			t.Errorf("got %v", err)
		}
	}()
	for {
		w.batch(100, 1000)
	}
}

func TestFilter(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	f := filter{mem: NewMemory()}
	in := map[uint64]bool{}
	for len(in) < 200_000 {
		h := mixKey(r.Uint64())
		in[h] = true
		f.add(h, 1000)
	}
	wrong, n := 0, 100_000
	for h := range in {
		if !f.has(h) {
			t.Fatal("a key that was added is not there")
		}
	}
	xs, may := make([]uint64, n), make([]uint64, n)
	for i := range xs {
		xs[i] = mixKey(r.Uint64())
	}
	f.mark(xs, may)
	for i, h := range xs {
		if f.has(h) != (may[i] == 1) {
			t.Fatal("has and mark differ")
		}
		if may[i] == 1 && !in[h] {
			wrong++
		}
	}
	if bits := float64(8*f.bytes()) / float64(len(in)); wrong > n/40 || bits > 20 {
		t.Errorf("%d of %d wrong with %d layers of %.1f bits a key", wrong, n, len(f.layers), bits)
	}
	f.reset()
	if f.mem.Bytes() != 0 {
		t.Error("memory is not given back")
	}
}

func TestGraves(t *testing.T) {
	var g graves
	var keys [][]byte
	for i := range 1000 {
		k := binary.BigEndian.AppendUint32(nil, uint32(i))
		at := len(g.buf)
		g.buf = binary.LittleEndian.AppendUint32(g.buf, uint32(i%7))
		g.buf = append(binary.LittleEndian.AppendUint32(g.buf, 4), k...)
		g.add(at)
		keys = append(keys, k)
	}
	for i, k := range keys {
		if more := append(k, 1); !g.has(graveSum(k), k) || g.has(graveSum(k)+1, k) || g.has(graveSum(more), more) {
			t.Fatalf("key %d", i)
		}
	}
}
