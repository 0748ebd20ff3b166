package state

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// keyKinds are the key shapes under test.
var keyKinds = []struct {
	name  string
	types []types.Type
	lead  bool
}{
	{"none", nil, false},
	{"bigint", []types.Type{types.BigIntType}, false},
	{"int", []types.Type{types.IntType.NotNull()}, false},
	{"string", []types.Type{types.StringType}, false},
	{"bigint string", []types.Type{types.BigIntType, types.StringType}, false},
	{"all", []types.Type{
		types.BooleanType, types.DoubleType, types.FloatType, types.DecimalType(30, 2),
		types.StringType, types.ArrayType(types.IntType), types.NullType,
	}, false},
	{"lead", []types.Type{types.BigIntType}, true},
	{"lead string", []types.Type{types.StringType, types.IntType}, true},
}

func manyTypes() []types.Type {
	var ts []types.Type
	for i := 0; i < headNulls+3; i++ {
		ts = append(ts, types.IntType)
	}
	return ts
}

func randomValue(r *rand.Rand, t types.Type, distinct int) types.Value {
	if t.Nullable && r.Intn(8) == 0 {
		return nil
	}
	n := r.Intn(distinct)
	switch t.Phys() {
	case types.PBool:
		return n%2 == 0
	case types.PI32, types.PI64:
		return int64(n - distinct/2)
	case types.PF32, types.PF64:
		return float64(n) / 4
	case types.PI128:
		return types.Int128{Lo: uint64(n), Hi: int64(n%3) - 1}
	case types.PBytes:
		return fmt.Sprintf("%0*d", n%30, n)
	case types.PList:
		return []types.Value{int64(n), nil, int64(n % 5)}
	}
	return nil
}

func randomCols(r *rand.Rand, ts []types.Type, n, distinct int) []*vec.Vec {
	cols := make([]*vec.Vec, len(ts))
	for c, t := range ts {
		cols[c] = vec.New(t, 0)
		for i := 0; i < n; i++ {
			cols[c].AppendValue(randomValue(r, t, distinct))
		}
	}
	return cols
}

func rowKey(cols []*vec.Vec, i int, lead []uint32) string {
	s := ""
	if lead != nil {
		s = fmt.Sprint(lead[i], "|")
	}
	for _, c := range cols {
		s += fmt.Sprintf("%v|", c.Value(i))
	}
	return s
}

func upTo(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// TestTable_AgainstMap drives a table and a map with the same random operations.
func TestTable_AgainstMap(t *testing.T) {
	kinds := append(keyKinds[:len(keyKinds):len(keyKinds)], struct {
		name  string
		types []types.Type
		lead  bool
	}{"many columns", manyTypes(), false})
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			for seed := int64(1); seed <= 3; seed++ {
				againstMap(t, kind.types, kind.lead, seed)
			}
		})
	}
}

func againstMap(t *testing.T, ts []types.Type, lead bool, seed int64) {
	r := rand.New(rand.NewSource(seed))
	mem := NewMemory()
	l := NewLayout(ts, lead)
	tab := NewTable(mem, l, []uint64{7, 0})
	enc := NewEncoder(l)
	want := map[string]uint32{}
	sums := map[string]uint64{}
	for round := 0; round < 24; round++ {
		n := r.Intn(700) + 1
		cols := randomCols(r, ts, n, 50<<(seed*2))
		var leads []uint32
		if lead {
			for i := 0; i < n; i++ {
				leads = append(leads, uint32(r.Intn(5)))
			}
		}
		rows := upTo(n)
		enc.Encode(cols, rows, leads)
		recs := make([]uint32, n)
		tab.Find(enc, nil, recs)
		for i := range recs {
			if recs[i] != want[rowKey(cols, i, leads)] {
				t.Fatalf("seed %d: Find(%s) = %d, want %d", seed, rowKey(cols, i, leads), recs[i],
					want[rowKey(cols, i, leads)])
			}
		}
		tab.Upsert(enc, nil, recs)
		for i, rec := range recs {
			k := rowKey(cols, i, leads)
			if old, ok := want[k]; ok && old != rec {
				t.Fatalf("seed %d: key %s moved from %d to %d", seed, k, old, rec)
			}
			want[k] = rec
			w := tab.At(rec)
			if w[tab.Base()] != 7 {
				t.Fatalf("record does not start as told: %d", w[tab.Base()])
			}
			w[tab.Base()+1]++
			sums[k]++
			if w[tab.Base()+1] != sums[k] {
				t.Fatalf("seed %d: count of %s is %d, want %d", seed, k, w[tab.Base()+1], sums[k])
			}
		}
		for i := range ts {
			out := vec.New(ts[i], n)
			tab.KeyColumn(i, recs, out, 0)
			for k := range recs {
				if fmt.Sprint(out.Value(k)) != fmt.Sprint(cols[i].Value(k)) {
					t.Fatalf("key column %d reads %v, want %v", i, out.Value(k), cols[i].Value(k))
				}
			}
		}
		for i, rec := range recs {
			if k := rowKey(cols, i, leads); r.Intn(3) == 0 && want[k] != 0 {
				tab.Delete(rec)
				delete(want, k)
				delete(sums, k)
			}
		}
		checkScan(t, tab, want)
		if round == 12 {
			tab.Reset()
			clear(want)
			clear(sums)
		}
	}
	tab.Release()
	mem.Close()
	if mem.Bytes() != 0 {
		t.Fatalf("%d bytes still accounted after Release", mem.Bytes())
	}
}

func checkScan(t *testing.T, tab *Table, want map[string]uint32) {
	t.Helper()
	if tab.Len() != len(want) {
		t.Fatalf("Len = %d, want %d", tab.Len(), len(want))
	}
	seen := map[uint32]bool{}
	var c Cursor
	ids := make([]uint32, 37)
	for {
		got := tab.Scan(&c, ids)
		if len(got) == 0 {
			break
		}
		for _, id := range got {
			if seen[id] {
				t.Fatalf("record %d scanned twice", id)
			}
			seen[id] = true
		}
	}
	for k, rec := range want {
		if !seen[rec] {
			t.Fatalf("record of %s not scanned", k)
		}
	}
	if len(seen) != len(want) {
		t.Fatalf("scanned %d records, want %d", len(seen), len(want))
	}
}

// TestTable_UpsertFrom copies keys between tables, with and without new leads.
func TestTable_UpsertFrom(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	mem := NewMemory()
	for _, kind := range keyKinds {
		l := NewLayout(kind.types, kind.lead)
		a, b := NewTable(mem, l, nil), NewTable(mem, l, nil)
		enc := NewEncoder(l)
		n := 500
		cols := randomCols(r, kind.types, n, 3000)
		lead := make([]uint32, n)
		recs, recs2, recs3 := make([]uint32, n), make([]uint32, n), make([]uint32, n)
		enc.Encode(cols, upTo(n), lead)
		a.Upsert(enc, nil, recs)
		if kind.lead {
			for i := range lead {
				lead[i] = 9
			}
			b.UpsertLead(a, recs, lead, recs2)
			enc.Encode(cols, upTo(n), lead)
		} else {
			b.UpsertFrom(a, recs, recs2)
		}
		b.Find(enc, nil, recs3)
		for i := range recs2 {
			if recs2[i] != recs3[i] || recs2[i] == 0 {
				t.Fatalf("%s: key %d copied to %d, found at %d", kind.name, i, recs2[i], recs3[i])
			}
		}
		if a.Len() != b.Len() {
			t.Fatalf("%s: %d keys copied to %d", kind.name, a.Len(), b.Len())
		}
		a.Release()
		b.Release()
	}
}

// TestTable_ReusedChunks: what a chunk held before is not taken for records.
func TestTable_ReusedChunks(t *testing.T) {
	mem := NewMemory()
	l := NewLayout([]types.Type{types.BigIntType}, false)
	for _, init := range [][]uint64{{}, {0, 0}, {0}, {0, 0, 0}, {0, 0}} { // records of 2 to 5 words
		tab, enc := NewTable(mem, l, init), NewEncoder(l)
		v, recs := vec.New(types.BigIntType, 1000), make([]uint32, 1000)
		const n = 3 * chunkWords / 3
		for k := 0; k < n; k += len(recs) {
			for i := range recs {
				v.I64[i] = int64(k + i)
			}
			enc.Encode([]*vec.Vec{v}, upTo(len(recs)), nil)
			tab.Upsert(enc, nil, recs)
		}
		got, ids := 0, make([]uint32, 512)
		var c Cursor
		for list := tab.Scan(&c, ids); len(list) > 0; list = tab.Scan(&c, ids) {
			got += len(list)
		}
		if got != tab.Len() {
			t.Fatalf("records of %d words: %d scanned, %d are there", tab.Stride(), got, tab.Len())
		}
		tab.Release()
	}
	mem.Close()
}

// TestHash_Frozen fails when the hash changes, which would send stored keys to other groups.
func TestHash_Frozen(t *testing.T) {
	ts := []types.Type{types.BigIntType, types.StringType}
	enc := NewEncoder(NewLayout(ts, false))
	cols := []*vec.Vec{vec.New(ts[0], 0), vec.New(ts[1], 0)}
	for _, s := range []types.Value{"", "abc", "abcd", "abcdefgh", "abcdefghijkl", "abcdefghijklm", nil} {
		cols[0].AppendValue(int64(42))
		cols[1].AppendValue(s)
	}
	cols[0].SetNull(1)
	enc.Encode(cols, upTo(7), nil)
	got := ""
	for i := 0; i < enc.Len(); i++ {
		got += fmt.Sprintf("%08x ", enc.Hash(i))
	}
	const want = "5fc2b6fa 3e47ddf3 ae96f601 520eff75 be70c26e a40a4b2d b988df88 "
	if got != want {
		t.Errorf("hashes\n got %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		hash           uint32
		max, par, g, s int
	}{{0, 128, 2, 0, 0}, {1 << 31, 128, 2, 64, 1}, {1<<32 - 1, 128, 3, 127, 2}} {
		g := KeyGroup(c.hash, c.max)
		if s := Subtask(g, c.max, c.par); g != c.g || s != c.s {
			t.Errorf("hash %x: group %d subtask %d, want %d %d", c.hash, g, s, c.g, c.s)
		}
	}
}

func TestTable_NoAllocations(t *testing.T) {
	mem := NewMemory()
	l := NewLayout([]types.Type{types.BigIntType, types.StringType}, false)
	tab := NewTable(mem, l, []uint64{0})
	enc := NewEncoder(l)
	r := rand.New(rand.NewSource(1))
	cols := randomCols(r, l.Types, 1000, 5000)
	rows, recs := upTo(1000), make([]uint32, 1000)
	n := testing.AllocsPerRun(20, func() {
		enc.Encode(cols, rows, nil)
		tab.Upsert(enc, nil, recs)
		tab.Reset()
	})
	if n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
	tab.Release()
}

func benchmarkUpsert(b *testing.B, ts []types.Type, keys int) {
	mem := NewMemory()
	l := NewLayout(ts, false)
	tab := NewTable(mem, l, make([]uint64, 3))
	enc := NewEncoder(l)
	r := rand.New(rand.NewSource(1))
	const batches = 512
	all := make([][]*vec.Vec, batches)
	for i := range all {
		all[i] = make([]*vec.Vec, len(ts))
		for c, t := range ts {
			v := vec.New(t, vec.BatchRows)
			for k := 0; k < vec.BatchRows; k++ {
				if t.Phys() == types.PBytes {
					v.SetString(k, "2024-01-01")
				} else {
					v.I64[k] = int64(r.Intn(keys))
				}
			}
			all[i][c] = v
		}
	}
	rows, recs := upTo(vec.BatchRows), make([]uint32, vec.BatchRows)
	for _, cols := range all {
		enc.Encode(cols, rows, nil)
		tab.Upsert(enc, nil, recs)
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		enc.Encode(all[i%batches], rows, nil)
		tab.Upsert(enc, nil, recs)
		for _, rec := range recs {
			tab.Chunks[rec>>ChunkBits][int(rec&ChunkMask)+tab.Base()]++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/vec.BatchRows, "ns/row")
	tab.Release()
	mem.Close()
}

func BenchmarkTable_Upsert(b *testing.B) {
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("bigint/keys=%d", keys), func(b *testing.B) {
			benchmarkUpsert(b, []types.Type{types.BigIntType}, keys)
		})
		b.Run(fmt.Sprintf("bigint+string/keys=%d", keys), func(b *testing.B) {
			benchmarkUpsert(b, []types.Type{types.BigIntType, types.StringType}, keys)
		})
	}
}
