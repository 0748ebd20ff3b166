// Package print is the print connector: a sink that writes each row as a line of text, in the form
// of Flink's: +I[a, b].
package print

import (
	"context"
	"encoding/hex"
	"strconv"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	connector.Register(&connector.Factory{
		Name: "print",
		Doc:  "A sink that prints each row, with its kind, to standard output.",
		Options: []option.Spec{
			{Name: "print-identifier", Doc: "Printed before each row, followed by > ."},
			{Name: "standard-error", Kind: option.Bool, Default: "false", Doc: "Print to standard error."},
		},
		SinkChangelog: func(*connector.Table, option.Values) types.ChangelogMode { return types.Retract },
		Delivery:      func(*connector.Table, option.Values) (connector.Delivery, string) { return (&sink{}).Delivery() },
		NewSink: func(c connector.SinkConfig) (connector.Sink, error) {
			return &sink{c}, nil
		},
	})
}

type sink struct{ cfg connector.SinkConfig }

func (s *sink) NewCommitter(context.Context) (connector.Committer, error) { return nil, nil }

func (s *sink) Delivery() (connector.Delivery, string) {
	return connector.AtLeastOnce, "lines are printed as rows come; after a crash they are printed again"
}

func (s *sink) NewWriter(_ context.Context, subtask, parallelism int) (connector.Writer, error) {
	w := &writer{out: s.cfg.Stdout}
	if s.cfg.Options.Bool("standard-error") {
		w.out = s.cfg.Stderr
	}
	prefix := s.cfg.Options.Get("print-identifier")
	if parallelism > 1 {
		if prefix != "" {
			prefix += ":"
		}
		prefix += strconv.Itoa(subtask + 1)
	}
	if prefix != "" {
		prefix += "> "
	}
	w.prefix = prefix
	var err error
	w.text, err = NewText(s.cfg.Schema, nil)
	return w, err
}

type writer struct {
	out    connector.Printer
	prefix string
	text   *Text
	buf    []byte
}

// Write implements connector.Writer.
func (w *writer) Write(_ context.Context, b *vec.Batch) error {
	cols := w.text.Columns(b)
	w.buf = w.buf[:0]
	b.Each(func(i int) {
		w.buf = append(w.buf, w.prefix...)
		w.buf = append(w.buf, b.Kind(i).String()...)
		w.buf = append(w.buf, '[')
		for k, c := range cols {
			if k > 0 {
				w.buf = append(w.buf, ", "...)
			}
			if c.IsNull(i) {
				w.buf = append(w.buf, "null"...)
				continue
			}
			w.buf = append(w.buf, c.Bytes(i)...)
		}
		w.buf = append(w.buf, "]\n"...)
	})
	_, err := w.out.Write(w.buf)
	return err
}

func (w *writer) Flush(context.Context) error { return nil }

func (w *writer) Prepare(context.Context) ([]connector.Committable, error) { return nil, nil }

func (w *writer) Tick(context.Context) error { return nil }

func (w *writer) Close() error { return nil }

// Text turns columns into text as CAST(... AS STRING) does, except that binary values, which need
// not be text, have the form of a literal: x'48656c6c6f'.
type Text struct {
	progs *expr.Programs
	ctx   expr.EvalCtx
	// hex has the text of the binary columns, nil for others; cols is what Columns returned.
	hex  []*vec.Vec
	cols []*vec.Vec
}

// NewText returns the converter for rows of schema s. env may be nil: times with zone are then
// shown in UTC.
func NewText(s types.Schema, env *expr.Env) (*Text, error) {
	if env == nil {
		env = &expr.Env{}
	}
	t := &Text{ctx: expr.EvalCtx{Env: env}}
	var es []expr.Expr
	for i, f := range s.Fields {
		var e expr.Expr = &expr.Column{Index: i, Name: f.Name, T: f.Type}
		t.hex = append(t.hex, nil)
		if f.Type.IsBinary() {
			t.hex[i] = vec.New(types.StringType, 0)
		} else if !f.Type.IsString() {
			var err error
			if e, err = expr.Cast(e, types.StringType, false, env, expr.Pos{}); err != nil {
				return nil, err
			}
		}
		es = append(es, e)
	}
	var err error
	t.progs, err = expr.CompileAll(es, env)
	return t, err
}

// Columns returns the columns of b as text, valid until the next call.
func (t *Text) Columns(b *vec.Batch) []*vec.Vec {
	t.ctx.Batch, t.ctx.Errs = b, t.ctx.Errs[:0]
	t.cols = append(t.cols[:0], t.progs.EvalAll(&t.ctx, b)...)
	for i, h := range t.hex {
		if h != nil {
			writeHex(h, t.cols[i], b)
			t.cols[i] = h
		}
	}
	return t.cols
}

// writeHex writes the selected values of v into out as binary literals.
func writeHex(out, v *vec.Vec, b *vec.Batch) {
	out.Init(types.StringType, b.N)
	b.Each(func(i int) {
		if v.IsNull(i) {
			out.SetNull(i)
			return
		}
		buf := append(out.BeginBytes(), "x'"...)
		buf = hex.AppendEncode(buf, v.Bytes(i))
		out.EndBytes(i, append(buf, '\''))
	})
}
