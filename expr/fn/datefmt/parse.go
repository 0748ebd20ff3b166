package datefmt

import "github.com/tidemark-stream/tidemark/types"

// fields are what a text said. A field that it did not mention has its bit clear in has.
type fields struct {
	has uint64
	v   [fZone + 1]int64
}

func (p *fields) set(f field, v int64) {
	p.has |= 1 << f
	p.v[f] = v
}

func (p *fields) is(f field) bool { return p.has&(1<<f) != 0 }

// Parse reads a text that must fit the pattern to its end and returns local ms and the nanoseconds
// within. What the text leaves open is taken from 1970-01-01 00:00:00.
func (f *Formatter) Parse(s []byte) (ms int64, nanos int32, ok bool) {
	var p fields
	at, ok := parseItems(f.items, s, 0, &p)
	if !ok || at != len(s) {
		return 0, 0, false
	}
	return p.resolve()
}

// parseItems reads items from s[at:] and returns where they end. An optional group that does not
// fit is skipped and leaves no trace.
func parseItems(items []item, s []byte, at int, p *fields) (int, bool) {
	for i := 0; i < len(items); i++ {
		it := &items[i]
		switch it.field {
		case fOptStart:
			end := groupEnd(items, i)
			saved := *p
			if next, ok := parseItems(items[i+1:end], s, at, p); ok {
				at = next
			} else {
				*p = saved
			}
			i = end
			continue
		case fLiteral:
			if len(s)-at < len(it.text) || string(s[at:at+len(it.text)]) != it.text {
				return 0, false
			}
			at += len(it.text)
			continue
		}
		var ok bool
		if it.style == number {
			at, ok = parseNumber(it, s, at, p)
		} else {
			at, ok = parseText(it, s, at, p)
		}
		if !ok {
			return 0, false
		}
	}
	return at, true
}

// groupEnd is the index of the end of the optional group that starts at i.
func groupEnd(items []item, i int) int {
	depth := 0
	for ; i < len(items); i++ {
		switch items[i].field {
		case fOptStart:
			depth++
		case fOptEnd:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	panic("BUG: optional group of a date pattern is not closed")
}

func parseNumber(it *item, s []byte, at int, p *fields) (int, bool) {
	neg, signed := false, false
	if at < len(s) && (s[at] == '-' || s[at] == '+') {
		if it.fixed || s[at] == '+' && !it.exceeds {
			return 0, false
		}
		neg, signed = s[at] == '-', true
		at++
	}
	minW, maxW := it.min, it.max
	n := at
	for n < len(s) && n-at < maxW+it.reserve && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	width := n - at
	if it.reserve > 0 {
		width = min(max(minW, width-it.reserve), maxW)
	}
	if width < minW || width > n-at {
		return 0, false
	}
	if it.exceeds && !neg {
		if signed && width <= minW || !signed && width > minW {
			return 0, false
		}
	}
	var v int64
	for _, c := range s[at : at+width] {
		if v > (1<<63-10)/10 {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if neg {
		v = -v
	}
	switch it.field {
	case fYear2:
		p.set(fProlepticYear, 2000+v)
	case fFraction:
		for d := width; d < 9; d++ {
			v *= 10
		}
		p.set(fNano, v)
	default:
		p.set(it.field, v)
	}
	return at + width, true
}

func parseText(it *item, s []byte, at int, p *fields) (int, bool) {
	try := func(names []string, n int, first int64) (int, bool) {
		best := -1
		for i, name := range names {
			if n > 0 && len(name) > n {
				name = name[:n]
			}
			if len(s)-at >= len(name) && string(s[at:at+len(name)]) == name && best < len(name) {
				best = len(name)
				p.set(it.field, first+int64(i))
			}
		}
		return at + best, best > 0
	}
	width := map[style]int{shortText: 3, fullText: 0, narrowText: 1}[it.style]
	switch it.field {
	case fMonth:
		return try(months[:], width, 1)
	case fDayOfWeek, fLocalDow:
		end, ok := try(weekdays[:], width, 1)
		return end, ok
	case fAmPm:
		return try(halves[:], 0, 0)
	case fQuarter:
		return try(map[style][]string{shortText: shortQ[:], fullText: quarters[:], narrowText: narrowQ[:]}[it.style], 0, 1)
	case fEra:
		if it.style == shortText {
			return try(shortEras[:], 0, 0)
		}
		return try(eras[:], 0, 0)
	}
	return 0, false
}

// resolve puts the fields together the way that java.time's smart resolver does, then fills in
// what is missing.
func (p *fields) resolve() (ms int64, nanos int32, ok bool) {
	days, ok := p.date()
	if !ok {
		return 0, 0, false
	}
	hour, ok := p.hour()
	if !ok {
		return 0, 0, false
	}
	get := func(f field, limit int64) int64 {
		if !p.is(f) {
			return 0
		}
		if p.v[f] < 0 || p.v[f] >= limit {
			ok = false
		}
		return p.v[f]
	}
	minute, second, nano := get(fMinute, 60), get(fSecond, 60), get(fNano, 1000000000)
	if p.is(fMilliOfDay) {
		m := get(fMilliOfDay, Day)
		hour, minute, second, nano = m/Hour, m/Minute%60, m/Second%60, m%1000*1000000
	}
	if p.is(fNanoOfDay) {
		n := get(fNanoOfDay, Day*1000000)
		m := n / 1000000
		hour, minute, second, nano = m/Hour, m/Minute%60, m/Second%60, n%1000000000
	}
	if !ok || hour == 24 && (minute|second|nano) != 0 {
		return 0, 0, false
	}
	ms = int64(days)*Day + hour*Hour + minute*Minute + second*Second + nano/1000000
	return ms, int32(nano % 1000000), true
}

func (p *fields) date() (days int, ok bool) {
	year := int64(1970)
	switch {
	case p.is(fProlepticYear):
		year = p.v[fProlepticYear]
	case p.is(fYear):
		if year = p.v[fYear]; year < 1 {
			return 0, false
		}
		if p.is(fEra) && p.v[fEra] == 0 {
			year = 1 - year
		}
	}
	if year < -999999999 || year > 999999999 {
		return 0, false
	}
	y := int(year)
	if p.is(fDayOfYear) && !p.is(fMonth) {
		d := p.v[fDayOfYear]
		if d < 1 || d > 366 || d == 366 && !types.IsLeapYear(y) {
			return 0, false
		}
		return Days(y, 1, int(d)), true
	}
	month, day := int64(1), int64(1)
	if p.is(fMonth) {
		month = p.v[fMonth]
	}
	if p.is(fDay) {
		day = p.v[fDay]
	}
	if month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	if last := int64(types.DaysInMonth(y, int(month))); day > last {
		// The smart resolver takes February 30th for the last of February, but only when it
		// has a whole date.
		if !p.is(fYear) && !p.is(fProlepticYear) || !p.is(fMonth) {
			return 0, false
		}
		day = last
	}
	days = Days(y, int(month), int(day))
	if p.is(fDayOfWeek) && int64(ISOWeekday(days)) != p.v[fDayOfWeek] {
		return 0, false
	}
	return days, true
}

func (p *fields) hour() (h int64, ok bool) {
	in := func(f field, lo, hi int64) bool { return p.v[f] >= lo && p.v[f] <= hi }
	half := int64(0)
	if p.is(fAmPm) {
		half = p.v[fAmPm]
	}
	switch {
	case p.is(fHour):
		return p.v[fHour], in(fHour, 0, 24)
	case p.is(fClock):
		return p.v[fClock] % 24, in(fClock, 1, 24)
	case p.is(fHourAmPm) && p.is(fAmPm):
		return p.v[fHourAmPm] + 12*half, in(fHourAmPm, 0, 11)
	case p.is(fClockAmPm) && p.is(fAmPm):
		return p.v[fClockAmPm]%12 + 12*half, in(fClockAmPm, 1, 12)
	}
	return 0, true
}

// ParseOr is Parse, falling back to the form of a CAST for texts that do not fit, as TO_TIMESTAMP
// does.
func (f *Formatter) ParseOr(s []byte) (ms int64, nanos int32, ok bool) {
	if ms, nanos, ok = f.Parse(s); ok {
		return ms, nanos, true
	}
	return types.ParseSQLTimestamp(types.TrimSpace(s))
}
