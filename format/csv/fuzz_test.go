package csv_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/csv"
	"github.com/tidemark-stream/tidemark/format/formattest"
	"github.com/tidemark-stream/tidemark/vec"
)

var seeds = []string{
	"1,x,1;2,2024-01-02 03:04:05\n2,\"a\"\"b\nc\",,\r\n",
	"1,\\n,;,\n#c\n,,,,\n3,\"x\"y,1\n4,\"open\n5,z,1,2",
	"N,N,N,N\r1,\u00e9\u4e2d,1,2\n",
}

func FuzzDecode(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	formattest.Fuzz(f, "csv", "a STRING, b STRING, c ARRAY<STRING>, d STRING",
		`escape-character=\; allow-comments=true; null-literal=N`)
}

func FuzzDecodeIgnoringErrors(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	formattest.Fuzz(f, "csv", "a INT, b STRING, c ARRAY<INT>, d TIMESTAMP(3)",
		"ignore-parse-errors=true; trim-spaces=true")
}

// FuzzComplete checks that cutting where Complete says loses nothing: the rows of the two parts
// are those of the whole.
func FuzzComplete(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), 9)
		f.Add([]byte(s), 25)
	}
	f.Add([]byte("x\\\ny,1\n2,3\n"), 3)               // the first line break is a part of the value
	f.Add([]byte("\xef\xbb\xbf\"x\ny\",1\n2,3\n"), 7) // a value in quotes behind the byte order mark
	f.Add([]byte("\"x\n\xff\n,1\n2,\"3\n"), 9)        // a record that ends behind its bad value
	schema := formattest.ParseSchema("a STRING, b STRING")
	factory := format.Lookup("csv")
	o := formattest.OptionValues(factory, `escape-character=\; allow-comments=true`)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		if at < 0 || at > len(data) {
			return
		}
		bad := 0
		d, err := csv.NewDecoder(format.DecoderConfig{Schema: schema, Columns: []int{0, 1}, Options: o,
			Bad: func(format.BadRecord) error { bad++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		rows := func(parts ...[]byte) []string {
			bad = 0
			var out []string
			base := int64(0)
			for _, p := range parts {
				b := vec.NewBatch(schema)
				c := &format.Chunk{Data: p, Base: base}
				base += int64(len(p))
				for !c.Done() {
					if err := d.Decode(c, &format.Rows{Batch: b}, b.N+10); err != nil {
						t.Fatal(err)
					}
				}
				out = append(out, formattest.Rows(b)...)
			}
			return out
		}
		cut := d.Complete(data[:at])
		if cut < 0 || cut > at {
			t.Fatalf("Complete of %d bytes is %d", at, cut)
		}
		want := rows(data)
		wantBad := bad
		got := rows(data[:cut], data[cut:])
		if len(got) != len(want) || bad != wantBad {
			t.Fatalf("cut at %d: %q and %d bad, whole: %q and %d bad", cut, got, bad, want, wantBad)
		}
	})
}
