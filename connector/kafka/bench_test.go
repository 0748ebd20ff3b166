package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/engine"
)

// BenchmarkCopy reads a topic of a broker in this process and writes another. The bound is the
// broker, which is one goroutine and part of the time; "read" ends in a blackhole.
func BenchmarkCopy(b *testing.B) {
	const n = 200_000
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "in", "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("in"))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	for i := range n {
		cl.Produce(b.Context(), &kgo.Record{Value: []byte(fmt.Sprintf(`{"id":%d,"customer":"customer-%d","price":%d,"ts":"2024-03-01 00:00:00.000"}`, i, i%5000, i%977))}, nil)
	}
	if err := cl.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	for name, sink := range map[string]string{"read": "'connector' = 'blackhole'",
		"copy": "'connector' = 'kafka', 'topic' = 'out', 'format' = 'json', 'properties.bootstrap.servers' = '${K}'"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e := engine.New(engine.Options{Define: map[string]string{"K": strings.Join(c.ListenAddrs(), ",")}})
				err := e.Script(b.Context(), "bench.sql", table("src", "id BIGINT, customer STRING, price BIGINT", with("topic", "in")...)+
					"CREATE TABLE dst (id BIGINT, customer STRING, twice BIGINT) WITH ("+sink+");\n"+
					"INSERT INTO dst SELECT id, UPPER(customer), price * 2 FROM src;", engine.Handler{})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/row")
		})
	}
}
