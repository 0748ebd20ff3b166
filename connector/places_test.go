package connector

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tidemark-stream/tidemark/vec"
)

func TestPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type place struct {
		o   vec.Origin
		pos int64
	}
	for range 300 {
		var p Places
		var want []place
		for range r.IntN(8) {
			b := &vec.Batch{N: 5}
			if r.IntN(3) > 0 {
				b.Origin = &vec.Origin{Source: "t", Split: []string{"a", "b", ""}[r.IntN(3)], Unit: "byte"}
				for range b.N {
					b.Pos = append(b.Pos, []int64{r.Int64N(1000), math.MaxInt64, 0}[r.IntN(3)])
				}
			}
			rows := [][]int32{{0, 1, 2, 3, 4}, {1, 3}, {}, {4}}[r.IntN(4)]
			p.Add(b, rows)
			for _, i := range rows {
				if b.Origin == nil {
					want = append(want, place{})
				} else {
					want = append(want, place{*b.Origin, b.Pos[i]})
				}
			}
		}
		var got Places
		if err := got.Parse(p.Append(nil), len(want)); err != nil {
			t.Fatal(err)
		}
		var third Places
		for i := range want {
			third.AddOf(&got, i)
		}
		if third.Known() != p.Known() {
			t.Fatal("a copy knows of others")
		}
		for _, x := range []*Places{&p, &got, &third} {
			if x.Len() != len(want) {
				t.Fatalf("%d rows of %d", x.Len(), len(want))
			}
			for i, w := range want {
				o, pos := x.Of(i)
				if o == nil && w.o != (vec.Origin{}) || o != nil && (*o != w.o || pos != w.pos) {
					t.Fatalf("row %d: %v %d, want %v", i, o, pos, w)
				}
			}
		}
		p.Reset()
		if o, _ := p.Of(0); o != nil || p.Len() != 0 {
			t.Fatal("something is left after Reset")
		}
	}
	if o, _ := (*Places)(nil).Of(3); o != nil {
		t.Error("places from nowhere")
	}
}

// TestPlaces_AreSmall has the rows of a file, in order.
func TestPlaces_AreSmall(t *testing.T) {
	var p Places
	b := &vec.Batch{N: 1000, Origin: &vec.Origin{Source: "t", Split: "a/file", Unit: "byte"}}
	for i := range b.N {
		b.Pos = append(b.Pos, int64(i)*60)
	}
	p.Add(b, vec.Positions(1000))
	if n := len(p.Append(nil)); n > 1100 {
		t.Errorf("%d bytes of 1000 rows", n)
	}
}

func FuzzPlaces(f *testing.F) {
	var p Places
	p.Add(&vec.Batch{N: 2, Origin: &vec.Origin{Source: "t", Split: "s", Unit: "byte"}, Pos: []int64{1, 2}}, []int32{0, 1})
	f.Add(p.Append(nil), 2)
	f.Fuzz(func(t *testing.T, b []byte, rows int) {
		if rows < 0 || rows > 1<<16 {
			return
		}
		var p Places
		if p.Parse(b, rows) != nil {
			return
		}
		for i := range rows {
			p.Of(i)
		}
	})
}
