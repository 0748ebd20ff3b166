// Package formattest holds what tests of formats share: golden files of records and rows, and a
// suite of properties that every format must have.
package formattest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Suite is a format under test.
type Suite struct {
	Format string
	// Schemas are column definitions for ParseSchema, each of them tried on its own.
	Schemas []string
	Options string // as OptionValues reads them
	// Text says that encoded records are lines of text.
	Text bool
	// FlatNulls says that the format cannot tell an ARRAY or ROW that is NULL or empty from
	// one that holds a NULL.
	FlatNulls bool
	// Seed makes the random values; they are the same in every run.
	Seed uint64
}

// Run checks the properties, on random rows of each schema:
//
//   - what is encoded decodes to the same rows, as lines and as records
//   - any subset of the columns decodes to the same values as all of them
//   - however few rows are asked for at a time, and wherever a chunk ends, the rows are the same
//   - a batch that is used again holds nothing of its former self
//   - records that are no records are reported or skipped, and cost no other row
//   - once warm, a batch allocates nothing
func Run(t *testing.T, s Suite) {
	f := format.Lookup(s.Format)
	if f == nil {
		t.Fatalf("format %s is not registered", s.Format)
	}
	for i, text := range s.Schemas {
		t.Run(fmt.Sprint("schema=", i), func(t *testing.T) {
			h := &harness{suite: s, f: f, schema: ParseSchema(text)}
			h.options = OptionValues(f, s.Options)
			h.rng = rand.New(rand.NewPCG(s.Seed, 1))
			h.fill(100)
			h.encode(t)
			t.Run("RoundTrip", h.roundTrip)
			t.Run("Projection", h.projection)
			t.Run("Split", h.split)
			t.Run("Chunks", h.chunks)
			t.Run("Reuse", h.reuse)
			t.Run("Garbage", h.garbage)
			t.Run("Allocations", h.allocations)
		})
	}
}

type harness struct {
	suite   Suite
	f       *format.Factory
	schema  types.Schema
	options option.Values
	rng     *rand.Rand
	batch   *vec.Batch // the rows
	want    []string   // as Show prints them
	records format.Encoded
}

// fill makes n random rows.
func (h *harness) fill(n int) {
	h.batch = vec.NewBatch(h.schema)
	updates := h.f.Changelog.Has(types.UpdateBefore)
	for range n {
		for c, v := range h.batch.Cols {
			v.AppendValue(h.value(h.schema.Fields[c].Type))
		}
		if updates {
			// What is written as an update is read as a delete and an insert.
			k := types.Insert
			if h.rng.IntN(2) == 0 {
				k = types.Delete
			}
			h.batch.Kinds = append(h.batch.Kinds, k)
		}
		h.batch.N++
	}
	h.want = Rows(h.batch)
}

func (h *harness) encode(t *testing.T) {
	t.Helper()
	cfg := format.EncoderConfig{Schema: h.schema, Options: h.options}
	if h.suite.Text {
		cfg.Delimiter = "\n"
	}
	e, err := h.f.NewEncoder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Encode(&h.records, h.batch); err != nil {
		t.Fatal(err)
	}
	if len(h.records.Ends) != h.batch.N {
		t.Fatalf("%d rows make %d records", h.batch.N, len(h.records.Ends))
	}
}

// bounded returns the records as a chunk with bounds.
func (h *harness) bounded() *format.Chunk {
	c := &format.Chunk{Data: h.records.Data, Bounds: []vec.Ref{}, Origin: &vec.Origin{Source: "t"}}
	at := 0
	for i, end := range h.records.Ends {
		ref := vec.Ref{Off: uint32(at), Len: uint32(end - at)}
		if h.suite.Text {
			ref.Len--
		}
		if slices.Contains(h.records.Nulls, i) {
			ref = format.NullRecord
		}
		at = end
		c.Bounds = append(c.Bounds, ref)
		c.Positions = append(c.Positions, int64(1000+i))
	}
	return c
}

// forms returns the records as chunks of each kind that the format has.
func (h *harness) forms() map[string]*format.Chunk {
	m := map[string]*format.Chunk{"records": h.bounded()}
	if h.suite.Text {
		m["lines"] = &format.Chunk{Data: h.records.Data, Base: 5000, Origin: &vec.Origin{Source: "t"}}
		m["lines without the last newline"] = &format.Chunk{Base: 5000, Origin: &vec.Origin{Source: "t"},
			Data: bytes.TrimSuffix(h.records.Data, []byte("\n"))}
	}
	return m
}

func (h *harness) decoder(t *testing.T, cols []int, bad *int) format.Decoder {
	t.Helper()
	d, err := h.f.NewDecoder(format.DecoderConfig{Schema: h.schema, Columns: cols,
		Options: h.options, NeedRec: true, Bad: func(r format.BadRecord) error {
			if bad == nil {
				return fmt.Errorf("record at %d: %q: %w", r.Pos, r.Bytes, r.Err)
			}
			*bad++
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (h *harness) all() []int {
	cols := make([]int, h.schema.Len())
	for i := range cols {
		cols[i] = i
	}
	return cols
}

func (h *harness) batchOf(cols []int) *vec.Batch {
	var s types.Schema
	for _, c := range cols {
		s.Fields = append(s.Fields, h.schema.Fields[c])
	}
	return vec.NewBatch(s)
}

// drain decodes all of c in steps of so many rows, into one batch.
func drain(t *testing.T, d format.Decoder, c *format.Chunk, out *format.Rows, step int) {
	t.Helper()
	for !c.Done() {
		before, next := out.Batch.N, c.Next
		if err := d.Decode(c, out, out.Batch.N+step); err != nil {
			t.Fatal(err)
		}
		if out.Batch.N > before+step+1 {
			t.Fatalf("%d rows came where %d were asked for", out.Batch.N-before, step)
		}
		if out.Batch.N == before && c.Next == next {
			t.Fatalf("no progress at %d", next)
		}
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: row %d\n got %s\nwant %s", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
}

func (h *harness) roundTrip(t *testing.T) {
	for name, c := range h.forms() {
		out := format.Rows{Batch: h.batchOf(h.all())}
		drain(t, h.decoder(t, h.all(), nil), c, &out, 1000)
		same(t, name, Rows(out.Batch), h.want)
		h.positions(t, name, c, &out)
	}
}

// positions checks what says where rows came from.
func (h *harness) positions(t *testing.T, name string, c *format.Chunk, out *format.Rows) {
	t.Helper()
	b := out.Batch
	if len(b.Pos) != b.N || b.Origin != c.Origin {
		t.Fatalf("%s: %d positions for %d rows, origin %v", name, len(b.Pos), b.N, b.Origin)
	}
	at := 0
	for i := range b.N {
		want := c.Base + int64(at)
		if c.Bounds != nil {
			want = c.Positions[i]
			if out.Rec[i] != int32(i) {
				t.Fatalf("%s: row %d is said to come from record %d", name, i, out.Rec[i])
			}
		}
		if b.Pos[i] != want {
			t.Fatalf("%s: row %d is at %d, want %d", name, i, b.Pos[i], want)
		}
		at = h.records.Ends[i]
	}
}

func (h *harness) projection(t *testing.T) {
	full := format.Rows{Batch: h.batchOf(h.all())}
	drain(t, h.decoder(t, h.all(), nil), h.bounded(), &full, 1000)
	n := h.schema.Len()
	for try := range 1 << min(n, 3) {
		var cols []int
		view := *full.Batch
		view.Cols = nil
		for c := range n {
			if n <= 3 && try&(1<<c) != 0 || n > 3 && h.rng.IntN(2) == 0 {
				cols = append(cols, c)
				view.Cols = append(view.Cols, full.Batch.Cols[c])
			}
		}
		for name, c := range h.forms() {
			out := format.Rows{Batch: h.batchOf(cols)}
			drain(t, h.decoder(t, cols, nil), c, &out, 1000)
			same(t, fmt.Sprintf("%s, columns %v", name, cols), Rows(out.Batch), Rows(&view))
		}
	}
}

func (h *harness) split(t *testing.T) {
	for _, step := range []int{1, 2, 7, 99, 100, 101} {
		for name, c := range h.forms() {
			out := format.Rows{Batch: h.batchOf(h.all())}
			drain(t, h.decoder(t, h.all(), nil), c, &out, step)
			same(t, fmt.Sprintf("%s, %d rows at a time", name, step), Rows(out.Batch), h.want)
			h.positions(t, name, c, &out)

			// The same with a batch for every step.
			c.Next = 0
			d, b := h.decoder(t, h.all(), nil), h.batchOf(h.all())
			var got []string
			for !c.Done() {
				b.Reset(0)
				if err := d.Decode(c, &format.Rows{Batch: b}, step); err != nil {
					t.Fatal(err)
				}
				got = append(got, Rows(b)...)
			}
			same(t, fmt.Sprintf("%s, batches of %d rows", name, step), got, h.want)
		}
	}
}

// chunks decodes the records from several chunks, into one batch and into a batch each.
func (h *harness) chunks(t *testing.T) {
	whole := h.bounded()
	for _, size := range []int{1, 30} {
		d := h.decoder(t, h.all(), nil)
		one := format.Rows{Batch: h.batchOf(h.all())}
		each := h.batchOf(h.all())
		var got []string
		for at := 0; at < len(whole.Bounds); at += size {
			end := min(at+size, len(whole.Bounds))
			// A copy, which is spoilt once its batch is done with.
			chunk := func() *format.Chunk {
				c := &format.Chunk{Bounds: []vec.Ref{}, Positions: whole.Positions[at:end]}
				for _, ref := range whole.Bounds[at:end] {
					if ref != format.NullRecord {
						off := uint32(len(c.Data))
						c.Data = append(c.Data, whole.Data[ref.Off:ref.Off+ref.Len]...)
						ref.Off = off
					}
					c.Bounds = append(c.Bounds, ref)
				}
				return c
			}
			drain(t, d, chunk(), &one, 1000)
			c := chunk()
			each.Reset(0)
			drain(t, d, c, &format.Rows{Batch: each}, 1000)
			got = append(got, Rows(each)...)
			clear(c.Data)
		}
		same(t, fmt.Sprintf("%d records a chunk, one batch", size), Rows(one.Batch), h.want)
		same(t, fmt.Sprintf("%d records a chunk, a batch each", size), got, h.want)
	}
}

func (h *harness) reuse(t *testing.T) {
	d, b := h.decoder(t, h.all(), nil), h.batchOf(h.all())
	for range 3 {
		for name, c := range h.forms() {
			b.Reset(0)
			drain(t, d, c, &format.Rows{Batch: b}, 1000)
			same(t, name, Rows(b), h.want)
		}
	}
}

func (h *harness) allocations(t *testing.T) {
	// Buffers grow to their final size while batches of both kinds of chunks go through.
	for name, c := range h.forms() {
		d := h.decoder(t, h.all(), nil)
		out := format.Rows{Batch: h.batchOf(h.all())}
		var pos []int64
		var kinds []types.RowKind
		round := func() {
			out.Batch.Reset(0)
			out.Batch.Pos, out.Batch.Kinds, out.Rec = pos[:0], kinds[:0], out.Rec[:0]
			c.Next = 0
			for !c.Done() {
				if err := d.Decode(c, &out, 1000); err != nil {
					t.Fatal(err)
				}
			}
			pos, kinds = out.Batch.Pos, out.Batch.Kinds
		}
		for range 3 {
			round()
		}
		if n := testing.AllocsPerRun(20, round); n > 0 {
			t.Errorf("decoding %s allocates %v times a batch", name, n)
		}
	}
	e, err := h.f.NewEncoder(format.EncoderConfig{Schema: h.schema, Options: h.options})
	if err != nil {
		t.Fatal(err)
	}
	var enc format.Encoded
	n := testing.AllocsPerRun(20, func() {
		enc.Reset()
		if err := e.Encode(&enc, h.batch); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("encoding allocates %v times a batch", n)
	}
}
