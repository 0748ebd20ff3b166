package window

import (
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// A local phase keeps no rows over a checkpoint, as they belong to no key group: it emits them
// before. Only the watermark is saved.

// Flush implements op.Flusher. Rows that are late for windows that the watermark has not ended yet
// go too: the global phase holds them (held.go), and saves them.
func (o *Local) Flush() error { return o.send(vec.MaxTime, true) }

// States implements op.Stateful.
func (o *Local) States() []state.Spec { return nil }

// Freeze implements op.Stateful.
func (o *Local) Freeze(*state.Delta) error { return nil }

// Dirty implements op.Stateful.
func (o *Local) Dirty() int { return 0 }

// Head implements op.Stateful.
func (o *Local) Head(dst []byte) ([]byte, error) { return appendHead(dst, o.wm, nil, nil), nil }

// Restore implements op.Stateful. Rows may come from where any old subtask's rows came from, so the
// least of their watermarks counts.
func (o *Local) Restore(_ state.Saved, heads [][]byte) error {
	p, err := readHeads(heads, o.ctx)
	if err == nil {
		o.wm = slices.Min(p.wms)
	}
	return err
}

var (
	_ op.Stateful = (*Local)(nil)
	_ op.Flusher  = (*Local)(nil)
)
