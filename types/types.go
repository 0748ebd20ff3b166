// Package types holds Tidemark's logical type system, which is Apache Flink's: the atomic types,
// rows, arrays, maps and multisets, with nullability and time attributes, plus schemas, row kinds
// and changelog modes. Values of these types are stored by package vec; how wide a value is there
// follows from Type.Phys.
package types

import (
	"fmt"
	"strings"
)

// Kind is the root of a logical type.
type Kind uint8

// The kinds. Null is the type of an untyped NULL literal before coercion.
const (
	Null Kind = iota
	Boolean
	TinyInt
	SmallInt
	Int
	BigInt
	Float
	Double
	Decimal
	Char
	VarChar
	Binary
	VarBinary
	Date
	Time
	Timestamp
	TimestampLTZ
	IntervalYearMonth
	IntervalDayTime
	Array
	Map
	Multiset
	Row
	Symbol     // a keyword argument such as a time unit; never stored
	Descriptor // a column list argument of a table function; never stored
)

// MaxLength is the length of STRING (VARCHAR) and BYTES (VARBINARY).
const MaxLength = 1<<31 - 1

// MaxPrecision is the largest precision of DECIMAL.
const MaxPrecision = 38

// TimeAttr marks a column that carries time for the engine.
type TimeAttr uint8

// The time attributes.
const (
	NoTime   TimeAttr = iota
	RowTime           // event time: a watermark follows this column
	ProcTime          // processing time: materialised when it is read
)

// Type is a logical type. It is a value: copy it freely, never change what Elem, Key and Fields
// point to.
type Type struct {
	Kind     Kind
	Nullable bool
	// Precision is the number of digits of DECIMAL, the fractional digits of TIME, TIMESTAMP and
	// TIMESTAMP_LTZ (and of the seconds of a day-time interval), and the length in characters or
	// bytes of CHAR, VARCHAR, BINARY and VARBINARY.
	Precision int
	Scale     int      // DECIMAL only
	Unit      Interval // intervals only: which fields were written, for printing
	Attr      TimeAttr // TIMESTAMP and TIMESTAMP_LTZ only
	Elem      *Type    // element of ARRAY and MULTISET, value of MAP
	Key       *Type    // key of MAP
	Fields    []Field  // ROW
}

// Field is a named component of a ROW or a column of a Schema.
type Field struct {
	Name    string
	Type    Type
	Comment string
}

// Interval names the fields an interval type was written with; it does not change the value.
type Interval uint8

// Interval resolutions, from the SQL grammar.
const (
	UnitNone Interval = iota
	UnitYear
	UnitYearToMonth
	UnitMonth
	UnitDay
	UnitDayToHour
	UnitDayToMinute
	UnitDayToSecond
	UnitHour
	UnitHourToMinute
	UnitHourToSecond
	UnitMinute
	UnitMinuteToSecond
	UnitSecond
)

var unitNames = [...]string{
	"", "YEAR", "YEAR TO MONTH", "MONTH", "DAY", "DAY TO HOUR", "DAY TO MINUTE",
	"DAY TO SECOND", "HOUR", "HOUR TO MINUTE", "HOUR TO SECOND", "MINUTE", "MINUTE TO SECOND",
	"SECOND",
}

// String gives the SQL spelling, for example DAY TO SECOND.
func (u Interval) String() string { return unitNames[u] }

// Nullable constructors of common types.
var (
	BooleanType  = Type{Kind: Boolean, Nullable: true}
	TinyIntType  = Type{Kind: TinyInt, Nullable: true}
	SmallIntType = Type{Kind: SmallInt, Nullable: true}
	IntType      = Type{Kind: Int, Nullable: true}
	BigIntType   = Type{Kind: BigInt, Nullable: true}
	FloatType    = Type{Kind: Float, Nullable: true}
	DoubleType   = Type{Kind: Double, Nullable: true}
	StringType   = Type{Kind: VarChar, Nullable: true, Precision: MaxLength}
	BytesType    = Type{Kind: VarBinary, Nullable: true, Precision: MaxLength}
	DateType     = Type{Kind: Date, Nullable: true}
	NullType     = Type{Kind: Null, Nullable: true}
)

// DecimalType is DECIMAL(p, s), nullable.
func DecimalType(p, s int) Type {
	return Type{Kind: Decimal, Nullable: true, Precision: p, Scale: s}
}

// TimeType is TIME(p), nullable.
func TimeType(p int) Type { return Type{Kind: Time, Nullable: true, Precision: p} }

// TimestampType is TIMESTAMP(p), nullable.
func TimestampType(p int) Type { return Type{Kind: Timestamp, Nullable: true, Precision: p} }

// TimestampLTZType is TIMESTAMP_LTZ(p), nullable.
func TimestampLTZType(p int) Type {
	return Type{Kind: TimestampLTZ, Nullable: true, Precision: p}
}

// CharType is CHAR(n), nullable.
func CharType(n int) Type { return Type{Kind: Char, Nullable: true, Precision: n} }

// VarCharType is VARCHAR(n), nullable.
func VarCharType(n int) Type { return Type{Kind: VarChar, Nullable: true, Precision: n} }

// ArrayType is ARRAY<elem>, nullable.
func ArrayType(elem Type) Type { return Type{Kind: Array, Nullable: true, Elem: &elem} }

// MapType is MAP<key, value>, nullable.
func MapType(key, value Type) Type {
	return Type{Kind: Map, Nullable: true, Key: &key, Elem: &value}
}

// MultisetType is MULTISET<elem>, nullable. It is stored as MAP<elem, INT>.
func MultisetType(elem Type) Type { return Type{Kind: Multiset, Nullable: true, Elem: &elem} }

// RowType is ROW<fields>, nullable.
func RowType(fields ...Field) Type { return Type{Kind: Row, Nullable: true, Fields: fields} }

// NotNull returns t without NULL among its values.
func (t Type) NotNull() Type { t.Nullable = false; return t }

// WithNullable returns t with the given nullability.
func (t Type) WithNullable(n bool) Type { t.Nullable = n; return t }

// AsNullable returns t with NULL among its values.
func (t Type) AsNullable() Type { t.Nullable = true; return t }

// WithoutAttr returns t as a plain timestamp, no longer a time attribute.
func (t Type) WithoutAttr() Type { t.Attr = NoTime; return t }

// IsInteger reports TINYINT, SMALLINT, INT or BIGINT.
func (t Type) IsInteger() bool { return t.Kind >= TinyInt && t.Kind <= BigInt }

// IsNumeric reports an integer, DECIMAL, FLOAT or DOUBLE.
func (t Type) IsNumeric() bool { return t.Kind >= TinyInt && t.Kind <= Decimal }

// IsApprox reports FLOAT or DOUBLE.
func (t Type) IsApprox() bool { return t.Kind == Float || t.Kind == Double }

// IsString reports CHAR or VARCHAR.
func (t Type) IsString() bool { return t.Kind == Char || t.Kind == VarChar }

// IsBinary reports BINARY or VARBINARY.
func (t Type) IsBinary() bool { return t.Kind == Binary || t.Kind == VarBinary }

// IsTimestamp reports TIMESTAMP or TIMESTAMP_LTZ.
func (t Type) IsTimestamp() bool { return t.Kind == Timestamp || t.Kind == TimestampLTZ }

// IsInterval reports one of the two interval types.
func (t Type) IsInterval() bool { return t.Kind == IntervalYearMonth || t.Kind == IntervalDayTime }

// IsTemporal reports DATE, TIME or a timestamp.
func (t Type) IsTemporal() bool { return t.Kind >= Date && t.Kind <= TimestampLTZ }

// IsNested reports ARRAY, MAP, MULTISET or ROW.
func (t Type) IsNested() bool { return t.Kind >= Array && t.Kind <= Row }

// String prints the type as Flink does, for example DECIMAL(10, 2) NOT NULL.
func (t Type) String() string {
	var b strings.Builder
	t.print(&b)
	if !t.Nullable && t.Kind != Null {
		b.WriteString(" NOT NULL")
	}
	switch t.Attr {
	case RowTime:
		b.WriteString(" *ROWTIME*")
	case ProcTime:
		b.WriteString(" *PROCTIME*")
	}
	return b.String()
}

var kindNames = [...]string{
	"NULL", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL",
	"CHAR", "VARCHAR", "BINARY", "VARBINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ",
	"INTERVAL", "INTERVAL", "ARRAY", "MAP", "MULTISET", "ROW", "SYMBOL", "DESCRIPTOR",
}

// String gives the SQL name of the kind.
func (k Kind) String() string { return kindNames[k] }

func (t Type) print(b *strings.Builder) {
	switch t.Kind {
	case Decimal:
		fmt.Fprintf(b, "DECIMAL(%d, %d)", t.Precision, t.Scale)
	case VarChar, VarBinary:
		switch {
		case t.Precision != MaxLength:
			fmt.Fprintf(b, "%s(%d)", t.Kind, t.Precision)
		case t.Kind == VarChar:
			b.WriteString("STRING")
		default:
			b.WriteString("BYTES")
		}
	case Char, Binary, Time, Timestamp, TimestampLTZ:
		fmt.Fprintf(b, "%s(%d)", t.Kind, t.Precision)
	case IntervalYearMonth, IntervalDayTime:
		u := t.Unit
		if u == UnitNone {
			u = UnitYearToMonth
			if t.Kind == IntervalDayTime {
				u = UnitDayToSecond
			}
		}
		fmt.Fprintf(b, "INTERVAL %s", u)
	case Array, Multiset:
		fmt.Fprintf(b, "%s<%s>", t.Kind, t.Elem)
	case Map:
		fmt.Fprintf(b, "MAP<%s, %s>", t.Key, t.Elem)
	case Row:
		b.WriteString("ROW<")
		for i, f := range t.Fields {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(b, "`%s` %s", f.Name, f.Type)
		}
		b.WriteString(">")
	default:
		b.WriteString(t.Kind.String())
	}
}

// Equal reports whether t and o are the same type, nullability and time attribute included.
func (t Type) Equal(o Type) bool {
	return t.Nullable == o.Nullable && t.Attr == o.Attr && t.EqualIgnoreNull(o)
}

// EqualIgnoreNull reports whether t and o are the same type at the root whatever their own
// nullability and time attribute; nested types compare the same way.
func (t Type) EqualIgnoreNull(o Type) bool {
	if t.Kind != o.Kind || t.Precision != o.Precision || t.Scale != o.Scale {
		return false
	}
	if (t.Elem == nil) != (o.Elem == nil) || (t.Key == nil) != (o.Key == nil) ||
		len(t.Fields) != len(o.Fields) {
		return false
	}
	if t.Elem != nil && !t.Elem.EqualIgnoreNull(*o.Elem) {
		return false
	}
	if t.Key != nil && !t.Key.EqualIgnoreNull(*o.Key) {
		return false
	}
	for i := range t.Fields {
		if t.Fields[i].Name != o.Fields[i].Name ||
			!t.Fields[i].Type.EqualIgnoreNull(o.Fields[i].Type) {
			return false
		}
	}
	return true
}
