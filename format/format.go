// Package format holds the contracts between bytes and columns: Decoder, Encoder, and the
// registry of formats (json, csv, raw, debezium-json ...), which live in packages below.
//
// A decoder and an encoder belong to one subtask and are not safe for concurrent use.
package format

import (
	"maps"
	"math"
	"slices"

	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// NullRecord is the bound of a record that is NULL as a whole, such as a Kafka tombstone.
var NullRecord = vec.Ref{Off: math.MaxUint32}

// Chunk is a run of records as a source read them from one split. Data stays valid and unchanged
// until every batch decoded from the chunk has gone through the operators, so decoders may point
// into it.
type Chunk struct {
	Data []byte
	// Bounds locates each record in Data. nil: Data is text, and records end with a newline
	// (the last one perhaps not); the decoder finds them.
	Bounds []vec.Ref
	// Base is the position in the split of Data[0] where Bounds is nil; otherwise Positions
	// holds the position of every record.
	Base      int64
	Positions []int64
	// Next is the decoder's cursor: the byte (Bounds nil) or record to decode next. The source
	// sets it to 0; the chunk is used up when it reaches len(Data) or len(Bounds).
	Next   int
	Origin *vec.Origin
}

// Done reports whether every record was decoded.
func (c *Chunk) Done() bool {
	if c.Bounds != nil {
		return c.Next >= len(c.Bounds)
	}
	return c.Next >= len(c.Data)
}

// Rows receives decoded rows.
type Rows struct {
	// Batch has one vector a column of DecoderConfig.Columns, in that order. Decode appends to
	// it, sets N, Pos (one a row) and Origin, and Kinds where the format carries changes.
	Batch *vec.Batch
	// Rec[i] is the number of the record in the chunk that row i came from. Filled only where
	// DecoderConfig.NeedRec is set and the chunk has Bounds.
	Rec []int32
}

// BadRecord is a record that could not be decoded.
type BadRecord struct {
	Origin *vec.Origin
	Pos    int64
	Bytes  []byte // valid during the call
	Err    error
}

// Decoder turns records into rows.
type Decoder interface {
	// Decode appends rows of c from c.Next on to out until the chunk is used up or out holds
	// maxRows rows (one more where a record makes two), and advances c.Next. An error ends the
	// job; a record that cannot be decoded is given to DecoderConfig.Bad and skipped, unless
	// that returns an error.
	Decode(c *Chunk, out *Rows, maxRows int) error
}

// DecoderConfig is what a decoder is made for.
type DecoderConfig struct {
	// Schema is all physical columns of the table that the format describes, Columns the
	// indexes of those wanted, ascending: the others are skipped as bytes.
	Schema  types.Schema
	Columns []int
	Options option.Values
	NeedRec bool
	// Bad handles a record that cannot be decoded: nil to skip it (it was counted or written
	// to a dead-letter output), an error to stop the job. Never nil.
	Bad func(BadRecord) error
}

// Encoder turns rows into records.
type Encoder interface {
	// Encode appends the selected rows of b, whose columns are EncoderConfig.Schema, to dst in
	// order.
	Encode(dst *Encoded, b *vec.Batch) error
}

// Encoded collects records.
type Encoded struct {
	Data []byte
	// Ends[i] is the end of record i in Data; it begins where the one before ends. A record
	// that is NULL as a whole (a tombstone) has its number in Nulls.
	Ends  []int
	Nulls []int
}

// Reset empties e and keeps its memory.
func (e *Encoded) Reset() { e.Data, e.Ends, e.Nulls = e.Data[:0], e.Ends[:0], e.Nulls[:0] }

// EncoderConfig is what an encoder is made for.
type EncoderConfig struct {
	Schema  types.Schema
	Options option.Values
	// Delimiter is appended after every record ("\n" in files, nothing in Kafka).
	Delimiter string
}

// Factory makes the decoders and encoders of one format.
type Factory struct {
	Name string
	Doc  string
	// Options lists what the format understands, without the "NAME." prefix.
	Options []option.Spec
	// Changelog is the kinds of rows that the format can carry, decoding and encoding.
	Changelog types.ChangelogMode
	// Check refuses schemas and options that the format cannot serve, at planning. May be nil.
	Check      func(s types.Schema, o option.Values) error
	NewDecoder func(DecoderConfig) (Decoder, error)
	NewEncoder func(EncoderConfig) (Encoder, error)
}

var factories = map[string]*Factory{}

// Register adds a format; it panics when the name is taken. Called from init.
func Register(f *Factory) {
	if factories[f.Name] != nil {
		panic("BUG: format registered twice: " + f.Name)
	}
	factories[f.Name] = f
}

// Lookup returns the format called name, or nil.
func Lookup(name string) *Factory { return factories[name] }

// Names lists the registered formats, sorted.
func Names() []string { return slices.Sorted(maps.Keys(factories)) }
