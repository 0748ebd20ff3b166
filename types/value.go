package types

import (
	"math/bits"
)

// Int128 is a signed 128-bit integer in two's complement, laid out as Arrow's decimal128 on a
// little-endian machine. It holds large DECIMALs unscaled, and timestamps of precision over 3 as
// (Hi = ms, Lo = nanoseconds within the ms).
type Int128 struct {
	Lo uint64
	Hi int64
}

// I128 widens v.
func I128(v int64) Int128 { return Int128{Lo: uint64(v), Hi: v >> 63} }

// TS packs a timestamp of high precision.
func TS(ms int64, nanos int32) Int128 { return Int128{Lo: uint64(nanos), Hi: ms} }

// Cmp returns -1, 0 or 1.
func (a Int128) Cmp(b Int128) int {
	switch {
	case a.Hi < b.Hi:
		return -1
	case a.Hi > b.Hi:
		return 1
	case a.Lo < b.Lo:
		return -1
	case a.Lo > b.Lo:
		return 1
	}
	return 0
}

// Less reports a < b.
func (a Int128) Less(b Int128) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

// Add returns a + b, wrapping.
func (a Int128) Add(b Int128) Int128 {
	lo, c := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(uint64(a.Hi), uint64(b.Hi), c)
	return Int128{Lo: lo, Hi: int64(hi)}
}

// Sub returns a - b, wrapping.
func (a Int128) Sub(b Int128) Int128 {
	lo, c := bits.Sub64(a.Lo, b.Lo, 0)
	hi, _ := bits.Sub64(uint64(a.Hi), uint64(b.Hi), c)
	return Int128{Lo: lo, Hi: int64(hi)}
}

// Neg returns -a, wrapping.
func (a Int128) Neg() Int128 { return Int128{}.Sub(a) }

// Sign returns -1, 0 or 1.
func (a Int128) Sign() int {
	switch {
	case a.Hi < 0:
		return -1
	case a.Hi == 0 && a.Lo == 0:
		return 0
	}
	return 1
}

// IsInt64 reports whether a fits in an int64.
func (a Int128) IsInt64() bool { return a.Hi == int64(a.Lo)>>63 }

// Value is one value outside the data path: a literal of a plan, an option, a cell handed to a
// user. Its dynamic type follows the logical type:
//
//	NULL                         nil
//	BOOLEAN                      bool
//	TINYINT SMALLINT INT BIGINT  int64
//	DATE, TIME                   int64 (days; ms of the day)
//	intervals                    int64 (months; ms)
//	TIMESTAMP, TIMESTAMP_LTZ     Int128 as TS(ms, nanos), whatever the precision
//	FLOAT, DOUBLE                float64
//	DECIMAL                      Int128, unscaled
//	CHAR, VARCHAR                string
//	BINARY, VARBINARY            []byte
//	ARRAY                        []Value
//	MAP, MULTISET                []Value: key, value, key, value ...
//	ROW                          []Value
type Value = any
