// Command decode reads a file of Nexmark bids as JSON lines into columns and does nothing else: the
// bound that bench/run compares simple queries with.
//
//	go run ./bench/decode -columns 0,1,2,5,6 bench/data/nexmark-1000000/bid.json
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/json"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// chunkBytes is about what a file source reads at a time.
const chunkBytes = 1 << 20

func schema() types.Schema {
	text, number := types.StringType, types.BigIntType
	return types.Schema{Fields: []types.Field{
		{Name: "auction", Type: number}, {Name: "bidder", Type: number}, {Name: "price", Type: number},
		{Name: "channel", Type: text}, {Name: "url", Type: text},
		{Name: "dateTime", Type: types.TimestampType(3)}, {Name: "extra", Type: text},
	}}
}

func main() {
	columns := flag.String("columns", "0,1,2,3,4,5,6", "columns to decode, by number")
	flag.Parse()
	rows, err := run(flag.Arg(0), *columns)
	if err != nil {
		fmt.Fprintln(os.Stderr, "decode:", err)
		os.Exit(1)
	}
	fmt.Println(rows, "rows")
}

func run(path, columns string) (rows int64, err error) {
	s := schema()
	var cols []int
	var wanted types.Schema
	for _, c := range strings.Split(columns, ",") {
		i, err := strconv.Atoi(c)
		if err != nil || i < 0 || i >= len(s.Fields) {
			return 0, fmt.Errorf("no column %q: there are 0 to %d", c, len(s.Fields)-1)
		}
		cols = append(cols, i)
		wanted.Fields = append(wanted.Fields, s.Fields[i])
	}
	d, err := json.NewDecoder(format.DecoderConfig{Schema: s, Columns: cols, Options: option.Values{},
		Bad: func(r format.BadRecord) error { return fmt.Errorf("byte %d: %w", r.Pos, r.Err) }})
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return decode(f, d, vec.NewBatch(wanted))
}

// decode reads whole lines; what is left of the last one goes in front of the next chunk.
func decode(f io.Reader, d format.Decoder, b *vec.Batch) (rows int64, err error) {
	buf := make([]byte, 2*chunkBytes)
	held, base := 0, int64(0)
	out := format.Rows{Batch: b}
	for {
		n, err := io.ReadAtLeast(f, buf[held:], chunkBytes)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return rows, err
		}
		last := err != nil
		have := held + n
		end := have
		if !last {
			end = bytes.LastIndexByte(buf[:have], '\n') + 1
			if end == 0 {
				return rows, fmt.Errorf("byte %d: a line longer than %d bytes", base, chunkBytes)
			}
		}
		c := format.Chunk{Data: buf[:end], Base: base}
		for !c.Done() {
			pos := b.Pos[:0]
			b.Reset(0)
			b.Pos = pos
			if err := d.Decode(&c, &out, vec.BatchRows); err != nil {
				return rows, err
			}
			rows += int64(b.N)
		}
		if last {
			return rows, nil
		}
		held = copy(buf, buf[end:have])
		base += int64(end)
	}
}
