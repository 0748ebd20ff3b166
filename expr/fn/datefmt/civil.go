// Package datefmt does calendar arithmetic on the engine's dates and timestamps, and formats and
// parses them by the two pattern languages that Flink SQL inherits from Java: that of
// DateTimeFormatter (DATE_FORMAT, TO_TIMESTAMP) and that of SimpleDateFormat (FROM_UNIXTIME,
// UNIX_TIMESTAMP, TO_DATE).
//
// Dates are days since 1970-01-01 in the proleptic Gregorian calendar. Times are milliseconds since
// that day's midnight, local or UTC as the caller has them, with the nanoseconds within the
// millisecond apart.
package datefmt

// The lengths of time units in milliseconds.
const (
	Second int64 = 1000
	Minute       = 60 * Second
	Hour         = 60 * Minute
	Day          = 24 * Hour
)

// Civil splits days since the epoch into a year, a month (1 to 12) and a day of the month.
func Civil(days int) (year, month, day int) {
	// Years start in March here, so that the leap day comes last.
	z := days + 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = doy - (153*mp+2)/5 + 1
	month = mp + 3
	if month > 12 {
		month -= 12
	}
	year = yoe + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

// Days is the inverse of Civil. Month 13 is January of the next year and so on, and days roll over.
func Days(year, month, day int) int {
	if month < 1 || month > 12 {
		year += floorDiv(month-1, 12)
		month = floorMod(month-1, 12) + 1
	}
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	doy := (153*(month-3)+2)/5 + day - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
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

// IsLeap reports a leap year.
func IsLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

var monthDays = [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// MonthDays is the number of days of a month (1 to 12).
func MonthDays(year, month int) int {
	if month == 2 && IsLeap(year) {
		return 29
	}
	return monthDays[month-1]
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

// AddMonths moves a date by whole months; a day that the month does not have becomes its last.
func AddMonths(days, months int) int {
	y, m, d := Civil(days)
	m += months
	y += floorDiv(m-1, 12)
	m = floorMod(m-1, 12) + 1
	return Days(y, m, min(d, MonthDays(y, m)))
}

// MonthsBetween is the number of whole months from time b to time a, both in ms.
func MonthsBetween(a, b int64) int {
	if a < b {
		return -MonthsBetween(b, a)
	}
	ad, at := SplitDay(a)
	bd, bt := SplitDay(b)
	ay, am, _ := Civil(ad)
	by, bm, _ := Civil(bd)
	n := (ay-by)*12 + am - bm
	// The estimate is right or one too high.
	if moved := AddMonths(bd, n); moved > ad || moved == ad && bt > at {
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
