package physical

import (
	"context"
	"errors"
	"io"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// Startable says why the job of sinks, which Plan has planned, would not start, as far as its plan tells: what
// its connectors refuse before they touch anything. saves says that checkpoints are taken. The errors are
// *sqlerr.Error with the place of the option at fault.
func Startable(sinks []*logical.Sink, cfg *catalog.Config, saves bool) error {
	b := newBuilder(cfg)
	if _, err := b.plan(sinks); err != nil {
		return err
	}
	for _, s := range b.sinks {
		if err := b.refused(s, saves); err != nil {
			b.optionError(s.t, err)
			return b.err
		}
	}
	return nil
}

// tableSink is a sink with the table that it writes.
type tableSink struct {
	n *node
	t *table
}

// refused is what the connector of a sink says of it when the job starts.
func (b *builder) refused(s tableSink, saves bool) error {
	if s.t.spec.Connector == "filesystem" {
		return nil // it makes the folder
	}
	op := s.n.Op.(*plan.Sink)
	c := connector.SinkConfig{Table: s.t.spec, Options: s.t.values, Schema: s.n.Schema, Mode: s.n.Mode, Batch: b.batch, Overwrite: op.Overwrite,
		StaticPartition: op.StaticPartition, Resolve: func(p string) string { return p }, Stdout: io.Discard, Stderr: io.Discard,
		Bad: func(x format.BadRecord) error { return x.Err }}
	if saves {
		c.Segments = noSegments{}
	}
	_, err := s.t.factory.NewSink(c)
	return err
}

// noSegments says that output can be sealed, and seals none.
type noSegments struct{}

// Create implements connector.Segments.
func (noSegments) Create() (connector.SegmentWriter, error) { return nil, errNoSegments }

// Open implements connector.Segments.
func (noSegments) Open(context.Context, connector.Committable) (io.ReadCloser, error) {
	return nil, errNoSegments
}

var errNoSegments = errors.New("BUG: a sink writes before it is opened")
