package job

import (
	"context"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// window is the window that d is for, 0 where it says nothing of its start or its end. One that cannot be is
// refused: it would never be complete.
func (c *completeness) window(d Due) (w [2]int64, err error) {
	if c.e.Start {
		w[0] = d.Start
	}
	if c.e.End {
		w[1] = d.End
	}
	if c.grid == nil {
		return w, nil
	}
	ok := !c.e.Start || c.grid.Starting(d.Start)
	if c.e.End {
		ok = ok && c.grid.Ending(d.End) && (!c.e.Start || c.grid.StartOf(d.End) == d.Start)
	}
	if ok {
		return w, nil
	}
	said := ""
	if c.e.Start {
		said = " from " + textOf(d.Start)
	}
	if c.e.End {
		said += " to " + textOf(d.End)
	}
	return w, fmt.Errorf("a row of it is for the window%s, and the result has no such window", said)
}

func textOf(localMs int64) string { return time.UnixMilli(localMs).UTC().Format("2006-01-02 15:04:05") }

// watchingWriter notes what the rows of a result say of who has reported.
type watchingWriter struct {
	connector.Writer
	c       *completeness
	progs   *expr.Programs
	ctx     expr.EvalCtx
	pending map[[2]int64]*reported
	began   int64
	name    []byte
	key     []byte
}

func newWatchingWriter(w connector.Writer, c *completeness, s types.Schema, env *expr.Env) (*watchingWriter, error) {
	p, err := expr.CompileTexts(s, c.cols, env)
	return &watchingWriter{Writer: w, c: c, progs: p, ctx: expr.EvalCtx{Env: env}, pending: map[[2]int64]*reported{}, began: vec.MaxTime}, err
}

// Write implements connector.Writer.
func (w *watchingWriter) Write(ctx context.Context, b *vec.Batch) error {
	w.ctx.Batch, w.ctx.Errs = b, w.ctx.Errs[:0]
	texts := w.progs.EvalAll(&w.ctx, b)
	c := w.c
	start, end := b.Cols[c.start], b.Cols[c.end]
	b.Each(func(i int) {
		deleted := c.deleted >= 0 && b.Cols[c.deleted].Bool[i]
		if start.IsNull(i) || end.IsNull(i) {
			return
		}
		if !deleted || c.count >= 0 {
			w.began = min(w.began, start.I64[i])
		}
		at, ok := w.producer(texts, i)
		if !ok {
			return
		}
		window := [2]int64{start.I64[i], end.I64[i]}
		r := w.pending[window]
		if r == nil {
			r = c.nothing()
			w.pending[window] = r
		}
		if !c.follows() {
			r.bits[at/64] |= 1 << (at % 64)
			return
		}
		rows := int64(1)
		if deleted {
			rows = 0
		} else if c.count >= 0 {
			if rows = 0; !b.Cols[c.count].IsNull(i) {
				rows = wholeNumber(b.Cols[c.count], i)
			}
		}
		w.key = w.key[:0]
		for _, k := range c.key {
			w.key = state.AppendValue(w.key, b.Cols[k], i)
		}
		r.cells[xxh3.Hash128(w.key)] = cell{int32(at), rows}
	})
	return w.Writer.Write(ctx, b)
}

// producer is whom row i is of.
func (w *watchingWriter) producer(texts []*vec.Vec, i int) (at int, ok bool) {
	w.name = w.name[:0]
	for k, t := range texts {
		if k > 0 {
			w.name = append(w.name, ", "...)
		}
		if t.IsNull(i) {
			w.name = append(w.name, "NULL"...)
		} else {
			w.name = append(w.name, t.Bytes(i)...)
		}
	}
	at, ok = w.c.index[string(w.name)]
	return at, ok
}

// wholeNumber is value i of v, a column of whole numbers.
func wholeNumber(v *vec.Vec, i int) int64 {
	if v.Phys == types.PI32 {
		return int64(v.I32[i])
	}
	return v.I64[i]
}

// Prepare implements connector.Writer.
func (w *watchingWriter) Prepare(ctx context.Context) ([]connector.Committable, error) {
	err := w.c.seen(w.pending, w.began)
	w.pending = map[[2]int64]*reported{}
	if err != nil {
		return nil, err
	}
	return w.Writer.Prepare(ctx)
}
