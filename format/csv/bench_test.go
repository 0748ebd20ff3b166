package csv_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/csv"
	"github.com/tidemark-stream/tidemark/format/formattest"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const bidSchema = "auction BIGINT, bidder BIGINT, price DOUBLE, channel STRING, url STRING, " +
	"dateTime TIMESTAMP(3), extra STRING"

func bids(n int) []byte {
	var data []byte
	for i := range n {
		ms := 1700000000000 + int64(i)*7
		data = fmt.Appendf(data, "%d,%d,%d.25,channel-%d,\"https://www.nexmark.com/%d/item.htm\","+
			"%s,\"sxOdaeCmQrVoBnkxyhjw %d\"\n", 1000+i%97, 2000+i*31%1000, 100+i*7919%1000000,
			i%10000, i*104729, types.AppendTimestamp(nil, ms, 0, 3), i)
	}
	return data
}

func BenchmarkDecode(b *testing.B) {
	const rows = 2048
	data := bids(rows)
	s := formattest.ParseSchema(bidSchema)
	for _, cols := range [][]int{{0, 1, 2, 3, 4, 5, 6}, {0, 2}} {
		b.Run(fmt.Sprintf("columns=%d", len(cols)), func(b *testing.B) {
			d, err := csv.NewDecoder(format.DecoderConfig{Schema: s, Columns: cols,
				Bad: func(r format.BadRecord) error { return r.Err }})
			if err != nil {
				b.Fatal(err)
			}
			var part types.Schema
			for _, c := range cols {
				part.Fields = append(part.Fields, s.Fields[c])
			}
			batch := vec.NewBatch(part)
			out := format.Rows{Batch: batch}
			var pos []int64
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			start := cpu()
			for b.Loop() {
				batch.Reset(0)
				batch.Pos = pos[:0]
				c := format.Chunk{Data: data}
				if err := d.Decode(&c, &out, rows); err != nil {
					b.Fatal(err)
				}
				pos = batch.Pos
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N*rows), "cpu-ns/record")
		})
	}
}

// BenchmarkStandardLibrary is what encoding/csv takes to split the same records, without any
// conversion.
func BenchmarkStandardLibrary(b *testing.B) {
	const rows = 2048
	data := bids(rows)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		r := stdcsv.NewReader(bytes.NewReader(data))
		r.ReuseRecord = true
		for {
			if _, err := r.Read(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N*rows), "cpu-ns/record")
}

// cpu is the processor time that the process has used, in ns: what other processes do does not
// count.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
