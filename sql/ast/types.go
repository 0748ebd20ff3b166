package ast

// TypeName is a data type as written. Synonyms are brought to one spelling:
//
//	CHAR VARCHAR STRING BOOLEAN BINARY VARBINARY BYTES DECIMAL TINYINT SMALLINT
//	INT BIGINT FLOAT DOUBLE DATE TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_TZ
//	INTERVAL ARRAY MULTISET MAP ROW RAW STRUCTURED VARIANT BITMAP NULL DESCRIPTOR
//
// A name that is none of these is USER, with Ref set.
type TypeName struct {
	Span
	Name string
	// Params are the numbers in parentheses: length, precision, scale.
	Params   []int
	Elem     *TypeName // of ARRAY and MULTISET, value of MAP
	Key      *TypeName // of MAP
	Fields   []*TypeField
	Interval *IntervalQualifier // of INTERVAL
	Ref      *Name              // of USER
	// Strings are the arguments of RAW('class', 'snapshot') and the class of
	// STRUCTURED<'class', ...>.
	Strings []string
	Null    Nullability
}

// Nullability is NULL or NOT NULL after a type.
type Nullability uint8

// The nullabilities; NullUnset means nullable.
const (
	NullUnset Nullability = iota
	Nullable
	NotNull
)

// TypeField is one field of a ROW or STRUCTURED type.
type TypeField struct {
	Span
	Name    Ident
	Type    *TypeName
	Comment *StringLit // nil if not given
}
