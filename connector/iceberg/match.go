package iceberg

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/tidemark-stream/tidemark/types"
)

// typeOf returns the Iceberg type in which a new table keeps values of t. Fields of nested types get
// their numbers from next.
func typeOf(t types.Type, next func() int) (iceberg.Type, error) {
	switch t.Kind {
	case types.Boolean:
		return iceberg.BooleanType{}, nil
	case types.TinyInt, types.SmallInt, types.Int:
		return iceberg.Int32Type{}, nil
	case types.BigInt:
		return iceberg.Int64Type{}, nil
	case types.Float:
		return iceberg.Float32Type{}, nil
	case types.Double:
		return iceberg.Float64Type{}, nil
	case types.Decimal:
		return iceberg.DecimalTypeOf(t.Precision, t.Scale), nil
	case types.Char, types.VarChar:
		return iceberg.StringType{}, nil
	case types.Binary:
		return iceberg.FixedTypeOf(t.Precision), nil
	case types.VarBinary:
		return iceberg.BinaryType{}, nil
	case types.Date:
		return iceberg.DateType{}, nil
	case types.Time:
		return iceberg.TimeType{}, nil
	case types.Timestamp:
		return iceberg.TimestampType{}, nil
	case types.TimestampLTZ:
		return iceberg.TimestampTzType{}, nil
	}
	return nestedTypeOf(t, next)
}

func nestedTypeOf(t types.Type, next func() int) (iceberg.Type, error) {
	switch t.Kind {
	case types.Array:
		id := next()
		e, err := typeOf(*t.Elem, next)
		return &iceberg.ListType{ElementID: id, Element: e, ElementRequired: !t.Elem.Nullable}, err
	case types.Map, types.Multiset:
		key, value := mapParts(t)
		k, v := next(), next()
		kt, err := typeOf(key, next)
		if err != nil {
			return nil, err
		}
		vt, err := typeOf(value, next)
		return &iceberg.MapType{KeyID: k, KeyType: kt, ValueID: v, ValueType: vt, ValueRequired: !value.Nullable}, err
	case types.Row:
		fields, err := fieldsOf(t.Fields, next)
		return &iceberg.StructType{FieldList: fields}, err
	}
	return nil, fmt.Errorf("type %s has no Iceberg form; CAST it in the query, to STRING or BIGINT for instance", t.AsNullable())
}

// mapParts are the key and the value of a MAP, and of a MULTISET, which counts its elements.
func mapParts(t types.Type) (key, value types.Type) {
	if t.Kind == types.Multiset {
		return *t.Elem, types.IntType.NotNull()
	}
	return *t.Key, *t.Elem
}

// fieldsOf makes the fields of a new schema: those of one level are numbered before what lies in them.
func fieldsOf(in []types.Field, next func() int) ([]iceberg.NestedField, error) {
	out := make([]iceberg.NestedField, len(in))
	for i, f := range in {
		out[i] = iceberg.NestedField{ID: next(), Name: f.Name, Required: !f.Type.Nullable, Doc: f.Comment}
	}
	for i, f := range in {
		t, err := typeOf(f.Type, next)
		if err != nil {
			return nil, fmt.Errorf("column '%s': %w", f.Name, err)
		}
		out[i].Type = t
	}
	return out, nil
}

// newSchema is the schema of a table that is made for columns, with the key as identifier fields.
func newSchema(columns []types.Field, key []string) (*iceberg.Schema, error) {
	id := 0
	fields, err := fieldsOf(columns, func() int { id++; return id })
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, k := range key {
		i := slices.IndexFunc(fields, func(f iceberg.NestedField) bool { return f.Name == k })
		if i < 0 {
			return nil, fmt.Errorf("column '%s' of the PRIMARY KEY does not exist", k)
		}
		fields[i].Required = true
		ids = append(ids, fields[i].ID)
	}
	return iceberg.NewSchemaWithIdentifiers(0, ids, fields...), nil
}

// fits says why values of t cannot be kept in a field of type it without loss; nil if they can.
// Timestamps are the exception: what is finer than the field is cut, as Flink does.
func fits(t types.Type, it iceberg.Type) error {
	ok := false
	switch want := it.(type) {
	case iceberg.BooleanType:
		ok = t.Kind == types.Boolean
	case iceberg.Int32Type:
		ok = t.IsInteger() && t.Kind != types.BigInt
	case iceberg.Int64Type:
		ok = t.IsInteger()
	case iceberg.Float32Type:
		ok = t.Kind == types.Float
	case iceberg.Float64Type:
		ok = t.Kind == types.Float || t.Kind == types.Double
	case iceberg.DecimalType:
		ok = t.Kind == types.Decimal && t.Scale == want.Scale() && t.Precision <= want.Precision()
	case iceberg.StringType:
		ok = t.IsString()
	case iceberg.BinaryType:
		ok = t.IsBinary()
	case iceberg.FixedType:
		ok = t.Kind == types.Binary && t.Precision == want.Len()
	case iceberg.UUIDType:
		ok = t.Kind == types.Binary && t.Precision == 16
	case iceberg.DateType:
		ok = t.Kind == types.Date
	case iceberg.TimeType:
		ok = t.Kind == types.Time
	case iceberg.TimestampType, iceberg.TimestampNsType:
		ok = t.Kind == types.Timestamp
	case iceberg.TimestampTzType, iceberg.TimestampTzNsType:
		ok = t.Kind == types.TimestampLTZ
	default:
		return fitsNested(t, it)
	}
	if !ok {
		return mismatch(t, it)
	}
	return nil
}

func mismatch(t types.Type, it iceberg.Type) error {
	hint := "CAST it in the query, or change one of the tables"
	if it.Equals(iceberg.UUIDType{}) && t.IsString() {
		hint = "a uuid is written from BINARY(16)"
	}
	return fmt.Errorf("is %s here and %s in the table; %s", t.AsNullable(), it, hint)
}

func fitsNested(t types.Type, it iceberg.Type) error {
	switch want := it.(type) {
	case *iceberg.ListType:
		if t.Kind != types.Array {
			return mismatch(t, it)
		}
		return fitsPart("element", *t.Elem, want.Element, want.ElementRequired)
	case *iceberg.MapType:
		if t.Kind != types.Map && t.Kind != types.Multiset {
			return mismatch(t, it)
		}
		key, value := mapParts(t)
		if err := fitsPart("key", key.NotNull(), want.KeyType, true); err != nil {
			return err
		}
		return fitsPart("value", value, want.ValueType, want.ValueRequired)
	case *iceberg.StructType:
		if t.Kind != types.Row {
			return mismatch(t, it)
		}
		_, err := matchFields(t.Fields, want.FieldList)
		return err
	}
	return mismatch(t, it)
}

func fitsPart(what string, t types.Type, it iceberg.Type, required bool) error {
	if err := fits(t, it); err != nil {
		return fmt.Errorf("(its %s) %w", what, err)
	}
	if required && t.Nullable {
		return fmt.Errorf("(its %s) may be NULL here and is required in the table; declare it NOT NULL", what)
	}
	return nil
}

// matchFields finds, for each field of a table, the column that fills it; -1 for optional ones that
// stay NULL.
func matchFields(have []types.Field, fields []iceberg.NestedField) ([]int, error) {
	var errs []string
	at := make([]int, len(fields))
	used := make([]bool, len(have))
	for i, f := range fields {
		at[i] = find(have, f.Name)
		if at[i] < 0 {
			if f.Required {
				errs = append(errs, fmt.Sprintf("column '%s' (%s) is required in the table and is not among the columns here", f.Name, f.Type))
			}
			continue
		}
		c := have[at[i]]
		used[at[i]] = true
		if err := fits(c.Type, f.Type); err != nil {
			errs = append(errs, fmt.Sprintf("column '%s' %s", c.Name, err))
		} else if f.Required && c.Type.Nullable {
			errs = append(errs, fmt.Sprintf("column '%s' is %s here, so may be NULL, and is required in the table; declare it NOT NULL here, or make it optional there", c.Name, c.Type))
		}
	}
	for i, c := range have {
		if !used[i] {
			errs = append(errs, fmt.Sprintf("column '%s' (%s) does not exist in the table; there are %s", c.Name, c.Type.AsNullable(), names(fields)))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(errs, "; "))
	}
	return at, nil
}

// find returns the column that a field means: of the same name, or of that in another case.
func find(have []types.Field, name string) int {
	if i := slices.IndexFunc(have, func(c types.Field) bool { return c.Name == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(have, func(c types.Field) bool { return strings.EqualFold(c.Name, name) })
}

func names(fields []iceberg.NestedField) string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Name)
	}
	return strings.Join(out, ", ")
}

// checkKey refuses columns that cannot be part of a key.
func checkKey(c types.Field) error {
	switch {
	case c.Type.IsApprox():
		return fmt.Errorf("column '%s' of the PRIMARY KEY is %s, and Iceberg finds no rows by numbers that are not exact; CAST it to DECIMAL or STRING", c.Name, c.Type)
	case c.Type.IsNested():
		return fmt.Errorf("column '%s' of the PRIMARY KEY is %s, and Iceberg finds no rows by nested values; take fields of it", c.Name, c.Type)
	case c.Type.IsTimestamp() && c.Type.Precision > 6:
		return fmt.Errorf("column '%s' of the PRIMARY KEY is %s and loses digits in Iceberg, which keeps microseconds, so that keys would become one; CAST it to a precision of 6", c.Name, c.Type)
	}
	return nil
}
