// Package datefmt does calendar arithmetic on the engine's dates and timestamps, and formats and
// parses them by the two pattern languages that Flink SQL inherits from Java: that of
// DateTimeFormatter (DATE_FORMAT, TO_TIMESTAMP) and that of SimpleDateFormat (FROM_UNIXTIME,
// UNIX_TIMESTAMP, TO_DATE).
//
// Dates are days since 1970-01-01 in the proleptic Gregorian calendar. Times are milliseconds since
// that day's midnight, local or UTC as the caller has them, with the nanoseconds within the
// millisecond apart.
package datefmt

import "github.com/tidemark-stream/tidemark/types"

// The lengths of time units in milliseconds.
const (
	Second int64 = 1000
	Minute       = 60 * Second
	Hour         = 60 * Minute
	Day          = 24 * Hour
)

// Civil splits days since the epoch into a year, a month (1 to 12) and a day of the month.
func Civil(days int) (year, month, day int) { return types.CivilFromDays(int32(days)) }

// Days is the inverse of Civil. Month 13 is January of the next year and so on, and days roll over.
func Days(year, month, day int) int {
	if month < 1 || month > 12 {
		year += floorDiv(month-1, 12)
		month = floorMod(month-1, 12) + 1
	}
	return int(types.DaysFromCivil(year, month, day))
}

// SplitDay splits a time in ms into the day and the ms within it.
func SplitDay(ms int64) (days int, within int64) {
	d := ms / Day
	within = ms % Day
	if within < 0 {
		within += Day
		d--
	}
	return int(d), within
}

// ISOWeekday is 1 for Monday to 7 for Sunday.
func ISOWeekday(days int) int { return floorMod(days+3, 7) + 1 }

// YearDay is the day of the year, from 1.
func YearDay(days int) int {
	y, _, _ := Civil(days)
	return days - Days(y, 1, 1) + 1
}

// ISOWeek is the week number of ISO 8601 and the year that the week belongs to.
func ISOWeek(days int) (year, week int) {
	thursday := days - ISOWeekday(days) + 4
	year, _, _ = Civil(thursday)
	return year, (thursday-Days(year, 1, 1))/7 + 1
}

// MonthsBetween is the number of whole months from day b to day a.
func MonthsBetween(a, b int) int {
	if a < b {
		return -MonthsBetween(b, a)
	}
	ay, am, _ := Civil(a)
	by, bm, _ := Civil(b)
	n := (ay-by)*12 + am - bm
	// The estimate is right or one too high.
	if int(types.AddMonthsToDays(int32(b), n)) > a {
		n--
	}
	return n
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int) int {
	r := a % b
	if r < 0 {
		r += b
	}
	return r
}
