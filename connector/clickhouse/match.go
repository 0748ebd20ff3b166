package clickhouse

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/types"
)

// matcher makes fields.
type matcher struct {
	server *time.Location // the zone of columns that name none
	asZero bool
}

// remedies for types that do not fit.
const (
	castHere = "CAST it in the query, or change the column"
	asText   = "write it as JSON text (JSON_OBJECT, CAST to STRING), or change the column"
)

// mismatch says that a type here does not fit one there. The caller knows the column.
type mismatch struct{ why, remedy string }

func (m *mismatch) Error() string { return m.why + "; " + m.remedy }

func lossy(remedy, format string, args ...any) error {
	return &mismatch{fmt.Sprintf(format, args...), remedy}
}

// match returns how values of type t become those of the column type w.
func (m *matcher) match(t types.Type, w *colType) (*field, error) {
	in, nullable := w.inner()
	f := &field{typ: t, wire: in, nullable: nullable, asZero: m.asZero, exact: true}
	f.zero = zeroOf(in)
	err := m.fill(f)
	if f.check != nil {
		f.exact = false
	}
	return f, err
}

func zeroOf(w *colType) []byte {
	switch w.kind {
	case kString:
		return []byte{0}
	case kJSON:
		return []byte("\x02{}")
	case kEnum:
		least := int16(math.MaxInt16)
		for _, n := range w.enum {
			least = min(least, n)
		}
		return le.AppendUint16(nil, uint16(least))[:w.size]
	}
	return make([]byte, w.size)
}

func (m *matcher) fill(f *field) error {
	switch t := f.typ; t.Kind {
	case types.Boolean:
		return f.boolean()
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.IntervalYearMonth, types.IntervalDayTime:
		return f.integer()
	case types.Float, types.Double:
		return f.float()
	case types.Decimal:
		return f.decimal()
	case types.Char, types.VarChar:
		return f.text()
	case types.Binary, types.VarBinary:
		return f.binary()
	case types.Date:
		return f.date()
	case types.Time:
		return f.time()
	case types.Timestamp, types.TimestampLTZ:
		return m.timestamp(f)
	case types.Array, types.Map, types.Multiset:
		return m.list(f)
	case types.Row:
		return m.tuple(f)
	}
	return lossy(castHere, "no column can have it")
}

func (f *field) unlike() error {
	remedy := castHere
	if f.typ.IsNested() {
		remedy = asText
	}
	return lossy(remedy, "they are different")
}

func (m *matcher) list(f *field) error {
	var kids []types.Type
	wires := f.wire.kids
	switch f.typ.Kind {
	case types.Array:
		kids = []types.Type{*f.typ.Elem}
	case types.Map:
		kids = []types.Type{*f.typ.Key, *f.typ.Elem}
	default:
		kids = []types.Type{*f.typ.Elem, types.IntType.NotNull()}
	}
	if len(kids) == 2 && f.wire.kind == kArray && f.wire.kids[0].kind == kTuple { // the same bytes as a Map
		wires = f.wire.kids[0].kids
	} else if (f.wire.kind == kMap) != (len(kids) == 2) {
		return f.unlike()
	}
	if f.wire.kind != kArray && f.wire.kind != kMap || len(wires) != len(kids) {
		return f.unlike()
	}
	for k, t := range kids {
		kid, err := m.match(t, wires[k])
		if err != nil {
			part := "an element"
			if len(kids) == 2 {
				part = [...]string{"a key", "a value"}[k]
			}
			return within(part, t, wires[k], err)
		}
		f.kids = append(f.kids, kid)
	}
	return nil
}

// within adds to err which part of a nested type it is about.
func within(part string, t types.Type, w *colType, err error) error {
	var remedy string
	if e, ok := err.(*mismatch); ok {
		remedy, err = e.remedy, fmt.Errorf("%s", e.why)
	}
	return &mismatch{fmt.Sprintf("%s is %s here and %s there: %s", part, t.AsNullable(), w.name, err), remedy}
}

func (m *matcher) tuple(f *field) error {
	if f.wire.kind != kTuple {
		return f.unlike()
	}
	if len(f.wire.kids) != len(f.typ.Fields) {
		return lossy(castHere, "there are %d fields here and %d there", len(f.typ.Fields), len(f.wire.kids))
	}
	for k, t := range f.typ.Fields {
		if f.wire.names != nil && !strings.EqualFold(f.wire.names[k], t.Name) {
			return lossy("name the fields alike and give them the same order", "field %d is '%s' here and '%s' there", k+1, t.Name, f.wire.names[k])
		}
		kid, err := m.match(t.Type, f.wire.kids[k])
		if err != nil {
			return within("field '"+t.Name+"'", t.Type, f.wire.kids[k], err)
		}
		f.kids = append(f.kids, kid)
	}
	return nil
}

// describe says in an error what is wrong with a column.
func describe(name string, t types.Type, there string, err error) string {
	why := err.Error()
	if m, ok := err.(*mismatch); ok && m.why == "they are different" {
		why = m.remedy
	}
	return fmt.Sprintf("column '%s' is %s here and %s in the database: %s", name, t.AsNullable(), there, why)
}

// labels are the labels of an Enum, sorted, for errors.
func (t *colType) labels() string {
	var out []string
	for l := range t.enum {
		out = append(out, l)
	}
	slices.Sort(out)
	const most = 20
	if len(out) > most {
		out = append(out[:most], "...")
	}
	return strings.Join(out, ", ")
}
