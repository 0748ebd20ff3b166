// Command customsource shows a source of one's own: a connector called 'ticks' that counts, used
// from SQL like any other. It is what a program that embeds Tidemark adds to read a system that
// Tidemark does not know.
package main

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/tidemark-stream/tidemark"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/vec"
)

// ticks is the source: one split of count rows (n BIGINT).
type ticks struct{ count int64 }

func (t ticks) Bounded() bool     { return true }
func (t ticks) Guarantee() string { return "the same rows again from any position" }
func (t ticks) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return connector.FixedSplits(connector.Split{ID: "all"}), nil
}
func (t ticks) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(func(_ context.Context, s connector.Split) (connector.SplitReader, error) {
		return &reader{ticks: t, at: s.Position.Offset, origin: &vec.Origin{Source: "ticks", Split: s.ID, Unit: "row"}}, nil
	}), nil
}

type reader struct {
	ticks
	at     int64
	origin *vec.Origin
}

// ReadBatch makes the next rows. The batch has one vector a wanted column; here there is one.
func (r *reader) ReadBatch(_ context.Context, b *vec.Batch, maxRows int) error {
	if r.at == r.count {
		return io.EOF
	}
	for b.Origin = r.origin; b.N < maxRows && r.at < r.count; r.at++ {
		for _, column := range b.Cols {
			column.AppendValue(r.at)
		}
		b.Pos = append(b.Pos, r.at)
		b.N++
	}
	return nil
}
func (r *reader) Position() connector.Position { return connector.Position{Offset: r.at, Set: true} }
func (r *reader) Lag() int64                   { return r.count - r.at }
func (r *reader) Close() error                 { return nil }

func main() {
	connector.Register(&connector.Factory{Name: "ticks",
		Options: []option.Spec{{Name: "count", Kind: option.Int, Default: "10", Doc: "How many rows there are."}},
		NewSource: func(c connector.SourceConfig) (connector.Source, error) {
			return ticks{c.Options.Int("count")}, nil
		}})
	engine, err := tidemark.Open(tidemark.Options{})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := engine.Query(context.Background(), `
		CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'ticks', 'count' = '1000000');
		SELECT n % 3 AS rest, COUNT(*) AS ticks FROM ticks GROUP BY n % 3`)
	if err != nil {
		log.Fatal(err)
	}
	result := map[int64]int64{}
	for rows.Next() {
		var rest, count int64
		if err := rows.Scan(&rest, &count); err != nil {
			log.Fatal(err)
		}
		if rows.Kind() != tidemark.UpdateBefore {
			result[rest] = count
		}
	}
	if err := rows.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
}
