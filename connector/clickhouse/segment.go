package clickhouse

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// unread is an error of the place where segments lie; they may be whole.
type unread struct{ err error }

func (u *unread) Error() string { return "read sealed rows: " + u.err.Error() }
func (u *unread) Unwrap() error { return u.err }

// source tells errors of reading from those of what is read.
type source struct{ r io.Reader }

func (s source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = &unread{err}
	}
	return n, err
}

func damaged(err error) error {
	var u *unread
	if err == nil || errors.As(err, &u) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", errSegment, err)
}

// segmentReader reads a segment.
type segmentReader struct {
	r   *bufio.Reader
	buf []byte
}

func readSegment(r io.Reader) (*segmentReader, error) {
	s := &segmentReader{r: bufio.NewReaderSize(source{r}, 1<<16)}
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return nil, damaged(err)
	}
	if string(magic) != segmentMagic {
		return nil, damaged(fmt.Errorf("it begins with %q", magic))
	}
	return s, nil
}

// next returns the next block, valid until the next call, or io.EOF.
func (s *segmentReader) next() ([]byte, error) {
	if _, err := s.r.Peek(1); err != nil {
		if err == io.EOF {
			return nil, err
		}
		return nil, damaged(err)
	}
	var head [frameHead]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return nil, damaged(err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxBlock {
		return nil, damaged(fmt.Errorf("a block of %d bytes", n))
	}
	// In steps, so that a damaged length meets the end of the bytes and not the end of memory.
	s.buf = s.buf[:0]
	for left := int(n); left > 0; {
		step := min(left, 1<<20)
		at := len(s.buf)
		s.buf = append(s.buf, make([]byte, step)...)
		if _, err := io.ReadFull(s.r, s.buf[at:]); err != nil {
			return nil, damaged(err)
		}
		left -= step
	}
	return s.buf, nil
}
