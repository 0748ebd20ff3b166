package connectortest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/vec"
)

// decoder turns records into rows.
type decoder struct {
	t      testing.TB
	table  *connector.Table
	dec    format.Decoder
	out    format.Rows
	consts map[string]string
	cols   []int // of the table, in the order of the value's schema
}

// newDecoder makes the decoder of the table's format.
func newDecoder(t testing.TB, table *connector.Table, rd connector.SplitReader) *decoder {
	t.Helper()
	f, o := lookup(t, table)
	d := &decoder{t: t, table: table}
	if c, ok := rd.(connector.Constants); ok && f.Partitioned {
		d.consts = c.Constants()
	}
	name := o.Get("format")
	if name == "" {
		name = o.Get("value.format")
	}
	ff := format.Lookup(name)
	if ff == nil {
		t.Fatalf("format '%s' is not registered", name)
	}
	cfg := format.DecoderConfig{Options: o.Scoped(name+".", ff.Options), NeedRec: true, Bad: func(b format.BadRecord) error {
		return fmt.Errorf("record %q at %d: %w", b.Bytes, b.Pos, b.Err)
	}}
	for i, c := range table.Columns {
		if f.Partitioned && slices.Contains(table.PartitionKeys, c.Name) {
			continue
		}
		d.cols = append(d.cols, i)
		cfg.Columns = append(cfg.Columns, len(cfg.Schema.Fields))
		cfg.Schema.Fields = append(cfg.Schema.Fields, c)
	}
	var err error
	if d.dec, err = ff.NewDecoder(cfg); err != nil {
		t.Fatal(err)
	}
	if c, ok := d.dec.(format.Cutter); ok {
		if f, ok := rd.(interface{ CutBy(func([]byte) int) }); ok {
			f.CutBy(c.Complete)
		}
	}
	d.out.Batch = vec.NewBatch(cfg.Schema)
	return d
}

// rows decodes what was read.
func (d *decoder) rows(r *connector.Records, maxRows int) []row {
	d.t.Helper()
	var out []row
	b := d.out.Batch
	d.checkRecords(r)
	for first := true; first || !r.Chunk.Done(); first = false {
		b.Reset(0)
		b.N, b.Pos, d.out.Rec = 0, b.Pos[:0], d.out.Rec[:0]
		if err := d.dec.Decode(&r.Chunk, &d.out, maxRows); err != nil {
			d.t.Fatal(err)
		}
		for i, x := range batchRows(d.t, b, b.N) {
			x.columns = strings.Join(d.columns(i), " | ")
			x.text = d.text(r, i)
			out = append(out, x)
		}
	}
	return out
}

// checkRecords looks at the shape of what a read gave.
func (d *decoder) checkRecords(r *connector.Records) {
	d.t.Helper()
	c := &r.Chunk
	if c.Origin == nil {
		d.t.Fatal("a chunk has no Origin")
	}
	if c.Next != 0 {
		d.t.Fatalf("a chunk begins at %d", c.Next)
	}
	if len(r.Metadata) != len(d.table.Metadata) {
		d.t.Fatalf("%d metadata vectors, want %d", len(r.Metadata), len(d.table.Metadata))
	}
	n := len(c.Bounds)
	if c.Bounds == nil {
		n = 1
		if len(c.Data) == 0 {
			d.t.Fatal("a read gave no bytes and no error")
		}
	} else if len(c.Positions) != n || n == 0 {
		d.t.Fatalf("%d records and %d positions", n, len(c.Positions))
	}
	for i, m := range r.Metadata {
		if m.Len() != n {
			d.t.Fatalf("metadata '%s' has %d values, want %d", d.table.Metadata[i].Key, m.Len(), n)
		}
	}
	if r.Keys != nil && len(r.Keys.Bounds) != n {
		d.t.Fatalf("%d records and %d keys", n, len(r.Keys.Bounds))
	}
	if r.TimeMs != nil && len(r.TimeMs) != n {
		d.t.Fatalf("%d records and %d times", n, len(r.TimeMs))
	}
}

// again decodes a record that was read again, and returns its rows.
func (d *decoder) again(record []byte, split string, pos int64) (rows []string) {
	d.t.Helper()
	c := format.Chunk{Data: record, Bounds: []vec.Ref{{Len: uint32(len(record))}}, Positions: []int64{pos},
		Origin: &vec.Origin{Source: d.table.Name, Split: split, Unit: "record"}}
	b := d.out.Batch
	b.Reset(0)
	b.N, b.Pos, d.out.Rec = 0, b.Pos[:0], d.out.Rec[:0]
	for !c.Done() {
		if err := d.dec.Decode(&c, &d.out, 1<<20); err != nil {
			d.t.Fatalf("the record %q that was read again at %d: %v", record, pos, err)
		}
	}
	for i := range b.N {
		rows = append(rows, strings.Join(d.columns(i), " | "))
	}
	return rows
}

// columns prints the columns of row i.
func (d *decoder) columns(i int) []string {
	parts := make([]string, len(d.table.Columns))
	for c, f := range d.table.Columns {
		at := slices.Index(d.cols, c)
		if at >= 0 {
			parts[c] = show(d.out.Batch.Cols[at].Value(i))
		} else if v, ok := d.consts[f.Name]; ok {
			parts[c] = v
		} else {
			parts[c] = "NULL"
		}
	}
	return parts
}

// text prints row i: columns, key if there are keys, metadata.
func (d *decoder) text(r *connector.Records, i int) string {
	parts := d.columns(i)
	rec := 0
	if r.Chunk.Bounds != nil {
		rec = int(d.out.Rec[i])
	}
	if r.Keys != nil {
		key := "NULL"
		if b := r.Keys.Bounds[rec]; b != format.NullRecord {
			key = string(r.Keys.Data[b.Off : b.Off+b.Len])
		}
		parts = append(parts, key)
	}
	for _, m := range r.Metadata {
		parts = append(parts, show(m.Value(rec)))
	}
	return strings.Join(parts, " | ")
}
