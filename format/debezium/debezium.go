// Package debezium is the format debezium-json: change events of a database as Debezium writes
// them, and as Apache Flink reads and writes them. An event becomes an insert (+I), a delete (-D),
// or an update in two rows (-U, +U).
package debezium

import (
	"errors"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/jsonrow"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Options lists what the format understands.
var Options = append([]option.Spec{
	{Name: "schema-include", Kind: option.Bool, Default: "false",
		Doc: "the events lie in a member called payload, beside their schema, as Kafka Connect " +
			"writes them with value.converter.schemas.enable"},
}, jsonrow.Specs...)

func init() {
	format.Register(&format.Factory{
		Name: "debezium-json",
		Doc: "Change events as Debezium writes them: objects with before, after and op. Inserts, " +
			"updates and deletes are carried both ways.",
		Options:    Options,
		Changelog:  types.Retract,
		Check:      func(s types.Schema, _ option.Values) error { return jsonrow.CheckSchema(s) },
		NewDecoder: func(c format.DecoderConfig) (format.Decoder, error) { return NewDecoder(c) },
		NewEncoder: func(c format.EncoderConfig) (format.Encoder, error) { return NewEncoder(c) },
	})
}

// The members of an event, in the order of Decoder.event: rows first.
const (
	before = iota
	after
	op
)

// Decoder decodes change events.
type Decoder struct {
	// Skipped counts the events that ignore-parse-errors dropped, Blank the empty ones, such
	// as tombstones.
	Skipped, Blank int64

	conf    format.DecoderConfig
	ignore  bool
	reader  *jsonrow.Reader
	payload *jsonrow.Envelope // nil: records are events themselves
	event   *jsonrow.Envelope
}

// NewDecoder returns a decoder.
func NewDecoder(c format.DecoderConfig) (*Decoder, error) {
	opts := jsonrow.OptionsOf(c.Options)
	opts.Tree = true
	r, err := jsonrow.NewReader(c.Schema, c.Columns, opts)
	if err != nil {
		return nil, err
	}
	d := &Decoder{conf: c, ignore: opts.IgnoreErrors, reader: r,
		event: jsonrow.NewEnvelope("before", "after", "op")}
	if c.Options.Bool("schema-include") {
		d.payload = jsonrow.NewEnvelope("payload")
	}
	return d, nil
}

// Counts implements format.Counter.
func (d *Decoder) Counts() (skipped, blank int64) { return d.Skipped, d.Blank }

// Decode implements format.Decoder.
func (d *Decoder) Decode(c *format.Chunk, out *format.Rows, maxRows int) error {
	b := out.Batch
	if b.N >= maxRows || c.Done() {
		return nil
	}
	b.Origin = c.Origin
	for len(b.Kinds) < b.N {
		b.Kinds = append(b.Kinds, types.Insert)
	}
	d.reader.Begin(b.Cols, c.Data, b.N, maxRows+1)
	var err error
	for !c.Done() && b.N < maxRows && err == nil {
		err = d.record(c, out)
	}
	d.reader.End(b.N)
	return err
}

// record decodes the next record of c.
func (d *Decoder) record(c *format.Chunk, out *format.Rows) error {
	rec := c.Next
	at, end, pos := c.Cut()
	if at == end {
		d.Blank++
		return nil
	}
	n, err := d.change(c.Data[:end], at, out.Batch)
	if err == nil {
		for range n {
			out.Batch.Pos = append(out.Batch.Pos, pos)
			if d.conf.NeedRec && c.Bounds != nil {
				out.Rec = append(out.Rec, int32(rec))
			}
		}
		out.Batch.N += n
		return nil
	}
	d.reader.Clean(out.Batch.N)
	d.reader.Clean(out.Batch.N + 1)
	out.Batch.Kinds = out.Batch.Kinds[:out.Batch.N]
	if d.ignore {
		d.Skipped++
		return nil
	}
	return d.conf.Bad(format.BadRecord{Origin: c.Origin, Pos: pos, Bytes: c.Data[at:end], Err: err})
}

// What can be wrong with an event that is JSON.
var (
	errNoPayload = errors.New("the record has no payload, but 'debezium-json.schema-include' is " +
		"true; set it to false if the converter writes no schemas")
	errNoOp = errors.New("not a Debezium event: op is missing; if the record has a payload, set " +
		"'debezium-json.schema-include'")
	errNoAfter  = errors.New("not a Debezium event: after is null though op is c, r or u")
	errNoBefore = errors.New("before is null in an update or delete; if the events come from " +
		"Debezium's PostgreSQL connector, set the table's REPLICA IDENTITY to FULL")
)

// change appends the rows of the event at i of data, which ends with it, to b without counting
// them, and returns how many there are.
func (d *Decoder) change(data []byte, i int, b *vec.Batch) (int, error) {
	r := d.reader
	start := i
	r.Frame(data)
	if d.payload != nil {
		if r.Find(d.payload, i) < 0 {
			return 0, r.Err(start)
		}
		if i = d.payload.At[0]; r.IsNull(i) {
			return 0, errNoPayload
		}
	}
	if n := d.usual(i, b); n > 0 {
		return n, nil
	}
	r.Clean(b.N)
	r.Clean(b.N + 1)
	r.Frame(data)
	return d.careful(i, start, b)
}

// usual reads an event in one pass, its rows before op is known. It returns 0 where that does not
// work out, as with members in another order; rows are then left as they may be.
func (d *Decoder) usual(i int, b *vec.Batch) int {
	r, e := d.reader, d.event
	if r.FindRows(e, i, op, b.N) < 0 {
		return 0
	}
	text := r.Text(e.At[op])
	if len(text) != 1 {
		return 0
	}
	was, is := e.Rows[before], e.Rows[after]
	switch text[0] {
	case 'c', 'r':
		if was < 0 && is == b.N {
			b.Kinds = append(b.Kinds, types.Insert)
			return 1
		}
	case 'u':
		if was == b.N && is == b.N+1 {
			b.Kinds = append(b.Kinds, types.UpdateBefore, types.UpdateAfter)
			return 2
		}
	case 'd':
		if was == b.N && is < 0 {
			b.Kinds = append(b.Kinds, types.Delete)
			return 1
		}
	}
	return 0
}

// careful finds op first and then reads the rows that it asks for.
func (d *Decoder) careful(i, start int, b *vec.Batch) (int, error) {
	r := d.reader
	if r.Find(d.event, i) < 0 {
		return 0, r.Err(start)
	}
	was, is := d.event.At[before], d.event.At[after]
	row := b.N
	add := func(at int, kind types.RowKind) bool {
		b.Kinds = append(b.Kinds, kind)
		ok := r.Row(at, row)
		row++
		return ok
	}
	ok := true
	switch text := r.Text(d.event.At[op]); string(text) {
	case "c", "r":
		if r.IsNull(is) {
			return 0, errNoAfter
		}
		ok = add(is, types.Insert)
	case "u":
		if r.IsNull(was) {
			return 0, errNoBefore
		}
		if r.IsNull(is) {
			return 0, errNoAfter
		}
		ok = add(was, types.UpdateBefore) && add(is, types.UpdateAfter)
	case "d":
		if r.IsNull(was) {
			return 0, errNoBefore
		}
		ok = add(was, types.Delete)
	case "":
		return 0, errNoOp
	default:
		return 0, errors.New("not a Debezium event: op is '" + string(text) + "', not c, r, u or d")
	}
	if !ok {
		return 0, r.Err(start)
	}
	return row - b.N, nil
}

// Encoder writes change events.
type Encoder struct {
	writer    *jsonrow.Writer
	skipNulls bool
	delimiter string
}

// NewEncoder returns an encoder.
func NewEncoder(c format.EncoderConfig) (*Encoder, error) {
	if c.Options.Bool("schema-include") {
		return nil, &option.Error{Key: "schema-include",
			Msg:  "'debezium-json.schema-include' is for reading only",
			Hint: "leave it out of tables that are written"}
	}
	opts := jsonrow.OptionsOf(c.Options)
	w, err := jsonrow.NewWriter(c.Schema, opts)
	if err != nil {
		return nil, err
	}
	return &Encoder{writer: w, skipNulls: opts.SkipNulls, delimiter: c.Delimiter}, nil
}

// Encode implements format.Encoder. An update is written as a delete and an insert, as by Flink.
func (e *Encoder) Encode(dst *format.Encoded, b *vec.Batch) error {
	for k, n := 0, b.Rows(); k < n; k++ {
		row := k
		if b.Sel != nil {
			row = int(b.Sel[k])
		}
		data := dst.Data
		var err error
		if b.Kind(row).Retracts() {
			data = append(data, `{"before":`...)
			if data, err = e.writer.Append(data, b.Cols, row); err != nil {
				return err
			}
			if !e.skipNulls {
				data = append(data, `,"after":null`...)
			}
			data = append(data, `,"op":"d"}`...)
		} else {
			data = append(data, '{')
			if !e.skipNulls {
				data = append(data, `"before":null,`...)
			}
			data = append(data, `"after":`...)
			if data, err = e.writer.Append(data, b.Cols, row); err != nil {
				return err
			}
			data = append(data, `,"op":"c"}`...)
		}
		dst.Data = append(data, e.delimiter...)
		dst.Ends = append(dst.Ends, len(dst.Data))
	}
	return nil
}
