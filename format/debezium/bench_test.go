package debezium_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/debezium"
	"github.com/tidemark-stream/tidemark/format/formattest"
	"github.com/tidemark-stream/tidemark/vec"
)

func BenchmarkDecode(b *testing.B) {
	const events = 1024
	var data []byte
	for i := range events {
		row := fmt.Sprintf(`{"id":%d,"name":"customer %d","amount":%d.25,"note":"as ordered by phone"}`,
			i, i%100, i*7919%1000)
		data = fmt.Appendf(data, `{"before":%s,"after":%s,"source":{"db":"shop","table":"orders",`+
			`"ts_ms":%d},"op":"u","ts_ms":%d}`+"\n", row, row, i, i)
	}
	s := formattest.ParseSchema("id BIGINT, name STRING, amount DECIMAL(10, 2), note STRING")
	d, err := debezium.NewDecoder(format.DecoderConfig{Schema: s, Columns: []int{0, 1, 2, 3},
		Bad: func(r format.BadRecord) error { return r.Err }})
	if err != nil {
		b.Fatal(err)
	}
	batch := vec.NewBatch(s)
	out := format.Rows{Batch: batch}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		pos, kinds := batch.Pos, batch.Kinds
		batch.Reset(0)
		batch.Pos, batch.Kinds = pos[:0], kinds[:0]
		c := format.Chunk{Data: data}
		if err := d.Decode(&c, &out, 2*events); err != nil {
			b.Fatal(err)
		}
		if batch.N != 2*events {
			b.Fatalf("%d rows", batch.N)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}
