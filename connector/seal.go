package connector

import (
	"context"

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
