package json_test

import (
	stdjson "encoding/json"
	"fmt"
	"syscall"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/formattest"
	"github.com/tidemark-stream/tidemark/format/json"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const bidSchema = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, " +
	"dateTime TIMESTAMP(3), extra STRING"

// bids makes n records of about 258 bytes, in the shape of Nexmark's bids.
func bids(n int) []byte {
	var data []byte
	for i := range n {
		ms := 1700000000000 + int64(i)*7
		data = fmt.Appendf(data, `{"auction":%d,"bidder":%d,"price":%d,"channel":"channel-%d",`+
			`"url":"https://www.nexmark.com/%s/item.htm?query=1&channel_id=%d","dateTime":"%s",`+
			`"extra":"%s"}`+"\n", 1000+i%97, 2000+i*31%1000, 100+i*7919%1000000, i%10000,
			"abo_hxz_kpw_qjr"[:12+i%4], i*104729, string(types.AppendTimestamp(nil, ms, 0, 3)),
			"sxOdaeCmQrVoBnkxyhjwSLGZFAMkdTEPhcPOLTfbYEuxcogZGanfiMXSQzgl"[:52+i%9])
	}
	return data
}

func decoder(tb testing.TB, s types.Schema, cols []int, o option.Values) *json.Decoder {
	d, err := json.NewDecoder(format.DecoderConfig{Schema: s, Columns: cols, Options: o,
		Bad: func(r format.BadRecord) error { return r.Err }})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func project(s types.Schema, cols []int) types.Schema {
	var out types.Schema
	for _, c := range cols {
		out.Fields = append(out.Fields, s.Fields[c])
	}
	return out
}

func BenchmarkDecode(b *testing.B) {
	s := formattest.ParseSchema(bidSchema)
	const rows = 2048
	data := bids(rows)
	for _, c := range []struct {
		name string
		cols []int
	}{
		{"columns=7", []int{0, 1, 2, 3, 4, 5, 6}},
		{"columns=3", []int{0, 2, 5}},
		{"columns=1", []int{2}},
		{"columns=0", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchDecode(b, s, c.cols, format.Chunk{Data: data}, rows)
		})
	}
}

// BenchmarkDecodeRecords is BenchmarkDecode for the records of a message queue.
func BenchmarkDecodeRecords(b *testing.B) {
	const rows = 2048
	c := format.Chunk{Data: bids(rows), Positions: make([]int64, rows)}
	at := uint32(0)
	for i, x := range c.Data {
		if x == '\n' {
			c.Bounds = append(c.Bounds, vec.Ref{Off: at, Len: uint32(i) - at})
			at = uint32(i) + 1
		}
	}
	benchDecode(b, formattest.ParseSchema(bidSchema), []int{0, 1, 2, 3, 4, 5, 6}, c, rows)
}

func benchDecode(b *testing.B, s types.Schema, cols []int, chunk format.Chunk, rows int) {
	d := decoder(b, s, cols, option.Values{})
	batch := vec.NewBatch(project(s, cols))
	out := format.Rows{Batch: batch}
	var pos []int64
	b.SetBytes(int64(len(chunk.Data)))
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		batch.Reset(0)
		batch.Pos = pos[:0]
		c := chunk
		if err := d.Decode(&c, &out, rows); err != nil {
			b.Fatal(err)
		}
		if batch.N != rows {
			b.Fatalf("%d rows", batch.N)
		}
		pos = batch.Pos
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

func BenchmarkEncode(b *testing.B) {
	const rows = 2048
	s := formattest.ParseSchema(bidSchema)
	d := decoder(b, s, []int{0, 1, 2, 3, 4, 5, 6}, option.Values{})
	batch := vec.NewBatch(s)
	if err := d.Decode(&format.Chunk{Data: bids(rows)}, &format.Rows{Batch: batch}, rows); err != nil {
		b.Fatal(err)
	}
	e, err := json.NewEncoder(format.EncoderConfig{Schema: s, Delimiter: "\n"})
	if err != nil {
		b.Fatal(err)
	}
	var out format.Encoded
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		out.Reset()
		if err := e.Encode(&out, batch); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(out.Data)))
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N*rows), "cpu-ns/record")
}

type bid struct {
	Auction  int64  `json:"auction"`
	Bidder   int64  `json:"bidder"`
	Price    int64  `json:"price"`
	Channel  string `json:"channel"`
	URL      string `json:"url"`
	DateTime string `json:"dateTime"`
	Extra    string `json:"extra"`
}

// BenchmarkStandardLibrary is what encoding/json takes for the same records, without the
// conversion of the timestamp.
func BenchmarkStandardLibrary(b *testing.B) {
	const rows = 2048
	data := bids(rows)
	var ends []int
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i)
		}
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		at := 0
		for _, end := range ends {
			var x bid
			if err := stdjson.Unmarshal(data[at:end], &x); err != nil {
				b.Fatal(err)
			}
			at = end + 1
		}
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N*rows), "cpu-ns/record")
}
