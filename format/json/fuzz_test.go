package json_test

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/format/formattest"
	"github.com/tidemark-stream/tidemark/format/json"
	"github.com/tidemark-stream/tidemark/vec"
)

const fuzzSchema = "a BIGINT, b STRING, c DOUBLE, d ROW<x STRING, y INT>, e ARRAY<INT>, " +
	"f MAP<STRING, STRING>, g TIMESTAMP(3), h DECIMAL(10, 2), i BYTES, j BOOLEAN"

var seeds = []string{
	`{"a":1,"b":"x","c":1.5,"d":{"x":"y","y":2},"e":[1,2],"f":{"k":"v"}}`,
	`{"a":-12345678901,"b":"\u00e9\ud83d\ude00\n","c":1e-300,"g":"2024-01-02 03:04:05.678"}`,
	"{\"a\":1}\n{\"a\":2}\r\n\n{\"a\":}\n{\"b\":[1,{\"c\":2}]}",
	`{"b":{"x": [1.50, "\t"]},"h":"12.345","i":"AQID","j":true}`,
	` { "z" : null , "a" : "12" } tail`,
}

func FuzzDecode(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	formattest.Fuzz(f, "json", fuzzSchema, "")
}

func FuzzDecodeIgnoringErrors(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	formattest.Fuzz(f, "json", fuzzSchema, "ignore-parse-errors=true")
}

// FuzzStandardLibrary compares what is accepted, and the values read, with encoding/json.
func FuzzStandardLibrary(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	schema := formattest.ParseSchema("a BIGINT, b STRING, c DOUBLE")
	f.Fuzz(func(t *testing.T, data []byte) {
		// Here control characters are allowed in strings, and text must be UTF-8.
		if !utf8.Valid(data) || bytes.ContainsFunc(data, func(r rune) bool { return r < ' ' }) ||
			bytes.HasPrefix(data, []byte("\ufeff")) || bytes.Contains(data, []byte(`\u`)) ||
			bytes.Count(data, []byte("[")) > 900 || bytes.Count(data, []byte("{")) > 900 {
			return
		}
		var want map[string]any
		dec := stdjson.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		wantErr := dec.Decode(&want)
		if len(data) == 0 || wantErr == nil && want == nil {
			return
		}
		var bad error
		d, err := json.NewDecoder(format.DecoderConfig{Schema: schema, Columns: []int{0, 1, 2},
			Bad: func(r format.BadRecord) error { bad = r.Err; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		b := vec.NewBatch(schema)
		c := &format.Chunk{Data: data, Bounds: []vec.Ref{{Len: uint32(len(data))}}, Positions: []int64{0}}
		if err := d.Decode(c, &format.Rows{Batch: b}, 10); err != nil {
			t.Fatal(err)
		}
		if bad != nil {
			if wantErr == nil && !strings.HasPrefix(bad.Error(), "JSON field") {
				t.Fatalf("%q: %v, but encoding/json accepts it", data, bad)
			}
			return
		}
		if wantErr != nil {
			var syntax *stdjson.SyntaxError
			if errors.As(wantErr, &syntax) {
				t.Fatalf("%q is accepted, but encoding/json says %v", data, wantErr)
			}
			return
		}
		compare(t, b, want)
	})
}

func compare(t *testing.T, b *vec.Batch, want map[string]any) {
	t.Helper()
	if x, ok := want["a"].(stdjson.Number); ok {
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil && b.Cols[0].I64[0] != n {
			t.Fatalf("a is %d, want %d", b.Cols[0].I64[0], n)
		}
	}
	if x, ok := want["b"].(string); ok && string(b.Cols[1].Bytes(0)) != x {
		t.Fatalf("b is %q, want %q", b.Cols[1].Bytes(0), x)
	}
	if x, ok := want["c"].(stdjson.Number); ok {
		if n, err := strconv.ParseFloat(string(x), 64); err == nil && b.Cols[2].F64[0] != n {
			t.Fatalf("c is %v, want %v", b.Cols[2].F64[0], n)
		}
	}
	for i, name := range []string{"a", "b", "c"} {
		if (want[name] == nil) != b.Cols[i].IsNull(0) {
			t.Fatalf("%s is NULL: %v, want %v", name, b.Cols[i].IsNull(0), want[name])
		}
	}
}
