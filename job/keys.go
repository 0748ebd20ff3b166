package job

import (
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/vec"
)

// keyRows decodes the keys of the records that a batch of value rows came from.
type keyRows struct {
	rows  format.Rows // over the key columns of the raw batch
	chunk format.Chunk
	bad   []int // rows whose key cannot be decoded
}

// open binds the key columns of raw.
func (k *keyRows) open(raw *vec.Batch, cols []int) {
	k.rows.Batch = &vec.Batch{}
	for _, c := range cols {
		k.rows.Batch.Cols = append(k.rows.Batch.Cols, raw.Cols[c])
	}
}

// badKey notes that the record of a row has a key that cannot be decoded.
func (s *sourceRun) badKey(b format.BadRecord) error {
	b.Err = fmt.Errorf("key: %w", b.Err)
	if err := s.badRecord(b); err != nil {
		return err
	}
	s.badKeys = append(s.badKeys, b.Pos)
	return nil
}

// gatherKeys fills the columns that come from record keys. A record without a key gives NULLs; the
// row of one whose key cannot be decoded is left out, as the record has gone to the dead letters.
func (r *splitRun) gatherKeys() error {
	k := &r.keys
	k.bad, r.s.badKeys = k.bad[:0], r.s.badKeys[:0]
	n := len(r.rows.Rec)
	if r.keyDec == nil || r.rec.Keys == nil || n == 0 {
		return nil
	}
	keys, c, b := r.rec.Keys, &k.chunk, k.rows.Batch
	*c = format.Chunk{Data: keys.Data, Origin: keys.Origin, Bounds: c.Bounds[:0], Positions: c.Positions[:0]}
	for _, rec := range r.rows.Rec {
		c.Bounds = append(c.Bounds, keys.Bounds[rec])
		c.Positions = append(c.Positions, keys.Positions[rec])
	}
	*b = vec.Batch{Cols: b.Cols, Pos: b.Pos[:0]}
	k.rows.Rec = k.rows.Rec[:0]
	if err := r.keyDec.Decode(c, &k.rows, n+1); err != nil {
		return err
	}
	if b.N < n {
		k.spread(n, r.s.badKeys)
	}
	return nil
}

// spread moves the rows decoded to the places of their records, NULL between them.
func (k *keyRows) spread(n int, refused []int64) {
	at := 0
	from := make([]int32, n) // the decoded row of each row, or -1
	all := make([]int32, k.rows.Batch.N)
	for row := range from {
		from[row] = -1
		if at < len(k.rows.Rec) && int(k.rows.Rec[at]) == row {
			from[row] = int32(at)
			all[at] = int32(at)
			at++
		} else if slices.Contains(refused, k.chunk.Positions[row]) {
			k.bad = append(k.bad, row)
		}
	}
	for _, col := range k.rows.Batch.Cols {
		packed := vec.New(col.Type, 0)
		packed.Gather(col, all)
		col.Reset(0)
		col.Resize(n)
		for row, f := range from {
			if f < 0 {
				col.SetNull(row)
				continue
			}
			col.Set(row, packed, int(f))
		}
	}
}
