package connectortest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// What the tests of single connectors are made of.

// Decimal is the value of a DECIMAL(p, scale) from its text.
func Decimal(s string, p, scale int) types.Value {
	v, ok := types.ParseDecimal([]byte(s), p, scale)
	if !ok {
		panic("BUG: " + s)
	}
	return v
}

// Timestamp is the value of a TIMESTAMP from its text.
func Timestamp(s string) types.Value {
	ms, nanos, ok := types.ParseTimestamp([]byte(s))
	if !ok {
		panic("BUG: " + s)
	}
	return types.TS(ms, nanos)
}

// Date is the value of a DATE from its text.
func Date(s string) types.Value {
	d, ok := types.ParseDate([]byte(s))
	if !ok {
		panic("BUG: " + s)
	}
	return int64(d)
}

// Change is a row of a changelog.
type Change struct {
	Kind   types.RowKind
	Values []types.Value
}

// Insert is a row that comes.
func Insert(values ...types.Value) Change { return Change{types.Insert, values} }

// Delete is a row that goes.
func Delete(values ...types.Value) Change { return Change{types.Delete, values} }

// Batch makes a batch of rows.
func Batch(cols []types.Field, rows ...Change) *vec.Batch {
	b := vec.NewBatch(types.Schema{Fields: cols})
	for _, r := range rows {
		for k, v := range r.Values {
			b.Cols[k].AppendValue(v)
		}
		b.Kinds = append(b.Kinds, r.Kind)
		b.N++
	}
	return b
}

// Segments holds sealed segments in their committables. Each is another one, also of the same bytes.
type Segments struct{ serial atomic.Uint64 }

// Create implements connector.Segments.
func (m *Segments) Create() (connector.SegmentWriter, error) {
	w := &segmentWriter{}
	w.Write(binary.BigEndian.AppendUint64(nil, m.serial.Add(1)))
	return w, nil
}

// Open implements connector.Segments.
func (m *Segments) Open(_ context.Context, c connector.Committable) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(c[8:])), nil
}

type segmentWriter struct{ bytes.Buffer }

func (w *segmentWriter) Size() int64                          { return int64(w.Len() - 8) }
func (w *segmentWriter) Seal() (connector.Committable, error) { return bytes.Clone(w.Bytes()), nil }
func (w *segmentWriter) Discard() error                       { return nil }
