package iceberg

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
)

// file is a file that a committable names: what Iceberg's metadata say of it. It lies in checkpoints, so
// later versions read it.
type file struct {
	Path      string        `json:"path"`
	Deletes   bool          `json:"deletes,omitempty"` // rows are keys that are deleted
	Rows      int64         `json:"rows"`
	Size      int64         `json:"size"`
	Partition [][]byte      `json:"partition,omitempty"` // values in binary form, null for NULL
	Sizes     map[int]int64 `json:"sizes,omitempty"`     // bytes, by field
	Counts    map[int]int64 `json:"counts,omitempty"`
	Nulls     map[int]int64 `json:"nulls,omitempty"`
	// Lower and Upper are bounds in binary form. Texts are cut.
	Lower  map[int][]byte `json:"lower,omitempty"`
	Upper  map[int][]byte `json:"upper,omitempty"`
	Splits []int64        `json:"splits,omitempty"` // where row groups begin
}

// dataFile is what the library takes.
func (f *file) dataFile(spec iceberg.PartitionSpec, schema *iceberg.Schema, ids []int) (iceberg.DataFile, error) {
	partition, err := partitionData(spec, schema, f.Partition)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	content := iceberg.EntryContentData
	if f.Deletes {
		content = iceberg.EntryContentEqDeletes
	}
	b, err := iceberg.NewDataFileBuilder(spec, content, f.Path, iceberg.ParquetFile, partition, nil, nil, f.Rows, f.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	b.ColumnSizes(f.Sizes).ValueCounts(f.Counts).NullValueCounts(f.Nulls).LowerBoundValues(f.Lower).UpperBoundValues(f.Upper).SplitOffsets(f.Splits)
	if f.Deletes {
		b.EqualityFieldIDs(ids)
	}
	return b.Build(), nil
}

// shape is what all files of one kind have in common.
type shape struct {
	enc     *encoder
	schema  *iceberg.Schema // of the files
	deletes bool
	props   *parquet.WriterProperties
	bounds  map[int]int // the length of bounds, by field; none without an entry
	physics map[int]iceberg.Type
}

// newShape prepares files with the fields of schema that have a column.
func newShape(t *target, schema *iceberg.Schema, at []int, deletes bool) (*shape, error) {
	s := &shape{deletes: deletes, bounds: map[int]int{}, physics: map[int]iceberg.Type{}}
	var err error
	if s.enc, s.schema, err = newEncoder(schema, at); err != nil {
		return nil, err
	}
	options, err := t.props.parquetOptions()
	if err != nil {
		return nil, err
	}
	s.props = parquet.NewWriterProperties(options...)
	s.bound(t, s.schema.Fields(), "")
	return s, nil
}

// bound finds the fields of which bounds are kept: those that are not in lists and maps.
func (s *shape) bound(t *target, fields []iceberg.NestedField, prefix string) {
	for _, f := range fields {
		if inner, ok := f.Type.(*iceberg.StructType); ok {
			s.bound(t, inner.FieldList, prefix+f.Name+".")
			continue
		}
		if _, ok := f.Type.(iceberg.PrimitiveType); ok {
			s.physics[f.ID] = f.Type
			if n := t.props.boundLength(prefix + f.Name); n != 0 || s.deletes {
				s.bounds[f.ID] = n
			}
		}
	}
}

// output is a file being written. It belongs to one writer.
type output struct {
	shape *shape
	sink  *counting
	pq    *pqarrow.FileWriter
	file  file
	group int64 // rows of the row group at hand
	raw   int64 // and their bytes, before they were encoded
	used  int64 // when rows came last, by the writer's count
}

// counting counts the bytes of a file.
type counting struct {
	iceio.FileWriter
	n int64
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.FileWriter.Write(p)
	c.n += int64(n)
	return n, err
}

// ReadFrom is hidden, as it would not be counted.
func (c *counting) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{c}, r) }

// create begins a file.
func (s *shape) create(fs iceio.WriteFileIO, path string, partition [][]byte) (*output, error) {
	f, err := fs.Create(path)
	if err != nil {
		return nil, err
	}
	o := &output{shape: s, sink: &counting{FileWriter: f}, file: file{Path: path, Deletes: s.deletes, Partition: partition}}
	if o.pq, err = pqarrow.NewFileWriter(s.enc.schema, onlyWriter{o.sink}, s.props, pqarrow.DefaultWriterProps()); err != nil {
		return nil, errors.Join(err, o.discard())
	}
	return o, nil
}

// onlyWriter keeps the Parquet writer from closing the file, and so from dropping the error of that.
type onlyWriter struct{ w io.Writer }

func (o onlyWriter) Write(p []byte) (int, error) { return o.w.Write(p) }

// write appends a record.
func (o *output) write(rec arrow.RecordBatch) error {
	if err := o.pq.WriteBuffered(rec); err != nil {
		return err
	}
	o.file.Rows += rec.NumRows()
	o.group += rec.NumRows()
	for _, c := range rec.Columns() {
		o.raw += bytesOf(c.Data())
	}
	return nil
}

// bytesOf is the size of the values of an array.
func bytesOf(d arrow.ArrayData) (n int64) {
	for _, b := range d.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, c := range d.Children() {
		n += bytesOf(c)
	}
	return n
}

// held is how much of the file lies in memory: what has come to the row group at hand. Pages that are
// complete take less, but how much lies in those that are not is not told.
func (o *output) held() int64 { return o.raw }

// endGroup writes the row group at hand.
func (o *output) endGroup() error {
	o.group, o.raw = 0, 0
	return o.pq.NewBufferedRowGroupChecked()
}

// finish ends the file: when it returns nil, the file is safe.
func (o *output) finish() (*file, error) {
	err := o.pq.Close()
	var md *metadata.FileMetaData
	if err == nil {
		md, err = o.pq.FileMetadata()
	}
	if err != nil {
		return nil, errors.Join(err, o.discard())
	}
	if err := o.sink.Close(); err != nil {
		return nil, errors.Join(err, o.discard())
	}
	o.file.Size = o.sink.n
	if err := o.describe(md); err != nil {
		return nil, errors.Join(err, o.discard())
	}
	return &o.file, nil
}

// discard ends the file without a trace.
func (o *output) discard() error {
	if d, ok := o.sink.FileWriter.(discarder); ok {
		return d.discard()
	}
	return o.sink.Close()
}
