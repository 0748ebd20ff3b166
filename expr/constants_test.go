package expr

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/vec"
)

// TestConstants compares with a search one by one, for lists of each form, wherever in the buffer a
// value lies.
func TestConstants(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	word := func(most int) string {
		var b strings.Builder
		for range r.IntN(most + 1) {
			b.WriteByte("ab\x00\xff"[r.IntN(4)])
		}
		return b.String()
	}
	forms := map[string]int{}
	for range 2000 {
		most := []int{3, 8, 12}[r.IntN(3)]
		texts := make([]string, 1+r.IntN(12))
		for i := range texts {
			texts[i] = word(most)
		}
		c := newConstants(texts)
		switch {
		case c.table != nil:
			forms["table"]++
		case c.index != nil:
			forms["map"]++
		default:
			forms["list"]++
		}
		for range 20 {
			s := word(most + 1)
			if r.IntN(2) == 0 {
				s = texts[r.IntN(len(texts))]
			}
			before, after := word(5), word(12)
			want := slices.Index(texts, s)
			if want < 0 {
				want = len(texts)
			}
			ref := vec.Ref{Off: uint32(len(before)), Len: uint32(len(s))}
			if got := c.find([]byte(before+s+after), ref); got != want {
				t.Fatalf("%q in %q: %d, want %d", s, texts, got, want)
			}
		}
	}
	if len(forms) != 3 {
		t.Errorf("forms tried: %v", forms)
	}
}

func TestConstantsWithoutTexts(t *testing.T) {
	if got := newConstants(nil).find([]byte("a"), vec.Ref{Len: 1}); got != 0 {
		t.Errorf("found at %d of none", got)
	}
}
