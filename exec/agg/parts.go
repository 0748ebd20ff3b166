package agg

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Parts describes what AppendGroup appends, for tools: which of its bytes are what of which column of
// in, the schema that the set was compiled with. AVG has a sum and a count, which others may share.
// Values kept for DISTINCT, and for MIN and MAX of rows that may be taken back, are states of their
// own (ValueSpecs) and have no part here but for what is computed of them.
func (s *Set) Parts(in types.Schema) []state.Part {
	var out []state.Part
	seen := map[string]int{}
	for i, sl := range s.slots {
		f := s.feed(i, in)
		for _, p := range f.parts(sl, s.form[s.at[i]:][:len(sl.init())]) {
			if seen[p.Name]++; seen[p.Name] > 1 {
				p.Name = fmt.Sprintf("%s_%d", p.Name, seen[p.Name])
			}
			p.Type = p.Type.WithoutAttr().AsNullable()
			out = append(out, p)
		}
	}
	return out
}

// feed is what a slot gets: the columns that it knows by their places, and what its names end with.
type feed struct {
	names     []string
	types     []types.Type
	values    string // the columns that decide which rows come, "" for all rows
	distinct  bool
	condition string // of a FILTER
}

// feed finds out what feeds slot i.
func (s *Set) feed(i int, in types.Schema) feed {
	var f feed
	for _, v := range s.values {
		for _, c := range v.consumers {
			if c.slot != i {
				continue
			}
			f.distinct, f.types = true, v.types
			for k, name := range v.names {
				f.names = append(f.names, columnName(name, v.cols[k]))
			}
			f.values = strings.Join(f.names, "_")
			f.condition = conditionName(in, v.filters[c.filter])
			return f
		}
	}
	for k, x := range in.Fields {
		f.names, f.types = append(f.names, columnName(x.Name, k)), append(f.types, x.Type)
	}
	for k, slots := range s.bySel {
		if !slices.Contains(slots, i) {
			continue
		}
		sel := &s.selections[k]
		var cols []string
		for _, c := range sel.notNull {
			cols = append(cols, f.names[c])
		}
		f.values = strings.Join(cols, "_")
		f.condition = conditionName(in, sel.filter)
	}
	return f
}

// plainName is what needs no quotes in SQL.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// columnName is the name of column i, a number where the planner has named it.
func columnName(name string, i int) string {
	if plainName.MatchString(name) {
		return name
	}
	return fmt.Sprintf("column%d", i)
}

func conditionName(in types.Schema, filter int) string {
	if filter < 0 {
		return ""
	}
	if name := in.Fields[filter].Name; plainName.MatchString(name) {
		return "_if_" + name
	}
	return fmt.Sprintf("_if_column%d", filter)
}

// name is that of a part: what it is of a column.
func (f *feed) name(what, of string) string {
	if f.distinct {
		what += "_distinct"
	}
	if of != "" {
		what += "_" + of
	}
	return what + f.condition
}

// parts describes a slot whose words are saved as form says.
func (f *feed) parts(sl slot, form []keeping) []state.Part {
	switch sl := sl.(type) {
	case countSlot:
		return []state.Part{f.count()}
	case *sumInt[int32]:
		return f.sum(sl.col, sl.square, types.BigIntType, state.PartWord)
	case *sumInt[int64]:
		return f.sum(sl.col, sl.square, types.BigIntType, state.PartWord)
	case *sumDouble[float32]:
		return f.sum(sl.col, sl.square, types.DoubleType, state.PartWord)
	case *sumDouble[float64]:
		return f.sum(sl.col, sl.square, types.DoubleType, state.PartWord)
	case *sumFloat:
		return f.sum(sl.col, sl.square, types.FloatType, state.PartFloat)
	case *sumDecimal:
		return f.sumDecimal(sl)
	case *extreme[int32]:
		return f.extreme(sl.col, sl.max, state.PartWord, sl.init())
	case *extreme[int64]:
		return f.extreme(sl.col, sl.max, state.PartWord, sl.init())
	case *extremeFloat[float32]:
		return f.extreme(sl.col, sl.max, state.PartWord, sl.init())
	case *extremeFloat[float64]:
		return f.extreme(sl.col, sl.max, state.PartWord, sl.init())
	case *extreme128:
		return f.extreme(sl.col, sl.max, state.PartWide, sl.init())
	case *extremeBool: // no value at all looks as the one that loses against the other
		return f.extreme(sl.col, sl.max, state.PartWord, nil)
	case *extremeBytes:
		return f.extreme(sl.col, sl.max, state.PartString, nil)
	case *pick:
		what := "first"
		if sl.last {
			what = "last"
		}
		return []state.Part{f.of(what, sl.col, state.PartValue, f.types[sl.col])}
	case *single:
		only := f.of("single", sl.col, state.PartValue, f.types[sl.col])
		only.Unset = []byte{2, 0, 0, 0, 0} // a row whose value is NULL, which is not the same as no row
		return []state.Part{f.count(), only}
	case *list:
		return []state.Part{f.list(sl)}
	}
	return f.unknown(sl, form)
}

// of is a part that is what of column col.
func (f *feed) of(what string, col int, form state.PartForm, t types.Type) state.Part {
	return state.Part{Name: f.name(what, f.names[col]), Type: t, Form: form}
}

// count is a number of rows, or of those whose values are not NULL. COUNT alone would need quotes in SQL.
func (f *feed) count() state.Part {
	what := "count"
	if f.values == "" {
		what = "row_count"
	}
	return state.Part{Name: f.name(what, f.values), Type: types.BigIntType, Form: state.PartWord}
}

func (f *feed) sum(col int, square bool, t types.Type, form state.PartForm) []state.Part {
	what := "sum"
	if square {
		what = "sum_of_squares"
	}
	return []state.Part{f.of(what, col, form, t)}
}

func (f *feed) sumDecimal(sl *sumDecimal) []state.Part {
	scale := f.types[sl.col].Scale
	if sl.square {
		scale *= 2
	}
	if scale > 38 { // no type has that many digits
		out := f.sum(sl.col, sl.square, types.BytesType, state.PartRaw)
		out[0].Size = 16
		return out
	}
	out := f.sum(sl.col, sl.square, types.DecimalType(38, scale), state.PartWide)
	out[0].Unset, out[0].Init = words(nullSum.Lo, uint64(nullSum.Hi)), words(0, 0)
	return out
}

// extreme is a MIN or MAX whose words are init before a value came, nil where that cannot be told.
func (f *feed) extreme(col int, max bool, form state.PartForm, init []uint64) []state.Part {
	what := "min"
	if max {
		what = "max"
	}
	out := f.of(what, col, form, f.types[col])
	out.Unset = words(init...)
	return []state.Part{out}
}

func (f *feed) list(sl *list) state.Part {
	if len(sl.cols) == 1 {
		elem := f.types[sl.cols[0]].WithoutAttr().AsNullable()
		return f.of("list", sl.cols[0], state.PartList, types.Type{Kind: types.Array, Elem: &elem})
	}
	row := types.Type{Kind: types.Row}
	var names []string
	for _, c := range sl.cols {
		names = append(names, f.names[c])
		row.Fields = append(row.Fields, types.Field{Name: f.names[c], Type: f.types[c].WithoutAttr().AsNullable()})
	}
	return state.Part{Name: f.name("list", strings.Join(names, "_")), Type: types.Type{Kind: types.Array, Elem: &row}, Form: state.PartRows}
}

// unknown describes the words of a slot that has no other description, such as a sketch: bytes.
func (f *feed) unknown(sl slot, form []keeping) []state.Part {
	what, of := "accumulator", f.values
	switch sl := sl.(type) {
	case *hll:
		what, of = "sketch", f.names[sl.col]
	case *quantiles:
		what, of = "quantiles", f.names[sl.col]
	}
	var out []state.Part
	for _, k := range form {
		p := state.Part{Name: f.name(what, of), Type: types.BytesType}
		switch k {
		case asWord:
			p.Form, p.Size = state.PartRaw, 8
		case asValue:
			p.Form = state.PartOpaque
		default:
			continue
		}
		out = append(out, p)
	}
	return out
}

// words are the bytes of words as they are saved.
func words(ws ...uint64) []byte {
	var out []byte
	for _, w := range ws {
		out = binary.LittleEndian.AppendUint64(out, w)
	}
	return out
}
