package clickhouse

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-stream/tidemark/connector"
)

// A segment is the output of an epoch of one subtask:
//
//	segment = magic block...
//	magic   = "TMCH" 1
//	block   = length (4 bytes, little endian) bytes
//
// A block is what one INSERT takes, see block.go. Segments lie in checkpoints, so later versions read
// this one.
const segmentMagic = "TMCH\x01"

var errSegment = errors.New("a sealed segment of a ClickHouse sink is damaged")

// Bounds on what a damaged length can make us allocate. maxBlock is above what a block can have: a
// batch may go beyond its size once.
const (
	maxBlock   = 1 << 30
	maxColumns = 1 << 14
)

// frameHead is what stands before a block: its length.
const frameHead = 4

// segmentReader reads a segment.
type segmentReader struct {
	r   *bufio.Reader
	buf []byte
}

func readSegment(r io.Reader) (*segmentReader, error) {
	s := &segmentReader{r: connector.NewSegmentReader(r)}
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return nil, connector.Damaged(errSegment, err)
	}
	if string(magic) != segmentMagic {
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
	var head [frameHead]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return nil, connector.Damaged(errSegment, err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxBlock {
		return nil, connector.Damaged(errSegment, fmt.Errorf("a block of %d bytes", n))
	}
	var err error
	if s.buf, err = connector.AppendRead(s.buf[:0], s.r, int(n)); err != nil {
		return nil, connector.Damaged(errSegment, err)
	}
	return s.buf, nil
}
