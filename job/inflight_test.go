package job

import (
	"testing"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestInFlight counts rows as they were written down: from a place on, with stamps and without, of several batches.
// Bytes that are cut are named, and no panic.
func TestInFlight(t *testing.T) {
	s := types.NewSchema(types.Field{Name: "a", Type: types.StringType}, types.Field{Name: "n", Type: types.BigIntType})
	b := vec.NewBatch(s)
	b.Reset(0)
	const n = 100
	for i := range n {
		for _, c := range b.Cols {
			c.Resize(i + 1)
		}
		b.Cols[0].SetString(i, "text")
		b.Cols[1].I64[i] = int64(i)
		b.N++
	}
	ch := checkpoint.Channel{Schema: s, Rows: appendRows(nil, b, 10)}
	b.Stamps = make([]int64, n)
	for range 100 {
		ch.Rows = appendRows(ch.Rows, b, 0)
	}
	if rows, err := InFlight(&ch); err != nil || rows != 90+100*n {
		t.Errorf("%d rows, %v", rows, err)
	}
	ch.Rows = ch.Rows[:len(ch.Rows)-1]
	if _, err := InFlight(&ch); err == nil {
		t.Error("cut bytes are read")
	}
}
