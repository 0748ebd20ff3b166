package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// pgColumn is a column as the server describes it.
type pgColumn struct {
	name string
	oid  string // of the type
	// typ is the type's short name (int4), that of the base type of a domain; full its spelling in
	// casts; category and kind are typcategory and typtype of the base type.
	typ, full      string
	category, kind byte
	elem           *pgColumn // the type of an array's elements, without name
	// scale is that of numeric, or the digits of a second, -1 where there is no limit.
	scale                         int
	notNull, hasDefault, computed bool
}

// match says how values of type t go into the column c: the wire, and how to encode them.
func match(t types.Type, c *pgColumn) (column, encode, error) {
	out := column{name: c.name}
	if t.Kind == types.Array {
		return matchArray(t, c)
	}
	switch w := natural(t, c); {
	case w == 0:
	case t.IsString():
		if strings.IndexByte("BNDTAC", c.category) >= 0 || c.typ == "bytea" {
			break
		}
		out.wire = w
		out.copies = slices.Contains([]string{"text", "varchar", "bpchar", "json", "xml", "citext"}, c.typ) || c.kind == 'e'
		if c.typ != "text" && c.typ != "varchar" {
			out.cast = c.full
		}
		return out, encoder(t, w), nil
	case c.typ == wires[w].name:
		out.wire, out.copies = w, true
		return out, encoder(t, w), nil
	case t.IsInteger() && slices.Contains([]string{"int2", "int4", "int8"}, c.typ):
		out.wire = w // SQL narrows it, and refuses what does not fit
		return out, encoder(t, w), nil
	}
	return out, nil, mismatch(t, c)
}

func mismatch(t types.Type, c *pgColumn) error {
	if t.Kind == types.Map || t.Kind == types.Multiset || t.Kind == types.Row {
		return fmt.Errorf("column '%s' is %s, which a PostgreSQL table cannot take; write it as JSON text (JSON_OBJECT, CAST to STRING)", c.name, t.AsNullable())
	}
	return fmt.Errorf("column '%s' is %s here and %s in the database; CAST it in the query, or change one of the tables", c.name, t.AsNullable(), c.full)
}

// natural is the wire of type t: that of the column where it takes all values of t, else its own; 0
// if there is none.
func natural(t types.Type, c *pgColumn) wire {
	switch t.Kind {
	case types.Boolean:
		return wBool
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt:
		own := integers(t.Kind)
		for w := own; w <= wInt8; w++ {
			if wires[w].name == c.typ {
				return w
			}
		}
		if c.typ == "numeric" {
			return wNumeric
		}
		return own
	case types.Float:
		if c.typ == "float8" {
			return wFloat8
		}
		return wFloat4
	case types.Double:
		return wFloat8
	case types.Decimal:
		return wNumeric
	case types.Char, types.VarChar:
		return wText
	case types.Binary, types.VarBinary:
		return wBytea
	case types.Date:
		return wDate
	case types.Time:
		return wTime
	case types.Timestamp:
		return wTimestamp
	case types.TimestampLTZ:
		return wTimestampTZ
	case types.IntervalYearMonth, types.IntervalDayTime:
		return wInterval
	}
	return 0
}

// matchArray sends arrays as text, which unnest does not take apart.
func matchArray(t types.Type, c *pgColumn) (column, encode, error) {
	if c.elem == nil {
		return column{}, nil, mismatch(t, c)
	}
	inner := t
	for inner.Kind == types.Array {
		inner = *inner.Elem
	}
	elem := *c.elem
	elem.name = c.name
	if _, _, err := match(inner, &elem); err != nil {
		return column{}, nil, mismatch(t, c)
	}
	return column{name: c.name, wire: wText, cast: c.full}, encoder(t, wText), nil
}

// loses says what is lost of values of t in column c; "" is nothing. Keys must not lose anything, or
// two of them become one.
func loses(t types.Type, c *pgColumn) string {
	switch {
	case t.Kind == types.Decimal && c.scale >= 0 && c.scale < t.Scale:
		return fmt.Sprintf("%d digits after the point", t.Scale-c.scale)
	case t.IsTimestamp() && c.scale >= 0 && c.scale < min(t.Precision, 6):
		return fmt.Sprintf("%d digits of the second", min(t.Precision, 6)-c.scale)
	case t.Kind == types.Time && c.scale >= 0 && c.scale < min(t.Precision, 3):
		return fmt.Sprintf("%d digits of the second", min(t.Precision, 3)-c.scale)
	}
	return ""
}
