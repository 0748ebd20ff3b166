package job

import (
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
)

// tombstones decodes the values of an upsert table: a record without a value is the deletion of
// its key, all others are left to the format.
type tombstones struct {
	dec format.Decoder
	rec bool // the number of each row's record is wanted
	run format.Chunk
}

// Decode implements format.Decoder.
func (d *tombstones) Decode(c *format.Chunk, out *format.Rows, maxRows int) error {
	for c.Next < len(c.Bounds) && out.Batch.N < maxRows {
		at := c.Next
		if c.Bounds[at] == format.NullRecord {
			d.delete(c, out, at)
			c.Next++
			continue
		}
		end := at
		for end < len(c.Bounds) && c.Bounds[end] != format.NullRecord {
			end++
		}
		before, recs := out.Batch.N, len(out.Rec)
		d.run = *c
		d.run.Bounds, d.run.Positions, d.run.Next = c.Bounds[at:end], c.Positions[at:end], 0
		if err := d.dec.Decode(&d.run, out, maxRows); err != nil {
			return err
		}
		for i := recs; i < len(out.Rec); i++ {
			out.Rec[i] += int32(at)
		}
		b := out.Batch
		for len(b.Kinds) < before {
			b.Kinds = append(b.Kinds, types.Insert)
		}
		for len(b.Kinds) < b.N {
			b.Kinds = append(b.Kinds, types.UpdateAfter)
		}
		c.Next = at + d.run.Next
	}
	return nil
}

// delete appends a row of NULLs that deletes the key of record at.
func (d *tombstones) delete(c *format.Chunk, out *format.Rows, at int) {
	b := out.Batch
	for len(b.Kinds) < b.N {
		b.Kinds = append(b.Kinds, types.UpdateAfter)
	}
	for _, v := range b.Cols {
		v.Resize(b.N + 1)
		v.SetNull(b.N)
	}
	b.Kinds = append(b.Kinds, types.Delete)
	b.Pos = append(b.Pos, c.Positions[at])
	b.Origin = c.Origin
	if d.rec {
		out.Rec = append(out.Rec, int32(at))
	}
	b.N++
}
