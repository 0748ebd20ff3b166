package types

// Units of time in ms.
const (
	MsPerSecond int64 = 1000
	MsPerMinute int64 = 60 * MsPerSecond
	MsPerHour   int64 = 60 * MsPerMinute
	MsPerDay    int64 = 24 * MsPerHour
)

// DaysFromCivil returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar.
// Days beyond the month's end roll over.
func DaysFromCivil(year, month, day int) int32 {
	// Years that begin in March put the leap day last (the well-known era method).
	y := year
	if month <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := (153*((month+9)%12)+2)/5 + day - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return int32(era*146097 + doe - 719468)
}

// CivilFromDays returns the date that lies days after 1970-01-01.
func CivilFromDays(days int32) (year, month, day int) {
	z := int(days) + 719468
	era := floorDiv(z, 146097)
	doe := uint32(z - era*146097)
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int(doy - (153*mp+2)/5 + 1)
	month = int(mp) + 3
	year = int(yoe) + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// SplitMs splits ms since the epoch into days and the ms of the day.
func SplitMs(ms int64) (days int32, msOfDay int32) {
	d := floorDiv64(ms, MsPerDay)
	return int32(d), int32(ms - d*MsPerDay)
}

// IsLeapYear reports whether year has 366 days.
func IsLeapYear(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

// DaysInMonth returns the length of a month, 1 to 12.
func DaysInMonth(year, month int) int {
	switch month {
	case 2:
		if IsLeapYear(year) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// AddMonths moves ms since the epoch by months, to the last day of the month where the day does
// not exist there.
func AddMonths(ms int64, months int) int64 {
	days, rest := SplitMs(ms)
	return int64(AddMonthsToDays(days, months))*MsPerDay + int64(rest)
}

// AddMonthsToDays is AddMonths of a date.
func AddMonthsToDays(days int32, months int) int32 {
	y, m, d := CivilFromDays(days)
	t := y*12 + m - 1 + months
	y = floorDiv(t, 12)
	m = t - y*12 + 1
	return DaysFromCivil(y, m, min(d, DaysInMonth(y, m)))
}

// RoundTimestamp clears the digits of a timestamp beyond precision, towards the past.
func RoundTimestamp(ms int64, nanos int32, precision int) (int64, int32) {
	if precision >= 9 {
		return ms, nanos
	}
	if precision > 3 {
		u := int32(pow10u[9-precision])
		return ms, nanos - nanos%u
	}
	u := int64(pow10u[3-precision])
	return floorDiv64(ms, u) * u, 0
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorDiv64(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
