package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector/print"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/vec"
)

// rowPrinter prints the rows of a bare SELECT.
type rowPrinter interface {
	rows(b *vec.Batch) error
	// printed is the number of rows that close would show, with those shown already.
	printed() int64
	close() error
}

// How the rows of a bare SELECT are printed; auto chooses.
const (
	outputAuto      = "auto"
	outputLive      = "live"
	outputTable     = "table"
	outputChangelog = "changelog"
	outputJSON      = "json"
	outputCSV       = "csv"
)

var outputs = []string{outputAuto, outputLive, outputTable, outputChangelog, outputJSON, outputCSV}

// outputFor chooses how the rows of j are printed. What --output says comes first, then the
// result mode that Flink's SQL client knows: table, changelog, or tableau, which prints rows as
// they come. Otherwise a result that changes is a live table on a terminal; elsewhere it is printed
// when the job ends by itself, and as changes when it does not.
func (v *view) outputFor(j *engine.Run) string {
	updates := !j.Select.Mode.IsInsertOnly()
	output := v.output
	if output == outputAuto {
		output = outputTable
		switch mode := j.Config.All()[catalog.KeyResultMode]; {
		case strings.EqualFold(mode, "changelog"):
			output = outputChangelog
		case strings.EqualFold(mode, "tableau"):
			if !j.Plan.Batch {
				output = outputChangelog
			}
		case v.screen != nil && (updates || !j.Bounded):
			output = outputLive
		}
	}
	if output == outputTable && updates && !j.Bounded {
		output = outputChangelog
	}
	return output
}

// newRowPrinter returns what prints the rows of j.
func newRowPrinter(v *view, j *engine.Run) (rowPrinter, error) {
	s := j.Select.Schema
	updates := !j.Select.Mode.IsInsertOnly()
	text, err := print.NewText(s, j.Config.Env())
	if err != nil {
		return nil, err
	}
	output := v.outputFor(j)
	var out rowPrinter
	switch output {
	case outputJSON, outputCSV:
		opts := option.Of(nil, format.Lookup(output).Options)
		enc, err := format.Lookup(output).NewEncoder(format.EncoderConfig{Schema: s, Options: opts})
		if err != nil {
			return nil, err
		}
		out = &encodedPrinter{v: v, enc: enc, kinds: updates && !j.Bounded, json: output == outputJSON}
	case outputChangelog:
		return &tablePrinter{text: text, kinds: true, table: show.NewTable(v.stdout, s, "op")}, nil
	default:
		t := &tablePrinter{text: text, table: show.NewTable(v.stdout, s)}
		if output == outputLive {
			return newLivePrinter(v, j, t), nil
		}
		out = t
	}
	if updates && j.Bounded {
		return &foldPrinter{out: out, result: resultOf(j, text)}, nil
	}
	return out, nil
}

// tablePrinter prints rows in a box as they come.
type tablePrinter struct {
	table *show.Table
	text  *print.Text
	kinds bool
	since time.Time
}

func (p *tablePrinter) rows(b *vec.Batch) error {
	cols := p.text.Columns(b)
	var err error
	b.Each(func(i int) {
		row := cells(cols, i)
		if p.kinds {
			row = append([]string{b.Kind(i).String()}, row...)
		}
		if err == nil {
			err = p.table.Add(row)
		}
	})
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if err == nil && time.Since(p.since) > 300*time.Millisecond {
		err = p.table.Flush() // do not hold rows of a slow stream back
	}
	return err
}

func (p *tablePrinter) printed() int64 { return p.table.Rows() }

func (p *tablePrinter) close() error { return p.table.Close() }

// encodedPrinter prints rows in a format, one a line.
type encodedPrinter struct {
	v     *view
	enc   format.Encoder
	out   format.Encoded
	buf   []byte
	kinds bool // each row tells what it does: "op" and "row" in JSON, a first field in CSV
	json  bool
}

func (p *encodedPrinter) rows(b *vec.Batch) error {
	p.out.Reset()
	plain := *b
	plain.Kinds = nil
	if err := p.enc.Encode(&p.out, &plain); err != nil {
		return err
	}
	p.buf = p.buf[:0]
	from, k := 0, 0
	b.Each(func(i int) {
		row := p.out.Data[from:p.out.Ends[k]]
		switch {
		case p.kinds && p.json:
			p.buf = fmt.Appendf(p.buf, `{"op":"%s","row":%s}`, b.Kind(i), row)
		case p.kinds:
			p.buf = fmt.Appendf(p.buf, "%s,%s", b.Kind(i), row)
		default:
			p.buf = append(p.buf, row...)
		}
		p.buf = append(p.buf, '\n')
		from = p.out.Ends[k]
		k++
	})
	_, err := p.v.stdout.Write(p.buf)
	return err
}

func (p *encodedPrinter) printed() int64 { return 0 }

func (p *encodedPrinter) close() error { return nil }

// resultOf returns what keeps the result of j. That of ORDER BY with LIMIT, which comes as changes
// of the rows that belong to it, is shown in its order.
func resultOf(j *engine.Run, text *print.Text) *result {
	r := newResult(j.Select, text)
	for _, n := range j.Plan.Nodes {
		sink, ok := n.Op.(*plan.Sink)
		if !ok || !sink.Collect || !r.finds {
			continue
		}
		if sort, ok := j.Plan.Nodes[n.Inputs[0].From].Op.(*plan.Sort); ok {
			r.order = sort.Keys
		}
	}
	return r
}

// foldPrinter prints what a changelog adds up to when the job has ended.
type foldPrinter struct {
	out    rowPrinter
	result *result
}

func (p *foldPrinter) rows(b *vec.Batch) error {
	p.result.rows(b, 0)
	return nil
}

// printed is 0: what a failed job adds up to is not a result.
func (p *foldPrinter) printed() int64 { return 0 }

func (p *foldPrinter) close() error {
	if err := p.result.each(p.out.rows); err != nil {
		return err
	}
	return p.out.close()
}
