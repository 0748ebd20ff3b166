package datefmt

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// field is a number or text that a pattern letter stands for.
type field uint8

const (
	fLiteral field = iota
	fOptStart
	fOptEnd
	fEra
	fYear // of the era; without an era the same as fProlepticYear
	fProlepticYear
	fYear2 // two digits from 2000
	fMonth
	fDay
	fDayOfYear
	fQuarter
	fWeekYear
	fWeek
	fWeekOfMonth
	fAlignedDay  // DateTimeFormatter's F
	fAlignedWeek // SimpleDateFormat's F
	fDayOfWeek   // ISO
	fLocalDow    // 1 for Sunday
	fAmPm
	fHour      // 0-23
	fHourAmPm  // 0-11
	fClockAmPm // 1-12
	fClock     // 1-24
	fMinute
	fSecond
	fFraction
	fMilliOfDay
	fNano
	fNanoOfDay
	fMilli // SimpleDateFormat's S: ms as a number
	fZone  // offset or name of the zone
)

// style is how a field is written.
type style uint8

const (
	number style = iota
	shortText
	fullText
	narrowText
)

// item is one element of a compiled pattern.
type item struct {
	field    field
	style    style
	min, max int  // digits
	exceeds  bool // more digits than min want a plus sign
	text     string
	letter   byte
	count    int
	// reserve is the number of digits that fixed-width fields right behind this one need.
	reserve int
	fixed   bool // exactly min digits, no sign
}

// Formatter is a compiled pattern of java.time.format.DateTimeFormatter, for dates and times
// without a zone, in English. Immutable and safe for concurrent use.
type Formatter struct {
	items []item
	// Where every field has a fixed width (for years of four digits): the text with zeros for
	// digits, and what to put where.
	template []byte
	patches  []patch
}

// patch is a number in the template.
type patch struct {
	field field
	at    int
	width int
}

// Unit is the longest of Day, Hour, Minute and Second within which all times have the same text, or
// 0: rows close in time can then share theirs.
func (f *Formatter) Unit() int64 { return unit(f.items) }

func unit(items []item) int64 {
	u := Day
	for i := range items {
		switch items[i].field {
		case fAmPm, fHour, fHourAmPm, fClockAmPm, fClock, fZone:
			u = min(u, Hour)
		case fMinute:
			u = min(u, Minute)
		case fSecond:
			u = min(u, Second)
		case fFraction, fMilliOfDay, fNano, fNanoOfDay, fMilli:
			return 0
		}
	}
	return u
}

// Compile reads a pattern of letters such as yyyy-MM-dd HH:mm:ss.SSS.
func Compile(pattern string) (*Formatter, error) {
	f := &Formatter{}
	depth := 0
	for i := 0; i < len(pattern); {
		c := pattern[i]
		switch {
		case isLetter(c):
			n := 1
			for i+n < len(pattern) && pattern[i+n] == c {
				n++
			}
			it, err := letterItem(c, n)
			if err != nil {
				return nil, fmt.Errorf("pattern '%s': %w", pattern, err)
			}
			f.add(it)
			i += n
		case c == '\'':
			text, end, ok := quoted(pattern, i)
			if !ok {
				return nil, fmt.Errorf("pattern '%s' has a quote that is not closed", pattern)
			}
			f.add(item{field: fLiteral, text: text})
			i = end
		case c == '[':
			depth++
			f.add(item{field: fOptStart})
			i++
		case c == ']':
			if depth == 0 {
				return nil, fmt.Errorf("pattern '%s' has a ']' without a '['", pattern)
			}
			depth--
			f.add(item{field: fOptEnd})
			i++
		case c == '{' || c == '}' || c == '#':
			return nil, fmt.Errorf("pattern '%s' has the reserved character '%c'", pattern, c)
		default:
			_, w := utf8.DecodeRuneInString(pattern[i:])
			f.add(item{field: fLiteral, text: pattern[i : i+w]})
			i += w
		}
	}
	for ; depth > 0; depth-- {
		f.add(item{field: fOptEnd})
	}
	f.adjacent()
	f.layOut()
	return f, nil
}

// layOut makes the template of a pattern that has one.
func (f *Formatter) layOut() {
	for _, it := range f.items {
		switch {
		case it.field == fLiteral:
			f.template = append(f.template, it.text...)
			continue
		case it.style == number && (it.fixed && it.min <= 3 || it.field == fYear && it.min == 4) && it.field != fNano:
			f.patches = append(f.patches, patch{it.field, len(f.template), it.min})
			f.template = append(f.template, "0000"[:it.min]...)
			continue
		}
		f.template, f.patches = nil, nil
		return
	}
}

// put writes a number of two to four digits over s.
func put(s []byte, v int64) {
	for i := len(s) - 1; i >= 0; i-- {
		s[i] = byte('0' + v%10)
		v /= 10
	}
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// quoted reads a quoted literal that starts at i; two quotes are one quote.
func quoted(p string, i int) (text string, end int, ok bool) {
	if i+1 < len(p) && p[i+1] == '\'' {
		return "'", i + 2, true
	}
	var b []byte
	for i++; i < len(p); i++ {
		if p[i] != '\'' {
			b = append(b, p[i])
			continue
		}
		if i+1 < len(p) && p[i+1] == '\'' {
			b = append(b, '\'')
			i++
			continue
		}
		return string(b), i + 1, true
	}
	return "", 0, false
}

func (f *Formatter) add(it item) {
	if n := len(f.items); n > 0 && it.field == fLiteral && f.items[n-1].field == fLiteral {
		f.items[n-1].text += it.text
		return
	}
	f.items = append(f.items, it)
}

// adjacent lets a number of open width leave enough digits for the fixed ones right behind it, so
// that yyyyMMdd can be parsed.
func (f *Formatter) adjacent() {
	base := -1
	for i := range f.items {
		it := &f.items[i]
		if it.field == fLiteral || it.field == fOptStart || it.field == fOptEnd || it.style != number {
			base = -1
			continue
		}
		if it.fixed && base >= 0 {
			f.items[base].reserve += it.max
			continue
		}
		base = i
	}
}

// letterItem is the meaning of count times letter c.
func letterItem(c byte, count int) (item, error) {
	it := item{letter: c, count: count, min: count, max: 19}
	tooMany := fmt.Errorf("too many letters '%c' (%d)", c, count)
	upTo := func(f field, digits int) (item, error) {
		if count > digits {
			return it, tooMany
		}
		it.field = f
		if count > 1 {
			it.max, it.fixed = count, true
		}
		return it, nil
	}
	text := func(f field, numeric bool) (item, error) {
		it.field = f
		switch {
		case count <= 2 && numeric:
			return upTo(f, 2)
		case count <= 3:
			it.style = shortText
		case count == 4:
			it.style = fullText
		case count == 5:
			it.style = narrowText
		default:
			return it, tooMany
		}
		return it, nil
	}
	switch c {
	case 'G':
		return text(fEra, false)
	case 'y', 'u', 'Y':
		it.field = map[byte]field{'y': fYear, 'u': fProlepticYear, 'Y': fWeekYear}[c]
		switch {
		case count == 2:
			it.min, it.max, it.fixed = 2, 2, true
			if c != 'Y' {
				it.field = fYear2
			}
		case count > 19:
			return it, tooMany
		case count >= 4:
			it.exceeds = true
		}
		return it, nil
	case 'M', 'L':
		return text(fMonth, true)
	case 'd':
		return upTo(fDay, 2)
	case 'D':
		return upTo(fDayOfYear, 3)
	case 'Q', 'q':
		return text(fQuarter, true)
	case 'w':
		return upTo(fWeek, 2)
	case 'W':
		return upTo(fWeekOfMonth, 1)
	case 'F':
		return upTo(fAlignedDay, 1)
	case 'E':
		return text(fDayOfWeek, false)
	case 'e', 'c':
		if c == 'c' && count == 2 {
			return it, fmt.Errorf("invalid pattern 'cc'")
		}
		return text(fLocalDow, true)
	case 'a':
		if count > 1 {
			return it, tooMany
		}
		it.field, it.style = fAmPm, shortText
		return it, nil
	case 'H':
		return upTo(fHour, 2)
	case 'k':
		return upTo(fClock, 2)
	case 'K':
		return upTo(fHourAmPm, 2)
	case 'h':
		return upTo(fClockAmPm, 2)
	case 'm':
		return upTo(fMinute, 2)
	case 's':
		return upTo(fSecond, 2)
	case 'S':
		if count > 9 {
			return it, tooMany
		}
		it.field, it.max, it.fixed = fFraction, count, true
		return it, nil
	case 'A', 'n', 'N':
		it.field = map[byte]field{'A': fMilliOfDay, 'n': fNano, 'N': fNanoOfDay}[c]
		return it, nil
	case 'V', 'v', 'z', 'O', 'X', 'x', 'Z':
		return it, fmt.Errorf("letter '%c' asks for a time zone, which the value does not have", c)
	}
	return it, fmt.Errorf("unknown letter '%c'", c)
}

// Append writes the local time ms with nanos (0 to 999999) within the millisecond to dst.
func (f *Formatter) Append(dst []byte, ms int64, nanos int32) []byte {
	days, within := SplitDay(ms)
	year, month, day := Civil(days)
	v := values{days: days, within: within, nanos: int64(nanos), year: year, month: month, day: day}
	if f.template != nil && year >= 1000 && year <= 9999 {
		n := len(dst)
		dst = append(dst, f.template...)
		for _, p := range f.patches {
			s := dst[n+p.at : n+p.at+p.width]
			if p.field == fFraction {
				put(s, within%1000/[...]int64{1, 100, 10, 1}[p.width])
			} else if x := v.number(p.field); p.width == 2 {
				s[0], s[1] = byte('0'+x/10), byte('0'+x%10)
			} else {
				put(s, x)
			}
		}
		return dst
	}
	for i := range f.items {
		dst = v.appendItem(dst, &f.items[i])
	}
	return dst
}

// values are what fields are computed from.
type values struct {
	days, year, month, day int
	within, nanos          int64 // ms of the day, ns of the ms
	offset                 int64 // of the zone, in ms
}

func (v *values) appendItem(dst []byte, it *item) []byte {
	switch it.field {
	case fLiteral:
		return append(dst, it.text...)
	case fOptStart, fOptEnd:
		return dst
	case fFraction:
		n := v.within%1000*1000000 + v.nanos
		for d, p := 0, int64(100000000); d < it.min; d, p = d+1, p/10 {
			dst = append(dst, byte('0'+n/p%10))
		}
		return dst
	case fZone:
		return v.appendZone(dst, it)
	}
	if it.style != number {
		return append(dst, v.text(it)...)
	}
	n := v.number(it.field)
	if n < 0 {
		dst = append(dst, '-')
		n = -n
	} else if it.exceeds && digits(n) > it.min {
		dst = append(dst, '+')
	}
	return appendPadded(dst, n, it.min)
}

func digits(n int64) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

func appendPadded(dst []byte, n int64, width int) []byte {
	if width == 2 && n < 100 {
		return append(dst, byte('0'+n/10), byte('0'+n%10))
	}
	if width == 4 && n >= 1000 && n < 10000 {
		return append(dst, byte('0'+n/1000), byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
	}
	for d := digits(n); d < width; d++ {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, n, 10)
}

func (v *values) number(f field) int64 {
	switch f {
	case fYear:
		if v.year <= 0 {
			return int64(1 - v.year)
		}
		return int64(v.year)
	case fProlepticYear:
		return int64(v.year)
	case fYear2:
		return v.number(fYear) % 100
	case fMonth:
		return int64(v.month)
	case fDay:
		return int64(v.day)
	case fDayOfYear:
		return int64(v.days - Days(v.year, 1, 1) + 1)
	case fQuarter:
		return int64((v.month + 2) / 3)
	case fWeekYear, fWeek:
		y, w := usWeek(v.days, v.year)
		if f == fWeekYear {
			return int64(y)
		}
		return int64(w)
	case fWeekOfMonth:
		first := ISOWeekday(v.days-v.day+1) % 7
		return int64((v.day-1+first)/7 + 1)
	case fAlignedDay:
		return int64((v.day-1)%7 + 1)
	case fAlignedWeek:
		return int64((v.day-1)/7 + 1)
	case fDayOfWeek:
		return int64(ISOWeekday(v.days))
	case fLocalDow:
		return int64(ISOWeekday(v.days)%7 + 1)
	}
	return v.clock(f)
}

func (v *values) clock(f field) int64 {
	h := v.within / Hour
	switch f {
	case fHour:
		return h
	case fHourAmPm:
		return h % 12
	case fClockAmPm:
		return (h+11)%12 + 1
	case fClock:
		return (h+23)%24 + 1
	case fMinute:
		return v.within / Minute % 60
	case fSecond:
		return v.within / Second % 60
	case fMilli:
		return v.within % 1000
	case fMilliOfDay:
		return v.within
	case fNano:
		return v.within%1000*1000000 + v.nanos
	case fNanoOfDay:
		return v.within*1000000 + v.nanos
	}
	panic("BUG: date field without a number")
}

// usWeek is the week of the week-based year where weeks start on Sunday and the first holds
// January 1st.
func usWeek(days, year int) (weekYear, week int) {
	start := func(y int) int { d := Days(y, 1, 1); return d - ISOWeekday(d)%7 }
	if next := start(year + 1); days >= next {
		return year + 1, 1
	}
	return year, (days-start(year))/7 + 1
}

var (
	months    = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
	weekdays  = [...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	quarters  = [...]string{"1st quarter", "2nd quarter", "3rd quarter", "4th quarter"}
	shortQ    = [...]string{"Q1", "Q2", "Q3", "Q4"}
	narrowQ   = [...]string{"1", "2", "3", "4"}
	eras      = [...]string{"Before Christ", "Anno Domini"}
	shortEras = [...]string{"BC", "AD"}
	halves    = [...]string{"AM", "PM"}
)

func (v *values) text(it *item) string {
	short := func(s string, n int) string {
		if it.style == narrowText {
			return s[:1]
		}
		if it.style == shortText {
			return s[:min(n, len(s))]
		}
		return s
	}
	switch it.field {
	case fMonth:
		return short(months[v.month-1], 3)
	case fDayOfWeek, fLocalDow:
		return short(weekdays[ISOWeekday(v.days)-1], 3)
	case fAmPm:
		return halves[v.within/(12*Hour)]
	case fQuarter:
		q := (v.month - 1) / 3
		switch it.style {
		case shortText:
			return shortQ[q]
		case narrowText:
			return narrowQ[q]
		}
		return quarters[q]
	case fEra:
		e := 1
		if v.year <= 0 {
			e = 0
		}
		if it.style == shortText {
			return shortEras[e]
		}
		return short(eras[e], 0)
	}
	panic("BUG: date field without a text")
}
