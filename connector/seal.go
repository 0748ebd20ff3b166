package connector

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-stream/tidemark/option"
)

// DeliveryOf is what 'sink.delivery-guarantee' asks for, an option that all sinks declare alike but for its
// default: what a sink gives is for its Delivery to say.
func DeliveryOf(o option.Values) Delivery {
	switch o.Enum("sink.delivery-guarantee") {
	case "exactly-once":
		return ExactlyOnce
	case "none":
		return AtMostOnce
	}
	return AtLeastOnce
}

// CheckSealed refuses exactly-once where nothing can be sealed, for sinks that commit segments.
func (c *SinkConfig) CheckSealed() error {
	if DeliveryOf(c.Options) != ExactlyOnce || c.Segments != nil {
		return nil
	}
	return &option.Error{Key: "sink.delivery-guarantee", Msg: "exactly-once needs checkpoints, and none are taken here",
		Hint: "SET 'execution.checkpointing.interval' = '10 s', or use 'at-least-once'"}
}

// Sealer is the part of an exactly-once sink's Writer that is the same for all of them: the rows of an
// epoch go into one segment, which Prepare seals. A Writer embeds it and adds Write. The zero value
// with Segments set is ready.
type Sealer struct {
	Segments Segments
	seg      SegmentWriter // of the epoch at hand; nil before its first row
}

// Segment returns the segment of the epoch at hand; fresh says that it was begun just now.
func (s *Sealer) Segment() (w SegmentWriter, fresh bool, err error) {
	if s.seg == nil {
		s.seg, err = s.Segments.Create()
		fresh = true
	}
	return s.seg, fresh, err
}

// Flush implements Writer: what is written is safe when its checkpoint is.
func (s *Sealer) Flush(context.Context) error { return nil }

// Prepare implements Writer.
func (s *Sealer) Prepare(context.Context) ([]Committable, error) {
	if s.seg == nil {
		return nil, nil
	}
	c, err := s.seg.Seal()
	s.seg = nil
	if err != nil {
		return nil, err
	}
	return []Committable{c}, nil
}

// Tick implements Writer.
func (s *Sealer) Tick(context.Context) error { return nil }

// Close implements Writer.
func (s *Sealer) Close() error {
	if s.seg == nil {
		return nil
	}
	seg := s.seg
	s.seg = nil
	return seg.Discard()
}

// UnreadError says that the place where sealed segments lie could not be read; they may be whole.
type UnreadError struct{ Err error }

// Error implements error.
func (u *UnreadError) Error() string { return "read sealed rows: " + u.Err.Error() }

// Unwrap returns the cause.
func (u *UnreadError) Unwrap() error { return u.Err }

// NewSegmentReader buffers a sealed segment; errors of the place it lies in become UnreadErrors.
func NewSegmentReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(segmentSource{r}, 1<<16) }

// segmentSource tells errors of reading from those of what is read.
type segmentSource struct{ r io.Reader }

func (s segmentSource) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = &UnreadError{err}
	}
	return n, err
}

// Damaged makes err, met while a segment was read, one of kind, unless it is an UnreadError.
func Damaged(kind, err error) error {
	var u *UnreadError
	if err == nil || errors.As(err, &u) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// AppendRead appends n bytes of r to dst: in steps, so that a damaged length meets the end of the bytes and
// not the end of memory.
func AppendRead(dst []byte, r io.Reader, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, 1<<20)
		at := len(dst)
		dst = append(dst, make([]byte, step)...)
		if _, err := io.ReadFull(r, dst[at:]); err != nil {
			return dst, err
		}
		n -= step
	}
	return dst, nil
}
