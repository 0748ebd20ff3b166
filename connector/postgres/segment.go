package postgres

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
//	segment = magic columns keys (row | places)...
//	magic   = "TMPG" 2
//	columns = count (uvarint), each: name, wire (1 byte), cast, copies (1 byte)
//	keys    = count (uvarint), each: number of a column (uvarint)
//	row     = length (4 bytes, of what follows) deleted (1 byte: 0 or 1) tuple
//	places  = length (4 bytes, of what follows) 2 (1 byte) what the rows that follow came from, see connector.Places
//	name, cast = length (uvarint), bytes
//
// A tuple is what COPY's binary format takes. Segments of version 1 have no places. Segments lie in checkpoints,
// so later versions read this one.
const (
	segmentMagic = "TMPG\x02"
	segmentFirst = "TMPG\x01"
	placesFrame  = 2
)

var errSegment = errors.New("a sealed segment of a PostgreSQL sink is damaged")

// Bounds on what a damaged length can make us allocate. maxRow is above what the server takes.
const (
	maxRow     = 1 << 30
	maxName    = 1 << 12
	maxColumns = 1 << 14
)

func appendName(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendHeader begins a segment.
func (s *shape) appendHeader(dst []byte) []byte {
	dst = append(dst, segmentMagic...)
	dst = binary.AppendUvarint(dst, uint64(len(s.cols)))
	for _, c := range s.cols {
		dst = append(appendName(dst, c.name), byte(c.wire))
		dst = appendName(dst, c.cast)
		if c.copies {
			dst = append(dst, 1)
		} else {
			dst = append(dst, 0)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.keys)))
	for _, k := range s.keys {
		dst = binary.AppendUvarint(dst, uint64(k))
	}
	return dst
}

// appendFrames appends all rows of r as they lie in a segment.
func appendFrames(dst []byte, r *rows) []byte {
	if r.places.Known() {
		dst = append(dst, 0, 0, 0, 0, placesFrame)
		at := len(dst)
		dst = r.places.Append(dst)
		be.PutUint32(dst[at-5:], uint32(len(dst)-at+1))
	}
	for i := range r.len() {
		t := r.tuple(i)
		dst = be.AppendUint32(dst, uint32(len(t)+1))
		if r.gone[i] {
			dst = append(dst, 1)
		} else {
			dst = append(dst, 0)
		}
		dst = append(dst, t...)
	}
	return dst
}

// segmentReader reads a segment.
type segmentReader struct {
	r *bufio.Reader
	shape
	fields [][]byte
	places connector.Places // of the rows that follow
	placed int              // how many of them were read
	buf    []byte
}

// readSegment reads the header.
func readSegment(r io.Reader) (*segmentReader, error) {
	s := &segmentReader{r: connector.NewSegmentReader(r)}
	if err := s.header(); err != nil {
		return nil, connector.Damaged(errSegment, err)
	}
	return s, nil
}

func (s *segmentReader) header() error {
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return err
	}
	if string(magic) != segmentMagic && string(magic) != segmentFirst {
		return fmt.Errorf("it begins with %q", magic)
	}
	n, err := s.count(maxColumns)
	if err != nil {
		return err
	}
	for range n {
		c := column{}
		if c.name, err = s.name(); err != nil {
			return err
		}
		w, err := s.r.ReadByte()
		if err != nil {
			return err
		}
		if c.wire = wire(w); !c.wire.known() {
			return fmt.Errorf("column '%s' has the form %d", c.name, w)
		}
		if c.cast, err = s.name(); err != nil {
			return err
		}
		copies, err := s.r.ReadByte()
		if err != nil {
			return err
		}
		c.copies = copies == 1
		s.cols = append(s.cols, c)
	}
	n, err = s.count(len(s.cols))
	for ; n > 0 && err == nil; n-- {
		var k int
		if k, err = s.count(len(s.cols) - 1); err == nil {
			s.keys = append(s.keys, k)
		}
	}
	return err
}

func (s *segmentReader) count(most int) (int, error) {
	n, err := binary.ReadUvarint(s.r)
	if err == nil && (most < 0 || n > uint64(most)) {
		err = fmt.Errorf("%d where %d is the most", n, most)
	}
	return int(n), err
}

func (s *segmentReader) name() (string, error) {
	n, err := s.count(maxName)
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(s.r, b)
	return string(b), err
}

// read appends rows to dst until it holds most rows or mostBytes bytes; io.EOF at the end of the
// segment, with the last rows or none.
func (s *segmentReader) read(dst *rows, most, mostBytes int) error {
	for dst.len() < most && len(dst.buf) < mostBytes {
		if _, err := s.r.Peek(1); err != nil {
			if err == io.EOF {
				return err
			}
			return connector.Damaged(errSegment, err)
		}
		if err := s.row(dst); err != nil {
			return connector.Damaged(errSegment, err)
		}
	}
	return nil
}

func (s *segmentReader) row(dst *rows) error {
	var head [5]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return err
	}
	n := be.Uint32(head[:])
	if head[4] == placesFrame && n > 1 && n <= maxRow {
		return s.readPlaces(int(n) - 1)
	}
	if n < 1 || n > maxRow || head[4] > 1 || head[4] == 1 && !s.upserts() {
		return fmt.Errorf("a row of %d bytes and kind %d", n, head[4])
	}
	from := len(dst.buf)
	var err error
	if dst.buf, err = connector.AppendRead(dst.buf, s.r, int(n)-1); err != nil {
		return err
	}
	if s.fields, err = s.split(s.fields, dst.buf[from:]); err != nil {
		return err
	}
	dst.end(head[4] == 1)
	dst.places.AddOf(&s.places, s.placed)
	s.placed++
	return nil
}

// readPlaces reads n bytes of places.
func (s *segmentReader) readPlaces(n int) (err error) {
	if s.buf, err = connector.AppendRead(s.buf[:0], s.r, n); err != nil {
		return err
	}
	count, w := binary.Uvarint(s.buf)
	if w <= 0 || count > maxRow {
		return errors.New("the places of rows are damaged")
	}
	s.placed = 0
	return s.places.Parse(s.buf, int(count))
}
