package formattest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var update = flag.Bool("update", false, "rewrite the expected output in golden files")

// Golden runs a file of records and the rows they give. Lines of the file:
//
//	# a comment
//	@schema a INT, b STRING      columns of what follows
//	@options k=v; k2=v2          options of what follows, without the format's prefix
//	@decode / @file / @encode    what follows is records to decode (as at the start), whole files
//	                             to decode, or rows to encode
//	RECORD                       bytes as they are, or as a Go string after an equals sign
//	<tab>OUTPUT                  a row as Show prints it, or "bad: " and the reason
//
// To encode, records are rows of JSON, with the kind (+I and so on) before them where it matters;
// the output is what the format writes. The flag -update rewrites the output lines.
func Golden(t *testing.T, name, file string) {
	t.Helper()
	f := format.Lookup(name)
	if f == nil {
		t.Fatalf("format %s is not registered", name)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{factory: f}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var out []string
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		out = append(out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '@' {
			g.directive(line)
			continue
		}
		var want []string
		for i < len(lines) && strings.HasPrefix(lines[i], "\t") {
			want = append(want, lines[i][1:])
			i++
		}
		got := g.record(t, line)
		for _, s := range got {
			out = append(out, "\t"+s)
		}
		if !*update && strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:%d: %s (%s; %s)\n got: %s\nwant: %s", file, i-len(want), line, g.schema,
				g.options, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type golden struct {
	factory *format.Factory
	schema  types.Schema
	options string
	encode  bool
	file    bool
}

func (g *golden) directive(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "@schema":
		g.schema = ParseSchema(rest)
		g.options = ""
	case "@options":
		g.options = rest
	case "@decode", "@file", "@encode":
		g.encode, g.file = word == "@encode", word == "@file"
	default:
		panic("BUG: golden file: " + line)
	}
}

// OptionValues reads options written as "k=v; k2=v2". A value may be a Go string.
func OptionValues(f *format.Factory, s string) option.Values {
	m := map[string]string{}
	for _, kv := range strings.Split(s, "; ") {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		if u, err := strconv.Unquote(v); err == nil {
			v = u
		}
		m[k] = v
	}
	return option.Of(m, f.Options)
}

func (g *golden) record(t *testing.T, line string) []string {
	if s, ok := strings.CutPrefix(line, "="); ok {
		u, err := strconv.Unquote(s)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		line = u
	}
	opts := OptionValues(g.factory, g.options)
	if err := opts.Check(nil); err != nil {
		t.Fatal(err)
	}
	if g.encode {
		return g.write(t, line, opts)
	}
	if g.file {
		return decodeChunk(t, g.factory, g.schema, opts, &format.Chunk{Data: []byte(line)})
	}
	return Decode(t, g.factory, g.schema, opts, []byte(line))
}

// decodeChunk returns the rows of c, then what was wrong with its bad records.
func decodeChunk(t *testing.T, f *format.Factory, s types.Schema, o option.Values, c *format.Chunk) []string {
	t.Helper()
	b, bad := decodeAll(t, f, s, o, c)
	out := Rows(b)
	for _, r := range bad {
		out = append(out, "bad: "+r.Err.Error())
	}
	if out == nil {
		out = []string{"nothing"}
	}
	return out
}

// Decode decodes one record, given once as a bounded record and once as a line where it is one,
// and returns its rows, or "bad: " and the reason.
func Decode(t *testing.T, f *format.Factory, s types.Schema, o option.Values, rec []byte) []string {
	t.Helper()
	got := decodeChunk(t, f, s, o, &format.Chunk{Data: rec,
		Bounds: []vec.Ref{{Len: uint32(len(rec))}}, Positions: []int64{7}})
	// A backslash at the end may escape the newline.
	text := string(rec)
	if text != "" && !strings.ContainsAny(text, "\r\n") && !strings.HasSuffix(text, "\\") {
		for _, end := range []string{"", "\n", "\r\n"} {
			line := decodeChunk(t, f, s, o, &format.Chunk{Data: append(append([]byte{}, rec...), end...)})
			if strings.Join(line, "\n") != strings.Join(got, "\n") {
				t.Errorf("%q decoded as a line (end %q) gives %q, as a record %q", rec, end, line, got)
			}
		}
	}
	return got
}

// decodeAll decodes c with all columns.
func decodeAll(t *testing.T, f *format.Factory, s types.Schema, o option.Values, c *format.Chunk) (*vec.Batch, []format.BadRecord) {
	t.Helper()
	var bad []format.BadRecord
	cols := make([]int, s.Len())
	for i := range cols {
		cols[i] = i
	}
	d, err := f.NewDecoder(format.DecoderConfig{Schema: s, Columns: cols, Options: o,
		Bad: func(r format.BadRecord) error {
			r.Bytes = append([]byte{}, r.Bytes...)
			bad = append(bad, r)
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	b := vec.NewBatch(s)
	for !c.Done() {
		if err := d.Decode(c, &format.Rows{Batch: b}, b.N+100); err != nil {
			t.Fatal(err)
		}
	}
	return b, bad
}

// write encodes the rows that line, JSON with an optional kind before it, describes.
func (g *golden) write(t *testing.T, line string, o option.Values) []string {
	kind := types.Insert
	if len(line) > 3 && line[2] == ' ' {
		kind = map[string]types.RowKind{"+I": types.Insert, "-U": types.UpdateBefore,
			"+U": types.UpdateAfter, "-D": types.Delete}[line[:2]]
		line = line[3:]
	}
	js := format.Lookup("json")
	b, bad := decodeAll(t, js, g.schema, option.Of(nil, js.Options),
		&format.Chunk{Data: []byte(line)})
	if len(bad) > 0 {
		t.Fatalf("%s: %v", line, bad[0].Err)
	}
	for range b.N {
		b.Kinds = append(b.Kinds, kind)
	}
	e, err := g.factory.NewEncoder(format.EncoderConfig{Schema: g.schema, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	var enc format.Encoded
	if err := e.Encode(&enc, b); err != nil {
		return []string{"error: " + err.Error()}
	}
	var out []string
	at := 0
	for _, end := range enc.Ends {
		s := string(enc.Data[at:end])
		at = end
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd || r == 0x2028 }) {
			s = "=" + strconv.Quote(s)
		}
		out = append(out, s)
	}
	return append(out, nulls(enc)...)
}

func nulls(e format.Encoded) []string {
	var out []string
	for _, n := range e.Nulls {
		out = append(out, fmt.Sprintf("record %d is NULL", n))
	}
	return out
}
