// Package blackhole is the blackhole connector: a sink that takes every row and keeps none.
package blackhole

import (
	"context"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	connector.Register(&connector.Factory{
		Name:              "blackhole",
		Doc:               "A sink that takes every row and keeps none, to measure what comes before it.",
		SinkChangelog:     func(*connector.Table, option.Values) types.ChangelogMode { return types.Retract },
		SkipsUpdateBefore: true,
		Delivery:          func(*connector.Table, option.Values) (connector.Delivery, string) { return sink{}.Delivery() },
		NewSink:           func(connector.SinkConfig) (connector.Sink, error) { return sink{}, nil },
	})
}

type sink struct{}

func (sink) NewWriter(context.Context, int, int) (connector.Writer, error) { return writer{}, nil }

func (sink) NewCommitter(context.Context) (connector.Committer, error) { return nil, nil }

func (sink) Delivery() (connector.Delivery, string) {
	return connector.AtMostOnce, "no row is kept"
}

type writer struct{}

func (writer) Write(context.Context, *vec.Batch) error { return nil }

func (writer) Flush(context.Context) error { return nil }

func (writer) Prepare(context.Context) ([]connector.Committable, error) { return nil, nil }

func (writer) Tick(context.Context) error { return nil }

func (writer) Close() error { return nil }
