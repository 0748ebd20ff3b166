package state

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// wordCodec saves one word of a record.
type wordCodec struct {
	t  *Table
	at int
}

func (c wordCodec) AppendValue(dst []byte, rec uint32) []byte {
	return fmt.Append(dst, c.t.At(rec)[c.at])
}

func (c wordCodec) LoadValue(rec uint32, v []byte) error {
	_, err := fmt.Sscan(string(v), &c.t.At(rec)[c.at])
	return err
}

// saved is a model of the saved state of one table: what the changes told, applied to a map.
type saved map[string]string

func (s saved) apply(b []byte) error {
	return EachChange(b, func(c Change) error {
		key := fmt.Sprintf("%d/%s", c.Group, c.Key)
		switch c.Kind {
		case ChangePut:
			s[key] = string(c.Value)
		case ChangeDelete:
			if _, ok := s[key]; !ok {
				return fmt.Errorf("key %q is deleted and was never saved", key)
			}
			delete(s, key)
		case ChangeDeletePrefix:
			for k := range s {
				if strings.HasPrefix(k, key) {
					delete(s, k)
				}
			}
		}
		return nil
	})
}

// trackedTable is a table of one word a key, with a map of what it should hold.
type trackedTable struct {
	*Table
	k    Keeper
	enc  *Encoder
	want map[string]uint64
}

func newTracked(mem *Memory, l *Layout) *trackedTable {
	t := &trackedTable{Table: NewTable(mem, l, []uint64{0}), enc: NewEncoder(l), want: map[string]uint64{}}
	t.Track()
	t.k = Keeper{MaxParallelism: 128, Prefix: []byte("p"), Check: func(int) {}, Codec: wordCodec{t.Table, t.Base()}}
	return t
}

// equals checks that s holds what the table should: key by key, by way of restoring it.
func (t *trackedTable) equals(mem *Memory, s saved) (*trackedTable, error) {
	n := newTracked(mem, t.layout)
	for k, v := range s {
		_, key, _ := strings.Cut(k, "/")
		if err := n.k.Load(n.Table, []byte(key)[1:], []byte(v)); err != nil {
			return nil, err
		}
	}
	n.want = t.want
	return n, n.check()
}

func (t *trackedTable) check() error {
	ids := make([]uint32, t.Len()+1)
	var c Cursor
	ids = t.Scan(&c, ids)
	if len(ids) != len(t.want) {
		return fmt.Errorf("%d records, want %d", len(ids), len(t.want))
	}
	for _, r := range ids {
		if k := string(t.AppendKey(nil, r)); t.At(r)[t.Base()] != t.want[k] {
			return fmt.Errorf("key %q holds %d, want %d", k, t.At(r)[t.Base()], t.want[k])
		}
	}
	return nil
}

// TestTrack_AgainstMap changes a table at random; what Changes told, applied to a map, is what the
// table holds, and a table restored from that map goes on.
func TestTrack_AgainstMap(t *testing.T) {
	for _, ts := range [][]types.Type{{types.BigIntType}, {types.BigIntType, types.StringType}, manyTypes()} {
		for seed := int64(1); seed <= 8; seed++ {
			r := rand.New(rand.NewSource(seed))
			mem := NewMemory()
			tab, model := newTracked(mem, NewLayout(ts, false)), saved{}
			var d Delta
			for step := 0; step < 300; step++ {
				trackStep(r, tab)
				if r.Intn(4) > 0 {
					continue
				}
				if r.Intn(12) == 0 {
					// The owner tells itself that all is gone.
					for g := range 128 {
						d.DeletePrefix(0, g, []byte("p"))
					}
					tab.Reset()
					clear(tab.want)
					trackStep(r, tab)
				}
				tab.k.Freeze(tab.Table, &d)
				if d.Len() > 0 && tab.Dirty() != 0 {
					t.Fatalf("seed %d: %d dirty records after Freeze", seed, tab.Dirty())
				}
				if err := model.apply(d.Bytes()); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
				d.Reset()
				next, err := tab.equals(mem, model)
				if err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
				if r.Intn(6) == 0 {
					tab, next = next, tab
				}
				next.Release()
			}
		}
	}
}

// trackStep upserts, touches and deletes a few keys, some of them several times.
func trackStep(r *rand.Rand, t *trackedTable) {
	n := r.Intn(6) + 1
	cols := randomCols(r, t.layout.Types, n, 30)
	recs := make([]uint32, n)
	for range r.Intn(4) + 1 {
		t.enc.Encode(cols, upTo(n), nil)
		switch r.Intn(4) {
		case 0, 1:
			t.Upsert(t.enc, nil, recs)
			for _, rec := range recs {
				t.set(rec, r.Uint64()%1000)
			}
		case 2:
			t.Find(t.enc, nil, recs)
			for _, rec := range recs {
				if rec != 0 && Live(t.At(rec)) {
					delete(t.want, string(t.AppendKey(nil, rec)))
					t.Delete(rec)
				}
			}
		case 3:
			t.Find(t.enc, nil, recs)
			for _, rec := range recs {
				if rec != 0 {
					t.Touch([]uint32{rec})
					t.set(rec, r.Uint64()%1000)
				}
			}
		}
	}
}

func (t *trackedTable) set(rec uint32, v uint64) {
	t.At(rec)[t.Base()] = v
	t.want[string(t.AppendKey(nil, rec))] = v
}

func rowType() types.Type {
	return types.RowType(types.Field{Name: "a", Type: types.IntType}, types.Field{Name: "b", Type: types.StringType})
}

// savedKinds are key shapes of every physical type, with NULLs beyond the bits of the first word.
func savedKinds() [][]types.Type {
	all := []types.Type{
		types.BooleanType, types.IntType, types.BigIntType, types.FloatType, types.DoubleType,
		types.DecimalType(30, 2), types.StringType, types.NullType, types.ArrayType(types.StringType), rowType(),
	}
	wide := append(manyTypes(), all...)
	return [][]types.Type{nil, {types.BigIntType}, {types.StringType}, {rowType()}, all, wide}
}

func savedValue(r *rand.Rand, t types.Type) types.Value {
	switch {
	case t.Nullable && r.Intn(4) == 0:
		return nil
	case t.Phys() == types.PBytes:
		return strings.Repeat("\x00long", 8)[:r.Intn(40)]
	case t.Phys() == types.PList:
		return []types.Value{savedValue(r, *t.Elem), nil, savedValue(r, *t.Elem)}[:r.Intn(4)]
	case t.Phys() == types.PRow:
		return []types.Value{savedValue(r, types.IntType), savedValue(r, types.StringType)}
	}
	return randomValue(r, t, 1000)
}

func TestUpsertKey_RoundTrip(t *testing.T) {
	for i, ts := range savedKinds() {
		for _, lead := range []bool{false, true} {
			t.Run(fmt.Sprint(i, lead), func(t *testing.T) { keysRoundTrip(t, ts, lead) })
		}
	}
}

func keysRoundTrip(t *testing.T, ts []types.Type, lead bool) {
	r := rand.New(rand.NewSource(7))
	mem := NewMemory()
	l := NewLayout(ts, lead)
	a, b, enc := NewTable(mem, l, nil), NewTable(mem, l, nil), NewEncoder(l)
	const n = 500
	cols := make([]*vec.Vec, len(ts))
	for c, typ := range ts {
		cols[c] = vec.New(typ, 0)
		for range n {
			cols[c].AppendValue(savedValue(r, typ))
		}
	}
	leads, recs, there := make([]uint32, n), make([]uint32, n), make([]uint32, n)
	for i := range leads {
		leads[i] = uint32(i % 5)
	}
	enc.Encode(cols, upTo(n), leads)
	a.Upsert(enc, nil, recs)
	for i, rec := range recs {
		key := a.AppendKey(nil, rec)
		got, rest, err := b.UpsertKey(append(key, "rest"...), leads[i])
		if err != nil || string(rest) != "rest" {
			t.Fatalf("key %x: rest %q, %v", key, rest, err)
		}
		if b.Hash(got) != a.Hash(rec) || b.Hash(got) != enc.Hash(i) {
			t.Fatalf("key %x: hash %x became %x", key, a.Hash(rec), b.Hash(got))
		}
		if again := b.AppendKey(nil, got); !bytes.Equal(again, key) {
			t.Fatalf("key %x became %x", key, again)
		}
		there[i] = got
	}
	b.Find(enc, nil, recs)
	for i := range recs {
		if recs[i] == 0 || recs[i] != there[i] {
			t.Fatalf("row %d: loaded as record %d, found at %d", i, there[i], recs[i])
		}
	}
	if a.Len() != b.Len() {
		t.Fatalf("%d keys became %d", a.Len(), b.Len())
	}
	for c := range ts {
		out := vec.New(ts[c], n)
		b.KeyColumn(c, there, out, 0)
		for i := range there {
			if got, want := AppendValue(nil, out, i), AppendValue(nil, cols[c], i); !bytes.Equal(got, want) {
				t.Fatalf("column %d (%s) of row %d: %x, want %x", c, ts[c], i, got, want)
			}
		}
	}
}

func TestDelta_RoundTrip(t *testing.T) {
	var d Delta
	d.Put(1, 300, []byte("key"), []byte("value"))
	b := d.BeginPut(2, 4)
	b = append(b, "k2"...)
	d.EndPut(append(b, "v2"...), len(b))
	d.Put(0, 65535, nil, nil)
	d.Delete(3, 5, []byte("gone"))
	d.DeletePrefix(255, 6, []byte{0})
	if d.Len() != 5 || d.Size() != len(d.Bytes()) {
		t.Errorf("%d changes of %d bytes", d.Len(), d.Size())
	}
	got := ""
	if err := EachChange(d.Take(), func(c Change) error {
		got += fmt.Sprintf("%d %d %d %q %q\n", c.Kind, c.State, c.Group, c.Key, c.Value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const want = `1 1 300 "key" "value"
1 2 4 "k2" "v2"
1 0 65535 "" ""
2 3 5 "gone" ""
3 255 6 "\x00" ""
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if d.Len() != 0 || d.Size() != 0 {
		t.Error("a taken Delta is not empty")
	}
}

func FuzzEachChange(f *testing.F) {
	var d Delta
	d.Put(1, 2, []byte("key"), []byte("value"))
	d.Delete(3, 5, []byte("gone"))
	d.DeletePrefix(4, 6, []byte("p"))
	f.Add(d.Take())
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		var again Delta
		err := EachChange(b, func(c Change) error {
			switch c.Kind {
			case ChangePut:
				again.Put(c.State, c.Group, c.Key, c.Value)
			case ChangeDelete:
				again.Delete(c.State, c.Group, c.Key)
			case ChangeDeletePrefix:
				again.DeletePrefix(c.State, c.Group, c.Key)
			}
			return nil
		})
		if err == nil && !bytes.Equal(again.Bytes(), b) {
			t.Errorf("%x reads as %x", b, again.Bytes())
		}
	})
}

// FuzzUpsertKey: a damaged key is refused, or is another key that reads back the same.
func FuzzUpsertKey(f *testing.F) {
	kinds := savedKinds()
	r := rand.New(rand.NewSource(3))
	for i, ts := range kinds {
		l := NewLayout(ts, false)
		tab, enc := NewTable(NewMemory(), l, nil), NewEncoder(l)
		cols := make([]*vec.Vec, len(ts))
		for c, typ := range ts {
			cols[c] = vec.New(typ, 0)
			cols[c].AppendValue(savedValue(r, typ))
		}
		rec := []uint32{0}
		enc.Encode(cols, upTo(1), nil)
		tab.Upsert(enc, nil, rec)
		f.Add(byte(i), tab.AppendKey(nil, rec[0]))
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		ts := kinds[int(kind)%len(kinds)]
		tab := NewTable(NewMemory(), NewLayout(ts, false), nil)
		rec, rest, err := tab.UpsertKey(b, 0)
		if err != nil {
			if tab.Len() > 0 {
				t.Error("a refused key was added")
			}
			return
		}
		if again := tab.AppendKey(nil, rec); !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Errorf("%x reads as %x", b, again)
		}
		for c, typ := range ts {
			tab.KeyColumn(c, []uint32{rec}, vec.New(typ, 1), 0)
		}
	})
}
