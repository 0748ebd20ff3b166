package json_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestDecode_AnyShape reads objects whose members come in any order, with any spacing, some
// missing, some twice, some unknown: what the reader has learned from the records before must not
// matter.
func TestDecode_AnyShape(t *testing.T) {
	for _, columns := range []int{3, 64, 65, 130} {
		t.Run(fmt.Sprint("columns=", columns), func(t *testing.T) {
			s := shapeTest{rng: rand.New(rand.NewPCG(7, uint64(columns)))}
			for i := range columns {
				name := fmt.Sprintf("c%d", i)
				if i%5 == 0 {
					name += strings.Repeat("_with_a_long_name", i%3)
				}
				f := types.Field{Name: name, Type: types.BigIntType}
				switch {
				case i%3 == 2:
					f.Type = nested
				case i%2 == 1:
					f.Type = types.StringType
				}
				s.schema.Fields = append(s.schema.Fields, f)
			}
			s.run(t)
		})
	}
}

// nested is the type of every third column.
var nested = types.RowType(types.Field{Name: "x", Type: types.BigIntType},
	types.Field{Name: "y", Type: types.RowType(
		types.Field{Name: "z", Type: types.ArrayType(types.IntType)})})

type shapeTest struct {
	rng    *rand.Rand
	schema types.Schema
}

func (s *shapeTest) run(t *testing.T) {
	n := s.schema.Len()
	cols := make([]int, n)
	for i := range cols {
		cols[i] = i
	}
	d := decoder(t, s.schema, cols, option.Values{})
	for round := range 12 {
		var data []byte
		var want []map[string]string
		for range 30 {
			rec, values := s.record(round%4 == 3)
			data = append(data, rec+"\n"...)
			want = append(want, values)
		}
		b := vec.NewBatch(s.schema)
		c := &format.Chunk{Data: data}
		if err := d.Decode(c, &format.Rows{Batch: b}, 1000); err != nil {
			t.Fatalf("%v in %.200q", err, data[b.Pos[max(0, b.N-1)]:])
		}
		if b.N != len(want) {
			t.Fatalf("%d rows, want %d", b.N, len(want))
		}
		for row, values := range want {
			for i, f := range s.schema.Fields {
				got := "NULL"
				if v := b.Cols[i]; !v.IsNull(row) {
					got = fmt.Sprint(v.Value(row))
				}
				x, ok := values[f.Name]
				if !ok {
					x = "NULL"
				}
				if got != x {
					t.Fatalf("round %d, row %d: %s is %s, want %s", round, row, f.Name, got, x)
				}
			}
		}
	}
}

// record makes an object and the values that its columns have.
func (s *shapeTest) record(wild bool) (string, map[string]string) {
	type member struct{ name, text, value string }
	var ms []member
	for i, f := range s.schema.Fields {
		times := 1
		if s.rng.IntN(8) == 0 {
			times = s.rng.IntN(3)
		}
		for range times {
			m := member{name: f.Name}
			switch x := s.rng.IntN(100000); {
			case x%10 == 0:
				m.text, m.value = "null", "NULL"
			case i%3 == 2:
				m.value = fmt.Sprintf("[%d [[1 %d]]]", x, x)
				m.text = fmt.Sprintf(`{"x":%d,"y":{"z":[1,%d]}}`, x, x)
				if x%3 == 0 {
					m.text = fmt.Sprintf(`{"y": {"q":0,"z":[1 , %d]},"x":%d }`, x, x)
				}
			case i%2 == 0:
				m.text, m.value = fmt.Sprint(x), fmt.Sprint(x)
			case x%7 == 0:
				m.text, m.value = fmt.Sprintf(`"a\n%d"`, x), fmt.Sprintf("a\n%d", x)
			default:
				m.text, m.value = fmt.Sprintf(`"a%d"`, x), fmt.Sprintf("a%d", x)
			}
			ms = append(ms, m)
		}
	}
	for range s.rng.IntN(4) {
		ms = append(ms, member{name: fmt.Sprintf("x%d", s.rng.IntN(700)),
			text: []string{"1", `"s"`, `{"c0":[1,{"c1":"}"}]}`, "[]", "true", "-1.5e3"}[s.rng.IntN(6)]})
	}
	if s.rng.IntN(3) == 0 {
		s.rng.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
	}
	space := func() string {
		if wild {
			return []string{"", "", " ", "\t", "  "}[s.rng.IntN(5)]
		}
		return ""
	}
	values := map[string]string{}
	out := space() + "{"
	for i, m := range ms {
		if i > 0 {
			out += space() + ","
		}
		name := m.name
		if wild && s.rng.IntN(5) == 0 {
			name = fmt.Sprintf(`\u%04x`, name[0]) + name[1:]
		}
		out += space() + `"` + name + `"` + space() + ":" + space() + m.text
		if m.value != "" {
			values[m.name] = m.value
		}
	}
	return out + space() + "}" + space(), values
}
