// Package parquet writes batches as Apache Parquet files, for other tools to read.
package parquet

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
	"github.com/tidemark-stream/tidemark/vec/arrowvec"
)

// Writer writes one file. Its pages are compressed with Zstandard; row groups have up to 2^20 rows,
// which are kept in memory, encoded, until their group is whole.
type Writer struct {
	schema types.Schema
	w      *pqarrow.FileWriter
}

// New begins a file with the columns s in w, which is not closed. The schema of Arrow is kept beside
// Parquet's, so that readers that know it get types that Parquet does not have.
func New(w io.Writer, s types.Schema) (*Writer, error) {
	for _, f := range s.Fields {
		if err := supported(f.Type); err != nil {
			return nil, fmt.Errorf("column '%s': %w", f.Name, err)
		}
	}
	schema, err := arrowvec.Schema(s)
	if err != nil {
		return nil, err
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd))
	fw, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{w}, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, err
	}
	return &Writer{s, fw}, nil
}

// supported names types that have no form in Parquet.
func supported(t types.Type) error {
	switch t.Kind {
	case types.IntervalYearMonth, types.IntervalDayTime, types.Null:
		return fmt.Errorf("%s has no form in Parquet; cast it to STRING", t)
	case types.Array:
		return supported(*t.Elem)
	case types.Map:
		if err := supported(*t.Key); err != nil {
			return err
		}
		return supported(*t.Elem)
	case types.Multiset:
		return supported(*t.Elem)
	case types.Row:
		for _, f := range t.Fields {
			if err := supported(f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write adds the selected rows of b, whatever their kinds are.
func (w *Writer) Write(b *vec.Batch) error {
	plain := *b
	plain.Kinds = nil
	rec, err := arrowvec.Record(w.schema, &plain)
	if err != nil {
		return err
	}
	defer rec.Release()
	return w.write(rec)
}

func (w *Writer) write(rec arrow.RecordBatch) error {
	if rec.NumRows() == 0 {
		return nil
	}
	return w.w.WriteBuffered(rec)
}

// Close ends the file.
func (w *Writer) Close() error { return w.w.Close() }
