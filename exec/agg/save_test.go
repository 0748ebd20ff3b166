package agg

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// world is groups of all aggregates that the options allow, with random rows to add.
type world struct {
	t     *testing.T
	r     *rand.Rand
	in    types.Schema
	calls []plan.AggCall
	opt   Options
	live  [][]types.Value // rows that may be taken back
}

func newWorld(t *testing.T, seed int64, o Options) *world {
	in := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "i", Type: types.IntType},
		types.Field{Name: "d", Type: types.DoubleType}, types.Field{Name: "s", Type: types.StringType},
		types.Field{Name: "b", Type: types.BooleanType}, types.Field{Name: "c", Type: types.DecimalType(30, 2)},
		types.Field{Name: "f", Type: types.FloatType})
	w := &world{t: t, r: rand.New(rand.NewSource(seed)), in: in, opt: o}
	fns := []string{"COUNT(*)", "COUNT(DISTINCT i)", "COUNT(DISTINCT i) FILTER b", "COUNT(DISTINCT s)", "SUM(i)",
		"SUM(d)", "SUM(f)", "SUM(c)", "AVG(f)", "SUM(DISTINCT d)", "LISTAGG(DISTINCT s)", "MIN(i)", "MAX(s)", "MAX(d)",
		"MIN(c) FILTER b", "MAX(i) FILTER b", "FIRST_VALUE(s)", "LAST_VALUE(i)", "LISTAGG(s)", "VAR_POP(d)", "ARRAY_AGG(i)"}
	if !o.Retract {
		fns = append(fns, "APPROX_COUNT_DISTINCT(s)", "MAX(b)")
	}
	for _, f := range fns {
		c, err := exectest.ParseAgg(f, in, true)
		if err != nil {
			t.Fatal(err)
		}
		w.calls = append(w.calls, c)
	}
	return w
}

func (w *world) set() *Set {
	s, err := New(w.calls, w.in, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// rows makes a batch; the key is column 0.
func (w *world) rows(n int) (*vec.Batch, []bool) {
	b := vec.NewBatch(w.in)
	neg := make([]bool, n)
	for k := range n {
		var row []types.Value
		if at := len(w.live); w.opt.Retract && at > 0 && w.r.Intn(5) < 2 {
			at = w.r.Intn(at)
			row, neg[k] = w.live[at], true
			w.live = slices.Delete(w.live, at, at+1)
		} else {
			text := []string{"", "short", "a string that is longer than twelve bytes", "x"}
			row = []types.Value{int64(w.r.Intn(5)), int64(w.r.Intn(6)), w.r.NormFloat64(), text[w.r.Intn(4)],
				w.r.Intn(2) == 0, types.I128(int64(w.r.Intn(1000))), float64(float32(w.r.NormFloat64()))}
			if w.r.Intn(8) == 0 {
				row[1+w.r.Intn(6)] = nil
			}
			w.live = append(w.live, row)
		}
		for c, x := range row {
			b.Cols[c].AppendValue(x)
		}
		b.N++
	}
	return b, neg
}

func (w *world) results(set *Set, st *Store, recs []uint32) []string {
	cols := make([]*vec.Vec, len(w.calls))
	for i, c := range w.calls {
		cols[i] = vec.New(c.T, len(recs))
	}
	if err := set.Emit(st, recs, cols, 0); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for k := range recs {
		s := ""
		for i, c := range cols {
			s += fmt.Sprintf("%s=%v ", w.calls[i].Name, exectest.Text(c.Value(k), c.Type))
		}
		out = append(out, s)
	}
	return out
}

// keyedWorld is a store of groups by key 0, and the saved entries of it.
type keyedWorld struct {
	*world
	s     *Set
	st    *Store
	enc   *state.Encoder
	saved [8]map[string]string
	puts  [8]int
	keep  state.Keeper
}

type groupCodec struct{ k *keyedWorld }

func (c groupCodec) AppendValue(dst []byte, rec uint32) []byte {
	return c.k.s.AppendGroup(dst, c.k.st, rec)
}
func (c groupCodec) LoadValue(rec uint32, b []byte) error { return c.k.s.LoadGroup(c.k.st, rec, b) }

func (w *world) keyed(mem *state.Memory) *keyedWorld {
	k := &keyedWorld{world: w, s: w.set()}
	l := state.NewLayout([]types.Type{types.BigIntType}, false)
	k.enc = state.NewEncoder(l)
	k.st = k.s.NewStore(mem, l, 0)
	k.st.Track()
	k.keep = state.Keeper{MaxParallelism: 128, Prefix: []byte("p"), Codec: groupCodec{k}, Check: func(int) {}}
	for i := range k.saved {
		k.saved[i] = map[string]string{}
	}
	return k
}

func (k *keyedWorld) add(b *vec.Batch, neg []bool) {
	in := &Input{Cols: b.Cols, Rows: b.Selected(), Recs: make([]uint32, b.N)}
	if k.opt.Retract {
		in.Neg = neg
	}
	k.enc.Encode(b.Cols[:1], in.Rows, nil)
	k.st.T.Upsert(k.enc, nil, in.Recs)
	k.s.Add(k.st, in)
}

func (k *keyedWorld) drop(key int64) {
	v := vec.New(types.BigIntType, 0)
	v.AppendValue(key)
	k.enc.Encode([]*vec.Vec{v}, []int32{0}, nil)
	recs := []uint32{0}
	k.st.T.Find(k.enc, nil, recs)
	if recs[0] != 0 {
		k.st.Drop(recs)
		k.st.T.Delete(recs[0])
	}
}

func (k *keyedWorld) freeze() {
	var d state.Delta
	k.keep.Freeze(k.st.T, &d)
	k.keep.State = 1
	k.st.FreezeValues(&k.keep, &d)
	k.keep.State = 0
	clear(k.puts[:])
	if err := state.EachChange(d.Bytes(), func(c state.Change) error {
		if c.Key[0] != 'p' {
			k.t.Fatalf("key %x has no prefix", c.Key)
		}
		id := fmt.Sprintf("%03d ", c.Group) + string(c.Key[1:])
		if c.Kind == state.ChangePut {
			k.puts[c.State]++
			k.saved[c.State][id] = string(c.Value)
		} else {
			delete(k.saved[c.State], id)
		}
		return nil
	}); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keyedWorld) restored(mem *state.Memory) *keyedWorld {
	n := k.world.keyed(mem)
	for i, m := range k.saved {
		for _, id := range slices.Sorted(maps.Keys(m)) {
			n.saved[i][id] = m[id]
			var err error
			if i == 0 {
				err = n.keep.Load(n.st.T, []byte(id[4:]), []byte(m[id]))
			} else {
				err = n.st.LoadValue(i-1, []byte(id[4:]), []byte(m[id]))
			}
			if err != nil {
				k.t.Fatal(err)
			}
		}
	}
	n.st.EndLoad()
	return n
}

func (k *keyedWorld) all() []string {
	var c state.Cursor
	ids := k.st.T.Scan(&c, make([]uint32, 100))
	var out []string
	for i, s := range k.results(k.s, k.st, ids) {
		out = append(out, fmt.Sprintf("%x %s", k.st.T.AppendKey(nil, ids[i]), s))
	}
	slices.Sort(out)
	return out
}

// TestSave_Keyed restores groups, with their values as entries of their own, after every batch: the
// results go on as those of groups that were not interrupted.
func TestSave_Keyed(t *testing.T) {
	for _, o := range []Options{{}, {Owned: true}, {Retract: true, Owned: true}} {
		for seed := int64(1); seed <= 4; seed++ {
			t.Run(fmt.Sprintf("%+v %d", o, seed), func(t *testing.T) {
				w := newWorld(t, seed, o)
				mem := state.NewMemory()
				whole, cut := w.keyed(mem), w.keyed(mem)
				for range 40 {
					b, neg := w.rows(1 + w.r.Intn(20))
					whole.add(b, neg)
					cut.add(b, neg)
					if o.Owned && w.r.Intn(4) == 0 {
						key := int64(w.r.Intn(5))
						whole.drop(key)
						cut.drop(key)
						w.live = slices.DeleteFunc(w.live, func(r []types.Value) bool { return r[0] == key })
					}
					if w.r.Intn(3) == 0 {
						cut.freeze()
					}
					if w.r.Intn(3) == 0 {
						cut.freeze()
						cut = cut.restored(mem)
					}
					if got, want := cut.all(), whole.all(); !slices.Equal(got, want) {
						t.Fatalf("\n got %s\nwant %s", got, want)
					}
				}
				cut.freeze()
				if cut.freeze(); cut.puts != [8]int{} {
					t.Errorf("entries written though nothing changed: %d", cut.puts)
				}
			})
		}
	}
}

// TestSave_OnlyWhatChanged adds rows of one group, with values that it has and one that is new.
func TestSave_OnlyWhatChanged(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.calls = w.calls[:3] // COUNT(*), COUNT(DISTINCT i) twice
	k := w.keyed(state.NewMemory())
	b, _ := w.rows(200)
	k.add(b, nil)
	k.freeze()
	if k.puts[0] < 5 || k.puts[1] < 25 {
		t.Fatalf("%d entries at first", k.puts)
	}
	one := vec.NewBatch(w.in)
	for _, x := range []int64{1, 2, 3, 77} {
		for c, v := range []types.Value{int64(3), x, nil, nil, false, nil, nil} {
			one.Cols[c].AppendValue(v)
		}
		one.N++
	}
	k.add(one, nil)
	if k.freeze(); k.puts[0] != 1 || k.puts[1] != 1 {
		t.Errorf("%d entries for one new value in one group", k.puts)
	}
}

// TestSave_Inline moves groups, values included, to other stores as sessions are saved, and merges
// them there.
func TestSave_Inline(t *testing.T) {
	for _, o := range []Options{{Owned: true}, {Retract: true, Owned: true}} {
		for seed := int64(1); seed <= 4; seed++ {
			t.Run(fmt.Sprintf("%+v %d", o, seed), func(t *testing.T) {
				w := newWorld(t, seed, o)
				mem := state.NewMemory()
				whole, cut := w.set(), w.set()
				ws, cs := whole.NewRecords(mem, 1), cut.NewRecords(mem, 1)
				group := func(s *Set, st *Store) uint32 {
					r := st.R.Alloc()
					s.Clear(st, r, s.Init())
					return r
				}
				a, c := []uint32{group(whole, ws), group(whole, ws)}, []uint32{group(cut, cs), group(cut, cs)}
				for range 30 {
					b, neg := w.rows(1 + w.r.Intn(10))
					which := w.r.Intn(2)
					in := Input{Cols: b.Cols, Rows: b.Selected()}
					if o.Retract {
						in.Neg = neg
					}
					other := in
					for range b.N {
						in.Recs, other.Recs = append(in.Recs, a[which]), append(other.Recs, c[which])
					}
					whole.Add(ws, &in)
					cut.Add(cs, &other)
					if w.r.Intn(2) == 0 {
						to := w.set()
						ts := to.NewRecords(mem, 1)
						for i, r := range c {
							c[i] = group(to, ts)
							if err := to.LoadGroup(ts, c[i], cut.AppendGroup(nil, cs, r)); err != nil {
								t.Fatal(err)
							}
							if err := to.LoadValues(ts, c[i], cut.AppendValues(nil, cs, r)); err != nil {
								t.Fatal(err)
							}
						}
						cut, cs = to, ts
					}
					if w.r.Intn(6) == 0 {
						for i, s := range []*Set{whole, cut} {
							st, recs := []*Store{ws, cs}[i], [][]uint32{a, c}[i]
							s.Merge(st, st, recs[:1], recs[1:])
							st.Drop(recs[1:])
							s.Clear(st, recs[1], s.Init())
						}
					}
					if got, want := w.results(cut, cs, c), w.results(whole, ws, a); !slices.Equal(got, want) {
						t.Fatalf("\n got %s\nwant %s", got, want)
					}
				}
			})
		}
	}
}

// FuzzLoad gives damaged groups and values to the readers, which must refuse them or load them.
func FuzzLoad(f *testing.F) {
	w := newWorld(nil, 1, Options{Retract: true, Owned: true})
	for _, n := range []int{0, 1, 30} {
		k := w.keyed(state.NewMemory())
		k.add(w.rows(n))
		k.freeze()
		for i, m := range k.saved {
			for _, id := range slices.Sorted(maps.Keys(m)) {
				f.Add(uint8(i), []byte(id[4:]), []byte(m[id]))
			}
		}
	}
	f.Fuzz(func(_ *testing.T, i uint8, key, value []byte) {
		mem := state.NewMemory()
		k := w.keyed(mem)
		defer mem.Close()
		defer k.st.Release()
		_ = k.keep.Load(k.st.T, key, value)
		_ = k.st.LoadValue(int(i)%len(k.st.vals), key, value)
		k.st.EndLoad()
		var c state.Cursor
		for _, rec := range k.st.T.Scan(&c, make([]uint32, 1)) {
			_ = k.s.LoadValues(k.st, rec, value)
		}
	})
}

// TestPack_EmptyString: the least string of a part is no string of no length.
func TestPack_EmptyString(t *testing.T) {
	in := oneColumn(types.StringType)
	f := newFixture(t, plan.AggCall{Fn: "MIN", Args: []int{0}, Filter: -1, T: types.StringType}, in, Options{})
	parts := f.set.NewRecords(f.mem, 1)
	packed := vec.New(types.BytesType, 0)
	for i, x := range []string{"a", ""} {
		v := vec.New(types.StringType, 0)
		v.AppendValue(x)
		g := f.group()
		f.add(g, v)
		packed.Resize(i + 1)
		f.set.Pack(f.st, []uint32{g}, packed, i)
	}
	recs := f.set.Unpack(parts, packed, []int32{0, 1}, nil)
	whole := f.group()
	for _, r := range recs {
		f.set.Merge(f.st, parts, []uint32{whole}, []uint32{r})
	}
	if got := f.value(t, whole); got != "" {
		t.Errorf("MIN of 'a' and '' is %q", got)
	}
}
