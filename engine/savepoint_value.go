package engine

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// A valueReader takes the values of a state's entries apart, and puts them together again. A value
// is the fields of a row; where an entry holds an array of rows (the sessions of a key) it is taken
// for several. Fields of bytes whose parts the state describes are a column a part.
//
// What a column holds is a cell: a value in the form of state.AppendValue.
type valueReader struct {
	fields []types.Field // of a row
	array  bool          // the value is an array of rows
	parts  [][]state.Part
	cols   []valueColumn
}

// valueColumn is a column of the rows: a field, or a part of it.
type valueColumn struct {
	types.Field
	field, part int // part is -1 for all of the field
}

func newValueReader(sp state.Spec) *valueReader {
	r := &valueReader{fields: sp.Value}
	prefix := ""
	if len(sp.Value) == 1 && sp.Value[0].Type.Kind == types.Array && sp.Value[0].Type.Elem.Kind == types.Row {
		r.array, r.fields = true, sp.Value[0].Type.Elem.Fields
		prefix = strings.TrimSuffix(sp.Value[0].Name, "s") + "_"
	}
	for i, f := range r.fields {
		parts := sp.Parts[f.Name]
		if !isBytes(f.Type) {
			parts = nil
		}
		r.parts = append(r.parts, parts)
		if parts == nil {
			name := f.Name
			if !isBytes(f.Type) {
				name = prefix + name
			}
			r.cols = append(r.cols, valueColumn{types.Field{Name: name, Type: f.Type}, i, -1})
		}
		for k, p := range parts {
			name := p.Name
			if f.Type.Nullable && p.Form == state.PartPlain {
				name = f.Name + "_" + name // of what may not be there as a whole
			}
			r.cols = append(r.cols, valueColumn{types.Field{Name: name, Type: p.Type}, i, k})
		}
	}
	return r
}

// rows takes a value apart into rows, each the fields one after the other.
func (r *valueReader) rows(value []byte) (rows [][]byte, ok bool) {
	if !r.array {
		return [][]byte{value}, true
	}
	if len(value) == 0 || value[0] > 1 {
		return nil, false
	}
	if value[0] == 0 {
		return nil, len(value) == 1
	}
	if len(value) < 5 {
		return nil, false
	}
	n := binary.LittleEndian.Uint32(value[1:])
	row := types.Type{Kind: types.Row, Fields: r.fields}
	for value = value[5:]; n > 0; n-- {
		rest, ok := state.CheckValue(value, row)
		if !ok || value[0] == 0 {
			return nil, false
		}
		rows = append(rows, value[1:len(value)-len(rest)])
		value = rest
	}
	return rows, len(value) == 0
}

// join is rows the other way round.
func (r *valueReader) join(rows [][]byte) []byte {
	if !r.array {
		return rows[0]
	}
	out := binary.LittleEndian.AppendUint32([]byte{1}, uint32(len(rows)))
	for _, row := range rows {
		out = append(append(out, 1), row...)
	}
	return out
}

// cells returns the cells of a row, one a column.
func (r *valueReader) cells(row []byte) (out [][]byte, ok bool) {
	for i, f := range r.fields {
		rest, ok := state.CheckValue(row, f.Type)
		if !ok {
			return nil, false
		}
		field := row[:len(row)-len(rest)]
		row = rest
		switch parts := r.parts[i]; {
		case parts == nil:
			out = append(out, field)
		case field[0] == 0:
			for range parts {
				out = append(out, []byte{0})
			}
		default:
			b := field[5:] // after the mark and the length
			for k := range parts {
				var cell []byte
				if cell, b, ok = parts[k].Decode(nil, b); !ok {
					return nil, false
				}
				out = append(out, cell)
			}
			if len(b) > 0 {
				return nil, false
			}
		}
	}
	return out, len(row) == 0
}

// change returns a row with other cells where these are not nil. What is not changed keeps its bytes.
func (r *valueReader) change(row []byte, cells [][]byte) ([]byte, error) {
	var out []byte
	col := 0
	for i, f := range r.fields {
		rest, ok := state.CheckValue(row, f.Type)
		if !ok {
			return nil, fmt.Errorf("a value has a form that this version cannot read")
		}
		field := row[:len(row)-len(rest)]
		row = rest
		n := max(1, len(r.parts[i]))
		set := cells[col : col+n]
		col += n
		var err error
		switch {
		case r.parts[i] != nil:
			out, err = changeParts(out, field, f, r.parts[i], set)
		case set[0] == nil:
			out = append(out, field...)
		case set[0][0] == 0 && !f.Type.Nullable:
			err = fmt.Errorf("column '%s' cannot be NULL", r.cols[col-1].Name)
		default:
			out = append(out, set[0]...)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// changeParts appends a field of bytes with other values of parts.
func changeParts(dst, field []byte, f types.Field, parts []state.Part, set [][]byte) ([]byte, error) {
	changed := false
	for _, c := range set {
		changed = changed || c != nil
	}
	if !changed {
		return append(dst, field...), nil
	}
	if field[0] == 0 {
		return nil, fmt.Errorf("there is no '%s' of which a part could be set", f.Name)
	}
	b := field[5:]
	var made []byte
	for k := range parts {
		_, rest, ok := parts[k].Decode(nil, b)
		if !ok {
			return nil, fmt.Errorf("'%s' has a form that this version cannot read", f.Name)
		}
		if set[k] == nil {
			made = append(made, b[:len(b)-len(rest)]...)
		} else {
			var err error
			if made, err = parts[k].Encode(made, set[k]); err != nil {
				return nil, err
			}
		}
		b = rest
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, 1), uint32(len(made)))
	return append(dst, made...), nil
}

// fresh returns a row of its own. Cells that are nil get what they begin with; those that have no such
// value are an error.
func (r *valueReader) fresh(cells [][]byte, nowMs int64) ([]byte, error) {
	var out []byte
	col := 0
	for i, f := range r.fields {
		n := max(1, len(r.parts[i]))
		set := cells[col : col+n]
		col += n
		switch {
		case r.parts[i] != nil && f.Type.Nullable && allNil(set):
			out = append(out, 0)
		case r.parts[i] != nil:
			var made []byte
			var err error
			for k := range r.parts[i] {
				p := &r.parts[i][k]
				if set[k] == nil {
					made = append(made, p.Initial()...)
				} else if made, err = p.Encode(made, set[k]); err != nil {
					return nil, err
				}
			}
			out = binary.LittleEndian.AppendUint32(append(out, 1), uint32(len(made)))
			out = append(out, made...)
		case set[0] != nil && set[0][0] == 0 && !f.Type.Nullable:
			return nil, fmt.Errorf("column '%s' cannot be NULL", r.cols[col-1].Name)
		case set[0] != nil:
			out = append(out, set[0]...)
		case f.Name == lastUse:
			out = binary.LittleEndian.AppendUint64(append(out, 1), uint64(nowMs))
		case f.Type.Nullable:
			out = append(out, 0)
		default:
			return nil, fmt.Errorf("column '%s' has to be given", r.cols[col-1].Name)
		}
	}
	return out, nil
}

// lastUse is the column by which entries expire: the time when they were written last, ms.
const lastUse = "last use"

func allNil(cells [][]byte) bool {
	for _, c := range cells {
		if c != nil {
			return false
		}
	}
	return true
}
