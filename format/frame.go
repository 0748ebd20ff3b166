package format

import (
	"bytes"
)

// Cut takes the next record off c: it lies in Data[start:end] without the newline that ended it,
// and pos is its position in the split. An empty record, a blank line and NullRecord all have
// start == end. For decoders that want the end of a record before they look at it.
func (c *Chunk) Cut() (start, end int, pos int64) {
	if c.Bounds != nil {
		ref := c.Bounds[c.Next]
		pos = c.Positions[c.Next]
		c.Next++
		if ref == NullRecord {
			return 0, 0, pos
		}
		return int(ref.Off), int(ref.Off + ref.Len), pos
	}
	start, end = c.Next, len(c.Data)
	c.Next = end
	if n := bytes.IndexByte(c.Data[start:], '\n'); n >= 0 {
		end = start + n
		c.Next = end + 1
	}
	if end > start && c.Data[end-1] == '\r' {
		end--
	}
	return start, end, c.Base + int64(start)
}

// Cutter is implemented by decoders of text whose records may hold newlines. A source that reads
// such text asks it where to end a chunk, instead of ending it at the last newline.
type Cutter interface {
	// Complete returns the length of the longest prefix of data, which starts with a record,
	// that consists of whole records; 0 if the first one is not whole.
	Complete(data []byte) int
}

// Counter is implemented by decoders that leave out records without giving them to
// DecoderConfig.Bad. Both numbers only grow.
type Counter interface {
	// Counts returns the records skipped since errors are to be ignored, and those that are
	// not rows by nature: empty lines, tombstones, comments.
	Counts() (skipped, blank int64)
}
