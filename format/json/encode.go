package json

import (
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/jsonrow"
	"github.com/tidemark-stream/tidemark/vec"
)

// Encoder writes one object a row.
type Encoder struct {
	writer    *jsonrow.Writer
	delimiter string
}

// NewEncoder returns an encoder.
func NewEncoder(c format.EncoderConfig) (*Encoder, error) {
	w, err := jsonrow.NewWriter(c.Schema, jsonrow.OptionsOf(c.Options))
	if err != nil {
		return nil, err
	}
	return &Encoder{writer: w, delimiter: c.Delimiter}, nil
}

// Encode implements format.Encoder.
func (e *Encoder) Encode(dst *format.Encoded, b *vec.Batch) error {
	for k, n := 0, b.Rows(); k < n; k++ {
		row := k
		if b.Sel != nil {
			row = int(b.Sel[k])
		}
		data, err := e.writer.Append(dst.Data, b.Cols, row)
		if err != nil {
			return err
		}
		dst.Data = append(data, e.delimiter...)
		dst.Ends = append(dst.Ends, len(dst.Data))
	}
	return nil
}
