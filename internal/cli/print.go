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
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// rowPrinter prints the rows of a bare SELECT.
type rowPrinter interface {
	rows(b *vec.Batch) error
	// printed is the number of rows that close would show, with those shown already.
	printed() int64
	close() error
}

// newRowPrinter chooses how the rows of j are printed. A result that is updated is folded and
// printed when the job ends by itself; when it does not end, every change is printed with its
// kind, as with --output changelog.
func newRowPrinter(v *view, j *engine.Run) (rowPrinter, error) {
	s := j.Select.Schema
	updates := !j.Select.Mode.IsInsertOnly()
	output := v.output
	if mode := j.Config.Get("sql-client.execution.result-mode"); output == "table" && strings.EqualFold(mode, "changelog") {
		output = "changelog"
	}
	if updates && !j.Bounded && output == "table" {
		output = "changelog"
	}
	var out rowPrinter
	switch output {
	case "json", "csv":
		opts := option.Of(nil, format.Lookup(output).Options)
		enc, err := format.Lookup(output).NewEncoder(format.EncoderConfig{Schema: s, Options: opts})
		if err != nil {
			return nil, err
		}
		out = &encodedPrinter{v: v, enc: enc, kinds: updates && !j.Bounded, json: output == "json"}
	default:
		text, err := print.NewText(s, j.Config.Env())
		if err != nil {
			return nil, err
		}
		t := &tablePrinter{text: text}
		if output == "changelog" {
			t.kinds = true
			t.table = show.NewTable(v.stdout, s, "op")
		} else {
			t.table = show.NewTable(v.stdout, s)
		}
		out = t
	}
	if updates && j.Bounded && output != "changelog" {
		text, err := print.NewText(s, j.Config.Env())
		if err != nil {
			return nil, err
		}
		return newFold(s, j.Select, text, out), nil
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
		var cells []string
		if p.kinds {
			cells = append(cells, b.Kind(i).String())
		}
		for _, c := range cols {
			if c.IsNull(i) {
				cells = append(cells, "NULL")
				continue
			}
			cells = append(cells, string(c.Bytes(i)))
		}
		if err == nil {
			err = p.table.Add(cells)
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

// fold keeps what a changelog adds up to and prints it in the end, in the order in which rows
// first appeared.
type fold struct {
	out   rowPrinter
	keep  *vec.Batch
	keys  []int // of an upsert changelog; nil: rows are found by all their values
	text  *print.Text
	at    map[string][]int32 // live rows of keep
	live  map[int32]bool
	key   []byte
	fresh []int32 // rows of the batch that are kept
}

func newFold(s types.Schema, n *plan.Node, text *print.Text, out rowPrinter) *fold {
	var keys []int
	if !n.Mode.Has(types.UpdateBefore) && len(n.UpsertKeys) > 0 {
		keys = n.UpsertKeys[0]
	}
	return &fold{out: out, keep: vec.NewBatch(s), text: text, keys: keys, at: map[string][]int32{}, live: map[int32]bool{}}
}

func (f *fold) rows(b *vec.Batch) error {
	cols := f.text.Columns(b)
	f.fresh = f.fresh[:0]
	b.Each(func(i int) {
		f.key = f.key[:0]
		for k, c := range cols {
			if f.keys != nil && !contains(f.keys, k) {
				continue
			}
			if c.IsNull(i) {
				f.key = append(f.key, 0, 1)
				continue
			}
			f.key = append(append(f.key, c.Bytes(i)...), 0, 2)
		}
		key := string(f.key)
		rows := f.at[key]
		if b.Kind(i).Retracts() || f.keys != nil && len(rows) > 0 {
			if n := len(rows); n > 0 {
				delete(f.live, rows[n-1])
				rows = rows[:n-1]
				f.at[key] = rows
			}
		}
		if b.Kind(i).Retracts() {
			return
		}
		at := int32(f.keep.N + len(f.fresh))
		f.at[key] = append(rows, at)
		f.live[at] = true
		f.fresh = append(f.fresh, int32(i))
	})
	plain := vec.Batch{N: b.N, Cols: b.Cols}
	f.keep.Gather(&plain, f.fresh)
	f.compact()
	return nil
}

// compact drops dead rows when they outnumber the live ones.
func (f *fold) compact() {
	if f.keep.N < 4096 || len(f.live)*2 > f.keep.N {
		return
	}
	s := types.Schema{}
	for _, c := range f.keep.Cols {
		s.Fields = append(s.Fields, types.Field{Type: c.Type})
	}
	next := vec.NewBatch(s)
	moved := make(map[int32]int32, len(f.live))
	var keep []int32
	for i := range int32(f.keep.N) {
		if f.live[i] {
			moved[i] = int32(len(keep))
			keep = append(keep, i)
		}
	}
	next.Gather(f.keep, keep)
	for k, rows := range f.at {
		if len(rows) == 0 {
			delete(f.at, k)
			continue
		}
		for i, r := range rows {
			rows[i] = moved[r]
		}
	}
	f.live = make(map[int32]bool, next.N)
	for i := range int32(next.N) {
		f.live[i] = true
	}
	f.keep = next
}

func contains(list []int, x int) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// printed is 0: what a failed job adds up to is not a result.
func (f *fold) printed() int64 { return 0 }

func (f *fold) close() error {
	b := *f.keep
	b.Sel = make([]int32, 0, len(f.live))
	for i := range int32(f.keep.N) {
		if f.live[i] {
			b.Sel = append(b.Sel, i)
		}
	}
	if len(b.Sel) > 0 {
		if err := f.out.rows(&b); err != nil {
			return err
		}
	}
	return f.out.close()
}
