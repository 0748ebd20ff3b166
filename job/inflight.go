package job

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// appendRows appends the selected rows of b from position from on to dst:
//
//	row = kind (1) has stamp (1) [stamp (8)] values (state.AppendValue, a column each)
func appendRows(dst []byte, b *vec.Batch, from int) []byte {
	for _, i := range b.Selected() {
		if int(i) < from {
			continue
		}
		dst = append(dst, byte(b.Kind(int(i))))
		if b.Stamps != nil {
			dst = binary.LittleEndian.AppendUint64(append(dst, 1), uint64(b.Stamps[i]))
		} else {
			dst = append(dst, 0)
		}
		for _, c := range b.Cols {
			dst = state.AppendValue(dst, c, int(i))
		}
	}
	return dst
}

var errRows = errors.New("the rows on their way between operators are damaged in the checkpoint")

// eachRows calls f with the rows of appendRows in batches of at most max.
func eachRows(src []byte, s types.Schema, max int, f func(b *vec.Batch) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the encoding of values is not checked byte by byte
			err = errRows
		}
	}()
	for len(src) > 0 {
		b := vec.NewBatch(s)
		for b.N < max && len(src) > 0 {
			kind, stamped := types.RowKind(src[0]), src[1] != 0
			src = src[2:]
			if stamped {
				b.Stamps = append(b.Stamps, int64(binary.LittleEndian.Uint64(src)))
				src = src[8:]
			}
			b.Kinds = append(b.Kinds, kind)
			for _, c := range b.Cols {
				c.Resize(b.N + 1)
				src = state.DecodeValue(src, c, b.N)
			}
			b.N++
		}
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

// InFlight counts the rows of a channel of a checkpoint.
func InFlight(ch *checkpoint.Channel) (rows int64, err error) {
	err = eachRows(ch.Rows, ch.Schema, vec.BatchRows, func(b *vec.Batch) error {
		rows += int64(b.N)
		return nil
	})
	return rows, err
}
