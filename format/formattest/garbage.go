package formattest

import (
	"bytes"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/vec"
)

// garbage mixes spoilt records among the good ones: every good one must come through.
func (h *harness) garbage(t *testing.T) {
	whole := h.bounded()
	bad := 0
	d := h.decoder(t, h.all(), &bad)
	for round := range 6 {
		var data []byte
		c := &format.Chunk{Bounds: []vec.Ref{}}
		good := map[int64]string{}
		for i, ref := range whole.Bounds {
			if ref == format.NullRecord {
				continue
			}
			rec := whole.Data[ref.Off : ref.Off+ref.Len]
			pos := int64(len(c.Bounds))
			if h.rng.IntN(3) == 0 {
				rec = h.spoil(rec)
			} else {
				good[pos] = h.want[i]
			}
			c.Bounds = append(c.Bounds, vec.Ref{Off: uint32(len(data)), Len: uint32(len(rec))})
			c.Positions = append(c.Positions, pos)
			data = append(data, rec...)
		}
		c.Data = data
		out := format.Rows{Batch: h.batchOf(h.all())}
		drain(t, d, c, &out, 1+round*40)
		h.keeps(t, &out, good)
		if h.suite.Text {
			h.garbageLines(t, whole)
		}
	}
}

// keeps checks that every good row is there, by its position.
func (h *harness) keeps(t *testing.T, out *format.Rows, good map[int64]string) {
	t.Helper()
	got := map[int64]string{}
	for i := range out.Batch.N {
		got[out.Batch.Pos[i]] = Show(out.Batch, i)
	}
	for pos, want := range good {
		if got[pos] != want {
			t.Fatalf("among spoilt records, the one at %d\n got %q\nwant %q", pos, got[pos], want)
		}
	}
}

// garbageLines does the same with lines. Spoilt ones hold no newlines and no quotes that would
// reach beyond them.
func (h *harness) garbageLines(t *testing.T, whole *format.Chunk) {
	t.Helper()
	bad := 0
	d := h.decoder(t, h.all(), &bad)
	c := &format.Chunk{}
	good := map[int64]string{}
	for i, ref := range whole.Bounds {
		rec := whole.Data[ref.Off : ref.Off+ref.Len]
		if h.rng.IntN(3) == 0 {
			rec = bytes.Map(func(r rune) rune {
				if r == '\n' || r == '\r' || r == '"' || r == '\'' || r == '\\' {
					return -1
				}
				return r
			}, h.spoil(rec))
		} else {
			good[int64(len(c.Data))] = h.want[i]
		}
		c.Data = append(append(c.Data, rec...), '\n')
	}
	out := format.Rows{Batch: h.batchOf(h.all())}
	drain(t, d, c, &out, 1000)
	h.keeps(t, &out, good)
}

// spoil returns rec cut, with bytes changed, or replaced.
func (h *harness) spoil(rec []byte) []byte {
	out := append([]byte{}, rec...)
	switch h.rng.IntN(4) {
	case 0:
		if len(out) > 0 {
			return out[:h.rng.IntN(len(out))]
		}
	case 1:
		for range 1 + h.rng.IntN(4) {
			if len(out) > 0 {
				out[h.rng.IntN(len(out))] = byte(h.rng.IntN(256))
			}
		}
		return out
	case 2:
		const bits = `{}[]",:0-1.e\null;`
		for range 1 + h.rng.IntN(4) {
			at := h.rng.IntN(len(out) + 1)
			out = append(out[:at:at], append([]byte{bits[h.rng.IntN(len(bits))]}, out[at:]...)...)
		}
		return out
	}
	out = out[:0]
	for range h.rng.IntN(40) {
		out = append(out, byte(h.rng.IntN(256)))
	}
	return out
}
