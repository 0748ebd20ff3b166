package types

// Phys is how a value of a type is stored in a vector.
type Phys uint8

// The physical forms.
//
//	PBool   BOOLEAN
//	PI32    TINYINT, SMALLINT, INT; DATE in days since 1970-01-01; TIME in ms of the day;
//	        year-month intervals in months
//	PI64    BIGINT; DECIMAL up to 18 digits, unscaled; TIMESTAMP and TIMESTAMP_LTZ up to
//	        precision 3, in ms since 1970-01-01T00:00:00 (local or UTC); day-time intervals in ms
//	PI128   DECIMAL over 18 digits, unscaled; TIMESTAMP and TIMESTAMP_LTZ over precision 3 as
//	        Hi = ms since the epoch (floor), Lo = nanoseconds within that ms (0..999999),
//	        which orders like a 128-bit signed integer
//	PF32    FLOAT
//	PF64    DOUBLE
//	PBytes  CHAR, VARCHAR (UTF-8), BINARY, VARBINARY
//	PList   ARRAY, MAP, MULTISET
//	PRow    ROW
//	PNone   the untyped NULL
const (
	PNone Phys = iota
	PBool
	PI32
	PI64
	PI128
	PF32
	PF64
	PBytes
	PList
	PRow
)

// MaxSmallDecimal is the largest precision of a DECIMAL stored as PI64.
const MaxSmallDecimal = 18

// Phys returns the physical form of t.
func (t Type) Phys() Phys {
	switch t.Kind {
	case Boolean:
		return PBool
	case TinyInt, SmallInt, Int, Date, Time, IntervalYearMonth:
		return PI32
	case BigInt, IntervalDayTime:
		return PI64
	case Decimal:
		if t.Precision <= MaxSmallDecimal {
			return PI64
		}
		return PI128
	case Timestamp, TimestampLTZ:
		if t.Precision <= 3 {
			return PI64
		}
		return PI128
	case Float:
		return PF32
	case Double:
		return PF64
	case Char, VarChar, Binary, VarBinary:
		return PBytes
	case Array, Map, Multiset:
		return PList
	case Row:
		return PRow
	}
	return PNone
}

// FixedWidth returns the bytes of one value of the form in a state record, or 0 if it varies.
func (p Phys) FixedWidth() int {
	switch p {
	case PBool:
		return 1
	case PI32, PF32:
		return 4
	case PI64, PF64:
		return 8
	case PI128:
		return 16
	}
	return 0
}
