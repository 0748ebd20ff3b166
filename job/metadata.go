package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Metadata columns may be declared with any type that the connector's own can be cast to, and for
// writing from: Flink's documentation reads Kafka's timestamp, which has a zone, as TIMESTAMP(3).
// Connectors only ever see their own types; the casts are made here.

// nativeMetadata returns t with the types that the connector gives its metadata, whatever types
// the columns were declared with.
func nativeMetadata(t *connector.Table, known []types.Field) *connector.Table {
	if len(t.Metadata) == 0 {
		return t
	}
	out := *t
	out.Metadata = slices.Clone(t.Metadata)
	for i, m := range out.Metadata {
		for _, f := range known {
			if f.Name == m.Key {
				out.Metadata[i].Type = f.Type
			}
		}
	}
	return &out
}

// castMetadata returns the projection of src over metadata of the types that native has.
func castMetadata(src *plan.Source, native *connector.Table, env *expr.Env) ([]expr.Expr, error) {
	var failed error
	cast := func(e expr.Expr) expr.Expr {
		c, ok := e.(*expr.Column)
		if !ok || c.Index < len(src.Columns) {
			return e
		}
		m := native.Metadata[src.Metadata[c.Index-len(src.Columns)]]
		if m.Type.EqualIgnoreNull(c.T.WithoutAttr()) {
			return e
		}
		out, err := expr.Cast(&expr.Column{Index: c.Index, Name: c.Name, T: m.Type}, c.T.WithoutAttr(), false, env, expr.Pos{})
		if err != nil {
			failed = fmt.Errorf("metadata column '%s' cannot be %s: %w; declare it as %s", m.Name, c.T, err, m.Type)
			return e
		}
		return out
	}
	out := make([]expr.Expr, len(src.Project))
	for i, e := range src.Project {
		out[i] = expr.Map(e, cast)
	}
	return out, failed
}

// shownWriter shows rows to who looks on before they are written.
type shownWriter struct {
	connector.Writer
	node *plan.Node
	show func(*plan.Node, *vec.Batch)
}

// Write implements connector.Writer.
func (w *shownWriter) Write(ctx context.Context, b *vec.Batch) error {
	w.show(w.node, b)
	return w.Writer.Write(ctx, b)
}

// castingWriter writes metadata columns as the types of the connector.
type castingWriter struct {
	connector.Writer
	progs *expr.Programs
	at    []int // columns cast
	ctx   expr.EvalCtx
	bad   func(b *vec.Batch, row int, pos expr.Pos, err error) error
	view  vec.Batch
	sel   []int32
}

// castSink returns w, or what casts the metadata columns of its rows of schema s first.
func castSink(w connector.Writer, t *connector.Table, s types.Schema, known []types.Field, env *expr.Env,
	bad func(*vec.Batch, int, expr.Pos, error) error) (connector.Writer, error) {
	var casts []expr.Expr
	var cols []int
	at := len(t.Columns)
	for i, m := range nativeMetadata(t, known).Metadata {
		if m.Virtual || at >= len(s.Fields) {
			continue
		}
		from := s.Fields[at].Type.WithoutAttr()
		if to := m.Type.WithNullable(from.Nullable); !to.Equal(from) {
			e, err := expr.Cast(&expr.Column{Index: at, Name: m.Name, T: from}, to, false, env, expr.Pos{})
			if err != nil {
				return nil, fmt.Errorf("metadata column '%s' cannot be written as %s: %w; declare it as %s", m.Name, t.Metadata[i].Type, err, to)
			}
			casts, cols = append(casts, e), append(cols, at)
		}
		at++
	}
	if len(casts) == 0 {
		return w, nil
	}
	progs, err := expr.CompileAll(casts, env)
	return &castingWriter{Writer: w, progs: progs, at: cols, ctx: expr.EvalCtx{Env: env}, bad: bad}, err
}

// Write implements connector.Writer.
func (w *castingWriter) Write(ctx context.Context, b *vec.Batch) error {
	w.ctx.Batch, w.ctx.Errs = b, w.ctx.Errs[:0]
	cast := w.progs.EvalAll(&w.ctx, b)
	cols := append(w.view.Cols[:0], b.Cols...)
	for k, at := range w.at {
		cols[at] = cast[k]
	}
	w.view = *b
	w.view.Cols = cols
	if len(w.ctx.Errs) > 0 {
		if err := w.refuse(b); err != nil {
			return err
		}
	}
	return w.Writer.Write(ctx, &w.view)
}

// refuse leaves out the rows that a cast failed on.
func (w *castingWriter) refuse(b *vec.Batch) error {
	failed := map[int]bool{}
	for _, e := range w.ctx.Errs {
		if failed[e.Row] {
			continue
		}
		failed[e.Row] = true
		if err := w.bad(b, e.Row, e.Pos, e.Err); err != nil {
			return err
		}
	}
	w.sel = w.sel[:0]
	b.Each(func(i int) {
		if !failed[i] {
			w.sel = append(w.sel, int32(i))
		}
	})
	w.view.Sel = w.sel
	return nil
}
