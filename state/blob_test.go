package state

import (
	"bytes"
	"math/rand"
	"sort"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func TestBlob_AgainstMap(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	mem := NewMemory()
	b := NewBlob(mem)
	want := map[Ref][]byte{}
	random := func() []byte {
		p := make([]byte, r.Intn(1<<r.Intn(12)))
		r.Read(p)
		return p
	}
	for step := 0; step < 20000; step++ {
		var ref Ref
		for ref = range want {
			break
		}
		p := random()
		switch old := want[ref]; r.Intn(5) {
		case 0, 1:
			n := b.Put(p)
			if _, ok := want[n]; ok {
				t.Fatalf("step %d: Put returned a name in use", step)
			}
			want[n] = p
		case 2:
			delete(want, ref)
			want[b.Append(ref, p)] = append(old[:len(old):len(old)], p...)
		case 3:
			delete(want, ref)
			want[b.Set(ref, p)] = p
		case 4:
			delete(want, ref)
			b.Free(ref)
		}
		if step%1000 == 0 || step < 100 {
			for ref, p := range want {
				if !bytes.Equal(b.Get(ref), p) {
					t.Fatalf("step %d: value of %x is wrong", step, ref)
				}
			}
			if b.Len() != len(want) {
				t.Fatalf("step %d: Len = %d, want %d", step, b.Len(), len(want))
			}
		}
		if step == 10000 {
			b.Reset()
			clear(want)
		}
	}
	b.Release()
	mem.Close()
	if mem.Bytes() != 0 {
		t.Fatalf("%d bytes still accounted", mem.Bytes())
	}
}

func TestHeaps_FirstIsLeast(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	b := NewBlob(NewMemory())
	alive, held := map[uint32]bool{}, map[uint32]bool{}
	h := NewHeaps(b, func(x, y uint32) bool { return x%101 < y%101 || x%101 == y%101 && x < y },
		func(x uint32) bool { return alive[x] }, func(x uint32) { delete(held, x) })
	var ref Ref
	for step := 0; step < 4000; step++ {
		e := uint32(r.Intn(400) + 1)
		switch {
		case alive[e]:
			alive[e] = false
			ref = h.Kill(ref)
		case held[e]:
			alive[e] = true
			h.Revive(ref)
		default:
			alive[e], held[e] = true, true
			ref = h.Push(ref, e)
		}
		var list []uint32
		for x, ok := range alive {
			if ok {
				list = append(list, x)
			}
		}
		sort.Slice(list, func(i, j int) bool {
			x, y := list[i], list[j]
			return x%101 < y%101 || x%101 == y%101 && x < y
		})
		want := uint32(0)
		if len(list) > 0 {
			want = list[0]
		}
		var got uint32
		if step%3 == 0 {
			if got, ref = h.First(ref); got != want {
				t.Fatalf("step %d: First = %d, want %d", step, got, want)
			}
		}
	}
}

func TestCodec_RoundTrip(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	ts := []types.Type{
		types.BooleanType, types.IntType, types.BigIntType, types.DoubleType, types.FloatType,
		types.DecimalType(38, 3), types.StringType, types.ArrayType(types.IntType),
	}
	ts = append(ts, types.RowType(types.Field{Name: "a", Type: ts[1]}, types.Field{Name: "b", Type: ts[6]}))
	for _, typ := range ts {
		in, out := vec.New(typ, 0), vec.New(typ, 100)
		for i := 0; i < 100; i++ {
			if typ.Kind == types.Row && i%3 > 0 {
				in.AppendValue([]types.Value{randomValue(r, ts[1], 50), randomValue(r, ts[6], 50)})
				continue
			}
			in.AppendValue(randomValue(r, typ, 50))
		}
		for i := 0; i < 100; i++ {
			enc := AppendValue(nil, in, i)
			if rest := DecodeValue(append(enc, 0xAB), out, i); len(rest) != 1 {
				t.Fatalf("%s: %d bytes left", typ, len(rest))
			}
			again := AppendValue(nil, out, i)
			if !bytes.Equal(enc, again) {
				t.Fatalf("%s: %v reads as %v", typ, in.Value(i), out.Value(i))
			}
		}
	}
}
