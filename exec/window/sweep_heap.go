package window

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/state"
)

// readers are a heap of those with an entry at hand, by its key, and where keys are equal by their slices.
type readers []*reader

func less(a, b *reader) bool {
	c := bytes.Compare(a.key(), b.key())
	return c < 0 || c == 0 && a.slice < b.slice
}

func (h *readers) push(r *reader) {
	l := append(*h, r)
	*h = l
	for i := len(l) - 1; i > 0; {
		up := (i - 1) / 2
		if !less(l[i], l[up]) {
			return
		}
		l[i], l[up] = l[up], l[i]
		i = up
	}
}

// advance moves the first reader on by an entry.
func (h *readers) advance(sp *state.Spill, group int) error {
	r := (*h)[0]
	r.next += 2
	ok, err := r.fill(sp, group)
	if err != nil {
		return err
	}
	if !ok {
		n := len(*h) - 1
		(*h)[0] = (*h)[n]
		*h = (*h)[:n]
	}
	h.down()
	return nil
}

// down puts the first reader where it belongs.
func (h *readers) down() {
	l := *h
	for i := 0; ; {
		k := 2*i + 1
		if k >= len(l) {
			return
		}
		if k+1 < len(l) && less(l[k+1], l[k]) {
			k++
		}
		if !less(l[k], l[i]) {
			return
		}
		l[i], l[k] = l[k], l[i]
		i = k
	}
}
