// Package json is the format json: one JSON object a row, as Apache Flink's json format reads and
// writes it. The work is done by package jsonrow; here are the options, the cutting of chunks into
// records, and what happens to records that are not rows.
//
// Where Flink's two parsers differ, the streaming one (its default) is followed, with one
// exception: of members that occur twice the last one counts, whichever columns are read.
package json

import (
	"errors"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/jsonrow"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// Options lists what the format understands.
var Options = append([]option.Spec{
	{Name: "fail-on-missing-field", Kind: option.Bool, Default: "false",
		Doc: "refuse a record that lacks a column of the table, rather than reading NULL"},
	{Name: "decode.json-parser.enabled", Kind: option.Bool, Default: "true",
		Doc: "false converts numbers to STRING by value rather than by spelling, as Flink then does"},
}, jsonrow.Specs...)

func init() {
	format.Register(&format.Factory{
		Name: "json",
		Doc: "One JSON object a row. Members are matched to columns by name; missing ones are " +
			"NULL and unknown ones ignored.",
		Options:    Options,
		Changelog:  types.InsertOnly,
		Check:      check,
		NewDecoder: func(c format.DecoderConfig) (format.Decoder, error) { return NewDecoder(c) },
		NewEncoder: func(c format.EncoderConfig) (format.Encoder, error) { return NewEncoder(c) },
	})
}

func check(s types.Schema, o option.Values) error {
	if o.Bool("fail-on-missing-field") && o.Bool("ignore-parse-errors") {
		return &option.Error{Key: "ignore-parse-errors",
			Msg:  "'fail-on-missing-field' and 'ignore-parse-errors' exclude each other",
			Hint: "set one of them to false"}
	}
	return jsonrow.CheckSchema(s)
}

// Decoder decodes records of JSON.
type Decoder struct {
	// Skipped counts the records that ignore-parse-errors dropped, Blank the empty ones, which
	// are not rows.
	Skipped, Blank int64

	conf   format.DecoderConfig
	ignore bool
	reader *jsonrow.Reader
}

// NewDecoder returns a decoder.
func NewDecoder(c format.DecoderConfig) (*Decoder, error) {
	opts := jsonrow.OptionsOf(c.Options)
	r, err := jsonrow.NewReader(c.Schema, c.Columns, opts)
	if err != nil {
		return nil, err
	}
	return &Decoder{conf: c, ignore: opts.IgnoreErrors, reader: r}, nil
}

// Counts implements format.Counter.
func (d *Decoder) Counts() (skipped, blank int64) { return d.Skipped, d.Blank }

// Decode implements format.Decoder.
func (d *Decoder) Decode(c *format.Chunk, out *format.Rows, maxRows int) error {
	b := out.Batch
	if b.N >= maxRows || c.Done() {
		return nil
	}
	first := b.N
	b.Origin = c.Origin
	d.reader.Begin(b.Cols, c.Data, b.N, maxRows)
	var err error
	if c.Bounds == nil {
		err = d.lines(c, out, maxRows)
	} else {
		err = d.records(c, out, maxRows)
	}
	d.reader.End(b.N)
	for b.Kinds != nil && first < b.N {
		b.Kinds = append(b.Kinds, types.Insert)
		first++
	}
	return err
}

func (d *Decoder) lines(c *format.Chunk, out *format.Rows, maxRows int) error {
	b, r, data := out.Batch, d.reader, c.Data
	for c.Next < len(data) && b.N < maxRows {
		at := c.Next
		next, ok, blank := r.Line(data, at, b.N)
		c.Next = next
		switch {
		case ok:
			b.Pos = append(b.Pos, c.Base+int64(at))
			b.N++
		case blank:
			d.Blank++
		default:
			line := data[at:next]
			if n := len(line); n > 0 && line[n-1] == '\n' {
				line = line[:n-1]
			}
			if err := d.bad(c, c.Base+int64(at), line, r.Err(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Decoder) records(c *format.Chunk, out *format.Rows, maxRows int) error {
	b, r := out.Batch, d.reader
	for c.Next < len(c.Bounds) && b.N < maxRows {
		rec := c.Next
		ref := c.Bounds[rec]
		c.Next++
		if ref == format.NullRecord || ref.Len == 0 {
			d.Blank++
			continue
		}
		at, end := int(ref.Off), int(ref.Off+ref.Len)
		if !r.Object(c.Data[:end], at, b.N) {
			if err := d.bad(c, c.Positions[rec], c.Data[at:end], r.Err(at)); err != nil {
				return err
			}
			continue
		}
		b.Pos = append(b.Pos, c.Positions[rec])
		if d.conf.NeedRec {
			out.Rec = append(out.Rec, int32(rec))
		}
		b.N++
	}
	return nil
}

// bad deals with a record that is not a row.
func (d *Decoder) bad(c *format.Chunk, pos int64, rec []byte, err error) error {
	if d.ignore {
		d.Skipped++
		return nil
	}
	if err == nil {
		err = errors.New("not a JSON object")
	}
	return d.conf.Bad(format.BadRecord{Origin: c.Origin, Pos: pos, Bytes: rec, Err: err})
}
