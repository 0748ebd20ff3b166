package datefmt

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Simple is a compiled pattern of java.text.SimpleDateFormat in English. It reads leniently: 25:00
// is one o'clock of the next day, and what follows the text that it needs is ignored. Immutable and
// safe for concurrent use.
type Simple struct{ items []item }

// simpleFields are the letters of SimpleDateFormat.
var simpleFields = map[byte]field{
	'G': fEra, 'y': fYear, 'Y': fWeekYear, 'M': fMonth, 'L': fMonth, 'w': fWeek,
	'W': fWeekOfMonth, 'D': fDayOfYear, 'd': fDay, 'F': fAlignedWeek, 'E': fDayOfWeek,
	'u': fDayOfWeek, 'a': fAmPm, 'H': fHour, 'k': fClock, 'K': fHourAmPm, 'h': fClockAmPm,
	'm': fMinute, 's': fSecond, 'S': fMilli, 'z': fZone, 'Z': fZone, 'X': fZone,
}

// CompileSimple reads a pattern.
func CompileSimple(pattern string) (*Simple, error) {
	f := &Simple{}
	for i := 0; i < len(pattern); {
		c := pattern[i]
		switch {
		case isLetter(c):
			n := 1
			for i+n < len(pattern) && pattern[i+n] == c {
				n++
			}
			fl, ok := simpleFields[c]
			if !ok {
				return nil, fmt.Errorf("pattern '%s': unknown letter '%c'", pattern, c)
			}
			it := item{field: fl, letter: c, count: n, min: n}
			switch {
			case c == 'y' || c == 'Y':
				if n == 2 {
					it.min = 2
				}
			case (c == 'M' || c == 'L') && n >= 3, c == 'E', c == 'a', c == 'G':
				it.style = shortText
				if n >= 4 && c != 'a' && c != 'G' {
					it.style = fullText
				}
			}
			f.items = append(f.items, it)
			i += n
		case c == '\'':
			text, end, ok := quoted(pattern, i)
			if !ok {
				return nil, fmt.Errorf("pattern '%s' has a quote that is not closed", pattern)
			}
			f.literal(text)
			i = end
		default:
			_, w := utf8.DecodeRuneInString(pattern[i:])
			f.literal(pattern[i : i+w])
			i += w
		}
	}
	return f, nil
}

func (f *Simple) literal(text string) {
	if n := len(f.items); n > 0 && f.items[n-1].field == fLiteral {
		f.items[n-1].text += text
		return
	}
	f.items = append(f.items, item{field: fLiteral, text: text})
}

// Append writes the UTC time ms as local time of zone.
func (f *Simple) Append(dst []byte, ms int64, zone *Zone) []byte {
	off := zone.Offset(ms)
	days, within := SplitDay(ms + off)
	year, month, day := Civil(days)
	v := values{days: days, within: within, year: year, month: month, day: day, offset: off}
	for i := range f.items {
		it := &f.items[i]
		switch {
		case it.letter == 'y' && it.count == 2 && it.field == fYear:
			dst = appendPadded(dst, int64(floorMod(year, 100)), 2)
		case it.field == fZone && it.letter == 'z':
			name, _ := time.UnixMilli(ms).In(zone.Loc).Zone()
			dst = append(dst, name...)
		default:
			dst = v.appendItem(dst, it)
		}
	}
	return dst
}

// appendZone writes the offset as +0800 (Z) or +08, +0800, +08:00 (X).
func (v *values) appendZone(dst []byte, it *item) []byte {
	off := v.offset / Minute
	if off == 0 && it.letter == 'X' {
		return append(dst, 'Z')
	}
	sign := byte('+')
	if off < 0 {
		sign, off = '-', -off
	}
	dst = appendPadded(append(dst, sign), off/60, 2)
	if it.letter == 'X' && it.count == 1 {
		return dst
	}
	if it.letter == 'X' && it.count == 3 {
		dst = append(dst, ':')
	}
	return appendPadded(dst, off%60, 2)
}

// Parse reads the front of s and returns UTC ms. Fields that the pattern does not have are those
// of 1970-01-01 00:00:00 in zone. ok is false when s does not fit.
func (f *Simple) Parse(s []byte, zone *Zone) (ms int64, ok bool) {
	var p fields
	at := 0
	for i := range f.items {
		it := &f.items[i]
		if it.field == fLiteral {
			if !strings.HasPrefix(string(s[at:]), it.text) {
				return 0, false
			}
			at += len(it.text)
			continue
		}
		for at < len(s) && (s[at] == ' ' || s[at] == '\t') {
			at++
		}
		if at >= len(s) {
			return 0, false
		}
		switch {
		case it.field == fZone:
			at, ok = parseZone(s, at, &p)
		case it.style != number:
			at, ok = parseNames(it, s, at, &p)
		default:
			// A number right before another one has exactly as many digits as letters.
			limit := 19
			if i+1 < len(f.items) && f.items[i+1].field != fLiteral && f.items[i+1].style == number &&
				f.items[i+1].field != fZone {
				limit = it.count
			}
			at, ok = parseLenient(it, s, at, limit, &p)
		}
		if !ok {
			return 0, false
		}
	}
	return p.lenient(zone), true
}

func parseLenient(it *item, s []byte, at, limit int, p *fields) (int, bool) {
	neg := false
	if s[at] == '-' {
		neg = true
		at++
	}
	v, end, ok := int64(0), at, false
	for end < len(s) && end-at < limit && s[end] >= '0' && s[end] <= '9' {
		if v > 1<<50 {
			return 0, false
		}
		v = v*10 + int64(s[end]-'0')
		end++
		ok = true
	}
	if neg {
		v = -v
	}
	if it.letter == 'y' && it.count <= 2 && end-at == 2 && !neg {
		// Two digits are within 80 years before and 20 after today.
		now := time.Now().Year()
		century := now - now%100
		v += int64(century)
		if v > int64(now+20) {
			v -= 100
		} else if v <= int64(now-80) {
			v += 100
		}
	}
	p.set(it.field, v)
	return end, ok
}

// parseNames reads a month, weekday, half of the day or era, in full or shortened, in any case.
func parseNames(it *item, s []byte, at int, p *fields) (int, bool) {
	names, first := []string(nil), int64(1)
	switch it.field {
	case fMonth:
		names = months[:]
	case fDayOfWeek:
		names = weekdays[:]
	case fAmPm:
		names, first = halves[:], 0
	case fEra:
		names, first = shortEras[:], 0
	}
	for i, n := range names {
		for _, form := range [...]string{n, n[:min(3, len(n))]} {
			if len(s)-at >= len(form) && strings.EqualFold(string(s[at:at+len(form)]), form) {
				p.set(it.field, first+int64(i))
				return at + len(form), true
			}
		}
	}
	return 0, false
}

func parseZone(s []byte, at int, p *fields) (int, bool) {
	rest := string(s[at:])
	if strings.HasPrefix(rest, "Z") {
		p.set(fZone, 0)
		return at + 1, true
	}
	end := 0
	for end < len(rest) && rest[end] != ' ' {
		end++
	}
	loc, ok := LoadZone(rest[:end])
	if !ok {
		return 0, false
	}
	_, off := time.Unix(0, 0).In(loc).Zone()
	p.set(fZone, int64(off)*1000)
	return at + end, true
}

// lenient adds the fields up, whatever their ranges.
func (p *fields) lenient(zone *Zone) int64 {
	get := func(f field, def int64) int64 {
		if p.is(f) {
			return p.v[f]
		}
		return def
	}
	year := get(fYear, 1970)
	if p.is(fEra) && p.v[fEra] == 0 {
		year = 1 - year
	}
	var days int
	if p.is(fDayOfYear) && !p.is(fMonth) && !p.is(fDay) {
		days = Days(int(year), 1, 1) + int(p.v[fDayOfYear]) - 1
	} else {
		days = Days(int(year), int(get(fMonth, 1)), 1) + int(get(fDay, 1)) - 1
	}
	hour := get(fHour, 0)
	half := get(fAmPm, 0)
	switch {
	case p.is(fClock):
		hour = p.v[fClock] % 24
	case p.is(fHourAmPm):
		hour = p.v[fHourAmPm] + 12*half
	case p.is(fClockAmPm):
		hour = p.v[fClockAmPm]%12 + 12*half
	}
	local := int64(days)*Day + hour*Hour + get(fMinute, 0)*Minute + get(fSecond, 0)*Second +
		get(fMilli, 0)
	if p.is(fZone) {
		return local - p.v[fZone]
	}
	return zone.UTCLate(local)
}
