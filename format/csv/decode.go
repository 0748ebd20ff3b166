package csv

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
)

// Decoder decodes CSV.
type Decoder struct {
	scanner
	// Skipped counts the records that ignore-parse-errors dropped, Blank tombstones and
	// records that are comments.
	Skipped, Blank int64

	conf    format.DecoderConfig
	days    spell.DateCache
	columns []*column // by position in the record; nil: not wanted
	wanted  []*column
	badText string // what is wrong with the record at hand
	badCol  int
}

// NewDecoder returns a decoder.
func NewDecoder(c format.DecoderConfig) (*Decoder, error) {
	s, err := syntaxOf(c.Options)
	if err != nil {
		return nil, err
	}
	if err := check(c.Schema, c.Options); err != nil {
		return nil, err
	}
	d := &Decoder{scanner: newScanner(s), conf: c, columns: make([]*column, c.Schema.Len())}
	for _, i := range c.Columns {
		col := newColumn(c.Schema.Fields[i].Type)
		d.columns[i] = col
		d.wanted = append(d.wanted, col)
	}
	return d, nil
}

// Counts implements format.Counter.
func (d *Decoder) Counts() (skipped, blank int64) { return d.Skipped, d.Blank }

var bom = []byte("\xef\xbb\xbf")

// Decode implements format.Decoder.
func (d *Decoder) Decode(c *format.Chunk, out *format.Rows, maxRows int) error {
	b := out.Batch
	if b.N >= maxRows || c.Done() {
		return nil
	}
	first := b.N
	b.Origin = c.Origin
	for i, col := range d.wanted {
		b.Cols[i].Resize(maxRows)
		col.bind(b.Cols[i], c.Data, b.N)
	}
	var err error
	if c.Bounds == nil {
		err = d.lines(c, out, maxRows)
	} else {
		err = d.records(c, out, maxRows)
	}
	for _, col := range d.wanted {
		col.unbind(b.N)
	}
	for b.Kinds != nil && first < b.N {
		b.Kinds = append(b.Kinds, types.Insert)
		first++
	}
	return err
}

func (d *Decoder) lines(c *format.Chunk, out *format.Rows, maxRows int) error {
	b, data := out.Batch, c.Data
	if c.Next == 0 && c.Base == 0 {
		if bytes.HasPrefix(data, bom) {
			c.Next = len(bom)
		}
		if d.ignoreLine {
			c.Next = d.skip(data, c.Next)
			d.Blank++
		}
	}
	for c.Next < len(data) && b.N < maxRows {
		if d.comments {
			if c.Next = d.comment(data, c.Next); c.Next == len(data) {
				break
			}
		}
		at := c.Next
		next, ok := d.record(data, at, b.N)
		c.Next = next
		if ok {
			b.Pos = append(b.Pos, c.Base+int64(at))
			b.N++
			continue
		}
		if err := d.bad(c, c.Base+int64(at), bytes.TrimRight(data[at:next], "\r\n"), b.N); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) records(c *format.Chunk, out *format.Rows, maxRows int) error {
	b := out.Batch
	for c.Next < len(c.Bounds) && b.N < maxRows {
		rec := c.Next
		null := c.Bounds[rec] == format.NullRecord
		at, end, pos := c.Cut()
		if null {
			d.Blank++
			continue
		}
		data := c.Data[:end]
		i := at
		if bytes.HasPrefix(data[i:], bom) {
			i += len(bom)
		}
		if d.comments {
			i = d.comment(data, i)
		}
		if i == end && end > at {
			d.Blank++ // nothing but comments
			continue
		}
		ok := i < end
		d.badText, d.badCol = "the record is empty", -1
		if ok {
			_, ok = d.record(data, i, b.N)
		}
		if !ok {
			if err := d.bad(c, pos, c.Data[at:end], b.N); err != nil {
				return err
			}
			continue
		}
		b.Pos = append(b.Pos, pos)
		if d.conf.NeedRec {
			out.Rec = append(out.Rec, int32(rec))
		}
		b.N++
	}
	return nil
}

// record reads the record at i into row and returns where the next one starts. ok is false for a
// bad record.
func (d *Decoder) record(data []byte, i, row int) (next int, ok bool) {
	n := len(d.columns)
	for k := 0; ; k++ {
		if k == n {
			return d.surplus(data, i)
		}
		v, ok := d.usual(data, i)
		if !ok || d.trim {
			v = d.next(data, i)
		}
		if v.err != fine {
			d.badText, d.badCol = problems[v.err], k
			return resume(data, v), false
		}
		if col := d.columns[k]; col != nil {
			if msg := d.store(col, row, data, v); msg != "" {
				d.badText, d.badCol = msg, k
				if v.is(last) {
					return v.next, false
				}
				return d.skip(data, v.next), false
			}
		}
		i = v.next
		if !v.is(last) {
			continue
		}
		if k+1 < n {
			if !d.ignore || d.missing {
				d.badText = fmt.Sprintf("the record has %d of %d values", k+1, n)
				d.badCol = -1
				return i, false
			}
			for _, col := range d.columns[k+1:] {
				if col != nil {
					col.null(row)
				}
			}
		}
		return i, true
	}
}

// surplus deals with what follows the delimiter behind the last column.
func (d *Decoder) surplus(data []byte, i int) (next int, ok bool) {
	if d.extra {
		return d.skip(data, i), true
	}
	v := d.next(data, i)
	if d.trailing && v.is(last) && v.err == fine && len(bytes.TrimSpace(data[v.start:v.end])) == 0 {
		return v.next, true
	}
	d.badText, d.badCol = fmt.Sprintf("the record has more than %d values", len(d.columns)), -1
	return d.skip(data, i), false
}

// bad deals with a record that is not a row; row is the one it was being read into.
func (d *Decoder) bad(c *format.Chunk, pos int64, rec []byte, row int) error {
	for _, col := range d.wanted {
		col.valid(row)
	}
	if d.ignore {
		d.Skipped++
		return nil
	}
	msg := "not CSV: " + d.badText
	if d.badCol >= 0 {
		msg = fmt.Sprintf("CSV column '%s': %s", d.conf.Schema.Fields[d.badCol].Name, d.badText)
	}
	return d.conf.Bad(format.BadRecord{Origin: c.Origin, Pos: pos, Bytes: rec, Err: errors.New(msg)})
}
