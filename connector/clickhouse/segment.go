package clickhouse

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// A segment is the output of an epoch of one subtask:
//
//	segment = magic frame...
//	magic   = "TMCH" 2
//	frame   = length bytes length places
//
// Lengths have 4 bytes, little endian. The bytes are a block, what one INSERT takes, see block.go; the places
// are those of its rows, see connector.Places. Segments of version 1 have none, nor their length. Segments lie in
// checkpoints, so later versions read this one.
const (
	segmentMagic = "TMCH\x02"
	segmentFirst = "TMCH\x01"
)

var errSegment = errors.New("a sealed segment of a ClickHouse sink is damaged")

// Bounds on what a damaged length can make us allocate. maxBlock is above what a block can have: a
// batch may go beyond its size once.
const (
	maxBlock   = 1 << 30
	maxColumns = 1 << 14
)

// frameHead is what stands before a block, and before its places: the length.
const frameHead = 4

// segmentReader reads a segment.
type segmentReader struct {
	r      *bufio.Reader
	first  bool // it is of version 1
	buf    []byte
	places []byte // of the rows of the block read last, nil where nothing is known of them
}

func readSegment(r io.Reader) (*segmentReader, error) {
	s := &segmentReader{r: connector.NewSegmentReader(r)}
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return nil, connector.Damaged(errSegment, err)
	}
	if s.first = string(magic) == segmentFirst; !s.first && string(magic) != segmentMagic {
		return nil, connector.Damaged(errSegment, fmt.Errorf("it begins with %q", magic))
	}
	return s, nil
}

// next returns the next block, valid until the next call, or io.EOF.
func (s *segmentReader) next() ([]byte, error) {
	if _, err := s.r.Peek(1); err != nil {
		if err == io.EOF {
			return nil, err
		}
		return nil, connector.Damaged(errSegment, err)
	}
	var err error
	if s.buf, err = s.part(s.buf); err == nil && !s.first {
		s.places, err = s.part(s.places)
	}
	if err != nil {
		return nil, connector.Damaged(errSegment, err)
	}
	return s.buf, nil
}

// part reads a length and as many bytes.
func (s *segmentReader) part(dst []byte) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return dst, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxBlock {
		return dst, fmt.Errorf("a part of %d bytes", n)
	}
	return connector.AppendRead(dst[:0], s.r, int(n))
}

// origins say what the rows of a block came from.
type origins interface {
	// Of returns the record of row i; a nil origin where it is not known.
	Of(i int) (*vec.Origin, int64)
}

// sealedPlaces are the places of a block of a segment, which are looked at when a row is refused.
type sealedPlaces struct {
	block, raw []byte
	known      bool
	connector.Places
}

// Of implements origins. Places that are damaged are none: the rows are whole.
func (s *sealedPlaces) Of(i int) (*vec.Origin, int64) {
	if !s.known && s.raw != nil {
		s.known = true
		if b, err := parseBlock(s.block); err != nil || s.Places.Parse(s.raw, b.rows) != nil {
			s.Places.Reset()
		}
	}
	return s.Places.Of(i)
}
