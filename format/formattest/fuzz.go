package formattest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Fuzz feeds bytes to a decoder, as lines and as one record, and checks that nothing panics and that
// what comes out does not depend on how many rows or which columns are asked for.
func Fuzz(f *testing.F, name, schema, options string) {
	factory := format.Lookup(name)
	s := ParseSchema(schema)
	o := OptionValues(factory, options)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, bounded := range []bool{false, true} {
			run := func(cols []int, step int) []string {
				c := &format.Chunk{Data: data}
				if bounded {
					c.Bounds = []vec.Ref{{Len: uint32(len(data))}}
					c.Positions = []int64{0}
				}
				var out []string
				cfg := format.DecoderConfig{Schema: s, Columns: cols, Options: o}
				cfg.Bad = func(r format.BadRecord) error {
					out = append(out, fmt.Sprintf("bad: %d %q", r.Pos, r.Bytes))
					return nil
				}
				d, err := factory.NewDecoder(cfg)
				if err != nil {
					t.Fatal(err)
				}
				h := &harness{f: factory, schema: s}
				b := h.batchOf(cols)
				for !c.Done() {
					b.Reset(0)
					if err := d.Decode(c, &format.Rows{Batch: b}, step); err != nil {
						t.Fatal(err)
					}
					out = append(out, sorted(b)...)
				}
				return out
			}
			all := (&harness{schema: s}).all()
			whole := order(run(all, 1000))
			if one := order(run(all, 1)); one != whole {
				t.Fatalf("row by row\n%s\nat once\n%s", one, whole)
			}
			// A record may be bad for a column that nobody wants.
			if n := len(run(all[:1], 1000)); n != len(run(all, 1000)) {
				t.Fatalf("%d records with all columns, %d with one", len(run(all, 1000)), n)
			}
		}
	})
}

func sorted(b *vec.Batch) []string {
	var out []string
	for i := range b.N {
		if b.Kind(i) == types.UpdateAfter {
			continue // an event makes one line here, whether it makes rows or not
		}
		out = append(out, fmt.Sprintf("%d %s", b.Pos[i], Show(b, i)))
	}
	return out
}

// order puts the bad records, which come before the rows of their batch, behind the rows.
func order(lines []string) string {
	var rows, bad []string
	for _, s := range lines {
		if strings.HasPrefix(s, "bad: ") {
			bad = append(bad, s)
		} else {
			rows = append(rows, s)
		}
	}
	return strings.Join(append(rows, bad...), "\n")
}
